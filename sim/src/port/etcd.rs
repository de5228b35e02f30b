//! The Etcd port over the fake etcd.

use async_trait::async_trait;
use bytes::Bytes;
use etcd_operator::model::{Alarm, ClusterId, MemberId, MemberStatus, Membership, Revision};
use etcd_operator::ports::etcd::Snapshot;
use etcd_operator::ports::{Etcd, EtcdAccess, EtcdError};
use futures::StreamExt;

use super::Caller;
use crate::effect::Effect;
use crate::etcd::ProcessId;
use crate::network::Place;
use crate::store::FakeStore;
use crate::world::World;

/// A key that nobody writes.
const ABSENT_KEY: &[u8] = b"\0etcd-operator/quorum-read";
/// Chunks of a snapshot stream.
const CHUNK: usize = 16 * 1024;

/// etcd as this caller reaches it.
pub struct SimEtcd(pub Caller);

impl SimEtcd {
    /// The first endpoint that takes the call: its pod.
    fn dial(&self, access: &EtcdAccess) -> Result<(String, Option<ClusterId>), EtcdError> {
        let world = self.0.shared.enter();
        let mut cut = None;
        for endpoint in &access.endpoints {
            let Some(pod) = world.resolve(endpoint) else { continue };
            if !world.network.linked(&self.0.place, &Place::Pod(pod.clone())) {
                cut.get_or_insert((pod, None));
                continue;
            }
            if let Some(process) = world.etcds.of_pod(&pod) {
                return Ok((pod, Some(process.cluster)));
            }
        }
        cut.ok_or_else(|| EtcdError::Unavailable { message: "connection refused".into() })
    }

    async fn call<V: Send + 'static>(
        &self,
        access: &EtcdAccess,
        effect: impl FnOnce(ClusterId) -> Option<Effect>,
        act: impl FnOnce(&mut World, ProcessId) -> Result<V, EtcdError> + Send + 'static,
    ) -> Result<V, EtcdError> {
        let (pod, cluster) = match self.dial(access) {
            Ok(dialled) => dialled,
            Err(error) => {
                // A refusal takes a moment too: nobody spins.
                self.0.wait(2).await;
                return Err(error);
            }
        };
        let effect = cluster.and_then(effect);
        let changes = effect.is_some();
        let to = Place::Pod(pod.clone());
        let answer = self
            .0
            .exchange(to, effect, move |world: &mut World| {
                let Some(process) = world.etcds.of_pod(&pod).map(|process| process.id) else {
                    return Err(EtcdError::Unavailable { message: "connection refused".into() });
                };
                if changes && FakeStore::strikes(&mut world.faults.etcd_error_before) {
                    return Err(EtcdError::Unavailable { message: "connection reset".into() });
                }
                let result = act(world, process);
                world.lose_answer = changes && FakeStore::strikes(&mut world.faults.etcd_lost_answer);
                if matches!(result, Err(EtcdError::Ambiguous { .. })) {
                    world.lose_answer = true;
                }
                result
            })
            .await;
        answer.unwrap_or_else(|| Err(EtcdError::Ambiguous { message: "deadline exceeded".into() }))
    }
}

fn no_effect(_: ClusterId) -> Option<Effect> {
    None
}

#[async_trait]
impl Etcd for SimEtcd {
    async fn status(&self, access: &EtcdAccess) -> Result<MemberStatus, EtcdError> {
        self.call(access, no_effect, |world, process| world.etcds.status(process)).await
    }

    async fn members(&self, access: &EtcdAccess, linearizable: bool) -> Result<Membership, EtcdError> {
        self.call(access, no_effect, move |world, process| {
            world.etcds.members(process, linearizable, world.now, &world.network)
        })
        .await
    }

    async fn quorum_read(&self, access: &EtcdAccess) -> Result<Revision, EtcdError> {
        self.call(access, no_effect, |world, process| {
            world.etcds.read(process, ABSENT_KEY, world.now, &world.network).map(|(_, revision)| revision)
        })
        .await
    }

