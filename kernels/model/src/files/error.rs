//! What can be wrong with weight files, and what to do about it.

use std::io;
use std::path::PathBuf;

use shoal_config::hf::HfError;

/// What was asked, what was found, what to do.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Something cannot be read.
    #[error("{} cannot be read; it must be there, and readable on every node", path.display())]
    Read {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another model, or none that is known.
    #[error("{} has no model that this job can begin with", path.display())]
    Config {
        /// Which directory.
        path: PathBuf,
        /// What is there.
        #[source]
        source: HfError,
    },
    /// Not a file of the form it should have.
    #[error("{} is not {form}: {found}", path.display())]
    Form {
        /// Which file.
        path: PathBuf,
        /// As asked.
        form: &'static str,
        /// What is there instead.
        found: String,
    },
    /// The tensors are not those of the job's model.
    #[error("the tensors in {} are not those of the job's model: {}", path.display(), wrong.join("; "))]
    Tensors {
        /// Which file or directory.
        path: PathBuf,
        /// Everything that is wrong, by name.
        wrong: Vec<String>,
    },
    /// A separate head for a model whose head is its token table.
    #[error(
        "{} has a lm_head.weight that differs from the token table, and the job's model has one table for both",
        path.display()
    )]
    Untied {
        /// Which directory.
        path: PathBuf,
    },
    /// Not the weights that were submitted.
    #[error(
        "the initial weights in {} differ from those that the job was submitted with (at {at}); copy the submitted files \
         to this node",
        path.display()
    )]
    Changed {
        /// Which file or directory.
        path: PathBuf,
        /// Block and interval.
        at: String,
    },
    /// Whoever wanted it does not any more.
    #[error("reading the initial weights was stopped")]
    Stopped,
}
