//! The backup stream against `etcdctl snapshot save` of the same data in the same run: real etcd on loopback, about
//! 200 MB that do not compress.
//!
//! etcdctl writes a file. We write an object: into a directory of the same disk, and over S3 into a MinIO that shares the
//! machine. What we do besides, and etcdctl does not: read the object back from the store and confirm its hash; told
//! apart. The rounds alternate, so that a busy machine is busy for both; the median is told.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use anyhow::{Context, Result};
use benches::machine::{forget_peak, mebibytes, moment, only_tried, peak_resident, resident};
use benches::real::{ETCD_VERSION, Etcd, Minio, Scratch};
use etcd_operator::adapters::clock::SystemClock;
use etcd_operator::adapters::dial::Dialer;
use etcd_operator::adapters::etcd::EtcdAdapter;
use etcd_operator::adapters::object_store::ObjectStores;
use etcd_operator::backup::bucket::{Bucket, WriteMode};
use etcd_operator::backup::standing::Standing;
use etcd_operator::backup::transfer::{Limits, PART_BYTES, send};
use etcd_operator::backup::verify::confirm;
use etcd_operator::model::{BucketLocation, StorageKind};
use etcd_operator::ports::{Credentials, Etcd as _, EtcdAccess, Stores};
use jiff::SignedDuration;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DATA_BYTES: usize = 200 << 20;
const ROUNDS: usize = 5;
const KEY: &str = "snapshot.db";
const STALL: SignedDuration = SignedDuration::from_secs(60);

/// One backup of ours.
struct Ours {
    sent: Duration,
    confirmed: Duration,
    memory: u64,
    size: u64,
}

fn main() -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<()> {
    let scratch = Scratch::new()?;
    let etcd = Etcd::start(scratch.path()).await?;
    let minio = Minio::start(scratch.path()).await?;
    let (bytes, rounds) = if only_tried() { (DATA_BYTES / 10, 1) } else { (DATA_BYTES, ROUNDS) };
    etcd.fill(bytes).await.context("filling etcd")?;
    let directory = scratch.path().join("objects");
    std::fs::create_dir_all(&directory)?;
    let disk = bucket(Arc::new(LocalFileSystem::new_with_prefix(&directory)?));
    let s3 = bucket(open(&minio).await?);
    let (mut theirs, mut to_disk, mut to_s3) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(save(&etcd, &scratch.path().join("etcdctl.db"))?);
        to_disk.push(back_up(&etcd, &disk).await?);
        to_s3.push(back_up(&etcd, &s3).await?);
    }
    let theirs = median(theirs);
    let size = to_disk[0].size;
    println!("etcd {ETCD_VERSION}, a snapshot of {} MiB, median of {rounds} rounds", mebibytes(size));
    println!("etcdctl snapshot save:        {}", rate(size, theirs));
    report("ours to a directory", &to_disk, theirs);
    report("ours to MinIO over S3", &to_s3, theirs);
    Ok(())
}

fn save(etcd: &Etcd, file: &Path) -> Result<Duration> {
    let began = moment();
    etcd.save_snapshot(file)?;
    let took = began.elapsed();
    std::fs::remove_file(file)?;
    Ok(took)
}

async fn back_up(etcd: &Etcd, bucket: &Bucket) -> Result<Ours> {
    let before = resident()?;
    forget_peak()?;
    let began = moment();
    let access = EtcdAccess { endpoints: vec![etcd.url.clone()], tls: None };
    let chunks = EtcdAdapter::new(Dialer::tcp()).snapshot(&access).await?.chunks;
    let limits = Limits { part_bytes: PART_BYTES, size_max: u64::MAX };
    let clock = SystemClock::start();
    let sent = send(bucket, KEY, &WriteMode::Replace, chunks, limits, &Standing::of_nobody(&clock)).await?;
    let took = began.elapsed();
    confirm(bucket, KEY, &sent.checked).await?;
    let memory = peak_resident()?.saturating_sub(before);
    Ok(Ours { sent: took, confirmed: began.elapsed(), memory, size: sent.checked.size })
}

fn bucket(store: Arc<dyn ObjectStore>) -> Bucket {
    Bucket::new(store, Arc::new(SystemClock::start()), Minio::BUCKET, STALL, &Credentials::default())
}

async fn open(minio: &Minio) -> Result<Arc<dyn ObjectStore>> {
    let location = BucketLocation {
        storage: StorageKind::S3,
        bucket: Minio::BUCKET.to_owned(),
        endpoint: Some(minio.url.clone()),
        force_path_style: true,
        secret: Some("benchmark".to_owned()),
    };
    let (user, password) = (Minio::USER, Minio::PASSWORD);
    let credentials = format!("[default]\naws_access_key_id = {user}\naws_secret_access_key = {password}\n");
    let config = "[default]\nregion = us-east-1\n";
    let data = [("credentials", credentials.as_str()), ("config", config)];
    let data = data.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let stores = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
    Ok(stores.open(&location, &Credentials(Some(data.into()))).await?)
}

fn report(name: &str, rounds: &[Ours], theirs: Duration) {
    let size = rounds[0].size;
    let sent = median(rounds.iter().map(|round| round.sent).collect());
    let confirmed = median(rounds.iter().map(|round| round.confirmed).collect());
    let memory = rounds.iter().map(|round| round.memory).max().unwrap_or_default();
    let ratio = |ours: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
    println!("{name}, sent:       {}, {:.2} x etcdctl", rate(size, sent), ratio(sent));
    println!("{name}, confirmed:  {}, {:.2} x etcdctl", rate(size, confirmed), ratio(confirmed));
    println!("{name}, memory:     {} MiB more than before at its peak", mebibytes(memory));
}

fn rate(size: u64, took: Duration) -> String {
    format!("{:.2} s, {:.0} MiB/s", took.as_secs_f64(), size as f64 / f64::from(1 << 20) / took.as_secs_f64())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
