//! `job.toml`: from what was typed to what it means.
//!
//! CF-1 (defaults are allowed values): a key is refused for its value only if somebody typed it.

mod model;
mod numerics;
mod optimizer;
mod preset;
mod rate;
mod weights;

use std::ops::RangeInclusive;
use std::path::Path;

use crate::check::{self, SpecError};
use crate::document::{Document, Found, Section};
use crate::error::ConfigError;
use crate::limits::{self, POSITIVE, is_positive, whole};
use crate::raw::{RawData, RawElastic, RawJob, RawParallel, RawTrain};
use crate::spec::{
    Auto, DataFormat, DataSpec, ElasticSpec, EvalSpec, JobSpec, ModelSpec, OnLoss, ParallelSpec, Schedule,
    TokenizerSpec, TrainSpec, Validation,
};
use crate::value::{Held, OrNone};

/// Reads and resolves a job file. Paths in it are relative to its directory.
///
/// # Errors
/// If it cannot be read, or as [`parse`].
pub fn read(path: &Path) -> Result<JobSpec, ConfigError> {
    crate::document::resolve(path, parse)
}

/// Resolves the text of a job file. `file_name` names it in errors and, without its ending, names a job that has no
/// name; relative paths in it start at `base_dir`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str, file_name: &str, base_dir: &Path) -> Result<JobSpec, ConfigError> {
    let document = Document::parse(text, file_name)?;
    let raw = RawJob::of(&document)?;
    let preset = raw.model.preset.as_ref().map(preset::Preset::named).transpose()?;
    let below = preset.as_ref().map(preset::Preset::document).transpose()?;
    let raw_model = match &below {
        None => raw.model,
        Some(below) => preset::under(raw.model, below)?,
    };
    let stem = || Path::new(file_name).file_stem().map_or("job".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let format = format(&raw.data)?;
    let weights::Weights { model, init, named } = weights::resolve(&raw_model, base_dir, model::model)?;
    if format == DataFormat::Text && !limits::TEXT_VOCAB.contains(&u64::from(model.vocab())) {
        return Err(match &named {
            Some(named) => named.conflict(format!("its vocabulary is {}, and text takes at least 256", model.vocab())),
            None => refuse(&raw_model.vocab, "\"bytes\" or at least 256 for [data] kind \"text\""),
        });
    }
    if let Some(named) = &named {
        check::model::check(&model, format).map_err(|error| named.conflict(of_files(&error)))?;
    }
    let data = data(&raw.data, format, base_dir)?;
    let train = train(&raw.train, &data, u64::from(model.context()))?;
    let parallel = parallel(&raw.parallel, &model, &train)?;
    let spec = JobSpec {
        name: raw.name.map_or_else(stem, |found| found.value),
        seed: raw.seed.map_or(1, |found| found.value),
        elastic: elastic(&raw.elastic)?,
        model,
        init,
        data,
        train,
        parallel,
    };
    spec.check().map_err(|error| error.in_file(file_name))?;
    Ok(spec)
}

/// What is said of a size that files bring.
fn of_files(error: &SpecError) -> String {
    match error.key {
        "model.context" => format!("{error}; context = N beside it trains with N positions"),
        _ => error.to_string(),
    }
}

fn format(raw: &RawData<'_>) -> Result<DataFormat, ConfigError> {
    const ALLOWED: &str = "\"text\" (UTF-8 as bytes), \"nanogpt\" (u16 tokens), \"llmc\" (header 20240520 or 20240801) or \
         \"shards\" (made by `shoalctl data prepare`)";
    let kind = required(&raw.section, "kind", &raw.kind, ALLOWED)?;
    match kind.value.as_str() {
        "text" => Ok(DataFormat::Text),
        "nanogpt" => Ok(DataFormat::NanoGpt),
        "llmc" => Ok(DataFormat::LlmC),
        "shards" => Ok(DataFormat::Shards),
        _ => Err(kind.refuse(ALLOWED)),
    }
}

