//! A reader of etcd's database file, as small as its one question: at which revision was this snapshot taken?
//!
//! The file is bbolt's: two meta pages, then a B+tree of pages; etcd keeps each change under `<revision>` in the
//! bucket `key`. The revision that etcd told just before the snapshot is not the snapshot's, so it is read from the
//! stored file itself, by a handful of ranged reads. The file comes from outside: every number in it is checked
//! before it is used, and no input makes the reader panic, loop or hold more than a page of the root bucket.
//!
//! Not checked: pages off the path that is walked. That the bytes are the ones that etcd sent is the business of the
//! hash (`verify`).

use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;

use crate::model::Revision;

/// First word of a bbolt meta page.
const MAGIC: u32 = 0xED0C_DAED;
/// The only version of bbolt's format there is, from etcd 3.2 to 3.7.
const FORMAT_VERSION: u32 = 2;
/// Header of every page: id, flags, count, overflow.
const PAGE_HEADER: u64 = 16;
/// Header of one element, on branch and leaf pages alike.
const ELEMENT: u64 = 16;
/// The meta page's content up to its checksum, and with it.
const META_CHECKED: usize = 56;
const META: usize = 64;
/// So many bytes of the first page tell what the file is: [`database_size`].
pub const HEAD: usize = PAGE_HEADER as usize + META;
const FLAG_BRANCH: u16 = 0x01;
const FLAG_LEAF: u16 = 0x02;
const FLAG_META: u16 = 0x04;
/// Flag of a leaf element whose value is a bucket.
const ELEMENT_BUCKET: u32 = 0x01;
/// Page sizes are the operating system's: 4 KiB to 64 KiB in practice.
const PAGE_SIZE: Range<u64> = 512..(16 << 20) + 1;
/// A tree of 64 levels holds more pages than any disk; a longer walk is a cycle.
const DEPTH_MAX: usize = 64;
/// Pages that are read whole (the root bucket's and those of bucket `meta`) are a few hundred bytes in etcd.
const WHOLE_PAGE_MAX: u64 = 1 << 20;
/// `<8 bytes main>_<8 bytes sub>`, with a `t` behind it on a deletion.
const REVISION_KEY: usize = 17;

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The first page is not bbolt's.
    #[error("not an etcd snapshot: {why}")]
    Foreign {
        /// What gave it away.
        why: &'static str,
    },
    /// A page points outside the file.
    #[error("the database is truncated or damaged: page {page} lies outside its {size} bytes")]
    OutOfBounds {
        /// The page.
        page: u64,
        /// Size of the database.
        size: u64,
    },
    /// A page does not hold together.
    #[error("the database is damaged: page {page}: {why}")]
    Damaged {
        /// The page.
        page: u64,
        /// What is wrong.
        why: &'static str,
    },
}

/// What the first [`HEAD`] bytes of a file, or as many as there are, say of the database: its size, which is exactly
/// that of a snapshot without its trailing hash. `None` while they do not tell: there are too few, or they are damaged.
///
/// # Errors
/// When no etcd database begins so.
pub fn database_size(head: &[u8]) -> Result<Option<u64>, FormatError> {
    let page_and_magic = PAGE_HEADER as usize + size_of::<u32>();
    let mut database = vec![0; page_and_magic];
    database[8..10].copy_from_slice(&FLAG_META.to_le_bytes());
    database[PAGE_HEADER as usize..].copy_from_slice(&MAGIC.to_le_bytes());
    let compared = head.len().min(page_and_magic);
    if head[..compared] != database[..compared] {
        return Err(FormatError::Foreign { why: "it does not begin as a bbolt file" });
    }
    Ok(Meta::parse(head).ok().and_then(|meta| meta.high_water.checked_mul(meta.page_size)))
}

/// Why there is no revision.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError<E> {
    /// The bytes could not be had.
    #[error("reading the snapshot: {0}")]
    Read(E),
    /// They are not an etcd database.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Random access to a database file.
#[async_trait]
pub trait Pages: Send + Sync {
    /// Why bytes cannot be had.
    type Error: Send;
    /// Exactly the bytes of this range, which lies within the size that was given.
    async fn read_at(&self, range: Range<u64>) -> Result<Bytes, Self::Error>;
}

#[async_trait]
impl Pages for Bytes {
    type Error = std::convert::Infallible;

