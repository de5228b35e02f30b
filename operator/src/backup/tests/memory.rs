//! A backup of any size in flat memory: a stream of one GiB, made as it is read, to a store that is slower than it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::task::noop_waker_ref;
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, UploadPart,
};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::backup::bucket::{Bucket, WriteMode};
use crate::backup::standing::Standing;
use crate::backup::tests::world::Still;
use crate::backup::transfer::{Limits, PART_BYTES, send};
use crate::ports::{Credentials, EtcdError};

/// What one backup may hold, whatever the size of the database.
const HELD_MAX: usize = 32 << 20;
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 1024;
/// sha256 of so many bytes of 7.
const SHA256: &str = "9cf787ae69be441104201d5d41b2377a982811b4b6f2d61974386bd1e7da0c65";
/// A part arrives when it has been asked for so often.
const POLLS_PER_PART: usize = 5;

/// Bytes that were read from the member and have not arrived in the store.
#[derive(Debug, Default)]
struct Held {
    now: usize,
    most: usize,
    arrived: usize,
    parts_on_their_way: usize,
    most_parts: usize,
}

type Count = Arc<Mutex<Held>>;

/// A store that keeps nothing but the count.
#[derive(Debug, Default)]
struct Slow {
    count: Count,
    inner: InMemory,
}

impl std::fmt::Display for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slow")
    }
}

#[derive(Debug)]
struct SlowUpload(Count);

#[async_trait]
impl MultipartUpload for SlowUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let count = self.0.clone();
        {
            let mut held = count.lock().expect("nobody panics with it");
            held.parts_on_their_way += 1;
            held.most_parts = held.most_parts.max(held.parts_on_their_way);
        }
        let mut polls = 0;
        poll_fn(move |context| {
            polls += 1;
            if polls < POLLS_PER_PART {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut held = count.lock().expect("nobody panics with it");
            held.now -= data.content_length();
            held.arrived += data.content_length();
            held.parts_on_their_way -= 1;
            Poll::Ready(Ok(()))
        })
        .boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> object_store::Result<PutResult> {
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(SlowUpload(self.count.clone())))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// The stream, chunk by chunk, each counted when it is handed over; then its hash.
fn stream(count: &Count) -> BoxStream<'static, Result<Bytes, EtcdError>> {
    let hash = |at: usize| u8::from_str_radix(&SHA256[2 * at..2 * at + 2], 16).expect("hexadecimal");
    let chunk = Bytes::from(vec![7; CHUNK]);
    let chunks = std::iter::repeat_n(chunk, CHUNKS);
    let trailer = std::iter::once_with(move || (0..32).map(hash).collect());
    let count = count.clone();
    futures::stream::iter(chunks.chain(trailer))
        .map(move |chunk: Bytes| {
            let mut held = count.lock().expect("nobody panics with it");
            held.now += chunk.len();
            held.most = held.most.max(held.now);
            Ok(chunk)
        })
        .boxed()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    for _ in 0..1_000_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            return value;
        }
    }
    panic!("it never ends")
}

#[test]
fn a_backup_of_one_gibibyte_holds_32_mebibytes_at_most() {
    let store = Arc::new(Slow::default());
    let count = store.count.clone();
    let clock = Arc::new(Still);
    let bucket = Bucket::new(store, clock.clone(), "bucket", SignedDuration::from_secs(60), &Credentials(None));
    let limits = Limits { part_bytes: PART_BYTES, size_max: u64::MAX };
    let standing = Standing::of_nobody(clock.as_ref());
    let sent = run(send(&bucket, "key", &WriteMode::Create, stream(&count), limits, &standing));
    let checked = sent.unwrap_or_else(|error| panic!("{error}")).checked;
    let held = count.lock().expect("nobody panics with it");
    assert_eq!(checked.size, (CHUNK * CHUNKS + 32) as u64);
    assert_eq!((held.now, held.arrived), (0, CHUNK * CHUNKS + 32), "all of it arrived");
    assert!(held.most <= HELD_MAX, "{} bytes were held", held.most);
    assert!(held.most_parts > 1 && held.most > PART_BYTES, "the store was slow enough to tell: {held:?}");
}
