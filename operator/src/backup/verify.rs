//! Is it the snapshot, whole and as etcd sent it? Asked while it flows to the store, and asked of the store afterwards.
//!
//! etcd ends a snapshot stream with 32 bytes of sha256 over the database, in every version from 3.2 to 3.7; as the
//! database consists of pages, a snapshot's size leaves 32 when divided by 512. A stream without them was cut, unless it
//! does not begin as a database does: then it is something else, whatever its size.

use futures::StreamExt;
use sha2::{Digest, Sha256};
use std::fmt::Write;

use super::bucket::{Bucket, StoreFailure, Trouble};
use super::snapshot::{self, FormatError, SnapshotError};
use crate::model::Revision;
use jiff::SignedDuration;

/// Length of the trailing hash.
pub const TRAILER: usize = 32;
/// bbolt's smallest unit: what is left over behind a multiple of it is the trailing hash.
const UNIT: u64 = 512;
/// How often a read-back is tried before its answer is believed: a flipped bit on the way is not one in the store.
const READS_MAX: u32 = 3;
/// Pause between two of them.
const READ_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// Why a stream is no whole snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// It does not begin as an etcd database.
    #[error("not an etcd snapshot: its {size} bytes do not begin as a bbolt file")]
    Foreign {
        /// Bytes that came.
        size: u64,
    },
    /// It ends before, or in the middle of, etcd's trailing hash.
    #[error("the snapshot is truncated: {size} bytes are no database with a trailing sha256")]
    Truncated {
        /// Bytes that came.
        size: u64,
    },
    /// The trailing hash is another one.
    #[error("the snapshot's own sha256 does not match its {size} bytes")]
    Mismatch {
        /// Bytes that came.
        size: u64,
    },
}

/// What a whole snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Size in bytes, the trailing hash included.
    pub size: u64,
    /// sha256 of all of it, in lower-case hex.
    pub sha256: String,
}

/// Hashes a stream as it flows; holds its last 32 bytes back, for they are the hash of what came before.
#[derive(Clone, Default)]
pub struct Integrity {
    hash: Sha256,
    head: Vec<u8>,
    tail: Vec<u8>,
    size: u64,
}

