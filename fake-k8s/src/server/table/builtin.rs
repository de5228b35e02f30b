//! The columns of the built-in kinds.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::object;
use super::super::resource::{Column, ResourceInfo};
use super::{age_of, column};

/// Titles by resource; a `+` marks what only `-o wide` shows, a `#` a number.
fn titles(info: &ResourceInfo) -> &'static str {
    match (info.group(), info.plural()) {
        ("", "pods") => "Name,Ready,Status,Restarts,Age,+IP,+Node,+Nominated Node,+Readiness Gates",
        ("", "services") => "Name,Type,Cluster-IP,External-IP,Port(s),Age,+Selector",
        ("", "persistentvolumeclaims") => {
            "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,+VolumeMode"
        }
        ("", "persistentvolumes") => {
            "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,+VolumeMode"
        }
        ("", "nodes") => "Name,Status,Roles,Age,Version,+Internal-IP,+External-IP",
        ("" | "events.k8s.io", "events") => {
            "Last Seen,Type,Reason,Object,+Subobject,+Source,Message,+First Seen,+#Count,+Name"
        }
        ("", "secrets") => "Name,Type,#Data,Age",
        ("", "configmaps") => "Name,#Data,Age",
        ("", "namespaces") => "Name,Status,Age",
        ("", "endpoints") => "Name,Endpoints,Age",
        ("", "serviceaccounts") => "Name,#Secrets,Age",
        ("discovery.k8s.io", "endpointslices") => "Name,AddressType,Ports,Endpoints,Age",
        ("coordination.k8s.io", "leases") => "Name,Holder,Age",
        ("storage.k8s.io", "storageclasses") => {
            "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age"
        }
        ("policy", "poddisruptionbudgets") => "Name,Min Available,Max Unavailable,#Allowed Disruptions,Age",
        ("apps", "deployments") => "Name,Ready,#Up-to-date,#Available,Age",
        ("apps", "statefulsets") => "Name,Ready,Age",
        ("apps", "replicasets") => "Name,#Desired,#Current,#Ready,Age",
        ("batch", "jobs") => "Name,Status,Completions,Age",
        ("apiextensions.k8s.io", "customresourcedefinitions") => "Name,Created At",
        (_, "roles" | "clusterroles") => "Name,Created At",
        (_, "rolebindings" | "clusterrolebindings") => "Name,Role,Age",
        _ => "Name,Age",
    }
}

pub fn columns(info: &ResourceInfo) -> Vec<Column> {
    let one = |title: &str| {
        let (title, wide) = title.strip_prefix('+').map_or((title, 0), |t| (t, 1));
        let (title, kind) = title.strip_prefix('#').map_or((title, "string"), |t| (t, "integer"));
        column(title, kind, wide)
    };
    titles(info).split(',').map(one).collect()
}

