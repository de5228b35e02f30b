//! Names of backups in their bucket, and where retention may believe them.
//!
//! A periodic backup is `<path>_v<revision>_<YYYY-MM-DD-HH:MM:SS>` in UTC, as the archived operator named it; a one-shot
//! backup is exactly `<path>`. Numbers and times are compared as such, never as text: `_v100` is newer than `_v99`.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil::DateTime};

use crate::model::Revision;

/// What is appended to a backup's key to name its manifest.
pub const MANIFEST_SUFFIX: &str = ".manifest.json";

const TIME_FORMAT: &str = "%Y-%m-%d-%H:%M:%S";

/// What the name of a periodic backup says. Ordered by (time, revision).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeriodicName {
    /// When the run began, in whole seconds.
    pub time: Timestamp,
    /// The store's revision just before the snapshot; the snapshot's own may be higher, and is in the record.
    pub revision: Revision,
}

/// The key of a periodic backup.
pub fn periodic_key(path: &str, revision: Revision, time: Timestamp) -> String {
    format!("{path}_v{revision}_{}", time.strftime(TIME_FORMAT))
}

/// The key of the manifest beside a backup.
pub fn manifest_key(key: &str) -> String {
    format!("{key}{MANIFEST_SUFFIX}")
}

/// Reads a key back. None unless it is, to the letter, one that [`periodic_key`] makes of exactly this path: backups of
/// `key2` are none of `key`'s, and neither is a manifest.
pub fn parse_periodic(path: &str, key: &str) -> Option<PeriodicName> {
    let (revision, time) = key.strip_prefix(path)?.strip_prefix("_v")?.split_once('_')?;
    let revision = Revision(revision.parse().ok()?);
    let time = DateTime::strptime(TIME_FORMAT, time).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (periodic_key(path, revision, time) == key).then_some(PeriodicName { time, revision })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn names_are_those_of_the_contract() {
        let key = periodic_key("dir/key", Revision(99), at("2026-11-30T02:03:04Z"));
        assert_eq!(key, "dir/key_v99_2026-11-30-02:03:04");
        let name = parse_periodic("dir/key", &key).expect("its own name");
        assert_eq!((name.revision, name.time), (Revision(99), at("2026-11-30T02:03:04Z")));
    }

    #[test]
    fn a_revision_with_one_digit_more_is_newer() {
        let older = parse_periodic("k", "k_v99_2026-11-30-02:03:04").unwrap();
        let newer = parse_periodic("k", "k_v100_2026-11-30-02:03:04").unwrap();
        assert!(newer > older);
        assert!(parse_periodic("k", "k_v5_2026-11-30-02:03:05").unwrap() > newer, "time comes first");
    }

    #[test]
    fn what_was_not_named_by_this_backup_is_not_its_own() {
        for key in [
            "k",
            "k2_v99_2026-11-30-02:03:04",
            "k_v99_2026-11-30-02:03:04.manifest.json",
            "k_v99_2026-11-30",
            "k_v+99_2026-11-30-02:03:04",
            "k_v099_2026-11-30-02:03:04",
            "k_v99_2026-13-30-02:03:04",
            "k_v99_2026-11-30-02:03:04 ",
            "k_v99_2026-11-30-2:03:04",
            "k_v_2026-11-30-02:03:04",
            "k_v99",
            "dir/k_v99_2026-11-30-02:03:04",
            "k_v99999999999999999999_2026-11-30-02:03:04",
            "k_vx_v9_2026-11-30-02:03:04",
        ] {
            assert_eq!(parse_periodic("k", key), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(path in "[a-z_0-9/]{1,30}", revision in 1i64.., second in 0i64..4_000_000_000) {
            let time = Timestamp::from_second(second).unwrap();
            let key = periodic_key(&path, Revision(revision), time);
            prop_assert_eq!(parse_periodic(&path, &key), Some(PeriodicName { time, revision: Revision(revision) }));
        }

        #[test]
        fn no_text_is_taken_for_another_name(path in "[a-z]{1,3}", key in "[a-z]{1,3}_v[0-9]{1,3}_[0-9:-]{0,22}") {
            if let Some(name) = parse_periodic(&path, &key) {
                prop_assert_eq!(periodic_key(&path, name.revision, name.time), key);
            }
        }
    }
}
