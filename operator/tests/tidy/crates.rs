//! What the crates' manifests must say, and what the shipped binary may link.

use std::process::Command;

use crate::sources::{Source, root};

/// Crates that no cluster shall ever run.
const SIMULATORS: &[&str] = &["sim", "madsim", "fake-k8s", "scenarios", "benches", "turmoil"];

/// `operator/Cargo.toml`, not the root's.
pub fn is_manifest_of_a_member(path: &str) -> bool {
    path.ends_with("/Cargo.toml") && path.split('/').count() == 2
}

/// A crate with its own idea of edition, licence, lints or versions.
pub fn strays_from_the_workspace(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    if !section(&source.text, "[lints]").contains(&"workspace = true") {
        wrong.push(source.at(1, "must have `[lints] workspace = true`"));
    }
    for field in ["version", "edition", "rust-version", "license", "publish"] {
        let line = format!("{field}.workspace = true");
        if !section(&source.text, "[package]").contains(&line.as_str()) {
            wrong.push(source.at(1, format!("must have `{line}`")));
        }
    }
    wrong
}

/// Dependencies that the architecture forbids.
pub fn forbidden_dependencies(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = source.path.split('/').next().unwrap_or_default();
    for header in ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"] {
        for line in section(&source.text, header) {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if folder == "fake-k8s" && ["etcd-operator", "sim", "scenarios", "benches"].contains(&name) {
                wrong.push(source.at(1, format!("fake-k8s knows nothing of ours, and depends on {name}")));
            }
            if folder == "sim"
                && name == "etcd-operator"
                && (line.contains("live") || line.contains("default-features = true"))
            {
                wrong.push(source.at(1, "sim runs the operator's logic without its production clients"));
            }
            // The definitions of our kinds are tested against an API server, which links nothing of ours.
            let tested_against = header == "[dev-dependencies]" && name == "fake-k8s";
            if folder == "operator" && SIMULATORS.contains(&name) && !tested_against {
                wrong.push(source.at(1, format!("the operator depends on {name}")));
            }
        }
    }
    wrong
}

/// The lines of a section of a manifest.
fn section<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let body = text.lines().skip_while(|line| line.trim() != name).skip(1);
    body.take_while(|line| !line.starts_with('[')).map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// `cargo tree` of the operator with the features that are shipped: one crate a line.
#[allow(clippy::disallowed_methods, reason = "cargo says in the environment which cargo runs the tests")]
pub fn tree_of_the_shipped_binary() -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let answer = Command::new(cargo)
        .args(["tree", "--package", "etcd-operator", "--edges", "normal,build", "--prefix", "none", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs these tests, so it is there");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let tree = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(tree.lines().any(|line| line.starts_with("etcd-client ")), "the shipped features are not on:\n{tree}");
    tree
}

/// Crates in the tree that must not be in what is shipped.
pub fn linked_simulators(tree: &str) -> Vec<&str> {
    let is_simulator = |line: &&str| line.split(' ').next().is_some_and(|name| SIMULATORS.contains(&name));
    tree.lines().filter(is_simulator).collect()
}

#[test]
fn a_crate_that_strays_is_caught() {
    let good = "[package]\nname = \"x\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                license.workspace = true\npublish.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\n";
    assert!(strays_from_the_workspace(&Source::of("x/Cargo.toml", good)).is_empty());
    for (from, to) in [("workspace = true\n\n[dep", "\n[dep"), ("edition.workspace = true", "edition = \"2021\"")] {
        assert_eq!(strays_from_the_workspace(&Source::of("x/Cargo.toml", &good.replace(from, to))).len(), 1, "{from}");
    }
}

#[test]
fn a_forbidden_dependency_is_caught() {
    let caught = |path: &str, line: &str| {
        !forbidden_dependencies(&Source::of(path, &format!("[dependencies]\n{line}\n"))).is_empty()
    };
    assert!(caught("fake-k8s/Cargo.toml", "sim.workspace = true"));
    assert!(caught("sim/Cargo.toml", "etcd-operator = { workspace = true, features = [\"live\"] }"));
    assert!(caught("operator/Cargo.toml", "madsim.workspace = true"));
    assert!(caught("operator/Cargo.toml", "fake-k8s.workspace = true"));
    let tests_only = "[dependencies]\n\n[dev-dependencies]\nfake-k8s.workspace = true\n";
    assert!(forbidden_dependencies(&Source::of("operator/Cargo.toml", tests_only)).is_empty());
    assert!(!caught("sim/Cargo.toml", "etcd-operator.workspace = true"));
    assert!(!caught("sim/Cargo.toml", "madsim.workspace = true"));
}

#[test]
fn a_linked_simulator_is_caught() {
    assert_eq!(linked_simulators("etcd-operator v0.1.0\nmadsim v0.2.34\nsimd-json v1.0.0\n"), ["madsim v0.2.34"]);
}
