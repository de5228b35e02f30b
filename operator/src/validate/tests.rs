//! Manifests in, desired state or refusals out.

use serde_json::{Value, json};

use super::*;

fn settings() -> Settings {
    Settings { agent_image: "operator:1".to_owned(), replace_after: SignedDuration::from_mins(5) }
}

fn cluster_named(name: &str, spec: Value) -> EtcdCluster {
    let mut manifest = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": "ns", "uid": "u", "generation": 3},
    });
    manifest["spec"] = spec;
    serde_json::from_value(manifest).unwrap()
}

fn desired(spec: Value) -> Desired {
    validate(&cluster_named("c", spec), None, &settings()).unwrap()
}

fn refusals(spec: Value) -> Vec<String> {
    let refused = validate(&cluster_named("c", spec), None, &settings()).unwrap_err();
    refused.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_of_the_contract_gets_its_defaults() {
    let desired = desired(json!({"size": 3, "version": "3.2.25"}));
    assert_eq!(desired.image(), "quay.io/coreos/etcd:v3.2.25");
    assert_eq!((desired.size, desired.generation), (3, 3));
    assert_eq!((desired.storage, desired.tls, desired.restore), (Storage::EmptyDir, Tls::default(), None));
    assert_eq!(desired.identity, ClusterIdentity { namespace: "ns".into(), name: "c".into(), uid: "u".into() });
    assert_eq!((desired.agent_image.as_str(), desired.cluster_domain.as_str()), ("operator:1", ""));
    assert_eq!(desired.warnings, []);
}

#[test]
fn what_the_archived_operator_wrote_back_is_read_as_absent() {
    let desired = desired(json!({
        "size": 3, "repository": "quay.io/coreos/etcd", "version": "3.2.25",
        "pod": {"ClusterDomain": "", "busyboxImage": "busybox", "DNSTimeoutInSecond": 5},
        "TLS": {"static": {"member": {"peerSecret": "", "serverSecret": ""}, "operatorSecret": ""}},
    }));
    assert_eq!((desired.tls, desired.warnings), (Tls::default(), Vec::new()));
}

#[test]
fn versions_are_trimmed_and_the_old_default_is_kept_with_a_word() {
    assert_eq!(desired(json!({"size": 1, "version": "v3.6.10"})).version, Version::new(3, 6, 10));
    for spec in [json!({"size": 1}), json!({"size": 1, "version": "3.2.13"}), json!({"size": 1, "version": ""})] {
        let desired = desired(spec);
        assert_eq!(desired.version, Version::new(3, 2, 13));
        assert!(desired.warnings[0].to_string().contains("`spec.version`"), "{:?}", desired.warnings);
    }
}

#[test]
fn even_sizes_deprecated_and_shadowed_settings_are_warned_of() {
    let warnings = desired(json!({
        "size": 4, "version": "3.6.10",
        "pod": {
            "antiAffinity": true,
            "etcdEnv": [{"name": "ETCD_NAME", "value": "x"}, {"name": "ETCD_QUOTA_BACKEND_BYTES", "value": "1"}],
        },
    }))
    .warnings;
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "`spec.size` 4 is even: it tolerates no more failures than 3",
            "`spec.pod.antiAffinity` is deprecated: use `spec.pod.affinity`",
            "`spec.pod.etcdEnv`: `ETCD_NAME` has no effect, the operator sets it by a flag",
        ]
    );
}

#[test]
fn bad_input_names_its_field_and_what_is_allowed() {
    let table = [
        (json!({"size": 0}), "`spec.size` must be 1 to 9, and is 0"),
        (json!({"size": -1}), "`spec.size` must be 1 to 9, and is -1"),
        (json!({"size": 10}), "`spec.size` must be 1 to 9, and is 10"),
        (json!({"size": 1, "version": "abc"}), "`spec.version`: version `abc` must be"),
        (json!({"size": 1, "version": "3.2"}), "`spec.version`: version `3.2` must be"),
        (json!({"size": 1, "repository": "etcd:v3"}), "`spec.repository` must be an image without tag"),
        (json!({"size": 1, "repository": "a b"}), "`spec.repository` must be an image without tag"),
        (json!({"size": 1, "pod": {"labels": {"app": "x"}}}), "`spec.pod.labels` must not contain `app`"),
        (json!({"size": 1, "pod": {"labels": {"etcd_x": "x"}}}), "`spec.pod.labels` must not contain `etcd_x`"),
        (json!({"size": 1, "pod": {"ClusterDomain": "a b"}}), "`spec.pod.ClusterDomain` must be a DNS domain"),
        (
            json!({"size": 1, "pod": {"etcdEnv": [{"name": "ETCD_FORCE_NEW_CLUSTER", "value": "true"}]}}),
            "`spec.pod.etcdEnv` must not contain `ETCD_FORCE_NEW_CLUSTER`",
        ),
        (
            json!({"size": 1, "pod": {"persistentVolumeClaimSpec": {"accessModes": ["ReadWriteOnce"]}}}),
            "`spec.pod.persistentVolumeClaimSpec.resources.requests.storage` must be set",
        ),
        (
            json!({"size": 1, "pod": {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "1Gi"}}}}}),
            "`spec.pod.persistentVolumeClaimSpec.accessModes` must be set",
        ),
        (
            json!({"size": 1, "TLS": {"static": {"operatorSecret": "o"}}}),
            "`spec.TLS.static.member.serverSecret` must be set",
        ),
        (
            json!({"size": 1, "TLS": {"static": {"member": {"serverSecret": "s"}}}}),
            "`spec.TLS.static.operatorSecret` must be set",
        ),
    ];
    for (spec, expected) in table {
        let refusals = refusals(spec);
        assert!(refusals.len() == 1 && refusals[0].starts_with(expected), "{expected}: {refusals:?}");
    }
}

