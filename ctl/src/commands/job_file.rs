//! A job file, with what can only be said once its model is known.

use std::path::Path;

use shoal_config::{JobSpec, job};
use shoal_plan::decay;

use crate::failure::Failure;

/// Reads and checks it.
pub(super) fn read(path: &Path) -> Result<JobSpec, Failure> {
    let spec = job::read(path)?;
    decay::check(&spec).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

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
