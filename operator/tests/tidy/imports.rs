//! Who may import whom. The table is the architecture: what is not in a row may not be imported by that module.

use crate::sources::{Source, code};

/// Module, and what it is allowed to import besides itself: a module, or one thing of it. In reading order, lowest first.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("model", &["api"]),
    // The agent's command line is a value: whoever makes a pod writes it, whoever looks at one reads it.
    (
        "build",
        &[
            "api",
            "model",
            "agent::command",
            "agent::flags",
            "agent::Command",
            "agent::EtcdFlags",
            "agent::InitialState",
        ],
    ),
    ("validate", &["api", "model", "build", "plan::reason", "plan::Unsafe"]),
    ("plan", &["api", "model", "build"]),
    ("status", &["api", "model", "plan", "recorder"]),
    ("ports", &["api", "model"]),
    (
        "observe",
        &[
            "api",
            "model",
            "ports",
            "build",
            "cache",
            "agent::guard",
            "agent::DATA_LOST_EXIT_CODE",
            "agent::SNAPSHOT_CHANGED_EXIT_CODE",
        ],
    ),
    ("recorder", &["api", "ports"]),
    ("apply", &["api", "model", "build", "ports", "plan", "recorder"]),
    ("queue", &["api", "model", "ports"]),
    ("cache", &["api", "model", "ports"]),
    ("backup", &["api", "model", "ports", "recorder"]),
    ("restore", &["api", "model", "ports", "backup", "recorder"]),
    ("agent", &["api", "model", "ports", "backup", "restore"]),
    (
        "reconcile",
        &[
            "api", "model", "ports", "validate", "build", "plan", "status", "observe", "apply", "cache", "backup",
            "restore", "recorder",
        ],
    ),
    ("metrics", &["api", "model", "ports"]),
    ("telemetry", &[]),
    ("server", &["metrics", "ports"]),
    ("own_pod", &["ports"]),
    ("cli", &["ports", "validate", "agent", "backup::transfer", "leadership", "controller", "metrics", "telemetry"]),
    ("adapters", &["api", "model", "ports"]),
    ("leadership", &["api", "model", "ports"]),
    (
        "controller",
        &[
            "api",
            "model",
            "ports",
            "validate::Settings",
            "queue",
            "cache",
            "reconcile",
            "backup",
            "restore",
            "leadership",
            "recorder",
            "metrics",
            "telemetry",
        ],
    ),
];

/// Inside `backup` and `restore`, the stages have the same names and the same rights as those of the cluster: these
/// decide, and may know the types of the ones that act and of the ports, but call nothing of them.
pub const DECIDING: &[&str] =
    &["validate", "plan", "status", "build", "retention", "schedule", "names", "draft", "news", "manifest"];
const ACTING: &[&str] = &["observe", "apply", "reconcile", "transfer", "agent"];

/// Modules that speak to the outside with the production clients: only the process that is shipped has them.
pub const LIVE: &[&str] = &["adapters", "cli", "metrics", "own_pod", "server", "telemetry"];

/// Imports that the table does not allow. Tests in files of their own may import all, like those in their module's.
pub fn upward_imports(source: &Source) -> Vec<String> {
    if source.is_test() {
        return Vec::new();
    }
    let own = module_of(&source.path);
    let Some(top) = own.first().map(String::as_str) else { return Vec::new() };
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(module, _)| *module == top) else {
        return vec![source.at(1, format!("`{top}` has no row in the table of who may import whom"))];
    };
    let mut wrong = Vec::new();
    for (line, path) in crate_paths(&code(&source.text), &own) {
        let Some(target) = path.first().map(String::as_str) else { continue };
        let is_module = MAY_IMPORT.iter().any(|(module, _)| *module == target);
        let granted = |grant: &&str| grant.split("::").zip(&path).all(|(granted, segment)| granted == segment);
        let is_granted = allowed.iter().any(|grant| granted(grant) && path.len() >= grant.split("::").count());
        if is_module && target != top && !is_granted {
            wrong.push(
                source.at(line, format!("`{top}` may not import `{}`; it may import {allowed:?}", path.join("::"))),
            );
        }
        let (own_stage, stage) = (own.get(1).map(String::as_str), path.get(1).map(String::as_str));
        let decides = own_stage.is_some_and(|stage| DECIDING.contains(&stage));
        let acts = target == "ports" || target == top && stage.is_some_and(|stage| ACTING.contains(&stage));
        let is_type = path.last().is_some_and(|last| last.starts_with(char::is_uppercase));
        if decides && acts && !is_type {
            wrong.push(source.at(line, format!("`{}` decides and may not call `{}`", own.join("::"), path.join("::"))));
        }
    }
    wrong
}

