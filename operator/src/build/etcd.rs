//! The command lines of etcd and of its restore tools.
//!
//! Only flags that every version from 3.2 to 3.7 knows: the image of a running pod is patched from version to version,
//! and its flags stay. The one exception is the metrics listener, which is used only where a version serves `/livez`;
//! `Version::why_not_step` refuses to go back below that.

use super::{MemberStart, client_url, peer_url};
use crate::agent::flags::initial_cluster_flag;
use crate::api::names::{CLIENT_PORT, PEER_PORT};
use crate::build::pod::{DATA_DIR, PEER_TLS_DIR, SERVER_TLS_DIR, SNAPSHOT_FILE};
use crate::model::{Desired, ProbeKind};

/// etcd in its images.
const ETCD: &str = "/usr/local/bin/etcd";
/// Port of the plain listener with `/livez`, `/readyz` and `/metrics`, where client TLS closes the client port to the
/// kubelet. The one that the archived operator's later builds used.
pub const METRICS_PORT: i32 = 2381;

/// etcd with its flags, as the archived operator started it.
pub fn etcd_command(desired: &Desired, start: &MemberStart<'_>) -> Vec<String> {
    let peer = peer_url(desired, start.name);
    let client = client_url(desired, start.name);
    let mut command = vec![
        ETCD.to_owned(),
        format!("--data-dir={DATA_DIR}"),
        format!("--name={}", start.name),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--listen-peer-urls={}://0.0.0.0:{PEER_PORT}", desired.tls.peer_scheme()),
        format!("--listen-client-urls={}://0.0.0.0:{CLIENT_PORT}", desired.tls.client_scheme()),
        format!("--advertise-client-urls={client}"),
        format!("--initial-cluster={}", initial_cluster_flag(&start.initial_cluster)),
        format!("--initial-cluster-state={}", start.state),
        format!("--initial-cluster-token={}", start.lineage),
    ];
    if desired.tls.peer_secret.is_some() {
        command.extend([
            "--peer-client-cert-auth=true".to_owned(),
            format!("--peer-trusted-ca-file={PEER_TLS_DIR}/peer-ca.crt"),
            format!("--peer-cert-file={PEER_TLS_DIR}/peer.crt"),
            format!("--peer-key-file={PEER_TLS_DIR}/peer.key"),
        ]);
    }
    if desired.tls.client.is_some() {
        command.extend([
            "--client-cert-auth=true".to_owned(),
            format!("--trusted-ca-file={SERVER_TLS_DIR}/server-ca.crt"),
            format!("--cert-file={SERVER_TLS_DIR}/server.crt"),
            format!("--key-file={SERVER_TLS_DIR}/server.key"),
        ]);
    }
    if desired.version.probe(desired.tls.client.is_some()) == ProbeKind::HealthOnMetricsPort {
        command.push(format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"));
    }
    command
}

/// The restore tool of the wanted version; the agent appends `--data-dir`.
pub fn restore_command(desired: &Desired, start: &MemberStart<'_>) -> Vec<String> {
    vec![
        desired.version.restore_tool().path().to_owned(),
        "snapshot".to_owned(),
        "restore".to_owned(),
        SNAPSHOT_FILE.to_owned(),
        format!("--name={}", start.name),
        format!("--initial-cluster={}", initial_cluster_flag(&start.initial_cluster)),
        format!("--initial-cluster-token={}", start.lineage),
        format!("--initial-advertise-peer-urls={}", peer_url(desired, start.name)),
    ]
}

/// The environment variables that mean the same as the flags of a command line: `--data-dir=x` is `ETCD_DATA_DIR`.
pub fn flags_as_env(command: &[String]) -> impl Iterator<Item = String> {
    let flags = command.iter().filter_map(|arg| arg.strip_prefix("--"));
    flags.map(|flag| {
        let name = flag.split('=').next().unwrap_or_default();
        format!("ETCD_{}", name.to_ascii_uppercase().replace('-', "_"))
    })
}
