//! A pod's directories as the operator's agent sees them: its fetch, restore and guard run over these unchanged.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use etcd_operator::agent::{Directory, FileSink};

use crate::etcd::log::Disk;
use crate::etcd::{Volume, VolumeId};

/// Ending of the sibling directory into which a restore tool writes.
const RESTORING: &str = ".restoring";
/// Where etcd keeps its log below its data directory.
const WAL: &str = "/member/wal";

type Volumes = BTreeMap<VolumeId, Volume>;

/// The directories that one container sees, taken out of the world for the time of one action.
#[derive(Clone, Debug)]
pub struct Files {
    /// Mount path, and the directory behind it.
    mounts: Vec<(String, VolumeId)>,
    volumes: Arc<Mutex<Volumes>>,
}

impl Files {
    /// Over these directories.
    pub fn new(mounts: Vec<(String, VolumeId)>, volumes: Volumes) -> Self {
        Self { mounts, volumes: Arc::new(Mutex::new(volumes)) }
    }

    /// The same mounts over a copy of the directories.
    pub fn with_volumes(&self, volumes: Volumes) -> Self {
        Self::new(self.mounts.clone(), volumes)
    }

    fn lock(&self) -> MutexGuard<'_, Volumes> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directories, to be put back into the world.
    pub fn take(&self) -> Volumes {
        std::mem::take(&mut *self.lock())
    }

    fn locate(&self, path: &str) -> io::Result<(VolumeId, String)> {
        let below = |mount: &str| {
            let rest = path.strip_prefix(mount.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
        };
        self.mounts
            .iter()
            .filter_map(|(mount, volume)| Some((mount.len(), volume.clone(), below(mount)?)))
            .max_by_key(|(length, ..)| *length)
            .map(|(_, volume, rest)| (volume, rest))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{path} is on no volume")))
    }

    fn with<T>(&self, path: &str, act: impl FnOnce(&mut Volume, &str) -> T) -> io::Result<T> {
        let (volume, rest) = self.locate(path)?;
        Ok(act(self.lock().entry(volume).or_default(), &rest))
    }

    /// What a restore tool leaves behind.
    ///
    /// # Errors
    /// When the path is on no volume.
    pub fn put_restored(&self, path: &str, disk: Disk) -> io::Result<()> {
        self.with(path, |volume, _| volume.restoring = Some(disk))
    }

    /// The content of a file.
    pub fn read(&self, path: &str) -> Option<Bytes> {
        self.with(path, |volume, rest| volume.files.get(rest).cloned()).ok().flatten()
    }
}

fn names_below(volume: &Volume, rest: &str) -> Option<Vec<String>> {
    let prefix = if rest.is_empty() { String::new() } else { format!("{rest}/") };
    let below = volume.files.keys().filter_map(|file| file.strip_prefix(&prefix));
    let mut names: Vec<String> = below.filter_map(|file| file.split('/').next()).map(str::to_owned).collect();
    names.dedup();
    (!names.is_empty()).then_some(names)
}

impl Directory for Files {
    fn list(&self, path: &str) -> io::Result<Option<Vec<String>>> {
        self.with(path, |volume, rest| match rest.strip_suffix(WAL) {
            Some(data) => {
                let disk = if data.ends_with(RESTORING) { &volume.restoring } else { &volume.disk };
                disk.as_ref().map(|_| vec!["0.wal".to_owned()])
            }
            None => names_below(volume, rest),
        })
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        self.with(path, |volume, rest| volume.files.get(rest).map(|file| file.len() as u64))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn FileSink>> {
        self.locate(path)?;
        Ok(Box::new(Sink { files: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.locate(path).map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (target, to_rest) = self.locate(to)?;
        let (source, rest) = self.locate(from)?;
        if source != target {
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, "another volume"));
        }
        let mut volumes = self.lock();
        let volume = volumes.entry(source).or_default();
        if rest.ends_with(RESTORING) {
            volume.disk = volume.restoring.take();
        } else if let Some(file) = volume.files.remove(&rest) {
            volume.files.insert(to_rest, file);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.with(path, |volume, rest| {
            if rest.ends_with(RESTORING) {
                volume.restoring = None;
            }
            let below = format!("{rest}/");
            volume.files.retain(|file, _| file != rest && !file.starts_with(&below));
        })
    }
}

struct Sink {
    files: Files,
    path: String,
    bytes: Vec<u8>,
}

impl FileSink for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let bytes = Bytes::from(self.bytes);
        self.files.with(&self.path, |volume, rest| volume.files.insert(rest.to_owned(), bytes)).map(drop)
    }
}
