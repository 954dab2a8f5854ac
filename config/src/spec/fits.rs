//! Whether a job's model can begin with the weights of a model in files.

use super::{ModelSpec, RopeScaling};

impl ModelSpec {
    /// Whether this model can begin with the weights of `there`: whatever enters what they compute is the same. Not so the
    /// context, which may be shorter (of a model without a table of positions, longer), dropout, and how weights are drawn.
    ///
    /// # Errors
    /// Everything that differs, in words.
    pub fn can_begin_with(&self, there: &Self) -> Result<(), String> {
        if self.kind() != there.kind() {
            return Err(format!("its kind is {}, and the job's {}", there.kind(), self.kind()));
        }
        let mut wrong: Vec<String> = there
            .sizes()
            .into_iter()
            .zip(self.sizes())
            .filter(|(there, job)| there != job)
            .map(|((key, there), (_, job))| format!("its {key} is {there}, and the job's {job}"))
            .collect();
        if let Some(most) = there.most_context().filter(|most| self.context() > *most) {
            wrong.push(format!("it has {most} positions, and the job's context is {}", self.context()));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// As a job file names the family.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gpt2(_) => "gpt2",
            Self::Llama(_) => "llama",
        }
    }

    /// By the job file's keys.
    fn sizes(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Gpt2(m) => vec![
                ("layers", m.layers.to_string()),
                ("heads", m.heads.to_string()),
                ("width", m.width.to_string()),
                ("vocab", m.vocab.to_string()),
                ("layer_norm_epsilon", m.layer_norm_epsilon.to_string()),
                ("bias", m.bias.to_string()),
                ("tied_head", m.tied_head.to_string()),
            ],
            Self::Llama(m) => vec![
                ("layers", m.layers.to_string()),
                ("heads", m.heads.to_string()),
                ("kv_heads", m.kv_heads.to_string()),
                ("head_size", m.head_size.to_string()),
                ("width", m.width.to_string()),
                ("inner", m.inner.to_string()),
                ("vocab", m.vocab.to_string()),
                ("norm_epsilon", m.norm_epsilon.to_string()),
                ("rope_theta", m.rope.theta.to_string()),
                ("rope_scaling", in_words(m.rope.scaling)),
                ("tied_head", m.tied_head.to_string()),
                ("attention_bias", m.attention_bias.to_string()),
                ("mlp_bias", m.mlp_bias.to_string()),
            ],
        }
    }

    /// Positions that there are parameters for; none if positions have no parameters.
    pub(crate) fn most_context(&self) -> Option<u32> {
        match self {
            Self::Gpt2(m) => Some(m.context),
            Self::Llama(_) => None,
        }
    }

    /// Gives it another context.
    pub(crate) fn set_context(&mut self, context: u32) {
        match self {
            Self::Gpt2(m) => m.context = context,
            Self::Llama(m) => m.context = context,
        }
    }
}

fn in_words(scaling: RopeScaling) -> String {
    match scaling {
        RopeScaling::None => "none".to_owned(),
        RopeScaling::Linear { factor } => format!("linear by {factor}"),
        RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => format!(
            "llama3 by {factor} between {low_frequency_factor} and {high_frequency_factor} periods in {original_context} positions"
        ),
    }
}
