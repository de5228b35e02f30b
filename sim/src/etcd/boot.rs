//! How a process comes up: on its data, as a seed of a new lineage, as a joiner of an existing one; and what makes it
//! refuse. Also what `etcdutl snapshot restore` leaves behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_operator::model::{ClusterId, EtcdMember, MemberId};

use super::log::{Base, Disk, Entry, Op};
use super::state::State;
use super::{Birth, BootFailure, Etcds, Process, ProcessId, Role, VolumeId, linked};
use crate::event::Millis;
use crate::network::Network;
use crate::stream::fnv;

/// The flags of etcd that decide how it comes up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootFlags {
    /// `--name`.
    pub name: String,
    /// `--initial-cluster`.
    pub initial_cluster: Vec<(String, String)>,
    /// `--initial-cluster-state=existing`.
    pub existing: bool,
    /// `--initial-cluster-token`.
    pub token: String,
    /// `--initial-advertise-peer-urls`.
    pub peer_urls: Vec<String>,
    /// `--advertise-client-urls`.
    pub client_urls: Vec<String>,
}

/// Where and what a process is.
#[derive(Clone, Debug)]
pub struct Launch {
    /// `namespace/name` of its pod.
    pub pod: String,
    /// Its directory.
    pub volume: VolumeId,
    /// Minor and patch of its version.
    pub version: (u32, u32),
    /// Its flags.
    pub flags: BootFlags,
}

fn failure(code: i32, message: impl Into<String>) -> BootFailure {
    BootFailure { code, message: message.into() }
}

impl BootFlags {
    fn own_url(&self) -> Result<&str, BootFailure> {
        let listed = self.initial_cluster.iter().find(|(name, _)| *name == self.name);
        let Some((_, url)) = listed else {
            return Err(failure(1, format!("couldn't find local name {:?} in the initial cluster", self.name)));
        };
        if !self.peer_urls.iter().any(|advertised| advertised == url) {
            return Err(failure(
                1,
                format!("--initial-cluster has {url} but missing from --initial-advertise-peer-urls"),
            ));
        }
        Ok(url)
    }

    fn member_of(&self, url: &str) -> MemberId {
        MemberId(fnv(&[url.as_bytes(), self.token.as_bytes()]))
    }

    /// The id of the lineage that these flags make.
    pub fn cluster(&self) -> ClusterId {
        let mut ids: Vec<u64> = self.initial_cluster.iter().map(|(_, url)| self.member_of(url).0).collect();
        ids.sort_unstable();
        let bytes: Vec<u8> = ids.into_iter().flat_map(u64::to_le_bytes).collect();
        ClusterId(fnv(&[&bytes]))
    }

    /// The directory of a seed: its first entries are the members of the formation, as in etcd.
    fn seed(&self, base: Option<Arc<Base>>) -> Result<Disk, BootFailure> {
        let member = self.member_of(self.own_url()?);
        let mut members: Vec<EtcdMember> = self
            .initial_cluster
            .iter()
            .map(|(name, url)| EtcdMember {
                id: self.member_of(url),
                name: name.clone(),
                peer_urls: vec![url.clone()],
                client_urls: Vec::new(),
                learner: false,
            })
            .collect();
        members.sort_by_key(|member| member.id);
        let log: Vec<Arc<Entry>> =
            members.into_iter().map(|member| Arc::new(Entry { term: 1, op: Op::Add(member) })).collect();
        let commit = log.len();
        Ok(Disk { cluster: self.cluster(), member, term: 1, vote: None, log, commit, base })
    }
}

/// The members of the formation are committed from the beginning.
fn record_formation(committed: &mut super::Committed, disk: &Disk) {
    if committed.entries.is_empty() {
        committed.entries.clone_from(&disk.log);
        for entry in &disk.log {
            committed.state.apply(&entry.op);
        }
    }
}

impl Etcds {
    /// Starts a process.
    ///
    /// # Errors
    /// When etcd would exit at once, with its exit code and last words.
    pub fn start(
        &mut self,
        now: Millis,
        network: &Network,
        resolve: &dyn Fn(&str) -> Option<String>,
        launch: Launch,
    ) -> Result<ProcessId, BootFailure> {
        if self.processes.values().any(|process| process.volume == launch.volume) {
            return Err(failure(1, "cannot lock the data directory: another process uses it"));
        }
        let disk = self.volumes.entry(launch.volume.clone()).or_default().disk.clone();
        let disk = match disk {
            Some(disk) => disk,
            None if launch.flags.existing => self.join(network, resolve, &launch)?,
            None => self.found(network, resolve, &launch)?,
        };
        let mut state = State::of(&disk);
        if state.removed.contains(&disk.member) {
            return Err(failure(0, "the member has been permanently removed from the cluster"));
        }
        let minor = launch.version.0;
        if state.cluster_minor > minor {
            return Err(failure(1, format!("cluster cannot be downgraded (current version 3.{minor})")));
        }
        if state.cluster_minor != 0 && state.cluster_minor + 1 < minor {
            return Err(failure(2, format!("panic: cannot detect storage schema version 3.{}", state.cluster_minor)));
        }
        if state.members.is_empty() && launch.flags.existing {
            // A joiner knows the members that its peers told it, until the log tells it the same.
            state.applied = 0;
        }
        let id = self.next_process;
        self.next_process += 1;
        let process = Process {
            id,
            pod: launch.pod,
            volume: launch.volume.clone(),
            name: launch.flags.name,
            member: disk.member,
            cluster: disk.cluster,
            version: launch.version,
            client_urls: launch.flags.client_urls,
            started_at: now,
            frozen: false,
            state,
            role: Role::Follower,
            leader: None,
            heard_at: now,
            election_timeout: self.stream.between(300, 2000),
            published: false,
            progress: BTreeMap::new(),
            connected_since: BTreeMap::new(),
            quorum_at: now,
        };
        self.volumes.entry(launch.volume).or_default().disk = Some(disk);
        self.processes.insert(id, process);
        Ok(id)
    }

