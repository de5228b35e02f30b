//! `fetch` against a store in memory, with good and bad objects.

use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};

use super::super::directory::fake::Memory;
use super::*;
use crate::model::{BucketLocation, ObjectLocation, StorageKind};
use std::sync::Arc;

const TO: &str = "/v/restore/snapshot.db";
const PARTIAL: &str = "/v/restore/snapshot.db.partial";

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A database of so many sectors with its hash.
fn snapshot(sectors: usize) -> Vec<u8> {
    let database: Vec<u8> = (0..sectors * 512).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let digest = Sha256::digest(&database);
    [database.as_slice(), digest.as_slice()].concat()
}

fn command(verified: &[u8]) -> Fetch {
    let bucket = BucketLocation {
        storage: StorageKind::S3,
        bucket: "bucket".to_owned(),
        endpoint: None,
        force_path_style: true,
        secret: None,
    };
    Fetch {
        source: ObjectLocation { bucket, key: "a/key_v7_2026-11-30-03:10:27".to_owned() },
        credentials: None,
        size: verified.len() as u64,
        sha256: hex(verified),
        to: TO.to_owned(),
        data_dir: "/v/data".to_owned(),
    }
}

/// Opens the store that there is.
struct One(Arc<InMemory>);

#[async_trait::async_trait]
impl Stores for One {
    async fn open(&self, _: &BucketLocation, _: &Credentials) -> Result<Arc<dyn ObjectStore>, StoreError> {
        Ok(self.0.clone())
    }
}

/// Neither a store nor a Secret is there any more.
struct Gone;

#[async_trait::async_trait]
impl Stores for Gone {
    async fn open(&self, _: &BucketLocation, _: &Credentials) -> Result<Arc<dyn ObjectStore>, StoreError> {
        Err(StoreError::Location { field: "endpoint".to_owned(), message: "gone".to_owned() })
    }
}

fn none_mounted(_: &str) -> io::Result<Credentials> {
    Ok(Credentials(Some([].into())))
}

/// Fetches what was verified as `verified` from a store that holds `stored` under its key.
fn run(verified: &[u8], stored: Option<&[u8]>, directory: &Memory) -> Result<Fetched, FetchError> {
    let store = Arc::new(InMemory::new());
    let command = command(verified);
    if let Some(stored) = stored {
        let path = Path::parse(&command.source.key).unwrap();
        block_on(store.put(&path, PutPayload::from(stored.to_vec()))).unwrap();
    }
    block_on(fetch(&command, &One(store), none_mounted, directory))
}

#[test]
fn a_good_snapshot_arrives_byte_for_byte_and_is_not_fetched_twice() {
    let good = snapshot(5);
    let directory = Memory::default();
    assert_eq!(run(&good, Some(&good), &directory).unwrap(), Fetched::Complete);
    assert_eq!(directory.files.lock().unwrap().get(TO), Some(&good));
    assert_eq!(directory.paths(), [TO]);
    assert_eq!(run(&good, None, &directory).unwrap(), Fetched::Already);
}

#[test]
fn nothing_is_fetched_for_a_data_directory_that_is_complete() {
    let directory = Memory::with(&["/v/data/member/wal/0.wal"]);
    assert_eq!(run(&snapshot(1), None, &directory).unwrap(), Fetched::Already);
}

/// A pod that was restored once has `fetch` before it at each start: the Secret may be rotated or gone by then, and the
/// backup too.
#[test]
fn neither_the_secret_nor_the_store_is_needed_once_the_data_is_there() {
    let command = Fetch { credentials: Some("/secret".to_owned()), ..command(&snapshot(1)) };
    let unreadable = |_: &str| Err(io::ErrorKind::NotFound.into());
    let with_log = Memory::with(&["/v/data/member/wal/0.wal"]);
    assert_eq!(block_on(fetch(&command, &Gone, unreadable, &with_log)).unwrap(), Fetched::Already);
    let with_file = Memory::default();
    with_file.put(TO, &snapshot(1));
    assert_eq!(block_on(fetch(&command, &Gone, unreadable, &with_file)).unwrap(), Fetched::Already);
}

