//! A tensor of theirs whose columns are rows of ours.
//!
//! As many of their columns as memory takes, from the first row to the last, are put together from whole rows of ours: a band. If
//! that is not all of them, each row of a band goes to its place in a file on a disk, which is read from end to end when all bands
//! are in it.
//!
//! FI-6 (every column): the runs of a turned tensor have all columns of it. So no value of the band before shows in a band.

use std::error::Error;
use std::io;
use std::ops::Range;

use shoal_plan::space::Interval;

use super::aside::Reserved;
use super::{AsideError, Destination, Form, Read, Run, STRETCH, WriteError};

/// Values of a band: 64 MiB.
pub(super) const BAND: u64 = 1 << 24;

/// Writes a tensor; a band has so many values.
///
/// # Panics
/// If the runs are not FI-6.
pub(super) fn write<E: Error + 'static>(
    runs: &[&Run],
    form: Form<'_>,
    band: u64,
    read: Read<'_, E>,
    target: &mut Destination<'_>,
) -> Result<(), WriteError<E>> {
    let (elements, width) = (form.tensor.elements(), form.tensor.columns());
    assert_eq!(runs.iter().map(|run| run.rows()).sum::<u64>(), width, "FI-6 (every column)");
    let height = elements / width;
    let most = (band / height).clamp(1, width);
    let mut values = vec![0.0; (most * height) as usize];
    if most == width {
        columns(runs, 0..width, &mut values, read)?;
        return form.values(&values, target.out);
    }
    let bytes = elements * form.dtype.bytes();
    let failed = |source| AsideError::new(&form.tensor.name, bytes, target.aside, source);
    let mut file = target.aside.reserve(bytes).map_err(failed)?;
    let mut first = 0;
    while first < width {
        let band = first..width.min(first + most);
        let values = &mut values[..((band.end - band.start) * height) as usize];
        columns(runs, band.clone(), values, read)?;
        scatter(values, (&band, width), form, |bytes, at| file.put(bytes, at).map_err(failed))?;
        first = band.end;
    }
    drop(values);
    file.rewind().map_err(failed)?;
    drain(&mut file, target.out, failed)
}

/// Puts columns of theirs together, row-major.
fn columns<E: Error + 'static>(
    runs: &[&Run],
    band: Range<u64>,
    values: &mut [f32],
    read: Read<'_, E>,
) -> Result<(), WriteError<E>> {
    let width = (band.end - band.start) as usize;
    let mut buffer = Vec::new();
    for run in runs {
        let (mut column, end) = (run.at.max(band.start), (run.at + run.rows()).min(band.end));
        while column < end {
            // Several rows of ours at a time, or a part of one that is long by itself.
            let several = (STRETCH / run.columns).clamp(1, end - column);
            let left = (column - band.start) as usize;
            let mut lines = values.chunks_exact_mut(width);
            let mut at = 0;
            while at < run.columns {
                let len = STRETCH.min(run.columns - at);
                buffer.resize((several * len) as usize, 0.0);
                let start = run.interval.start + (column - run.at) * run.columns + at;
                let interval = Interval::new(start, start + buffer.len() as u64);
                read(run.block, interval, &mut buffer).map_err(WriteError::Read)?;
                for (i, line) in lines.by_ref().take(len as usize).enumerate() {
                    let theirs = &mut line[left..left + several as usize];
                    for (theirs, ours) in theirs.iter_mut().zip(buffer.chunks_exact(len as usize)) {
                        *theirs = ours[i];
                    }
                }
                at += len;
            }
            column += several;
        }
    }
    Ok(())
}

/// Gives every row of a band to `put`, with its place among the bytes of the tensor.
fn scatter<E: Error + 'static>(
    values: &[f32],
    (band, width): (&Range<u64>, u64),
    form: Form<'_>,
    put: impl Fn(&[u8], u64) -> Result<(), AsideError>,
) -> Result<(), WriteError<E>> {
    let mut bytes = Vec::new();
    for (row, line) in (0..).zip(values.chunks_exact((band.end - band.start) as usize)) {
        bytes.clear();
        form.encode(line, &mut bytes)?;
        put(&bytes, (row * width + band.start) * form.dtype.bytes())?;
    }
    Ok(())
}

/// Copies a file to where it goes, from here on.
fn drain<E: Error + 'static>(
    file: &mut Reserved,
    out: &mut dyn io::Write,
    failed: impl Fn(io::Error) -> AsideError,
) -> Result<(), WriteError<E>> {
    let mut buffer = vec![0; 4 * STRETCH as usize];
    loop {
        match file.read(&mut buffer).map_err(&failed)? {
            0 => return Ok(()),
            read => out.write_all(&buffer[..read]).map_err(WriteError::Out)?,
        }
    }
}

#[cfg(test)]
mod tests;
