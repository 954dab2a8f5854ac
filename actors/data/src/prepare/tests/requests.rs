//! What is asked for and cannot be done.

use super::*;

#[test]
fn requests_that_make_no_sense_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let of = || request(dir.path(), "out");
    let none = vec![dir.path().join("none/*.txt").display().to_string()];
    for (request, words) in [
        (Request { inputs: none, ..of() }, "names no file"),
        (Request { split_on: Some(String::new()), ..of() }, "--split-on is empty"),
        (Request { shard_tokens: 0, ..of() }, "--shard-tokens is 0"),
        (Request { validation: Validation::Share(0.6), ..of() }, "--validation is 0.6"),
        (Request { tokenizer: TokenizerSpec::Bytes, separate: Some(Separate::Append), ..of() }, "--separate none"),
        (Request { end_of_text: Some("</s>".to_owned()), ..of() }, "no token `</s>`"),
        (Request { inputs: [of().inputs, of().inputs].concat(), ..of() }, "named twice"),
        (Request { field: "body".to_owned(), ..of() }, "no field \"body\""),
    ] {
        let error = prepare(&request, &Fuse::never()).expect_err("refused").to_string();
        assert!(error.contains(words), "{words} is not in: {error}");
        assert!(!dir.path().join("out/manifest.json").exists());
        let _ = fs::remove_dir_all(dir.path().join("out"));
    }
}

#[test]
fn what_another_version_began_is_not_gone_on_with() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let request = Request { tokenizer: TokenizerSpec::Bytes, ..request(dir.path(), "out") };
    let asked = Asked::of(&request).expect("makes sense");
    let sources = sources::read(&asked, &Fuse::never(), &AtomicBool::new(false)).expect("read");
    let older = units::digest(units::VERSION - 1, &asked, &sources, 1000);
    Place::take(&request.out).expect("taken").begin(&older).expect("begun");
    let error = prepare_in_units(&request, 1000, &Fuse::never()).expect_err("another version's").to_string();
    assert!(error.contains("an unfinished preparation"), "{error}");
}

/// A text that its tokenizer must be given as a whole.
#[test]
fn a_text_that_is_too_large_is_named_before_it_is_held() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let tokenizer = TokenizerSpec::Hf(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tokenizer.json"));
    let request = Request { tokenizer, ..request(dir.path(), "out") };
    let mut asked = Asked::of(&request).expect("makes sense");
    let most = asked.reading.most;
    assert_eq!((most, asked.tokenizer.bytes_to_encode(most)), (8 << 20, 400 * (8 << 20)), "3.1 GiB a thread");
    let sources = sources::read(&asked, &Fuse::never(), &AtomicBool::new(false)).expect("read");
    assert!(units::plan(&asked, sources.clone(), 1000).is_ok());
    asked.reading.most = 5000;
    let error = units::plan(&asked, sources, 1000).expect_err("too large").to_string();
    assert!(error.contains("a.txt: it is a document of 14290 bytes; allowed: at most 5000"), "{error}");
}

#[test]
fn names_say_what_files_are_made_of_or_are_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    sources(dir.path());
    let of = |input: &str| Request {
        inputs: vec![dir.path().join(input).display().to_string()],
        ..request(dir.path(), "out")
    };
    for name in ["page.html", "a.json", "b.CSV", "c.GZ", "d[1.txt"] {
        fs::write(dir.path().join(name), "{\"text\": \"a\"}").expect("written");
    }
    for name in ["page.html", "a.json", "b.CSV"] {
        let error = prepare(&of(name), &Fuse::never()).expect_err("refused").to_string();
        assert!(error.contains(&format!("{name} is neither")) && error.contains("--format"), "{error}");
    }
    assert!(prepare(&of("c.GZ"), &Fuse::never()).expect_err("refused").to_string().contains("is compressed"));
    let error = prepare(&of("d[2.txt"), &Fuse::never()).expect_err("refused").to_string();
    assert!(error.contains("as a pattern it is wrong"), "{error}");
    let asked = Request { form: Some(Form::Text), ..of("page.html") };
    assert_eq!(run(&asked).manifest.sources[0].form, "text");
    for (name, form) in
        [("a.JSONL", Form::Jsonl), ("b.Parquet", Form::Parquet), ("c", Form::Text), ("d.TXT", Form::Text)]
    {
        assert_eq!(Form::of(Path::new(name)), Some(form), "{name}");
    }
}
