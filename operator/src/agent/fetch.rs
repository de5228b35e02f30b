//! Brings a verified snapshot from the store onto the volume.
//!
//! The bytes pass once, through three checks: the size and the sha256 that the EtcdRestore verified, and etcd's own
//! hash at the end of the snapshot. They go into a temporary file that takes its name only when all is right and on
//! disk: the name alone says that the file is good. Killed anywhere, the next run begins anew or finds its work done.
//! Memory is one chunk.
//!
//! A member that was restored once has this before it at each start, for as long as its pod lives; so whether there is
//! anything to do is looked at before the Secret and the store are: both may be gone by then.

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;

use super::command::Fetch;
use super::directory::{Directory, FileSink, has_log};
use crate::backup::bucket::{self, Trouble};
use crate::backup::resume;
use crate::ports::{Credentials, SecretWords, StoreError, Stores};

/// etcd appends the sha256 of the database.
const TRAILER_BYTES: u64 = 32;
/// The database is made of pages, which are multiples of this.
const SECTOR_BYTES: u64 = 512;

/// Exit code of the agent when the store does not have what was verified. `EX_DATAERR` of sysexits; the operator
/// recognises it in the pod's status, and verifies anew what is there.
pub const SNAPSHOT_CHANGED_EXIT_CODE: i32 = 65;

/// What `fetch` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The file is there now.
    Complete,
    /// Nothing had to be done: the file, or the data directory made of it, is there already.
    Already,
}

/// Why there is no snapshot. No part of one is left behind.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The key is none that a store can hold.
    #[error("key `{key}` cannot be used: {message}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// The Secret's files cannot be read.
    #[error("cannot read the credentials in {path}: {source}")]
    Credentials {
        /// Where they are mounted.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The Secret is not there: it is mounted as an optional one.
    #[error("the Secret of the store does not exist or is empty: there is nothing in {path}")]
    NoCredentials {
        /// Where it would be.
        path: String,
    },
    /// The bucket cannot be opened.
    #[error("cannot open bucket {bucket}: {source}")]
    Open {
        /// Which.
        bucket: String,
        /// Why not.
        #[source]
        source: StoreError,
    },
    /// The object is gone.
    #[error("the store does not give the snapshot: {message}")]
    Missing {
        /// In our words.
        message: String,
    },
    /// The store did not give the object, or not all of it.
    #[error("the store does not give the snapshot: {message}")]
    Store {
        /// In our words: the client's repeat what the server said, and that may be a secret.
        message: String,
    },
    /// The object is not the one that was verified.
    #[error("the object is {actual} bytes long, and was {expected} when it was verified")]
    Size {
        /// When it was verified.
        expected: u64,
        /// Now.
        actual: u64,
    },
    /// The object is not the one that was verified.
    #[error("the object's sha256 is {actual}, and was {expected} when it was verified")]
    Digest {
        /// When it was verified.
        expected: String,
        /// Now.
        actual: String,
    },
    /// The object does not end with the hash of what is before it.
    #[error("the object is no etcd snapshot, or a damaged one: {why}")]
    NotASnapshot {
        /// Which check failed.
        why: &'static str,
    },
    /// The volume is full.
    #[error("the volume is full: the snapshot needs {needed} bytes, and its data directory as many again")]
    Full {
        /// Size of the snapshot.
        needed: u64,
    },
    /// The volume does not work.
    #[error("cannot {action}: {source}")]
    Disk {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl FetchError {
    /// Whether the store does not have the object that was verified: trying again gives the same.
    pub fn is_changed(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Size { .. } | Self::Digest { .. } | Self::NotASnapshot { .. })
    }
}

/// Fetches, unless that was done. `credentials` reads what is mounted at a path.
///
/// # Errors
/// See [`FetchError`]; it is safe to try again.
pub async fn fetch(
    command: &Fetch,
    stores: &dyn Stores,
    credentials: impl FnOnce(&str) -> io::Result<Credentials>,
    directory: &dyn Directory,
) -> Result<Fetched, FetchError> {
    let reading = |source| FetchError::Disk { action: "read the volume".to_owned(), source };
    if has_log(directory, &command.data_dir).map_err(reading)? {
        return Ok(Fetched::Already);
    }
    if directory.size(&command.to).map_err(reading)? == Some(command.size) {
        return Ok(Fetched::Already);
    }
    if command.size % SECTOR_BYTES != TRAILER_BYTES || command.size <= TRAILER_BYTES {
        return Err(FetchError::NotASnapshot { why: "its size is not that of a database with its hash" });
    }
    let credentials = match &command.credentials {
        Some(path) => mounted(path, credentials)?,
        None => Credentials(None),
    };
    let bucket = &command.source.bucket;
    let opened = stores.open(bucket, &credentials).await;
    let store = opened.map_err(|source| FetchError::Open { bucket: bucket.bucket.clone(), source })?;
    let partial = format!("{}.partial", command.to);
    let result = download(command, &store, &credentials.words(), directory, &partial).await;
    let result = result.and_then(|()| {
        let action = format!("rename {partial}");
        directory.rename(&partial, &command.to).map_err(|source| FetchError::Disk { action, source })
    });
    if let Err(error) = result {
        // The first error tells more than one of the cleaning up.
        let _ = directory.remove(&partial);
        return Err(error);
    }
    Ok(Fetched::Complete)
}

fn mounted(path: &str, read: impl FnOnce(&str) -> io::Result<Credentials>) -> Result<Credentials, FetchError> {
    let credentials = read(path).map_err(|source| FetchError::Credentials { path: path.to_owned(), source })?;
    // Never the platform's own credentials in the place of a Secret that was asked for.
    match credentials.0.as_ref().is_some_and(|data| !data.is_empty()) {
        true => Ok(credentials),
        false => Err(FetchError::NoCredentials { path: path.to_owned() }),
    }
}

async fn download(
    command: &Fetch,
    store: &Arc<dyn ObjectStore>,
    secrets: &SecretWords,
    directory: &dyn Directory,
    partial: &str,
) -> Result<(), FetchError> {
    let disk = |source: io::Error| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FetchError::Full { needed: command.size },
        _ => FetchError::Disk { action: format!("write {partial}"), source },
    };
    let key = &command.source.key;
    let path = Path::parse(key).map_err(|error| FetchError::Key { key: key.clone(), message: error.to_string() })?;
    let said = |error: object_store::Error| match bucket::explain(&error, secrets) {
        (Trouble::NotFound, message) => FetchError::Missing { message },
        (_, message) => FetchError::Store { message },
    };
    let (meta, mut stream) = resume::get(store, &path).await.map_err(said)?;
    if meta.size != command.size {
        return Err(FetchError::Size { expected: command.size, actual: meta.size });
    }
    let mut sink = directory.create(partial).map_err(disk)?;
    let mut checks = Checks::new(command.size);
    while let Some(chunk) = stream.try_next().await.map_err(said)? {
        checks.take(&chunk)?;
        write(sink.as_mut(), &chunk).map_err(disk)?;
    }
    checks.finish(&command.sha256)?;
    sink.finish().map_err(disk)
}

