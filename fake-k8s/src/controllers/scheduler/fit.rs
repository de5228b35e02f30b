//! Whether a pod may run on a node: one function per question, each answering in kube-scheduler's words.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::controllers::informer::Informer;
use crate::controllers::object::{self, Key};

/// What forbids the node, whatever runs elsewhere.
pub fn node_reasons(pod: &Value, node: &Value, here: &BTreeMap<Key, Arc<Value>>) -> Option<Vec<String>> {
    if object::flag(node, "/spec/unschedulable") {
        return Some(vec!["node(s) were unschedulable".to_owned()]);
    }
    if let Some(taint) = untolerated(pod, node) {
        let (key, value) = (object::text(taint, "/key"), object::text(taint, "/value"));
        return Some(vec![format!("node(s) had untolerated taint {{{key}: {value}}}")]);
    }
    if !selects_node(pod, node) {
        return Some(vec!["node(s) didn't match Pod's node affinity/selector".to_owned()]);
    }
    let lacking = lacking(pod, node, here);
    (!lacking.is_empty()).then_some(lacking)
}

/// What the pods of this and other nodes forbid: affinity, anti-affinity (in both directions), topology spread.
pub fn neighbour_reason(
    pod: &Value,
    node: &Value,
    nodes: &Informer,
    assigned: &BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
) -> Option<Vec<String>> {
    let said = |reason: &str| Some(vec![reason.to_owned()]);
    let placed = || {
        let on_nodes = assigned.iter().filter_map(|(name, pods)| Some((nodes.find("", name)?, pods)));
        on_nodes.flat_map(|(node, pods)| pods.values().map(move |pod| (node, pod)))
    };
    let together = |term: &Value, other: &Value| {
        let key = object::text(term, "/topologyKey");
        let labels = |node: &Value| object::map(node, "/metadata/labels").get(key).cloned();
        labels(node).is_some_and(|here| labels(other) == Some(here))
    };
    for (other_node, other) in placed() {
        let forbids = |term: &Value| together(term, other_node) && term_matches(term, other, pod);
        if terms(other, "podAntiAffinity").iter().any(forbids) {
            return said("node(s) didn't satisfy existing pods anti-affinity rules");
        }
    }
    for term in terms(pod, "podAffinity") {
        let found = placed().any(|(other_node, other)| together(term, other_node) && term_matches(term, pod, other));
        // The first of a group that wants to be together may go anywhere.
        let first = !placed().any(|(_, other)| term_matches(term, pod, other)) && term_matches(term, pod, pod);
        if !found && !first {
            return said("node(s) didn't match pod affinity rules");
        }
    }
    for term in terms(pod, "podAntiAffinity") {
        if placed().any(|(other_node, other)| together(term, other_node) && term_matches(term, pod, other)) {
            return said("node(s) didn't match pod anti-affinity rules");
        }
    }
    for spread in object::items(pod, "/spec/topologySpreadConstraints") {
        if object::text(spread, "/whenUnsatisfiable") != "ScheduleAnyway"
            && !spreads(pod, node, nodes, spread, placed())
        {
            return said("node(s) didn't match pod topology spread constraints");
        }
    }
    None
}

/// The sum of the weights of the preferred node affinity terms that the node meets, less those of taints it would rather not.
pub fn preference(pod: &Value, node: &Value) -> i64 {
    let preferred = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let met = object::items(pod, preferred).iter().filter(|entry| term_selects(&entry["preference"], node));
    met.filter_map(|entry| object::number(entry, "/weight")).sum()
}

/// Whether a volume can be reached from the node.
pub fn volume_fits(volume: &Value, node: &Value) -> bool {
    let terms = object::items(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
    terms.is_empty() || terms.iter().any(|term| term_selects(term, node))
}

fn untolerated<'a>(pod: &Value, node: &'a Value) -> Option<&'a Value> {
    let tolerations = object::items(pod, "/spec/tolerations");
    let hard = |taint: &&Value| matches!(object::text(taint, "/effect"), "NoSchedule" | "NoExecute");
    let mut taints = object::items(node, "/spec/taints").iter().filter(hard);
    taints.find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Whether a toleration covers a taint.
pub fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let field = |value: &Value, name: &str| object::text(value, name).to_owned();
    let effect = field(toleration, "/effect");
    if !effect.is_empty() && effect != field(taint, "/effect") {
        return false;
    }
    let (key, exists) = (field(toleration, "/key"), field(toleration, "/operator") == "Exists");
    if key.is_empty() {
        return exists;
    }
    key == field(taint, "/key") && (exists || field(toleration, "/value") == field(taint, "/value"))
}

