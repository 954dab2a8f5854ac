//! What can be wrong with weight files, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use shoal_config::hf::HfError;

/// Wrong tensors that are named; a file may have a million of them, and the list goes into faults and control messages.
const NAMED: usize = 50;
/// Bytes of what is said of one: names come from the file.
const SAID: usize = 200;

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
        /// What is wrong, by name: all of it, or the first of it and how many more.
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
    /// Values where llm.c has none.
    #[error(
        "row {row} of the token table in {} lies beyond the vocabulary and is not zero, as llm.c leaves such rows; make it zero, \
         since nothing here would keep it",
        path.display()
    )]
    Padding {
        /// Which file.
        path: PathBuf,
        /// The first such row.
        row: u64,
    },
    /// Weights that nothing can be trained from.
    #[error("{tensor} in {} holds a value that is not finite ({found}); give weights that training did not spoil", path.display())]
    NotFinite {
        /// Which file or directory.
        path: PathBuf,
        /// The first such tensor, under their name.
        tensor: String,
        /// The value.
        found: f32,
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

impl FilesError {
    /// The tensors of `path` are wrong, as said of each.
    pub(super) fn tensors(path: &Path, mut wrong: Vec<String>) -> Self {
        let more = wrong.len().saturating_sub(NAMED);
        wrong.truncate(NAMED);
        for said in &mut wrong {
            said.truncate(said.floor_char_boundary(SAID));
        }
        if more > 0 {
            wrong.push(format!("and {more} more"));
        }
        Self::Tensors { path: path.to_owned(), wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let wrong: Vec<String> = (0..100_000).map(|i| format!("tensor {i} {}", "é".repeat(500))).collect();
        let FilesError::Tensors { wrong, .. } = FilesError::tensors(Path::new("/x"), wrong) else { panic!("tensors") };
        assert_eq!(wrong.len(), NAMED + 1);
        assert_eq!(wrong[NAMED], "and 99950 more");
        assert!(wrong.iter().all(|said| said.len() <= SAID));
    }
}
