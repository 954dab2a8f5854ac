//! Why weights cannot be written as a file of another program.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use shoal_config::spec::Dtype;

use crate::files::dtype::holds;

/// Weights come from somewhere, whose errors are `E`.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E: Error + 'static> {
    /// They could not be had.
    #[error(transparent)]
    Read(E),
    /// They are not of the type.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// No disk takes what memory does not.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// Nobody takes the file.
    #[error("the file is not taken")]
    Out(#[source] io::Error),
}

/// A value that would become infinite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{tensor} is to be written as {}, which cannot hold its value {value:e}; export with --dtype {}", dtype.word(), words(*value)
)]
pub struct Unfit {
    /// Under their name.
    pub tensor: String,
    /// As it was to be written.
    pub dtype: Dtype,
    /// The first such value.
    pub value: f32,
}

impl Unfit {
    pub(super) fn new(tensor: &str, dtype: Dtype, value: f32) -> Self {
        Self { tensor: tensor.to_owned(), dtype, value }
    }
}

/// The types that hold a value.
fn words(value: f32) -> String {
    let good = Dtype::ALL.into_iter().filter(|dtype| holds(*dtype, value));
    good.map(Dtype::word).collect::<Vec<_>>().join(" or ")
}

/// A tensor too large for memory is put together on a disk, and there it is not possible.
#[derive(Debug, thiserror::Error)]
#[error(
    "{tensor} is put together in a file of {bytes} bytes in {}, and that cannot be written; make room there, and export again",
    dir.display()
)]
pub struct NoRoom {
    /// Under their name.
    pub tensor: String,
    /// What it takes.
    pub bytes: u64,
    /// Where.
    pub dir: PathBuf,
    /// Why not.
    #[source]
    pub source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_fit_is_said_with_the_types_that_do() {
        let said = Unfit::new("h.3.mlp.c_fc.weight", Dtype::F16, -7e4).to_string();
        assert_eq!(
            said,
            "h.3.mlp.c_fc.weight is to be written as fp16, which cannot hold its value -7e4; export with --dtype fp32 or bf16"
        );
        let said = Unfit::new("wte.weight", Dtype::Bf16, f32::MAX).to_string();
        assert!(
            said.ends_with("as bf16, which cannot hold its value 3.4028235e38; export with --dtype fp32"),
            "{said}"
        );
    }
}
