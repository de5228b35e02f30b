//! S11: nothing of the old lineage is destroyed before the restored one has a quorum and holds what the snapshot holds.
//!
//! Looked at: deletions of running members' pods and of volume claims of a formed lineage, from the moment on at which
//! the status of its EtcdCluster says that a restore is under way, or another lineage of it is being restored; then there
//! must be a restored lineage that serves. And that moment at which status calls a restored lineage confirmed, or lets it
//! take the place of the one that served: it must serve by then. An earlier attempt that no client was let into is not old
//! data; a pod that was not healthy and leaves its data on its volume may be made anew meanwhile.
//! NOT verified: that the snapshot was the one that the user asked for; what happens between the creation of an
//! EtcdRestore and the record that it is under way (that is an EtcdCluster like any other: S1 and S5).

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_operator::model::{ClusterId, MemberId};
use serde_json::Value;

use super::Checker;
use super::volumes_kept::peek;
use crate::converge;
use crate::effect::Effect;
use crate::event::Millis;
use crate::ghost;
use crate::world::World;

/// The new lineage must have had its quorum so recently.
const FRESH: Millis = 60_000;
/// A pod may be made anew when it was unhealthy so recently: what the operator saw may be so old.
const FRESH_SIGHT: Millis = 20_000;

/// S11.
#[derive(Default)]
pub struct RestoreIsSafe {
    /// Since when the status of each EtcdCluster has said that a restore is under way. What was sent before is no part of it.
    since: BTreeMap<String, Millis>,
}

impl Checker for RestoreIsSafe {
    fn invariant(&self) -> &'static str {
        "S11"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        match effect {
            Effect::Delete { kind, key, .. } => self.destroyed(world, kind, key),
            Effect::Update { kind, key, status: true, body } if kind == "EtcdCluster" => {
                if !body["status"]["restore"].is_null() {
                    self.since.entry(key.clone()).or_insert(world.now);
                }
                told(world, key, body)
            }
            _ => None,
        }
    }

    fn tick(&mut self, world: &World) -> Option<String> {
        // Also what was refused: then status never said so.
        self.since.retain(|owner, _| restore_of(world, owner).is_some());
        None
    }
}

impl RestoreIsSafe {
    fn destroyed(&self, world: &World, kind: &str, key: &str) -> Option<String> {
        let (cluster, member) = match kind {
            "Pod" => world.etcds.of_pod(key).map(|process| (process.cluster, process.member))?,
            "PersistentVolumeClaim" => {
                let claim = peek(world, "persistentvolumeclaims", key)?;
                let volume = format!("pv:{}", claim["spec"]["volumeName"].as_str()?);
                let disk = world.etcds.volumes.get(&volume)?.disk.as_ref()?;
                (disk.cluster, disk.member)
            }
            _ => return None,
        };
        let old = world.etcds.configuration(cluster)?;
        let unused = world.etcds.formed_at(cluster).is_none() || ghost::is_unused_attempt(world, cluster);
        if unused || !old.members.contains_key(&member) {
            return None;
        }
        let owner = world.ghost.owner.get(&cluster)?;
        let newer: Vec<ClusterId> = world
            .ghost
            .owner
            .iter()
            .filter(|(other, known)| {
                *known == owner && **other != cluster && is_restored_after(world, **other, cluster)
            })
            .map(|(other, _)| *other)
            .collect();
        if newer.iter().any(|other| is_sound(world, *other)) {
            return None;
        }
        let begun = self.has_begun(world, owner, cluster) && !is_repair(world, kind, key, cluster, member);
        if newer.is_empty() && !begun {
            return None;
        }
        Some(format!("{kind} {key} of lineage {cluster} is deleted before a restored lineage serves"))
    }

    /// Whether the effect was sent while a restore was under way that this lineage is not the fruit of.
    fn has_begun(&self, world: &World, owner: &str, cluster: ClusterId) -> bool {
        let sent_in_it = self.since.get(owner).is_some_and(|since| *since <= world.issued);
        sent_in_it
            && restore_of(world, owner).is_some_and(|it| id(&it["status"]["restore"]["lineage"]) != Some(cluster))
    }
}

/// An EtcdCluster whose status says that a restore is under way.
fn restore_of(world: &World, owner: &str) -> Option<Arc<Value>> {
    let (namespace, name) = owner.split_once('/')?;
    let found = world.server.peek(&converge::custom("etcdclusters"), namespace, name);
    found.filter(|cluster| !cluster["status"]["restore"].is_null())
}

