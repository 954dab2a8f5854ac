//! `sample`: text from a job's weights, made in this process.
//!
//! CT-6 (a token is unwanted only in trouble, which was said): a token is refused only where trouble is noted, and trouble is
//! answered first.

mod text;

use std::io::Write;

use serde::Serialize;
use shoal_daemon::whole::{Ended, Sampling, TextError, Wanted, Writer};

use super::Context;
use crate::cli::Sample;
use crate::failure::{Failure, Verdict, whole};
use crate::output::{Format, Show};
use crate::{machine, weights};
use text::Text;

#[derive(Serialize)]
struct Sampled<'s> {
    job: &'s str,
    step: u64,
    prompt: &'s str,
    /// What follows the prompt.
    text: String,
    tokens: u64,
    ended: &'static str,
}

/// A piece of a text that streams.
#[derive(Serialize)]
struct Piece {
    text: String,
}

pub(super) fn run(context: &Context, args: &Sample) -> Result<Verdict, Failure> {
    let client = &context.client;
    let job = client.job(&args.job)?;
    // Whatever is wrong with what was typed is said before the cluster writes anything, and what does not fit too.
    let made_of = Text::of(&job, args.tokenizer.as_deref())?;
    let Text { tokenizer, end } = &made_of;
    let prompt = made_of.prompt(&args.prompt, job.spec.model.vocab())?;
    let room = machine::room(args.here.memory, args.here.threads);
    let mut writer = Writer::new(&job.spec, (prompt.len() as u64, args.max_tokens), room).map_err(failed)?;
    let written = client.write(&args.job, args.here.at.map(|at| at.0), args.here.timeout)?;
    weights::load(client, (&args.job, &job), written.step, |block, interval, values| {
        writer.write_weights(block, interval, values);
    })?;
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: args.top_k.map(|k| k as usize),
        top_p: args.top_p,
        seed: args.seed,
    };
    let texts = tokenizer.texts();
    let wanted = Wanted { sampling, texts: &texts, end: *end };
    let mut text = String::new();
    let mut tokens = 0;
    let mut stream = tokenizer.stream();
    let mut trouble = None;
    let ended = writer.go_on(&prompt, &wanted, |token| {
        tokens += 1;
        let shown = stream.push(token).map_err(|error| Failure::No(error.to_string())).and_then(|piece| {
            text.push_str(&piece);
            if args.stream { show(context.format, piece) } else { Ok(()) }
        });
        trouble = shown.err();
        trouble.is_none()
    });
    if let Some(failure) = trouble {
        return Err(failure);
    }
    let rest = stream.finish();
    text.push_str(&rest);
    let ended = match ended.map_err(failed)? {
        Ended::EndOfText => "end_of_text",
        Ended::Long => "max_tokens",
        Ended::Unwanted => unreachable!("CT-6 (a token is unwanted only in trouble, which was said)"),
    };
    let sampled = Sampled { job: &args.job, step: written.step, prompt: &args.prompt, text, tokens, ended };
    match (args.stream, context.format) {
        (false, format) => format.print(&sampled)?,
        (true, Format::Human) => show(Format::Human, rest + "\n")?,
        (true, Format::Json) => {
            show(Format::Json, rest)?;
            context.format.stream(&sampled)?;
        }
    }
    Ok(Verdict::True)
}

/// Shows text that came just now, and no line end that is not in it.
fn show(format: Format, text: String) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    match format {
        Format::Human => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
        }
        Format::Json => format.stream(&Piece { text }),
    }
}

fn failed(error: TextError) -> Failure {
    match error {
        TextError::Empty | TextError::Long { .. } => Failure::Usage(error.to_string()),
        TextError::Whole(_) | TextError::Model(_) => Failure::No(whole(&error.into())),
    }
}

impl Show for Sampled<'_> {
    fn show(&self) -> String {
        format!("{}{}", self.prompt, self.text)
    }
}

impl Show for Piece {
    fn show(&self) -> String {
        self.text.clone()
    }
}