    async fn alarms(&self, access: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        self.call(access, no_effect, |world, process| world.etcds.alarms(process, world.now, &world.network)).await
    }

    async fn disarm(&self, access: &EtcdAccess, member: MemberId, _: Alarm) -> Result<(), EtcdError> {
        self.call(
            access,
            |cluster| Some(Effect::Disarm { cluster, member }),
            |world, process| world.etcds.disarm(process, world.now, &world.network),
        )
        .await
    }

    async fn member_add(&self, access: &EtcdAccess, peer_url: &str, learner: bool) -> Result<MemberId, EtcdError> {
        let url = peer_url.to_owned();
        self.call(
            access,
            |cluster| Some(Effect::MemberAdd { cluster, peer_url: peer_url.to_owned(), learner }),
            move |world, process| world.etcds.member_add(process, &url, learner, world.now, &world.network),
        )
        .await
    }

    async fn member_promote(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.call(
            access,
            |cluster| Some(Effect::MemberPromote { cluster, member }),
            move |world, process| world.etcds.member_promote(process, member, world.now, &world.network),
        )
        .await
    }

    async fn member_remove(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.call(
            access,
            |cluster| Some(Effect::MemberRemove { cluster, member }),
            move |world, process| world.etcds.member_remove(process, member, world.now, &world.network),
        )
        .await
    }

    async fn move_leader(&self, access: &EtcdAccess, to: MemberId) -> Result<(), EtcdError> {
        self.call(
            access,
            |cluster| Some(Effect::MoveLeader { cluster, member: to }),
            move |world, process| world.etcds.move_leader(process, to, world.now, &world.network),
        )
        .await
    }

    async fn hash_kv(&self, access: &EtcdAccess, _: Revision) -> Result<(u32, Revision), EtcdError> {
        self.call(access, no_effect, |world, process| world.etcds.hash_kv(process)).await
    }

    async fn snapshot(&self, access: &EtcdAccess) -> Result<Snapshot, EtcdError> {
        let (status, mut bytes, cut) = self
            .call(access, no_effect, |world, process| {
                let status = world.etcds.status(process)?;
                let bytes = world.etcds.snapshot(process)?;
                let cut =
                    FakeStore::strikes(&mut world.faults.snapshot_cut).then(|| world.streams.store.bits() as usize);
                Ok((status, Bytes::from(bytes), cut))
            })
            .await?;
        if let Some(at) = cut {
            bytes.truncate(at % bytes.len().max(1));
        }
        let mut chunks = Vec::new();
        while !bytes.is_empty() {
            chunks.push(Ok(bytes.split_to(CHUNK.min(bytes.len()))));
        }
        // Every second cut looks like a regular end of the stream.
        if cut.is_some_and(|at| at % 2 == 0) {
            chunks.push(Err(EtcdError::Unavailable { message: "stream reset".into() }));
        }
        Ok(Snapshot { status, chunks: futures::stream::iter(chunks).boxed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::fixture::{Fixture, in_time};

    #[test]
    fn what_changes_an_etcd_is_an_effect_and_what_reads_is_none() {
        in_time(|shared| async move {
            let (access, member) = {
                let mut world = shared.enter();
                let mut fixture = Fixture::of(&mut world);
                fixture.form("birth-1", 1);
                (fixture.serve("birth-1"), MemberId(7))
            };
            let caller = Caller { shared: shared.clone(), place: Place::Operator, incarnation: 1 };
            let etcd = SimEtcd(caller);
            etcd.alarms(&access).await.unwrap();
            assert_eq!(shared.enter().operator.effects, 0);
            etcd.disarm(&access, member, Alarm::NoSpace).await.unwrap();
            assert_eq!(shared.enter().operator.effects, 1);
            shared.enter().quiet = true;
            etcd.disarm(&access, member, Alarm::NoSpace).await.unwrap();
            let violation = shared.enter().violation.clone().expect("the world is converged");
            assert_eq!((violation.invariant, violation.what.contains("disarm")), ("S18", true));
        });
    }
}