    async fn read_at(&self, range: Range<u64>) -> Result<Bytes, Self::Error> {
        let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
        Ok(self.slice(bound(range.start)..bound(range.end)))
    }
}

/// The revision of the database in the first `size` bytes of `pages` (the trailing hash of a snapshot not counted).
///
/// It is the revision of the last change, or that of the last compaction when that removed the last changes.
/// An empty store has revision 1, as in etcd.
///
/// # Errors
/// When the bytes cannot be read or are not an etcd database.
pub async fn revision<P: Pages>(pages: &P, size: u64) -> Result<Revision, SnapshotError<P::Error>> {
    let (file, root) = File::open(pages, size).await?;
    let root = Bucket { root, inline: Bytes::new() };
    let changes = file.bucket(&root, b"key").await?;
    let meta = file.bucket(&root, b"meta").await?;
    let mut revision = match file.last_key(&changes).await? {
        Some(key) => main_revision(&key).ok_or(FormatError::Foreign { why: "bucket `key` holds no revisions" })?,
        None => 1,
    };
    for name in [b"scheduledCompactRev".as_slice(), b"finishedCompactRev"] {
        if let Some((_, value)) = file.find(&meta, name).await? {
            let compacted = main_revision(&value)
                .ok_or(FormatError::Foreign { why: "bucket `meta` holds a compaction that is no revision" })?;
            revision = revision.max(compacted);
        }
    }
    Ok(Revision(revision))
}

/// The main part of a revision key.
fn main_revision(key: &[u8]) -> Option<i64> {
    let well_formed = key.len() == REVISION_KEY || (key.len() == REVISION_KEY + 1 && key[REVISION_KEY] == b't');
    if !well_formed || key[8] != b'_' {
        return None;
    }
    let main = i64::from_be_bytes(key[..8].try_into().ok()?);
    (main >= 0).then_some(main)
}

/// A bucket's root page, or the page itself when it is so small that it lives in its parent's value.
struct Bucket {
    root: u64,
    inline: Bytes,
}

/// One database file and what its meta page says of it.
struct File<'a, P> {
    pages: &'a P,
    size: u64,
    page_size: u64,
    /// The first page id that was never used.
    high_water: u64,
}

/// What a meta page says.
struct Meta {
    page_size: u64,
    root: u64,
    high_water: u64,
    transaction: u64,
}

impl Meta {
    /// Page header and content; `page` is 0 or 1.
    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let content = bytes.get(PAGE_HEADER as usize..PAGE_HEADER as usize + META).ok_or("it is too short")?;
        let flags = u16_at(bytes, 8).unwrap_or_default();
        let word = |at| u32_at(content, at).unwrap_or_default();
        let long = |at| u64_at(content, at).unwrap_or_default();
        if flags & FLAG_META == 0 || word(0) != MAGIC {
            return Err("it does not begin as a bbolt file");
        }
        if word(4) != FORMAT_VERSION {
            return Err("its bbolt format is not version 2");
        }
        if long(META_CHECKED) != fnv64a(&content[..META_CHECKED]) {
            return Err("the checksum of its first page does not match");
        }
        let page_size = u64::from(word(8));
        if !PAGE_SIZE.contains(&page_size) || !page_size.is_power_of_two() {
            return Err("its page size makes no sense");
        }
        Ok(Self { page_size, root: long(16), high_water: long(40), transaction: long(48) })
    }
}

impl<'a, P: Pages> File<'a, P> {
    /// Reads both meta pages: the valid one of the later transaction counts. A snapshot is written with both valid.
    async fn open(pages: &'a P, size: u64) -> Result<(Self, u64), SnapshotError<P::Error>> {
        let length = PAGE_HEADER + META as u64;
        if size < length {
            return Err(FormatError::Foreign { why: "it is too short" }.into());
        }
        let read = |at: u64| pages.read_at(at..at + length);
        let first =
            Meta::parse(&read(0).await.map_err(SnapshotError::Read)?).map_err(|why| FormatError::Foreign { why })?;
        let mut meta = first;
        if meta.page_size + length <= size {
            let second = read(meta.page_size).await.map_err(SnapshotError::Read)?;
            if let Ok(second) = Meta::parse(&second)
                && second.page_size == meta.page_size
                && second.transaction > meta.transaction
            {
                meta = second;
            }
        }
        let file = Self { pages, size, page_size: meta.page_size, high_water: meta.high_water };
        if meta.high_water.checked_mul(meta.page_size).is_none_or(|end| end > size) {
            return Err(FormatError::OutOfBounds { page: meta.high_water.saturating_sub(1), size }.into());
        }
        Ok((file, meta.root))
    }

