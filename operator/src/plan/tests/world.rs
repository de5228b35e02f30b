//! A tiny model of Kubernetes and etcd, just enough to run the plan pass after pass: pods start when their volume is
//! there, the agent's guard is applied, etcd has a member list, votes, learners and a leader.
//!
//! It checks the safety rules at every step, from its own knowledge of who is alive.

mod acts;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::agent::{Command, EtcdFlags, InitialState, guard};
use crate::api::cluster::{EtcdClusterStatus, PodPolicy};
use crate::api::labels;
use crate::model::quorum::quorum;
use crate::model::{
    Alarm, BackupObserved, CertificateObserved, ClusterId, ClusterIdentity, Desired, EtcdMember, EtcdObserved,
    MemberId, MemberStatus, Membership, Observation, Observed, PodObserved, RaftTerm, Record, Revision, SecretTrouble,
    ServiceObserved, Storage, Tls, Version, VolumeObserved,
};
use crate::plan::{Plan, PodDeletion, Step, VolumeDeletion, Waiting, plan};
use crate::status;

/// What a pod's command lines say.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) flags: EtcdFlags,
    pub(crate) expect_data: bool,
    pub(crate) restored: bool,
    pub(crate) claim: bool,
}

impl Start {
    pub(crate) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref().expect("pods have a spec");
        let command = spec.containers[0].command.as_ref().expect("etcd is started by the agent");
        let Ok(Command::Run(run)) = Command::parse(&command[1..]) else { panic!("not a run command: {command:?}") };
        let inits = spec.init_containers.iter().flatten().filter_map(|init| init.command.as_ref());
        let restored = inits.into_iter().any(|init| matches!(Command::parse(&init[1..]), Ok(Command::Restore(_))));
        let volumes = spec.volumes.iter().flatten();
        Self {
            flags: EtcdFlags::parse(&run.etcd).expect("flags of etcd"),
            expect_data: run.expect_data,
            restored,
            claim: volumes.into_iter().any(|volume| volume.persistent_volume_claim.is_some()),
        }
    }
}

/// A data directory: whose it is.
type Data = Option<(String, MemberId)>;

#[derive(Clone, Debug)]
pub(crate) struct GhostPod {
    pub(crate) seen: PodObserved,
    start: Start,
    /// Used without a claim.
    data: Data,
    /// The agent's marker in the pod.
    marked: bool,
    /// The image that its node has.
    pulled: Option<String>,
    /// Passes until its kubelet starts the container with another image.
    follows_in: usize,
    /// The agent was installed since the node came up.
    has_agent: bool,
    /// The image of the container that restores, on a pod that has one.
    restores_with: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct GhostVolume {
    pub(crate) seen: VolumeObserved,
    data: Data,
}

/// One lineage's etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct GhostEtcd {
    pub(crate) id: u64,
    pub(crate) members: Vec<EtcdMember>,
    pub(crate) leader: Option<MemberId>,
    pub(crate) index: u64,
    pub(crate) revision: i64,
    pub(crate) alarms: BTreeSet<(MemberId, Alarm)>,
    /// Its members know one another by `https`.
    pub(crate) peer_tls: bool,
}

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) desired: Desired,
    pub(crate) record: Record,
    pub(crate) status: EtcdClusterStatus,
    pub(crate) pods: BTreeMap<String, GhostPod>,
    pub(crate) volumes: BTreeMap<String, GhostVolume>,
    pub(crate) services: BTreeMap<String, ServiceObserved>,
    pub(crate) etcd: BTreeMap<String, GhostEtcd>,
    /// Members whose process neither answers nor hears anybody.
    pub(crate) cut: BTreeSet<String>,
    /// Members whose pod cannot be placed.
    pub(crate) unplaceable: BTreeSet<String>,
    /// No new pod can be placed.
    pub(crate) no_room: bool,
    /// Versions whose image cannot be pulled.
    pub(crate) missing_images: BTreeSet<String>,
    /// Passes that kubelets take to follow another image.
    pub(crate) kubelets_follow_in: usize,
    /// Images of our agent that cannot be pulled any more.
    pub(crate) missing_agents: BTreeSet<String>,
    /// Members on a node that can pull nothing.
    pub(crate) no_registry: BTreeSet<String>,
    /// Pods of these templates crash at once, again and again.
    pub(crate) crashing_templates: BTreeSet<String>,
    /// Size of every member's database.
    pub(crate) database_bytes: u64,
    /// Learners do not catch up.
    pub(crate) learners_lag: bool,
    /// How much of the log such a learner lacks.
    pub(crate) lag_percent: u64,
    /// Databases are not migrated to the version that runs.
    pub(crate) storage_lags: bool,
    /// Members whose data is not what it should be.
    pub(crate) rotten: BTreeSet<String>,
    /// What is in the Secrets.
    pub(crate) certificates: Vec<CertificateObserved>,
    /// EtcdBackups of the cluster.
    pub(crate) backups: Vec<BackupObserved>,
    /// The API server takes no volume claim more.
    pub(crate) no_new_volumes: bool,
    /// It takes so many pods.
    pub(crate) room_for: Option<usize>,
    /// The API server takes no pods of these lineages.
    pub(crate) refused_lineages: BTreeSet<String>,
    /// The operator reaches no member.
    pub(crate) operator_cut: bool,
    /// It does not reach these, and everybody else does.
    pub(crate) unheard: BTreeSet<String>,
    pub(crate) legacy_alive: Option<String>,
    pub(crate) secrets_missing: BTreeMap<String, SecretTrouble>,
    /// Secrets that are not there, whoever names them.
    pub(crate) absent_secrets: BTreeSet<String>,
    pub(crate) now: Timestamp,
    serial: u64,
    pub(crate) transcript: String,
    passes: usize,
    said: Vec<String>,
}