fn data(raw: &RawData<'_>, format: DataFormat, base_dir: &Path) -> Result<DataSpec, ConfigError> {
    let path = required(&raw.section, "path", &raw.path, "a file or a directory")?;
    let validation = match raw.validation.as_ref().map(|found| (found, &found.value)) {
        None if format == DataFormat::Shards => Validation::Prepared,
        Some((found, _)) if format == DataFormat::Shards => {
            return Err(found.refuse("nothing for shards: `shoalctl data prepare --validation` has set tokens apart"));
        }
        None => Validation::Tail { fraction: 0.1 },
        Some((_, Held::Path(path))) => Validation::Path(base_dir.join(path)),
        Some((_, Held::Share(fraction))) if limits::is_share(*fraction) => Validation::Tail { fraction: *fraction },
        Some((found, Held::Share(_))) => {
            return Err(found.refuse("a share of the tokens from 0 to 0.5, or a path in quotes"));
        }
    };
    let tokenizer = raw.tokenizer.as_ref().map(|found| match TokenizerSpec::named(&found.value) {
        TokenizerSpec::Hf(path) => TokenizerSpec::Hf(base_dir.join(path)),
        known @ (TokenizerSpec::Bytes | TokenizerSpec::Gpt2 | TokenizerSpec::O200k) => known,
    });
    Ok(DataSpec { format, path: base_dir.join(&path.value), tokenizer, validation })
}

fn train(raw: &RawTrain<'_>, data: &DataSpec, context: u64) -> Result<TrainSpec, ConfigError> {
    let steps = within(required(&raw.section, "steps", &raw.steps, &whole(&limits::STEPS))?, &limits::STEPS)?;
    let global_batch = count(&raw.global_batch, 32, limits::GLOBAL_BATCH)?;
    let allowed = limits::micro_batch(global_batch, context);
    let micro_batch = match &raw.micro_batch {
        None => 4.min(*allowed.end()),
        Some(found) if allowed.contains(&found.value) => found.value,
        Some(found) => return Err(found.refuse(limits::micro_batch_words(global_batch, context))),
    };
    let clip = match raw.clip.as_ref().map(|found| (found, found.value)) {
        None => Some(1.0),
        Some((_, OrNone(None))) => None,
        Some((_, OrNone(Some(norm)))) if is_positive(norm) => Some(norm as f32),
        Some((found, OrNone(Some(_)))) => return Err(found.refuse("a number above 0, or \"none\"")),
    };
    let name = optimizer::Name::of(raw)?;
    Ok(TrainSpec {
        steps,
        global_batch: global_batch as u32,
        micro_batch: micro_batch as u32,
        optimizer: optimizer::optimizer(name, raw)?,
        decay: optimizer::decay(&raw.decay)?,
        schedule: rate::schedule(name, raw, steps)?,
        clip,
        numerics: numerics::numerics(raw)?,
        max_skips: Some(count(&raw.max_skips, 10, limits::MAX_SKIPS)? as u32).filter(|most| *most > 0),
        evaluate: evaluate(raw, data, steps)?,
    })
}

fn evaluate(raw: &RawTrain<'_>, data: &DataSpec, steps: u64) -> Result<Option<EvalSpec>, ConfigError> {
    let none_held = data.validation == Validation::Tail { fraction: 0.0 };
    let default = if none_held { 0 } else { steps.div_ceil(10) };
    let every = count(&raw.eval_every, default, 0..=*limits::EVAL_EVERY.end())?;
    let samples = count(&raw.eval_samples, 32, limits::EVAL_SAMPLES)? as u32;
    if none_held && every > 0 {
        return Err(refuse(&raw.eval_every, "0, because data.validation = 0 keeps no tokens for it"));
    }
    Ok((every > 0).then_some(EvalSpec { every, samples }))
}

