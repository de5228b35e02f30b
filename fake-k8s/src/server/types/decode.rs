//! Reading an object of a built-in kind as Kubernetes' own code would: what has the wrong type is refused, what it does not
//! know is dropped and told, nulls are nothing, and what it shows in any case is there.
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Record, Scalar, Type, Types};
use crate::server::quantities::{MUST_MATCH, Quantity};
use crate::server::schema::join;

/// What is wrong with an object.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct Mistake {
    /// In the words of Go's decoder of JSON.
    pub text: String,
    /// In those of the converter that reads what a strategic merge patch has made, where they are others.
    pub converted: Option<String>,
}

impl Mistake {
    fn new(text: String) -> Self {
        Self { text, converted: None }
    }
}

/// Reads an object; the paths of what is not known are added to `unknown`.
pub(in crate::server) fn read(record: &Record, object: &mut Value, unknown: &mut Vec<String>) -> Result<(), Mistake> {
    let fields = object.as_object_mut().ok_or_else(|| Mistake::new("the object is none".to_owned()))?;
    Reader { names: Vec::new(), unknown }.fields(record, fields, "")
}

struct Reader<'a> {
    /// The names of the fields on the way, without places in lists: so Go shows them.
    names: Vec<String>,
    unknown: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn fields(&mut self, record: &Record, fields: &mut Map<String, Value>, path: &str) -> Result<(), Mistake> {
        fields.retain(|name, value| {
            let known = record.fields.contains_key(name);
            if !known {
                self.unknown.push(join(path, name));
            }
            known && !value.is_null()
        });
        for (name, value) in fields.iter_mut() {
            self.names.push(name.clone());
            self.value(record, &record.fields[name], value, &join(path, name))?;
            self.names.pop();
        }
        Ok(())
    }

    fn value(&mut self, record: &Record, kind: &Type, value: &mut Value, path: &str) -> Result<(), Mistake> {
        match (kind, &mut *value) {
            (Type::Any, _) => Ok(()),
            (Type::Scalar(scalar), _) => self.scalar(record, *scalar, value),
            (Type::Record { name, .. }, Value::Object(fields)) => {
                self.fields(Types::of_this_version().record(name), fields, path)
            }
            (Type::List { of, .. }, Value::Array(items)) => {
                items.iter_mut().enumerate().try_for_each(|(i, item)| {
                    // A null in a list is its type's nothing.
                    if item.is_null() {
                        *item = nothing(of);
                    }
                    self.value(record, of, item, &format!("{path}[{i}]"))
                })
            }
            (Type::Map { of, .. }, Value::Object(entries)) => entries.iter_mut().try_for_each(|(key, entry)| {
                if entry.is_null() {
                    *entry = nothing(of);
                }
                self.value(record, of, entry, &join(path, key))
            }),
            (_, other) => Err(self.cannot(record, other, &go_type(kind))),
        }
    }

    fn cannot(&self, record: &Record, value: &Value, wanted: &str) -> Mistake {
        let found = match value {
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if number.is_f64() && wanted.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) | Value::Null => "object".to_owned(),
        };
        let place = self.names.join(".");
        let text = format!(
            "json: cannot unmarshal {found} into Go struct field {}.{place} of type {wanted}",
            record.go_name()
        );
        let (kind, full) = match value {
            Value::Bool(_) => ("bool", "bool"),
            Value::Number(number) if number.is_f64() => ("float64", "float64"),
            Value::Number(_) => ("int64", "int64"),
            Value::String(_) => ("string", "string"),
            Value::Array(_) => ("slice", "[]interface {}"),
            Value::Object(_) | Value::Null => ("map", "map[string]interface {}"),
        };
        let converted = match wanted {
            list if list.starts_with("[]") => format!("cannot restore slice from {kind}"),
            map if map.starts_with("map[") => format!("cannot restore map from {kind}"),
            record if record.contains('.') => format!("cannot restore struct from: {kind}"),
            scalar => format!("cannot convert {full} to {scalar}"),
        };
        Mistake { text, converted: Some(converted) }
    }

    fn scalar(&self, record: &Record, scalar: Scalar, value: &mut Value) -> Result<(), Mistake> {
        let fits = match scalar {
            Scalar::Text => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Int32 => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            Scalar::Int64 => value.is_i64(),
            Scalar::Number => value.is_number(),
            Scalar::Bytes | Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::IntOrString => {
                return self.special(record, scalar, value);
            }
        };
        if fits { Ok(()) } else { Err(self.cannot(record, value, go_scalar(scalar))) }
    }

    fn special(&self, record: &Record, scalar: Scalar, value: &mut Value) -> Result<(), Mistake> {
        let text = value.as_str().map(str::to_owned);
        match (scalar, text) {
            (Scalar::Quantity, _) => {
                let quantity = Quantity::of(value).ok_or_else(|| Mistake::new(MUST_MATCH.to_owned()))?;
                *value = Value::String(quantity.to_string());
                Ok(())
            }
            (Scalar::IntOrString, None) if value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => Ok(()),
            (Scalar::IntOrString, Some(_)) => Ok(()),
            (Scalar::Bytes, Some(text)) => match first_bad_byte(&text) {
                None => Ok(()),
                Some(at) => Err(Mistake::new(format!("illegal base64 data at input byte {at}"))),
            },
            (Scalar::Time | Scalar::MicroTime, Some(text)) => {
                *value = json!(time(&text, scalar == Scalar::MicroTime)?);
                Ok(())
            }
            _ => Err(self.cannot(record, value, go_scalar(scalar))),
        }
    }
}

