//! The tensors that the digest is defined over, and the digest recomputed from the files.

use std::collections::BTreeSet;
use std::path::Path;

use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::Digest;

use super::Target;
use super::aside::publish;
use super::download::Written;
use super::tensors;
use crate::failure::Failure;

/// Names of the files of a model's state.
#[must_use]
pub fn file_names(table: &ModelTable) -> BTreeSet<String> {
    let names = |&kind| table.blocks.iter().map(move |block| tensors::file_name(block, kind));
    table.kinds().iter().flat_map(names).collect()
}

/// Writes a file for each block and kind of a written step.
///
/// # Errors
/// If the coordinator has no such step, a download breaks off, or a file cannot be written.
pub fn export(written: &Written<'_>, table: &ModelTable, target: &Target) -> Result<(), Failure> {
    let mut files = Vec::new();
    for &kind in table.kinds() {
        for block in table.blocks.iter().map(|block| table.space(kind, block.id)) {
            let path = format!("state/{}/{}/{}", written.step, block.id.0, kind);
            files.push(tensors::write(target, block, kind, written.open(&path)?)?);
        }
    }
    // Without one of them there is no state.
    let head = table.kinds().first().zip(table.blocks.first()).map(|(kind, block)| tensors::file_name(block, *kind));
    publish(files, &head.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The digest of the files in `dir`, as docs/semantics.md defines it.
///
/// # Errors
/// If a file is missing or not what [`export`] writes.
pub fn recompute(dir: &Path, table: &ModelTable) -> Result<Digest, Failure> {
    let mut root = blake3::Hasher::new();
    for &kind in table.kinds() {
        for block in table.blocks.iter().map(|block| table.space(kind, block.id)) {
            tensors::read(dir, block, kind, |segment| {
                root.update(blake3::hash(segment).as_bytes());
            })?;
        }
    }
    Ok(Digest(*root.finalize().as_bytes()))
}
