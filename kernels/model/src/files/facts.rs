//! Weights held against what was submitted: whoever reads a part hashes the segments that it lies in.

use shoal_config::hf::SpecialTokens;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::space::Interval;
use shoal_plan::weights::WeightFacts;

use super::{Files, FilesError};

/// Elements read at a time, if a segment has no more.
const STRETCH: u64 = 1 << 22;

impl Files {
    /// Reads all weights once. `read` hears of every so many elements more, and says whether to go on.
    ///
    /// # Errors
    /// A file cannot be read, has a head that is not its token table for a model of one table or a value that is not finite,
    /// or it was stopped.
    pub fn facts(&self, table: &ModelTable, mut read: impl FnMut(u64) -> bool) -> Result<WeightFacts, FilesError> {
        if !self.head_is_tied()? {
            return Err(FilesError::Untied { path: self.path().to_owned() });
        }
        if let Some(row) = self.first_padding()? {
            return Err(FilesError::Padding { path: self.path().to_owned(), row });
        }
        let segment = WeightFacts::segment_of(table);
        let all: Vec<_> = WeightFacts::segments(table, segment).collect();
        let mut digests = Vec::with_capacity(all.len());
        for stretch in stretches(&all, segment) {
            let (block, whole) = stretch;
            let mut values = vec![0.0; whole.len() as usize];
            self.read(block, whole, &mut values)?;
            self.are_finite((block, whole), &values)?;
            digests.extend(values.chunks(segment as usize).map(digest));
            if !read(whole.len()) {
                return Err(FilesError::Stopped);
            }
        }
        let dtypes = (0..self.map.tensors.len()).map(|tensor| self.place(tensor).dtype).collect();
        let dir = Some(self.path()).filter(|path| path.is_dir());
        let special = dir.map(SpecialTokens::of_files).unwrap_or_default();
        Ok(WeightFacts { segment, digests, dtypes, padded_vocab: self.padded_vocab(), special })
    }

    /// No step could be made from values that are not finite, and each would be skipped.
    fn are_finite(&self, (block, interval): (BlockId, Interval), values: &[f32]) -> Result<(), FilesError> {
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let element = Interval::new(interval.start + at as u64, interval.start + at as u64 + 1);
        let tensor = self.map.runs_in(block, element).first().map(|run| self.map.tensors[run.tensor].name.clone());
        let tensor = tensor.expect("MP-1 (a permutation)");
        Err(FilesError::NotFinite { path: self.path().to_owned(), tensor, found: values[at] })
    }

    /// Writes the weights of `interval` of a block, if they are what was submitted.
    ///
    /// # Errors
    /// A file cannot be read, or has changed.
    ///
    /// # Panics
    /// If `out` is not as long as the interval.
    pub fn read_submitted(
        &self,
        table: &ModelTable,
        facts: &WeightFacts,
        (block, interval): (BlockId, Interval),
        out: &mut [f32],
    ) -> Result<(), FilesError> {
        assert_eq!(interval.len(), out.len() as u64, "FI-2 (one element of output each)");
        let changed = |at: Interval| FilesError::Changed { path: self.path().to_owned(), at: format!("{block} {at}") };
        let segments: Vec<_> = facts.around(table, block, interval).collect();
        let mut done = interval.start;
        for part in segments.chunks((STRETCH / facts.segment.max(1)).max(1) as usize) {
            let whole = Interval::new(part[0].0.start, part[part.len() - 1].0.end);
            let mut values = vec![0.0; whole.len() as usize];
            self.read(block, whole, &mut values)?;
            for (segment, submitted) in part {
                let range = (segment.start - whole.start) as usize..(segment.end - whole.start) as usize;
                if digest(&values[range]) != *submitted {
                    return Err(changed(*segment));
                }
            }
            let Some(wanted) = whole.intersection(interval) else { continue };
            let from = (wanted.start - whole.start) as usize..(wanted.end - whole.start) as usize;
            let to = (wanted.start - interval.start) as usize..(wanted.end - interval.start) as usize;
            out[to].copy_from_slice(&values[from]);
            done = wanted.end;
        }
        if done == interval.end { Ok(()) } else { Err(changed(Interval::new(done, interval.end))) }
    }
}

/// Segments joined, as long as a stretch has room for them.
fn stretches(segments: &[(BlockId, Interval)], segment: u64) -> Vec<(BlockId, Interval)> {
    let most = STRETCH.max(segment);
    let mut joined: Vec<(BlockId, Interval)> = Vec::new();
    for (block, interval) in segments {
        match joined.last_mut() {
            Some((last, whole)) if last == block && interval.end - whole.start <= most => whole.end = interval.end,
            Some(_) | None => joined.push((*block, *interval)),
        }
    }
    joined
}

fn digest(values: &[f32]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for stretch in values.chunks(1 << 14) {
        let bytes: Vec<u8> = stretch.iter().flat_map(|x| x.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    Digest(*hasher.finalize().as_bytes())
}
