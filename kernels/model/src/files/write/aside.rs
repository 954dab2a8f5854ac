//! A file without a name, on a disk that others need too.
//!
//! FI-7 (room first): all bytes of the file are reserved before one of them is written, and beside them as many stay free as others
//! are to have. What is refused has taken nothing.

use std::fs::File;
use std::io::{self, ErrorKind, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// Where such files may lie.
#[derive(Clone, Copy, Debug)]
pub struct Aside<'a> {
    /// A directory on a disk.
    pub dir: &'a Path,
    /// Bytes of the disk that are left to others.
    pub leave: u64,
}

impl Aside<'_> {
    /// A file of so many bytes. It is gone with whoever has it.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<Reserved> {
        self.room_for(bytes)?;
        let file = tempfile::tempfile_in(self.dir)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // Somebody else may have looked at the same bytes.
            Ok(()) => self.room_for(0)?,
            // Of such a file system it is only known what was free a moment ago.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Reserved(file))
    }

    /// Whether so many bytes can be taken, and enough is left.
    fn room_for(&self, bytes: u64) -> io::Result<()> {
        let disk = statvfs(self.dir)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < bytes.saturating_add(self.leave) {
            return Err(io::Error::new(ErrorKind::StorageFull, format!("{free} bytes are free there")));
        }
        Ok(())
    }
}

/// A file that has its bytes.
#[derive(Debug)]
pub(super) struct Reserved(File);

impl Reserved {
    /// Writes bytes where they belong.
    pub(super) fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Begins to read from the first byte.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.0.rewind()
    }

    /// Reads on, as much as is convenient; nothing at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut self.0, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// FI-7 (room first).
    #[test]
    fn bytes_are_taken_before_they_are_written_or_not_at_all() {
        let dir = tempfile::tempdir().expect("temp dir");
        let aside = Aside { dir: dir.path(), leave: 0 };
        let file = aside.reserve(1 << 20).expect("room");
        let taken = file.0.metadata().expect("a file");
        assert!(taken.len() == 1 << 20 && taken.blocks() * 512 >= 1 << 20, "{taken:?}");
        for (leave, bytes) in [(0, 1 << 60), (u64::MAX, 1), (1 << 60, 1)] {
            let refused = Aside { leave, ..aside }.reserve(bytes).expect_err("no such disk");
            assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
        }
        drop(file);
        assert_eq!(dir.path().read_dir().expect("readable").count(), 0);
        let refused = Aside { dir: Path::new("/nowhere"), leave: 0 }.reserve(1).expect_err("no such directory");
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
}
