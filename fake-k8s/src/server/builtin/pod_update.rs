//! The few fields of a pod that may change, and what its status may say.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::checks::{Faults, count, items, number, text};
use super::pod_shape::POD_SPEC;
use super::shape::{Shape, pretty};
use super::unified_diff::unified_diff;
use super::{addresses, pod_containers, pod_scheduling};
use crate::server::{FieldError, object};

const ONLY_THESE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What may not change in a pod; all that a pod is checked for comes before it.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    check_annotations(&mut faults, old, new);
    let (before, after) = (&old["spec"], &new["spec"]);
    for list in ["containers", "initContainers"] {
        let at = format!("spec.{list}");
        if count(&before[list]) != count(&after[list]) {
            faults.forbidden(at, "pod updates may not add or remove containers");
            return faults.0;
        }
        for (i, container) in items(&after[list]) {
            let at = format!("{at}[{i}]");
            if text(&container["image"]).is_empty() {
                faults.required(format!("{at}.image"), "");
            }
            pod_containers::check_image(&mut faults, &at, container);
        }
    }
    if !check_deadline(&mut faults, before, after) {
        return faults.0;
    }
    check_tolerations(&mut faults, before, after);
    check_scheduling_gates(&mut faults, before, after);
    if before == after {
        return faults.0;
    }
    let mut munged = after.clone();
    munge(before, &mut munged);
    if count(&before["schedulingGates"]) > 0 {
        check_gated(&mut faults, before, &mut munged);
    }
    if munged != *before {
        let diff = unified_diff(&shown(before), &shown(&munged));
        faults.forbidden("spec", format!("{ONLY_THESE}\n{diff}"));
    }
    faults.0
}

/// As Kubernetes' own type has it: what concerns the host is a part of the security context.
fn shown(spec: &Value) -> String {
    let mut spec = spec.clone();
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let value = spec[field].take();
        if !value.is_null() {
            object::entry_object(&mut spec, "securityContext").insert(field.into(), value);
        }
    }
    pretty(Shape::Struct(POD_SPEC), &spec)
}

/// What may change is made as it was.
fn munge(before: &Value, munged: &mut Value) {
    for list in ["containers", "initContainers"] {
        let images: Vec<Value> = items(&before[list]).map(|(_, c)| c["image"].clone()).collect();
        for (container, image) in super::checks::items_mut(munged, list).zip(images) {
            container["image"] = image;
        }
    }
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    let mended = grace(before).is_some_and(|seconds| seconds < 0) && grace(munged) == Some(1);
    let mended = mended.then_some("terminationGracePeriodSeconds");
    let fields = ["activeDeadlineSeconds", "schedulingGates", "tolerations"].into_iter().chain(mended);
    if let Some(spec) = munged.as_object_mut() {
        fields.for_each(|field| object::set_or_remove(spec, field, &before[field]));
    }
}

/// False when nothing more is said.
fn check_deadline(faults: &mut Faults, before: &Value, after: &Value) -> bool {
    let (at, most) = ("spec.activeDeadlineSeconds", i64::from(i32::MAX));
    let [before, after] = [before, after].map(|spec| spec["activeDeadlineSeconds"].as_i64());
    match (before, after) {
        (_, Some(now)) if !(0..=most).contains(&now) => {
            faults.within(at, now, 0, most);
            return false;
        }
        (Some(before), Some(now)) if before < now => {
            faults.invalid(at, now, "must be less than or equal to previous value");
            return false;
        }
        (Some(_), None) => {
            let error = FieldError::invalid(at, Value::Null, "must not update from a positive integer to nil value");
            faults.0.push(error.printed("null"));
        }
        _ => {}
    }
    true
}

fn check_tolerations(faults: &mut Faults, before: &Value, after: &Value) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let now: Vec<Value> = items(&after["tolerations"]).map(|(_, t)| timeless(t)).collect();
    if !items(&before["tolerations"]).all(|(_, t)| now.contains(&timeless(t))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return faults.forbidden("spec.tolerations", why);
    }
    pod_scheduling::check_tolerations(faults, "spec.tolerations", &after["tolerations"]);
}

fn check_scheduling_gates(faults: &mut Faults, before: &Value, after: &Value) {
    let known: BTreeSet<&str> = items(&before["schedulingGates"]).map(|(_, g)| text(&g["name"])).collect();
    for (i, gate) in items(&after["schedulingGates"]).map(|(i, g)| (i, text(&g["name"]))) {
        if !known.contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            faults.forbidden(format!("spec.schedulingGates[{i}].name"), why);
        }
    }
}

