//! `config.json` of a Llama.

use serde_json::{Map, Value};

use super::{Config, HfError};
use crate::spec::{LlamaSpec, ModelSpec, RopeScaling, RopeSpec};

/// Where rotary positions are described: of later releases, and of earlier ones.
const ROPE: [&str; 2] = ["rope_parameters", "rope_scaling"];

impl Config<'_> {
    pub(super) fn llama(&self) -> Result<ModelSpec, HfError> {
        self.one_of("hidden_act", &["silu", "swish"])?;
        let (heads, width) = (self.size("num_attention_heads")?, self.size("hidden_size")?);
        Ok(ModelSpec::Llama(LlamaSpec {
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: self.size_or("num_key_value_heads", heads)?,
            head_size: self.size_or("head_dim", width / heads)?,
            width,
            inner: self.size("intermediate_size")?,
            context: self.size("max_position_embeddings")?,
            vocab: self.size("vocab_size")?,
            norm_epsilon: self.real("rms_norm_eps", 1e-6)?,
            init_range: self.real("initializer_range", 0.02)?,
            rope: self.rope()?,
            tied_head: self.switch("tie_word_embeddings", false)?,
            attention_bias: self.switch("attention_bias", false)?,
            mlp_bias: self.switch("mlp_bias", false)?,
            attention_dropout: self.real("attention_dropout", 0.0)?,
        }))
    }

    fn rope(&self) -> Result<RopeSpec, HfError> {
        let whole = self.keys.get("rope_theta").map_or(Some(1e4), Value::as_f64);
        let whole = whole.ok_or_else(|| self.wrong("rope_theta", "a number is needed"))?;
        let none = RopeSpec { theta: whole, scaling: RopeScaling::None };
        let mut given = ROPE.iter().filter_map(|key| Some((*key, self.keys.get(*key).filter(|v| !v.is_null())?)));
        let Some((key, found)) = given.next() else { return Ok(none) };
        let scaling = self.scaling(key, found)?;
        if let Some((other, found)) = given.next()
            && self.scaling(other, found)? != scaling
        {
            return Err(self.wrong(other, &format!("{key} says otherwise; take one of them out")));
        }
        let theta = found.get("rope_theta").map_or(Some(whole), Value::as_f64);
        Ok(RopeSpec { theta: theta.ok_or_else(|| self.wrong(key, "a number rope_theta is needed in it"))?, scaling })
    }

    /// What a description of rotary positions says of their scaling.
    fn scaling(&self, key: &str, found: &Value) -> Result<RopeScaling, HfError> {
        let Value::Object(part) = found else { return Err(self.wrong(key, "an object is needed")) };
        let whole = |name: &str| {
            let found = part.get(name).and_then(Value::as_f64).filter(|n| n.fract() == 0.0 && *n >= 1.0);
            let found = found.filter(|n| *n <= f64::from(u32::MAX)).map(|n| n as u32);
            found.ok_or_else(|| {
                self.wrong(key, &format!("a whole number {name} from 1 to {} is needed in it", u32::MAX))
            })
        };
        let number = |name: &str| {
            let found = part.get(name).and_then(Value::as_f64);
            found.ok_or_else(|| self.wrong(key, &format!("a number {name} is needed in it")))
        };
        match kind(part) {
            "default" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: number("factor")? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: number("factor")?,
                low_frequency_factor: number("low_freq_factor")?,
                high_frequency_factor: number("high_freq_factor")?,
                original_context: whole("original_max_position_embeddings")?,
            }),
            _ => Err(self.wrong(key, "rope_type default, linear or llama3 is computed")),
        }
    }

    /// A size, or what it is if it is not given.
    fn size_or(&self, key: &str, default: u32) -> Result<u32, HfError> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(_) => self.size(key),
        }
    }
}

/// Earlier releases say `type`.
fn kind(part: &Map<String, Value>) -> &str {
    let said = part.get("rope_type").or_else(|| part.get("type"));
    said.map_or("default", |said| said.as_str().unwrap_or("?"))
}
