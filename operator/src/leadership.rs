//! Who may act: one Lease for each controller, and respect for the archived operator's locks.
//!
//! The rules are client-go's: another holder is believed for its lease duration from the moment at which *we* first saw
//! its last renewal, so that clocks need not agree. Losing the lease is cheap: the fence closes, passes in flight can
//! send no effect any more, and the process goes on as a follower with its caches warm.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde::Deserialize;
use std::sync::Arc;

use crate::ports::{Controller, Fence, KubernetesError, ObjectKey, Ports, Typed};

/// How long a lease holds without renewal. The archived operator's.
pub const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(15);
/// How often the holder renews, and others look; the archived operator's lock is looked at as often.
pub const RETRY_PERIOD: SignedDuration = SignedDuration::from_secs(2);
/// Annotation in which the archived operator kept its lock, on an Endpoints object.
pub const LEGACY_LOCK_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// Whose lease it is, and where it lies.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the operator.
    pub namespace: String,
    /// This process: pod name and something that another process of that name does not have.
    pub identity: String,
}

/// What to do with a lease as it was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// There is none: create it.
    Create,
    /// It is ours, free or expired: replace it, with this many transitions.
    Take {
        /// `leaseTransitions` afterwards.
        transitions: i32,
        /// It was ours before.
        renewal: bool,
    },
    /// Somebody else's.
    Follow,
}

/// What was seen of somebody else's lease, and when it was first seen so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    holder: String,
    renewed: Option<MicroTime>,
    transitions: i32,
    first_seen: SignedDuration,
}

/// Decides; remembers in `sighting` since when the lease has read as it does.
pub fn decide(lease: Option<&Lease>, identity: &str, now: SignedDuration, sighting: &mut Sighting) -> Decision {
    let Some(lease) = lease else { return Decision::Create };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or_default();
    if holder == identity {
        return Decision::Take { transitions, renewal: true };
    }
    let seen = Sighting { holder, renewed: spec.renew_time, transitions, first_seen: sighting.first_seen };
    if *sighting != seen {
        *sighting = Sighting { first_seen: now, ..seen };
    }
    let duration = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(15)));
    let expired = now >= sighting.first_seen + duration;
    if sighting.holder.is_empty() || expired {
        Decision::Take { transitions: transitions.saturating_add(1), renewal: false }
    } else {
        Decision::Follow
    }
}

/// Acquires and renews the lease of one controller for ever, and keeps the fence true. Never ends.
pub async fn elect(ports: Ports, candidate: Candidate, controller: Controller, fence: Arc<Fence>) {
    let mut sighting = Sighting::default();
    let mut legacy = LegacySighting::default();
    let mut refusal = None;
    // A lock that could not be read yet is not one that is not there.
    let mut known = None;
    let mut unread = None;
    loop {
        match legacy_lock(&ports, &candidate, controller, &mut legacy).await {
            Ok(lock) => {
                let is_news = known.as_ref() != Some(&lock);
                if let Some(lock) = lock.as_ref().filter(|_| is_news) {
                    tracing::warn!(%lock, "the archived operator is alive; doing nothing until its lock expires");
                }
                fence.set_legacy_lock(lock.clone());
                (known, unread) = (Some(lock), None);
            }
            Err(error) => {
                if unread.as_ref() != Some(&error) {
                    tracing::warn!(%error, "the archived operator's lock cannot be read");
                }
                unread = Some(error);
            }
        }
        if known.is_none() {
            ports.clock.sleep(RETRY_PERIOD).await;
            continue;
        }
        match try_once(&ports, &candidate, controller, &mut sighting).await {
            Ok(until) => {
                until.map_or_else(|| fence.lose(), |until| fence.extend(until));
                refusal = None;
            }
            Err(failure) => {
                let key = ObjectKey::new(&candidate.namespace, controller.lock_name());
                if let Some(why) = failure.refusal(&key) {
                    if refusal.as_ref() != Some(&why) {
                        tracing::error!("{why}");
                    }
                    refusal = Some(why);
                    fence.refuse();
                }
                // Not known whether it is still ours: it is for as long as the last renewal says.
                tracing::debug!(error = %failure.source, lock = controller.lock_name(), "lease not renewed");
            }
        }
        ports.clock.sleep(RETRY_PERIOD).await;
    }
}

