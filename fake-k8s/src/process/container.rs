//! A container's first process: it makes the container's root and becomes the program. It runs alone, single-threaded, in
//! the process namespace that the runtime made for it; what it is to do comes as a file, what goes wrong goes to its
//! standard input, which the runtime reads until the program takes over.
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use serde::{Deserialize, Serialize};

/// `argv[0]` of a container's first process.
pub(super) const INIT: &str = "fake-k8s-container-init";
/// `argv[0]` of a process that joins a container.
pub(super) const EXEC: &str = "fake-k8s-container-exec";

const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const NONE: Option<&str> = None;

/// What the first process makes and becomes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ContainerSpec {
    /// An empty directory to mount the root on.
    pub root: PathBuf,
    /// The pod's network namespace.
    pub network: PathBuf,
    /// The pod's hostname.
    pub hostname: String,
    /// What appears where; parents before children.
    pub binds: Vec<Bind>,
    /// Small files of the root.
    pub files: Vec<(PathBuf, String)>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The environment, complete.
    pub env: Vec<(String, String)>,
    /// Made if it is not there.
    pub working_dir: PathBuf,
    /// Whether the root may not be written.
    pub read_only_root: bool,
}

/// A file or directory of the node in the container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bind {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

/// Makes the root and becomes the program.
pub(super) fn run_init(spec: &str) -> ! {
    let code = match report_to() {
        Ok(mut report) => {
            let why = match init(Path::new(spec)) {
                Ok(never) => match never {},
                Err(why) => why,
            };
            // The runtime may be gone; then there is nobody to tell.
            let _ = report.write_all(why.as_bytes());
            128
        }
        Err(_) => 128,
    };
    std::process::exit(code)
}

/// Joins the namespaces of process `arguments[0]` and becomes the rest of the arguments.
pub(super) fn run_exec(arguments: &[String]) -> ! {
    let why = match exec_in(arguments) {
        Ok(never) => match never {},
        Err(why) => why,
    };
    let _ = writeln!(std::io::stderr(), "{why}");
    std::process::exit(126)
}

enum Never {}

/// Moves standard input, the way to the runtime, out of the program's reach.
fn report_to() -> nix::Result<File> {
    let report = std::io::stdin().as_fd().try_clone_to_owned().map_err(|_| nix::errno::Errno::EBADF)?;
    fcntl(&report, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDONLY, nix::sys::stat::Mode::empty())?;
    nix::unistd::dup2_stdin(null)?;
    Ok(File::from(report))
}

fn init(spec: &Path) -> Result<Never, String> {
    let text = fs::read(spec).map_err(|cause| format!("read {}: {cause}", spec.display()))?;
    let spec: ContainerSpec =
        serde_json::from_slice(&text).map_err(|cause| format!("read {}: {cause}", spec.display()))?;
    let network = File::open(&spec.network).map_err(|cause| format!("open {}: {cause}", spec.network.display()))?;
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
    setns(&network, CloneFlags::CLONE_NEWNET).map_err(|errno| format!("join the pod's network: {errno}"))?;
    unshare(own).map_err(|errno| format!("own mounts: {errno}"))?;
    nix::unistd::sethostname(&spec.hostname).map_err(|errno| format!("set the hostname: {errno}"))?;
    make_root(&spec)?;
    enter_root(&spec)?;
    become_program(&spec.argv, &spec.env)
}

fn make_root(spec: &ContainerSpec) -> Result<(), String> {
    let root = &spec.root;
    let fail = |what: &str, cause: &dyn std::fmt::Display| format!("{what}: {cause}");
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .map_err(|errno| fail("private mounts", &errno))?;
    mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))
        .map_err(|errno| fail("mount the root", &errno))?;
    for directory in ["proc", "dev", "dev/shm", "tmp", "etc", "root", "run", "var"] {
        fs::create_dir_all(root.join(directory)).map_err(|cause| fail(directory, &cause))?;
    }
    for (link, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(target, root.join("dev").join(link)).map_err(|cause| fail(link, &cause))?;
    }
    mount(Some("proc"), &root.join("proc"), Some("proc"), MsFlags::empty(), NONE)
        .map_err(|errno| fail("mount /proc", &errno))?;
    for (path, content) in &spec.files {
        let path = inside(root, path);
        fs::create_dir_all(path.parent().unwrap_or(root)).map_err(|cause| fail("make a directory", &cause))?;
        fs::write(&path, content).map_err(|cause| fail(&path.display().to_string(), &cause))?;
    }
    spec.binds
        .iter()
        .try_for_each(|one| bind(root, one).map_err(|cause| fail(&one.target.display().to_string(), &cause)))?;
    fs::create_dir_all(inside(root, &spec.working_dir)).map_err(|cause| fail("make the working directory", &cause))
}

