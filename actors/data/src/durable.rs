//! Files that are there as a whole or not at all, and stay there when the power goes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file beside its place, makes it durable and gives it its name.
pub(crate) fn write(
    aside: &Path,
    to: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(aside)?);
    content(&mut file)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    fs::rename(aside, to)?;
    directory(to.parent().unwrap_or(Path::new(".")))
}

/// Makes the names in a directory durable.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
