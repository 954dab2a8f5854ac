//! `up`: start a local cluster, or bring its live workers back to N.

use shoal_config::node::least_memory;

use super::Context;
use crate::cli::Up;
use crate::cluster::{Raised, Wanted, raise};
use crate::failure::{Failure, Verdict};
use crate::output::Show;

pub(super) fn run(context: &Context, args: &Up) -> Result<Verdict, Failure> {
    let threads = args.threads.unwrap_or(1);
    if let Some(memory) = args.memory.filter(|memory| *memory < least_memory(threads)) {
        return Err(Failure::Usage(format!(
            "--memory {} is too little for a worker of {threads} threads; allowed: at least {}",
            memory.exact(),
            least_memory(threads).exact()
        )));
    }
    let program = std::env::current_exe().map_err(Failure::file("find", "shoalctl"))?;
    let wanted = Wanted {
        nodes: args.nodes,
        memory: args.memory,
        threads: args.threads,
        class: args.class,
        http_port: args.http_port,
        timeout: args.timeout,
    };
    context.format.print(&raise(&context.dir, &program, &wanted)?)?;
    Ok(Verdict::True)
}

impl Show for Raised {
    fn show(&self) -> String {
        let started = if self.started.is_empty() {
            format!("no worker was started: {} run, {} were asked for", self.nodes.len(), self.wanted)
        } else {
            format!("started {}", self.started.join(", "))
        };
        let notes: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        format!(
            "cluster in {}, coordinator pid {}: {started}\n{notes}status page {}\n{}",
            self.dir,
            self.coordinator_pid,
            self.page,
            self.nodes.show()
        )
    }
}
