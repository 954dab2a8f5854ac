//! `drain`: let a worker hand over what it holds and leave.

use super::Context;
use crate::cli::NodeName;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &NodeName) -> Result<Verdict, Failure> {
    context.client.drain(&args.node)?;
    context.format.print(&context.client.nodes()?)?;
    Ok(Verdict::True)
}