/// The simulator runs the operator's logic, never its live wiring.
pub fn live_wiring_in_sim(source: &Source) -> Vec<String> {
    mentions(source, |path| path.len() > 1 && path[0] == "etcd_operator" && LIVE.contains(&path[1].as_str()))
}

/// fake-k8s is a general API server.
pub fn ours_in_fake_kubernetes(source: &Source) -> Vec<String> {
    mentions(source, |path| {
        ["etcd_operator", "sim", "scenarios", "benches"].contains(&path[0].as_str()) && path.len() > 1
    })
}

/// Every path of the file, given as segments, that `is_wrong`.
fn mentions(source: &Source, is_wrong: impl Fn(&[String]) -> bool) -> Vec<String> {
    let wrong = paths(&code(&source.text)).into_iter().filter(|(_, path)| is_wrong(path));
    wrong.map(|(line, path)| source.at(line, format!("may not import `{}`", path.join("::")))).collect()
}

/// `["plan", "safety"]` of `operator/src/plan/safety.rs`; nothing of `lib.rs` and `main.rs`, which may import all.
pub fn module_of(path: &str) -> Vec<String> {
    let inside = path.strip_prefix("operator/src/").unwrap_or(path).trim_end_matches(".rs");
    if inside == "lib" || inside == "main" || inside.starts_with("bin/") {
        return Vec::new();
    }
    inside.split('/').map(str::to_owned).collect()
}

/// Paths into our own crate, as segments from its root, however they are written: `crate::`, `super::`, in braces.
fn crate_paths(code: &str, own: &[String]) -> Vec<(usize, Vec<String>)> {
    let into_crate = |(line, path): (usize, Vec<String>)| {
        if path[0] == "crate" {
            return Some((line, path[1..].to_vec()));
        }
        // A nested module makes the climb shorter than it looks: then the path is judged too low, never too high.
        let climbs = path.iter().take_while(|segment| *segment == "super").count();
        let base = own.len().checked_sub(climbs).filter(|_| climbs > 0)?;
        Some((line, own[..base].iter().chain(&path[climbs..]).cloned().collect()))
    };
    paths(code).into_iter().filter_map(into_crate).collect()
}

