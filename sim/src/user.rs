//! The user of a run: carries out the steps of the scenario language in the model lane, and waits for what it waits for.

pub mod keys;
mod operator;
mod pods;

use std::time::Duration;

use etcd_operator::model::ClusterId;
use fake_k8s::server::{Request, ResourceName, Status};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::checker::{Severity, Violation};
use crate::converge;
use crate::course::{Act, Course};
use crate::fault::Action;
use crate::ghost;
use crate::run::{NAMESPACE, SECRET};
use crate::scenario::{
    ANY, Condition, ObjectContent, Step, Target, Who, any_unmet, each_unmet, fill, parse_bound, place, place_of,
    store_path,
};
use crate::world::{Shared, World};

/// How long a cluster that cannot be helped has to say so.
const HONESTY_SECONDS: u64 = 300;

/// A step that failed: the scenario's own assertion, or a wait that ended in vain.
fn failure(severity: Severity, invariant: &'static str, what: impl Into<String>) -> Violation {
    Violation { invariant, severity, what: what.into() }
}

fn unusable(what: impl Into<String>) -> Violation {
    failure(Severity::Safety, "scenario", what)
}

/// Lets time pass; fails as soon as something is violated.
///
/// # Errors
/// The violation.
pub async fn pause(shared: &Shared, seconds: u64) -> Result<(), Violation> {
    for _ in 0..seconds {
        madsim::time::sleep(Duration::from_secs(1)).await;
        if let Some(violation) = shared.enter().violation.clone() {
            return Err(violation);
        }
    }
    Ok(())
}

/// Waits until `ask` has no more to say; its last words are the pending noun of the failure.
async fn wait(
    shared: &Shared,
    seconds: u64,
    mut ask: impl FnMut(&mut World) -> Option<String>,
) -> Result<(), Violation> {
    let mut passed = 0;
    loop {
        let pending = ask(&mut shared.enter());
        let Some(what) = pending else { return Ok(()) };
        if passed >= seconds {
            return Err(failure(Severity::Liveness, "L1", format!("after {seconds} s: {what}")));
        }
        pause(shared, 1).await?;
        passed += 1;
    }
}

fn seconds(bound: &str) -> Result<u64, Violation> {
    let bound: SignedDuration = parse_bound(bound).map_err(unusable)?;
    Ok(u64::try_from(bound.as_millis().div_euclid(1000)).unwrap_or(0).max(1))
}

/// Waits until the world is as the specs say.
///
/// # Errors
/// When it is not within the bound, or something is violated.
pub async fn converge(shared: &Shared, seconds: u64) -> Result<(), Violation> {
    wait(shared, seconds, |world| converge::pending(world)).await
}

/// Whether an EtcdCluster lost a quorum of its disks, and no restore was asked for: of the lineage that serves, or before
/// any was recorded, of one that formed unseen.
pub fn is_hopeless(world: &World) -> bool {
    let clusters = world.server.peek_all(&converge::custom("etcdclusters"), None);
    let restores = world.server.peek_all(&converge::custom("etcdrestores"), None);
    let lost = |cluster: &Value| match converge::serving(cluster) {
        Some(lineage) => world.ghost.hopeless.contains(&lineage),
        None => has_lost_formation(world, cluster),
    };
    restores.is_empty() && clusters.iter().any(|cluster| lost(cluster))
}

fn has_lost_formation(world: &World, cluster: &Value) -> bool {
    let owner = converge::key(cluster);
    world.ghost.hopeless.iter().any(|lineage| world.ghost.owner.get(lineage) == Some(&owner))
}

/// What cannot be helped must be said, and nothing may be destroyed.
///
/// # Errors
/// When status claims that the cluster is ready, or does not say that a formation that was lost cannot go on.
pub async fn expect_honesty(shared: &Shared) -> Result<(), Violation> {
    pause(shared, HONESTY_SECONDS).await?;
    let world = shared.enter();
    let clusters = world.server.peek_all(&converge::custom("etcdclusters"), None);
    clusters.iter().find_map(|cluster| dishonesty(&world, cluster)).map_or(Ok(()), Err)
}