/// The id of a lineage in status.
fn id(lineage: &Value) -> Option<ClusterId> {
    let id = lineage["clusterID"].as_str()?;
    u64::from_str_radix(id.trim_start_matches("0x"), 16).ok().map(ClusterId)
}

/// A pod that was not healthy is made anew, with its data.
fn is_repair(world: &World, kind: &str, key: &str, cluster: ClusterId, member: MemberId) -> bool {
    let unhealthy = world.ghost.unhealthy_at.get(&(cluster, member)).is_some_and(|at| at + FRESH_SIGHT >= world.issued);
    kind == "Pod" && unhealthy && world.data_of(key).is_some_and(|volume| volume.starts_with("pv:"))
}

/// Status says of a lineage, for the first time, that it is confirmed, or that it is the cluster instead of another one.
fn told(world: &World, key: &str, body: &Value) -> Option<String> {
    let (namespace, name) = key.split_once('/')?;
    let before = world.server.peek(&converge::custom("etcdclusters"), namespace, name)?;
    let confirmed = |object: &Value| {
        let restore = &object["status"]["restore"];
        let done = matches!(restore["phase"].as_str(), Some("Confirmed" | "Switched"));
        done.then(|| (restore["uid"].clone(), id(&restore["lineage"])))
    };
    let is_known = |lineage: Option<ClusterId>| {
        confirmed(&before).is_some_and(|(_, known)| known == lineage) || converge::serving(&before) == lineage
    };
    if let Some((_, lineage)) = confirmed(body).filter(|(_, lineage)| !is_known(*lineage)) {
        let sound = lineage.is_some_and(|lineage| is_sound(world, lineage));
        return (!sound).then(|| format!("EtcdCluster {key} calls a restore confirmed whose lineage does not serve"));
    }
    let serves = converge::serving(body).filter(|lineage| !is_known(Some(*lineage)))?;
    let old = converge::serving(&before)?;
    (!is_sound(world, serves)).then(|| format!("EtcdCluster {key} goes from {old} to {serves}, which does not serve"))
}

fn is_restored_after(world: &World, other: ClusterId, cluster: ClusterId) -> bool {
    let formed = world.etcds.formed_at(other);
    let restored = world.etcds.committed.get(&other).is_some_and(|committed| committed.base.is_some());
    restored && (formed.is_none() || formed > world.etcds.formed_at(cluster))
}

