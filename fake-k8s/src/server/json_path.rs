//! The JSONPath of printer columns and scale paths: `.a.b`, `[0]`, `[*]`, `['k']`, `[?(@.type=="Ready")]`.
use serde_json::Value;

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { path: Vec<String>, value: String, equal: bool },
}

/// Everything that the path leads to; nothing for a path that cannot be read.
pub(crate) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|v| follow(v, step)).collect();
    }
    found
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::All => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Index(at) => {
            let Some(items) = value.as_array() else { return Vec::new() };
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let at = if *at < 0 { length + at } else { *at };
            usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
        }
        Step::Where { path, value: wanted, equal } => {
            let text = |item: &Value| {
                let found = path.iter().fold(item, |v, field| &v[field]);
                found.as_str().map_or_else(|| found.to_string(), str::to_owned)
            };
            value.as_array().into_iter().flatten().filter(|item| (text(item) == *wanted) == *equal).collect()
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = if after.starts_with('?') { after.find(")]")? + 1 } else { after.find(']')? };
            steps.push(bracket(&after[..end])?);
            rest = &after[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (name, after) = field(rest);
        if name == "*" {
            steps.push(Step::All);
        } else if !name.is_empty() {
            steps.push(Step::Field(name));
        } else if after.len() == rest.len() {
            return None;
        }
        rest = after;
    }
    Some(steps)
}

/// A name up to the next dot or bracket; a backslash takes the next character as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        let (path, value, equal) = match filter.split_once("==") {
            Some((path, value)) => (path, value, true),
            None => filter.split_once("!=").map(|(p, v)| (p, v, false))?,
        };
        let path = path.trim().strip_prefix('@')?.split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        return Some(Step::Where { path, value: unquote(value.trim()).to_owned(), equal });
    }
    if inside.starts_with(['\'', '"']) {
        return Some(Step::Field(unquote(inside).to_owned()));
    }
    inside.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> &str {
    text.trim_matches(['\'', '"'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_paths_of_printer_columns_are_followed() {
        let object = json!({"a": {"b.c": 1, "l": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "?"}]}});
        for (path, wanted) in [
            (".a.l[?(@.type==\"Ready\")].status", json!(["True"])),
            (".a.l[?(@.type=='X')].status", json!(["?"])),
            (".a.l[-1].type", json!(["X"])),
            (".a.l[*].type", json!(["Ready", "X"])),
            (".a['b.c']", json!([1])),
            (".a.b\\.c", json!([1])),
            (".a.none.more", json!([])),
        ] {
            assert_eq!(json!(find(&object, path)), wanted, "{path}");
        }
    }
}
