//! Why weights cannot be written as a file of another program.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use shoal_config::spec::Dtype;

use super::aside::Aside;
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
    Aside(#[from] AsideError),
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

/// A tensor too large for memory is put together in a file on a disk, and there it is not possible.
#[derive(Debug, thiserror::Error)]
pub enum AsideError {
    /// Room would cure it.
    #[error(
        "{tensor} is put together in a file of {bytes} bytes in {}, beside which {leave} bytes are left to others; make room \
         there, and export again", dir.display()
    )]
    NoRoom {
        /// Under their name.
        tensor: String,
        /// What it takes.
        bytes: u64,
        /// Where.
        dir: PathBuf,
        /// What stays free.
        leave: u64,
        /// What is missing.
        #[source]
        source: io::Error,
    },
    /// Room would not.
    #[error(
        "{tensor} is put together in a file in {}, which cannot be made, written or read there; see that it can, and export again",
        dir.display()
    )]
    Failed {
        /// Under their name.
        tensor: String,
        /// Where.
        dir: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl AsideError {
    pub(super) fn new(tensor: &str, bytes: u64, aside: Aside<'_>, source: io::Error) -> Self {
        let (tensor, dir) = (tensor.to_owned(), aside.dir.to_owned());
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Self::NoRoom { tensor, bytes, dir, leave: aside.leave, source }
            }
            _ => Self::Failed { tensor, dir, source },
        }
    }
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

    #[test]
    fn room_is_asked_for_where_it_is_missing() {
        let aside = Aside { dir: std::path::Path::new("/disk"), leave: 7 };
        for (errno, room) in [
            (rustix::io::Errno::NOSPC, true),
            (rustix::io::Errno::DQUOT, true),
            (rustix::io::Errno::ACCESS, false),
            (rustix::io::Errno::NOENT, false),
            (rustix::io::Errno::IO, false),
        ] {
            let error = AsideError::new("turned", 120, aside, errno.into());
            assert_eq!(matches!(error, AsideError::NoRoom { .. }), room, "{errno}: {error}");
            assert_eq!(error.to_string().contains("make room there"), room, "{error}");
        }
    }
}