fn parallel(raw: &RawParallel<'_>, model: &ModelSpec, train: &TrainSpec) -> Result<ParallelSpec, ConfigError> {
    let (global, micro) = (u64::from(train.global_batch), u64::from(train.micro_batch));
    let lanes = auto(&raw.virtual_replicas, 1..=global, "samples in train.global_batch")?;
    let lanes = match lanes {
        Auto::Auto => global.div_ceil(micro).min(8) as u32,
        Auto::Set(lanes) => lanes,
    };
    let schedules = "\"auto\", \"1f1b\" or \"gpipe\"";
    let schedule = match raw.schedule.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "auto" | "1f1b")) => Schedule::OneFOneB,
        Some((_, "gpipe")) => Schedule::GPipe,
        Some((found, _)) => return Err(found.refuse(schedules)),
    };
    Ok(ParallelSpec {
        pipeline: auto(&raw.pipeline, 1..=model.blocks(), "blocks of the model")?,
        data: auto(&raw.data, 1..=u64::from(lanes), "virtual replicas")?,
        virtual_replicas: lanes,
        schedule,
        fixed: match raw.fixed.as_ref().map(|found| found.value) {
            None | Some(Auto::Auto) => false,
            Some(Auto::Set(fixed)) => fixed,
        },
    })
}

fn elastic(raw: &RawElastic<'_>) -> Result<ElasticSpec, ConfigError> {
    let on_loss = match raw.on_loss.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "rollback")) => OnLoss::Rollback,
        Some((_, "halt")) => OnLoss::Halt,
        Some((found, _)) => return Err(found.refuse("\"rollback\" or \"halt\"")),
    };
    Ok(ElasticSpec { redundancy: count(&raw.redundancy, 1, limits::REDUNDANCY)? as u32, on_loss })
}

fn required<'f, T>(
    section: &Section<'_>,
    key: &str,
    found: &'f Option<Found<T>>,
    allowed: &str,
) -> Result<&'f Found<T>, ConfigError> {
    found.as_ref().ok_or_else(|| section.missing(key, allowed))
}

fn within(found: &Found<u64>, allowed: &RangeInclusive<u64>) -> Result<u64, ConfigError> {
    if allowed.contains(&found.value) { Ok(found.value) } else { Err(found.refuse(whole(allowed))) }
}

fn count(found: &Option<Found<u64>>, default: u64, allowed: RangeInclusive<u64>) -> Result<u64, ConfigError> {
    found.as_ref().map_or(Ok(default), |found| within(found, &allowed))
}

fn real(
    found: &Option<Found<f64>>,
    default: f64,
    good: impl Fn(f64) -> bool,
    allowed: &str,
) -> Result<f64, ConfigError> {
    match found {
        None => Ok(default),
        Some(found) if good(found.value) => Ok(found.value),
        Some(found) => Err(found.refuse(allowed.to_owned())),
    }
}

fn positive(found: &Option<Found<f64>>, default: f64) -> Result<f64, ConfigError> {
    real(found, default, is_positive, POSITIVE)
}

fn auto(found: &Option<Found<Auto<u64>>>, allowed: RangeInclusive<u64>, of: &str) -> Result<Auto<u32>, ConfigError> {
    match found.as_ref().map(|found| (found, found.value)) {
        None | Some((_, Auto::Auto)) => Ok(Auto::Auto),
        Some((_, Auto::Set(value))) if allowed.contains(&value) => Ok(Auto::Set(value as u32)),
        Some((found, Auto::Set(_))) => Err(found.refuse(format!("\"auto\" or {} ({of})", whole(&allowed)))),
    }
}

/// The error for a key that only its own value can have broken: it is there, because its default is allowed.
fn refuse<T>(found: &Option<Found<T>>, allowed: impl Into<std::borrow::Cow<'static, str>>) -> ConfigError {
    found.as_ref().expect("CF-1 (defaults are allowed values)").refuse(allowed)
}

#[cfg(test)]
mod tests;
