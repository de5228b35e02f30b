//! Keys that a case writes through the client Service and later compares.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use etcd_client::{Client, GetOptions};
use futures::{StreamExt, TryStreamExt};

use super::etcd::{connect, service};
use super::world::World;

/// How long a client goes on trying one write, or the reading of everything.
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Clients that write at the same time.
const WRITERS: usize = 16;
/// Keys that are read at once.
const PAGE: i64 = 500;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was acknowledged, by EtcdCluster, and what it was at each mark.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    clusters: BTreeMap<String, Keys>,
    marks: BTreeMap<String, BTreeMap<String, Keys>>,
    written: u64,
}

impl Remembered {
    /// Remembers the state of this moment under a name.
    pub fn mark(&mut self, name: &str) {
        self.marks.insert(name.to_owned(), self.clusters.clone());
    }

    /// Writes so many new keys, each until it is acknowledged.
    ///
    /// # Errors
    /// When one is not acknowledged in time; those that were are remembered all the same.
    pub async fn write(&mut self, world: &World, cluster: &str, count: u32, value_bytes: u32) -> anyhow::Result<()> {
        let first = self.written + 1;
        self.written += u64::from(count);
        let pairs: Vec<_> = (first..=self.written).map(|number| pair(number, value_bytes)).collect();
        let share = pairs.len().div_ceil(WRITERS).max(1);
        let writers = pairs.chunks(share).map(|share| write_all(world, cluster, share));
        let written: Vec<()> = futures::stream::iter(writers).buffer_unordered(WRITERS).try_collect().await?;
        drop(written);
        self.clusters.entry(cluster.to_owned()).or_default().extend(pairs);
        Ok(())
    }

    /// Writes new keys one after the other until etcd refuses one; what it said.
    ///
    /// # Errors
    /// When none of them is refused, or with other words.
    pub async fn write_until_refused(
        &mut self,
        world: &World,
        cluster: &str,
        count: u32,
        value_bytes: u32,
        says: &str,
    ) -> anyhow::Result<String> {
        let mut client = connect(world, cluster, &service(cluster)).await?;
        for _ in 0..count {
            self.written += 1;
            let (key, value) = pair(self.written, value_bytes);
            match client.put(key.clone(), value.clone(), None).await {
                Ok(_) => drop(self.clusters.entry(cluster.to_owned()).or_default().insert(key, value)),
                Err(error) if error.to_string().contains(says) => return Ok(error.to_string()),
                Err(error) => return Err(error).context(format!("it was to be refused with `{says}`")),
            }
        }
        bail!("none of {count} keys was refused")
    }

    /// Every key that was written to `of`, up to a mark or at all, has its value, and there is no other. How many there are.
    ///
    /// # Errors
    /// Names the first key that is not as it should be.
    pub async fn compare(&mut self, world: &World, cluster: &str, of: &str, at: Option<&str>) -> anyhow::Result<usize> {
        let then = match at {
            None => &self.clusters,
            Some(mark) => self.marks.get(mark).with_context(|| format!("there is no mark {mark}"))?,
        };
        let wanted = then.get(of).cloned().unwrap_or_default();
        let found = read_all(world, cluster).await?;
        let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let lost: Vec<_> = wanted.keys().filter(|key| !found.contains_key(*key)).collect();
        if let Some(first) = lost.first() {
            bail!("{} of {} keys are gone, the first is {}", lost.len(), wanted.len(), name(first));
        }
        if let Some((key, _)) = wanted.iter().find(|(key, value)| found.get(*key) != Some(value)) {
            bail!("key {} has another value", name(key));
        }
        if let Some(extra) = found.keys().find(|key| !wanted.contains_key(*key)) {
            bail!("key {} is there and should not be", name(extra));
        }
        let count = wanted.len();
        self.clusters.insert(cluster.to_owned(), wanted);
        Ok(count)
    }
}

fn pair(number: u64, value_bytes: u32) -> (Vec<u8>, Vec<u8>) {
    let key = format!("key-{number:06}");
    let mut value = format!("value of {key} ").into_bytes();
    value.resize(value_bytes as usize, b'.');
    (key.into_bytes(), value)
}

async fn write_all(world: &World, cluster: &str, pairs: &[(Vec<u8>, Vec<u8>)]) -> anyhow::Result<()> {
    let mut client: Option<Client> = None;
    for (key, value) in pairs {
        let start = Instant::now();
        loop {
            let connected = match client.take() {
                Some(connected) => Ok(connected),
                None => connect(world, cluster, &service(cluster)).await,
            };
            let result = match connected {
                Ok(mut connected) => {
                    let put = connected.put(key.clone(), value.clone(), None).await;
                    put.map(|_| client = Some(connected)).map_err(anyhow::Error::from)
                }
                Err(error) => Err(error),
            };
            let Err(error) = result else { break };
            if start.elapsed() > PATIENCE {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(error.context(format!("key {key} was not acknowledged in {} s", PATIENCE.as_secs())));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
    Ok(())
}

async fn read_all(world: &World, cluster: &str) -> anyhow::Result<Keys> {
    let start = Instant::now();
    loop {
        match read_once(world, cluster).await {
            Ok(found) => return Ok(found),
            Err(error) if start.elapsed() > PATIENCE => {
                return Err(error.context(format!("{cluster} could not be read in {} s", PATIENCE.as_secs())));
            }
            Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }
}

/// Linearizable, all pages at the revision of the first.
async fn read_once(world: &World, cluster: &str) -> anyhow::Result<Keys> {
    let mut client = connect(world, cluster, &service(cluster)).await?;
    let (mut found, mut from, mut revision) = (Keys::new(), vec![0], 0);
    loop {
        let options = GetOptions::new().with_from_key().with_limit(PAGE).with_revision(revision);
        let mut page = client.get(from, Some(options)).await?;
        revision = if revision == 0 { page.header().map_or(0, |header| header.revision()) } else { revision };
        let more = page.more();
        for pair in page.take_kvs() {
            let (key, value) = pair.into_key_value();
            found.insert(key, value);
        }
        match found.last_key_value().filter(|_| more) {
            Some((last, _)) => from = [last.as_slice(), &[0]].concat(),
            None => return Ok(found),
        }
    }
}