#[test]
fn a_secret_that_is_not_there_is_said_and_the_platforms_credentials_do_not_take_its_place() {
    let command = Fetch { credentials: Some("/secret".to_owned()), ..command(&snapshot(1)) };
    let store = One(Arc::new(InMemory::new()));
    let error = block_on(fetch(&command, &store, none_mounted, &Memory::default())).unwrap_err();
    assert!(matches!(&error, FetchError::NoCredentials { path } if path == "/secret"), "{error}");
}

#[test]
fn leftovers_of_a_killed_run_do_not_matter() {
    let good = snapshot(2);
    let directory = Memory::default();
    directory.put(PARTIAL, &good[..700]);
    assert_eq!(run(&good, Some(&good), &directory).unwrap(), Fetched::Complete);
    assert_eq!(directory.files.lock().unwrap().get(TO), Some(&good));
    assert_eq!(directory.paths(), [TO]);
}

#[test]
fn truncated_foreign_flipped_and_absent_objects_are_told_apart_and_leave_nothing() {
    let good = snapshot(3);
    let mut flipped = good.clone();
    flipped[100] ^= 1;
    let mut flipped_trailer = good.clone();
    *flipped_trailer.last_mut().unwrap() ^= 1;
    let mut foreign = snapshot(3);
    foreign[..512].fill(7);
    let digest = Sha256::digest(&foreign[..1536]);
    foreign[1536..].copy_from_slice(&digest);
    type Check = fn(&FetchError) -> bool;
    let table: [(&str, Option<&[u8]>, Check); 6] = [
        ("truncated", Some(&good[..1000]), |error| matches!(error, FetchError::Size { .. })),
        ("longer", Some(&[good.as_slice(), b"x"].concat()), |error| matches!(error, FetchError::Size { .. })),
        ("flipped", Some(&flipped), |error| matches!(error, FetchError::NotASnapshot { .. })),
        ("flipped at the end", Some(&flipped_trailer), |error| matches!(error, FetchError::NotASnapshot { .. })),
        ("another snapshot", Some(&foreign), |error| matches!(error, FetchError::Digest { .. })),
        ("absent", None, |error| matches!(error, FetchError::Missing { .. })),
    ];
    for (what, stored, check) in table {
        let directory = Memory::default();
        let error = run(&good, stored, &directory).unwrap_err();
        assert!(check(&error) && error.is_changed(), "{what}: {error}");
        assert_eq!(directory.paths(), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn an_object_that_cannot_be_a_snapshot_is_refused_before_anything_is_read() {
    for size in [0, 32, 512, 1000] {
        let bytes = vec![0; size];
        let error = run(&bytes, Some(&bytes), &Memory::default()).unwrap_err();
        assert!(matches!(error, FetchError::NotASnapshot { .. }), "{size}: {error}");
    }
}

#[test]
fn a_full_volume_is_said_in_plain_words_and_nothing_half_is_left() {
    let good = snapshot(4);
    let directory = Memory { room: Some(1000), ..Memory::default() };
    let error = run(&good, Some(&good), &directory).unwrap_err();
    assert!(error.to_string().contains("the volume is full") && !error.is_changed(), "{error}");
    assert_eq!(directory.paths(), Vec::<String>::new());
}

#[test]
fn the_checks_do_not_depend_on_how_the_bytes_are_cut() {
    let good = snapshot(2);
    for length in [1, 31, 32, 33, 512, 1023, 1024, 1025, 4096] {
        let mut checks = Checks::new(good.len() as u64);
        for chunk in good.chunks(length) {
            checks.take(chunk).unwrap();
        }
        checks.finish(&hex(&good)).unwrap();
    }
}
