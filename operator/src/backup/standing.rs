//! Whether a run may go on: asked every other second while it runs, and right before anything becomes visible in the
//! store. The same for an EtcdRestore's reading of a snapshot.
//!
//! A transfer can take an hour, and much can happen to its object meanwhile. Here, and not by a signal from the
//! watches, so that a stalled watch does not hide it and the simulator runs the same. The race that remains is the time
//! of one request: an object that is deleted while the upload's last request is on its way still gets its backup, which
//! is then whole; and an EtcdRestore that verifies what that request overwrites finds another object, and verifies anew.

use futures::future::{Either, select};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::future::Future;
use std::sync::Arc;

use super::observe::restored_by;
use super::schedule::Schedule;
use super::validate::{Desired, validate};
use crate::api::{EtcdBackup, EtcdRestore, labels};
use crate::ports::clock::deadline;
use crate::ports::{Clock, Fence, KubernetesError, ObjectKey, Ports};

/// How often a run looks whether it may go on. A quorum read of one object, of four runs of a kind at most.
pub const LOOK_PERIOD: SignedDuration = SignedDuration::from_secs(2);

/// Why a run is called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The EtcdBackup is gone, or another one has its name.
    #[error("the EtcdBackup was deleted while the backup ran")]
    Deleted,
    /// The EtcdBackup is being deleted, and something of somebody else's holds it.
    #[error("the EtcdBackup is being deleted; the backup that ran was called off")]
    Deleting,
    /// What the run was begun for is no longer what is wanted.
    #[error("the EtcdBackup was changed while the backup ran, which was called off")]
    Changed,
    /// What the run would overwrite is being restored from.
    #[error("an EtcdRestore has begun with what the backup would overwrite; the backup that ran was called off")]
    Restored,
    /// Whether it is could not be read.
    #[error("whether an EtcdRestore needs what the backup would overwrite could not be read; it was called off")]
    RestoresUnread,
    /// Another process may act.
    #[error("the lease was lost while the backup ran")]
    LeaseLost,
}

/// The run, and what it was begun for.
pub struct Standing<'a> {
    clock: &'a dyn Clock,
    fence: Option<&'a Fence>,
    begun_for: Option<BegunFor<'a>>,
}

enum BegunFor<'a> {
    Backup { ports: &'a Ports, desired: &'a Desired, scope: Option<String> },
    Restore { ports: &'a Ports, key: &'a ObjectKey, restore: &'a EtcdRestore },
}

impl<'a> Standing<'a> {
    /// Of a run that begins now for `backup`, which `desired` was made from. Without a fence nobody else acts.
    pub fn new(ports: &'a Ports, fence: Option<&'a Arc<Fence>>, desired: &'a Desired, backup: &EtcdBackup) -> Self {
        let begun_for = Some(BegunFor::Backup { ports, desired, scope: scope(&backup.metadata) });
        Self { clock: ports.clock.as_ref(), fence: fence.map(Arc::as_ref), begun_for }
    }

    /// Of the reading of a snapshot that begins now for an EtcdRestore.
    pub fn of_restore(
        ports: &'a Ports,
        fence: Option<&'a Arc<Fence>>,
        key: &'a ObjectKey,
        restore: &'a EtcdRestore,
    ) -> Self {
        let begun_for = Some(BegunFor::Restore { ports, key, restore });
        Self { clock: ports.clock.as_ref(), fence: fence.map(Arc::as_ref), begun_for }
    }

    /// Of a transfer that was begun for no object, and that nothing calls off: a measurement.
    pub fn of_nobody(clock: &'a dyn Clock) -> Self {
        Self { clock, fence: None, begun_for: None }
    }

    /// Whether effects may still be sent: costs nothing.
    pub fn holds_lease(&self) -> Result<(), Stop> {
        let is_open = self.fence.is_none_or(|fence| fence.is_open(self.clock.monotonic()));
        if is_open { Ok(()) } else { Err(Stop::LeaseLost) }
    }

    /// Whether the run may go on, by a quorum read. An API server that does not answer changes nothing: if it stays so,
    /// the lease ends.
    pub async fn check(&self) -> Result<(), Stop> {
        self.holds_lease()?;
        let Some(begun_for) = &self.begun_for else { return Ok(()) };
        let looked = deadline(self.clock, LOOK_PERIOD, begun_for.look()).await;
        // A look takes time, and the lease may be over by now.
        self.holds_lease()?;
        match looked {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// The look right before something becomes visible: the run may go on, and what a one-shot backup would overwrite is
    /// nothing that an EtcdRestore has verified since the run began. Not known is no: the upload can be made again, and
    /// what it overwrites cannot.
    pub async fn check_before_visible(&self) -> Result<(), Stop> {
        self.check().await?;
        let Some(BegunFor::Backup { ports, desired, .. }) = &self.begun_for else { return Ok(()) };
        if desired.schedule != Schedule::Once {
            return Ok(());
        }
        // A look that fails for once is no reason to throw an hour's upload away.
        let asked_at = self.clock.monotonic();
        loop {
            let restored_by = deadline(self.clock, LOOK_PERIOD, restored_by(ports, desired)).await;
            self.holds_lease()?;
            match restored_by {
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(_))) => return Err(Stop::Restored),
                Ok(Err(_)) | Err(_) if self.clock.monotonic() - asked_at >= desired.stall => {
                    return Err(Stop::RestoresUnread);
                }
                Ok(Err(_)) | Err(_) => self.clock.sleep(LOOK_PERIOD).await,
            }
            self.check().await?;
        }
    }

