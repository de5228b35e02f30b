//! The objects that generated requests are about: small ones of each kind, right and wrong.
use serde_json::{Value, json};

/// A kind that is compared.
#[derive(Debug)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    /// For example `v1`.
    pub version: &'static str,
    /// For example `pods`.
    pub plural: &'static str,
    /// For example `Pod`.
    pub kind: &'static str,
    /// Does it live in namespaces?
    pub namespaced: bool,
    /// Has a status subresource.
    pub status: bool,
    /// Has a scale subresource.
    pub scale: bool,
    /// How often it is drawn.
    pub weight: u32,
}

const fn kind(group: &'static str, plural: &'static str, kind: &'static str, flags: &'static str, weight: u32) -> Kind {
    let bytes = flags.as_bytes();
    let (mut namespaced, mut status, mut scale, mut i) = (false, false, false, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'n' => namespaced = true,
            b's' => status = true,
            b'c' => scale = true,
            _ => {}
        }
        i += 1;
    }
    Kind { group, version: "v1", plural, kind, namespaced, status, scale, weight }
}

/// The group of the custom resource.
pub const GROUP: &str = "conformance.example.com";

/// All of them. Flags: n = namespaced, s = status, c = scale.
pub const KINDS: &[Kind] = &[
    kind("", "configmaps", "ConfigMap", "n", 6),
    kind("", "secrets", "Secret", "n", 3),
    kind("", "pods", "Pod", "ns", 6),
    kind("", "services", "Service", "ns", 4),
    kind("", "persistentvolumeclaims", "PersistentVolumeClaim", "ns", 3),
    kind("", "endpoints", "Endpoints", "n", 2),
    kind("", "serviceaccounts", "ServiceAccount", "n", 1),
    kind("", "events", "Event", "n", 1),
    kind("coordination.k8s.io", "leases", "Lease", "n", 3),
    kind("discovery.k8s.io", "endpointslices", "EndpointSlice", "n", 1),
    kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", "ns", 2),
    kind("apps", "deployments", "Deployment", "nsc", 3),
    kind("apps", "replicasets", "ReplicaSet", "nsc", 1),
    kind("batch", "jobs", "Job", "ns", 1),
    kind("rbac.authorization.k8s.io", "roles", "Role", "n", 1),
    kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", "n", 1),
    kind(GROUP, "widgets", "Widget", "nsc", 8),
    kind("", "persistentvolumes", "PersistentVolume", "s", 2),
    kind("storage.k8s.io", "storageclasses", "StorageClass", "", 1),
    kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", "", 1),
    kind("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", "", 1),
    kind("", "nodes", "Node", "s", 1),
];

impl Kind {
    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of its objects in this namespace.
    pub fn path(&self, namespace: &str) -> String {
        let root =
            if self.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/{}", self.group, self.version) };
        let home = if self.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        format!("{root}{home}/{}", self.plural)
    }
}

/// The definition of the custom resource, to be created on both servers before anything else.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "schema": {"openAPIV3Schema": schema()}
            }]
        }
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
                    "colour": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                    "title": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z]*$"},
                    "fixed": {"type": "string", "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "fixed may not change"}]},
                    "limit": {"x-kubernetes-int-or-string": true},
                    "tags": {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 5}},
                    "parts": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "words": {"type": "object", "additionalProperties": {"type": "string"}},
                    "maybe": {"type": "string", "nullable": true}
                },
                "x-kubernetes-validations": [
                    {"rule": "!has(self.tags) || self.size >= self.tags.size()", "message": "there are more tags than size"},
                    {"rule": "!has(oldSelf.title) || has(self.title)", "message": "a title stays", "fieldPath": ".title", "reason": "FieldValueForbidden"}]
            },
            "status": {"type": "object", "properties": {
                "size": {"type": "integer"}, "phase": {"type": "string"}, "selector": {"type": "string"}}}
        }
    })
}

