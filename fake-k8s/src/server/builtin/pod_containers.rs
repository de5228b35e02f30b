//! The containers of a pod: those that run, those that run before, and those that look in later.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::checks::{Faults, PROTOCOLS, count, items, number, text};
use super::pod_volumes::{Volumes, check_no_backsteps, check_relative};
use super::{pod_env, pod_probes, pod_resources, pod_security};

/// What containers are checked against.
pub struct Surroundings<'a> {
    pub volumes: Volumes<'a>,
    pub claims: BTreeSet<&'a str>,
    pub spec: &'a Value,
}

/// Checks the containers that run for as long as the pod does.
pub fn check_main(faults: &mut Faults, at: &str, around: &Surroundings<'_>) {
    let (list, at) = (&around.spec["containers"], format!("{at}.containers"));
    if count(list) == 0 {
        return faults.required(at, "");
    }
    let mut names = BTreeSet::new();
    for (i, container) in items(list) {
        let (at, name) = (format!("{at}[{i}]"), text(&container["name"]));
        check_common(faults, &at, container, around);
        if !names.insert(name) {
            faults.duplicate(format!("{at}.name"), name);
        }
        pod_probes::check(faults, &at, container, &around.spec["terminationGracePeriodSeconds"]);
        if !container["restartPolicy"].is_null() {
            faults.forbidden(format!("{at}.restartPolicy"), "may not be set for non-init containers");
        }
    }
    check_host_ports(faults, items(list).map(|(i, container)| (format!("{at}[{i}]"), container)));
}

