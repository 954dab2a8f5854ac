//! `list`: list jobs.

use super::Context;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context) -> Result<Verdict, Failure> {
    context.format.print(&context.client.jobs()?)?;
    Ok(Verdict::True)
}
