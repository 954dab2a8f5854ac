//! Their tensors put together from ours, as a stream.
//!
//! * FI-3 (bounded): of a tensor, however large, at most [`turned::BAND`] values are in memory at once.
//! * FI-5 (written once): every element of ours is read once.

mod aside;
mod error;
mod turned;

use std::error::Error;
use std::io::{self, Write};

use shoal_config::spec::Dtype;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

pub use aside::Aside;
pub use error::{AsideError, Unfit, WriteError};

use super::dtype;
use super::map::{Map, Order, Run, Tensor};

/// Values read, converted and written at a time.
const STRETCH: u64 = 1 << 16;

/// Gives elements of a block's weights.
pub(crate) type Read<'r, E> = &'r mut dyn FnMut(BlockId, Interval, &mut [f32]) -> Result<(), E>;

/// Where a file goes.
pub struct Destination<'d> {
    /// Takes it from its first byte to its last.
    pub out: &'d mut dyn Write,
    /// There a tensor that is turned and too large for memory is put together, in a file without a name.
    pub aside: Aside<'d>,
}

/// Writes one of their tensors, row-major. Rows that are nobody's are zero.
pub(crate) fn tensor<E: Error + 'static>(
    map: &Map,
    tensor: usize,
    dtype: Dtype,
    read: Read<'_, E>,
    target: &mut Destination<'_>,
) -> Result<(), WriteError<E>> {
    let mut runs: Vec<&Run> = map.runs_of(tensor).collect();
    runs.sort_by_key(|run| run.at);
    let form = Form { tensor: &map.tensors[tensor], dtype };
    if runs.iter().any(|run| run.order == Order::Transposed) {
        return turned::write(&runs, form, turned::BAND, read, target);
    }
    let out = &mut *target.out;
    let mut at = 0;
    for run in runs {
        zeros(run.at * run.columns - at, dtype, out)?;
        straight(run, form, read, out)?;
        at = (run.at + run.rows()) * run.columns;
    }
    zeros(form.tensor.elements() - at, dtype, out)
}

fn straight<E: Error + 'static>(
    run: &Run,
    form: Form<'_>,
    read: Read<'_, E>,
    out: &mut dyn Write,
) -> Result<(), WriteError<E>> {
    let mut ours = vec![0.0; STRETCH.min(run.interval.len()) as usize];
    let mut at = run.interval.start;
    while at < run.interval.end {
        let part = Interval::new(at, run.interval.end.min(at + STRETCH));
        let ours = &mut ours[..part.len() as usize];
        read(run.block, part, ours).map_err(WriteError::Read)?;
        form.values(ours, out)?;
        at = part.end;
    }
    Ok(())
}

fn zeros<E: Error + 'static>(elements: u64, dtype: Dtype, out: &mut dyn Write) -> Result<(), WriteError<E>> {
    let zeros = &mut io::Read::take(io::repeat(0), elements * dtype.bytes());
    io::copy(zeros, out).map(|_| ()).map_err(WriteError::Out)
}

/// What a tensor is written as.
#[derive(Clone, Copy)]
struct Form<'m> {
    tensor: &'m Tensor,
    dtype: Dtype,
}

impl Form<'_> {
    /// Appends the bytes of values.
    fn encode(&self, values: &[f32], bytes: &mut Vec<u8>) -> Result<(), Unfit> {
        let Self { tensor, dtype } = self;
        dtype::encode(*dtype, values, bytes).map_err(|value| Unfit::new(&tensor.name, *dtype, value))
    }

    fn values<E: Error + 'static>(&self, values: &[f32], out: &mut dyn Write) -> Result<(), WriteError<E>> {
        let mut bytes = Vec::with_capacity(values.len().min(STRETCH as usize) * self.dtype.bytes() as usize);
        for stretch in values.chunks(STRETCH as usize) {
            bytes.clear();
            self.encode(stretch, &mut bytes)?;
            out.write_all(&bytes).map_err(WriteError::Out)?;
        }
        Ok(())
    }
}