pub(crate) fn desired(size: usize, volumes: bool, version: &str) -> Desired {
    Desired {
        identity: ClusterIdentity { namespace: "ns".into(), name: "c".into(), uid: "u".into() },
        generation: 1,
        size,
        paused: false,
        deleting: false,
        repository: "etcd".into(),
        version: version.parse().expect("a version"),
        pod: PodPolicy::default(),
        storage: if volumes { Storage::Volume(Box::default()) } else { Storage::EmptyDir },
        tls: Tls::default(),
        cluster_domain: String::new(),
        agent_image: "operator:1".into(),
        replace_after: SignedDuration::from_mins(5),
        restore: None,
        warnings: Vec::new(),
    }
}

/// `c-` and ten letters or digits, as every member of EtcdCluster `c` is called.
fn is_member_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() == 12 && name.bytes().skip(2).all(letter)
}

/// Members named `m1`, `m2` ... in the order of their first appearance.
pub(crate) fn with_short_names(text: &str) -> String {
    let mut short_text = text.to_owned();
    let mut seen = BTreeMap::new();
    for (at, _) in text.match_indices("c-") {
        let name = &text[at..(at + 12).min(text.len())];
        if is_member_name(name) && !seen.contains_key(name) {
            seen.insert(name.to_owned(), format!("m{}", seen.len() + 1));
        }
    }
    for (name, short) in seen {
        short_text = short_text.replace(&name, &short);
    }
    short_text
}

impl World {
    pub(crate) fn new(size: usize, volumes: bool, version: &str) -> Self {
        Self {
            desired: desired(size, volumes, version),
            record: Record::default(),
            status: EtcdClusterStatus::default(),
            pods: BTreeMap::new(),
            volumes: BTreeMap::new(),
            services: BTreeMap::new(),
            etcd: BTreeMap::new(),
            cut: BTreeSet::new(),
            unplaceable: BTreeSet::new(),
            no_room: false,
            missing_images: BTreeSet::new(),
            kubelets_follow_in: 0,
            missing_agents: BTreeSet::new(),
            no_registry: BTreeSet::new(),
            crashing_templates: BTreeSet::new(),
            database_bytes: 1,
            learners_lag: false,
            lag_percent: 100,
            storage_lags: false,
            rotten: BTreeSet::new(),
            certificates: Vec::new(),
            backups: Vec::new(),
            no_new_volumes: false,
            room_for: None,
            refused_lineages: BTreeSet::new(),
            operator_cut: false,
            unheard: BTreeSet::new(),
            legacy_alive: None,
            secrets_missing: BTreeMap::new(),
            absent_secrets: BTreeSet::new(),
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            serial: 0,
            transcript: String::new(),
            passes: 0,
            said: Vec::new(),
        }
    }

    pub(crate) fn token(&self) -> String {
        self.record.lineage.as_ref().expect("there is a lineage").token.clone()
    }

    pub(crate) fn serving(&self) -> &GhostEtcd {
        &self.etcd[&self.token()]
    }

