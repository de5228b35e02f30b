//! A sandbox that the driver puts itself into: own mounts, network and processes, so that whatever it makes is gone with
//! it, even when it is killed.
//!
//! [`enter`] runs the same program three times: the first waits outside and hands signals on; the second is in the new
//! namespaces but for its process ids; the third is process 1 of the sandbox and goes on as the driver. The kernel ends
//! each when the one before it ends, and everything in the sandbox when process 1 does. Which one a process is stands in
//! its `argv[0]`, which nobody inherits.
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getegid, geteuid};

use super::container;

const OUTER: &str = "fake-k8s-sandbox-outer";
const INNER: &str = "fake-k8s-sandbox-inner";

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A tool is not installed.
    #[error("`{tool}` is missing: install {package}")]
    Missing {
        /// The program.
        tool: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// The kernel refuses.
    #[error("cannot make namespaces ({step}): {source}; this needs root or unprivileged user namespaces")]
    Refused {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A command failed.
    #[error("{0}")]
    Command(String),
}

/// What a process is, once it is in the sandbox.
#[derive(Debug)]
pub struct Sandbox {
    /// The listeners that were bound outside, in the order in which they were given.
    pub listeners: Vec<TcpListener>,
}

/// To be called first in `main`, before any thread starts, by every program that runs the process kubelet: where this
/// process was started as a container's first, it becomes that container and never returns.
#[expect(clippy::disallowed_methods, reason = "what a process is started again for is in its command line")]
pub fn dispatch() {
    let mut arguments = std::env::args();
    match arguments.next().as_deref() {
        Some(container::INIT) => container::run_init(&arguments.next().unwrap_or_default()),
        Some(container::EXEC) => container::run_exec(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
}

/// Goes on inside a new sandbox. In the process that stays outside it does not return: that one exits with the code of the
/// one inside. `bind` is called outside only, and its listeners are reachable from there.
#[expect(clippy::disallowed_methods, reason = "what a process is started again for is in its command line")]
pub fn enter(bind: impl FnOnce() -> io::Result<Vec<TcpListener>>) -> Result<Sandbox, SandboxError> {
    let own = std::env::args().next().unwrap_or_default();
    if let Some(fds) = own.strip_prefix(INNER) {
        return prepare_inside(fds);
    }
    if let Some(fds) = own.strip_prefix(OUTER) {
        let child = respawn(&format!("{INNER}{fds}"), CloneFlags::CLONE_NEWPID)?;
        std::process::exit(wait_and_forward(child));
    }
    check_tools()?;
    let listeners = bind().map_err(|source| SandboxError::Refused { step: "listen outside", source })?;
    let fds: Vec<String> = listeners.iter().map(|listener| listener.as_raw_fd().to_string()).collect();
    for listener in &listeners {
        fcntl(listener, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|errno| refused("inherit a listener", errno))?;
    }
    let flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
    let child = respawn(&format!("{OUTER} {}", fds.join(",")), flags)?;
    drop(listeners);
    std::process::exit(wait_and_forward(child));
}

fn refused(step: &'static str, errno: Errno) -> SandboxError {
    SandboxError::Refused { step, source: errno.into() }
}

fn check_tools() -> Result<(), SandboxError> {
    match Command::new("ip").arg("-Version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(SandboxError::Missing { tool: "ip", package: "iproute2" }),
    }
}

/// Starts this program again, in new namespaces, bound to die with this process.
#[expect(clippy::disallowed_methods, reason = "it is started again with the command line that it has")]
#[allow(unsafe_code, reason = "namespaces must be entered between fork and exec")]
fn respawn(argv0: &str, flags: CloneFlags) -> Result<Child, SandboxError> {
    let own = std::env::current_exe().map_err(|source| SandboxError::Refused { step: "find own program", source })?;
    let (uid, gid) = (geteuid(), getegid());
    let mut command = Command::new(own);
    // A group of its own: Ctrl-C on a terminal reaches the process outside only, which hands it on once.
    command.arg0(argv0).args(std::env::args_os().skip(1)).process_group(0);
    let new_processes = flags.contains(CloneFlags::CLONE_NEWPID);
    if new_processes {
        unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| refused("process ids", errno))?;
    }
    let enter = move || -> io::Result<()> {
        if !new_processes && unshare(flags) == Err(Errno::EPERM) {
            unshare(flags | CloneFlags::CLONE_NEWUSER)?;
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
            std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
        }
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: `enter` runs in a forked child of a process that has a single thread (`enter` of this module is called before
    // any thread starts), so allocating and opening files there cannot meet a lock held by another thread.
    unsafe { command.pre_exec(enter) };
    command.spawn().map_err(|source| SandboxError::Refused { step: "start again inside", source })
}

/// Hands signals on to the child until it ends; its exit code, as a shell counts.
fn wait_and_forward(mut child: Child) -> i32 {
    let forwarded = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    let mut set = SigSet::empty();
    forwarded.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| set.add(signal));
    if set.thread_block().is_err() {
        return 1;
    }
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            Ok(None) => {}
            Err(_) => return 1,
        }
        if let Ok(signal) = set.wait()
            && forwarded.contains(&signal)
        {
            // The child may have ended just now; then the next turn sees it.
            let _ = kill(pid, signal);
        }
    }
}

#[allow(unsafe_code, reason = "inherited descriptors come as numbers")]
fn prepare_inside(fds: &str) -> Result<Sandbox, SandboxError> {
    let mut listeners = Vec::new();
    for fd in fds.trim().split(',').filter_map(|fd| fd.parse::<RawFd>().ok()) {
        // SAFETY: the number was put into argv[0] by `enter`, which left exactly this descriptor open for us; nothing else
        // in this process owns it, as nothing but this function has run yet.
        let listener = unsafe { TcpListener::from_raw_fd(fd) };
        fcntl(&listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|errno| refused("own a listener", errno))?;
        listeners.push(listener);
    }
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).map_err(|errno| refused("private mounts", errno))?;
    let sealed = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), sealed, none).map_err(|errno| refused("mount /proc", errno))?;
    // The network namespaces of pods are named under /run, which must not be the host's.
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::MS_NOSUID, none)
        .map_err(|errno| refused("mount /run", errno))?;
    run_ip(None, "link set lo up\n").map_err(SandboxError::Command)?;
    Ok(Sandbox { listeners })
}

