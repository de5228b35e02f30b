//! Snapshots as real etcd makes them: a bbolt database with etcd's buckets, and a sha256 of it at the end.
//!
//! The fake etcd serves these bytes, so that the operator's own reader, its hash and its transfer work on the real
//! format, and `etcdutl snapshot restore` takes them too. The state is written as after a compaction: of each key its
//! last change alone, and the revision as the compaction's, which is how etcd itself keeps it.
//!
//! Simplified: no history, no leases, no auth; pages of 4 KiB, written once and in order.

use sha2::{Digest, Sha256};

/// Page size of the files that are written.
const PAGE: usize = 4096;
/// Header of a page, and of an element on it.
const HEADER: usize = 16;
const FLAG_BRANCH: u16 = 0x01;
const FLAG_LEAF: u16 = 0x02;
const FLAG_META: u16 = 0x04;
const FLAG_FREELIST: u16 = 0x10;
const ELEMENT_BUCKET: u32 = 0x01;
const MAGIC: u32 = 0xED0C_DAED;
const TRAILER: usize = 32;

/// One key as etcd has it at the snapshot's revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision of its creation.
    pub create_revision: i64,
    /// Revision of its last change.
    pub mod_revision: i64,
    /// Changes since its creation.
    pub version: i64,
}

/// Why bytes are no snapshot of this module's making.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no snapshot: {0}")]
pub struct NotASnapshot(pub &'static str);

/// The bytes of a snapshot at this revision.
pub fn write(revision: i64, entries: impl Iterator<Item = Entry>) -> Vec<u8> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by(|a, b| (a.mod_revision, &a.key).cmp(&(b.mod_revision, &b.key)));
    let mut file = File { bytes: vec![0; 2 * PAGE] };
    let freelist = file.page(FLAG_FREELIST, 0, &[]);
    let mut changes = Vec::new();
    let mut before = (0, 0);
    for entry in &entries {
        // Keys of one transaction share the main revision and count up in the sub revision.
        let sub = if entry.mod_revision == before.0 { before.1 + 1 } else { 0 };
        before = (entry.mod_revision, sub);
        changes.push((revision_key(entry.mod_revision, sub).to_vec(), key_value(entry)));
    }
    let key_root = file.tree(&changes);
    let mut buckets: Vec<(&[u8], Vec<u8>)> = [&b"alarm"[..], b"auth", b"authRoles", b"authUsers", b"cluster", b"lease"]
        .into_iter()
        .chain([&b"members"[..], b"members_removed"])
        .map(|name| (name, inline_bucket(&[])))
        .collect();
    buckets.push((b"key", bucket_header(key_root)));
    let at = revision_key(revision, 0).to_vec();
    let mut meta = vec![(b"consistent_index".to_vec(), revision.to_be_bytes().to_vec())];
    if revision > 1 {
        meta.push((b"finishedCompactRev".to_vec(), at.clone()));
        meta.push((b"scheduledCompactRev".to_vec(), at));
    }
    buckets.push((b"meta", inline_bucket(&meta)));
    buckets.sort();
    let root: Vec<_> = buckets.into_iter().map(|(name, value)| (ELEMENT_BUCKET, name.to_vec(), value)).collect();
    let root = file.page(FLAG_LEAF, root.len(), &leaf_body(&root));
    file.finish(root, freelist)
}

/// What [`write()`] wrote: the revision and the entries in the order of their changes.
///
/// # Errors
/// When the bytes are cut, changed, or not of this module's making.
pub fn read(bytes: &[u8]) -> Result<(i64, Vec<Entry>), NotASnapshot> {
    let split = bytes.len().checked_sub(TRAILER).ok_or(NotASnapshot("too short"))?;
    let (database, trailer) = bytes.split_at(split);
    if Sha256::digest(database).as_slice() != trailer {
        return Err(NotASnapshot("its sha256 does not match"));
    }
    let root = long(database, HEADER + 16).ok_or(NotASnapshot("no root"))?;
    let mut revision = 1;
    let mut entries = Vec::new();
    for (name, value) in elements(database, root).ok_or(NotASnapshot("the root bucket is damaged"))? {
        let page = long(value, 0).ok_or(NotASnapshot("a bucket is damaged"))?;
        match name {
            b"key" => collect(database, page, &mut entries).ok_or(NotASnapshot("bucket `key` is damaged"))?,
            b"meta" => {
                let meta = page_elements(&value[HEADER..]).ok_or(NotASnapshot("bucket `meta` is damaged"))?;
                let compacted = meta.iter().find(|(name, _)| *name == b"finishedCompactRev");
                if let Some(bytes) = compacted.and_then(|(_, value)| value.first_chunk::<8>()) {
                    revision = i64::from_be_bytes(*bytes);
                }
            }
            _ => {}
        }
    }
    Ok((revision, entries))
}

