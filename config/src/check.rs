//! A job that did not come through a job file (the HTTP interface takes resolved jobs) is held to the same limits.

pub(crate) mod model;
mod optimizer;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::error::{ConfigError, Place, Problem};
use crate::limits::{self, BELOW_ONE, POSITIVE};
use crate::spec::{
    Auto, DataFormat, InitSpec, JobSpec, LrShape, LrSpec, OptimizerSpec, Precision, TokenizerSpec, Validation,
};

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

impl SpecError {
    /// Of a job file as a whole.
    pub(crate) fn in_file(self, file: &str) -> ConfigError {
        let Self { key, found, allowed } = self;
        ConfigError::At {
            place: Place { file: file.to_owned(), line: None },
            problem: Problem::Value { key: key.to_owned(), found, allowed },
        }
    }
}

impl JobSpec {
    /// Whether a job file could say this: [`crate::job::parse`] gives nothing else.
    ///
    /// # Errors
    /// The first value outside its limits.
    pub fn check(&self) -> Result<(), SpecError> {
        model::check(&self.model, self.data.format)?;
        self.check_train()?;
        let (train, parallel) = (&self.train, &self.parallel);
        within("parallel.virtual_replicas", parallel.virtual_replicas, 1..=u64::from(train.global_batch))?;
        for (key, value, most) in [
            ("parallel.pipeline", parallel.pipeline, self.model.blocks()),
            ("parallel.data", parallel.data, u64::from(parallel.virtual_replicas)),
        ] {
            if let Auto::Set(value) = value {
                within(key, value, 1..=most)?;
            }
        }
        within("elastic.redundancy", self.elastic.redundancy, limits::REDUNDANCY)?;
        absolute("data.path", &self.data.path)?;
        match &self.init {
            InitSpec::Seed => {}
            InitSpec::Hf(path) => absolute("model.hf", path)?,
            InitSpec::LlmC(path) => absolute("model.llmc", path)?,
        }
        if let Some(TokenizerSpec::Hf(path)) = &self.data.tokenizer {
            absolute("data.tokenizer", path)?;
        }
        let (format, prepared) = (self.data.format, self.data.validation == Validation::Prepared);
        let said = if prepared { "Prepared" } else { "not Prepared" };
        hold(
            "data.validation",
            said,
            prepared == (format == DataFormat::Shards),
            "Prepared for shards, and only for them",
        )?;
        match &self.data.validation {
            Validation::Path(path) => absolute("data.validation", path),
            Validation::Tail { .. } | Validation::Prepared => Ok(()),
        }
    }

