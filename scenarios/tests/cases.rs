//! The case files are as they should be. Running them is the lanes' business: `scenarios run --lane model|live`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use scenarios::cases;
use sim::scenario::{Lane, Step, Target};

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

#[test]
fn what_the_readme_shows_of_the_demo_is_in_its_transcript_in_that_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("it is in the repository");
    let (readme, transcript) = (read("README.md"), read("docs/demo.txt"));
    let excerpt = readme.split("```\n").find(|block| block.starts_with("== ")).expect("the README shows the demo");
    let mut rest = transcript.lines();
    for line in excerpt.lines() {
        assert!(
            rest.any(|said| said == line),
            "docs/demo.txt does not have it, or not after what is before it:\n{line}"
        );
    }
}

#[test]
fn the_transcript_has_the_phases_of_the_demos_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let transcript = fs::read_to_string(root.join("docs/demo.txt")).expect("it is in the repository");
    let case = cases::chosen(&["demo/from-nothing-to-restored".to_owned()]).expect("there is the demo").remove(0);
    let phases = case.scenario.steps.iter().filter_map(|step| match step {
        Step::Phase(name) => Some(name.as_str()),
        _ => None,
    });
    let told = transcript.lines().filter_map(|line| line.strip_prefix("== ")).filter(|name| *name != "Times");
    assert_eq!(told.collect::<Vec<_>>(), phases.collect::<Vec<_>>());
}

#[test]
fn each_of_one_name_is_a_fault() {
    let mut case = cases::chosen(&["cluster/the-pod-policy-takes-effect".to_owned()]).expect("there is one").remove(0);
    assert_eq!(case.faults(), Vec::<String>::new());
    for step in &mut case.scenario.steps {
        if let Step::Wait { target, each: true, .. } = step {
            target.name = "c".to_owned();
        }
    }
    let faults = case.faults();
    assert!(faults.len() == 2 && faults[0].contains("`each` is for the name `*`"), "{faults:?}");
}

#[test]
fn a_condition_on_a_field_that_the_kind_does_not_have_is_a_fault() {
    let faults = |kind: &str, condition: &str| {
        let name = "restore/the-operator-may-die-meanwhile".to_owned();
        let mut case = cases::chosen(&[name]).expect("there is one").remove(0);
        let target = Target { kind: kind.to_owned(), name: "c".to_owned() };
        let until = vec![condition.to_owned()];
        case.scenario.steps = vec![Step::Wait { target, until, within: "5s".to_owned(), each: false }];
        case.faults()
    };
    let said = faults("EtcdRestore", "status.phse != Pending");
    assert_eq!(said, ["step 1: there is no `status.phse` in EtcdRestore"]);
    assert_eq!(faults("EtcdBackup", "status.records.first.key = k").len(), 1, "a list has numbers");
    for there in ["status.records.0.key = k", "status.phase != Pending", "metadata.labels.team = a"] {
        assert_eq!(faults("EtcdBackup", there), Vec::<String>::new());
    }
    assert_eq!(faults("EtcdCluster", "spec.pod.labels.team = blue"), Vec::<String>::new());
    assert_eq!(faults("Pod", "status.what = ever"), Vec::<String>::new(), "nothing is known of this kind");
}
