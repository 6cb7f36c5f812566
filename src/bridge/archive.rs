//! Zips, in memory: nothing is ever unpacked to a disk here. A zip from beyond the machine may be made to harm: it is
//! read by name, with a limit, and one that would leave the folder or fill the disk of whoever unpacks it is refused.

use std::io::{Cursor, Read, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The most members of a zip. Each costs a name here and a file for whoever unpacks it.
const MEMBERS_MAX: usize = 10_000;
/// The most bytes that a zip may say to hold: a hundred times what may travel.
const UNPACKED_MAX: u64 = 512 * 1024 * 1024;

/// The record at the end of a zip, and what it begins with.
const END_LEN: usize = 22;
const END_SIGNATURE: &[u8] = b"PK\x05\x06";

/// Why a zip is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it is no zip: {0}")]
    NotAZip(#[from] ZipError),
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("the name of a member leaves the folder it is unpacked in")]
    Escapes,
    #[error("it has more than {MEMBERS_MAX} members")]
    TooMany,
    #[error("it unpacks to more than {UNPACKED_MAX} bytes")]
    Bomb,
    #[error("its member {0} is larger than what it can stand for")]
    TooLarge(&'static str),
    #[error("it has no member {0}")]
    NoMember(&'static str),
    #[error("it has a member {0} already, the name under which a long body travels")]
    Taken(&'static str),
}

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

fn open(zip: &[u8]) -> Result<Archive<'_>, ArchiveError> {
    let archive = ZipArchive::new(Cursor::new(zip))?;
    if archive.len() > MEMBERS_MAX {
        return Err(ArchiveError::TooMany);
    }
    Ok(archive)
}

/// Whether the bytes look like a zip at all. REDSYN does not ask that what its agents send in `files.zip` be one.
pub(super) fn is_zip(zip: &[u8]) -> bool {
    ZipArchive::new(Cursor::new(zip)).is_ok()
}

/// Looks at the names and sizes of all members, without unpacking any.
pub(super) fn check(zip: &[u8]) -> Result<(), ArchiveError> {
    let mut archive = open(zip)?;
    let mut unpacked = 0_u64;
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index)?;
        if leaves(&member.name()?) || member.is_symlink() {
            return Err(ArchiveError::Escapes);
        }
        unpacked = unpacked.saturating_add(member.size());
        if unpacked > UNPACKED_MAX {
            return Err(ArchiveError::Bomb);
        }
    }
    Ok(())
}

/// Whether a name leaves the folder, on this or another system: absolute, of a drive, or upwards.
fn leaves(name: &str) -> bool {
    let mut parts = name.split(['/', '\\']);
    name.starts_with(['/', '\\']) || name.contains([':', '\0']) || parts.any(|part| part == "..")
}

/// The zip with one more member, or a new one. What is in it stays as it is, byte for byte.
pub(super) fn with(zip: Option<&[u8]>, name: &'static str, content: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let Some(zip) = zip else { return add(ZipWriter::new(Cursor::new(Vec::new())), name, content) };
    if open(zip)?.index_for_name(name).is_some() {
        return Err(ArchiveError::Taken(name));
    }
    match behind(zip, name, content)? {
        Some(both) => Ok(both),
        None => add(ZipWriter::new_append(Cursor::new(zip.to_vec()))?, name, content),
    }
}

fn add(mut writer: ZipWriter<Cursor<Vec<u8>>>, name: &str, content: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    writer.start_file(name, deflated)?;
    writer.write_all(content)?;
    Ok(writer.finish()?.into_inner())
}

/// Puts a member behind the whole of a zip, so that the zip can be taken out again as it was, down to its hash: its
/// members, its own directory, the new member, a directory of all. `None` when the zip is laid out in another way.
fn behind(zip: &[u8], name: &str, content: &[u8]) -> Result<Option<Vec<u8>>, ArchiveError> {
    let alone = add(ZipWriter::new(Cursor::new(Vec::new())), name, content)?;
    let parts = (Parts::of(zip)?, Parts::of(&alone)?);
    let (Some(old), Some(new)) = parts else { return Ok(None) };
    Ok(old.followed_by(zip, new))
}

