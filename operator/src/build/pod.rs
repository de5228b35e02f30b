//! A member's pod: cattle. It is made anew under the member's name, on the member's volume.

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PersistentVolumeClaimVolumeSource,
    Pod, PodAffinityTerm, PodAntiAffinity, PodSpec, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

use super::etcd::{METRICS_PORT, etcd_command, flags_as_env, restore_command};
use super::probe::set_probes;
use super::{InitialState, MemberStart, metadata, template_hash};
use crate::agent::command::{Command, Fetch, OwnName, Restore, Run};
use crate::api::labels::{
    ANNOTATION_AGENT_IMAGE, ANNOTATION_ETCD_VERSION, ANNOTATION_IMAGE, ANNOTATION_POD_TEMPLATE_HASH, LABEL_CLUSTER,
    LABEL_LINEAGE, LABEL_POD_TEMPLATE_HASH, Role, is_reserved_label, member_labels,
};
use crate::api::names::{CLIENT_PORT, PEER_PORT, peer_service_name, volume_name};
use crate::model::{Desired, ProbeKind, RestoreTool, RestoreWanted, Storage};

/// Name of the container that runs etcd.
pub const ETCD_CONTAINER: &str = "etcd";
/// Name of the init container that brings the agent into the pod.
pub const AGENT_CONTAINER: &str = "agent";
/// Name of the init container that fetches a snapshot.
pub const FETCH_CONTAINER: &str = "fetch";
/// Name of the init container that restores it.
pub const RESTORE_CONTAINER: &str = "restore";

/// Where the data volume is mounted.
pub const VOLUME_DIR: &str = "/var/etcd";
/// etcd's data directory, on that volume.
pub const DATA_DIR: &str = "/var/etcd/data";
/// Where a snapshot is put before it is restored: on the volume, because nothing else has room for it.
pub const SNAPSHOT_FILE: &str = "/var/etcd/restore/snapshot.db";
/// Where peers' certificates are mounted.
pub const PEER_TLS_DIR: &str = "/etc/etcdtls/member/peer-tls";
/// Where the server's certificates are mounted.
pub const SERVER_TLS_DIR: &str = "/etc/etcdtls/member/server-tls";
/// Where a client's certificates are mounted, for people with a shell in the pod, as in the archived operator's pods.
pub const OPERATOR_TLS_DIR: &str = "/etc/etcdtls/operator/etcd-tls";
/// Where the agent lives, in all containers of the pod.
pub const AGENT_DIR: &str = "/opt/etcd-operator";
/// The agent's executable there.
pub const AGENT_EXECUTABLE: &str = "/opt/etcd-operator/etcd-operator";
/// The agent's marker that etcd was started in this pod. It lives and goes with the pod.
pub const SEEN_FILE: &str = "/opt/etcd-operator/data-seen";
/// Where the Secret of the store is mounted.
pub const CREDENTIALS_DIR: &str = "/etc/etcd-operator/backup-credentials";

/// The executable in the operator's own image, found by its PATH.
const OPERATOR_EXECUTABLE: &str = "etcd-operator";
/// What etcd gets to hand leadership on and close its files: Kubernetes' own default, written down.
const TERMINATION_GRACE_SECONDS: i64 = 30;

/// Name of the volume that holds a member's data.
pub const DATA_VOLUME: &str = "etcd-data";
const AGENT_VOLUME: &str = "agent";
/// Name of the volume with the peer's certificates.
pub const PEER_TLS_VOLUME: &str = "member-peer-tls";
/// Name of the volume with the server's certificates.
pub const SERVER_TLS_VOLUME: &str = "member-server-tls";
/// Name of the volume with the operator's certificates.
pub const OPERATOR_TLS_VOLUME: &str = "etcd-client-tls";
const CREDENTIALS_VOLUME: &str = "backup-credentials";

