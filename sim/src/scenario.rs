//! The scenario language: what happens to a world, and what must be true of it. Data, the same for all lanes.
//!
//! A scenario is a list of steps, carried out one after the other. Objects live in namespace `default` unless a manifest
//! says otherwise; steps name those of another namespace `<namespace>/<name>` (see [`place`]). Two buckets named `backups` and `other` exist in the lane's object stores, and Secret
//! `store-credentials` opens them, whatever the kind of store; steps name what is in them by [`store_path`]. A lane
//! replaces placeholders in manifests (see [`fill`]): `${STORE_ENDPOINT}`, `${STORE_USER}` and `${STORE_PASSWORD}` (of S3,
//! in that Secret), `${ABS_ENDPOINT}`, `${AGENT_IMAGE}`, `${NOW}` (RFC 3339), `${NEWEST:<bucket>/<prefix>}`.
//! A step that cannot come true within its bound fails the scenario and says what was seen last.

use std::sync::Arc;

use etcd_operator::model::StorageKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod condition;
mod pods;

pub use condition::Condition;
pub use pods::{Pods, out_of_order};

/// One scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// `topic/behaviour-as-seen-by-user`: equals the path of the file below `cases/`, without its ending.
    pub name: String,
    /// One sentence: what a user would see.
    pub about: String,
    /// Where it runs. A lane that cannot run it is left out, with the reason in `lane-note`.
    #[serde(default = "all_lanes")]
    pub lanes: Vec<Lane>,
    /// Why a lane is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_note: Option<String>,
    /// How the operator is started.
    #[serde(default, skip_serializing_if = "OperatorOptions::is_usual")]
    pub operator: OperatorOptions,
    /// All steps together take no longer than this in the live lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What happens.
    pub steps: Vec<Step>,
}

fn all_lanes() -> Vec<Lane> {
    vec![Lane::Model, Lane::Live]
}

/// How the operator of a case is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OperatorOptions {
    /// It manages the annotated objects of all namespaces.
    pub cluster_wide: bool,
    /// The name under which the program is started, when it is not its own. Live lane only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl OperatorOptions {
    /// Whether it is started as it usually is.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The namespace of what is named without one.
pub const NAMESPACE: &str = "default";

/// Namespace and name of `<namespace>/<name>`, or of `<name>` in namespace `default`.
pub fn place(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((NAMESPACE, name))
}

/// Namespace and name of an object of a kind; the namespace is empty where the kind has none.
pub fn place_of<'name>(kind: &str, name: &'name str) -> (&'name str, &'name str) {
    match kind {
        "Namespace" | "Node" => ("", name),
        _ => place(name),
    }
}

/// What is real and what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// The operator's logic; everything around it is simulated.
    Model,
    /// The built operator, the process kubelet, real etcd, a real S3 server.
    Live,
}

/// Which member of a cluster a step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// The raft leader.
    Leader,
    /// The first follower by name.
    Follower,
    /// The member whose pod was made last, of several at that second the first by name: the first to go when the cluster
    /// gets smaller.
    Youngest,
    /// Each member.
    All,
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `EtcdCluster`, `EtcdBackup`, `EtcdRestore`, `Pod`, `Service`, `Secret`, `PersistentVolumeClaim`, `Event`, `Lease`,
    /// `Node`.
    pub kind: String,
    /// Its name (see [`place`]); [`ANY`] where one of the kind is enough, or where each of them is meant (`each` of `wait`).
    pub name: String,
}

/// The name that stands for any object of a kind.
pub const ANY: &str = "*";

/// What is missing until one of these objects meets all conditions.
pub fn any_unmet(target: &Target, all: &[Arc<Value>], conditions: &[Condition]) -> Option<String> {
    let unmet = |object: &Value| conditions.iter().find_map(|condition| condition.unmet(object));
    let all_unmet = || all.iter().map(|object| unmet(object)).collect::<Option<Vec<_>>>();
    all_unmet().map(|said| match said.last() {
        None => format!("there is no {}", target.kind),
        Some(last) => format!("none of {} objects of kind {} is so; of the last, {last}", said.len(), target.kind),
    })
}

