//! The same requests under the same seed give the same bytes, whatever they are.
use fake_k8s::{Options, PatchKind, Request, ResourceName, Server, Verb, WatchRequest};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
struct Act {
    what: u8,
    kind: u8,
    name: u8,
    number: u8,
    stale: bool,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = (0u8..9, 0u8..4, 0u8..4, any::<u8>(), any::<bool>());
    let act = act.prop_map(|(what, kind, name, number, stale)| Act { what, kind, name, number, stale });
    prop::collection::vec(act, 1..60)
}

fn resource(act: &Act) -> ResourceName {
    match act.kind {
        0 => ResourceName::core("pods"),
        1 => ResourceName::core("services"),
        2 => ResourceName::new("coordination.k8s.io", "v1", "leases"),
        _ => ResourceName::core("configmaps"),
    }
}

fn body(act: &Act, name: &str) -> Value {
    let metadata = match act.number % 5 {
        0 => json!({"generateName": format!("{name}-"), "labels": {"n": act.number.to_string()}}),
        1 => json!({"name": name, "finalizers": ["a/b"]}),
        _ => json!({"name": name, "labels": {"n": act.number.to_string()}}),
    };
    match act.kind {
        0 => {
            json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": format!("i:{}", act.number)}]}})
        }
        1 => json!({"metadata": metadata, "spec": {"ports": [{"port": act.number}]}}),
        2 => json!({"metadata": metadata, "spec": {"holderIdentity": act.number.to_string()}}),
        _ => json!({"metadata": metadata, "data": {"n": act.number.to_string()}}),
    }
}

fn request(act: &Act, server: &Server) -> Request {
    let (resource, name) = (resource(act), format!("x{}", act.name));
    let seen = server.peek(&resource, "default", &name);
    let patch = |kind, body: Value| {
        Request::new(Verb::Patch(kind), resource.clone()).in_namespace("default").named(&name).with_body(body)
    };
    match act.what {
        0 | 1 => Request::create(resource, "default", body(act, &name)),
        2 => {
            let mut new = seen.map_or_else(|| body(act, &name), |o| Value::clone(&o));
            new["metadata"]["labels"] = json!({"n": act.number.to_string()});
            if act.stale {
                new["metadata"]["resourceVersion"] = json!("1");
            }
            Request::replace(resource, "default", &name, new)
        }
        3 => patch(PatchKind::Merge, json!({"metadata": {"annotations": {"a": act.number.to_string()}}})),
        4 => patch(PatchKind::StrategicMerge, json!({"metadata": {"finalizers": null}})),
        5 => {
            let mut apply = patch(PatchKind::Apply, body(&Act { number: 2, ..act.clone() }, &name));
            apply.options.field_manager = Some(format!("m{}", act.number % 2));
            apply
        }
        6 => {
            let delete = Request::delete(resource, "default", &name);
            if act.stale { delete.if_uid("another") } else { delete }
        }
        7 => Request::new(Verb::DeleteCollection, resource)
            .in_namespace("default")
            .labelled(&format!("n={}", act.number % 8)),
        _ => {
            let options = Options { limit: usize::from(act.number % 3), ..Options::default() };
            Request::list(resource, "").with_options(options)
        }
    }
}

/// Everything that the outside sees of a run: answers, and what a watcher of everything is told.
fn transcript(seed: u64, acts: &[Act]) -> Vec<String> {
    let mut server = Server::new(seed);
    let kinds: Vec<ResourceName> =
        (0..4).map(|kind| resource(&Act { what: 0, kind, name: 0, number: 0, stale: false })).collect();
    let mut cursors: Vec<_> =
        kinds.iter().map(|k| server.watch(&WatchRequest::new(k.clone(), "", Some("0"))).unwrap()).collect();
    let mut out = Vec::new();
    for (i, act) in acts.iter().enumerate() {
        let now = Timestamp::from_second(i64::try_from(i).unwrap()).unwrap();
        let request = request(act, &server);
        out.push(match server.handle(now, &request) {
            Ok(value) => value.to_string(),
            Err(status) => status.to_value().to_string(),
        });
        for cursor in &mut cursors {
            out.push(format!("{:?}", server.poll(cursor, u64::MAX, 100).unwrap()));
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_requests_give_the_same_bytes_twice(seed in any::<u64>(), acts in acts()) {
        prop_assert_eq!(transcript(seed, &acts), transcript(seed, &acts));
    }

    /// What a watcher builds from events is what a list shows, and an old list is what was listed then.
    #[test]
    fn a_watcher_ends_with_what_a_list_shows(acts in acts()) {
        let mut server = Server::new(1);
        let pods = ResourceName::core("pods");
        let mut cursor = server.watch(&WatchRequest::new(pods.clone(), "", Some("0"))).unwrap();
        let mut seen = std::collections::BTreeMap::new();
        let mut past = Vec::new();
        for act in &acts {
            let request = request(&Act { kind: 0, ..act.clone() }, &server);
            // Refusals are part of the run: only what was committed counts.
            let _ = server.handle(Timestamp::UNIX_EPOCH, &request);
            let list = server.handle(Timestamp::UNIX_EPOCH, &Request::list(pods.clone(), "")).unwrap();
            past.push((server.resource_version(), list));
        }
        for event in server.poll(&mut cursor, u64::MAX, 10_000).unwrap() {
            let object = event.object().unwrap().clone();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            match event {
                fake_k8s::WatchEvent::Deleted(_) => { seen.remove(&name); }
                _ => { seen.insert(name, Value::clone(&object)); }
            }
        }
        let listed = server.handle(Timestamp::UNIX_EPOCH, &Request::list(pods.clone(), "")).unwrap();
        let listed: Vec<Value> = listed["items"].as_array().unwrap().clone();
        prop_assert_eq!(seen.into_values().collect::<Vec<_>>(), listed);
        for (version, list) in past {
            prop_assert_eq!(server.snapshot_list(&Request::list(pods.clone(), ""), version).unwrap(), list);
        }
    }
}
