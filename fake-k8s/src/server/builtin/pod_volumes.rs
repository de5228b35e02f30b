//! The volumes of a pod.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::checks::{Faults, items, number, text};
use super::pod_env::{check_field_ref, check_resource_ref};
use crate::server::quantities::Quantity;

/// The sources that there are, in the order in which they are looked at.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];
const HOST_PATHS: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The volumes that are in order, by their names: only those can be mounted.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Checks all volumes of a pod's spec; the pod's name is known unless this is a template.
pub fn check<'a>(faults: &mut Faults, at: &str, spec: &'a Value, pod: Option<&str>) -> Volumes<'a> {
    let claim_of = |volume: &str| pod.filter(|p| !p.is_empty()).map(|pod| format!("{pod}-{volume}"));
    let ephemeral = items(&spec["volumes"]).filter(|(_, v)| !v["ephemeral"].is_null());
    let made: BTreeSet<String> = ephemeral.filter_map(|(_, v)| claim_of(text(&v["name"]))).collect();
    let mut known = Volumes::new();
    for (i, volume) in items(&spec["volumes"]) {
        let (at, name) = (format!("{at}.volumes[{i}]"), text(&volume["name"]));
        let mut own = Faults::default();
        check_source(&mut own, &at, volume);
        if !volume["ephemeral"].is_null()
            && let Some(claim) = claim_of(name)
            && let Some(why) = crate::server::metadata::subdomain_fault(&claim)
        {
            own.invalid(format!("{at}.name"), name, format!("PVC name {claim:?}: {why}"));
        }
        if name.is_empty() {
            own.required(format!("{at}.name"), "");
        } else {
            own.label(format!("{at}.name"), name);
        }
        if known.contains_key(name) {
            own.duplicate(format!("{at}.name"), name);
        }
        if own.0.is_empty() {
            known.insert(name, volume);
        }
        faults.0.append(&mut own.0);
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if made.contains(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            faults.invalid(format!("{at}.persistentVolumeClaim.claimName"), claim, why);
        }
    }
    known
}

