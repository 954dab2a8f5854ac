//! A job that did not come through a job file (the HTTP interface takes resolved jobs) is held to the same limits.

use std::fmt::Display;

use crate::spec::{Auto, DataFormat, JobSpec, LrShape, ModelSpec, Validation};

/// A value that no job file resolves to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {found}; allowed: {allowed}")]
pub struct SpecError {
    /// Section and key, as in a job file.
    pub key: &'static str,
    /// What is there.
    pub found: String,
    /// What may be.
    pub allowed: String,
}

impl JobSpec {
    /// Whether a job file could say this: [`crate::job::parse`] gives nothing else.
    ///
    /// # Errors
    /// The first value outside its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_model()?;
        self.check_train()?;
        let (train, parallel) = (&self.train, &self.parallel);
        within("parallel.virtual_replicas", parallel.virtual_replicas, 1, train.global_batch)?;
        let blocks = match &self.model {
            ModelSpec::Gpt2(spec) => spec.layers + 2,
        };
        for (key, value, most) in [
            ("parallel.pipeline", parallel.pipeline, blocks),
            ("parallel.data", parallel.data, parallel.virtual_replicas),
        ] {
            if let Auto::Set(value) = value {
                within(key, value, 1, most)?;
            }
        }
        within("elastic.redundancy", self.elastic.redundancy, 0, 15)
    }

    fn check_model(&self) -> Result<(), SpecError> {
        let ModelSpec::Gpt2(model) = &self.model;
        within("model.layers", model.layers, 1, 1024)?;
        within("model.width", model.width, 16, 65_536)?;
        within("model.heads", model.heads, 1, 1024)?;
        within("model.context", model.context, 1, 65_536)?;
        let least_vocab = match self.data.format {
            DataFormat::Text => 256,
            DataFormat::NanoGpt | DataFormat::LlmC => 2,
        };
        within("model.vocab", model.vocab, least_vocab, 1 << 16)?;
        hold("model.width", model.width, model.width.is_multiple_of(16), "a multiple of 16")?;
        hold("model.heads", model.heads, model.width.is_multiple_of(model.heads), "a number that divides model.width")?;
        below_one("model.dropout", model.dropout)?;
        positive("model.layer_norm_epsilon", model.layer_norm_epsilon)?;
        positive("model.init_range", model.init_range)
    }

    fn check_train(&self) -> Result<(), SpecError> {
        let (train, optimizer, schedule) = (&self.train, &self.train.optimizer, &self.train.schedule);
        within("train.steps", train.steps, 1, 1_000_000_000)?;
        within("train.global_batch", train.global_batch, 1, 1 << 20)?;
        within("train.micro_batch", train.micro_batch, 1, train.global_batch)?;
        below_one("train.beta1", optimizer.beta1)?;
        below_one("train.beta2", optimizer.beta2)?;
        positive("train.epsilon", optimizer.epsilon)?;
        let decay = optimizer.weight_decay;
        hold("train.weight_decay", decay, decay >= 0.0 && decay.is_finite(), "a finite number from 0")?;
        positive("train.learning_rate", schedule.peak as f32)?;
        let floor = (0.0..=schedule.peak).contains(&schedule.minimum);
        hold("train.minimum_learning_rate", schedule.minimum, floor, "a number from 0 to train.learning_rate")?;
        within("train.warmup_steps", schedule.warmup, 0, train.steps)?;
        match schedule.shape {
            LrShape::Wsd { decay } => within("train.decay_steps", decay, 0, train.steps - schedule.warmup)?,
            LrShape::Cosine | LrShape::Linear | LrShape::Constant | LrShape::InverseSqrt => {}
        }
        if let Some(norm) = train.clip {
            positive("train.clip", norm)?;
        }
        if let Some(evaluate) = train.evaluate {
            within("train.eval_every", evaluate.every, 1, 1_000_000_000)?;
            within("train.eval_samples", evaluate.samples, 1, 1 << 20)?;
        }
        if let Validation::Tail { fraction } = self.data.validation {
            let share = (0.0..=0.5).contains(&fraction);
            hold("data.validation", fraction, share, "a share of the tokens from 0 to 0.5")?;
            let has_some = fraction > 0.0 || train.evaluate.is_none();
            hold("data.validation", fraction, has_some, "a share above 0, because validation is asked for")?;
        }
        Ok(())
    }
}

fn hold(key: &'static str, found: impl Display, is_good: bool, allowed: &str) -> Result<(), SpecError> {
    if is_good { Ok(()) } else { Err(SpecError { key, found: found.to_string(), allowed: allowed.to_owned() }) }
}

fn within<T: PartialOrd + Display>(key: &'static str, found: T, least: T, most: T) -> Result<(), SpecError> {
    let allowed = format!("a whole number from {least} to {most}");
    let is_good = (&least..=&most).contains(&&found);
    hold(key, found, is_good, &allowed)
}

/// Zero, subnormal, infinite and not-a-number are refused.
fn positive(key: &'static str, found: f32) -> Result<(), SpecError> {
    hold(key, found, found.is_normal() && found > 0.0, "a number above 0 that fits 32 bits")
}

fn below_one(key: &'static str, found: f32) -> Result<(), SpecError> {
    hold(key, found, (0.0..1.0).contains(&found), "a number from 0, below 1")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn good() -> JobSpec {
        crate::job::parse(
            "[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n[data]\nkind = \"text\"\npath = \"a\"\n\
             [train]\nsteps = 20\n",
            "good.toml",
            Path::new("/"),
        )
        .expect("a job file")
    }

    #[test]
    fn what_a_job_file_resolves_to_is_good() {
        assert_eq!(good().check(), Ok(()));
    }

    #[test]
    fn what_no_job_file_says_is_refused_by_its_key() {
        type Break = fn(&mut JobSpec);
        fn model(spec: &mut JobSpec) -> &mut crate::spec::Gpt2Spec {
            let ModelSpec::Gpt2(model) = &mut spec.model;
            model
        }
        let cases: [(&str, Break); 19] = [
            ("model.layers", |s| model(s).layers = 0),
            ("model.layers", |s| model(s).layers = u32::MAX),
            ("model.heads", |s| model(s).heads = 0),
            ("model.heads", |s| model(s).heads = 3),
            ("model.width", |s| model(s).width = 40),
            ("model.context", |s| model(s).context = u32::MAX),
            ("model.vocab", |s| model(s).vocab = 255),
            ("model.init_range", |s| model(s).init_range = f32::INFINITY),
            ("model.dropout", |s| model(s).dropout = f32::NAN),
            ("train.steps", |s| s.train.steps = u64::MAX),
            ("train.global_batch", |s| s.train.global_batch = 0),
            ("train.micro_batch", |s| s.train.micro_batch = 33),
            ("train.learning_rate", |s| s.train.schedule.peak = 1e300),
            ("train.warmup_steps", |s| s.train.schedule.warmup = 21),
            ("train.decay_steps", |s| s.train.schedule.shape = LrShape::Wsd { decay: 1 << 40 }),
            ("train.clip", |s| s.train.clip = Some(0.0)),
            ("data.validation", |s| s.data.validation = Validation::Tail { fraction: 0.0 }),
            ("parallel.data", |s| s.parallel.data = Auto::Set(9)),
            ("elastic.redundancy", |s| s.elastic.redundancy = 16),
        ];
        for (key, break_it) in cases {
            let mut spec = good();
            break_it(&mut spec);
            assert_eq!(spec.check().expect_err(key).key, key);
        }
    }
}
