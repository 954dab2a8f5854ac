//! `cancel`: end a job.

use super::Context;
use crate::cli::JobName;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &JobName) -> Result<Verdict, Failure> {
    context.client.cancel(&args.job)?;
    context.format.print(&context.client.status(&args.job)?)?;
    Ok(Verdict::True)
}