fn dishonesty(world: &World, cluster: &Value) -> Option<Violation> {
    let name = &cluster["metadata"]["name"];
    let lie = |what: &str| Some(failure(Severity::Safety, "S13", format!("EtcdCluster {name} {what}")));
    let Some(lineage) = converge::serving(cluster) else {
        let silent = has_lost_formation(world, cluster) && cluster["status"]["phase"] != "Failed";
        return if silent { lie("lost a quorum of its first disks and does not say so") } else { None };
    };
    let claims = converge::condition(cluster, "Ready").is_none_or(|ready| ready["status"] == "True");
    let lies = world.ghost.hopeless.contains(&lineage) && claims;
    if lies { lie("lost a quorum of its disks and claims to be ready") } else { None }
}

/// The resource of a kind.
pub fn resource(kind: &str) -> ResourceName {
    match kind {
        "EtcdCluster" => converge::custom("etcdclusters"),
        "EtcdBackup" => converge::custom("etcdbackups"),
        "EtcdRestore" => converge::custom("etcdrestores"),
        "Endpoints" => ResourceName::core("endpoints"),
        "Lease" => ResourceName::new("coordination.k8s.io", "v1", "leases"),
        other => ResourceName::core(format!("{}s", other.to_lowercase())),
    }
}

/// Carries out everything that the user does.
///
/// # Errors
/// The first violation, or the first wait that ends in vain.
pub async fn carry_out(shared: &Shared, course: &Course) -> Result<(), Violation> {
    let (mut keys, mut pods) = (keys::Remembered::default(), pods::Marks::default());
    if course.operator.program.is_some() {
        return Err(unusable("the operator has no name in the model"));
    }
    for act in &course.acts {
        let what = serde_json::to_string(act).unwrap_or_default();
        shared.enter().note("user", what);
        match act {
            Act::Step(step) => carry_out_step(shared, course, &mut keys, &mut pods, step).await?,
            Act::Create(manifest) => apply(shared, course, manifest).map_err(|status| refused(&status))?,
            Act::Sleep { seconds } => pause(shared, *seconds).await?,
            Act::RestoreNewest { cluster, backup } => restore_newest(shared, cluster, backup)?,
        }
        shared.poke();
    }
    Ok(())
}

fn refused(status: &Status) -> Violation {
    unusable(format!("the user is refused: {status}"))
}

