//! Where two servers differ in what they answered.
use serde_json::Value;

use super::play::Answer;
use super::sequence::Sequence;

/// One place at which two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Which step of the sequence.
    pub step: usize,
    /// The line of the table that it counts in.
    pub does: String,
    /// Where: `code`, `warnings`, or a JSON pointer into the body.
    pub place: String,
    /// What the real server says; null where it says nothing.
    pub real: Value,
    /// What the fake says.
    pub fake: Value,
    /// The whole answers: code and body.
    pub codes: (u16, u16),
}

/// All differences between two masked runs of one sequence, the first few of each step.
pub fn differences(sequence: &Sequence, real: &[Answer], fake: &[Answer]) -> Vec<Difference> {
    let mut out = Vec::new();
    for (step, (real, fake)) in real.iter().zip(fake).enumerate() {
        let codes = (real.code, fake.code);
        let mut found = |place: &str, real: &Value, fake: &Value| {
            out.push(Difference {
                step,
                does: sequence.steps[step].does.clone(),
                place: place.to_owned(),
                real: real.clone(),
                fake: fake.clone(),
                codes,
            });
        };
        if real.code != fake.code {
            found("code", &describe(real), &describe(fake));
            continue;
        }
        if real.warnings != fake.warnings {
            found("warnings", &real.warnings.clone().into(), &fake.warnings.clone().into());
        }
        walk(&mut String::new(), &real.body, &fake.body, &mut found);
    }
    out
}

fn describe(answer: &Answer) -> Value {
    let message = answer.body["message"].as_str().unwrap_or_default();
    Value::String(format!("{} {message}", answer.code))
}

fn walk(place: &mut String, real: &Value, fake: &Value, found: &mut impl FnMut(&str, &Value, &Value)) {
    match (real, fake) {
        (Value::Object(left), Value::Object(right)) => {
            let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in names {
                descend(place, name, |place| {
                    walk(place, left.get(name).unwrap_or(&Value::Null), right.get(name).unwrap_or(&Value::Null), found);
                });
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for i in 0..left.len().max(right.len()) {
                descend(place, &i.to_string(), |place| {
                    walk(place, left.get(i).unwrap_or(&Value::Null), right.get(i).unwrap_or(&Value::Null), found);
                });
            }
        }
        _ if real != fake => found(place, real, fake),
        _ => {}
    }
}

fn descend(place: &mut String, name: &str, work: impl FnOnce(&mut String)) {
    let length = place.len();
    place.push('/');
    place.push_str(name);
    work(place);
    place.truncate(length);
}