/// An object of this kind, not the same for each `variant`; some are refused.
pub fn body(kind: &Kind, namespace: &str, name: &str, variant: u16) -> Value {
    let mut object = match kind.plural {
        "configmaps" => config_map(variant),
        "secrets" => secret(variant),
        "pods" => pod(variant),
        "services" => service(variant),
        "persistentvolumeclaims" => claim(variant),
        "endpoints" => endpoints(variant),
        "events" => event(namespace, variant),
        "leases" => lease(variant),
        "endpointslices" => slice(variant),
        "poddisruptionbudgets" => budget(variant),
        "deployments" | "replicasets" => workload(kind.plural, variant),
        "jobs" => job(variant),
        "roles" | "clusterroles" => role(variant),
        "rolebindings" => binding(variant),
        "widgets" => widget(variant),
        "persistentvolumes" => volume(variant),
        "storageclasses" => class(variant),
        "priorityclasses" => json!({"value": i64::from(variant % 3) * 700_000_000}),
        "nodes" => json!({"spec": {"unschedulable": variant.is_multiple_of(2)}}),
        _ => json!({}),
    };
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    object["metadata"] = metadata(name, variant);
    object
}

fn metadata(name: &str, variant: u16) -> Value {
    let mut meta = json!({"name": name, "labels": {"n": (variant % 3).to_string()}});
    match variant % 13 {
        1 => meta["finalizers"] = json!(["example.com/keep"]),
        2 => meta["annotations"] = json!({"note": format!("v{variant}"), "example.com/Upper": ""}),
        3 => {
            meta["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x0", "uid": "${uid:configmaps/x0}"}]);
        }
        4 => meta["labels"]["bad key!"] = json!("x"),
        5 => meta["labels"]["tier"] = json!("a"),
        6 => meta["generation"] = json!(7),
        _ => {}
    }
    match variant % 29 {
        7 => meta["finalizers"] = json!(["nothing"]),
        8 => meta["labels"]["n"] = json!("-bad-"),
        9 => meta["resourceVersion"] = json!("5"),
        10 => meta["uid"] = json!("11111111-2222-3333-4444-555555555555"),
        11 => meta["deletionTimestamp"] = json!("2001-01-01T00:00:00Z"),
        12 => meta["creationTimestamp"] = json!("2001-01-01T00:00:00Z"),
        13 => meta["annotations"] = json!({"/bad": "x"}),
        _ => {}
    }
    meta
}

fn config_map(variant: u16) -> Value {
    match variant % 11 {
        1 => json!({"data": {"bad key": "x"}}),
        2 => json!({"data": {"a": "1"}, "immutable": true}),
        3 => json!({"data": {"a": "1"}, "binaryData": {"a": "eA=="}}),
        4 => json!({"data": {"a": 1}}),
        5 => json!({"data": {"a": "1", "b": "2"}, "surprise": {"x": 1}}),
        6 => json!({"binaryData": {"b": "eA=="}}),
        _ => json!({"data": {"a": variant.to_string()}}),
    }
}

fn secret(variant: u16) -> Value {
    match variant % 9 {
        1 => json!({"stringData": {"a": "text"}}),
        2 => json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}),
        3 => json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}}),
        4 => json!({"data": {"a": "not base64!"}}),
        5 => json!({"data": {"a": "eA=="}, "immutable": true}),
        6 => json!({"type": "example.com/own", "data": {}}),
        7 => json!({"data": {"bad key": "eA=="}}),
        _ => json!({"data": {"a": "eA=="}}),
    }
}

fn pod_spec(variant: u16) -> Value {
    let container = |name: &str| json!({"name": name, "image": format!("example.com/app:{}", variant % 4)});
    let mut spec = json!({"containers": [container("main")]});
    match variant % 23 {
        1 => spec["containers"] = json!([]),
        2 => spec["containers"] = json!([container("main"), container("main")]),
        3 => spec["containers"][0]["image"] = json!(""),
        4 => spec["restartPolicy"] = json!("Sometimes"),
        5 => {
            spec["volumes"] = json!([{"name": "data", "emptyDir": {}}, {"name": "cm", "configMap": {"name": "x0"}}]);
            spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        }
        6 => spec["containers"][0]["volumeMounts"] = json!([{"name": "none", "mountPath": "/data"}]),
        7 => {
            spec["containers"][0]["ports"] =
                json!([{"containerPort": 2379, "name": "client"}, {"containerPort": 2380}]);
            spec["containers"][0]["readinessProbe"] =
                json!({"httpGet": {"port": 2379, "path": "/health"}, "periodSeconds": 5});
        }
        8 => spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "64Mi"}}),
        9 => spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        10 => {
            spec["initContainers"] = json!([container("init")]);
            spec["terminationGracePeriodSeconds"] = json!(5);
        }
        11 => spec["tolerations"] = json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
        12 => {
            spec["containers"][0]["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
        }
        13 => spec["securityContext"] = json!({"runAsUser": 1000, "fsGroup": -1}),
        14 => {
            spec["hostname"] = json!("host");
            spec["subdomain"] = json!("sub");
        }
        15 => spec["containers"][0]["ports"] = json!([{"containerPort": 70000}]),
        16 => spec["nodeName"] = json!("n1"),
        17 => spec["priorityClassName"] = json!("not-there"),
        18 => {
            spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}}]}});
        }
        19 => spec["containers"][0]["surprise"] = json!(true),
        20 => spec["terminationGracePeriodSeconds"] = json!(-1),
        _ => {}
    }
    spec
}