/// The pod of a member for one start.
pub fn member_pod(desired: &Desired, start: &MemberStart<'_>) -> Pod {
    let policy = &desired.pod;
    let cluster = &desired.identity.name;
    let mut init_containers = vec![agent_container(desired)];
    if let Some(restore) = start.restore {
        init_containers.push(fetch_container(desired, restore));
        init_containers.push(restore_container(desired, start));
    }
    let mut meta = metadata(&desired.identity, start.name, pod_labels(desired, start));
    meta.annotations = Some(pod_annotations(desired));
    Pod {
        metadata: meta,
        spec: Some(PodSpec {
            hostname: Some(start.name.to_owned()),
            subdomain: Some(peer_service_name(cluster)),
            init_containers: Some(init_containers),
            containers: vec![etcd_container(desired, start)],
            volumes: Some(volumes(desired, start)),
            restart_policy: Some("Always".to_owned()),
            termination_grace_period_seconds: Some(TERMINATION_GRACE_SECONDS),
            automount_service_account_token: Some(false),
            // Kubernetes would set ETCD_..._PORT variables for Services of such names, which etcd takes for its own.
            enable_service_links: Some(false),
            node_selector: (!policy.node_selector.is_empty()).then(|| policy.node_selector.clone()),
            affinity: placement(desired, start),
            tolerations: (!policy.tolerations.is_empty()).then(|| policy.tolerations.clone()),
            security_context: policy.security_context.clone(),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// Labels of the user, reserved ones aside.
pub(super) fn user_labels(desired: &Desired) -> BTreeMap<String, String> {
    let mut labels = desired.pod.labels.clone();
    labels.retain(|key, _| !is_reserved_label(key));
    labels
}

/// Ours win: Services select by them.
fn pod_labels(desired: &Desired, start: &MemberStart<'_>) -> BTreeMap<String, String> {
    let role = if start.voter { Role::Voter } else { Role::Learner };
    let mut labels = user_labels(desired);
    labels.extend(member_labels(&desired.identity.name, start.name, start.lineage, role));
    labels.insert(LABEL_POD_TEMPLATE_HASH.to_owned(), template_hash(desired));
    labels
}

fn pod_annotations(desired: &Desired) -> BTreeMap<String, String> {
    let mut annotations = desired.pod.annotations.clone();
    annotations.insert(ANNOTATION_ETCD_VERSION.to_owned(), desired.version.to_string());
    annotations.insert(ANNOTATION_POD_TEMPLATE_HASH.to_owned(), template_hash(desired));
    annotations.insert(ANNOTATION_IMAGE.to_owned(), desired.image());
    annotations.insert(ANNOTATION_AGENT_IMAGE.to_owned(), desired.agent_image.clone());
    annotations
}

/// `affinity`, or what the deprecated `antiAffinity` stands for: no two members of this cluster on one node. As it is in
/// the template; a pod's own is its [`placement`].
pub(super) fn affinity(desired: &Desired) -> Option<Affinity> {
    let policy = &desired.pod;
    if policy.affinity.is_some() || !policy.anti_affinity {
        return policy.affinity.clone();
    }
    let anti = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![apart(all_members(desired))]),
        ..PodAntiAffinity::default()
    };
    Some(Affinity { pod_anti_affinity: Some(anti), ..Affinity::default() })
}

/// Where a pod may run. What `antiAffinity` asks for holds among the members that stay: there may be no more nodes than
/// those, and who takes a member's place is there before it goes.
///
/// - A restored lineage grows beside the old one, and may share its nodes.
/// - Without volumes a new member may stand in for one whose data goes with its pod, and may share a node with those of
///   another template. Once all are of one template, none shares with another. On volumes a pod whose template changes comes
///   back to its data, and must find the place that it had.
///
/// Where there are nodes to spare, nobody shares.
fn placement(desired: &Desired, start: &MemberStart<'_>) -> Option<Affinity> {
    let affinity = affinity(desired)?;
    if desired.pod.affinity.is_some() {
        return Some(affinity);
    }
    let mut stay = all_members(desired);
    stay.insert(LABEL_LINEAGE.to_owned(), start.lineage.to_owned());
    if matches!(desired.storage, Storage::EmptyDir) {
        stay.insert(LABEL_POD_TEMPLATE_HASH.to_owned(), template_hash(desired));
    }
    let rather = WeightedPodAffinityTerm { weight: 100, pod_affinity_term: apart(all_members(desired)) };
    let anti = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![apart(stay)]),
        preferred_during_scheduling_ignored_during_execution: Some(vec![rather]),
    };
    Some(Affinity { pod_anti_affinity: Some(anti), ..affinity })
}

