//! Real object stores on the bridge, each with the buckets `backups` and `other`, and one Secret that opens all of them,
//! made for one run. The S3 server runs in each case, the others in those that name them.
//!
//! They are looked into with the operator's own adapter, with that same Secret.

mod abs;
mod gcs;
mod s3;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use etcd_operator::adapters::dial::Dialer;
use etcd_operator::adapters::object_store::ObjectStores;
use etcd_operator::backup::names::MANIFEST_SUFFIX;
use etcd_operator::model::{BucketLocation, StorageKind};
use etcd_operator::ports::{Credentials, Stores as _};
use fake_k8s::process::network::GATEWAY;
use futures::TryStreamExt;
use jiff::Timestamp;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use sim::scenario::{ObjectContent, store_path};
use tokio::process::Child;

use super::programs::Programs;

/// The buckets that are there.
const BUCKETS: [&str; 2] = ["backups", "other"];
/// The Secret that opens them.
pub const SECRET: &str = "store-credentials";
/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The running servers.
#[derive(Debug)]
pub struct Stores {
    servers: BTreeMap<StorageKind, Child>,
    keys: Keys,
}

/// What opens the stores.
#[derive(Debug)]
struct Keys {
    user: String,
    password: String,
    abs_key: String,
}

/// An object in a bucket.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written.
    pub at: Timestamp,
}

impl Stores {
    /// Starts those that there are programs for, and waits until they answer.
    ///
    /// # Errors
    /// When one does not come up.
    pub async fn start(programs: &Programs, data: &Path, logs: &Path) -> anyhow::Result<Self> {
        let keys = Keys { user: random_word()?, password: random_word()?, abs_key: abs::key(&random_word()?) };
        let mut commands = vec![(StorageKind::S3, s3::command(&programs.s3, &data.join("s3"), &keys)?)];
        if let Some(program) = &programs.gcs {
            commands.push((StorageKind::Gcs, gcs::command(program)));
        }
        if let Some(program) = &programs.abs {
            commands.push((StorageKind::Abs, abs::command(program, &data.join("abs"), &keys)?));
        }
        let mut servers = BTreeMap::new();
        for (kind, mut command) in commands {
            let log =
                File::create(logs.join(format!("store-{kind}.log"))).context("cannot write the log of a store")?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
            servers.insert(kind, command.spawn().with_context(|| format!("cannot start the server of {kind}"))?);
        }
        let mut stores = Self { servers, keys };
        let kinds: Vec<StorageKind> = stores.servers.keys().copied().collect();
        for kind in kinds {
            stores.wait_until_up(kind).await?;
        }
        Ok(stores)
    }

    async fn wait_until_up(&mut self, kind: StorageKind) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut said = String::new();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.servers.get_mut(&kind).and_then(|child| child.try_wait().transpose()) {
                bail!("the server of {kind} ended ({})", status?);
            }
            match self.is_up(kind).await {
                Ok(()) => return Ok(()),
                Err(error) => said = format!("{error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the server of {kind} did not come up in {} s: {said}", PATIENCE.as_secs())
    }

    /// The last bucket is the last to be there.
    async fn is_up(&self, kind: StorageKind) -> anyhow::Result<()> {
        if kind == StorageKind::Abs {
            abs::make_containers(&self.keys).await?;
        }
        let store = self.open(kind, BUCKETS[BUCKETS.len() - 1]).await?;
        let listed: Result<Vec<_>, _> = store.list(None).try_collect().await;
        listed.map(drop).context("a bucket cannot be listed")
    }

