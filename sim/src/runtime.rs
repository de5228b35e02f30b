//! The container runtime of the simulated nodes: pods with volumes, containers whose command lines are read with the
//! operator's own agent code, and fake etcd processes in them.

use std::collections::BTreeMap;

use etcd_operator::agent::command::{Command, Fetch, Restore, Run};
use etcd_operator::agent::restore::{RestoreError, restore};
use etcd_operator::agent::run::{RunError, prepare};
use etcd_operator::agent::{DATA_LOST_EXIT_CODE, EtcdFlags, InitialState};
use etcd_operator::model::Version;
use etcd_operator::ports::Credentials;
use fake_k8s::controllers::runtime::{
    ContainerStart, PodId, PodVolume, ProbeAction, RuntimeCommand, RuntimeContainer, RuntimeEvent, RuntimePod,
};

use crate::etcd::boot::{BootFlags, Launch};
use crate::etcd::{Exit, ProcessId, VolumeId};
use crate::files::Files;
use crate::network::Place;
use crate::world::{Due, World};

/// Exit code of a container whose command the simulation does not know.
const UNKNOWN_COMMAND: i32 = 127;
/// Killed by SIGKILL, ended by SIGTERM.
const KILLED: (i32, Option<i32>) = (137, Some(9));
const TERMINATED: (i32, Option<i32>) = (143, Some(15));

/// A pod as the runtime holds it.
#[derive(Debug)]
pub struct SimPod {
    /// Its node.
    pub node: String,
    /// `namespace/name`.
    pub key: String,
    /// Host name and subdomain: how it is looked up.
    pub hostname: String,
    /// The headless Service.
    pub subdomain: Option<String>,
    /// Its address.
    pub ip: String,
    /// Directories by volume name.
    pub volumes: BTreeMap<String, VolumeId>,
    /// Files from Secrets and the like by volume name.
    pub given: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// Containers by name.
    pub containers: BTreeMap<String, SimContainer>,
}

/// The last attempt of a container.
#[derive(Debug)]
pub struct SimContainer {
    /// What it was started with.
    pub start: ContainerStart,
    /// The etcd process in it.
    pub process: Option<ProcessId>,
    /// Whether it was reported as started.
    pub running: bool,
    /// Exit code and signal, once it ended.
    pub exited: Option<(i32, Option<i32>)>,
}

impl SimPod {
    /// The files of a Secret that is mounted at this path.
    fn secret(&self, start: &ContainerStart, path: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let mount = start.mounts.iter().find(|mount| mount.path.trim_end_matches('/') == path.trim_end_matches('/'))?;
        self.given.get(&mount.volume).cloned()
    }

    /// The directory behind a path of a container, and the path in it.
    fn locate(&self, start: &ContainerStart, path: &str) -> Option<(VolumeId, String)> {
        let mount = start
            .mounts
            .iter()
            .filter(|mount| path == mount.path || path.starts_with(&format!("{}/", mount.path.trim_end_matches('/'))))
            .max_by_key(|mount| mount.path.len())?;
        let volume = self.volumes.get(&mount.volume)?;
        let rest = path[mount.path.trim_end_matches('/').len()..].trim_start_matches('/');
        let sub = mount.sub_path.as_deref().map(|sub| format!("{sub}/")).unwrap_or_default();
        Some((volume.clone(), format!("{sub}{rest}")))
    }
}

/// What a container's command came to at its start.
enum Outcome {
    /// It runs until it is stopped or its process ends.
    Runs(ProcessId),
    /// It ends by itself after this many milliseconds.
    Ends { after: u64, code: i32, message: String },
    /// It is under way elsewhere and will report.
    Elsewhere,
}

impl World {
    /// Carries out an order of a kubelet.
    pub fn order(&mut self, node: &str, command: RuntimeCommand) {
        match command {
            RuntimeCommand::List => {
                let pods = self.pods_on(node);
                self.report(node, 5, 100, RuntimeEvent::Listed { pods });
            }
            RuntimeCommand::SetUpPod { pod, namespace, name, hostname, subdomain, volumes } => {
                let key = format!("{namespace}/{name}");
                self.set_up(node, pod, key, hostname.unwrap_or(name), subdomain, &volumes);
            }
            RuntimeCommand::UpdateVolumes { .. } => {}
            RuntimeCommand::StartContainer(start) => self.accept_start(*start),
            RuntimeCommand::StopContainer { pod, container, grace_seconds } => {
                let after = if grace_seconds == 0 { 5 } else { self.streams.runtime.latency(10, 900) };
                let how = if grace_seconds == 0 { KILLED } else { TERMINATED };
                let attempt = self.runtime.get(&pod).and_then(|pod| pod.containers.get(&container));
                if let Some(attempt) = attempt.map(|container| container.start.attempt) {
                    self.after(after, Due::Stop { pod, container, attempt, how });
                }
            }
            RuntimeCommand::Probe { pod, container, probe_id, action, .. } => {
                self.after(2, Due::Probe { pod, container, probe_id, action });
            }
            RuntimeCommand::TearDownPod { pod } => self.tear_down(node, &pod),
        }
    }