fn revision_key(main: i64, sub: i64) -> [u8; 17] {
    let mut key = [b'_'; 17];
    key[..8].copy_from_slice(&main.to_be_bytes());
    key[9..].copy_from_slice(&sub.to_be_bytes());
    key
}

/// mvccpb.KeyValue in protobuf; zero values are left out.
fn key_value(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    let number = |out: &mut Vec<u8>, tag: u8, value: i64| {
        if value != 0 {
            out.push(tag << 3);
            varint(out, value.cast_unsigned());
        }
    };
    let bytes = |out: &mut Vec<u8>, tag: u8, value: &[u8]| {
        if !value.is_empty() {
            out.push(tag << 3 | 2);
            varint(out, value.len() as u64);
            out.extend_from_slice(value);
        }
    };
    bytes(&mut out, 1, &entry.key);
    number(&mut out, 2, entry.create_revision);
    number(&mut out, 3, entry.mod_revision);
    number(&mut out, 4, entry.version);
    bytes(&mut out, 5, &entry.value);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_key_value(mut bytes: &[u8]) -> Option<Entry> {
    let mut entry = Entry { key: Vec::new(), value: Vec::new(), create_revision: 0, mod_revision: 0, version: 0 };
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let number = read_varint(&mut bytes)?;
        if tag & 7 == 2 {
            let (field, rest) = bytes.split_at_checked(usize::try_from(number).ok()?)?;
            bytes = rest;
            match tag >> 3 {
                1 => entry.key = field.to_vec(),
                5 => entry.value = field.to_vec(),
                _ => return None,
            }
            continue;
        }
        match tag >> 3 {
            2 => entry.create_revision = number.cast_signed(),
            3 => entry.mod_revision = number.cast_signed(),
            4 => entry.version = number.cast_signed(),
            _ => return None,
        }
    }
    Some(entry)
}

/// A bucket that has pages of its own: root page and sequence.
fn bucket_header(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), 0_u64.to_le_bytes()].concat()
}

/// A bucket so small that its only page lives in its parent's value.
fn inline_bucket(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut value = bucket_header(0);
    value.extend(page_header(0, FLAG_LEAF, entries.len(), 0));
    let plain: Vec<_> = entries.iter().map(|(key, value)| (0, key.clone(), value.clone())).collect();
    value.extend(leaf_body(&plain));
    value
}

fn page_header(id: u64, flags: u16, count: usize, overflow: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&id.to_le_bytes());
    header[8..10].copy_from_slice(&flags.to_le_bytes());
    header[10..12].copy_from_slice(&u16::try_from(count).expect("a page holds few elements").to_le_bytes());
    header[12..].copy_from_slice(&u32::try_from(overflow).expect("a page is not that large").to_le_bytes());
    header
}