fn is_sound(world: &World, cluster: ClusterId) -> bool {
    let Some(committed) = world.etcds.committed.get(&cluster) else { return false };
    let voters = committed.state.voters();
    let healthy = voters
        .iter()
        .filter(|voter| world.ghost.healthy_at.get(&(cluster, **voter)).is_some_and(|at| at + FRESH >= world.now))
        .count();
    let revision = committed.base.as_ref().map_or(0, |base| base.revision);
    healthy > voters.len() / 2 && committed.state.revision >= revision
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fixture::{CLUSTER, Fixture, in_world};
    use crate::effect::Effect;
    use crate::network::Cut;

    const OLD: &str = "birth-1";

    /// An EtcdCluster of three that serves, an EtcdRestore, and the token of its first attempt.
    fn asked(world: &mut Fixture<'_>) -> (Vec<u8>, String) {
        world.form(OLD, 3);
        world.write(OLD, "a", "1");
        world.record(OLD, None);
        let snapshot = world.snapshot(OLD);
        world.ask_restore();
        (snapshot, format!("{}-1", world.restore_uid()))
    }

    fn status(world: &Fixture<'_>, phase: &str, token: &str, with_id: bool) -> Value {
        let uid = world.restore_uid();
        let lineage = match with_id {
            true => world.lineage(token, Some(&uid)),
            false => json!({"attempt": 1, "token": token}),
        };
        let serving = world.lineage(OLD, None);
        json!({
            "lineage": if phase == "Switched" { lineage.clone() } else { serving },
            "restore": {"name": CLUSTER, "uid": uid, "lineage": lineage, "phase": phase},
        })
    }

    fn delete(kind: &str, key: &str) -> Effect {
        Effect::Delete { kind: kind.to_owned(), key: key.to_owned(), uid: String::new() }
    }

    /// What S11 alone says: S5 wants a uid, which is of no interest here.
    fn delete_of(world: &mut Fixture<'_>, kind: &str, key: &str) -> Option<String> {
        let name = key.split_once('/').unwrap().1;
        let plural = format!("{}s", kind.to_lowercase());
        let resource = fake_k8s::server::ResourceName::core(plural);
        let uid = world.world.server.peek(&resource, "default", name).unwrap()["metadata"]["uid"].clone();
        let Effect::Delete { kind, key, .. } = delete(kind, key) else { unreachable!() };
        world.effect(Effect::Delete { kind, key, uid: uid.as_str().unwrap().to_owned() })
    }

    #[test]
    fn a_restore_step_by_step_is_sound() {
        in_world(|world| {
            let (snapshot, token) = asked(world);
            let starting = status(world, "Starting", &token, false);
            assert_eq!(world.write_status("EtcdCluster", CLUSTER, &starting), None);
            world.restore(&token, 3, &snapshot);
            for phase in ["Confirmed", "Switched"] {
                let next = status(world, phase, &token, true);
                assert_eq!(world.write_status("EtcdCluster", CLUSTER, &next), None, "{phase}");
                world.pass(1000);
                let (kind, at) = if phase == "Confirmed" { ("Pod", 0) } else { ("PersistentVolumeClaim", 1) };
                let key = world.pods(OLD)[at].clone();
                assert_eq!(delete_of(world, kind, &key), None, "{phase}");
            }
            // Looked after like any cluster while what is left of the old one goes.
            let own = world.pods(&token)[0].clone();
            assert_eq!(delete_of(world, "Pod", &own), None);
        });
    }

    #[test]
    fn nothing_old_goes_before_anything_new_has_a_directory() {
        in_world(|world| {
            let (_, token) = asked(world);
            let old = world.pods(OLD)[0].clone();
            assert_eq!(delete_of(world, "Pod", &old), None, "a roll-out before it began");
            let starting = status(world, "Starting", &token, false);
            assert_eq!(world.write_status("EtcdCluster", CLUSTER, &starting), None);
            let what = delete_of(world, "Pod", &old).expect("nothing is restored yet");
            assert!(what.starts_with("S11") && what.contains("before a restored lineage serves"), "{what}");
        });
    }

    #[test]
    fn what_was_sent_before_the_restore_began_is_no_part_of_it() {
        in_world(|world| {
            let (_, token) = asked(world);
            let sent = world.world.now;
            world.pass(1000);
            let starting = status(world, "Starting", &token, false);
            world.write_status("EtcdCluster", CLUSTER, &starting);
            world.world.issued = sent;
            let key = world.pods(OLD)[0].clone();
            let uid = world.object("Pod", key.split_once('/').unwrap().1)["metadata"]["uid"].clone();
            let effect = Effect::Delete { kind: "Pod".into(), key, uid: uid.as_str().unwrap().to_owned() };
            world.world.commit("operator", 1, Some(effect), |_| Ok::<_, String>(())).unwrap();
            assert_eq!(world.violation(), None);
        });
    }

    #[test]
    fn a_pod_that_is_down_is_made_anew_meanwhile() {
        in_world(|world| {
            let (_, token) = asked(world);
            let starting = status(world, "Starting", &token, false);
            world.write_status("EtcdCluster", CLUSTER, &starting);
            let down = world.pods(OLD)[0].clone();
            world.world.network.cut(1, Cut::PodFromAll(down.clone()));
            world.pass(5000);
            assert_eq!(delete_of(world, "Pod", &down), None);
        });
    }

    #[test]
    fn a_lineage_is_confirmed_when_it_serves() {
        in_world(|world| {
            let (snapshot, token) = asked(world);
            let starting = status(world, "Starting", &token, false);
            world.write_status("EtcdCluster", CLUSTER, &starting);
            world.restore_directories(&token, 3, &snapshot);
            world.pass(1000);
            let confirmed = status(world, "Confirmed", &token, true);
            let what = world.write_status("EtcdCluster", CLUSTER, &confirmed).expect("none of them runs");
            assert!(what.starts_with("S11") && what.contains("calls a restore confirmed"), "{what}");
        });
    }

    #[test]
    fn a_lineage_takes_the_place_of_another_when_it_serves() {
        in_world(|world| {
            let (snapshot, token) = asked(world);
            world.restore_directories(&token, 3, &snapshot);
            let uid = world.restore_uid();
            let switched = json!({"lineage": world.lineage(&token, Some(&uid))});
            let what = world.write_status("EtcdCluster", CLUSTER, &switched).expect("none of them runs");
            assert!(what.starts_with("S11") && what.contains("which does not serve"), "{what}");
        });
    }
}
