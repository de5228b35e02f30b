//! Where the logs of a run are kept: a directory of its own under the user's cache. Those of runs that passed are removed,
//! of the others the newest stay.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::binaries::Cache;

/// Runs whose logs are kept.
const KEPT: usize = 20;

/// A fresh directory for the logs of a case; the oldest ones of earlier runs go.
///
/// # Errors
/// When it cannot be made.
pub fn make(case: &str) -> anyhow::Result<PathBuf> {
    let runs = Cache::of_user()?.root().join("runs");
    fs::create_dir_all(&runs).with_context(|| format!("cannot make {}", runs.display()))?;
    let mut earlier: Vec<PathBuf> = fs::read_dir(&runs)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    earlier.sort();
    let surplus = earlier.len().saturating_sub(KEPT - 1);
    // Somebody may look at it just now; then it goes the next time.
    earlier.drain(..surplus).for_each(|old| drop(remove(&old)));
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let made = runs.join(format!("{now}-{}-{}", case.replace('/', "-"), std::process::id()));
    fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))?;
    Ok(made)
}

/// Removes the logs of a run.
///
/// # Errors
/// When something of them stays.
pub fn remove(directory: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(directory)
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
