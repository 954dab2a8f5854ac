//! What is worked on at a time.

use shoal_plan::ids::Digest;

use super::sources::{Source, Use};
use super::{Asked, PrepareError, Validation};
use crate::documents::{BadDocument, Form, Place, Span, cuts, row_groups};
use crate::manifest;

/// Of the way from a request to shards. To be raised with whatever gives a request other tokens, units or shards: rules by which
/// files are cut, versions of the crates that make tokens. An unfinished preparation of another version is not gone on with.
pub(super) const VERSION: u32 = 2;

/// Spans of one or more sources, whose tokens follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) part: Use,
    pub(super) spans: Vec<Span>,
    /// Of the sources; of a table, of the column as it is when it is not compressed.
    pub(super) bytes: u64,
}

/// Everything there is to do.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sources: Vec<Source>,
    pub(super) units: Vec<Unit>,
    /// Of all that the result depends on.
    pub(super) request: Digest,
}

/// Cuts the sources into units of about `unit_bytes`.
pub(super) fn plan(asked: &Asked<'_>, mut sources: Vec<Source>, unit_bytes: u64) -> Result<Plan, PrepareError> {
    let mut units: Vec<Unit> = Vec::new();
    for (index, source) in sources.iter_mut().enumerate() {
        let spans: Vec<(u64, u64, u64)> = match source.form {
            Form::Parquet => {
                let groups = row_groups(&source.path, &asked.reading.field)?;
                groups.into_iter().zip(0..).map(|(bytes, group)| (group, group + 1, bytes)).collect()
            }
            Form::Text | Form::Jsonl => {
                let split_on = asked.reading.split_on.as_deref();
                let form = (source.form, source.bytes);
                let runs = cuts(&source.path, form, split_on, asked.tokenizer.cuts(), unit_bytes)?;
                // A document that is cut where its tokens do not show it, and there not often enough.
                let long = runs.iter().find(|(from, to)| form.0 == Form::Text && to - from > asked.reading.most);
                if let (Some(_), None, None) = (long, split_on, &source.bad) {
                    let what = asked.reading.too_large(source.bytes);
                    source.bad = Some(BadDocument { path: source.path.clone(), place: Place::File, what });
                }
                runs.into_iter().map(|(from, to)| (from, to, to - from)).collect()
            }
        };
        if let Some(bad) = source.bad.clone().filter(|_| !asked.request.skip_bad) {
            return Err(PrepareError::Bad(bad));
        }
        let end = spans.last().map_or(0, |span| span.1);
        for (from, to, bytes) in spans {
            let span = Span { source: index, from, to, last: to == end };
            match units.last_mut() {
                Some(unit) if unit.part == source.part && unit.bytes + bytes <= unit_bytes => {
                    unit.spans.push(span);
                    unit.bytes += bytes;
                }
                Some(_) | None => units.push(Unit { part: source.part, spans: vec![span], bytes }),
            }
        }
    }
    let request = digest(VERSION, asked, &sources, unit_bytes);
    Ok(Plan { sources, units, request })
}

/// What the manifest says of the request.
pub(super) fn options(asked: &Asked<'_>) -> manifest::Options {
    let request = asked.request;
    manifest::Options {
        separate: asked.separate.word().to_owned(),
        field: request.field.clone(),
        split_on: request.split_on.clone(),
        validation: match request.validation {
            Validation::Share(share) => Some(share),
            Validation::Inputs(_) => None,
        },
        shard_tokens: request.shard_tokens,
        skip_bad: request.skip_bad,
    }
}

/// What the manifest says of the sources.
pub(super) fn entries(sources: &[Source]) -> Vec<manifest::Source> {
    let entry = |source: &Source| manifest::Source {
        path: source.path.display().to_string(),
        form: source.form.word().to_owned(),
        part: source.part.word().to_owned(),
        bytes: source.bytes,
        blake3: source.digest.to_hex(),
    };
    sources.iter().map(entry).collect()
}

/// The size of units decides which files an unfinished preparation has, so it is part of the request.
pub(super) fn digest(version: u32, asked: &Asked<'_>, sources: &[Source], unit_bytes: u64) -> Digest {
    let said = (version, asked.tokenizer.facts(), options(asked), entries(sources), unit_bytes);
    Digest::of(&serde_json::to_vec(&said).expect("PR-5 (a request is plain data)"))
}
