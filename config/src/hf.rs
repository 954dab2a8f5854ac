//! Hugging Face's `config.json`: which model lies in a directory. What it asks for and nobody here computes is refused by
//! name, so that a model never quietly becomes another one.

mod llama;
mod tokens;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::regular;
use crate::spec::{Gpt2Spec, ModelSpec};

pub use tokens::SpecialTokens;

/// Longest file that is read.
const MOST: u64 = 1 << 20;

/// Why a directory's model cannot be trained.
#[derive(Debug, thiserror::Error)]
pub enum HfError {
    /// No configuration.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Not a JSON object.
    #[error("{} is no JSON object", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// Another model than is wanted.
    #[error("by {}, {wrong}", path.display())]
    Sizes {
        /// The file.
        path: PathBuf,
        /// What differs.
        wrong: String,
    },
    /// A key says what nobody here computes.
    #[error("in {}, {key} is {found}; {allowed}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What it may be.
        allowed: String,
    },
}

/// Whether the model in `dir` is one that `model` can begin with.
///
/// # Errors
/// As [`model_of`], or what differs.
pub fn check(dir: &Path, model: &ModelSpec) -> Result<(), HfError> {
    let there = model_with(dir, Some(model.dropout()))?;
    model.can_begin_with(&there).map_err(|wrong| HfError::Sizes { path: dir.join("config.json"), wrong })
}

/// The model whose `config.json` lies in `dir`.
///
/// # Errors
/// There is none, or it asks for something that is not computed here.
pub fn model_of(dir: &Path) -> Result<ModelSpec, HfError> {
    model_with(dir, None)
}

/// The same, where the job may have said which `dropout` is wanted of a GPT-2, whatever the configuration says.
pub(crate) fn model_with(dir: &Path, dropout: Option<f32>) -> Result<ModelSpec, HfError> {
    let path = dir.join("config.json");
    Config { path: &path, keys: &object(&path)?, dropout }.model()
}

/// The JSON object in a file.
fn object(path: &Path) -> Result<Map<String, Value>, HfError> {
    let failed = |source| HfError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    regular::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text)).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|source| HfError::Json { path: path.to_owned(), source })
}

/// A configuration and where it is from.
struct Config<'c> {
    path: &'c Path,
    keys: &'c Map<String, Value>,
    dropout: Option<f32>,
}

impl Config<'_> {
    fn model(&self) -> Result<ModelSpec, HfError> {
        const KNOWN: &str = "\"gpt2\" and \"llama\" can be trained";
        match self.keys.get("model_type").and_then(Value::as_str) {
            Some("gpt2") => self.gpt2(),
            Some("llama") => self.llama(),
            Some(_) | None => Err(self.wrong("model_type", KNOWN)),
        }
    }

    fn gpt2(&self) -> Result<ModelSpec, HfError> {
        self.one_of("activation_function", &["gelu_new", "gelu_pytorch_tanh"])?;
        for (key, value) in [
            ("scale_attn_weights", true),
            ("scale_attn_by_inverse_layer_idx", false),
            ("reorder_and_upcast_attn", false),
            ("add_cross_attention", false),
        ] {
            self.only(key, value)?;
        }
        let width = self.size("n_embd")?;
        match self.keys.get("n_inner") {
            None | Some(Value::Null) => {}
            Some(inner) if inner.as_u64() == Some(4 * u64::from(width)) => {}
            Some(_) => return Err(self.wrong("n_inner", "null, four times n_embd, is computed")),
        }
        Ok(ModelSpec::Gpt2(Gpt2Spec {
            layers: self.size("n_layer")?,
            heads: self.size("n_head")?,
            width,
            context: self.size("n_positions")?,
            vocab: self.size("vocab_size")?,
            dropout: self.dropout()?,
            layer_norm_epsilon: self.real("layer_norm_epsilon", 1e-5)?,
            init_range: self.real("initializer_range", 0.02)?,
            bias: true,
            tied_head: self.switch("tie_word_embeddings", true)?,
        }))
    }

    /// The one probability of a GPT-2: the job's, if it says one, else that of all three keys.
    fn dropout(&self) -> Result<f32, HfError> {
        const ONE: &str = "one probability for resid_pdrop, embd_pdrop and attn_pdrop is computed; dropout = X in [model], \
                           such as 0.0, says which";
        if let Some(asked) = self.dropout {
            return Ok(asked);
        }
        let dropout = self.real("resid_pdrop", 0.1)?;
        for key in ["embd_pdrop", "attn_pdrop"] {
            if self.real(key, 0.1)? != dropout {
                return Err(self.wrong(key, ONE));
            }
        }
        Ok(dropout)
    }

    /// A size, which has no default.
    fn size(&self, key: &str) -> Result<u32, HfError> {
        let found = self.keys.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        found.filter(|n| *n > 0).ok_or_else(|| self.wrong(key, "a whole number from 1 to 4294967295 is needed"))
    }

    fn real(&self, key: &str, default: f64) -> Result<f32, HfError> {
        let found = self.keys.get(key).map_or(Some(default), Value::as_f64);
        found.map(|x| x as f32).ok_or_else(|| self.wrong(key, "a number is needed"))
    }

    /// A switch, and where it is if it is not given.
    fn switch(&self, key: &str, default: bool) -> Result<bool, HfError> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(found)) => Ok(*found),
            Some(_) => Err(self.wrong(key, "true or false is needed")),
        }
    }

    /// A switch that has to be where it is without it.
    fn only(&self, key: &str, value: bool) -> Result<(), HfError> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Bool(found)) if *found == value => Ok(()),
            Some(_) => Err(self.wrong(key, &format!("{value} is computed"))),
        }
    }

    /// A word, one of those that mean the same.
    fn one_of(&self, key: &str, words: &[&str]) -> Result<(), HfError> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(found)) if words.contains(&found.as_str()) => Ok(()),
            Some(_) => Err(self.wrong(key, &format!("{} is computed", words.join(" or ")))),
        }
    }

    fn wrong(&self, key: &str, allowed: &str) -> HfError {
        let found = self.keys.get(key).map_or("not there".to_owned(), ToString::to_string);
        HfError::Key { path: self.path.to_owned(), key: key.to_owned(), found, allowed: allowed.to_owned() }
    }
}

#[cfg(test)]
mod tests;
