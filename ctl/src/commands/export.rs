//! `export`: a job's weights as files.

use std::path::Path;

use serde::Serialize;
use shoal_plan::blocks::ModelTable;

use super::Context;
use crate::cli::Export;
use crate::export::{Target, hf, state};
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::units::short;

#[derive(Serialize)]
struct Exported {
    job: String,
    step: u64,
    dir: String,
    state_blake3: String,
    /// Digest of the files that were written; only the state form has all it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    recomputed_blake3: Option<String>,
}

pub(super) fn run(context: &Context, args: &Export) -> Result<Verdict, Failure> {
    let (client, job) = (&context.client, &args.job);
    // Before the cluster writes anything.
    let table = ModelTable::of(&client.job(job)?.spec.model);
    let target = args.target.to.as_deref().or(args.target.state.as_deref());
    if let Some(file) = target.filter(|path| path.exists() && !path.is_dir()) {
        return Err(Failure::Usage(format!("{} is a file; an export takes a directory", file.display())));
    }
    let names = if args.target.to.is_some() { hf::file_names() } else { state::file_names(&table) };
    let target = target.map(|dir| Target::prepare(dir, &names)).transpose()?;
    let written = client.write(job, args.at.map(|at| at.0), args.timeout).inspect_err(|_| {
        target.iter().for_each(Target::give_up);
    })?;
    let (dir, recomputed) = match (&args.target.to, &args.target.state) {
        (Some(dir), _) => {
            hf::export(client, job, written.step, dir)?;
            (dir, None)
        }
        (None, Some(dir)) => (dir, Some(write_state(context, job, written.step, &table, dir)?)),
        (None, None) => unreachable!("CT-2 (the command line asks for one of --to and --state)"),
    };
    let same = recomputed.as_ref().is_none_or(|digest| *digest == written.state_blake3);
    context.format.print(&Exported {
        job: job.clone(),
        step: written.step,
        dir: dir.display().to_string(),
        state_blake3: written.state_blake3,
        recomputed_blake3: recomputed,
    })?;
    Ok(if same { Verdict::True } else { Verdict::False })
}

fn write_state(context: &Context, job: &str, step: u64, table: &ModelTable, dir: &Path) -> Result<String, Failure> {
    state::export(&context.client, job, step, table, dir)?;
    Ok(state::recompute(dir, table)?.to_hex())
}

impl Show for Exported {
    fn show(&self) -> String {
        let head = format!("{} at step {} is in {}", self.job, self.step, self.dir);
        match &self.recomputed_blake3 {
            None => head,
            Some(digest) if *digest == self.state_blake3 => {
                format!("{head}; the files have the digest of the job, {}...", short(digest))
            }
            Some(digest) => format!(
                "{head}; but the files have digest {}... and the job {}...: do not use them, export again",
                short(digest),
                short(&self.state_blake3)
            ),
        }
    }
}
