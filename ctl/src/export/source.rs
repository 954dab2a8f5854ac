//! The files that a job began with. It reads them again when its state is lost, so no export of it takes their place.

use std::path::{Path, PathBuf};

use shoal_config::spec::InitSpec;

use crate::failure::Failure;

/// Refuses an export of a job that began with `init` into `dir`, if it would replace what is read again; `is_ours` knows the names of
/// the export's files.
///
/// # Errors
/// If it would.
pub fn spare(init: &InitSpec, dir: &Path, is_ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let path = match init {
        InitSpec::Seed => return Ok(()),
        InitSpec::Hf(path) | InitSpec::LlmC(path) => path,
    };
    let same = |a: &Path| real(a).is_some_and(|a| real(dir).is_some_and(|dir| a == dir));
    let name = path.file_name().and_then(|name| name.to_str());
    let replaced = same(path) || path.parent().is_some_and(same) && name.is_some_and(is_ours);
    if replaced {
        return Err(Failure::Usage(format!(
            "the job began with {}, reads it again when its state is lost, and this export into {} would replace it; name another \
             directory",
            path.display(),
            dir.display()
        )));
    }
    Ok(())
}

/// Without links, if it is there.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_job_began_with_stays() {
        let temp = tempfile::tempdir().expect("temp dir");
        let (source, other, link) = (temp.path().join("source"), temp.path().join("other"), temp.path().join("link"));
        fs::create_dir(&source).expect("made");
        fs::create_dir(&other).expect("made");
        std::os::unix::fs::symlink(&source, &link).expect("linked");
        let is_ours = |name: &str| name == "model_00000004.bin";
        for init in [InitSpec::Hf(source.clone()), InitSpec::LlmC(source.join("model_00000004.bin"))] {
            for dir in [&source, &link] {
                let failure = spare(&init, dir, is_ours).expect_err("the source");
                assert!(failure.code() == 2 && failure.to_string().contains("name another directory"), "{failure}");
            }
            assert!(spare(&init, &other, is_ours).is_ok() && spare(&init, &temp.path().join("new"), is_ours).is_ok());
        }
        assert!(spare(&InitSpec::LlmC(source.join("model_00000000.bin")), &source, is_ours).is_ok(), "beside it");
        assert!(spare(&InitSpec::Seed, &source, is_ours).is_ok());
    }
}
