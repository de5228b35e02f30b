//! One pass over an EtcdCluster: observe, validate, plan, status, apply. Generic over ports; what every lane runs.
//!
//! A pass looks twice before it acts: first at the cache, which costs nothing and may be old. Only if that look finds
//! something to do or to say are the objects read anew, through a quorum, and planned again; steps are taken from the
//! second plan alone, and status is written over what was just read. A converged fleet thus neither writes nor reads
//! anything but etcd's own status.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api::{EtcdCluster, EtcdClusterStatus, labels};
use crate::apply::{Applier, ApplyError, event};
use crate::cache::Cache;
use crate::model::{Desired, Observed};
use crate::observe::{self, View};
use crate::plan::{Plan, Step, Unsafe, Waiting, plan};
use crate::ports::{EtcdTls, FailureReason, Kind, KubernetesError, ObjectKey, Ports, Typed};
use crate::recorder::{self, About, News};
use crate::status::{self, RecordError};
use crate::validate::{Settings, validate};

/// What all passes of a process share.
#[derive(Clone)]
pub struct Context {
    /// The ports, behind the fence.
    pub ports: Ports,
    /// What the watches told.
    pub cache: Arc<Mutex<Cache>>,
    /// Settings of the process.
    pub settings: Settings,
    /// Bytes of each part of an upload.
    pub part_bytes: usize,
    /// Whether this process is for the objects whose scope annotation says `clusterwide`, or for the others.
    pub clusterwide: bool,
    /// Whether a lock of the archived operator is fresh.
    pub legacy_alive: Option<String>,
    /// Which of each EtcdCluster's steps the API server refused when they were last tried.
    pub refusals: Refusals,
}

/// A step that the API server refused, and will refuse again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    step: String,
    why: String,
    /// How often in a row.
    times: u32,
}

/// By EtcdCluster. In memory only: the next try finds them again.
pub type Refusals = Arc<Mutex<BTreeMap<ObjectKey, Vec<Refusal>>>>;

/// Longest refusal that is repeated in status.
const REFUSAL_CHARACTERS_MAX: usize = 300;

impl Refusal {
    /// None for an error that may be another one at the next try.
    fn of(step: &Step, error: &ApplyError) -> Option<Self> {
        use KubernetesError::{AlreadyExists, Forbidden, Invalid};
        let ApplyError::Kubernetes { source, .. } = error else { return None };
        let said = |message: &str| message.trim().chars().take(REFUSAL_CHARACTERS_MAX).collect::<String>();
        let why = match source {
            Invalid { message } | Forbidden { message } => said(message),
            // It was looked for a moment ago, by its label.
            AlreadyExists { message } => {
                format!("{}, and does not carry the label `{}` of this cluster", said(message), labels::LABEL_CLUSTER)
            }
            _ => return None,
        };
        Some(Self { step: event::describe(step), why, times: 0 })
    }
}

