//! `pods/binding`: the one way in which a pod comes to its node, once and for all.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::metadata::time_text;
use super::resource::ResourceInfo;
use super::{Request, Server, Status, object};

impl Server {
    /// Puts the pod on the node that the Binding names, and says so in its conditions: one commit.
    pub(super) fn bind(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let body = request.body.as_ref().ok_or_else(|| Status::bad_request("the request body is not an object"))?;
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let name = request.name.as_deref().unwrap_or(object::name(body));
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            return Err(Status::not_found(info.group(), info.plural(), name));
        };
        let node = body["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::bad_request("target.name: Required value"));
        }
        let wanted = object::uid(body);
        if !wanted.is_empty() && wanted != object::uid(&stored) {
            let why = "the UID in the precondition does not match the UID in record";
            return Err(Status::conflict(info.group(), info.plural(), name, why));
        }
        if object::is_deleting(&stored) {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(Status::conflict(info.group(), info.plural(), name, &why));
        }
        if let Some(taken) = stored["spec"]["nodeName"].as_str().filter(|taken| !taken.is_empty()) {
            let why = format!("pod {name} is already assigned to node \"{taken}\"");
            return Err(Status::conflict(info.group(), info.plural(), name, &why));
        }
        let mut new = Value::clone(&stored);
        new["spec"]["nodeName"] = json!(node);
        let mut conditions = new["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": time_text(now)}));
        new["status"]["conditions"] = json!(conditions);
        if !request.options.dry_run {
            self.put(&info.storage, new);
        }
        Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}))
    }
}
