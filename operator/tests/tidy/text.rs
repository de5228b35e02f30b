//! How files begin, end and are named, and what they may not say.

use crate::sources::{Source, code};

const LINES_MAX: usize = 900;
/// The entry point parses, builds and runs; what it would need more lines for belongs elsewhere.
const MAIN_LINES_MAX: usize = 80;

/// The names that say nothing about what is inside.
const SAYS_NOTHING: &[&str] = &["mod", "util", "utils", "helper", "helpers", "common", "misc", "manager", "shared"];

/// Not written by hand: checksums, recorded text.
pub fn is_machine_made(path: &str) -> bool {
    path.ends_with(".lock")
        || path.ends_with("go.sum")
        || path.ends_with(".snap")
        || path.ends_with(".proptest-regressions")
        || path == "LICENSE"
}

/// A file that does not say first what it is.
pub fn missing_module_doc(source: &Source) -> Vec<String> {
    let first = source.text.lines().next().unwrap_or_default();
    let says = first.strip_prefix("//!").map(str::trim).unwrap_or_default();
    if says.split_whitespace().count() >= 3 { Vec::new() } else { vec![source.at(1, "says not what it is: `//! ...`")] }
}

/// A file that is more than one idea.
pub fn too_long(source: &Source) -> Vec<String> {
    let most = if source.path == "operator/src/main.rs" { MAIN_LINES_MAX } else { LINES_MAX };
    let lines = source.text.lines().count();
    if lines <= most {
        Vec::new()
    } else {
        vec![source.at(most, format!("{lines} lines, and at most {most} are one idea"))]
    }
}

/// A file whose name would fit any other.
pub fn named_by_nothing(source: &Source) -> Vec<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if SAYS_NOTHING.contains(&name) { vec![source.at(1, "a name that says nothing")] } else { Vec::new() }
}

/// What somebody meant to do and did not.
pub fn left_for_later(source: &Source) -> Vec<String> {
    let marks = ["FIX", "TO", "XX"].map(|half| {
        format!(
            "{half}{}",
            if half == "XX" {
                "X"
            } else if half == "TO" {
                "DO"
            } else {
                "ME"
            }
        )
    });
    let code = code(&source.text);
    let mut wrong = Vec::new();
    for (number, (line, code)) in source.text.lines().zip(code.lines()).enumerate() {
        if code.contains("todo!") || code.contains("unimplemented!") {
            wrong.push(source.at(number + 1, "not written yet"));
        }
        if line.trim_start().starts_with("#[ignore") {
            wrong.push(source.at(number + 1, "a test that is not run"));
        }
        if marks.iter().any(|mark| line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == mark)) {
            wrong.push(source.at(number + 1, "a mark for later: do it, or file it"));
        }
    }
    wrong
}

/// A lint of clippy that is switched off without the reason beside it: the bans of clippy.toml are decisions.
pub fn exceptions_without_reason(source: &Source) -> Vec<String> {
    let code = code(&source.text);
    let mut wrong = Vec::new();
    for (at, _) in code.match_indices("allow(clippy::") {
        let attribute = code[at..].split(']').next().unwrap_or_default();
        let line = code[..at].lines().count().max(1);
        let end = line - 1 + attribute.matches('\n').count();
        let is_commented = source.text.lines().nth(end).is_some_and(|line| line.contains(")] // "));
        if !attribute.contains("reason") && !is_commented {
            wrong.push(source.at(line, "allowed without a reason: `allow(clippy::..., reason = \"...\")`"));
        }
    }
    wrong
}

/// Blanks at the end of lines, and a missing or doubled end of file.
pub fn untidy_ends(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    // In a unified diff, one blank alone is an empty line of context.
    let is_patch = source.path.ends_with(".patch");
    for (number, line) in source.text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) && !(is_patch && line == " ") {
            wrong.push(source.at(number + 1, "blanks at the end"));
        }
    }
    let lines = source.text.lines().count();
    if !source.text.is_empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n")) {
        wrong.push(source.at(lines, "must end with exactly one end of line"));
    }
    wrong
}

