//! Conditions of the scenario language: `<path> = <value>`, `<path> != <value>`, `<path> ~ <part>` and
//! `condition <Type> = True|False|Unknown`. What is absent equals nothing (`<path> =`), and differs from nothing either:
//! `!=` needs a value, or a step that waits for progress would pass before there is any.

use std::str::FromStr;

use fake_k8s::controllers::object;
use serde_json::Value;

/// One condition on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    subject: Subject,
    relation: Relation,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// A dotted path, as a JSON pointer.
    Path(String),
    /// The status of a condition of this type.
    Condition(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Is,
    IsNot,
    Contains,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = || format!("`{text}` must be `<path> =, != or ~ <value>`, or `condition <Type> = <status>`");
        let (first, rest) = text.trim().split_once(' ').ok_or_else(allowed)?;
        let (subject, rest) = match (first, rest.trim_start().split_once(' ')) {
            ("condition", Some((kind, rest))) => (Subject::Condition(kind.to_owned()), rest),
            ("condition", None) => return Err(allowed()),
            (path, _) => (Subject::Path(format!("/{}", path.replace('.', "/"))), rest),
        };
        let rest = rest.trim_start();
        let (operator, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let relation = match operator {
            "=" => Relation::Is,
            "!=" => Relation::IsNot,
            "~" => Relation::Contains,
            _ => return Err(allowed()),
        };
        Ok(Self { subject, relation, value: value.trim().to_owned() })
    }
}

impl Condition {
    /// The names on the way to the field; none when it is about a condition of the object.
    pub fn path(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.subject {
            Subject::Path(pointer) => Some(pointer.split('/').skip(1)),
            Subject::Condition(_) => None,
        }
    }

    /// What the object says instead; `None` when the condition holds.
    pub fn unmet(&self, found: &Value) -> Option<String> {
        let said = match &self.subject {
            Subject::Path(pointer) => match found.pointer(pointer) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            },
            Subject::Condition(kind) => object::condition(found, kind).to_owned(),
        };
        let holds = match self.relation {
            Relation::Is => said == self.value,
            Relation::IsNot => !said.is_empty() && said != self.value,
            Relation::Contains => said.contains(&self.value),
        };
        (!holds).then(|| match &self.subject {
            Subject::Path(pointer) => format!("{} is `{said}`", pointer[1..].replace('/', ".")),
            Subject::Condition(kind) => format!("condition {kind} is `{said}`"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unmet(condition: &str) -> Option<String> {
        let found = json!({"status": {"phase": "Running", "size": 3, "reason": "a = b != c",
            "conditions": [{"type": "Ready", "status": "True"}], "records": [{"key": "k"}]}});
        condition.parse::<Condition>().expect("a condition").unmet(&found)
    }

    #[test]
    fn a_condition_that_holds_has_nothing_to_say() {
        for condition in [
            "status.phase = Running",
            "status.size = 3",
            "status.reason ~ = b !=",
            "status.phase != Failed",
            "condition Ready = True",
            "status.absent =",
            "status.records.0.key = k",
        ] {
            assert_eq!(unmet(condition), None, "{condition}");
        }
    }

    #[test]
    fn one_that_does_not_says_what_is_there() {
        assert_eq!(unmet("status.phase = Failed").as_deref(), Some("status.phase is `Running`"));
        assert_eq!(unmet("condition Ready = False").as_deref(), Some("condition Ready is `True`"));
        assert_eq!(unmet("condition Odd = True").as_deref(), Some("condition Odd is ``"));
    }

    #[test]
    fn what_is_absent_does_not_differ_from_anything() {
        assert_eq!(unmet("status.absent != Pending").as_deref(), Some("status.absent is ``"));
        assert_eq!(unmet("status.absent != ").as_deref(), Some("status.absent is ``"));
        assert_eq!(unmet("condition Odd != True").as_deref(), Some("condition Odd is ``"));
        assert_eq!(unmet("status.phase != "), None, "it has a value");
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_is_allowed() {
        for text in ["", "status.phase", "status.phase Running", "condition Ready", "a == b"] {
            assert!(text.parse::<Condition>().expect_err(text).contains("must be `<path>"), "{text}");
        }
    }
}
