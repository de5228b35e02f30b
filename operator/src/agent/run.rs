//! What happens right before etcd starts: the guard is asked, and leaves word for the next start in the same pod.
//!
//! Two traces make up `seen`. The marker outside the data directory says that etcd was started in this pod. The file
//! `unborn` inside the data directory says that it had not yet written its log then: etcd may fail at its first start
//! (no name resolution yet, a member list that has moved on) and is started again by the kubelet. Whoever wipes the
//! directory wipes `unborn` with it, so marker without `unborn` and without a log means that data has vanished.

use std::io;

use super::command::Run;
use super::directory::{Directory, has_log};
use super::guard::{DataLost, guard};

/// Inside `<data-dir>/member`, which etcd takes for its own and in which it looks for `wal` and `snap` only.
const UNBORN: &str = "unborn";

/// Why etcd is not started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Data is gone.
    #[error("{0}")]
    DataLost(#[from] DataLost),
    /// The volume does not work: nothing may be concluded.
    #[error("cannot {action}: {source}")]
    Disk {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// Asks the guard and leaves the traces; etcd may be started when it returns.
///
/// # Errors
/// When data is gone, or the volume cannot be read or written.
pub fn prepare(command: &Run, directory: &dyn Directory) -> Result<(), RunError> {
    let unborn = format!("{}/member/{UNBORN}", command.data_dir);
    let disk = |action: &str, path: &str| {
        let action = format!("{action} {path}");
        move |source| RunError::Disk { action, source }
    };
    let exists = |path: &str| directory.size(path).map(|size| size.is_some()).map_err(disk("read", path));
    let has_data = has_log(directory, &command.data_dir).map_err(disk("read", &command.data_dir))?;
    let marked = exists(&command.seen)?;
    let seen = marked && !exists(&unborn)?;
    guard(command.expect_data, seen, has_data)?;
    let touch = |path: &str| {
        let written = directory.create(path).and_then(super::directory::FileSink::finish);
        written.map_err(disk("write", path))
    };
    if has_data {
        directory.remove(&unborn).map_err(disk("remove", &unborn))?;
    } else {
        // Before the marker: killed between the two, the next start is a first start again.
        touch(&unborn)?;
    }
    if marked { Ok(()) } else { touch(&command.seen) }
}

#[cfg(test)]
mod tests {
    use super::super::directory::fake::Memory;
    use super::*;

    const LOG: &str = "/v/data/member/wal/0.wal";

    fn run(expect_data: bool) -> Run {
        let etcd = vec!["etcd".to_owned()];
        Run { data_dir: "/v/data".to_owned(), seen: "/opt/seen".to_owned(), expect_data, own_name: None, etcd }
    }

    #[test]
    fn a_first_start_that_fails_before_the_log_is_written_may_be_repeated() {
        let memory = Memory::default();
        for _ in 0..3 {
            prepare(&run(false), &memory).unwrap();
            memory.put("/v/data/member/snap/db", b"made before the log");
        }
        memory.put(LOG, b"log");
        prepare(&run(false), &memory).unwrap();
        assert!(!memory.paths().iter().any(|path| path.ends_with("unborn")), "{:?}", memory.paths());
    }

    #[test]
    fn a_directory_wiped_between_two_starts_is_data_lost() {
        for (wiped, born) in
            [("/v/data", true), ("/v/data/member", true), ("/v/data/member/wal", true), ("/v/data", false)]
        {
            let memory = Memory::default();
            prepare(&run(false), &memory).unwrap();
            memory.put(LOG, b"log");
            if born {
                prepare(&run(false), &memory).unwrap();
            }
            memory.remove(wiped).unwrap();
            let error = prepare(&run(false), &memory).unwrap_err();
            assert!(matches!(error, RunError::DataLost(DataLost::Vanished)), "{wiped}: {error}");
        }
    }

    #[test]
    fn a_member_with_a_history_does_not_start_on_an_empty_volume_in_a_new_pod() {
        let error = prepare(&run(true), &Memory::default()).unwrap_err();
        assert!(matches!(error, RunError::DataLost(DataLost::Expected)), "{error}");
        prepare(&run(true), &Memory::with(&[LOG])).unwrap();
    }

    #[test]
    fn files_that_are_no_log_are_no_data() {
        let memory = Memory::with(&["/v/data/member/wal/0.tmp", "/v/data/member/snap/db"]);
        assert!(prepare(&run(true), &memory).is_err());
    }
}
