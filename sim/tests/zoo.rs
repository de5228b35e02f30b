//! The bug zoo in `sim/zoo` stays buildable: each patch still applies, and its README knows of it. Whether each beast is
//! caught is for `.ci/zoo`, which builds them.

use std::path::{Path, PathBuf};
use std::process::Command;

fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo")
}

fn patches() -> Vec<PathBuf> {
    let found = std::fs::read_dir(zoo()).expect("sim/zoo is there");
    let mut patches: Vec<_> = found.map(|entry| entry.expect("it can be read").path()).collect();
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    assert!(!patches.is_empty(), "an empty zoo proves nothing");
    patches
}

#[test]
fn every_beast_still_applies() {
    if Command::new("git").arg("--version").output().is_err() {
        return; // Without git nobody can apply a patch, nor run the zoo.
    }
    for patch in patches() {
        let mut git = Command::new("git");
        let checked = git.args(["apply", "--check"]).arg(&patch).current_dir(zoo().join("../..")).output();
        let checked = checked.expect("git starts");
        let says = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{} no longer applies, mend it: {says}", patch.display());
    }
}

#[test]
fn the_readme_names_every_beast_and_no_other() {
    let readme = std::fs::read_to_string(zoo().join("README.md")).expect("sim/zoo/README.md is there");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut named: Vec<_> = rows.map(|(name, _)| name.to_owned()).collect();
    named.sort();
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    assert_eq!(named, patches().iter().filter_map(stem).collect::<Vec<_>>());
}
