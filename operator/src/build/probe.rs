//! What the kubelet asks a member, and how patiently.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::etcd::METRICS_PORT;
use crate::api::names::CLIENT_PORT;
use crate::model::{Desired, ProbeKind};

/// Seconds that a member may take to start before the kubelet restarts it: one day.
///
/// etcd answers nothing on its client port before it has joined, which may need a quorum that is not there, or the
/// transfer of a large snapshot. Restarting it throws that work away and leaves temporary files, again and again,
/// until the disk is full. A member that never comes is replaced by the operator while the others hold quorum; no
/// restart by the kubelet is needed for that.
const STARTUP_SECONDS_MAX: i32 = 24 * 60 * 60;

/// What answers only a member that reaches a quorum.
pub const READY_PATH: &str = "/readyz";

/// Sets the three probes of the etcd container.
///
/// Liveness only where `/livez` is served: it does not depend on a quorum, so that members are not restarted for the
/// trouble of others. Below that there is none: a probe that cannot tell does more harm than good.
pub fn set_probes(container: &mut Container, desired: &Desired) {
    let kind = desired.version.probe(desired.tls.client.is_some());
    let http = |path: &str, port: i32| Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(port),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    };
    let tcp = || Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(CLIENT_PORT), host: None }),
        ..Probe::default()
    };
    let (started, ready, alive) = match kind {
        ProbeKind::Health => {
            (http("/livez", CLIENT_PORT), http(READY_PATH, CLIENT_PORT), Some(http("/livez", CLIENT_PORT)))
        }
        ProbeKind::HealthOnMetricsPort => {
            (http("/livez", METRICS_PORT), http(READY_PATH, METRICS_PORT), Some(http("/livez", METRICS_PORT)))
        }
        ProbeKind::Version => (http("/version", CLIENT_PORT), http("/version", CLIENT_PORT), None),
        ProbeKind::Tcp => (tcp(), tcp(), None),
    };
    container.startup_probe = Some(every(started, 1, 5, STARTUP_SECONDS_MAX));
    container.readiness_probe = Some(every(ready, 5, 5, 3));
    container.liveness_probe = alive.map(|probe| every(probe, 10, 15, 8));
}

fn every(probe: Probe, period_seconds: i32, timeout_seconds: i32, failures_max: i32) -> Probe {
    Probe {
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(timeout_seconds),
        success_threshold: Some(1),
        failure_threshold: Some(failures_max),
        ..probe
    }
}
