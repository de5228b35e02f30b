//! The ports of these tests: a few objects, members that answer as told, a store in memory with faults, and a clock
//! that moves only when somebody sleeps. Everything is ready at once, so a whole pass is one poll.

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::mpsc::UnboundedReceiver;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use crate::model::{
    Alarm, BucketLocation, ClusterId, MemberId, MemberStatus, Membership, RaftTerm, Revision, StorageKind,
};
use crate::ports::etcd::Snapshot;
use crate::ports::{
    Clock, Credentials, Etcd, EtcdAccess, EtcdError, Kind, Kubernetes, KubernetesError, Object, ObjectKey, Ports,
    Preconditions, Random, Scope, StoreError, Stores, Typed, WatchEvent,
};

/// A pass that is never pending.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing in these tests waits")
}

/// Everything around one pass.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) kubernetes: Arc<Objects>,
    pub(crate) members: Arc<Members>,
    /// The bucket of this name.
    pub(crate) store: Arc<FaultyStore>,
    /// Any other.
    pub(crate) elsewhere: Arc<FaultyStore>,
    /// What the process was given to open buckets with.
    pub(crate) own_settings: Vec<String>,
    pub(crate) time: Arc<Time>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            kubernetes: Arc::default(),
            members: Arc::default(),
            store: Arc::default(),
            elsewhere: Arc::default(),
            own_settings: Vec::new(),
            time: Arc::new(Time(Mutex::new(start()))),
        }
    }

    pub(crate) fn ports(&self) -> Ports {
        Ports {
            kubernetes: self.kubernetes.clone(),
            etcd: self.members.clone(),
            stores: Arc::new(TwoStores(self.clone())),
            clock: self.time.clone(),
            random: Arc::new(Zero),
        }
    }

    pub(crate) fn pass_time(&self, seconds: i64) {
        now(self.time.sleep(SignedDuration::from_secs(seconds)));
    }

    /// The clock is set back to where it began.
    pub(crate) fn turn_back(&self) {
        *self.time.0.lock().unwrap() = start();
    }

    /// Keys in the store.
    pub(crate) fn keys(&self) -> Vec<String> {
        Self::keys_of(&self.store)
    }

    pub(crate) fn keys_of(store: &FaultyStore) -> Vec<String> {
        let list = store.inner.list(None).map_ok(|meta| meta.location.to_string()).try_collect();
        let mut keys: Vec<String> = now(list).expect("memory does not fail");
        keys.sort();
        keys
    }

    pub(crate) fn object(&self, key: &str) -> Bytes {
        now(async { self.store.inner.get(&Path::from(key)).await.expect("it is there").bytes().await })
            .expect("memory does not fail")
    }

    pub(crate) fn put(&self, key: &str, bytes: Vec<u8>) {
        now(self.store.inner.put(&Path::parse(key).expect("a key"), bytes.into())).expect("memory does not fail");
    }
}

fn start() -> Timestamp {
    "2026-11-30T02:03:04Z".parse().expect("a time")
}

/// The clock.
pub(crate) struct Time(Mutex<Timestamp>);

#[async_trait]
impl Clock for Time {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn monotonic(&self) -> SignedDuration {
        self.now().duration_since(Timestamp::UNIX_EPOCH)
    }

    async fn sleep(&self, duration: SignedDuration) {
        *self.0.lock().unwrap() += duration;
    }
}

/// A clock on which nothing is ever late and nobody wakes up.
pub(crate) struct Still;

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    async fn sleep(&self, _: SignedDuration) {
        futures::future::pending::<()>().await;
    }
}

struct Zero;

impl Random for Zero {
    fn bits(&self) -> u64 {
        0
    }
}

