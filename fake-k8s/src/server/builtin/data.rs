//! What holds plain data: config maps and secrets; and service accounts.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::checks::Faults;
use super::{drop_empty, set_default};
use crate::server::{FieldError, FieldErrorKind, object};

const MOST_BYTES: usize = 1024 * 1024;

pub fn default_config_map(map: &mut Value) {
    drop_empty(map, &["data", "binaryData"]);
}

pub fn default_secret(secret: &mut Value) {
    let plain = secret.as_object_mut().and_then(|fields| fields.remove("stringData"));
    if let Some(Value::Object(plain)) = plain.filter(|plain| *plain != json!({})) {
        let data = object::entry_object(secret, "data");
        for (key, text) in plain {
            if let Value::String(text) = text {
                data.insert(key, Value::String(STANDARD.encode(text)));
            }
        }
    }
    drop_empty(secret, &["data", "type"]);
    if let Some(fields) = secret.as_object_mut() {
        set_default(fields, "type", json!("Opaque"));
    }
}

/// Of the secrets of a service account only the names are kept.
pub fn default_service_account(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = secret["name"].as_str().unwrap_or_default();
        *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    }
    drop_empty(account, &["secrets", "imagePullSecrets"]);
}

pub fn validate_config_map(map: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (texts, bytes) = (&map["data"], &map["binaryData"]);
    let mut size = 0;
    for (key, text) in texts.as_object().into_iter().flatten() {
        let path = format!("data[{key}]");
        faults.config_key(&path, key);
        if bytes.get(key).is_some() {
            faults.invalid(path, key.as_str(), "duplicate of key present in binaryData");
        }
        size += text.as_str().map_or(0, str::len);
    }
    for (key, coded) in bytes.as_object().into_iter().flatten() {
        faults.config_key(&format!("binaryData[{key}]"), key);
        size += decoded(coded).len();
    }
    if size > MOST_BYTES {
        faults.too_long("", MOST_BYTES);
    }
    faults.0
}

fn decoded(coded: &Value) -> Vec<u8> {
    STANDARD.decode(coded.as_str().unwrap_or_default()).unwrap_or_default()
}

pub fn validate_secret(secret: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let data = &secret["data"];
    let mut size = 0;
    for (key, coded) in data.as_object().into_iter().flatten() {
        faults.config_key(&format!("data[{key}]"), key);
        size += decoded(coded).len();
    }
    if size > MOST_BYTES {
        faults.too_long("data", MOST_BYTES);
    }
    let missing = |key: &&str| data[*key].is_null();
    let mut require = |key: &str| faults.required(format!("data[{key}]"), "");
    match secret["type"].as_str().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if object::annotation(secret, name).is_none_or(str::is_empty) {
                faults.required(format!("metadata.annotations[{name}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", &mut faults),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", &mut faults),
        "kubernetes.io/basic-auth" if ["username", "password"].iter().all(missing) => {
            ["username", "password"].into_iter().for_each(require);
        }
        "kubernetes.io/ssh-auth" if decoded(&data["ssh-privatekey"]).is_empty() => require("ssh-privatekey"),
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].iter().filter(|key| missing(key)).for_each(|key| require(key)),
        _ => {}
    }
    faults.0
}

fn docker_config(data: &Value, key: &str, faults: &mut Faults) {
    let path = format!("data[{key}]");
    let Some(coded) = data.get(key) else { return faults.required(path, "") };
    let bytes = decoded(coded);
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", kind(&other)),
        Err(error) if error.is_eof() => "unexpected end of JSON input".into(),
        Err(_) => {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or(b' ');
            format!("invalid character '{}' looking for beginning of value", char::from(first))
        }
    };
    faults.invalid(path, "<secret contents redacted>", why);
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        _ => "string",
    }
}

/// What is marked as immutable stays as it is, and stays so marked.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["type"] != new["type"] {
        errors.push(FieldError::invalid("type", new["type"].clone(), "field is immutable"));
    }
    if old["immutable"] == true {
        let same = |field: &&str| match *field {
            "immutable" => new["immutable"] == true,
            field => old[field] == new[field],
        };
        let changed = ["immutable", "data", "binaryData"].into_iter().filter(|field| !same(field));
        let detail = "field is immutable when `immutable` is set";
        errors.extend(changed.map(|field| FieldError::of(FieldErrorKind::Forbidden, field, Value::Null, detail)));
    }
    errors
}