    /// Names of the members that serve, in the order of their names.
    pub(crate) fn members(&self) -> Vec<String> {
        let mut names: Vec<_> = self.serving().members.iter().map(super::super::members::name_of).collect();
        names.sort();
        names
    }

    pub(crate) fn leader(&self) -> String {
        let etcd = self.serving();
        let leader = etcd.members.iter().find(|member| Some(member.id) == etcd.leader).expect("there is a leader");
        leader.name.clone()
    }

    pub(crate) fn follower(&self) -> String {
        let leader = self.leader();
        self.members().into_iter().find(|name| *name != leader).expect("there is a follower")
    }

    /// A member that neither leads nor is one of these.
    pub(crate) fn other_than(&self, names: &[&String]) -> String {
        let leader = self.leader();
        let mut others = self.members().into_iter().filter(|name| *name != leader && !names.contains(&name));
        others.next().expect("there is another one")
    }

    pub(crate) fn observe(&self) -> Observed {
        let etcd = match &self.record.lineage {
            Some(lineage) => self.observe_etcd(&lineage.token),
            None => EtcdObserved::nobody_to_ask("the cluster was not formed yet"),
        };
        Observed {
            entropy: self.serial,
            generation: Some(self.desired.generation),
            record: self.record.clone(),
            pods: self.pods.iter().map(|(name, pod)| (name.clone(), pod.seen.clone())).collect(),
            volumes: self.volumes.iter().map(|(name, volume)| (name.clone(), volume.seen.clone())).collect(),
            peer_service: self.services.get("c").cloned(),
            client_service: self.services.get("c-client").cloned(),
            secrets_missing: self.missing(&self.desired.for_formed(self.record.lineage.as_ref())),
            spec_secrets_missing: self.missing(&self.desired),
            certificates: self.certificates.clone(),
            backups: self.backups.clone(),
            etcd,
            etcd_restoring: self.record.restore.as_ref().map(|restore| self.observe_etcd(&restore.lineage.token)),
            legacy_alive: self.legacy_alive.clone(),
            not_ready_since: crate::observe::not_ready_since(&self.status),
        }
    }

    fn missing(&self, desired: &Desired) -> BTreeMap<String, SecretTrouble> {
        let client = desired.tls.client.iter().flat_map(|client| [&client.server_secret, &client.operator_secret]);
        let absent = desired.tls.peer_secret.iter().chain(client).filter(|name| self.absent_secrets.contains(*name));
        let absent = absent.map(|name| (name.clone(), SecretTrouble::Absent));
        self.secrets_missing.clone().into_iter().chain(absent).collect()
    }

    fn alive(&self, token: &str, name: &str) -> Option<MemberId> {
        let pod = self.pods.get(name)?;
        let (lineage, id) = self.data_of(pod).clone()?;
        // Peers are dialled by the URLs in the list.
        let heard = self.etcd.get(token).is_none_or(|etcd| etcd.peer_tls == pod.seen.tls.peer_secret.is_some());
        (pod.seen.running && heard && !self.cut.contains(name) && lineage == token).then_some(id)
    }

    fn data_of<'a>(&'a self, pod: &'a GhostPod) -> &'a Data {
        static NONE: Data = None;
        if pod.start.claim { self.volumes.get(&pod.seen.name).map_or(&NONE, |volume| &volume.data) } else { &pod.data }
    }

    /// What a member from 3.6 on says of its database.
    fn storage_version(&self, pod: &GhostPod) -> Option<Version> {
        let (_, version) = pod.seen.image.rsplit_once(":v").expect("image with a tag");
        let version: Version = version.parse().expect("a version");
        let behind = u32::from(self.storage_lags);
        version.has_storage_version().then(|| Version::new(version.major, version.minor - behind, 0))
    }

