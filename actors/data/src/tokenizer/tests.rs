use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::documents::{Form, cuts};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Text and tokens of a `tokenizer.json` whose bytes are tokens where it has no others.
#[derive(Deserialize)]
struct Fallback {
    text: String,
    hf: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Vector {
    text: String,
    gpt2: Vec<u32>,
    o200k: Vec<u32>,
    hf: Vec<u32>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_slice(&fs::read(golden("tokens.json")).expect("committed")).expect("vectors")
}

fn all() -> Vec<Tokenizer> {
    let specs =
        [TokenizerSpec::Bytes, TokenizerSpec::Gpt2, TokenizerSpec::O200k, TokenizerSpec::Hf(golden("tokenizer.json"))];
    specs.iter().map(|spec| Tokenizer::open(spec).expect("opens")).collect()
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    tokenizer.encode(text, &mut tokens).expect("encodes");
    tokens
}

#[test]
fn tokens_are_those_of_other_implementations() {
    let [bytes, gpt2, o200k, hf] = &all()[..] else { panic!("four") };
    for vector in vectors() {
        assert_eq!(encode(bytes, &vector.text), vector.text.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!(encode(gpt2, &vector.text), vector.gpt2, "gpt2: {:?}", vector.text);
        assert_eq!(encode(o200k, &vector.text), vector.o200k, "o200k: {:?}", vector.text);
        assert_eq!(encode(hf, &vector.text), vector.hf, "hf: {:?}", vector.text);
    }
}

#[test]
fn text_comes_back_at_once_and_token_by_token() {
    for tokenizer in all() {
        for vector in vectors() {
            let tokens = encode(&tokenizer, &vector.text);
            assert_eq!(tokenizer.decode(&tokens).expect("decodes"), vector.text);
            let mut stream = tokenizer.stream();
            let mut text = String::new();
            for &token in &tokens {
                text.push_str(&stream.push(token).expect("in the vocabulary"));
                assert!(vector.text.starts_with(&text), "{:?}: what is shown stays: {text:?}", tokenizer.facts().kind);
            }
            text.push_str(&stream.finish());
            assert_eq!(text, vector.text);
        }
    }
}

/// Characters one after the other that are several byte tokens each: a decoder looks at a whole run of them.
#[test]
fn runs_of_byte_tokens_come_back_character_by_character() {
    let tokenizer = Tokenizer::open(&TokenizerSpec::Hf(golden("fallback.json"))).expect("opens");
    let vectors: Vec<Fallback> =
        serde_json::from_slice(&fs::read(golden("fallback_tokens.json")).expect("committed")).expect("vectors");
    assert!(vectors.iter().any(|vector| vector.text == "你好世界🦀🦀" && vector.hf.len() == 1 + 4 * 3 + 2 * 4));
    for vector in vectors {
        assert_eq!(encode(&tokenizer, &vector.text), vector.hf, "{:?}", vector.text);
        assert_eq!(tokenizer.decode(&vector.hf).expect("decodes"), vector.decoded);
        let mut stream = tokenizer.stream();
        let (mut text, mut changes) = (String::new(), 0);
        for &token in &vector.hf {
            let new = stream.push(token).expect("in the vocabulary");
            changes += usize::from(!new.is_empty());
            text.push_str(&new);
            assert!(vector.decoded.starts_with(&text), "what is shown stays: {text:?} of {:?}", vector.decoded);
        }
        assert!(changes >= vector.text.chars().count() / 4, "{:?} came in {changes} parts", vector.text);
        text.push_str(&stream.finish());
        assert_eq!(text, vector.decoded);
    }
}

#[test]
fn tokens_with_a_text_are_those_that_can_be_decoded() {
    for tokenizer in all() {
        let texts = tokenizer.texts();
        assert_eq!(texts.len(), tokenizer.vocab() as usize);
        let none: Vec<u32> = (0..tokenizer.vocab()).filter(|token| !texts[*token as usize]).collect();
        let holes: Vec<u32> = match tokenizer.facts().kind {
            TokenizerKind::O200k => [199_998].into_iter().chain(200_000..200_018).collect(),
            TokenizerKind::Bytes | TokenizerKind::Gpt2 | TokenizerKind::Hf => Vec::new(),
        };
        assert_eq!(none, holes, "{}", tokenizer.facts().kind);
        assert!(none.iter().all(|token| tokenizer.decode(&[*token]).is_err()));
    }
}

#[test]
fn facts_are_fixed() {
    let facts: Vec<_> = all().iter().map(|t| (t.vocab(), t.end_of_text(), t.facts().digest.to_hex())).collect();
    let short: Vec<_> = facts.iter().map(|(vocab, end, digest)| (*vocab, *end, &digest[..16])).collect();
    assert_eq!(
        short,
        [
            (256, None, "a43fde1a3fdeff95"),
            (50_257, Some(50_256), "d4c980e627e186a2"),
            (200_019, Some(199_999), "20808499cac118f3"),
            (300, Some(0), "c46f92f2289c94a6"),
        ]
    );
}

#[test]
fn bytes_that_are_no_character_are_shown_as_such_and_not_held_back() {
    let bytes = Tokenizer::bytes();
    let mut stream = bytes.stream();
    let mut shown = Vec::new();
    for token in [0x41, 0xe9, 0x42, 0xf0, 0x9f, 0xa6, 0x80, 0xc3] {
        shown.push(stream.push(token).expect("a byte"));
    }
    assert_eq!(shown, ["A", "", "\u{fffd}B", "", "", "", "🦀", ""]);
    assert_eq!(stream.finish(), "\u{fffd}");
}

#[test]
fn what_is_not_there_is_named() {
    let open = |path: PathBuf| Tokenizer::open(&TokenizerSpec::Hf(path)).expect_err("refused").to_string();
    assert!(open("/nowhere/tokenizer.json".into()).contains("bytes, gpt2, o200k or a tokenizer.json"));
    assert!(open(golden("tokens.json")).contains("is no tokenizer.json"));
    let dir = tempfile::tempdir().expect("temp dir");
    for (text, says) in [
        (
            "{\n  \"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 600}",
            "without the key \"model\" (it begins with arch",
        ),
        ("[1]", "it is JSON, but no object"),
        ("{\"model\": ", "it is no JSON: EOF"),
        ("{\"model\": {\"type\": \"BPE\"}}", "is no tokenizer.json"),
    ] {
        let path = dir.path().join("t.json");
        fs::write(&path, text).expect("written");
        let said = open(path);
        assert!(said.contains(says), "{said}");
    }
    let [bytes, gpt2, _, hf] = &all()[..] else { panic!("four") };
    for (tokenizer, token) in [(bytes, 256), (gpt2, 50_257), (hf, 300)] {
        assert!(tokenizer.decode(&[token]).expect_err("unknown").to_string().contains(&token.to_string()));
        assert!(tokenizer.stream().push(token).is_err());
    }
    assert!(Tokenizer::bytes().ending_with("x").expect_err("none").to_string().contains("--end-of-text"));
    let o200k = Tokenizer::open(&TokenizerSpec::O200k).expect("opens");
    assert_eq!(o200k.ending_with("<|endofprompt|>").expect("there").end_of_text(), Some(200_018));
    let gpt2 = Tokenizer::open(&TokenizerSpec::Gpt2).expect("opens");
    assert_eq!(gpt2.special_tokens().into_iter().collect::<Vec<_>>(), [("<|endoftext|>".to_owned(), 50_256)]);
    assert!(gpt2.ending_with("no such token").is_err());
}

/// Text with all that splitting into words looks at.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[a-zA-Z]{1,6}", 3 => Just("\n".to_owned()), 2 => " {1,3}", 1 => "[0-9]{1,5}", 1 => "['.,/!-]{1,3}",
        1 => Just("\r\n".to_owned()), 1 => Just("\t".to_owned()), 1 => Just("é".to_owned()), 1 => Just("'s".to_owned()),
        1 => Just("日本".to_owned()), 1 => Just("\u{a0}".to_owned()), 1 => Just("\u{2028}".to_owned()),
    ];
    prop::collection::vec(word, 0..80).prop_map(|words| words.concat())
}

