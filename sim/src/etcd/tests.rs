//! The fake etcd against what etcd is known to do.

use etcd_operator::ports::EtcdError;

use super::boot::{BootFlags, Launch};
use super::{BootFailure, Etcds, ProcessId, Volume};
use crate::network::{Cut, Network};

struct Fixture {
    etcds: Etcds,
    network: Network,
    now: u64,
    processes: Vec<Option<ProcessId>>,
}

fn url(index: usize) -> String {
    format!("http://m{index}:2380")
}

fn pod(url: &str) -> Option<String> {
    let host = url.strip_prefix("http://")?.strip_suffix(":2380")?;
    Some(format!("ns/{host}"))
}

fn refused(message: &str) -> EtcdError {
    EtcdError::Refused { message: format!("etcdserver: {message}") }
}

impl Fixture {
    fn new(members: usize) -> Self {
        let mut fixture =
            Self { etcds: Etcds::new(1), network: Network::default(), now: 0, processes: vec![None; members] };
        for index in 0..members {
            fixture.start(index, members, false).unwrap();
        }
        fixture.pass(60_000);
        fixture
    }

    fn start(&mut self, index: usize, of: usize, existing: bool) -> Result<(), BootFailure> {
        self.start_version(index, of, existing, (5, 26))
    }

    fn start_version(
        &mut self,
        index: usize,
        of: usize,
        existing: bool,
        version: (u32, u32),
    ) -> Result<(), BootFailure> {
        let flags = BootFlags {
            name: format!("m{index}"),
            initial_cluster: (0..of).map(|index| (format!("m{index}"), url(index))).collect(),
            existing,
            token: "t".into(),
            peer_urls: vec![url(index)],
            client_urls: vec![format!("http://m{index}:2379")],
        };
        let launch = Launch { pod: format!("ns/m{index}"), volume: format!("pv:{index}"), version, flags };
        let id = self.etcds.start(self.now, &self.network, &pod, launch)?;
        self.processes.resize(self.processes.len().max(index + 1), None);
        self.processes[index] = Some(id);
        Ok(())
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 250 {
            self.now += 250;
            self.etcds.tick(self.now, &self.network);
        }
    }

    fn kill(&mut self, index: usize) {
        if let Some(process) = self.processes[index].take() {
            self.etcds.kill(process);
        }
    }

    fn id(&self, index: usize) -> ProcessId {
        self.processes[index].unwrap()
    }

    fn leader(&self) -> usize {
        (0..self.processes.len())
            .find(|index| {
                self.processes[*index]
                    .and_then(|id| self.etcds.processes.get(&id))
                    .is_some_and(super::Process::is_leader)
            })
            .unwrap()
    }

    fn write(&mut self, index: usize, key: &str, value: &str) -> Result<i64, EtcdError> {
        let id = self.id(index);
        let written = self.etcds.write(id, key.as_bytes(), value.as_bytes(), self.now, &self.network);
        written.map(|revision| revision.0)
    }

    fn read(&mut self, index: usize, key: &str) -> Result<Option<String>, EtcdError> {
        let id = self.id(index);
        let (value, _) = self.etcds.read(id, key.as_bytes(), self.now, &self.network)?;
        Ok(value.map(|value| String::from_utf8(value).unwrap()))
    }
}

#[test]
fn three_members_elect_a_leader_and_serve() {
    let mut fixture = Fixture::new(3);
    assert_eq!(fixture.write(0, "a", "1"), Ok(2));
    assert_eq!(fixture.write(1, "a", "2"), Ok(3));
    assert_eq!(fixture.read(2, "a"), Ok(Some("2".into())));
    let status = fixture.etcds.status(fixture.id(0)).unwrap();
    let members = fixture.etcds.members(fixture.id(0), true, fixture.now, &fixture.network).unwrap();
    assert_eq!((members.members.len(), members.cluster_id), (3, status.cluster_id));
    assert!(members.members.iter().all(etcd_operator::model::EtcdMember::has_started));
}

