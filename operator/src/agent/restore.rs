//! Makes a data directory from a snapshot, all or nothing: into a sibling first, which takes the place when the
//! restore tool has succeeded and everything is on disk. Run again after any interruption it ends the same way.

use std::io;

use super::command::Restore;
use super::directory::{Directory, has_log};
use super::guard::DataLost;

/// What `restore` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The data directory is there now.
    Complete,
    /// It was there before; the snapshot is gone.
    Already,
}

/// Why there is no data directory.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The directory had been complete once, in this very pod: what was acknowledged since is lost with it, and it must
    /// not come back as it was in the snapshot under the same member id.
    #[error("{0}")]
    DataLost(#[from] DataLost),
    /// `fetch` has not done its work.
    #[error("there is no snapshot at {path}")]
    NoSnapshot {
        /// Where it should be.
        path: String,
    },
    /// Something else lies in the place of the data directory.
    #[error("{path} holds {names}, and no log of etcd: it is not overwritten")]
    Occupied {
        /// The data directory.
        path: String,
        /// What is in it.
        names: String,
    },
    /// The volume is full. What was made of the data directory is gone again, the snapshot is still there.
    #[error(
        "the volume is full: the data directory needs as much room again as the snapshot of {size} bytes; \
             free some, or make the volume larger, and it goes on"
    )]
    Full {
        /// Size of the snapshot.
        size: u64,
    },
    /// The restore tool failed.
    #[error("the restore tool failed: {message}")]
    Tool {
        /// Its exit status or words.
        message: String,
    },
    /// The volume does not work.
    #[error("cannot {action}: {source}")]
    Disk {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// How the operating system, and through it every restore tool, calls a full volume.
const NO_SPACE: &str = "no space left on device";

/// Restores, unless that was done. `tool` runs a command line and says whether it succeeded, or else what it said.
///
/// # Errors
/// See [`RestoreError`]; it is safe to try again.
pub fn restore(
    command: &Restore,
    directory: &dyn Directory,
    tool: impl FnOnce(&[String]) -> Result<(), String>,
) -> Result<Restored, RestoreError> {
    let data_dir = &command.data_dir;
    let restoring = format!("{data_dir}.restoring");
    let disk = |action: &str, path: &str| {
        let action = format!("{action} {path}");
        move |source| RestoreError::Disk { action, source }
    };
    if has_log(directory, data_dir).map_err(disk("read", data_dir))? {
        directory.remove(&restoring).map_err(disk("remove", &restoring))?;
        directory.remove(&command.snapshot).map_err(disk("remove", &command.snapshot))?;
        return Ok(Restored::Already);
    }
    if directory.size(&command.seen).map_err(disk("read", &command.seen))?.is_some() {
        return Err(DataLost::Vanished.into());
    }
    let Some(size) = directory.size(&command.snapshot).map_err(disk("read", &command.snapshot))? else {
        return Err(RestoreError::NoSnapshot { path: command.snapshot.clone() });
    };
    match directory.list(data_dir).map_err(disk("read", data_dir))? {
        Some(names) if !names.is_empty() => {
            return Err(RestoreError::Occupied { path: data_dir.clone(), names: names.join(", ") });
        }
        Some(_) => directory.remove(data_dir).map_err(disk("remove", data_dir))?,
        None => {}
    }
    directory.remove(&restoring).map_err(disk("remove", &restoring))?;
    let made = make(command, directory, &restoring, tool);
    if let Err(error) = made {
        // The room is given back at once: what else is on the volume may need it. The first error tells more than one of
        // the cleaning up.
        let _ = directory.remove(&restoring);
        return Err(full_or(error, size));
    }
    directory.rename(&restoring, data_dir).map_err(disk("rename", &restoring))?;
    // The directory is complete; the snapshot only takes room now.
    directory.remove(&command.snapshot).map_err(disk("remove", &command.snapshot))?;
    Ok(Restored::Complete)
}

/// Runs the tool into `restoring`, and makes sure of what it did.
fn make(
    command: &Restore,
    directory: &dyn Directory,
    restoring: &str,
    tool: impl FnOnce(&[String]) -> Result<(), String>,
) -> Result<(), RestoreError> {
    let disk = |action: &str| {
        let action = format!("{action} {restoring}");
        move |source| RestoreError::Disk { action, source }
    };
    let mut line = command.tool.clone();
    line.push(format!("--data-dir={restoring}"));
    tool(&line).map_err(|message| RestoreError::Tool { message })?;
    if !has_log(directory, restoring).map_err(disk("read"))? {
        return Err(RestoreError::Tool { message: format!("it succeeded and left no log in {restoring}") });
    }
    directory.sync(restoring).map_err(disk("sync"))
}

/// A full volume has its own words, whoever found out.
fn full_or(error: RestoreError, size: u64) -> RestoreError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let is_full = match &error {
        RestoreError::Tool { message } => message.to_ascii_lowercase().contains(NO_SPACE),
        RestoreError::Disk { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
        _ => false,
    };
    if is_full { RestoreError::Full { size } } else { error }
}

#[cfg(test)]
mod tests {
    use super::super::directory::fake::Memory;
    use super::*;

    fn command() -> Restore {
        Restore {
            data_dir: "/v/data".to_owned(),
            snapshot: "/v/restore/s.db".to_owned(),
            seen: "/opt/seen".to_owned(),
            tool: vec!["etcdutl".to_owned()],
        }
    }

    /// A tool that makes what etcdutl makes, wherever it is told to.
    fn good_tool(memory: &Memory) -> impl FnOnce(&[String]) -> Result<(), String> {
        let memory = memory.clone();
        move |line| {
            let to = line.last().and_then(|arg| arg.strip_prefix("--data-dir=")).ok_or("no data dir")?;
            if memory.list(to).unwrap().is_some() {
                return Err(format!("data-dir {to} not empty"));
            }
            memory.put(&format!("{to}/member/wal/0.wal"), b"log");
            memory.put(&format!("{to}/member/snap/db"), b"db");
            Ok(())
        }
    }

    fn no_tool(_: &[String]) -> Result<(), String> {
        panic!("the tool must not run")
    }

    const COMPLETE: [&str; 2] = ["/v/data/member/snap/db", "/v/data/member/wal/0.wal"];

    #[test]
    fn a_snapshot_becomes_a_data_directory_and_is_removed() {
        let memory = Memory::with(&["/v/restore/s.db"]);
        assert_eq!(restore(&command(), &memory, good_tool(&memory)).unwrap(), Restored::Complete);
        assert_eq!(memory.paths(), COMPLETE);
    }

    #[test]
    fn leftovers_of_a_killed_run_are_removed_first() {
        let memory = Memory::with(&["/v/restore/s.db", "/v/data.restoring/member/wal/0.wal.tmp"]);
        assert_eq!(restore(&command(), &memory, good_tool(&memory)).unwrap(), Restored::Complete);
        assert_eq!(memory.paths(), COMPLETE);
    }

    #[test]
    fn a_complete_directory_is_never_restored_again() {
        let memory = Memory::with(&COMPLETE);
        memory.put("/v/restore/s.db", b"s");
        memory.put("/v/data.restoring/x", b"x");
        assert_eq!(restore(&command(), &memory, no_tool).unwrap(), Restored::Already);
        assert_eq!(memory.paths(), COMPLETE);
    }

    #[test]
    fn a_directory_that_vanished_under_a_running_pod_is_not_made_from_the_old_snapshot() {
        let memory = Memory::with(&["/opt/seen", "/v/restore/s.db"]);
        let error = restore(&command(), &memory, no_tool).unwrap_err();
        assert!(matches!(error, RestoreError::DataLost(DataLost::Vanished)), "{error}");
    }

    #[test]
    fn a_failing_or_lying_tool_leaves_no_data_directory() {
        let memory = Memory::with(&["/v/restore/s.db"]);
        let error = restore(&command(), &memory, |_| Err("exit status 1".to_owned())).unwrap_err();
        assert!(error.to_string().contains("exit status 1"));
        let error = restore(&command(), &memory, |_| Ok(())).unwrap_err();
        assert!(matches!(error, RestoreError::Tool { .. }), "{error}");
        assert_eq!(memory.paths(), ["/v/restore/s.db"]);
    }

    #[test]
    fn a_full_volume_is_said_in_plain_words_and_the_restore_goes_on_when_there_is_room() {
        let memory = Memory::with(&["/v/restore/s.db", "/v/other/data/member/wal/0.wal"]);
        let full_tool = |line: &[String]| {
            good_tool(&memory)(line)?;
            Err("Error: write /v/data.restoring/member/snap/db: no space left on device".to_owned())
        };
        for _ in 0..2 {
            let error = restore(&command(), &memory, full_tool).unwrap_err();
            assert!(error.to_string().starts_with("the volume is full: the data directory needs"), "{error}");
            assert_eq!(memory.paths(), ["/v/other/data/member/wal/0.wal", "/v/restore/s.db"], "nothing else changed");
        }
        assert_eq!(restore(&command(), &memory, good_tool(&memory)).unwrap(), Restored::Complete);
    }

    #[test]
    fn what_is_no_data_of_etcd_is_not_overwritten() {
        let memory = Memory::with(&["/v/restore/s.db", "/v/data/holiday.jpg"]);
        let error = restore(&command(), &memory, no_tool).unwrap_err();
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
    }

    #[test]
    fn without_a_snapshot_nothing_happens() {
        let error = restore(&command(), &Memory::default(), no_tool).unwrap_err();
        assert!(matches!(error, RestoreError::NoSnapshot { .. }), "{error}");
    }
}
