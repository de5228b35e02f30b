//! Carries out what the plan says: takes a backup, removes old ones. Decides nothing but which member to ask next when
//! one breaks off.

use jiff::Timestamp;

use super::BackupContext;
use super::bucket::{Bucket, StoreFailure, Trouble, WriteMode};
use super::manifest::{self, Manifest, Owner};
use super::names::{manifest_key, parse_periodic, periodic_key};
use super::observe::Observed;
use super::retention::{Candidate, candidates, surplus};
use super::schedule::Schedule;
use super::source::{self, Source, SourceError};
use super::standing::{Standing, Stop};
use super::transfer::{self, Limits, TransferError};
use super::validate::Desired;
use super::verify::{self, VerifyError};
use crate::api::conditions::reason::BackupSucceededReason as Reason;
use crate::api::{BackupRecord, FailedEndpoint};
use crate::ports::clock::deadline;
use crate::ports::etcd::Snapshot;
use crate::ports::{Credentials, Fence, Ports, StoreError};
use jiff::SignedDuration;
use std::collections::BTreeSet;

/// A snapshot is no larger than the database plus what may be written to it while the snapshot is asked for; what is
/// far beyond is a stream that does not end. Generous, for `dbSize` of a member that was just restarted may be old.
const GROWTH_FACTOR: u64 = 4;
const GROWTH_MIN: u64 = 1 << 30;
/// How often an endpoint is connected to until that leads to a member as good as the one that was chosen there.
const CONNECTIONS_MAX: u32 = 3;
/// Pause between two of them.
const CONNECT_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// How often the manifest is written before the backup is called good without it.
const MANIFEST_ATTEMPTS: u32 = 3;
/// Manifests of strangers on our prefix that are read in one pass; what lies beyond is left alone. Our own are read as many
/// as there are: it takes all of them to know that `maxBackups` are newer.
const STRANGERS_MAX: usize = 256;
/// Manifests that are read at the same time.
const MANIFEST_READS: usize = 16;
/// What nobody confirmed is not touched before this age: somebody may still be confirming it.
const UNCONFIRMED_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Kept backups that are looked for before others are removed.
const KEPT_LOOKED_FOR_MAX: usize = 64;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The bucket cannot be opened.
    #[error(transparent)]
    Open(#[from] StoreError),
    /// No member can be asked.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The snapshot did not get to the store.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The store's answer to the upload was lost or bad, and the store does not hold it.
    #[error("{doubt}; and afterwards: {verify}")]
    Lost {
        /// What the upload ended with.
        doubt: StoreFailure,
        /// What the store said when it was asked.
        verify: VerifyError,
    },
    /// The store does not hold what was sent.
    #[error("not confirmed by the store: {0}")]
    NotConfirmed(#[from] VerifyError),
    /// The run was called off.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl RunError {
    /// Why the run was called off, if it was.
    pub fn stopped(&self) -> Option<Stop> {
        match self {
            Self::Stopped(stop) | Self::Transfer(TransferError::Stopped(stop)) => Some(*stop),
            _ => None,
        }
    }

    /// For the condition.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Open(StoreError::Credentials { .. }) => Reason::SecretInvalid,
            Self::Open(StoreError::Location { .. }) => Reason::InvalidSpec,
            Self::Source(_) => Reason::NoEndpoint,
            Self::Transfer(
                TransferError::Source(_) | TransferError::OtherMember { .. } | TransferError::TooLarge { .. },
            ) => Reason::SnapshotFailed,
            Self::Transfer(TransferError::Stalled { .. } | TransferError::SourceStalled { .. }) => Reason::TimedOut,
            Self::Transfer(TransferError::Integrity(_)) => Reason::SnapshotCorrupt,
            Self::Transfer(TransferError::Store(failure)) => store_reason(failure),
            Self::Lost { doubt, verify: VerifyError::Missing { .. } } => store_reason(doubt),
            Self::Lost { .. } | Self::NotConfirmed(_) => Reason::NotConfirmed,
            Self::Stopped(_) | Self::Transfer(TransferError::Stopped(_)) => Reason::Interrupted,
        }
    }
}

