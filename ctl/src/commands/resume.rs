//! `resume`: let a paused job go on.

use super::Context;
use crate::cli::JobName;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &JobName) -> Result<Verdict, Failure> {
    context.client.resume(&args.job)?;
    context.format.print(&context.client.status(&args.job)?)?;
    Ok(Verdict::True)
}
