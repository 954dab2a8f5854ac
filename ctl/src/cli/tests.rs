//! Command lines and what they mean, and those that are refused.

use std::path::Path;

use clap::{CommandFactory, Parser};

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("shoalctl").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

/// Command lines and the debug form of the verb they mean, from the first to the last word that matters.
const MEANT: [(&str, &str); 26] = [
    ("init --node a --node b", r#"Init(Init { nodes: ["a", "b"] })"#),
    (
        "up --nodes 1 --class avx2",
        "Up(Up { nodes: 1, memory: None, threads: None, class: Some(Set(Avx2)), http_port: None, timeout: 30s })",
    ),
    ("up --nodes 4", "Up(Up { nodes: 4, memory: None, threads: None, class: None, http_port: None, timeout: 30s })"),
    (
        "up --nodes 2 --memory 512MiB --threads 2 --timeout 5s",
        "Up(Up { nodes: 2, memory: Some(Bytes(536870912)), threads: Some(2), class: None, http_port: None, timeout: 5s })",
    ),
    ("down", "Down"),
    (
        "submit a.toml",
        r#"Submit(Submit { job: JobSource { file: Some("a.toml"), preset: None, data: None }, again: false, no_wait: false, timeout: None })"#,
    ),
    (
        "submit --preset tiny --data x --again",
        r#"Submit(Submit { job: JobSource { file: None, preset: Some("tiny"), data: Some("x") }, again: true, no_wait: false, timeout: None })"#,
    ),
    ("presets tiny", r#"Presets(Presets { name: Some("tiny") })"#),
    ("wait j1 --until step=7", r#"Wait(Wait { job: "j1", until: Step(7), timeout: None })"#),
    (
        "wait j1 --until redundancy=full --timeout 1m",
        r#"Wait(Wait { job: "j1", until: RedundancyFull, timeout: Some(60s) })"#,
    ),
    ("events j1 --follow", r#"Events(Events { job: "j1", follow: true, after: 0 })"#),
    ("pause j1 --at step=3", r#"Pause(Pause { job: "j1", at: Some(AtCommit(3)) })"#),
    ("digest j1", r#"Digest(Digest { job: "j1", at: None, timeout: 300s })"#),
    (
        "export j1 --to out",
        r#"Export(Export { job: "j1", target: ExportTarget { to: Some("out"), state: None }, format: Hf, dtype: None, shard_size: None, at: None, timeout: 300s })"#,
    ),
    (
        "plan a.toml --nodes 4 --memory 1GiB",
        r#"Plan(PlanArgs { job: JobSource { file: Some("a.toml"), preset: None, data: None }, nodes: 4, memory: Bytes(1073741824), threads: 1 })"#,
    ),
    (
        "data prepare --tokenizer gpt2 --input a b.jsonl --out d --validation 0.05 --separate prepend --threads 2",
        r#"Data(Prepare(Prepare { tokenizer: "gpt2", input: ["a", "b.jsonl"], out: "d", format: None, field: "text", split_on: None, validation: ["0.05"], shard_tokens: 100000000, separate: Some(Prepend), end_of_text: None, skip_bad: false, threads: Some(2) }))"#,
    ),
    (
        "eval j1 --data x --kind llmc --samples 7",
        r#"Eval(Eval { job: "j1", data: Some("x"), kind: Some(Llmc), tokenizer: None, samples: Some(7), here: Here { memory: None, at: None, threads: 1, timeout: 300s } })"#,
    ),
    ("drain w2", r#"Drain(NodeName { node: "w2" })"#),
    ("chaos panic-stage j1 --node w1", r#"Chaos(PanicStage { job: "j1", node: Some("w1") })"#),
    ("chaos poison-stage j1 --node w2", r#"Chaos(PoisonStage { job: "j1", node: Some("w2") })"#),
    ("chaos hang-stage j1", r#"Chaos(HangStage { job: "j1", node: None })"#),
    ("bench train --preset bench-s --threads 2", r#"Bench(Train { preset: "bench-s", threads: 2 })"#),
    ("bench kernels", r#"Bench(Kernels { preset: ["bench-s", "bench-m"], threads: 1 })"#),
    ("bench kernels --preset bench-s --threads 2", r#"Bench(Kernels { preset: ["bench-s"], threads: 2 })"#),
    ("demo", "Demo(Demo { nodes: 4, steps: None, data: None })"),
    ("demo --nodes 3 --steps 30 --data x", r#"Demo(Demo { nodes: 3, steps: Some(30), data: Some("x") })"#),
];

#[test]
fn what_is_typed_is_what_is_meant() {
    for (line, meant) in MEANT {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(format!("{:?}", cli.verb), meant, "{line}");
    }
}

#[test]
fn global_options_may_stand_anywhere() {
    for line in ["--dir here --json nodes", "nodes --dir here --json", "--json nodes --dir here"] {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!((cli.global.dir.as_path(), cli.global.json), (Path::new("here"), true), "{line}");
    }
}

#[test]
fn nonsense_is_refused_with_what_is_allowed() {
    let cases = [
        ("wait j1 --until soon", "step=K"),
        ("wait j1 --until step=0", "counted from 1"),
        ("pause j1 --at 3", "step=K"),
        ("up --nodes 4 --memory 2", "with its unit"),
        ("up --nodes many", "invalid digit"),
        ("up --nodes 1 --memory 99999999999GiB", "up to 1EiB"),
        ("status 1", "jobs are called j1"),
        ("status j01", "jobs are called j1"),
        ("events j1/../j2", "jobs are called j1"),
        ("drain ../w1", "no worker can be called so"),
        ("export j1", "--to"),
        ("export j1 --to a --state b", "cannot be used with"),
        ("submit a.toml --data b", "cannot be used with"),
        ("plan a.toml --data b", "cannot be used with"),
        ("demo --nodes 1", "2..=16"),
        ("fly", "unrecognized subcommand"),
    ];
    for (line, says) in cases {
        let error = parse(line).map(|cli| format!("{:?}", cli.verb)).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(says), "{line}: {error}");
    }
}

#[test]
fn an_empty_word_is_no_job() {
    let error = Cli::try_parse_from(["shoalctl", "status", ""]).expect_err("no job");
    assert!(error.exit_code() == 2 && error.to_string().contains("jobs are called j1"), "{error}");
}

#[test]
fn help_documents_the_exit_codes() {
    let help = Cli::command().render_long_help().to_string();
    for code in ["0  done, and what was asked is so", "3  timeout", "4  cluster not reachable"] {
        assert!(help.contains(code), "{help}");
    }
}

/// docs/cli.md has a row for every command, with every option of it.
#[test]
fn the_documentation_knows_every_command_and_option() {
    let page = include_str!("../../../docs/cli.md");
    let mut missing = Vec::new();
    let mut look = |command: &clap::Command, called: &str| {
        let rows: Vec<&str> =
            page.lines().filter(|line| line.starts_with("| `") && line.contains(&format!("`{called}"))).collect();
        let options = command.get_arguments().filter(|arg| !arg.is_global_set()).filter_map(|arg| arg.get_long());
        missing.extend(
            options
                .filter(|option| !rows.iter().any(|row| row.contains(&format!("--{option}"))))
                .map(|o| format!("{called} --{o}")),
        );
        if rows.is_empty() {
            missing.push(called.to_owned());
        }
    };
    for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let inner: Vec<&clap::Command> = verb.get_subcommands().collect();
        if inner.is_empty() {
            look(verb, verb.get_name());
        }
        for command in inner {
            look(command, &format!("{} {}", verb.get_name(), command.get_name()));
        }
    }
    assert!(missing.is_empty(), "docs/cli.md lacks {missing:?}");
}