/// The API server. `refuse` is answered to the next writes of a status, `lose` commits first.
#[derive(Default)]
pub(crate) struct Objects {
    objects: Mutex<BTreeMap<(Kind, ObjectKey), Value>>,
    version: Mutex<u64>,
    pub(crate) refuse: Mutex<Vec<KubernetesError>>,
    pub(crate) lose: Mutex<Vec<KubernetesError>>,
    /// What lists are answered with.
    pub(crate) refuse_lists: Mutex<Option<KubernetesError>>,
    pub(crate) writes: Mutex<usize>,
    events: Mutex<Vec<String>>,
    phases: Mutex<Vec<(Kind, String)>>,
    /// The answer to every create of anything but an Event.
    pub(crate) refuse_creates: Mutex<Option<KubernetesError>>,
    /// Of this kind only.
    pub(crate) refused_kind: Mutex<Option<Kind>>,
    /// What was created. (It is not kept.)
    pub(crate) created: Mutex<Vec<Kind>>,
    /// What happens while the next read of an object of this kind is on its way, and what it answers then.
    pub(crate) next_read: Mutex<Option<(Kind, ReadHook)>>,
}

/// Done once; an error is the answer of the read.
pub(crate) type ReadHook = Box<dyn FnOnce() -> Result<(), KubernetesError> + Send>;

impl Objects {
    pub(crate) fn insert(&self, kind: Kind, text: &str) -> ObjectKey {
        let mut json: Value = serde_saphyr::from_str(text).expect("a manifest");
        json["metadata"]["resourceVersion"] = self.next_version().into();
        let object = Object::from_json(kind, json.clone()).expect("a manifest");
        self.objects.lock().unwrap().insert((kind, object.key()), json);
        object.key()
    }

    /// The events since the last look: type, reason and message.
    pub(crate) fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    /// The phases that were written to objects of a kind, one after the other.
    pub(crate) fn phases(&self, kind: &str) -> Vec<String> {
        let all = self.phases.lock().unwrap();
        all.iter().filter(|(of, _)| of.to_string() == kind).map(|(_, phase)| phase.clone()).collect()
    }

    pub(crate) fn remove(&self, kind: Kind, key: &ObjectKey) {
        self.objects.lock().unwrap().remove(&(kind, key.clone()));
    }

    fn next_version(&self) -> String {
        let mut version = self.version.lock().unwrap();
        *version += 1;
        version.to_string()
    }

    pub(crate) fn read<K: Typed>(&self, key: &ObjectKey) -> Arc<K> {
        let json = self.objects.lock().unwrap().get(&(K::KIND, key.clone())).expect("it is there").clone();
        K::from_object(&Object::from_json(K::KIND, json).expect("a stored object")).expect("of its kind")
    }

    /// Somebody else changes an object.
    pub(crate) fn edit(&self, kind: Kind, key: &ObjectKey, edit: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let mut objects = self.objects.lock().unwrap();
        let json = objects.get_mut(&(kind, key.clone())).expect("it is there");
        edit(json);
        json["metadata"]["resourceVersion"] = version.into();
    }
}

