//! The agent in a real pod: files, processes, and the store through the operator's own adapters.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::ToSocketAddrs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use super::command::{Command, Fetch, OwnName, Restore, Run};
use super::directory::{Directory, FileSink};
use super::fetch::{SNAPSHOT_CHANGED_EXIT_CODE, fetch};
use super::guard::DATA_LOST_EXIT_CODE;
use super::restore::{RestoreError, restore};
use super::run::{RunError, prepare};
use crate::ports::{Credentials, Stores};

/// A line of the restore tool is repeated up to here.
const TOOL_WORDS_MAX: usize = 1000;
/// Name under which the executable is installed.
const EXECUTABLE: &str = "etcd-operator";

/// Does what it is asked to. On success of `run` it does not return: etcd has taken the place of this process.
///
/// The last line on stderr becomes the container's termination message.
pub async fn main(command: &Command, stores: &dyn Stores) -> ExitCode {
    let result = match command {
        Command::Install { to } => install(to).map_err(|error| Failure::other(format!("cannot install: {error}"))),
        Command::Fetch(command) => run_fetch(command, stores).await,
        Command::Restore(command) => run_restore(command),
        Command::Run(command) => run_etcd(command),
    };
    match result {
        Ok(said) => {
            say(&said);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&failure.message);
            ExitCode::from(failure.code)
        }
    }
}

struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn other(message: String) -> Self {
        Self { message, code: 1 }
    }

    fn snapshot_changed(message: String) -> Self {
        Self { message, code: u8::try_from(SNAPSHOT_CHANGED_EXIT_CODE).expect("an exit code") }
    }

    fn data_lost(message: String) -> Self {
        Self { message, code: u8::try_from(DATA_LOST_EXIT_CODE).expect("an exit code") }
    }
}

fn say(line: &str) {
    // A pod whose stderr is gone has nobody to tell.
    let _ = writeln!(io::stderr(), "etcd-operator agent: {line}");
}

/// Copies this executable. Under a temporary name first: the pod may be killed in the middle, and the other containers
/// may run the old copy.
fn install(to: &str) -> io::Result<String> {
    let target = format!("{to}/{EXECUTABLE}");
    let partial = format!("{target}.partial");
    fs::create_dir_all(to)?;
    let mut from = File::open("/proc/self/exe")?;
    let mut file = File::create(&partial)?;
    io::copy(&mut from, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.sync_all()?;
    drop(file);
    fs::rename(&partial, &target)?;
    Ok(format!("installed {target}"))
}

async fn run_fetch(command: &Fetch, stores: &dyn Stores) -> Result<String, Failure> {
    let fetched = fetch(command, stores, read_credentials, &Disk).await;
    let fetched = fetched.map_err(|error| {
        let message = format!("{}: {}", command.source, chain(&error));
        if error.is_changed() { Failure::snapshot_changed(message) } else { Failure::other(message) }
    })?;
    Ok(format!("snapshot {}: {fetched:?}", command.source))
}

/// One file per key, as a Secret volume has them. Kubernetes' own links begin with two dots.
fn read_credentials(path: &str) -> io::Result<Credentials> {
    let mut data = BTreeMap::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") {
            data.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(Credentials(Some(data)))
}

fn run_restore(command: &Restore) -> Result<String, Failure> {
    let tool = |line: &[String]| {
        let (program, args) = line.split_first().ok_or("no restore tool is given")?;
        run_tool(program, args)
    };
    match restore(command, &Disk, tool) {
        Ok(restored) => Ok(format!("data directory {}: {restored:?}", command.data_dir)),
        Err(RestoreError::DataLost(lost)) => Err(Failure::data_lost(lost.to_string())),
        Err(error) => Err(Failure::other(error.to_string())),
    }
}

/// Runs the restore tool. What it says goes on to our own stderr, and its last line into the error.
fn run_tool(program: &str, args: &[String]) -> Result<(), String> {
    let mut tool = std::process::Command::new(program);
    let started = tool.args(args).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("cannot start {program}: {error}"))?;
    let mut last = String::new();
    if let Some(said) = child.stderr.take() {
        let mut said = BufReader::new(said);
        let mut line = Vec::new();
        while said.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let _ = io::stderr().write_all(&line);
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                last = text.trim().chars().take(TOOL_WORDS_MAX).collect();
            }
            line.clear();
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}: {last}")) }
}

fn run_etcd(command: &Run) -> Result<String, Failure> {
    if let Some(own) = &command.own_name {
        wait_for(own)?;
    }
    prepare(command, &Disk).map_err(|error| match error {
        RunError::DataLost(lost) => Failure::data_lost(lost.to_string()),
        error @ RunError::Disk { .. } => Failure::other(error.to_string()),
    })?;
    let (program, args) = command.etcd.split_first().ok_or_else(|| Failure::other("no etcd is given".to_owned()))?;
    // Returns only when it failed.
    let error = std::process::Command::new(program).args(args).exec();
    Err(Failure::other(format!("cannot start {program}: {error}")))
}

/// Waits until the pod's own name resolves: the headless Service's record comes some time after the pod, and etcd gives up
/// sooner than a slow DNS.
#[allow(clippy::disallowed_methods, reason = "the agent is the first process of a real container")]
fn wait_for(own: &OwnName) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    while (own.host.as_str(), 0).to_socket_addrs().is_err() {
        if began.elapsed().as_secs() >= own.within_seconds {
            let OwnName { host, within_seconds } = own;
            let why = format!("{host} did not resolve within {within_seconds} s (spec.pod.DNSTimeoutInSecond)");
            return Err(Failure::other(why));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    Ok(())
}

/// An error with its causes, unless it tells them itself.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

/// The file system.
pub struct Disk;

struct DiskFile {
    file: File,
    path: String,
}

impl FileSink for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.sync_all()?;
        sync_parent(&self.path)
    }
}

impl Directory for Disk {
    fn list(&self, path: &str) -> io::Result<Option<Vec<String>>> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(Some(names))
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn FileSink>> {
        if let Some(parent) = Path::new(path).parent() {
            // etcd complains of a data directory that others can read.
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        Ok(Box::new(DiskFile { file: File::create(path)?, path: path.to_owned() }))
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        for name in self.list_if_directory(path)? {
            self.sync(&format!("{path}/{name}"))?;
        }
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_parent(from)?;
        sync_parent(to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let removed = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Disk {
    fn list_if_directory(&self, path: &str) -> io::Result<Vec<String>> {
        if fs::metadata(path)?.is_dir() { Ok(self.list(path)?.unwrap_or_default()) } else { Ok(Vec::new()) }
    }
}

/// A new or renamed entry is durable when its directory is.
fn sync_parent(path: &str) -> io::Result<()> {
    match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
