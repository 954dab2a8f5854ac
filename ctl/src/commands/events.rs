//! `events`: what happened to a job, as it happens.

use std::time::Duration;

use super::Context;
use crate::cli::Events;
use crate::failure::{Failure, Verdict};

/// Longest wait for one answer while following.
const POLL: Duration = Duration::from_secs(20);

pub(super) fn run(context: &Context, args: &Events) -> Result<Verdict, Failure> {
    let mut after = args.after;
    loop {
        // Asked before the events: what an over job says last is in the answer after it.
        let over = context.client.status(&args.job)?.state.is_over();
        let wait = if args.follow && !over { POLL } else { Duration::ZERO };
        let lines = context.client.events(&args.job, after, wait)?;
        for line in &lines {
            context.format.stream(line)?;
            after = after.max(line.number);
        }
        if lines.is_empty() && (over || !args.follow) {
            return Ok(Verdict::True);
        }
    }
}