/// Element headers, then keys and values; positions count from their own header.
fn leaf_body(entries: &[(u32, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut headers = Vec::new();
    let mut data = Vec::new();
    for (index, (flags, key, value)) in entries.iter().enumerate() {
        let position = (entries.len() - index) * HEADER + data.len();
        for number in [*flags as usize, position, key.len(), value.len()] {
            headers.extend(u32::try_from(number).expect("a page is not that large").to_le_bytes());
        }
        data.extend_from_slice(key);
        data.extend_from_slice(value);
    }
    headers.extend(data);
    headers
}

fn branch_body(children: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let mut headers = Vec::new();
    let mut data = Vec::new();
    for (index, (key, page)) in children.iter().enumerate() {
        let position = (children.len() - index) * HEADER + data.len();
        for number in [position, key.len()] {
            headers.extend(u32::try_from(number).expect("a page is not that large").to_le_bytes());
        }
        headers.extend(page.to_le_bytes());
        data.extend_from_slice(key);
    }
    headers.extend(data);
    headers
}

/// A database file under construction; pages are appended.
struct File {
    bytes: Vec<u8>,
}

impl File {
    fn page(&mut self, flags: u16, count: usize, body: &[u8]) -> u64 {
        let id = (self.bytes.len() / PAGE) as u64;
        let pages = (HEADER + body.len()).div_ceil(PAGE);
        self.bytes.extend(page_header(id, flags, count, pages - 1));
        self.bytes.extend_from_slice(body);
        self.bytes.resize((id as usize + pages) * PAGE, 0);
        id
    }

    /// A tree over sorted entries; its root page.
    fn tree(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) -> u64 {
        let weight = |entry: &(Vec<u8>, Vec<u8>)| HEADER + entry.0.len() + entry.1.len();
        let mut level = Vec::new();
        for leaf in packed(entries, weight) {
            let first = leaf.first().map(|(key, _)| key.clone()).unwrap_or_default();
            let plain: Vec<_> = leaf.iter().map(|(key, value)| (0, key.clone(), value.clone())).collect();
            level.push((first, self.page(FLAG_LEAF, leaf.len(), &leaf_body(&plain))));
        }
        while level.len() > 1 {
            let mut above = Vec::new();
            for branch in packed(&level, |child| HEADER + child.0.len()) {
                let first = branch.first().map(|(key, _)| key.clone()).unwrap_or_default();
                above.push((first, self.page(FLAG_BRANCH, branch.len(), &branch_body(branch))));
            }
            level = above;
        }
        level.first().map_or_else(|| self.page(FLAG_LEAF, 0, &[]), |(_, page)| *page)
    }

    fn finish(mut self, root: u64, freelist: u64) -> Vec<u8> {
        let high_water = (self.bytes.len() / PAGE) as u64;
        for transaction in 0..2_u64 {
            let mut content = Vec::new();
            for word in [MAGIC, 2, PAGE as u32, 0] {
                content.extend(word.to_le_bytes());
            }
            for long in [root, 0, freelist, high_water, transaction] {
                content.extend(long.to_le_bytes());
            }
            let checksum = fnv64a(&content);
            content.extend(checksum.to_le_bytes());
            let at = transaction as usize * PAGE;
            self.bytes[at..at + HEADER].copy_from_slice(&page_header(transaction, FLAG_META, 0, 0));
            self.bytes[at + HEADER..at + HEADER + content.len()].copy_from_slice(&content);
        }
        let trailer = Sha256::digest(&self.bytes);
        self.bytes.extend_from_slice(&trailer);
        self.bytes
    }
}

/// Cuts a run of elements into pages. bbolt wants at least two elements a branch, and pages may overflow.
fn packed<T>(elements: &[T], weight: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut pages = Vec::new();
    let (mut start, mut filled) = (0, HEADER);
    for (index, element) in elements.iter().enumerate() {
        let weight = weight(element);
        if index - start >= 2 && filled + weight > PAGE {
            pages.push(&elements[start..index]);
            (start, filled) = (index, HEADER);
        }
        filled += weight;
    }
    if start < elements.len() {
        pages.push(&elements[start..]);
    }
    pages
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

type Elements<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Elements of a leaf page: keys and values.
fn page_elements(page: &[u8]) -> Option<Elements<'_>> {
    let count = usize::from(u16::from_le_bytes(page.get(10..12)?.try_into().ok()?));
    let element = |index: usize| {
        let at = HEADER + index * HEADER;
        let key_at = at + word(page, at + 4)?;
        let value_at = key_at + word(page, at + 8)?;
        Some((page.get(key_at..value_at)?, page.get(value_at..value_at + word(page, at + 12)?)?))
    };
    (0..count).map(element).collect()
}

fn elements(database: &[u8], page: u64) -> Option<Elements<'_>> {
    page_elements(database.get(usize::try_from(page).ok()?.checked_mul(PAGE)?..)?)
}

/// All entries under a page. Each level has greater page ids than the one below it, so this ends.
fn collect(database: &[u8], page: u64, into: &mut Vec<Entry>) -> Option<()> {
    let at = usize::try_from(page).ok()?.checked_mul(PAGE)?;
    let bytes = database.get(at..)?;
    let flags = u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?);
    if flags == FLAG_LEAF {
        for (_, value) in page_elements(bytes)? {
            into.push(read_key_value(value)?);
        }
        return Some(());
    }
    let count = usize::from(u16::from_le_bytes(bytes.get(10..12)?.try_into().ok()?));
    for index in 0..count {
        let child = long(bytes, HEADER + index * HEADER + 8)?;
        if child >= page {
            return None;
        }
        collect(database, child, into)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: i64) -> Vec<Entry> {
        let entry = |n: i64| Entry {
            key: format!("key-{n:05}").into_bytes(),
            value: vec![b'v'; usize::try_from(n * 37 % 6000).expect("positive")],
            create_revision: 2 + n / 3,
            mod_revision: 2 + n / 3,
            version: 1,
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn what_was_written_is_read_back() {
        for count in [0, 1, 2, 100, 3000] {
            let bytes = write(5000, entries(count).into_iter());
            assert_eq!(bytes.len() % 512, TRAILER);
            assert_eq!(read(&bytes), Ok((5000, entries(count))), "{count} entries");
        }
        assert_eq!(read(&write(1, std::iter::empty())), Ok((1, Vec::new())));
    }

    #[test]
    fn a_cut_or_changed_snapshot_is_refused() {
        let bytes = write(50, entries(40).into_iter());
        for length in [0, 31, 4096, bytes.len() - 1] {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        let mut changed = bytes;
        changed[9000] ^= 4;
        assert!(read(&changed).is_err());
    }
}