/// Tokens do not show where a text was cut.
#[test]
fn cuts_do_not_show() {
    let tokenizers = [TokenizerSpec::Bytes, TokenizerSpec::Gpt2, TokenizerSpec::O200k]
        .map(|spec| Tokenizer::open(&spec).expect("opens"));
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("text");
    let cut_somewhere = std::cell::Cell::new(0);
    proptest!(ProptestConfig::with_cases(100), |(text in text())| {
        fs::write(&path, &text).expect("written");
        for tokenizer in &tokenizers {
            let runs = cuts(&path, (Form::Text, text.len() as u64), None, tokenizer.cuts(), 16).expect("cut");
            let mut parts = Vec::new();
            for (from, to) in &runs {
                parts.extend(encode(tokenizer, &text[*from as usize..*to as usize]));
            }
            prop_assert_eq!(&parts, &encode(tokenizer, &text), "{:?} cut at {:?}", tokenizer.facts().kind, runs);
            if tokenizer.cuts() == Cuts::LineStarts {
                cut_somewhere.set(cut_somewhere.get() + runs.len().saturating_sub(1));
            }
        }
    });
    assert!(cut_somewhere.get() > 50, "the texts were cut {} times", cut_somewhere.get());
}

/// The longest runs are split right, and longer ones are an error: no panic, no other words.
#[test]
fn long_runs_are_split_or_refused() {
    let [bytes, others @ ..] = &all()[..] else { panic!("four") };
    for tokenizer in others {
        let kind = tokenizer.facts().kind;
        let spaces = " ".repeat(runs::MOST);
        let expected = [encode(tokenizer, &spaces[1..]), encode(tokenizer, " x")].concat();
        assert!(encode(tokenizer, &format!("{spaces}x")) == expected, "{kind}");
        for run in ["A", "a", "\n", "-", "\u{301}"].map(|one| one.repeat(runs::MOST - 3)) {
            let tokens = encode(tokenizer, &format!(".{run}.x"));
            assert!(tokenizer.decode(&tokens).expect("decodes") == format!(".{run}.x"), "{kind}");
        }
        for long in [" ", "A"].map(|one| one.repeat(1_100_000)) {
            let error = tokenizer.encode(&format!("{long}."), &mut Vec::new()).expect_err("refused").to_string();
            assert!(error.contains("a run of more than 400000 characters"), "{kind}: {error}");
        }
    }
    assert_eq!(encode(bytes, &" ".repeat(1_100_000)).len(), 1_100_000);
}

#[test]
fn vocabularies_that_no_model_has_are_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("tokenizer.json");
    for (last, allowed) in [(1_048_575_u32, true), (1_048_576, false), (u32::MAX, false)] {
        let json = format!(
            r#"{{"added_tokens":[],"model":{{"type":"WordLevel","vocab":{{"a":0,"b":{last}}},"unk_token":"a"}}}}"#
        );
        fs::write(&path, json).expect("written");
        match Tokenizer::open(&TokenizerSpec::Hf(path.clone())) {
            Ok(tokenizer) => assert!(allowed && tokenizer.vocab() == last + 1, "{last}"),
            Err(error) => assert!(
                !allowed && error.to_string().contains(&format!("its last token is {last}; allowed: below 1048576")),
                "{error}"
            ),
        }
    }
}