#[test]
fn two_of_three_go_on_and_one_does_not() {
    let mut fixture = Fixture::new(3);
    let leader = fixture.leader();
    fixture.kill(leader);
    fixture.pass(10_000);
    let other = fixture.leader();
    assert!(fixture.write(other, "a", "1").is_ok());
    fixture.kill(other);
    let last = (0..3).find(|index| *index != leader && *index != other).unwrap();
    fixture.pass(10_000);
    assert!(fixture.write(last, "a", "2").is_err() && fixture.read(last, "a").is_err());
    fixture.start(other, 3, false).unwrap();
    fixture.pass(10_000);
    assert_eq!(fixture.read(last, "a"), Ok(Some("1".into())));
}

#[test]
fn a_leader_without_quorum_does_not_acknowledge_and_does_not_answer_reads() {
    let mut fixture = Fixture::new(3);
    let leader = fixture.leader();
    fixture.network.cut(1, Cut::PodFromPods(format!("ns/m{leader}")));
    assert!(matches!(fixture.write(leader, "a", "1"), Err(EtcdError::Ambiguous { .. })));
    assert!(fixture.read(leader, "a").is_err());
    fixture.pass(10_000);
    let other = (0..3).find(|index| *index != leader).unwrap();
    assert!(fixture.write(other, "a", "2").is_ok());
    fixture.network.heal_all();
    fixture.pass(10_000);
    assert_eq!(fixture.read(leader, "a"), Ok(Some("2".into())));
    assert!(fixture.etcds.committed.values().all(|committed| committed.diverged.is_none()));
}

#[test]
fn a_wiped_voter_that_votes_again_can_lose_acknowledged_writes() {
    // Written by m_leader and one follower; then that follower is wiped and the leader is away: the third, which never
    // saw the write, and the wiped one are a quorum.
    let mut fixture = Fixture::new(3);
    let leader = fixture.leader();
    let (wiped, behind) = ((leader + 1) % 3, (leader + 2) % 3);
    fixture.kill(behind);
    assert!(fixture.write(leader, "a", "1").is_ok());
    fixture.kill(leader);
    fixture.kill(wiped);
    fixture.etcds.volumes.insert(format!("pv:{wiped}"), Volume::default());
    fixture.start(wiped, 3, false).unwrap();
    fixture.start(behind, 3, false).unwrap();
    fixture.pass(10_000);
    assert_eq!(fixture.read(behind, "a"), Ok(None));
    assert!(fixture.write(behind, "b", "1").is_ok());
    assert!(fixture.etcds.committed.values().any(|committed| committed.diverged.is_some()), "the ghost notices");
}

#[test]
fn a_wiped_follower_panics_under_the_leader_that_knew_it() {
    let mut fixture = Fixture::new(3);
    let leader = fixture.leader();
    let wiped = (leader + 1) % 3;
    fixture.kill(wiped);
    fixture.etcds.volumes.insert(format!("pv:{wiped}"), Volume::default());
    let refused = fixture.start(wiped, 3, false).unwrap_err();
    assert!(refused.message.contains("already been bootstrapped"), "{refused:?}");
    fixture.start(wiped, 3, true).unwrap();
    fixture.pass(1000);
    let exits = fixture.etcds.take_exits();
    assert!(exits.iter().any(|exit| exit.message.contains("tocommit")), "{exits:?}");
}

#[test]
fn a_learner_joins_catches_up_and_gets_its_vote() {
    let mut fixture = Fixture::new(3);
    for number in 0..300 {
        fixture.write(0, &format!("k{number}"), "v").unwrap();
    }
    let (id, now) = (fixture.id(0), fixture.now);
    let added = fixture.etcds.member_add(id, &url(3), true, now, &fixture.network).unwrap();
    assert_eq!(
        fixture.etcds.member_add(id, &url(3), true, now, &fixture.network),
        Err(refused("Peer URLs already exists"))
    );
    assert_eq!(
        fixture.etcds.member_add(id, &url(4), true, now, &fixture.network),
        Err(refused("too many learner members in cluster"))
    );
    assert_eq!(
        fixture.etcds.member_promote(id, added, now, &fixture.network),
        Err(refused("can only promote a learner member which is in sync with leader"))
    );
    assert!(fixture.start(3, 3, true).is_err(), "its own name is not in the initial cluster");
    assert!(fixture.start(3, 5, true).unwrap_err().message.contains("member count is unequal"));
    fixture.start(3, 4, true).unwrap();
    fixture.pass(10_000);
    fixture.etcds.member_promote(id, added, fixture.now, &fixture.network).unwrap();
    fixture.pass(10_000);
    assert_eq!(fixture.read(3, "k299"), Ok(Some("v".into())));
    let network = &fixture.network;
    assert_eq!(fixture.etcds.healthy(network, fixture.etcds.processes[&id].cluster).len(), 4);
}

