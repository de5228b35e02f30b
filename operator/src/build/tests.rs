//! Properties of the objects; what they look like as a whole is in `operator/tests/golden`.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, Service};
use serde_json::{Value, json};

use super::*;
use crate::agent::{Command, EtcdFlags};
use crate::api::EtcdClusterSpec;
use crate::model::{BucketLocation, ClientTls, ObjectLocation, Revision, Storage, StorageKind, Tls, Version};

fn desired(spec: Value) -> Desired {
    let spec: EtcdClusterSpec = serde_json::from_value(spec).unwrap();
    let pod = spec.pod.unwrap_or_default();
    let secrets = spec.tls.and_then(|tls| tls.static_);
    let member = secrets.as_ref().and_then(|secrets| secrets.member.clone()).unwrap_or_default();
    Desired {
        identity: ClusterIdentity { namespace: "ns".to_owned(), name: "c".to_owned(), uid: "u".to_owned() },
        generation: 1,
        size: usize::try_from(spec.size).unwrap(),
        paused: false,
        deleting: false,
        repository: "quay.io/coreos/etcd".to_owned(),
        version: if spec.version.is_empty() { Version::new(3, 2, 13) } else { spec.version.parse().unwrap() },
        storage: match &pod.persistent_volume_claim_spec {
            Some(claim) => Storage::Volume(Box::new(claim.clone())),
            None => Storage::EmptyDir,
        },
        tls: Tls {
            peer_secret: Some(member.peer_secret).filter(|secret| !secret.is_empty()),
            client: secrets.map(|secrets| ClientTls {
                server_secret: member.server_secret,
                operator_secret: secrets.operator_secret,
            }),
        },
        cluster_domain: pod.cluster_domain.clone(),
        pod,
        agent_image: "operator:1".to_owned(),
        replace_after: SignedDuration::from_mins(5),
        restore: None,
        warnings: Vec::new(),
    }
}

fn start(desired: &Desired) -> MemberStart<'static> {
    MemberStart {
        name: "c-a",
        lineage: "u-1",
        voter: true,
        initial_cluster: initial_cluster(desired, ["c-a", "c-b"]),
        state: InitialState::New,
        expect_data: false,
        restore: None,
    }
}

fn pod_json(desired: &Desired) -> Value {
    serde_json::to_value(member_pod(desired, &start(desired))).unwrap()
}

const POLICY: &str = r#"{
    "labels": {"team": "x"}, "annotations": {"note": "y", "etcd.version": "no"}, "nodeSelector": {"disk": "ssd"},
    "antiAffinity": true, "resources": {"requests": {"cpu": "1"}}, "securityContext": {"runAsUser": 1000},
    "tolerations": [{"key": "k", "operator": "Exists"}], "ClusterDomain": ".cluster.local",
    "etcdEnv": [{"name": "ETCD_HEARTBEAT_INTERVAL", "value": "200"}, {"name": "ETCD_NAME", "value": "no"}],
    "busyboxImage": "busybox", "DNSTimeoutInSecond": 7
}"#;

fn with_policy(edit: impl FnOnce(&mut Value)) -> Desired {
    let mut policy: Value = serde_json::from_str(POLICY).unwrap();
    edit(&mut policy);
    desired(json!({"size": 3, "version": "3.6.10", "pod": policy}))
}

/// A namespace that enforces the Pod Security Standard `restricted` takes no pod without these.
#[test]
fn who_wants_no_root_gets_containers_that_a_restricted_namespace_admits() {
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    for (no_root, expected) in [(json!(true), restricted), (json!(false), Value::Null), (Value::Null, Value::Null)] {
        let desired = with_policy(|policy| policy["securityContext"] = json!({"runAsNonRoot": no_root}));
        let pod = pod_json(&desired);
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array().unwrap() {
                assert_eq!(container["securityContext"], expected, "{container}");
            }
        }
    }
}