async fn carry_out_step(
    shared: &Shared,
    course: &Course,
    keys: &mut keys::Remembered,
    pods: &mut pods::Marks,
    step: &Step,
) -> Result<(), Violation> {
    match step {
        Step::Apply(text) | Step::KubectlApply(text) => {
            for manifest in documents(shared, text)? {
                apply(shared, course, &manifest).map_err(|status| refused(&status))?;
            }
            Ok(())
        }
        Step::Rejected { manifest, says } => {
            let results = documents(shared, manifest)?.into_iter().map(|manifest| apply(shared, course, &manifest));
            let Some(status) = results.filter_map(Result::err).next() else {
                return Err(unusable("the manifest is accepted"));
            };
            let missing = says.iter().find(|part| !status.message.contains(part.as_str()));
            missing.map_or(Ok(()), |part| Err(unusable(format!("`{}` does not say `{part}`", status.message))))
        }
        Step::Patch { target, merge } => {
            let (namespace, name) = place_of(&target.kind, &target.name);
            let request = Request::merge_patch(resource(&target.kind), namespace, name, merge.clone());
            handle(shared, &request).map_err(|status| refused(&status))
        }
        Step::Delete { target } => {
            let (namespace, name) = place(&target.name);
            let request = Request::delete(resource(&target.kind), namespace, name);
            handle(shared, &request).map_err(|status| refused(&status))
        }
        Step::Wait { target, until, within, each } => {
            wait(shared, seconds(within)?, |world| unmet(world, target, until, *each)).await
        }
        Step::Stays { target, conditions, during } => {
            for _ in 0..seconds(during)? {
                if let Some(what) = unmet(&shared.enter(), target, conditions, false) {
                    return Err(unusable(what));
                }
                pause(shared, 1).await?;
            }
            Ok(())
        }
        Step::Gone { target, cluster, within } => {
            wait(shared, seconds(within)?, |world| left(world, target, cluster.as_deref())).await
        }
        Step::Write { cluster, keys: count, value_bytes } => {
            keys::write(shared, keys, cluster, *count, *value_bytes).await
        }
        Step::Mark { name } => {
            keys.mark(name);
            pods.mark(&shared.enter(), name);
            Ok(())
        }
        Step::Pods { cluster, count, within } => {
            wait(shared, seconds(within)?, |world| pods::pods_of(world, cluster).missing(*count)).await
        }
        Step::SamePods { cluster, since, only_names, restarted } => {
            let (then, now) = (pods.then(cluster, since)?, pods::pods_of(&shared.enter(), cluster));
            now.changed(then, *only_names, *restarted).map_or(Ok(()), |what| Err(unusable(what)))
        }
        Step::ReplacedPods { cluster, since, count } => {
            let (then, now) = (pods.then(cluster, since)?, pods::pods_of(&shared.enter(), cluster));
            now.not_replaced(then, *count).map_or(Ok(()), |what| Err(unusable(what)))
        }
        Step::Told { about, reasons, within } => {
            wait(shared, seconds(within)?, |world| pods::untold(world, about, reasons)).await
        }
        Step::Lead { cluster, who } => pods::lead(shared, cluster, *who).await,
        Step::StopOperator => operator::stop(shared).await,
        Step::StartOperator => {
            operator::start(&mut shared.enter());
            Ok(())
        }
        Step::Compare { cluster, like, at } => {
            keys::compare(shared, keys, cluster, like.as_ref().unwrap_or(cluster), at.as_deref()).await
        }
        Step::Members { cluster, healthy, version, within } => {
            wait(shared, seconds(within)?, |world| members_missing(world, cluster, *healthy, version.as_deref())).await
        }
        Step::Quiet { during } => {
            shared.enter().quiet = true;
            let result = pause(shared, seconds(during)?).await;
            shared.enter().quiet = false;
            result
        }
        Step::Objects { prefix, at_least, at_most, within } => {
            wait(shared, seconds(within)?, |world| objects_missing(world, prefix, *at_least, *at_most)).await
        }
        // They are for people who watch.
        Step::Phase(_) | Step::Show(_) => Ok(()),
        Step::Certificates { .. } => Err(unusable("nothing is encrypted in the model".to_owned())),
        Step::WriteUntilRefused { .. } => Err(unusable("etcd has no quota in the model".to_owned())),
        Step::Serves { .. } => Err(unusable("nothing is served in the model".to_owned())),
        Step::Kubectl { .. } => Err(unusable("there is no kubectl in the model".to_owned())),
        Step::PutObject { path, content } => put_object(&mut shared.enter(), path, content),
        Step::RebootNodes { during } => {
            let millis = seconds(during)? * 1000;
            let mut world = shared.enter();
            world.inflict(Action::RebootAllNodes, millis);
            // The sandboxes are gone with their containers; the disks, those of emptyDir too, are not.
            world.runtime.clear();
            Ok(())
        }
        Step::KillOperator => match shared.enter().crash_operator() {
            true => Ok(()),
            false => Err(unusable("no operator runs that could be killed")),
        },
        Step::Kill { .. }
        | Step::DestroyData { .. }
        | Step::DeletePod { .. }
        | Step::LoseCluster { .. }
        | Step::Isolate { .. } => strike(&mut shared.enter(), step),
    }
}

