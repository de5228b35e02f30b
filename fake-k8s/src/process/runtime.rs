//! The runtime of the process kubelet: it does what [`RuntimeCommand`]s say with local processes, and reports what happens.
//!
//! One thread takes the orders one after the other; each container has a thread that starts it and waits for it. Everything
//! lives under one directory: `pods/<uid>/` (roots and volumes of a pod), `volumes/<name>/` (PersistentVolumes), `logs/`.
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::container::{Bind, ContainerSpec};
use super::images::{self, ImageRoot, Images};
use super::launch::{self, Exit};
use super::network::{Network, PodNetwork};
use super::probe;
use crate::controllers::runtime::{
    ContainerStart, PodId, PodVolume, RuntimeCommand, RuntimeContainer, RuntimeEvent, RuntimePod, VolumeFile,
};

/// How long a pod's processes get to disappear after SIGKILL before its directories are taken away all the same.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// A termination message is cut here, as kubelet does.
const TERMINATION_MESSAGE_MAX: usize = 4096;

/// What the runtime needs to know once.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// The directory of everything.
    pub run_dir: PathBuf,
    /// `.cluster.local` without its dot: the last of the search domains.
    pub cluster_domain: String,
    /// Where pods resolve names.
    pub resolver: Ipv4Addr,
}

/// A handle to the runtime; clones share it.
#[derive(Clone)]
pub struct ProcessRuntime {
    shared: Arc<Shared>,
    commands: mpsc::Sender<RuntimeCommand>,
}

pub(super) struct Shared {
    config: RuntimeConfig,
    images: Arc<dyn Images>,
    events: UnboundedSender<RuntimeEvent>,
    tokio: tokio::runtime::Handle,
    network: Arc<Mutex<Network>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<PodId, Pod>,
}

#[derive(Clone)]
struct Pod {
    namespace: String,
    name: String,
    hostname: String,
    subdomain: Option<String>,
    network: PodNetwork,
    volumes: BTreeMap<String, PathBuf>,
    tmpfs: Vec<PathBuf>,
    containers: BTreeMap<String, Container>,
}

#[derive(Clone)]
struct Container {
    attempt: u32,
    image: String,
    pid: Pid,
    exited: Option<(i32, Option<i32>)>,
}

impl ProcessRuntime {
    /// Starts the runtime of one node. Must be called in a tokio runtime, in the sandbox; the nodes share the network.
    pub fn start(
        config: RuntimeConfig,
        images: Arc<dyn Images>,
        network: Arc<Mutex<Network>>,
    ) -> std::io::Result<(Self, UnboundedReceiver<RuntimeEvent>)> {
        for directory in ["pods", "volumes", "logs"] {
            fs::create_dir_all(config.run_dir.join(directory))?;
        }
        let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
        let state = Mutex::default();
        let tokio = tokio::runtime::Handle::current();
        let shared = Arc::new(Shared { config, images, events, tokio, network, state });
        let (commands, orders) = mpsc::channel();
        let worker = shared.clone();
        std::thread::Builder::new().name("runtime".to_owned()).spawn(move || {
            orders.into_iter().for_each(|command| obey(&worker, command));
        })?;
        Ok((Self { shared, commands }, receiver))
    }

    /// Gives an order; what comes of it is an event.
    pub fn execute(&self, command: RuntimeCommand) {
        // The runtime's thread ends only with the last handle.
        let _ = self.commands.send(command);
    }

    /// Fault: a signal to a container's first process.
    pub fn signal(&self, pod: &str, container: &str, signal: Signal) -> Result<(), String> {
        let state = self.shared.state();
        let found = state.pods.get(pod).and_then(|pod| pod.containers.get(container));
        let found = found.filter(|container| container.exited.is_none());
        let found = found.ok_or_else(|| format!("container {container} of pod {pod} does not run"))?;
        kill(found.pid, signal).map_err(|errno| format!("signal {signal}: {errno}"))
    }

