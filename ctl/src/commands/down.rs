//! `down`: stop the cluster.

use super::Context;
use crate::cluster::{Stopped, stop};
use crate::failure::{Failure, Verdict};
use crate::output::{Format, Show};

pub(super) fn run(context: &Context) -> Result<Verdict, Failure> {
    if !context.dir.is_cluster() {
        return Err(Failure::Unreachable(format!(
            "no cluster in {}: say which one with --dir or SHOAL_DIR",
            context.dir.paths().root().display()
        )));
    }
    let stopped = stop(&context.dir)?;
    if context.format == Format::Human {
        stopped.lost.iter().for_each(|lost| eprintln!("shoalctl: {lost}"));
    }
    context.format.print(&stopped)?;
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
