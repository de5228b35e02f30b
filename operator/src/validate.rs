//! EtcdCluster (and the EtcdRestore of its name) -> [`Desired`]: defaults are filled in, texts are parsed, and what
//! slipped past admission is refused with the field and what is allowed. Nobody reads the custom resource after this.
//!
//! Whether a step from what runs to what is wanted is allowed is not judged here: that needs to see what runs.

use jiff::SignedDuration;
use kube::ResourceExt;

use crate::api::cluster::{PodPolicy, REPOSITORY_DEFAULT, SIZE_MAX, TlsPolicy, VERSION_DEFAULT};
use crate::api::restore::RestoreRunPhase;
use crate::api::{EtcdCluster, EtcdRestore, labels, names};
use crate::build::pod::shadowed_env;
use crate::model::{
    ClientTls, ClusterIdentity, Desired, ObjectLocation, RestoreWanted, Revision, SpecWarning, Storage, Tls, Version,
};
use crate::plan::Unsafe;

/// What the operator's own command line says about all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Image of this operator, whose agent mode starts etcd in each member's pod.
    pub agent_image: String,
    /// How long a member may be unreachable before it is replaced, while the others hold quorum.
    pub replace_after: SignedDuration,
}

/// Settings of etcd that no manifest may reach for through the environment: each would bring a second cluster to life
/// or put data where the guard of the agent does not look.
const ENV_FORBIDDEN: &[(&str, &str)] = &[
    ("ETCD_FORCE_NEW_CLUSTER", "it makes every restarted member a cluster of its own"),
    ("ETCD_WAL_DIR", "the log must be in the data directory, which is the volume"),
    ("ETCD_PROXY", "members are not proxies"),
    ("ETCD_DISCOVERY", "the members are named by the operator"),
    ("ETCD_DISCOVERY_SRV", "the members are named by the operator"),
    ("ETCD_CONFIG_FILE", "etcd ignores every flag when a configuration file is given"),
];

/// What is wanted, or all that is wrong with it.
///
/// # Errors
/// One [`Unsafe::Spec`] for each field that cannot be used.
pub fn validate(
    cluster: &EtcdCluster,
    restore: Option<&EtcdRestore>,
    settings: &Settings,
) -> Result<Desired, Vec<Unsafe>> {
    let mut findings = Findings::default();
    let spec = &cluster.spec;
    let pod = spec.pod.clone().unwrap_or_default();
    let name = cluster.name_any();
    if name.len() > names::CLUSTER_NAME_LENGTH_MAX {
        findings.wrong(format!(
            "`metadata.name` must be at most {} characters long, because member names add {} and must fit in 63",
            names::CLUSTER_NAME_LENGTH_MAX,
            names::SUFFIX_LENGTH + 1
        ));
    }
    let size = validate_size(spec.size, &mut findings);
    let version = validate_version(&spec.version, &mut findings);
    let repository = validate_repository(&spec.repository, &mut findings);
    validate_pod(&pod, &mut findings);
    let storage = validate_storage(&pod, &mut findings);
    let tls = validate_tls(spec.tls.as_ref(), &mut findings);
    let cluster_domain = validate_cluster_domain(&pod.cluster_domain, &mut findings);
    if !findings.wrong.is_empty() {
        return Err(findings.wrong);
    }
    let mut desired = Desired {
        identity: ClusterIdentity {
            namespace: cluster.namespace().unwrap_or_default(),
            name,
            uid: cluster.uid().unwrap_or_default(),
        },
        generation: cluster.metadata.generation.unwrap_or_default(),
        size,
        paused: spec.paused,
        deleting: cluster.metadata.deletion_timestamp.is_some(),
        repository,
        version,
        pod,
        storage,
        tls,
        cluster_domain,
        agent_image: settings.agent_image.clone(),
        replace_after: settings.replace_after,
        restore: restore.and_then(|restore| restore_wanted(cluster, restore)),
        warnings: findings.warnings,
    };
    let ignored = shadowed_env(&desired);
    desired.warnings.extend(ignored.into_iter().map(|name| SpecWarning::EnvironmentIgnored { name }));
    Ok(desired)
}

/// What was found while reading: what stops everything, and what only deserves a word.
#[derive(Default)]
struct Findings {
    wrong: Vec<Unsafe>,
    warnings: Vec<SpecWarning>,
}

impl Findings {
    fn wrong(&mut self, message: String) {
        self.wrong.push(Unsafe::Spec { message });
    }

    fn warn(&mut self, warning: SpecWarning) {
        self.warnings.push(warning);
    }
}

fn validate_size(size: i32, findings: &mut Findings) -> usize {
    if !(1..=SIZE_MAX).contains(&size) {
        findings.wrong(format!("`spec.size` must be 1 to {SIZE_MAX}, and is {size}"));
    } else if size % 2 == 0 {
        findings.warn(SpecWarning::EvenSize { size });
    }
    usize::try_from(size).unwrap_or_default()
}

fn validate_version(text: &str, findings: &mut Findings) -> Version {
    let default = || VERSION_DEFAULT.parse().expect("the default is a version");
    if text.trim_start_matches('v').is_empty() {
        findings.warn(SpecWarning::VersionNotSet { default: default() });
        return default();
    }
    match text.parse::<Version>() {
        Ok(version) => {
            if version == default() {
                findings.warn(SpecWarning::VersionUnmaintained { version: version.clone() });
            }
            version
        }
        Err(error) => {
            findings.wrong(format!("`spec.version`: {error}"));
            default()
        }
    }
}

