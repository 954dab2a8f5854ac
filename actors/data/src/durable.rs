//! Files that are there as a whole or not at all, and stay there when the power goes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file beside its place, makes it durable and gives it its name. What the system refuses is an error as `failed` makes
/// it; after an error of `content` the file gets no name.
pub(crate) fn write<T, E>(
    aside: &Path,
    to: &Path,
    failed: impl Fn(io::Error) -> E,
    content: impl FnOnce(&mut BufWriter<File>) -> Result<T, E>,
) -> Result<T, E> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(aside).map_err(&failed)?);
    let written = content(&mut file)?;
    let mut name = || {
        file.flush()?;
        file.get_ref().sync_all()?;
        fs::rename(aside, to)?;
        directory(to.parent().unwrap_or(Path::new(".")))
    };
    name().map_err(failed)?;
    Ok(written)
}

/// Makes the names in a directory durable.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
