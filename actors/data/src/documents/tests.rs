use std::fs;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;
use crate::runs;

/// Bytes of a document, at most.
const MOST: u64 = 2 << 20;

/// Documents of a file, `Err` for what is none, through spans of about `size` bytes.
fn documents(path: &Path, form: Form, field: &str, split_on: Option<&str>, size: u64) -> Vec<Result<String, String>> {
    let bytes = fs::metadata(path).expect("there").len();
    let reading =
        Reading { field: field.to_owned(), split_on: split_on.map(str::to_owned), cuts: Cuts::Nowhere, most: MOST };
    let runs = match form {
        Form::Parquet => (0..row_groups(path, field).expect("a table").len() as u64).map(|g| (g, g + 1)).collect(),
        Form::Text | Form::Jsonl => cuts(path, (form, bytes), split_on, Cuts::Anywhere, size).expect("cut"),
    };
    let end = runs.last().map_or(0, |run| run.1);
    let mut found = Vec::new();
    for (from, to) in runs {
        let span = Span { source: 0, from, to, last: to == end };
        each::<()>(path, form, &span, &reading, &mut |piece| {
            match piece {
                Ok(Piece { text, begins: false, .. }) => {
                    let Some(Ok(last)) = found.last_mut() else { panic!("a piece without a beginning") };
                    String::push_str(last, text);
                }
                Ok(piece) => found.push(Ok(piece.text.to_owned())),
                Err(bad) => found.push(Err(bad.to_string())),
            }
            Ok(())
        })
        .expect("reads");
    }
    found
}

fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join(name);
    fs::write(&path, bytes).expect("written");
    (dir, path)
}

fn good(texts: &[&str]) -> Vec<Result<String, String>> {
    texts.iter().map(|text| Ok((*text).to_owned())).collect()
}

#[test]
fn a_text_file_is_one_document_or_several() {
    let (_dir, path) = file("a.txt", "one\n---\ntwo é\n---\n\n---\n---\nthree".as_bytes());
    for size in [1, 4, 9, 1000] {
        let whole = documents(&path, Form::Text, "", None, size);
        assert_eq!(whole, good(&["one\n---\ntwo é\n---\n\n---\n---\nthree"]));
        let split = documents(&path, Form::Text, "", Some("\n---\n"), size);
        assert_eq!(split, good(&["one", "two é", "---\nthree"]), "{size}");
    }
}

proptest! {
    /// Runs of a separator that overlaps itself are split as from the beginning of the file, wherever it is cut.
    #[test]
    fn separators_are_found_as_from_the_beginning(
        text in "[ab]{0,60}",
        separator in prop::sample::select(vec!["a", "aa", "aba", "ab", "aab"]),
        size in 1u64..20,
    ) {
        let (_dir, path) = file("a.txt", text.as_bytes());
        let naive: Vec<_> = text.split(separator).filter(|t| !t.is_empty()).map(|t| Ok(t.to_owned())).collect();
        prop_assert_eq!(documents(&path, Form::Text, "", Some(separator), size), naive);
    }
}

#[test]
fn lines_are_objects_and_what_is_none_is_named_with_its_line() {
    let lines = [
        r#"{"id": 1, "text": "one \"quoted\" \u00e9", "meta": {"text": "not this"}}"#,
        "",
        r#"{"text": "two", "#,
        r#"{"id": 4}"#,
        r#"{"text": 5}"#,
        r#"["text"]"#,
        "  ",
        r#"{"text": "last", "x": [1, {"a": null}]} "#,
    ];
    let mut bytes = lines.join("\n").into_bytes();
    bytes.extend(b"\r\n{\"text\": \"\xff\"}");
    let (_dir, path) = file("a.jsonl", &bytes);
    for size in [1, 30, 1000] {
        let found = documents(&path, Form::Jsonl, "text", None, size);
        let texts: Vec<_> = found.iter().filter_map(|d| d.as_deref().ok()).collect();
        assert_eq!(texts, ["one \"quoted\" é", "last"]);
        let bad: Vec<_> = found.iter().filter_map(|d| d.as_ref().err()).collect();
        let path = path.display().to_string();
        for (bad, (line, words)) in bad.iter().zip([
            (3, "not a JSON object"),
            (4, "no field \"text\"; name the one with the text with --field"),
            (5, "field \"text\" is a number, not a string"),
            (6, "not a JSON object"),
            (9, "not UTF-8"),
        ]) {
            assert!(bad.starts_with(&format!("{path}:{line}: ")) && bad.contains(words), "{bad}");
        }
        assert_eq!(bad.len(), 5);
    }
}