    /// Does something for as long as the run may go on; what it was doing is dropped when it may not.
    pub async fn hold<T>(&self, work: impl Future<Output = T> + Send) -> Result<T, Stop> {
        let work = std::pin::pin!(work);
        let lost = std::pin::pin!(self.lost());
        match select(work, lost).await {
            Either::Left((value, _)) => Ok(value),
            Either::Right((stop, _)) => Err(stop),
        }
    }

    async fn lost(&self) -> Stop {
        loop {
            self.clock.sleep(LOOK_PERIOD).await;
            if let Err(stop) = self.check().await {
                return stop;
            }
        }
    }
}

impl BegunFor<'_> {
    async fn look(&self) -> Result<Result<(), Stop>, KubernetesError> {
        match self {
            Self::Backup { ports, desired, scope: of } => {
                let now = ports.kubernetes.get_typed::<EtcdBackup>(&desired.key).await?;
                let Some(now) = now else { return Ok(Err(Stop::Deleted)) };
                let is_wanted = validate(&now).is_ok_and(|wanted| wanted.is_same_run(desired));
                Ok(compare(&now.metadata, &desired.uid, is_wanted && scope(&now.metadata) == *of))
            }
            Self::Restore { ports, key, restore } => {
                let now = ports.kubernetes.get_typed::<EtcdRestore>(key).await?;
                let Some(now) = now else { return Ok(Err(Stop::Deleted)) };
                let (now, then) = (&now.metadata, &restore.metadata);
                let is_wanted = now.generation == then.generation && scope(now) == scope(then);
                Ok(compare(now, then.uid.as_deref().unwrap_or_default(), is_wanted))
            }
        }
    }
}

fn compare(now: &ObjectMeta, uid: &str, is_wanted: bool) -> Result<(), Stop> {
    if now.uid.as_deref() != Some(uid) {
        return Err(Stop::Deleted);
    }
    if now.deletion_timestamp.is_some() {
        return Err(Stop::Deleting);
    }
    if is_wanted { Ok(()) } else { Err(Stop::Changed) }
}

/// Which operator an object belongs to.
fn scope(meta: &ObjectMeta) -> Option<String> {
    meta.annotations.as_ref()?.get(labels::ANNOTATION_SCOPE).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::tests::world::{World, now};
    use crate::ports::Kind;

    /// A run that has the lease, and what happens during its next look at its EtcdBackup.
    fn check_while(happens: impl FnOnce(&Fence) -> Result<(), KubernetesError> + Send + 'static) -> Result<(), Stop> {
        let world = World::new();
        let text = "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdBackup, metadata: {name: b, namespace: \
                    ns, uid: u1}, spec: {etcdEndpoints: ['http://a:2379'], storageType: S3, s3: {path: bucket/key}}}";
        let key = world.kubernetes.insert(Kind::EtcdBackup, text);
        let backup = world.kubernetes.read::<EtcdBackup>(&key);
        let desired = validate(&backup).expect("a spec that can be used");
        let ports = world.ports();
        let fence = Arc::new(Fence::default());
        fence.extend(ports.clock.monotonic() + SignedDuration::from_hours(1));
        let during = fence.clone();
        *world.kubernetes.next_read.lock().unwrap() = Some((Kind::EtcdBackup, Box::new(move || happens(&during))));
        now(Standing::new(&ports, Some(&fence), &desired, &backup).check())
    }

    #[test]
    fn a_lease_that_ends_while_the_object_is_looked_at_calls_the_run_off() {
        let silent = || KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None };
        assert_eq!(check_while(|_| Ok(())), Ok(()));
        assert_eq!(check_while(move |_| Err(silent())), Ok(()), "an API server that does not answer changes nothing");
        let lost = |fence: &Fence| {
            fence.lose();
            Ok(())
        };
        assert_eq!(check_while(lost), Err(Stop::LeaseLost));
        let lost_in_silence = move |fence: &Fence| {
            fence.lose();
            Err(silent())
        };
        assert_eq!(check_while(lost_in_silence), Err(Stop::LeaseLost));
    }
}