    fn pods_on(&self, node: &str) -> Vec<RuntimePod> {
        let pods = self.runtime.iter().filter(|(_, pod)| pod.node == node);
        pods.map(|(id, pod)| RuntimePod {
            pod: id.clone(),
            ip: pod.ip.clone(),
            containers: pod
                .containers
                .iter()
                .filter(|(_, container)| container.running || container.exited.is_some())
                .map(|(name, container)| RuntimeContainer {
                    container: name.clone(),
                    attempt: container.start.attempt,
                    image: container.start.image.clone(),
                    exited: container.exited,
                })
                .collect(),
        })
        .collect()
    }

    fn set_up(
        &mut self,
        node: &str,
        id: PodId,
        key: String,
        hostname: String,
        subdomain: Option<String>,
        volumes: &[PodVolume],
    ) {
        if !self.runtime.contains_key(&id) {
            self.next_ip += 1;
            let ip = format!("10.0.{}.{}", self.next_ip / 250, self.next_ip % 250 + 1);
            let directories = volumes
                .iter()
                .map(|volume| {
                    let directory = match volume {
                        PodVolume::Claim { persistent_volume, .. } => format!("pv:{persistent_volume}"),
                        _ => format!("dir:{id}/{}", volume.name()),
                    };
                    (volume.name().to_owned(), directory)
                })
                .collect();
            let given = volumes
                .iter()
                .filter_map(|volume| match volume {
                    PodVolume::Files { name, files } => Some((
                        name.clone(),
                        files.iter().map(|(path, file)| (path.clone(), file.data.clone())).collect(),
                    )),
                    _ => None,
                })
                .collect();
            let pod = SimPod {
                node: node.to_owned(),
                key,
                hostname,
                subdomain,
                ip,
                volumes: directories,
                given,
                containers: BTreeMap::new(),
            };
            self.runtime.insert(id.clone(), pod);
        }
        let ip = self.runtime[&id].ip.clone();
        self.report(node, 50, 1500, RuntimeEvent::PodSetUp { pod: id, ip });
    }

    fn accept_start(&mut self, start: ContainerStart) {
        let Some(pod) = self.runtime.get_mut(&start.pod) else { return };
        let due = Due::Launch { pod: start.pod.clone(), container: start.container.clone(), attempt: start.attempt };
        let container = SimContainer { start: start.clone(), process: None, running: false, exited: None };
        pod.containers.insert(start.container, container);
        let after = self.streams.runtime.latency(50, 2500);
        self.after(after, due);
    }

    fn tear_down(&mut self, node: &str, id: &str) {
        if let Some(pod) = self.runtime.remove(id) {
            for process in pod.containers.values().filter_map(|container| container.process) {
                self.etcds.kill(process);
            }
            self.etcds.volumes.retain(|volume, _| !volume.starts_with(&format!("dir:{id}/")));
        }
        self.report(node, 10, 400, RuntimeEvent::TornDown { pod: id.to_owned() });
    }

    /// Starts the process of an accepted container.
    pub fn launch(&mut self, pod: &str, container: &str, attempt: u32) {
        let Some(found) = self.runtime.get(pod) else { return };
        let Some(start) = found.containers.get(container).map(|container| container.start.clone()) else { return };
        if start.attempt != attempt || found.containers[container].exited.is_some() {
            return;
        }
        let node = found.node.clone();
        let outcome = self.interpret(pod, &start);
        if let Some(container) = self.container_mut(pod, container) {
            container.running = true;
            if let Outcome::Runs(process) = outcome {
                container.process = Some(process);
            }
        }
        let started = RuntimeEvent::Started { pod: pod.to_owned(), container: container.to_owned(), attempt };
        self.report(&node, 1, 10, started);
        if let Outcome::Ends { after, code, message } = outcome {
            let (pod, container) = (pod.to_owned(), container.to_owned());
            self.after(after, Due::End { pod, container, attempt, how: (code, None), message });
        }
    }