#[test]
fn every_field_of_the_pod_policy_takes_effect() {
    let desired = with_policy(|_| ());
    let pod = pod_json(&desired);
    assert_eq!(pod["metadata"]["labels"]["team"], "x");
    assert_eq!(pod["metadata"]["annotations"]["note"], "y");
    assert_eq!(pod["metadata"]["annotations"]["etcd.version"], "3.6.10");
    assert_eq!(pod["spec"]["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["spec"]["securityContext"], json!({"runAsUser": 1000}));
    assert_eq!(pod["spec"]["tolerations"], json!([{"key": "k", "operator": "Exists"}]));
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().unwrap() {
            assert_eq!(container["resources"], json!({"requests": {"cpu": "1"}}), "{container}");
        }
    }
    let env = &pod["spec"]["containers"][0]["env"];
    assert_eq!(*env, json!([{"name": "ETCD_HEARTBEAT_INTERVAL", "value": "200"}]));
    let command = pod["spec"]["containers"][0]["command"].as_array().unwrap().clone();
    let at = command.iter().position(|word| word == "--own-name").unwrap();
    assert_eq!(command[at + 1..at + 4], [json!("c-a.c.ns.svc.cluster.local"), json!("--resolves-within"), json!("7")]);
    let unlimited = pod_json(&with_policy(|policy| policy["DNSTimeoutInSecond"] = json!(0)));
    assert!(!unlimited.to_string().contains("--own-name"));
    assert_eq!(client_url(&desired, "c-a"), "http://c-a.c.ns.svc.cluster.local:2379");
    assert_eq!(peer_url(&desired, "c-a"), "http://c-a.c.ns.svc.cluster.local:2380");
}

/// What a pod must keep away from, and what it would rather.
fn kept_apart(desired: &Desired, start: &MemberStart<'_>) -> (Value, Value) {
    let pod = serde_json::to_value(member_pod(desired, start)).unwrap();
    let anti = &pod["spec"]["affinity"]["podAntiAffinity"];
    let required = &anti["requiredDuringSchedulingIgnoredDuringExecution"];
    let preferred = &anti["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!((required.as_array().unwrap().len(), preferred.as_array().unwrap().len()), (1, 1));
    assert_eq!(required[0]["topologyKey"], "kubernetes.io/hostname");
    let rather = &preferred[0]["podAffinityTerm"]["labelSelector"]["matchLabels"];
    (required[0]["labelSelector"]["matchLabels"].clone(), rather.clone())
}

#[test]
fn anti_affinity_keeps_members_apart_from_those_that_stay() {
    let desired = with_policy(|_| ());
    let hash = template_hash(&desired);
    let new = json!({"etcd_cluster": "c", "etcd.database.coreos.com/lineage": "u-1",
        "etcd.database.coreos.com/pod-template-hash": hash});
    let on_disk = json!({"etcd_cluster": "c", "etcd.database.coreos.com/lineage": "u-1"});
    let rather = json!({"etcd_cluster": "c"});
    assert_eq!(kept_apart(&desired, &start(&desired)), (new.clone(), rather.clone()), "emptyDir");
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}});
    let on_volume = with_policy(|policy| policy["persistentVolumeClaimSpec"] = claim);
    assert_eq!(template_hash(&on_volume), hash);
    for expect_data in [false, true] {
        let start = MemberStart { expect_data, ..start(&on_volume) };
        assert_eq!(kept_apart(&on_volume, &start), (on_disk.clone(), rather.clone()), "who is there comes back");
    }
    let pod = pod_json(&desired);
    for (key, value) in new.as_object().unwrap() {
        assert_eq!(pod["metadata"]["labels"][key], *value, "members of one template exclude one another");
    }
}

/// A hash that followed the lineage, or these rules, would roll out every cluster that runs.
#[test]
fn the_hash_is_that_of_the_version_before() {
    assert_eq!(template_hash(&with_policy(|_| ())), "def5b123972e3193");
    assert_eq!(template_hash(&desired(json!({"size": 3, "version": "3.6.10"}))), "080f08815d9e955b");
}