/// Gives the lease back, so that the next process need not wait for it to expire.
pub async fn release(ports: &Ports, candidate: &Candidate, controller: Controller, fence: &Fence) {
    fence.lose();
    let key = ObjectKey::new(&candidate.namespace, controller.lock_name());
    let Ok(Some(lease)) = ports.kubernetes.get_typed::<Lease>(&key).await else { return };
    let mut lease = lease.as_ref().clone();
    let Some(spec) = lease.spec.as_mut() else { return };
    if spec.holder_identity.as_deref() != Some(&candidate.identity) {
        return;
    }
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    if let Err(error) = ports.kubernetes.replace(&lease.into_object()).await {
        tracing::debug!(%error, "lease not released; it expires");
    }
}

/// What was tried with the lease, and how it failed.
#[derive(Debug)]
struct LeaseFailure {
    verb: &'static str,
    source: KubernetesError,
}

impl LeaseFailure {
    fn of(verb: &'static str) -> impl Fn(KubernetesError) -> Self {
        move |source| Self { verb, source }
    }

    /// What to say when somebody must do something about it: trying again does not help.
    fn refusal(&self, key: &ObjectKey) -> Option<String> {
        use KubernetesError::{Forbidden, Invalid, NotFound};
        let Self { verb, source } = self;
        // A lease that was deleted since it was read is created at the next look.
        let is_gone = *verb == "update" && matches!(source, NotFound { .. });
        let is_refused = matches!(source, Forbidden { .. } | Invalid { .. } | NotFound { .. });
        (is_refused && !is_gone).then(|| {
            format!(
                "nothing is done without a lease, and this one cannot be had: {verb} of leases.coordination.k8s.io {key}: \
                 {source}; the role must allow get, create and update of leases.coordination.k8s.io in this namespace"
            )
        })
    }
}