/// A path of the container, under its root whatever it says.
fn inside(root: &Path, path: &Path) -> PathBuf {
    let normal = path.components().filter(|component| matches!(component, Component::Normal(_)));
    root.join(normal.collect::<PathBuf>())
}

fn bind(root: &Path, one: &Bind) -> Result<(), String> {
    let target = inside(root, &one.target);
    let source = fs::symlink_metadata(&one.source).map_err(|cause| format!("{}: {cause}", one.source.display()))?;
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|cause| cause.to_string())?;
    }
    if source.is_symlink() && one.read_only {
        // /lib is a link to usr/lib on most machines: the same link does here what it does there.
        let leads_to = fs::read_link(&one.source).map_err(|cause| cause.to_string())?;
        return std::os::unix::fs::symlink(leads_to, &target).map_err(|cause| cause.to_string());
    }
    if source.is_dir() {
        fs::create_dir_all(&target).map_err(|cause| cause.to_string())?;
    } else if !target.exists() {
        File::create(&target).map_err(|cause| cause.to_string())?;
    }
    let recursive = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(&one.source), &target, NONE, recursive, NONE).map_err(|errno| format!("bind: {errno}"))?;
    if one.read_only {
        let again = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept_flags(&target);
        mount(NONE, &target, NONE, again, NONE).map_err(|errno| format!("make read-only: {errno}"))?;
    }
    Ok(())
}

/// Flags that a remount in a user namespace may not drop.
fn kept_flags(target: &Path) -> MsFlags {
    let Ok(found) = statvfs(target) else { return MsFlags::empty() };
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    pairs.into_iter().filter(|(has, _)| found.flags().contains(*has)).map(|(_, keep)| keep).collect()
}

fn enter_root(spec: &ContainerSpec) -> Result<(), String> {
    let fail = |what: &str, errno: nix::errno::Errno| format!("{what}: {errno}");
    nix::unistd::chdir(&spec.root).map_err(|errno| fail("enter the root", errno))?;
    // The old root is stacked under the new one and taken off from there: no directory is needed for it.
    nix::unistd::pivot_root(".", ".").map_err(|errno| fail("pivot the root", errno))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(|errno| fail("leave the old root", errno))?;
    if spec.read_only_root {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID;
        mount(NONE, "/", NONE, flags, NONE).map_err(|errno| fail("make the root read-only", errno))?;
    }
    nix::unistd::chdir(&spec.working_dir).map_err(|errno| fail("enter the working directory", errno))
}

fn become_program(argv: &[String], env: &[(String, String)]) -> Result<Never, String> {
    let name = argv.first().ok_or("no command specified")?;
    let path = env.iter().rfind(|(key, _)| key == "PATH").map_or(PATH_DEFAULT, |(_, value)| value);
    let program =
        find_program(name, path).ok_or_else(|| format!("exec: \"{name}\": executable file not found in $PATH"))?;
    let c_string = |text: &str| CString::new(text).map_err(|_| format!("{text:?} contains a zero byte"));
    let arguments = argv.iter().map(|word| c_string(word)).collect::<Result<Vec<_>, _>>()?;
    let mut variables = Vec::new();
    if !env.iter().any(|(key, _)| key == "PATH") {
        variables.push(c_string(&format!("PATH={PATH_DEFAULT}"))?);
    }
    for (key, value) in env {
        variables.push(c_string(&format!("{key}={value}"))?);
    }
    let program = c_string(&program.to_string_lossy())?;
    let refused = nix::unistd::execve(&program, &arguments, &variables);
    Err(format!("exec: \"{name}\": {}", refused.err().unwrap_or(nix::errno::Errno::ENOEXEC)))
}

fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|program| program.exists());
    }
    path.split(':').map(|directory| Path::new(directory).join(name)).find(|program| program.exists())
}

fn exec_in(arguments: &[String]) -> Result<Never, String> {
    let (pid, argv) = arguments.split_first().ok_or("no process to join")?;
    let open = |kind: &str| -> Result<OwnedFd, String> {
        let file = File::open(format!("/proc/{pid}/ns/{kind}")).map_err(|_| "container is not running".to_owned())?;
        Ok(file.into())
    };
    let environment = fs::read(format!("/proc/{pid}/environ")).map_err(|_| "container is not running".to_owned())?;
    let variables = environment.split(|byte| *byte == 0).filter_map(|entry| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
    });
    let env: Vec<(String, String)> = variables.collect();
    let kinds = [
        (open("net")?, CloneFlags::CLONE_NEWNET),
        (open("uts")?, CloneFlags::CLONE_NEWUTS),
        (open("ipc")?, CloneFlags::CLONE_NEWIPC),
        (open("mnt")?, CloneFlags::CLONE_NEWNS),
    ];
    for (namespace, kind) in kinds {
        setns(namespace, kind).map_err(|errno| format!("join the container: {errno}"))?;
    }
    become_program(argv, &env)
}