fn all_members(desired: &Desired) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL_CLUSTER.to_owned(), desired.identity.name.clone())])
}

/// On other nodes than pods with these labels.
fn apart(labels: BTreeMap<String, String>) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(labels), match_expressions: None }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    }
}

/// The user's environment for etcd, and the names in it that mean the same as a flag that we set. Those are left out:
/// the flag has always won, and etcd 3.4 and later refuse to start with both.
fn user_env(desired: &Desired, command: &[String]) -> (Vec<EnvVar>, Vec<String>) {
    let flags: Vec<String> = flags_as_env(command).collect();
    let (shadowed, env): (Vec<_>, Vec<_>) =
        desired.pod.etcd_env.iter().cloned().partition(|env| flags.contains(&env.name));
    (env, shadowed.into_iter().map(|env| env.name).collect())
}

/// Names in `etcdEnv` that have no effect because a flag says the same.
pub fn shadowed_env(desired: &Desired) -> Vec<String> {
    let start = MemberStart {
        name: "",
        lineage: "",
        voter: true,
        initial_cluster: Vec::new(),
        state: InitialState::New,
        expect_data: false,
        restore: None,
    };
    user_env(desired, &etcd_command(desired, &start)).1
}

fn agent_container(desired: &Desired) -> Container {
    let install = Command::Install { to: AGENT_DIR.to_owned() };
    Container {
        image: Some(desired.agent_image.clone()),
        command: Some(install.to_command_line(OPERATOR_EXECUTABLE)),
        volume_mounts: Some(vec![mount(AGENT_VOLUME, AGENT_DIR)]),
        ..container(desired, AGENT_CONTAINER)
    }
}

fn fetch_container(desired: &Desired, restore: &RestoreWanted) -> Container {
    let mut source = restore.source.clone();
    let credentials = source.bucket.secret.take().map(|_| CREDENTIALS_DIR.to_owned());
    let mut mounts = vec![mount(DATA_VOLUME, VOLUME_DIR)];
    if credentials.is_some() {
        mounts.push(VolumeMount { read_only: Some(true), ..mount(CREDENTIALS_VOLUME, CREDENTIALS_DIR) });
    }
    let fetch = Command::Fetch(Fetch {
        source,
        credentials,
        size: restore.size,
        sha256: restore.sha256.clone(),
        to: SNAPSHOT_FILE.to_owned(),
        data_dir: DATA_DIR.to_owned(),
    });
    Container {
        image: Some(desired.agent_image.clone()),
        command: Some(fetch.to_command_line(OPERATOR_EXECUTABLE)),
        volume_mounts: Some(mounts),
        ..container(desired, FETCH_CONTAINER)
    }
}

fn restore_container(desired: &Desired, start: &MemberStart<'_>) -> Container {
    let restore = Command::Restore(Restore {
        data_dir: DATA_DIR.to_owned(),
        snapshot: SNAPSHOT_FILE.to_owned(),
        seen: SEEN_FILE.to_owned(),
        tool: restore_command(desired, start),
    });
    let env = match desired.version.restore_tool() {
        // Below 3.4 etcdctl speaks version 2 unless it is told otherwise.
        RestoreTool::Etcdctl => {
            Some(vec![EnvVar { name: "ETCDCTL_API".to_owned(), value: Some("3".to_owned()), value_from: None }])
        }
        RestoreTool::Etcdutl => None,
    };
    Container {
        image: Some(desired.image()),
        command: Some(restore.to_command_line(AGENT_EXECUTABLE)),
        env,
        volume_mounts: Some(vec![mount(DATA_VOLUME, VOLUME_DIR), mount(AGENT_VOLUME, AGENT_DIR)]),
        ..container(desired, RESTORE_CONTAINER)
    }
}