    fn check_train(&self) -> Result<(), SpecError> {
        let (train, schedule) = (&self.train, &self.train.schedule);
        within("train.steps", train.steps, limits::STEPS)?;
        within("train.global_batch", train.global_batch, limits::GLOBAL_BATCH)?;
        let (global, context) = (u64::from(train.global_batch), u64::from(self.model.context()));
        let fits = limits::micro_batch(global, context).contains(&u64::from(train.micro_batch));
        hold("train.micro_batch", train.micro_batch, fits, &limits::micro_batch_words(global, context))?;
        optimizer::optimizer(&train.optimizer, &train.decay)?;
        positive("train.learning_rate", schedule.peak as f32)?;
        let floor = (0.0..=schedule.peak).contains(&schedule.minimum);
        hold("train.minimum_learning_rate", schedule.minimum, floor, "a number from 0 to train.learning_rate")?;
        within("train.warmup_steps", schedule.warmup, 0..=train.steps)?;
        match schedule.shape {
            LrShape::Wsd { decay } => within("train.decay_steps", decay, 0..=train.steps - schedule.warmup)?,
            LrShape::RelativeStep => {
                let own = *schedule == LrSpec::RELATIVE && matches!(train.optimizer, OptimizerSpec::Adafactor(_));
                let words = "RelativeStep for adafactor alone, with its own peak 0.01, minimum 0 and warm-up 0";
                hold("train.learning_rate_schedule", format!("{schedule:?}"), own, words)?;
            }
            LrShape::Cosine | LrShape::Linear | LrShape::Constant | LrShape::InverseSqrt => {}
        }
        if let Some(norm) = train.clip {
            positive("train.clip", norm)?;
        }
        if let Some(most) = train.max_skips {
            within("train.max_skips", most, 1..=*limits::MAX_SKIPS.end())?;
        }
        match train.numerics.precision {
            Precision::Fp32 | Precision::Bf16 => {}
            Precision::Fp16(scale) => {
                let words = |least| format!("a power of two from {least} to {}", limits::LOSS_SCALE.end());
                let (start, minimum) = (scale.start, scale.minimum);
                hold("train.loss_scale_minimum", minimum, limits::is_loss_scale(minimum, 1), &words(1))?;
                hold("train.loss_scale", start, limits::is_loss_scale(start, minimum), &words(minimum))?;
                within("train.loss_scale_window", scale.window, limits::LOSS_SCALE_STEPS)?;
                within("train.loss_scale_hysteresis", scale.hysteresis, limits::LOSS_SCALE_STEPS)?;
            }
        }
        if let Some(evaluate) = train.evaluate {
            within("train.eval_every", evaluate.every, limits::EVAL_EVERY)?;
            within("train.eval_samples", evaluate.samples, limits::EVAL_SAMPLES)?;
        }
        if let Validation::Tail { fraction } = self.data.validation {
            let share = limits::is_share(fraction);
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

fn within(key: &'static str, found: impl Into<u64>, allowed: RangeInclusive<u64>) -> Result<(), SpecError> {
    let found = found.into();
    hold(key, found, allowed.contains(&found), &limits::whole(&allowed))
}

fn absolute(key: &'static str, found: &Path) -> Result<(), SpecError> {
    hold(
        key,
        found.display(),
        found.is_absolute(),
        "an absolute path, since every node opens it wherever it was started",
    )
}

/// Zero, subnormal, infinite and not-a-number are refused.
fn positive(key: &'static str, found: f32) -> Result<(), SpecError> {
    hold(key, found, limits::is_positive(f64::from(found)), POSITIVE)
}

fn below_one(key: &'static str, found: f32) -> Result<(), SpecError> {
    hold(key, found, limits::is_below_one(f64::from(found)), BELOW_ONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DecayRule, Gpt2Spec, LlamaSpec, LossScaleSpec, RopeScaling};

    const SCALE: LossScaleSpec = LossScaleSpec { start: 1 << 16, window: 1000, hysteresis: 2, minimum: 1 };

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
        fn model(spec: &mut JobSpec) -> &mut Gpt2Spec {
            spec.model.as_gpt2_mut().expect("a GPT-2")
        }
        let cases: [(&str, Break); 25] = [
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
            ("train.micro_batch", |s| (s.train.micro_batch, model(s).context) = (3, 65_536)),
            ("train.learning_rate", |s| s.train.schedule.peak = 1e300),
            ("train.warmup_steps", |s| s.train.schedule.warmup = 21),
            ("train.decay_steps", |s| s.train.schedule.shape = LrShape::Wsd { decay: 1 << 40 }),
            ("train.clip", |s| s.train.clip = Some(0.0)),
            ("train.max_skips", |s| s.train.max_skips = Some(0)),
            ("train.loss_scale", |s| s.train.numerics.precision = Precision::Fp16(LossScaleSpec { start: 3, ..SCALE })),
            ("train.loss_scale_window", |s| {
                s.train.numerics.precision = Precision::Fp16(LossScaleSpec { window: 0, ..SCALE });
            }),
            ("data.validation", |s| s.data.validation = Validation::Tail { fraction: 0.0 }),
            ("data.path", |s| s.data.path = "a".into()),
            ("data.validation", |s| s.data.validation = Validation::Path("../a".into())),
            ("parallel.data", |s| s.parallel.data = Auto::Set(9)),
            ("elastic.redundancy", |s| s.elastic.redundancy = 16),
        ];
        for (key, break_it) in cases {
            let mut spec = good();
            break_it(&mut spec);
            assert_eq!(spec.check().expect_err(key).key, key);
        }
    }

    #[test]
    fn relative_steps_are_adafactors_and_of_its_own_rate() {
        let adafactor = crate::job::parse(
            "[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n[data]\nkind = \"text\"\npath = \"a\"\n\
             [train]\nsteps = 20\noptimizer = \"adafactor\"\nrelative_step = true\n",
            "good.toml",
            Path::new("/"),
        )
        .expect("a job file");
        let refused = |break_it: fn(&mut JobSpec)| {
            let mut spec = adafactor.clone();
            break_it(&mut spec);
            assert_eq!(spec.check().expect_err("refused").key, "train.learning_rate_schedule");
        };
        refused(|spec| spec.train.optimizer = good().train.optimizer);
        refused(|spec| spec.train.schedule.warmup = 1);
        refused(|spec| spec.train.schedule.peak = 0.1);
    }

    #[test]
    fn decay_rules_have_a_number_and_a_length() {
        let with = |rules: usize, bytes: usize| {
            let mut spec = good();
            spec.train.decay = vec![DecayRule { parameters: "*".repeat(bytes), weight_decay: 0.0 }; rules];
            spec.check().map_err(|error| error.key)
        };
        assert_eq!(with(256, 256), Ok(()));
        assert_eq!(with(257, 1), Err("train.decay"));
        assert_eq!(with(1, 257), Err("train.decay.parameters"));
        assert_eq!(with(1, 0), Err("train.decay.parameters"));
    }

    #[test]
    fn what_no_job_file_says_of_a_llama_is_refused_by_its_key() {
        type Break = fn(&mut LlamaSpec);
        let scaled = |s: &mut LlamaSpec, low, high| {
            s.rope.scaling = RopeScaling::Llama3 {
                factor: 8.0,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_context: 8192,
            };
        };
        let cases: [(&str, Break); 11] = [
            ("model.width", |s| s.width = 40),
            ("model.kv_heads", |s| s.kv_heads = 0),
            ("model.kv_heads", |s| s.kv_heads = 3),
            ("model.head_size", |s| s.head_size = 0),
            ("model.head_size", |s| s.head_size = 15),
            ("model.head_size", |s| s.head_size = 6),
            ("model.inner", |s| s.inner = 0),
            ("model.inner", |s| s.inner = 100),
            ("model.norm_epsilon", |s| s.norm_epsilon = f32::NAN),
            ("model.rope_theta", |s| s.rope.theta = f64::INFINITY),
            ("model.rope_factor", |s| s.rope.scaling = RopeScaling::Linear { factor: 0.5 }),
        ];
        for (key, break_it) in cases {
            let mut spec = crate::preset("llama-tiny", Path::new("/text")).expect("a preset");
            assert_eq!(spec.check(), Ok(()));
            break_it(spec.model.as_llama_mut().expect("a Llama"));
            assert_eq!(spec.check().expect_err(key).key, key);
        }
        for (low, high) in [(4.0, 4.0), (f64::NAN, 4.0), (1.0, f64::NAN)] {
            let mut spec = crate::preset("llama-tiny", Path::new("/text")).expect("a preset");
            scaled(spec.model.as_llama_mut().expect("a Llama"), low, high);
            assert!(spec.check().is_err(), "{low} {high}");
        }
    }
}
