//! The Stores port over the fake store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_operator::model::{BucketLocation, StorageKind};
use etcd_operator::ports::{Credentials, StoreError, Stores};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};

use super::Caller;
use crate::effect::Effect;
use crate::network::Place;
use crate::store::{BUCKETS, CREDENTIALS, FakeStore, Stored};
use crate::world::World;

/// Chunks of a read.
const CHUNK: usize = 16 * 1024;

/// Opens buckets of the fake store for one caller.
pub struct SimStores(pub Caller);

/// Keys that the Secret of each kind of store must have.
const fn needed(storage: StorageKind) -> &'static [&'static str] {
    match storage {
        StorageKind::S3 => &["credentials"],
        StorageKind::Oss => &["accessKeyID", "accessKeySecret"],
        StorageKind::Abs => &["storage-account", "storage-key"],
        StorageKind::Gcs => &["access-token"],
    }
}

#[async_trait]
impl Stores for SimStores {
    async fn open(&self, bucket: &BucketLocation, given: &Credentials) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let given = given.0.clone().unwrap_or_default();
        let missing = needed(bucket.storage).iter().find(|key| !given.contains_key(**key));
        if let (Some(key), Some(secret)) = (missing, &bucket.secret) {
            let message = format!("key `{key}` is missing");
            return Err(StoreError::Credentials { secret: secret.clone(), message });
        }
        let known = |key: &str| CREDENTIALS.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_bytes());
        let allowed = needed(bucket.storage).iter().all(|key| given.get(*key).map(Vec::as_slice) == known(key));
        Ok(Arc::new(Bucket { caller: self.0.clone(), bucket: bucket.bucket.clone(), allowed }))
    }
}

#[derive(Clone)]
struct Bucket {
    caller: Caller,
    bucket: String,
    allowed: bool,
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sim://{}", self.bucket)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn generic(message: &str) -> Error {
    Error::Generic { store: "sim", source: message.to_owned().into() }
}

fn not_found(path: &Path) -> Error {
    Error::NotFound { path: path.to_string(), source: "404".into() }
}

/// The store acknowledges an object and does not have it, or has other bytes.
fn spoil(world: &mut World, place: &Option<(String, String)>) {
    let Some(place) = place else { return };
    if FakeStore::strikes(&mut world.store.faults.lost_object) {
        world.store.objects.remove(place);
    } else if FakeStore::strikes(&mut world.store.faults.rotten_object) {
        let at = world.streams.store.bits() as usize;
        let Some(stored) = world.store.objects.get_mut(place).filter(|stored| !stored.data.is_empty()) else { return };
        let mut bytes = stored.data.to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1;
        stored.data = bytes.into();
    } else {
        return;
    }
    world.note("fault", format!("the store does not hold what it acknowledges of {}", place.1));
    world.sometimes.mark(crate::sometimes::STORE_LIED);
}

impl Bucket {
    /// One exchange with the store: what is done happens at one instant between two latencies, also when the caller has
    /// given up meanwhile.
    async fn exchange<T: Send + 'static>(
        &self,
        effect: Option<Effect>,
        action: impl FnOnce(&mut World) -> object_store::Result<T> + Send + 'static,
    ) -> object_store::Result<T> {
        let place = match &effect {
            Some(Effect::StoreComplete { bucket, key } | Effect::StorePut { bucket, key }) => {
                Some((bucket.clone(), key.clone()))
            }
            _ => None,
        };
        let completes = place.is_some();
        let writes = effect.is_some();
        let (allowed, bucket) = (self.allowed, self.bucket.clone());
        let act = move |world: &mut World| {
            if !allowed {
                return Err(Error::Unauthenticated { path: bucket, source: "403 InvalidAccessKeyId".into() });
            }
            if !BUCKETS.contains(&bucket.as_str()) {
                return Err(Error::NotFound { path: bucket, source: "404 NoSuchBucket".into() });
            }
            if world.store.faults.unavailable || FakeStore::strikes(&mut world.store.faults.error_before) {
                return Err(generic("503 SlowDown"));
            }
            let result = action(world);
            if completes && result.is_ok() {
                spoil(world, &place);
            }
            let faults = &mut world.store.faults;
            world.lose_answer = (completes && FakeStore::strikes(&mut faults.complete_ambiguous))
                || (writes && FakeStore::strikes(&mut faults.lost_answer));
            result
        };
        let answer = self.caller.exchange(Place::Store, effect, act).await;
        answer.unwrap_or_else(|| Err(generic("operation timed out")))
    }

    fn meta(path: Path, stored: &Stored, world: &World) -> ObjectMeta {
        ObjectMeta {
            location: path,
            last_modified: world.chrono(stored.modified),
            size: stored.data.len() as u64,
            e_tag: Some(format!("{:x}", stored.etag)),
            version: None,
        }
    }
}