pub fn cells(info: &ResourceInfo, o: &Value, now: Timestamp) -> Vec<Value> {
    let name = json!(object::name(o));
    let age = json!(age_of(&o["metadata"]["creationTimestamp"], now));
    let count = |v: &Value| json!(v.as_object().map_or(0, |m| m.len()) + v.as_array().map_or(0, Vec::len));
    match (info.group(), info.plural()) {
        ("", "pods") => pod(o, name, age, now),
        ("", "services") => vec![
            name,
            text(&o["spec"]["type"]),
            or_none(&o["spec"]["clusterIP"]),
            external_address(o),
            json!(ports(&o["spec"]["ports"])),
            age,
            json!(pairs(&o["spec"]["selector"])),
        ],
        ("", "persistentvolumeclaims") => claim(o, name, age),
        ("", "persistentvolumes") => volume(o, name, age),
        ("", "nodes") => node(o, name, age),
        ("" | "events.k8s.io", "events") => event(o, name, now),
        ("", "secrets") => vec![name, text(&o["type"]), count(&o["data"]), age],
        ("", "configmaps") => {
            let more = o["binaryData"].as_object().map_or(0, |m| m.len());
            vec![name, json!(o["data"].as_object().map_or(0, |m| m.len()) + more), age]
        }
        ("", "namespaces") => vec![name, text(&o["status"]["phase"]), age],
        ("", "endpoints") => vec![name, json!(endpoints(o)), age],
        ("", "serviceaccounts") => vec![name, count(&o["secrets"]), age],
        ("discovery.k8s.io", "endpointslices") => slice(o, name, age),
        ("coordination.k8s.io", "leases") => vec![name, text(&o["spec"]["holderIdentity"]), age],
        ("storage.k8s.io", "storageclasses") => class(o, age),
        ("policy", "poddisruptionbudgets") => {
            let bound = |v: &Value| if v.is_null() { json!("N/A") } else { text(v) };
            let spec = &o["spec"];
            let allowed = json!(o["status"]["disruptionsAllowed"].as_i64().unwrap_or(0));
            vec![name, bound(&spec["minAvailable"]), bound(&spec["maxUnavailable"]), allowed, age]
        }
        ("apps", "deployments") => {
            let number = |f: &str| json!(o["status"][f].as_i64().unwrap_or(0));
            vec![name, ready_of(o), number("updatedReplicas"), number("availableReplicas"), age]
        }
        ("apps", "statefulsets") => vec![name, ready_of(o), age],
        ("apps", "replicasets") => {
            let number = |part: &str, f: &str| json!(o[part][f].as_i64().unwrap_or(0));
            vec![name, number("spec", "replicas"), number("status", "replicas"), number("status", "readyReplicas"), age]
        }
        ("batch", "jobs") => job(o, name, age),
        (_, "rolebindings" | "clusterrolebindings") => {
            let role = &o["roleRef"];
            vec![name, json!(format!("{}/{}", plain(&role["kind"]), plain(&role["name"]))), age]
        }
        ("apiextensions.k8s.io", _) | (_, "roles" | "clusterroles") => {
            vec![name, text(&o["metadata"]["creationTimestamp"])]
        }
        _ => vec![name, age],
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn text(value: &Value) -> Value {
    json!(plain(value))
}

fn or_none(value: &Value) -> Value {
    let text = plain(value);
    json!(if text.is_empty() { "<none>".to_owned() } else { text })
}

fn pairs(map: &Value) -> String {
    let all: Vec<String> = map.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", plain(v))).collect();
    if all.is_empty() { "<none>".into() } else { all.join(",") }
}

fn ports(list: &Value) -> String {
    let one = |p: &Value| match p["nodePort"].as_i64() {
        Some(node) if node != 0 => format!("{}:{node}/{}", p["port"], plain(&p["protocol"])),
        _ => format!("{}/{}", p["port"], plain(&p["protocol"])),
    };
    let all: Vec<String> = list.as_array().into_iter().flatten().map(one).collect();
    if all.is_empty() { "<none>".into() } else { all.join(",") }
}

fn external_address(service: &Value) -> Value {
    let addresses = |v: &Value| {
        let all = v.as_array().into_iter().flatten();
        all.map(|a| a["ip"].as_str().or(a["hostname"].as_str()).or(a.as_str()).unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    let mut all = addresses(&service["spec"]["externalIPs"]);
    match service["spec"]["type"].as_str() {
        Some("ExternalName") => return text(&service["spec"]["externalName"]),
        Some("LoadBalancer") => {
            all.extend(addresses(&service["status"]["loadBalancer"]["ingress"]));
            if all.is_empty() {
                return json!("<pending>");
            }
        }
        _ => {}
    }
    json!(if all.is_empty() { "<none>".to_owned() } else { all.join(",") })
}

fn pod(o: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let total = o["spec"]["containers"].as_array().map_or(0, Vec::len);
    let statuses = || o["status"]["containerStatuses"].as_array().into_iter().flatten();
    let ready = statuses().filter(|s| s["ready"] == true).count();
    let restarts: i64 = statuses().filter_map(|s| s["restartCount"].as_i64()).sum();
    let last = statuses().filter_map(|s| s["lastState"]["terminated"]["finishedAt"].as_str()).max();
    let restarts = match last {
        Some(at) if restarts > 0 => json!(format!("{restarts} ({} ago)", age_of(&json!(at), now))),
        _ => json!(restarts.to_string()),
    };
    vec![
        name,
        json!(format!("{ready}/{total}")),
        json!(pod_status(o)),
        restarts,
        age,
        or_none(&o["status"]["podIP"]),
        or_none(&o["spec"]["nodeName"]),
        or_none(&o["status"]["nominatedNodeName"]),
        json!("<none>"),
    ]
}

/// The one word that `kubectl get pods` has for a pod.
fn pod_status(o: &Value) -> String {
    let status = &o["status"];
    let mut word =
        status["reason"].as_str().filter(|r| !r.is_empty()).map_or_else(|| plain(&status["phase"]), str::to_owned);
    let mut initializing = false;
    let inits = o["spec"]["initContainers"].as_array().map_or(0, Vec::len);
    for (i, c) in status["initContainerStatuses"].as_array().into_iter().flatten().enumerate() {
        let state = &c["state"];
        if state["terminated"]["exitCode"] == 0 {
            continue;
        }
        word = if state["terminated"].is_object() {
            match state["terminated"]["reason"].as_str().filter(|r| !r.is_empty()) {
                Some(reason) => format!("Init:{reason}"),
                None => format!("Init:ExitCode:{}", state["terminated"]["exitCode"]),
            }
        } else if let Some(reason) =
            state["waiting"]["reason"].as_str().filter(|r| !r.is_empty() && *r != "PodInitializing")
        {
            format!("Init:{reason}")
        } else {
            format!("Init:{i}/{inits}")
        };
        initializing = true;
        break;
    }
    if !initializing {
        let mut running = false;
        for c in status["containerStatuses"].as_array().into_iter().flatten().rev() {
            let state = &c["state"];
            if let Some(reason) = state["waiting"]["reason"].as_str().filter(|r| !r.is_empty()) {
                word = reason.to_owned();
            } else if let Some(reason) = state["terminated"]["reason"].as_str().filter(|r| !r.is_empty()) {
                word = reason.to_owned();
            } else if state["terminated"].is_object() {
                word = format!("ExitCode:{}", state["terminated"]["exitCode"]);
            } else if c["ready"] == true && state["running"].is_object() {
                running = true;
            }
        }
        if word == "Completed" && running {
            let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
            let ready = status["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready));
            word = if ready { "Running".into() } else { "NotReady".into() };
        }
    }
    if object::is_deleting(o) {
        word = if status["reason"] == "NodeLost" { "Unknown".into() } else { "Terminating".into() };
    }
    word
}

fn access_modes(list: &Value) -> String {
    let short = |mode: &Value| {
        Some(match mode.as_str()? {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            _ => return None,
        })
    };
    list.as_array().into_iter().flatten().filter_map(short).collect::<Vec<_>>().join(",")
}

fn claim(o: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&o["spec"], &o["status"]);
    let phase = if object::is_deleting(o) { json!("Terminating") } else { text(&status["phase"]) };
    let bound = !plain(&spec["volumeName"]).is_empty();
    let capacity = if bound { text(&status["capacity"]["storage"]) } else { json!("") };
    let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
    let class = text(&spec["storageClassName"]);
    vec![
        name,
        phase,
        text(&spec["volumeName"]),
        capacity,
        json!(modes),
        class,
        json!("<unset>"),
        age,
        text(&spec["volumeMode"]),
    ]
}

fn volume(o: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &o["spec"];
    let phase = if object::is_deleting(o) { json!("Terminating") } else { text(&o["status"]["phase"]) };
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", plain(&claim["namespace"]), plain(&claim["name"]))
    } else {
        String::new()
    };
    vec![
        name,
        text(&spec["capacity"]["storage"]),
        json!(access_modes(&spec["accessModes"])),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase,
        json!(claim),
        text(&spec["storageClassName"]),
        json!("<unset>"),
        text(&o["status"]["reason"]),
        age,
        text(&spec["volumeMode"]),
    ]
}

fn node(o: &Value, name: Value, age: Value) -> Vec<Value> {
    let conditions = o["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| c["status"] == "True") {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if o["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let labels = o["metadata"]["labels"].as_object();
    let roles: Vec<&str> =
        labels.into_iter().flatten().filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/")).collect();
    let roles = if roles.is_empty() { "<none>".into() } else { roles.join(",") };
    let address = |kind: &str| {
        let all = o["status"]["addresses"].as_array();
        all.into_iter().flatten().find(|a| a["type"] == kind).map_or(Value::Null, |a| a["address"].clone())
    };
    vec![
        name,
        json!(status),
        json!(roles),
        age,
        text(&o["status"]["nodeInfo"]["kubeletVersion"]),
        or_none(&address("InternalIP")),
        or_none(&address("ExternalIP")),
    ]
}

fn event(o: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let first = [&o["firstTimestamp"], &o["eventTime"], &o["metadata"]["creationTimestamp"]];
    let first = first.into_iter().find(|t| t.is_string()).unwrap_or(&Value::Null);
    let last = [&o["series"]["lastObservedTime"], &o["lastTimestamp"]];
    let last = last.into_iter().find(|t| t.is_string()).unwrap_or(first);
    let count = o["series"]["count"].as_i64().or(o["count"].as_i64()).unwrap_or(1);
    let about = if o["regarding"].is_object() { &o["regarding"] } else { &o["involvedObject"] };
    let target = format!("{}/{}", plain(&about["kind"]).to_lowercase(), plain(&about["name"]));
    let source = [&o["source"]["component"], &o["reportingComponent"], &o["reportingController"]];
    let source = source.into_iter().find(|s| s.as_str().is_some_and(|s| !s.is_empty())).unwrap_or(&Value::Null);
    let message = if o["note"].is_string() { &o["note"] } else { &o["message"] };
    vec![
        json!(age_of(last, now)),
        text(&o["type"]),
        text(&o["reason"]),
        json!(target),
        text(&about["fieldPath"]),
        text(source),
        json!(plain(message).trim()),
        json!(age_of(first, now)),
        json!(count),
        name,
    ]
}

fn endpoints(o: &Value) -> String {
    let mut all = Vec::new();
    for subset in o["subsets"].as_array().into_iter().flatten() {
        for address in subset["addresses"].as_array().into_iter().flatten() {
            let ip = plain(&address["ip"]);
            let ports = subset["ports"].as_array().cloned().unwrap_or_default();
            if ports.is_empty() {
                all.push(ip.clone());
            }
            all.extend(ports.iter().map(|p| format!("{ip}:{}", p["port"])));
        }
    }
    match all.len() {
        0 => "<none>".into(),
        1..=3 => all.join(","),
        n => format!("{} + {} more...", all[..3].join(","), n - 3),
    }
}

fn slice(o: &Value, name: Value, age: Value) -> Vec<Value> {
    let list = |all: Vec<String>| if all.is_empty() { "<unset>".to_owned() } else { all.join(",") };
    let ports = o["ports"].as_array().into_iter().flatten().map(|p| plain(&p["port"])).collect();
    let addresses =
        o["endpoints"].as_array().into_iter().flatten().flat_map(|e| e["addresses"].as_array().into_iter().flatten());
    vec![name, text(&o["addressType"]), json!(list(ports)), json!(list(addresses.map(plain).collect())), age]
}

fn class(o: &Value, age: Value) -> Vec<Value> {
    let default = object::annotation(o, "storageclass.kubernetes.io/is-default-class") == Some("true");
    let name = if default { format!("{} (default)", object::name(o)) } else { object::name(o).to_owned() };
    let expands = json!(o["allowVolumeExpansion"] == true);
    vec![json!(name), text(&o["provisioner"]), text(&o["reclaimPolicy"]), text(&o["volumeBindingMode"]), expands, age]
}

fn ready_of(o: &Value) -> Value {
    let number = |v: &Value| v.as_i64().unwrap_or(0);
    json!(format!("{}/{}", number(&o["status"]["readyReplicas"]), number(&o["spec"]["replicas"])))
}

fn job(o: &Value, name: Value, age: Value) -> Vec<Value> {
    let done = |kind: &str| {
        let all = o["status"]["conditions"].as_array();
        all.is_some_and(|all| all.iter().any(|c| c["type"] == kind && c["status"] == "True"))
    };
    let status = match (done("Complete"), done("Failed"), o["spec"]["suspend"] == true) {
        (true, _, _) => "Complete",
        (_, true, _) => "Failed",
        (_, _, true) => "Suspended",
        _ => "Running",
    };
    let finished = o["status"]["succeeded"].as_i64().unwrap_or(0);
    vec![name, json!(status), json!(format!("{finished}/{}", o["spec"]["completions"])), age]
}
