use std::fs;
use std::path::{Path, PathBuf};

use shoal_plan::job::Job;
use tempfile::TempDir;

use super::checked::Checked;
use super::*;
use crate::testing::gpt2;

mod shards;

fn model(context: u32, vocab: u32) -> ModelSpec {
    gpt2([1, 1, 16, context, vocab])
}

fn spec(format: DataFormat, path: &Path, fraction: f64) -> DataSpec {
    DataSpec { format, path: path.to_owned(), tokenizer: None, validation: Validation::Tail { fraction } }
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().expect("inside the directory")).expect("directory");
    fs::write(&path, bytes).expect("written");
    path
}

fn u16s(tokens: &[u16]) -> Vec<u8> {
    tokens.iter().flat_map(|t| t.to_le_bytes()).collect()
}

/// A file as llm.c writes it; `tokens` as pairs of bytes.
fn llmc(magic: i32, version: i32, said: i32, tokens: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    for (at, word) in [magic, version, said].into_iter().enumerate() {
        bytes[at * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    bytes.extend(u16s(tokens));
    bytes
}

fn refused(spec: &DataSpec, vocab: u32, words: &[&str]) {
    let message = facts(spec, &model(4, vocab)).expect_err("refused").to_string();
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

#[test]
fn a_directory_is_one_stream_in_path_order() {
    let dir = TempDir::new().expect("temp dir");
    for (name, text) in [("b.txt", "cdé"), ("a/z.txt", "ab"), ("c.txt", "fgh"), (".hidden", "no"), ("d.txt", "")] {
        write(&dir, name, text.as_bytes());
    }
    let corpus = Corpus::open(&spec(DataFormat::Text, dir.path(), 0.0), &model(4, 256)).expect("opens");
    let mut out = [0; 9];
    corpus.train().read(0, &mut out).expect("reads");
    assert_eq!(out.map(|t| t as u8), *"abcdéfgh".as_bytes());
    let mut middle = [0; 4];
    corpus.train().read(1, &mut middle).expect("reads");
    assert_eq!(middle.map(|t| t as u8), *"bcd\u{e9}".as_bytes().first_chunk::<4>().expect("four bytes"));
}

#[test]
fn one_stream_has_one_digest_whatever_holds_it() {
    let dir = TempDir::new().expect("temp dir");
    let text = "the same tokens, whatever file they lie in";
    let tokens: Vec<u16> = text.bytes().map(u16::from).collect();
    let plain = write(&dir, "plain.txt", text.as_bytes());
    let nano = write(&dir, "nano.bin", &u16s(&tokens));
    let llm = write(&dir, "llm.bin", &llmc(20_240_520, 1, tokens.len() as i32, &tokens));
    let found: Vec<_> = [(DataFormat::Text, plain), (DataFormat::NanoGpt, nano), (DataFormat::LlmC, llm)]
        .into_iter()
        .map(|(format, path)| facts(&spec(format, &path, 0.25), &model(4, 256)).expect("facts"))
        .collect();
    assert_eq!(found[0].tokenizer.expect("text is bytes").kind.word(), "bytes");
    assert_eq!(DataFacts { tokenizer: None, ..found[0] }, found[1]);
    assert_eq!(found[1], found[2]);
    let digests = [&tokens[..32], &tokens[32..]].map(|part| Digest::of(&u16s(part)));
    assert_eq!([found[0].digest, found[0].validation_digest], digests);
    assert_eq!((found[0].train_tokens, found[0].validation_tokens), (32, 10));
}

#[test]
fn tokens_are_as_wide_as_the_vocabulary_asks() {
    let dir = TempDir::new().expect("temp dir");
    let tokens = [1, 65_535, 65_536, 200_018, 0, 7];
    let stored: Vec<u8> = tokens.iter().flat_map(|t: &u32| t.to_le_bytes()).collect();
    let mut bytes = llmc(20_240_801, 7, tokens.len() as i32, &[]);
    bytes.extend(&stored);
    let wide = spec(DataFormat::LlmC, &write(&dir, "wide.bin", &bytes), 0.0);
    let mut out = [0; 6];
    Corpus::open(&wide, &model(4, 200_019)).expect("opens").train().read(0, &mut out).expect("reads");
    assert_eq!(out, tokens);
    assert_eq!(facts(&wide, &model(4, 200_019)).expect("facts").digest, Digest::of(&stored));
    refused(&wide, 200_018, &["token 200018 at position 3", "vocab is 200018"]);
}

#[test]
fn validation_comes_from_the_tail_or_its_own_path() {
    let dir = TempDir::new().expect("temp dir");
    let train = write(&dir, "train.txt", b"0123456789");
    let own = write(&dir, "val.txt", b"abcdef");
    let tail = Corpus::open(&spec(DataFormat::Text, &train, 0.5), &model(4, 256)).expect("opens");
    let mut out = [0; 5];
    tail.validation().read(0, &mut out).expect("reads");
    assert_eq!(out.map(|t| t as u8), *b"56789");
    let apart = DataSpec { validation: Validation::Path(own), ..spec(DataFormat::Text, &train, 0.0) };
    let apart = Corpus::open(&apart, &model(4, 256)).expect("opens");
    assert_eq!((apart.train().len(), apart.validation().len()), (10, 6));
    apart.validation().read(1, &mut out).expect("reads");
    assert_eq!(out.map(|t| t as u8), *b"bcdef");
}

#[test]
fn a_split_inside_a_character_is_no_fault_but_a_torn_one_is() {
    let dir = TempDir::new().expect("temp dir");
    let accents = write(&dir, "accents.txt", "éééééééé".as_bytes());
    let split = facts(&spec(DataFormat::Text, &accents, 0.4375), &model(4, 256)).expect("facts");
    assert_eq!((split.train_tokens, split.validation_tokens), (9, 7));
    let torn = write(&dir, "torn.txt", b"abcdefgh\xc3");
    refused(&spec(DataFormat::Text, &torn, 0.0), 256, &["byte 8 is not UTF-8"]);
    let binary = write(&dir, "binary.txt", b"abc\xff\xfedefghijkl");
    refused(&spec(DataFormat::Text, &binary, 0.5), 256, &["byte 3 is not UTF-8", "[data] kind"]);
}

#[test]
fn a_character_may_straddle_two_blocks() {
    let dir = TempDir::new().expect("temp dir");
    let text = format!("x{}", "é".repeat(1 << 19));
    let path = write(&dir, "long.txt", text.as_bytes());
    assert_eq!(facts(&spec(DataFormat::Text, &path, 0.0), &model(4, 256)).expect("facts").train_tokens, (1 << 20) + 1);
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let dir = TempDir::new().expect("temp dir");
    let text = |path: &Path| spec(DataFormat::Text, path, 0.0);
    refused(&text(&dir.path().join("nowhere")), 256, &["nowhere does not exist", "[data] path"]);
    refused(&text(&write(&dir, "empty/file.txt", b"")), 256, &["holds no token"]);
    refused(&text(&dir.path().join("empty")), 256, &["holds no token"]);
    refused(&text(&write(&dir, "short.txt", b"abcd")), 256, &["4 training tokens", "takes 5"]);
    let tail = spec(DataFormat::Text, &write(&dir, "tail.txt", b"0123456789"), 0.1);
    refused(&tail, 256, &["1 validation tokens", "[data] validation"]);
    refused(&spec(DataFormat::NanoGpt, dir.path(), 0.0), 256, &["is a directory"]);
}

#[test]
fn token_files_are_checked_to_the_byte() {
    let dir = TempDir::new().expect("temp dir");
    let nano = |bytes: &[u8]| spec(DataFormat::NanoGpt, &write(&dir, "nano.bin", bytes), 0.0);
    refused(&nano(b"0123456789a"), 1 << 16, &["11 bytes are not a whole number"]);
    refused(&nano(&llmc(20_240_520, 1, 5, &[1; 5])), 1 << 16, &["header of an llm.c file"]);
    refused(&nano(&u16s(&[1, 2, 3, 65, 5])), 65, &["token 65 at position 3", "vocab is 65"]);
    let llm = |bytes: &[u8]| spec(DataFormat::LlmC, &write(&dir, "llm.bin", bytes), 0.0);
    refused(&llm(&[0; 100]), 1 << 16, &["shorter than the header"]);
    refused(&llm(&llmc(7, 1, 5, &[1; 5])), 1 << 16, &["begins with 7"]);
    refused(&llm(&llmc(20_240_520, 7, 5, &[1; 5])), 1 << 16, &["version 7"]);
    refused(&llm(&llmc(20_240_520, 1, 6, &[1; 5])), 1 << 16, &["says 6 tokens of 2 bytes and 10 bytes follow"]);
    refused(&llm(&llmc(20_240_801, 7, 5, &[1; 5])), 1 << 16, &["says 5 tokens of 4 bytes and 10 bytes follow"]);
    refused(&llm(&llmc(20_240_801, 1, 5, &[1; 10])), 1 << 16, &["magic 20240801 and version 1", "only 7"]);
    refused(&llm(&llmc(20_240_520, 1, -1, &[1; 5])), 1 << 16, &["says -1 tokens"]);
}

#[test]
fn other_tokens_than_submitted_are_refused() {
    let dir = TempDir::new().expect("temp dir");
    let path = write(&dir, "text.txt", b"the submitted text");
    let spec = spec(DataFormat::Text, &path, 0.0);
    let submitted = facts(&spec, &model(4, 256)).expect("facts");
    let corpus = Corpus::open(&spec, &model(4, 256)).expect("opens");
    corpus.verify(&submitted).expect("the same");
    write(&dir, "text.txt", b"the submitted next");
    let changed = Corpus::open(&spec, &model(4, 256)).expect("opens");
    let message = changed.verify(&submitted).expect_err("differs").to_string();
    assert!(message.contains(&submitted.digest.to_hex()), "{message}");
}

#[test]
fn only_regular_files_are_opened() {
    refused(&spec(DataFormat::Text, Path::new("/dev/null"), 0.0), 256, &["/dev/null", "regular file"]);
}

/// A job on text, opened and checked; and the file.
fn checked(dir: &TempDir) -> (Job, Checked, PathBuf) {
    let path = write(dir, "text.txt", b"the submitted text, long enough for a few windows");
    let mut spec = shoal_config::preset("demo", &path).expect("known preset");
    (spec.model, spec.data) = (model(4, 256), self::spec(DataFormat::Text, &path, 0.2));
    let data = facts(&spec.data, &spec.model).expect("facts");
    let job = Job { spec, data, weights: None };
    let checked = Checked::open(&job).expect("opens");
    (job, checked, path)
}

/// LD-2 (submitted bits only).
#[test]
fn touched_files_are_read_again_and_changed_ones_refused() {
    let read = |job: &Job, checked: &Checked| checked.read(job, Split::Train, &[vec![0..5, 4..9]]);
    let dir = TempDir::new().expect("temp dir");
    let (job, opened, path) = checked(&dir);
    let want = vec![b"the ssubmi".map(u32::from).to_vec()];
    assert_eq!(read(&job, &opened).expect("as submitted"), want);
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_modified(std::time::UNIX_EPOCH).expect("touched");
    assert_eq!(read(&job, &opened).expect("touched, not changed"), want);
    fs::remove_file(&path).expect("removed");
    assert_eq!(read(&job, &opened).expect("the open file is still there"), want);

    for change in [
        |path: &Path| fs::write(path, b"THE submitted text, long enough for a few windows").expect("written"),
        |path: &Path| fs::write(path, b"the submitted text, long enough for a few windowS").expect("written"),
        |path: &Path| fs::OpenOptions::new().write(true).open(path).and_then(|f| f.set_len(9)).expect("cut"),
    ] {
        let (job, opened, path) = checked(&dir);
        change(&path);
        let message = read(&job, &opened).expect_err("changed").to_string();
        assert!(message.contains("copy the submitted files") || message.contains("text.txt"), "{message}");
        fs::remove_file(&path).expect("removed");
    }
}
