//! The case files are as they should be. Running them is the lanes' business: `scenarios run --lane model|live`.

use std::collections::BTreeSet;

use scenarios::cases;
use sim::scenario::Lane;

#[test]
fn every_case_file_is_a_scenario_without_faults() {
    let all = cases::all().expect("the case files can be read");
    let faults: Vec<_> =
        all.iter().flat_map(|case| case.faults().into_iter().map(|fault| format!("{}: {fault}", case.path))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn there_are_cases_of_every_topic_and_lane() {
    let all = cases::all().expect("the case files can be read");
    let topics: BTreeSet<&str> = all.iter().filter_map(|case| case.path.split('/').next()).collect();
    assert!(["backup", "cluster", "demo", "input", "restore"].iter().all(|topic| topics.contains(topic)), "{topics:?}");
    for lane in [Lane::Model, Lane::Live] {
        assert!(all.iter().any(|case| case.is_in(lane)), "{lane:?}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_where_to_look() {
    let error = cases::chosen(&["cluster/no-such-case".to_owned()]).expect_err("there is none").to_string();
    assert!(error.contains("no-such-case") && error.contains("scenarios list"), "{error}");
    assert!(!cases::chosen(&["demo".to_owned()]).expect("a topic").is_empty());
}