fn selects_node(pod: &Value, node: &Value) -> bool {
    let labels = object::map(node, "/metadata/labels");
    let simple = object::map(pod, "/spec/nodeSelector").iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let Some(required) = pod.pointer(required).filter(|required| required.is_object()) else { return simple };
    simple && object::items(required, "/nodeSelectorTerms").iter().any(|term| term_selects(term, node))
}

fn term_selects(term: &Value, node: &Value) -> bool {
    let labels = object::map(node, "/metadata/labels");
    let (expressions, fields) = (object::items(term, "/matchExpressions"), object::items(term, "/matchFields"));
    let own: Map<String, Value> = Map::from_iter([("metadata.name".to_owned(), json!(object::name(node)))]);
    let any = !expressions.is_empty() || !fields.is_empty();
    any && expressions.iter().all(|one| object::meets(one, labels)) && fields.iter().all(|one| object::meets(one, &own))
}

fn lacking(pod: &Value, node: &Value, here: &BTreeMap<Key, Arc<Value>>) -> Vec<String> {
    let mut lacking = Vec::new();
    let room =
        |resource: &str| node.pointer(&format!("/status/allocatable/{resource}")).and_then(object::quantity_milli);
    if room("pods").is_some_and(|most| here.len() as i128 * 1000 >= most) {
        lacking.push("Too many pods".to_owned());
    }
    for resource in ["cpu", "memory"] {
        let wanted = requested(pod, resource);
        let taken: i128 = here.values().map(|other| requested(other, resource)).sum();
        if wanted > 0 && room(resource).is_some_and(|room| taken + wanted > room) {
            lacking.push(format!("Insufficient {resource}"));
        }
    }
    lacking
}

/// What a pod asks for: the sum of its containers, or its largest init container.
fn requested(pod: &Value, resource: &str) -> i128 {
    let pointer = format!("/resources/requests/{resource}");
    let limit = format!("/resources/limits/{resource}");
    let of = |container: &Value| {
        let asked = container.pointer(&pointer).or_else(|| container.pointer(&limit));
        asked.and_then(object::quantity_milli).unwrap_or_default()
    };
    let main: i128 = object::items(pod, "/spec/containers").iter().map(of).sum();
    let init = object::items(pod, "/spec/initContainers").iter().map(of).max().unwrap_or_default();
    main.max(init)
}

fn terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    object::items(pod, &format!("/spec/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution"))
}

/// Whether the term of `owner` is about `other`.
fn term_matches(term: &Value, owner: &Value, other: &Value) -> bool {
    let namespaces = object::items(term, "/namespaces");
    let same = if namespaces.is_empty() && term.get("namespaceSelector").is_none() {
        object::namespace(owner) == object::namespace(other)
    } else {
        // A namespace selector is taken as "all": namespaces carry no labels that anyone here selects by.
        term.get("namespaceSelector").is_some() || namespaces.iter().any(|name| name == object::namespace(other))
    };
    same && object::selects(term.get("labelSelector"), object::map(other, "/metadata/labels"))
}

fn spreads<'a>(
    pod: &Value,
    node: &Value,
    nodes: &Informer,
    spread: &Value,
    placed: impl Iterator<Item = (&'a Arc<Value>, &'a Arc<Value>)>,
) -> bool {
    let key = object::text(spread, "/topologyKey");
    let domain = |node: &Value| label(node, key);
    let here = label(node, key);
    if here.is_empty() {
        return false;
    }
    let eligible = nodes.iter().filter(|(_, node)| selects_node(pod, node) && !label(node, key).is_empty());
    let mut counts: BTreeMap<String, i64> = eligible.map(|(_, node)| (domain(node), 0)).collect();
    for (other_node, other) in placed {
        let counted = object::namespace(other) == object::namespace(pod)
            && !object::is_terminating(other)
            && object::selects(spread.get("labelSelector"), object::map(other, "/metadata/labels"));
        if let Some(count) = counts.get_mut(&domain(other_node)).filter(|_| counted) {
            *count += 1;
        }
    }
    let least = counts.values().min().copied().unwrap_or_default();
    let own = i64::from(object::selects(spread.get("labelSelector"), object::map(pod, "/metadata/labels")));
    counts.get(&domain(node)).copied().unwrap_or_default() + own - least
        <= object::number(spread, "/maxSkew").unwrap_or(1)
}

fn label(node: &Value, key: &str) -> String {
    object::map(node, "/metadata/labels").get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
