//! The file system behind the port, in a directory of its own.

use super::*;

/// A directory that goes with the test.
struct Scratch(String);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = format!("{}/etcd-operator-agent-{}-{name}", std::env::temp_dir().display(), std::process::id());
        Disk.remove(&path).unwrap();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Disk.remove(&self.0);
    }
}

#[test]
fn files_and_trees_are_made_renamed_and_removed() {
    let scratch = Scratch::new("disk");
    let at = |path: &str| format!("{}/{path}", scratch.0);
    let mut sink = Disk.create(&at("a/b/file")).unwrap();
    sink.write(b"some").unwrap();
    sink.write(b"thing").unwrap();
    sink.finish().unwrap();
    assert_eq!(Disk.size(&at("a/b/file")).unwrap(), Some(9));
    assert_eq!(Disk.size(&at("a/b")).unwrap(), None);
    assert_eq!(Disk.list(&at("a")).unwrap(), Some(vec!["b".to_owned()]));
    assert_eq!(Disk.list(&at("absent")).unwrap(), None);
    Disk.sync(&at("a")).unwrap();
    Disk.rename(&at("a"), &at("c")).unwrap();
    assert_eq!(Disk.size(&at("c/b/file")).unwrap(), Some(9));
    Disk.create(&at("d/x")).unwrap().finish().unwrap();
    assert!(Disk.rename(&at("c"), &at("d")).is_err(), "d holds something");
    for _ in 0..2 {
        Disk.remove(&at("c")).unwrap();
    }
    assert_eq!(Disk.list(&scratch.0).unwrap(), Some(vec!["d".to_owned()]));
}

#[test]
fn the_executable_is_installed_whole_and_may_be_run() {
    let scratch = Scratch::new("install");
    for _ in 0..2 {
        install(&scratch.0).unwrap();
    }
    let installed = fs::metadata(format!("{}/{EXECUTABLE}", scratch.0)).unwrap();
    assert_eq!(installed.len(), fs::metadata("/proc/self/exe").unwrap().len());
    assert_eq!(installed.permissions().mode() & 0o777, 0o755);
    assert_eq!(Disk.list(&scratch.0).unwrap(), Some(vec![EXECUTABLE.to_owned()]));
}

#[test]
fn credentials_are_the_files_of_a_secret_volume() {
    let scratch = Scratch::new("credentials");
    let data = format!("{}/..data", scratch.0);
    fs::create_dir_all(&data).unwrap();
    fs::write(format!("{data}/accessKeyID"), "id").unwrap();
    std::os::unix::fs::symlink("..data/accessKeyID", format!("{}/accessKeyID", scratch.0)).unwrap();
    let credentials = read_credentials(&scratch.0).unwrap();
    assert_eq!(credentials.0, Some(BTreeMap::from([("accessKeyID".to_owned(), b"id".to_vec())])));
}

#[test]
fn a_restore_tool_that_fails_is_named() {
    let scratch = Scratch::new("tool");
    let at = |path: &str| format!("{}/{path}", scratch.0);
    fs::write(at("s.db"), "x").unwrap();
    let command =
        Restore { data_dir: at("data"), snapshot: at("s.db"), seen: at("seen"), tool: vec!["/bin/false".to_owned()] };
    let failure = run_restore(&command).unwrap_err();
    assert!(failure.message.contains("/bin/false"), "{}", failure.message);
    assert_eq!(failure.code, 1);
    fs::write(at("seen"), "").unwrap();
    assert_eq!(i32::from(run_restore(&command).unwrap_err().code), DATA_LOST_EXIT_CODE);
}

#[test]
fn a_name_that_does_not_resolve_in_time_ends_the_container_before_anything_is_touched() {
    let scratch = Scratch::new("name");
    let command = Run {
        data_dir: format!("{}/data", scratch.0),
        seen: format!("{}/seen", scratch.0),
        expect_data: false,
        own_name: Some(OwnName { host: "no such name".to_owned(), within_seconds: 0 }),
        etcd: vec!["/bin/false".to_owned()],
    };
    let failure = run_etcd(&command).unwrap_err();
    assert_eq!(failure.code, 1);
    let why = "no such name did not resolve within 0 s (spec.pod.DNSTimeoutInSecond)";
    assert_eq!(failure.message, why);
    assert_eq!(Disk.list(&scratch.0).unwrap(), Some(Vec::new()));
}

#[test]
fn etcd_is_not_started_on_an_empty_directory_where_data_is_expected() {
    let scratch = Scratch::new("run");
    let command = Run {
        data_dir: format!("{}/data", scratch.0),
        seen: format!("{}/seen", scratch.0),
        expect_data: true,
        own_name: Some(OwnName { host: "localhost".to_owned(), within_seconds: 60 }),
        etcd: vec!["/bin/false".to_owned()],
    };
    let failure = run_etcd(&command).unwrap_err();
    assert_eq!(i32::from(failure.code), DATA_LOST_EXIT_CODE);
    assert_eq!(Disk.list(&scratch.0).unwrap(), Some(Vec::new()));
}
