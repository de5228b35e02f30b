//! A folder of a test's own, gone with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Not there yet.
    #[expect(clippy::disallowed_methods, reason = "a test's own folder lies among temporary ones")]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("binaries-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// With programs in it that print these.
    pub fn with_programs(name: &str, programs: &[(&str, &str)]) -> Self {
        let scratch = Self::new(name);
        programs.iter().for_each(|(program, says)| scratch.put(Path::new(program), says));
        scratch
    }

    /// Puts a program that prints this.
    pub fn put(&self, program: &Path, says: &str) {
        let path = self.0.join(program);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it can be made");
        fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
