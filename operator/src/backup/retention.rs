//! Which backups go. Pure; `apply` lists, asks and deletes.
//!
//! Counted are backups that are known to be restorable (recorded, or with a manifest). What merely has the right name
//! (a legacy backup, or an upload that was interrupted before it was confirmed) takes no place among those kept, and
//! goes when it is older than all of them.
//!
//! What was recorded is ordered by its place in the records, which only grow: the time in a name is that of a clock which
//! may have been wrong, and an hour in the future must not make each later backup the oldest. What is not recorded (any
//! more, or by this object) is older than what is. So the backup that was just confirmed is never removed, whatever the
//! list and the clocks say.

use std::collections::{BTreeMap, BTreeSet};

use super::names::PeriodicName;
use crate::api::{BackupRecord, EtcdBackup, EtcdRestore, RestoreRunPhase, SnapshotRef};
use crate::model::ObjectLocation;

/// A backup that may be in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its key.
    pub key: String,
    /// What its name says, which orders what is not recorded.
    pub name: PeriodicName,
    /// It was confirmed by the store once.
    pub restorable: bool,
    /// Its place among our records, if we wrote it: later ones are newer.
    pub recorded: Option<usize>,
}

/// Records and the store's list as one; a key in both is one candidate.
pub fn candidates(path: &str, records: &[BackupRecord], listed: &BTreeMap<String, bool>) -> Vec<Candidate> {
    let mut all = BTreeMap::new();
    for (key, has_manifest) in listed {
        if let Some(name) = super::names::parse_periodic(path, key) {
            let candidate = Candidate { key: key.clone(), name, restorable: *has_manifest, recorded: None };
            all.insert(key.clone(), candidate);
        }
    }
    for (place, record) in records.iter().enumerate() {
        if let Some(name) = super::names::parse_periodic(path, &record.key) {
            let restorable = !record.superseded;
            let candidate = Candidate { key: record.key.clone(), name, restorable, recorded: Some(place) };
            all.insert(record.key.clone(), candidate);
        }
    }
    all.into_values().collect()
}

/// What goes when the newest `keep` restorable ones stay (0: all stay); the oldest first.
pub fn surplus(mut candidates: Vec<Candidate>, keep: usize) -> Vec<Candidate> {
    if keep == 0 {
        return Vec::new();
    }
    candidates.sort_by(|a, b| {
        let by_name = || a.name.cmp(&b.name).then_with(|| a.key.cmp(&b.key));
        a.recorded.cmp(&b.recorded).then_with(by_name)
    });
    let restorable = candidates.iter().filter(|candidate| candidate.restorable);
    let kept: BTreeMap<_, _> = restorable.rev().take(keep).map(|kept| (kept.key.clone(), kept.name)).collect();
    let Some(oldest) = kept.values().min().copied().filter(|_| kept.len() == keep) else { return Vec::new() };
    candidates.retain(|one| !kept.contains_key(&one.key) && (one.restorable || one.name < oldest));
    candidates
}

/// Keys of a bucket that EtcdRestores which have not ended are about: their members may have yet to fetch them. Compared by
/// bucket and key alone: to keep one too many does no harm.
pub fn in_use<'a>(restores: impl IntoIterator<Item = &'a EtcdRestore>, bucket: &str) -> BTreeSet<String> {
    let keys = restores.into_iter().flat_map(|restore| {
        let status = restore.status.as_ref();
        let ended = status.is_some_and(|status| match status.phase {
            Some(phase) => matches!(phase, RestoreRunPhase::Succeeded | RestoreRunPhase::Failed),
            // The archived operator's word, which was its last.
            None => status.succeeded || !status.reason.is_empty(),
        });
        if ended || restore.metadata.deletion_timestamp.is_some() {
            return Vec::new();
        }
        let verified = status.and_then(|status| status.snapshot.as_ref());
        let verified = verified.map(|snapshot| (snapshot.bucket.clone(), snapshot.key.clone()));
        let wanted = ObjectLocation::from_source(restore.spec.backup_storage_type, &restore.spec.source).ok();
        let wanted = wanted.map(|location| (location.bucket.bucket, location.key));
        verified.into_iter().chain(wanted).filter(|(of, _)| of == bucket).map(|(_, key)| key).collect()
    });
    keys.collect()
}

/// Keys of a bucket that EtcdBackups other than this one have on record: backups of theirs, whether their manifest could be
/// written or not. Compared like [`in_use`].
pub fn recorded_by_others<'a>(
    backups: impl IntoIterator<Item = &'a EtcdBackup>,
    uid: &str,
    bucket: &str,
) -> BTreeSet<String> {
    let others = backups.into_iter().filter(|backup| backup.metadata.uid.as_deref() != Some(uid));
    let records = others.filter_map(|backup| backup.status.as_ref()).flat_map(|status| &status.records);
    let here = records.filter(|record| record.bucket.is_empty() || record.bucket == bucket);
    here.map(|record| record.key.clone()).collect()
}