#[test]
fn affinity_wins_over_the_deprecated_anti_affinity() {
    let affinity = json!({"nodeAffinity": {}});
    let pod = pod_json(&with_policy(|policy| policy["affinity"] = affinity.clone()));
    assert_eq!(pod["spec"]["affinity"], affinity);
}

#[test]
fn the_hash_follows_what_the_user_controls() {
    let hash = template_hash(&with_policy(|_| ()));
    assert_eq!(hash.len(), 16);
    let edits: [fn(&mut Value); 8] = [
        |policy| policy["labels"]["team"] = json!("z"),
        |policy| policy["annotations"]["note"] = json!("z"),
        |policy| policy["nodeSelector"]["disk"] = json!("z"),
        |policy| policy["antiAffinity"] = json!(false),
        |policy| policy["resources"]["requests"]["cpu"] = json!("2"),
        |policy| policy["securityContext"]["runAsUser"] = json!(1),
        |policy| policy["tolerations"] = json!([]),
        |policy| policy["etcdEnv"][0]["value"] = json!("300"),
    ];
    for (i, edit) in edits.into_iter().enumerate() {
        assert_ne!(template_hash(&with_policy(edit)), hash, "edit {i}");
    }
}

#[test]
fn the_hash_does_not_follow_image_version_flags_lineage_or_what_is_unused() {
    let hash = template_hash(&with_policy(|_| ()));
    for edit in [
        |policy: &mut Value| policy["busyboxImage"] = json!("z"),
        |policy: &mut Value| policy["DNSTimeoutInSecond"] = json!(9),
        |policy: &mut Value| policy["ClusterDomain"] = json!(".other"),
    ] {
        assert_eq!(template_hash(&with_policy(edit)), hash);
    }
    let mut other = with_policy(|_| ());
    other.version = "3.5.26".parse().unwrap();
    other.repository = "mirror/etcd".to_owned();
    other.agent_image = "operator:2".to_owned();
    other.size = 5;
    assert_eq!(template_hash(&other), hash);
    // The same value in every release: a new operator must not restart everybody's members.
    assert_eq!(template_hash(&desired(json!({"size": 1}))), template_hash(&desired(json!({"size": 3, "pod": {}}))));
    assert_eq!(template_hash(&desired(json!({"size": 1}))), "080f08815d9e955b");
}

#[test]
fn a_user_cannot_take_over_the_labels_that_services_select_by() {
    let taken = json!({"etcd.database.coreos.com/role": "voter", "app.kubernetes.io/instance": "other"});
    let desired = with_policy(|policy| policy["labels"] = taken);
    let labels = member_pod(&desired, &MemberStart { voter: false, ..start(&desired) }).metadata.labels.unwrap();
    assert_eq!(labels["etcd.database.coreos.com/role"], "learner");
    assert_eq!(labels["app.kubernetes.io/instance"], "c");
}

#[test]
fn the_command_lines_in_a_pod_are_what_the_agent_reads() {
    let desired = desired(json!({"size": 3, "version": "3.6.10"}));
    let start = MemberStart { state: InitialState::Existing, expect_data: true, ..start(&desired) };
    let pod = member_pod(&desired, &start).spec.unwrap();
    let line = pod.containers[0].command.clone().unwrap();
    let Ok(Command::Run(run)) = Command::parse(&line[1..]) else { panic!("{line:?}") };
    assert!(run.expect_data);
    let flags = EtcdFlags::parse(&run.etcd).unwrap();
    assert_eq!((flags.name.as_str(), flags.token.as_str()), ("c-a", "u-1"));
    assert_eq!(flags.data_dir.as_deref(), Some(run.data_dir.as_str()));
    assert_eq!(flags.initial_cluster, start.initial_cluster);
    assert_eq!(flags.initial_state, InitialState::Existing);
    assert_eq!(flags.peer_urls, [peer_url(&desired, "c-a")]);
    assert_eq!(flags.client_urls, [client_url(&desired, "c-a")]);
}

