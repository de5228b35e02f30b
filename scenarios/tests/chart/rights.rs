//! The rights that the chart grants against the calls that the code makes: none is missing and none is left over.
//!
//! [`USES`] is the list of calls, each with the place in the source that makes it. Three things are held together: the
//! rules that are rendered are exactly the ones of the list; each place says what the list says; and each call on the
//! Kubernetes port in the operator's source is in the list. So a new call fails here until it is listed, and then until it
//! is granted.
//!
//! Not seen: what `main` does with a client of its own. It creates the definitions unless told `--create-crd=false`, and
//! `flags` sees to it that the chart tells it so.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use crate::helm::{Values, of_kind, rendered, root, with};

/// Where a right is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Wherever the managed objects are.
    Managed,
    /// In the operator's own namespace, on the objects that the locks are.
    Locks,
}
use Where::{Locks, Managed};

/// Verb, resource (with its group), where, and the code that makes the call.
type Use = (&'static str, &'static str, Where, &'static str, &'static str);

const WATCHED: &str = "const WATCHED: [Kind; 6] = [Kind::EtcdCluster, Kind::EtcdBackup, Kind::EtcdRestore, Kind::Pod, \
                       Kind::PersistentVolumeClaim, Kind::Service];";
const STARTS_WATCHES: &str = "ports.kubernetes.watch(kind, &options.scope)";
const LISTS_MEMBERS: &str =
    "kubernetes.list_typed(&scope, Some(&selector)), kubernetes.list_typed(&scope, Some(&selector)),";
const CREATES: &str = "self.ports.kubernetes.create(&object.into_object())";
const DELETES: &str = "self.ports.kubernetes.delete(kind, &self.key(name), &preconditions, None)";
const CLUSTERS: &str = "etcd.database.coreos.com/etcdclusters";
const BACKUPS: &str = "etcd.database.coreos.com/etcdbackups";
const RESTORES: &str = "etcd.database.coreos.com/etcdrestores";