    fn container_mut(&mut self, pod: &str, container: &str) -> Option<&mut SimContainer> {
        self.runtime.get_mut(pod)?.containers.get_mut(container)
    }

    /// A container ended, by itself or by order.
    pub fn end(&mut self, pod: &str, container: &str, attempt: u32, how: (i32, Option<i32>), message: &str) {
        let Some(found) = self.container_mut(pod, container) else { return };
        if found.start.attempt != attempt || found.exited.is_some() {
            return;
        }
        found.exited = Some(how);
        found.running = false;
        if let Some(process) = found.process.take() {
            self.etcds.kill(process);
        }
        let node = self.runtime[pod].node.clone();
        let key = self.runtime[pod].key.clone();
        self.note("runtime", format!("{key} {container} exits {}: {message}", how.0));
        let event = RuntimeEvent::Exited {
            pod: pod.to_owned(),
            container: container.to_owned(),
            attempt,
            exit_code: how.0,
            signal: how.1,
            termination_message: message.to_owned(),
        };
        self.report(&node, 1, 50, event);
    }

    /// An etcd process ended by itself.
    pub fn process_exited(&mut self, exit: &Exit) {
        let found = self.runtime.iter().find_map(|(id, pod)| {
            let (name, container) =
                pod.containers.iter().find(|(_, container)| container.process == Some(exit.process))?;
            Some((id.clone(), name.clone(), container.start.attempt))
        });
        if let Some((pod, container, attempt)) = found {
            self.end(&pod, &container, attempt, (exit.code, None), &exit.message);
        }
    }

    fn interpret(&mut self, pod: &str, start: &ContainerStart) -> Outcome {
        let line: Vec<String> = start.command.iter().chain(&start.args).cloned().collect();
        let ends = |after, code: i32, message: &str| Outcome::Ends { after, code, message: message.to_owned() };
        let quick = self.streams.runtime.latency(20, 400);
        match line.split_first() {
            Some((program, args)) if program.ends_with("etcd-operator") => match Command::parse(args) {
                Ok(Command::Install { .. }) => ends(quick, 0, ""),
                Ok(Command::Fetch(fetch)) => self.fetch(pod, start, &fetch),
                Ok(Command::Restore(restore)) => {
                    let (code, message) = self.restore(pod, start, &restore);
                    ends(quick, code, &message)
                }
                Ok(Command::Run(run)) => self.run_agent(pod, start, &run),
                Err(error) => ends(quick, 2, &error),
            },
            Some((program, _)) if program.ends_with("/etcd") => self.etcd(pod, start, &line),
            _ => ends(quick, UNKNOWN_COMMAND, "command not found"),
        }
    }

    /// Takes the directories that a container sees out of the world.
    fn take_files(&mut self, pod: &str, start: &ContainerStart) -> Files {
        let found = &self.runtime[pod];
        let mounts: Vec<(String, VolumeId)> = start
            .mounts
            .iter()
            .filter_map(|mount| Some((mount.path.clone(), found.volumes.get(&mount.volume)?.clone())))
            .collect();
        let volumes = mounts
            .iter()
            .map(|(_, volume)| (volume.clone(), self.etcds.volumes.remove(volume).unwrap_or_default()))
            .collect();
        Files::new(mounts, volumes)
    }

    fn run_agent(&mut self, pod: &str, start: &ContainerStart, run: &Run) -> Outcome {
        let files = self.take_files(pod, start);
        let prepared = prepare(run, &files);
        self.etcds.volumes.append(&mut files.take());
        match prepared {
            Ok(()) => self.etcd(pod, start, &run.etcd),
            Err(RunError::DataLost(lost)) => {
                self.sometimes.mark(crate::sometimes::EMPTY_DISK);
                Outcome::Ends { after: 20, code: DATA_LOST_EXIT_CODE, message: lost.to_string() }
            }
            Err(error) => Outcome::Ends { after: 20, code: 1, message: error.to_string() },
        }
    }

