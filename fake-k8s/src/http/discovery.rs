//! Discovery: which groups, versions and resources there are.
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Shared;
use crate::server::{ResourceInfo, Status};

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// `/version`: the minor whose behaviour this server follows.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

pub fn answer(shared: &Shared, path: &[String]) -> Result<Value, Status> {
    let infos: Vec<ResourceInfo> = shared.run(|_, server| server.resources().cloned().collect());
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["api"] => Ok(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => {
            let all: Vec<Value> = groups(&infos).into_iter().map(|(name, versions)| group(&name, &versions)).collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": all}))
        }
        ["apis", name] => {
            let versions = groups(&infos).remove(*name).ok_or_else(Status::no_such_path)?;
            let mut one = group(name, &versions);
            one["kind"] = json!("APIGroup");
            one["apiVersion"] = json!("v1");
            Ok(one)
        }
        ["api", version] => resources(&infos, "", version),
        ["apis", group, version] => resources(&infos, group, version),
        _ => Err(Status::no_such_path()),
    }
}

fn groups(infos: &[ResourceInfo]) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for info in infos.iter().filter(|i| !i.name.group.is_empty()) {
        let versions = groups.entry(info.name.group.clone()).or_default();
        if !versions.contains(&info.name.version) {
            versions.push(info.name.version.clone());
        }
    }
    groups.entry("authorization.k8s.io".into()).or_insert_with(|| vec!["v1".into()]);
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let one = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    let all: Vec<Value> = versions.iter().map(one).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

fn resources(infos: &[ResourceInfo], group: &str, version: &str) -> Result<Value, Status> {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list = |all: Vec<Value>| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": all});
    if group == "authorization.k8s.io" && version == "v1" {
        let review = json!({
            "name": "selfsubjectaccessreviews", "singularName": "selfsubjectaccessreview", "namespaced": false,
            "kind": "SelfSubjectAccessReview", "verbs": ["create"],
        });
        return Ok(list(vec![review]));
    }
    let mut all = Vec::new();
    for info in infos.iter().filter(|i| i.name.group == group && i.name.version == version) {
        describe(info, &mut all);
    }
    if all.is_empty() { Err(Status::no_such_path()) } else { Ok(list(all)) }
}

fn describe(info: &ResourceInfo, all: &mut Vec<Value>) {
    let plural = &info.name.plural;
    let mut main = json!({
        "name": plural, "singularName": info.singular, "namespaced": info.namespaced, "kind": info.kind, "verbs": VERBS,
    });
    if !info.short_names.is_empty() {
        main["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        main["categories"] = json!(info.categories);
    }
    all.push(main);
    let sub = |name: &str, kind: &str, verbs: &[&str]| {
        json!({
            "name": format!("{plural}/{name}"), "singularName": "", "namespaced": info.namespaced, "kind": kind,
            "verbs": verbs,
        })
    };
    if info.status {
        all.push(sub("status", &info.kind, &["get", "patch", "update"]));
    }
    if info.scale.is_some() {
        let mut scale = sub("scale", "Scale", &["get", "patch", "update"]);
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        all.push(scale);
    }
    for name in &info.subresources {
        all.push(match name.as_str() {
            "binding" => sub(name, "Binding", &["create"]),
            "eviction" => {
                let mut eviction = sub(name, "Eviction", &["create"]);
                eviction["group"] = json!("policy");
                eviction["version"] = json!("v1");
                eviction
            }
            "finalize" => sub(name, &info.kind, &["update"]),
            _ => sub(name, &info.kind, &["get"]),
        });
    }
}