    fn observe_etcd(&self, token: &str) -> EtcdObserved {
        let nobody = EtcdObserved::nobody_to_ask("no member answers");
        let at = self.now;
        let known = |value| Observation::Known { value, at };
        let pods = self.pods.values().filter(|pod| pod.seen.lineage.as_deref() == Some(token) && pod.seen.ip.is_some());
        let Some(etcd) = self.etcd.get(token) else { return nobody };
        let mut statuses = BTreeMap::new();
        for pod in pods {
            let name = &pod.seen.name;
            let answer = self.alive(token, name).filter(|_| !self.operator_cut && !self.unheard.contains(name));
            let status = answer.map_or_else(
                || Observation::Unknown { why: "no answer".into() },
                |id| {
                    let learner = etcd.members.iter().any(|member| member.id == id && member.learner);
                    let lag = if learner && self.learners_lag { etcd.index * self.lag_percent / 100 } else { 0 };
                    known(MemberStatus {
                        cluster_id: ClusterId(etcd.id),
                        member_id: id,
                        // A server does not know what it was built for.
                        version: pod.seen.image_version().trim_end_matches("-arm64").to_owned(),
                        storage_version: self.storage_version(pod),
                        leader: etcd.leader,
                        term: RaftTerm(1),
                        raft_index: etcd.index - lag,
                        raft_applied_index: etcd.index - lag,
                        revision: Revision(etcd.revision),
                        db_size: self.database_bytes,
                        learner,
                        errors: Vec::new(),
                    })
                },
            );
            statuses.insert(name.clone(), status);
        }
        if !statuses.values().any(|status| status.known().is_some()) {
            return EtcdObserved { statuses, ..nobody };
        }
        let membership = Membership { cluster_id: ClusterId(etcd.id), members: etcd.members.clone() };
        let at = self.now;
        let membership_local = Observation::Known { value: membership.clone(), at };
        let lost = || "no member follows a leader".to_owned();
        if etcd.leader.is_none() {
            return EtcdObserved {
                statuses,
                membership_local,
                membership: Observation::Unknown { why: lost() },
                quorum_read: Observation::Unknown { why: lost() },
                alarms: Observation::Unknown { why: lost() },
                hashes: BTreeMap::new(),
            };
        }
        let is_asked = etcd.alarms.iter().any(|(_, alarm)| *alarm == Alarm::Corrupt);
        let answering = statuses.iter().filter(|(_, status)| is_asked && status.known().is_some());
        let hashes = answering.map(|(name, _)| {
            let value = 7 + u32::from(self.rotten.contains(name));
            (name.clone(), Observation::Known { value, at })
        });
        let hashes = hashes.collect();
        EtcdObserved {
            statuses,
            membership_local,
            membership: Observation::Known { value: membership, at },
            quorum_read: Observation::Known { value: Revision(etcd.revision), at },
            alarms: Observation::Known { value: etcd.alarms.iter().copied().collect(), at },
            hashes,
        }
    }

    /// One pass: plan, remember, apply `most` steps, let the world go on. The plan.
    pub(crate) fn pass_of(&mut self, most: usize) -> Plan {
        self.passes += 1;
        self.now = self.now.checked_add(SignedDuration::from_secs(2)).expect("in range");
        let observed = self.observe();
        let mut planned = plan(&self.desired, &observed, self.now);
        assert_eq!(planned, plan(&self.desired, &observed, self.now), "a plan is a function of its arguments");
        self.check_whole(&planned);
        if let Some(step) = planned.steps.iter().find(|step| self.is_refused(step)) {
            let why = "exceeded quota".to_owned();
            planned.waiting.insert(0, Waiting::StepRefused { step: super::describe(step), why });
        }
        let status = status::status(&self.status, &Ok(self.desired.clone()), &observed, &planned, self.now);
        self.record = status::record_of(&status).expect("what we write we can read");
        assert_eq!(self.record, planned.record, "status remembers the record");
        self.status = status;
        self.note(&planned);
        let mut refused: Vec<&Step> = Vec::new();
        for step in planned.steps.iter().take(most) {
            if refused.iter().any(|earlier| planned.relies_on(step, earlier)) {
                continue;
            }
            if self.is_refused(step) {
                refused.push(step);
                continue;
            }
            self.check_step(step);
            self.apply(step);
        }
        self.go_on();
        planned
    }

    fn is_refused(&self, step: &Step) -> bool {
        if matches!(step, Step::CreateVolume(_)) {
            return self.no_new_volumes;
        }
        let Step::CreatePod(pod) = step else { return false };
        if self.room_for.is_some_and(|most| self.pods.len() >= most) {
            return true;
        }
        let lineage = pod.metadata.labels.as_ref().and_then(|labels| labels.get(labels::LABEL_LINEAGE));
        lineage.is_some_and(|lineage| self.refused_lineages.contains(lineage))
    }