/// A zip in its plainest form: members, their directory, the end of it.
struct Parts<'a> {
    members: &'a [u8],
    directory: &'a [u8],
    count: u16,
}

impl<'a> Parts<'a> {
    /// `None` for one with something before, between or in another format (zip64).
    fn of(zip: &'a [u8]) -> Result<Option<Self>, ArchiveError> {
        let archive = open(zip)?;
        let parts = || {
            let start = usize::try_from(archive.central_directory_start()).ok()?;
            let end = zip.len().checked_sub(END_LEN + archive.comment().len())?;
            let (members, directory) = (zip.get(..start)?, zip.get(start..end)?);
            let (end, size) = (zip.get(end..)?, u32::try_from(directory.len()).ok()?);
            let is_plain = archive.offset() == 0
                && end.starts_with(END_SIGNATURE)
                && end.get(12..16)? == size.to_le_bytes();
            is_plain.then_some(Self { members, directory, count: u16::try_from(archive.len()).ok()? })
        };
        Ok(parts())
    }

    /// `zip`, which is `self`, and the only member of `new` behind it.
    fn followed_by(&self, zip: &[u8], new: Parts<'_>) -> Option<Vec<u8>> {
        let at = u32::try_from(zip.len()).ok()?;
        let mut record = new.directory.to_vec();
        // Where its member begins.
        record.get_mut(42..46)?.copy_from_slice(&at.to_le_bytes());
        let directory = [self.directory, &record].concat();
        let count = self.count.checked_add(1)?.to_le_bytes();
        let size = u32::try_from(directory.len()).ok()?.to_le_bytes();
        let start = u32::try_from(zip.len() + new.members.len()).ok()?.to_le_bytes();
        // Neither other disks nor a comment.
        let end = [END_SIGNATURE, &[0; 4], &count, &count, &size, &start, &[0; 2]].concat();
        Some([zip, new.members, &directory, &end].concat())
    }
}

/// One member, at most `limit` bytes of it, whatever the zip says of its size.
pub(super) fn member(zip: &[u8], name: &'static str, limit: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut archive = open(zip)?;
    let index = archive.index_for_name(name).ok_or(ArchiveError::NoMember(name))?;
    let member = archive.by_index(index)?;
    let mut content = Vec::new();
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    member.take(one_more).read_to_end(&mut content)?;
    if content.len() > limit { Err(ArchiveError::TooLarge(name)) } else { Ok(content) }
}

