//! Data that was prepared is trained on, and the loss that `eval` finds is the one that the job found.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use shoal_tests::{Cluster, JobFile};
use shoal_wire::api::JobState;

use crate::cluster;

#[derive(Debug, Deserialize)]
struct Evaluated {
    step: u64,
    samples: u64,
    tokens: u64,
    loss: f64,
    perplexity: f64,
}

/// A job on shards of the usual text, made by a tokenizer with a file of its own.
fn on_shards(cluster: &Cluster) -> std::path::PathBuf {
    let dir = cluster.path();
    let job = JobFile::default().write(dir, "shards");
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../actors/data/golden/tokenizer.json");
    let (input, out) = (dir.join("corpus.txt"), dir.join("shards"));
    let [tokenizer, input, out] = [tokenizer, input, out].map(|path| path.display().to_string());
    cluster.ok(&[
        "data",
        "prepare",
        "--tokenizer",
        &tokenizer,
        "--input",
        &input,
        "--out",
        &out,
        "--shard-tokens",
        "4000",
    ]);
    let text = fs::read_to_string(&job).expect("a job file");
    let data = text.find("kind = \"text\"").expect("its data");
    let end = text[data..].find("\n\n").map_or(text.len(), |at| data + at);
    let text = format!("{}kind = \"shards\"\npath = \"shards\"{}", &text[..data], &text[end..]);
    fs::write(&job, text.replace("vocab = \"bytes\"", "vocab = 300")).expect("written");
    job
}

#[test]
fn the_loss_of_a_job_on_its_own_data_is_the_one_it_found() {
    let cluster = cluster(2);
    let job = cluster.submit(&on_shards(&cluster));
    cluster.wait(&job, "done");
    let status = cluster.status(&job);
    assert_eq!(status.tokenizer.expect("recorded").kind, "hf");
    let own: Evaluated = cluster.json(&["eval", &job]);
    assert_eq!((own.step, Some(own.loss)), (12, status.val_loss), "to the bit");
    assert_eq!((own.tokens, own.perplexity), (own.samples * 32, own.loss.exp()));
    let shards = cluster.path().join("shards").display().to_string();
    let samples = own.samples.to_string();
    let same: Evaluated = cluster.json(&["eval", &job, "--data", &shards, "--samples", &samples, "--threads", "2"]);
    assert_eq!(same.loss, own.loss);

    let exported = cluster.path().join("model");
    cluster.ok(&["export", &job, "--to", &exported.display().to_string()]);
    has_its_tokenizer(&exported, &cluster.path().join("shards"));
    let (definition, aside) = (cluster.path().join("shards/tokenizer.json"), cluster.path().join("aside.json"));
    fs::rename(&definition, &aside).expect("renamed");
    let to = cluster.path().join("without").display().to_string();
    let said: serde_json::Value = cluster.json(&["export", &job, "--to", &to]);
    assert!(said["left_out"].as_str().is_some_and(|what| what.contains("tokenizer.json: the file")), "{said}");
    fs::rename(&aside, &definition).expect("renamed");

    // Text is made tokens of with what lies beside the shards.
    let text = cluster.path().join("corpus.txt").display().to_string();
    let all: Evaluated = cluster.json(&["eval", &job, "--data", &text]);
    assert!(all.samples > own.samples && (all.loss - own.loss).abs() < 0.5, "{all:?}");
    let bytes: Evaluated = cluster.json(&["eval", &job, "--data", &text, "--tokenizer", "bytes", "--samples", "8"]);
    assert!(bytes.loss > own.loss, "other tokens than it was trained on: {bytes:?}");

    let refused = |args: &[&str], words: &str| {
        let output = cluster.run(&[&["eval", &job], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    };
    fs::write(cluster.path().join("short.txt"), "too short").expect("written");
    let short = cluster.path().join("short.txt").display().to_string();
    refused(&["--data", &short], "one sample takes 33");
    refused(&["--data", &text, "--tokenizer", "gpt2"], "the model's vocabulary");
    refused(&["--data", "/nowhere", "--kind", "nanogpt"], "/nowhere does not exist");
    refused(&["--data", "/dev/zero"], "/dev/zero is no file");
    let shard = cluster.path().join("shards/train_000000.bin").display().to_string();
    refused(&["--data", &shard, "--kind", "text"], "is not UTF-8; tokens in a file need --kind");
    refused(&["--data", &shard, "--kind", "text", "--tokenizer", "bytes"], "is not UTF-8");
    let small = cluster.run(&["eval", &job, "--memory", "1MiB"]);
    let said = String::from_utf8_lossy(&small.stderr).into_owned();
    assert!(small.status.code() == Some(1) && said.contains("and 1.0 MiB may be taken"), "{said}");
    // The text itself would fit; what making tokens of it takes does not.
    let long = cluster.path().join("long.txt");
    fs::write(&long, "some words ".repeat(100_000)).expect("written");
    let small = cluster.run(&["eval", &job, "--data", &long.display().to_string(), "--memory", "100MiB"]);
    let said = String::from_utf8_lossy(&small.stderr).into_owned();
    assert!(small.status.code() == Some(1) && said.contains("419.6 MiB for making tokens of the text"), "{said}");
    let small = cluster.run(&["sample", &job, "--prompt", "the", "--memory", "1MiB"]);
    assert_eq!(small.status.code(), Some(1));
}

#[test]
fn a_job_whose_data_failed_has_no_loss_and_says_why() {
    let cluster = cluster(1);
    fs::write(cluster.path().join("corpus.txt"), vec![0xff; 10_000]).expect("written");
    let path = JobFile::default().write(cluster.path(), "binary");
    assert_eq!(cluster.run(&["submit", &path.display().to_string()]).status.code(), Some(2));
    let output = cluster.run(&["eval", "j1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("the job is over"), "{said}");
}

/// An export has what made the tokens of the job's data, and says what ends a text.
fn has_its_tokenizer(exported: &Path, shards: &Path) {
    let json = |path: std::path::PathBuf| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).expect("a file of the export")).expect("JSON")
    };
    let definition = |dir: &Path| fs::read(dir.join("tokenizer.json")).expect("a tokenizer");
    assert_eq!(definition(exported), definition(shards));
    let end = json(shards.join("manifest.json"))["tokenizer"]["end_of_text"].clone();
    assert!(end.is_u64(), "{end}");
    for name in ["config.json", "generation_config.json"] {
        assert_eq!(json(exported.join(name))["eos_token_id"], end, "{name}");
    }
    let config = json(exported.join("tokenizer_config.json"));
    assert_eq!((&config["eos_token"], &config["model_max_length"]), (&"<|endoftext|>".into(), &32.into()));
}

#[test]
fn a_job_that_trains_is_evaluated_and_goes_on() {
    let cluster = cluster(2);
    let job = cluster.submit(&JobFile { steps: 100_000, ..JobFile::default() }.write(cluster.path(), "long"));
    cluster.wait(&job, "step=6");
    let first: Evaluated = cluster.json(&["eval", &job]);
    assert!(first.step >= 6 && first.loss > 0.0, "{first:?}");
    cluster.wait(&job, &format!("step={}", first.step + 2));
    let again: Evaluated = cluster.json(&["eval", &job]);
    assert!(again.step > first.step, "{again:?}");
    assert_eq!(cluster.status(&job).state, JobState::Training);
    cluster.ok(&["cancel", &job]);
}
