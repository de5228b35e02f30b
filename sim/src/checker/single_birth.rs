//! S3: a cluster is born once. A directory is made with state `new` only while no lineage of the EtcdCluster has formed,
//! or by a restore under a fresh token; and no member's directory is made twice. A restore is one that somebody asked for,
//! each gives one lineage, and a token belongs to one formation. At the end an EtcdCluster has had one lineage, and one
//! more for each restore that it says it went through. An attempt may be thrown away as long as
//! no client was let into it: status never named it, and nothing was acknowledged. (It may have formed behind the back of
//! an operator that is cut off from it: the Service of the clients is closed until status says so.)
//!
//! NOT verified: that an abandoned attempt had good reason to be abandoned.

use std::collections::{BTreeMap, BTreeSet};

use etcd_operator::model::{ClusterId, MemberId};
use fake_k8s::server::ResourceName;

use super::Checker;
use crate::converge;
use crate::etcd::Birth;
use crate::ghost;
use crate::world::World;

/// S3.
#[derive(Default)]
pub struct SingleBirth {
    born: BTreeMap<(ClusterId, MemberId), String>,
    /// The lineage that was formed under each token.
    tokens: BTreeMap<String, ClusterId>,
    /// The EtcdCluster that each EtcdRestore is about, by the uid of the EtcdRestore.
    asked: BTreeMap<String, String>,
    /// uids of the EtcdRestores that an EtcdCluster says it has been through.
    completed: BTreeMap<String, BTreeSet<String>>,
}

/// The uid that a token was made from: the EtcdCluster's, or the EtcdRestore's.
fn origin(token: &str) -> &str {
    token.rsplit_once('-').map_or(token, |(uid, _)| uid)
}

/// Whether a lineage is a cluster that counts: it formed, and clients may have been let into it.
fn counts(world: &World, cluster: ClusterId) -> bool {
    world.etcds.formed_at(cluster).is_some() && !ghost::is_unused_attempt(world, cluster)
}

impl SingleBirth {
    fn look(&mut self, world: &World) {
        for restore in world.server.peek_all(&converge::custom("etcdrestores"), None) {
            let meta = &restore["metadata"];
            let (Some(uid), Some(namespace)) = (meta["uid"].as_str(), meta["namespace"].as_str()) else { continue };
            if !self.asked.contains_key(uid) {
                let name = restore["spec"]["etcdCluster"]["name"].as_str().unwrap_or_default();
                self.asked.insert(uid.to_owned(), format!("{namespace}/{name}"));
            }
        }
        for cluster in world.server.peek_all(&converge::custom("etcdclusters"), None) {
            let Some(uid) = cluster["status"]["lineage"]["restoredFrom"].as_str() else { continue };
            let owner = converge::key(&cluster);
            // Its own word counts only for what somebody asked for.
            if self.asked.get(uid) == Some(&owner) {
                self.completed.entry(owner).or_default().insert(uid.to_owned());
            }
        }
    }

    /// Another lineage that counts and was restored for the same EtcdRestore.
    fn restored_before(&self, world: &World, cluster: ClusterId, uid: &str) -> Option<ClusterId> {
        let same = self.tokens.iter().filter(|(token, other)| origin(token) == uid && **other != cluster);
        same.map(|(_, other)| *other).find(|other| counts(world, *other))
    }

    fn restored(&self, world: &World, birth: &Birth, owner: &str) -> Option<String> {
        let uid = origin(&birth.token);
        if self.asked.get(uid).is_none_or(|cluster| cluster != owner) {
            return Some(format!("{} is restored, and no EtcdRestore of {owner} has the uid {uid}", birth.pod));
        }
        let before = self.restored_before(world, birth.cluster, uid)?;
        Some(format!("{} is restored once more for EtcdRestore {uid}, which {owner} has as {before}", birth.pod))
    }
}

