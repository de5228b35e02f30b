//! The checks that fields of many kinds share: ports, names, keys, numbers. Each says what Kubernetes says.
use serde_json::Value;

use crate::server::metadata::{label_1123_fault, label_value_fault, qualified_name_fault, subdomain_fault};
use crate::server::{FieldError, FieldErrorKind};

/// The transport protocols, sorted as messages list them.
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Collects what is wrong with an object.
#[derive(Debug, Default)]
pub struct Faults(pub Vec<FieldError>);

impl Faults {
    pub fn invalid(&mut self, field: impl Into<String>, value: impl Into<Value>, why: impl Into<String>) {
        self.0.push(FieldError::invalid(field, value, why));
    }

    pub fn required(&mut self, field: impl Into<String>, why: &str) {
        self.0.push(FieldError::required(field, why));
    }

    pub fn forbidden(&mut self, field: impl Into<String>, why: impl Into<String>) {
        self.0.push(FieldError::forbidden(field, why));
    }

    pub fn duplicate(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(field, value));
    }

    pub fn not_found(&mut self, field: impl Into<String>, value: &str) {
        self.0.push(FieldError::of(FieldErrorKind::NotFound, field, value.into(), ""));
    }

    pub fn too_many(&mut self, field: impl Into<String>, found: usize, most: usize) {
        let detail = format!("must have at most {most} items");
        let error = FieldError::of(FieldErrorKind::TooMany, field, found.into(), detail);
        self.0.push(error.printed(found.to_string()));
    }

    pub fn too_long(&mut self, field: impl Into<String>, most: usize) {
        let detail = format!("may not be more than {most} bytes");
        self.0.push(FieldError::of(FieldErrorKind::TooLong, field, Value::Null, detail));
    }

    /// The value is one of these.
    pub fn one_of(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        if !supported.contains(&text(value)) {
            self.not_supported(field, value, supported);
        }
    }

    /// One of these, where not to choose is a mistake of its own.
    pub fn required_one_of(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        if text(value).is_empty() {
            self.required(field, "");
        } else {
            self.one_of(field, value, supported);
        }
    }

    pub fn not_supported(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|s| (*s).to_owned()).collect();
        let value = if value.is_null() { Value::String(String::new()) } else { value.clone() };
        self.0.push(FieldError::not_supported(field, value, &supported));
    }

    /// What a check of a text found, at its field.
    pub fn fault(&mut self, field: impl Into<String>, value: &str, why: Option<String>) {
        if let Some(why) = why {
            self.invalid(field, value, why);
        }
    }

    pub fn label(&mut self, field: impl Into<String>, value: &str) {
        self.fault(field, value, label_1123_fault(value));
    }

    pub fn subdomain(&mut self, field: impl Into<String>, value: &str) {
        self.fault(field, value, subdomain_fault(value));
    }

    pub fn qualified_name(&mut self, field: impl Into<String>, value: &str) {
        self.fault(field, value, qualified_name_fault(value));
    }

    pub fn label_value(&mut self, field: impl Into<String>, value: &str) {
        self.fault(field, value, label_value_fault(value));
    }

    pub fn port_number(&mut self, field: impl Into<String>, port: i64) {
        self.within(field, port, 1, 65535);
    }

    pub fn within(&mut self, field: impl Into<String>, value: i64, least: i64, most: i64) {
        if !(least..=most).contains(&value) {
            self.invalid(field, value, format!("must be between {least} and {most}, inclusive"));
        }
    }

    pub fn not_negative(&mut self, field: impl Into<String>, value: &Value) {
        if number(value) < 0 {
            self.invalid(field, number(value), "must be greater than or equal to 0");
        }
    }

    /// A port by its number or its name.
    pub fn port(&mut self, field: &str, port: &Value) {
        match port.as_str() {
            None => self.port_number(field, number(port)),
            Some(name) => {
                self.port_name(field, name);
            }
        }
    }

    /// The name of a port; true when there is something wrong with it.
    pub fn port_name(&mut self, field: &str, name: &str) -> bool {
        let faults = port_name_faults(name);
        let any = !faults.is_empty();
        faults.into_iter().for_each(|why| self.invalid(field, name, why));
        any
    }

    /// A key of a ConfigMap or Secret.
    pub fn config_key(&mut self, field: &str, key: &str) {
        if key.len() > 253 {
            self.invalid(field, key, "must be no more than 253 characters");
        }
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
            self.invalid(field, key, CONFIG_KEY);
        }
        match key {
            "." | ".." => self.invalid(field, key, format!("must not be '{key}'")),
            _ if key.starts_with("..") => self.invalid(field, key, "must not start with '..'"),
            _ => {}
        }
    }
}

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn port_name_faults(name: &str) -> Vec<&'static str> {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let checks = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    checks.into_iter().filter_map(|(wrong, why)| wrong.then_some(why)).collect()
}

/// A text, empty where there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number, 0 where there is none.
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The items of a list with their places.
pub fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

/// The items of a list for writing; none where there is no list.
pub fn items_mut<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// How many items a list, or entries a map has.
pub fn count(value: &Value) -> usize {
    value.as_array().map_or_else(|| value.as_object().map_or(0, serde_json::Map::len), Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_keys_are_judged_as_kubernetes_does() {
        let said = |check: &dyn Fn(&mut Faults)| {
            let mut faults = Faults::default();
            check(&mut faults);
            faults.0.iter().map(|e| e.detail.clone()).collect::<Vec<_>>()
        };
        for (port, details) in [
            (Value::from(80), vec![]),
            (Value::from(0), vec!["must be between 1 and 65535, inclusive"]),
            (Value::from("web"), vec![]),
            (Value::from("12"), vec!["must contain at least one letter (a-z)"]),
            (
                Value::from("-A"),
                vec![
                    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "must contain at least one letter (a-z)",
                    "must not begin or end with a hyphen",
                ],
            ),
        ] {
            assert_eq!(said(&|f| f.port("p", &port)), details, "{port}");
        }
        assert_eq!(said(&|f| f.config_key("k", "a.b")), Vec::<String>::new());
        assert_eq!(said(&|f| f.config_key("k", "..")), ["must not be '..'"]);
        assert_eq!(said(&|f| f.config_key("k", "a b")), [CONFIG_KEY]);
    }
}