/// A moment as Kubernetes writes it: in UTC, whole seconds or six digits of them.
fn time(text: &str, micro: bool) -> Result<String, Mistake> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let refused = |rest: &str, part: &str| {
        Mistake::new(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"))
    };
    let fraction = text.get(19..).and_then(|rest| rest.strip_prefix('.'));
    let digits = fraction.map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let Ok(moment) = text.parse::<Timestamp>() else { return Err(refused(text, "2006")) };
    if micro && digits != 6 {
        return Err(refused(&text[19..], ".000000"));
    }
    let shape = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(moment.strftime(shape).to_string())
}

/// Where Go's decoder of base64 stops; line ends are passed over.
fn first_bad_byte(text: &str) -> Option<usize> {
    let bytes: Vec<(usize, u8)> = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')).collect();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    for (place, (at, byte)) in bytes.iter().enumerate() {
        let padding = bytes[place..].iter().all(|(_, byte)| *byte == b'=')
            && place % 4 >= 2
            && bytes.len() - place == 4 - place % 4;
        if padding {
            return None;
        }
        if !is_letter(*byte) {
            return Some(*at);
        }
    }
    (!bytes.len().is_multiple_of(4)).then(|| text.len() - bytes.len() % 4)
}

fn go_scalar(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Text => "string",
        Scalar::Boolean => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Number => "float64",
        Scalar::Bytes => "[]uint8",
        Scalar::Quantity => "resource.Quantity",
        Scalar::Time => "string",
        Scalar::MicroTime => "string",
        Scalar::IntOrString => "int32",
    }
}

fn go_type(kind: &Type) -> String {
    match kind {
        Type::Scalar(scalar) => go_scalar(*scalar).to_owned(),
        Type::Any => "interface {}".to_owned(),
        Type::Record { name, .. } => {
            let mut words = name.rsplit('.');
            let (name, package) = (words.next().unwrap_or_default(), words.next().unwrap_or("v1"));
            format!("{package}.{name}")
        }
        Type::List { of, .. } => format!("[]{}", go_type(of)),
        Type::Map { of, .. } => format!("map[string]{}", go_type(of)),
    }
}

fn nothing(kind: &Type) -> Value {
    match kind {
        Type::Scalar(Scalar::Boolean) => json!(false),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => json!(0),
        Type::Scalar(Scalar::Quantity) => json!("0"),
        Type::Scalar(_) => json!(""),
        Type::Record { .. } | Type::Map { .. } => json!({}),
        Type::List { .. } | Type::Any => Value::Null,
    }
}

