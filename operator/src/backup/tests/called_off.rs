//! Backups whose EtcdBackup, or whose lease, goes away while they run. Here time passes only when everybody waits.

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::task::{ArcWake, waker};
use jiff::{SignedDuration, Timestamp};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::world::World;
use super::*;
use crate::ports::Clock;

/// A clock on which sleepers sleep.
#[derive(Default)]
pub(crate) struct Stepped {
    since_start: Mutex<SignedDuration>,
    sleepers: Mutex<Vec<(SignedDuration, Waker)>>,
}

#[async_trait::async_trait]
impl Clock for Stepped {
    fn now(&self) -> Timestamp {
        "2026-11-30T02:03:04Z".parse::<Timestamp>().expect("a time") + self.monotonic()
    }

    fn monotonic(&self) -> SignedDuration {
        *self.since_start.lock().unwrap()
    }

    async fn sleep(&self, duration: SignedDuration) {
        let until = self.monotonic() + duration;
        poll_fn(|context| {
            if self.monotonic() >= until {
                return Poll::Ready(());
            }
            self.sleepers.lock().unwrap().push((until, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

struct Again;

impl ArcWake for Again {
    fn wake_by_ref(_: &Arc<Self>) {}
}

impl Stepped {
    /// Runs a pass to its end; `happens` is done when so many seconds have passed.
    pub(crate) fn run<T>(&self, pass: impl Future<Output = T>, after: i64, happens: impl FnOnce()) -> T {
        let mut pass = std::pin::pin!(pass);
        let mut happens = Some(happens);
        let at = SignedDuration::from_secs(after);
        for _ in 0..10_000 {
            if let Poll::Ready(value) = pass.as_mut().poll(&mut Context::from_waker(&waker(Arc::new(Again)))) {
                return value;
            }
            let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap());
            let first = sleepers.iter().map(|(until, _)| *until).min();
            let next = first.into_iter().chain(happens.is_some().then_some(at)).min().expect("somebody sleeps");
            *self.since_start.lock().unwrap() = next;
            if next >= at
                && let Some(happens) = happens.take()
            {
                happens();
            }
            // All of them look at the clock again.
            sleepers.into_iter().for_each(|(_, waker)| waker.wake());
        }
        panic!("it never ends");
    }
}

/// A backup that has sent a part, and whose member then says nothing until the test does.
struct Slow {
    bench: Bench,
    clock: Arc<Stepped>,
    fence: Arc<Fence>,
    rest: UnboundedSender<Bytes>,
}

impl Slow {
    fn new(spec: &str) -> Self {
        let mut bench = Bench::multipart(spec);
        let (rest, later) = unbounded();
        bench.world.members.change("http://a:2379", |member| {
            assert!(member.snapshot.len() > 2, "the snapshot must take several parts");
            member.snapshot.truncate(2);
            *member.later.lock().unwrap() = Some(later);
        });
        let fence = Arc::new(Fence::default());
        fence.extend(SignedDuration::from_hours(1));
        bench.context.fence = Some(fence.clone());
        Self { bench, clock: Arc::default(), fence, rest }
    }

    fn world(&self) -> &World {
        &self.bench.world
    }

    /// One pass, in which `happens` three seconds after the beginning of time.
    fn pass(&self, happens: impl FnOnce()) -> Result<Next, BackupError> {
        self.pass_in(3, happens)
    }

    /// One pass, in which `happens` when the clock shows so many seconds.
    fn pass_in(&self, second: i64, happens: impl FnOnce()) -> Result<Next, BackupError> {
        let ports = Ports { clock: self.clock.clone(), ..self.world().ports() };
        let backup = self.world().kubernetes.read::<EtcdBackup>(&self.bench.key);
        self.clock.run(reconcile(&ports, &self.bench.key, backup, &self.bench.context), second, happens)
    }

    fn edit(&self, edit: impl FnOnce(&mut serde_json::Value)) {
        self.world().kubernetes.edit(Kind::EtcdBackup, &self.bench.key, edit);
    }

    /// The member goes on, to its end.
    fn go_on(&self) {
        for chunk in snapshot(42).chunks(5000).skip(2) {
            self.rest.unbounded_send(Bytes::copy_from_slice(chunk)).expect("somebody listens");
        }
        self.rest.close_channel();
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.world().keys(), Vec::<String>::new());
        assert_eq!(*self.world().store.aborted.lock().unwrap(), 1, "its parts are not left in the store");
        assert!(self.clock.monotonic() <= SignedDuration::from_secs(5), "promptly: {}", self.clock.monotonic());
    }
}

#[test]
fn a_backup_whose_object_is_deleted_is_called_off() {
    for spec in [ONCE, PERIODIC] {
        let slow = Slow::new(spec);
        let next = slow.pass(|| slow.world().kubernetes.remove(Kind::EtcdBackup, &slow.bench.key));
        assert_eq!(next, Ok(Next::ON_CHANGE));
        slow.assert_nothing_is_left();
    }
}

#[test]
fn a_backup_that_waits_for_a_finalizer_is_called_off_and_says_so() {
    let slow = Slow::new(PERIODIC);
    let next = slow.pass(|| slow.edit(|json| json["metadata"]["deletionTimestamp"] = "2026-11-30T02:03:07Z".into()));
    assert_eq!(next, Ok(Next::ON_CHANGE));
    slow.assert_nothing_is_left();
    assert_eq!(slow.bench.status().phase, Some(BackupPhase::Pending));
    let ready = find(&slow.bench.status().conditions, "Ready").expect("always there").message.clone();
    assert_eq!(ready, "the EtcdBackup is being deleted; the backup that ran was called off");
}

#[test]
fn nothing_becomes_visible_for_an_object_that_went_in_the_last_moment() {
    for spec in [ONCE, PERIODIC] {
        for part_bytes in [6000, 1 << 20] {
            let mut slow = Slow::new(spec);
            slow.bench.context.part_bytes = part_bytes;
            let next = slow.pass(|| {
                slow.go_on();
                slow.world().kubernetes.remove(Kind::EtcdBackup, &slow.bench.key);
            });
            assert_eq!(next, Ok(Next::ON_CHANGE));
            assert_eq!(slow.world().keys(), Vec::<String>::new(), "{spec} in parts of {part_bytes}");
        }
    }
}

#[test]
fn a_changed_spec_calls_the_backup_off_and_the_new_one_is_taken_at_once() {
    let slow = Slow::new(PERIODIC);
    let next = slow.pass(|| {
        slow.edit(|json| {
            json["spec"]["s3"]["path"] = "bucket/elsewhere".into();
            json["metadata"]["generation"] = 2.into();
        });
    });
    assert_eq!(next, Ok(Next::after(SignedDuration::ZERO)));
    slow.assert_nothing_is_left();
    let told = slow.world().kubernetes.told();
    assert_eq!(told, ["Normal BackupCalledOff: the EtcdBackup was changed while the backup ran, which was called off"]);
    let status = slow.bench.status();
    assert_eq!((status.attempts, status.last_run_time, status.observed_generation), (0, None, Some(1)));
    slow.world().members.serve("http://a:2379", 1, 40, &snapshot(42));
    slow.pass(|| {}).unwrap();
    assert!(slow.bench.status().succeeded, "{}", slow.bench.status().reason);
    assert!(slow.world().keys()[0].starts_with("elsewhere_v40_"), "{:?}", slow.world().keys());
}

/// The members of a restore fetch exactly the bytes that were verified for them.
#[test]
fn a_one_shot_backup_does_not_overwrite_what_was_verified_for_a_restore_while_it_ran() {
    let restore = "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, metadata: {name: c, namespace: ns, \
                   uid: r1}, spec: {etcdCluster: {name: c}, backupStorageType: S3, s3: {path: bucket/dir/key}}, status: \
                   {phase: Verified, snapshot: {bucket: bucket, key: dir/key, size: 8, sha256: a, revision: 1}}}";
    let refused = KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None };
    for (is_listed, part_bytes) in [(true, 6000), (true, 1 << 20), (false, 6000), (false, 1 << 20)] {
        let mut slow = Slow::new(ONCE);
        slow.bench.context.part_bytes = part_bytes;
        slow.world().put("dir/key", b"verified".to_vec());
        let next = slow.pass(|| {
            match is_listed {
                true => drop(slow.world().kubernetes.insert(Kind::EtcdRestore, restore)),
                false => *slow.world().kubernetes.refuse_lists.lock().unwrap() = Some(refused.clone()),
            }
            slow.go_on();
        });
        assert_eq!(next, Ok(Next::after(LOOK_AGAIN)));
        assert_eq!(slow.world().object("dir/key"), &b"verified"[..], "{is_listed}, parts of {part_bytes}");
        assert_eq!(slow.world().keys(), ["dir/key"]);
        let status = slow.bench.status();
        assert_eq!((status.phase, status.attempts, status.last_run_time), (Some(BackupPhase::Pending), 0, None));
        let told = slow.world().kubernetes.told();
        assert!(told.iter().all(|event| event.starts_with("Normal BackupCalledOff: ")) && told.len() == 1, "{told:?}");
    }
}

#[test]
fn how_many_are_kept_may_change_without_harm() {
    let slow = Slow::new(PERIODIC);
    slow.pass(|| {
        slow.edit(|json| {
            json["spec"]["backupPolicy"]["maxBackups"] = 5.into();
            json["metadata"]["generation"] = 2.into();
        });
        slow.go_on();
    })
    .unwrap();
    assert!(slow.bench.status().succeeded, "{}", slow.bench.status().reason);
    slow.bench.check_records();
}

#[test]
fn what_is_kept_after_a_run_is_what_the_spec_says_by_then() {
    for (keep, left) in [(5, 3), (0, 3), (1, 1)] {
        let slow = Slow::new(PERIODIC);
        let (rest, later) = unbounded();
        let waiting = slow.world().members.0.lock().unwrap()["http://a:2379"].clone();
        for revision in [50, 51] {
            slow.world().members.serve("http://a:2379", 1, revision, &snapshot(revision));
            slow.pass(|| {}).unwrap();
            slow.clock.run(async { slow.clock.sleep(SignedDuration::from_secs(200)).await }, 0, || {});
        }
        *waiting.later.lock().unwrap() = Some(later);
        slow.world().members.0.lock().unwrap().insert("http://a:2379".to_owned(), waiting);
        let slow = Slow { rest, ..slow };
        let begins = slow.clock.monotonic().as_secs();
        slow.pass_in(begins + 3, || {
            slow.edit(|json| {
                json["spec"]["backupPolicy"]["maxBackups"] = keep.into();
                json["metadata"]["generation"] = 2.into();
            });
            slow.go_on();
        })
        .unwrap();
        assert_eq!(slow.bench.records().len(), left, "{keep}: {}", slow.bench.status().reason);
        assert_eq!(slow.world().keys().len(), 2 * left, "{keep}: with their manifests");
        slow.bench.check_records();
    }
}

#[test]
fn a_backup_without_the_lease_is_called_off_and_nothing_more_is_written() {
    let slow = Slow::new(PERIODIC);
    let writes = || *slow.world().kubernetes.writes.lock().unwrap();
    let result = slow.pass(|| slow.fence.lose());
    assert_eq!(result, Err(BackupError::LeaseLost { key: slow.bench.key.clone() }));
    slow.assert_nothing_is_left();
    assert_eq!((writes(), slow.bench.status().phase), (1, Some(BackupPhase::Running)), "its beginning is on record");
    // Whoever has the lease now finds a run without a result.
    slow.fence.extend(SignedDuration::from_hours(2));
    slow.world().members.serve("http://a:2379", 1, 40, &snapshot(42));
    slow.world().pass_time(60);
    slow.clock.run(async { slow.clock.sleep(SignedDuration::from_secs(60)).await }, 0, || {});
    slow.pass(|| {}).unwrap();
    assert!(slow.bench.status().succeeded, "{}", slow.bench.status().reason);
}

#[test]
fn old_backups_stay_where_the_lease_is_lost() {
    let mut bench = Bench::new(PERIODIC);
    for revision in [50, 51, 52] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.world.store.fail(Op::Delete, Fault::Before, usize::from(revision == 52));
        bench.pass().unwrap();
        bench.world.pass_time(100);
    }
    let keys = bench.world.keys();
    bench.context.fence = Some(Arc::default());
    bench.pass().unwrap();
    assert_eq!(bench.world.keys(), keys, "chosen, marked, and left to whoever has the lease");
}
