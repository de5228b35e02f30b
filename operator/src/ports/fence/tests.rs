//! Every call of both ports, with the fence open and closed.

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use serde_json::json;

use super::*;

/// Both ports, which note what reaches them and answer nothing but that it did.
#[derive(Default)]
struct Reached(Mutex<Vec<&'static str>>);

impl Reached {
    fn note(&self, call: &'static str) {
        self.0.lock().expect("nobody panics with it").push(call);
    }

    fn kubernetes<T>(&self, call: &'static str) -> Result<T, KubernetesError> {
        self.note(call);
        Err(KubernetesError::NotFound { message: "reached".to_owned() })
    }

    fn etcd<T>(&self, call: &'static str) -> Result<T, EtcdError> {
        self.note(call);
        Err(EtcdError::Refused { message: "reached".to_owned() })
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
    }
}

#[async_trait]
impl Kubernetes for Reached {
    async fn get(&self, _: Kind, _: &ObjectKey) -> Result<Option<Object>, KubernetesError> {
        self.kubernetes("get")
    }

    async fn list(&self, _: Kind, _: &Scope, _: Option<&str>) -> Result<Vec<Object>, KubernetesError> {
        self.kubernetes("list")
    }

    async fn create(&self, _: &Object) -> Result<Object, KubernetesError> {
        self.kubernetes("create")
    }

    async fn replace(&self, _: &Object) -> Result<Object, KubernetesError> {
        self.kubernetes("replace")
    }

    async fn replace_status(&self, _: &Object) -> Result<Object, KubernetesError> {
        self.kubernetes("replace_status")
    }

    async fn merge_patch(&self, _: Kind, _: &ObjectKey, _: &Value) -> Result<Object, KubernetesError> {
        self.kubernetes("merge_patch")
    }

    async fn delete(&self, _: Kind, _: &ObjectKey, _: &Preconditions, _: Option<i64>) -> Result<(), KubernetesError> {
        self.kubernetes("delete")
    }

    fn watch(&self, _: Kind, _: &Scope) -> BoxStream<'static, WatchEvent> {
        self.note("watch");
        futures::stream::empty().boxed()
    }
}

#[async_trait]
impl Etcd for Reached {
    async fn status(&self, _: &EtcdAccess) -> Result<MemberStatus, EtcdError> {
        self.etcd("status")
    }

    async fn members(&self, _: &EtcdAccess, _: bool) -> Result<Membership, EtcdError> {
        self.etcd("members")
    }

    async fn quorum_read(&self, _: &EtcdAccess) -> Result<Revision, EtcdError> {
        self.etcd("quorum_read")
    }

    async fn alarms(&self, _: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        self.etcd("alarms")
    }

    async fn disarm(&self, _: &EtcdAccess, _: MemberId, _: Alarm) -> Result<(), EtcdError> {
        self.etcd("disarm")
    }

    async fn member_add(&self, _: &EtcdAccess, _: &str, _: bool) -> Result<MemberId, EtcdError> {
        self.etcd("member_add")
    }

    async fn member_promote(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        self.etcd("member_promote")
    }

    async fn member_remove(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        self.etcd("member_remove")
    }

    async fn move_leader(&self, _: &EtcdAccess, _: MemberId) -> Result<(), EtcdError> {
        self.etcd("move_leader")
    }

    async fn hash_kv(&self, _: &EtcdAccess, _: Revision) -> Result<(u32, Revision), EtcdError> {
        self.etcd("hash_kv")
    }

    async fn snapshot(&self, _: &EtcdAccess) -> Result<Snapshot, EtcdError> {
        self.etcd("snapshot")
    }
}

/// Ten seconds after the process began.
struct Ten;

#[async_trait]
impl Clock for Ten {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> SignedDuration {
        SignedDuration::from_secs(10)
    }

    async fn sleep(&self, _: SignedDuration) {}
}

fn behind<T: ?Sized>(inner: Arc<T>, fence: Fence) -> Fenced<T> {
    Fenced { inner, clock: Arc::new(Ten), fence: Arc::new(fence) }
}

const READS: [&str; 3] = ["get", "list", "watch"];
const EFFECTS: [&str; 5] = ["create", "replace", "replace_status", "merge_patch", "delete"];
const ETCD_READS: [&str; 6] = ["status", "members", "quorum_read", "alarms", "hash_kv", "snapshot"];
const ETCD_EFFECTS: [&str; 5] = ["disarm", "member_add", "member_promote", "member_remove", "move_leader"];