/// Whether an EtcdRestore has verified this object and not ended: its members start from exactly these bytes. Compared by
/// bucket and key alone, like [`in_use`].
pub fn is_fetched(restore: &EtcdRestore, location: &ObjectLocation) -> bool {
    let Some(status) = &restore.status else { return false };
    let under_way = matches!(status.phase, Some(RestoreRunPhase::Verified | RestoreRunPhase::Restoring));
    let is_it = |snapshot: &SnapshotRef| snapshot.bucket == location.bucket.bucket && snapshot.key == location.key;
    under_way && restore.metadata.deletion_timestamp.is_none() && status.snapshot.as_ref().is_some_and(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::names::{parse_periodic, periodic_key};
    use crate::model::Revision;
    use jiff::Timestamp;
    use proptest::prelude::*;

    /// In the store, and in no status.
    fn candidate(revision: i64, second: i64, restorable: bool) -> Candidate {
        let key = periodic_key("k", Revision(revision), Timestamp::from_second(second).unwrap());
        let name = parse_periodic("k", &key).unwrap();
        Candidate { key, name, restorable, recorded: None }
    }

    fn recorded(place: usize, revision: i64, second: i64) -> Candidate {
        Candidate { recorded: Some(place), ..candidate(revision, second, true) }
    }

    fn revisions(candidates: &[Candidate]) -> Vec<i64> {
        candidates.iter().map(|candidate| candidate.name.revision.0).collect()
    }

    #[test]
    fn the_one_with_a_digit_more_stays() {
        let all = vec![candidate(100, 9, true), candidate(99, 9, true), candidate(98, 8, true)];
        assert_eq!(revisions(&surplus(all, 1)), [98, 99]);
    }

    #[test]
    fn a_restored_cluster_with_lower_revisions_is_the_newer_one() {
        let all = vec![candidate(5000, 1, true), candidate(10, 2, true)];
        assert_eq!(revisions(&surplus(all, 1)), [5000]);
    }

    #[test]
    fn an_unconfirmed_upload_takes_no_place_and_goes_with_its_time() {
        let all = vec![candidate(4, 4, false), candidate(3, 3, true), candidate(2, 2, false), candidate(1, 1, true)];
        assert_eq!(revisions(&surplus(all.clone(), 1)), [1, 2]);
        assert!(surplus(all, 2).is_empty());
    }

    #[test]
    fn nothing_goes_when_nothing_is_known_to_be_good() {
        assert!(surplus(vec![candidate(1, 1, false), candidate(2, 2, false)], 1).is_empty());
    }

    #[test]
    fn the_list_and_the_records_are_one_set_and_strangers_are_not_in_it() {
        let own = candidate(7, 7, true).key;
        let record = BackupRecord {
            key: own.clone(),
            revision: 7,
            size: 1,
            sha256: String::new(),
            etcd_version: String::new(),
            cluster_id: String::new(),
            member_id: String::new(),
            time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
            superseded: false,
            storage_type: None,
            endpoint: String::new(),
            bucket: String::new(),
            etcd_endpoints: Vec::new(),
        };
        let listed = [own.as_str(), "k2_v1_2026-11-30-02:03:04", "k", "k_v1_2026-11-30-02:03:04"];
        let listed = listed.iter().map(|key| ((*key).to_owned(), false)).collect();
        let all = candidates("k", &[record], &listed);
        let seen: Vec<_> = all.iter().map(|one| (one.key.as_str(), one.restorable, one.recorded)).collect();
        assert_eq!(seen, [("k_v1_2026-11-30-02:03:04", false, None), (own.as_str(), true, Some(0))]);
    }

    #[test]
    fn a_clock_that_was_wrong_makes_no_later_backup_the_oldest() {
        let ahead = [recorded(0, 1, 9000), recorded(1, 2, 9001), recorded(2, 3, 9002), recorded(3, 4, 9003)];
        let corrected = recorded(4, 5, 100);
        assert_eq!(revisions(&surplus([ahead.to_vec(), vec![corrected]].concat(), 4)), [1]);
        let behind = [recorded(0, 1, 9000), recorded(1, 2, 9001), recorded(2, 3, 100)];
        assert_eq!(revisions(&surplus(behind.to_vec(), 2)), [1]);
        let of_another_life = [candidate(1, 9000, true), candidate(2, 9001, true), recorded(0, 3, 100)];
        assert_eq!(revisions(&surplus(of_another_life.to_vec(), 2)), [1], "what is not recorded is older");
    }

    proptest! {
        #[test]
        fn the_newest_restorable_ones_always_stay(
            all in prop::collection::vec((1i64..2000, 0i64..50, 0u8..3), 0..40), keep in 0usize..6,
        ) {
            let made = |(place, (revision, at, kind)): (usize, (i64, i64, u8))| match kind {
                0 => candidate(revision, at, false),
                1 => candidate(revision, at, true),
                _ => recorded(place, revision, at),
            };
            let mut all: Vec<_> = all.into_iter().enumerate().map(made).collect();
            all.sort_by(|a, b| a.key.cmp(&b.key));
            all.dedup_by(|a, b| a.key == b.key);
            let last = all.iter().filter(|one| one.recorded.is_some()).max_by_key(|one| one.recorded).cloned();
            let goes = surplus(all.clone(), keep);
            let stays: Vec<_> = all.iter().filter(|one| !goes.contains(one)).collect();
            let good = all.iter().filter(|one| one.restorable).count();
            let good_left = stays.iter().filter(|one| one.restorable).count();
            prop_assert_eq!(good_left, if keep == 0 { good } else { good.min(keep) });
            if let Some(last) = last {
                prop_assert!(!goes.contains(&last), "what was just confirmed stays");
            }
            // Nothing that goes is newer than anything restorable that stays: by the records, else by the names.
            for gone in &goes {
                for stay in stays.iter().filter(|one| one.restorable) {
                    let older = if gone.restorable { gone.recorded < stay.recorded } else { false };
                    prop_assert!(older || gone.name <= stay.name);
                }
            }
        }
    }
}
