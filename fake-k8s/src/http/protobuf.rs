//! Kubernetes' protobuf bodies, for the few kinds that `kubectl create` sends in no other form.
//!
//! A message is read by a table of its fields: number, name, and how the value is to be read. What is not in the tables
//! is refused, not dropped: half an object would be worse than none.
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// What every protobuf body of Kubernetes begins with.
const MAGIC: &[u8] = b"k8s\0";

/// How a field is read.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Int,
    Bool,
    Bytes,
    Message(Fields),
    /// A list of texts or of messages.
    Texts,
    Messages(Fields),
    /// A map from text to text, or from text to bytes.
    TextMap,
    BytesMap,
    /// Seconds since the epoch in a message.
    Time,
    IntOrString,
}

type Fields = &'static [(u64, &'static str, Kind)];

use Kind::{Bool, Bytes, BytesMap, Int, IntOrString, Message, Messages, Text, TextMap, Texts, Time};

const OWNER: Fields = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Bool),
    (7, "blockOwnerDeletion", Bool),
];
const META: Fields = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Int),
    (8, "creationTimestamp", Time),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Messages(OWNER)),
    (14, "finalizers", Texts),
];
const EMPTY: Fields = &[];
const NAMESPACE: Fields = &[
    (1, "metadata", Message(META)),
    (2, "spec", Message(&[(1, "finalizers", Texts)])),
    (3, "status", Message(&[(1, "phase", Text)])),
];
const CONFIG_MAP: Fields =
    &[(1, "metadata", Message(META)), (2, "data", TextMap), (3, "binaryData", BytesMap), (4, "immutable", Bool)];
const SECRET: Fields = &[
    (1, "metadata", Message(META)),
    (2, "data", BytesMap),
    (3, "type", Text),
    (4, "stringData", TextMap),
    (5, "immutable", Bool),
];
const SERVICE_ACCOUNT: Fields = &[(1, "metadata", Message(META)), (4, "automountServiceAccountToken", Bool)];
const SERVICE_PORT: Fields = &[
    (1, "name", Text),
    (2, "protocol", Text),
    (3, "port", Int),
    (4, "targetPort", IntOrString),
    (5, "nodePort", Int),
    (6, "appProtocol", Text),
];
const SERVICE_SPEC: Fields = &[
    (1, "ports", Messages(SERVICE_PORT)),
    (2, "selector", TextMap),
    (3, "clusterIP", Text),
    (4, "type", Text),
    (5, "externalIPs", Texts),
    (7, "sessionAffinity", Text),
    (8, "loadBalancerIP", Text),
    (9, "loadBalancerSourceRanges", Texts),
    (11, "externalTrafficPolicy", Text),
    (12, "healthCheckNodePort", Int),
    (20, "allocateLoadBalancerNodePorts", Bool),
    (21, "loadBalancerClass", Text),
    (22, "internalTrafficPolicy", Text),
    (10, "externalName", Text),
    (13, "publishNotReadyAddresses", Bool),
    (18, "clusterIPs", Texts),
    (17, "ipFamilyPolicy", Text),
    (19, "ipFamilies", Texts),
];
const SERVICE: Fields = &[
    (1, "metadata", Message(META)),
    (2, "spec", Message(SERVICE_SPEC)),
    (3, "status", Message(&[(1, "loadBalancer", Message(EMPTY))])),
];
const RULE: Fields = &[
    (1, "verbs", Texts),
    (2, "apiGroups", Texts),
    (3, "resources", Texts),
    (4, "resourceNames", Texts),
    (5, "nonResourceURLs", Texts),
];
const ROLE: Fields = &[(1, "metadata", Message(META)), (2, "rules", Messages(RULE))];
const SUBJECT: Fields = &[(1, "kind", Text), (2, "apiGroup", Text), (3, "name", Text), (4, "namespace", Text)];
const BINDING: Fields = &[
    (1, "metadata", Message(META)),
    (2, "subjects", Messages(SUBJECT)),
    (3, "roleRef", Message(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)])),
];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", Int),
    (2, "preconditions", Message(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (3, "orphanDependents", Bool),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];
const EVICTION: Fields = &[(1, "metadata", Message(META)), (2, "deleteOptions", Message(DELETE_OPTIONS))];

fn fields_of(kind: &str) -> Option<Fields> {
    Some(match kind {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "Service" => SERVICE,
        "Role" | "ClusterRole" => ROLE,
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        _ => return None,
    })
}

/// The object in a body, or why there is none.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("the body does not begin as Kubernetes' protobuf does")?;
    let mut envelope: BTreeMap<u64, &[u8]> = BTreeMap::new();
    for field in read(body)? {
        if let (number, Raw::Bytes(bytes)) = field {
            envelope.insert(number, bytes);
        }
    }
    let kind_meta: Fields = &[(1, "apiVersion", Text), (2, "kind", Text)];
    let head = message(envelope.get(&1).copied().unwrap_or_default(), kind_meta)?;
    let kind = head["kind"].as_str().unwrap_or_default();
    let fields = fields_of(kind).ok_or_else(|| format!("{kind:?} is not read from protobuf here: send JSON"))?;
    let mut object = message(envelope.get(&2).copied().unwrap_or_default(), fields)?;
    object["apiVersion"] = head["apiVersion"].clone();
    object["kind"] = head["kind"].clone();
    Ok(object)
}

enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("the message is cut off")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long".into())
}

fn read(mut bytes: &[u8]) -> Result<Vec<(u64, Raw<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let raw = match tag & 7 {
            0 => Raw::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|e| e.to_string())?;
                let (now, rest) = bytes.split_at_checked(length).ok_or("the message is cut off")?;
                bytes = rest;
                Raw::Bytes(now)
            }
            other => return Err(format!("wire type {other} is not used by Kubernetes")),
        };
        fields.push((tag >> 3, raw));
    }
    Ok(fields)
}

fn message(bytes: &[u8], table: Fields) -> Result<Value, String> {
    let mut out = Map::new();
    for (number, raw) in read(bytes)? {
        let Some((_, name, kind)) = table.iter().find(|(n, _, _)| *n == number) else {
            return Err(format!("field {number} is not read from protobuf here: send JSON"));
        };
        field(&mut out, name, *kind, &raw)?;
    }
    Ok(Value::Object(out))
}

fn field(out: &mut Map<String, Value>, name: &str, kind: Kind, raw: &Raw<'_>) -> Result<(), String> {
    let text = |b: &[u8]| std::str::from_utf8(b).map(|s| json!(s)).map_err(|e| e.to_string());
    let list = |out: &mut Map<String, Value>, value: Value| {
        if let Some(list) = out.entry(name).or_insert_with(|| json!([])).as_array_mut() {
            list.push(value);
        }
    };
    let value = match (kind, raw) {
        (Text, Raw::Bytes(b)) => {
            // Go writes every text, also the empty ones that JSON leaves out.
            if b.is_empty() {
                return Ok(());
            }
            text(b)?
        }
        (Int, Raw::Number(0)) => return Ok(()),
        (Int, Raw::Number(n)) => json!(n.cast_signed()),
        (Bool, Raw::Number(n)) => json!(*n != 0),
        (Bytes, Raw::Bytes(b)) => json!(STANDARD.encode(b)),
        (Message(table), Raw::Bytes(b)) => message(b, table)?,
        (Texts, Raw::Bytes(b)) => {
            list(out, text(b)?);
            return Ok(());
        }
        (Messages(table), Raw::Bytes(b)) => {
            list(out, message(b, table)?);
            return Ok(());
        }
        (TextMap | BytesMap, Raw::Bytes(b)) => {
            let value = if matches!(kind, TextMap) { Text } else { Bytes };
            let (mut key, mut content) = (String::new(), json!(""));
            for (number, raw) in read(b)? {
                let mut one = Map::new();
                field(&mut one, "x", if number == 1 { Text } else { value }, &raw)?;
                let found = one.remove("x").unwrap_or_else(|| json!(""));
                if number == 1 { key = found.as_str().unwrap_or_default().to_owned() } else { content = found }
            }
            if let Some(map) = out.entry(name).or_insert_with(|| json!({})).as_object_mut() {
                map.insert(key, content);
            }
            return Ok(());
        }
        // The server sets the only times that a client can send here.
        (Time, Raw::Bytes(_)) => return Ok(()),
        (IntOrString, Raw::Bytes(b)) => {
            let parts = message(b, &[(1, "type", Int), (2, "int", Int), (3, "text", Text)])?;
            if parts["type"] == 1 { parts["text"].clone() } else { parts.get("int").cloned().unwrap_or(json!(0)) }
        }
        _ => return Err(format!("{name} has the wrong wire type")),
    };
    out.insert(name.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        assert!(decode(b"{}").is_err());
        assert!(decode(b"k8s\0\x0a\x7f").is_err());
        // A Pod: kind is known to Kubernetes, not to the tables.
        assert!(decode(b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod").unwrap_err().contains("send JSON"));
    }

    #[test]
    fn a_config_map_is_read() {
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01m\x12\x06\x0a\x01a\x12\x01b";
        let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
        assert_eq!(decode(body).unwrap(), wanted);
    }
}
