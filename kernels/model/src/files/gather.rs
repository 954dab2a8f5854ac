//! Any interval of our space, out of their tensors.

use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::dtype::decode;
use super::map::{Order, Run};
use super::{Files, FilesError, Place};

/// Bytes read at a time.
const STRETCH: u64 = 1 << 20;

/// Columns of theirs that are rows of ours.
#[derive(Clone, Copy)]
struct Columns {
    /// Theirs.
    from: u64,
    to: u64,
    /// Our element that is the first of them in their row 0.
    ours: u64,
}

impl Files {
    /// Writes the weights of `interval` of a block; gaps between parameters become zero.
    ///
    /// # Errors
    /// If a file cannot be read.
    ///
    /// # Panics
    /// If `out` is not as long as the interval.
    pub fn read(&self, block: BlockId, interval: Interval, out: &mut [f32]) -> Result<(), FilesError> {
        assert_eq!(interval.len(), out.len() as u64, "FI-2 (one element of output each)");
        out.fill(0.0);
        let runs = self.map.runs_in(block, interval);
        let mut transposed: Vec<&Run> = Vec::new();
        for run in runs {
            match run.order {
                Order::Straight => self.straight(run, interval, out)?,
                Order::Transposed => transposed.push(run),
            }
        }
        transposed.sort_by_key(|run| run.tensor);
        for runs in transposed.chunk_by(|a, b| a.tensor == b.tensor) {
            self.transposed(runs, interval, out)?;
        }
        Ok(())
    }

    /// Whether a head of its own, if there is one, is the token table, which is the first tensor.
    pub(crate) fn head_is_tied(&self) -> Result<bool, FilesError> {
        let (Some(head), table) = (self.head(), self.place(0)) else { return Ok(true) };
        let elements = self.map.tensors[0].elements();
        let mut at = 0;
        while at < elements {
            let count = (elements - at).min(STRETCH / 4);
            let (mut ours, mut theirs) = (vec![0.0; count as usize], vec![0.0; count as usize]);
            self.values(table, at, &mut ours)?;
            self.values(head, at, &mut theirs)?;
            if ours.iter().zip(&theirs).any(|(a, b)| a.to_bits() != b.to_bits()) {
                return Ok(false);
            }
            at += count;
        }
        Ok(true)
    }

    /// The first row of the token table behind those that are ours that is not zero.
    pub(super) fn first_padding(&self) -> Result<Option<u64>, FilesError> {
        let (table, columns) = (&self.map.tensors[0], self.map.tensors[0].columns());
        let ours = self.map.runs_of(0).map(|run| run.at + run.rows()).max().unwrap_or(0);
        let mut values = vec![0.0; columns as usize];
        for row in ours..table.shape[0] {
            self.values(self.place(0), row * columns, &mut values)?;
            if values.iter().any(|x| x.to_bits() != 0) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Consecutive elements of a tensor.
    fn values(&self, place: &Place, at: u64, out: &mut [f32]) -> Result<(), FilesError> {
        let size = place.dtype.bytes() as usize;
        let mut bytes = Vec::new();
        for (i, stretch) in out.chunks_mut(STRETCH as usize / size).enumerate() {
            bytes.resize(stretch.len() * size, 0);
            let from = at + (i * (STRETCH as usize / size)) as u64;
            self.bytes(place, from * size as u64, &mut bytes)?;
            decode(place.dtype, &bytes, |i, value| stretch[i] = value);
        }
        Ok(())
    }

    fn straight(&self, run: &Run, interval: Interval, out: &mut [f32]) -> Result<(), FilesError> {
        let Some(part) = run.interval.intersection(interval) else { return Ok(()) };
        let theirs = run.at * run.columns + (part.start - run.interval.start);
        let range = (part.start - interval.start) as usize..(part.end - interval.start) as usize;
        self.values(self.place(run.tensor), theirs, &mut out[range])
    }

    /// Rows of ours that are columns of one of their tensors: a band of their rows at a time, of each only the columns wanted.
    fn transposed(&self, runs: &[&Run], interval: Interval, out: &mut [f32]) -> Result<(), FilesError> {
        let Some(first) = runs.first() else { return Ok(()) };
        let (place, tensor) = (self.place(first.tensor), &self.map.tensors[first.tensor]);
        let (height, width, size) = (first.columns, tensor.columns(), place.dtype.bytes());
        let mut columns: Vec<Columns> = runs.iter().filter_map(|run| columns(run, interval)).collect();
        columns.sort_unstable_by_key(|columns| columns.from);
        for group in spans(&columns, width) {
            let (from, to) = (group[0].from, group[group.len() - 1].to);
            let span = to - from;
            let band = if span == width { (STRETCH / (span * size)).clamp(1, height) } else { 1 };
            let mut bytes = vec![0; (band * span * size) as usize];
            let mut row = 0;
            while row < height {
                let rows = band.min(height - row);
                let bytes = &mut bytes[..(rows * span * size) as usize];
                self.bytes(place, (row * width + from) * size, bytes)?;
                for (i, line) in bytes.chunks_exact((span * size) as usize).enumerate() {
                    scatter(place, line, (group, from), (row + i as u64, height), (interval, out));
                }
                row += rows;
            }
        }
        Ok(())
    }
}

/// Puts columns of one of their rows where they are ours.
fn scatter(
    place: &Place,
    line: &[u8],
    (group, from): (&[Columns], u64),
    (row, height): (u64, u64),
    (interval, out): (Interval, &mut [f32]),
) {
    let size = place.dtype.bytes() as usize;
    for columns in group {
        let range = (columns.from - from) as usize * size..(columns.to - from) as usize * size;
        decode(place.dtype, &line[range], |i, value| {
            let ours = columns.ours + i as u64 * height + row;
            if (interval.start..interval.end).contains(&ours) {
                out[(ours - interval.start) as usize] = value;
            }
        });
    }
}

/// The columns that have something of an interval.
fn columns(run: &Run, interval: Interval) -> Option<Columns> {
    let part = run.interval.intersection(interval)?;
    let first = (part.start - run.interval.start) / run.columns;
    let last = (part.end - run.interval.start).div_ceil(run.columns);
    Some(Columns { from: run.at + first, to: run.at + last, ours: run.interval.start + first * run.columns })
}

/// Groups of columns, each to be read at once with what lies between them: little of it.
fn spans(columns: &[Columns], width: u64) -> Vec<&[Columns]> {
    let wanted: u64 = columns.iter().map(|columns| columns.to - columns.from).sum();
    if wanted * 16 >= width * 15 {
        return vec![columns];
    }
    columns.chunk_by(|a, b| a.to == b.from).collect()
}