/// Paths that exist on one machine only.
pub fn machine_paths(source: &Source) -> Vec<String> {
    let homes = ["root", "work", "home", "Users"].map(|home| format!("/{home}/"));
    let mut wrong = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let is_path = |home: &String| {
            line.match_indices(home.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + home.len()..].chars().next();
                !before.is_some_and(|letter| letter.is_alphanumeric() || "._-/}~)>".contains(letter))
                    && after.is_some_and(|letter| letter.is_alphanumeric() || letter == '.')
            })
        };
        if homes.iter().any(is_path) {
            wrong.push(source.at(number + 1, "a path of one machine"));
        }
    }
    wrong
}

#[test]
fn a_file_that_does_not_say_what_it_is_is_caught() {
    for text in ["", "use std::fs;\n", "//! x\nuse std::fs;\n", "\n//! The words of the domain.\n"] {
        assert_eq!(missing_module_doc(&Source::of("a.rs", text)).len(), 1, "{text:?}");
    }
    assert!(missing_module_doc(&Source::of("a.rs", "//! The words of the domain.\n")).is_empty());
}

#[test]
fn long_files_and_empty_names_are_caught() {
    assert_eq!(too_long(&Source::of("sim/src/a.rs", &"x\n".repeat(901))).len(), 1);
    assert!(too_long(&Source::of("sim/src/a.rs", &"x\n".repeat(900))).is_empty());
    assert_eq!(too_long(&Source::of("operator/src/main.rs", &"x\n".repeat(81))).len(), 1);
    assert_eq!(named_by_nothing(&Source::of("sim/src/port/mod.rs", "")).len(), 1);
    assert_eq!(named_by_nothing(&Source::of("sim/src/util.rs", "")).len(), 1);
    assert!(named_by_nothing(&Source::of("sim/src/port.rs", "")).is_empty());
}

#[test]
fn what_is_left_for_later_is_caught() {
    let mark = ["FIX", "ME"].concat();
    for text in
        [format!("// {mark}: x\n"), "fn f() { todo!() }\n".to_owned(), "#[ignore = \"slow\"]\nfn t() {}\n".to_owned()]
    {
        assert_eq!(left_for_later(&Source::of("a.rs", &text)).len(), 1, "{text}");
    }
    assert!(left_for_later(&Source::of("a.rs", "// nothing to do here\nlet s = \"todo!\";\n")).is_empty());
}

#[test]
fn an_exception_without_its_reason_is_caught() {
    let bare = Source::of("a.rs", "fn g() {}\n#[allow(clippy::disallowed_methods)]\nfn f() {}\n");
    assert_eq!(exceptions_without_reason(&bare).len(), 1);
    assert!(exceptions_without_reason(&bare)[0].starts_with("a.rs:2: "));
    let reasoned = "#[allow(\n    clippy::disallowed_methods,\n    reason = \"x\"\n)]\nfn f() {}\n#[allow(clippy::a, reason = \"y\")]\n";
    assert!(exceptions_without_reason(&Source::of("a.rs", reasoned)).is_empty());
    let commented = "fn g() {}\n#[allow(clippy::disallowed_methods)] // The live edge.\nfn f() {}\n";
    assert!(exceptions_without_reason(&Source::of("a.rs", commented)).is_empty());
}

#[test]
fn untidy_ends_are_caught() {
    for text in ["x \ny\n", "x\r\ny\n", "x", "x\n\n"] {
        assert!(!untidy_ends(&Source::of("a.md", text)).is_empty(), "{text:?}");
    }
    assert!(untidy_ends(&Source::of("a.md", "x\n\ny\n")).is_empty());
    assert!(untidy_ends(&Source::of("a.patch", "-x\n \n+y\n")).is_empty());
    assert!(!untidy_ends(&Source::of("a.patch", "+y \n")).is_empty());
}

#[test]
fn a_path_of_one_machine_is_caught() {
    let home = ["/ho", "me/"].concat();
    for text in [format!("cd {home}somebody/x\n"), format!("\"{home}somebody\"\n")] {
        assert_eq!(machine_paths(&Source::of("a.md", &text)).len(), 1, "{text}");
    }
    assert!(machine_paths(&Source::of("a.md", &format!("docs{home}x, $HOME/.cache, /var/etcd/data\n"))).is_empty());
}