#[async_trait]
impl Kubernetes for Objects {
    async fn get(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Object>, KubernetesError> {
        let hook = self.next_read.lock().unwrap().take_if(|(of, _)| *of == kind);
        if let Some((_, hook)) = hook {
            hook()?;
        }
        let json = self.objects.lock().unwrap().get(&(kind, key.clone())).cloned();
        Ok(json.map(|json| Object::from_json(kind, json).expect("a stored object")))
    }

    async fn list(&self, kind: Kind, _: &Scope, _: Option<&str>) -> Result<Vec<Object>, KubernetesError> {
        if let Some(error) = self.refuse_lists.lock().unwrap().clone() {
            return Err(error);
        }
        let objects = self.objects.lock().unwrap();
        let of_kind = objects.iter().filter(|((of, _), _)| *of == kind);
        Ok(of_kind.map(|(_, json)| Object::from_json(kind, json.clone()).expect("a stored object")).collect())
    }

    async fn create(&self, object: &Object) -> Result<Object, KubernetesError> {
        if let Object::Event(event) = object {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (type_, reason, message) = (text(&event.type_), text(&event.reason), text(&event.message));
            self.events.lock().unwrap().push(format!("{type_} {reason}: {message}"));
        } else if let Some(error) = self.refuse_creates.lock().unwrap().clone()
            && self.refused_kind.lock().unwrap().is_none_or(|kind| kind == object.kind())
        {
            return Err(error);
        }
        self.created.lock().unwrap().push(object.kind());
        Ok(object.clone())
    }

    async fn replace(&self, object: &Object) -> Result<Object, KubernetesError> {
        Ok(object.clone())
    }

    async fn replace_status(&self, object: &Object) -> Result<Object, KubernetesError> {
        if let Some(error) = self.refuse.lock().unwrap().pop() {
            return Err(error);
        }
        let id = (object.kind(), object.key());
        let mut json = self
            .objects
            .lock()
            .unwrap()
            .get(&id)
            .cloned()
            .ok_or(KubernetesError::NotFound { message: String::new() })?;
        if json["metadata"]["resourceVersion"] != object.resource_version() {
            return Err(KubernetesError::Conflict { message: "the object has been modified".to_owned() });
        }
        json["status"] = object.to_json()["status"].clone();
        let phase = json["status"]["phase"].as_str().unwrap_or_default().to_owned();
        self.phases.lock().unwrap().push((object.kind(), phase));
        json["metadata"]["resourceVersion"] = self.next_version().into();
        self.objects.lock().unwrap().insert(id, json.clone());
        *self.writes.lock().unwrap() += 1;
        match self.lose.lock().unwrap().pop() {
            Some(error) => Err(error),
            None => Ok(Object::from_json(object.kind(), json).expect("a stored object")),
        }
    }

    async fn merge_patch(&self, kind: Kind, key: &ObjectKey, patch: &Value) -> Result<Object, KubernetesError> {
        self.edit(kind, key, |json| json["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone());
        Ok(self.get(kind, key).await?.expect("it is there"))
    }

    async fn delete(&self, _: Kind, _: &ObjectKey, _: &Preconditions, _: Option<i64>) -> Result<(), KubernetesError> {
        Ok(())
    }

    fn watch(&self, _: Kind, _: &Scope) -> BoxStream<'static, WatchEvent> {
        futures::stream::pending().boxed()
    }
}

/// What one member says and gives.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) status: Result<MemberStatus, EtcdError>,
    /// What the member behind the same address says that the snapshot comes from, if that is another one.
    pub(crate) snapshot_status: Option<MemberStatus>,
    pub(crate) snapshot: Vec<Result<Bytes, EtcdError>>,
    /// After its chunks the stream never says another word.
    pub(crate) hangs: bool,
    /// Before that, it gives what is sent here.
    pub(crate) later: Later,
}

/// Chunks that come when a test sends them.
pub(crate) type Later = Arc<Mutex<Option<UnboundedReceiver<Bytes>>>>;

/// etcd, by endpoint.
#[derive(Default)]
pub(crate) struct Members(pub(crate) Mutex<BTreeMap<String, Member>>);

pub(crate) fn status(member: u64, revision: i64) -> MemberStatus {
    MemberStatus {
        cluster_id: ClusterId(0xc1),
        member_id: MemberId(member),
        version: "3.5.26".to_owned(),
        storage_version: None,
        leader: Some(MemberId(1)),
        term: RaftTerm(2),
        raft_index: 10,
        raft_applied_index: 10,
        revision: Revision(revision),
        db_size: 16384,
        learner: false,
        errors: Vec::new(),
    }
}

impl Members {
    /// A healthy member with a snapshot of this revision.
    pub(crate) fn serve(&self, endpoint: &str, member: u64, revision: i64, snapshot: &[u8]) {
        let chunks = snapshot.chunks(5000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let member = Member {
            status: Ok(status(member, revision)),
            snapshot_status: None,
            snapshot: chunks,
            hangs: false,
            later: Later::default(),
        };
        self.0.lock().unwrap().insert(endpoint.to_owned(), member);
    }

    pub(crate) fn change(&self, endpoint: &str, change: impl FnOnce(&mut Member)) {
        change(self.0.lock().unwrap().get_mut(endpoint).expect("it is there"));
    }

    fn of(&self, access: &EtcdAccess) -> Result<Member, EtcdError> {
        let members = self.0.lock().unwrap();
        let refused = EtcdError::Unavailable { message: "connection refused".to_owned() };
        members.get(&access.endpoints[0]).cloned().ok_or(refused)
    }
}

fn unasked<T>() -> Result<T, EtcdError> {
    Err(EtcdError::Unsupported { message: "backups do not ask this".to_owned() })
}

#[async_trait]
impl Etcd for Members {
    async fn status(&self, access: &EtcdAccess) -> Result<MemberStatus, EtcdError> {
        self.of(access)?.status
    }