    fn etcd(&mut self, pod: &str, start: &ContainerStart, line: &[String]) -> Outcome {
        let ends = |code: i32, message: String| Outcome::Ends { after: 30, code, message };
        let found = &self.runtime[pod];
        let flags = match EtcdFlags::parse(line) {
            Ok(flags) => flags,
            Err(error) => return ends(2, error),
        };
        let data = flags.data_dir.clone().unwrap_or_default();
        let Some((volume, _)) = found.locate(start, &data) else { return ends(1, "no volume for the data".into()) };
        let Some(version) = image_version(&start.image) else { return ends(1, "no such etcd".into()) };
        let launch = Launch {
            pod: found.key.clone(),
            volume,
            version: (version.minor, version.patch),
            flags: boot_flags(flags),
        };
        let key = found.key.clone();
        let names = self.names();
        let resolve = |url: &str| names.resolve(url);
        match self.etcds.start(self.now, &self.network, &resolve, launch) {
            Ok(process) => {
                let process_ref = &self.etcds.processes[&process];
                let what = format!("{key} starts as {} of {}", process_ref.member, process_ref.cluster);
                self.note("etcd", what);
                self.judge_births();
                Outcome::Runs(process)
            }
            Err(failure) => ends(failure.code, failure.message),
        }
    }

    fn restore(&mut self, pod: &str, start: &ContainerStart, command: &Restore) -> (i32, String) {
        let key = self.runtime[pod].key.clone();
        let files = self.take_files(pod, start);
        let etcds = &mut self.etcds;
        let result = restore(command, &files, |line| {
            let flags = EtcdFlags::parse(line)?;
            let bytes = files.read(&command.snapshot).ok_or("no such file")?;
            let target = flags.data_dir.clone().ok_or("--data-dir is missing")?;
            let disk = etcds.restore(&key, &bytes, &boot_flags(flags)).map_err(|failure| failure.message)?;
            files.put_restored(&target, disk).map_err(|error| error.to_string())
        });
        self.etcds.volumes.append(&mut files.take());
        self.judge_births();
        match result {
            Ok(done) => {
                self.note("etcd", format!("{key} restored: {done:?}"));
                (0, String::new())
            }
            Err(RestoreError::DataLost(lost)) => (DATA_LOST_EXIT_CODE, lost.to_string()),
            Err(error) => (1, error.to_string()),
        }
    }

    fn fetch(&mut self, pod: &str, start: &ContainerStart, fetch: &Fetch) -> Outcome {
        let found = &self.runtime[pod];
        let Some((volume, path)) = found.locate(start, &fetch.to) else {
            return Outcome::Ends { after: 10, code: 1, message: "no volume".into() };
        };
        let place = Place::Pod(found.key.clone());
        let credentials = Credentials(fetch.credentials.as_ref().and_then(|directory| found.secret(start, directory)));
        let taken = self.take_files(pod, start);
        let volumes = taken.take();
        self.etcds.volumes.extend(volumes.clone());
        let job = crate::agent::Job {
            pod: pod.to_owned(),
            container: start.container.clone(),
            attempt: start.attempt,
            files: taken.with_volumes(volumes),
            volume,
            path,
            fetch: fetch.clone(),
            credentials,
        };
        crate::agent::spawn(&self.shared(), place, job);
        Outcome::Elsewhere
    }

    /// Answers a probe.
    pub fn probe(&mut self, pod: &str, container: &str, probe_id: u64, action: &ProbeAction) {
        let Some(found) = self.runtime.get(pod) else { return };
        let node = found.node.clone();
        let process = found
            .containers
            .get(container)
            .and_then(|container| container.process)
            .and_then(|process| self.etcds.processes.get(&process));
        let (ok, message) = match (process, action) {
            (None, _) => (false, "connection refused".to_owned()),
            (Some(process), ProbeAction::Http { path, .. }) => match path.as_str() {
                "/version" | "/livez" => (true, String::new()),
                "/readyz" | "/health" if process.leader().is_some() => (true, String::new()),
                "/readyz" | "/health" => (false, "HTTP probe failed with statuscode: 503".to_owned()),
                _ => (false, "HTTP probe failed with statuscode: 404".to_owned()),
            },
            (Some(_), ProbeAction::Tcp { .. } | ProbeAction::Exec { .. }) => (true, String::new()),
        };
        self.report(&node, 1, 20, RuntimeEvent::Probed { probe_id, ok, message });
    }
}

/// The version in an image's tag.
fn image_version(image: &str) -> Option<Version> {
    image.rsplit_once(':')?.1.parse().ok()
}

fn boot_flags(flags: EtcdFlags) -> BootFlags {
    BootFlags {
        name: flags.name,
        initial_cluster: flags.initial_cluster,
        existing: flags.initial_state == InitialState::Existing,
        token: flags.token,
        peer_urls: flags.peer_urls,
        client_urls: flags.client_urls,
    }
}