fn validate_repository(text: &str, findings: &mut Findings) -> String {
    let repository = text.trim();
    if repository.is_empty() {
        return REPOSITORY_DEFAULT.to_owned();
    }
    let last = repository.rsplit('/').next().unwrap_or_default();
    if repository.contains(|character: char| character.is_whitespace() || character == '@') || last.contains(':') {
        findings.wrong(format!(
            "`spec.repository` must be an image without tag or digest such as {REPOSITORY_DEFAULT}, and is `{text}`"
        ));
    }
    repository.to_owned()
}

fn validate_pod(pod: &PodPolicy, findings: &mut Findings) {
    for key in pod.labels.keys().filter(|key| labels::is_reserved_label(key)) {
        findings.wrong(format!(
            "`spec.pod.labels` must not contain `{key}`: `app` and keys that begin with `etcd_` are reserved"
        ));
    }
    for env in &pod.etcd_env {
        if let Some((name, why)) = ENV_FORBIDDEN.iter().find(|(name, _)| env.name == *name) {
            findings.wrong(format!("`spec.pod.etcdEnv` must not contain `{name}`: {why}"));
        }
    }
    if pod.anti_affinity {
        findings.warn(if pod.affinity.is_some() {
            SpecWarning::AntiAffinityIgnored
        } else {
            SpecWarning::AntiAffinityDeprecated
        });
    }
}

fn validate_storage(pod: &PodPolicy, findings: &mut Findings) -> Storage {
    let Some(claim) = &pod.persistent_volume_claim_spec else {
        return Storage::EmptyDir;
    };
    let field = "`spec.pod.persistentVolumeClaimSpec";
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if !requests.is_some_and(|requests| requests.contains_key("storage")) {
        findings.wrong(format!("{field}.resources.requests.storage` must be set, such as 10Gi"));
    }
    if claim.access_modes.as_ref().is_none_or(Vec::is_empty) {
        findings.wrong(format!("{field}.accessModes` must be set, such as [ReadWriteOnce]"));
    }
    if claim.volume_mode.as_deref().is_some_and(|mode| mode != "Filesystem") {
        findings.wrong(format!("{field}.volumeMode` must be Filesystem"));
    }
    Storage::Volume(Box::new(claim.clone()))
}

fn validate_tls(policy: Option<&TlsPolicy>, findings: &mut Findings) -> Tls {
    let Some(secrets) = policy.and_then(|policy| policy.static_.as_ref()) else {
        return Tls::default();
    };
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let member = secrets.member.clone().unwrap_or_default();
    let client = match (text(&member.server_secret), text(&secrets.operator_secret)) {
        (Some(server_secret), Some(operator_secret)) => Some(ClientTls { server_secret, operator_secret }),
        (None, None) => None,
        (None, Some(_)) => {
            findings.wrong("`spec.TLS.static.member.serverSecret` must be set when `operatorSecret` is".to_owned());
            None
        }
        (Some(_), None) => {
            findings.wrong("`spec.TLS.static.operatorSecret` must be set when `member.serverSecret` is".to_owned());
            None
        }
    };
    Tls { peer_secret: text(&member.peer_secret), client }
}

/// With the dot in front, so that everybody can append it after `.svc`.
fn validate_cluster_domain(text: &str, findings: &mut Findings) -> String {
    let domain = text.trim_matches('.');
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if !domain.bytes().all(legal) || domain.contains("..") {
        findings
            .wrong(format!("`spec.pod.ClusterDomain` must be a DNS domain such as .cluster.local, and is `{text}`"));
    }
    if domain.is_empty() { String::new() } else { format!(".{domain}") }
}

/// The restore to carry out, if there is one: verified, not called off, and not done before.
///
/// Only `Verified` and `Restoring` count. An EtcdRestore that has `Succeeded` or `Failed` is history: it may outlive
/// the EtcdCluster that it was for, and must not act on a later one of the same name.
fn restore_wanted(cluster: &EtcdCluster, restore: &EtcdRestore) -> Option<RestoreWanted> {
    let name = restore.name_any();
    let uid = restore.uid()?;
    let same = name == cluster.name_any()
        && restore.spec.etcd_cluster.name == name
        && restore.namespace() == cluster.namespace();
    let status = restore.status.as_ref()?;
    let under_way = matches!(status.phase, Some(RestoreRunPhase::Verified | RestoreRunPhase::Restoring));
    if !same || !under_way || restore.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let serving = cluster.status.as_ref().and_then(|status| status.lineage.as_ref());
    if serving.and_then(|lineage| lineage.restored_from.as_ref()) == Some(&uid) {
        return None;
    }
    let snapshot = status.snapshot.as_ref()?;
    let mut source = ObjectLocation::from_source(restore.spec.backup_storage_type, &restore.spec.source).ok()?;
    // What was verified, should the spec have been edited since.
    source.bucket.bucket.clone_from(&snapshot.bucket);
    source.key.clone_from(&snapshot.key);
    Some(RestoreWanted {
        name,
        uid,
        source,
        size: u64::try_from(snapshot.size).ok()?,
        sha256: snapshot.sha256.clone(),
        revision: Revision(snapshot.revision),
        verified_at: snapshot.verified_time.as_ref().map(|time| time.0),
    })
}

#[cfg(test)]
mod tests;