/// The object that Go has before anything is set: what is shown in any case.
pub(in crate::server) fn zero(record: &Record) -> Value {
    let mut object = json!({});
    complete(record, &mut object);
    object
}

/// Adds what is shown in any case: records that are always there, and required fields that hold nothing.
pub(in crate::server) fn complete(record: &Record, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    for (name, kind) in &record.fields {
        let required = record.required.contains(name);
        let absent = fields.get(name).is_none_or(Value::is_null);
        match kind {
            Type::Record { is_always_there: true, .. } if absent => drop(fields.insert(name.clone(), json!({}))),
            _ if absent && required => {
                let value = match kind {
                    Type::Record { .. } | Type::Map { .. } | Type::Scalar(Scalar::Time | Scalar::MicroTime) => {
                        Value::Null
                    }
                    other => nothing(other),
                };
                fields.insert(name.clone(), value);
            }
            kind if record.left_out.contains(name) && fields.get(name) == Some(&nothing(kind)) => {
                fields.remove(name);
            }
            _ => {}
        }
        if let Some(value) = fields.get_mut(name) {
            within(kind, value, complete);
        }
    }
}

/// Takes away what does not survive being stored: lists and maps without anything in them are none afterwards.
pub(in crate::server) fn trim(record: &Record, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let empty =
        |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
    for (name, kind) in &record.fields {
        let Some(value) = fields.get_mut(name) else { continue };
        if matches!(kind, Type::List { .. } | Type::Map { .. }) && empty(value) {
            match record.required.contains(name) {
                true => *value = Value::Null,
                false => drop(fields.remove(name)),
            }
            continue;
        }
        within(kind, value, trim);
    }
}

/// Does something to every record that a value of this type has in it.
fn within(kind: &Type, value: &mut Value, work: fn(&Record, &mut Value)) {
    match (kind, value) {
        (Type::Record { name, .. }, value @ Value::Object(_)) => work(Types::of_this_version().record(name), value),
        (Type::List { of, .. }, Value::Array(items)) => items.iter_mut().for_each(|item| within(of, item, work)),
        (Type::Map { of, .. }, Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| within(of, entry, work));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(kind: &str, mut object: Value) -> (Result<(), Mistake>, Vec<String>, Value) {
        let mut unknown = Vec::new();
        let record = Types::of_this_version().kind("", "v1", kind).expect("a kind");
        let result = read(record, &mut object, &mut unknown);
        (result, unknown, object)
    }

    #[test]
    fn wrong_types_are_told_as_go_does() {
        for (kind, object, expected) in [
            ("ConfigMap", json!({"data": {"a": 1}}), "number into Go struct field ConfigMap.data of type string"),
            (
                "Pod",
                json!({"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}}),
                "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                "Pod",
                json!({"spec": {"containers": {}}}),
                "object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            ("Service", json!({"spec": []}), "array into Go struct field Service.spec of type v1.ServiceSpec"),
        ] {
            let (result, _, _) = decode(kind, object);
            assert_eq!(result.unwrap_err().text, format!("json: cannot unmarshal {expected}"));
        }
    }

    #[test]
    fn what_is_not_known_is_dropped_and_told() {
        let pod = json!({"spec": {"containers": [{"name": "a", "surprise": 1}], "odd": {}}, "extra": null});
        let (result, mut unknown, object) = decode("Pod", pod);
        unknown.sort();
        assert_eq!(
            (result, unknown),
            (Ok(()), vec!["extra".into(), "spec.containers[0].surprise".into(), "spec.odd".into()])
        );
        assert_eq!(object, json!({"spec": {"containers": [{"name": "a"}]}}));
    }

    #[test]
    fn base64_stops_where_go_stops() {
        for (text, expected) in
            [("eA==", None), ("", None), ("eHh4", None), ("not base64!", Some(3)), ("eA=", Some(2)), ("eA", Some(0))]
        {
            assert_eq!(first_bad_byte(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_shown_in_any_case_is_there() {
        let record = Types::of_this_version().kind("", "v1", "Pod").expect("a kind");
        assert_eq!(zero(record), json!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
    }
}
