//! The main job, end to end: a local cluster trains a GPT twice, the second time losing one worker and gaining another,
//! and the final states are compared bit by bit.
//!
//! * [`corpus`] is the text, [`stage`] the cluster in a temporary directory;
//! * [`run`] submits and follows one job, [`disturbance`] is what happens to the second one;
//! * [`audit`] counts samples, [`outcome`] compares.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use shoal_config::JobSpec;

use crate::failure::Failure;

pub mod audit;
pub mod corpus;
pub mod disturbance;
pub mod interrupt;
pub mod outcome;
pub mod run;
pub mod stage;

use disturbance::Disturbance;
use interrupt::Interrupt;
use outcome::{Outcome, Undisturbed};
use run::{Finished, Run};
use stage::Stage;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Workers.
    pub nodes: u32,
    /// Steps of each run, instead of the preset's.
    pub steps: Option<u64>,
    /// Text, instead of the project's own.
    pub data: Option<&'a Path>,
}

/// Runs the demonstration.
///
/// # Errors
/// If a daemon or a job fails, something takes too long, or the operator interrupts. Every process that was started is
/// stopped and the temporary directory removed in any case.
pub fn demonstrate(program: &Path, options: &Options<'_>) -> Result<Outcome, Failure> {
    let interrupt = Interrupt::install()?;
    let mut stage = Stage::open(program, options.nodes)?;
    let text = match options.data {
        Some(path) => std::path::absolute(path).map_err(Failure::file("find", path))?,
        None => stage.write("corpus.txt", corpus::OWN.as_bytes())?,
    };
    let mut spec = shoal_config::preset("demo", &text).expect("CF-2 (every preset parses)");
    if let Some(steps) = options.steps {
        set_steps(&mut spec, steps);
    }
    eprintln!("starting a coordinator and {} workers", options.nodes);
    stage.raise()?;
    let undisturbed = train(&stage, &spec, "1/2 undisturbed", None, &interrupt)?;
    let disturbance = Disturbance::for_steps(spec.train.steps);
    let disturbed = train(&stage, &spec, "2/2 disturbed  ", Some(disturbance), &interrupt)?;
    stage.close()?;
    Ok(compare(undisturbed, disturbed))
}

fn set_steps(spec: &mut JobSpec, steps: u64) {
    spec.train.steps = steps;
    spec.train.schedule.warmup = spec.train.schedule.warmup.min(steps / 10);
}

fn train(
    stage: &Stage,
    spec: &JobSpec,
    title: &'static str,
    disturbance: Option<Disturbance>,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let bar = ProgressBar::new(spec.train.steps).with_style(run::bar_style()).with_prefix(title);
    bar.enable_steady_tick(Duration::from_millis(200));
    let result = Run::submit(stage, spec, bar.clone(), interrupt).and_then(|run| run.finish(disturbance));
    bar.finish_and_clear();
    result
}

fn compare(undisturbed: Finished, disturbed: Finished) -> Outcome {
    let samples_exactly_once = undisturbed.samples_exactly_once && disturbed.samples_exactly_once;
    let (calm, rough) = (undisturbed.result, disturbed.result);
    let identical = calm.state_blake3 == rough.state_blake3 && calm.final_loss.to_bits() == rough.final_loss.to_bits();
    Outcome {
        undisturbed: Undisturbed { final_loss: calm.final_loss, state_blake3: calm.state_blake3 },
        disturbed: rough,
        identical,
        samples_exactly_once,
    }
}
