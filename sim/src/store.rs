//! A fake object store: buckets of objects, multipart uploads, and the faults that stores have. Strict where real ones
//! differ: an upload that was aborted or completed is gone, a part may be missing, a conditional create is exact.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::event::Millis;

/// An object at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its content.
    pub data: Bytes,
    /// Unique per write.
    pub etag: u64,
    /// When it was written.
    pub modified: Millis,
}

/// A multipart upload that is neither complete nor aborted.
#[derive(Clone, Debug, Default)]
pub struct Upload {
    /// `bucket/key`.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// Parts by number.
    pub parts: BTreeMap<usize, Bytes>,
}

/// What goes wrong, each so many more times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFaults {
    /// Refuse before anything is done.
    pub error_before: u32,
    /// Commit, then lose the answer.
    pub lost_answer: u32,
    /// End a read too early.
    pub truncated_read: u32,
    /// Flip one bit of a read.
    pub bit_flip: u32,
    /// CompleteMultipartUpload commits and answers with an error.
    pub complete_ambiguous: u32,
    /// Acknowledge an object, and forget it.
    pub lost_object: u32,
    /// Acknowledge an object, and keep it with a bit flipped.
    pub rotten_object: u32,
    /// Nothing is answered.
    pub unavailable: bool,
}

/// Buckets that exist.
pub const BUCKETS: &[&str] = &["backups", "other"];

/// Access key of S3 and OSS.
pub const USER: &str = "sim";
/// Secret key of S3 and OSS.
pub const PASSWORD: &str = "sim-secret";

/// What opens the store: keys and values of the Secret.
pub const CREDENTIALS: &[(&str, &str)] = &[
    ("credentials", "[default]\naws_access_key_id = sim\naws_secret_access_key = sim-secret\n"),
    ("config", "[default]\nregion = us-east-1\n"),
    ("accessKeyID", USER),
    ("accessKeySecret", PASSWORD),
    ("storage-account", "sim"),
    ("storage-key", "c2ltLXNlY3JldA=="),
    ("access-token", "sim-token"),
];

/// The store: all buckets.
#[derive(Debug, Default)]
pub struct FakeStore {
    /// Objects by bucket and key.
    pub objects: BTreeMap<(String, String), Stored>,
    /// Uploads under way by id.
    pub uploads: BTreeMap<u64, Upload>,
    /// What goes wrong.
    pub faults: StoreFaults,
    next: u64,
}

impl FakeStore {
    /// Writes an object; its etag. None when it must be new and is not.
    pub fn put(&mut self, now: Millis, bucket: &str, key: &str, data: Bytes, only_new: bool) -> Option<u64> {
        let place = (bucket.to_owned(), key.to_owned());
        if only_new && self.objects.contains_key(&place) {
            return None;
        }
        self.next += 1;
        self.objects.insert(place, Stored { data, etag: self.next, modified: now });
        Some(self.next)
    }

    /// Reads an object.
    pub fn get(&self, bucket: &str, key: &str) -> Option<&Stored> {
        self.objects.get(&(bucket.to_owned(), key.to_owned()))
    }

    /// Deletes an object; whether there was one.
    pub fn delete(&mut self, bucket: &str, key: &str) -> bool {
        self.objects.remove(&(bucket.to_owned(), key.to_owned())).is_some()
    }

    /// Keys of a bucket that begin so, in order.
    pub fn list(&self, bucket: &str, prefix: &str) -> Vec<(String, Stored)> {
        let all = self.objects.iter();
        all.filter(|((b, key), _)| b == bucket && key.starts_with(prefix))
            .map(|((_, key), stored)| (key.clone(), stored.clone()))
            .collect()
    }

    /// Begins a multipart upload.
    pub fn begin(&mut self, bucket: &str, key: &str) -> u64 {
        self.next += 1;
        let upload = Upload { bucket: bucket.to_owned(), key: key.to_owned(), parts: BTreeMap::new() };
        self.uploads.insert(self.next, upload);
        self.next
    }

    /// Takes a part; false when there is no such upload.
    pub fn part(&mut self, upload: u64, number: usize, data: Bytes) -> bool {
        self.uploads.get_mut(&upload).map(|upload| upload.parts.insert(number, data)).is_some()
    }

    /// Completes an upload of so many parts; its etag.
    ///
    /// # Errors
    /// Without such an upload, or with a part missing.
    pub fn complete(&mut self, now: Millis, upload: u64, parts: usize) -> Result<u64, String> {
        let found = self.uploads.get(&upload).ok_or("NoSuchUpload")?;
        if (0..parts).any(|number| !found.parts.contains_key(&number)) {
            return Err("InvalidPart".into());
        }
        let Some(upload) = self.uploads.remove(&upload) else { return Err("NoSuchUpload".into()) };
        let data: Vec<u8> = upload.parts.values().flat_map(|part| part.iter().copied()).collect();
        Ok(self.put(now, &upload.bucket, &upload.key, data.into(), false).unwrap_or_default())
    }

    /// Takes one of a number of faults.
    pub fn strikes(count: &mut u32) -> bool {
        let strikes = *count > 0;
        *count = count.saturating_sub(1);
        strikes
    }
}
