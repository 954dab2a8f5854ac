//! Units to tokens, on several threads.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::place::{Count, Place};
use super::units::{Plan, Unit};
use super::{Asked, Phase, PrepareError, Separate, Watch};
use crate::documents::{BadDocument, Piece, Stop, each};
use crate::durable;
use crate::shard::Width;

/// Bytes before a unit's tokens: documents, skipped and tokens as u64.
pub(super) const UNIT_HEADER: u64 = 24;

/// Does `count` pieces of work on threads; results in order. After an error no new piece is begun, and of several errors the
/// first in order counts.
pub(super) fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> Result<T, PrepareError> + Sync,
) -> Result<Vec<T>, PrepareError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T, PrepareError>)>> = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    results.lock().expect("PR-6 (no thread panics with results in hand)").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("PR-6 (no thread panics with results in hand)");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Makes the tokens of all units that are not done; what all came to, and how many were done before.
pub(super) fn tokenize(
    asked: &Asked<'_>,
    plan: &Plan,
    place: &Place,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<(Vec<Count>, u64), PrepareError> {
    watch.phase(Phase::Tokenizing, plan.units.iter().map(|unit| unit.bytes).sum());
    let before = AtomicUsize::new(0);
    let width = Width::of(asked.tokenizer.vocab());
    let counts = on_threads(asked.request.threads, plan.units.len(), stop, |index| {
        let (unit, path) = (&plan.units[index], place.unit(index));
        let count = if path.exists() {
            before.fetch_add(1, Ordering::Relaxed);
            read_count(&path).map_err(PrepareError::file("read", &path))?
        } else {
            let failed = |source| PrepareError::file("write", &path)(source);
            let aside = place.aside(&format!("unit_{index:06}.part"));
            durable::write(&aside, &path, failed, |file| {
                // Without a name unless its bytes are those that were hashed: a name is good for every later run.
                let count = make(asked, plan, unit, width, watch, (file, &failed))?;
                unit.spans.iter().try_for_each(|span| plan.sources[span.source].check(place.out()))?;
                Ok(count)
            })?
        };
        watch.advance(unit.bytes);
        Ok(count)
    })?;
    // Where units begin and end was read too.
    plan.sources.iter().try_for_each(|source| source.check(place.out()))?;
    place.count(&counts)?;
    Ok((counts, before.into_inner() as u64))
}

/// Writes a unit's file; what the system refuses there is an error as `failed` makes it.
fn make(
    asked: &Asked<'_>,
    plan: &Plan,
    unit: &Unit,
    width: Width,
    watch: &dyn Watch,
    (file, failed): (&mut BufWriter<File>, &dyn Fn(io::Error) -> PrepareError),
) -> Result<Count, PrepareError> {
    file.write_all(&[0; UNIT_HEADER as usize]).map_err(failed)?;
    let mut count = Count::default();
    let mut tokens = Vec::new();
    for span in &unit.spans {
        let source = &plan.sources[span.source];
        if let Some(bad) = &source.bad {
            // The document is left out as a whole, and counted where it ends.
            if span.last {
                skip(asked, bad.clone(), &mut count, watch)?;
            }
            continue;
        }
        let mut take = |piece: Result<Piece<'_>, BadDocument>| match piece {
            Ok(piece) => {
                tokens.clear();
                encode(asked, &piece, &mut tokens)?;
                count.documents += u64::from(piece.ends);
                count.tokens += tokens.len() as u64;
                width.write(&tokens, file).map_err(failed)
            }
            Err(bad) => skip(asked, bad, &mut count, watch),
        };
        each(&source.path, source.form, span, &asked.reading, &mut take).map_err(|stop| match stop {
            Stop::Source(error) => error.into(),
            Stop::Taker(error) => error,
        })?;
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    for number in [count.documents, count.skipped, count.tokens] {
        file.write_all(&number.to_le_bytes()).map_err(failed)?;
    }
    Ok(count)
}

fn encode(asked: &Asked<'_>, piece: &Piece<'_>, tokens: &mut Vec<u32>) -> Result<(), PrepareError> {
    let end = asked.tokenizer.end_of_text();
    if asked.separate == Separate::Prepend && piece.begins {
        tokens.extend(end);
    }
    asked.tokenizer.encode(piece.text, tokens)?;
    if asked.separate == Separate::Append && piece.ends {
        tokens.extend(end);
    }
    Ok(())
}

fn skip(asked: &Asked<'_>, bad: BadDocument, count: &mut Count, watch: &dyn Watch) -> Result<(), PrepareError> {
    if !asked.request.skip_bad {
        return Err(PrepareError::Bad(bad));
    }
    watch.skipped(&bad);
    count.skipped += 1;
    Ok(())
}

/// What a finished unit says of itself.
fn read_count(path: &Path) -> io::Result<Count> {
    let mut bytes = [0; UNIT_HEADER as usize];
    File::open(path)?.read_exact(&mut bytes)?;
    let number = |at: usize| u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("PR-7 (three numbers)"));
    Ok(Count { documents: number(0), skipped: number(1), tokens: number(2) })
}
