//! Persistent volumes: their sources, capacity and class, and what of them may not change.
use serde_json::{Value, json};

use super::bounds::{immutable, one_of};
use super::checks::Faults;
use super::claims::{VOLUME_MODES, default_amounts, validate_class_name, validate_modes};
use super::shape::{self, Part, Shape};
use super::unified_diff::unified_diff;
use super::{drop_empty, set_default};
use crate::server::quantities::Quantity;
use crate::server::{FieldError, object};

/// The kinds of volumes, in the order in which they are looked for, with the names that messages have for them.
const SOURCES: &[(&str, &str)] = &[
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Those for which the old annotation of mount options is not refused.
const MOUNTED: &[&str] = &[
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// What no longer works, with what is said of it.
const RETIRED: &[(&str, &str, &str)] = &[
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECRET: &[Part] = &[Part("Name", "name", Shape::Text), Part("Namespace", "namespace", Shape::Text)];
const SOURCE_SHAPE: &[Part] = &[
    Part("GCEPersistentDisk", "gcePersistentDisk", Shape::Open),
    Part("AWSElasticBlockStore", "awsElasticBlockStore", Shape::Open),
    Part(
        "HostPath",
        "hostPath",
        Shape::Pointer(&[Part("Path", "path", Shape::Text), Part("Type", "type", Shape::Open)]),
    ),
    Part("Glusterfs", "glusterfs", Shape::Open),
    Part(
        "NFS",
        "nfs",
        Shape::Pointer(&[
            Part("Server", "server", Shape::Text),
            Part("Path", "path", Shape::Text),
            Part("ReadOnly", "readOnly", Shape::Flag),
        ]),
    ),
    Part("RBD", "rbd", Shape::Open),
    Part("Quobyte", "quobyte", Shape::Open),
    Part("ISCSI", "iscsi", Shape::Open),
    Part("FlexVolume", "flexVolume", Shape::Open),
    Part("Cinder", "cinder", Shape::Open),
    Part("CephFS", "cephfs", Shape::Open),
    Part("FC", "fc", Shape::Open),
    Part("Flocker", "flocker", Shape::Open),
    Part("AzureFile", "azureFile", Shape::Open),
    Part("VsphereVolume", "vsphereVolume", Shape::Open),
    Part("AzureDisk", "azureDisk", Shape::Open),
    Part("PhotonPersistentDisk", "photonPersistentDisk", Shape::Open),
    Part("PortworxVolume", "portworxVolume", Shape::Open),
    Part("ScaleIO", "scaleIO", Shape::Open),
    Part("Local", "local", Shape::Pointer(&[Part("Path", "path", Shape::Text), Part("FSType", "fsType", Shape::Open)])),
    Part("StorageOS", "storageos", Shape::Open),
    Part(
        "CSI",
        "csi",
        Shape::Pointer(&[
            Part("Driver", "driver", Shape::Text),
            Part("VolumeHandle", "volumeHandle", Shape::Text),
            Part("ReadOnly", "readOnly", Shape::Flag),
            Part("FSType", "fsType", Shape::Text),
            Part("VolumeAttributes", "volumeAttributes", Shape::Open),
            Part("ControllerPublishSecretRef", "controllerPublishSecretRef", Shape::Pointer(SECRET)),
            Part("NodeStageSecretRef", "nodeStageSecretRef", Shape::Pointer(SECRET)),
            Part("NodePublishSecretRef", "nodePublishSecretRef", Shape::Pointer(SECRET)),
            Part("ControllerExpandSecretRef", "controllerExpandSecretRef", Shape::Pointer(SECRET)),
            Part("NodeExpandSecretRef", "nodeExpandSecretRef", Shape::Pointer(SECRET)),
        ]),
    ),
];

pub fn default_volume(volume: &mut Value) {
    let spec = object::entry_object(volume, "spec");
    set_default(spec, "volumeMode", json!("Filesystem"));
    if let Some(path) = spec.get_mut("hostPath").and_then(Value::as_object_mut) {
        set_default(path, "type", json!(""));
    }
    if spec.get("persistentVolumeReclaimPolicy").is_none_or(|policy| policy.is_null() || policy == "") {
        spec.insert("persistentVolumeReclaimPolicy".into(), json!("Retain"));
    }
    default_amounts(&mut volume["spec"], &["capacity"]);
    drop_empty(&mut volume["spec"], &["storageClassName", "mountOptions"]);
    set_default(object::entry_object(volume, "status"), "phase", json!("Pending"));
    drop_empty(&mut volume["status"], &["message", "reason"]);
}

pub fn validate_volume(volume: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &volume["spec"];
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        faults.required("spec.accessModes", "");
    }
    validate_modes(&spec["accessModes"], &mut faults);
    validate_capacity(&spec["capacity"], &mut faults);
    let policies = ["Delete", "Recycle", "Retain"];
    faults.0.extend(one_of(&spec["persistentVolumeReclaimPolicy"], "spec.persistentVolumeReclaimPolicy", &policies));
    let affinity = &spec["nodeAffinity"];
    if affinity.is_object() {
        let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
        if !affinity["required"].is_object() {
            faults.required("spec.nodeAffinity.required", "must specify required node constraints");
        } else if affinity["required"]["nodeSelectorTerms"].as_array().is_none_or(Vec::is_empty) {
            faults.required(terms, "must have at least one node selector term");
        }
    }
    validate_sources(spec, &mut faults);
    let root = spec["hostPath"]["path"]
        .as_str()
        .is_some_and(|path| path.starts_with('/') && path.trim_matches('/').is_empty());
    if root && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        faults.forbidden("spec.persistentVolumeReclaimPolicy", detail);
    }
    validate_class_name(&spec["storageClassName"], "spec.storageClassName", &mut faults);
    faults.0.extend(one_of(&spec["volumeMode"], "spec.volumeMode", VOLUME_MODES));
    if let Some(class) = spec["volumeAttributesClassName"].as_str() {
        if class.is_empty() {
            faults.required("spec.volumeAttributesClassName", "an empty string is disallowed");
        }
        validate_class_name(&spec["volumeAttributesClassName"], "spec.volumeAttributesClassName", &mut faults);
        if spec["csi"].is_null() {
            faults.required("spec.csi", "has to be specified when using volumeAttributesClassName");
        }
    }
    faults.0
}

fn validate_capacity(capacity: &Value, faults: &mut Faults) {
    let amounts = capacity.as_object().cloned().unwrap_or_default();
    if amounts.is_empty() {
        faults.required("spec.capacity", "");
    }
    if !amounts.contains_key("storage") || amounts.len() > 1 {
        let words = ["storage".to_owned()];
        let error = FieldError::not_supported("spec.capacity", capacity.clone(), &words);
        faults.0.push(if capacity.is_null() { error.printed("null") } else { error });
    }
    for (name, amount) in &amounts {
        let path = format!("spec.capacity[{name}]");
        match Quantity::of(amount) {
            Some(quantity) if quantity.is_negative() => {
                let whole =
                    amount.as_str().and_then(|text| text.parse::<i64>().ok()).map_or(amount.clone(), Value::from);
                faults.invalid(&path, whole, "must be a valid resource quantity");
                faults.invalid(path, amount.clone(), "must be greater than zero");
            }
            Some(quantity) if quantity.is_zero() => {
                faults.invalid(path, amount.clone(), "must be greater than zero");
            }
            _ => {}
        }
    }
}

fn validate_sources(spec: &Value, faults: &mut Faults) {
    let mut found = 0;
    for (source, name) in SOURCES.iter().filter(|(source, _)| spec[*source].is_object()) {
        if found > 0 && *source != "flexVolume" {
            faults.forbidden(format!("spec.{name}"), "may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        let path = format!("spec.{source}");
        match *source {
            "hostPath" => validate_path(&spec[*source], &path, faults),
            "local" => {
                validate_path(&spec[*source], &path, faults);
                if !spec["nodeAffinity"].is_object() || !spec["nodeAffinity"]["required"].is_object() {
                    faults.required(format!("{path}.nodeAffinity"), "Local volume requires node affinity");
                }
            }
            "nfs" => validate_nfs(&spec[*source], &path, faults),
            "csi" => validate_csi(&spec[*source], &path, faults),
            _ => {}
        }
    }
    if found == 0 {
        faults.required("spec", "must specify a volume type");
    }
}

fn validate_path(source: &Value, path: &str, faults: &mut Faults) {
    let text = source["path"].as_str().unwrap_or_default();
    if text.is_empty() {
        return faults.required(format!("{path}.path"), "");
    }
    if text.split('/').any(|step| step == "..") {
        faults.invalid(format!("{path}.path"), text, "must not contain '..'");
    }
    faults.0.extend(one_of(&source["type"], &format!("{path}.type"), HOST_PATH_TYPES));
}

fn validate_nfs(source: &Value, path: &str, faults: &mut Faults) {
    for field in ["server", "path"] {
        if source[field].as_str().is_none_or(str::is_empty) {
            faults.required(format!("{path}.{field}"), "");
        }
    }
    let text = source["path"].as_str().unwrap_or_default();
    if !text.starts_with('/') {
        faults.invalid(format!("{path}.path"), text, "must be an absolute path");
    }
}

fn validate_csi(source: &Value, path: &str, faults: &mut Faults) {
    let driver = source["driver"].as_str().unwrap_or_default();
    let at = format!("{path}.driver");
    if driver.is_empty() {
        faults.required(&at, "");
    }
    if driver.len() > 63 {
        faults.too_long(&at, 63);
    }
    faults.fault(&at, driver, crate::server::metadata::subdomain_fault(&driver.to_lowercase()));
    if source["volumeHandle"].as_str().is_none_or(str::is_empty) {
        faults.required(format!("{path}.volumeHandle"), "");
    }
    let references =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in references.into_iter().filter(|field| source[*field].is_object()) {
        let text = |part: &str| source[field][part].as_str().unwrap_or_default();
        match text("name") {
            "" => faults.required(format!("{path}.{field}.name"), ""),
            name => faults.subdomain(format!("{path}.{field}.name"), name),
        }
        match text("namespace") {
            "" => faults.required(format!("{path}.{field}.namespace"), ""),
            name => faults.label(format!("{path}.{field}.namespace"), name),
        }
    }
}

/// Mount options as an annotation fit some kinds only.
pub fn validate_mount_options(volume: &Value) -> Option<FieldError> {
    let mounted = MOUNTED.iter().any(|source| volume["spec"][*source].is_object());
    (!mounted && object::annotation(volume, MOUNT_OPTIONS).is_some()).then(|| {
        let path = format!("metadata.annotations.{MOUNT_OPTIONS}");
        FieldError::forbidden(path, "may not specify mount options for this volume type")
    })
}

pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let mut after = new["spec"].clone();
    let secret = "controllerExpandSecretRef";
    if let Some(csi) = after["csi"].as_object_mut()
        && old["spec"]["csi"].is_object()
        && old["spec"]["csi"][secret].is_null()
    {
        csi.remove(secret);
    }
    let [from, to] = [&old["spec"], &after].map(|spec| shape::pretty(Shape::Struct(SOURCE_SHAPE), spec));
    if from != to {
        let detail = "spec.persistentvolumesource is immutable after creation";
        faults.forbidden("spec.persistentvolumesource", format!("{detail}\n{}", unified_diff(&from, &to)));
    }
    faults.0.extend(immutable(&old["spec"]["volumeMode"], &new["spec"]["volumeMode"], "volumeMode"));
    if !old["spec"]["volumeAttributesClassName"].is_null() && new["spec"]["volumeAttributesClassName"].is_null() {
        faults.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden");
    }
    faults.0
}

/// A phase that changes is stamped with the moment, unless the writer names one.
pub fn stamp(old: &Value, new: &mut Value, now: &str) {
    let field = "lastPhaseTransitionTime";
    let same = old["status"]["phase"] == new["status"]["phase"];
    let given = new["status"][field].clone();
    let status = object::entry_object(new, "status");
    if same && given.is_null() {
        object::set_or_remove(status, field, &old["status"][field]);
    } else if !same && (given.is_null() || given == old["status"][field]) {
        status.insert(field.into(), json!(now));
    }
}

pub fn warnings(volume: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (key, what) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        if object::annotation(volume, key).is_some() {
            out.push(format!("metadata.annotations[{key}]: {what}"));
        }
    }
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".into());
    }
    let retired = RETIRED.iter().filter(|(source, _, _)| volume["spec"][*source].is_object());
    out.extend(retired.map(|(_, name, what)| format!("spec.{name}: {what}")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(change: &Value) -> Value {
        let mut volume = json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}});
        json_patch::merge(&mut volume["spec"], change);
        default_volume(&mut volume);
        volume
    }

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rules_of_a_volume() {
        for (change, wrong) in [
            (json!({}), vec![]),
            (json!({"accessModes": null}), vec!["spec.accessModes: Required value"]),
            (
                json!({"capacity": null}),
                vec![
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                json!({"capacity": {"storage": "0"}}),
                vec!["spec.capacity[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
            (json!({"hostPath": null}), vec!["spec: Required value: must specify a volume type"]),
            (
                json!({"nfs": {"server": "a", "path": "/"}}),
                vec!["spec.nfs: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                json!({"hostPath": {"path": "/a/.."}}),
                vec!["spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'"],
            ),
            (
                json!({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"}),
                vec!["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
            ),
            (
                json!({"hostPath": null, "local": {"path": "/a"}}),
                vec!["spec.local.nodeAffinity: Required value: Local volume requires node affinity"],
            ),
        ] {
            assert_eq!(said(&validate_volume(&volume(&change))), wrong);
        }
    }

    #[test]
    fn where_a_volume_is_stays() {
        let (old, new) = (volume(&json!({})), volume(&json!({"hostPath": {"path": "/b"}})));
        assert!(validate_update(&old, &old).is_empty());
        assert_eq!(
            said(&validate_update(&old, &new)),
            [
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/a\",\n+  \"Path\": \"/b\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n"
            ]
        );
    }
}
