//! What a pod's spec refers to, looked up: environment, command lines, and the content of volumes. A reference that leads
//! nowhere is an error that says so in kubelet's words, and the pod waits.
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::informer::Informer;
use crate::controllers::object;
use crate::controllers::runtime::{Mount, PodVolume, VolumeFile};
use crate::server::{Request, ResourceName, Server};

/// Where Secrets and ConfigMaps are looked up.
#[derive(Debug)]
pub struct Sources {
    /// All Secrets.
    pub secrets: Informer,
    /// All ConfigMaps.
    pub config_maps: Informer,
}

/// What the downward API can tell of a pod that is not in its object yet.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The node's address.
    pub host_ip: &'a str,
    /// The pod's address, empty before it has one.
    pub pod_ip: &'a str,
}

impl Sources {
    /// Watches both kinds.
    pub fn new() -> Self {
        let core = |plural: &str| Informer::new(ResourceName::core(plural));
        Self { secrets: core("secrets"), config_maps: core("configmaps") }
    }

    /// The environment of a container, in order; later names win.
    pub fn environment(
        &self,
        pod: &Value,
        container: &Value,
        place: Place<'_>,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, String> {
        let mut env: Vec<(String, String)> = given.to_vec();
        for source in object::items(container, "/envFrom") {
            let prefix = object::text(source, "/prefix");
            for (kind, secret) in [("secretRef", true), ("configMapRef", false)] {
                let Some(reference) = source.get(kind) else { continue };
                let Some(data) = self.data(pod, reference, secret)? else { continue };
                data.into_iter().for_each(|(key, value)| set(&mut env, format!("{prefix}{key}"), lossy(value)));
            }
        }
        for variable in object::items(container, "/env") {
            let name = object::text(variable, "/name").to_owned();
            let value = match variable.get("valueFrom").filter(|from| from.is_object()) {
                Some(from) => self.value_from(pod, container, from, place)?,
                None => Some(expand(object::text(variable, "/value"), &env)),
            };
            if let Some(value) = value {
                set(&mut env, name, value);
            }
        }
        Ok(env)
    }

    /// The volumes of a pod with their content.
    pub fn volumes(&self, server: &mut Server, pod: &Value, place: Place<'_>) -> Result<Vec<PodVolume>, String> {
        let volumes = object::items(pod, "/spec/volumes").iter();
        volumes.map(|volume| self.volume(server, pod, volume, place)).collect()
    }

    /// Only the volumes whose content the API holds, and which can change under a running pod.
    pub fn file_volumes(&self, pod: &Value, place: Place<'_>) -> Result<Vec<PodVolume>, String> {
        let mut found = Vec::new();
        for volume in object::items(pod, "/spec/volumes") {
            if let Some(files) = self.files(pod, volume, place)? {
                found.push(PodVolume::Files { name: object::text(volume, "/name").to_owned(), files });
            }
        }
        Ok(found)
    }

    fn volume(&self, server: &mut Server, pod: &Value, volume: &Value, place: Place<'_>) -> Result<PodVolume, String> {
        let name = object::text(volume, "/name").to_owned();
        if let Some(claim) = volume.get("persistentVolumeClaim").filter(|claim| claim.is_object()) {
            let persistent_volume = bound_volume(server, pod, object::text(claim, "/claimName"))?;
            return Ok(PodVolume::Claim { name, persistent_volume, read_only: object::flag(claim, "/readOnly") });
        }
        if let Some(host) = volume.get("hostPath").filter(|host| host.is_object()) {
            return Ok(PodVolume::HostPath { name, path: object::text(host, "/path").to_owned() });
        }
        if let Some(files) = self.files(pod, volume, place)? {
            return Ok(PodVolume::Files { name, files });
        }
        if let Some(empty) = volume.get("emptyDir").filter(|empty| empty.is_object()) {
            let bytes = empty.get("sizeLimit").and_then(object::quantity_milli);
            let size_limit = bytes.and_then(|milli| u64::try_from(milli / 1000).ok());
            return Ok(PodVolume::EmptyDir { name, memory: object::text(empty, "/medium") == "Memory", size_limit });
        }
        // A volume that names no source is an emptyDir, as the API's defaults have it.
        let kind = volume.as_object().and_then(|fields| fields.keys().find(|key| *key != "name"));
        match kind {
            None => Ok(PodVolume::EmptyDir { name, memory: false, size_limit: None }),
            Some(kind) => Err(format!("volume \"{name}\" is of kind {kind}, which this kubelet does not have")),
        }
    }

