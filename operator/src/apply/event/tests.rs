//! Every step: what it is called, and what users are told of it.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::model::{Alarm, MemberId};

fn named(role: Option<&str>) -> ObjectMeta {
    let label = |role: &str| [(labels::LABEL_ROLE.to_owned(), role.to_owned())].into();
    ObjectMeta { name: Some("c-a".to_owned()), labels: role.map(label), ..ObjectMeta::default() }
}

fn pod(role: &str) -> Step {
    Step::CreatePod(Box::new(Pod { metadata: named(Some(role)), ..Pod::default() }))
}

fn delete_pod(why: PodDeletion) -> Step {
    Step::DeletePod { name: "c-a".to_owned(), uid: "u".to_owned(), resource_version: "1".to_owned(), why }
}

fn delete_volume(why: VolumeDeletion) -> Step {
    Step::DeleteVolume { name: "c-a".to_owned(), uid: "u".to_owned(), resource_version: "1".to_owned(), why }
}

fn remove(why: MemberRemoval) -> Step {
    Step::RemoveMember { name: "c-a".to_owned(), id: MemberId(0xab), endpoints: Vec::new(), fence: Vec::new(), why }
}

fn add(learner: bool) -> Step {
    let (endpoints, fence) = (Vec::new(), Vec::new());
    Step::AddMember { name: "c-a".to_owned(), peer_url: String::new(), learner, endpoints, fence }
}

/// All kinds of steps, and all reasons for them.
fn steps() -> Vec<Step> {
    let service = || Box::new(Service { metadata: named(None), ..Service::default() });
    let claim = PersistentVolumeClaim { metadata: named(None), ..PersistentVolumeClaim::default() };
    let mut steps = vec![
        Step::CreateService(service()),
        Step::UpdateService(service()),
        Step::CreateVolume(Box::new(claim)),
        pod("voter"),
        pod("learner"),
    ];
    steps.extend(
        [
            PodDeletion::Terminal,
            PodDeletion::MemberRemoved,
            PodDeletion::FormationAbandoned,
            PodDeletion::Outdated,
            PodDeletion::Superseded,
            PodDeletion::RestoreCancelled,
        ]
        .map(delete_pod),
    );
    steps.extend(
        [
            VolumeDeletion::MemberRemoved,
            VolumeDeletion::FormationAbandoned,
            VolumeDeletion::Superseded,
            VolumeDeletion::RestoreCancelled,
        ]
        .map(delete_volume),
    );
    steps.extend([
        Step::PatchImage {
            container: None,
            name: "c-a".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            image: "etcd:v3.6.10".to_owned(),
            from: "3.5.26".to_owned(),
            version: "3.6.10".parse().expect("a version"),
        },
        Step::PatchAgent {
            name: "c-a".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            image: "operator:2".to_owned(),
        },
        Step::LabelVoter { name: "c-a".to_owned(), uid: "u".to_owned(), resource_version: "1".to_owned() },
        add(true),
        add(false),
        Step::PromoteMember { name: "c-a".to_owned(), id: MemberId(0xab), endpoints: Vec::new(), fence: Vec::new() },
    ]);
    steps.extend(
        [
            MemberRemoval::ScaleIn,
            MemberRemoval::DataLost,
            MemberRemoval::Unreachable,
            MemberRemoval::NeverStarted,
            MemberRemoval::NeverCaughtUp,
            MemberRemoval::Outdated,
            MemberRemoval::Corrupt,
        ]
        .map(remove),
    );
    steps.push(Step::AdvanceLog { entries: 7, endpoints: Vec::new() });
    for (alarm, why) in [(Alarm::NoSpace, DisarmReason::Gone), (Alarm::Corrupt, DisarmReason::Cleared)] {
        steps.push(Step::Disarm { member: MemberId(0xab), alarm, why, endpoints: Vec::new() });
    }
    steps.push(Step::MoveLeader {
        from: "c-a".to_owned(),
        endpoint: String::new(),
        to: MemberId(0xcd),
        to_name: "c-b".to_owned(),
    });
    steps
}

const TABLE: &str = "
create Service c-a | -
update Service c-a | -
create PersistentVolumeClaim c-a | -
create pod c-a | PodCreated: Pod c-a created
create pod c-a | PodCreated: Pod c-a created for a learner
delete pod c-a (it ended, and comes back on its volume) | PodDeleted: Pod c-a deleted: it ended, and comes back on its volume
delete pod c-a (its member was removed) | PodDeleted: Pod c-a deleted: its member was removed
delete pod c-a (its attempt to form the cluster was given up) | PodDeleted: Pod c-a deleted: its attempt to form the cluster was given up
delete pod c-a (its template changed) | PodDeleted: Pod c-a deleted: its template changed
delete pod c-a (restored members take over) | PodDeleted: Pod c-a deleted: restored members take over
delete pod c-a (the restore was called off) | PodDeleted: Pod c-a deleted: the restore was called off
delete PersistentVolumeClaim c-a (its member was removed) | VolumeDeleted: PersistentVolumeClaim c-a deleted: its member was removed
delete PersistentVolumeClaim c-a (its attempt to form the cluster was given up) | VolumeDeleted: PersistentVolumeClaim c-a deleted: its attempt to form the cluster was given up
delete PersistentVolumeClaim c-a (restored members took over) | VolumeDeleted: PersistentVolumeClaim c-a deleted: restored members took over
delete PersistentVolumeClaim c-a (the restore was called off) | VolumeDeleted: PersistentVolumeClaim c-a deleted: the restore was called off
give pod c-a image etcd:v3.6.10 | MemberUpgraded: Member c-a upgraded from 3.5.26 to 3.6.10
give pod c-a agent operator:2 | PodUpdated: Pod c-a gets the agent's image operator:2
label pod c-a as voter | -
add member c-a as learner | NewMemberAdded: New member c-a added to cluster
add member c-a | NewMemberAdded: New member c-a added to cluster
promote member c-a | MemberPromoted: Learner c-a has its vote
remove member c-a (ab): more members than wanted | MemberRemoved: Existing member c-a removed from the cluster
remove member c-a (ab): its data is lost | ReplacingDeadMember: The dead member c-a is being replaced
remove member c-a (ab): it does not answer | ReplacingDeadMember: The dead member c-a is being replaced
remove member c-a (ab): it never started | MemberRemoved: Existing member c-a removed from the cluster
remove member c-a (ab): it did not catch up in time | ReplacingDeadMember: Member c-a is being replaced: it did not catch up in time
remove member c-a (ab): its template changed | ReplacingDeadMember: Member c-a is being replaced: its template changed
remove member c-a (ab): etcd raised CORRUPT on it | ReplacingDeadMember: The dead member c-a is being replaced
advance the raft log by 7 entries | -
disarm NOSPACE of ab: it is no member any more | AlarmDisarmed: Alarm NOSPACE of ab disarmed: it is no member any more
disarm CORRUPT of ab: a quorum has the same data as it | AlarmDisarmed: Alarm CORRUPT of ab disarmed: a quorum has the same data as it
move leadership from c-a to c-b | LeaderMoved: Leadership moved from c-a to c-b
";

#[test]
fn every_step_has_its_words_and_those_of_the_archived_operator_are_kept() {
    let told = steps().into_iter().map(|step| match news(&step) {
        Some(news) => {
            assert!(!news.warning, "a step that was carried out is no warning: {news:?}");
            format!("{} | {}: {}", describe(&step), news.reason, news.message)
        }
        None => format!("{} | -", describe(&step)),
    });
    let table: Vec<_> = TABLE.trim().lines().collect();
    assert_eq!(told.collect::<Vec<_>>(), table);
}
