use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

use super::*;
use crate::shard::Width;

mod requests;

/// Follows nothing, and panics where it is told to: a run that ends in the middle.
struct Fuse(AtomicI64);

impl Watch for Fuse {
    fn phase(&self, _: Phase, _: u64) {
        self.burn();
    }

    fn advance(&self, _: u64) {
        self.burn();
    }

    fn skipped(&self, _: &BadDocument) {}
}

impl Fuse {
    fn burn(&self) {
        assert!(self.0.fetch_sub(1, Ordering::Relaxed) != 0, "the fuse is burnt");
    }

    fn never() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

fn request(dir: &Path, out: &str) -> Request {
    Request {
        tokenizer: TokenizerSpec::Gpt2,
        end_of_text: None,
        separate: None,
        inputs: vec![dir.join("in").display().to_string()],
        form: None,
        field: "text".to_owned(),
        split_on: None,
        validation: Validation::Share(0.1),
        shard_tokens: 700,
        skip_bad: false,
        threads: 2,
        out: dir.join(out),
    }
}

/// Sources of all forms: two texts, lines, a table.
fn sources(dir: &Path) {
    let input = dir.join("in/deep");
    fs::create_dir_all(&input).expect("directory");
    let long: String = (0..400).map(|i| format!("Line {i} of a longer text, it says.\n")).collect();
    fs::write(dir.join("in/a.txt"), &long).expect("written");
    fs::write(input.join("b.md"), "a short one").expect("written");
    fs::write(input.join(".hidden"), "never").expect("written");
    let lines: String = (0..200).map(|i| format!("{{\"n\": {i}, \"text\": \"document number {i}\"}}\n")).collect();
    fs::write(input.join("c.jsonl"), lines).expect("written");
}

fn run(request: &Request) -> Prepared {
    prepare_in_units(request, 1000, &Fuse::never()).expect("prepared")
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry"));
    entries.map(|e| (e.file_name().into_string().expect("a name"), fs::read(e.path()).expect("a file"))).collect()
}

/// Tokens of a part, read as anybody would.
fn tokens(dir: &Path, part: &crate::manifest::Part) -> Vec<u32> {
    let mut tokens = Vec::new();
    for shard in &part.shards {
        let bytes = fs::read(dir.join(&shard.file)).expect("shard");
        assert_eq!(shard.blake3, blake3::hash(&bytes).to_hex().to_string());
        let word = |at: usize| i32::from_le_bytes(*bytes[at * 4..].first_chunk().expect("a header"));
        assert_eq!((word(0), word(1), word(2)), (20_240_520, 1, shard.tokens as i32));
        assert!(bytes[12..1024].iter().all(|&byte| byte == 0));
        let stored = bytes[1024..].as_chunks::<2>().0;
        assert_eq!((stored.len() as u64, bytes.len() % 2), (shard.tokens, 0));
        tokens.extend(stored.iter().map(|pair| u32::from(u16::from_le_bytes(*pair))));
    }
    tokens
}

/// What it should be, in one go.
fn expected(dir: &Path, before: bool) -> Vec<u32> {
    let tokenizer = Tokenizer::open(&TokenizerSpec::Gpt2).expect("opens");
    let read = |path: &str| fs::read_to_string(dir.join("in").join(path)).expect("source");
    let mut documents = vec![read("a.txt"), read("deep/b.md")];
    documents.extend((0..200).map(|i| format!("document number {i}")));
    let mut tokens = Vec::new();
    for document in documents {
        if before {
            tokens.push(50_256);
        }
        tokenizer.encode(&document, &mut tokens).expect("encodes");
        if !before {
            tokens.push(50_256);
        }
    }
    tokens
}

#[test]
fn shards_hold_the_documents_in_order_with_the_token_between_them() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    for (name, separate, before) in [("append", None, false), ("prepend", Some(Separate::Prepend), true)] {
        let request = Request { separate, ..request(dir.path(), name) };
        let Prepared { manifest, already, resumed_units } = run(&request);
        assert_eq!((already, resumed_units), (false, 0));
        let want = expected(dir.path(), before);
        let tail = want.len() / 10;
        assert_eq!(tokens(&request.out, &manifest.train), want[..want.len() - tail]);
        assert_eq!(tokens(&request.out, &manifest.validation), want[want.len() - tail..]);
        assert!(manifest.train.shards.len() > 4 && manifest.train.shards[0].tokens == 700);
        assert_eq!((manifest.documents, manifest.skipped, manifest.sources.len()), (202, 0, 3));
        assert_eq!(Manifest::read(&request.out).expect("reads").0, manifest);
        assert!(!request.out.join(".prepare").exists());
        assert!(run(&request).already);
    }
}

