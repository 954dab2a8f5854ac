//! Tokens of units, one after the other, cut into shards; then the manifest.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::place::{Count, Place};
use super::sources::Use;
use super::units::{Plan, entries, options};
use super::work::{UNIT_HEADER, on_threads};
use super::{Asked, Phase, PrepareError, Validation, Watch};
use crate::durable;
use crate::manifest::{self, Manifest, Part, Shard};
use crate::shard::{self, Width};

/// Names have six digits.
const MOST_SHARDS: u64 = 1_000_000;

/// A shard that is to be: its name, and which of all units' tokens it has.
struct Cut {
    part: Use,
    file: String,
    tokens: Range<u64>,
}

/// Writes what is missing, and says what is there.
pub(super) fn assemble(
    asked: &Asked<'_>,
    plan: &Plan,
    counts: &[Count],
    place: &Place,
    watch: &dyn Watch,
) -> Result<Manifest, PrepareError> {
    let total: u64 = counts.iter().map(|count| count.tokens).sum();
    if total == 0 {
        return Err(PrepareError::Nothing { field: asked.request.field.clone() });
    }
    let width = Width::of(asked.tokenizer.vocab());
    let cuts = cut(asked, plan, counts, total)?;
    watch.phase(Phase::Writing, total);
    let mut stream = Stream { counts, place, width, dropped: (0, 0) };
    for cut in &cuts {
        let (path, length) = (place.out().join(&cut.file), cut.tokens.end - cut.tokens.start);
        // It has its name only since it is whole and durable.
        if !path.exists() {
            let aside = place.aside(&format!("{}.part", cut.file));
            let failed = |source| PrepareError::file("write", &path)(source);
            durable::write(&aside, &path, failed, |file| {
                file.write_all(&shard::header(width, length)).map_err(failed)?;
                stream.copy(cut.tokens.clone(), file).map_err(failed)
            })?;
        }
        stream.drop_before(cut.tokens.end);
        watch.advance(length);
    }
    if let Some(definition) = asked.tokenizer.definition() {
        place.put(manifest::TOKENIZER_FILE, &place.out().join(manifest::TOKENIZER_FILE), definition)?;
    }
    let mut manifest = Manifest::new(&asked.tokenizer.facts(), options(asked), entries(&plan.sources), &plan.request);
    manifest.documents = counts.iter().map(|count| count.documents).sum();
    manifest.skipped = counts.iter().map(|count| count.skipped).sum();
    watch.phase(Phase::Hashing, total);
    let stop = AtomicBool::new(false);
    let digests = on_threads(asked.request.threads, cuts.len(), &stop, |index| {
        let digest = hash(place.out().join(&cuts[index].file))?;
        watch.advance(cuts[index].tokens.end - cuts[index].tokens.start);
        Ok(digest)
    })?;
    for (cut, blake3) in cuts.into_iter().zip(digests) {
        let tokens = cut.tokens.end - cut.tokens.start;
        let part = match cut.part {
            Use::Train => &mut manifest.train,
            Use::Validation => &mut manifest.validation,
        };
        part.tokens += tokens;
        part.shards.push(Shard { file: cut.file, tokens, blake3 });
    }
    place.put(manifest::FILE, &place.out().join(manifest::FILE), &manifest.to_bytes())?;
    Ok(manifest)
}

/// Holds finished shards against their manifest.
pub(super) fn verify(
    place: &Place,
    manifest: &Manifest,
    threads: usize,
    watch: &dyn Watch,
) -> Result<(), PrepareError> {
    let shards: Vec<&Shard> = parts(manifest).into_iter().flat_map(|part| &part.shards).collect();
    watch.phase(Phase::Hashing, shards.iter().map(|shard| shard.tokens).sum());
    on_threads(threads, shards.len(), &AtomicBool::new(false), |index| {
        let path = place.out().join(&shards[index].file);
        watch.advance(shards[index].tokens);
        if path.exists() && hash(path.clone())? == shards[index].blake3 {
            return Ok(());
        }
        Err(PrepareError::Damaged { path, out: place.out().to_owned() })
    })?;
    Ok(())
}

fn parts(manifest: &Manifest) -> [&Part; 2] {
    [&manifest.train, &manifest.validation]
}

fn hash(path: PathBuf) -> Result<String, PrepareError> {
    let mut hasher = blake3::Hasher::new();
    let read = File::open(&path).and_then(|file| hasher.update_reader(file).map(|_| ()));
    read.map_err(PrepareError::file("read", &path))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Which tokens go into which shard.
fn cut(asked: &Asked<'_>, plan: &Plan, counts: &[Count], total: u64) -> Result<Vec<Cut>, PrepareError> {
    let of_use = |part| {
        let units = plan.units.iter().zip(counts).filter(move |(unit, _)| unit.part == part);
        units.map(|(_, count)| count.tokens).sum::<u64>()
    };
    let train = match asked.request.validation {
        // As a job does it that takes the tail of other data.
        Validation::Share(share) => total - ((total as f64 * share).floor() as u64).min(total),
        Validation::Inputs(_) => of_use(Use::Train),
    };
    let size = asked.request.shard_tokens;
    let count = train.div_ceil(size).max((total - train).div_ceil(size));
    if count > MOST_SHARDS {
        return Err(PrepareError::Shards { asked: size, shards: count, tokens: total, most: MOST_SHARDS });
    }
    let shards = |part: Use, prefix: &'static str, tokens: Range<u64>| {
        (0..(tokens.end - tokens.start).div_ceil(size)).map(move |number| {
            let start = tokens.start + number * size;
            Cut { part, file: format!("{prefix}_{number:06}.bin"), tokens: start..tokens.end.min(start + size) }
        })
    };
    Ok(shards(Use::Train, "train", 0..train).chain(shards(Use::Validation, "val", train..total)).collect())
}

/// All units' tokens.
struct Stream<'a> {
    counts: &'a [Count],
    place: &'a Place,
    width: Width,
    /// Units that are removed, and their tokens.
    dropped: (usize, u64),
}

impl Stream<'_> {
    /// Every unit and which tokens it has.
    fn units(&self) -> impl Iterator<Item = (usize, Range<u64>)> {
        let mut at = 0;
        self.counts.iter().enumerate().map(move |(index, count)| {
            at += count.tokens;
            (index, at - count.tokens..at)
        })
    }

    fn copy(&self, tokens: Range<u64>, out: &mut impl Write) -> io::Result<()> {
        for (index, unit) in self.units() {
            let (from, to) = (unit.start.max(tokens.start), unit.end.min(tokens.end));
            if from >= to {
                continue;
            }
            let mut file = File::open(self.place.unit(index))?;
            file.seek(SeekFrom::Start(UNIT_HEADER + (from - unit.start) * self.width.bytes()))?;
            let bytes = (to - from) * self.width.bytes();
            if io::copy(&mut file.take(bytes), out)? != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Removes units that no later shard needs. What cannot be removed now goes at the end with everything else.
    fn drop_before(&mut self, token: u64) {
        let (mut index, mut end) = self.dropped;
        while let Some(count) = self.counts.get(index).filter(|count| end + count.tokens <= token) {
            if count.tokens > 0 {
                let _ = fs::remove_file(self.place.unit(index));
            }
            (index, end) = (index + 1, end + count.tokens);
        }
        self.dropped = (index, end);
    }
}
