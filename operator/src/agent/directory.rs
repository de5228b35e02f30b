//! The volume as the agent sees it: a port, so that fetch, restore and the guard run over the simulator's disks too.
//!
//! Synchronous: the agent does one thing at a time. Paths are absolute, parts joined by `/`.

use std::io;

/// Files and directories of one pod.
pub trait Directory: Send + Sync {
    /// Names in a directory, sorted; none when there is no such directory.
    ///
    /// # Errors
    /// When it cannot be read.
    fn list(&self, path: &str) -> io::Result<Option<Vec<String>>>;

    /// Size of a file; none when there is no such file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn size(&self, path: &str) -> io::Result<Option<u64>>;

    /// Makes an empty file, in place of one that is there, with the directories above it.
    ///
    /// # Errors
    /// When it cannot be made.
    fn create(&self, path: &str) -> io::Result<Box<dyn FileSink>>;

    /// Makes a file, or a directory with all that is in it, durable.
    ///
    /// # Errors
    /// When the disk does not take it.
    fn sync(&self, path: &str) -> io::Result<()>;

    /// Renames atomically and durably. A directory is not put over one that holds something.
    ///
    /// # Errors
    /// When it cannot be done; nothing has changed then.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file, or a directory with all that is in it; fine when there is none.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, path: &str) -> io::Result<()>;
}

/// A file that is being written.
pub trait FileSink: Send {
    /// Appends.
    ///
    /// # Errors
    /// When the disk does not take it (`StorageFull`).
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Closes the file; it is durable then.
    ///
    /// # Errors
    /// When the disk does not take it.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Whether a data directory holds etcd's log. Without a log etcd starts as if it had never been there, whatever else
/// lies about, so the log is what tells a member with data from one without.
///
/// # Errors
/// When it cannot be read: nothing may be concluded then.
pub fn has_log(directory: &dyn Directory, data_dir: &str) -> io::Result<bool> {
    let names = directory.list(&format!("{data_dir}/member/wal"))?;
    Ok(names.is_some_and(|names| names.iter().any(|name| name.ends_with(".wal"))))
}

#[cfg(test)]
pub(crate) mod fake {
    //! A directory in memory, which can be full.

    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::{Directory, FileSink, io};

    /// Files by path; directories are what paths imply.
    #[derive(Clone, Default)]
    pub(crate) struct Memory {
        pub(crate) files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
        pub(crate) room: Option<usize>,
    }

    impl Memory {
        pub(crate) fn with(paths: &[&str]) -> Self {
            let memory = Self::default();
            for path in paths {
                memory.put(path, b"x");
            }
            memory
        }

        pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
            self.files.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
        }

        pub(crate) fn paths(&self) -> Vec<String> {
            self.files.lock().unwrap().keys().cloned().collect()
        }
    }

    struct Sink {
        memory: Memory,
        path: String,
    }

    impl FileSink for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut files = self.memory.files.lock().unwrap();
            let used: usize = files.values().map(Vec::len).sum();
            if self.memory.room.is_some_and(|room| used + bytes.len() > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            files.get_mut(&self.path).expect("created").extend_from_slice(bytes);
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<()> {
            Ok(())
        }
    }

    impl Directory for Memory {
        fn list(&self, path: &str) -> io::Result<Option<Vec<String>>> {
            let under = format!("{path}/");
            let files = self.files.lock().unwrap();
            let names = files.keys().filter_map(|file| file.strip_prefix(&under)?.split('/').next().map(str::to_owned));
            let mut names: Vec<String> = names.collect();
            names.dedup();
            Ok((!names.is_empty()).then_some(names))
        }

        fn size(&self, path: &str) -> io::Result<Option<u64>> {
            Ok(self.files.lock().unwrap().get(path).map(|bytes| bytes.len() as u64))
        }

        fn create(&self, path: &str) -> io::Result<Box<dyn FileSink>> {
            self.put(path, b"");
            Ok(Box::new(Sink { memory: self.clone(), path: path.to_owned() }))
        }

        fn sync(&self, _path: &str) -> io::Result<()> {
            Ok(())
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            if self.list(to)?.is_some() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let mut files = self.files.lock().unwrap();
            let moved: Vec<String> = files.keys().filter(|path| within(path, from)).cloned().collect();
            for path in moved {
                let bytes = files.remove(&path).expect("listed");
                files.insert(path.replacen(from, to, 1), bytes);
            }
            Ok(())
        }

        fn remove(&self, path: &str) -> io::Result<()> {
            self.files.lock().unwrap().retain(|file, _| !within(file, path));
            Ok(())
        }
    }

    fn within(file: &str, path: &str) -> bool {
        file == path || file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    }
}
