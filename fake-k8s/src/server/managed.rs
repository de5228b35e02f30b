//! `metadata.managedFields`: who wrote which fields. Updates take fields from others without asking; server-side apply asks.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::FieldSet;
use super::fields::compare::Comparison;
use super::fields::shape::Shape;
use super::metadata::time_text;
use super::object;
use super::resource::ResourceInfo;

/// Update managers that are told apart; the oldest beyond become one.
const UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Who writes. The order is that of the list, but for the times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    /// `Apply` or `Update`.
    pub operation: String,
    pub name: String,
    /// Of an Update; whoever applies is one in all versions.
    pub api_version: String,
    pub subresource: String,
}

/// What is theirs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Owned {
    pub set: FieldSet,
    pub api_version: String,
    pub time: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Managers(pub BTreeMap<Manager, Owned>);

impl Manager {
    /// Whoever changes an object through this endpoint without applying.
    pub fn updating(info: &ResourceInfo, name: &str, subresource: Option<&str>) -> Self {
        Self {
            operation: "Update".into(),
            name: if name.is_empty() { "unknown".into() } else { name.into() },
            api_version: info.api_version(),
            subresource: subresource.unwrap_or_default().into(),
        }
    }

    /// Whoever applies.
    pub fn applying(name: &str, subresource: Option<&str>) -> Self {
        let subresource = subresource.unwrap_or_default().into();
        Self { operation: "Apply".into(), name: name.into(), api_version: String::new(), subresource }
    }

    /// As messages show it.
    pub fn text(&self) -> String {
        let mut out = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

impl Managers {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let mut all = BTreeMap::new();
        for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let applies = entry["operation"] == "Apply";
            let manager = Manager {
                operation: text("operation"),
                name: text("manager"),
                api_version: if applies { String::new() } else { text("apiVersion") },
                subresource: text("subresource"),
            };
            let time = entry["time"].as_str().map(str::to_owned);
            let set = FieldSet::from_value(&entry["fieldsV1"]);
            all.insert(manager, Owned { set, api_version: text("apiVersion"), time });
        }
        Self(all)
    }

    /// Into an object; none where there are none.
    pub fn write_to(&self, object: &mut Value) {
        let mut all: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        all.sort_by_key(|(manager, owned)| {
            (&manager.operation, &owned.time, &manager.name, &owned.api_version, &manager.subresource)
        });
        let list: Vec<Value> = all.into_iter().map(|(manager, owned)| entry(manager, owned)).collect();
        let meta = object::meta_mut(object);
        if list.is_empty() {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".into(), Value::Array(list));
        }
    }

    /// Takes from all but `writer` what changed.
    pub fn give_up(&mut self, writer: &Manager, comparison: &Comparison) {
        let written = comparison.written();
        for (manager, owned) in &mut self.0 {
            if manager != writer {
                let taken = owned.set.intersection(&written);
                owned.set = owned.set.difference(&taken).difference(&comparison.removed);
            }
        }
        self.0.retain(|_, owned| !owned.set.is_empty());
    }

    /// The oldest updaters beyond those that are told apart become one for each version.
    fn cap(&mut self) {
        let mut updaters: Vec<(Option<String>, Manager)> = self
            .0
            .iter()
            .filter(|(manager, _)| manager.operation == "Update")
            .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
            .collect();
        updaters.sort();
        let mut surplus = updaters.len().saturating_sub(UPDATERS);
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in updaters {
            if surplus == 0 {
                return;
            }
            let version = manager.api_version.clone();
            let Some(bucket_from) = first.get(&version).cloned() else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager { name: ANCIENT.into(), subresource: String::new(), ..manager.clone() };
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(&bucket_from)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let (Some(gone), Some(kept)) = (self.0.remove(&manager), self.0.get_mut(&bucket)) {
                kept.set = kept.set.union(&gone.set);
                kept.time = gone.time;
            }
            surplus -= 1;
        }
    }
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = json!({
        "manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1", "fieldsV1": owned.set.to_value(),
    });
    if let Some(time) = &owned.time {
        entry["time"] = json!(time);
    }
    if !manager.subresource.is_empty() {
        entry["subresource"] = json!(manager.subresource);
    }
    entry
}

/// What an endpoint cannot change is nobody's who writes through it.
pub(super) fn of_endpoint(info: &ResourceInfo, subresource: Option<&str>, set: FieldSet) -> FieldSet {
    let fields = |paths: &[&[&str]]| {
        let mut out = FieldSet::default();
        for path in paths {
            out.insert(&path.iter().map(|step| format!("f:{step}")).collect::<Vec<_>>());
        }
        out
    };
    match subresource {
        Some("status") if info.is("", "pods") => {
            set.without(&fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]))
        }
        Some("status") if info.is("apps", "deployments") => set.without(&fields(&[&["spec"], &["metadata", "labels"]])),
        Some("status") => set.without(&fields(&[&["spec"]])),
        _ if info.status => set.without(&fields(&[&["status"]])),
        _ => set,
    }
}

