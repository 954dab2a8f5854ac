//! Their tensors put together from ours, as a stream.
//!
//! FI-3 (bounded): of a tensor whose columns are rows of ours, at most [`BAND`] values are there at once: a band of its rows, put
//! together from a stripe of every row of ours. Our rows are read anew for every band.

use std::io::{self, Write};

use shoal_config::spec::Dtype;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::dtype;
use super::map::{Map, Order, Run};

/// Values read, converted and written at a time.
const STRETCH: u64 = 1 << 16;
/// Values of a band: 64 MiB.
const BAND: u64 = 1 << 24;

/// Gives elements of a block's weights.
pub(crate) type Read<'r> = &'r mut dyn FnMut(BlockId, Interval, &mut [f32]) -> io::Result<()>;

/// Writes one of their tensors, row-major. Rows that are nobody's are zero.
pub(crate) fn tensor(map: &Map, tensor: usize, dtype: Dtype, read: Read<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut runs: Vec<&Run> = map.runs_of(tensor).collect();
    runs.sort_by_key(|run| run.at);
    let elements = map.tensors[tensor].elements();
    if runs.iter().any(|run| run.order == Order::Transposed) {
        return transposed(&runs, (elements, map.tensors[tensor].columns()), dtype, read, out);
    }
    let mut at = 0;
    for run in runs {
        zeros(run.at * run.columns - at, dtype, out)?;
        straight(run, dtype, read, out)?;
        at = (run.at + run.rows()) * run.columns;
    }
    zeros(elements - at, dtype, out)
}

/// A tensor of so many elements and columns of which every column is a row of ours.
fn transposed(
    runs: &[&Run],
    (elements, width): (u64, u64),
    dtype: Dtype,
    read: Read<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let height = elements / width;
    let most = (BAND / width).clamp(1, height);
    let mut band = vec![0.0; (most * width) as usize];
    let mut first = 0;
    while first < height {
        let rows = most.min(height - first);
        let band = &mut band[..(rows * width) as usize];
        for run in runs {
            stripe(run, (first, rows), (band, width as usize), read)?;
        }
        values(band, dtype, out)?;
        first += rows;
    }
    Ok(())
}

/// Puts elements `first..first + rows` of every row of a run where they are columns of a band.
fn stripe(run: &Run, (first, rows): (u64, u64), (band, width): (&mut [f32], usize), read: Read<'_>) -> io::Result<()> {
    // Whole rows of ours are read several at a time, unless one alone is long: then no more of it than is wanted.
    let (several, from, len) =
        if run.columns > STRETCH { (1, first, rows) } else { (STRETCH / run.columns, 0, run.columns) };
    let mut ours = vec![0.0; (several.min(run.rows()) * len) as usize];
    let mut row = 0;
    while row < run.rows() {
        let here = several.min(run.rows() - row);
        let ours = &mut ours[..(here * len) as usize];
        let start = run.interval.start + row * run.columns + from;
        read(run.block, Interval::new(start, start + ours.len() as u64), ours)?;
        let column = (run.at + row) as usize;
        let lines = band.chunks_exact_mut(width).zip((first - from) as usize..);
        for (line, at) in lines {
            let theirs = &mut line[column..column + here as usize];
            for (theirs, ours) in theirs.iter_mut().zip(ours.chunks_exact(len as usize)) {
                *theirs = ours[at];
            }
        }
        row += here;
    }
    Ok(())
}

fn straight(run: &Run, dtype: Dtype, read: Read<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut ours = vec![0.0; STRETCH.min(run.interval.len()) as usize];
    let mut at = run.interval.start;
    while at < run.interval.end {
        let part = Interval::new(at, run.interval.end.min(at + STRETCH));
        let ours = &mut ours[..part.len() as usize];
        read(run.block, part, ours)?;
        values(ours, dtype, out)?;
        at = part.end;
    }
    Ok(())
}

fn zeros(elements: u64, dtype: Dtype, out: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), elements * dtype.bytes()), out).map(|_| ())
}

fn values(values: &[f32], dtype: Dtype, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(values.len().min(STRETCH as usize) * dtype.bytes() as usize);
    for stretch in values.chunks(STRETCH as usize) {
        bytes.clear();
        dtype::encode(dtype, stretch, &mut bytes).map_err(|value| {
            let told = format!("a weight is {value:e}, which {} cannot hold; export as fp32", dtype.word());
            io::Error::new(io::ErrorKind::InvalidData, told)
        })?;
        out.write_all(&bytes)?;
    }
    Ok(())
}