#[test]
fn validation_may_have_sources_of_its_own() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    fs::write(dir.path().join("val.txt"), "for validation").expect("written");
    let validation = Validation::Inputs(vec![dir.path().join("val.txt").display().to_string()]);
    let request = Request { validation, ..request(dir.path(), "out") };
    let manifest = run(&request).manifest;
    assert_eq!(tokens(&request.out, &manifest.train), expected(dir.path(), false));
    let validation = tokens(&request.out, &manifest.validation);
    assert_eq!(
        Tokenizer::open(&TokenizerSpec::Gpt2).expect("opens").decode(&validation).expect("text"),
        "for validation<|endoftext|>"
    );
    assert_eq!(manifest.sources.last().expect("a source").part, "validation");
}

/// PR-1 (the same bytes) and PR-2 (whole or not there).
#[test]
fn neither_threads_nor_interruptions_show() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    // The one that is quickest to open.
    let request = |out| Request { tokenizer: TokenizerSpec::Bytes, ..request(dir.path(), out) };
    let want = {
        let request = Request { threads: 1, ..request("one") };
        run(&request);
        files(&request.out)
    };
    let many = Request { threads: 7, ..request("seven") };
    run(&many);
    assert_eq!(files(&many.out), want);
    // Panics of the threads that are ended on purpose say nothing of interest.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let broken = Request { threads: 1, ..request("broken") };
    let mut interrupted = 0;
    for fuse in 0.. {
        let fuse = Fuse(AtomicI64::new(fuse));
        match catch_unwind(AssertUnwindSafe(|| prepare_in_units(&broken, 1000, &fuse))) {
            Ok(result) => {
                result.expect("prepared");
                break;
            }
            Err(_) => interrupted += 1,
        }
    }
    std::panic::set_hook(hook);
    assert!(interrupted > 20, "{interrupted}");
    assert_eq!(files(&broken.out), want);
}

/// The natural thing to type: shards below what they are made of.
#[test]
fn what_is_made_is_no_input_of_itself() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let of = |out| Request { tokenizer: TokenizerSpec::Bytes, threads: 1, ..request(dir.path(), out) };
    let want = {
        run(&of("beside"));
        files(&dir.path().join("beside"))
    };
    let within = of("in/deep/shards");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    // Until there are shards, and the run ends in the middle.
    for fuse in 0.. {
        let fuse = Fuse(AtomicI64::new(fuse));
        let ended = catch_unwind(AssertUnwindSafe(|| prepare_in_units(&within, 1000, &fuse)));
        if ended.is_ok() || within.out.join("train_000000.bin").exists() {
            assert!(ended.is_err() && !within.out.join("manifest.json").exists(), "it ended too late");
            break;
        }
    }
    std::panic::set_hook(hook);
    assert!(!run(&within).already);
    assert_eq!(files(&within.out), want);
    assert!(run(&within).already);
}

/// Writes to a source as soon as a unit is done, and so that the time tells.
struct Scribe(PathBuf);

impl Scribe {
    fn write(&self, text: &str, seconds: u64) {
        fs::write(&self.0, text).expect("written");
        let file = fs::File::options().write(true).open(&self.0).expect("there");
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("set");
    }
}

impl Watch for Scribe {
    fn phase(&self, phase: Phase, _: u64) {
        if phase == Phase::Tokenizing {
            let text = fs::read_to_string(&self.0).expect("there");
            self.write(&text.replace("longer", "LONGER"), 2);
        }
    }

    fn advance(&self, _: u64) {}

    fn skipped(&self, _: &BadDocument) {}
}

#[test]
fn units_of_a_source_that_was_changed_are_not_kept() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let of = |out| Request { tokenizer: TokenizerSpec::Bytes, threads: 1, ..request(dir.path(), out) };
    run(&of("undisturbed"));
    let scribe = Scribe(dir.path().join("in/a.txt"));
    let text = fs::read_to_string(&scribe.0).expect("there");
    scribe.write(&text, 1);
    let changed = of("changed");
    let error = prepare_in_units(&changed, 1000, &scribe).expect_err("changed").to_string();
    assert!(error.contains("a.txt was changed while it was read") && error.contains("remove "), "{error}");
    scribe.write(&text, 3);
    run(&changed);
    assert_eq!(files(&changed.out), files(&dir.path().join("undisturbed")));
}