/// Every path with `::` in the code, braces unfolded, with its line.
pub fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let follows = tokens.get(at + 1).is_some_and(|(_, next)| next == "::");
        let inside_path = at > 0 && tokens[at - 1].1 == "::";
        if is_word(&tokens[at].1) && follows && !inside_path {
            at = read_path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads a path that may end in braces; returns where to go on.
fn read_path(
    tokens: &[(usize, String)],
    from: usize,
    prefix: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut at = from;
    let line = tokens[from].0;
    while at < tokens.len() && is_word(&tokens[at].1) {
        path.push(tokens[at].1.clone());
        if tokens.get(at + 1).is_none_or(|(_, next)| next != "::") {
            found.push((line, path));
            return at + 1;
        }
        at += 2;
    }
    if tokens.get(at).is_none_or(|(_, token)| token != "{") {
        found.push((line, path));
        return at;
    }
    at += 1;
    while at < tokens.len() && tokens[at].1 != "}" {
        at = if is_word(&tokens[at].1) { read_path(tokens, at, &path, found) } else { at + 1 };
        if tokens.get(at).is_some_and(|(_, token)| token == "as") {
            at += 2;
        }
    }
    at + 1
}

fn is_word(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

fn tokens(code: &str) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut letters = line.char_indices().peekable();
        while let Some((start, letter)) = letters.next() {
            if letter.is_alphanumeric() || letter == '_' {
                let mut end = start + letter.len_utf8();
                while let Some((i, next)) = letters.next_if(|(_, next)| next.is_alphanumeric() || *next == '_') {
                    end = i + next.len_utf8();
                }
                tokens.push((number + 1, line[start..end].to_owned()));
            } else if letter == ':' && letters.next_if(|(_, next)| *next == ':').is_some() {
                tokens.push((number + 1, "::".to_owned()));
            } else if !letter.is_whitespace() {
                tokens.push((number + 1, letter.to_string()));
            }
        }
    }
    tokens
}

#[test]
fn an_upward_import_is_caught_however_it_is_written() {
    for text in [
        "use crate::ports::kubernetes::Kubernetes;\n",
        "use crate::{model::Member, ports};\n",
        "fn f() -> super::super::apply::Error {}\n",
        "use super::super::{observe};\n",
        "use crate::model::{\n    Member,\n};\nfn f() { crate::status::of() }\n",
    ] {
        let wrong = upward_imports(&Source::of("operator/src/plan/safety.rs", text));
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
    }
    let fine = "use crate::model::{Member, Version};\nuse super::{Step, reason::Waiting};\nuse crate::build::pod;\n";
    assert!(upward_imports(&Source::of("operator/src/plan/safety.rs", fine)).is_empty());
    assert!(upward_imports(&Source::of("operator/src/main.rs", "use crate::adapters::kube;\n")).is_empty());
}

#[test]
fn a_grant_of_one_thing_is_not_a_grant_of_its_module() {
    let wrong = |text: &str| upward_imports(&Source::of("operator/src/build/pod.rs", text)).len();
    assert_eq!(wrong("use crate::agent::{command::Run, InitialState};\n"), 0);
    assert_eq!(wrong("use crate::agent::{command::Run, live};\n"), 1);
    assert_eq!(wrong("use crate::agent;\n"), 1);
    assert!(upward_imports(&Source::of("operator/src/build/tests.rs", "use crate::agent::live;\n")).is_empty());
}

#[test]
fn a_module_without_a_row_is_caught() {
    assert_eq!(upward_imports(&Source::of("operator/src/utils.rs", "")).len(), 1);
}

#[test]
fn a_deciding_stage_of_a_backup_may_not_act() {
    for text in ["use crate::ports::store::open;\n", "use super::transfer;\n", "use crate::backup::apply::upload;\n"] {
        let wrong = upward_imports(&Source::of("operator/src/backup/plan.rs", text));
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
    }
    assert!(upward_imports(&Source::of("operator/src/backup/apply.rs", "use super::transfer;\n")).is_empty());
    let fine = "use super::{retention, observe::Observed};\n";
    assert!(upward_imports(&Source::of("operator/src/backup/plan.rs", fine)).is_empty());
}

#[test]
fn live_wiring_in_the_simulator_is_caught() {
    let text = "use etcd_operator::{model::Member, adapters::kube};\nuse etcd_operator::queue::Queue;\n";
    assert_eq!(live_wiring_in_sim(&Source::of("sim/src/world.rs", text)).len(), 1);
}

#[test]
fn our_crates_in_fake_kubernetes_are_caught() {
    let text = "use etcd_operator::model::Member;\nfn f() { sim::world::run() }\nlet sim = 1;\n";
    assert_eq!(ours_in_fake_kubernetes(&Source::of("fake-k8s/src/server.rs", text)).len(), 2);
}
