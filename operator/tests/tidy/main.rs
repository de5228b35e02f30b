//! The repository checks itself: who may import whom, what pure code may not touch, how files begin and end, whether
//! links lead anywhere, what the shipped binary links.
//!
//! A rule is a function from a file to what is wrong with it. Each has a test of its own that it can fail, beside it.
//! Not checked here: what rustc, clippy and rustfmt check already (unused code, clocks, formatting).

mod crates;
mod imports;
mod links;
mod purity;
mod reasons;
mod sources;
mod text;

use sources::{Source, sources};

/// Applies a rule to the files that it is about, and fails with all that it found.
fn check(about: impl Fn(&str) -> bool, rule: impl Fn(&Source) -> Vec<String>) {
    let sources = sources();
    let files: Vec<&Source> = sources.iter().filter(|source| about(&source.path)).collect();
    assert!(!files.is_empty(), "a rule about no file checks nothing");
    let wrong: Vec<String> = files.into_iter().flat_map(rule).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

#[test]
fn modules_of_the_operator_import_only_what_is_below_them() {
    check(|path| path.starts_with("operator/src/") && is_rust(path), imports::upward_imports);
}

#[test]
fn pure_modules_touch_no_runtime_no_client_and_no_system() {
    check(|path| path.starts_with("operator/src/") && is_rust(path), purity::impure_mentions);
}

#[test]
fn client_crates_are_mentioned_in_the_live_wiring_only() {
    check(|path| path.starts_with("operator/src/") && is_rust(path), purity::client_crates);
}

#[test]
fn sim_knows_the_operator_but_not_its_live_wiring() {
    check(|path| path.starts_with("sim/src/") && is_rust(path), imports::live_wiring_in_sim);
}

#[test]
fn fake_kubernetes_knows_nothing_of_ours() {
    check(|path| path.starts_with("fake-k8s/") && is_rust(path), imports::ours_in_fake_kubernetes);
}

#[test]
fn libraries_do_not_print() {
    let is_library = |path: &str| ["operator/src/", "fake-k8s/src/", "sim/src/"].iter().any(|at| path.starts_with(at));
    check(|path| is_library(path) && is_rust(path), purity::prints);
}

#[test]
fn every_rust_file_says_first_what_it_is() {
    check(is_rust, text::missing_module_doc);
}

#[test]
fn no_file_is_too_long_or_called_by_nothing() {
    check(is_rust, text::too_long);
    check(is_rust, text::named_by_nothing);
}

#[test]
fn every_reason_of_a_condition_is_produced_somewhere() {
    let sources = sources();
    check(|path| path == reasons::DECLARED_IN, |declared| reasons::never_produced(declared, &sources));
}

#[test]
fn nothing_is_left_for_later() {
    check(is_rust, text::left_for_later);
}

#[test]
fn exceptions_from_the_lints_say_why() {
    check(is_rust, text::exceptions_without_reason);
}

#[test]
fn no_line_ends_in_blanks_and_every_file_ends_in_a_line() {
    check(|path| !text::is_machine_made(path), text::untidy_ends);
}

#[test]
fn no_file_knows_the_machine_that_it_was_written_on() {
    check(|path| !text::is_machine_made(path), text::machine_paths);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let sources = sources();
    check(|path| path.ends_with(".md"), |source| links::dead_links(source, &sources));
}

#[test]
fn every_crate_follows_the_workspace() {
    check(crates::is_manifest_of_a_member, crates::strays_from_the_workspace);
}

#[test]
fn fake_kubernetes_depends_on_nothing_of_ours_and_sim_on_no_live_feature() {
    check(crates::is_manifest_of_a_member, crates::forbidden_dependencies);
}

#[test]
fn the_shipped_binary_links_no_simulator() {
    let tree = crates::tree_of_the_shipped_binary();
    let wrong = crates::linked_simulators(&tree);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Criterion leaves its output beside the package that it ran in.
#[test]
fn what_programs_leave_behind_is_not_part_of_the_repository() {
    let listed = std::process::Command::new("git").arg("ls-files").current_dir(sources::root()).output();
    let listed = listed.expect("git is there: it brought this tree");
    let files = String::from_utf8(listed.stdout).expect("paths are text");
    assert!(listed.status.success() && files.lines().any(|file| file == "Cargo.toml"), "{files}");
    let left: Vec<_> = files.lines().filter(|file| is_left_behind(file)).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn is_left_behind(file: &str) -> bool {
    let folder = file.split('/').any(|part| ["target", "node_modules", "__pycache__"].contains(&part));
    folder || [".snap.new", ".orig", ".rej", ".log"].iter().any(|ending| file.ends_with(ending))
}

#[test]
fn output_of_a_program_is_known_by_its_place() {
    for file in ["benches/target/criterion/plan/new/estimates.json", "operator/tests/golden/a.snap.new", "a/b.orig"] {
        assert!(is_left_behind(file), "{file}");
    }
    assert!(!is_left_behind("sim/src/targets.rs"));
}
