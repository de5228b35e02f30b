//! Which backups go. Pure; `apply` lists, asks and deletes.
//!
//! Counted are backups that are known to be restorable (recorded, or with a manifest). What merely has the right name
//! (a legacy backup, or an upload that was interrupted before it was confirmed) takes no place among those kept, and
//! goes when it is older than all of them. So the newest restorable backup is never removed, whatever the list says.

use std::collections::BTreeMap;

use super::names::PeriodicName;
use crate::api::BackupRecord;

/// A backup that may be in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its key.
    pub key: String,
    /// What its name says, which orders it.
    pub name: PeriodicName,
    /// It was confirmed by the store once.
    pub restorable: bool,
    /// It is in our status: we wrote it.
    pub recorded: bool,
}

/// Records and the store's list as one; a key in both is one candidate.
pub fn candidates(path: &str, records: &[BackupRecord], listed: &BTreeMap<String, bool>) -> Vec<Candidate> {
    let mut all = BTreeMap::new();
    for (key, has_manifest) in listed {
        if let Some(name) = super::names::parse_periodic(path, key) {
            let candidate = Candidate { key: key.clone(), name, restorable: *has_manifest, recorded: false };
            all.insert(key.clone(), candidate);
        }
    }
    for record in records {
        if let Some(name) = super::names::parse_periodic(path, &record.key) {
            let restorable = !record.superseded;
            let candidate = Candidate { key: record.key.clone(), name, restorable, recorded: true };
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
    candidates.sort_by(|a, b| b.name.cmp(&a.name).then_with(|| b.key.cmp(&a.key)));
    let mut kept = 0;
    let mut surplus: Vec<_> = candidates
        .into_iter()
        .filter(|candidate| {
            let goes = kept == keep;
            kept += usize::from(candidate.restorable && !goes);
            goes
        })
        .collect();
    surplus.reverse();
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::names::{parse_periodic, periodic_key};
    use crate::model::Revision;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn candidate(revision: i64, second: i64, restorable: bool) -> Candidate {
        let key = periodic_key("k", Revision(revision), Timestamp::from_second(second).unwrap());
        let name = parse_periodic("k", &key).unwrap();
        Candidate { key, name, restorable, recorded: restorable }
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
        };
        let listed = [own.as_str(), "k2_v1_2026-11-30-02:03:04", "k", "k_v1_2026-11-30-02:03:04"];
        let listed = listed.iter().map(|key| ((*key).to_owned(), false)).collect();
        let all = candidates("k", &[record], &listed);
        let seen: Vec<_> = all.iter().map(|one| (one.key.as_str(), one.restorable, one.recorded)).collect();
        assert_eq!(seen, [("k_v1_2026-11-30-02:03:04", false, false), (own.as_str(), true, true)]);
    }

    proptest! {
        #[test]
        fn the_newest_restorable_ones_always_stay(
            all in prop::collection::vec((1i64..2000, 0i64..50, any::<bool>()), 0..40), keep in 0usize..6,
        ) {
            let mut all: Vec<_> = all.into_iter().map(|(revision, at, good)| candidate(revision, at, good)).collect();
            all.sort_by(|a, b| a.key.cmp(&b.key));
            all.dedup_by(|a, b| a.key == b.key);
            let goes = surplus(all.clone(), keep);
            let stays: Vec<_> = all.iter().filter(|one| !goes.contains(one)).collect();
            let good = all.iter().filter(|one| one.restorable).count();
            let good_left = stays.iter().filter(|one| one.restorable).count();
            prop_assert_eq!(good_left, if keep == 0 { good } else { good.min(keep) });
            // Nothing that goes is newer than anything restorable that stays.
            for gone in &goes {
                for stay in stays.iter().filter(|one| one.restorable) {
                    prop_assert!(gone.name <= stay.name);
                }
            }
        }
    }
}
