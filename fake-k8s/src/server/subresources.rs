//! Subresources beside status: scale, eviction and finalize; binding has a file of its own.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::{ResourceInfo, ScalePaths, StorageKey};
use super::write::check_name;
use super::{FieldError, Reason, Request, Server, Status, Verb, custom, label_selector_matches, object};

impl Server {
    /// Answers a request for a subresource other than status; `None` when it is for the object itself or its status.
    pub(super) fn subresource(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
    ) -> Option<Result<Value, Status>> {
        let sub = request.subresource.as_deref()?;
        if !info.has_subresource(sub) {
            return Some(Err(Status::no_such_path()));
        }
        Some(match (sub, request.verb) {
            ("status", _) => return None,
            ("scale", verb) => match &info.scale {
                Some(paths) => self.scale(now, info, request, verb, paths),
                None => Err(Status::no_such_path()),
            },
            ("binding", Verb::Create) if info.is("", "pods") => self.bind(now, info, request),
            ("eviction", Verb::Create) if info.is("", "pods") => self.evict(now, info, request),
            ("finalize", Verb::Replace) if info.is("", "namespaces") => self.finalize(now, info, request),
            _ => Err(Status::no_such_path()),
        })
    }

    fn scale(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
        verb: Verb,
        paths: &ScalePaths,
    ) -> Result<Value, Status> {
        if verb == Verb::Replace {
            check_scale_body(request)?;
        }
        let current = self.existing(info, request)?;
        let (shown, found) = scale_of(info, &current, paths)?;
        let wanted = match verb {
            Verb::Get if !found => {
                return Err(internal(&format!("the spec replicas field {:?} does not exist", paths.spec_replicas)));
            }
            Verb::Get => return Ok(shown),
            Verb::Replace => request.body.clone().unwrap_or(Value::Null),
            Verb::Patch(kind) => {
                let patched = self.apply_plain(None, &shown, request, kind)?;
                check_name(request, &patched)?;
                patched
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let Some(replicas) = wanted["spec"].get("replicas").map_or(Some(0), Value::as_i64) else {
            return Err(Status::bad_request("spec.replicas is not an integer"));
        };
        if info.custom && !found && wanted["spec"].get("replicas").is_none() && verb != Verb::Replace {
            return Err(Status::bad_request(format!(
                "the spec replicas field {:?} cannot be empty",
                paths.spec_replicas
            )));
        }
        if !info.custom && replicas < 0 {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", object::name(&current), &[error]));
        }
        let mut new = Value::clone(&current);
        set_path(&mut new, &paths.spec_replicas, json!(replicas));
        // Whoever says no version means any.
        if let Some(version) = wanted["metadata"]["resourceVersion"].as_str().filter(|v| !v.is_empty()) {
            object::meta_mut(&mut new).insert("resourceVersion".into(), json!(version));
        }
        let uid = object::uid(&wanted);
        if !uid.is_empty() {
            object::meta_mut(&mut new).insert("uid".into(), json!(uid));
        }
        self.note_update(now, info, &current, &mut new, request.options.manager(), Some("scale"));
        self.managers_noted = true;
        let whole = Request { subresource: None, body: None, ..request.clone() };
        let changed = self.update(now, info, &current, new, &whole)?;
        Ok(scale_of(info, &changed, paths)?.0)
    }

    fn evict(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let pod = self.existing(info, request)?;
        if !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) && !object::is_deleting(&pod) {
            self.check_budgets(info, &pod)?;
        }
        let options = request.body.as_ref().map(|b| b["deleteOptions"].clone()).filter(|o| !o.is_null());
        let delete = Request { verb: Verb::Delete, subresource: None, body: options, ..request.clone() };
        self.delete(now, info, &delete)?;
        Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}))
    }

    /// No controller writes the budgets' status here: what may be disrupted is counted when it is asked for.
    fn check_budgets(&self, info: &ResourceInfo, pod: &Value) -> Result<(), Status> {
        let key = StorageKey { group: "policy".into(), plural: "poddisruptionbudgets".into() };
        let namespace = object::namespace(pod);
        for budget in self.store.list(&key, Some(namespace)) {
            let selector = selector_text(&budget["spec"]["selector"]);
            if selector.is_empty() || !label_selector_matches(&selector, pod)? {
                continue;
            }
            let pods = self.store.list(&info.storage, Some(namespace));
            let covered: Vec<&Value> =
                pods.map(AsRef::as_ref).filter(|p| label_selector_matches(&selector, p).unwrap_or(false)).collect();
            let total = i64::try_from(covered.len()).unwrap_or(i64::MAX);
            let healthy = covered.iter().filter(|p| is_ready(p)).count();
            let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
            let wanted = match (&budget["spec"]["minAvailable"], &budget["spec"]["maxUnavailable"]) {
                (Value::Null, Value::Null) => 0,
                (Value::Null, most) => total - share(most, total),
                (least, _) => share(least, total),
            };
            if is_ready(pod) && healthy - 1 < wanted {
                let message = "Cannot evict pod as it would violate the pod's disruption budget.";
                let mut status = Status::new(Reason::TooManyRequests, message);
                status.details.causes.push(super::Cause {
                    reason: "DisruptionBudget".into(),
                    message: format!(
                        "The disruption budget {} needs {wanted} healthy pods and has {healthy} currently",
                        object::name(budget)
                    ),
                    field: String::new(),
                });
                return Err(status);
            }
        }
        Ok(())
    }

    /// A namespace whose finalizers are all gone goes, once it is being deleted.
    fn finalize(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let old = self.existing(info, request)?;
        let mut new = Value::clone(&old);
        new["spec"] = request.body.as_ref().map_or(Value::Null, |b| b["spec"].clone());
        let empty = new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if empty && object::is_deleting(&new) && object::finalizers(&new).is_empty() {
            let name = object::name(&old).to_owned();
            self.remove(now, &info.storage, "", &name, Some(new.clone()));
            return Ok(new);
        }
        if new == *old {
            return Ok(new);
        }
        Ok(Value::clone(&self.put(&info.storage, new)))
    }
}

