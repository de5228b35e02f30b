//! The command line of the Deployment, read by the operator's own parser.

use etcd_operator::cli::{Action, Arguments, parse};
use etcd_operator::ports::Controller;

use crate::helm::{Values, of_kind, rendered, with};

/// The operator's arguments as it would understand them; `None` where there is no helm.
fn arguments(values: &Values) -> Option<Arguments> {
    let objects = rendered(values)?;
    let deployment = of_kind(&objects, "Deployment").next().expect("it is rendered");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(container["command"].is_null(), "the image's entry point runs");
    let flags = container["args"].as_array().expect("it has arguments").iter();
    let line = flags.map(|flag| flag.as_str().expect("arguments are strings").to_owned());
    let line: Vec<_> = std::iter::once("etcd-operator".to_owned()).chain(line).collect();
    match parse(&line) {
        Ok(Action::Run(arguments)) => Some(*arguments),
        Ok(other) => panic!("{values}: {line:?} is {other:?}"),
        Err(error) => panic!("{values}: {line:?}: {error}"),
    }
}

#[test]
fn every_command_line_is_understood_by_the_operator() {
    for values in Values::all() {
        let Some(arguments) = arguments(&values) else { return };
        assert!(!arguments.create_crd, "{values}: the chart brings the definitions, and grants no right to");
        assert!(arguments.agent_image.is_some_and(|image| image.contains("etcd-operator:")), "{values}");
    }
}

#[test]
fn the_values_decide_which_controllers_run_and_over_what() {
    for (values, controllers, cluster_wide) in [
        ("deployments.backupOperator=false", &[Controller::Cluster, Controller::Restore][..], false),
        ("deployments.etcdOperator=false,clusterWide=true", &[Controller::Backup, Controller::Restore], true),
        ("etcdOperator.commandArgs.cluster-wide=true", &Controller::ALL, true),
    ] {
        let Some(arguments) = arguments(&with(values)) else { return };
        assert_eq!((&arguments.controllers[..], arguments.cluster_wide), (controllers, cluster_wide), "{values}");
    }
}

#[test]
fn a_flag_of_the_user_takes_the_place_of_the_charts_own() {
    let own = "etcdOperator.commandArgs.create-crd=true,etcdOperator.commandArgs.agent-image=another:1,\
               etcdOperator.commandArgs.controllers=cluster";
    let Some(arguments) = arguments(&with(own)) else { return };
    assert!(!arguments.create_crd, "an old Deployment's flag must not fail for want of a right");
    assert_eq!(arguments.agent_image.as_deref(), Some("another:1"));
    assert_eq!(arguments.controllers, [Controller::Cluster]);
}