#[rustfmt::skip]
const USES: &[Use] = &[
    // A watch begins with a list.
    ("list", CLUSTERS, Managed, "controller.rs", WATCHED),
    ("watch", CLUSTERS, Managed, "controller.rs", STARTS_WATCHES),
    ("list", BACKUPS, Managed, "controller.rs", WATCHED),
    ("watch", BACKUPS, Managed, "controller.rs", STARTS_WATCHES),
    ("list", RESTORES, Managed, "controller.rs", WATCHED),
    ("watch", RESTORES, Managed, "controller.rs", STARTS_WATCHES),
    ("list", "pods", Managed, "controller.rs", WATCHED),
    ("watch", "pods", Managed, "controller.rs", STARTS_WATCHES),
    ("list", "persistentvolumeclaims", Managed, "controller.rs", WATCHED),
    ("watch", "persistentvolumeclaims", Managed, "controller.rs", STARTS_WATCHES),
    ("list", "services", Managed, "controller.rs", WATCHED),
    ("watch", "services", Managed, "controller.rs", STARTS_WATCHES),

    ("get", CLUSTERS, Managed, "observe.rs", "kubernetes.get_typed::<EtcdCluster>(key)"),
    ("get", CLUSTERS, Managed, "restore/observe.rs", "cluster: ports.kubernetes.get_typed(&desired.key)"),
    ("get", RESTORES, Managed, "observe.rs", "= futures::try_join!(kubernetes.get_typed(key),"),
    ("list", RESTORES, Managed, "backup.rs", "self.ports.kubernetes.list_typed::<EtcdRestore>(&scope, None)"),
    ("list", BACKUPS, Managed, "backup.rs", "self.ports.kubernetes.list_typed::<EtcdBackup>(&scope, None)"),
    ("list", RESTORES, Managed, "backup/observe.rs", "ports.kubernetes.list_typed::<EtcdRestore>(&scope, None)"),
    ("list", "pods", Managed, "observe.rs", LISTS_MEMBERS),
    ("list", "persistentvolumeclaims", Managed, "observe.rs", LISTS_MEMBERS),
    ("get", "services", Managed, "observe.rs", "kubernetes.get_typed(&peer_key), kubernetes.get_typed(&client_key)"),
    ("get", "secrets", Managed, "observe.rs", "ports.kubernetes.get_typed::<Secret>(&key)"),
    ("get", "secrets", Managed, "backup/observe.rs", "ports.kubernetes.get_typed::<Secret>(&ObjectKey::new(namespace, name))"),
    ("get", BACKUPS, Managed, "controller.rs", "kubernetes.get_typed::<EtcdBackup>(key)"),
    ("get", RESTORES, Managed, "controller.rs", "kubernetes.get_typed::<EtcdRestore>(key)"),
    ("get", BACKUPS, Managed, "backup.rs", "self.ports.kubernetes.get_typed::<EtcdBackup>(self.key)"),
    ("get", BACKUPS, Managed, "backup/standing.rs", "ports.kubernetes.get_typed::<EtcdBackup>(&desired.key)"),
    ("get", RESTORES, Managed, "backup/standing.rs", "ports.kubernetes.get_typed::<EtcdRestore>(key)"),
    ("get", "pods", Managed, "apply.rs", "self.ports.kubernetes.get(Kind::Pod, &self.key(name))"),

    // Only without --agent-image.
    ("get", "pods", Managed, "own_pod.rs", "ports.kubernetes.get_typed::<Pod>(&key)"),

    ("create", "services", Managed, "apply.rs", "Step::CreateService(service) => self.create("),
    ("create", "persistentvolumeclaims", Managed, "apply.rs", "Step::CreateVolume(volume) => self.create("),
    ("create", "pods", Managed, "apply.rs", "Step::CreatePod(pod) => self.create("),
    ("create", "pods", Managed, "apply.rs", CREATES),
    ("create", "events", Managed, "recorder.rs", "ports.kubernetes.create(&event.into_object())"),
    ("get", "services", Managed, "apply.rs", "self.ports.kubernetes.get_typed::<Service>(&key)"),
    ("update", "services", Managed, "apply.rs", "self.ports.kubernetes.replace(&changed.into_object())"),
    ("patch", "pods", Managed, "apply.rs", "self.ports.kubernetes.merge_patch(Kind::Pod, &self.key(name), &patch)"),
    ("delete", "pods", Managed, "apply.rs", "self.delete(step, Kind::Pod, name, uid, resource_version)"),
    ("delete", "persistentvolumeclaims", Managed, "apply.rs", "self.delete(step, Kind::PersistentVolumeClaim, name, uid, resource_version)"),
    ("delete", "pods", Managed, "apply.rs", DELETES),

    ("update", "etcd.database.coreos.com/etcdclusters/status", Managed, "reconcile.rs",
        "context.ports.kubernetes.replace_status(&cluster.into_object())"),
    ("update", "etcd.database.coreos.com/etcdbackups/status", Managed, "backup.rs",
        "ports.kubernetes.replace_status(&next.into_object())"),
    ("update", "etcd.database.coreos.com/etcdrestores/status", Managed, "restore.rs",
        "ports.kubernetes.replace_status(&next.into_object())"),
    ("patch", BACKUPS, Managed, "backup.rs", "ports.kubernetes.merge_patch(Kind::EtcdBackup, key, &patch)"),
    // No call: the admission plug-in OwnerReferencesPermissionEnforcement asks for it when an owner is named so.
    ("update", "etcd.database.coreos.com/etcdclusters/finalizers", Managed, "build.rs", "block_owner_deletion: Some(true)"),

    ("get", "coordination.k8s.io/leases", Locks, "leadership.rs", "ports.kubernetes.get_typed::<Lease>(&key)"),
    ("create", "coordination.k8s.io/leases", Locks, "leadership.rs", "ports.kubernetes.create(&Lease {"),
    ("update", "coordination.k8s.io/leases", Locks, "leadership.rs", "ports.kubernetes.replace(&lease.into_object())"),
    ("get", "endpoints", Locks, "leadership.rs", "ports.kubernetes.get_typed::<Endpoints>(&key)"),
];

#[test]
fn the_rules_grant_what_the_code_uses_and_no_more() {
    for values in Values::all().into_iter().chain([with("clusterWide=true"), with("clusterWide=false")]) {
        let Some(objects) = rendered(&values) else { return };
        let is_lock = |role: &&Value| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-election"));
        let roles = || of_kind(&objects, "ClusterRole").chain(of_kind(&objects, "Role"));
        let managed: Vec<_> = roles().filter(|role| !is_lock(role)).collect();
        let locks: Vec<_> = roles().filter(is_lock).collect();
        assert_eq!((managed.len(), locks.len()), (1, 1), "{values}");
        assert_eq!(granted(managed[0]), used(Managed), "{values}: (left: granted, right: used)");
        assert_eq!(granted(locks[0]), used(Locks), "{values}: (left: granted, right: used)");
        assert_locks_are_named(locks[0]);
    }
}