/// A `LabelSelector` in its string form.
pub(super) fn selector_text(selector: &Value) -> String {
    let mut terms: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for rule in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = rule["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        terms.push(match rule["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// A number, or a percentage of `total`, rounded up.
fn share(value: &Value, total: i64) -> i64 {
    match value.as_str().and_then(|t| t.strip_suffix('%')).and_then(|t| t.parse::<i64>().ok()) {
        Some(percent) => (total * percent + 99) / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('.').filter(|s| !s.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[step];
    }
    *place = value;
}

/// A replace of the scale is one of an object of that name.
fn check_scale_body(request: &Request) -> Result<(), Status> {
    let body = request.body.as_ref().unwrap_or(&Value::Null);
    let (inside, around) = (object::namespace(body), request.namespace.as_deref().unwrap_or_default());
    if !inside.is_empty() && inside != around {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    check_name(request, body)
}

fn internal(why: &str) -> Status {
    let mut status = Status::new(Reason::InternalError, format!("Internal error occurred: {why}"));
    let (reason, field) = (String::new(), String::new());
    status.details.causes.push(super::Cause { reason, message: why.to_owned(), field });
    status
}

/// The scale of an object, and whether the object says how many replicas it wants.
fn scale_of(info: &ResourceInfo, object: &Value, paths: &ScalePaths) -> Result<(Value, bool), Status> {
    let meta = &object["metadata"];
    let mut kept = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        object::set_or_remove(&mut kept, field, &meta[field]);
    }
    let wrong = Status::unexpected;
    let found = custom::value_at(object, &paths.spec_replicas).map_err(wrong)?.is_some();
    let wanted = custom::number_at(object, &paths.spec_replicas).map_err(wrong)?;
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": kept, "spec": {},
        "status": {"replicas": custom::number_at(object, &paths.status_replicas).map_err(wrong)?},
    });
    if wanted != 0 {
        scale["spec"]["replicas"] = json!(wanted);
    }
    let selector = if !paths.label_selector.is_empty() {
        custom::text_at(object, &paths.label_selector).map_err(wrong)?
    } else if info.custom {
        String::new()
    } else {
        selector_text(&object["spec"]["selector"])
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    Ok((scale, found))
}