impl Context {
    fn refusals(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Vec<Refusal>>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an object is this operator's. The scope may have been changed since it was queued.
    pub fn manages(&self, meta: &ObjectMeta) -> bool {
        labels::is_clusterwide(meta.annotations.as_ref()) == self.clusterwide
    }
}

/// Why a pass did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconcileError {
    /// The objects could not be read.
    #[error("could not read the objects of the EtcdCluster")]
    Read(#[source] KubernetesError),
    /// The status could not be written, so nothing was done.
    #[error("could not write the status")]
    Status(#[source] KubernetesError),
    /// The status holds something that this version does not understand; nothing is done to the cluster.
    #[error("the status cannot be understood")]
    Record(#[from] RecordError),
    /// A step was not carried out.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl ReconcileError {
    /// The closed set that metrics count by.
    pub const fn reason(&self) -> FailureReason {
        match self {
            Self::Read(_) => FailureReason::KubernetesRead,
            Self::Record(_) => FailureReason::Spec,
            Self::Apply(ApplyError::Fenced { .. }) => FailureReason::Conflict,
            Self::Apply(ApplyError::Etcd { source: crate::ports::EtcdError::LeaseLost, .. }) => {
                FailureReason::LeaseLost
            }
            Self::Apply(ApplyError::Etcd { .. }) => FailureReason::Etcd,
            Self::Status(source) | Self::Apply(ApplyError::Kubernetes { source, .. }) => write_failure(source),
        }
    }
}

/// What a write that was not taken counts as.
pub const fn write_failure(error: &KubernetesError) -> FailureReason {
    match error {
        KubernetesError::Conflict { .. } | KubernetesError::AlreadyExists { .. } => FailureReason::Conflict,
        KubernetesError::LeaseLost => FailureReason::LeaseLost,
        _ => FailureReason::KubernetesWrite,
    }
}

/// What one look made of the cluster.
struct Look {
    view: View,
    previous: EtcdClusterStatus,
    desired: Result<Desired, Vec<Unsafe>>,
    observed: Observed,
    tls: Option<EtcdTls>,
    plan: Plan,
}

/// One pass. The answer is when to look again; none when the EtcdCluster is gone.
///
/// # Errors
/// See [`ReconcileError`]: whatever was not done is found again by the next pass.
pub async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Option<SignedDuration>, ReconcileError> {
    let cached = View::cached(&context.cache.lock().unwrap_or_else(PoisonError::into_inner), key);
    let is_ours = |view: &View| context.manages(&view.cluster.metadata);
    let Some(view) = cached.filter(is_ours) else {
        context.refusals().remove(key);
        return Ok(None);
    };
    let glance = look(context, view).await?;
    if glance.plan.steps.is_empty() && new_status(context, &glance).is_none() {
        return Ok(Some(glance.plan.poll_after()));
    }
    let backups = glance.view.backups;
    let read = View::read(context.ports.kubernetes.as_ref(), key, backups).await.map_err(ReconcileError::Read)?;
    let Some(view) = read.filter(is_ours) else { return Ok(None) };
    let look = look(context, view).await?;
    if let Some(status) = write_status(context, &look).await? {
        tell(context, key, &look, &status).await;
    }
    if let Ok(desired) = &look.desired {
        apply(context, desired, &look).await?;
    }
    Ok(Some(look.plan.poll_after()))
}

async fn look(context: &Context, view: View) -> Result<Look, ReconcileError> {
    let previous = view.cluster.status.clone().unwrap_or_default();
    let record = status::record_of(&previous)?;
    let desired = validate(&view.cluster, view.restore.as_deref(), &context.settings);
    let entropy = context.ports.random.bits();
    let legacy = context.legacy_alive.clone();
    Ok(match desired {
        Ok(desired) => {
            let (observed, tls) = observe::observe(&context.ports, &view, &desired, record, entropy, legacy).await;
            let mut plan = plan(&desired, &observed, context.ports.clock.now());
            remember_refusal(context, &desired, &mut plan);
            Look { view, previous, desired: Ok(desired), observed, tls, plan }
        }
        Err(refused) => {
            let observed = observe::observe_objects(&view, record, entropy, legacy);
            let plan = Plan::refusing(observed.record.clone(), refused.clone());
            Look { view, previous, desired: Err(refused), observed, tls: None, plan }
        }
    })
}

/// A plan that repeats a step which was refused says so; of several, the first.
fn remember_refusal(context: &Context, desired: &Desired, plan: &mut Plan) {
    let key = ObjectKey::new(&desired.identity.namespace, &desired.identity.name);
    let mut refusals = context.refusals();
    let Some(known) = refusals.get_mut(&key) else { return };
    let planned: BTreeSet<_> = plan.steps.iter().map(event::describe).collect();
    known.retain(|refusal| planned.contains(&refusal.step));
    match known.first().cloned() {
        Some(Refusal { step, why, .. }) => plan.waiting.insert(0, Waiting::StepRefused { step, why }),
        None => drop(refusals.remove(&key)),
    }
}

/// What status should say, if it does not say so already. It holds what must be remembered, too.
fn new_status(context: &Context, look: &Look) -> Option<EtcdClusterStatus> {
    let now = context.ports.clock.now();
    let status = status::status(&look.previous, &look.desired, &look.observed, &look.plan, now);
    let is_new = look.view.cluster.status.as_ref() != Some(&status);
    (is_new && look.view.cluster.metadata.deletion_timestamp.is_none()).then_some(status)
}

/// Writes what was found and what must be remembered, before anything is done.
async fn write_status(context: &Context, look: &Look) -> Result<Option<EtcdClusterStatus>, ReconcileError> {
    let Some(status) = new_status(context, look) else { return Ok(None) };
    let cluster = EtcdCluster { status: Some(status.clone()), ..look.view.cluster.as_ref().clone() };
    let written = context.ports.kubernetes.replace_status(&cluster.into_object()).await;
    written.map(|_| Some(status)).map_err(ReconcileError::Status)
}

/// Tells what turned in the status that was just written.
async fn tell(context: &Context, key: &ObjectKey, look: &Look, status: &EtcdClusterStatus) {
    let uid = look.view.cluster.metadata.uid.as_deref().unwrap_or_default();
    let about = About { kind: Kind::EtcdCluster, key, uid };
    for news in status::news::news(&look.previous.conditions, &status.conditions) {
        if news.warning {
            tracing::warn!(cluster = %key, reason = news.reason, "{}", news.message);
        }
        recorder::tell(&context.ports, &about, &news).await;
    }
}

/// Carries the steps out. What the API server refuses to create holds up only what relies on it: a member that lacks nothing
/// but its pod must not wait until somebody lifts a quota that a new one ran into.
async fn apply(context: &Context, desired: &Desired, look: &Look) -> Result<(), ReconcileError> {
    let applier = Applier { ports: &context.ports, desired, tls: look.tls.as_ref() };
    let identity = &desired.identity;
    let key = ObjectKey::new(&identity.namespace, &identity.name);
    let about = About { kind: Kind::EtcdCluster, key: &key, uid: &identity.uid };
    let mut refused: Vec<&Step> = Vec::new();
    let (mut failed, mut is_told): (Option<ReconcileError>, bool) = (None, false);
    for step in &look.plan.steps {
        if refused.iter().any(|earlier| look.plan.relies_on(step, earlier)) {
            continue;
        }
        tracing::info!(cluster = %desired.identity.name, namespace = %desired.identity.namespace, step = %event::describe(step));
        if let Err(error) = applier.apply(step).await {
            let Some(refusal) = Refusal::of(step, &error) else { return Err(error.into()) };
            let news = News::warning("StepRefused", format!("{}: {}", refusal.step, refusal.why));
            // (Of several that are new in one pass one is told: the others mostly are for the same reason.)
            if remember(context, &key, refusal, &error) && !is_told {
                recorder::tell(&context.ports, &about, &news).await;
                is_told = true;
            }
            if step.is_disruptive() {
                return Err(error.into());
            }
            refused.push(step);
            failed.get_or_insert(error.into());
            continue;
        }
        if let Some(known) = context.refusals().get_mut(&key) {
            known.retain(|refusal| refusal.step != event::describe(step));
        }
        if let Some(news) = event::news(step) {
            recorder::tell(&context.ports, &about, &news).await;
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Whether it is to be told: it is new, or, where it may be our own create whose answer was late, it is not any more.
fn remember(context: &Context, key: &ObjectKey, refusal: Refusal, error: &ApplyError) -> bool {
    let exists = matches!(error, ApplyError::Kubernetes { source: KubernetesError::AlreadyExists { .. }, .. });
    let mut refusals = context.refusals();
    let known = refusals.entry(key.clone()).or_default();
    let of_step = known.iter_mut().find(|known| known.step == refusal.step);
    let is_same = of_step.as_ref().is_some_and(|known| known.why == refusal.why);
    let times = of_step.as_ref().filter(|_| is_same).map_or(1, |known| known.times.saturating_add(1));
    let refusal = Refusal { times, ..refusal };
    match of_step {
        Some(known) => *known = refusal,
        None => known.push(refusal),
    }
    times == if exists { 2 } else { 1 }
}
