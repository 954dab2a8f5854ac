//! `shoalctl bench train`: a preset's model trained in one process, without a cluster.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_exact::philox::philox;
use shoal_kernels::{Arena, ArenaError, Budget, Device, Tier};
use shoal_model::ModelError;
use shoal_model::solo::Solo;
use shoal_plan::batch::context;
use shoal_plan::cost::flop_per_token;
use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, Job};

use super::products::Products;
use super::resident;
use super::spread::Spread;

/// Training is measured for at least this long, and at least [`STEPS`] steps.
const SPAN: Duration = Duration::from_secs(10);
/// Least number of measured steps.
const STEPS: usize = 5;
/// The arena's cap: a bound for mistakes, not a budget.
const CAP: u64 = 16 << 30;

/// What `bench train` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainReport {
    /// Tokens trained a second, at the median step.
    pub tokens_per_second: f64,
    /// Model arithmetic of these tokens, see `flop_per_token`, in 10^9 a second.
    pub gflops: f64,
    /// Rate of the best of the model's own matrix products and 2048 cubed: its median, for it is measured after every step.
    pub ceiling_gflops: f64,
    /// `gflops / ceiling_gflops`: median beside median, so that what else the machine does weighs on both alike.
    pub share_of_ceiling: f64,
    /// Tokens trained a second over all measured steps, disturbed ones included.
    pub mean_tokens_per_second: f64,
    /// That rate's arithmetic over the best that any of the products ever reached between the steps: the harshest figure.
    pub share_of_best: f64,
    /// Seconds of a step, the first two apart.
    pub step_s: Spread,
    /// GFLOP/s of the product that `ceiling_gflops` is the median of.
    pub product_gflops: Spread,
    /// The most memory that this process had resident at once while it trained, in MiB.
    pub peak_rss_mb: f64,
    /// Seconds until the first step begins: threads, initial weights, memory.
    pub ready_s: f64,
    /// The first step, in seconds: the rest of the memory is taken from the system in it.
    pub first_step_s: f64,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No room for the device.
    #[error("no room for the device's scratch memory")]
    Device(#[source] ArenaError),
    /// No room for the products.
    #[error("no room for the matrix products")]
    Products(#[source] ArenaError),
    /// The model could not be made or trained.
    #[error("the model could not be trained")]
    Train(#[source] ModelError),
    /// The system does not say how much memory is resident.
    #[error("peak memory is unknown")]
    Resident(#[source] std::io::Error),
}

/// Trains the model of `spec` on pseudo-random tokens with `threads` threads and measures it, with its optimizer, against
/// the matrix products that it is made of. Takes some 12 seconds.
///
/// # Errors
/// If memory runs out, or the system does not report it.
pub fn train(spec: &JobSpec, threads: usize) -> Result<TrainReport, BenchError> {
    let model = &spec.model;
    let begun = Instant::now();
    let context = context(spec);
    let tokens_of_step = u64::from(spec.train.global_batch) * context;
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: tokens_of_step * 64,
        validation_digest: Digest::default(),
        validation_tokens: 0,
        tokenizer: None,
    };
    let job = Job { spec: spec.clone(), data, weights: None };
    let arena = Arena::new(Tier::Device, CAP, &Budget::new(CAP));
    let device = Device::cpu(threads, &arena).map_err(BenchError::Device)?;
    let mut solo = Solo::new(&device, &arena, &job).map_err(BenchError::Train)?;
    let mut window = |sample| noise(sample, context, model.vocab());
    let mut step = || -> Result<Duration, BenchError> {
        let start = Instant::now();
        device.enter(|| solo.step(&device, &mut window)).map_err(BenchError::Train)?;
        Ok(start.elapsed())
    };

    let ready = begun.elapsed();
    let first = step()?;
    // Every buffer has been used twice by then; what is measured beside training is not training's memory.
    step()?;
    let peak_rss_mb = resident::peak_mib().map_err(BenchError::Resident)?;
    let rows = u64::from(spec.train.micro_batch.min(spec.train.global_batch)) * context;
    let mut products = Products::new(&device, &arena, model, rows as usize).map_err(BenchError::Products)?;
    products.measure(&device);
    let (mut span, mut steps) = (Duration::ZERO, Vec::new());
    while span < SPAN || steps.len() < STEPS {
        let took = step()?;
        span += took;
        steps.push(took.as_secs_f64());
        products.measure(&device);
    }
    let measured = "BE-2 (at least one step and its products were measured)";
    let (step_s, product_gflops) = (Spread::of(&steps).expect(measured), products.ceiling().expect(measured));
    let tokens_per_second = tokens_of_step as f64 / step_s.median;
    let mean_tokens_per_second = steps.len() as f64 * tokens_of_step as f64 / span.as_secs_f64();
    let gflops = 1e-9 * tokens_per_second * flop_per_token(model) as f64;
    let ceiling_gflops = product_gflops.median;
    Ok(TrainReport {
        tokens_per_second,
        gflops,
        ceiling_gflops,
        share_of_ceiling: gflops / ceiling_gflops,
        mean_tokens_per_second,
        share_of_best: 1e-9 * mean_tokens_per_second * flop_per_token(model) as f64 / products.best(),
        step_s,
        product_gflops,
        peak_rss_mb,
        ready_s: ready.as_secs_f64(),
        first_step_s: first.as_secs_f64(),
    })
}

/// `context + 1` pseudo-random tokens.
fn noise(sample: u64, context: u64, vocab: u32) -> Vec<u32> {
    (0..=context).map(|at| (philox(1, [sample, at])[0] % u64::from(vocab)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, of the small models.
    #[test]
    fn operations_of_a_token() {
        let spec = shoal_config::preset("bench-s", "/".as_ref()).expect("a preset");
        let parameters = 6 * (12 * 384 * 384 + 13 * 384) + 2 * 384;
        let attention = 12 * 6 * 256 * 384;
        let head = 6 * 256 * 384;
        assert_eq!(flop_per_token(&spec.model), 6 * parameters + head + attention);
        // q and the projection, k and v of two heads, three maps of the MLP; the head's own table counts as a tied one does.
        let llama = shoal_config::preset("llama-s", "/".as_ref()).expect("a preset");
        let parameters = 6 * (2 * 384 * 384 + 2 * 128 * 384 + 3 * 384 * 1024 + 2 * 384) + 384;
        assert_eq!(flop_per_token(&llama.model), 6 * parameters + head + attention);
    }
}
