//! `submit`: a job file becomes a job.

use shoal_config::job;

use super::Context;
use crate::cli::Submit;
use crate::failure::{Failure, Verdict};

pub(super) fn run(context: &Context, args: &Submit) -> Result<Verdict, Failure> {
    let spec = job::read(&args.file)?;
    context.format.print(&context.client.submit(spec)?)?;
    Ok(Verdict::True)
}