fn strike(world: &mut World, step: &Step) -> Result<(), Violation> {
    match step {
        Step::Kill { cluster, who } => {
            for pod in chosen(world, cluster, *who)? {
                world.kill_etcd(&pod);
            }
        }
        Step::DestroyData { cluster, who } => {
            for pod in chosen(world, cluster, *who)? {
                if let Some(data) = world.data_of(&pod) {
                    world.kill_etcd(&pod);
                    world.destroy_volume(&data, false);
                }
            }
        }
        Step::DeletePod { cluster, who } => {
            for pod in chosen(world, cluster, *who)? {
                world.delete_pod(&pod);
            }
        }
        Step::Isolate { cluster, who, during } => {
            let millis = seconds(during)? * 1000;
            for pod in chosen(world, cluster, *who)? {
                world.inflict_on(Action::IsolateMember, &pod, millis);
            }
        }
        Step::LoseCluster { cluster } => lose(world, cluster),
        _ => {}
    }
    Ok(())
}

/// The documents of a manifest, placeholders filled.
fn documents(shared: &Shared, text: &str) -> Result<Vec<Value>, Violation> {
    let newest = |prefix: &str| {
        let (bucket, key) = split(prefix);
        let found = shared.enter().store.list(bucket, key);
        let backups = found.into_iter().filter(|(key, _)| !key.ends_with(".manifest.json"));
        let last = backups.max_by_key(|(key, stored)| (stored.modified, key.clone()));
        last.map(|(key, _)| format!("{bucket}/{key}")).ok_or_else(|| format!("there is no object under {prefix}"))
    };
    let now = shared.enter().timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let values = [
        ("NOW", now.as_str()),
        ("STORE_ENDPOINT", "http://store:9000"),
        ("ABS_ENDPOINT", "http://store:10000/sim"),
        ("STORE_USER", crate::store::USER),
        ("STORE_PASSWORD", crate::store::PASSWORD),
        ("AGENT_IMAGE", crate::operator::AGENT_IMAGE),
    ];
    let filled = fill(text, &values, newest).map_err(unusable)?;
    let parts = filled.split("\n---").map(|part| part.trim_start_matches("---").trim()).filter(|part| !part.is_empty());
    parts.map(|part| serde_saphyr::from_str(part).map_err(|error| unusable(format!("no YAML: {error}")))).collect()
}

fn handle(shared: &Shared, request: &Request) -> Result<(), Status> {
    let mut world = shared.enter();
    let now = world.timestamp();
    world.server.handle(now, request).map(drop)
}

fn apply(shared: &Shared, course: &Course, manifest: &Value) -> Result<(), Status> {
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
    // Namespaces themselves are in none.
    let namespace = if kind == "Namespace" { "" } else { namespace };
    let exists = shared.enter().server.peek(&resource(kind), namespace, name).is_some();
    if exists {
        return handle(shared, &Request::merge_patch(resource(kind), namespace, name, manifest.clone()));
    }
    let mut request = Request::create(resource(kind), namespace, manifest.clone());
    request.options.field_validation = fake_k8s::FieldValidation::Strict;
    handle(shared, &request)?;
    if kind == "EtcdCluster" && course.workload {
        let mut world = shared.enter();
        world.add_client(namespace, name);
        world.add_client(namespace, name);
    }
    Ok(())
}

fn unmet(world: &World, target: &Target, conditions: &[String], each: bool) -> Option<String> {
    let (namespace, name) = place_of(&target.kind, &target.name);
    if name == ANY {
        let parsed: Result<Vec<Condition>, String> = conditions.iter().map(|condition| condition.parse()).collect();
        let all = world.server.peek_all(&resource(&target.kind), Some(namespace));
        let of_all = if each { each_unmet } else { any_unmet };
        return parsed.map_or_else(Some, |parsed| of_all(target, &all, &parsed));
    }
    let object = world.server.peek(&resource(&target.kind), namespace, name);
    let Some(object) = object else { return Some(format!("{} {} does not exist", target.kind, target.name)) };
    conditions.iter().find_map(|condition| {
        let what = condition.parse::<Condition>().map_or_else(Some, |parsed| parsed.unmet(&object))?;
        Some(format!("{} {}: {what}; status: {}", target.kind, target.name, object["status"]))
    })
}

