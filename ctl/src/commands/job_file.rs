//! A job file, with what can only be said once its model is known.

use std::path::Path;

use shoal_config::{JobSpec, job};
use shoal_data::manifest;
use shoal_plan::decay;

use crate::cli::JobSource;
use crate::failure::Failure;

/// A job, and what it is called in errors.
#[derive(Debug)]
pub(super) struct JobFile {
    pub(super) spec: JobSpec,
    pub(super) name: String,
}

/// The job that is meant.
pub(super) fn of(source: &JobSource) -> Result<JobFile, Failure> {
    match source {
        JobSource { preset: Some(name), data: Some(data), .. } => {
            let data = std::path::absolute(data).map_err(Failure::file("find", data))?;
            if data.join(manifest::FILE).is_file() {
                return Err(Failure::Usage(format!(
                    "{} has shards of tokens, and a preset is trained on the bytes of text; `shoalctl presets {name}` prints its job \
                     file, to which [data] kind = \"shards\" and a [model] vocab for those tokens can be written",
                    data.display()
                )));
            }
            let spec = shoal_config::preset(name, &data).ok_or_else(|| super::presets::unknown(name))?;
            Ok(JobFile { spec, name: format!("preset {name}") })
        }
        JobSource { file: Some(path), .. } => Ok(JobFile { spec: read(path)?, name: path.display().to_string() }),
        JobSource { file: None, .. } => {
            unreachable!("CT-3 (the command line asks for a file or a preset with its data)")
        }
    }
}

/// Reads and checks it.
fn read(path: &Path) -> Result<JobSpec, Failure> {
    let spec = job::read(path)?;
    decay::check(&spec).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_not_for_shards() {
        let dir = tempfile::tempdir().expect("temp dir");
        let source = || JobSource { file: None, preset: Some("tiny".into()), data: Some(dir.path().to_owned()) };
        assert_eq!(of(&source()).expect("text for all that is known").name, "preset tiny");
        std::fs::write(dir.path().join(manifest::FILE), "{}").expect("written");
        let error = of(&source()).expect_err("tokens");
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("`shoalctl presets tiny` prints its job file"), "{error}");
    }

    #[test]
    fn a_decay_rule_for_nothing_is_an_error_of_the_file() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("job.toml");
        let text = "[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n[data]\nkind = \"text\"\npath = \"a\"\n\
                    [train]\nsteps = 20\n[[train.decay]]\nparameters = \"*.scale\"\nweight_decay = 0\n";
        std::fs::write(&file, text).expect("written");
        let error = read(&file).expect_err("no such parameter").to_string();
        assert!(
            error.contains("job.toml: train.decay: `*.scale` names no parameter; there are in b0 wte, wpe;"),
            "{error}"
        );
        std::fs::write(&file, text.replace("*.scale", "*.bias")).expect("written");
        assert_eq!(read(&file).expect("a job").train.decay.len(), 1);
    }
}