    async fn members(&self, _: &EtcdAccess, _: bool) -> Result<Membership, EtcdError> {
        unasked()
    }

    async fn quorum_read(&self, _: &EtcdAccess) -> Result<Revision, EtcdError> {
        unasked()
    }

    async fn alarms(&self, _: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        unasked()
    }

    async fn disarm(&self, _: &EtcdAccess, _: MemberId, _: Alarm) -> Result<(), EtcdError> {
        unasked()
    }

    async fn member_add(&self, _: &EtcdAccess, _: &str, _: bool) -> Result<MemberId, EtcdError> {
        unasked()
    }

    async fn member_promote(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        unasked()
    }

    async fn member_remove(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        unasked()
    }

    async fn move_leader(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        unasked()
    }

    async fn hash_kv(&self, _: &EtcdAccess, _: Revision) -> Result<(u32, Revision), EtcdError> {
        unasked()
    }

    async fn snapshot(&self, access: &EtcdAccess) -> Result<Snapshot, EtcdError> {
        let member = self.of(access)?;
        let status = member.snapshot_status.map_or(member.status, Ok)?;
        let later = member.later.lock().unwrap().take();
        let later = futures::stream::iter(later).flatten().map(Ok);
        let chunks = futures::stream::iter(member.snapshot).chain(later);
        let chunks = if member.hangs { chunks.chain(futures::stream::pending()).boxed() } else { chunks.boxed() };
        Ok(Snapshot { status, chunks })
    }
}

struct TwoStores(World);

#[async_trait]
impl Stores for TwoStores {
    async fn open(&self, bucket: &BucketLocation, _: &Credentials) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let named = bucket.bucket == "bucket" && bucket.endpoint.is_none();
        Ok(if named { self.0.store.clone() } else { self.0.elsewhere.clone() })
    }

    fn own_settings(&self, _: StorageKind) -> Vec<String> {
        self.0.own_settings.clone()
    }
}

/// Which requests a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put,
    Part,
    Complete,
    Head,
    Get,
    List,
    Delete,
}

/// What happens to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: the faults behind it hit later requests.
    Nothing,
    /// The request fails and was not carried out.
    Before,
    /// It was carried out, and the answer is lost.
    After,
    /// No answer, ever.
    Hang,
    /// The store cannot do that.
    Unsupported,
    /// The store refuses the credentials.
    Denied,
    /// There is no such bucket.
    NoBucket,
    /// The line breaks after half of the bytes.
    Break,
    /// The bytes end early.
    Truncate,
    /// One bit of them is another.
    Flip,
}

/// A store in memory with faults: each hits so many of the next requests of its kind.
#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    pub(crate) inner: InMemory,
    pub(crate) faults: Arc<Mutex<Vec<(Op, Fault, usize)>>>,
    pub(crate) aborted: Arc<Mutex<usize>>,
    pub(crate) largest: Arc<Mutex<usize>>,
    /// Bytes of objects that were read.
    pub(crate) read: Arc<Mutex<usize>>,
}

/// So many bytes come at a time when an object is read.
const PIECE: usize = 1 << 16;

impl FaultyStore {
    async fn in_pieces(&self, result: GetResult) -> object_store::Result<GetResult> {
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
        let (bytes, read) = (result.bytes().await?, self.read.clone());
        let pieces: Vec<_> =
            (0..bytes.len().max(1)).step_by(PIECE).map(|at| bytes.slice(at..bytes.len().min(at + PIECE))).collect();
        let pieces = futures::stream::iter(pieces).map(move |piece| {
            *read.lock().unwrap() += piece.len();
            Ok(piece)
        });
        Ok(GetResult { payload: GetResultPayload::Stream(pieces.boxed()), meta, range, attributes, extensions })
    }