/// Runs a batch of `ip` commands, in a named network namespace or here; an error says which failed.
pub(super) fn run_ip(namespace: Option<&str>, batch: &str) -> Result<(), String> {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new("ip")
        .args(namespace.into_iter().flat_map(|name| ["-n", name]))
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| format!("cannot run `ip` (package iproute2): {cause}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes()).map_err(|cause| format!("cannot write to `ip`: {cause}"))?;
    }
    let output = child.wait_with_output().map_err(|cause| format!("cannot wait for `ip`: {cause}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("ip: {said} (in: {})", batch.trim().replace('\n', "; ")))
}

/// Gives this process and what it starts the pods' names: the sandbox's own /etc/resolv.conf.
pub(super) fn use_resolver(file: &Path) -> Result<(), SandboxError> {
    let none: Option<&str> = None;
    // A link (to a resolver's file under /run, say) leads nowhere in here; its target is what must be there.
    let target = std::fs::canonicalize("/etc/resolv.conf").or_else(|cause| {
        let link = std::fs::read_link("/etc/resolv.conf").map_err(|_| cause)?;
        let target = Path::new("/etc").join(link);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&target, "")?;
        std::fs::canonicalize(target)
    });
    let target = target.map_err(|source| SandboxError::Refused { step: "find /etc/resolv.conf", source })?;
    mount(Some(file), &target, none, MsFlags::MS_BIND, none).map_err(|errno| refused("mount /etc/resolv.conf", errno))
}
