//! Token and position lookup, and the gradients of both tables.

#[cfg(test)]
mod tests;

use super::class::by_class;
use super::dropout::{Stream, mask};
use super::pool::Parts;
use super::{CpuDevice, SHARED_SCRATCH};
use crate::device::{Dropout, Write};

by_class! {
    fn row_sum(y: &mut [f32], token: &[f32], position: &[f32]) {
        for ((y, a), b) in y.iter_mut().zip(token).zip(position) {
            *y = a + b;
        }
    }
}

impl CpuDevice {
    pub(crate) fn embedding(
        &self,
        y: &mut [f32],
        tokens: &[u32],
        (wte, wpe): (&[f32], Option<&[f32]>),
        positions: usize,
        dropout: Option<&Dropout<'_>>,
    ) {
        let rows = tokens.len();
        if rows == 0 {
            return;
        }
        let width = y.len() / rows;
        assert!(
            y.len() == rows * width
                && rows.is_multiple_of(positions)
                && wpe.is_none_or(|wpe| wpe.len() >= positions * width),
            "KN-1 (shapes): embedding of {rows} tokens"
        );
        let y = Parts::of(y);
        self.pool.divide(rows, 8, |run| {
            for row in run {
                let (sample, position) = (row / positions, row % positions);
                let token = tokens[row] as usize;
                assert!((token + 1) * width <= wte.len(), "KN-5 (tokens are in the vocabulary): token {token}");
                // SAFETY: rows are disjoint.
                let y = unsafe { y.part(row * width..(row + 1) * width) };
                let a = &wte[token * width..(token + 1) * width];
                match wpe {
                    Some(wpe) => row_sum(self.class, y, a, &wpe[position * width..(position + 1) * width]),
                    None => y.copy_from_slice(a),
                }
                if let Some(dropout) = dropout {
                    mask(self.class, y, Stream::of(dropout, sample), (position * width) as u64);
                }
            }
        });
    }

    pub(crate) fn embedding_backward(
        &self,
        (dwte, dwpe): (&mut [f32], Option<&mut [f32]>),
        dy: &[f32],
        tokens: &[u32],
        positions: usize,
        write: Write,
    ) {
        let rows = tokens.len();
        assert!(rows > 0 && rows.is_multiple_of(positions), "KN-1 (shapes): embedding gradient of {rows} tokens");
        let width = dy.len() / rows;
        assert!(
            dy.len() == rows * width
                && dwte.len().is_multiple_of(width)
                && dwpe.as_ref().is_none_or(|dwpe| dwpe.len() >= positions * width),
            "KN-1 (shapes): embedding gradient of {rows} tokens"
        );
        let vocab = dwte.len() / width;
        let mut scratch = self.shared_scratch();
        let order = sorted(scratch.view_mut().into_host(), tokens);
        let dwte = Parts::of(dwte);
        // Rows of the token table: each is summed over its tokens in ascending row order.
        self.pool.divide_evenly(vocab, 1, |run| {
            let mut next = order.partition_point(|&entry| ((entry >> 32) as usize) < run.start);
            for token in run {
                // SAFETY: table rows are disjoint.
                let out = unsafe { dwte.part(token * width..(token + 1) * width) };
                let end = next + order[next..].iter().take_while(|&&entry| (entry >> 32) as usize == token).count();
                let places = order[next..end].iter().map(|&entry| (entry as u32) as usize);
                sum_rows(self.class, out, dy, places, write);
                next = end;
            }
        });
        let Some(dwpe) = dwpe else { return };
        let position_rows = dwpe.len() / width;
        let dwpe = Parts::of(dwpe);
        self.pool.divide_evenly(position_rows, 1, |run| {
            for position in run {
                // SAFETY: table rows are disjoint.
                let out = unsafe { dwpe.part(position * width..(position + 1) * width) };
                let places = if position < positions { position..rows } else { 0..0 };
                sum_rows(self.class, out, dy, places.step_by(positions), write);
            }
        });
    }
}

/// `(token << 32 | row)`, ascending, in scratch.
fn sorted<'a>(scratch: &'a mut [f32], tokens: &[u32]) -> &'a [u64] {
    assert!(
        tokens.len() * 2 <= SHARED_SCRATCH,
        "KN-1 (shapes): a micro-batch of {} tokens is more than the {} that the scratch can order",
        tokens.len(),
        SHARED_SCRATCH / 2
    );
    // SAFETY: buffers are 64-byte aligned, the room was checked, and any bits are a u64.
    let order = unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<u64>(), tokens.len()) };
    for (row, (entry, &token)) in order.iter_mut().zip(tokens).enumerate() {
        *entry = u64::from(token) << 32 | row as u64;
    }
    order.sort_unstable();
    order
}

/// `out` from rows of `dy`; the complete sum is added for [`Write::Add`].
fn sum_rows(
    class: super::Class,
    out: &mut [f32],
    dy: &[f32],
    places: impl Iterator<Item = usize> + Clone,
    write: Write,
) {
    const STRIPE: usize = 64;
    let width = out.len();
    if places.clone().next().is_none() {
        // A complete sum of nothing is zero, and adding it changes nothing: sums are never a negative zero.
        if write == Write::Overwrite {
            out.fill(0.0);
        }
        return;
    }
    for (stripe, out) in out.chunks_mut(STRIPE).enumerate() {
        let mut sum = [0.0; STRIPE];
        for place in places.clone() {
            let at = place * width + stripe * STRIPE;
            super::elementwise::add(class, &mut sum[..out.len()], &dy[at..at + out.len()]);
        }
        match write {
            Write::Overwrite => out.copy_from_slice(&sum[..out.len()]),
            Write::Add => super::elementwise::add(class, out, &sum[..out.len()]),
        }
    }
}
