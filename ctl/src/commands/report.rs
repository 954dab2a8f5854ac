//! `report`: what every device of a job held, sent and computed.

use super::Context;
use crate::cli::JobName;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &JobName) -> Result<Verdict, Failure> {
    context.format.print(&context.client.report(&args.job)?)?;
    Ok(Verdict::True)
}
