//! `pause`: hold a job after a committed step.

use super::Context;
use crate::cli::Pause;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &Pause) -> Result<Verdict, Failure> {
    context.client.pause(&args.job, args.at.map(|at| at.0))?;
    context.format.print(&context.client.status(&args.job)?)?;
    Ok(Verdict::True)
}
