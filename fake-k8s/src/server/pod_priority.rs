//! The priority of a pod: what its class gives, or the default one.
use std::sync::Arc;

use serde_json::{Value, json};

use super::resource::StorageKey;
use super::{Server, Status, object};

/// Classes that are always there.
const SYSTEM: &[(&str, i64)] = &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl Server {
    /// Whether a pod may have the priority that it asks for: that is asked before it has a name.
    pub(super) fn check_priority(&self, pod: &Value) -> Result<(), Status> {
        self.admit_priority(&mut pod.clone())
    }

    /// Gives a new pod the priority of its class, as admission does before anything else is looked at.
    pub(super) fn admit_priority(&self, pod: &mut Value) -> Result<(), Status> {
        let name = Some(object::name(pod)).filter(|name| !name.is_empty());
        let name = name.unwrap_or(object::meta_str(pod, "generateName")).to_owned();
        let refuse = |why: String| Status::forbidden("", "pods", &name, &why);
        let spec = object::entry_object(pod, "spec");
        let asked = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (value, policy) = if asked.is_empty() {
            match self.default_class() {
                Some(class) => {
                    spec.insert("priorityClassName".into(), json!(object::name(&class)));
                    terms(&class)
                }
                None => (0, json!("PreemptLowerPriority")),
            }
        } else {
            let found = self.priority_classes().into_iter().find(|class| object::name(class) == asked);
            let system = SYSTEM.iter().find(|(name, _)| *name == asked);
            match (found, system) {
                (Some(class), _) => terms(&class),
                (None, Some((_, value))) => (*value, json!("PreemptLowerPriority")),
                (None, None) => return Err(refuse(format!("no PriorityClass with name {asked} was found"))),
            }
        };
        if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|own| *own != value) {
            return Err(refuse(format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            )));
        }
        spec.insert("priority".into(), json!(value));
        let Some(policy) = policy.as_str() else { return Ok(()) };
        if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|own| *own != policy) {
            return Err(refuse(format!(
                "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )));
        }
        spec.insert("preemptionPolicy".into(), json!(policy));
        Ok(())
    }

    fn priority_classes(&self) -> Vec<Arc<Value>> {
        let key = StorageKey { group: "scheduling.k8s.io".into(), plural: "priorityclasses".into() };
        self.store.list(&key, None).cloned().collect()
    }

    /// Of several defaults, which there should not be, the lowest.
    fn default_class(&self) -> Option<Arc<Value>> {
        let defaults = self.priority_classes().into_iter().filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
    }
}

fn terms(class: &Value) -> (i64, Value) {
    (class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].clone())
}
