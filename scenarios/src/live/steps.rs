//! Carries out the steps of a case in the world, and says what it saw last when one cannot come true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fake_k8s::controllers::object;
use fake_k8s::server::{FieldValidation, Request};
use nix::sys::signal::Signal;
use serde_json::Value;
use sim::scenario::{
    ANY, Condition, Pods, Scenario, Step, Target, Who, any_unmet, each_unmet, fill, out_of_order, parse_bound, place,
    place_of,
};
use tokio::task::JoinSet;

use super::certificates;
use super::display::Display;
use super::etcd;
use super::keys::Remembered;
use super::look;
use super::programs::AGENT_IMAGE;
use super::world::{NAMESPACE, World, resource};
use crate::cases::documents;

const POLL: Duration = Duration::from_millis(100);
/// How long a step without a bound of its own may take.
const STEP_PATIENCE: Duration = Duration::from_secs(180);
/// How long a member may take to lead.
const LEAD_PATIENCE: &str = "60s";
const DATA_VOLUME: &str = "etcd-data";
const ETCD_CONTAINER: &str = "etcd";

/// Why a case failed.
#[derive(Debug)]
pub struct Failure {
    /// Which step, from 1.
    pub number: usize,
    /// The step, in words.
    pub sentence: String,
    /// What was seen last.
    pub why: String,
    /// The object that the step is about.
    pub target: Option<Target>,
}

/// Carries out all steps of a case.
///
/// # Errors
/// The first step that cannot come true.
pub async fn carry_out(world: &Arc<World>, scenario: &Scenario, display: &Display) -> Result<(), Box<Failure>> {
    let mut run = Run::new(world.clone());
    for (index, step) in scenario.steps.iter().enumerate() {
        let sentence = sentence(step);
        if let Step::Phase(name) = step {
            display.phase(name);
            continue;
        }
        display.step(&sentence);
        let done = tokio::time::timeout(patience(step), run.carry_out(step)).await;
        match done.unwrap_or_else(|_| bail!("it did not end in {} s", patience(step).as_secs())) {
            Ok(said) if matches!(step, Step::Show(_)) => display.block(&said),
            Ok(note) => display.step_done(&note),
            Err(error) => {
                let why = format!("{error:#}");
                return Err(Box::new(Failure { number: index + 1, sentence, why, target: target(step) }));
            }
        }
    }
    Ok(())
}

struct Run {
    world: Arc<World>,
    keys: Remembered,
    /// The pods of every cluster at each mark.
    pods: BTreeMap<String, BTreeMap<String, Pods>>,
    /// What ends by itself later, such as an isolation.
    background: JoinSet<()>,
}

impl Run {
    fn new(world: Arc<World>) -> Self {
        Self { world, keys: Remembered::default(), pods: BTreeMap::new(), background: JoinSet::new() }
    }