fn pod(variant: u16) -> Value {
    json!({"spec": pod_spec(variant)})
}

fn service(variant: u16) -> Value {
    let port = |name: &str, port: i64| json!({"name": name, "port": port});
    let mut spec = json!({"selector": {"app": "a"}, "ports": [port("client", 2379)]});
    match variant % 15 {
        1 => spec["clusterIP"] = json!("None"),
        2 => spec["ports"] = json!([port("a", 1), port("b", 2), {"name": "c", "port": 3, "targetPort": "web"}]),
        3 => spec["ports"] = json!([{"port": 1}, {"port": 2}]),
        4 => spec["type"] = json!("NodePort"),
        5 => spec["type"] = json!("LoadBalancer"),
        6 => spec["type"] = json!("Odd"),
        7 => spec["ports"] = json!([port("a", 0)]),
        8 => {
            spec["clusterIP"] = json!("None");
            spec["publishNotReadyAddresses"] = json!(true);
        }
        9 => spec["ports"] = json!([]),
        10 => spec["ports"] = json!([port("a", 1), port("a", 2)]),
        11 => spec["sessionAffinity"] = json!("ClientIP"),
        12 => spec["clusterIP"] = json!("not-an-address"),
        13 => spec["ports"] = json!([port("UPPER", 1)]),
        _ => {}
    }
    json!({"spec": spec})
}

fn claim(variant: u16) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    match variant % 9 {
        1 => spec["accessModes"] = json!([]),
        2 => spec["resources"] = json!({}),
        3 => spec["storageClassName"] = json!("fast"),
        4 => spec["volumeMode"] = json!("Block"),
        5 => spec["resources"]["requests"]["storage"] = json!("2Gi"),
        6 => spec["resources"]["requests"]["storage"] = json!("much"),
        7 => spec["accessModes"] = json!(["Sometimes"]),
        _ => {}
    }
    json!({"spec": spec})
}

fn endpoints(variant: u16) -> Value {
    match variant % 5 {
        1 => json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 2379}]}]}),
        2 => json!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 2379}]}]}),
        3 => json!({"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 1, "name": "a"}]}]}),
        4 => json!({"subsets": [{"addresses": [{"ip": "nowhere"}], "ports": [{"port": 1}]}]}),
        _ => json!({}),
    }
}

fn event(namespace: &str, variant: u16) -> Value {
    let about = json!({"kind": "Pod", "namespace": namespace, "name": "x0"});
    match variant % 4 {
        1 => {
            json!({"involvedObject": {"kind": "Pod", "namespace": "other", "name": "x0"}, "reason": "R", "type": "Normal"})
        }
        2 => json!({"involvedObject": about, "reason": "R", "message": "m", "type": "Warning", "count": 2,
            "firstTimestamp": "2001-01-01T00:00:00Z", "lastTimestamp": "2001-01-01T00:00:01Z", "source": {"component": "c"}}),
        _ => json!({"involvedObject": about, "reason": "R", "message": variant.to_string(), "type": "Normal"}),
    }
}

fn lease(variant: u16) -> Value {
    match variant % 6 {
        1 => json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 0}}),
        2 => json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": -1}}),
        3 => {
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "2001-01-01T00:00:00.000000Z", "renewTime": "2001-01-01T00:00:01.5Z"}})
        }
        4 => json!({}),
        _ => {
            json!({"spec": {"holderIdentity": format!("h{}", variant % 3), "leaseDurationSeconds": 15, "leaseTransitions": 1}})
        }
    }
}

fn slice(variant: u16) -> Value {
    match variant % 4 {
        1 => {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}], "ports": [{"name": "", "port": 2379}]})
        }
        2 => json!({"addressType": "Odd", "endpoints": []}),
        3 => json!({"endpoints": []}),
        _ => json!({"addressType": "IPv4", "endpoints": [], "ports": []}),
    }
}

