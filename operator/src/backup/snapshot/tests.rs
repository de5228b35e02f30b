//! The reader against files in the real format, damaged ones, and arbitrary bytes.

use super::*;
use futures::FutureExt;
use proptest::prelude::*;

// The simulator's writer of the same format; what it writes was restored by the tools of etcd 3.2 to 3.7.
#[path = "../../../../sim/src/etcd/bolt.rs"]
#[allow(dead_code, reason = "the simulator uses the rest")]
pub(crate) mod bolt;

fn entry(n: i64, mod_revision: i64, value: usize) -> bolt::Entry {
    let key = format!("key-{n:06}").into_bytes();
    bolt::Entry { key, value: vec![7; value], create_revision: 2, mod_revision, version: 1 }
}

fn revision_of(database: &[u8]) -> Result<Revision, String> {
    let bytes = Bytes::copy_from_slice(database);
    let answer = revision(&bytes, bytes.len() as u64).now_or_never().expect("bytes are there at once");
    answer.map_err(|error| error.to_string())
}

fn without_trailer(snapshot: &[u8]) -> &[u8] {
    &snapshot[..snapshot.len() - 32]
}

#[test]
fn the_revision_is_the_last_change_or_the_compaction_above_it() {
    // `write` records a compaction at the revision that it is given.
    let snapshot = bolt::write(9, (0..5).map(|n| entry(n, 2 + n, 10)));
    assert_eq!(revision_of(without_trailer(&snapshot)), Ok(Revision(9)));
    // Without one (revision 1) the last change counts.
    for count in [1, 2, 50, 20_000] {
        let snapshot = bolt::write(1, (0..count).map(|n| entry(n, 2 + n, 20)));
        assert_eq!(revision_of(without_trailer(&snapshot)), Ok(Revision(1 + count)), "{count}");
    }
}

#[test]
fn an_empty_store_has_revision_one() {
    assert_eq!(revision_of(without_trailer(&bolt::write(1, std::iter::empty()))), Ok(Revision(1)));
}

#[test]
fn values_of_any_size_are_not_read() {
    let snapshot = bolt::write(1, [entry(0, 2, 10), entry(1, 3, 3 << 20)].into_iter());
    assert_eq!(revision_of(without_trailer(&snapshot)), Ok(Revision(3)));
}

#[test]
fn truncated_and_foreign_files_say_so() {
    let snapshot = bolt::write(1, (0..500).map(|n| entry(n, 2 + n, 100)));
    let database = without_trailer(&snapshot);
    assert_eq!(
        revision_of(&database[..database.len() - 4096]).unwrap_err(),
        format!(
            "the database is truncated or damaged: page {} lies outside its {} bytes",
            database.len() / 4096 - 1,
            database.len() - 4096
        )
    );
    for foreign in [b"".as_slice(), b"hello", &[0; 8192], &[0xff; 4096]] {
        let error = revision_of(foreign).unwrap_err();
        assert!(error.starts_with("not an etcd snapshot: "), "{error}");
    }
}

#[test]
fn a_bit_flipped_in_the_first_page_is_noticed() {
    let snapshot = bolt::write(1, [entry(0, 2, 10)].into_iter());
    let mut database = without_trailer(&snapshot).to_vec();
    database[16 + 16] ^= 1;
    let error = revision_of(&database).unwrap_err();
    assert_eq!(error, "not an etcd snapshot: the checksum of its first page does not match");
}

/// A file with a valid first page whose other numbers are somebody's invention.
fn invented(root: u64, high_water: u64, mut rest: Vec<u8>) -> Vec<u8> {
    let mut content = Vec::new();
    for word in [MAGIC, FORMAT_VERSION, 512, 0] {
        content.extend(word.to_le_bytes());
    }
    for long in [root, 0, 2, high_water, 1] {
        content.extend(long.to_le_bytes());
    }
    let checksum = fnv64a(&content);
    content.extend(checksum.to_le_bytes());
    let mut file = vec![0; 512];
    file[8] = 0x04;
    file[16..16 + 64].copy_from_slice(&content);
    file.append(&mut rest);
    file
}

#[test]
fn a_tree_that_bites_its_tail_ends() {
    // Page 2 is a branch whose only child is itself.
    let mut page = vec![0; 512];
    page[..8].copy_from_slice(&2_u64.to_le_bytes());
    (page[8], page[10]) = (0x01, 1);
    page[16..20].copy_from_slice(&16_u32.to_le_bytes());
    page[24..32].copy_from_slice(&2_u64.to_le_bytes());
    let file = invented(2, 3, [vec![0; 512], page].concat());
    assert_eq!(revision_of(&file).unwrap_err(), "the database is damaged: page 2: its tree has no end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_the_reader_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = revision_of(&bytes);
    }

    #[test]
    fn no_pages_behind_a_valid_first_page_make_it_panic_or_hang(
        root in 0u64..6, high_water in prop_oneof![0u64..6, any::<u64>()],
        rest in prop::collection::vec(0u8..5, 0..2560),
    ) {
        let _ = revision_of(&invented(root, high_water, rest));
    }

    #[test]
    fn a_damaged_snapshot_never_panics_or_hangs(
        count in 0i64..300, at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>(),
    ) {
        let snapshot = bolt::write(1, (0..count).map(|n| entry(n, 2 + n, 60)));
        let mut database = without_trailer(&snapshot).to_vec();
        let at = at.index(database.len());
        database[at] = byte;
        let _ = revision_of(&database);
        database.truncate(cut.index(database.len()));
        let _ = revision_of(&database);
    }
}
