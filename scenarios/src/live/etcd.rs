//! etcd as a client sees it: the members of a cluster, who leads, and how each of them is.

use std::time::Duration;

use anyhow::{Context, bail};
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use fake_k8s::controllers::object;
use serde_json::Value;
use sim::scenario::{Who, place};

use super::world::World;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// One member as etcd lists it, and what it says of itself.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name, which is its pod's; empty before it has started.
    pub name: String,
    /// Its id.
    pub id: u64,
    /// Whether it has no vote.
    pub learner: bool,
    /// What it says; none when it does not answer.
    pub state: Option<State>,
}

/// What a member says of itself.
#[derive(Clone, Debug)]
pub struct State {
    /// Version of etcd.
    pub version: String,
    /// Id of the member that it follows; 0 when there is none.
    pub leader: u64,
    /// Revision of its key space.
    pub revision: i64,
    /// Alarms and the like.
    pub errors: Vec<String>,
}

impl Member {
    /// It votes, answers, follows a leader and has nothing to complain of.
    pub fn is_healthy_voter(&self) -> bool {
        !self.learner && self.state.as_ref().is_some_and(|state| state.leader != 0 && state.errors.is_empty())
    }
}

/// A client of the cluster at a host: its Service, or one member.
///
/// # Errors
/// When the certificates of the cluster cannot be read or used.
pub async fn connect(world: &World, cluster: &str, host: &str) -> anyhow::Result<Client> {
    let mut options = ConnectOptions::new().with_timeout(CALL_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
    let found = world.find("EtcdCluster", cluster);
    let secret = found.as_ref().map_or("", |found| object::text(found, "/spec/TLS/static/operatorSecret"));
    let scheme = if secret.is_empty() { "http" } else { "https" };
    if !secret.is_empty() {
        let secret =
            world.find("Secret", &beside(cluster, secret)).with_context(|| format!("there is no Secret {secret}"))?;
        options = options.with_tls(tls(&secret)?);
    }
    Ok(Client::connect([format!("{scheme}://{host}:2379")], Some(options)).await?)
}

fn tls(secret: &Value) -> anyhow::Result<TlsOptions> {
    let file = |key: &str| -> anyhow::Result<Vec<u8>> {
        let encoded = object::map(secret, "/data").get(key).and_then(Value::as_str);
        let encoded = encoded.with_context(|| format!("the Secret has no {key}"))?;
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).context("no base64")
    };
    let identity = Identity::from_pem(file("etcd-client.crt")?, file("etcd-client.key")?);
    Ok(TlsOptions::new().ca_certificate(Certificate::from_pem(file("etcd-client-ca.crt")?)).identity(identity))
}

/// The host name of the cluster's client Service.
pub fn service(cluster: &str) -> String {
    let (namespace, name) = place(cluster);
    format!("{name}-client.{namespace}.svc")
}

/// What is in the namespace of a cluster, by the name that steps have for it.
pub fn beside(cluster: &str, name: &str) -> String {
    cluster.split_once('/').map_or_else(|| name.to_owned(), |(namespace, _)| format!("{namespace}/{name}"))
}

fn host(cluster: &str, member: &str) -> String {
    let (namespace, name) = place(cluster);
    format!("{member}.{name}.{namespace}.svc")
}

/// The members of the cluster that its client Service leads to, in order of their names.
///
/// # Errors
/// When nobody answers.
pub async fn members(world: &World, cluster: &str) -> anyhow::Result<Vec<Member>> {
    let mut client = connect(world, cluster, &service(cluster)).await?;
    let listed = client.member_list().await.context("the client Service does not answer")?;
    let asked = listed.members().iter().map(|member| async move {
        let name = member.name().to_owned();
        let state = if name.is_empty() { None } else { state(world, cluster, &name).await.ok() };
        Member { name, id: member.id(), learner: member.is_learner(), state }
    });
    let mut members = futures::future::join_all(asked).await;
    members.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(members)
}