#[test]
fn tables_of_every_codec_give_their_rows() {
    for codec in ["snappy", "zstd", "gzip", "lz4", "none"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{codec}.parquet"));
        let found = documents(&path, Form::Parquet, "text", None, 0);
        assert_eq!(found.len(), 7, "{codec}");
        assert_eq!(found[1], Ok("Hello, world!".to_owned()));
        assert_eq!(found[6].as_deref().expect("text").chars().next(), Some('x'));
        let bad = found[3].as_ref().expect_err("null");
        assert!(bad.ends_with("row 4: column \"text\" is null"), "{bad}");
        let missing = row_groups(&path, "body").expect_err("no such column").to_string();
        assert!(missing.contains("no column \"body\" but id, text"), "{missing}");
        assert!(row_groups(&path, "id").expect_err("numbers").to_string().contains("INT64"));
    }
    let (_dir, path) = file("a.parquet", b"PAR1 but not really PAR1");
    assert!(row_groups(&path, "text").expect_err("no table").to_string().contains("no Parquet file"));
}

/// A text may be null, or the structure that it is in; more rows than are read at a time.
#[test]
fn a_column_within_a_structure_gives_each_row_its_own_text() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("a.parquet");
    let schema = "message m { optional group doc { optional binary text (UTF8); } }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = fs::File::create(&path).expect("made");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("looked at").expect("one");
    let levels: Vec<i16> = (0..600).map(|row| row % 3).collect();
    let texts = (0..600).filter(|row| row % 3 == 2).map(|row| ByteArray::from(format!("row {}", row + 1).as_str()));
    let texts: Vec<ByteArray> = texts.collect();
    column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");

    let found = documents(&path, Form::Parquet, "doc.text", None, 0);
    assert_eq!(found.len(), 600);
    for (row, found) in (1..).zip(&found) {
        match found {
            Ok(text) => assert_eq!((text.as_str(), row % 3), (format!("row {row}").as_str(), 0)),
            Err(bad) => assert!(row % 3 != 0 && bad.ends_with(&format!("row {row}: column \"doc.text\" is null"))),
        }
    }
}

#[test]
fn runs_that_no_tokenizer_splits_are_no_documents_and_named() {
    let long = " ".repeat(runs::MOST + 1);
    let (_dir, path) = file("a.jsonl", format!("{{\"text\": \"a\"}}\n{{\"text\": \"a{long}b\"}}\n").as_bytes());
    let found = documents(&path, Form::Jsonl, "text", None, 10);
    assert_eq!((found.len(), found[0].as_deref()), (2, Ok("a")));
    let bad = found[1].as_ref().expect_err("too long");
    assert!(bad.starts_with(&format!("{}:2: it has a run of more than 400000", path.display())), "{bad}");
    let (_dir, path) = file("a.txt", format!("a--b\nc\n{long}--d").as_bytes());
    let found = documents(&path, Form::Text, "", Some("--"), 10);
    assert_eq!((found.len(), found[0].as_deref(), found[2].as_deref()), (3, Ok("a"), Ok("d")));
    assert!(found[1].as_ref().expect_err("too long").starts_with(&format!("{}:3: it has a run", path.display())));
}

#[test]
fn documents_that_are_too_large_are_named_and_not_held() {
    let (fits, long) = ("x".repeat(MOST as usize - 100), "x ".repeat(MOST as usize));
    let (_dir, path) = file("a.txt", format!("a\n<>\n{}<>{long}<>b<>{long}", fits.replace("xx", "x ")).as_bytes());
    let found = documents(&path, Form::Text, "", Some("<>"), 10);
    assert_eq!(found.len(), 5);
    assert_eq!((found[0].as_deref(), found[3].as_deref()), (Ok("a\n"), Ok("b")));
    assert_eq!(found[1].as_deref().map(str::len), Ok(MOST as usize - 99));
    for bad in [&found[2], &found[4]] {
        let said = format!("{}:3: it is a document of {} bytes; allowed: at most {MOST}", path.display(), 2 * MOST);
        assert!(bad.as_ref().expect_err("too large").starts_with(&said), "{bad:?}");
    }
    let line = |text: &str| format!("{{\"text\": \"{text}\"}}\n");
    let (_dir, path) = file("a.jsonl", [line("a"), line(&long), line("b")].concat().as_bytes());
    let found = documents(&path, Form::Jsonl, "text", None, 10);
    assert_eq!((found.len(), found[0].as_deref(), found[2].as_deref()), (3, Ok("a"), Ok("b")));
    let said = format!("{}:2: it is a document of", path.display());
    assert!(found[1].as_ref().expect_err("too large").starts_with(&said), "{:?}", found[1]);
}
