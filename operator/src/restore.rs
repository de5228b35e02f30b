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

use std::sync::Arc;

use crate::api::{EtcdRestore, EtcdRestoreStatus};
use crate::backup::{BackupContext, BackupError, Next};
use crate::ports::{Kind, ObjectKey, Ports, Typed};
use crate::recorder::{self, About};
use observe::observe;
use plan::{FOLLOW, LOOK_AGAIN, Plan, has_ended, plan};
use status::Turn;
use validate::validate;

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
            let previous = restore.status.clone().unwrap_or_default();
            let inspected = apply::inspect(ports, &desired, credentials).await;
            let turn = Turn { previous: &previous, desired: &desired, now: ports.clock.now() };
            let (status, next) = match inspected {
                Ok(snapshot) => (turn.verified(snapshot), FOLLOW),
                Err(error) if error.may_pass() => (turn.unread(&error), LOOK_AGAIN),
                Err(error) => {
                    write(ports, key, &restore, turn.unusable(&error)).await?;
                    return Ok(Next::ON_CHANGE);
                }
            };
            write(ports, key, &restore, status).await?;
            Ok(Next::after(next))
        }
    }
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