    fn note(&mut self, planned: &Plan) {
        let mut words: Vec<_> = planned.steps.iter().map(super::describe).collect();
        words.extend(planned.waiting.iter().map(|waiting| format!("[{waiting}]")));
        words.extend(planned.refused.iter().map(|refused| format!("[! {refused}]")));
        if words.is_empty() || words == self.said {
            return;
        }
        writeln!(self.transcript, "{:2} {}", self.passes, words.join("\n   ")).expect("memory");
        self.said = words;
    }

    /// A line of the test's own in the transcript.
    pub(crate) fn say(&mut self, what: &str) {
        writeln!(self.transcript, "-- {what}").expect("memory");
    }

    /// Runs until a pass has nothing to do, waits for nothing and refuses nothing.
    pub(crate) fn run(&mut self) {
        for _ in 0..400 {
            let planned = self.pass_of(usize::MAX);
            if planned.steps.is_empty() && planned.waiting.is_empty() && planned.refused.is_empty() {
                return;
            }
        }
        panic!("not converged:\n{}", self.readable());
    }

    pub(crate) fn run_passes(&mut self, passes: usize) {
        for _ in 0..passes {
            self.pass_of(usize::MAX);
        }
    }

    /// The transcript with members named in the order of their first appearance.
    pub(crate) fn readable(&self) -> String {
        with_short_names(&self.transcript)
    }

    fn check_whole(&self, planned: &Plan) {
        let whole = |step: &Step| {
            matches!(
                step,
                Step::DeletePod {
                    why: PodDeletion::FormationAbandoned | PodDeletion::Superseded | PodDeletion::RestoreCancelled,
                    ..
                } | Step::DeleteVolume {
                    why: VolumeDeletion::FormationAbandoned
                        | VolumeDeletion::Superseded
                        | VolumeDeletion::RestoreCancelled,
                    ..
                }
            )
        };
        let disruptive = planned.steps.iter().filter(|step| step.is_disruptive() && !whole(step)).count();
        assert!(disruptive <= 1, "at most one disruptive step a pass: {:?}", planned.steps);
        let silent = planned.steps.is_empty() && planned.waiting.is_empty() && planned.refused.is_empty();
        let formed = planned.record.lineage.as_ref().is_some_and(|lineage| lineage.formed);
        assert!(!silent || formed, "a pass that does nothing says why");
    }