/// What is missing until there are such objects and each of them meets all conditions.
pub fn each_unmet(target: &Target, all: &[Arc<Value>], conditions: &[Condition]) -> Option<String> {
    let unmet = |object: &Value| conditions.iter().find_map(|condition| condition.unmet(object));
    let other = all.iter().find_map(|object| {
        unmet(object).map(|what| format!("{} {} is not so: {what}", target.kind, object["metadata"]["name"]))
    });
    other.or_else(|| all.is_empty().then(|| format!("there is no {}", target.kind)))
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Step {
    /// A headline for those who watch: what the following steps are about. Does nothing.
    Phase(String),
    /// Shows what a user would look at here, to those who watch: `kubectl get etcd` and the like, or
    /// `objects <bucket>/<prefix>`. Never fails.
    Show(String),
    /// Creates or updates the objects of a manifest (several documents may be separated by `---`), as `kubectl apply` does.
    Apply(String),
    /// As `apply`, and with the real kubectl or not at all in the live lane: a case with it is NOT CHECKED where there is
    /// none.
    KubectlApply(String),
    /// Applying this manifest must be refused, with a message that contains each of these texts.
    Rejected {
        /// The manifest, or `target` and `patch` for an update.
        manifest: String,
        /// Parts of the message.
        says: Vec<String>,
    },
    /// Makes an authority and certificates for a cluster with static TLS, in the Secrets `<cluster>-peer-tls`,
    /// `<cluster>-server-tls` and `<cluster>-client-tls`. Live lane only: nothing is encrypted in the model.
    Certificates {
        /// EtcdCluster.
        cluster: String,
    },
    /// JSON merge patch of an object.
    Patch {
        /// Which.
        target: Target,
        /// The patch.
        merge: Value,
    },
    /// Deletes an object.
    Delete {
        /// Which.
        target: Target,
    },
    /// Waits until a field of an object has a value; fails when it takes longer.
    Wait {
        /// Which object.
        target: Target,
        /// Conditions, each `<path> = <value>`, `<path> != <value>` (which needs a value), `<path> ~ <part of the value>`,
        /// or `condition <Type> = True|False|Unknown`; paths are dotted (`status.phase`).
        until: Vec<String>,
        /// Bound, such as `90s` or `5m`; simulated time in the model lane.
        within: String,
        /// With the name `*`: each object of the kind, of which there must be one at least, and not just any of them.
        #[serde(default, skip_serializing_if = "is_false")]
        each: bool,
    },
    /// For this long, the conditions must stay true.
    Stays {
        /// Which object.
        target: Target,
        /// As in `wait`.
        conditions: Vec<String>,
        /// How long.
        during: String,
    },
    /// Waits until the object is gone, or no object of the kind carries the cluster's label.
    Gone {
        /// Which object; the name may be `*` with `cluster`.
        target: Target,
        /// Only objects of this cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
        /// Bound.
        within: String,
    },
    /// Writes keys through the client Service, each acknowledged, retrying until it is; they are remembered.
    Write {
        /// EtcdCluster.
        cluster: String,
        /// How many.
        keys: u32,
        /// Bytes of each value.
        #[serde(default = "value_bytes")]
        value_bytes: u32,
    },
    /// Writes keys until etcd refuses one, with a message that has this text; those before it are remembered. Live lane only.
    WriteUntilRefused {
        /// EtcdCluster.
        cluster: String,
        /// Keys at most.
        keys: u32,
        /// Bytes of each value.
        value_bytes: u32,
        /// Part of the refusal.
        says: String,
    },
    /// Remembers this moment, the keys and the pods of it, under a name.
    Mark {
        /// Name of the mark.
        name: String,
    },
    /// Every remembered key has its remembered value, and there is no other; `at` compares with the state at a mark, `as`
    /// with what was written to another cluster, whose data it has from a backup. From then on that is what is remembered
    /// of it.
    Compare {
        /// EtcdCluster.
        cluster: String,
        /// The EtcdCluster whose keys must be found; none: its own.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        like: Option<String>,
        /// The mark whose state must be found; none: everything that was acknowledged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
    },
    /// Waits until the cluster has so many pods, whatever their state.
    Pods {
        /// EtcdCluster.
        cluster: String,
        /// How many.
        count: usize,
        /// Bound.
        within: String,
    },
    /// The pods of the cluster are those of a mark: the same names and uids, and none of their containers was started again.
    SamePods {
        /// EtcdCluster.
        cluster: String,
        /// The mark.
        since: String,
        /// They may have been made anew or started again, under the same names.
        #[serde(default, skip_serializing_if = "is_false")]
        only_names: bool,
        /// The container of each was started again so many times.
        #[serde(default, skip_serializing_if = "is_zero")]
        restarted: i64,
    },
    /// Of the pods of a mark so many are gone, and there are as many that are new.
    ReplacedPods {
        /// EtcdCluster.
        cluster: String,
        /// The mark.
        since: String,
        /// How many.
        count: usize,
    },
    /// Waits until the first events with these reasons about an object are there, in this order.
    Told {
        /// Name of the object.
        about: String,
        /// The reasons.
        reasons: Vec<String>,
        /// Bound.
        within: String,
    },
    /// Makes a member lead.
    Lead {
        /// EtcdCluster.
        cluster: String,
        /// Which member.
        who: Who,
    },
    /// Kills the etcd process of a member (SIGKILL).
    Kill {
        /// EtcdCluster.
        cluster: String,
        /// Which member.
        who: Who,
    },
    /// Kills the process of a member and empties its volume; the volume object stays.
    DestroyData {
        /// EtcdCluster.
        cluster: String,
        /// Which member.
        who: Who,
    },
    /// Deletes the pod of a member.
    DeletePod {
        /// EtcdCluster.
        cluster: String,
        /// Which member.
        who: Who,
    },
    /// Deletes all pods and volumes of the cluster at once, with their data.
    LoseCluster {
        /// EtcdCluster.
        cluster: String,
    },
    /// Every node goes down at once, and comes back after this long: their pods start again from their first container on,
    /// with the disks that they had. Model lane only: the process kubelet is one for the whole case.
    RebootNodes {
        /// How long they are down.
        during: String,
    },
    /// Kills the operator, which must run; it is started again at once. No time passes in the model between two steps: wait
    /// for what it has begun before it is killed, or nothing is interrupted.
    KillOperator,
    /// Asks the operator to stop (SIGTERM) and waits until it has, in order; it stays away until `start-operator`.
    StopOperator,
    /// Starts the operator that was stopped.
    StartOperator,
    /// Cuts a member off from everybody, for this long.
    Isolate {
        /// EtcdCluster.
        cluster: String,
        /// Which member.
        who: Who,
        /// How long.
        during: String,
    },
    /// Puts an object into a bucket.
    PutObject {
        /// `<bucket>/<key>`.
        path: String,
        /// What is in it.
        content: ObjectContent,
    },
    /// Waits until the bucket holds so many objects whose name begins so, manifests aside.
    Objects {
        /// `<bucket>/<prefix>`.
        prefix: String,
        /// Least number.
        at_least: usize,
        /// Greatest number.
        at_most: usize,
        /// Bound.
        within: String,
    },
    /// Waits until members (and only members) that the cluster should have are there: healthy voters in etcd, pods, volumes.
    Members {
        /// EtcdCluster.
        cluster: String,
        /// Healthy voters.
        healthy: usize,
        /// The etcd version that each of them runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Bound.
        within: String,
    },
    /// Waits until the operator answers GET of a path with 200, and its answer has a line that begins with each of these
    /// texts, and none that begins with one of the others. Live lane only: nothing is served in the model.
    Serves {
        /// `/metrics`, `/readyz` or `/livez`.
        path: String,
        /// How lines begin.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lines: Vec<String>,
        /// How no line begins.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        without: Vec<String>,
        /// Bound.
        within: String,
    },
    /// Runs kubectl, which must succeed and print each of these texts (runs of blanks count as one). `${LEADER:<cluster>}`
    /// in an argument is the pod of the leader. Live lane only; a case with it is NOT CHECKED where there is no kubectl.
    Kubectl {
        /// Its arguments.
        args: Vec<String>,
        /// What it prints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        says: Vec<String>,
        /// For what does not end by itself: it is ended after so long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<String>,
    },
    /// No object is written, created or deleted for this long, leases aside.
    Quiet {
        /// How long.
        during: String,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

fn value_bytes() -> u32 {
    64
}

/// What an object put by a scenario is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum ObjectContent {
    /// This text.
    Text(String),
    /// The first part of another object, to this many percent.
    Truncated {
        /// `<bucket>/<key>`.
        of: String,
        /// Percent that is kept.
        percent: u8,
    },
    /// Another object with one bit changed in its middle.
    Flipped {
        /// `<bucket>/<key>`.
        of: String,
    },
}

/// A manifest with its placeholders replaced: those of `values` by name, and `${NEWEST:<bucket>/<prefix>}` by what
/// `newest` answers: `<bucket>/<key>` of the object so named that was written last, manifests aside.
///
/// # Errors
/// When a placeholder is not known or not closed, or there is no newest object.
pub fn fill(
    manifest: &str,
    values: &[(&str, &str)],
    mut newest: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = manifest;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("a placeholder is not closed")?;
        filled.push_str(before);
        match (values.iter().find(|(known, _)| *known == name), name.strip_prefix("NEWEST:")) {
            (Some((_, value)), _) => filled.push_str(value),
            (None, Some(prefix)) => filled.push_str(&newest(prefix)?),
            (None, None) => return Err(format!("`${{{name}}}` is no placeholder of manifests")),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Which kind of store, bucket and key a path is about: `gcs://<bucket>/<key>`, `abs://<bucket>/<key>`, or
/// `<bucket>/<key>` in the store that speaks S3.
pub fn store_path(path: &str) -> (StorageKind, &str, &str) {
    let (kind, rest) = match path.split_once("://") {
        Some(("gcs", rest)) => (StorageKind::Gcs, rest),
        Some(("abs", rest)) => (StorageKind::Abs, rest),
        _ => (StorageKind::S3, path),
    };
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    (kind, bucket, key)
}

/// A bound such as `500ms`, `90s`, `5m`.
///
/// # Errors
/// When the text is no such bound.
pub fn parse_bound(text: &str) -> Result<jiff::SignedDuration, String> {
    let error = || format!("`{text}` must be a number with `ms`, `s` or `m`, such as `90s`");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: i64 = digits.parse().map_err(|_| error())?;
    match &text[digits.len()..] {
        "ms" => Ok(jiff::SignedDuration::from_millis(number)),
        "s" => Ok(jiff::SignedDuration::from_secs(number)),
        "m" => Ok(jiff::SignedDuration::from_secs(number * 60)),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_unknown_ones_named() {
        let newest = |prefix: &str| Ok(format!("{prefix}_v7"));
        let values = [("STORE_ENDPOINT", "http://s"), ("AGENT_IMAGE", "i:1")];
        let filled = fill("a ${STORE_ENDPOINT} b ${NEWEST:backups/x} ${AGENT_IMAGE}", &values, newest);
        assert_eq!(filled.as_deref(), Ok("a http://s b backups/x_v7 i:1"));
        assert_eq!(fill("$x {y}", &values, newest).as_deref(), Ok("$x {y}"));
        assert!(fill("${STORE}", &values, newest).unwrap_err().contains("`${STORE}` is no placeholder"));
        assert!(fill("${STORE_ENDPOINT", &values, newest).unwrap_err().contains("not closed"));
    }

    #[test]
    fn a_name_may_say_its_namespace() {
        assert_eq!(place("c"), ("default", "c"));
        assert_eq!(place("second/c"), ("second", "c"));
        assert_eq!(place_of("Pod", "second/c"), ("second", "c"));
        assert_eq!(place_of("Node", "node-1"), ("", "node-1"));
    }

    #[test]
    fn a_path_names_its_store() {
        assert_eq!(store_path("backups/a/b"), (StorageKind::S3, "backups", "a/b"));
        assert_eq!(store_path("gcs://backups/a"), (StorageKind::Gcs, "backups", "a"));
        assert_eq!(store_path("abs://other/"), (StorageKind::Abs, "other", ""));
        assert_eq!(store_path("backups"), (StorageKind::S3, "backups", ""));
    }

    #[test]
    fn one_object_of_the_kind_is_enough_for_any() {
        let target = Target { kind: "Event".to_owned(), name: ANY.to_owned() };
        let events: Vec<_> = ["a", "b"].map(|text| Arc::new(serde_json::json!({"message": text}))).into();
        let says =
            |text: &str| any_unmet(&target, &events, &[format!("message = {text}").parse().expect("a condition")]);
        assert_eq!(says("b"), None);
        assert!(says("c").is_some_and(|said| said.contains("none of 2 objects") && said.contains("`b`")));
        assert_eq!(any_unmet(&target, &[], &[]).as_deref(), Some("there is no Event"));
    }

    #[test]
    fn each_object_of_the_kind_counts_for_each() {
        let target = Target { kind: "Pod".to_owned(), name: ANY.to_owned() };
        let pod = |name: &str, team: &str| Arc::new(serde_json::json!({"metadata": {"name": name, "team": team}}));
        let pods = [pod("p-1", "a"), pod("p-2", "b"), pod("p-3", "a")];
        let says =
            |pods: &[Arc<Value>]| each_unmet(&target, pods, &["metadata.team = a".parse().expect("a condition")]);
        assert!(says(&pods).is_some_and(|said| said.contains("p-2") && said.contains("`b`")));
        assert_eq!(says(&[pods[0].clone(), pods[2].clone()]), None);
        assert_eq!(says(&[]).as_deref(), Some("there is no Pod"));
    }

    #[test]
    fn bounds_name_what_is_allowed() {
        assert_eq!(parse_bound("90s"), Ok(jiff::SignedDuration::from_secs(90)));
        assert_eq!(parse_bound("5m"), Ok(jiff::SignedDuration::from_secs(300)));
        for text in ["90", "s", "1h", "-", ""] {
            assert!(parse_bound(text).unwrap_err().contains("must be a number"), "{text}");
        }
    }
}