    async fn carry_out(&mut self, step: &Step) -> anyhow::Result<String> {
        let nothing = String::new();
        match step {
            Step::Phase(_) => {}
            Step::Show(command) if command.is_empty() => {}
            Step::Show(command) => return Ok(look::show(&self.world, command).await),
            Step::Apply(manifest) => self.apply(manifest).await?,
            Step::KubectlApply(manifest) => {
                anyhow::ensure!(self.world.kubectl.is_some(), "there is no kubectl");
                self.apply(manifest).await?;
            }
            Step::Rejected { manifest, says } => return self.expect_refusal(manifest, says).await,
            Step::Certificates { cluster } => certificates::create(&self.world, cluster)?,
            Step::Patch { target, merge } => {
                let (namespace, name) = place_of(&target.kind, &target.name);
                let patch = Request::merge_patch(resource(&target.kind), namespace, name, merge.clone());
                self.world.handle(&patch)?;
            }
            Step::Delete { target } => {
                let (namespace, name) = place(&target.name);
                self.world.handle(&Request::delete(resource(&target.kind), namespace, name))?;
            }
            Step::Wait { target, until, within, each } => {
                let conditions = conditions(until)?;
                self.wait(within, async || self.unmet(target, &conditions, *each)).await?;
            }
            Step::Stays { target, conditions: stay, during } => {
                let conditions = conditions(stay)?;
                self.stays(during, || self.unmet(target, &conditions, false)).await?;
            }
            Step::Gone { target, cluster, within } => {
                self.wait(within, async || self.left(target, cluster.as_deref())).await?;
            }
            Step::Write { cluster, keys, value_bytes } => {
                self.keys.write(&self.world, cluster, *keys, *value_bytes).await?;
            }
            Step::WriteUntilRefused { cluster, keys, value_bytes, says } => {
                return self.keys.write_until_refused(&self.world, cluster, *keys, *value_bytes, says).await;
            }
            Step::Mark { name } => self.mark(name),
            Step::Pods { cluster, count, within } => {
                self.wait(within, async || Pods::of(&self.world.all("Pod", cluster)).missing(*count)).await?;
            }
            Step::SamePods { cluster, since, only_names, restarted } => {
                let (then, now) = self.pods_then_and_now(cluster, since)?;
                if let Some(what) = now.changed(then, *only_names, *restarted) {
                    bail!(what);
                }
            }
            Step::ReplacedPods { cluster, since, count } => {
                let (then, now) = self.pods_then_and_now(cluster, since)?;
                if let Some(what) = now.not_replaced(then, *count) {
                    bail!(what);
                }
            }
            Step::Told { about, reasons, within } => {
                let (namespace, name) = place(about);
                self.wait(within, async || out_of_order(&self.world.all_in("Event", namespace), name, reasons)).await?;
            }
            Step::Lead { cluster, who } => {
                let member = self.choose(cluster, *who).await?.pop().context("nobody is meant")?;
                self.wait(LEAD_PATIENCE, async || etcd::lead(&self.world, cluster, &member).await).await?;
                return Ok(member);
            }
            Step::Compare { cluster, like, at } => {
                let of = like.as_ref().unwrap_or(cluster);
                let count = self.keys.compare(&self.world, cluster, of, at.as_deref()).await?;
                return Ok(format!("all {count} keys are there with their values, and no others"));
            }
            Step::RebootNodes { .. } => bail!("nodes are rebooted in the model only"),
            Step::Kill { cluster, who } => {
                let members = self.choose(cluster, *who).await?;
                members.iter().try_for_each(|member| self.signal(member, Signal::SIGKILL))?;
                return Ok(members.join(", "));
            }
            Step::DestroyData { cluster, who } => {
                let members = self.choose(cluster, *who).await?;
                members.iter().try_for_each(|member| self.destroy_data(member))?;
                return Ok(members.join(", "));
            }
            Step::DeletePod { cluster, who } => {
                let members = self.choose(cluster, *who).await?;
                for member in &members {
                    let (namespace, name) = place(member);
                    self.world.handle(&Request::delete(resource("Pod"), namespace, name))?;
                }
                return Ok(members.join(", "));
            }
            Step::LoseCluster { cluster } => self.lose(cluster)?,
            Step::KillOperator => self.world.operator.kill().await?,
            Step::StopOperator => {
                let ended = self.world.operator.stop().await?;
                anyhow::ensure!(ended.success(), "the operator that was asked to stop ended with {ended}");
            }
            Step::StartOperator => self.world.operator.start_again().await,
            Step::Kubectl { args, says, during } => return self.kubectl(args, says, during.as_deref()).await,
            Step::Isolate { cluster, who, during } => return self.isolate(cluster, *who, during).await,
            Step::PutObject { path, content } => self.world.store.put(path, content).await?,
            Step::Objects { prefix, at_least, at_most, within } => {
                self.wait(within, async || {
                    let found = match self.world.store.backups(prefix).await {
                        Ok(found) => found.len(),
                        Err(error) => return Some(format!("{error:#}")),
                    };
                    (found < *at_least || found > *at_most).then(|| format!("{found} objects under {prefix}"))
                })
                .await?;
            }
            Step::Members { cluster, healthy, version, within } => {
                self.wait(within, async || etcd::missing(&self.world, cluster, *healthy, version.as_deref()).await)
                    .await?;
            }
            Step::Serves { path, lines, without, within } => {
                self.wait(within, async || {
                    let answer = match self.world.operator.get(path).await {
                        Ok(answer) => answer,
                        Err(error) => return Some(format!("{error:#}")),
                    };
                    let has = |beginning: &&String| answer.lines().any(|line| line.starts_with(*beginning));
                    let missing = lines.iter().find(|beginning| !has(beginning));
                    let unwanted = without.iter().find(has);
                    let missing = missing.map(|beginning| format!("no line begins with `{beginning}`"));
                    let said =
                        missing.or_else(|| unwanted.map(|beginning| format!("a line begins with `{beginning}`")));
                    said.map(|said| format!("{said} in:\n{answer}"))
                })
                .await?;
            }
            Step::Quiet { during } => {
                let before = self.versions();
                self.stays(during, || {
                    let after = self.versions();
                    let changed = after.iter().find(|object| !before.contains(object));
                    let gone = before.iter().find(|object| !after.contains(object));
                    changed.or(gone).map(|object| format!("{object} was written"))
                })
                .await?;
            }
        }
        Ok(nothing)
    }

