//! A tensor of theirs whose columns are rows of ours.
//!
//! As many of their columns as memory takes, from the first row to the last, are put together from whole rows of ours: a stroke. If
//! that is not all of them, each row of a stroke goes to its place in a file on a disk, which is read from end to end when all
//! strokes are in it.

use std::error::Error;
use std::fs::File;
use std::io::{self, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use shoal_plan::space::Interval;

use super::{Form, NoRoom, Read, Run, STRETCH, Target, WriteError};

/// Values of a stroke: 64 MiB.
pub(super) const STROKE: u64 = 1 << 24;

/// Writes a tensor of which every column is in one of the runs; a stroke has so many values.
pub(super) fn write<E: Error + 'static>(
    runs: &[&Run],
    form: Form<'_>,
    stroke: u64,
    read: Read<'_, E>,
    target: &mut Target<'_>,
) -> Result<(), WriteError<E>> {
    let (elements, width) = (form.tensor.elements(), form.tensor.columns());
    let height = elements / width;
    let most = (stroke / height).clamp(1, width);
    let mut values = vec![0.0; (most * height) as usize];
    if most == width {
        columns(runs, 0..width, &mut values, read)?;
        return form.values(&values, target.out);
    }
    let no_room = |source| NoRoom {
        tensor: form.tensor.name.clone(),
        bytes: elements * form.dtype.bytes(),
        dir: target.aside.to_owned(),
        source,
    };
    let mut file = tempfile::tempfile_in(target.aside).map_err(no_room)?;
    let mut first = 0;
    while first < width {
        let stroke = first..width.min(first + most);
        let values = &mut values[..((stroke.end - stroke.start) * height) as usize];
        columns(runs, stroke.clone(), values, read)?;
        scatter(values, (&stroke, width), form, |bytes, at| file.write_all_at(bytes, at).map_err(no_room))?;
        first = stroke.end;
    }
    drop(values);
    file.rewind().map_err(no_room)?;
    drain(&mut file, target, no_room)
}

/// Puts columns of theirs together, row-major.
fn columns<E: Error + 'static>(
    runs: &[&Run],
    stroke: Range<u64>,
    values: &mut [f32],
    read: Read<'_, E>,
) -> Result<(), WriteError<E>> {
    let width = (stroke.end - stroke.start) as usize;
    let mut buffer = Vec::new();
    for run in runs {
        let (mut column, end) = (run.at.max(stroke.start), (run.at + run.rows()).min(stroke.end));
        while column < end {
            // Several rows of ours at a time, or a part of one that is long by itself.
            let several = (STRETCH / run.columns).clamp(1, end - column);
            let left = (column - stroke.start) as usize;
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

/// Gives every row of a stroke to `put`, with its place among the bytes of the tensor.
fn scatter<E: Error + 'static>(
    values: &[f32],
    (stroke, width): (&Range<u64>, u64),
    form: Form<'_>,
    put: impl Fn(&[u8], u64) -> Result<(), NoRoom>,
) -> Result<(), WriteError<E>> {
    let mut bytes = Vec::new();
    for (row, line) in (0..).zip(values.chunks_exact((stroke.end - stroke.start) as usize)) {
        bytes.clear();
        form.encode(line, &mut bytes)?;
        put(&bytes, (row * width + stroke.start) * form.dtype.bytes())?;
    }
    Ok(())
}

/// Copies a file to where it goes, from here on.
fn drain<E: Error + 'static>(
    file: &mut File,
    target: &mut Target<'_>,
    no_room: impl Fn(io::Error) -> NoRoom,
) -> Result<(), WriteError<E>> {
    let mut buffer = vec![0; 4 * STRETCH as usize];
    loop {
        match io::Read::read(file, &mut buffer).map_err(&no_room)? {
            0 => return Ok(()),
            read => target.out.write_all(&buffer[..read]).map_err(WriteError::Out)?,
        }
    }
}

#[cfg(test)]
mod tests;
