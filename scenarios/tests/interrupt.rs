//! Ctrl-C and kill -9 in the middle of a live case and Ctrl-C at its beginning, Ctrl-C of the demo and of a world to play with: nothing stays. The built program is
//! started as a user does, a signal is sent when etcd runs in it, and the machine is looked at from outside.
//!
//! Not looked at: what a case does when it is left alone; the lane itself does that at the end of each.
#![allow(clippy::disallowed_methods, reason = "this test is about real processes in real time")]
#![allow(clippy::print_stdout, reason = "a test tells what it builds")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scenarios::binaries::Cache;

/// Its cluster runs for as long as it takes to be interrupted.
const CASE: &str = "cluster/the-operator-may-die-at-any-time";
/// Another one that would be begun after it, if it were not for the interruption.
const CASE_AFTER: &str = "cluster/three-members-form-one-cluster";
/// How long it may take to end what has hardly begun: less than that to end the case, and less than its grace.
const PROMPT: Duration = Duration::from_secs(30);
/// How long the program may take to start etcd, and to end, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the kernel may take to end what was in a sandbox.
const KERNEL_TIME: Duration = Duration::from_secs(10);

/// One at a time: each looks at the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn ctrl_c_ends_a_case_with_130_and_leaves_nothing() {
    let _alone = alone();
    let before = Machine::look();
    let mut driver = start(&["run", "--lane", "live", CASE]);
    let seen = processes_once_etcd_runs(&mut driver);
    let pid = driver.id();
    assert_eq!(logs_of(pid).len(), 1, "the case has one folder for its logs");
    signal(&driver, Signal::SIGINT);
    let (code, said) = ended(driver);
    assert!(said.contains(&format!("ended   {CASE}")) && said.contains("0 passed, 0 failed"), "{said}");
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(logs_of(pid), Vec::<PathBuf>::new(), "logs are left");
    before.assert_nothing_new(&seen);
}

#[test]
fn an_early_ctrl_c_is_not_lost() {
    let _alone = alone();
    // The first process of a sandbox hears nothing before it listens: here is tried when that may be.
    for millis in [0, 10, 20, 50, 100, 200, 400] {
        let before = Machine::look();
        let mut driver = start(&["run", "--lane", "live", CASE, CASE_AFTER]);
        let mut seen = processes_once_a_case_is_begun(&mut driver);
        std::thread::sleep(Duration::from_millis(millis));
        seen.extend(descendants(&driver));
        let (pid, asked) = (driver.id(), Instant::now());
        signal(&driver, Signal::SIGINT);
        let (code, said) = ended(driver);
        assert_eq!(code, Some(130), "after {millis} ms: {said}");
        assert!(said.contains("0 passed, 0 failed"), "after {millis} ms: {said}");
        assert!(asked.elapsed() < PROMPT, "after {millis} ms it took {:?}", asked.elapsed());
        assert_eq!(logs_of(pid), Vec::<PathBuf>::new(), "logs are left");
        before.assert_nothing_new(&seen);
    }
}

#[test]
fn kill_9_of_the_program_ends_everything_with_it() {
    let _alone = alone();
    let before = Machine::look();
    let mut driver = start(&["run", "--lane", "live", CASE]);
    let seen = processes_once_etcd_runs(&mut driver);
    let pid = driver.id();
    signal(&driver, Signal::SIGKILL);
    let (code, _) = ended(driver);
    assert_eq!(code, None, "it was killed");
    before.assert_nothing_new(&seen);
    // Nobody was left to remove the logs.
    logs_of(pid).iter().for_each(|logs| fs::remove_dir_all(logs).expect("the logs can be removed"));
}

#[test]
fn ctrl_c_ends_the_demo_with_130_and_leaves_nothing() {
    let _alone = alone();
    let before = Machine::look();
    let mut driver = start(&["demo"]);
    let lines = lines(&mut driver);
    // In the middle: one cluster serves, and a member of it was killed a moment ago.
    let begun = wait_for(&lines, "== The leader is killed");
    let (seen, pid) = (descendants(&driver), driver.id());
    assert!(seen.iter().any(|pid| is_member(*pid)), "no etcd runs");
    assert_eq!(logs_of(pid).len(), 1, "the demo has one folder for its logs");
    signal(&driver, Signal::SIGINT);
    let (code, complaints) = ended(driver);
    let rest: Vec<_> = lines.iter().collect();
    assert_eq!(rest.last().map(String::as_str), Some("Interrupted. Nothing of it is left."), "{begun:#?} {rest:#?}");
    assert!(!rest.iter().any(|line| line.starts_with("== ")), "it went on: {rest:#?}");
    assert_eq!((code, complaints.as_str()), (Some(130), ""));
    assert_eq!(logs_of(pid), Vec::<PathBuf>::new(), "logs are left");
    before.assert_nothing_new(&seen);
}

#[test]
fn ctrl_c_ends_a_world_to_play_with_and_closes_its_port() {
    let _alone = alone();
    let before = Machine::look();
    let mut driver = start(&["up"]);
    // It says more after that, and would fail if nobody listened.
    let lines = lines(&mut driver);
    let said = wait_for(&lines, "export KUBECONFIG=");
    let exported = said.last().and_then(|line| line.strip_prefix("export KUBECONFIG=")).map(PathBuf::from);
    let kubeconfig = exported.expect("it says where its kubeconfig is");
    let text = fs::read_to_string(&kubeconfig).expect("the kubeconfig is there");
    let server =
        text.lines().find_map(|line| line.trim().strip_prefix("server: http://")).expect("it names the server");
    let address: SocketAddr = server.trim().parse().expect("it is an address");
    assert!(TcpStream::connect(address).is_ok(), "the API listens outside of the sandbox");
    let seen = descendants(&driver);
    signal(&driver, Signal::SIGINT);
    let (code, said) = ended(driver);
    assert_eq!(code, Some(0), "{said}");
    assert!(TcpStream::connect(address).is_err(), "somebody still listens on {address}");
    assert!(!kubeconfig.exists(), "the folder of its run is left");
    before.assert_nothing_new(&seen);
}

