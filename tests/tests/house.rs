//! The house keeps its shape: arrows between crates, who may name which library, how long a file may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crate, directory, what it may use of ours.
const ARROWS: [(&str, &str, &[&str]); 10] = [
    ("shoal-exact", "kernels/exact", &[]),
    ("shoal-config", "config", &[]),
    ("shoal-plan", "actors/plan", &["exact", "config"]),
    ("shoal-kernels", "kernels", &["exact"]),
    ("shoal-model", "kernels/model", &["exact", "kernels", "plan", "config"]),
    ("shoal-wire", "actors/wire", &["exact", "plan", "config"]),
    ("shoal-data", "actors/data", &["plan", "config"]),
    ("shoal-actors", "actors", &["exact", "data", "wire", "plan", "model", "kernels", "config"]),
    ("shoal-daemon", "daemon", &["exact", "actors", "data", "wire", "plan", "model", "kernels", "config"]),
    ("shoal-ctl", "ctl", &["data", "wire", "plan", "config", "daemon"]),
];

/// Library, and the directories (of production code) that may name it.
const ONLY: [(&str, &[&str]); 11] = [
    ("cudarc", &["kernels/src"]),
    ("quinn", &["actors/src/transport"]),
    ("rustls", &["actors/src/transport"]),
    ("webpki", &["actors/src/transport"]),
    ("sled", &["daemon/src/store"]),
    ("ractor", &["actors/src", "daemon/src"]),
    ("tiktoken_rs", &["actors/data/src"]),
    ("tokenizers", &["actors/data/src"]),
    ("parquet", &["actors/data/src"]),
    ("gemm", &["kernels/benches"]),
    ("gemm_f32", &["kernels/src"]),
];

/// What `shoalctl` may name of the daemon: to be one, to find one, and what is computed in its own process.
const OF_THE_DAEMON: [&str; 9] = ["Role", "bench", "cli", "cluster", "lock", "pki", "process", "run", "whole"];

/// `plan` decides; none of these may be reachable from it.
const IMPURE: [&str; 10] =
    ["tokio", "ractor", "quinn", "sled", "cudarc", "rand", "getrandom", "mio", "socket2", "rayon"];

/// Lines at which a file is split.
const LONGEST: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the workspace").to_owned()
}

fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).expect("manifest");
    let manifest: toml::Table = text.parse().expect("manifest is TOML");
    let table = manifest.get("dependencies").and_then(|d| d.as_table()).cloned().unwrap_or_default();
    table.keys().cloned().collect()
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn arrows_point_down() {
    let mut wrong = Vec::new();
    for (name, dir, allowed) in ARROWS {
        for used in dependencies(&root().join(dir).join("Cargo.toml")) {
            if let Some(ours) = used.strip_prefix("shoal-")
                && !allowed.contains(&ours)
            {
                wrong.push(format!("{name} -> {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that ARCHITECTURE.md does not have: {wrong:?}");
}

#[test]
fn plan_is_pure() {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-p", "shoal-plan", "-e", "normal", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("utf-8");
    let names: BTreeSet<&str> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    let found: Vec<_> = IMPURE.iter().filter(|n| names.contains(**n)).collect();
    assert!(names.contains("shoal-plan") && found.is_empty(), "plan reaches {found:?}");

    let mut files = Vec::new();
    sources(&root().join("actors/plan/src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        for banned in
            ["std::time::Instant", "std::time::SystemTime", "std::fs", "std::net", "std::thread", "std::process"]
        {
            let production = text.split("#[cfg(test)]").next().unwrap_or_default();
            let test_file = file.components().any(|c| c.as_os_str() == "tests") || file.ends_with("tests.rs");
            assert!(test_file || !production.contains(banned), "{} names {banned}", file.display());
        }
    }
}

#[test]
fn libraries_stay_in_their_rooms() {
    let mut files = Vec::new();
    for (_, dir, _) in ARROWS {
        sources(&root().join(dir).join("src"), &mut files);
    }
    let mut wrong = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        let relative = file.strip_prefix(root()).expect("below the root").to_owned();
        for (library, rooms) in ONLY {
            let named = text.lines().any(|line| {
                let code = line.trim_start();
                !code.starts_with("//")
                    && (code.contains(&format!("{library}::")) || code.contains(&format!("use {library};")))
            });
            if named && !rooms.iter().any(|room| relative.starts_with(room)) {
                wrong.insert(relative.clone(), library);
            }
        }
    }
    assert!(wrong.is_empty(), "libraries named outside their rooms: {wrong:?}");
}

#[test]
fn the_command_line_names_few_rooms_of_the_daemon() {
    let mut files = Vec::new();
    sources(&root().join("ctl/src"), &mut files);
    let mut named = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        for rest in text.split("shoal_daemon::").skip(1) {
            named.insert(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned());
        }
    }
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    assert_eq!(named, OF_THE_DAEMON);
}

#[test]
fn rooms_are_small() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let long: Vec<_> = files
        .iter()
        .map(|f| {
            (f.strip_prefix(root()).expect("below the root"), fs::read_to_string(f).expect("source").lines().count())
        })
        .filter(|(_, lines)| *lines > LONGEST)
        .collect();
    assert!(long.is_empty(), "split by concept: {long:?}");
}

/// Two capitals, a hyphen and a number.
fn is_invariant(name: &str) -> bool {
    let (letters, number) = name.split_once('-').unwrap_or_default();
    letters.len() == 2
        && letters.chars().all(|c| c.is_ascii_uppercase())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// Names of invariants in a text, each with the words in parentheses behind it, if there are any.
fn invariants(text: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if is_invariant(name) {
            let words = behind.strip_prefix(" (").and_then(|words| words.split_once(')'));
            let words = words.map(|(words, _)| words.split([' ', '\n', '/', '!']).filter(|word| !word.is_empty()));
            found.push((name.to_owned(), words.map(|words| words.collect::<Vec<_>>().join(" "))));
        }
        rest = behind;
    }
    found
}

/// The invariant that a line of a module's header states: `PL-3 (seats): every stage ..`, in a list or by itself.
fn stated(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("//! ")?;
    let line = line.strip_prefix("* ").unwrap_or(line);
    let (name, words) = invariants(line).into_iter().next().filter(|(name, _)| line.starts_with(name.as_str()))?;
    Some((name, words?))
}

/// A panic's words lead to one header, which says what was promised; and what a header promises is held somewhere.
#[test]
fn an_invariant_is_stated_in_one_header_and_cited_by_its_words() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let mut headers: BTreeMap<String, Vec<(String, PathBuf)>> = BTreeMap::new();
    let mut cited: BTreeMap<String, BTreeSet<(Option<String>, PathBuf)>> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        let (statements, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| stated(line).is_some());
        for (name, words) in statements.into_iter().filter_map(stated) {
            headers.entry(name).or_default().push((words, file.clone()));
        }
        for (name, words) in invariants(&others.join("\n")) {
            cited.entry(name).or_default().insert((words, file.clone()));
        }
    }
    assert!(headers.len() > 150, "the names are found: {}", headers.len());
    let twice: Vec<_> = headers.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "give one of each another number: {twice:#?}");
    let uncited: Vec<_> = headers.iter().filter(|(name, _)| !cited.contains_key(*name)).collect();
    assert!(uncited.is_empty(), "cite each where it is checked or tested: {uncited:#?}");
    let homeless: Vec<_> = cited.iter().filter(|(name, _)| !headers.contains_key(*name)).collect();
    assert!(homeless.is_empty(), "state each in the header of the module that owns it: {homeless:#?}");
    let otherwise = |(name, citations): &(&String, &BTreeSet<(Option<String>, PathBuf)>)| {
        let words = &headers[*name][0].0;
        citations.iter().any(|(cited, _)| cited.as_ref().is_some_and(|cited| cited != words))
    };
    let otherwise: Vec<_> = cited.iter().filter(otherwise).map(|(name, at)| (&headers[name][0], name, at)).collect();
    assert!(otherwise.is_empty(), "cite each by the words of its header: {otherwise:#?}");
}
