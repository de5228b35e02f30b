//! What a kubelet asks of whatever runs its containers, and what it hears back: two enums, so that the same kubelet drives
//! local processes (`process/`) and the containers of a simulation. The runtime decides nothing: it does what it is told,
//! and reports what happened.
use std::collections::BTreeMap;

/// A pod's uid: the name under which runtime and kubelet speak of it (a name can come back, a uid cannot).
pub type PodId = String;

/// An order to the runtime. Orders about one pod are given in the order in which they must take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeCommand {
    /// Say which pods and containers exist; answered by [`RuntimeEvent::Listed`]. The first order of every kubelet, so that
    /// one that was restarted learns what went on without it.
    List,
    /// Make the pod's network and volumes; answered by `PodSetUp` or `PodSetUpFailed`.
    SetUpPod {
        /// The pod's uid.
        pod: PodId,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// `spec.hostname`; the pod's name when absent.
        hostname: Option<String>,
        /// `spec.subdomain`: the headless Service under which the hostname can be looked up.
        subdomain: Option<String>,
        /// The volumes with their content.
        volumes: Vec<PodVolume>,
    },
    /// New content for the Secret, ConfigMap and projected volumes of a running pod. No answer.
    UpdateVolumes {
        /// The pod's uid.
        pod: PodId,
        /// Only the volumes that changed.
        volumes: Vec<PodVolume>,
    },
    /// Start one attempt of a container; answered by `Started`, `StartFailed` or `ImageMissing`, later by `Exited`.
    StartContainer(Box<ContainerStart>),
    /// SIGTERM, then SIGKILL after the grace; answered by `Exited`. A second order with a shorter grace shortens the first.
    StopContainer {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// Seconds between SIGTERM and SIGKILL; 0 kills at once.
        grace_seconds: i64,
    },
    /// Run one probe once; answered by `Probed`, or not at all when the container is gone.
    Probe {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// Unique within the kubelet's life.
        probe_id: u64,
        /// What to try.
        action: ProbeAction,
        /// After this long the probe has failed.
        timeout_seconds: i64,
    },
    /// Take away network, mounts and emptyDirs; whatever still runs is killed. Answered by `TornDown`, also for a pod that
    /// the runtime never knew.
    TearDownPod {
        /// The pod's uid.
        pod: PodId,
    },
}

/// Everything that is needed to start one attempt of a container: nothing is looked up later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStart {
    /// The pod's uid.
    pub pod: PodId,
    /// The container's name.
    pub container: String,
    /// Whether it is an init container.
    pub init: bool,
    /// Counts from 0; equals the restart count in the status.
    pub attempt: u32,
    /// The image reference as the pod has it.
    pub image: String,
    /// Replaces the image's entrypoint when not empty; `$(VAR)` is expanded.
    pub command: Vec<String>,
    /// Replaces the image's arguments when not empty (or when there is a command); `$(VAR)` is expanded.
    pub args: Vec<String>,
    /// The environment, references resolved.
    pub env: Vec<(String, String)>,
    /// Volumes by name and where they appear.
    pub mounts: Vec<Mount>,
    /// `workingDir`; the image's own when absent.
    pub working_dir: Option<String>,
    /// `securityContext.runAsUser` of the container, else of the pod. The process kubelet does not heed it: there is one
    /// user in its sandbox, which is root.
    pub run_as_user: Option<i64>,
    /// `securityContext.readOnlyRootFilesystem`.
    pub read_only_root: bool,
    /// Where the container may leave a message for its termination status.
    pub termination_message_path: String,
}

/// A volume's place in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name in the pod.
    pub volume: String,
    /// The absolute path in the container.
    pub path: String,
    /// Whether the container may not write.
    pub read_only: bool,
    /// A path inside the volume that is mounted instead of its root.
    pub sub_path: Option<String>,
}

