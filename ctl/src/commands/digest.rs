//! `digest`: hash a job's weights and moments.

use super::Context;
use crate::cli::Digest;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &Digest) -> Result<Verdict, Failure> {
    let digest = context.client.digest(&args.job, args.at.map(|at| at.0), args.timeout)?;
    context.format.print(&digest)?;
    Ok(Verdict::True)
}
