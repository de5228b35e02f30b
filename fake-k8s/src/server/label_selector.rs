//! Label selectors in their string form (`a=b,c in (d,e)`), read as Kubernetes reads them, complaints included.
use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata::{label_value_faults, qualified_name_faults};
use super::object;

/// One condition of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

impl Requirement {
    /// Does it hold for the labels of this object?
    pub fn matches(&self, value: &Value) -> bool {
        let get = |key: &String| object::label(value, key);
        let number = |key: &String| get(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(key, any) => get(key).is_some_and(|v| any.contains(v)),
            Self::NotIn(key, none) => get(key).is_none_or(|v| !none.contains(v)),
            Self::Exists(key) => get(key).is_some(),
            Self::Absent(key) => get(key).is_none(),
            Self::Greater(key, than) => number(key).is_some_and(|v| v > *than),
            Self::Less(key, than) => number(key).is_some_and(|v| v < *than),
        }
    }
}

/// Reads a selector; what is wrong with it is the error.
pub(crate) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    Parser { tokens: tokens(text), at: 0 }.parse()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    End,
    Error(String),
    Word(String),
    Symbol(&'static str),
}

const SYMBOLS: &[&str] = &[")", ",", "!", "==", "=", ">", "<", "!=", "("];
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::End => "",
            Token::Error(text) | Token::Word(text) => text,
            Token::Symbol(text) => text,
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let is_symbol = |c: char| "=!(),><".contains(c);
    let is_space = |c: char| " \t\r\n".contains(c);
    let (mut out, mut rest) = (Vec::new(), text.trim_start_matches(is_space));
    while let Some(first) = rest.chars().next() {
        let length = if is_symbol(first) {
            let run = rest.find(|c| !is_symbol(c)).unwrap_or(rest.len());
            // The longest symbol that the run begins with.
            match SYMBOLS.iter().filter(|s| rest[..run].starts_with(**s)).max_by_key(|s| s.len()) {
                Some(symbol) => {
                    out.push(Token::Symbol(symbol));
                    symbol.len()
                }
                None => {
                    out.push(Token::Error(format!("error expected: keyword found '{}'", &rest[..run])));
                    run
                }
            }
        } else {
            let end = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            out.push(Token::Word(rest[..end].to_owned()));
            end
        };
        rest = rest[length..].trim_start_matches(is_space);
    }
    out.push(Token::End);
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                Token::End => return Ok(all),
                other => {
                    return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
                }
            }
            let one = self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
            all.push(one);
            match self.next() {
                Token::End => return Ok(all),
                Token::Symbol(",") => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                        return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Symbol("!");
        if absent {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let faults = qualified_name_faults(&key);
        if !faults.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", faults.join("; ")));
        }
        if absent {
            return Ok(Requirement::Absent(key));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement::Exists(key));
        }
        let operator = self.next();
        let operator = operator.text();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => BTreeSet::from([self.exact_value()?]),
            found => return Err(format!("found '{found}', expected: {BINARY}")),
        };
        build(key, operator, values)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let first = self.peek().clone();
        match first {
            Token::Word(_) | Token::Symbol(",") => {
                let all = self.list()?;
                match self.next() {
                    Token::Symbol(")") => Ok(all),
                    _ => Err(format!("found '{}', expected: ')'", first.text())),
                }
            }
            Token::Symbol(")") => {
                self.at += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            other => Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }

    /// Up to the parenthesis that closes; between two commas, before the first and after the last is an empty value.
    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut all = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    all.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(all),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    if all.is_empty() {
                        all.insert(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            all.insert(String::new());
                            return Ok(all);
                        }
                        Token::Symbol(",") => {
                            self.at += 1;
                            all.insert(String::new());
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }
}

fn build(key: String, operator: &str, values: BTreeSet<String>) -> Result<Requirement, String> {
    let mut faults = Vec::new();
    let number = values.first().and_then(|v| v.parse::<i64>().ok());
    if matches!(operator, ">" | "<") && number.is_none() {
        let value = values.first().map_or("", String::as_str);
        faults.push(format!(
            "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
        ));
    }
    for (i, value) in values.iter().enumerate() {
        let why = label_value_faults(value);
        if !why.is_empty() {
            faults.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {}", why.join("; ")));
        }
    }
    match faults.as_slice() {
        [] => {}
        [one] => return Err(one.clone()),
        many => return Err(format!("[{}]", many.join(", "))),
    }
    Ok(match operator {
        "notin" | "!=" => Requirement::NotIn(key, values),
        ">" => Requirement::Greater(key, number.unwrap_or_default()),
        "<" => Requirement::Less(key, number.unwrap_or_default()),
        _ => Requirement::In(key, values),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_read_as_kubectl_writes_them() {
        let pod = json!({"metadata": {"labels": {"app": "etcd", "tier": "3", "in": "notin"}}});
        let selects = |selector: &str| parse(selector).unwrap().iter().all(|r| r.matches(&pod));
        for yes in [
            "",
            "app=etcd",
            "app==etcd",
            "app!=x",
            "app",
            "!gone",
            "app in (a, etcd)",
            "app in(etcd)",
            "app notin (a,b),tier",
            "gone notin (a)",
            "gone!=x",
            "tier>2",
            "tier<4",
            "in=notin",
            "in in (notin)",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["app=x", "gone", "!app", "app in (a)", "app notin (etcd)", "tier>3", "app=etcd,gone", "app in ()"] {
            assert!(!selects(no), "{no}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_selector_is_said_as_kubernetes_says_it() {
        for (selector, why) in [
            ("n in (0", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            ("a in ((", "unable to parse requirement: found '(', expected: ',', ')' or identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(parse(selector).unwrap_err(), why, "{selector}");
        }
        assert!(
            parse("a=-")
                .unwrap_err()
                .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid")
        );
        assert!(
            parse("-").unwrap_err().starts_with("unable to parse requirement: <nil>: Invalid value: \"-\": name part")
        );
    }
}