fn check_source(faults: &mut Faults, at: &str, volume: &Value) {
    let mut found = 0;
    for source in SOURCES.iter().filter(|source| !volume[**source].is_null()) {
        if found > 0 {
            let named = match *source {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            faults.forbidden(format!("{at}.{named}"), "may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        check_one(faults, &format!("{at}.{source}"), source, &volume[*source]);
    }
    if found == 0 && volume["image"].is_null() {
        faults.required(at, "must specify a volume type");
    }
}

fn check_one(faults: &mut Faults, at: &str, kind: &str, source: &Value) {
    match kind {
        "emptyDir" if Quantity::of(&source["sizeLimit"]).is_some_and(Quantity::is_negative) => {
            faults.forbidden(format!("{at}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "hostPath" => check_host_path(faults, at, source),
        "secret" => check_files(faults, at, source, "secretName"),
        "configMap" => check_files(faults, at, source, "name"),
        "persistentVolumeClaim" => require(faults, at, source, "claimName"),
        "nfs" => {
            require(faults, at, source, "server");
            require(faults, at, source, "path");
            if !text(&source["path"]).starts_with('/') {
                faults.invalid(format!("{at}.path"), text(&source["path"]), "must be an absolute path");
            }
        }
        "downwardAPI" => {
            check_mode(faults, format!("{at}.defaultMode"), &source["defaultMode"]);
            items(&source["items"]).for_each(|(_, file)| check_downward_file(faults, at, file));
        }
        "projected" => {
            check_mode(faults, format!("{at}.defaultMode"), &source["defaultMode"]);
            check_projections(faults, at, source);
        }
        "csi" => check_driver(faults, at, source),
        "ephemeral" if source["volumeClaimTemplate"].is_null() => {
            faults.required(format!("{at}.volumeClaimTemplate"), "");
        }
        _ => {}
    }
}

fn require(faults: &mut Faults, at: &str, source: &Value, field: &str) {
    if text(&source[field]).is_empty() {
        faults.required(format!("{at}.{field}"), "");
    }
}

fn check_host_path(faults: &mut Faults, at: &str, source: &Value) {
    let path = text(&source["path"]);
    if path.is_empty() {
        return faults.required(format!("{at}.path"), "");
    }
    check_no_backsteps(faults, &format!("{at}.path"), path);
    faults.one_of(format!("{at}.type"), &source["type"], HOST_PATHS);
}

fn check_mode(faults: &mut Faults, at: String, mode: &Value) {
    if !(0..=0o777).contains(&number(mode)) {
        faults.invalid(at, number(mode), MODE);
    }
}

fn check_files(faults: &mut Faults, at: &str, source: &Value, name: &str) {
    require(faults, at, source, name);
    check_mode(faults, format!("{at}.defaultMode"), &source["defaultMode"]);
    for (i, file) in items(&source["items"]) {
        check_key_to_path(faults, &format!("{at}.items[{i}]"), file);
    }
}

fn check_key_to_path(faults: &mut Faults, at: &str, file: &Value) {
    require(faults, at, file, "key");
    require(faults, at, file, "path");
    check_own_path(faults, &format!("{at}.path"), text(&file["path"]));
    check_mode(faults, format!("{at}.mode"), &file["mode"]);
}

fn check_downward_file(faults: &mut Faults, at: &str, file: &Value) {
    const FIELDS: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    require(faults, at, file, "path");
    check_own_path(faults, &format!("{at}.path"), text(&file["path"]));
    if !file["fieldRef"].is_null() {
        check_field_ref(faults, &format!("{at}.fieldRef"), &file["fieldRef"], FIELDS);
        if !file["resourceFieldRef"].is_null() {
            faults.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if !file["resourceFieldRef"].is_null() {
        check_resource_ref(faults, &format!("{at}.resourceFieldRef"), &file["resourceFieldRef"], true);
    } else {
        faults.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    check_mode(faults, format!("{at}.mode"), &file["mode"]);
}

fn check_projections(faults: &mut Faults, at: &str, projected: &Value) {
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for (i, source) in items(&projected["sources"]) {
        let here = format!("{at}.sources[{i}]");
        let mut found = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            let (part, here) = (&source[kind], format!("{here}.{kind}"));
            if part.is_null() {
                continue;
            }
            found += 1;
            match kind {
                "downwardAPI" => items(&part["items"]).for_each(|(_, file)| check_downward_file(faults, &here, file)),
                "serviceAccountToken" => check_token(faults, at, &here, part),
                _ => {
                    require(faults, &here, part, "name");
                    let files = items(&part["items"]);
                    files.for_each(|(j, file)| check_key_to_path(faults, &format!("{here}.items[{j}]"), file));
                }
            }
            let shown =
                |path: &str| if kind == "downwardAPI" { path.to_owned() } else { text(&part["name"]).to_owned() };
            for path in items(&part["items"]).map(|(_, file)| text(&file["path"])).filter(|path| !path.is_empty()) {
                if !paths.insert(path) {
                    faults.invalid(at, shown(path), "conflicting duplicate paths");
                }
            }
        }
        if found > 1 {
            faults.forbidden(here, "may not specify more than 1 volume type per source");
        }
    }
}

fn check_token(faults: &mut Faults, volume: &str, at: &str, token: &Value) {
    let seconds = number(&token["expirationSeconds"]);
    if seconds < 600 {
        faults.invalid(format!("{at}.expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        let why = "may not specify a duration larger than 2^32 seconds";
        faults.invalid(format!("{at}.expirationSeconds"), seconds, why);
    }
    if text(&token["path"]).is_empty() {
        faults.required(format!("{volume}.path"), "");
    } else {
        check_own_path(faults, &format!("{volume}.path"), text(&token["path"]));
    }
}

fn check_driver(faults: &mut Faults, at: &str, source: &Value) {
    let driver = text(&source["driver"]);
    require(faults, at, source, "driver");
    if driver.len() > 63 {
        faults.too_long(format!("{at}.driver"), 63);
    }
    let why = crate::server::metadata::subdomain_fault(&driver.to_lowercase());
    faults.fault(format!("{at}.driver"), driver, why);
    let secret = &source["nodePublishSecretRef"];
    if !secret.is_null() {
        match text(&secret["name"]) {
            "" => faults.required(format!("{at}.nodePublishSecretRef.name"), ""),
            name => faults.subdomain(format!("{at}.name"), name),
        }
    }
}

/// A path that leads upwards is none.
pub fn check_no_backsteps(faults: &mut Faults, at: &str, path: &str) {
    if path.split('/').any(|step| step == "..") {
        faults.invalid(at, path, "must not contain '..'");
    }
}

/// A path below some other place.
pub fn check_relative(faults: &mut Faults, at: &str, path: &str) {
    if path.starts_with('/') {
        faults.invalid(at, path, "must be a relative path");
    }
    check_no_backsteps(faults, at, path);
}

/// A path below a volume; names that begin with two dots are used by the kubelet.
fn check_own_path(faults: &mut Faults, at: &str, path: &str) {
    check_relative(faults, at, path);
    if path.starts_with("..") && !path.starts_with("../") {
        faults.invalid(at, path, "must not start with '..'");
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_checked() {
        let said = |volumes: Value| {
            let mut faults = Faults::default();
            let spec = json!({"volumes": volumes});
            let known = check(&mut faults, "spec", &spec, Some("pod")).len();
            (known, faults.0.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(said(json!([{"name": "a", "emptyDir": {}}])), (1, vec![]));
        for (volume, why) in [
            (json!({"emptyDir": {}}), "spec.volumes[0].name: Required value"),
            (json!({"name": "a", "secret": {}}), "spec.volumes[0].secret.secretName: Required value"),
            (
                json!({"name": "a", "emptyDir": {}, "configMap": {"name": "x"}}),
                "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
            ),
            (
                json!({"name": "a", "hostPath": {"path": "/a/../b", "type": ""}}),
                "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ),
            (
                json!({"name": "a", "configMap": {"name": "x", "defaultMode": 1000}}),
                "spec.volumes[0].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive",
            ),
        ] {
            assert_eq!(said(json!([volume])), (0, vec![why.to_owned()]));
        }
        let twice = said(json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]));
        assert_eq!(twice, (1, vec!["spec.volumes[1].name: Duplicate value: \"a\"".to_owned()]));
    }
}
