//! What this process has used of the machine, as the kernel counts it.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// A moment of real time.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn moment() -> Instant {
    Instant::now()
}

/// Whether all is only to be tried once (`--test`, as criterion has it), not measured.
#[expect(clippy::disallowed_methods, reason = "a benchmark's command line is criterion's")]
pub fn only_tried() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// CPU time of all threads, those that have ended too.
///
/// # Errors
/// Where there is no `/proc`.
pub fn cpu_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    // The name in brackets may hold spaces; user and system time are the 12th and 13th field behind it.
    let fields = stat.rsplit_once(')').context("/proc/self/stat has a name in brackets")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    // USER_HZ, which the kernel's interface fixes at 100 on every architecture that we build for.
    Ok(Duration::from_millis(ticks * 10))
}

/// Memory that is resident now, in bytes.
///
/// # Errors
/// Where there is no `/proc`.
pub fn resident() -> Result<u64> {
    of_status("VmRSS:")
}

/// The most memory that was resident since [`forget_peak`], in bytes.
///
/// # Errors
/// Where there is no `/proc`.
pub fn peak_resident() -> Result<u64> {
    of_status("VmHWM:")
}

/// Begins to count the peak anew.
///
/// # Errors
/// Where the kernel does not let us.
pub fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("writing /proc/self/clear_refs")
}

fn of_status(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("the kernel counts in kB")?;
    Ok(kilobytes.parse::<u64>()? << 10)
}

/// Bytes in MiB, rounded.
pub fn mebibytes(bytes: u64) -> u64 {
    (bytes + (1 << 19)) >> 20
}