/// Checks the containers that run before the others.
pub fn check_init(faults: &mut Faults, at: &str, around: &Surroundings<'_>) {
    let mut names: BTreeSet<&str> =
        items(&around.spec["containers"]).map(|(_, container)| text(&container["name"])).collect();
    let list = format!("{at}.initContainers");
    for (i, container) in items(&around.spec["initContainers"]) {
        let (at, name) = (format!("{list}[{i}]"), text(&container["name"]));
        check_common(faults, &at, container, around);
        let policy = &container["restartPolicy"];
        if !policy.is_null() {
            faults.one_of(format!("{at}.restartPolicy"), policy, &["Always"]);
        }
        if names.contains(name) {
            faults.duplicate(format!("{at}.name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Each is looked at alone, so each is the first of its list.
        check_host_ports(faults, std::iter::once((format!("{list}[0]"), container)));
        if policy == "Always" {
            pod_probes::check(faults, &at, container, &around.spec["terminationGracePeriodSeconds"]);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !container[field].is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                faults.forbidden(format!("{at}.{field}"), why);
            }
        }
    }
}

/// Checks the containers that were added to look into the pod.
pub fn check_ephemeral(faults: &mut Faults, at: &str, around: &Surroundings<'_>) {
    const BARRED: &[&str] = &["ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    let names_of = |list: &str| items(&around.spec[list]).map(|(_, c)| text(&c["name"]));
    let others: BTreeSet<&str> = names_of("containers").chain(names_of("initContainers")).collect();
    let mut names = others.clone();
    for (i, container) in items(&around.spec["ephemeralContainers"]) {
        let (at, name) = (format!("{at}.ephemeralContainers[{i}]"), text(&container["name"]));
        check_common(faults, &at, container, around);
        check_image(faults, &at, container);
        if !names.insert(name) {
            faults.duplicate(format!("{at}.name"), name);
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            faults.not_found(format!("{at}.targetContainerName"), target);
        }
        let barred = "cannot be set for an Ephemeral Container";
        for field in BARRED.iter().filter(|field| !container[**field].is_null()) {
            faults.forbidden(format!("{at}.{field}"), barred);
        }
        for (j, mount) in items(&container["volumeMounts"]) {
            for field in ["subPath", "subPathExpr"].into_iter().filter(|field| !text(&mount[*field]).is_empty()) {
                faults.forbidden(format!("{at}.volumeMounts[{j}].{field}"), barred);
            }
        }
    }
}

/// In a pod, but not in a template, an image stands without blanks around it.
pub fn check_image(faults: &mut Faults, at: &str, container: &Value) {
    let image = text(&container["image"]);
    if image.trim().len() != image.len() {
        faults.invalid(format!("{at}.image"), image, "must not have leading or trailing whitespace");
    }
}

fn check_common(faults: &mut Faults, at: &str, container: &Value, around: &Surroundings<'_>) {
    match text(&container["name"]) {
        "" => faults.required(format!("{at}.name"), ""),
        name => faults.label(format!("{at}.name"), name),
    }
    if text(&container["image"]).is_empty() {
        faults.required(format!("{at}.image"), "");
    }
    let (policy, policies) = (&container["terminationMessagePolicy"], ["File", "FallbackToLogsOnError"]);
    faults.required_one_of(format!("{at}.terminationMessagePolicy"), policy, &policies);
    check_ports(faults, &format!("{at}.ports"), &container["ports"]);
    pod_env::check(faults, at, container);
    check_mounts(faults, &format!("{at}.volumeMounts"), container, around);
    check_devices(faults, &format!("{at}.volumeDevices"), container, around);
    let policies = ["Always", "IfNotPresent", "Never"];
    faults.required_one_of(format!("{at}.imagePullPolicy"), &container["imagePullPolicy"], &policies);
    pod_resources::check(faults, &format!("{at}.resources"), &container["resources"], &around.claims);
    check_resizing(faults, &format!("{at}.resizePolicy"), container, around.spec);
    let security = format!("{at}.securityContext");
    pod_security::check_container(faults, &security, &container["securityContext"], around.spec);
}

fn check_ports(faults: &mut Faults, at: &str, ports: &Value) {
    let mut names = BTreeSet::new();
    for (i, port) in items(ports) {
        let (at, name) = (format!("{at}[{i}]"), text(&port["name"]));
        if !name.is_empty() && !faults.port_name(&format!("{at}.name"), name) && !names.insert(name) {
            faults.duplicate(format!("{at}.name"), name);
        }
        match number(&port["containerPort"]) {
            0 => faults.required(format!("{at}.containerPort"), ""),
            port => faults.port_number(format!("{at}.containerPort"), port),
        }
        let host = number(&port["hostPort"]);
        if host != 0 {
            faults.port_number(format!("{at}.hostPort"), host);
        }
        faults.required_one_of(format!("{at}.protocol"), &port["protocol"], PROTOCOLS);
    }
}

fn check_host_ports<'a>(faults: &mut Faults, containers: impl Iterator<Item = (String, &'a Value)>) {
    let mut taken = BTreeSet::new();
    for (at, container) in containers {
        for (i, port) in items(&container["ports"]).filter(|(_, port)| number(&port["hostPort"]) != 0) {
            let (protocol, ip) = (text(&port["protocol"]), text(&port["hostIP"]));
            let key = format!("{protocol}/{ip}/{}", number(&port["hostPort"]));
            if taken.contains(&key) {
                faults.duplicate(format!("{at}.ports[{i}].hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn by_name<'a>(list: &'a Value, field: &str) -> BTreeMap<&'a str, &'a str> {
    items(list).map(|(_, entry)| (text(&entry["name"]), text(&entry[field]))).collect()
}

fn check_mounts(faults: &mut Faults, list: &str, container: &Value, around: &Surroundings<'_>) {
    let devices = by_name(&container["volumeDevices"], "devicePath");
    let mut places = BTreeSet::new();
    for (i, mount) in items(&container["volumeMounts"]) {
        let (at, name, place) = (format!("{list}[{i}]"), text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            faults.required(format!("{at}.name"), "");
        }
        if !around.volumes.contains_key(name) {
            faults.not_found(format!("{at}.name"), name);
        }
        if place.is_empty() {
            faults.required(format!("{at}.mountPath"), "");
        }
        if !places.insert(place) {
            faults.invalid(format!("{at}.mountPath"), place, "must be unique");
        }
        if devices.contains_key(name) {
            faults.invalid(format!("{at}.name"), name, "must not already exist in volumeDevices");
        }
        if devices.values().any(|path| *path == place) {
            let why = "must not already exist as a path in volumeDevices";
            faults.invalid(format!("{at}.mountPath"), place, why);
        }
        check_sub_paths(faults, list, &at, mount);
        check_mount_modes(faults, list, mount, container);
    }
}

fn check_sub_paths(faults: &mut Faults, list: &str, at: &str, mount: &Value) {
    let (path, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
    if !path.is_empty() {
        check_relative(faults, &format!("{list}.subPath"), path);
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            faults.invalid(format!("{at}.subPathExpr"), expression, why);
        }
        check_relative(faults, &format!("{list}.subPathExpr"), expression);
    }
}

fn check_mount_modes(faults: &mut Faults, list: &str, mount: &Value, container: &Value) {
    let propagation = &mount["mountPropagation"];
    if !propagation.is_null() {
        let at = format!("{list}.mountPropagation");
        faults.one_of(&at, propagation, &["Bidirectional", "HostToContainer", "None"]);
        if propagation == "Bidirectional" && container["securityContext"]["privileged"] != true {
            faults.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
        }
    }
    let at = format!("{list}.recursiveReadOnly");
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                faults.forbidden(&at, "may only be specified when readOnly is true");
            }
            if !propagation.is_null() && propagation != "None" {
                faults.forbidden(at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => {
            faults.not_supported(at, &mount["recursiveReadOnly"], &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

fn check_devices(faults: &mut Faults, list: &str, container: &Value, around: &Surroundings<'_>) {
    let mounts = by_name(&container["volumeMounts"], "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in items(&container["volumeDevices"]) {
        let (at, name, path) = (format!("{list}[{i}]"), text(&device["name"]), text(&device["devicePath"]));
        if name.is_empty() {
            faults.required(format!("{at}.name"), "");
        }
        if names.contains(name) {
            faults.invalid(format!("{at}.name"), name, "must be unique");
        }
        match around.volumes.get(name) {
            None => faults.not_found(format!("{at}.name"), name),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                faults.invalid(format!("{at}.name"), name, why);
            }
            Some(_) => {}
        }
        if path.is_empty() {
            faults.required(format!("{at}.devicePath"), "");
        }
        if paths.contains(path) {
            faults.invalid(format!("{at}.devicePath"), path, "must be unique");
        }
        let mut steps = Faults::default();
        check_no_backsteps(&mut steps, "", path);
        if steps.0.is_empty() {
            paths.insert(path);
        } else {
            faults.invalid(format!("{at}.devicePath"), path, "can not contain backsteps ('..')");
        }
        if mounts.contains_key(name) {
            faults.invalid(format!("{at}.name"), name, "must not already exist in volumeMounts");
        }
        if mounts.values().any(|place| *place == path) {
            faults.invalid(format!("{at}.devicePath"), path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn check_resizing(faults: &mut Faults, at: &str, container: &Value, spec: &Value) {
    let mut seen = BTreeSet::new();
    for (i, policy) in items(&container["resizePolicy"]) {
        let (resource, restart) = (&policy["resourceName"], &policy["restartPolicy"]);
        if !seen.insert(text(resource)) {
            faults.duplicate(format!("{at}[{i}]"), resource.clone());
        }
        faults.required_one_of(at, resource, &["cpu", "memory"]);
        faults.required_one_of(at, restart, &["NotRequired", "RestartContainer"]);
        if spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            faults.invalid(at, restart.clone(), "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}
