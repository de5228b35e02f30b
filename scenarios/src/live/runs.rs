//! Where the logs of a run are kept: a directory of its own under the user's cache, locked for as long as the run goes on.
//! Those of runs that passed are removed, of the others the newest stay.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::binaries::Cache;

/// Runs whose logs are kept.
const KEPT: usize = 20;

/// The directory with the logs of a run that goes on. Nobody else removes it before this is dropped, nor when this process
/// is killed; then it is one of the earlier ones.
#[derive(Debug)]
pub struct Logs {
    /// Where it is.
    pub path: PathBuf,
    _lock: File,
}

/// A fresh directory for the logs of a case; the oldest ones of earlier runs go.
///
/// # Errors
/// When it cannot be made.
pub fn make(case: &str) -> anyhow::Result<Logs> {
    make_in(&Cache::of_user()?.root().join("runs"), case)
}

fn make_in(runs: &Path, case: &str) -> anyhow::Result<Logs> {
    fs::create_dir_all(runs).with_context(|| format!("cannot make {}", runs.display()))?;
    // One at a time: else somebody could take for an old one what is made and not locked yet.
    let alone = File::open(runs).with_context(|| format!("cannot open {}", runs.display()))?;
    alone.lock().with_context(|| format!("cannot lock {}", runs.display()))?;
    let found = fs::read_dir(runs)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut earlier: Vec<PathBuf> = found.filter(|path| has_ended(path)).collect();
    earlier.sort();
    let surplus = earlier.len().saturating_sub(KEPT - 1);
    // Somebody may look at it just now; then it goes the next time.
    earlier.drain(..surplus).for_each(|old| drop(remove(&old)));
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let path = runs.join(format!("{now}-{}-{}", case.replace('/', "-"), std::process::id()));
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let lock = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(Logs { path, _lock: lock })
}

/// Whether no run goes on in it; the lock that shows it is given back at once.
fn has_ended(path: &Path) -> bool {
    let locked = File::open(path).map(|directory| directory.try_lock());
    !matches!(locked, Err(_) | Ok(Err(TryLockError::WouldBlock)))
}

/// Removes the logs of a run.
///
/// # Errors
/// When something of them stays.
pub fn remove(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        // Gone is gone, whoever did it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Copies the logs of all pods from where the kubelet keeps them: `<pod>-<container>-<attempt>.log`.
pub fn keep_pod_logs(run_dir: &Path, names: &dyn Fn(&str) -> String, into: &Path) {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for pod in list(&run_dir.join("logs")) {
        for container in list(&pod) {
            for log in list(&container) {
                let target = format!("{}-{}-{}.log", names(&name(&pod)), name(&container), name(&log));
                // Logs are a help; that one is missing must not hide why the case failed.
                let _ = fs::copy(&log, into.join(target));
            }
        }
    }
}

/// The last lines of a log that are about something going wrong, else its last lines.
pub fn tail(log: &Path, count: usize) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::scratch::Scratch;

    #[test]
    fn logs_of_runs_that_go_on_stay_and_of_those_that_ended_the_newest() {
        let scratch = Scratch::new("runs");
        let case = |number: usize| format!("topic/case-{number:02}");
        let mut running: Vec<Logs> =
            (0..2 * KEPT).map(|number| make_in(&scratch.0, &case(number)).expect("it can be made")).collect();
        assert!(running.iter().all(|logs| logs.path.is_dir()), "twice as many run as are kept");
        let ended: Vec<PathBuf> = running.drain(..KEPT + 5).map(|logs| logs.path).collect();
        let last = make_in(&scratch.0, &case(99)).expect("it can be made");
        let gone = ended.iter().filter(|path| !path.exists()).count();
        assert_eq!(gone, ended.len() - (KEPT - 1), "with the one that was made now there are so many");
        assert!(running.iter().chain([&last]).all(|logs| logs.path.is_dir()));
    }

    #[test]
    fn what_somebody_else_removed_is_removed() {
        let scratch = Scratch::new("removed-runs");
        let logs = make_in(&scratch.0, "topic/case").expect("it can be made");
        remove(&logs.path).expect("it is ours");
        assert!(!logs.path.exists());
        remove(&logs.path).expect("it is gone already");
    }
}
