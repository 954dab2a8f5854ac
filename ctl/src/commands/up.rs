//! `up`: start a local cluster, or bring its live workers back to N.

use super::Context;
use crate::cli::Up;
use crate::cluster::{Raised, Wanted, raise};
use crate::failure::{Failure, Verdict};
use crate::output::Show;

pub(super) fn run(context: &Context, args: &Up) -> Result<Verdict, Failure> {
    let program = std::env::current_exe().map_err(Failure::file("find", "shoalctl"))?;
    let wanted = Wanted {
        nodes: args.nodes,
        memory: args.memory,
        threads: args.threads,
        http_port: args.http_port,
        timeout: args.timeout,
    };
    context.format.print(&raise(&context.dir, &program, &wanted)?)?;
    Ok(Verdict::True)
}

impl Show for Raised {
    fn show(&self) -> String {
        let started = if self.started.is_empty() {
            "all workers were there already".to_owned()
        } else {
            format!("started {}", self.started.join(", "))
        };
        format!("cluster in {}, coordinator pid {}: {started}\n{}", self.dir, self.coordinator_pid, self.nodes.show())
    }
}
