//! Whether a job's model can begin with the weights of a model in files.

use super::ModelSpec;

impl ModelSpec {
    /// Whether this model can begin with the weights of `there`: whatever enters what they compute is the same. Not so the
    /// context, which may be shorter, dropout, and how weights are drawn.
    ///
    /// # Errors
    /// Everything that differs, in words.
    pub fn can_begin_with(&self, there: &Self) -> Result<(), String> {
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

    /// By the job file's keys.
    fn sizes(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Gpt2(m) => vec![
                ("kind", "gpt2".to_owned()),
                ("layers", m.layers.to_string()),
                ("heads", m.heads.to_string()),
                ("width", m.width.to_string()),
                ("vocab", m.vocab.to_string()),
                ("layer_norm_epsilon", m.layer_norm_epsilon.to_string()),
            ],
        }
    }

    /// Positions that there are parameters for; none if positions have no parameters.
    pub(crate) fn most_context(&self) -> Option<u32> {
        match self {
            Self::Gpt2(m) => Some(m.context),
        }
    }

    /// Gives it another context.
    pub(crate) fn set_context(&mut self, context: u32) {
        match self {
            Self::Gpt2(m) => m.context = context,
        }
    }

    /// Gives it another dropout.
    pub(crate) fn set_dropout(&mut self, dropout: f32) {
        match self {
            Self::Gpt2(m) => m.dropout = dropout,
        }
    }
}
