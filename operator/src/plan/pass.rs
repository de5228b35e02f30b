//! One pass while it is being planned: what the stages read, and the lists that they fill.

use jiff::Timestamp;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Fence, Plan, Step, Unsafe, Waiting};
use crate::build;
use crate::model::{Desired, Observed, PodObserved, Record, VolumeObserved};

/// The working state of one pass.
pub(super) struct Pass<'a> {
    /// What is wanted; owned once a stage had to narrow it (a refused version).
    pub(super) desired: Cow<'a, Desired>,
    /// What the spec wants, narrowed by nothing: for members of a lineage that is yet to form.
    pub(super) spec: &'a Desired,
    /// What was seen.
    pub(super) observed: &'a Observed,
    /// The moment of the pass.
    pub(super) now: Timestamp,
    /// What status will remember.
    pub(super) record: Record,
    /// Steps so far.
    pub(super) steps: Vec<Step>,
    /// The wanted version is refused: pods keep the one that runs.
    pub(super) version_refused: bool,
    waiting: Vec<Waiting>,
    refused: Vec<Unsafe>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(desired: &'a Desired, observed: &'a Observed, now: Timestamp) -> Self {
        Self {
            desired: Cow::Borrowed(desired),
            spec: desired,
            observed,
            // Status keeps whole seconds: what is recorded reads back as it was planned.
            now: Timestamp::from_second(now.as_second()).expect("the whole second of a timestamp is one"),
            // A pass that does not come to look at the members does not count as time in which they were silent.
            record: Record { unreachable_since: BTreeMap::new(), ..observed.record.clone() },
            steps: Vec::new(),
            version_refused: false,
            waiting: Vec::new(),
            refused: Vec::new(),
        }
    }

    pub(super) fn into_plan(self) -> Plan {
        Plan { record: self.record, steps: self.steps, waiting: self.waiting, refused: self.refused }
    }

    /// Says what is waited for, once.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        if !self.waiting.contains(&waiting) {
            self.waiting.push(waiting);
        }
    }

    /// Entries until the raft snapshots that a version step waits for.
    pub(super) fn raft_snapshot_in(&self) -> Option<u64> {
        self.waiting.iter().find_map(|waiting| match waiting {
            Waiting::RaftSnapshot { entries, .. } => Some(*entries),
            _ => None,
        })
    }

    /// Says what is refused, once.
    pub(super) fn refuse(&mut self, refused: Unsafe) {
        if !self.refused.contains(&refused) {
            self.refused.push(refused);
        }
    }

    /// Ends the stages with a reason to wait, if there is one.
    pub(super) fn stop_if(&mut self, waiting: Option<Waiting>) -> ControlFlow<()> {
        match waiting {
            Some(waiting) => {
                self.wait(waiting);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }

    /// Plans a step after which nothing else is planned in this pass.
    pub(super) fn last_step(&mut self, step: Step) -> ControlFlow<()> {
        self.steps.push(step);
        ControlFlow::Break(())
    }

    /// Plans a step if no rule speaks against it; either way it is the last of this pass.
    pub(super) fn last_step_unless(&mut self, unsafe_: Option<Unsafe>, step: Step) -> ControlFlow<()> {
        match unsafe_ {
            Some(unsafe_) => self.refuse(unsafe_),
            None => self.steps.push(step),
        }
        ControlFlow::Break(())
    }

    /// The pod of a name, whoever it belongs to.
    pub(super) fn pod(&self, name: &str) -> Option<&'a PodObserved> {
        self.observed.pods.get(name)
    }

    /// The volume of a name, whoever it belongs to.
    pub(super) fn volume(&self, name: &str) -> Option<&'a VolumeObserved> {
        self.observed.volumes.get(name)
    }

    /// Client URL of a member.
    pub(super) fn client_url(&self, name: &str) -> String {
        let runs_tls = self.pod(name).map_or(self.desired.tls.client.is_some(), |pod| pod.tls.client.is_some());
        build::client_url_with(&self.desired, name, runs_tls)
    }

    /// The fence of a membership call; only ever called with a list that a quorum confirmed.
    pub(super) fn fence(&self) -> Fence {
        self.observed.etcd.membership.known().map(|membership| membership.fence()).unwrap_or_default()
    }
}