#[test]
fn no_version_is_probed_by_a_path_that_writes_or_that_it_does_not_serve() {
    let tls = json!({"static": {"member": {"serverSecret": "s"}, "operatorSecret": "o"}});
    for (version, plain, with_tls) in [
        ("3.2.25", "/version:2379 alive false", "tcp:2379 alive false"),
        ("3.4.29", "/readyz:2379 alive true", "/readyz:2381 alive true"),
        ("3.6.10", "/readyz:2379 alive true", "/readyz:2381 alive true"),
    ] {
        for (tls, expected) in [(Value::Null, plain), (tls.clone(), with_tls)] {
            let pod = pod_json(&desired(json!({"size": 3, "version": version, "TLS": tls})));
            let etcd = &pod["spec"]["containers"][0];
            let ready = &etcd["readinessProbe"];
            let asked = match &ready["httpGet"] {
                Value::Null => format!("tcp:{}", ready["tcpSocket"]["port"]),
                get => format!("{}:{}", get["path"].as_str().unwrap(), get["port"]),
            };
            let alive = etcd.get("livenessProbe").is_some();
            assert_eq!(format!("{asked} alive {alive}"), expected, "{version}");
            assert!(!etcd.to_string().contains("/health"), "{version}");
            let metrics = etcd["command"].to_string().contains("--listen-metrics-urls");
            assert_eq!(metrics, asked.ends_with("2381"), "{version}: what is probed is listened on");
        }
    }
}

#[test]
fn the_client_service_selects_nobody_until_somebody_serves() {
    let desired = desired(json!({"size": 3}));
    let pod = member_pod(&desired, &start(&desired)).metadata.labels.unwrap();
    let selects = |service: Service| {
        let selector = service.spec.unwrap().selector.unwrap();
        selector.iter().all(|(key, value)| pod.get(key) == Some(value))
    };
    assert!(!selects(client_service(&desired, None)));
    assert!(!selects(client_service(&desired, Some("u-2"))));
    assert!(selects(client_service(&desired, Some("u-1"))));
    assert!(selects(peer_service(&desired)));
}

#[test]
fn a_service_is_as_built_whatever_the_server_filled_in_and_not_when_it_was_edited() {
    let desired = desired(json!({"size": 3}));
    for wanted in [peer_service(&desired), client_service(&desired, None)] {
        let mut stored = serde_json::to_value(&wanted).unwrap();
        stored["spec"]["sessionAffinity"] = json!("None");
        stored["spec"]["type"] = json!("ClusterIP");
        stored["spec"]["ipFamilies"] = json!(["IPv4"]);
        stored["spec"]["selector"] = json!({"app": "etcd"});
        stored["metadata"]["labels"]["more"] = json!("labels");
        if stored["spec"].get("clusterIP").is_none() {
            stored["spec"]["clusterIP"] = json!("10.0.0.1");
        }
        let read = |json: &Value| serde_json::from_value::<Service>(json.clone()).unwrap();
        assert!(service_as_built(&read(&stored), &wanted));
        let edits: [fn(&mut Value); 5] = [
            |service| service["spec"]["ports"][0]["port"] = json!(1),
            |service| service["spec"]["ports"][0]["targetPort"] = json!("x"),
            |service| service["spec"]["type"] = json!("NodePort"),
            |service| {
                let unready = service["spec"]["publishNotReadyAddresses"].as_bool().unwrap_or(false);
                service["spec"]["publishNotReadyAddresses"] = json!(!unready);
            },
            |service| service["metadata"]["labels"]["etcd_cluster"] = json!("x"),
        ];
        for (i, edit) in edits.into_iter().enumerate() {
            let mut edited = stored.clone();
            edit(&mut edited);
            assert!(!service_as_built(&read(&edited), &wanted), "edit {i}");
        }
    }
}