fn budget(variant: u16) -> Value {
    match variant % 6 {
        1 => json!({"spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}}),
        2 => json!({"spec": {"minAvailable": "150%", "selector": {"matchLabels": {"app": "a"}}}}),
        3 => json!({"spec": {"maxUnavailable": -1}}),
        4 => {
            json!({"spec": {"maxUnavailable": "50%", "selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}})
        }
        _ => json!({"spec": {"minAvailable": variant % 3, "selector": {"matchLabels": {"app": "a"}}}}),
    }
}

fn workload(plural: &str, variant: u16) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(variant / 12)},
    });
    match variant % 9 {
        1 => spec["template"]["metadata"]["labels"] = json!({"app": "b"}),
        2 => spec["replicas"] = json!(3),
        3 => spec["replicas"] = json!(-1),
        4 => spec["selector"] = json!({}),
        5 if plural == "deployments" => spec["strategy"] = json!({"type": "Recreate"}),
        6 if plural == "deployments" => {
            spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}});
        }
        7 => spec["template"]["spec"]["restartPolicy"] = json!("Never"),
        _ => {}
    }
    json!({"spec": spec})
}

fn job(variant: u16) -> Value {
    let mut spec = json!({"template": {"spec": pod_spec(0)}});
    spec["template"]["spec"]["restartPolicy"] = json!("Never");
    match variant % 5 {
        1 => spec["template"]["spec"]["restartPolicy"] = json!("Always"),
        2 => spec["backoffLimit"] = json!(2),
        3 => spec["parallelism"] = json!(-1),
        _ => {}
    }
    spec["suspend"] = json!(true);
    json!({"spec": spec})
}

fn role(variant: u16) -> Value {
    match variant % 4 {
        1 => json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}),
        2 => json!({"rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]}),
        _ => json!({"rules": [{"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"]}]}),
    }
}

fn binding(variant: u16) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": if variant.is_multiple_of(2) { "a" } else { "b" }});
    match variant % 5 {
        1 => json!({"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
        2 => json!({"roleRef": role, "subjects": [{"kind": "Odd", "name": "a"}]}),
        _ => json!({"roleRef": role, "subjects": [{"kind": "User", "name": "a"}]}),
    }
}

fn widget(variant: u16) -> Value {
    let mut spec = json!({"size": variant % 7});
    match variant % 19 {
        1 => spec["size"] = json!(11),
        2 => spec["size"] = json!("three"),
        3 => spec["colour"] = json!("pink"),
        4 => spec["colour"] = json!("blue"),
        5 => spec["title"] = json!("TOO LONG FOR THIS"),
        6 => spec["title"] = json!("ok"),
        7 => spec["fixed"] = json!("one"),
        8 => spec["fixed"] = json!("two"),
        9 => spec["limit"] = json!("50%"),
        10 => spec["tags"] = json!(["a", "b", "a"]),
        11 => spec["tags"] = json!(["a", "b", "c"]),
        12 => spec["parts"] = json!([{"name": "p"}, {"name": "q", "count": 2}]),
        13 => spec["parts"] = json!([{"name": "p"}, {"name": "p"}]),
        14 => spec["free"] = json!({"any": {"thing": [1, null]}}),
        15 => spec["words"] = json!({"a": "b"}),
        16 => spec["surprise"] = json!({"x": 1}),
        17 => return json!({}),
        18 => spec["maybe"] = Value::Null,
        _ => {}
    }
    json!({"spec": spec})
}

fn volume(variant: u16) -> Value {
    let mut spec =
        json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"}});
    match variant % 6 {
        1 => spec["capacity"] = json!({}),
        2 => drop(spec.as_object_mut().map(|spec| spec.remove("hostPath"))),
        3 => spec["persistentVolumeReclaimPolicy"] = json!("Delete"),
        4 => spec["accessModes"] = json!([]),
        _ => {}
    }
    json!({"spec": spec})
}

fn class(variant: u16) -> Value {
    match variant % 4 {
        1 => json!({"provisioner": "example.com/a", "reclaimPolicy": "Odd"}),
        2 => {
            json!({"provisioner": "example.com/b", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true})
        }
        3 => json!({}),
        _ => json!({"provisioner": "example.com/a"}),
    }
}