/// PR-3 (nothing of others).
#[test]
fn a_directory_of_something_else_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let refused = |request: &Request, words: &str| {
        let error = prepare_in_units(request, 1000, &Fuse::never()).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    };
    fs::create_dir(dir.path().join("full")).expect("directory");
    fs::write(dir.path().join("full/mine.txt"), "mine").expect("written");
    refused(&request(dir.path(), "full"), "is not empty");
    assert_eq!(files(&dir.path().join("full")).len(), 1);
    // Before anything is read.
    let error = prepare(&request(dir.path(), "full"), &Fuse(AtomicI64::new(0))).expect_err("refused").to_string();
    assert!(error.contains("is not empty"), "{error}");
    let none = vec![dir.path().join("none").display().to_string()];
    refused(&Request { inputs: none, ..request(dir.path(), "nothing") }, "names no file");
    assert_eq!(files(&dir.path().join("nothing")).len(), 0);
    run(&request(dir.path(), "out"));
    refused(&Request { shard_tokens: 701, ..request(dir.path(), "out") }, "holds shards of other inputs or options");
    assert!(!dir.path().join("out/.prepare").exists());
    let shard = dir.path().join("out/train_000001.bin");
    let mut bytes = fs::read(&shard).expect("shard");
    bytes[1500] ^= 1;
    fs::write(&shard, bytes).expect("written");
    refused(&request(dir.path(), "out"), "train_000001.bin is not what the manifest says");
    fs::write(dir.path().join("in/a.txt"), "changed").expect("written");
    refused(&request(dir.path(), "out"), "other inputs");
    let held = Place::take(&dir.path().join("busy")).expect("taken");
    refused(&request(dir.path(), "busy"), "another `shoalctl data prepare` works");
    drop(held);
    run(&request(dir.path(), "busy"));
}

#[test]
fn what_is_no_document_is_named_or_left_out_and_counted() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let good = run(&request(dir.path(), "good")).manifest;
    let lines = fs::read_to_string(dir.path().join("in/deep/c.jsonl")).expect("lines");
    fs::write(dir.path().join("in/deep/c.jsonl"), lines.replacen("{\"n\": 7", "{\"n\": 7}\nnonsense\n{\"n\": 7", 1))
        .expect("written");
    let error = prepare(&request(dir.path(), "bad"), &Fuse::never()).expect_err("refused").to_string();
    assert!(error.contains("c.jsonl:8: it has no field \"text\"") && error.contains("--skip-bad"), "{error}");
    let other = Request { shard_tokens: 5, ..request(dir.path(), "bad") };
    let error = prepare(&other, &Fuse::never()).expect_err("an unfinished one of other options").to_string();
    assert!(error.contains("unfinished preparation"), "{error}");
    fs::write(dir.path().join("in/0.txt"), b"one line\nand \xff another").expect("written");
    let error = prepare(&request(dir.path(), "worse"), &Fuse::never()).expect_err("refused").to_string();
    assert!(error.contains("0.txt:2: it is not UTF-8"), "{error}");
    // As one document, whatever the units that it is cut into.
    let long = format!("one line\n{}\n", " ".repeat(1_100_000));
    fs::write(dir.path().join("in/0.txt"), long + &"Lines\nfollow\n".repeat(1000)).expect("written");
    let error = prepare(&request(dir.path(), "long"), &Fuse::never()).expect_err("refused").to_string();
    assert!(error.contains("0.txt:2: it has a run of more than 400000 characters"), "{error}");
    let skipping = Request { skip_bad: true, ..request(dir.path(), "skipped") };
    let manifest = run(&skipping).manifest;
    assert_eq!((manifest.documents, manifest.skipped), (202, 3));
    assert_eq!(tokens(&skipping.out, &manifest.train), tokens(&dir.path().join("good"), &good.train));
}

#[test]
fn wide_vocabularies_and_files_of_their_own() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let wide = Request { tokenizer: TokenizerSpec::O200k, ..request(dir.path(), "wide") };
    let manifest = run(&wide).manifest;
    assert_eq!(manifest.token_bytes, 4);
    let bytes = fs::read(wide.out.join("train_000000.bin")).expect("shard");
    assert_eq!(bytes[..12], [20_240_801i32, 7, 700].map(i32::to_le_bytes).concat());
    assert_eq!(bytes.len(), 1024 + 4 * 700);
    let json = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tokenizer.json");
    let own = Request { tokenizer: TokenizerSpec::Hf(json.clone()), ..request(dir.path(), "own") };
    let manifest = run(&own).manifest;
    assert_eq!(fs::read(own.out.join("tokenizer.json")).expect("beside it"), fs::read(json).expect("golden"));
    assert_eq!((manifest.tokenizer.kind.as_str(), Width::of(manifest.tokenizer.vocab)), ("hf", Width::Two));
}