impl Integrity {
    /// The next bytes.
    pub fn update(&mut self, chunk: &[u8]) {
        self.size += chunk.len() as u64;
        let missing = (snapshot::HEAD - self.head.len()).min(chunk.len());
        self.head.extend_from_slice(&chunk[..missing]);
        if chunk.len() >= TRAILER {
            let (body, tail) = chunk.split_at(chunk.len() - TRAILER);
            self.hash.update(&self.tail);
            self.hash.update(body);
            self.tail.clear();
            self.tail.extend_from_slice(tail);
        } else {
            self.tail.extend_from_slice(chunk);
            let surplus = self.tail.len().saturating_sub(TRAILER);
            self.hash.update(&self.tail[..surplus]);
            self.tail.drain(..surplus);
        }
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether enough came to know that no etcd database begins so.
    fn is_foreign(&self) -> bool {
        self.head.len() == snapshot::HEAD && snapshot::database_size(&self.head).is_err()
    }

    /// sha256 of everything, whether it is a snapshot or not.
    pub fn sha256(&self) -> String {
        let mut whole = self.hash.clone();
        whole.update(&self.tail);
        hex(&whole.finalize())
    }

    /// The verdict at the end of the stream.
    ///
    /// # Errors
    /// When it is no whole snapshot.
    pub fn finish(self) -> Result<Checked, IntegrityError> {
        let size = self.size;
        let whole = size > TRAILER as u64 && size % UNIT == TRAILER as u64;
        if whole && self.hash.clone().finalize().as_slice() == self.tail.as_slice() {
            return Ok(Checked { size, sha256: self.sha256() });
        }
        let database = snapshot::database_size(&self.head).map_err(|_| IntegrityError::Foreign { size })?;
        let cut = database.is_some_and(|database| database.saturating_add(TRAILER as u64) > size);
        Err(if !whole || cut { IntegrityError::Truncated { size } } else { IntegrityError::Mismatch { size } })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

/// Why an object in the store is not the snapshot that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// It is not there.
    #[error("`{key}` is not in the store")]
    Missing {
        /// Its key.
        key: String,
    },
    /// It is another object.
    #[error("`{key}` in the store has {size} bytes with sha256 {sha256}, not the {expected} bytes that were sent")]
    Different {
        /// Its key.
        key: String,
        /// Its size.
        size: u64,
        /// Its hash.
        sha256: String,
        /// What was sent.
        expected: u64,
    },
    /// It is no whole snapshot.
    #[error("`{key}`: {source}")]
    Integrity {
        /// Its key.
        key: String,
        /// What is wrong.
        source: IntegrityError,
    },
    /// It is no etcd database.
    #[error("`{key}`: {source}")]
    Format {
        /// Its key.
        key: String,
        /// What is wrong.
        source: FormatError,
    },
    /// Two reads of one object gave two answers.
    #[error("`{key}`: the store gives different bytes for the same object")]
    Inconsistent {
        /// Its key.
        key: String,
    },
}

impl VerifyError {
    /// Whether reading again can give another answer at once.
    fn may_be_the_way(&self) -> bool {
        match self {
            Self::Store(failure) => {
                matches!(failure.trouble, Trouble::Failed | Trouble::Unreachable | Trouble::TimedOut)
            }
            Self::Missing { .. }
            | Self::Different { .. }
            | Self::Integrity { .. }
            | Self::Format { .. }
            | Self::Inconsistent { .. } => true,
        }
    }
}

/// Reads a stored object once, from its beginning to where that is enough, or its end: the size that the store told, and
/// what came. An answer that ends before that size is the way's fault, and says nothing about the object.
async fn read_back(
    bucket: &Bucket,
    key: &str,
    is_enough: fn(&Integrity) -> bool,
) -> Result<(u64, Integrity), VerifyError> {
    let missing = || VerifyError::Missing { key: key.to_owned() };
    let (size, mut chunks) = bucket.get(key).await?.ok_or_else(missing)?;
    let mut integrity = Integrity::default();
    while let Some(chunk) = chunks.next().await {
        integrity.update(&chunk?);
        if is_enough(&integrity) {
            return Ok((size, integrity));
        }
    }
    if integrity.size() == size {
        Ok((size, integrity))
    } else {
        Err(VerifyError::Inconsistent { key: key.to_owned() })
    }
}

/// The revision of a stored snapshot, by its own pages.
async fn stored_revision(bucket: &Bucket, key: &str, size: u64) -> Result<Revision, VerifyError> {
    let database = size - TRAILER as u64;
    snapshot::revision(&bucket.pages(key), database).await.map_err(|error| match error {
        SnapshotError::Read(failure) => VerifyError::Store(failure),
        SnapshotError::Format(source) => VerifyError::Format { key: key.to_owned(), source },
    })
}

async fn confirm_once(bucket: &Bucket, key: &str, sent: &Checked) -> Result<Revision, VerifyError> {
    let missing = || VerifyError::Missing { key: key.to_owned() };
    let size = bucket.head(key).await?.ok_or_else(missing)?.size;
    let (_, read) = read_back(bucket, key, |_| false).await?;
    let sha256 = read.sha256();
    if size != sent.size || read.size() != sent.size || sha256 != sent.sha256 {
        return Err(VerifyError::Different { key: key.to_owned(), size: read.size(), sha256, expected: sent.size });
    }
    stored_revision(bucket, key, size).await
}

/// Asks the store whether it holds exactly what was sent, and at which revision that is.
///
/// # Errors
/// When it does not, or cannot tell.
pub async fn confirm(bucket: &Bucket, key: &str, sent: &Checked) -> Result<Revision, VerifyError> {
    let mut tried = 1;
    loop {
        match confirm_once(bucket, key, sent).await {
            Err(error) if error.may_be_the_way() && tried < READS_MAX => tried += 1,
            verdict => return verdict,
        }
        bucket.clock().sleep(READ_AGAIN_AFTER).await;
    }
}

/// What a stored object is that a restore shall begin with: a whole snapshot, and its revision.
///
/// That it is none is final, so it is said only of bytes that were read twice alike.
///
/// # Errors
/// When it is none, or cannot be read.
pub async fn inspect(bucket: &Bucket, key: &str) -> Result<(Checked, Revision), VerifyError> {
    let mut before = None;
    let mut tried = 1;
    loop {
        // A file of another kind may be of any size: its first bytes are enough.
        let verdict = match read_back(bucket, key, Integrity::is_foreign).await {
            Err(error) => Err(error),
            Ok((size, read)) => {
                let is_foreign = read.is_foreign();
                let seen = if is_foreign { hex(&read.head) } else { read.sha256() };
                match if is_foreign { Err(IntegrityError::Foreign { size }) } else { read.finish() } {
                    Ok(checked) => return Ok((checked.clone(), stored_revision(bucket, key, checked.size).await?)),
                    Err(source) if before.replace(seen.clone()) == Some(seen) => {
                        return Err(VerifyError::Integrity { key: key.to_owned(), source });
                    }
                    Err(_) => Err(VerifyError::Inconsistent { key: key.to_owned() }),
                }
            }
        };
        match verdict {
            Err(error) if error.may_be_the_way() && tried < READS_MAX => tried += 1,
            verdict => return verdict,
        }
        bucket.clock().sleep(READ_AGAIN_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A database of so many pages of 512 bytes, all of one byte but for the first 20, and its hash.
    fn snapshot(pages: usize, byte: u8) -> Vec<u8> {
        let mut database = vec![byte; pages * 512];
        database[..20].copy_from_slice(b"\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\xed\xda\x0c\xed");
        [database.as_slice(), Sha256::digest(&database).as_slice()].concat()
    }

    fn verdict(bytes: &[u8], chunk: usize) -> Result<Checked, IntegrityError> {
        let mut integrity = Integrity::default();
        bytes.chunks(chunk).for_each(|chunk| integrity.update(chunk));
        integrity.finish()
    }

    #[test]
    fn a_stream_without_its_trailing_hash_is_truncated() {
        let whole = snapshot(2, 7);
        for length in [0, 7, 15, 19, 31, 32, 512, 1024, 1055] {
            assert!(matches!(verdict(&whole[..length], 100), Err(IntegrityError::Truncated { .. })), "{length}");
        }
        assert!(matches!(verdict(&whole[..544], 100), Err(IntegrityError::Mismatch { size: 544 })));
    }

    /// 32 bytes behind whole pages look like a hash; the first page knows how many pages there are.
    #[test]
    fn a_database_that_was_cut_between_two_pages_is_truncated() {
        let whole = crate::backup::tests::snapshot(42);
        for length in [4096 + 32, 8192 + 32, whole.len() - 4096, whole.len() - 512] {
            let cut = Err(IntegrityError::Truncated { size: length as u64 });
            assert_eq!(verdict(&whole[..length], 1000), cut, "{length} of {}", whole.len());
        }
        let mut flipped = whole.clone();
        flipped[9000] ^= 1;
        assert_eq!(verdict(&flipped, 1000), Err(IntegrityError::Mismatch { size: whole.len() as u64 }));
    }

    #[test]
    fn what_does_not_begin_as_a_database_is_foreign_whatever_its_size() {
        for length in [1, 5, 32, 33, 100, 544, 4096, 4096 + 32, 100_000] {
            let verdict = verdict(&vec![b'x'; length], 100);
            assert_eq!(verdict, Err(IntegrityError::Foreign { size: length as u64 }));
        }
        let mut other_magic = snapshot(9, 7);
        other_magic[19] ^= 1;
        assert!(matches!(verdict(&other_magic, 7), Err(IntegrityError::Foreign { .. })));
    }

    proptest! {
        #[test]
        fn the_verdict_does_not_depend_on_the_chunks(pages in 1usize..6, chunk in 1usize..700, flip: prop::sample::Index) {
            let mut bytes = snapshot(pages, 5);
            let checked = verdict(&bytes, chunk).unwrap();
            prop_assert_eq!(checked.size, bytes.len() as u64);
            prop_assert_eq!(checked.sha256, hex(&Sha256::digest(&bytes)));
            let at = flip.index(bytes.len());
            bytes[at] ^= 1;
            let size = bytes.len() as u64;
            let wrong = if at < 20 { IntegrityError::Foreign { size } } else { IntegrityError::Mismatch { size } };
            prop_assert_eq!(verdict(&bytes, chunk), Err(wrong));
        }
    }
}
