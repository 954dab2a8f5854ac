//! Rotary positions, in place on queries and keys: `(a, b) -> (a cos - b sin, b cos + a sin)` for the pairs of a head, which are
//! elements of its first and second half. Back is the same with the sine's other sign.

#[cfg(test)]
mod tests;

use shoal_exact::elementary::sin_cos;

use super::CpuDevice;
use super::class::by_class;
use super::pool::Parts;
use crate::device::{Attention, Rotary};

by_class! {
    /// Turns all queries and keys of one token by one row of the table; `sign` is -1 to turn back.
    fn turn(token: &mut [f32], row: &[f32], heads: usize, sign: f32) {
        let size = row.len();
        let (queries, kept) = token.split_at_mut(heads * size);
        let (pairs, _) = row.as_chunks::<2>();
        let keys = kept.chunks_exact_mut(2 * size).map(|kept| &mut kept[..size]);
        for head in queries.chunks_exact_mut(size).chain(keys) {
            let (first, second) = head.split_at_mut(size / 2);
            for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(pairs) {
                let sin = sign * sin;
                (*a, *b) = (a.mul_add(*cos, -(*b * sin)), b.mul_add(*cos, *a * sin));
            }
        }
    }
}

impl CpuDevice {
    pub(crate) fn rope_table(&self, table: &mut [f32], size: usize, rotary: &Rotary) {
        let fits = size > 0 && size.is_multiple_of(2) && table.len().is_multiple_of(size);
        assert!(fits, "KN-1 (shapes): a table of {} for heads of {size}", table.len());
        let turns = rotary.turns(size);
        let positions = table.len() / size;
        let table = Parts::of(table);
        self.pool.divide(positions, 1, |run| {
            for position in run {
                // SAFETY: runs of positions of one division are disjoint.
                let (pairs, _) = unsafe { table.part(position * size..(position + 1) * size) }.as_chunks_mut::<2>();
                for (pair, turn) in pairs.iter_mut().zip(&turns) {
                    let (sin, cos) = sin_cos(position as f64 * turn);
                    *pair = [cos as f32, sin as f32];
                }
            }
        });
    }

    pub(crate) fn rope(&self, qkv: &mut [f32], table: &[f32], shape: Attention, back: bool) {
        let Attention { samples, positions, heads, size, .. } = shape;
        let (tokens, packed) = (samples * positions, shape.packed());
        assert!(
            qkv.len() == tokens * packed && size > 0 && size.is_multiple_of(2) && table.len() >= positions * size,
            "KN-1 (shapes): rope {shape:?} by a table of {}",
            table.len()
        );
        let sign = if back { -1.0 } else { 1.0 };
        let qkv = Parts::of(qkv);
        self.pool.divide(tokens, 1, |run| {
            for token in run {
                // SAFETY: runs of tokens of one division are disjoint.
                let packed = unsafe { qkv.part(token * packed..(token + 1) * packed) };
                let position = token % positions;
                let row = &table[position * size..(position + 1) * size];
                turn(self.class, packed, row, heads, sign);
            }
        });
    }
}
