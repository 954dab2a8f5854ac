//! `down`: stop what `up` started.

use super::Context;
use crate::cluster::{Stopped, stop};
use crate::failure::{Failure, Verdict};
use crate::output::Show;

pub(super) fn run(context: &Context) -> Result<Verdict, Failure> {
    if !context.dir.is_cluster() {
        return Err(Failure::Unreachable(format!(
            "no cluster in {}: say which one with --dir or SHOAL_DIR",
            context.dir.paths().root().display()
        )));
    }
    context.format.print(&stop(&context.dir)?)?;
    Ok(Verdict::True)
}

impl Show for Stopped {
    fn show(&self) -> String {
        match (self.stopped.as_slice(), self.killed.as_slice()) {
            ([], []) => "nothing was running".to_owned(),
            (stopped, []) => format!("stopped {}", stopped.join(", ")),
            ([], killed) => format!("killed {}, which did not stop on request", killed.join(", ")),
            (stopped, killed) => {
                format!("stopped {}; killed {}, which did not stop on request", stopped.join(", "), killed.join(", "))
            }
        }
    }
}
