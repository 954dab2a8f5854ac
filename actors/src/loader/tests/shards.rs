//! What `shoalctl data prepare` makes, and llm.c's shards.

use shoal_data::documents::BadDocument;
use shoal_data::prepare::{self, Phase, Request, Watch};

use super::*;

struct Quiet;

impl Watch for Quiet {
    fn phase(&self, _: Phase, _: u64) {}
    fn advance(&self, _: u64) {}
    fn skipped(&self, _: &BadDocument) {}
}

/// Some text as shards of 100 tokens, a tenth for validation.
fn prepared(dir: &TempDir, tokenizer: TokenizerSpec) -> PathBuf {
    prepared_with(dir, tokenizer, 0.1)
}

fn prepared_with(dir: &TempDir, tokenizer: TokenizerSpec, validation: f64) -> PathBuf {
    let text: String = (0..60).map(|n| format!("sentence number {n}. ")).collect();
    let input = write(dir, "input.txt", text.as_bytes());
    let out = dir.path().join("out");
    let request = Request {
        tokenizer,
        end_of_text: None,
        separate: None,
        inputs: vec![input.display().to_string()],
        form: None,
        field: "text".to_owned(),
        split_on: None,
        validation: prepare::Validation::Share(validation),
        shard_tokens: 100,
        skip_bad: false,
        threads: 1,
        out: out.clone(),
    };
    prepare::prepare(&request, &Quiet).expect("prepared");
    out
}

fn shards(path: &Path, tokenizer: Option<TokenizerSpec>) -> DataSpec {
    DataSpec { format: DataFormat::Shards, path: path.to_owned(), tokenizer, validation: Validation::Prepared }
}

#[test]
fn a_job_reads_what_was_prepared_and_knows_what_made_it() {
    let dir = TempDir::new().expect("temp dir");
    let out = prepared(&dir, TokenizerSpec::Gpt2);
    let found = facts(&shards(&out, None), &model(4, 50_257)).expect("facts");
    let tokenizer = found.tokenizer.expect("recorded");
    assert_eq!((tokenizer.kind.word(), tokenizer.vocab, tokenizer.end_of_text), ("gpt2", 50_257, Some(50_256)));
    let text = fs::read_to_string(dir.path().join("input.txt")).expect("input");
    let mut tokens = Vec::new();
    Tokenizer::open(&TokenizerSpec::Gpt2).expect("opens").encode(&text, &mut tokens).expect("encodes");
    tokens.push(50_256);
    let tail = tokens.len() as u64 / 10;
    assert_eq!((found.train_tokens, found.validation_tokens), (tokens.len() as u64 - tail, tail));
    let corpus = Corpus::open(&shards(&out.join("manifest.json"), None), &model(4, 50_304)).expect("opens");
    let mut read = vec![0; corpus.train().len() as usize];
    corpus.train().read(0, &mut read).expect("reads over all shards");
    read.resize(tokens.len(), 0);
    corpus.validation().read(0, &mut read[tokens.len() - tail as usize..]).expect("reads");
    assert_eq!(read, tokens);
    corpus.verify(&found).expect("as submitted");
    let asked = shards(&out, Some(TokenizerSpec::Gpt2));
    assert_eq!(facts(&asked, &model(4, 50_257)).expect("the very one"), found);
}

