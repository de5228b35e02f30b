//! What the status of an EtcdCluster says of each kind of situation.

use crate::api::conditions::{ConditionStatus, find};
use crate::model::SpecWarning;
use crate::plan::tests::world::World;

/// Type, status, reason and message of one condition.
fn condition<'a>(world: &'a World, type_: &str) -> (ConditionStatus, &'a str, &'a str) {
    let condition = find(&world.status.conditions, type_).expect("every condition is there from the first pass on");
    (condition.status, &condition.reason, &condition.message)
}

#[test]
fn a_warning_about_the_spec_is_said_from_the_first_pass_on_and_does_not_stop_ready() {
    let mut world = World::new(2, true, "3.6.10");
    world.desired.warnings = vec![SpecWarning::EvenSize { size: 2 }, SpecWarning::AntiAffinityDeprecated];
    world.run_passes(1);
    let said = "`spec.size` 2 is even: it tolerates no more failures than 1; \
                `spec.pod.antiAffinity` is deprecated: use `spec.pod.affinity`";
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::True, "EvenSize", said));
    world.run();
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::True, "EvenSize", said));
    assert_eq!(condition(&world, "Ready").0, ConditionStatus::True);
    world.desired.warnings.clear();
    world.run_passes(1);
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::False, "NoWarnings", ""));
}
