//! `down`: stop the cluster.

use super::Context;
use crate::cluster::{Stopped, stop, stop_elsewhere};
use crate::failure::{Failure, Verdict};
use crate::output::{Format, Show};

pub(super) fn run(context: &Context) -> Result<Verdict, Failure> {
    // Without the authority it is at most a copy of the coordinator's address; without that, the client says that there is nothing.
    let stopped = if context.dir.is_cluster() { stop(&context.dir)? } else { stop_elsewhere(&context.dir)? };
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
