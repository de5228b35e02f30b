//! Births: members of the first formation, what happens to attempts at it.

use super::{check, is_ready};
use crate::api::cluster::ClusterPhase;
use crate::plan::tests::world::World;

#[test]
fn one_member_is_born() {
    let mut world = World::new(1, true, "3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           [waiting for the first quorum: 0 of 1 members answer]
         2 replace Service c-client -> u-1
    ",
    );
    assert!(is_ready(&world));
}

#[test]
fn three_members_are_born_at_once_behind_a_closed_service() {
    let mut world = World::new(3, true, "3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           create pod m2 (new)
           create volume m2
           create pod m3 (new)
           create volume m3
           [waiting for the first quorum: 0 of 3 members answer]
         2 replace Service c-client -> u-1
    ",
    );
    assert_eq!(world.status.ready, "3/3");
    assert_eq!(world.status.phase, ClusterPhase::Running);
    assert_eq!(world.status.current_version, "3.6.10");
}

#[test]
fn five_members_without_volumes_are_born() {
    let mut world = World::new(5, false, "3.2.25");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create pod m2 (new)
           create pod m3 (new)
           create pod m4 (new)
           create pod m5 (new)
           [waiting for the first quorum: 0 of 5 members answer]
         2 replace Service c-client -> u-1
    ",
    );
}

#[test]
fn an_attempt_whose_seed_lost_its_disk_is_thrown_away_whole() {
    let mut world = World::new(3, true, "3.6.10");
    world.pass_of(usize::MAX);
    let seeds = world.record.lineage.clone().unwrap().seeds;
    world.cut.extend(seeds.iter().cloned());
    world.go_on();
    world.say("the first seed's volume is lost before anybody answers");
    let volume = world.volumes.get_mut(&seeds[0]).unwrap();
    volume.seen.lost = true;
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           create pod m2 (new)
           create volume m2
           create pod m3 (new)
           create volume m3
           [waiting for the first quorum: 0 of 3 members answer]
        -- the first seed's volume is lost before anybody answers
         2 delete pod m1 (FormationAbandoned)
           delete pod m2 (FormationAbandoned)
           delete pod m3 (FormationAbandoned)
           create pod m4 (new)
           create volume m4
           create pod m5 (new)
           create volume m5
           create pod m6 (new)
           create volume m6
           [waiting for the first quorum: 0 of 3 members answer]
         3 replace Service c-client -> u-2
         4 delete volume m1 (FormationAbandoned)
           delete volume m2 (FormationAbandoned)
           delete volume m3 (FormationAbandoned)
    ",
    );
    assert_eq!(world.record.lineage.as_ref().unwrap().attempt, 2);
}

#[test]
fn a_formation_that_cannot_start_follows_a_corrected_spec() {
    let mut world = World::new(3, true, "3.6.99");
    world.missing_images.insert("3.6.99".into());
    world.run_passes(3);
    world.say("the version is corrected");
    world.want_version("3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           create pod m2 (new)
           create volume m2
           create pod m3 (new)
           create volume m3
           [waiting for the first quorum: 0 of 3 members answer]
         2 [waiting for pod m1 to start: etcd: ErrImagePull]
           [waiting for pod m2 to start: etcd: ErrImagePull]
           [waiting for pod m3 to start: etcd: ErrImagePull]
           [waiting for the first quorum: 0 of 3 members answer]
        -- the version is corrected
         4 delete pod m1 (FormationAbandoned)
           delete pod m2 (FormationAbandoned)
           delete pod m3 (FormationAbandoned)
           create pod m4 (new)
           create volume m4
           create pod m5 (new)
           create volume m5
           create pod m6 (new)
           create volume m6
           [waiting for the first quorum: 0 of 3 members answer]
         5 replace Service c-client -> u-2
         6 delete volume m1 (FormationAbandoned)
           delete volume m2 (FormationAbandoned)
           delete volume m3 (FormationAbandoned)
    ",
    );
}