fn store_reason(failure: &StoreFailure) -> Reason {
    match failure.trouble {
        Trouble::BucketMissing => Reason::BucketMissing,
        Trouble::CredentialsRefused => Reason::CredentialsRefused,
        Trouble::Unreachable => Reason::StoreUnreachable,
        Trouble::TimedOut => Reason::TimedOut,
        Trouble::NotFound | Trouble::Exists | Trouble::Unsupported | Trouble::Failed => Reason::StoreFailed,
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// The record of the backup, and a word about what is not as it should be; or why there is none.
    pub outcome: Result<(BackupRecord, String), RunError>,
    /// Endpoints that could not be used.
    pub failed_endpoints: Vec<FailedEndpoint>,
}

/// Opens the bucket of a backup.
///
/// # Errors
/// When the Secret or the location cannot be used.
pub async fn open(ports: &Ports, desired: &Desired, credentials: &Credentials) -> Result<Bucket, StoreError> {
    let location = &desired.location.bucket;
    let store = ports.stores.open(location, credentials).await?;
    Ok(Bucket::new(store, ports.clock.clone(), &location.bucket, desired.stall, credentials))
}

/// Takes one backup, for as long as it may; `began` names it.
pub async fn run(
    ports: &Ports,
    desired: &Desired,
    observed: &Observed,
    context: &BackupContext,
    began: Timestamp,
    standing: &Standing<'_>,
) -> Report {
    let nothing = |error| Report { outcome: Err(error), failed_endpoints: Vec::new() };
    let Ok(tls) = &observed.tls else { return nothing(no_endpoint(desired)) };
    let (sources, mut failed_endpoints) =
        match standing.hold(source::ask(ports, &desired.endpoints, tls.as_ref())).await {
            Ok(asked) => asked,
            Err(stop) => return nothing(stop.into()),
        };
    let outcome = async {
        let credentials = observed.credentials.clone().map_err(|_| no_endpoint(desired))?;
        let bucket = open(ports, desired, &credentials).await?;
        let mut last = no_endpoint(desired);
        for source in sources? {
            match copy(ports, desired, &bucket, &source, (context.part_bytes, began), standing).await {
                // Another member may do better; whatever the store said, it would say again.
                Err(RunError::Transfer(
                    error @ (TransferError::Source(_)
                    | TransferError::OtherMember { .. }
                    | TransferError::SourceStalled { .. }
                    | TransferError::Integrity(_)
                    | TransferError::TooLarge { .. }),
                )) => {
                    let message = error.to_string();
                    failed_endpoints.push(FailedEndpoint { endpoint: source.endpoint.clone(), message });
                    last = error.into();
                }
                other => return other,
            }
        }
        Err(last)
    }
    .await;
    Report { outcome, failed_endpoints }
}

fn no_endpoint(desired: &Desired) -> RunError {
    SourceError::NoneUsable { count: desired.endpoints.len(), first: "nobody was asked".to_owned() }.into()
}

/// Opens the snapshot of the member that was chosen, or of one that is as good: behind the address of a Service each
/// connection may lead to another member. What is behind catches up in a moment, or the next connection leads elsewhere.
async fn open_snapshot(
    ports: &Ports,
    desired: &Desired,
    source: &Source,
    standing: &Standing<'_>,
) -> Result<Snapshot, RunError> {
    let mut tried = 1;
    loop {
        let asked = deadline(ports.clock.as_ref(), desired.stall, ports.etcd.snapshot(&source.access));
        let stalled = |_| TransferError::SourceStalled { after: desired.stall, size: 0 };
        let snapshot = standing.hold(asked).await?.map_err(stalled)?.map_err(TransferError::Source)?;
        let Some(why) = source::why_not_instead(&source.status, &snapshot.status) else { return Ok(snapshot) };
        if tried >= CONNECTIONS_MAX {
            return Err(TransferError::OtherMember { member: snapshot.status.member_id, why }.into());
        }
        tried += 1;
        standing.hold(ports.clock.sleep(CONNECT_AGAIN_AFTER)).await?;
    }
}

/// One member's snapshot into the store, confirmed from there.
async fn copy(
    ports: &Ports,
    desired: &Desired,
    bucket: &Bucket,
    source: &Source,
    (part_bytes, began): (usize, Timestamp),
    standing: &Standing<'_>,
) -> Result<(BackupRecord, String), RunError> {
    let path = &desired.location.key;
    let Snapshot { status, chunks } = open_snapshot(ports, desired, source, standing).await?;
    let (key, mode) = match desired.schedule {
        Schedule::Once => (path.clone(), WriteMode::Replace),
        Schedule::Every(_) => (periodic_key(path, status.revision, began), WriteMode::Create),
    };
    let size_max = status.db_size.saturating_mul(GROWTH_FACTOR).saturating_add(GROWTH_MIN);
    let limits = Limits { part_bytes, size_max };
    let sent = transfer::send(bucket, &key, &mode, chunks, limits, standing).await?;
    let revision = match standing.hold(verify::confirm(bucket, &key, &sent.checked)).await {
        Ok(Ok(revision)) => revision,
        Ok(Err(verify)) => return Err(not_confirmed(bucket, &key, &mode, sent, verify).await),
        Err(stop) => {
            clean_up(bucket, &key, &mode, sent, stop).await;
            return Err(stop.into());
        }
    };
    let record = BackupRecord {
        key: key.clone(),
        revision: revision.0,
        size: i64::try_from(sent.checked.size).unwrap_or(i64::MAX),
        sha256: sent.checked.sha256.clone(),
        etcd_version: status.version,
        cluster_id: status.cluster_id.to_string(),
        member_id: status.member_id.to_string(),
        time: super::status::seconds(began),
        superseded: false,
        storage_type: Some(desired.location.bucket.storage.into()),
        endpoint: desired.location.bucket.endpoint.clone().unwrap_or_default(),
        bucket: desired.location.bucket.bucket.clone(),
        etcd_endpoints: match desired.schedule {
            Schedule::Once => desired.endpoints.clone(),
            Schedule::Every(_) => Vec::new(),
        },
    };
    let note = match write_manifest(bucket, desired, &record).await {
        Ok(()) => String::new(),
        Err(failure) => format!("its manifest could not be written: {failure}"),
    };
    Ok((record, note))
}

/// Cleans up after an upload that the store does not confirm.
///
/// A periodic backup's object is removed when the upload was acknowledged: then it is surely ours, and retries into a
/// store that writes and cannot read must not pile up. In doubt it stays: it may be another's.
async fn not_confirmed(
    bucket: &Bucket,
    key: &str,
    mode: &WriteMode,
    mut sent: transfer::Sent,
    verify: VerifyError,
) -> RunError {
    let doubt = sent.doubt.take();
    if matches!(verify, VerifyError::Missing { .. }) {
        sent.call_off(bucket).await;
    } else if doubt.is_none() && *mode == WriteMode::Create {
        // If it cannot be removed either, retention takes it when its time has come.
        let _ = bucket.delete(key).await;
    }
    match doubt {
        Some(doubt) => RunError::Lost { doubt, verify },
        None => RunError::NotConfirmed(verify),
    }
}

/// Cleans up after a run that was called off while the store was asked to confirm it, with the care of [`not_confirmed`].
/// Without the lease, nothing but the parts of the upload, which nobody else knows of, is touched.
async fn clean_up(bucket: &Bucket, key: &str, mode: &WriteMode, sent: transfer::Sent, stop: Stop) {
    if sent.doubt.is_some() {
        sent.call_off(bucket).await;
    } else if *mode == WriteMode::Create && stop != Stop::LeaseLost {
        let _ = bucket.delete(key).await;
    }
}

fn owner(desired: &Desired) -> Owner {
    let key = &desired.key;
    Owner { namespace: key.namespace.clone(), name: key.name.clone(), uid: desired.uid.clone() }
}

async fn write_manifest(bucket: &Bucket, desired: &Desired, record: &BackupRecord) -> Result<(), StoreFailure> {
    let json = bytes::Bytes::from(Manifest::new(record, owner(desired)).to_json());
    let key = manifest_key(&record.key);
    let mut attempt = 1;
    loop {
        match bucket.put(&key, json.clone(), &WriteMode::Replace).await {
            Err(_) if attempt < MANIFEST_ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

async fn read_manifest(bucket: &Bucket, key: &str) -> Result<Option<Manifest>, StoreFailure> {
    let json = bucket.get_small(&manifest_key(key), manifest::SIZE_MAX).await?;
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}

/// What the store has in the place of a one-shot backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The backup, as far as its size and manifest tell.
    AsRecorded,
    /// Another object.
    Overwritten,
    /// Nothing.
    Nothing,
}

/// Looks whether the store still has a one-shot backup as its record says: by the object's size, and by the manifest of
/// whoever wrote there since. A manifest from before the backup is one that the backup could not replace.
///
/// # Errors
/// When the store cannot be asked, which says nothing about the backup.
pub async fn look_back(bucket: &Bucket, record: &BackupRecord) -> Result<Found, StoreFailure> {
    let Some(object) = bucket.head(&record.key).await? else { return Ok(Found::Nothing) };
    if i64::try_from(object.size) != Ok(record.size) {
        return Ok(Found::Overwritten);
    }
    // By the clock of the store, which wrote both; times in manifests are of the beginnings of runs, and of other clocks. (For
    // an object in parts it is when the upload began: where that hides or shows too much, status is wrong, and a restore
    // looks for itself.)
    let described = bucket.head(&manifest_key(&record.key)).await?;
    if described.is_none_or(|manifest| manifest.last_modified < object.last_modified) {
        return Ok(Found::AsRecorded);
    }
    let manifest = read_manifest(bucket, &record.key).await?;
    let is_of_another = |manifest: Manifest| manifest.key == record.key && manifest.sha256 != record.sha256;
    Ok(if manifest.is_some_and(is_of_another) { Found::Overwritten } else { Found::AsRecorded })
}

/// Keys in the bucket that others need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Being restored: they stay, and count as kept.
    pub in_use: BTreeSet<String>,
    /// On record in other EtcdBackups: neither of this one nor counted.
    pub of_others: BTreeSet<String>,
}

/// What retention chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Backups to remove, the oldest first.
    pub remove: Vec<String>,
    /// Recorded backups that are no longer in the store, whoever removed them.
    pub vanished: Vec<String>,
}

/// Chooses what to remove, by the records of this bucket and the store's list. Removes nothing.
///
/// # Errors
/// When the store cannot be asked; then nothing is removed.
pub async fn choose(
    bucket: &Bucket,
    desired: &Desired,
    records: &[BackupRecord],
    needed: &Needed,
    now: Timestamp,
) -> Result<Chosen, StoreFailure> {
    let in_use = &needed.in_use;
    let path = &desired.location.key;
    let records: Vec<_> = records.iter().filter(|record| desired.location.bucket.has(record)).cloned().collect();
    let is_free = |key: &str| parse_periodic(path, key).is_some() && !in_use.contains(key);
    let marked = records.iter().filter(|record| record.superseded && is_free(&record.key));
    let mut chosen = Chosen { remove: marked.map(|record| record.key.clone()).collect(), vanished: Vec::new() };
    if desired.keep == 0 {
        return Ok(chosen);
    }
    let mut listed = bucket.list(&format!("{path}_v")).await?;
    listed.retain(|key, _| !chosen.remove.contains(key));
    let live: Vec<_> = records.iter().filter(|record| !record.superseded).cloned().collect();
    let mut all = candidates(path, &live, &listed);
    all.retain(|one| one.recorded.is_some() || !needed.of_others.contains(&one.key));
    let mut all = own(bucket, desired, all, &records).await?;
    let mut goes = surplus(all.clone(), desired.keep);
    if !goes.is_empty() {
        // Something else may have removed backups: those that shall stay in their place are looked for first.
        let goes_too: BTreeSet<_> = goes.iter().map(|one| &one.key).collect();
        let kept = || all.iter().filter(|one| one.restorable && !goes_too.contains(&one.key)).map(|one| &one.key);
        let newest = kept().rev().take(KEPT_LOOKED_FOR_MAX);
        let looked_for: BTreeSet<_> = kept().filter(|key| !listed.contains_key(*key)).chain(newest).collect();
        for key in looked_for {
            if bucket.head(key).await?.is_none() {
                chosen.vanished.push(key.clone());
            }
        }
        all.retain(|one| !chosen.vanished.contains(&one.key));
        goes = surplus(all, desired.keep);
    }
    let old_enough = |one: &Candidate| one.restorable || now.duration_since(one.name.time) >= UNCONFIRMED_AGE;
    let goes = goes.into_iter().filter(|one| old_enough(one) && !in_use.contains(&one.key));
    chosen.remove.extend(goes.map(|one| one.key));
    Ok(chosen)
}

/// Leaves out what other EtcdBackups wrote on the same prefix. The oldest are looked at first: with too many strangers among
/// them the newer ones are left out too, and neither go nor count as kept.
async fn own(
    bucket: &Bucket,
    desired: &Desired,
    all: Vec<Candidate>,
    records: &[BackupRecord],
) -> Result<Vec<Candidate>, StoreFailure> {
    let owner = owner(desired);
    let clusters: Vec<_> = records.iter().map(|record| record.cluster_id.as_str()).collect();
    let is_known = |one: &Candidate| one.recorded.is_some() || !one.restorable;
    let (mut own, mut unknown): (Vec<_>, Vec<_>) = all.into_iter().partition(is_known);
    unknown.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.key.cmp(&b.key)));
    let mut strangers = 0;
    for candidates in unknown.chunks(MANIFEST_READS) {
        let read = candidates.iter().map(|candidate| read_manifest(bucket, &candidate.key));
        for (candidate, manifest) in candidates.iter().zip(futures::future::try_join_all(read).await?) {
            if manifest.is_some_and(|manifest| manifest.belongs_to(&owner, &clusters)) {
                own.push(candidate.clone());
            } else {
                strangers += 1;
            }
        }
        if strangers >= STRANGERS_MAX {
            break;
        }
    }
    Ok(own)
}

/// Removes backups with their manifests. Each for itself: what is gone, and what could not be done. Ends where the lease
/// does.
pub async fn remove(bucket: &Bucket, keys: &[String], fence: Option<&Fence>) -> (Vec<String>, Vec<StoreFailure>) {
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    for key in keys {
        if fence.is_some_and(|fence| !fence.is_open(bucket.clock().monotonic())) {
            break;
        }
        let removed = async {
            bucket.delete(key).await?;
            bucket.delete(&manifest_key(key)).await
        };
        match removed.await {
            Ok(()) => gone.push(key.clone()),
            Err(failure) => failures.push(failure),
        }
    }
    (gone, failures)
}
