//! The faults in `fake-k8s/faults` stay usable: each patch still applies. Whether the corpus notices each is for `.ci/faults`,
//! which builds them.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_fault_still_applies() {
    if Command::new("git").arg("--version").output().is_err() {
        return; // Without git nobody can apply a patch.
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = std::fs::read_dir(root.join("faults")).expect("the faults are there");
    let patches: Vec<PathBuf> = found.map(|entry| entry.expect("it can be read").path()).collect();
    assert!(patches.len() >= 10, "few faults prove little: {}", patches.len());
    for patch in patches {
        let checked = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root.join("..")).output();
        let checked = checked.expect("git starts");
        let says = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{} no longer applies, mend it: {says}", patch.display());
    }
}