    pub(crate) fn fail(&self, op: Op, fault: Fault, times: usize) {
        if times > 0 {
            self.faults.lock().unwrap().push((op, fault, times));
        }
    }
}

fn take(faults: &Mutex<Vec<(Op, Fault, usize)>>, op: Op) -> Option<Fault> {
    let mut faults = faults.lock().unwrap();
    let index = faults.iter().position(|(of, ..)| *of == op)?;
    let fault = faults[index].1;
    faults[index].2 -= 1;
    if faults[index].2 == 0 {
        faults.remove(index);
    }
    Some(fault)
}

fn broken() -> object_store::Error {
    object_store::Error::Generic { store: "test", source: "500 Internal Server Error".into() }
}

/// A request under a fault.
async fn under<T>(
    fault: Option<Fault>,
    request: impl Future<Output = object_store::Result<T>>,
) -> object_store::Result<T> {
    match fault {
        Some(Fault::Before) => Err(broken()),
        Some(Fault::After) => {
            request.await?;
            Err(broken())
        }
        Some(Fault::Hang) => futures::future::pending().await,
        Some(Fault::Unsupported) => Err(object_store::Error::NotSupported { source: "no preconditions".into() }),
        Some(Fault::Denied) => {
            Err(object_store::Error::PermissionDenied { path: String::new(), source: "AccessDenied".into() })
        }
        Some(Fault::NoBucket) => {
            Err(object_store::Error::NotFound { path: String::new(), source: "<Code>NoSuchBucket</Code>".into() })
        }
        Some(Fault::Nothing | Fault::Break | Fault::Truncate | Fault::Flip) | None => request.await,
    }
}

impl std::fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        under(take(&self.faults, Op::Put), self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        let (faults, aborted, largest) = (self.faults.clone(), self.aborted.clone(), self.largest.clone());
        Ok(Box::new(FaultyUpload { inner, faults, aborted, largest }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let is_head = options.head;
        let fault = take(&self.faults, if is_head { Op::Head } else { Op::Get });
        let mut result = under(fault, self.inner.get_opts(location, options)).await?;
        if let Some(damage @ (Fault::Break | Fault::Truncate | Fault::Flip)) = fault {
            let range = result.range.clone();
            let (meta, attributes, extensions) =
                (result.meta.clone(), result.attributes.clone(), result.extensions.clone());
            let mut bytes = result.bytes().await?.to_vec();
            match damage {
                Fault::Flip => bytes[0] ^= 0x10,
                _ => bytes.truncate(bytes.len() / 2),
            }
            let end = (damage == Fault::Break).then(|| Err(broken()));
            let pieces = futures::stream::iter([Ok(Bytes::from(bytes))].into_iter().chain(end));
            let payload = GetResultPayload::Stream(pieces.boxed());
            result = GetResult { payload, meta, range, attributes, extensions };
        }
        if fault.is_none() && !is_head {
            result = self.in_pieces(result).await?;
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        match take(&self.faults, Op::Delete) {
            Some(Fault::After) => self.inner.delete_stream(locations).map(|_| Err(broken())).boxed(),
            Some(_) => futures::stream::iter([Err(broken())]).boxed(),
            None => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        match take(&self.faults, Op::List) {
            // A list that lags behind: nothing is in it yet.
            Some(Fault::Truncate) => futures::stream::empty().boxed(),
            Some(_) => futures::stream::iter([Err(broken())]).boxed(),
            None => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    faults: Arc<Mutex<Vec<(Op, Fault, usize)>>>,
    aborted: Arc<Mutex<usize>>,
    largest: Arc<Mutex<usize>>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut largest = self.largest.lock().unwrap();
        *largest = (*largest).max(data.content_length());
        under(take(&self.faults, Op::Part), self.inner.put_part(data)).boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        under(take(&self.faults, Op::Complete), self.inner.complete()).await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        *self.aborted.lock().unwrap() += 1;
        self.inner.abort().await
    }
}
