//! Text from the weights of a job.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use shoal_tests::{Cluster, JobFile, wait};

use crate::cluster;

const TEXT: &str = "the tide comes in, and goes out; ";

#[derive(Deserialize)]
struct Sampled {
    step: u64,
    text: String,
    tokens: u64,
    ended: String,
}

/// Trains on one text again and again.
fn trained(cluster: &Cluster, name: &str, steps: u64) -> String {
    fs::write(cluster.path().join("corpus.txt"), TEXT.repeat(400)).expect("written");
    let path = JobFile { steps, dropout: 0.0, ..JobFile::default() }.write(cluster.path(), name);
    let text = fs::read_to_string(&path).expect("a job file");
    fs::write(&path, text.replace("[train]\n", "[train]\nlearning_rate = 3e-3\n")).expect("written");
    cluster.submit(&path)
}

#[test]
fn a_model_goes_on_with_the_text_that_it_learnt() {
    let cluster = cluster(2);
    let job = trained(&cluster, "tide", 300);
    cluster.wait(&job, "done");
    let greedy = ["sample", &job, "--prompt", "the tide comes in, ", "--temperature", "0", "--max-tokens", "60"];
    let sampled: Sampled = cluster.json(&greedy);
    let want: String = TEXT.repeat(4).chars().skip("the tide comes in, ".len()).take(60).collect();
    assert_eq!((sampled.step, sampled.tokens, sampled.ended.as_str()), (300, 60, "max_tokens"));
    assert_eq!(sampled.text, want, "beyond the context of 32 too");

    // As it comes: the same text, and nothing else.
    let shown = cluster.ok(&[&greedy[..], &["--stream"]].concat());
    assert_eq!(shown.trim_end(), want.trim_end());
    // For programs: pieces, and the whole answer last; of a step and with a tokenizer that are named.
    let named = ["--stream", "--json", "--at", "step=300", "--tokenizer", "bytes"];
    let lines = cluster.ok(&[&greedy[..], &named].concat());
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let (whole, pieces) = lines.split_last().expect("there are lines");
    let shown: String = pieces.iter().map(|piece| piece["text"].as_str().expect("a text")).collect();
    assert_eq!((shown.as_str(), whole["text"].as_str()), (want.as_str(), Some(want.as_str())));
    assert_eq!((&whole["tokens"], &whole["step"]), (&60.into(), &300.into()));
    // A wild one is the same by its seed.
    let wild = ["sample", &job, "--prompt", "the", "--temperature", "2", "--top-k", "50", "--seed", "9", "--json"];
    let first = cluster.ok(&wild);
    assert_eq!(cluster.ok(&wild), first);
    let other: Vec<&str> = wild.iter().map(|word| if *word == "9" { "10" } else { word }).collect();
    assert_ne!(cluster.ok(&other), first, "by the seed alone");

    let long = cluster.run(&["sample", &job, "--prompt", &TEXT[..33]]);
    let said = String::from_utf8_lossy(&long.stderr).into_owned();
    assert!(long.status.code() == Some(2) && said.contains("33 tokens and the model's context 32"), "{said}");
    assert_eq!(cluster.run(&["sample", &job]).status.code(), Some(2), "bytes have no token that begins a text");
}

#[test]
fn a_job_that_trains_gives_text_and_goes_on() {
    let cluster = cluster(2);
    let job = trained(&cluster, "long", 1_000_000);
    cluster.wait(&job, "step=5");
    let sampled: Sampled = cluster.json(&["sample", &job, "--prompt", "the", "--max-tokens", "5"]);
    assert!(sampled.step >= 5 && sampled.tokens == 5);
    wait::until("the job to go on", Duration::from_secs(30), || {
        (cluster.status(&job).step > sampled.step).then_some(())
    });
    cluster.ok(&["cancel", &job]);
}

#[test]
fn a_stream_shows_text_before_it_is_all_there() {
    let cluster = cluster(1);
    let job = trained(&cluster, "stream", 1);
    cluster.wait(&job, "done");
    // More tokens than anybody waits for.
    let mut child = Command::new(env!("CARGO_BIN_EXE_shoalctl-under-test"))
        .arg("--dir")
        .arg(cluster.path().join("cluster"))
        .args(["sample", &job, "--prompt", "the", "--max-tokens", "1000000000", "--stream"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("shoalctl starts");
    let mut first = [0; 16];
    let read = child.stdout.as_mut().expect("piped").read_exact(&mut first);
    let running = child.try_wait().expect("a child of ours").is_none();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    read.expect("text comes");
    assert!(running);
}