/// For how long the agent waits for the pod's own name, if the spec limits that; without a limit etcd and the kubelet go on
/// trying for ever.
fn own_name(desired: &Desired, start: &MemberStart<'_>) -> Option<OwnName> {
    let within_seconds = u64::try_from(desired.pod.dns_timeout_in_second).ok().filter(|seconds| *seconds > 0)?;
    Some(OwnName { host: super::address(desired, start.name).host(), within_seconds })
}

fn etcd_container(desired: &Desired, start: &MemberStart<'_>) -> Container {
    let etcd = etcd_command(desired, start);
    let (env, _) = user_env(desired, &etcd);
    let run = Command::Run(Run {
        data_dir: DATA_DIR.to_owned(),
        seen: SEEN_FILE.to_owned(),
        // A seed of a restored lineage finds what `restore` made, or must not start.
        expect_data: start.expect_data || start.restore.is_some(),
        own_name: own_name(desired, start),
        etcd,
    });
    let mut mounts = vec![mount(DATA_VOLUME, VOLUME_DIR), mount(AGENT_VOLUME, AGENT_DIR)];
    if desired.tls.peer_secret.is_some() {
        mounts.push(mount(PEER_TLS_VOLUME, PEER_TLS_DIR));
    }
    let mut ports = vec![port("server", PEER_PORT), port("client", CLIENT_PORT)];
    if desired.tls.client.is_some() {
        mounts.push(mount(SERVER_TLS_VOLUME, SERVER_TLS_DIR));
        mounts.push(mount(OPERATOR_TLS_VOLUME, OPERATOR_TLS_DIR));
        if desired.version.probe(true) == ProbeKind::HealthOnMetricsPort {
            ports.push(port("metrics", METRICS_PORT));
        }
    }
    let mut container = Container {
        image: Some(desired.image()),
        command: Some(run.to_command_line(AGENT_EXECUTABLE)),
        env: (!env.is_empty()).then_some(env),
        ports: Some(ports),
        volume_mounts: Some(mounts),
        ..container(desired, ETCD_CONTAINER)
    };
    set_probes(&mut container, desired);
    container
}

/// What all containers have in common.
fn container(desired: &Desired, name: &str) -> Container {
    Container {
        name: name.to_owned(),
        resources: desired.pod.resources.clone(),
        security_context: container_security(desired),
        // The last words of etcd or of the agent become the container's termination message.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// What the Pod Security Standard `restricted` asks of each container besides what `securityContext` of the pod can say
/// (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>). Only for those who want it: other images may
/// need a capability.
fn container_security(desired: &Desired) -> Option<SecurityContext> {
    let of_pod = desired.pod.security_context.as_ref();
    let is_restricted = of_pod.is_some_and(|context| context.run_as_non_root == Some(true));
    is_restricted.then(|| SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    })
}

fn volumes(desired: &Desired, start: &MemberStart<'_>) -> Vec<Volume> {
    let data = match &desired.storage {
        Storage::EmptyDir => empty_dir(DATA_VOLUME),
        Storage::Volume(_) => Volume {
            name: DATA_VOLUME.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: volume_name(start.name),
                read_only: None,
            }),
            ..Volume::default()
        },
    };
    let mut volumes = vec![data, empty_dir(AGENT_VOLUME)];
    if let Some(peer) = &desired.tls.peer_secret {
        volumes.push(secret(PEER_TLS_VOLUME, peer));
    }
    if let Some(client) = &desired.tls.client {
        volumes.push(secret(SERVER_TLS_VOLUME, &client.server_secret));
        volumes.push(secret(OPERATOR_TLS_VOLUME, &client.operator_secret));
    }
    if let Some(credentials) = start.restore.and_then(|restore| restore.source.bucket.secret.as_ref()) {
        // Needed once, and mounted for as long as the pod lives: a node that restarts must not miss it.
        volumes.push(optional(secret(CREDENTIALS_VOLUME, credentials)));
    }
    volumes
}

fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn secret(name: &str, secret: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource { secret_name: Some(secret.to_owned()), ..SecretVolumeSource::default() }),
        ..Volume::default()
    }
}

fn optional(mut volume: Volume) -> Volume {
    if let Some(secret) = &mut volume.secret {
        secret.optional = Some(true);
    }
    volume
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}