/// What admission lets through and is refused here stops all care for a cluster that runs.
#[test]
fn admission_knows_every_variable_that_is_forbidden() {
    let crds = serde_json::to_string(&crate::api::schema::custom_resource_definitions()).unwrap();
    for (name, _) in ENV_FORBIDDEN {
        assert!(crds.contains(&format!("'{name}'")), "{name}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    assert_eq!(refusals(json!({"size": 0, "version": "abc", "repository": "a b"})).len(), 3);
}

#[test]
fn a_name_whose_members_would_not_fit_is_refused() {
    let spec = || json!({"size": 1, "version": "3.6.10"});
    assert!(validate(&cluster_named(&"c".repeat(52), spec()), None, &settings()).is_ok());
    assert!(validate(&cluster_named(&"c".repeat(60), spec()), None, &settings()).is_err());
}

#[test]
fn a_domain_gets_its_dot() {
    for text in [".cluster.local", "cluster.local", "cluster.local."] {
        assert_eq!(desired(json!({"size": 1, "pod": {"ClusterDomain": text}})).cluster_domain, ".cluster.local");
    }
}

fn restore(phase: &str) -> Value {
    json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": "EtcdRestore",
        "metadata": {"name": "c", "namespace": "ns", "uid": "r"},
        "spec": {
            "etcdCluster": {"name": "c"}, "backupStorageType": "S3",
            "s3": {"path": "edited/since", "awsSecret": "s", "endpoint": "http://s3", "forcePathStyle": true},
        },
        "status": {
            "succeeded": false, "phase": phase,
            "snapshot": {"bucket": "b", "key": "k", "size": 544, "sha256": "ab", "revision": 7},
        },
    })
}

fn wanted(cluster: &EtcdCluster, restore: Value) -> Option<RestoreWanted> {
    let restore: EtcdRestore = serde_json::from_value(restore).unwrap();
    validate(cluster, Some(&restore), &settings()).unwrap().restore
}

#[test]
fn a_verified_snapshot_is_restored_from_exactly_what_was_verified() {
    let cluster = cluster_named("c", json!({"size": 3, "version": "3.6.10"}));
    for phase in ["Verified", "Restoring"] {
        let wanted = wanted(&cluster, restore(phase)).unwrap();
        assert_eq!((wanted.uid.as_str(), wanted.size, wanted.revision), ("r", 544, Revision(7)));
        assert_eq!(wanted.source.to_string(), "b/k");
        assert_eq!(wanted.source.bucket.secret.as_deref(), Some("s"));
        assert!(wanted.source.bucket.force_path_style);
    }
}

#[test]
fn a_restore_that_is_not_verified_or_over_or_called_off_or_of_another_name_is_not_carried_out() {
    let mut cluster = cluster_named("c", json!({"size": 3, "version": "3.6.10"}));
    for phase in ["Pending", "Verifying", "Succeeded", "Failed"] {
        assert_eq!(wanted(&cluster, restore(phase)), None, "{phase}");
    }
    let edits: [(&str, Value); 4] = [
        ("/metadata/name", json!("d")),
        ("/metadata/namespace", json!("other")),
        ("/spec/etcdCluster/name", json!("d")),
        ("/status/snapshot", Value::Null),
    ];
    for (pointer, value) in edits {
        let mut edited = restore("Verified");
        *edited.pointer_mut(pointer).unwrap() = value;
        assert_eq!(wanted(&cluster, edited), None, "{pointer}");
    }
    let mut deleting = restore("Verified");
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    assert_eq!(wanted(&cluster, deleting), None);
    let lineage = crate::api::Lineage { attempt: 1, restored_from: Some("r".to_owned()), ..Default::default() };
    cluster.status = Some(crate::api::EtcdClusterStatus { lineage: Some(lineage), ..Default::default() });
    assert_eq!(wanted(&cluster, restore("Restoring")), None, "it was carried out");
}