fn write(sink: &mut dyn FileSink, chunk: &[u8]) -> io::Result<()> {
    if chunk.is_empty() { Ok(()) } else { sink.write(chunk) }
}

/// The checks that the bytes pass through.
struct Checks {
    expected: u64,
    actual: u64,
    whole: Sha256,
    database: Sha256,
    trailer: Vec<u8>,
}

impl Checks {
    fn new(expected: u64) -> Self {
        Self { expected, actual: 0, whole: Sha256::new(), database: Sha256::new(), trailer: Vec::new() }
    }

    /// Refuses a byte too many before it is written: a store that never ends must not fill the volume.
    fn take(&mut self, chunk: &[u8]) -> Result<(), FetchError> {
        let before = self.actual;
        self.actual += chunk.len() as u64;
        if self.actual > self.expected {
            return Err(FetchError::Size { expected: self.expected, actual: self.actual });
        }
        self.whole.update(chunk);
        let database_left = (self.expected - TRAILER_BYTES).saturating_sub(before);
        let split = usize::try_from(database_left).unwrap_or(usize::MAX).min(chunk.len());
        let (database, trailer) = chunk.split_at(split);
        self.database.update(database);
        self.trailer.extend_from_slice(trailer);
        Ok(())
    }

    fn finish(self, sha256: &str) -> Result<(), FetchError> {
        if self.actual != self.expected {
            return Err(FetchError::Size { expected: self.expected, actual: self.actual });
        }
        if self.database.finalize().as_slice() != self.trailer.as_slice() {
            return Err(FetchError::NotASnapshot { why: "the hash at its end is not that of what is before it" });
        }
        let actual: String = self.whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if actual != sha256 {
            return Err(FetchError::Digest { expected: sha256.to_owned(), actual });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