    fn peers<'a>(
        &'a self,
        network: &Network,
        resolve: &dyn Fn(&str) -> Option<String>,
        launch: &Launch,
    ) -> Vec<&'a Process> {
        let own = launch.flags.peer_urls.first();
        let pods = launch.flags.initial_cluster.iter().filter(|(_, url)| Some(url) != own);
        pods.filter_map(|(_, url)| resolve(url))
            .filter(|pod| linked(network, &launch.pod, pod))
            .filter_map(|pod| self.of_pod(&pod))
            .filter(|process| !process.frozen)
            .collect()
    }

    fn found(
        &mut self,
        network: &Network,
        resolve: &dyn Fn(&str) -> Option<String>,
        launch: &Launch,
    ) -> Result<Disk, BootFailure> {
        let disk = launch.flags.seed(None)?;
        let known = self.peers(network, resolve, launch).into_iter().any(|peer| {
            peer.cluster == disk.cluster
                && peer.state.members.get(&disk.member).is_some_and(|member| !member.client_urls.is_empty())
        });
        if known {
            return Err(failure(1, format!("member {} has already been bootstrapped", disk.member)));
        }
        let committed = self.committed.entry(disk.cluster).or_default();
        *committed.births.entry(disk.member).or_default() += 1;
        record_formation(committed, &disk);
        self.births.push(Birth {
            pod: launch.pod.clone(),
            cluster: disk.cluster,
            member: disk.member,
            new: true,
            restored: false,
            token: launch.flags.token.clone(),
        });
        Ok(disk)
    }

    fn join(
        &mut self,
        network: &Network,
        resolve: &dyn Fn(&str) -> Option<String>,
        launch: &Launch,
    ) -> Result<Disk, BootFailure> {
        let own = launch.flags.own_url()?.to_owned();
        let peers = self.peers(network, resolve, launch);
        let Some(peer) = peers.iter().find(|peer| !peer.state.members.is_empty()) else {
            return Err(failure(1, "cannot fetch cluster info from peer urls: could not retrieve cluster information"));
        };
        let members = &peer.state.members;
        if members.len() != launch.flags.initial_cluster.len() {
            return Err(failure(1, "error validating peerURLs: member count is unequal"));
        }
        for (_, url) in &launch.flags.initial_cluster {
            if !members.values().any(|member| member.peer_urls.contains(url)) {
                return Err(failure(
                    1,
                    format!("error validating peerURLs: unmatched member while checking PeerURLs ({url})"),
                ));
            }
        }
        let Some(member) = members.values().find(|member| member.peer_urls.contains(&own)) else {
            return Err(failure(1, "cannot find local member in the cluster"));
        };
        if peer.state.cluster_minor > launch.version.0 {
            return Err(failure(1, "cluster cannot be downgraded"));
        }
        let disk = Disk {
            cluster: peer.cluster,
            member: member.id,
            term: 0,
            vote: None,
            log: Vec::new(),
            commit: 0,
            base: None,
        };
        self.births.push(Birth {
            pod: launch.pod.clone(),
            cluster: disk.cluster,
            member: disk.member,
            new: false,
            restored: false,
            token: launch.flags.token.clone(),
        });
        Ok(disk)
    }

    /// What `etcdutl snapshot restore` does: makes a directory from a snapshot's bytes.
    ///
    /// # Errors
    /// When the bytes are no snapshot, or the flags do not fit together.
    pub fn restore(&mut self, pod: &str, bytes: &[u8], flags: &BootFlags) -> Result<Disk, BootFailure> {
        let base = self.read_snapshot(bytes).ok_or_else(|| failure(1, "expected sha256, got something else"))?;
        let disk = flags.seed(Some(base.clone()))?;
        let committed = self.committed.entry(disk.cluster).or_default();
        if committed.base.is_none() {
            committed.state.revision = base.revision;
            committed.state.keys = base.keys.clone();
            committed.base = Some(base);
        }
        record_formation(committed, &disk);
        self.births.push(Birth {
            pod: pod.to_owned(),
            cluster: disk.cluster,
            member: disk.member,
            new: true,
            restored: true,
            token: flags.token.clone(),
        });
        Ok(disk)
    }
}