/// Makes each call of the Kubernetes port; what the effects answered.
async fn call_kubernetes(port: &dyn Kubernetes) -> Vec<KubernetesError> {
    let key = ObjectKey::new("ns", "a");
    let scope = Scope::Namespace("ns".to_owned());
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}});
    let pod = Object::from_json(Kind::Pod, manifest).expect("a pod");
    let preconditions = Preconditions { uid: "u".to_owned(), resource_version: None };
    assert!(port.get(Kind::Pod, &key).await.is_err());
    assert!(port.list(Kind::Pod, &scope, None).await.is_err());
    assert_eq!(port.watch(Kind::Pod, &scope).count().await, 0);
    vec![
        port.create(&pod).await.expect_err("it never succeeds"),
        port.replace(&pod).await.expect_err("it never succeeds"),
        port.replace_status(&pod).await.expect_err("it never succeeds"),
        port.merge_patch(Kind::Pod, &key, &json!({})).await.expect_err("it never succeeds"),
        port.delete(Kind::Pod, &key, &preconditions, None).await.expect_err("it never succeeds"),
    ]
}

/// Makes each call of the etcd port; what the effects answered.
async fn call_etcd(port: &dyn Etcd) -> Vec<EtcdError> {
    let access = EtcdAccess { endpoints: vec!["http://a:2379".to_owned()], tls: None };
    let member = MemberId(1);
    assert!(port.status(&access).await.is_err());
    assert!(port.members(&access, true).await.is_err());
    assert!(port.quorum_read(&access).await.is_err());
    assert!(port.alarms(&access).await.is_err());
    assert!(port.hash_kv(&access, Revision(1)).await.is_err());
    assert!(port.snapshot(&access).await.is_err());
    vec![
        port.disarm(&access, member, Alarm::NoSpace).await.expect_err("it never succeeds"),
        port.member_add(&access, "http://b:2380", true).await.expect_err("it never succeeds"),
        port.member_promote(&access, member).await.expect_err("it never succeeds"),
        port.member_remove(&access, member).await.expect_err("it never succeeds"),
        port.move_leader(&access, member).await.expect_err("it never succeeds"),
    ]
}

/// Each way in which it is not ours to act, ten seconds after the beginning.
fn closed() -> Vec<(&'static str, Fence)> {
    let until = |seconds: i64| {
        let fence = Fence::default();
        fence.extend(SignedDuration::from_secs(seconds));
        fence
    };
    let (lost, ends) = (until(100), until(100));
    lost.lose();
    ends.close();
    vec![
        ("never had", Fence::default()),
        ("lost", lost),
        ("the process ends", ends),
        ("ran out", until(9)),
        ("runs out before an answer could come", until(13)),
    ]
}

#[test]
fn a_closed_fence_sends_no_effect_to_kubernetes_and_passes_every_read() {
    for (why, fence) in closed() {
        let inner = Arc::new(Reached::default());
        let port = behind::<dyn Kubernetes>(inner.clone(), fence);
        let answers = call_kubernetes(&port).now_or_never().expect("nothing waits");
        assert_eq!(answers, vec![KubernetesError::LeaseLost; EFFECTS.len()], "{why}");
        assert_eq!(inner.take(), READS, "{why}");
    }
}

#[test]
fn a_closed_fence_sends_no_effect_to_etcd_and_passes_every_read() {
    for (why, fence) in closed() {
        let inner = Arc::new(Reached::default());
        let port = behind::<dyn Etcd>(inner.clone(), fence);
        let answers = call_etcd(&port).now_or_never().expect("nothing waits");
        assert_eq!(answers, vec![EtcdError::LeaseLost; ETCD_EFFECTS.len()], "{why}");
        assert_eq!(inner.take(), ETCD_READS, "{why}");
    }
}

#[test]
fn an_open_fence_passes_everything() {
    let open = || {
        let fence = Fence::default();
        fence.extend(SignedDuration::from_secs(14));
        fence
    };
    let inner = Arc::new(Reached::default());
    let answers = call_kubernetes(&behind::<dyn Kubernetes>(inner.clone(), open())).now_or_never();
    assert!(answers.expect("nothing waits").iter().all(|error| *error != KubernetesError::LeaseLost));
    assert_eq!(inner.take(), [READS.as_slice(), EFFECTS.as_slice()].concat());
    let answers = call_etcd(&behind::<dyn Etcd>(inner.clone(), open())).now_or_never();
    assert!(answers.expect("nothing waits").iter().all(|error| *error != EtcdError::LeaseLost));
    assert_eq!(inner.take(), [ETCD_READS.as_slice(), ETCD_EFFECTS.as_slice()].concat());
}