    /// Fault: everything in a PersistentVolume is lost. Processes that hold files open keep them until they end.
    pub fn destroy_volume(&self, persistent_volume: &str) -> Result<(), String> {
        let directory = self.volume_directory(persistent_volume);
        let lost = fs::read_dir(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
        for entry in lost.flatten() {
            let gone =
                if entry.path().is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            gone.map_err(|cause| format!("{}: {cause}", entry.path().display()))?;
        }
        Ok(())
    }

    /// The PersistentVolume is no more: its data goes.
    pub fn delete_volume(&self, persistent_volume: &str) {
        // Never used, or used by a process that is being killed: what is left goes with the run directory.
        let _ = fs::remove_dir_all(self.volume_directory(persistent_volume));
    }

    /// Fault: a pod is cut off from everything but itself, or joined again.
    pub fn cut_network(&self, pod: &str, off: bool) -> Result<(), String> {
        self.shared.network().cut(pod, off)
    }

    /// Where a PersistentVolume's data is.
    pub fn volume_directory(&self, persistent_volume: &str) -> PathBuf {
        self.shared.config.run_dir.join("volumes").join(persistent_volume)
    }

    /// The attempts of a container that have a log, in order.
    pub(super) fn attempts(&self, pod: &str, container: &str) -> Vec<u32> {
        let directory = self.shared.config.run_dir.join("logs").join(pod).join(container);
        let all = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> = all.filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The log of an attempt.
    pub(super) fn log_path(&self, pod: &str, container: &str, attempt: u32) -> PathBuf {
        self.shared.config.run_dir.join("logs").join(pod).join(container).join(format!("{attempt}.log"))
    }

    /// Whether a container runs here.
    pub(super) fn is_running(&self, pod: &str, container: &str) -> bool {
        let state = self.shared.state();
        let found = state.pods.get(pod).and_then(|pod| pod.containers.get(container));
        found.is_some_and(|container| container.exited.is_none())
    }

    /// The process ids, in the sandbox, of all containers that run.
    pub fn running(&self) -> Vec<i32> {
        let state = self.shared.state();
        let all = state.pods.values().flat_map(|pod| pod.containers.values());
        all.filter(|container| container.exited.is_none()).map(|container| container.pid.as_raw()).collect()
    }

    /// Kills everything and waits until it is gone.
    pub fn shut_down(&self) {
        let pods: Vec<PodId> = self.shared.state().pods.keys().cloned().collect();
        pods.iter().for_each(|pod| tear_down(&self.shared, pod));
    }
}

impl std::fmt::Debug for ProcessRuntime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProcessRuntime").field("run_dir", &self.shared.config.run_dir).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held leaves maps that are at worst out of date.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        // As above: what a panic leaves half made, the next tear-down takes away.
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: RuntimeEvent) {
        // Nobody listens any more: the driver is shutting down.
        let _ = self.events.send(event);
    }

    fn pod_directory(&self, pod: &str) -> PathBuf {
        self.config.run_dir.join("pods").join(pod)
    }
}

fn obey(shared: &Arc<Shared>, command: RuntimeCommand) {
    match command {
        RuntimeCommand::List => shared.tell(RuntimeEvent::Listed { pods: list(shared) }),
        RuntimeCommand::SetUpPod { pod, namespace, name, hostname, subdomain, volumes } => {
            let made = set_up(shared, &pod, (namespace, name), hostname, subdomain, &volumes);
            shared.tell(match made {
                Ok(ip) => RuntimeEvent::PodSetUp { pod, ip: ip.to_string() },
                Err(message) => RuntimeEvent::PodSetUpFailed { pod, message },
            });
        }
        RuntimeCommand::UpdateVolumes { pod, volumes } => {
            let known = shared.state().pods.get(&pod).map(|pod| pod.volumes.clone()).unwrap_or_default();
            for volume in &volumes {
                if let (PodVolume::Files { files, .. }, Some(directory)) = (volume, known.get(volume.name()))
                    && let Err(cause) = write_files(directory, files)
                {
                    tracing::warn!(pod, volume = volume.name(), %cause, "cannot update a volume");
                }
            }
        }
        RuntimeCommand::StartContainer(start) => start_container(shared, &start),
        RuntimeCommand::StopContainer { pod, container, grace_seconds } => stop(shared, pod, container, grace_seconds),
        RuntimeCommand::Probe { pod, container, probe_id, action, timeout_seconds } => {
            let state = shared.state();
            let Some(found) = state.pods.get(&pod) else { return };
            let running = found.containers.get(&container).filter(|container| container.exited.is_none());
            let Some(pid) = running.map(|container| container.pid) else { return };
            let (ip, events) = (found.network.ip, shared.events.clone());
            shared.tokio.spawn(async move {
                let seconds = u64::try_from(timeout_seconds).unwrap_or(1).max(1);
                let answer = probe::run(&action, ip, pid, Duration::from_secs(seconds)).await;
                let (ok, message) = answer.map_or_else(|message| (false, message), |()| (true, String::new()));
                let _ = events.send(RuntimeEvent::Probed { probe_id, ok, message });
            });
        }
        RuntimeCommand::TearDownPod { pod } => {
            tear_down(shared, &pod);
            shared.tell(RuntimeEvent::TornDown { pod });
        }
    }
}