/// The zip without a member; `None` when nothing is left. As it was before [`with`], if that has left it whole.
pub(super) fn without(zip: &[u8], name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
    let mut archive = open(zip)?;
    if let Some(index) = archive.index_for_name(name) {
        let start = usize::try_from(archive.by_index_raw(index)?.header_start()).unwrap_or(usize::MAX);
        let before = zip.get(..start).unwrap_or_default();
        // Whoever made it may have put another zip there: it is looked at like any.
        let is_whole = open(before).is_ok_and(|before| before.len() + 1 == archive.len());
        if is_whole && check(before).is_ok() {
            return Ok(Some(before.to_vec()));
        }
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut left = 0_usize;
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index)?;
        if member.name()? != name {
            writer.raw_copy_file(member)?;
            left += 1;
        }
    }
    if left == 0 {
        return Ok(None);
    }
    Ok(Some(writer.finish()?.into_inner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "dsh-body.json";

    fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_member_is_added_read_and_taken_out_again() {
        let files = zip_of(&[("a.txt", b"one"), ("b/c.txt", b"two")]);
        let more = with(Some(&files), BODY, b"[1]").unwrap();
        check(&more).unwrap();
        assert_eq!(member(&more, BODY, 3).unwrap(), b"[1]");
        assert_eq!(member(&more, "a.txt", 3).unwrap(), b"one");
        let again = without(&more, BODY).unwrap().unwrap();
        assert!(matches!(member(&again, BODY, 3), Err(ArchiveError::NoMember(_))));
        assert_eq!(member(&again, "b/c.txt", 3).unwrap(), b"two");
        assert_eq!(again, files, "as it was");
        let alone = with(None, BODY, b"[1]").unwrap();
        assert!(without(&alone, BODY).unwrap().is_none());
    }

    #[test]
    fn a_zip_of_another_layout_keeps_its_members() {
        let files = zip_of(&[("a.txt", b"one"), ("b/c.txt", b"two")]);
        let mut commented = ZipWriter::new_append(Cursor::new(files.clone())).unwrap();
        commented.set_comment("of May").unwrap();
        let commented = commented.finish().unwrap().into_inner();
        let prefixed = [b"#!/bin/sh\n".as_slice(), &files].concat();
        for (zip, is_whole) in [(commented, true), (prefixed, false)] {
            let more = with(Some(&zip), BODY, b"[1]").unwrap();
            check(&more).unwrap();
            assert_eq!(member(&more, BODY, 3).unwrap(), b"[1]");
            assert_eq!(member(&more, "b/c.txt", 3).unwrap(), b"two");
            let again = without(&more, BODY).unwrap().unwrap();
            assert_eq!(again == zip, is_whole);
            assert_eq!(member(&again, "a.txt", 3).unwrap(), b"one");
            assert!(matches!(member(&again, BODY, 3), Err(ArchiveError::NoMember(_))));
        }
    }

    #[test]
    fn what_lies_before_a_body_is_looked_at_like_any_zip() {
        let bad = zip_of(&[("../x", b"")]);
        let mut both = with(Some(&bad), BODY, b"[1]").unwrap();
        // Its directory lists another zip than the one that lies there.
        let listed = both.windows(4).rposition(|window| window == b"../x").unwrap();
        both[listed..listed + 4].copy_from_slice(b"good");
        let left = without(&both, BODY);
        assert!(!matches!(left, Ok(Some(left)) if left == bad), "it would harm");
    }

    #[test]
    fn a_name_in_use_is_not_used_twice() {
        let files = zip_of(&[(BODY, b"mine")]);
        assert!(matches!(with(Some(&files), BODY, b"[1]"), Err(ArchiveError::Taken(_))));
    }

    #[test]
    fn a_member_is_read_no_further_than_its_limit() {
        let bomb = with(None, BODY, &vec![0; 1 << 20]).unwrap();
        assert!(bomb.len() < 5000, "it is a small bomb");
        assert!(matches!(member(&bomb, BODY, (1 << 20) - 1), Err(ArchiveError::TooLarge(_))));
    }

    #[test]
    fn what_would_harm_whoever_unpacks_it_is_refused() {
        for name in ["../x", "a/../x", "/etc/x", "..\\x", "\\\\host\\x", "C:x"] {
            assert!(matches!(check(&zip_of(&[(name, b"")])), Err(ArchiveError::Escapes)), "{name}");
        }
        check(&zip_of(&[("a/..b/c.txt", b"")])).unwrap();
        assert!(matches!(check(b"PK-bytes"), Err(ArchiveError::NotAZip(_))));
        assert!(!is_zip(b"PK-bytes"));
        let mut lies = zip_of(&[("a.txt", b"one")]);
        // The size in the central directory, 24 bytes behind its signature.
        let at = lies.windows(4).position(|window| window == b"PK\x01\x02").unwrap() + 24;
        lies[at..at + 4].copy_from_slice(&u32::to_le_bytes(u32::MAX - 1));
        assert!(matches!(check(&lies), Err(ArchiveError::Bomb)));
    }
}