/// A pod that is not yet to be scheduled may still be bound to fewer nodes.
fn check_gated(faults: &mut Faults, before: &Value, munged: &mut Value) {
    let lost = before["nodeSelector"].as_object().into_iter().flatten();
    if lost.into_iter().any(|(key, value)| munged["nodeSelector"][key] != *value) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.invalid("spec.nodeSelector", munged["nodeSelector"].clone(), why);
    }
    check_node_terms(faults, before, munged);
    let Some(spec) = munged.as_object_mut() else { return };
    object::set_or_remove(spec, "nodeSelector", &before["nodeSelector"]);
    let affinity = spec.entry("affinity").or_insert_with(|| Value::Object(Map::new()));
    if let Some(affinity) = affinity.as_object_mut() {
        object::set_or_remove(affinity, "nodeAffinity", &before["affinity"]["nodeAffinity"]);
        if affinity.is_empty() && before["affinity"].is_null() {
            spec.remove("affinity");
        }
    }
}

fn check_node_terms(faults: &mut Faults, before: &Value, after: &Value) {
    let place = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = |spec: &Value| spec.pointer(place).cloned().unwrap_or(Value::Null);
    let (old, new) = (terms(before), terms(after));
    let at = format!("spec{}", place.replace('/', "."));
    if count(&old) > 0 && count(&old) != count(&new) {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return faults.invalid(at, new, why);
    }
    for (i, term) in items(&old) {
        let lists = ["matchExpressions", "matchFields"];
        let kept = lists.iter().all(|list| items(&term[*list]).all(|(j, rule)| new[i][*list][j] == *rule));
        let open = lists.iter().all(|list| count(&term[*list]) == 0);
        let filled = lists.iter().any(|list| count(&new[i][*list]) > 0);
        if !kept || (open && filled) {
            let why = "only additions are allowed (no mutations or deletions)";
            faults.invalid(format!("{at}[{i}]"), new[i].clone(), why);
        }
    }
}

fn check_annotations(faults: &mut Faults, old: &Value, new: &Value) {
    let mirror = |pod: &Value| object::annotation(pod, MIRROR).map(str::to_owned);
    let at = format!("metadata.annotations[{MIRROR}]");
    match (mirror(old), mirror(new)) {
        (None, Some(_)) => faults.forbidden(at, "may not add mirror pod annotation"),
        (before @ Some(_), after) if before != after => {
            faults.forbidden(at, "may not remove or update mirror pod annotation");
        }
        _ => {}
    }
    super::pods::check_annotations(faults, "metadata.annotations", new);
}

/// What the status of a pod keeps, whoever writes it.
pub fn carry_status(old: &Value, new: &mut Value) {
    let owners = &old["metadata"]["ownerReferences"];
    object::set_or_remove(object::meta_mut(new), "ownerReferences", owners);
    let mut kept: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (_, condition) in items(&old["status"]["conditions"]) {
        kept.entry(text(&condition["type"]).to_owned()).or_default().push(condition["observedGeneration"].clone());
    }
    let status = object::entry_object(new, "status");
    for field in ["qosClass", "observedGeneration"] {
        if status.get(field).is_none_or(|v| v.is_null() || *v == "" || *v == 0) {
            object::set_or_remove(status, field, &old["status"][field]);
        }
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let known = kept.get_mut(text(&condition["type"])).filter(|all| !all.is_empty()).map(|all| all.remove(0));
        if let Some(condition) =
            condition.as_object_mut().filter(|c| number(&c.get("observedGeneration").cloned().unwrap_or_default()) == 0)
        {
            object::set_or_remove(condition, "observedGeneration", &known.unwrap_or_default());
        }
    }
}

/// What is wrong with a new status of a pod.
pub fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    check_annotations(&mut faults, old, new);
    let (before, status) = (&old["status"], &new["status"]);
    for (i, condition) in items(&status["conditions"]) {
        let at = format!("status.conditions[{i}]");
        if number(&condition["observedGeneration"]) < 0 {
            let generation = number(&condition["observedGeneration"]);
            faults.invalid(format!("{at}.observedGeneration"), generation, "must be a non-negative integer");
        }
        if !["PodScheduled", "Ready", "Initialized"].contains(&text(&condition["type"])) {
            faults.qualified_name(format!("{at}.Type"), text(&condition["type"]));
        }
    }
    let nominated = text(&status["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(&before["nominatedNodeName"]) {
        faults.subdomain("status.nominatedNodeName", nominated);
        if !text(&old["spec"]["nodeName"]).is_empty() {
            faults.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node");
        }
    }
    if number(&status["observedGeneration"]) < 0 {
        let why = "must be a non-negative integer";
        faults.invalid("status.observedGeneration", number(&status["observedGeneration"]), why);
    }
    if status["qosClass"] != before["qosClass"] {
        faults.invalid("status.qosClass", status["qosClass"].clone(), "field is immutable");
    }
    check_restarts(&mut faults, old, new);
    check_addresses(&mut faults, "podIP", before, status);
    check_addresses(&mut faults, "hostIP", before, status);
    faults.0
}