    /// Keys and pods of this moment.
    fn mark(&mut self, name: &str) {
        self.keys.mark(name);
        let namespaces = self.world.cluster.shared.run(|_, server| server.peek_all(&resource("EtcdCluster"), None));
        let clusters = namespaces.iter().map(|cluster| match object::text(cluster, "/metadata/namespace") {
            NAMESPACE => object::name(cluster).to_owned(),
            other => format!("{other}/{}", object::name(cluster)),
        });
        let pods = clusters.map(|cluster| {
            let pods = Pods::of(&self.world.all("Pod", &cluster));
            (cluster, pods)
        });
        self.pods.insert(name.to_owned(), pods.collect());
    }

    /// The pods of a cluster at a mark, and as they are.
    fn pods_then_and_now(&self, cluster: &str, since: &str) -> anyhow::Result<(&Pods, Pods)> {
        let then = self.pods.get(since).and_then(|mark| mark.get(cluster));
        let then = then.with_context(|| format!("there is no mark {since} with {cluster}"))?;
        Ok((then, Pods::of(&self.world.all("Pod", cluster))))
    }

    /// What it printed, when it says all that it should.
    async fn kubectl(&self, args: &[String], says: &[String], during: Option<&str>) -> anyhow::Result<String> {
        let mut filled = Vec::new();
        for argument in args {
            let Some((before, rest)) = argument.split_once("${LEADER:") else {
                filled.push(argument.clone());
                continue;
            };
            let (cluster, after) = rest.split_once('}').context("a placeholder is not closed")?;
            let leader = self.choose(cluster, Who::Leader).await?.pop().context("nobody leads")?;
            filled.push(format!("{before}{}{after}", place(&leader).1));
        }
        let words: Vec<&str> = filled.iter().map(String::as_str).collect();
        let during = during.map(bound).transpose()?;
        let said = look::kubectl(&self.world, &words, "", during).await.context("there is no kubectl")??;
        let normal = said.split_whitespace().collect::<Vec<_>>().join(" ");
        match says.iter().find(|part| !normal.contains(*part)) {
            Some(part) => bail!("kubectl does not say `{part}`, but:\n{said}"),
            None => Ok(String::new()),
        }
    }

    async fn filled(&self, manifest: &str) -> anyhow::Result<String> {
        let mut newest = BTreeMap::new();
        for part in manifest.split("${NEWEST:").skip(1) {
            let prefix = part.split('}').next().unwrap_or_default();
            newest.insert(prefix.to_owned(), self.world.store.newest(prefix).await?);
        }
        let answer = |prefix: &str| newest.get(prefix).cloned().ok_or_else(|| format!("no object under {prefix}"));
        let stores = self.world.store.placeholders();
        let mut values: Vec<(&str, &str)> = stores.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        values.extend([("AGENT_IMAGE", AGENT_IMAGE), ("NOW", now.as_str())]);
        fill(manifest, &values, answer).map_err(anyhow::Error::msg)
    }

    /// As a user does: with the real kubectl where there is one.
    async fn apply(&self, manifest: &str) -> anyhow::Result<()> {
        let filled = self.filled(manifest).await?;
        if let Some(answer) = look::kubectl(&self.world, &["apply", "-f", "-"], &filled, None).await {
            return answer.map(drop);
        }
        for manifest in documents(&filled)? {
            let (kind, name) = (object::text(&manifest, "/kind").to_owned(), object::name(&manifest).to_owned());
            let namespace = match object::text(&manifest, "/metadata/namespace") {
                "" => place_of(&kind, &name).0.to_owned(),
                other => other.to_owned(),
            };
            let known = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
            let mut request = match self.world.find(&kind, &known) {
                Some(_) => Request::merge_patch(resource(&kind), &namespace, &name, manifest),
                None => Request::create(resource(&kind), &namespace, manifest),
            };
            request.options.field_validation = FieldValidation::Strict;
            self.world.handle(&request)?;
        }
        Ok(())
    }