#[test]
fn members_are_not_added_or_removed_when_that_would_cost_the_quorum() {
    let mut fixture = Fixture::new(3);
    let down = (fixture.leader() + 1) % 3;
    let asked = fixture.leader();
    let ids: Vec<_> = (0..3).map(|index| fixture.etcds.processes[&fixture.id(index)].member).collect();
    fixture.kill(down);
    fixture.pass(2000);
    let (id, now) = (fixture.id(asked), fixture.now);
    assert_eq!(fixture.etcds.member_add(id, &url(3), false, now, &fixture.network), Err(refused("unhealthy cluster")));
    let other = ids[(asked + 2) % 3];
    assert_eq!(fixture.etcds.member_remove(id, other, now, &fixture.network), Err(refused("unhealthy cluster")));
    fixture.etcds.member_remove(id, ids[down], now, &fixture.network).unwrap();
    let refused = fixture.start(down, 3, true);
    assert!(
        refused.is_err() || {
            fixture.pass(1000);
            !fixture.etcds.take_exits().is_empty()
        },
        "it never runs again"
    );
}

#[test]
fn a_removed_member_stops_when_it_hears_of_it() {
    let mut fixture = Fixture::new(3);
    let asked = fixture.leader();
    let removed = (asked + 1) % 3;
    let member = fixture.etcds.processes[&fixture.id(removed)].member;
    let id = fixture.id(asked);
    fixture.etcds.member_remove(id, member, fixture.now, &fixture.network).unwrap();
    fixture.pass(1000);
    let exits = fixture.etcds.take_exits();
    assert!(exits.iter().any(|exit| exit.message.contains("permanently removed")), "{exits:?}");
}

#[test]
fn versions_move_up_one_minor_at_a_time_and_never_down() {
    let mut fixture = Fixture::new(1);
    fixture.kill(0);
    assert!(fixture.start_version(0, 1, false, (7, 0)).is_err(), "skips a minor");
    fixture.start_version(0, 1, false, (6, 10)).unwrap();
    fixture.pass(10_000);
    fixture.kill(0);
    assert!(fixture.start_version(0, 1, false, (5, 26)).unwrap_err().message.contains("cannot be downgraded"));
}

#[test]
fn a_snapshot_restores_to_the_same_keys_under_another_cluster_id() {
    let mut fixture = Fixture::new(1);
    fixture.write(0, "a", "1").unwrap();
    let bytes = fixture.etcds.snapshot(fixture.id(0)).unwrap();
    let cluster = fixture.etcds.processes[&fixture.id(0)].cluster;
    fixture.kill(0);
    let flags = BootFlags {
        name: "m0".into(),
        initial_cluster: vec![("m0".into(), url(0))],
        token: "other".into(),
        peer_urls: vec![url(0)],
        ..BootFlags::default()
    };
    let mut broken = bytes.clone();
    broken[3] ^= 1;
    assert!(fixture.etcds.restore("ns/m0", &broken, &flags).is_err());
    let disk = fixture.etcds.restore("ns/m0", &bytes, &flags).unwrap();
    assert_ne!(disk.cluster, cluster);
    fixture.etcds.volumes.insert("pv:0".into(), Volume { disk: Some(disk), ..Volume::default() });
    fixture.start(0, 1, false).unwrap();
    fixture.pass(10_000);
    assert_eq!(fixture.read(0, "a"), Ok(Some("1".into())));
    assert_eq!(fixture.write(0, "a", "2"), Ok(3));
}