    fn files(
        &self,
        pod: &Value,
        volume: &Value,
        place: Place<'_>,
    ) -> Result<Option<BTreeMap<String, VolumeFile>>, String> {
        let mut files = BTreeMap::new();
        let own = ["secret", "configMap", "downwardAPI"].into_iter().find(|kind| volume.get(*kind).is_some());
        if let Some(kind) = own {
            let mode = mode(&volume[kind], "/defaultMode", 0o644);
            self.project(pod, kind, &volume[kind], mode, place, &mut files)?;
            return Ok(Some(files));
        }
        let Some(projected) = volume.get("projected") else { return Ok(None) };
        let mode = mode(projected, "/defaultMode", 0o644);
        for source in object::items(projected, "/sources") {
            for (kind, body) in source.as_object().into_iter().flatten() {
                self.project(pod, kind, body, mode, place, &mut files)?;
            }
        }
        Ok(Some(files))
    }

    fn project(
        &self,
        pod: &Value,
        kind: &str,
        source: &Value,
        default_mode: u32,
        place: Place<'_>,
        files: &mut BTreeMap<String, VolumeFile>,
    ) -> Result<(), String> {
        if kind == "downwardAPI" {
            for item in object::items(source, "/items") {
                let value = field(pod, object::text(item, "/fieldRef/fieldPath"), place)?;
                let file = VolumeFile { data: value.into_bytes(), mode: mode(item, "/mode", default_mode) };
                files.insert(object::text(item, "/path").to_owned(), file);
            }
            return Ok(());
        }
        if kind == "serviceAccountToken" {
            // There is no token request here; the server knows its clients without one.
            let data = format!("fake-token-of-{}", object::uid(pod)).into_bytes();
            files.insert(object::text(source, "/path").to_owned(), VolumeFile { data, mode: default_mode });
            return Ok(());
        }
        let Some(mut data) = self.data(pod, source, kind == "secret")? else { return Ok(()) };
        let chosen = object::items(source, "/items");
        if chosen.is_empty() {
            files.extend(data.into_iter().map(|(key, data)| (key, VolumeFile { data, mode: default_mode })));
            return Ok(());
        }
        for item in chosen {
            let (key, path) = (object::text(item, "/key"), object::text(item, "/path"));
            match data.remove(key) {
                Some(data) => {
                    files.insert(path.to_owned(), VolumeFile { data, mode: mode(item, "/mode", default_mode) });
                }
                None if object::flag(source, "/optional") => {}
                None => return Err(format!("references non-existent {} key: {key}", kind.to_lowercase())),
            }
        }
        Ok(())
    }

    /// The data of a Secret or ConfigMap; `None` when it is absent and optional.
    fn data(&self, pod: &Value, source: &Value, secret: bool) -> Result<Option<BTreeMap<String, Vec<u8>>>, String> {
        let by_secret_name = object::text(source, "/secretName");
        let name = if by_secret_name.is_empty() { object::text(source, "/name") } else { by_secret_name };
        let optional = object::flag(source, "/optional");
        match self.find(object::namespace(pod), name, secret) {
            Some(found) => Ok(Some(content(found))),
            None if optional => Ok(None),
            None if secret => Err(format!("secret \"{name}\" not found")),
            None => Err(format!("configmap \"{name}\" not found")),
        }
    }

    fn find(&self, namespace: &str, name: &str, secret: bool) -> Option<&Arc<Value>> {
        if secret { self.secrets.find(namespace, name) } else { self.config_maps.find(namespace, name) }
    }

    fn value_from(
        &self,
        pod: &Value,
        container: &Value,
        from: &Value,
        place: Place<'_>,
    ) -> Result<Option<String>, String> {
        if let Some(reference) = from.get("fieldRef") {
            return field(pod, object::text(reference, "/fieldPath"), place).map(Some);
        }
        if let Some(reference) = from.get("resourceFieldRef") {
            return Ok(Some(resource(container, object::text(reference, "/resource"))));
        }
        for (kind, secret) in [("secretKeyRef", true), ("configMapKeyRef", false)] {
            let Some(reference) = from.get(kind) else { continue };
            let (name, key) = (object::text(reference, "/name"), object::text(reference, "/key"));
            let Some(mut data) = self.data(pod, reference, secret)? else { return Ok(None) };
            return match data.remove(key) {
                Some(value) => Ok(Some(lossy(value))),
                None if object::flag(reference, "/optional") => Ok(None),
                None => {
                    let (word, namespace) = (if secret { "Secret" } else { "ConfigMap" }, object::namespace(pod));
                    Err(format!("couldn't find key {key} in {word} {namespace}/{name}"))
                }
            };
        }
        Err("invalid valueFrom: none of fieldRef, resourceFieldRef, secretKeyRef, configMapKeyRef".to_owned())
    }
}

impl Default for Sources {
    fn default() -> Self {
        Self::new()
    }
}

/// The volume mounts of a container.
pub fn mounts(container: &Value) -> Vec<Mount> {
    let mounts = object::items(container, "/volumeMounts").iter();
    let mount = |mount: &Value| Mount {
        volume: object::text(mount, "/name").to_owned(),
        path: object::text(mount, "/mountPath").to_owned(),
        read_only: object::flag(mount, "/readOnly"),
        sub_path: Some(object::text(mount, "/subPath").to_owned()).filter(|path| !path.is_empty()),
    };
    mounts.map(mount).collect()
}