    /// The safety rules, judged from what is really alive.
    fn check_step(&self, step: &Step) {
        let Some(lineage) = self.record.lineage.as_ref().filter(|lineage| lineage.formed) else { return };
        let etcd = &self.etcd[&lineage.token];
        let voters: Vec<_> = etcd.members.iter().filter(|member| !member.learner).collect();
        let is_alive = |id: MemberId| self.pods.keys().any(|name| self.alive(&lineage.token, name) == Some(id));
        let alive = voters.iter().filter(|member| is_alive(member.id)).count();
        let id_of = |name: &str| etcd.members.iter().find(|m| super::super::members::name_of(m) == *name).map(|m| m.id);
        match step {
            Step::RemoveMember { id, .. } => {
                // (Below etcd 3.3 it cannot hand on, and may be the only one that must go.)
                let can_hand_on = self.desired.version.supports_move_leader();
                let leads = etcd.leader == Some(*id) && is_alive(*id);
                assert!(!leads || !can_hand_on, "rule: the leader is never removed");
                let voter = voters.iter().any(|member| member.id == *id);
                let left = alive - usize::from(voter && is_alive(*id));
                let of = voters.len() - usize::from(voter);
                assert!(left >= quorum(of), "rule S1: {left} of {of} alive after {}", super::describe(step));
            }
            Step::PatchImage { name, .. } | Step::DeletePod { name, why: PodDeletion::Outdated, .. } => {
                let Some(id) = id_of(name) else { return };
                let voter = voters.iter().any(|member| member.id == id);
                if voter && is_alive(id) && voters.len() > 2 {
                    assert!(alive > quorum(voters.len()), "rule S1: {}", super::describe(step));
                }
            }
            Step::DeletePod { name, why: PodDeletion::MemberRemoved | PodDeletion::Terminal, .. } => {
                assert!(id_of(name).is_none_or(|id| !is_alive(id)), "rule: {} serves", name);
            }
            Step::DeleteVolume { name, why: VolumeDeletion::MemberRemoved, .. } => {
                assert!(id_of(name).is_none(), "rule S5: {name} is still a member");
            }
            Step::AddMember { .. } => {
                assert!(etcd.members.len() <= self.desired.size, "rule S2: voters + learners <= wanted + 1");
                assert!(etcd.members.iter().all(|m| !m.learner && m.has_started()), "rule S2: one change at a time");
            }
            Step::CreatePod(pod) => {
                let start = Start::of(pod);
                let restoring = self.record.restore.as_ref().map(|restore| restore.lineage.token.clone());
                assert!(
                    start.flags.initial_state == InitialState::Existing
                        || restoring.as_ref() == Some(&start.flags.token),
                    "rule S3: once formed, nothing starts with state=new"
                );
            }
            _ => {}
        }
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::CreateService(service) | Step::UpdateService(service) => self.put_service(service),
            Step::CreateVolume(volume) => {
                let name = volume.metadata.name.clone().expect("named");
                let lineage = volume.metadata.labels.as_ref().and_then(|l| l.get(labels::LABEL_LINEAGE)).cloned();
                let uid = format!("v{}", self.serial());
                let seen = VolumeObserved {
                    name: name.clone(),
                    uid,
                    resource_version: "1".into(),
                    lineage,
                    ours: true,
                    deleting: false,
                    lost: false,
                    created_at: self.now,
                };
                assert!(self.volumes.insert(name, GhostVolume { seen, data: None }).is_none(), "volume made twice");
            }
            Step::CreatePod(pod) => self.create_pod(pod),
            Step::DeletePod { name, uid, .. } => {
                if self.pods.get(name).is_some_and(|pod| pod.seen.uid == *uid) {
                    self.pods.remove(name);
                }
            }
            Step::DeleteVolume { name, uid, .. } => {
                if self.volumes.get(name).is_some_and(|volume| volume.seen.uid == *uid) {
                    self.volumes.remove(name);
                }
            }
            Step::PatchImage { name, image, container, .. } => {
                let pod = self.pods.get_mut(name).expect("patched pods exist");
                pod.seen.image.clone_from(image);
                pod.seen.replaced_container.clone_from(container);
                pod.follows_in = self.kubelets_follow_in;
                pod.seen.running = pod.follows_in > 0;
            }
            Step::PatchAgent { name, image, .. } => {
                let pod = self.pods.get_mut(name).expect("patched pods exist");
                pod.seen.agent_image = Some(image.clone());
            }
            Step::LabelVoter { name, .. } => {
                self.pods.get_mut(name).expect("labelled pods exist").seen.labelled_voter = true;
            }
            Step::AddMember { peer_url, learner, fence, .. } => {
                let id = MemberId(self.serial());
                let etcd = self.fenced(fence);
                etcd.members.push(EtcdMember {
                    id,
                    name: String::new(),
                    peer_urls: vec![peer_url.clone()],
                    client_urls: Vec::new(),
                    learner: *learner,
                });
                etcd.members.sort_by_key(|member| member.id);
            }
            Step::PromoteMember { id, fence, .. } => {
                let etcd = self.fenced(fence);
                etcd.members.iter_mut().find(|member| member.id == *id).expect("a member").learner = false;
            }
            Step::RemoveMember { id, fence, .. } => {
                let etcd = self.fenced(fence);
                etcd.members.retain(|member| member.id != *id);
            }
            Step::AdvanceLog { entries, .. } => {
                let token = self.token();
                self.etcd.get_mut(&token).expect("there").index += entries;
            }
            Step::Disarm { member, alarm, .. } => {
                let token = self.token();
                let raised = self.etcd.get_mut(&token).expect("there").alarms.remove(&(*member, *alarm));
                assert!(raised, "what is disarmed is raised");
            }
            Step::MoveLeader { to, .. } => {
                let token = self.token();
                self.etcd.get_mut(&token).expect("there").leader = Some(*to);
            }
        }
    }

    fn fenced(&mut self, fence: &[(MemberId, bool)]) -> &mut GhostEtcd {
        let token = self.token();
        let etcd = self.etcd.get_mut(&token).expect("membership calls go to a cluster");
        let now: Vec<_> = etcd.members.iter().map(|member| (member.id, member.learner)).collect();
        assert_eq!(fence, now, "planned against the list as it is");
        assert!(etcd.leader.is_some(), "membership calls need a quorum");
        etcd
    }

    fn put_service(&mut self, service: &Service) {
        let name = service.metadata.name.clone().expect("named");
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        let resource_version = self.serial().to_string();
        let seen = ServiceObserved {
            name: name.clone(),
            uid: format!("s-{name}"),
            resource_version,
            ours: true,
            selector,
            as_built: true,
        };
        self.services.insert(name, seen);
    }

    fn create_pod(&mut self, pod: &Pod) {
        let name = pod.metadata.name.clone().expect("named");
        let label = |key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let uid = format!("p{}", self.serial());
        let seen = PodObserved {
            name: name.clone(),
            uid,
            resource_version: "1".into(),
            lineage: label(labels::LABEL_LINEAGE),
            labelled_voter: label(labels::LABEL_ROLE).as_deref() == Some("voter"),
            ours: true,
            deleting: false,
            deleted_at: None,
            terminal: false,
            created_at: self.now,
            node: None,
            ip: None,
            ready: false,
            ready_by_quorum: crate::observe::pod::observe_pod(pod, "").ready_by_quorum,
            running: false,
            first_started_at: None,
            image: annotations[labels::ANNOTATION_IMAGE].clone(),
            agent_image: annotations.get(labels::ANNOTATION_AGENT_IMAGE).cloned(),
            container: None,
            replaced_container: None,
            template_hash: annotations.get(labels::ANNOTATION_POD_TEMPLATE_HASH).cloned(),
            data_lost: false,
            snapshot_changed: false,
            never_ran: true,
            on_claim: Start::of(pod).claim,
            tls: crate::observe::pod::tls_of(pod),
            why_not_running: None,
        };
        let inits = pod.spec.as_ref().and_then(|spec| spec.init_containers.clone()).unwrap_or_default();
        let restores_with = inits.into_iter().find(|init| init.name == "restore").and_then(|init| init.image);
        let pod = GhostPod {
            seen,
            start: Start::of(pod),
            data: None,
            marked: false,
            pulled: None,
            follows_in: 0,
            has_agent: false,
            restores_with,
        };
        assert!(self.pods.insert(name, pod).is_none(), "pod made twice");
    }

    /// Kubelets start what can start, etcd elects.
    pub(crate) fn go_on(&mut self) {
        let names: Vec<_> = self.pods.keys().cloned().collect();
        for name in &names {
            self.start_pod(name);
        }
        for (token, etcd) in &self.etcd.clone() {
            let alive: BTreeSet<_> = names.iter().filter_map(|name| self.alive(token, name)).collect();
            let voters: Vec<_> = etcd.members.iter().filter(|member| !member.learner).map(|member| member.id).collect();
            let up: Vec<_> = voters.iter().filter(|id| alive.contains(id)).copied().collect();
            let etcd = self.etcd.get_mut(token).expect("there");
            if !voters.is_empty() && up.len() >= quorum(voters.len()) {
                etcd.leader = etcd.leader.filter(|leader| up.contains(leader)).or(up.first().copied());
                etcd.index += 10;
                etcd.revision += 1;
                for member in &mut etcd.members {
                    if alive.contains(&member.id) && member.client_urls.is_empty() {
                        member.client_urls = member.peer_urls.iter().map(|url| url.replace("2380", "2379")).collect();
                    }
                }
            } else {
                etcd.leader = None;
            }
        }
    }

    fn start_pod(&mut self, name: &str) {
        let mut pod = self.pods[name].clone();
        let version = pod.seen.image.rsplit_once(":v").expect("tagged").1.to_owned();
        pod.seen.why_not_running = None;
        let volume_there = !pod.start.claim || self.volumes.contains_key(name);
        if pod.seen.terminal || pod.seen.data_lost {
            return;
        }
        if pod.seen.node.is_none() {
            if !volume_there || self.no_room || self.unplaceable.contains(name) {
                pod.seen.why_not_running = Some("unschedulable".into());
                self.pods.insert(name.to_owned(), pod);
                return;
            }
            pod.seen.node = Some("n".into());
            pod.seen.ip = Some("10.0.0.1".into());
        }
        pod.seen.running = false;
        pod.seen.ready = false;
        let agent_is_missing = pod.seen.agent_image.as_ref().is_some_and(|image| self.missing_agents.contains(image));
        let must_pull = pod.pulled.as_ref() != Some(&version);
        if agent_is_missing && !pod.has_agent {
            pod.seen.why_not_running = Some("agent: ErrImagePull".into());
        } else if pod.restores_with.as_ref().is_some_and(|image| !pod.has_agent && self.is_missing(image)) {
            pod.seen.why_not_running = Some("restore: ErrImagePull".into());
        } else if must_pull && (self.missing_images.contains(&version) || self.no_registry.contains(name)) {
            pod.seen.why_not_running = Some("etcd: ErrImagePull".into());
        } else if pod.seen.template_hash.as_ref().is_some_and(|hash| self.crashing_templates.contains(hash)) {
            pod.seen.never_ran = false;
            pod.seen.why_not_running = Some("etcd: CrashLoopBackOff: exit code 1".into());
        } else if let Err(why) = self.boot(&mut pod) {
            pod.seen.never_ran = false;
            pod.seen.why_not_running = Some(why);
        } else {
            if pod.seen.never_ran {
                pod.seen.first_started_at = Some(self.now);
            }
            if pod.follows_in > 0 {
                pod.follows_in -= 1;
            } else {
                pod.seen.container = Some(format!("{}: {}", pod.seen.uid, pod.seen.image));
            }
            pod.pulled = Some(version);
            pod.has_agent = true;
            pod.seen.never_ran = false;
            pod.seen.running = true;
            pod.seen.ready = !self.cut.contains(name);
        }
        self.pods.insert(name.to_owned(), pod);
    }

    fn is_missing(&self, image: &str) -> bool {
        image.rsplit_once(":v").is_some_and(|(_, version)| self.missing_images.contains(version))
    }

    /// What the init containers, the agent and etcd do at a start.
    fn boot(&mut self, pod: &mut GhostPod) -> Result<(), String> {
        let name = pod.seen.name.clone();
        let token = pod.start.flags.token.clone();
        let mut data = self.data_of(pod).clone();
        if data.is_none() && pod.start.restored {
            data = Some((token.clone(), self.found(&token, &pod.start.flags, 100)[&name]));
        }
        if guard(pod.start.expect_data, pod.marked, data.is_some()).is_err() {
            pod.seen.data_lost = true;
            return Err("etcd: the data is lost".into());
        }
        pod.marked = true;
        if data.is_none() {
            let id = match pod.start.flags.initial_state {
                InitialState::New => self.found(&token, &pod.start.flags, 1)[&name],
                InitialState::Existing => {
                    let etcd = self.etcd.get_mut(&token).ok_or("no such cluster")?;
                    let urls: BTreeSet<_> = etcd.members.iter().map(|member| member.peer_urls[0].clone()).collect();
                    let listed = pod.start.flags.initial_cluster.iter().map(|(_, url)| url.clone()).collect();
                    if urls != listed {
                        return Err("etcd: member count is unequal".into());
                    }
                    let own = pod.start.flags.initial_cluster.iter().find(|(of, _)| *of == name);
                    let url = own.expect("it is in its own list").1.clone();
                    let member = etcd.members.iter_mut().find(|member| member.peer_urls[0] == url);
                    let member = member.ok_or("etcd: not in the member list")?;
                    member.name.clone_from(&name);
                    member.id
                }
            };
            data = Some((token.clone(), id));
        }
        let (_, id) = data.clone().expect("there by now");
        if pod.start.claim {
            self.volumes.get_mut(&name).ok_or("the volume is gone")?.data = data;
        } else {
            pod.data = data;
        }
        let listed = self.etcd.get(&token).is_some_and(|etcd| etcd.members.iter().any(|member| member.id == id));
        if listed { Ok(()) } else { Err("etcd: the member was removed".into()) }
    }

    /// A static formation: every seed computes the same list.
    fn found(&mut self, token: &str, flags: &EtcdFlags, revision: i64) -> BTreeMap<String, MemberId> {
        if !self.etcd.contains_key(token) {
            let id = self.serial() + 0xc000;
            let members = flags.initial_cluster.iter().map(|(name, url)| EtcdMember {
                id: MemberId(self.serial()),
                name: name.clone(),
                peer_urls: vec![url.clone()],
                client_urls: Vec::new(),
                learner: false,
            });
            let mut members: Vec<_> = members.collect();
            members.sort_by_key(|member| member.id);
            // Before the first election the log holds the list of the seeds.
            let index = members.len() as u64;
            let peer_tls = flags.initial_cluster.iter().any(|(_, url)| url.starts_with("https://"));
            let etcd = GhostEtcd { id, members, index, revision, peer_tls, ..GhostEtcd::default() };
            self.etcd.insert(token.to_owned(), etcd);
        }
        let members = &self.etcd[token].members;
        members.iter().map(|member| (member.name.clone(), member.id)).collect()
    }
}
