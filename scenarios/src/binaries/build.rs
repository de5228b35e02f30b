//! Running a build, which may take minutes: it says now and then that it goes on, and what it said last if it fails.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::{Error, Report};

/// A build that takes longer says again and again that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// Lines that are kept of what a build says, for the error.
const LAST_LINES: usize = 15;

/// Runs the build of something in `directory` to its end.
pub fn run(command: &mut Command, name: &str, directory: &Path, report: Report<'_>) -> Result<(), Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::io("starting a build in", directory))?;
    let (sender, lines) = channel();
    if let Some(said) = child.stderr.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(said).lines().map_while(Result::ok);
            // Nobody listens any more: then nobody wants to know.
            let _ = lines.map(|line| sender.send(line)).take_while(Result::is_ok).count();
        });
    }
    let tail = last_lines(&lines, name, report);
    let status = child.wait().map_err(Error::io("waiting for the build in", directory))?;
    if status.success() { Ok(()) } else { Err(Error::Build { package: name.to_owned(), status, tail }) }
}

fn last_lines(lines: &Receiver<String>, name: &str, report: Report<'_>) -> String {
    let (began, mut reported, mut tail) = (moment(), moment(), VecDeque::new());
    loop {
        match lines.recv_timeout(SIGN_OF_LIFE) {
            Ok(line) => tail.push_back(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Vec::from(tail).join("\n"),
        }
        if tail.len() > LAST_LINES {
            tail.pop_front();
        }
        if reported.elapsed() >= SIGN_OF_LIFE {
            reported = moment();
            report(&format!("still building {name} after {:.0} s", began.elapsed().as_secs_f64()));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a build takes is told to a person and decides nothing")]
pub(super) fn moment() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_failed_build_the_last_lines_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "for line in $(seq 1 40); do echo line $line >&2; done; exit 3"]);
        let result = run(&mut command, "a program", Path::new("/"), &|_| ());
        let Err(Error::Build { status, tail, .. }) = result else { panic!("it failed: {result:?}") };
        assert_eq!(status.code(), Some(3));
        assert!(tail.starts_with("line 26\n") && tail.ends_with("\nline 40"), "{tail}");
    }
}
