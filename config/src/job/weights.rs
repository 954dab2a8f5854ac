//! `[model] hf`, `llmc` and `init_from`: a model that lies in files.

use std::path::Path;

use crate::document::Found;
use crate::error::ConfigError;
use crate::limits::is_below_one;
use crate::raw::RawModel;
use crate::spec::{InitSpec, ModelSpec};
use crate::{hf, llmc};

/// A model and what it begins with.
pub(super) struct Weights {
    pub(super) model: ModelSpec,
    pub(super) init: InitSpec,
    /// The key that names files, if one does.
    pub(super) named: Option<Found<String>>,
}

/// Keys that name files.
const FILES: [&str; 3] = ["hf", "llmc", "init_from"];
/// Keys that may stand beside files that say the rest.
const BESIDE: [&str; 5] = ["hf", "llmc", "context", "dropout", "attention_dropout"];

/// Finds out the model: from the files that are named, or from what `typed` makes of the keys.
pub(super) fn resolve(
    raw: &RawModel<'_>,
    base_dir: &Path,
    typed: impl FnOnce(&RawModel<'_>) -> Result<ModelSpec, ConfigError>,
) -> Result<Weights, ConfigError> {
    let named = [&raw.hf, &raw.llmc, &raw.init_from];
    let mut given = named.into_iter().zip(FILES).filter_map(|(found, key)| Some((found.as_ref()?, key)));
    let Some((named, key)) = given.next() else {
        return Ok(Weights { model: typed(raw)?, init: InitSpec::Seed, named: None });
    };
    if let Some((second, other)) = given.next() {
        return Err(second.conflict(format!("model.{key} and model.{other} cannot both say what the job begins with")));
    }
    let path = base_dir.join(&named.value);
    let init =
        if key == "llmc" || (key == "init_from" && path.is_file()) { InitSpec::LlmC(path) } else { InitSpec::Hf(path) };
    if let InitSpec::Hf(path) = &init
        && !path.is_dir()
    {
        let there = if path.exists() { "that is a file" } else { "there is no such directory" };
        return Err(named.conflict(format!(
            "{there}; model.{key} takes a directory on this machine with config.json and model.safetensors, and nothing is downloaded"
        )));
    }
    let there = |dropout| model_of(&init, dropout).map_err(|problem| named.conflict(problem));
    let model = if key == "init_from" {
        let model = typed(raw)?;
        let there = there(Some(model.dropout()))?;
        model.can_begin_with(&there).map_err(|problem| named.conflict(problem))?;
        model
    } else {
        let there = there(raw.dropout.as_ref().map(|found| found.value as f32))?;
        if let Some(other) = raw.section.other_than(&BESIDE) {
            return Err(other.conflict(format!(
                "model.{key} says it already; only context and dropout (attention_dropout of a Llama) may stand beside it (model.init_from takes sizes too)"
            )));
        }
        beside(raw, there)?
    };
    Ok(Weights { model, init, named: Some(named.clone()) })
}

/// The model that lies in files, with the dropout that the job says, if it does and they do not say one.
///
/// # Errors
/// What is there instead, in words.
fn model_of(init: &InitSpec, dropout: Option<f32>) -> Result<ModelSpec, String> {
    match init {
        InitSpec::Seed => Err("no files are named".to_owned()),
        InitSpec::Hf(dir) => hf::model_with(dir, dropout).map_err(|error| crate::error::chain(&error)),
        InitSpec::LlmC(path) => llmc::model_of(path),
    }
}

/// The model with what stands beside its files.
fn beside(raw: &RawModel<'_>, there: ModelSpec) -> Result<ModelSpec, ConfigError> {
    let mut model = there;
    if let Some(context) = &raw.context {
        let most = *crate::limits::CONTEXT.end();
        let most = model.most_context().map_or(most, |there| most.min(u64::from(there)));
        if !(1..=most).contains(&context.value) {
            return Err(context.refuse(format!("a whole number from 1 to {most}")));
        }
        model.set_context(context.value as u32);
    }
    if let Some(dropout) = &raw.dropout {
        if !is_below_one(dropout.value) {
            return Err(dropout.refuse(crate::limits::BELOW_ONE));
        }
        match model.as_gpt2_mut() {
            Some(model) => model.dropout = dropout.value as f32,
            None => return Err(dropout.refuse("left out, because kind = \"llama\" has attention_dropout alone")),
        }
    }
    if let Some(dropout) = &raw.attention_dropout {
        if !is_below_one(dropout.value) {
            return Err(dropout.refuse(crate::limits::BELOW_ONE));
        }
        match model.as_llama_mut() {
            Some(model) => model.attention_dropout = dropout.value as f32,
            None => return Err(dropout.refuse("left out, because kind = \"gpt2\" has one key, dropout, for all of it")),
        }
    }
    Ok(model)
}
