//! Starting one process in a process namespace of its own and waiting for it: one thread per container, because a thread
//! chooses the namespace of its children once and for all.
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::container;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    /// As a shell counts.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A container whose program runs; its end is not reported before [`Started::release`].
pub(super) struct Started {
    /// Its process id in the sandbox.
    pub pid: Pid,
    released: mpsc::Sender<()>,
}

impl Started {
    /// Lets the end be reported.
    pub fn release(self) {
        // The thread waits for nothing else, so it is there.
        let _ = self.released.send(());
    }
}

/// Starts what `spec` describes; returns when its program runs, or says why it does not.
pub(super) fn start(spec: &Path, log: &Path, ended: impl FnOnce(Exit) + Send + 'static) -> Result<Started, String> {
    fs::create_dir_all(log.parent().unwrap_or(Path::new("/"))).map_err(|cause| format!("make a log: {cause}"))?;
    let file = File::options().create(true).append(true).open(log).map_err(|cause| format!("open a log: {cause}"))?;
    let spec = spec.to_owned();
    let (report, answer) = mpsc::channel();
    let (released, release) = mpsc::channel();
    let run = move || {
        let started = unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| format!("own process ids: {errno}"));
        let (mut child, why) = match started.and_then(|()| launch(&spec)) {
            Ok(started) => started,
            Err(why) => return drop(report.send(Err(why))),
        };
        let pid = Pid::from_raw(child.id().cast_signed());
        if let Some(why) = why {
            let _ = child.wait();
            return drop(report.send(Err(why)));
        }
        let _ = report.send(Ok((pid, child.stdout.take(), child.stderr.take())));
        let exit = wait(child, pid, &release);
        ended(exit);
    };
    let thread = std::thread::Builder::new().name("container".to_owned()).spawn(run);
    thread.map_err(|cause| format!("start a thread: {cause}"))?;
    let (pid, out, err) = answer.recv().map_err(|_| "the container's thread ended".to_owned())??;
    // Not on the container's thread: one that has chosen a process namespace for its children cannot start threads.
    let file = Arc::new(Mutex::new(file));
    if let (Some(out), Some(err)) = (out, err) {
        copy_lines(out, "stdout", file.clone());
        copy_lines(err, "stderr", file);
    }
    Ok(Started { pid, released })
}

/// The first process, and why its program could not be started, if so.
fn launch(spec: &Path) -> Result<(Child, Option<String>), String> {
    let own = std::env::current_exe().map_err(|cause| format!("find own program: {cause}"))?;
    let (mut reader, writer) = std::io::pipe().map_err(|cause| format!("make a pipe: {cause}"))?;
    let mut command = Command::new(own);
    command.arg0(container::INIT).arg(spec).env_clear();
    command.stdin(writer).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|cause| format!("start a process: {cause}"))?;
    // The command holds our end of the pipe.
    drop(command);
    let mut why = String::new();
    // Ends when the program takes over (the pipe closes on exec), or with what went wrong before.
    reader.read_to_string(&mut why).map_err(|cause| format!("hear from the container: {cause}"))?;
    Ok((child, Some(why).filter(|why| !why.is_empty())))
}

/// Waits for the end, reports nothing before it may, and reaps last: until then the process id is nobody else's.
fn wait(mut child: Child, pid: Pid, release: &mpsc::Receiver<()>) -> Exit {
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::errno::Errno::EINTR) {}
    let _ = release.recv();
    match child.wait() {
        Ok(status) => {
            let signal = status.signal();
            Exit { code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or_default()), signal }
        }
        Err(_) => Exit { code: 255, signal: None },
    }
}

/// Lines in the format of the container runtimes: time, stream, `F`, text.
#[allow(clippy::disallowed_methods, reason = "a log line carries the time of this machine")]
fn copy_lines(from: impl Read + Send + 'static, stream: &'static str, log: Arc<Mutex<File>>) {
    let copy = move || {
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            let mut entry = format!("{:.9} {stream} F ", jiff::Timestamp::now()).into_bytes();
            entry.append(&mut line);
            entry.push(b'\n');
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.write_all(&entry).is_err() {
                // A full disk must not stop the container: its output is read on and lost.
                line.clear();
            }
        }
    };
    // Without a thread the container runs on until its pipe is full; there is nothing better to do.
    let _ = std::thread::Builder::new().name(format!("log-{stream}")).spawn(copy);
}

/// Runs a command in a running container; its exit code and what it said.
pub(super) fn exec(pid: Pid, argv: &[String]) -> Result<(Exit, String), String> {
    let (own, argv) = (std::env::current_exe().map_err(|cause| cause.to_string())?, argv.to_vec());
    let join = move || -> Result<(Exit, String), String> {
        let namespace = PathBuf::from(format!("/proc/{pid}/ns/pid"));
        let namespace = File::open(namespace).map_err(|_| "container is not running".to_owned())?;
        setns(namespace, CloneFlags::CLONE_NEWPID).map_err(|errno| format!("join the container: {errno}"))?;
        let mut command = Command::new(own);
        command.arg0(container::EXEC).arg(pid.to_string()).args(argv).env_clear().stdin(Stdio::null());
        let output = command.output().map_err(|cause| format!("start a process: {cause}"))?;
        let signal = output.status.signal();
        let code = output.status.code().unwrap_or_else(|| 128 + signal.unwrap_or_default());
        let said = [output.stdout, output.stderr].concat();
        Ok((Exit { code, signal }, String::from_utf8_lossy(&said).trim().to_owned()))
    };
    let thread = std::thread::Builder::new().name("exec".to_owned()).spawn(join);
    let thread = thread.map_err(|cause| format!("start a thread: {cause}"))?;
    thread.join().map_err(|_| "the exec thread panicked".to_owned())?
}