/// One look and at most one write. The moment until which the lease is ours, or none when it is somebody else's.
async fn try_once(
    ports: &Ports,
    candidate: &Candidate,
    controller: Controller,
    sighting: &mut Sighting,
) -> Result<Option<SignedDuration>, LeaseFailure> {
    let key = ObjectKey::new(&candidate.namespace, controller.lock_name());
    let lease = ports.kubernetes.get_typed::<Lease>(&key).await.map_err(LeaseFailure::of("get"))?;
    // Counted from before the write is sent: it can only be on the safe side.
    let asked = ports.clock.monotonic();
    let now = MicroTime(ports.clock.now());
    let written = match decide(lease.as_deref(), &candidate.identity, asked, sighting) {
        Decision::Follow => return Ok(None),
        Decision::Create => {
            let metadata = ObjectMeta { name: Some(key.name), namespace: Some(key.namespace), ..ObjectMeta::default() };
            let spec = held(candidate, 0, now.clone(), now);
            let created = ports.kubernetes.create(&Lease { metadata, spec: Some(spec) }.into_object()).await;
            created.map_err(LeaseFailure::of("create"))
        }
        Decision::Take { transitions, renewal } => {
            let mut lease = lease.as_deref().cloned().unwrap_or_default();
            let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone()).filter(|_| renewal);
            lease.spec = Some(held(candidate, transitions, acquired.unwrap_or_else(|| now.clone()), now));
            ports.kubernetes.replace(&lease.into_object()).await.map_err(LeaseFailure::of("update"))
        }
    };
    match written {
        Ok(_) => Ok(Some(asked + LEASE_DURATION)),
        Err(failure)
            if matches!(failure.source, KubernetesError::Conflict { .. } | KubernetesError::AlreadyExists { .. }) =>
        {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn held(candidate: &Candidate, transitions: i32, acquired: MicroTime, renewed: MicroTime) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
        acquire_time: Some(acquired),
        renew_time: Some(renewed),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyRecord {
    holder_identity: String,
    lease_duration_seconds: i64,
    renew_time: Option<Time>,
}

#[derive(Default)]
struct LegacySighting {
    annotation: String,
    first_seen: SignedDuration,
    /// It was seen to change from one look to the next: somebody renews it, whatever its clock says.
    changed_at: Option<SignedDuration>,
}

/// The name of the archived operator's lock if it is fresh: renewed within its own duration by our clock, or seen to change.
async fn legacy_lock(
    ports: &Ports,
    candidate: &Candidate,
    controller: Controller,
    sighting: &mut LegacySighting,
) -> Result<Option<String>, KubernetesError> {
    let key = ObjectKey::new(&candidate.namespace, controller.lock_name());
    let endpoints = ports.kubernetes.get_typed::<Endpoints>(&key).await?;
    let annotation = endpoints
        .and_then(|endpoints| endpoints.metadata.annotations.clone())
        .and_then(|mut annotations| annotations.remove(LEGACY_LOCK_ANNOTATION));
    let Some(annotation) = annotation else { return Ok(None) };
    let now = ports.clock.monotonic();
    if sighting.annotation != annotation {
        sighting.changed_at = (!sighting.annotation.is_empty()).then_some(now);
        sighting.first_seen = now;
        sighting.annotation.clone_from(&annotation);
    }
    let changed_ago = sighting.changed_at.map(|at| now - at);
    let fresh = is_legacy_fresh(&annotation, changed_ago, now - sighting.first_seen, ports.clock.now());
    Ok(fresh.then(|| format!("Endpoints {key}")))
}

/// Fresh: its renewal is younger than its duration by our clock, or we saw it being renewed that recently.
fn is_legacy_fresh(
    annotation: &str,
    changed_ago: Option<SignedDuration>,
    unchanged_for: SignedDuration,
    now: Timestamp,
) -> bool {
    let Ok(record) = serde_json::from_str::<LegacyRecord>(annotation) else { return false };
    if record.holder_identity.is_empty() {
        return false;
    }
    let duration = SignedDuration::from_secs(record.lease_duration_seconds.clamp(1, 300));
    let young = record.renew_time.is_some_and(|renewed| now.duration_since(renewed.0) < duration);
    (young && unchanged_for < duration) || changed_ago.is_some_and(|ago| ago < duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::tests::world::{Still, World};
    use crate::ports::{Clock, Kind};
    use async_trait::async_trait;
    use futures::FutureExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn lease(holder: &str, renewed: i64, transitions: i32) -> Lease {
        let renew_time = Timestamp::from_second(renewed).ok().map(MicroTime);
        let spec = LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time,
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    fn at(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn nobody_leads_before_the_archived_operators_lock_was_read() {
        for unread in [true, false] {
            let world = World::new();
            if unread {
                let refused =
                    || Err(KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None });
                *world.kubernetes.next_read.lock().unwrap() = Some((Kind::Endpoints, Box::new(refused)));
            }
            let ports = Ports { clock: Arc::new(Still), ..world.ports() };
            let fence = Arc::new(Fence::default());
            let candidate = Candidate { namespace: "ns".into(), identity: "me".into() };
            assert_eq!(elect(ports, candidate, Controller::Cluster, fence.clone()).now_or_never(), None);
            assert_eq!(fence.is_open(SignedDuration::ZERO), !unread);
        }
    }

    /// A night's sleep: `meanwhile` happens in the first, and nobody wakes up from the second.
    struct OneNight<F>(AtomicBool, F);

    #[async_trait]
    impl<F: Fn() + Send + Sync> Clock for OneNight<F> {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + self.monotonic()
        }

        fn monotonic(&self) -> SignedDuration {
            if self.0.load(Ordering::Relaxed) { RETRY_PERIOD } else { SignedDuration::ZERO }
        }

        async fn sleep(&self, duration: SignedDuration) {
            assert_eq!(duration, RETRY_PERIOD);
            if self.0.swap(true, Ordering::Relaxed) {
                futures::future::pending::<()>().await;
            }
            (self.1)();
        }
    }

    #[test]
    fn an_archived_operator_that_starts_later_is_noticed_at_the_next_look() {
        let world = World::new();
        let (objects, fence) = (world.kubernetes.clone(), Arc::new(Fence::default()));
        let seen = fence.clone();
        let meanwhile = move || {
            assert!(seen.is_open(SignedDuration::ZERO) && seen.legacy_lock().is_none(), "until then it acts");
            let lock = r#"{"holderIdentity":"old-0","leaseDurationSeconds":15,"renewTime":"1970-01-01T00:00:01Z"}"#;
            let name = Controller::Cluster.lock_name();
            let endpoints = format!(
                "{{apiVersion: v1, kind: Endpoints, metadata: {{name: {name}, namespace: ns, annotations: \
                 {{{LEGACY_LOCK_ANNOTATION}: '{lock}'}}}}}}"
            );
            objects.insert(Kind::Endpoints, &endpoints);
        };
        let ports = Ports { clock: Arc::new(OneNight(AtomicBool::new(false), meanwhile)), ..world.ports() };
        let candidate = Candidate { namespace: "ns".into(), identity: "me".into() };
        assert_eq!(elect(ports, candidate, Controller::Cluster, fence.clone()).now_or_never(), None);
        assert_eq!(fence.legacy_lock(), Some("Endpoints ns/etcd-operator".to_owned()));
    }

    #[test]
    fn a_lease_that_may_not_be_had_is_said_and_leaves_the_question_open() {
        let failures = [
            (KubernetesError::Forbidden { message: "user x cannot get leases".into() }, false),
            (KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None }, true),
        ];
        for (failure, settled) in failures {
            let world = World::new();
            let said = failure.clone();
            *world.kubernetes.next_read.lock().unwrap() = Some((Kind::Lease, Box::new(|| Err(said))));
            let ports = Ports { clock: Arc::new(Still), ..world.ports() };
            let fence = Arc::new(Fence::default());
            fence.lose();
            let candidate = Candidate { namespace: "ns".into(), identity: "me".into() };
            assert_eq!(elect(ports, candidate, Controller::Cluster, fence.clone()).now_or_never(), None);
            assert_eq!((fence.is_settled(), fence.is_open(SignedDuration::ZERO)), (settled, false), "{failure}");
            let key = ObjectKey::new("ns", "etcd-operator");
            let refusal = LeaseFailure { verb: "get", source: failure }.refusal(&key);
            assert_eq!(refusal.is_none(), settled);
            let words = [
                "get of leases.coordination.k8s.io ns/etcd-operator",
                "user x cannot get leases",
                "must allow get, create",
            ];
            assert!(refusal.is_none_or(|said| words.iter().all(|words| said.contains(words))));
        }
    }

    #[test]
    fn another_holder_is_believed_for_its_duration_since_its_last_seen_renewal() {
        let mut sighting = Sighting::default();
        assert_eq!(decide(None, "me", at(0), &mut sighting), Decision::Create);
        assert_eq!(decide(Some(&lease("you", 1, 3)), "me", at(100), &mut sighting), Decision::Follow);
        assert_eq!(decide(Some(&lease("you", 2, 3)), "me", at(110), &mut sighting), Decision::Follow);
        assert_eq!(decide(Some(&lease("you", 2, 3)), "me", at(124), &mut sighting), Decision::Follow);
        let taken = Decision::Take { transitions: 4, renewal: false };
        assert_eq!(decide(Some(&lease("you", 2, 3)), "me", at(125), &mut sighting), taken);
    }

    #[test]
    fn a_released_lease_is_taken_at_once_and_our_own_is_renewed() {
        let mut sighting = Sighting::default();
        let taken = Decision::Take { transitions: 4, renewal: false };
        assert_eq!(decide(Some(&lease("", 1, 3)), "me", at(0), &mut sighting), taken);
        let renewed = Decision::Take { transitions: 4, renewal: true };
        assert_eq!(decide(Some(&lease("me", 1, 4)), "me", at(0), &mut sighting), renewed);
    }

    #[test]
    fn the_archived_operators_lock_is_respected_while_fresh() {
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().expect("a time");
        let lock = |holder: &str, renewed: &str| {
            format!(r#"{{"holderIdentity":"{holder}","leaseDurationSeconds":15,"renewTime":"{renewed}"}}"#)
        };
        let young = lock("old-0", "2026-01-01T00:00:10Z");
        assert!(is_legacy_fresh(&young, None, at(0), now));
        assert!(!is_legacy_fresh(&young, None, at(16), now), "its clock runs ahead, and it no longer renews");
        let old = lock("old-0", "2026-01-01T00:00:00Z");
        assert!(!is_legacy_fresh(&old, None, at(0), now));
        assert!(is_legacy_fresh(&old, Some(at(4)), at(4), now), "its clock is behind, and it renews");
        assert!(!is_legacy_fresh(&lock("", "2026-01-01T00:00:19Z"), None, at(0), now));
        assert!(!is_legacy_fresh("nonsense", Some(at(0)), at(0), now));
    }
}