fn list(shared: &Shared) -> Vec<RuntimePod> {
    let state = shared.state();
    let container = |(name, container): (&String, &Container)| RuntimeContainer {
        container: name.clone(),
        attempt: container.attempt,
        image: container.image.clone(),
        exited: container.exited,
    };
    let pod = |(id, pod): (&PodId, &Pod)| RuntimePod {
        pod: id.clone(),
        ip: pod.network.ip.to_string(),
        containers: pod.containers.iter().map(container).collect(),
    };
    state.pods.iter().map(pod).collect()
}

fn set_up(
    shared: &Shared,
    pod: &str,
    (namespace, name): (String, String),
    hostname: Option<String>,
    subdomain: Option<String>,
    volumes: &[PodVolume],
) -> Result<Ipv4Addr, String> {
    let directory = shared.pod_directory(pod);
    let (mut places, mut tmpfs) = (BTreeMap::new(), Vec::new());
    for volume in volumes {
        let place = place_of(shared, &directory, volume);
        fs::create_dir_all(&place).map_err(|cause| format!("{}: {cause}", place.display()))?;
        match volume {
            PodVolume::Files { files, .. } => write_files(&place, files)?,
            PodVolume::EmptyDir { memory: true, size_limit, .. } => {
                let size = size_limit.map(|bytes| format!("size={bytes}"));
                mount(Some("tmpfs"), &place, Some("tmpfs"), MsFlags::MS_NOSUID, size.as_deref())
                    .map_err(|errno| format!("mount {}: {errno}", place.display()))?;
                tmpfs.push(place.clone());
            }
            _ => {}
        }
        places.insert(volume.name().to_owned(), place);
    }
    let network = shared.network().add_pod(pod)?;
    let ip = network.ip;
    let hostname = hostname.unwrap_or_else(|| name.clone());
    let containers = BTreeMap::new();
    let made = Pod { namespace, name, hostname, subdomain, network, volumes: places, tmpfs, containers };
    shared.state().pods.insert(pod.to_owned(), made);
    Ok(ip)
}

fn place_of(shared: &Shared, pod: &Path, volume: &PodVolume) -> PathBuf {
    match volume {
        PodVolume::Claim { persistent_volume, .. } => shared.config.run_dir.join("volumes").join(persistent_volume),
        PodVolume::HostPath { path, .. } => PathBuf::from(path),
        PodVolume::EmptyDir { name, .. } | PodVolume::Files { name, .. } => pod.join("volumes").join(name),
    }
}

/// Each file is replaced as a whole, so that a reader sees the old or the new one; files that are no more are removed.
fn write_files(directory: &Path, files: &BTreeMap<String, VolumeFile>) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let fail = |cause: std::io::Error| format!("{}: {cause}", directory.display());
    for (path, file) in files {
        if path.split('/').any(|part| part == "..") || path.starts_with('/') {
            return Err(format!("{path:?} would lie outside its volume"));
        }
        let (target, fresh) = (directory.join(path), directory.join(format!(".{}.new", path.replace('/', "_"))));
        fs::create_dir_all(target.parent().unwrap_or(directory)).map_err(fail)?;
        fs::write(&fresh, &file.data).map_err(fail)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(file.mode)).map_err(fail)?;
        fs::rename(&fresh, &target).map_err(fail)?;
    }
    for entry in fs::read_dir(directory).map_err(fail)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kept = files.keys().any(|path| path.split('/').next() == Some(&name));
        if !kept && entry.path().is_file() {
            fs::remove_file(entry.path()).map_err(fail)?;
        }
    }
    Ok(())
}

