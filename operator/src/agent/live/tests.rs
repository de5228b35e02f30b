//! The file system behind the port, in a directory of its own.

use super::*;
use crate::adapters::dial::Dialer;
use crate::adapters::object_store::ObjectStores;
use crate::model::{BucketLocation, ObjectLocation, StorageKind};

/// A directory that goes with the test.
struct Scratch(String);

impl Scratch {
    #[expect(clippy::disallowed_methods, reason = "a test's own folder lies among temporary ones")]
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

/// What fetches a snapshot of one page onto this volume, from a store at this endpoint.
fn fetch_command(scratch: &Scratch, endpoint: &str) -> Fetch {
    let bucket = BucketLocation {
        storage: StorageKind::S3,
        bucket: "bucket".to_owned(),
        endpoint: Some(endpoint.to_owned()),
        force_path_style: true,
        secret: None,
    };
    Fetch {
        source: ObjectLocation { bucket, key: "key".to_owned() },
        credentials: Some(format!("{}/credentials", scratch.0)),
        size: 544,
        sha256: String::new(),
        to: format!("{}/restore/snapshot.db", scratch.0),
        data_dir: format!("{}/data", scratch.0),
    }
}

#[tokio::test]
async fn a_restored_member_starts_again_when_the_secret_of_the_store_is_gone() {
    let scratch = Scratch::new("secret-gone");
    fs::create_dir_all(format!("{}/credentials", scratch.0)).unwrap();
    fs::create_dir_all(format!("{}/data/member/wal", scratch.0)).unwrap();
    fs::write(format!("{}/data/member/wal/0.wal", scratch.0), "log").unwrap();
    let stores = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
    let said = run_fetch(&fetch_command(&scratch, "http://127.0.0.1:1"), &stores).await;
    let said = said.unwrap_or_else(|failure| panic!("{}", failure.message));
    assert!(said.ends_with("Already"), "{said}");
}

/// What comes of a store that answers so.
async fn refused(scratch: &Scratch, status: &'static str, body: &'static str) -> Failure {
    fs::create_dir_all(format!("{}/credentials", scratch.0)).unwrap();
    let file = "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = s3cr3t-example\n";
    fs::write(format!("{}/credentials/credentials", scratch.0), file).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = BufReader::new(stream.try_clone().unwrap()).lines();
        while asked.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    });
    let stores = ObjectStores::new(Dialer::tcp(), BTreeMap::new());
    let failure = run_fetch(&fetch_command(scratch, &endpoint), &stores).await.unwrap_err();
    server.join().unwrap();
    failure
}

#[tokio::test]
async fn a_snapshot_that_is_gone_ends_with_the_code_that_the_operator_looks_for() {
    let failure = refused(&Scratch::new("gone"), "404 Not Found", "<Error><Code>NoSuchKey</Code></Error>").await;
    assert_eq!(i32::from(failure.code), SNAPSHOT_CHANGED_EXIT_CODE, "{}", failure.message);
}

/// Servers repeat access keys, signatures and session tokens in the bodies of their errors.
#[tokio::test]
async fn what_a_store_repeats_of_the_credentials_is_not_printed() {
    let scratch = Scratch::new("refused");
    for body in ["signature MARKER of AKIAEXAMPLE", "<Error><Code>AccessDenied</Code><Token>MARKER</Token></Error>"] {
        let failure = refused(&scratch, "403 Forbidden", body).await;
        assert_eq!(failure.code, 1);
        assert!(failure.message.contains("the store refused the credentials"), "{}", failure.message);
        assert!(!failure.message.contains("MARKER") && !failure.message.contains("AKIA"), "{}", failure.message);
    }
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