/// Fields that are nobody's, whoever wrote them.
pub(super) fn stripped(set: &FieldSet) -> FieldSet {
    let mut nobodys = FieldSet::default();
    for path in ["apiVersion", "kind", "metadata"] {
        nobodys.insert(&[format!("f:{path}")]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        nobodys.insert(&["f:metadata".to_owned(), format!("f:{name}")]);
    }
    set.difference(&nobodys)
}

/// Writes into `new` who owns its fields now that `manager` made it out of `live`.
pub(super) fn update(info: &ResourceInfo, live: &Value, new: &mut Value, manager: &Manager, now: Timestamp) {
    let given = object::meta_mut(new).remove("managedFields").filter(|_| manager.subresource.is_empty());
    let mut managers = match given {
        Some(Value::Array(list)) if is_reset(&list) => Managers::default(),
        Some(list @ Value::Array(_)) => Managers::of(&json!({"metadata": {"managedFields": list}})),
        _ => Managers::of(live),
    };
    // Whoever never had managers, or gave them up, has none until somebody applies.
    if managers.0.is_empty() && !object::uid(live).is_empty() {
        return;
    }
    let subresource = Some(manager.subresource.as_str()).filter(|name| !name.is_empty());
    let comparison = Comparison::of(Shape::of(info), live, new).map(|set| of_endpoint(info, subresource, set));
    let nobody = Manager { operation: String::new(), ..manager.clone() };
    managers.give_up(&nobody, &comparison);
    let mine = stripped(&comparison.written());
    if !mine.is_empty() {
        let set = managers.0.get(manager).map_or_else(|| mine.clone(), |owned| owned.set.union(&mine));
        // Of who scales no time is kept.
        let time = Some(time_text(now)).filter(|_| subresource != Some("scale"));
        managers.0.insert(manager.clone(), Owned { set, api_version: info.api_version(), time });
    }
    managers.cap();
    managers.write_to(new);
}

/// An empty list, or one with nothing in its one entry, gives all managers up.
fn is_reset(list: &[Value]) -> bool {
    match list {
        [] => true,
        [one] => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// Whether two objects are the same but for the times of their managers: such a change is none.
pub(super) fn same_but_for_times(old: &Value, new: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        for entry in object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
        object
    };
    old == new || timeless(old) == timeless(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{PatchKind, Request, ResourceName, Server, Verb};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn maps() -> ResourceName {
        ResourceName::core("configmaps")
    }

    /// A map that so many managers have annotated, one after the other.
    fn annotated(managers: usize) -> (Server, Value) {
        let mut server = Server::new(1);
        server.track_managers(true);
        let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let mut last = server.handle(NOW, &Request::create(maps(), "default", body)).expect("valid");
        for i in 0..managers {
            let patch = json!({"metadata": {"annotations": {format!("a{i}"): "x"}}});
            let mut request = Request::merge_patch(maps(), "default", "a", patch);
            request.options.field_manager = Some(format!("m{i:02}"));
            last = server.handle(NOW, &request).expect("valid");
        }
        (server, last)
    }

    #[test]
    fn the_oldest_of_too_many_updaters_become_one() {
        let names = |object: &Value| -> Vec<String> { Managers::of(object).0.into_keys().map(|m| m.name).collect() };
        let (_, few) = annotated(UPDATERS - 1);
        assert_eq!(names(&few).len(), UPDATERS);
        assert!(!names(&few).contains(&ANCIENT.to_owned()));
        let (_, many) = annotated(UPDATERS + 2);
        let names = names(&many);
        assert_eq!(names.len(), UPDATERS);
        assert!(names.contains(&ANCIENT.to_owned()) && names.contains(&"m11".to_owned()), "{names:?}");
        let fields = Managers::of(&many).0.into_values().fold(FieldSet::default(), |all, owned| all.union(&owned.set));
        assert_eq!(
            fields.paths().iter().filter(|path| path.len() == 3).count(),
            UPDATERS + 2,
            "nobody's fields are lost"
        );
    }

    #[test]
    fn managers_that_were_given_up_stay_away_until_somebody_applies() {
        for given_up in [json!([]), json!([{}])] {
            let (mut server, mut object) = annotated(2);
            object["metadata"]["managedFields"] = given_up;
            object["data"]["k"] = json!("w");
            let object = server.handle(NOW, &Request::replace(maps(), "default", "a", object)).expect("valid");
            assert!(object["metadata"]["managedFields"].is_null(), "{object}");
            let plain = json!({"metadata": {"annotations": {"b": "y"}}});
            let object = server.handle(NOW, &Request::merge_patch(maps(), "default", "a", plain)).expect("valid");
            assert!(object["metadata"]["managedFields"].is_null(), "{object}");
            let config =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "1"}});
            let mut apply = Request::new(Verb::Patch(PatchKind::Apply), maps()).in_namespace("default").named("a");
            apply.options.field_manager = Some("m".into());
            let object = server.handle(NOW, &apply.with_body(config)).expect("valid");
            let names: Vec<String> = Managers::of(&object).0.into_keys().map(|manager| manager.name).collect();
            assert_eq!(names, ["m", "before-first-apply"]);
        }
    }
}