    /// Where a page begins; it must lie within the file.
    fn page_start(&self, page: u64) -> Result<u64, FormatError> {
        let outside = FormatError::OutOfBounds { page, size: self.size };
        // Pages 0 and 1 are the meta pages: nothing may point to them.
        if page < 2 || page >= self.high_water { Err(outside) } else { Ok(page * self.page_size) }
    }

    async fn read(&self, page: u64, range: Range<u64>) -> Result<Bytes, SnapshotError<P::Error>> {
        if range.end > self.size || range.start > range.end {
            return Err(FormatError::OutOfBounds { page, size: self.size }.into());
        }
        let length = range.end - range.start;
        let bytes = self.pages.read_at(range).await.map_err(SnapshotError::Read)?;
        if bytes.len() as u64 == length {
            Ok(bytes)
        } else {
            Err(FormatError::OutOfBounds { page, size: self.size }.into())
        }
    }

    /// Start, flags, count and length of a page, after its own header.
    async fn header(&self, page: u64) -> Result<(u64, u16, u64, u64), SnapshotError<P::Error>> {
        let start = self.page_start(page)?;
        let header = self.read(page, start..start + PAGE_HEADER).await?;
        let damaged = |why| FormatError::Damaged { page, why };
        if u64_at(&header, 0) != Some(page) {
            return Err(damaged("it says that it is another page").into());
        }
        let flags = u16_at(&header, 8).unwrap_or_default();
        if flags != FLAG_BRANCH && flags != FLAG_LEAF {
            return Err(damaged("it is neither a branch nor a leaf").into());
        }
        let count = u64::from(u16_at(&header, 10).unwrap_or_default());
        let length = (u64::from(u32_at(&header, 12).unwrap_or_default()) + 1) * self.page_size;
        if start + length > self.size {
            return Err(FormatError::OutOfBounds { page, size: self.size }.into());
        }
        Ok((start, flags, count, length))
    }

    /// A whole page, for the few that are small.
    async fn whole(&self, page: u64) -> Result<Bytes, SnapshotError<P::Error>> {
        let (start, _, _, length) = self.header(page).await?;
        if length > WHOLE_PAGE_MAX {
            return Err(FormatError::Damaged { page, why: "it is larger than etcd's can be" }.into());
        }
        self.read(page, start..start + length).await
    }

    /// The value under a name, and whether it is a bucket.
    async fn find(&self, bucket: &Bucket, name: &[u8]) -> Result<Option<(bool, Bytes)>, SnapshotError<P::Error>> {
        let mut page = bucket.root;
        for _ in 0..DEPTH_MAX {
            let bytes = if page == 0 { bucket.inline.clone() } else { self.whole(page).await? };
            let view = View::parse(&bytes).map_err(|why| FormatError::Damaged { page, why })?;
            match view.search(name).map_err(|why| FormatError::Damaged { page, why })? {
                Found::Below(child) => page = child,
                Found::Value { bucket, range } => return Ok(Some((bucket, bytes.slice(range)))),
                Found::Nothing => return Ok(None),
            }
            // Page 0 means "inline" above, and nothing else may lead there.
            self.page_start(page)?;
        }
        Err(FormatError::Damaged { page, why: "its tree has no end" }.into())
    }

    /// A bucket directly under the root.
    async fn bucket(&self, root: &Bucket, name: &'static [u8]) -> Result<Bucket, SnapshotError<P::Error>> {
        self.page_start(root.root)?;
        let why = if name == b"key" { "it has no bucket `key`" } else { "it has no bucket `meta`" };
        match self.find(root, name).await? {
            Some((true, value)) if value.len() >= 16 => {
                let page = u64_at(&value, 0).unwrap_or_default();
                if page != 0 {
                    self.page_start(page)?;
                }
                Ok(Bucket { root: page, inline: value.slice(16..) })
            }
            _ => Err(FormatError::Foreign { why }.into()),
        }
    }

