//! Keys of the labels and annotations on the objects of an EtcdCluster, and the sets that go together.

use std::collections::BTreeMap;

/// Label with the value [`APP`], on every object.
pub const LABEL_APP: &str = "app";
/// Value of [`LABEL_APP`].
pub const APP: &str = "etcd";
/// Label with the name of the EtcdCluster, on every object.
pub const LABEL_CLUSTER: &str = "etcd_cluster";
/// Label with the name of the member, on pods.
pub const LABEL_NODE: &str = "etcd_node";
/// Recommended label: what it is.
pub const LABEL_NAME: &str = "app.kubernetes.io/name";
/// Recommended label: which one it is.
pub const LABEL_INSTANCE: &str = "app.kubernetes.io/instance";
/// Recommended label: which part of it.
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Recommended label: who looks after it.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "etcd-operator";
/// Label with the token of the formation that a pod or a volume belongs to.
pub const LABEL_LINEAGE: &str = "etcd.database.coreos.com/lineage";
/// Label with the [`Role`] of a member, on pods.
pub const LABEL_ROLE: &str = "etcd.database.coreos.com/role";

/// Label with the hash of what a pod was made from, for rules of placement that tell one template from the next.
pub const LABEL_POD_TEMPLATE_HASH: &str = "etcd.database.coreos.com/pod-template-hash";

/// Annotation with the hash of what a pod was made from: another hash, another roll-out.
pub const ANNOTATION_POD_TEMPLATE_HASH: &str = "etcd.database.coreos.com/pod-template-hash";
/// Annotation that says which operator looks after an object.
pub const ANNOTATION_SCOPE: &str = "etcd.database.coreos.com/scope";
/// Value of [`ANNOTATION_SCOPE`] for an operator that sees all namespaces.
pub const SCOPE_CLUSTERWIDE: &str = "clusterwide";
/// Annotation with the image of etcd that was asked for. Admission may put another one into the spec (a mirror's, a digest),
/// so that the spec does not tell whether it is the wanted one.
pub const ANNOTATION_IMAGE: &str = "etcd.database.coreos.com/image";
/// The same for the image of our agent.
pub const ANNOTATION_AGENT_IMAGE: &str = "etcd.database.coreos.com/agent-image";
/// Annotation with the id of the container that ran when another image was asked for: the kubelet has not followed while it
/// still runs.
pub const ANNOTATION_REPLACED_CONTAINER: &str = "etcd.database.coreos.com/replaced-container";
/// Annotation with the image that the spec had then. While it still has it, admission has made the old one of the new, and
/// no kubelet will follow.
pub const ANNOTATION_REPLACED_IMAGE: &str = "etcd.database.coreos.com/replaced-image";
/// Annotation with the version of etcd that a pod was made for.
pub const ANNOTATION_ETCD_VERSION: &str = "etcd.version";

/// What a member is to raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Counts for quorum.
    Voter,
    /// Gets the log and has no vote.
    Learner,
}

impl Role {
    /// As the value of [`LABEL_ROLE`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Learner => "learner",
        }
    }

    /// From the value of [`LABEL_ROLE`].
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "voter" => Some(Self::Voter),
            "learner" => Some(Self::Learner),
            _ => None,
        }
    }
}

/// The labels that select the objects of an EtcdCluster; the archived operator's objects have them too.
pub fn selector_labels(cluster: &str) -> BTreeMap<String, String> {
    owned([(LABEL_APP, APP), (LABEL_CLUSTER, cluster)])
}

/// [`selector_labels`] as one string: for lists, and for the scale subresource.
pub fn selector(cluster: &str) -> String {
    format!("{LABEL_APP}={APP},{LABEL_CLUSTER}={cluster}")
}

/// The labels of every object of an EtcdCluster.
pub fn cluster_labels(cluster: &str) -> BTreeMap<String, String> {
    let mut labels = selector_labels(cluster);
    labels.extend(owned([
        (LABEL_NAME, APP),
        (LABEL_INSTANCE, cluster),
        (LABEL_COMPONENT, "member"),
        (LABEL_MANAGED_BY, MANAGED_BY),
    ]));
    labels
}

/// The labels of the volume of a member.
pub fn volume_labels(cluster: &str, lineage: &str) -> BTreeMap<String, String> {
    let mut labels = cluster_labels(cluster);
    labels.extend(owned([(LABEL_LINEAGE, lineage)]));
    labels
}

/// The labels of the pod of a member.
pub fn member_labels(cluster: &str, member: &str, lineage: &str, role: Role) -> BTreeMap<String, String> {
    let mut labels = volume_labels(cluster, lineage);
    labels.extend(owned([(LABEL_NODE, member), (LABEL_ROLE, role.as_str())]));
    labels
}

/// Whether a user may not put this label on pods.
pub fn is_reserved_label(key: &str) -> bool {
    key == LABEL_APP || key.starts_with("etcd_")
}

/// Whether an object is for an operator that sees all namespaces.
pub fn is_clusterwide(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(ANNOTATION_SCOPE)).is_some_and(|scope| scope == SCOPE_CLUSTERWIDE)
}

fn owned<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_labels_is_selected_by_the_selector() {
        for (key, value) in selector_labels("c") {
            assert_eq!(cluster_labels("c").get(&key), Some(&value));
            assert_eq!(volume_labels("c", "u-1").get(&key), Some(&value));
            assert_eq!(member_labels("c", "c-a", "u-1", Role::Learner).get(&key), Some(&value));
        }
        assert_eq!(selector("c"), "app=etcd,etcd_cluster=c");
    }

    #[test]
    fn a_pod_tells_its_member_lineage_and_role() {
        let labels = member_labels("c", "c-a", "u-1", Role::Learner);
        assert_eq!(labels.get("etcd_node").map(String::as_str), Some("c-a"));
        assert_eq!(labels.get(LABEL_LINEAGE).map(String::as_str), Some("u-1"));
        assert_eq!(labels.get(LABEL_ROLE).and_then(|role| Role::parse(role)), Some(Role::Learner));
        assert_eq!(Role::parse("leader"), None);
    }

    #[test]
    fn only_the_exact_scope_is_clusterwide() {
        let scope = |value: &str| owned([(ANNOTATION_SCOPE, value)]);
        assert!(is_clusterwide(Some(&scope("clusterwide"))));
        assert!(!is_clusterwide(Some(&scope("ClusterWide"))));
        assert!(!is_clusterwide(Some(&BTreeMap::new())));
        assert!(!is_clusterwide(None));
    }

    #[test]
    fn reserved_labels_are_the_ones_of_the_archived_operator() {
        assert!(is_reserved_label("app") && is_reserved_label("etcd_cluster") && is_reserved_label("etcd_"));
        assert!(!is_reserved_label("apps") && !is_reserved_label("etcd") && !is_reserved_label(LABEL_NAME));
    }
}