#[test]
fn rights_reach_beyond_the_namespace_only_when_the_operator_does() {
    for (values, cluster_wide) in [
        ("clusterWide=false", false),
        ("clusterWide=true", true),
        ("etcdOperator.commandArgs.cluster-wide=true", true),
        ("etcdOperator.commandArgs.cluster-wide=false,clusterWide=true", false),
    ] {
        let Some(objects) = rendered(&with(values)) else { return };
        let count = |kind| of_kind(&objects, kind).count();
        let found = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"].map(count);
        // The locks are in the operator's namespace either way.
        assert_eq!(found, if cluster_wide { [1, 1, 1, 1] } else { [0, 0, 2, 2] }, "{values}");
    }
    let Some(objects) = rendered(&with("rbac.create=false")) else { return };
    assert!(!objects.iter().any(|object| crate::kind(object).contains("Role")), "somebody else grants them");
}

#[test]
fn every_use_is_where_the_list_says() {
    let operator = root().join("operator/src");
    for (verb, resource, _, file, code) in USES {
        let source = squeezed(&operator.join(file));
        assert!(source.contains(&squeeze(code)), "{file} does not {verb} {resource} any more by `{code}`");
    }
}

#[test]
fn every_call_on_the_kubernetes_port_is_listed() {
    let mut calls_count = 0;
    for (file, source) in sources(&root().join("operator/src")) {
        let known: Vec<_> = USES
            .iter()
            .filter(|(_, _, _, place, _)| *place == file)
            .flat_map(|(_, _, _, _, code)| all_of(&source, &squeeze(code)))
            .collect();
        for at in calls(&source) {
            calls_count += 1;
            let call = source[at.start..].chars().take(80).collect::<String>();
            assert!(known.iter().any(|range| range.contains(&at.start)), "operator/src/{file} calls `{call}`: list it");
        }
    }
    assert!(calls_count > 15, "found only {calls_count} calls: the pattern no longer fits the code");
}

#[test]
fn a_call_is_found_however_it_is_broken_into_lines() {
    let source =
        squeeze("let pods = context\n    .kubernetes\n    .list_typed::<Pod>(&scope);\n// kubernetes.get(key)\n");
    assert_eq!(calls(&source).count(), 1);
    assert_eq!(calls(&squeeze("self.kubernetes.clone(); kubernetes.delete (kind)")).count(), 1);
}

type Rights = BTreeMap<String, BTreeSet<String>>;

fn used(place: Where) -> Rights {
    let mut rights = Rights::new();
    for (verb, resource, at, ..) in USES {
        if *at == place {
            rights.entry((*resource).to_owned()).or_default().insert((*verb).to_owned());
        }
    }
    rights
}

fn granted(role: &Value) -> Rights {
    let mut rights = Rights::new();
    for rule in role["rules"].as_array().expect("a role has rules") {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                let resource = if group.is_empty() { resource } else { format!("{group}/{resource}") };
                rights.entry(resource).or_default().extend(words(&rule["verbs"]));
            }
        }
    }
    rights
}

/// But for creation, which knows no names.
fn assert_locks_are_named(role: &Value) {
    let wanted: BTreeSet<_> =
        etcd_operator::ports::Controller::ALL.map(|controller| controller.lock_name().to_owned()).into();
    for rule in role["rules"].as_array().expect("a role has rules") {
        if words(&rule["verbs"]) != ["create"] {
            assert_eq!(words(&rule["resourceNames"]).into_iter().collect::<BTreeSet<_>>(), wanted, "{rule}");
        }
    }
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect()
}

/// The operator's source but for its tests, its ports and their adapters, which pass on what others ask for.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("the tree is readable") {
            let path = entry.expect("the tree is readable").path();
            let name = path.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
            let passes_on = ["ports", "adapters", "ports.rs", "adapters.rs"].contains(&name.as_str());
            if passes_on || name.ends_with("tests") || name.ends_with("tests.rs") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push((name, squeezed(&path)));
            }
        }
    }
    files
}

fn squeezed(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    squeeze(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default())
}

/// Without comments and white space, so that how the lines are broken does not matter.
fn squeeze(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(str::chars)
        .filter(|letter| !letter.is_whitespace())
        .collect::<String>()
        .replace(",)", ")")
        .replace(",]", "]")
}

fn calls(source: &str) -> impl Iterator<Item = Range<usize>> {
    const METHODS: [&str; 10] = [
        "get",
        "get_typed",
        "list",
        "list_typed",
        "create",
        "replace",
        "replace_status",
        "merge_patch",
        "delete",
        "watch",
    ];
    let is_call = |after: &str| {
        METHODS.iter().filter_map(|method| after.strip_prefix(method)).any(|rest| rest.starts_with(['(', ':']))
    };
    all_of(source, "kubernetes.").into_iter().filter(move |range| is_call(&source[range.end..]))
}

fn all_of(source: &str, part: &str) -> Vec<Range<usize>> {
    source.match_indices(part).map(|(at, part)| at..at + part.len()).collect()
}