#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        let (bucket, key, path) = (self.bucket.clone(), location.to_string(), location.clone());
        let only_new = match opts.mode {
            PutMode::Overwrite => false,
            PutMode::Create => true,
            PutMode::Update(_) => return Err(generic("conditional update is not offered")),
        };
        let data = Bytes::from(payload);
        let effect = Effect::StorePut { bucket: bucket.clone(), key: key.clone() };
        self.exchange(Some(effect), move |world| {
            let now = world.now;
            match world.store.put(now, &bucket, &key, data, only_new) {
                Some(etag) => {
                    Ok(PutResult { e_tag: Some(format!("{etag:x}")), version: None, extensions: Extensions::default() })
                }
                None => Err(Error::AlreadyExists { path: path.to_string(), source: "412".into() }),
            }
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let (bucket, key) = (self.bucket.clone(), location.to_string());
        let begun = (bucket.clone(), key.clone());
        let effect = Effect::StoreBegin { bucket: bucket.clone(), key: key.clone() };
        let upload = self.exchange(Some(effect), move |world| Ok(world.store.begin(&begun.0, &begun.1))).await?;
        Ok(Box::new(SimUpload { bucket: self.clone(), key, upload, parts: AtomicUsize::new(0) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let (bucket, path) = (self.bucket.clone(), location.clone());
        let head = options.head;
        let (meta, data, damage) = self
            .exchange(None, move |world| {
                let stored = world.store.get(&bucket, path.as_ref()).cloned().ok_or_else(|| not_found(&path))?;
                let faults = &mut world.store.faults;
                let truncated = !head && FakeStore::strikes(&mut faults.truncated_read);
                let flipped = !head && !truncated && FakeStore::strikes(&mut faults.bit_flip);
                let place = world.streams.store.bits() as usize;
                Ok((Self::meta(path, &stored, world), stored.data, (truncated, flipped, place)))
            })
            .await?;
        let whole = meta.size;
        let range = match &options.range {
            Some(range) => range.as_range(whole).map_err(|error| generic(&error.to_string()))?,
            None => 0..whole,
        };
        let mut data = data.slice(range.start as usize..range.end as usize);
        let (truncated, flipped, place) = damage;
        let kept = if truncated && !data.is_empty() { place % data.len() } else { data.len() };
        if flipped && !data.is_empty() {
            let mut bytes = data.to_vec();
            let at = place % bytes.len();
            bytes[at] ^= 1 << (place % 8);
            data = bytes.into();
        }
        let short = kept < data.len();
        data.truncate(kept);
        let mut chunks: Vec<object_store::Result<Bytes>> = Vec::new();
        while !data.is_empty() {
            chunks.push(Ok(data.split_to(CHUNK.min(data.len()))));
        }
        // Half of the truncations are noticed by the client as a broken body, the other half end like a whole one.
        if short && place.is_multiple_of(2) {
            chunks.push(Err(generic("unexpected end of body")));
        }
        let payload = GetResultPayload::Stream(futures::stream::iter(chunks).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::new(), extensions: Extensions::default() })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let this = self.clone();
        locations
            .then(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    let (bucket, key) = (this.bucket.clone(), location.to_string());
                    let effect = Effect::StoreDelete { bucket: bucket.clone(), key: key.clone() };
                    this.exchange(Some(effect), move |world| {
                        world.store.delete(&bucket, &key);
                        Ok(())
                    })
                    .await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let (this, bucket) = (self.clone(), self.bucket.clone());
        let prefix = prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default();
        futures::stream::once(async move {
            this.exchange(None, move |world| {
                let found = world.store.list(&bucket, &prefix);
                Ok(found.iter().map(|(key, stored)| Self::meta(Path::from(key.as_str()), stored, world)).collect())
            })
            .await
        })
        .flat_map(|listed: object_store::Result<Vec<ObjectMeta>>| {
            futures::stream::iter(match listed {
                Ok(metas) => metas.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        })
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let start = prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let bucket = self.bucket.clone();
        self.exchange(None, move |world| {
            let mut result =
                ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Extensions::default() };
            let mut folders = BTreeMap::new();
            for (key, stored) in world.store.list(&bucket, &start) {
                match key[start.len()..].split_once('/') {
                    Some((folder, _)) => {
                        folders.insert(format!("{start}{folder}"), ());
                    }
                    None => result.objects.push(Self::meta(Path::from(key.as_str()), &stored, world)),
                }
            }
            result.common_prefixes = folders.into_keys().map(Path::from).collect();
            Ok(result)
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, _: CopyOptions) -> object_store::Result<()> {
        let (bucket, from, key) = (self.bucket.clone(), from.clone(), to.to_string());
        let effect = Effect::StorePut { bucket: bucket.clone(), key: key.clone() };
        self.exchange(Some(effect), move |world| {
            let data = world.store.get(&bucket, from.as_ref()).ok_or_else(|| not_found(&from))?.data.clone();
            let now = world.now;
            world.store.put(now, &bucket, &key, data, false);
            Ok(())
        })
        .await
    }
}

#[derive(Debug)]
struct SimUpload {
    bucket: Bucket,
    key: String,
    upload: u64,
    parts: AtomicUsize,
}

#[async_trait]
impl MultipartUpload for SimUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        let (bucket, upload) = (self.bucket.clone(), self.upload);
        let effect = Effect::StorePart { bucket: bucket.bucket.clone(), key: self.key.clone() };
        Box::pin(async move {
            let data = Bytes::from(data);
            let act = move |world: &mut World| {
                if world.store.part(upload, number, data) { Ok(()) } else { Err(generic("NoSuchUpload")) }
            };
            bucket.exchange(Some(effect), act).await
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let (upload, parts) = (self.upload, self.parts.load(Ordering::Relaxed));
        let effect = Effect::StoreComplete { bucket: self.bucket.bucket.clone(), key: self.key.clone() };
        self.bucket
            .exchange(Some(effect), move |world| {
                let now = world.now;
                let etag = world.store.complete(now, upload, parts).map_err(|error| generic(&error))?;
                Ok(PutResult { e_tag: Some(format!("{etag:x}")), version: None, extensions: Extensions::default() })
            })
            .await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        let upload = self.upload;
        let effect = Effect::StoreAbort { bucket: self.bucket.bucket.clone(), key: self.key.clone() };
        self.bucket
            .exchange(Some(effect), move |world| {
                world.store.uploads.remove(&upload);
                Ok(())
            })
            .await
    }
}