#[test]
fn every_object_is_controlled_by_its_etcdcluster() {
    let desired = desired(json!({"size": 3}));
    let owners = [
        peer_service(&desired).metadata,
        client_service(&desired, None).metadata,
        member_volume(&desired, "c-a", "u-1").metadata,
        member_pod(&desired, &start(&desired)).metadata,
    ];
    for meta in owners {
        let owner = &meta.owner_references.unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("EtcdCluster", "u", Some(true)));
        assert_eq!(owner.block_owner_deletion, Some(true));
        assert_eq!(meta.namespace.as_deref(), Some("ns"));
        assert_eq!(meta.labels.unwrap()["etcd_cluster"], "c");
    }
}

/// The objects as a whole, to be read: operator/tests/golden. After a change that is wanted: `INSTA_UPDATE=always`.
fn check_golden(name: &str, object: impl serde::Serialize) {
    let yaml = serde_saphyr::to_string(&serde_json::to_value(object).unwrap()).unwrap();
    insta::with_settings!({
        snapshot_path => "../../tests/golden", prepend_module_to_snapshot => false, omit_expression => true,
    }, { insta::assert_snapshot!(name, yaml) });
}

fn with_volume_and_tls(version: &str) -> Desired {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}});
    let secrets = json!({"member": {"peerSecret": "peer", "serverSecret": "server"}, "operatorSecret": "operator"});
    desired(json!({
        "size": 3, "version": version, "pod": {"persistentVolumeClaimSpec": claim}, "TLS": {"static": secrets},
    }))
}

fn restore_wanted() -> RestoreWanted {
    let bucket = BucketLocation {
        storage: StorageKind::Oss,
        bucket: "bucket".to_owned(),
        endpoint: Some("http://oss".to_owned()),
        force_path_style: false,
        secret: Some("oss-secret".to_owned()),
    };
    RestoreWanted {
        name: "c".to_owned(),
        uid: "r".to_owned(),
        source: ObjectLocation { bucket, key: "a/key".to_owned() },
        size: 544,
        sha256: "00ff".to_owned(),
        revision: Revision(7),
        verified_at: None,
    }
}

#[test]
fn golden_pod_of_the_contracts_example() {
    let desired = desired(json!({"size": 3, "version": "3.2.25"}));
    check_golden("pod-3.2.25", member_pod(&desired, &start(&desired)));
}

#[test]
fn golden_pod_on_a_volume_with_tls() {
    let desired = with_volume_and_tls("3.6.10");
    let start = MemberStart { state: InitialState::Existing, expect_data: true, ..start(&desired) };
    check_golden("pod-3.6.10-volume-tls", member_pod(&desired, &start));
}

#[test]
fn golden_pod_of_a_restored_seed() {
    let desired = desired(json!({"size": 3, "version": "3.6.10"}));
    let restore = restore_wanted();
    let start = MemberStart { restore: Some(&restore), ..start(&desired) };
    check_golden("pod-restored-seed", member_pod(&desired, &start));
}

#[test]
fn golden_services() {
    let desired = desired(json!({"size": 3, "version": "3.6.10"}));
    check_golden("service-peer", peer_service(&desired));
    check_golden("service-client-before-it-is-formed", client_service(&desired, None));
    check_golden("service-client", client_service(&desired, Some("u-1")));
}

#[test]
fn golden_volume() {
    check_golden("volume", member_volume(&with_volume_and_tls("3.6.10"), "c-a", "u-1"));
}