/// What has ended for good does not run again.
fn check_restarts(faults: &mut Faults, old: &Value, new: &Value) {
    let policy = text(&old["spec"]["restartPolicy"]);
    for list in ["containerStatuses", "initContainerStatuses"] {
        for (i, before) in items(&old["status"][list]) {
            let end = &before["state"]["terminated"];
            let fails = number(&end["exitCode"]) != 0
                && (policy == "OnFailure" || list == "initContainerStatuses" && policy != "Never");
            let sidecar = items(&old["spec"]["initContainers"])
                .any(|(_, c)| c["name"] == before["name"] && c["restartPolicy"] == "Always");
            if end.is_null() || policy == "Always" || fails || sidecar {
                continue;
            }
            let runs = |now: &Value| now["name"] == before["name"] && now["state"]["terminated"].is_null();
            if items(&new["status"][list]).any(|(_, now)| runs(now)) {
                let at = format!("status.{list}[{i}].state");
                faults.forbidden(at, "may not be transitioned to non-terminated state");
            }
        }
    }
}

fn check_addresses(faults: &mut Faults, field: &str, before: &Value, status: &Value) {
    let list = format!("{field}s");
    let all = &status[list.as_str()];
    if count(all) > 0 && field == "hostIP" && text(&status[field]) != text(&all[0]["ip"]) {
        faults.invalid(format!("status.{list}[0].ip"), text(&all[0]["ip"]), format!("must be equal to `{field}`"));
    }
    let known: Vec<&str> = items(&before[list.as_str()]).map(|(_, a)| text(&a["ip"])).collect();
    for (i, address) in items(all).map(|(i, a)| (i, text(&a["ip"]))).filter(|(_, a)| !known.contains(a)) {
        addresses::check(faults, &format!("status.{list}[{i}]"), address);
    }
    let sixes = items(all).filter(|(_, a)| addresses::is_v6(text(&a["ip"]))).count();
    if count(all) > 1 && (count(all) > 2 || sixes != 1) {
        let shown: Vec<String> = items(all).map(|(_, a)| format!("{{\"IP\":{}}}", a["ip"])).collect();
        let error = FieldError::invalid(
            format!("status.{list}"),
            Value::Null,
            "may specify no more than one IP for each IP family",
        );
        faults.0.push(error.printed(format!("[{}]", shown.join(","))));
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(change: impl Fn(&mut Value)) -> Value {
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}});
        change(&mut pod["spec"]);
        super::super::pod_defaults::default_pod(&mut pod);
        pod
    }

    fn said(change: impl Fn(&mut Value)) -> Vec<String> {
        validate_update(&pod(|_| {}), &pod(change)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_few_fields_change() {
        let nothing: [&str; 0] = [];
        assert_eq!(said(|s| s["containers"][0]["image"] = json!("a:2")), nothing);
        assert_eq!(said(|s| s["tolerations"] = json!([{"operator": "Exists"}])), nothing);
        assert_eq!(said(|s| s["activeDeadlineSeconds"] = json!(5)), nothing);
        assert_eq!(
            said(|s| s["initContainers"] = json!([{"name": "b", "image": "b"}])),
            ["spec.initContainers: Forbidden: pod updates may not add or remove containers"]
        );
        let changed = said(|s| s["nodeName"] = json!("n1"));
        let diff = "@@ -37,7 +37,7 @@\n  \"NodeSelector\": null,\n  \"ServiceAccountName\": \"\",\n  \"AutomountServiceAccountToken\": null,\n- \"NodeName\": \"\",\n+ \"NodeName\": \"n1\",\n  \"SecurityContext\": {\n   \"HostNetwork\": false,\n   \"HostPID\": false,\n";
        assert!(changed[0].starts_with(&format!("spec: Forbidden: {ONLY_THESE}\n@@ ")), "{changed:?}");
        assert_eq!(
            changed[0].split_once('\n').map(|(_, d)| d.split_once('\n').unwrap().1),
            Some(diff.split_once('\n').unwrap().1)
        );
    }

    #[test]
    fn the_class_of_service_stays() {
        let status = |status: Value| json!({"metadata": {"name": "a"}, "status": status});
        let (old, mut new) = (status(json!({"qosClass": "Burstable"})), status(json!({"phase": "Running"})));
        carry_status(&old, &mut new);
        assert_eq!(new["status"], json!({"phase": "Running", "qosClass": "Burstable"}));
        new["status"]["podIPs"] = json!([{"ip": "nowhere"}]);
        let said: Vec<String> = validate_status(&old, &new).iter().map(|e| e.field.clone()).collect();
        assert_eq!(said, ["status.podIPs[0]"]);
    }
}
