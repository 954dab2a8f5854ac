//! `submit`: a job file becomes a job.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use shoal_wire::api::{DataReading, Fault, JobStatus};

use super::{Context, job_file};
use crate::cli::Submit;
use crate::failure::{Failure, Verdict};
use crate::output::bar;

/// A reading that stands still for so long is worth a word.
const STILL_SECONDS: u64 = 10;
/// Between two looks at how far the data is read.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(context: &Context, args: &Submit) -> Result<Verdict, Failure> {
    let spec = job_file::of(&args.job)?.spec;
    let answer = context.client.submit(spec, args.again)?;
    if !args.no_wait {
        read_through(context, &answer.job, args.timeout)?;
    }
    context.format.print(&answer)?;
    Ok(Verdict::True)
}

/// Waits until the job's data is read, so that bad data is an error of this command. Whatever else goes wrong meanwhile
/// leaves the job submitted, and is said so.
fn read_through(context: &Context, job: &str, timeout: Option<Duration>) -> Result<(), Failure> {
    let begun = Instant::now();
    let bar = ProgressBar::hidden();
    loop {
        let status = match context.client.status(job) {
            Ok(status) => status,
            Err(failure) => {
                let failure = anyhow::Error::from(failure);
                eprintln!("shoalctl: {job} is submitted, but cannot be watched any more: {failure:#}");
                return Ok(());
            }
        };
        let Some(reading) = status.reading else { return refused(&status) };
        if let Some(timeout) = timeout.filter(|timeout| *timeout <= begun.elapsed()) {
            return Err(late(job, &reading, timeout));
        }
        if bar.is_hidden() && std::io::stderr().is_terminal() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            bar.set_style(bar::style("{prefix} [{bar:32}] {percent}%{msg}"));
            bar.set_prefix(format!("{job} is submitted; its data is read"));
        }
        bar.set_message(hint(&reading));
        bar.set_length(reading.of_tokens);
        bar.set_position(reading.tokens);
        std::thread::sleep(LOOK);
    }
}

/// What is to be said beside the bar.
fn hint(reading: &DataReading) -> String {
    match reading.idle_seconds {
        0..STILL_SECONDS => String::new(),
        idle => format!("  (nothing was read for {idle} s)"),
    }
}

/// The operator does not wish to wait any longer; the job does.
fn late(job: &str, reading: &DataReading, timeout: Duration) -> Failure {
    let DataReading { tokens, of_tokens, .. } = reading;
    Failure::Timeout(format!(
        "{job} is submitted, but after {timeout:?} its data is not read yet: {tokens} of {of_tokens} tokens{}; it goes on by \
         itself, `shoalctl status {job}` shows how far it is, `shoalctl cancel {job}` gives it up",
        hint(reading)
    ))
}

/// What became of the job meanwhile: bad data is the job file's fault, whatever else has failed is not.
fn refused(status: &JobStatus) -> Result<(), Failure> {
    let Some(fault) = status.fault else { return Ok(()) };
    let reason = status.reason.as_deref().unwrap_or("no reason was given");
    let said = format!("{} failed: {reason}", status.job);
    Err(match fault {
        Fault::Data => Failure::Usage(said),
        Fault::Run => Failure::No(said),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::fixture;

    #[test]
    fn one_who_waits_no_longer_hears_that_the_job_goes_on() {
        let reading = |idle_seconds| DataReading { tokens: 3, of_tokens: 70, idle_seconds };
        let said = late("j1", &reading(61), Duration::from_secs(90));
        assert_eq!(said.code(), 3);
        let said = said.to_string();
        assert!(said.contains("3 of 70 tokens  (nothing was read for 61 s); it goes on by itself"), "{said}");
        assert_eq!(hint(&reading(2)), "");
    }

    #[test]
    fn only_bad_data_is_the_files_fault() {
        let status = |fault| JobStatus { fault, step: 0, reason: Some("so it is".into()), ..fixture::status() };
        refused(&status(None)).expect("submitted");
        for (fault, code) in [(Fault::Data, 2), (Fault::Run, 1)] {
            let error = refused(&status(Some(fault))).expect_err("failed");
            assert_eq!((error.code(), error.to_string()), (code, "j1 failed: so it is".to_owned()));
        }
    }
}
