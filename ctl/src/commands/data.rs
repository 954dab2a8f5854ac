//! `data prepare`: documents become token shards.

mod progress;

use std::thread;
use std::time::Instant;

use serde::Serialize;
use shoal_config::spec::TokenizerSpec;
use shoal_data::manifest::TokenizerEntry;
use shoal_data::prepare::{PrepareError, Prepared, Request, Validation, prepare};
use shoal_data::tokenizer::TokenizerError;

use super::Context;
use crate::cli::{Data, Prepare};
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::facts;
use crate::output::units::{count, short};
use progress::Progress;

#[derive(Serialize)]
struct Answer {
    dir: String,
    /// It was all there before.
    already: bool,
    /// Units of work that an earlier run had done.
    resumed_units: u64,
    documents: u64,
    skipped: u64,
    train_tokens: u64,
    validation_tokens: u64,
    shards: usize,
    tokenizer: TokenizerEntry,
    seconds: f64,
}

pub(super) fn run(context: &Context, args: &Data) -> Result<Verdict, Failure> {
    let Data::Prepare(args) = args;
    let begun = Instant::now();
    let watch = Progress::new(context.format);
    let prepared = prepare(&request(args)?, &watch);
    watch.finish();
    let Prepared { manifest, already, resumed_units } = prepared.map_err(failed)?;
    context.format.print(&Answer {
        dir: args.out.display().to_string(),
        already,
        resumed_units,
        documents: manifest.documents,
        skipped: manifest.skipped,
        train_tokens: manifest.train.tokens,
        validation_tokens: manifest.validation.tokens,
        shards: manifest.train.shards.len() + manifest.validation.shards.len(),
        tokenizer: manifest.tokenizer,
        seconds: begun.elapsed().as_secs_f64(),
    })?;
    Ok(Verdict::True)
}

fn request(args: &Prepare) -> Result<Request, Failure> {
    let validation = match (&args.validation[..], args.validation[0].parse()) {
        ([_], Ok(share)) => Validation::Share(share),
        (paths, _) => Validation::Inputs(paths.to_vec()),
    };
    Ok(Request {
        tokenizer: TokenizerSpec::named(&args.tokenizer),
        end_of_text: args.end_of_text.clone(),
        separate: args.separate,
        inputs: args.input.clone(),
        form: args.format,
        field: args.field.clone(),
        split_on: args.split_on.as_deref().map(unescaped).transpose()?,
        validation,
        shard_tokens: args.shard_tokens,
        skip_bad: args.skip_bad,
        threads: match args.threads {
            Some(threads) => threads as usize,
            None => thread::available_parallelism().map_or(1, usize::from),
        },
        out: args.out.clone(),
    })
}

/// What a shell does not make of a backslash.
fn unescaped(text: &str) -> Result<String, Failure> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('\\') => '\\',
                Some(_) | None => {
                    let said = format!("--split-on is {text:?}; after a backslash come n, r, t or another backslash");
                    return Err(Failure::Usage(said));
                }
            },
            c => c,
        });
    }
    Ok(out)
}

/// What is wrong with what was asked or read is the operator's; a file that cannot be written is not.
fn failed(error: PrepareError) -> Failure {
    let ours = match &error {
        PrepareError::File { .. }
        | PrepareError::Full { .. }
        | PrepareError::Damaged { .. }
        | PrepareError::Busy { .. }
        | PrepareError::Tokenizer(TokenizerError::BuiltIn { .. }) => true,
        PrepareError::Tokenizer(_)
        | PrepareError::Source(_)
        | PrepareError::NoInput { .. }
        | PrepareError::Pattern { .. }
        | PrepareError::Unknown { .. }
        | PrepareError::Compressed { .. }
        | PrepareError::Twice { .. }
        | PrepareError::Nothing { .. }
        | PrepareError::Separator
        | PrepareError::ShardTokens { .. }
        | PrepareError::Shards { .. }
        | PrepareError::Share { .. }
        | PrepareError::NoEnd { .. }
        | PrepareError::Bad(_)
        | PrepareError::Changed { .. }
        | PrepareError::NotEmpty { .. }
        | PrepareError::Other { .. }
        | PrepareError::Manifest(_) => false,
    };
    let said = format!("{:#}", anyhow::Error::from(error));
    if ours { Failure::No(said) } else { Failure::Usage(said) }
}

impl Show for Answer {
    fn show(&self) -> String {
        let head = if self.already { "was there already" } else { "is prepared" };
        let skipped = if self.skipped > 0 { format!(", {} left out", count(self.skipped)) } else { String::new() };
        let TokenizerEntry { kind, blake3, vocab, end_of_text } = &self.tokenizer;
        let end = end_of_text.map_or_else(String::new, |token| format!(", end of text {token}"));
        facts([
            ("data", format!("{} {head}, in {:.1} s", self.dir, self.seconds)),
            ("documents", format!("{}{skipped}", count(self.documents))),
            ("training", format!("{} tokens", count(self.train_tokens))),
            ("validation", format!("{} tokens", count(self.validation_tokens))),
            ("shards", self.shards.to_string()),
            ("tokenizer", format!("{kind} ({}...), vocabulary {}{end}", short(blake3), count(u64::from(*vocab)))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_typed_with_backslashes() {
        assert_eq!(unescaped("a\\n\\tb\\\\n").expect("good"), "a\n\tb\\n");
        for bad in ["\\x", "end\\"] {
            assert_eq!(unescaped(bad).expect_err("refused").code(), 2);
        }
    }
}
