//! Reading Kubernetes objects that are plain JSON: the few questions that every controller asks, and label selectors.
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Namespace (empty for what lives in none) and name.
pub type Key = (String, String);

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The text at a JSON pointer; empty when there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer.
pub fn number(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// Whether the JSON pointer leads to `true`.
pub fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The array at a JSON pointer; empty when there is none.
pub fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at a JSON pointer; empty when there is none.
pub fn map<'a>(value: &'a Value, pointer: &str) -> &'a Map<String, Value> {
    value.pointer(pointer).and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The texts of the array at a JSON pointer.
pub fn texts(value: &Value, pointer: &str) -> Vec<String> {
    items(value, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `metadata.name`.
pub fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// `metadata.namespace`.
pub fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid(value: &Value) -> &str {
    text(value, "/metadata/uid")
}

/// `metadata.resourceVersion`.
pub fn version(value: &Value) -> &str {
    text(value, "/metadata/resourceVersion")
}

/// Namespace and name.
pub fn key(value: &Value) -> Key {
    (namespace(value).to_owned(), name(value).to_owned())
}

/// Whether a deletion is under way.
pub fn is_terminating(value: &Value) -> bool {
    value.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// The moment at a JSON pointer.
pub fn moment(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

/// A moment as `metav1.Time` has it: whole seconds.
pub fn time(at: Timestamp) -> Value {
    json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The status (`True`, `False`, `Unknown`, or empty) of a condition.
pub fn condition<'a>(value: &'a Value, kind: &str) -> &'a str {
    let conditions = items(value, "/status/conditions");
    conditions.iter().find(|condition| text(condition, "/type") == kind).map_or("", |found| text(found, "/status"))
}

/// Whether a pod has ended for good.
pub fn is_finished_pod(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The PersistentVolumeClaims of a pod: volume name and claim name.
pub fn claims(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let volumes = items(pod, "/spec/volumes").iter();
    let claims = volumes.map(|volume| (text(volume, "/name"), text(volume, "/persistentVolumeClaim/claimName")));
    claims.filter(|(_, claim)| !claim.is_empty())
}

/// Adds or replaces a condition, keeping `lastTransitionTime` while the status stays. True when something changed.
pub fn set_condition(conditions: &mut Vec<Value>, now: Timestamp, kind: &str, status: &str, why: (&str, &str)) -> bool {
    let mut wanted = json!({ "type": kind, "status": status, "lastProbeTime": null });
    for (field, said) in [("reason", why.0), ("message", why.1)] {
        if !said.is_empty() {
            wanted[field] = json!(said);
        }
    }
    let found = conditions.iter().position(|condition| text(condition, "/type") == kind);
    wanted["lastTransitionTime"] = match found.map(|at| &conditions[at]) {
        Some(old) if text(old, "/status") == status => old["lastTransitionTime"].clone(),
        _ => time(now),
    };
    match found {
        Some(at) if same_condition(&conditions[at], &wanted) => return false,
        Some(at) => conditions[at] = wanted,
        None => conditions.push(wanted),
    }
    true
}

fn same_condition(left: &Value, right: &Value) -> bool {
    ["/status", "/reason", "/message"].iter().all(|field| text(left, field) == text(right, field))
}

/// Whether `labels` match a `metav1.LabelSelector`. An absent selector matches nothing, an empty one everything.
pub fn selects(selector: Option<&Value>, labels: &Map<String, Value>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return false };
    let equal = map(selector, "/matchLabels").iter().all(|(key, wanted)| labels.get(key) == Some(wanted));
    equal && items(selector, "/matchExpressions").iter().all(|requirement| meets(requirement, labels))
}

/// Whether `labels` meet one requirement of a label selector or of a node selector term.
pub fn meets(requirement: &Value, labels: &Map<String, Value>) -> bool {
    let found = labels.get(text(requirement, "/key"));
    let values = items(requirement, "/values");
    let whole = |value: Option<&Value>| value.and_then(Value::as_str).and_then(|text| text.parse::<i64>().ok());
    match text(requirement, "/operator") {
        "In" => found.is_some_and(|found| values.contains(found)),
        "NotIn" => !found.is_some_and(|found| values.contains(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => whole(found).zip(whole(values.first())).is_some_and(|(found, bound)| found > bound),
        "Lt" => whole(found).zip(whole(values.first())).is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// A Kubernetes quantity in thousandths (`100m` is 100, `1` is 1000, `1Gi` is 1073741824000); `None` when it is not one.
pub fn quantity_milli(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '-');
    let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
    let scale: i128 = match suffix {
        "m" => 1,
        "" => 1000,
        "k" => 1000 * 1000,
        "M" => 1000 * 1_000_000,
        "G" => 1000 * 1_000_000_000,
        "T" => 1000 * 1_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut total = whole.parse::<i128>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        place /= 10;
        total += i128::from(digit.to_digit(10)?) * place;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_suffix() {
        let cases = [("100m", 100), ("1", 1000), ("1.5", 1500), ("1Ki", 1_024_000), ("2G", 2_000_000_000_000)];
        for (text, milli) in cases {
            assert_eq!(quantity_milli(&json!(text)), Some(milli), "{text}");
        }
        assert_eq!(quantity_milli(&json!("x")), None);
    }

    #[test]
    fn a_selector_needs_every_requirement() {
        let labels = json!({"app": "etcd", "tier": "data"});
        let labels = labels.as_object().expect("an object");
        let selector = json!({"matchLabels": {"app": "etcd"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["data"]}, {"key": "x", "operator": "DoesNotExist"}]});
        assert!(selects(Some(&selector), labels));
        assert!(!selects(Some(&json!({"matchLabels": {"app": "other"}})), labels));
        assert!(selects(Some(&json!({})), labels));
        assert!(!selects(None, labels));
    }

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let (early, late): (Timestamp, Timestamp) =
            (Timestamp::UNIX_EPOCH, "1970-01-01T01:00:00Z".parse().expect("a moment"));
        let mut conditions = Vec::new();
        assert!(set_condition(&mut conditions, early, "Ready", "False", ("A", "a")));
        assert!(!set_condition(&mut conditions, late, "Ready", "False", ("A", "a")));
        assert!(set_condition(&mut conditions, late, "Ready", "False", ("B", "b")));
        assert_eq!(text(&conditions[0], "/lastTransitionTime"), "1970-01-01T00:00:00Z");
        assert!(set_condition(&mut conditions, late, "Ready", "True", ("", "")));
        assert_eq!(text(&conditions[0], "/lastTransitionTime"), "1970-01-01T01:00:00Z");
    }
}
