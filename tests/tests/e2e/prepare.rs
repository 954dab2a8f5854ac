//! `shoalctl data prepare` is killed on its way, again and again, and in the end nobody can tell.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shoal_tests::wait;

/// More than one unit of work for each of the kills.
const LINES: usize = 220_000;

fn prepare(dir: &Path, out: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.args([
        "data",
        "prepare",
        "--tokenizer",
        "bytes",
        "--input",
        "documents.jsonl",
        "--shard-tokens",
        "3000000",
    ]);
    command.args(["--json", "--out", out]);
    command
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("entry"));
    let files = entries.filter(|entry| entry.path().is_file());
    files.map(|e| (e.file_name().into_string().expect("a name"), fs::read(e.path()).unwrap_or_default())).collect()
}

/// Files that count: those still being written do not.
fn whole(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| !entry.file_name().to_string_lossy().ends_with(".part")).count()
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("gone");
}

#[test]
fn killed_at_any_point_it_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut lines = String::new();
    for n in 0..LINES {
        writeln!(lines, "{{\"id\": {n}, \"text\": \"document {n}: {}\"}}", "words and more words, ".repeat(n % 9))
            .expect("memory");
    }
    fs::write(dir.path().join("documents.jsonl"), lines).expect("written");
    assert!(prepare(dir.path(), "undisturbed").status().expect("runs").success());
    let want = files(&dir.path().join("undisturbed"));
    assert!(want.len() > 6 && want.contains_key("manifest.json"), "{:?}", want.keys());

    let out = dir.path().join("killed");
    let aside = out.join(".prepare");
    // At the start, after some units, after the first shards.
    let points: [(&str, &dyn Fn() -> bool); 6] = [
        ("a beginning", &|| aside.join("lock").exists()),
        ("a request", &|| aside.join("request").exists()),
        ("a unit", &|| whole(&aside) >= 3),
        ("more units", &|| whole(&aside) >= 5),
        ("a shard", &|| out.join("train_000000.bin").exists()),
        ("more shards", &|| out.join("train_000003.bin").exists()),
    ];
    let mut killed = 0;
    for (what, reached) in points {
        let mut child = prepare(dir.path(), "killed").spawn().expect("starts");
        let running = wait::until(what, Duration::from_secs(60), || {
            if reached() { Some(true) } else { child.try_wait().expect("a child").map(|_| false) }
        });
        killed += usize::from(running && child.try_wait().expect("a child").is_none());
        kill(child);
    }
    let output = prepare(dir.path(), "killed").output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files(&out), want);
    assert!(!aside.exists(), "nothing is left of the way");
    assert!(killed >= 4, "it was killed {killed} times before it was done");
}
