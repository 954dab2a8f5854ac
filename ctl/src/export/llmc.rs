//! An llm.c checkpoint, named as llm.c names it.

use shoal_config::spec::Dtype;

use super::Target;
use super::aside::publish;
use super::download::{Written, aside};
use crate::failure::Failure;

/// The name of a step's checkpoint.
#[must_use]
pub fn file_name(step: u64) -> String {
    format!("model_{step:08}.bin")
}

/// Whether a file is such a checkpoint, by its name.
#[must_use]
pub fn is_file(name: &str) -> bool {
    let step = name.strip_prefix("model_").and_then(|name| name.strip_suffix(".bin"));
    step.is_some_and(|step| step.len() >= 8 && step.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Downloads the job's weights at a written step.
///
/// # Errors
/// If the coordinator has no such step, the model is not a GPT-2, or the file cannot be written.
pub fn export(written: &Written<'_>, dtype: Dtype, target: &Target) -> Result<(), Failure> {
    let (step, dtype) = (written.step, dtype.word());
    let path = format!("llmc/model.bin?step={step}&dtype={dtype}");
    publish(vec![aside(written, &path, target, &file_name(step))?], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_llm_c() {
        assert_eq!(file_name(40), "model_00000040.bin");
        assert!(is_file(&file_name(40)) && is_file(&file_name(1_000_000_000)));
        assert!(!is_file("model_.bin") && !is_file("model_0000004x.bin") && !is_file("config.json"));
    }
}
