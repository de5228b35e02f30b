//! Conditions of the scenario language on an object: `<path> = <value>`, `!=`, `~` and `condition <Type> = <Status>`.

use serde_json::Value;

use crate::converge;

/// What is not as the condition says; none when it holds.
pub fn unmet(object: &Value, condition: &str) -> Option<String> {
    let Some((left, operator, right)) = parse(condition) else {
        return Some(format!("`{condition}` must be `<path> =, != or ~ <value>`"));
    };
    let found = match left.strip_prefix("condition ") {
        Some(kind) => converge::condition(object, kind.trim()).map(|found| text(&found["status"])),
        None => at(object, left).map(text),
    };
    let found = found.unwrap_or_default();
    let holds = match operator {
        "=" => found == right,
        "!=" => found != right,
        _ => found.contains(right),
    };
    (!holds).then(|| format!("`{condition}` does not hold: it is `{found}`"))
}

fn parse(condition: &str) -> Option<(&str, &'static str, &str)> {
    for operator in ["!=", "=", "~"] {
        if let Some((left, right)) = condition.split_once(&format!(" {operator}")) {
            return Some((left.trim(), operator, right.trim()));
        }
    }
    None
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, part| match part.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        _ => value.get(part),
    })
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_read_as_documented() {
        let object = serde_json::json!({
            "status": {"phase": "Running", "size": 3, "reason": "all is well",
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        for condition in [
            "status.phase = Running",
            "status.size = 3",
            "status.reason ~ well",
            "status.phase != Failed",
            "condition Ready = True",
            "status.none =",
        ] {
            assert_eq!(unmet(&object, condition), None, "{condition}");
        }
        for condition in ["status.phase = Failed", "condition Ready = False", "condition Odd = True", "nonsense"] {
            assert!(unmet(&object, condition).is_some(), "{condition}");
        }
    }
}
