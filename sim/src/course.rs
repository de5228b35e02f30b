//! What a run is made of: a world, a schedule of faults, and what the user does. The scenarios crate brings the user's
//! steps from a file; the swarm makes all of it from a seed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::Planned;
use crate::scenario::{OperatorOptions, Scenario, Step};

/// A run, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Course {
    /// What it is called.
    pub name: String,
    /// Everything random comes from it.
    pub seed: u64,
    /// How the operator is started.
    #[serde(default)]
    pub operator: OperatorOptions,
    /// Nodes of the Kubernetes cluster.
    pub nodes: usize,
    /// What goes wrong, and when.
    #[serde(default)]
    pub faults: Vec<Planned>,
    /// What the user does, in this order.
    pub acts: Vec<Act>,
    /// Clients write to every EtcdCluster and read from it all the time.
    pub workload: bool,
    /// At the end all is healed and the world must converge within so many seconds; 0: not asked.
    pub converge_within_seconds: u64,
    /// Then it must stay so, without a write, for so many seconds.
    pub quiet_seconds: u64,
}

/// One thing that a user does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A step of the scenario language.
    Step(Step),
    /// Creates an object.
    Create(Value),
    /// Lets time pass.
    Sleep {
        /// Seconds.
        seconds: u64,
    },
    /// Restores an EtcdCluster from the newest record of an EtcdBackup, if there is one.
    RestoreNewest {
        /// The EtcdCluster.
        cluster: String,
        /// The EtcdBackup.
        backup: String,
    },
}

impl Course {
    /// A scenario file in the model lane: no random faults, no background workload.
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            name: scenario.name.clone(),
            seed: 1,
            operator: scenario.operator.clone(),
            nodes: 3,
            faults: Vec::new(),
            acts: scenario.steps.iter().cloned().map(Act::Step).collect(),
            workload: false,
            converge_within_seconds: 0,
            quiet_seconds: 0,
        }
    }
}
