//! `demo`: the main job, end to end.

use super::Context;
use crate::cli::Demo;
use crate::demo::{Options, demonstrate};
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &Demo) -> Result<Verdict, Failure> {
    let program = std::env::current_exe().map_err(Failure::file("find", "shoalctl"))?;
    let options = Options { nodes: args.nodes, steps: args.steps, data: args.data.as_deref() };
    let outcome = demonstrate(&program, &options)?;
    context.format.print(&outcome)?;
    Ok(if outcome.identical && outcome.samples_exactly_once { Verdict::True } else { Verdict::False })
}