fn left(world: &World, target: &Target, cluster: Option<&str>) -> Option<String> {
    let (namespace, name) = match (place(&target.name), cluster.map(place)) {
        ((_, name), Some((namespace, _))) => (namespace, name),
        (found, None) => found,
    };
    let cluster = cluster.map(|cluster| place(cluster).1);
    let all = world.server.peek_all(&resource(&target.kind), Some(namespace));
    let wanted = |object: &Value| {
        (name == ANY || object["metadata"]["name"] == name)
            && cluster.is_none_or(|cluster| object["metadata"]["labels"]["etcd_cluster"] == cluster)
    };
    let found = all.iter().find(|object| wanted(object))?;
    Some(format!("{} {} is still there", target.kind, found["metadata"]["name"]))
}

/// The lineage of a cluster that has a leader, the youngest if there are several.
pub fn lineage(world: &World, cluster: &str) -> Option<ClusterId> {
    let (namespace, name) = place(cluster);
    let owner = format!("{namespace}/{name}");
    let lineages = world.ghost.owner.iter().filter(|(_, known)| **known == owner).map(|(lineage, _)| *lineage);
    lineages
        .filter(|lineage| world.etcds.leader(*lineage).is_some())
        .max_by_key(|lineage| world.etcds.formed_at(*lineage))
}

fn chosen(world: &World, cluster: &str, who: Who) -> Result<Vec<String>, Violation> {
    let found = lineage(world, cluster).and_then(|lineage| Some((lineage, world.etcds.leader(lineage)?.pod.clone())));
    let Some((lineage, leader)) = found else { return Err(unusable(format!("{cluster} has no leader"))) };
    let mut pods: Vec<String> = ghost::members(world, lineage)
        .into_iter()
        .filter_map(|member| world.etcds.of_member(lineage, member))
        .map(|process| process.pod.clone())
        .collect();
    pods.sort();
    Ok(match who {
        Who::Leader => vec![leader],
        Who::Follower => pods.into_iter().filter(|pod| *pod != leader).take(1).collect(),
        Who::Youngest => pods::youngest(world, &pods).into_iter().collect(),
        Who::All => pods,
    })
}

fn members_missing(world: &World, cluster: &str, healthy: usize, version: Option<&str>) -> Option<String> {
    let Some(lineage) = lineage(world, cluster) else { return Some(format!("{cluster} has no leader")) };
    let members = ghost::members(world, lineage);
    let found = world.etcds.healthy(&world.network, lineage);
    let voters = world.etcds.configuration(lineage).map_or(0, |state| state.voters().len());
    if found.len() != healthy || members.len() != healthy || voters != healthy {
        return Some(format!(
            "{} healthy of {} members ({voters} voters), {healthy} wanted",
            found.len(),
            members.len()
        ));
    }
    let runs = |process: &crate::etcd::Process| format!("3.{}.{}", process.version.0, process.version.1);
    let mut processes = members.iter().filter_map(|member| world.etcds.of_member(lineage, *member));
    if let Some(other) = processes.find(|process| version.is_some_and(|version| runs(process) != version)) {
        return Some(format!("{} runs {}", other.pod, runs(other)));
    }
    let (namespace, name) = place(cluster);
    let count = |plural: &str| {
        let all = world.server.peek_all(&ResourceName::core(plural), Some(namespace));
        all.iter().filter(|object| ghost::cluster_of(object) == Some(name)).count()
    };
    let (pods, claims) = (count("pods"), count("persistentvolumeclaims"));
    (pods != healthy || (claims != 0 && claims != healthy)).then(|| format!("{pods} pods and {claims} volume claims"))
}