/// What is said of an annotation that is on its way out, when it is new.
pub fn account_warning(old: Option<&Value>, new: &Value) -> Option<String> {
    let name = "kubernetes.io/enforce-mountable-secrets";
    let has = |account: &Value| object::annotation(account, name).is_some();
    (has(new) && !old.is_some_and(has)).then(|| {
        format!("metadata.annotations[{name}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets")
    })
}

/// What is said of a certificate and its key that do not even look like them.
pub fn secret_warning(secret: &Value) -> Option<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return None;
    }
    let certificate = String::from_utf8_lossy(&decoded(&secret["data"]["tls.crt"])).into_owned();
    let key = String::from_utf8_lossy(&decoded(&secret["data"]["tls.key"])).into_owned();
    certificate_fault(&pem_types(&certificate)).or_else(|| key_fault(&pem_types(&key)))
}

/// The kinds of the PEM blocks in a text.
fn pem_types(text: &str) -> Vec<&str> {
    let begin = text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    begin.filter(|kind| text.contains(&format!("-----END {kind}-----"))).collect()
}

fn is_key(kind: &str) -> bool {
    kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")
}

fn certificate_fault(found: &[&str]) -> Option<String> {
    match found {
        [] => Some("tls: failed to find any PEM data in certificate input".into()),
        all if all.contains(&"CERTIFICATE") => None,
        [one] if is_key(one) => Some("tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".into()),
        all => Some(format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            all.join(" ")
        )),
    }
}

fn key_fault(found: &[&str]) -> Option<String> {
    match found {
        [] => Some("tls: failed to find any PEM data in key input".into()),
        all if all.iter().any(|kind| is_key(kind)) => None,
        ["CERTIFICATE"] => Some("tls: found a certificate rather than a key in the PEM for the private key".into()),
        all => Some(format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            all.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_keys_of_a_config_map() {
        for (map, wrong) in [
            (json!({"data": {"a": "1"}, "binaryData": {"b": "eA=="}}), vec![]),
            (
                json!({"data": {"a": "1"}, "binaryData": {"a": "eA=="}}),
                vec!["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
            (json!({"data": {"..": "1"}}), vec!["data[..]: Invalid value: \"..\": must not be '..'"]),
            (
                json!({"data": {"a": "x".repeat(MOST_BYTES + 1)}}),
                vec![": Too long: may not be more than 1048576 bytes"],
            ),
        ] {
            assert_eq!(said(&validate_config_map(&map)), wrong);
        }
    }

    #[test]
    fn what_each_type_of_secret_must_hold() {
        for (kind, data, wrong) in [
            ("Opaque", json!({}), vec![]),
            ("kubernetes.io/tls", json!({"tls.crt": ""}), vec!["data[tls.key]: Required value"]),
            ("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""}), vec!["data[ssh-privatekey]: Required value"]),
            ("kubernetes.io/basic-auth", json!({"password": "eA=="}), vec![]),
            (
                "kubernetes.io/basic-auth",
                Value::Null,
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            (
                "kubernetes.io/dockercfg",
                json!({".dockercfg": "eA=="}),
                vec![
                    "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
                ],
            ),
            (
                "kubernetes.io/service-account-token",
                json!({}),
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
        ] {
            assert_eq!(said(&validate_secret(&json!({"type": kind, "data": data}))), wrong, "{kind}");
        }
    }

    #[test]
    fn a_certificate_is_looked_at() {
        let pem = |kind: &str| STANDARD.encode(format!("-----BEGIN {kind}-----\neA==\n-----END {kind}-----\n"));
        for (certificate, key, warning) in [
            (pem("CERTIFICATE"), pem("RSA PRIVATE KEY"), None),
            ("eA==".into(), "eA==".into(), Some("tls: failed to find any PEM data in certificate input")),
            (pem("CERTIFICATE"), "eA==".into(), Some("tls: failed to find any PEM data in key input")),
        ] {
            let secret = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": certificate, "tls.key": key}});
            assert_eq!(secret_warning(&secret).as_deref(), warning);
        }
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let new = json!({"data": {"a": "2"}});
        let sentences =
            ["immutable", "data"].map(|f| format!("{f}: Forbidden: field is immutable when `immutable` is set"));
        assert_eq!(said(&validate_update(&old, &new)), sentences);
        assert!(validate_update(&new, &old).is_empty());
    }
}
