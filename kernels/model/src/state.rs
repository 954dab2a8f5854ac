//! A whole training state as one safetensors file: exactly the tensors over which the state's digest is defined.
//!
//! Tensors are named `{kind}/{parameter}`, with `kind` one of `weight`, `moment1`, `moment2`, and `parameter` the name in
//! the block table, behind `h.{i}.` for layer `i`: `weight/wte`, `moment2/h.3.attn.kv.weight`, `weight/ln_f.bias`. Shapes are
//! those of the block table. Values lie in the file in the order in which `shoal_plan::digest` hashes them, so the
//! digest is: for each tensor in order of offset, blake3 of each 16 KiB of its bytes; then blake3 of all these hashes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use shoal_plan::blocks::{BlockKind, BlockTable, ModelTable};
use shoal_plan::digest::STATE_KINDS;
use shoal_plan::ids::BlockId;
use shoal_plan::space::{Interval, Kind};

use crate::tensors::{self, Entry};

/// Writes the state at `step` to `out`. `read` gives elements of a block; it is called in ascending order.
///
/// # Errors
/// What `read` and `out` give.
pub fn write(
    table: &ModelTable,
    step: u64,
    mut read: impl FnMut(Kind, BlockId, Interval, &mut [f32]) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tensors = tensors_of(table);
    let entries: Vec<Entry> = tensors.iter().map(|t| t.entry.clone()).collect();
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned()), ("step".to_owned(), step.to_string())]);
    out.write_all(&tensors::header(&entries, &metadata))?;
    for Tensor { entry, kind, block, start } in tensors {
        tensors::write_stretches(out, entry.elements(), |at, values| {
            let from = start + at;
            read(kind, block, Interval::new(from, from + values.len() as u64), values)
        })?;
    }
    Ok(())
}

/// The name of a parameter in exports: its name in the block table, behind `h.{i}.` for layer `i`.
#[must_use]
pub fn parameter_name(table: &BlockTable, parameter: &str) -> String {
    match table.kind {
        BlockKind::Embedding | BlockKind::Head => parameter.to_owned(),
        BlockKind::Layer => format!("h.{}.{parameter}", table.id.0 - 1),
    }
}

struct Tensor {
    entry: Entry,
    kind: Kind,
    block: BlockId,
    start: u64,
}

fn tensors_of(table: &ModelTable) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for kind in STATE_KINDS {
        for block in &table.blocks {
            for param in &block.params {
                let name = format!("{}/{}", kind_name(kind), parameter_name(block, &param.name));
                let entry = Entry { name, shape: param.shape.clone() };
                tensors.push(Tensor { entry, kind, block: block.id, start: param.interval.start });
            }
        }
    }
    tensors
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Weight => "weight",
        Kind::Grad => "grad",
        Kind::Moment1 => "moment1",
        Kind::Moment2 => "moment2",
    }
}

#[cfg(test)]
mod tests {
    use shoal_plan::digest::{PieceLeaves, SEGMENT, assemble, leaves};
    use shoal_plan::ids::Digest;

    use super::*;
    use crate::testing::job;

    /// An element's value tells where it belongs.
    fn value(kind: Kind, block: BlockId, at: u64) -> f32 {
        (at + 1_000_000 * u64::from(block.0) + 10_000_000 * kind as u64) as f32
    }

    fn read(kind: Kind, block: BlockId, interval: Interval, out: &mut [f32]) -> io::Result<()> {
        (interval.start..).zip(out).for_each(|(at, x)| *x = value(kind, block, at));
        Ok(())
    }

    #[test]
    fn anyone_can_recompute_the_digest_from_the_file() {
        let table = ModelTable::of(&job(2, 3, 48, 10, 65, 0.0).model);
        let mut file = Vec::new();
        write(&table, 12, read, &mut file).expect("memory takes it");

        let parsed = safetensors::SafeTensors::deserialize(&file).expect("a safetensors file");
        let mut tensors = parsed.tensors();
        tensors.sort_by_key(|(_, view)| view.data().as_ptr() as usize);
        assert_eq!(tensors[0].0, "weight/wte");
        assert_eq!(tensors.len(), 3 * (2 + 2 * 14 + 2));
        let hashes: Vec<u8> = tensors
            .iter()
            .flat_map(|(_, view)| view.data().chunks(4 * SEGMENT as usize))
            .flat_map(|segment| Digest::of(segment).0)
            .collect();

        let mut pieces = Vec::new();
        for kind in STATE_KINDS {
            for block in &table.blocks {
                let interval = Interval::new(0, block.len);
                let mut values = vec![0.0; block.len as usize];
                read(kind, block.id, interval, &mut values).expect("infallible");
                pieces.push(PieceLeaves { block: block.id, interval, kind, leaves: leaves(block, interval, &values) });
            }
        }
        assert_eq!(Digest::of(&hashes), assemble(&table, &pieces).expect("complete"));
    }
}