fn start_container(shared: &Arc<Shared>, start: &ContainerStart) {
    let (pod, container, attempt) = (start.pod.clone(), start.container.clone(), start.attempt);
    let image = match shared.images.resolve(&start.image) {
        Ok(image) => image,
        Err(message) => return shared.tell(RuntimeEvent::ImageMissing { pod, container, message }),
    };
    let failed = |reason: &str, message: String| {
        let (pod, container, reason) = (pod.clone(), container.clone(), reason.to_owned());
        shared.tell(RuntimeEvent::StartFailed { pod, container, attempt, reason, message });
    };
    let found = shared.state().pods.get(&pod).cloned();
    let Some(found) = found else { return failed("CreateContainerError", "the pod has no sandbox".to_owned()) };
    let home = shared.pod_directory(&pod).join("containers").join(format!("{container}-{attempt}"));
    let spec = match prepare(shared, &found, start, &image, &home) {
        Ok(spec) => spec,
        Err(message) => return failed("CreateContainerError", message),
    };
    let log = shared.config.run_dir.join("logs").join(&pod).join(&container).join(format!("{attempt}.log"));
    let ended = {
        let (shared, pod, container) = (shared.clone(), pod.clone(), container.clone());
        move |exit: Exit| exited(&shared, pod, container, attempt, exit, &home.join("termination-log"))
    };
    match launch::start(&spec, &log, ended) {
        Ok(started) => {
            let record = Container { attempt, image: start.image.clone(), pid: started.pid, exited: None };
            if let Some(pod) = shared.state().pods.get_mut(&pod) {
                pod.containers.insert(container.clone(), record);
            }
            shared.tell(RuntimeEvent::Started { pod, container, attempt });
            // Only now may its end be reported: nobody hears of an end before the beginning.
            started.release();
        }
        Err(message) => failed("StartError", message),
    }
}

/// What the container's first process shall do, and the files it needs for that.
fn prepare(
    shared: &Shared,
    pod: &Pod,
    start: &ContainerStart,
    image: &ImageRoot,
    home: &Path,
) -> Result<PathBuf, String> {
    let fail = |cause: std::io::Error| format!("{}: {cause}", home.display());
    let (root, message) = (home.join("root"), home.join("termination-log"));
    fs::create_dir_all(&root).map_err(fail)?;
    fs::write(&message, "").map_err(fail)?;
    let mut binds = Vec::new();
    let mut add = |source: PathBuf, target: PathBuf, read_only| binds.push(Bind { source, target, read_only });
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        let device = PathBuf::from("/dev").join(device);
        add(device.clone(), device, false);
    }
    for file in &image.files {
        add(file.source.clone(), file.target.clone(), true);
    }
    if image.files.iter().any(|file| file.source.is_file() && images::is_dynamic(&file.source)) {
        for library in ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"] {
            let covered = image.files.iter().any(|file| Path::new(library).starts_with(&file.target));
            if Path::new(library).exists() && !covered {
                add(PathBuf::from(library), PathBuf::from(library), true);
            }
        }
    }
    for wanted in &start.mounts {
        let place = pod.volumes.get(&wanted.volume);
        let place = place.ok_or_else(|| format!("no volume named \"{}\" in the pod", wanted.volume))?;
        let source = wanted.sub_path.as_ref().map_or_else(|| place.clone(), |path| place.join(path));
        if !source.exists() {
            fs::create_dir_all(&source).map_err(fail)?;
        }
        add(source, PathBuf::from(&wanted.path), wanted.read_only);
    }
    add(message, PathBuf::from(&start.termination_message_path), false);
    binds.sort_by_key(|bind| bind.target.components().count());
    let (argv, env) = (command_line(start, image), environment(pod, start, image));
    let working_dir = start.working_dir.clone().or_else(|| image.working_dir.clone()).unwrap_or("/".to_owned());
    let files = small_files(&shared.config, pod);
    let network = pod.network.namespace.clone();
    let (hostname, working_dir) = (pod.hostname.clone(), PathBuf::from(working_dir));
    let read_only_root = start.read_only_root;
    let spec = ContainerSpec { root, network, hostname, binds, files, argv, env, working_dir, read_only_root };
    let file = home.join("spec.json");
    let text = serde_json::to_vec(&spec).map_err(|cause| cause.to_string())?;
    fs::write(&file, text).map_err(fail)?;
    Ok(file)
}

fn command_line(start: &ContainerStart, image: &ImageRoot) -> Vec<String> {
    let (mut argv, own) = match start.command.is_empty() {
        true => (image.entrypoint.clone(), image.arguments.as_slice()),
        false => (start.command.clone(), [].as_slice()),
    };
    argv.extend_from_slice(if start.args.is_empty() { own } else { &start.args });
    argv
}