    /// The greatest key of a bucket, by its rightmost path; values are not read, whatever their size.
    async fn last_key(&self, bucket: &Bucket) -> Result<Option<Bytes>, SnapshotError<P::Error>> {
        let mut page = bucket.root;
        if page == 0 {
            let damaged = |why| FormatError::Damaged { page, why };
            let view = View::parse(&bucket.inline).map_err(damaged)?;
            let Some(last) = view.count.checked_sub(1) else { return Ok(None) };
            return Ok(Some(bucket.inline.slice(view.key_range(last).map_err(damaged)?)));
        }
        for depth in 0..DEPTH_MAX {
            let damaged = |why| SnapshotError::Format(FormatError::Damaged { page, why });
            let (start, flags, count, length) = self.header(page).await?;
            if count == 0 {
                let empty_root = depth == 0 && flags == FLAG_LEAF;
                return if empty_root { Ok(None) } else { Err(damaged("it is empty")) };
            }
            let at = PAGE_HEADER + (count - 1) * ELEMENT;
            if at + ELEMENT > length {
                return Err(damaged("its elements do not fit"));
            }
            let element = self.read(page, start + at..start + at + ELEMENT).await?;
            if flags == FLAG_BRANCH {
                page = u64_at(&element, 8).unwrap_or_default();
                self.page_start(page)?;
                continue;
            }
            let key_at = at + u64::from(u32_at(&element, 4).unwrap_or_default());
            let key_end = key_at + u64::from(u32_at(&element, 8).unwrap_or_default());
            if key_end > length || key_end - key_at > REVISION_KEY as u64 + 1 {
                return Err(damaged("its last key is no revision"));
            }
            return Ok(Some(self.read(page, start + key_at..start + key_end).await?));
        }
        Err(FormatError::Damaged { page, why: "its tree has no end" }.into())
    }
}

/// Where a search on one page leads.
enum Found {
    /// To this page.
    Below(u64),
    /// To this value.
    Value { bucket: bool, range: Range<usize> },
    /// Nowhere.
    Nothing,
}

/// A page that was read whole.
struct View<'a> {
    bytes: &'a [u8],
    branch: bool,
    count: usize,
}

impl<'a> View<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let (Some(flags), Some(count)) = (u16_at(bytes, 8), u16_at(bytes, 10)) else { return Err("it is too short") };
        if flags != FLAG_BRANCH && flags != FLAG_LEAF {
            return Err("it is neither a branch nor a leaf");
        }
        let count = usize::from(count);
        if (PAGE_HEADER as usize) + count * ELEMENT as usize > bytes.len() {
            return Err("its elements do not fit");
        }
        Ok(Self { bytes, branch: flags == FLAG_BRANCH, count })
    }

    fn element(&self, index: usize) -> usize {
        PAGE_HEADER as usize + index * ELEMENT as usize
    }

    /// A range behind an element, by the two or three numbers of its header.
    fn range(&self, start: usize, length: u32) -> Result<Range<usize>, &'static str> {
        let end = start.checked_add(length as usize).filter(|end| *end <= self.bytes.len());
        end.map(|end| start..end).ok_or("an element points outside it")
    }

    fn key_range(&self, index: usize) -> Result<Range<usize>, &'static str> {
        let at = self.element(index);
        let (position, size) = if self.branch { (at, at + 4) } else { (at + 4, at + 8) };
        let position = u32_at(self.bytes, position).ok_or("it is too short")? as usize;
        let size = u32_at(self.bytes, size).ok_or("it is too short")?;
        self.range(at + position, size)
    }

    fn search(&self, name: &[u8]) -> Result<Found, &'static str> {
        let mut below = None;
        for index in 0..self.count {
            let key = self.key_range(index)?;
            let at = self.element(index);
            if self.branch {
                // The first child also holds what sorts before its own key.
                if index == 0 || self.bytes[key] <= *name {
                    below = u64_at(self.bytes, at + 8);
                }
            } else if self.bytes[key.clone()] == *name {
                let flags = u32_at(self.bytes, at).ok_or("it is too short")?;
                let size = u32_at(self.bytes, at + 12).ok_or("it is too short")?;
                return Ok(Found::Value { bucket: flags & ELEMENT_BUCKET != 0, range: self.range(key.end, size)? });
            }
        }
        Ok(below.map_or(Found::Nothing, Found::Below))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// bbolt's checksum of its meta pages.
fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
pub(crate) mod tests;
