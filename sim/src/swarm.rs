//! From a seed to a course: which cluster, which classes of faults, when each strikes, and what the user does meanwhile.

use serde_json::{Value, json};

use crate::course::{Act, Course};
use crate::fault::{self, Action, Planned, Trigger};
use crate::run::{NAMESPACE, SECRET};
use crate::scenario::{Step, Target};
use crate::stream::Stream;

/// The EtcdCluster of every swarm world.
pub const CLUSTER: &str = "etcd";
/// Faults strike within so many seconds.
const TROUBLE_SECONDS: u64 = 700;
/// After the heal the world has so long.
const CONVERGE_SECONDS: u64 = 2400;
/// And then must be quiet for so long.
const QUIET_SECONDS: u64 = 150;

/// A fault that strikes with an effect does so within so many: before everything is healed, half of 500 runs had up to 57
/// effects, nine in ten up to 101, and none had more than 197. Beyond its last effect a run is spared.
const EFFECTS: &[u64] = &[60, 120, 200];

/// The course of a seed.
pub fn course(seed: u64) -> Course {
    let mut stream = Stream::new(seed, "swarm");
    let size = *stream.pick(&[1, 3, 3, 3, 5]).unwrap_or(&3);
    let volumes = stream.chance(700);
    let version = *stream.pick(&["3.2.32", "3.4.35", "3.5.26", "3.5.26", "3.6.10"]).unwrap_or(&"3.5.26");
    let mut spec = json!({"size": size, "version": version});
    if volumes {
        spec["pod"] = json!({"persistentVolumeClaimSpec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
    }
    let manifest = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": CLUSTER, "namespace": NAMESPACE}, "spec": spec,
    });
    let mut steps = vec![Act::Create(manifest)];
    let user_acts = acts(&mut stream, version);
    let restores = user_acts.iter().flatten().any(|act| matches!(act, Act::RestoreNewest { .. }));
    let share = TROUBLE_SECONDS / (user_acts.len() as u64 + 1);
    for act in user_acts {
        steps.push(Act::Sleep { seconds: stream.between(share / 4, share) });
        steps.extend(act);
    }
    steps.push(Act::Sleep { seconds: stream.between(share / 2, share) });
    let nodes = stream.between(3, 6) as usize;
    let mut faults = faults(&mut stream);
    if restores && stream.chance(400) {
        faults.push(interruption(&mut stream));
    }
    Course {
        name: format!("swarm {seed}"),
        seed,
        operator: crate::scenario::OperatorOptions::default(),
        nodes,
        faults,
        acts: steps,
        workload: true,
        converge_within_seconds: CONVERGE_SECONDS,
        quiet_seconds: QUIET_SECONDS,
    }
}

fn backup(name: &str, policy: &Value) -> Act {
    Act::Create(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "etcdEndpoints": [format!("http://{CLUSTER}-client.{NAMESPACE}.svc:2379")],
                "storageType": "S3", "backupPolicy": policy,
                "s3": {"path": format!("backups/{name}"), "awsSecret": SECRET},
            },
    }))
}

