//! Every manifest and every stored object of the archived operator is understood, and no field of it is lost.

use etcd_operator::api::{EtcdBackup, EtcdCluster, EtcdRestore};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const CASES: [(&str, &str); 2] = [
    ("contract.yaml", include_str!("api_cases/contract.yaml")),
    ("legacy.yaml", include_str!("api_cases/legacy.yaml")),
];

#[derive(Deserialize)]
struct Case {
    case: String,
    object: Value,
}

fn cases() -> impl Iterator<Item = Case> {
    CASES.iter().flat_map(|(file, text)| {
        text.split("\n---\n").map(move |document| {
            serde_saphyr::from_str::<Case>(document).unwrap_or_else(|error| panic!("{file}: {error}\n{document}"))
        })
    })
}

/// Through the typed object and back.
fn round_trip(object: &Value) -> Result<Value, serde_json::Error> {
    let object = object.clone();
    match object["kind"].as_str() {
        Some("EtcdCluster") => serde_json::to_value(serde_json::from_value::<EtcdCluster>(object)?),
        Some("EtcdBackup") => serde_json::to_value(serde_json::from_value::<EtcdBackup>(object)?),
        Some("EtcdRestore") => serde_json::to_value(serde_json::from_value::<EtcdRestore>(object)?),
        kind => panic!("{kind:?} is none of our kinds"),
    }
}

/// Paths of what `before` says and `after` does not. Zero, empty and null say nothing.
fn lost(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match before {
        Value::Object(fields) => {
            for (name, value) in fields {
                lost(&format!("{path}.{name}"), value, &after[name], found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                lost(&format!("{path}[{index}]"), value, &after[index], found);
            }
        }
        _ if before == after || says_nothing(before) || same_moment(before, after) => {}
        // A quantity may be written as a number; it is kept as text.
        Value::Number(number) if after.as_str() == Some(number.to_string().as_str()) => {}
        _ => found.push(format!("{path}: {before} became {after}")),
    }
}

fn says_nothing(value: &Value) -> bool {
    value.is_null() || value == &json!("") || value == &json!(0) || value == &json!(false)
}

fn same_moment(before: &Value, after: &Value) -> bool {
    let moment = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    moment(before).is_some() && moment(before) == moment(after)
}

#[test]
fn no_field_of_a_manifest_or_stored_object_is_lost() {
    let mut found = Vec::new();
    let mut count = 0;
    for Case { case, object } in cases() {
        let after = round_trip(&object).unwrap_or_else(|error| panic!("{case}: {error}"));
        lost(&case, &object, &after, &mut found);
        count += 1;
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(count >= 17, "{count} cases");
}

#[test]
fn a_second_round_trip_changes_nothing() {
    for Case { case, object } in cases() {
        let once = round_trip(&object).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(round_trip(&once).unwrap_or_else(|error| panic!("{case}: {error}")), once, "{case}");
    }
}

#[test]
fn nothing_unknown_is_kept() {
    fn add_unknown(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let is_map_of_the_user = fields.values().all(Value::is_string) && !fields.contains_key("path");
                fields.values_mut().for_each(add_unknown);
                if !is_map_of_the_user {
                    fields.insert("surelyUnknown".to_owned(), Value::Object(Map::new()));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(add_unknown),
            _ => {}
        }
    }
    for Case { case, mut object } in cases() {
        let before = round_trip(&object).unwrap_or_else(|error| panic!("{case}: {error}"));
        for part in ["spec", "status"] {
            if object.get(part).is_some() {
                add_unknown(&mut object[part]);
                assert!(object[part].get("surelyUnknown").is_some());
            }
        }
        // Quantities are a map of the user whose values may be numbers.
        if let Some(resources) = object.pointer_mut("/spec/pod/resources/limits").and_then(Value::as_object_mut) {
            resources.remove("surelyUnknown");
        }
        assert_eq!(round_trip(&object).unwrap_or_else(|error| panic!("{case}: {error}")), before, "{case}");
    }
}

#[test]
fn names_with_capitals_are_those_of_the_archived_operator() {
    let cluster = json!({
        "metadata": {"name": "c"},
        "spec": {"size": 1, "TLS": {"static": {"operatorSecret": "o"}},
                 "pod": {"DNSTimeoutInSecond": 7, "ClusterDomain": ".d"}},
    });
    let cluster: EtcdCluster = serde_json::from_value(cluster).expect("parses");
    let pod = cluster.spec.pod.expect("it was given");
    assert_eq!((pod.dns_timeout_in_second, pod.cluster_domain.as_str()), (7, ".d"));
    assert_eq!(cluster.spec.tls.and_then(|tls| tls.static_).map(|tls| tls.operator_secret).as_deref(), Some("o"));

    let backup = json!({
        "metadata": {"name": "b"},
        "spec": {"storageType": "S3", "clientTLSSecret": "t", "s3": {"path": "b/k", "awsSecret": "a"},
                 "backupPolicy": {"timeoutInSecond": 1, "backupIntervalInSecond": 2, "maxBackups": 3}},
        "status": {"Reason": "r"},
    });
    let backup: EtcdBackup = serde_json::from_value(backup).expect("parses");
    let policy = backup.spec.backup_policy.expect("it was given");
    assert_eq!((policy.timeout_in_second, policy.backup_interval_in_second, policy.max_backups), (1, 2, 3));
    assert_eq!(backup.spec.client_tls_secret, "t");
    assert_eq!(backup.spec.source.s3.map(|s3| s3.aws_secret).as_deref(), Some("a"));
    assert_eq!(backup.status.map(|status| status.reason).as_deref(), Some("r"));
}

#[test]
fn what_scripts_read_is_written_even_when_empty() {
    let status = |value: Value| value.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    let cluster = serde_json::to_value(etcd_operator::api::EtcdClusterStatus::default()).expect("serialises");
    let always = ["currentVersion", "members", "phase", "size", "targetVersion"];
    assert_eq!(status(cluster).expect("an object"), always);
    let backup = serde_json::to_value(etcd_operator::api::EtcdBackupStatus::default()).expect("serialises");
    assert_eq!(status(backup).expect("an object"), ["succeeded"]);
    let restore = serde_json::to_value(etcd_operator::api::EtcdRestoreStatus::default()).expect("serialises");
    assert_eq!(status(restore).expect("an object"), ["succeeded"]);
}