#[test]
fn shards_that_do_not_fit_are_refused_with_the_reason() {
    let dir = TempDir::new().expect("temp dir");
    let out = prepared(&dir, TokenizerSpec::Gpt2);
    refused(&shards(&out, None), 50_256, &["tokenizer gpt2 of 50257 tokens", "vocab is 50256", "at least 50257"]);
    refused(&shards(&out, Some(TokenizerSpec::Bytes)), 50_257, &["[data] tokenizer is bytes", "was made with gpt2"]);
    // Also where the tokenizer that was asked for would not fit the model.
    let other = TempDir::new().expect("temp dir");
    let bytes = prepared(&other, TokenizerSpec::Bytes);
    refused(&shards(&bytes, Some(TokenizerSpec::Gpt2)), 256, &["[data] tokenizer is gpt2", "was made with bytes"]);
    refused(&shards(&dir.path().join("input.txt"), None), 50_257, &["not a manifest"]);
    refused(&shards(dir.path(), None), 50_257, &["manifest.json cannot be read", "shoalctl data prepare"]);
    let shard = out.join("train_000001.bin");
    let good = fs::read(&shard).expect("shard");
    let mut bytes = good.clone();
    bytes[1030] ^= 1;
    fs::write(&shard, bytes).expect("written");
    refused(&shards(&out, None), 50_257, &["train_000001.bin has not the bytes that its manifest says"]);
    fs::write(&shard, &good[..good.len() - 2]).expect("written");
    refused(&shards(&out, None), 50_257, &["says 100 tokens of 2 bytes and 198 bytes follow"]);
    fs::write(&shard, llmc(20_240_520, 1, 3, &[1, 2, 3])).expect("written");
    refused(&shards(&out, None), 50_257, &["has 3 tokens of 2 bytes, and its manifest says 100 of 2"]);
    fs::remove_file(&shard).expect("removed");
    refused(&shards(&out, None), 50_257, &["train_000001.bin cannot be read"]);
}

#[test]
fn a_job_that_evaluates_is_told_that_nothing_was_set_apart() {
    let dir = TempDir::new().expect("temp dir");
    let every = EvalSpec { every: 10, samples: 4 };
    let bare = shards(&prepared_with(&dir, TokenizerSpec::Bytes, 0.0), None);
    let corpus = Corpus::open(&bare, &model(4, 256)).expect("training tokens are enough");
    corpus.check_evaluation(None).expect("it asks for nothing");
    let error = corpus.check_evaluation(Some(&every)).expect_err("there is nothing").to_string();
    for part in ["no validation tokens", "every 10 steps", "eval_every = 0", "with --validation"] {
        assert!(error.contains(part), "{error}");
    }
    let other = TempDir::new().expect("temp dir");
    let some = shards(&prepared(&other, TokenizerSpec::Bytes), None);
    Corpus::open(&some, &model(4, 256)).expect("opens").check_evaluation(Some(&every)).expect("a tenth");
}

#[test]
fn what_made_the_tokens_may_be_said_where_the_data_does_not_know() {
    let dir = TempDir::new().expect("temp dir");
    let nano = write(&dir, "nano.bin", &u16s(&[1, 2, 3, 4, 5]));
    let said = DataSpec { tokenizer: Some(TokenizerSpec::Gpt2), ..spec(DataFormat::NanoGpt, &nano, 0.0) };
    assert_eq!(facts(&said, &model(4, 50_304)).expect("facts").tokenizer.expect("said").kind.word(), "gpt2");
    refused(&said, 300, &["tokenizer gpt2 of 50257 tokens"]);
    let nowhere = TokenizerSpec::Hf(dir.path().join("tokenizer.json"));
    let said = DataSpec { tokenizer: Some(nowhere), ..said };
    let error = facts(&said, &model(4, 300)).expect_err("refused");
    assert!(crate::chain(&error).contains("tokenizer.json"), "{}", crate::chain(&error));
}

#[test]
fn llmc_shards_are_a_directory_or_a_pattern() {
    let dir = TempDir::new().expect("temp dir");
    for (name, tokens) in [("train_b.bin", [4, 5, 6]), ("train_a.bin", [1, 2, 3]), ("val.bin", [7, 8, 9])] {
        write(&dir, name, &llmc(20_240_520, 1, 3, &tokens));
    }
    write(&dir, "notes.txt", b"not data");
    let read = |path: &Path, expected: &[u32]| {
        let corpus = Corpus::open(&spec(DataFormat::LlmC, path, 0.0), &model(2, 300)).expect("opens");
        let mut tokens = vec![0; corpus.train().len() as usize];
        corpus.train().read(0, &mut tokens).expect("reads");
        assert_eq!(tokens, expected);
    };
    read(dir.path(), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    read(&dir.path().join("train_*.bin"), &[1, 2, 3, 4, 5, 6]);
    refused(&spec(DataFormat::LlmC, &dir.path().join("no_*.bin"), 0.0), 300, &["no_*.bin does not exist"]);
}
