//! Reading a large object although the line breaks: the rest is asked for from where it broke.
//!
//! The client does so itself, but only within its retry time-out, counted from the beginning of the request
//! (`object_store::RetryConfig::retry_timeout`): a database that takes longer than that to be read would be read from the
//! beginning again, and again.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore};
use std::sync::Arc;

/// How often in a row the rest is asked for in vain.
const ATTEMPTS_MAX: u32 = 3;

/// What the store says of the object, and its bytes.
///
/// # Errors
/// The store's, when the object cannot be opened.
pub async fn get(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
) -> object_store::Result<(ObjectMeta, BoxStream<'static, object_store::Result<Bytes>>)> {
    let opened = store.get_opts(path, GetOptions::default()).await?;
    let meta = opened.meta.clone();
    let (size, e_tag) = (meta.size, meta.e_tag.clone());
    let reading = Reading {
        store: store.clone(),
        path: path.clone(),
        size,
        e_tag,
        at: 0,
        failed: 0,
        stream: opened.into_stream(),
    };
    Ok((meta, futures::stream::unfold(Some(reading), next).boxed()))
}

struct Reading {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    e_tag: Option<String>,
    at: u64,
    failed: u32,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
}

impl Reading {
    /// The rest of the object as it was when it was opened; without an etag nobody could tell another one from it.
    async fn resume(&mut self) -> object_store::Result<()> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(self.at..self.size)),
            if_match: self.e_tag.clone(),
            ..GetOptions::default()
        };
        self.stream = self.store.get_opts(&self.path, options).await?.into_stream();
        Ok(())
    }

    /// Whether the rest may be had although this happened.
    fn may_resume(&self, error: &Error) -> bool {
        let settled = matches!(
            error,
            Error::NotFound { .. }
                | Error::Precondition { .. }
                | Error::NotModified { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
        );
        !settled && self.e_tag.is_some() && self.at < self.size && self.failed < ATTEMPTS_MAX
    }
}

type Step = Option<(object_store::Result<Bytes>, Option<Reading>)>;

async fn next(reading: Option<Reading>) -> Step {
    let mut reading = reading?;
    loop {
        let mut error = match reading.stream.next().await {
            None => return None,
            Some(Ok(chunk)) => {
                reading.at += chunk.len() as u64;
                reading.failed = 0;
                return Some((Ok(chunk), Some(reading)));
            }
            Some(Err(error)) => error,
        };
        loop {
            if !reading.may_resume(&error) {
                return Some((Err(error), None));
            }
            reading.failed += 1;
            match reading.resume().await {
                Ok(()) => break,
                Err(again) => error = again,
            }
        }
    }
}

#[cfg(test)]
mod tests;