    async fn expect_refusal(&self, manifest: &str, says: &[String]) -> anyhow::Result<String> {
        let Err(error) = self.apply(manifest).await else { bail!("it was accepted") };
        let said = format!("{error:#}");
        match says.iter().find(|part| !said.contains(*part)) {
            Some(part) => bail!("the refusal does not say `{part}`, but: {said}"),
            None => Ok(said),
        }
    }

    /// Asks until there is no more to say; what was said last is the error.
    async fn wait(&self, within: &str, ask: impl AsyncFn() -> Option<String>) -> anyhow::Result<()> {
        let (bound, start) = (bound(within)?, Instant::now());
        loop {
            let Some(pending) = ask().await else { return Ok(()) };
            if start.elapsed() > bound {
                bail!("not within {within}: {pending}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn stays(&self, during: &str, ask: impl Fn() -> Option<String>) -> anyhow::Result<()> {
        let (bound, start) = (bound(during)?, Instant::now());
        while start.elapsed() < bound {
            if let Some(what) = ask() {
                bail!("after {} s: {what}", start.elapsed().as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn unmet(&self, target: &Target, conditions: &[Condition], each: bool) -> Option<String> {
        let (namespace, name) = place(&target.name);
        if name == ANY {
            let of_all = if each { each_unmet } else { any_unmet };
            return of_all(target, &self.world.all_in(&target.kind, namespace), conditions);
        }
        match self.world.find(&target.kind, &target.name) {
            None => Some(format!("{} {} is not there", target.kind, target.name)),
            Some(found) => conditions.iter().find_map(|condition| condition.unmet(&found)),
        }
    }

    fn left(&self, target: &Target, cluster: Option<&str>) -> Option<String> {
        let (namespace, name) = place(&target.name);
        let all = match cluster {
            Some(cluster) => self.world.all(&target.kind, cluster),
            None => self.world.all_in(&target.kind, namespace),
        };
        let found = all.iter().find(|found| name == ANY || object::name(found) == name)?;
        Some(format!("{} {} is still there", target.kind, object::name(found)))
    }

    async fn choose(&self, cluster: &str, who: Who) -> anyhow::Result<Vec<String>> {
        let start = Instant::now();
        loop {
            match etcd::chosen(&self.world, cluster, who).await {
                Ok(found) => return Ok(found),
                Err(error) if start.elapsed() > STEP_PATIENCE / 2 => return Err(error),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    fn signal(&self, member: &str, signal: Signal) -> anyhow::Result<()> {
        let (namespace, pod) = place(member);
        let sent = self.world.cluster.signal_container(namespace, pod, ETCD_CONTAINER, signal);
        sent.map_err(anyhow::Error::msg)
    }

    /// Stopped first, so that it can write nothing between the loss and its end.
    fn destroy_data(&self, member: &str) -> anyhow::Result<()> {
        self.signal(member, Signal::SIGSTOP)?;
        let pod = self.world.find("Pod", member).with_context(|| format!("there is no pod {member}"))?;
        let claim = object::claims(&pod).find(|(volume, _)| *volume == DATA_VOLUME).map(|(_, claim)| claim.to_owned());
        match claim {
            Some(claim) => {
                self.world.cluster.destroy_claim_data(place(member).0, &claim).map_err(anyhow::Error::msg)?;
            }
            None => {
                let pods = self.world.cluster.run_dir.join("pods");
                let directory = pods.join(object::uid(&pod)).join("volumes").join(DATA_VOLUME).join("data");
                std::fs::remove_dir_all(&directory).with_context(|| format!("cannot empty {}", directory.display()))?;
            }
        }
        self.signal(member, Signal::SIGKILL)
    }

    /// Everything at once, and nobody gets to say goodbye.
    fn lose(&self, cluster: &str) -> anyhow::Result<()> {
        let (namespace, _) = place(cluster);
        for pod in self.world.all("Pod", cluster) {
            // What does not run any more cannot write any more.
            let _ = self.signal(&etcd::beside(cluster, object::name(&pod)), Signal::SIGSTOP);
        }
        for claim in self.world.all("PersistentVolumeClaim", cluster) {
            // One that was never bound has no data.
            let _ = self.world.cluster.destroy_claim_data(namespace, object::name(&claim));
        }
        let kinds = ["Pod", "PersistentVolumeClaim"];
        let doomed: Vec<_> = kinds
            .into_iter()
            .flat_map(|kind| self.world.all(kind, cluster).into_iter().map(move |found| (kind, found)))
            .map(|(kind, found)| Request::delete(resource(kind), namespace, object::name(&found)).grace(0))
            .collect();
        self.world.cluster.shared.run(|now, server| {
            doomed.iter().try_for_each(|delete| server.handle(now, delete).map(drop)).map_err(anyhow::Error::from)
        })
    }

    async fn isolate(&mut self, cluster: &str, who: Who, during: &str) -> anyhow::Result<String> {
        let bound = bound(during)?;
        let members = self.choose(cluster, who).await?;
        for member in &members {
            let (namespace, pod) = place(member);
            self.world.cluster.cut_network(namespace, pod, true).map_err(anyhow::Error::msg)?;
            let (world, member) = (self.world.clone(), member.clone());
            self.background.spawn(async move {
                tokio::time::sleep(bound).await;
                // A pod that is gone by now has nothing to be joined to.
                let (namespace, pod) = place(&member);
                let _ = world.cluster.cut_network(namespace, pod, false);
            });
        }
        Ok(members.join(", "))
    }

    /// Kind, name and version of every object, those aside that only say that somebody is alive.
    fn versions(&self) -> Vec<String> {
        self.world.cluster.shared.run(|_, server| {
            let alive = ["leases", "nodes", "events"];
            let watched: Vec<_> = server
                .resources()
                .filter(|info| !alive.contains(&info.name.plural.as_str()))
                .map(|info| info.name.clone())
                .collect();
            let all = watched.iter().flat_map(|name| {
                server.peek_all(name, None).into_iter().map(move |found| {
                    format!("{} {} at version {}", name.plural, object::name(&found), object::version(&found))
                })
            });
            all.collect()
        })
    }
}

/// A bound of the language, as a time.
///
/// # Errors
/// When it is none.
pub fn bound(text: &str) -> anyhow::Result<Duration> {
    let parsed = parse_bound(text).map_err(anyhow::Error::msg)?;
    parsed.try_into().context("a bound must not be negative")
}

fn patience(step: &Step) -> Duration {
    let own = match step {
        Step::Wait { within, .. }
        | Step::Gone { within, .. }
        | Step::Objects { within, .. }
        | Step::Serves { within, .. }
        | Step::Told { within, .. }
        | Step::Pods { within, .. }
        | Step::Members { within, .. } => within,
        Step::Stays { during, .. } | Step::Quiet { during } => during,
        _ => return STEP_PATIENCE,
    };
    STEP_PATIENCE + bound(own).unwrap_or_default()
}

fn conditions(texts: &[String]) -> anyhow::Result<Vec<Condition>> {
    texts.iter().map(|text| text.parse().map_err(anyhow::Error::msg)).collect()
}

/// The object that a step is about.
fn target(step: &Step) -> Option<Target> {
    match step {
        Step::Wait { target, .. } | Step::Stays { target, .. } | Step::Patch { target, .. } => Some(target.clone()),
        Step::Members { cluster, .. }
        | Step::Write { cluster, .. }
        | Step::WriteUntilRefused { cluster, .. }
        | Step::Compare { cluster, .. }
        | Step::Kill { cluster, .. }
        | Step::DestroyData { cluster, .. }
        | Step::DeletePod { cluster, .. }
        | Step::SamePods { cluster, .. }
        | Step::ReplacedPods { cluster, .. }
        | Step::Pods { cluster, .. }
        | Step::Lead { cluster, .. }
        | Step::Isolate { cluster, .. } => Some(Target { kind: "EtcdCluster".to_owned(), name: cluster.clone() }),
        _ => None,
    }
}

/// A step, in words.
pub fn sentence(step: &Step) -> String {
    let who = |who: &Who, cluster: &str| match who {
        Who::Leader => format!("the leader of {cluster}"),
        Who::Follower => format!("a follower of {cluster}"),
        Who::Youngest => format!("the youngest member of {cluster}"),
        Who::All => format!("every member of {cluster}"),
    };
    let named = |target: &Target| format!("{} {}", target.kind, target.name);
    let objects = |manifest: &str| {
        let read = documents(&manifest.replace("${", "").replace('}', "")).or_else(|_| documents(manifest));
        let name = |found: &Value| format!("{} {}", object::text(found, "/kind"), object::name(found));
        read.unwrap_or_default().iter().map(name).collect::<Vec<_>>().join(", ")
    };
    match step {
        Step::Phase(name) => name.clone(),
        Step::Show(command) => format!("look: {command}"),
        Step::Apply(manifest) => format!("apply {}", objects(manifest)),
        Step::KubectlApply(manifest) => format!("kubectl apply {}", objects(manifest)),
        Step::Rejected { manifest, .. } => format!("{} is refused", objects(manifest)),
        Step::Certificates { cluster } => format!("make certificates for {cluster}"),
        Step::Patch { target, merge } => format!("patch {} with {merge}", named(target)),
        Step::Delete { target } => format!("delete {}", named(target)),
        Step::Wait { target, until, each: true, .. } => format!("each {} has {}", target.kind, until.join(", ")),
        Step::Wait { target, until, .. } => format!("{} has {}", named(target), until.join(", ")),
        Step::Stays { target, conditions, during } => {
            format!("{} keeps {} for {during}", named(target), conditions.join(", "))
        }
        Step::Gone { target, cluster, .. } => match cluster {
            Some(cluster) => format!("no {} of {cluster} is left", target.kind),
            None => format!("{} is gone", named(target)),
        },
        Step::Write { cluster, keys, .. } => format!("write {keys} keys to {cluster}, each acknowledged"),
        Step::WriteUntilRefused { cluster, .. } => format!("write to {cluster} until etcd refuses"),
        Step::Mark { name } => format!("remember this moment as {name}"),
        Step::Compare { cluster, like, at } => {
            let other: String = [like, at].into_iter().flatten().map(|other| format!(" with {other}")).collect();
            format!("compare every key of {cluster}{other}")
        }
        Step::Kill { cluster, who: whom } => format!("kill {}", who(whom, cluster)),
        Step::DestroyData { cluster, who: whom } => format!("destroy the data of {}", who(whom, cluster)),
        Step::DeletePod { cluster, who: whom } => format!("delete the pod of {}", who(whom, cluster)),
        Step::LoseCluster { cluster } => format!("lose every pod and every volume of {cluster}"),
        Step::RebootNodes { during } => format!("reboot every node; they are down for {during}"),
        Step::KillOperator => "kill the operator".to_owned(),
        Step::StopOperator => "ask the operator to stop".to_owned(),
        Step::StartOperator => "start the operator".to_owned(),
        Step::Lead { cluster, who: whom } => format!("make {} lead", who(whom, cluster)),
        Step::Pods { cluster, count, .. } => format!("{cluster} has {count} pods"),
        Step::SamePods { cluster, since, .. } => format!("the pods of {cluster} are those of {since}"),
        Step::ReplacedPods { cluster, since, count } => {
            format!("of the pods of {cluster} at {since}, {count} are replaced")
        }
        Step::Told { about, reasons, .. } => format!("events of {about} tell {}", reasons.join(", then ")),
        Step::Kubectl { args, .. } => format!("kubectl {}", args.join(" ")),
        Step::Isolate { cluster, who: whom, during } => format!("cut off {} for {during}", who(whom, cluster)),
        Step::PutObject { path, .. } => format!("put an object at {path}"),
        Step::Objects { prefix, at_least, at_most, .. } => match at_least == at_most {
            true => format!("{at_least} backups are under {prefix}"),
            false => format!("{at_least} to {at_most} backups are under {prefix}"),
        },
        Step::Members { cluster, healthy, version, .. } => {
            let version = version.as_ref().map(|version| format!(", all of them {version}")).unwrap_or_default();
            format!("{cluster} has {healthy} healthy members{version}")
        }
        Step::Serves { path, .. } => format!("the operator serves {path} as it should"),
        Step::Quiet { during } => format!("nothing is written for {during}"),
    }
}