    /// What a placeholder of manifests stands for.
    pub fn placeholders(&self) -> [(&'static str, String); 4] {
        [
            ("STORE_ENDPOINT", s3::endpoint()),
            ("STORE_USER", self.keys.user.clone()),
            ("STORE_PASSWORD", self.keys.password.clone()),
            ("ABS_ENDPOINT", abs::endpoint()),
        ]
    }

    /// The endpoint of the S3 server.
    pub fn endpoint() -> String {
        s3::endpoint()
    }

    /// A Service for the name of each store, and the endpoints behind it.
    pub fn objects() -> Vec<(&'static str, Value)> {
        let by_name = |name: &str, port: u16, hosts: &[&str]| {
            let mut addresses = vec![json!({"ip": GATEWAY.to_string()})];
            addresses.extend(hosts.iter().map(|host| json!({"ip": GATEWAY.to_string(), "hostname": host})));
            let ports = json!([{"name": "store", "port": port}]);
            let meta = json!({"name": name});
            [
                (
                    "services",
                    json!({"apiVersion": "v1", "kind": "Service", "metadata": meta,
                    "spec": {"clusterIP": "None", "ports": ports}}),
                ),
                (
                    "endpoints",
                    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta,
                    "subsets": [{"addresses": addresses, "ports": ports}]}),
                ),
            ]
        };
        let stores =
            [by_name("store", s3::PORT, &BUCKETS), by_name("gcs", gcs::PORT, &[]), by_name("abs", abs::PORT, &[])];
        stores.into_iter().flatten().collect()
    }

    /// The Secret, in the formats of all kinds of store.
    pub fn secret(&self) -> Value {
        let (user, password) = (&self.keys.user, &self.keys.password);
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": {
            "credentials": format!("[default]\naws_access_key_id = {user}\naws_secret_access_key = {password}\n"),
            "config": "[default]\nregion = us-east-1\n",
            "accessKeyID": user, "accessKeySecret": password,
            "storage-account": abs::ACCOUNT, "storage-key": self.keys.abs_key, "storage-endpoint": abs::endpoint(),
            "credentials.json": gcs::credentials(),
        }})
    }

    async fn open(&self, storage: StorageKind, bucket: &str) -> anyhow::Result<Arc<dyn ObjectStore>> {
        let secret = self.secret();
        let data: BTreeMap<String, Vec<u8>> = secret["stringData"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec()))
            .collect();
        let location = BucketLocation {
            storage,
            bucket: bucket.to_owned(),
            endpoint: Some(format!("http://{GATEWAY}:{}", s3::PORT)),
            force_path_style: true,
            secret: Some(SECRET.to_owned()),
        };
        let stores = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
        stores.open(&location, &Credentials(Some(data))).await.with_context(|| format!("cannot open bucket {bucket}"))
    }

    /// Every object whose `<bucket>/<key>` begins so, manifests too, in order of their keys.
    ///
    /// # Errors
    /// When the store says no.
    pub async fn list(&self, prefix: &str) -> anyhow::Result<Vec<Stored>> {
        let (kind, bucket, beginning) = store_path(prefix);
        // The client lists by whole path segments; what is wanted here is a beginning.
        let found: Vec<_> = self.open(kind, bucket).await?.list(None).try_collect().await?;
        let wanted = found.into_iter().filter(|meta| meta.location.as_ref().starts_with(beginning));
        let mut objects: Vec<Stored> = wanted
            .map(|meta| Stored {
                key: meta.location.to_string(),
                size: meta.size,
                at: Timestamp::from_millisecond(meta.last_modified.timestamp_millis()).unwrap_or_default(),
            })
            .collect();
        objects.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(objects)
    }

    /// As [`Stores::list`], without manifests.
    ///
    /// # Errors
    /// When the store says no.
    pub async fn backups(&self, prefix: &str) -> anyhow::Result<Vec<Stored>> {
        let mut all = self.list(prefix).await?;
        all.retain(|object| !object.key.ends_with(MANIFEST_SUFFIX));
        Ok(all)
    }

    /// `<bucket>/<key>` of the backup under this prefix that was written last.
    ///
    /// # Errors
    /// When the store says no, or there is none.
    pub async fn newest(&self, prefix: &str) -> anyhow::Result<String> {
        let found = self.backups(prefix).await?;
        let last = found.iter().max_by_key(|stored| (stored.at, stored.key.clone()));
        let last = last.with_context(|| format!("there is no object under {prefix}"))?;
        let (_, bucket, _) = store_path(prefix);
        Ok(format!("{bucket}/{}", last.key))
    }

    /// Puts an object; a copy of another one is made with the change that is wanted.
    ///
    /// # Errors
    /// When the store says no, or the other object is not there.
    pub async fn put(&self, path: &str, content: &ObjectContent) -> anyhow::Result<()> {
        let bytes = match content {
            ObjectContent::Text(text) => text.clone().into_bytes(),
            ObjectContent::Truncated { of, percent } => {
                let mut bytes = self.get(of).await?;
                bytes.truncate(bytes.len() * usize::from(*percent) / 100);
                bytes
            }
            ObjectContent::Flipped { of } => {
                let mut bytes = self.get(of).await?;
                let middle = bytes.len() / 2;
                *bytes.get_mut(middle).context("the object is empty")? ^= 1;
                bytes
            }
        };
        let (kind, bucket, key) = store_path(path);
        self.open(kind, bucket).await?.put(&key.into(), bytes.into()).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let (kind, bucket, key) = store_path(path);
        let found =
            self.open(kind, bucket).await?.get(&key.into()).await.with_context(|| format!("cannot read {path}"))?;
        Ok(found.bytes().await?.to_vec())
    }

    /// Ends them.
    pub async fn stop(mut self) {
        for child in self.servers.values_mut() {
            // It may have ended just now, which is what is wanted.
            let _ = child.kill().await;
        }
    }
}

/// 20 letters and digits from the kernel.
///
/// # Errors
/// When it has none.
pub fn random_word() -> anyhow::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 20];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("no random bytes")?;
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    Ok(bytes.iter().map(|byte| char::from(letters[usize::from(byte % 32)])).collect())
}