fn environment(pod: &Pod, start: &ContainerStart, image: &ImageRoot) -> Vec<(String, String)> {
    let mut env = vec![("HOSTNAME".to_owned(), pod.hostname.clone()), ("HOME".to_owned(), "/root".to_owned())];
    for (key, value) in image.env.iter().chain(&start.env) {
        env.retain(|(known, _)| known != key);
        env.push((key.clone(), value.clone()));
    }
    env
}

/// The files that kubelet and the container runtime write.
fn small_files(config: &RuntimeConfig, pod: &Pod) -> Vec<(PathBuf, String)> {
    let Pod { namespace, hostname, subdomain, network, .. } = pod;
    let domain = &config.cluster_domain;
    let full = match subdomain {
        Some(subdomain) => format!("{hostname}.{subdomain}.{namespace}.svc.{domain}\t{hostname}"),
        None => hostname.clone(),
    };
    let resolv = format!(
        "search {namespace}.svc.{domain} svc.{domain} {domain}\nnameserver {}\noptions ndots:5\n",
        config.resolver
    );
    let hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{}\t{full}\n", network.ip);
    [
        ("/etc/resolv.conf", resolv),
        ("/etc/hosts", hosts),
        ("/etc/hostname", format!("{hostname}\n")),
        ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n".to_owned()),
        ("/etc/group", "root:x:0:\nnobody:x:65534:\n".to_owned()),
        ("/etc/nsswitch.conf", "hosts: files dns\n".to_owned()),
    ]
    .map(|(path, content)| (PathBuf::from(path), content))
    .to_vec()
}

fn exited(shared: &Shared, pod: PodId, container: String, attempt: u32, exit: Exit, message: &Path) {
    let text = fs::read(message).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(TERMINATION_MESSAGE_MAX)]).into_owned();
    let mut state = shared.state();
    let known = state.pods.get_mut(&pod).and_then(|pod| pod.containers.get_mut(&container));
    if let Some(known) = known.filter(|known| known.attempt == attempt) {
        known.exited = Some((exit.code, exit.signal));
    }
    drop(state);
    let (exit_code, signal, termination_message) = (exit.code, exit.signal, text);
    shared.tell(RuntimeEvent::Exited { pod, container, attempt, exit_code, signal, termination_message });
}

fn stop(shared: &Arc<Shared>, pod: PodId, container: String, grace_seconds: i64) {
    let grace = u64::try_from(grace_seconds).unwrap_or_default();
    let first = if grace == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
    let Some(attempt) = signal_attempt(shared, &pod, &container, None, first) else { return };
    let later = shared.clone();
    shared.tokio.spawn(async move {
        tokio::time::sleep(Duration::from_secs(grace)).await;
        signal_attempt(&later, &pod, &container, Some(attempt), Signal::SIGKILL);
    });
}

/// Signals a running container, if it is this attempt; which attempt it was.
fn signal_attempt(shared: &Shared, pod: &str, container: &str, attempt: Option<u32>, signal: Signal) -> Option<u32> {
    let state = shared.state();
    let found = state.pods.get(pod)?.containers.get(container)?;
    if found.exited.is_some() || attempt.is_some_and(|attempt| attempt != found.attempt) {
        return None;
    }
    // It may be ending just now, which is what is wanted.
    let _ = kill(found.pid, signal);
    Some(found.attempt)
}

fn tear_down(shared: &Shared, pod: &str) {
    let alive = |state: &State| -> Vec<Pid> {
        let containers = state.pods.get(pod).into_iter().flat_map(|pod| pod.containers.values());
        containers.filter(|container| container.exited.is_none()).map(|container| container.pid).collect()
    };
    for pid in alive(&shared.state()) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    let step = Duration::from_millis(5);
    for _ in 0..KILL_PATIENCE.as_millis() / step.as_millis() {
        if alive(&shared.state()).is_empty() {
            break;
        }
        std::thread::sleep(step);
    }
    let mut state = shared.state();
    if let Some(gone) = state.pods.remove(pod) {
        for place in &gone.tmpfs {
            let _ = umount2(place, MntFlags::MNT_DETACH);
        }
        tracing::debug!(namespace = gone.namespace, name = gone.name, "pod torn down");
    }
    drop(state);
    if let Err(why) = shared.network().remove_pod(pod) {
        tracing::warn!(pod, why, "cannot take a pod's network away");
    }
    // Roots are mounted in the containers' own namespaces only, so nothing but directories is left here.
    let _ = fs::remove_dir_all(shared.pod_directory(pod));
}
