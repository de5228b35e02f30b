//! EtcdRestore: an EtcdCluster gets the data of a snapshot.
//!
//! One pass: validate -> observe -> plan -> apply -> status. Here the snapshot is read once and checked (its own hash,
//! its format, its revision), and status tells how far the EtcdCluster is. The restore itself is the EtcdCluster's: its
//! plan begins when this status says `Verified`, starts the new lineage beside the old one, and remembers by this
//! object's uid that it has been done, so that it is never done twice.

pub mod validate;

pub mod observe;

pub mod plan;

pub mod apply;

pub mod news;
pub mod status;

use jiff::SignedDuration;
use std::sync::Arc;

use crate::api::{EtcdRestore, EtcdRestoreStatus};
use crate::backup::standing::{Standing, Stop};
use crate::backup::{BackupContext, BackupError, Next};
use crate::ports::{Credentials, Kind, ObjectKey, Ports, Typed};
use crate::recorder::{self, About};
use observe::observe;
use plan::{FOLLOW, LOOK_AGAIN, Plan, has_ended, plan};
use status::Turn;
use validate::{Desired, validate};

/// One pass over an EtcdRestore.
///
/// # Errors
/// When status could not be written; the next pass finds out where it was.
pub async fn reconcile(
    ports: &Ports,
    key: &ObjectKey,
    restore: Arc<EtcdRestore>,
    context: &BackupContext,
) -> Result<Next, BackupError> {
    let previous = restore.status.clone().unwrap_or_default();
    let now = ports.clock.now();
    let desired = match validate(&restore) {
        Ok(desired) => desired,
        Err(_) if restore.metadata.deletion_timestamp.is_some() || (previous.succeeded && has_ended(&previous)) => {
            return Ok(Next::ON_CHANGE);
        }
        Err(faults) => {
            let status = status::invalid(&previous, restore.metadata.generation, &faults, now);
            write(ports, key, &restore, status).await?;
            return Ok(Next::ON_CHANGE);
        }
    };
    let observed = observe(ports, &desired).await;
    let turn = Turn { previous: &previous, desired: &desired, now };
    match plan(&desired, &previous, &observed, context.legacy_alive.as_deref(), ports.clock.now()) {
        Plan::Done | Plan::Deleting => Ok(Next::ON_CHANGE),
        Plan::FailedBefore => {
            write(ports, key, &restore, turn.failed_before()).await?;
            Ok(Next::ON_CHANGE)
        }
        Plan::Wait(waiting) => {
            write(ports, key, &restore, turn.waiting(&waiting)).await?;
            Ok(Next::after(LOOK_AGAIN))
        }
        Plan::Follow(progress, cluster_says) => {
            write(ports, key, &restore, turn.following(progress, &cluster_says)).await?;
            Ok(Next::after(FOLLOW))
        }
        Plan::Succeed => {
            write(ports, key, &restore, turn.succeeded()).await?;
            Ok(Next::ON_CHANGE)
        }
        Plan::Verify => {
            // Plan::Verify comes with credentials only.
            let Ok(credentials) = &observed.credentials else { return Ok(Next::after(LOOK_AGAIN)) };
            let restore = write(ports, key, &restore, turn.verifying()).await?;
            verify(ports, &desired, credentials, &restore, context).await
        }
    }
}

/// Reads the snapshot, for as long as that is what the EtcdRestore wants, and says what it is.
async fn verify(
    ports: &Ports,
    desired: &Desired,
    credentials: &Credentials,
    restore: &Arc<EtcdRestore>,
    context: &BackupContext,
) -> Result<Next, BackupError> {
    let key = &desired.key;
    let standing = Standing::of_restore(ports, context.fence.as_ref(), key, restore);
    let inspected = match standing.hold(apply::inspect(ports, desired, credentials)).await {
        Ok(inspected) => inspected,
        // Nothing was touched, and what status says (that it is being read) is what the next pass goes on with.
        Err(stop) => {
            tracing::info!(restore = %key, ?stop, "reading the snapshot was called off");
            return match stop {
                Stop::LeaseLost => Err(BackupError::LeaseLost { key: key.clone() }),
                Stop::Deleted | Stop::Deleting => Ok(Next::ON_CHANGE),
                Stop::Changed | Stop::Restored | Stop::RestoresUnread => Ok(Next::after(SignedDuration::ZERO)),
            };
        }
    };
    let previous = restore.status.clone().unwrap_or_default();
    let turn = Turn { previous: &previous, desired, now: ports.clock.now() };
    let (status, next) = match inspected {
        Ok(snapshot) => (turn.verified(snapshot), Next::after(FOLLOW)),
        Err(error) if error.may_pass() => (turn.unread(&error), Next::after(LOOK_AGAIN)),
        Err(error) => (turn.unusable(&error), Next::ON_CHANGE),
    };
    write(ports, key, restore, status).await?;
    Ok(next)
}

/// Writes a status where it differs, and tells what is new in it; the object as it is then. A conflict ends the pass: nothing was done that reading
/// the snapshot once more would not do again.
async fn write(
    ports: &Ports,
    key: &ObjectKey,
    restore: &Arc<EtcdRestore>,
    status: EtcdRestoreStatus,
) -> Result<Arc<EtcdRestore>, BackupError> {
    if restore.status.as_ref() == Some(&status) {
        return Ok(restore.clone());
    }
    let news = news::news(&restore.status.clone().unwrap_or_default(), &status);
    let mut next = EtcdRestore::clone(restore);
    next.status = Some(status);
    let written = ports.kubernetes.replace_status(&next.into_object()).await;
    let written = written.map_err(|source| BackupError::Write { key: key.clone(), source })?;
    if let Some(news) = news {
        let uid = restore.metadata.uid.as_deref().unwrap_or_default();
        recorder::tell(ports, &About { kind: Kind::EtcdRestore, key, uid }, &news).await;
    }
    Ok(written.typed().unwrap_or_else(|| restore.clone()))
}

#[cfg(test)]
mod tests;