/// A volume of a pod, with its content where the API holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVolume {
    /// An empty directory that lives as long as the pod.
    EmptyDir {
        /// The volume's name in the pod.
        name: String,
        /// `medium: Memory`.
        memory: bool,
        /// `sizeLimit` in bytes.
        size_limit: Option<u64>,
    },
    /// A directory that outlives the pod.
    Claim {
        /// The volume's name in the pod.
        name: String,
        /// The bound PersistentVolume, under which the runtime keeps the data.
        persistent_volume: String,
        /// Whether nobody may write.
        read_only: bool,
    },
    /// Files from Secrets, ConfigMaps, the downward API, or several of them.
    Files {
        /// The volume's name in the pod.
        name: String,
        /// Path inside the volume, content and mode.
        files: BTreeMap<String, VolumeFile>,
    },
    /// A path of the node.
    HostPath {
        /// The volume's name in the pod.
        name: String,
        /// The path on the node.
        path: String,
    },
}

impl PodVolume {
    /// The volume's name in the pod.
    pub fn name(&self) -> &str {
        match self {
            Self::EmptyDir { name, .. }
            | Self::Claim { name, .. }
            | Self::Files { name, .. }
            | Self::HostPath { name, .. } => name,
        }
    }
}

/// One file of a [`PodVolume::Files`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile {
    /// The content.
    pub data: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// What a probe tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// GET; 200 to 399 is success. HTTPS is not verified, as in Kubernetes.
    Http {
        /// `HTTPS` instead of `HTTP`.
        tls: bool,
        /// Another host than the pod's IP.
        host: Option<String>,
        /// The port.
        port: u16,
        /// The path, with its leading slash.
        path: String,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// A connection is success.
    Tcp {
        /// Another host than the pod's IP.
        host: Option<String>,
        /// The port.
        port: u16,
    },
    /// Exit code 0 is success.
    Exec {
        /// The command, run in the container, without a shell.
        command: Vec<String>,
    },
}

/// What happened in the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// The answer to `List`: everything that the runtime holds for this node.
    Listed {
        /// Pods that were set up and not torn down.
        pods: Vec<RuntimePod>,
    },
    /// Network and volumes are there.
    PodSetUp {
        /// The pod's uid.
        pod: PodId,
        /// The pod's address.
        ip: String,
    },
    /// Network or volumes could not be made; the kubelet asks again.
    PodSetUpFailed {
        /// The pod's uid.
        pod: PodId,
        /// Why.
        message: String,
    },
    /// There is no such image.
    ImageMissing {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// Why.
        message: String,
    },
    /// The container's process runs.
    Started {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// The attempt that was asked for.
        attempt: u32,
    },
    /// The container's process could not be started.
    StartFailed {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// The attempt that was asked for.
        attempt: u32,
        /// One CamelCase word, as in a container's waiting reason.
        reason: String,
        /// Why.
        message: String,
    },
    /// The container's process ended.
    Exited {
        /// The pod's uid.
        pod: PodId,
        /// The container's name.
        container: String,
        /// The attempt that ended.
        attempt: u32,
        /// As a shell counts: 128 plus the signal when one ended it.
        exit_code: i32,
        /// The signal, if one ended it.
        signal: Option<i32>,
        /// What the container wrote to its termination message path.
        termination_message: String,
    },
    /// A probe's answer.
    Probed {
        /// The id it was asked under.
        probe_id: u64,
        /// Whether it succeeded.
        ok: bool,
        /// What went wrong, in kubelet's words.
        message: String,
    },
    /// Nothing is left of the pod.
    TornDown {
        /// The pod's uid.
        pod: PodId,
    },
}

/// A pod that the runtime holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimePod {
    /// The pod's uid.
    pub pod: PodId,
    /// Its address.
    pub ip: String,
    /// The last attempt of each container that was started.
    pub containers: Vec<RuntimeContainer>,
}

/// A container that the runtime holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// The container's name.
    pub container: String,
    /// The attempt.
    pub attempt: u32,
    /// The image that it was started from.
    pub image: String,
    /// `None` while it runs; else exit code and signal.
    pub exited: Option<(i32, Option<i32>)>,
}
