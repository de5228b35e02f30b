//! A snapshot on its way from an etcd member to a bucket, in flat memory.
//!
//! At most [`PARTS_IN_FLIGHT`] parts of [`PART_BYTES`] are on their way while the next one fills: 24 MiB, whatever the
//! size of the database. What is small enough for one part goes as one request, which can carry the precondition that
//! nothing is overwritten; several parts become visible at once, when the upload is completed, and only after the
//! snapshot's own hash was right. An upload that fails or is called off is aborted. Everything here may be dropped at any
//! await all the same: then nothing is visible in the store, and the parts of an upload that was never completed stay
//! there until the bucket's lifecycle rule takes them away (docs/buckets.md): `object_store` cannot list uploads, and a
//! killed process cannot abort its own.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::{BoxStream, FuturesUnordered};
use jiff::SignedDuration;
use object_store::{MultipartUpload, UploadPart};

use super::bucket::{Bucket, StoreFailure, Trouble, WriteMode};
use super::standing::{Standing, Stop};
use super::verify::{Checked, Integrity, IntegrityError};
use crate::model::MemberId;
use crate::ports::EtcdError;
use crate::ports::clock::deadline;

/// Size of a part: above the 5 MiB that S3 asks for, and 10,000 of them hold 80 GB, ten times what etcd can.
pub const PART_BYTES: usize = 8 << 20;
/// Parts that are on their way at the same time.
pub const PARTS_IN_FLIGHT: usize = 2;
/// How long an upload that failed may take to be called off.
const ABORT_DEADLINE: SignedDuration = SignedDuration::from_secs(10);