/// All kinds of store are one here.
fn split(path: &str) -> (&str, &str) {
    let (_, bucket, key) = store_path(path);
    (bucket, key)
}

fn objects_missing(world: &World, prefix: &str, at_least: usize, at_most: usize) -> Option<String> {
    let (bucket, key) = split(prefix);
    let found = world.store.list(bucket, key);
    let count = found.iter().filter(|(key, _)| !key.ends_with(".manifest.json")).count();
    (count < at_least || count > at_most).then(|| format!("{count} objects under {prefix}"))
}

fn put_object(world: &mut World, path: &str, content: &ObjectContent) -> Result<(), Violation> {
    let copy = |world: &World, of: &str| {
        let (bucket, key) = split(of);
        let stored = world.store.get(bucket, key);
        stored.map(|stored| stored.data.to_vec()).ok_or_else(|| unusable(format!("there is no object {of}")))
    };
    let data = match content {
        ObjectContent::Text(text) => text.clone().into_bytes(),
        ObjectContent::Truncated { of, percent } => {
            let mut data = copy(world, of)?;
            data.truncate(data.len() * usize::from(*percent) / 100);
            data
        }
        ObjectContent::Flipped { of } => {
            let mut data = copy(world, of)?;
            let middle = data.len() / 2;
            if let Some(byte) = data.get_mut(middle) {
                *byte ^= 1;
            }
            data
        }
    };
    let (now, (bucket, key)) = (world.now, split(path));
    world.store.put(now, bucket, key, data.into(), false);
    Ok(())
}

/// Every pod and every volume of a cluster is gone at once.
fn lose(world: &mut World, cluster: &str) {
    let (namespace, name) = place(cluster);
    let prefix = format!("{namespace}/{name}-");
    let pods: Vec<(String, Vec<String>)> = world
        .runtime
        .values()
        .filter(|pod| pod.key.starts_with(&prefix))
        .map(|pod| (pod.key.clone(), pod.volumes.values().cloned().collect()))
        .collect();
    for (pod, volumes) in pods {
        for volume in volumes {
            world.destroy_volume(&volume, true);
        }
        let Some((namespace, name)) = pod.split_once('/') else { continue };
        let now = world.timestamp();
        // Gone already is as good.
        let _ = world.server.handle(now, &Request::delete(ResourceName::core("pods"), namespace, name).grace(0));
    }
}

/// Restores a cluster from the newest record of a backup; nothing to do when the backup did not get that far.
fn restore_newest(shared: &Shared, cluster: &str, backup: &str) -> Result<(), Violation> {
    let manifest = {
        let world = shared.enter();
        let found = world.server.peek(&converge::custom("etcdbackups"), NAMESPACE, backup);
        let newest = found.as_deref().and_then(|backup| {
            let records = backup["status"]["records"].as_array()?;
            let live = records.iter().filter(|record| record["superseded"] != true);
            live.max_by_key(|record| record["revision"].as_i64())
        });
        let Some(record) = newest else { return Ok(()) };
        let path = path_of(found.as_deref(), record["key"].as_str().unwrap_or_default());
        json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
            "metadata": {"name": cluster, "namespace": NAMESPACE},
            "spec": {
                "etcdCluster": {"name": cluster}, "backupStorageType": "S3",
                "s3": {"path": path, "awsSecret": SECRET},
            },
        })
    };
    handle(shared, &Request::create(resource("EtcdRestore"), NAMESPACE, manifest)).map_err(|status| refused(&status))
}

/// `bucket/key`: records hold the key alone, or both.
fn path_of(backup: Option<&Value>, key: &str) -> String {
    let path = backup.and_then(|backup| backup["spec"]["s3"]["path"].as_str()).unwrap_or_default();
    let (bucket, _) = split(path);
    if key.starts_with(&format!("{bucket}/")) { key.to_owned() } else { format!("{bucket}/{key}") }
}
