//! What pure code may not mention, beyond what clippy.toml bans by the path of a function.

use crate::imports::{DECIDING, LIVE, module_of, paths};
use crate::sources::{Source, code};

/// Synchronous, given `now`, the same answer for the same question.
const PURE: &[&str] = &["api", "model", "validate", "plan", "build", "status", "queue"];

/// Of the standard library and the crates that everybody has.
const IMPURE: &[&[&str]] = &[
    &["tokio"],
    &["futures"],
    &["async_trait"],
    &["rand"],
    &["tracing"],
    &["std", "env"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "sync", "Mutex"],
    &["std", "sync", "RwLock"],
];

/// Crates that speak to the outside, and who may mention them besides the live wiring.
const CLIENTS: &[(&[&str], &[&str])] = &[
    (&["etcd_client"], &[]),
    (&["tonic"], &[]),
    (&["hyper"], &[]),
    (&["hyper_util"], &[]),
    (&["hyper_rustls"], &[]),
    (&["rustls"], &[]),
    (&["axum"], &["metrics"]),
    (&["tower"], &[]),
    (&["kube", "client"], &[]),
    (&["kube", "Client"], &[]),
    (&["kube", "Api"], &[]),
    (&["kube", "api", "Api"], &[]),
    (&["kube", "runtime"], &[]),
    (&["kube", "Config"], &[]),
    // Its trait and its in-memory store are plain futures, which the simulator runs too; its clients are in adapters.
    (&["object_store", "aws"], &[]),
    (&["object_store", "azure"], &[]),
    (&["object_store", "gcp"], &[]),
    (&["object_store"], &["ports", "backup", "restore", "agent"]),
    (&["prometheus_client"], &["metrics"]),
    (&["tracing_subscriber"], &["telemetry"]),
    (&["clap"], &[]),
];

/// Runtimes, clients, the system, and waiting, in pure modules.
pub fn impure_mentions(source: &Source) -> Vec<String> {
    let own = module_of(&source.path);
    let is_pure = own.first().is_some_and(|top| PURE.contains(&top.as_str()));
    let decides = own.len() > 1 && DECIDING.contains(&own[1].as_str());
    if source.is_test() || !is_pure && !decides {
        return Vec::new();
    }
    let code = code(&source.text);
    let mut wrong: Vec<String> = paths(&code)
        .into_iter()
        .filter(|(_, path)| IMPURE.iter().any(|banned| starts_with(path, banned)))
        .map(|(line, path)| source.at(line, format!("`{}` in a pure module", path.join("::"))))
        .collect();
    for (number, line) in code.lines().enumerate() {
        if line.contains(".await") || line.contains("async fn") || line.contains("async move") {
            wrong.push(source.at(number + 1, "a pure module never waits"));
        }
    }
    wrong
}

/// Client crates outside of the modules that may know them.
pub fn client_crates(source: &Source) -> Vec<String> {
    let own = module_of(&source.path);
    let Some(top) = own.first().map(String::as_str) else { return Vec::new() };
    let live_part = own.get(1).is_some_and(|part| part == "live");
    if source.is_test() || LIVE.contains(&top) || live_part {
        return Vec::new();
    }
    let is_wrong = |path: &[String]| {
        CLIENTS.iter().find(|(client, _)| starts_with(path, client)).is_some_and(|(_, allowed)| !allowed.contains(&top))
    };
    let wrong = paths(&code(&source.text)).into_iter().filter(|(_, path)| is_wrong(path));
    wrong.map(|(line, path)| source.at(line, format!("`{}` outside of the adapters", path.join("::")))).collect()
}

/// Printing, but in programs: main.rs and src/bin.
pub fn prints(source: &Source) -> Vec<String> {
    if source.is_test() || source.path.ends_with("/main.rs") || source.path.contains("/bin/") {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    // A module that is the face of a program says so with the lint's name and a reason.
    if source.text.contains("clippy::print_stdout") && source.text.contains("reason =") {
        return wrong;
    }
    for (number, line) in code(&source.text).lines().enumerate() {
        if ["println!", "eprintln!", "print!", "eprint!", "dbg!"].iter().any(|print| has_word(line, print)) {
            wrong.push(source.at(number + 1, "a library does not print: return it, or trace it"));
        }
    }
    wrong
}

fn starts_with(path: &[String], banned: &[&str]) -> bool {
    path.len() >= banned.len() && path.iter().zip(banned).all(|(segment, banned)| segment == banned)
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

#[test]
fn what_is_impure_in_a_pure_module_is_caught() {
    for text in [
        "use tokio::sync::mpsc;\n",
        "use std::{collections::BTreeMap, fs};\n",
        "fn f() { std::env::temp_dir(); }\n",
        "async fn f() {}\n",
        "fn f() { g().await }\n",
    ] {
        assert_eq!(impure_mentions(&Source::of("operator/src/plan/safety.rs", text)).len(), 1, "{text}");
    }
    let fine =
        "//! tokio::x is not for us\nuse std::collections::BTreeMap;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
    assert!(impure_mentions(&Source::of("operator/src/plan/safety.rs", fine)).is_empty());
    assert!(impure_mentions(&Source::of("operator/src/observe.rs", "async fn f() {}\n")).is_empty());
    assert_eq!(impure_mentions(&Source::of("operator/src/backup/plan.rs", "async fn f() {}\n")).len(), 1);
}

#[test]
fn a_client_crate_outside_of_the_adapters_is_caught() {
    for text in
        ["use etcd_client::Client;\n", "use kube::{Api, Resource};\n", "fn f(s: object_store::aws::AmazonS3) {}\n"]
    {
        assert_eq!(client_crates(&Source::of("operator/src/observe.rs", text)).len(), 1, "{text}");
        assert!(client_crates(&Source::of("operator/src/adapters/kube.rs", text)).is_empty(), "{text}");
    }
    assert_eq!(client_crates(&Source::of("operator/src/backup/plan.rs", "use object_store::aws::X;\n")).len(), 1);
    assert!(
        client_crates(&Source::of("operator/src/backup/transfer.rs", "use object_store::ObjectStore;\n")).is_empty()
    );
    assert!(client_crates(&Source::of("operator/src/api.rs", "use kube::{CustomResource, Resource};\n")).is_empty());
}

#[test]
fn a_library_that_prints_is_caught() {
    let text = "fn f() {\n    println!(\"x\");\n    sprintln!();\n}\n";
    assert_eq!(
        prints(&Source::of("sim/src/world.rs", text)),
        ["sim/src/world.rs:2: a library does not print: return it, or trace it"]
    );
    assert!(prints(&Source::of("sim/src/main.rs", text)).is_empty());
    assert!(prints(&Source::of("sim/src/world.rs", "// println!(1)\n")).is_empty());
}
