//! Their tensors put together from ours, as a stream: nobody holds more than one tensor that is turned.

use std::io::{self, Write};

use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::Element;
use super::map::{Map, Order, Run};

/// Values read, converted and written at a time.
const STRETCH: u64 = 1 << 16;

/// Gives elements of a block's weights.
pub(crate) type Read<'r> = &'r mut dyn FnMut(BlockId, Interval, &mut [f32]) -> io::Result<()>;

/// Writes one of their tensors, row-major. Rows that are nobody's are zero.
pub(crate) fn tensor(map: &Map, tensor: usize, kind: Element, read: Read<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut runs: Vec<&Run> = map.runs_of(tensor).collect();
    runs.sort_by_key(|run| run.at);
    let elements = map.tensors[tensor].elements();
    if runs.iter().any(|run| run.order == Order::Turned) {
        let mut theirs = vec![0.0; elements as usize];
        let width = map.tensors[tensor].columns() as usize;
        for run in runs {
            let mut ours = vec![0.0; run.interval.len() as usize];
            read(run.block, run.interval, &mut ours)?;
            for (row, values) in ours.chunks_exact(run.columns as usize).enumerate() {
                for (column, value) in values.iter().enumerate() {
                    theirs[column * width + run.at as usize + row] = *value;
                }
            }
        }
        return values(&theirs, kind, out);
    }
    let mut at = 0;
    for run in runs {
        zeros(run.at * run.columns - at, kind, out)?;
        straight(run, kind, read, out)?;
        at = (run.at + run.rows()) * run.columns;
    }
    zeros(elements - at, kind, out)
}

fn straight(run: &Run, kind: Element, read: Read<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut ours = vec![0.0; STRETCH.min(run.interval.len()) as usize];
    let mut at = run.interval.start;
    while at < run.interval.end {
        let part = Interval::new(at, run.interval.end.min(at + STRETCH));
        let ours = &mut ours[..part.len() as usize];
        read(run.block, part, ours)?;
        values(ours, kind, out)?;
        at = part.end;
    }
    Ok(())
}

fn zeros(elements: u64, kind: Element, out: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), elements * kind.bytes() as u64), out).map(|_| ())
}

fn values(values: &[f32], kind: Element, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(values.len().min(STRETCH as usize) * kind.bytes());
    for stretch in values.chunks(STRETCH as usize) {
        bytes.clear();
        kind.encode(stretch, &mut bytes).map_err(|value| {
            let told = format!("a weight is {value:e}, which {} cannot hold; export as fp32", kind.name());
            io::Error::new(io::ErrorKind::InvalidData, told)
        })?;
        out.write_all(&bytes)?;
    }
    Ok(())
}