/// What the user does: a few things, in an order that makes sense.
fn acts(stream: &mut Stream, version: &str) -> Vec<Vec<Act>> {
    let patch = |spec: Value| {
        let target = Target { kind: "EtcdCluster".into(), name: CLUSTER.into() };
        Act::Step(Step::Patch { target, merge: json!({"spec": spec}) })
    };
    let mut acts = Vec::new();
    if stream.chance(450) {
        acts.push(vec![patch(json!({"size": *stream.pick(&[1, 3, 5]).unwrap_or(&3)}))]);
    }
    let next = match version {
        "3.4.35" => Some("3.5.26"),
        "3.5.26" => Some("3.6.10"),
        _ => None,
    };
    if let Some(next) = next.filter(|_| stream.chance(350)) {
        acts.push(vec![patch(json!({"version": next}))]);
    }
    if stream.chance(200) {
        acts.push(vec![patch(json!({"pod": {"labels": {"team": "blue"}}}))]);
    }
    let periodic = stream.chance(300);
    if periodic {
        let policy = json!({"backupIntervalInSecond": stream.between(60, 200), "maxBackups": stream.between(1, 4)});
        acts.push(vec![backup("periodic", &policy)]);
    }
    if stream.chance(300) {
        acts.push(vec![patch(json!({"size": *stream.pick(&[1, 3, 5]).unwrap_or(&3)}))]);
    }
    if stream.chance(450) {
        acts.push(vec![backup("once", &json!({}))]);
        if stream.chance(500) {
            // From a schedule's newest: then retention must keep what is being restored.
            let from = if periodic && stream.chance(500) { "periodic" } else { "once" };
            let restore = Act::RestoreNewest { cluster: CLUSTER.into(), backup: from.into() };
            let lost = stream.chance(300).then(|| Act::Step(Step::LoseCluster { cluster: CLUSTER.into() }));
            let wait = Act::Sleep { seconds: 120 };
            acts.push(std::iter::once(wait).chain(lost).chain([restore]).collect());
        }
    }
    if stream.chance(250) {
        // Deleted while it runs, more often than not.
        let target = Target { kind: "EtcdBackup".into(), name: "withdrawn".into() };
        let policy = json!({"backupIntervalInSecond": 60});
        let wait = Act::Sleep { seconds: stream.between(1, 4) };
        acts.push(vec![backup("withdrawn", &policy), wait, Act::Step(Step::Delete { target })]);
    }
    acts
}

/// A random subset of the classes, and a few strikes of each.
fn faults(stream: &mut Stream) -> Vec<Planned> {
    let density = stream.between(50, 350);
    let mut planned = Vec::new();
    for action in fault::ALL {
        if !stream.chance(density) {
            continue;
        }
        for _ in 0..stream.between(1, 4) {
            planned.push(strike(stream, *action));
        }
    }
    planned
}

/// Something happens to the operator right when a restore enters a phase.
fn interruption(stream: &mut Stream) -> Planned {
    let phase = *stream.pick(&["Starting", "Confirmed", "Switched"]).unwrap_or(&"Confirmed");
    let action = *stream.pick(&[Action::CrashAfter, Action::FreezeOperator]).unwrap_or(&Action::CrashAfter);
    let lasts = stream.between(5_000, 60_000);
    Planned { trigger: Trigger::RestorePhase(phase.to_owned()), action, lasts }
}

fn strike(stream: &mut Stream, action: Action) -> Planned {
    let lasts = match action {
        Action::PauseNode | Action::RebootNode | Action::RebootAllNodes => stream.between(5_000, 90_000),
        Action::CutMember | Action::IsolateMember => {
            // Now and then longer than replaceAfter.
            if stream.chance(250) { stream.between(320_000, 420_000) } else { stream.between(5_000, 120_000) }
        }
        // Longer than the API's deadline, and now and then longer than the lease.
        Action::LateWrite => stream.between(11_000, 45_000),
        Action::FreezeOperator => stream.between(5_000, 60_000),
        Action::CutOperatorFromEtcd
        | Action::CutOperatorFromApi
        | Action::CutOperatorFromStore
        | Action::StoreDown
        | Action::StaleViews => stream.between(5_000, 120_000),
        _ => stream.between(1, 3),
    };
    let by_effect = matches!(action, Action::CrashBefore | Action::CrashAfter) || stream.chance(300);
    let trigger = if by_effect {
        let within = *stream.pick(EFFECTS).unwrap_or(&1);
        Trigger::Effect(stream.between(1, within))
    } else {
        Trigger::At(1000 * stream.between(2, TROUBLE_SECONDS))
    };
    Planned { trigger, action, lasts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_crashes_at_any_effect_that_a_run_has() {
        let faults = (1..=2000).flat_map(|seed| course(seed).faults);
        let crashes = faults.filter(|fault| matches!(fault.action, Action::CrashBefore | Action::CrashAfter));
        let mut struck = [0; 8];
        for fault in crashes {
            if let Trigger::Effect(number) = fault.trigger {
                struck[usize::try_from((number - 1) / 25).unwrap()] += 1;
            }
        }
        assert!(struck.iter().all(|struck| *struck > 20), "{struck:?} of effects 1 to 25, 26 to 50, ...");
        assert!(struck[0] > struck[7], "every run has the first ones, few have the last: {struck:?}");
    }
}
