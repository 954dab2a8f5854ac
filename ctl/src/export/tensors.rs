//! Safetensors files of one block and kind, written as the elements arrive.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use shoal_config::safetensors::Header;
use shoal_config::spec::Dtype;
use shoal_plan::blocks::BlockTable;
use shoal_plan::digest::SEGMENT;
use shoal_plan::space::Kind;

use super::Target;
use super::aside::{Aside, Complete};
use super::download::broke_off;
use crate::failure::Failure;

/// Bytes of an element.
const F32: u64 = 4;

/// Name of the file of a block and kind.
#[must_use]
pub fn file_name(block: &BlockTable, kind: Kind) -> String {
    format!("block{:03}.{}.safetensors", block.id.0, kind)
}

/// Copies a block's space from `space` (little-endian f32, gaps included) into what will be its file, without the gaps.
///
/// # Errors
/// If `space` ends early or late, or the file cannot be written.
pub fn write<'t>(
    target: &'t Target,
    block: &BlockTable,
    kind: Kind,
    mut space: impl Read,
) -> Result<Complete<'t>, Failure> {
    let name = file_name(block, kind);
    let mut file = Aside::begin(target, &name)?;
    file.write(&header(block, kind))?;
    let mut buffer = vec![0; (SEGMENT * F32) as usize];
    let mut at = 0;
    for param in &block.params {
        copy(&mut space, (param.interval.start - at) * F32, &mut buffer, &name, |_| Ok(()))?;
        copy(&mut space, param.interval.len() * F32, &mut buffer, &name, |bytes| file.write(bytes))?;
        at = param.interval.end;
    }
    copy(&mut space, (block.len - at) * F32, &mut buffer, &name, |_| Ok(()))?;
    if space.read(&mut buffer).map_err(|error| broke_off(&name, error))? != 0 {
        return Err(Failure::No(format!("{name}: more than the {} elements of the block arrived", block.len)));
    }
    file.complete()
}

/// Reads a file back and gives each parameter's bytes, a segment at a time, to `visit`.
///
/// # Errors
/// If the file is not what [`write()`] makes for this block.
pub fn read(dir: &Path, block: &BlockTable, kind: Kind, mut visit: impl FnMut(&[u8])) -> Result<(), Failure> {
    let path = dir.join(file_name(block, kind));
    let mut file = BufReader::new(File::open(&path).map_err(Failure::file("open", &path))?);
    let expected = header(block, kind);
    let mut found = vec![0; expected.len()];
    file.read_exact(&mut found).map_err(Failure::file("read", &path))?;
    if found != expected {
        return Err(Failure::No(format!("{} has another header than its block", path.display())));
    }
    let mut buffer = vec![0; (SEGMENT * F32) as usize];
    for param in &block.params {
        let mut left = param.interval.len() * F32;
        while left > 0 {
            let part = &mut buffer[..left.min(SEGMENT * F32) as usize];
            file.read_exact(part).map_err(Failure::file("read", &path))?;
            visit(part);
            left -= part.len() as u64;
        }
    }
    Ok(())
}

fn header(block: &BlockTable, kind: Kind) -> Vec<u8> {
    let mut header = Header::default();
    for param in &block.params {
        header.push(format!("{}.{}", kind, param.name), Dtype::F32, &param.shape);
    }
    header.to_bytes()
}

fn copy(
    from: &mut impl Read,
    bytes: u64,
    buffer: &mut [u8],
    name: &str,
    mut to: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = bytes;
    while left > 0 {
        let part = &mut buffer[..left.min(SEGMENT * F32) as usize];
        from.read_exact(part).map_err(|error| broke_off(name, error))?;
        to(part)?;
        left -= part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