/// `command` or `args` with `$(VAR)` expanded.
pub fn words(container: &Value, field: &str, env: &[(String, String)]) -> Vec<String> {
    object::texts(container, field).iter().map(|word| expand(word, env)).collect()
}

/// Replaces `$(NAME)` by the variable's value; an unknown name stays as it is, and `$$` is one dollar sign.
pub fn expand(text: &str, env: &[(String, String)]) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.iter().rfind(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

fn set(env: &mut Vec<(String, String)>, name: String, value: String) {
    env.retain(|(known, _)| *known != name);
    env.push((name, value));
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned())
}

fn mode(source: &Value, pointer: &str, default: u32) -> u32 {
    object::number(source, pointer).and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default)
}

fn content(found: &Value) -> BTreeMap<String, Vec<u8>> {
    let is_secret = object::text(found, "/kind") == "Secret";
    let decode = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()
    };
    let mut data = BTreeMap::new();
    for (key, value) in object::map(found, "/data") {
        let bytes = if is_secret { decode(value) } else { value.as_str().unwrap_or_default().as_bytes().to_vec() };
        data.insert(key.clone(), bytes);
    }
    data.extend(object::map(found, "/binaryData").iter().map(|(key, value)| (key.clone(), decode(value))));
    data
}

fn bound_volume(server: &mut Server, pod: &Value, claim: &str) -> Result<String, String> {
    let request = Request::get(ResourceName::core("persistentvolumeclaims"), object::namespace(pod), claim);
    // A read needs no clock.
    let found = server.handle(Timestamp::UNIX_EPOCH, &request);
    let found = found.map_err(|_| format!("persistentvolumeclaim \"{claim}\" not found"))?;
    if object::is_terminating(&found) {
        return Err(format!("persistentvolumeclaim \"{claim}\" is being deleted"));
    }
    let volume = object::text(&found, "/spec/volumeName");
    match object::text(&found, "/status/phase") {
        "Bound" if !volume.is_empty() => Ok(volume.to_owned()),
        _ => Err(format!("persistentvolumeclaim \"{claim}\" is not bound")),
    }
}

/// A field of the downward API.
fn field(pod: &Value, path: &str, place: Place<'_>) -> Result<String, String> {
    for (prefix, at) in [("metadata.labels", "/metadata/labels"), ("metadata.annotations", "/metadata/annotations")] {
        let Some(rest) = path.strip_prefix(prefix) else { continue };
        let all = object::map(pod, at);
        if rest.is_empty() {
            let line = |(key, value): (&String, &Value)| format!("{key}={:?}", value.as_str().unwrap_or_default());
            return Ok(all.iter().map(line).collect::<Vec<_>>().join("\n"));
        }
        let key = rest.trim_start_matches("['").trim_end_matches("']");
        return Ok(all.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    Ok(match path {
        "metadata.name" => object::name(pod).to_owned(),
        "metadata.namespace" => object::namespace(pod).to_owned(),
        "metadata.uid" => object::uid(pod).to_owned(),
        "spec.nodeName" => place.node.to_owned(),
        "spec.serviceAccountName" => object::text(pod, "/spec/serviceAccountName").to_owned(),
        "status.podIP" | "status.podIPs" => place.pod_ip.to_owned(),
        "status.hostIP" | "status.hostIPs" => place.host_ip.to_owned(),
        other => return Err(format!("unsupported fieldPath: {other}")),
    })
}

/// A container's limit or request; whole cores and bytes, as with the default divisor.
fn resource(container: &Value, path: &str) -> String {
    let pointer = format!("/resources/{}", path.replace('.', "/"));
    let milli = container.pointer(&pointer).and_then(object::quantity_milli).unwrap_or_default();
    json!(i64::try_from((milli + 999) / 1000).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let env = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())];
        let cases = [
            ("x$(A)y", "x1y"),
            ("$(A)$(B)", "12"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$A ${B}", "$A ${B}"),
            ("$(A", "$(A"),
            ("end$", "end$"),
        ];
        for (text, expanded) in cases {
            assert_eq!(expand(text, &env), expanded, "{text}");
        }
    }

    #[test]
    fn the_downward_api_reads_labels_by_key() {
        let pod = json!({"metadata": {"name": "p", "labels": {"app.kubernetes.io/name": "etcd"}}});
        let place = Place { node: "n", host_ip: "10.0.0.1", pod_ip: "10.244.0.2" };
        assert_eq!(field(&pod, "metadata.labels['app.kubernetes.io/name']", place).as_deref(), Ok("etcd"));
        assert_eq!(field(&pod, "status.podIP", place).as_deref(), Ok("10.244.0.2"));
        assert!(field(&pod, "spec.containers", place).is_err());
    }
}