async fn state(world: &World, cluster: &str, member: &str) -> anyhow::Result<State> {
    let host = host(cluster, member);
    let asking = async {
        let status = connect(world, cluster, &host).await?.status().await?;
        Ok(State {
            version: status.version().to_owned(),
            leader: status.leader(),
            revision: status.header().map_or(0, etcd_client::ResponseHeader::revision),
            errors: status.errors().to_vec(),
        })
    };
    tokio::time::timeout(CALL_TIMEOUT, asking).await.context("no answer in time")?
}

/// The names of the members that a step is about.
///
/// # Errors
/// When nobody answers, or there is no such member.
pub async fn chosen(world: &World, cluster: &str, who: Who) -> anyhow::Result<Vec<String>> {
    let members = members(world, cluster).await?;
    let leader =
        members.iter().find_map(|member| member.state.as_ref().map(|state| state.leader).filter(|id| *id != 0));
    let is_leader = |member: &&Member| Some(member.id) == leader;
    let found: Vec<String> = match who {
        Who::Leader => members.iter().filter(is_leader).map(|member| member.name.clone()).collect(),
        Who::Follower => {
            let mut others = members.iter().filter(|member| !is_leader(member) && !member.name.is_empty());
            others.next().map(|member| member.name.clone()).into_iter().collect()
        }
        Who::Youngest => {
            let made = |member: &&Member| {
                let pod = world.find("Pod", &beside(cluster, &member.name));
                pod.map(|pod| object::text(&pod, "/metadata/creationTimestamp").to_owned()).unwrap_or_default()
            };
            let started = members.iter().filter(|member| !member.name.is_empty());
            let youngest = started.min_by_key(|member| (std::cmp::Reverse(made(member)), member.name.clone()));
            youngest.map(|member| member.name.clone()).into_iter().collect()
        }
        Who::All => members.iter().map(|member| member.name.clone()).collect(),
    };
    if found.is_empty() {
        bail!("{cluster} has no {who:?}");
    }
    Ok(found.iter().map(|member| beside(cluster, member)).collect())
}

/// Moves leadership to a member; what is missing until it leads.
pub async fn lead(world: &World, cluster: &str, member: &str) -> Option<String> {
    let moving = async {
        let members = members(world, cluster).await?;
        let wanted = members.iter().find(|found| beside(cluster, &found.name) == member);
        let wanted = wanted.with_context(|| format!("{member} is no member"))?;
        let leads = |found: &&Member| found.state.as_ref().is_some_and(|state| state.leader == found.id);
        let leader = members.iter().find(leads).context("nobody leads")?;
        if leader.id != wanted.id {
            connect(world, cluster, &host(cluster, &leader.name)).await?.move_leader(wanted.id).await?;
        }
        anyhow::Ok(leader.id == wanted.id)
    };
    match moving.await {
        Ok(true) => None,
        Ok(false) => Some(format!("{member} does not lead yet")),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// What is missing until the cluster has exactly so many healthy voters, and nothing else.
pub async fn missing(world: &World, cluster: &str, healthy: usize, version: Option<&str>) -> Option<String> {
    let members = match members(world, cluster).await {
        Ok(members) => members,
        Err(error) => return Some(format!("{error:#}")),
    };
    let found = members.iter().filter(|member| member.is_healthy_voter()).count();
    if found != healthy || members.len() != healthy {
        return Some(format!("{found} healthy voters among {} members, {healthy} wanted", members.len()));
    }
    let runs =
        |member: &&Member| member.state.as_ref().map_or("", |state| &state.version) == version.unwrap_or_default();
    if let Some(other) = members.iter().find(|member| version.is_some() && !runs(member)) {
        return Some(format!("{} runs {}", other.name, other.state.as_ref().map_or("", |state| &state.version)));
    }
    let pods = world.all("Pod", cluster).len();
    let claims = world.all("PersistentVolumeClaim", cluster).len();
    let strays = pods != healthy || (claims != 0 && claims != healthy);
    strays.then(|| format!("{pods} pods and {claims} volume claims for {healthy} members"))
}
