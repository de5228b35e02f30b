//! The rules of numbers that many kinds share.
use serde_json::Value;

use crate::server::FieldError;

/// A number that may not be negative; one that is absent is not.
pub fn nonnegative(object: &Value, path: &str, field: &str) -> Option<FieldError> {
    let number = object[field].as_i64().filter(|number| *number < 0)?;
    Some(FieldError::invalid(format!("{path}.{field}"), number, "must be greater than or equal to 0"))
}

/// The same of several fields.
pub fn all_nonnegative(object: &Value, path: &str, fields: &[&str]) -> Vec<FieldError> {
    fields.iter().filter_map(|field| nonnegative(object, path, field)).collect()
}

/// A field that keeps its value. The path of the message is not always the whole one.
pub fn immutable(old: &Value, new: &Value, path: &str) -> Option<FieldError> {
    (old != new).then(|| {
        let error = FieldError::invalid(path, new.clone(), "field is immutable");
        if new.is_null() { error.printed("null") } else { error }
    })
}

/// One of these words.
pub fn one_of(value: &Value, path: &str, words: &[&str]) -> Option<FieldError> {
    let known = value.is_null() || value.as_str().is_some_and(|word| words.contains(&word));
    let supported: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    (!known).then(|| FieldError::not_supported(path, value.clone(), &supported))
}

/// The number before the sign of a percentage.
fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// A number, or the number of a percentage.
pub fn int_or_percent(value: &Value) -> i64 {
    percent(value).or_else(|| value.as_i64()).or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// A number that is not negative, or a percentage.
pub fn positive_int_or_percent(value: &Value, path: &str) -> Option<FieldError> {
    match value {
        Value::String(_) if percent(value).is_none() => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            Some(FieldError::invalid(path, value.clone(), detail))
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            Some(FieldError::invalid(path, value.clone(), "must be greater than or equal to 0"))
        }
        _ => None,
    }
}

/// Not more than all of it.
pub fn at_most_all(value: &Value, path: &str) -> Option<FieldError> {
    percent(value)
        .filter(|percent| *percent > 100)
        .map(|_| FieldError::invalid(path, value.clone(), "must not be greater than 100%"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_percentages() {
        for (value, number, wrong) in [
            (json!(3), 3, false),
            (json!(-1), -1, true),
            (json!("50%"), 50, false),
            (json!("150%"), 150, true),
            (json!("half"), 0, true),
            (json!("%"), 0, true),
            (json!("7"), 7, true),
        ] {
            assert_eq!(int_or_percent(&value), number, "{value}");
            let error = positive_int_or_percent(&value, "p").or_else(|| at_most_all(&value, "p"));
            assert_eq!(error.is_some(), wrong, "{value}");
        }
    }
}