/// The program, in a group of its own as on a terminal. What it starts lies beside it, so that is built first.
fn start(arguments: &[&str]) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_scenarios"));
    let operator = program.with_file_name("etcd-operator");
    assert!(operator.exists(), "{} is not there: `cargo build -p etcd-operator --bins` makes it", operator.display());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().expect("the program starts")
}

fn signal(driver: &Child, signal: Signal) {
    let pid = i32::try_from(driver.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("it is our child");
}

/// Exit code, and what it said.
fn ended(mut driver: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = driver.try_wait().expect("it is our child") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            driver.kill().expect("it is our child");
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = said(&mut driver);
    (status.code(), said)
}

/// What it said and nobody has read yet; it must have ended.
fn said(driver: &mut Child) -> String {
    let mut said = String::new();
    if let Some(mut out) = driver.stdout.take() {
        out.read_to_string(&mut said).expect("it speaks UTF-8");
    }
    if let Some(mut err) = driver.stderr.take() {
        err.read_to_string(&mut said).expect("it speaks UTF-8");
    }
    said
}

/// What it says, line by line as it says it.
fn lines(driver: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let said = BufReader::new(driver.stdout.take().expect("it is piped")).lines();
    std::thread::spawn(move || {
        // Nobody listens any more when the test has failed.
        let _ = said.map_while(Result::ok).map(|line| sender.send(line)).take_while(Result::is_ok).count();
    });
    lines
}

/// The lines up to the one that begins so.
fn wait_for(lines: &Receiver<String>, beginning: &str) -> Vec<String> {
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.starts_with(beginning)) {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => said.push(line),
            Err(error) => panic!("it never says `{beginning}` ({error}), but {said:#?}"),
        }
    }
    said
}

/// All that the driver started, once there is an etcd among it.
fn processes_once_etcd_runs(driver: &mut Child) -> BTreeSet<u32> {
    let start = Instant::now();
    loop {
        let found = descendants(driver);
        if found.iter().any(|pid| is_member(*pid)) {
            return found;
        }
        if let Some(status) = driver.try_wait().expect("it is our child") {
            panic!("it ended before etcd ran ({status}): {}", said(driver));
        }
        assert!(start.elapsed() < PATIENCE, "no etcd runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All that the driver started, once the first process of a sandbox is among it.
fn processes_once_a_case_is_begun(driver: &mut Child) -> BTreeSet<u32> {
    let start = Instant::now();
    loop {
        let found = descendants(driver);
        let line = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_case = |pid: &u32| line(pid).starts_with("fake-k8s-sandbox-inner");
        if found.iter().any(is_case) {
            return found;
        }
        if let Some(status) = driver.try_wait().expect("it is our child") {
            panic!("it ended before a case was begun ({status}): {}", said(driver));
        }
        assert!(start.elapsed() < PATIENCE, "no case is begun");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether it is the etcd of a pod, and not one that is asked for its version.
fn is_member(pid: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    name(pid).as_deref() == Some("etcd") && line.contains("--data-dir=")
}

/// A child's children, and theirs.
fn descendants(driver: &Child) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in pids() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (BTreeSet::new(), vec![driver.id()]);
    while let Some(pid) = next.pop() {
        let own = children.get(&pid).into_iter().flatten().copied();
        next.extend(own.filter(|child| found.insert(*child)));
    }
    found
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state parent ...`; a name may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What a process is called; none when it is gone, or a zombie that somebody will reap.
fn name(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let is_zombie = after.split_whitespace().next() == Some("Z");
    (!is_zombie).then(|| before.split_once('(').map_or(String::new(), |(_, name)| name.to_owned()))
}

/// What a sandbox could leave on the machine, processes aside.
struct Machine {
    links: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    mounts: BTreeSet<String>,
}

impl Machine {
    fn look() -> Self {
        let names = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there is /proc");
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let mounts = points.filter(|point| point.contains("fake-k8s") || point.contains("netns")).map(str::to_owned);
        Self { links: names("/sys/class/net"), namespaces: names("/run/netns"), mounts: mounts.collect() }
    }

    /// None of these processes runs, nor listens therefore; no link, namespace, mount or folder is there that was not before.
    fn assert_nothing_new(&self, processes: &BTreeSet<u32>) {
        assert!(!processes.is_empty(), "nothing ran");
        let start = Instant::now();
        loop {
            let left: Vec<_> = processes.iter().filter_map(|pid| name(*pid).map(|name| (pid, name))).collect();
            if left.is_empty() {
                break;
            }
            assert!(start.elapsed() < KERNEL_TIME, "processes are left: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let now = Self::look();
        assert_eq!(now.links.difference(&self.links).collect::<Vec<_>>(), Vec::<&String>::new(), "links are left");
        let namespaces = now.namespaces.difference(&self.namespaces).collect::<Vec<_>>();
        assert_eq!(namespaces, Vec::<&String>::new(), "network namespaces are left");
        assert_eq!(now.mounts.difference(&self.mounts).collect::<Vec<_>>(), Vec::<&String>::new(), "mounts are left");
        assert!(!Path::new("/run/fake-k8s").exists(), "the folder of the cluster is left");
    }
}

/// The folders with the logs of a program's cases.
fn logs_of(pid: u32) -> Vec<PathBuf> {
    let runs = Cache::of_user().expect("there is a cache").root().join("runs");
    let all = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().ends_with(&format!("-{pid}"))).collect()
}