#[test]
fn another_repository_is_where_the_image_and_its_tools_come_from() {
    let mut desired = desired(json!({"size": 3, "version": "3.6.10"}));
    desired.repository = "mirror.example:5000/team/etcd".to_owned();
    let restore = restore_wanted();
    let start = MemberStart { restore: Some(&restore), ..start(&desired) };
    let pod = member_pod(&desired, &start).spec.unwrap();
    let image = |container: &Container| container.image.clone().unwrap();
    assert_eq!(image(&pod.containers[0]), "mirror.example:5000/team/etcd:v3.6.10");
    let init: Vec<_> = pod.init_containers.unwrap().iter().map(image).collect();
    assert_eq!(init, ["operator:1", "operator:1", "mirror.example:5000/team/etcd:v3.6.10"]);
}

#[test]
fn a_restored_seed_fetches_restores_and_refuses_an_empty_directory() {
    let restore = restore_wanted();
    for (version, tool, env) in
        [("3.4.23", "/usr/local/bin/etcdctl", Some("ETCDCTL_API")), ("3.5.35", "/usr/local/bin/etcdutl", None)]
    {
        let desired = with_volume_and_tls(version);
        let pod = member_pod(&desired, &MemberStart { restore: Some(&restore), ..start(&desired) }).spec.unwrap();
        let init = pod.init_containers.unwrap();
        let names: Vec<_> = init.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["agent", "fetch", "restore"]);
        let parse = |container: &Container| Command::parse(&container.command.clone().unwrap()[1..]).unwrap();
        let Command::Fetch(fetch) = parse(&init[1]) else { panic!("{:?}", init[1]) };
        assert_eq!((fetch.size, fetch.sha256.as_str(), fetch.source.key.as_str()), (544, "00ff", "a/key"));
        let Command::Restore(command) = parse(&init[2]) else { panic!("{:?}", init[2]) };
        assert_eq!(command.snapshot, fetch.to);
        let flags = EtcdFlags::parse(&command.tool).unwrap();
        assert_eq!((flags.program.as_str(), flags.token.as_str()), (tool, "u-1"));
        assert_eq!(flags.positional, ["snapshot", "restore", fetch.to.as_str()]);
        assert_eq!(init[2].env.as_ref().map(|env| env[0].name.as_str()), env);
        assert_eq!(init[2].image, Some(desired.image()));
        let Command::Run(run) = parse(&pod.containers[0]) else { panic!("{:?}", pod.containers[0]) };
        assert!(run.expect_data);
        assert_eq!((run.seen, run.data_dir), (command.seen, command.data_dir));
    }
}

/// Load balancers, meshes and external-dns write there, and a formation or a restore must not take it away.
#[test]
fn what_others_said_of_a_service_survives_our_change_of_it() {
    let desired = desired(json!({"size": 3, "version": "3.6.10"}));
    let mut actual = serde_json::to_value(client_service(&desired, Some("old"))).unwrap();
    actual["metadata"]["annotations"] = json!({"external-dns/hostname": "etcd.example"});
    actual["metadata"]["labels"]["team"] = json!("x");
    actual["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
    actual["metadata"]["resourceVersion"] = json!("7");
    actual["spec"]["sessionAffinity"] = json!("ClientIP");
    actual["spec"]["clusterIP"] = json!("10.0.0.1");
    actual["spec"]["type"] = json!("NodePort");
    actual["spec"]["ports"][0]["nodePort"] = json!(30000);
    actual["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
    let wanted = client_service(&desired, Some("new"));
    let changed = service_changed(&serde_json::from_value(actual.clone()).unwrap(), &wanted);
    assert!(service_as_built(&changed, &wanted));
    let changed = serde_json::to_value(changed).unwrap();
    actual["spec"]["selector"] = serde_json::to_value(&wanted).unwrap()["spec"]["selector"].clone();
    actual["spec"]["type"] = json!("ClusterIP");
    actual["spec"]["ports"][0].as_object_mut().unwrap().remove("nodePort");
    actual["spec"].as_object_mut().unwrap().remove("loadBalancerSourceRanges");
    assert_eq!(changed, actual);
}
