//! The simulator: simulated seconds per second of processor time, over seeds of the swarm and in a quiet world.
//!
//! Each is run a few times and the best is told: what disturbs a run only makes it slower. The budget is tens of thousands.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use anyhow::{Result, ensure};
use benches::clusters::cluster;
use benches::machine::{cpu_time, only_tried};
use serde_json::json;
use sim::course::{Act, Course};
use sim::run::run_course;
use sim::swarm;

const SEEDS_COUNT: u64 = 10;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let quiet = [quiet_hour()];
    measure("quiet: one EtcdCluster of 3, an hour", &quiet)?;
    let swarm: Vec<_> = (1..=if only_tried() { 1 } else { SEEDS_COUNT }).map(swarm::course).collect();
    measure(&format!("swarm: seeds 1 to {}, with faults and clients", swarm.len()), &swarm)
}

fn measure(name: &str, courses: &[Course]) -> Result<()> {
    let mut best = f64::INFINITY;
    let (mut simulated, mut events) = (0, 0);
    for _ in 0..if only_tried() { 1 } else { ROUNDS } {
        (simulated, events) = (0, 0);
        let began = cpu_time()?;
        for course in courses {
            let outcome = run_course(course, false);
            ensure!(outcome.violation.is_none(), "seed {}: {:?}", course.seed, outcome.violation);
            simulated += outcome.simulated / 1000;
            events += outcome.events;
        }
        best = best.min((cpu_time()? - began).as_secs_f64());
    }
    println!(
        "{name}: {:.0} simulated seconds per CPU second ({simulated} s and {events} events in {best:.2} CPU s), {:.1} \
         runs per CPU second",
        simulated as f64 / best,
        courses.len() as f64 / best,
    );
    Ok(())
}

/// An EtcdCluster that is created and then left alone.
fn quiet_hour() -> Course {
    let mut object = serde_json::to_value(cluster("quiet", 3)).expect("it serialises");
    object["apiVersion"] = json!("etcd.database.coreos.com/v1beta2");
    object["kind"] = json!("EtcdCluster");
    object["metadata"] = json!({"name": "quiet", "namespace": "default"});
    Course {
        name: "quiet".to_owned(),
        seed: 1,
        operator: sim::scenario::OperatorOptions::default(),
        nodes: 3,
        faults: Vec::new(),
        acts: vec![Act::Create(object), Act::Sleep { seconds: 3600 }],
        workload: false,
        converge_within_seconds: 600,
        quiet_seconds: 60,
    }
}