/// Why a snapshot did not get to the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The member's stream broke off.
    #[error("the snapshot stream broke off: {0}")]
    Source(#[from] EtcdError),
    /// The endpoint leads to several members, and this connection to one that the snapshot must not come from.
    #[error(
        "this connection led to member {member}, from which the snapshot is not taken: {why} (an endpoint may lead to several)"
    )]
    OtherMember {
        /// Its id.
        member: MemberId,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing moved for as long as `timeoutInSecond` allows.
    #[error("nothing moved for {after:#} (`backupPolicy.timeoutInSecond`) after {size} bytes of the snapshot")]
    Stalled {
        /// The time that was given.
        after: SignedDuration,
        /// Bytes that had come.
        size: u64,
    },
    /// The member's snapshot stands still, and the store has all that came of it.
    #[error("the member's snapshot stood still for {after:#} (`backupPolicy.timeoutInSecond`) after {size} bytes")]
    SourceStalled {
        /// The time that was given.
        after: SignedDuration,
        /// Bytes that had come.
        size: u64,
    },
    /// The stream does not end.
    #[error("the snapshot is larger than {limit} bytes, far more than the member's database")]
    TooLarge {
        /// Bytes that were expected at most.
        limit: u64,
    },
    /// The stream ended and is not a whole snapshot.
    #[error(transparent)]
    Integrity(#[from] IntegrityError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The run was called off.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

/// A snapshot that was sent. What the store made of it is for `verify` to find out.
pub struct Sent {
    /// What was sent.
    pub checked: Checked,
    /// The last request failed in a way that leaves open whether it was carried out.
    pub doubt: Option<StoreFailure>,
    /// To be called off if the object turns out not to be there.
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Sent {
    /// Takes away what an upload that was not carried out left in the store. As far as it can.
    pub async fn call_off(mut self, bucket: &Bucket) {
        if let Some(upload) = &mut self.upload {
            call_off(bucket, upload).await;
        }
    }
}

async fn call_off(bucket: &Bucket, upload: &mut Box<dyn MultipartUpload>) {
    // Whether it works changes nothing for us: the parts are not visible, and the bucket's lifecycle rule is the net.
    let _ = deadline(bucket.clock(), ABORT_DEADLINE, upload.abort()).await;
}

/// Limits of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a part.
    pub part_bytes: usize,
    /// No snapshot is larger.
    pub size_max: u64,
}

type Chunks = BoxStream<'static, Result<Bytes, EtcdError>>;

/// Sends a snapshot to the store, for as long as the run may go on.
///
/// # Errors
/// When it certainly is not there as a whole under its name. An answer that got lost is no error: see [`Sent::doubt`].
pub async fn send(
    bucket: &Bucket,
    key: &str,
    mode: &WriteMode,
    chunks: Chunks,
    limits: Limits,
    standing: &Standing<'_>,
) -> Result<Sent, TransferError> {
    let mut source = Source { chunks, integrity: Integrity::default(), rest: Bytes::new(), limits };
    let mut part = BytesMut::new();
    if standing.hold(source.fill(bucket, &mut part, &mut FuturesUnordered::new(), key)).await?? {
        let checked = source.integrity.finish()?;
        standing.check_before_visible().await?;
        let doubt = in_doubt(bucket.put(key, part.freeze(), mode).await)?;
        return Ok(Sent { checked, doubt, upload: None });
    }
    bucket.refuse_if_present(key, mode).await?;
    standing.check().await?;
    // Not dropped while it begins: nobody would know the upload that is to be called off.
    let mut upload = bucket.multipart(key).await?;
    let sent = async {
        standing.hold(send_parts(bucket, key, &mut source, part, &mut upload)).await??;
        let checked = source.integrity.finish()?;
        // A multipart upload carries no precondition: these looks, moments before it becomes visible, stand in for it.
        bucket.refuse_if_present(key, mode).await?;
        standing.check_before_visible().await?;
        Ok((checked, in_doubt(bucket.bounded("completing", key, upload.complete()).await)?))
    };
    match sent.await {
        Ok((checked, doubt)) => Ok(Sent { checked, doubt, upload: Some(upload) }),
        Err(error) => {
            call_off(bucket, &mut upload).await;
            Err(error)
        }
    }
}

/// The first part is there; sends it and all others.
async fn send_parts(
    bucket: &Bucket,
    key: &str,
    source: &mut Source,
    mut part: BytesMut,
    upload: &mut Box<dyn MultipartUpload>,
) -> Result<(), TransferError> {
    let mut in_flight = FuturesUnordered::new();
    loop {
        in_flight.push(upload.put_part(part.split().freeze().into()));
        while in_flight.len() >= PARTS_IN_FLIGHT {
            arrive(bucket, key, &mut in_flight).await?;
        }
        if source.fill(bucket, &mut part, &mut in_flight, key).await? {
            break;
        }
    }
    if !part.is_empty() {
        in_flight.push(upload.put_part(part.freeze().into()));
    }
    while !in_flight.is_empty() {
        arrive(bucket, key, &mut in_flight).await?;
    }
    Ok(())
}

/// Waits for one part.
async fn arrive(bucket: &Bucket, key: &str, in_flight: &mut FuturesUnordered<UploadPart>) -> Result<(), StoreFailure> {
    bucket.bounded("writing a part of", key, async { in_flight.next().await.unwrap_or(Ok(())) }).await
}

/// Tells a refusal, which nothing follows, from an answer that leaves open what happened. `Exists` is of the second
/// kind: a client that repeats a request of its own accord meets its own object.
fn in_doubt<T>(result: Result<T, StoreFailure>) -> Result<Option<StoreFailure>, StoreFailure> {
    match result {
        Ok(_) => Ok(None),
        Err(failure) => match failure.trouble {
            Trouble::BucketMissing | Trouble::CredentialsRefused | Trouble::Unsupported => Err(failure),
            Trouble::NotFound | Trouble::Exists | Trouble::Unreachable | Trouble::TimedOut | Trouble::Failed => {
                Ok(Some(failure))
            }
        },
    }
}

/// The member's stream, cut into parts of equal size.
struct Source {
    chunks: Chunks,
    integrity: Integrity,
    rest: Bytes,
    limits: Limits,
}

impl Source {
    /// Fills a part, while parts before it go on their way. True at the end of the stream.
    async fn fill(
        &mut self,
        bucket: &Bucket,
        part: &mut BytesMut,
        in_flight: &mut FuturesUnordered<UploadPart>,
        key: &str,
    ) -> Result<bool, TransferError> {
        loop {
            let room = self.limits.part_bytes - part.len();
            part.extend_from_slice(&self.rest.split_to(self.rest.len().min(room)));
            if part.len() == self.limits.part_bytes {
                return Ok(false);
            }
            match self.next(bucket, in_flight, key).await? {
                Some(chunk) => self.rest = chunk,
                None => return Ok(true),
            }
        }
    }

    /// The next bytes, none at the end.
    async fn next(
        &mut self,
        bucket: &Bucket,
        in_flight: &mut FuturesUnordered<UploadPart>,
        key: &str,
    ) -> Result<Option<Bytes>, TransferError> {
        loop {
            let (after, waits_for_store) = (bucket.stall(), !in_flight.is_empty());
            let moved = async {
                if in_flight.is_empty() {
                    return Either::Left(self.chunks.next().await);
                }
                match select(self.chunks.next(), in_flight.next()).await {
                    Either::Left((chunk, _)) => Either::Left(chunk),
                    Either::Right((arrived, _)) => Either::Right(arrived),
                }
            };
            let size = self.integrity.size();
            let stalled = |_| match waits_for_store {
                true => TransferError::Stalled { after, size },
                false => TransferError::SourceStalled { after, size },
            };
            match deadline(bucket.clock(), bucket.stall(), moved).await.map_err(stalled)? {
                Either::Right(Some(Err(error))) => {
                    return Err(bucket.explain("writing a part of", key, &error).into());
                }
                Either::Right(_) => {}
                Either::Left(None) => return Ok(None),
                Either::Left(Some(Err(error))) => return Err(error.into()),
                Either::Left(Some(Ok(chunk))) => {
                    self.integrity.update(&chunk);
                    if self.integrity.size() > self.limits.size_max {
                        return Err(TransferError::TooLarge { limit: self.limits.size_max });
                    }
                    return Ok(Some(chunk));
                }
            }
        }
    }
}