impl Checker for SingleBirth {
    fn invariant(&self) -> &'static str {
        "S3"
    }

    fn tick(&mut self, world: &World) -> Option<String> {
        self.look(world);
        None
    }

    fn birth(&mut self, world: &World, birth: &Birth) -> Option<String> {
        self.look(world);
        let twice = self.born.insert((birth.cluster, birth.member), birth.pod.clone());
        if let Some(before) = twice.filter(|_| world.etcds.formed_at(birth.cluster).is_some()) {
            return Some(format!(
                "member {} of {} starts with an empty directory in {} after it had one in {before}",
                birth.member, birth.cluster, birth.pod
            ));
        }
        if !birth.new {
            return None;
        }
        let under = self.tokens.insert(birth.token.clone(), birth.cluster).filter(|known| *known != birth.cluster);
        if let Some(known) = under {
            let (pod, token, cluster) = (&birth.pod, &birth.token, birth.cluster);
            return Some(format!("{pod} makes {cluster} under token {token}, which is that of {known}"));
        }
        let (namespace, name) = birth.pod.split_once('/')?;
        let pod = world.server.peek(&ResourceName::core("pods"), namespace, name)?;
        let owner = format!("{namespace}/{}", ghost::cluster_of(&pod)?);
        if birth.restored {
            return self.restored(world, birth, &owner);
        }
        let known = world.ghost.owner.iter().filter(|(cluster, known)| **known == owner && **cluster != birth.cluster);
        let formed = known.map(|(cluster, _)| *cluster).find(|cluster| counts(world, *cluster));
        formed.map(|cluster| format!("{} starts a new cluster although {owner} was formed as {cluster}", birth.pod))
    }

    fn end(&mut self, world: &World) -> Option<String> {
        self.look(world);
        let mut lineages: BTreeMap<&String, BTreeSet<ClusterId>> = BTreeMap::new();
        for (cluster, owner) in world.ghost.owner.iter().filter(|(cluster, _)| counts(world, **cluster)) {
            lineages.entry(owner).or_default().insert(*cluster);
        }
        lineages.into_iter().find_map(|(owner, lineages)| {
            let restores = self.completed.get(owner).map_or(0, BTreeSet::len);
            if lineages.len() > 1 + restores {
                let ids: Vec<String> = lineages.iter().map(ClusterId::to_string).collect();
                return Some(format!(
                    "{owner} was formed as {} although it was restored {restores} times",
                    ids.join(", ")
                ));
            }
            let of =
                |cluster: &ClusterId| self.tokens.iter().find(|(_, known)| *known == cluster).map(|(token, _)| token);
            lineages.iter().find_map(|cluster| {
                let uid = origin(of(cluster)?);
                let other = self.restored_before(world, *cluster, uid)?;
                Some(format!("{owner} was formed as {cluster} and as {other} from the one origin {uid}"))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{OWNER, in_world};

    #[test]
    fn one_birth_and_one_restore_are_sound() {
        in_world(|world| {
            world.form("birth-1", 3);
            world.record("birth-1", None);
            let snapshot = world.snapshot("birth-1");
            world.ask_restore();
            world.restore(&format!("{}-1", world.restore_uid()), 3, &snapshot);
            let token = format!("{}-1", world.restore_uid());
            world.record(&token, Some(&world.restore_uid()));
            assert_eq!((world.violation(), world.end()), (None, None));
        });
    }

    #[test]
    fn an_attempt_that_no_client_was_let_into_may_be_restored_anew() {
        in_world(|world| {
            world.form("birth-1", 1);
            world.record("birth-1", None);
            let snapshot = world.snapshot("birth-1");
            world.ask_restore();
            for attempt in 1..=2 {
                world.restore(&format!("{}-{attempt}", world.restore_uid()), 1, &snapshot);
            }
            let token = format!("{}-2", world.restore_uid());
            world.record(&token, Some(&world.restore_uid()));
            assert_eq!((world.violation(), world.end()), (None, None));
        });
    }

    #[test]
    fn one_restore_gives_one_lineage() {
        in_world(|world| {
            world.form("birth-1", 1);
            let snapshot = world.snapshot("birth-1");
            world.ask_restore();
            let uid = world.restore_uid();
            world.restore(&format!("{uid}-1"), 1, &snapshot);
            world.record(&format!("{uid}-1"), Some(&uid));
            assert_eq!(world.violation(), None);
            world.restore(&format!("{uid}-2"), 1, &snapshot);
            let what = world.violation().expect("a second lineage from one restore");
            assert!(what.starts_with("S3") && what.contains("is restored once more for EtcdRestore"), "{what}");
        });
    }

    #[test]
    fn nothing_is_restored_that_nobody_asked_for() {
        in_world(|world| {
            world.form("birth-1", 1);
            world.record("birth-1", None);
            let snapshot = world.snapshot("birth-1");
            world.restore("made-up-1", 1, &snapshot);
            let what = world.violation().expect("no EtcdRestore");
            assert!(what.starts_with("S3") && what.contains("no EtcdRestore of"), "{what}");
        });
    }

    #[test]
    fn a_token_belongs_to_one_formation() {
        in_world(|world| {
            world.form("birth-1", 1);
            assert_eq!(world.violation(), None);
            // Other members under the same token: another cluster id.
            world.form("birth-1", 3);
            let what = world.violation().expect("two formations under one token");
            assert!(what.starts_with("S3") && what.contains("which is that of"), "{what}");
        });
    }

    #[test]
    fn lineages_are_no_more_than_one_and_the_completed_restores() {
        in_world(|world| {
            world.form("birth-1", 1);
            world.record("birth-1", None);
            let snapshot = world.snapshot("birth-1");
            world.ask_restore();
            let token = format!("{}-1", world.restore_uid());
            world.restore(&token, 1, &snapshot);
            // Clients were let into it, and the EtcdCluster does not say that it descends from the restore.
            world.record(&token, None);
            let what = world.end().expect("two lineages without a completed restore");
            assert!(what.starts_with("S3") && what.contains(OWNER) && what.contains("restored 0 times"), "{what}");
        });
    }
}
