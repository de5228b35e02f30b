//! A real S3 server (MinIO) on the bridge, with the buckets `backups` and `other` and credentials that are made for one run.
//!
//! It answers as `store.default.svc`: with the bucket in the path, and as OSS wants it, in the host name.

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
use etcd_operator::ports::{Credentials, Stores};
use fake_k8s::process::network::GATEWAY;
use futures::TryStreamExt;
use jiff::Timestamp;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use sim::scenario::ObjectContent;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const PORT: u16 = 9000;
const HOST: &str = "store.default.svc";
/// The buckets that are there.
const BUCKETS: [&str; 2] = ["backups", "other"];
/// The Secret that opens them.
pub const SECRET: &str = "store-credentials";
/// How long the server may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The running server.
#[derive(Debug)]
pub struct Store {
    child: Child,
    /// Its access key.
    pub user: String,
    /// Its secret key.
    pub password: String,
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

impl Store {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(minio: &Path, data: &Path, logs: &Path) -> anyhow::Result<Self> {
        for bucket in BUCKETS {
            // Its buckets are the directories under its data.
            std::fs::create_dir_all(data.join(bucket)).context("cannot make a bucket")?;
        }
        let (user, password) = (random_word()?, random_word()?);
        let log = File::create(logs.join("minio.log")).context("cannot write the log of the S3 server")?;
        let child = Command::new(minio)
            .args(["server", "--quiet", "--address", &format!("{GATEWAY}:{PORT}")])
            .args(["--console-address", "127.0.0.1:9001"])
            .arg(data)
            .env_clear()
            .envs([("MINIO_ROOT_USER", &user), ("MINIO_ROOT_PASSWORD", &password)])
            .envs([("MINIO_DOMAIN", HOST), ("MINIO_BROWSER", "off"), ("HOME", "/run"), ("PATH", "/usr/bin:/bin")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", minio.display()))?;
        let mut store = Self { child, user, password };
        store.wait_until_up().await?;
        Ok(store)
    }

    async fn wait_until_up(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                bail!("the S3 server ended ({status})");
            }
            let listens = TcpStream::connect((GATEWAY, PORT)).await.is_ok();
            if listens && self.list("backups/").await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the S3 server did not come up in {} s", PATIENCE.as_secs())
    }

    /// What `${STORE_ENDPOINT}` is.
    pub fn endpoint() -> String {
        format!("http://{HOST}:{PORT}")
    }

    /// The Service of its name, and the endpoints behind it: the server itself, and one host name for each bucket.
    pub fn objects() -> [(&'static str, Value); 2] {
        let address = |bucket: &str| json!({"ip": GATEWAY.to_string(), "hostname": bucket});
        let ports = json!([{"name": "s3", "port": PORT}]);
        [
            (
                "services",
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "store"},
                "spec": {"clusterIP": "None", "ports": ports}}),
            ),
            (
                "endpoints",
                json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "store"},
                "subsets": [{"addresses": BUCKETS.map(address), "ports": ports}]}),
            ),
        ]
    }

    /// The Secret in the formats of S3 and of OSS.
    pub fn secret(&self) -> Value {
        let (user, password) = (&self.user, &self.password);
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": {
            "credentials": format!("[default]\naws_access_key_id = {user}\naws_secret_access_key = {password}\n"),
            "config": "[default]\nregion = us-east-1\n",
            "accessKeyID": user, "accessKeySecret": password,
        }})
    }

    async fn open(&self, bucket: &str) -> anyhow::Result<Arc<dyn ObjectStore>> {
        let secret = self.secret();
        let data: BTreeMap<String, Vec<u8>> = secret["stringData"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec()))
            .collect();
        let location = BucketLocation {
            storage: StorageKind::S3,
            bucket: bucket.to_owned(),
            endpoint: Some(format!("http://{GATEWAY}:{PORT}")),
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
        let (bucket, beginning) = prefix.split_once('/').context("must be `<bucket>/<prefix>`")?;
        // The client lists by whole path segments; what is wanted here is a beginning.
        let found: Vec<_> = self.open(bucket).await?.list(None).try_collect().await?;
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

    /// As [`Store::list`], without manifests.
    ///
    /// # Errors
    /// When the store says no.
    pub async fn backups(&self, prefix: &str) -> anyhow::Result<Vec<Stored>> {
        let mut all = self.list(prefix).await?;
        all.retain(|object| !object.key.ends_with(MANIFEST_SUFFIX));
        Ok(all)
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
        let (bucket, key) = path.split_once('/').context("must be `<bucket>/<key>`")?;
        self.open(bucket).await?.put(&key.into(), bytes.into()).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let (bucket, key) = path.split_once('/').context("must be `<bucket>/<key>`")?;
        let found = self.open(bucket).await?.get(&key.into()).await.with_context(|| format!("cannot read {path}"))?;
        Ok(found.bytes().await?.to_vec())
    }

    /// Ends it.
    pub async fn stop(mut self) {
        // It may have ended just now, which is what is wanted.
        let _ = self.child.kill().await;
    }
}

/// 20 letters and digits from the kernel.
fn random_word() -> anyhow::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 20];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("no random bytes")?;
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    Ok(bytes.iter().map(|byte| char::from(letters[usize::from(byte % 32)])).collect())
}
