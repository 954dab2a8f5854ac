//! A model from files of other programs, and back into them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use shoal_kernels::Half;
use shoal_tests::{Cluster, JobFile};
use shoal_wire::api::JobState;

use crate::cluster;

/// A job file whose `[model]` is these lines instead of sizes.
fn job(cluster: &Cluster, name: &str, model: &str, steps: u64) -> PathBuf {
    of_model(cluster, name, model, &JobFile { steps, ..JobFile::default() })
}

fn of_model(cluster: &Cluster, name: &str, model: &str, file: &JobFile) -> PathBuf {
    let path = file.write(cluster.path(), name);
    let text = fs::read_to_string(&path).expect("a job file");
    let (start, end) = (text.find("[model]").expect("a section"), text.find("[data]").expect("a section"));
    let text = format!("{}[model]\n{model}\n{}", &text[..start], &text[end..]);
    fs::write(&path, text).expect("written");
    path
}

/// Name and bytes of every tensor in a directory.
fn tensors(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            let bytes = fs::read(&path).expect("readable");
            let parsed = SafeTensors::deserialize(&bytes).expect("safetensors");
            all.extend(parsed.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())));
        }
    }
    all
}

/// The weights of a job after so many steps, in the directory `base`.
fn make_base(cluster: &Cluster, steps: u64) {
    let job = cluster.submit(&JobFile { steps, ..JobFile::default() }.write(cluster.path(), "first"));
    cluster.wait(&job, "done");
    cluster.ok(&["export", &job, "--to", &cluster.path().join("base").display().to_string()]);
}

#[test]
fn a_model_goes_in_and_comes_out_as_it_was() {
    let cluster = cluster(2);
    let at = |name: &str| cluster.path().join(name).display().to_string();
    let trained = cluster.submit(&JobFile { steps: 3, ..JobFile::default() }.write(cluster.path(), "trained"));
    let want = cluster.final_digest(&trained).state_blake3;
    cluster.ok(&["export", &trained, "--to", &at("whole")]);
    let whole = tensors(&cluster.path().join("whole"));
    assert_eq!(whole.len(), 2 + 4 * 12 + 2);

    // In shards, then loaded from those, not trained at all, and exported again.
    cluster.ok(&["export", &trained, "--to", &at("shards"), "--shard-size", "200KB"]);
    assert!(tensors(&cluster.path().join("shards")) == whole);
    assert!(cluster.path().join("shards/model.safetensors.index.json").exists());
    let untrained = cluster.submit(&job(&cluster, "untrained", "hf = \"shards\"", 0));
    let digest = cluster.final_digest(&untrained);
    assert_eq!(digest.step, 0);
    assert_ne!(digest.state_blake3, want, "moments begin at zero");
    cluster.ok(&["export", &untrained, "--to", &at("again")]);
    assert!(tensors(&cluster.path().join("again")) == whole);

    // Through an llm.c checkpoint.
    cluster.ok(&["export", &untrained, "--to", &at("llmc"), "--format", "llmc"]);
    let llmc = job(&cluster, "llmc", "llmc = \"llmc/model_00000000.bin\"\ndropout = 0.1", 0);
    let through = cluster.submit(&llmc);
    assert_eq!(cluster.final_digest(&through).state_blake3, digest.state_blake3);
    cluster.ok(&["export", &through, "--to", &at("llmc-again"), "--format", "llmc"]);
    let read = |dir: &str| fs::read(cluster.path().join(dir).join("model_00000000.bin")).expect("a checkpoint");
    assert!(read("llmc") == read("llmc-again"));

    // Half the bytes, each the nearest.
    cluster.ok(&["export", &trained, "--to", &at("half"), "--dtype", "bf16"]);
    let half = tensors(&cluster.path().join("half"));
    assert_eq!(half.len(), whole.len());
    for (name, bytes) in &half {
        let words = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect::<Vec<_>>();
        let nearest: Vec<u8> = words(&whole[name]).iter().flat_map(|x| Half::Bf16.bits(*x).to_le_bytes()).collect();
        assert!(*bytes == nearest, "{name}");
    }
}

/// Models of half types that `transformers` wrote: in, no step, out.
#[test]
fn tensors_come_out_in_the_types_that_they_had() {
    let cluster = cluster(2);
    for (name, said) in
        [("hf_gpt2_f16", "in fp16"), ("hf_llama_bf16", "in bf16"), ("hf_llama_mixed", "in fp32 and bf16")]
    {
        let theirs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/model/fixtures").join(name);
        let untrained = cluster.submit(&job(&cluster, name, &format!("hf = \"{}\"", theirs.display()), 0));
        cluster.wait(&untrained, "done");
        let to = cluster.path().join(format!("{name}-again"));
        let told = cluster.ok(&["export", &untrained, "--to", to.to_str().expect("UTF-8")]);
        assert!(told.contains(said), "{told}");
        assert!(tensors(&to) == tensors(&theirs), "{name}");
    }
}

/// Weights that began as fp16 and grew beyond it.
#[test]
fn an_export_says_what_does_not_fit_and_leaves_nothing_that_looks_whole() {
    let cluster = cluster(2);
    let theirs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/model/fixtures/hf_gpt2_f16");
    let steep = JobFile { steps: 1, train: "learning_rate = 1e7", ..JobFile::default() };
    let grown = cluster.submit(&of_model(&cluster, "grown", &format!("hf = \"{}\"", theirs.display()), &steep));
    cluster.wait(&grown, "done");
    let to = cluster.path().join("to");
    let export = |more: &[&str]| {
        let output = cluster.run(&[&["export", &grown, "--to", to.to_str().expect("UTF-8")], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = export(&[]);
    assert!(code == Some(1) && said.contains("wte.weight is to be written as fp16, which cannot hold"), "{said}");
    assert!(said.trim_end().ends_with("export with --dtype fp32 or bf16") && !to.exists(), "{said}");
    assert_eq!(export(&["--dtype", "fp32"]).0, Some(0));
    let whole = tensors(&to);
    // An earlier export stays what it was, and what a killed one left goes.
    fs::write(to.join(".part-killed"), "half").expect("written");
    assert_eq!(export(&[]).0, Some(1));
    assert!(tensors(&to) == whole && to.join("config.json").exists() && !to.join(".part-killed").exists());

    let lock = fs::File::create(to.join(".part-lock")).expect("created");
    lock.lock().expect("free");
    let (code, said) = export(&["--dtype", "bf16"]);
    assert!(code == Some(1) && said.contains("another one is being written there just now"), "{said}");
    assert!(tensors(&to) == whole);
    drop(lock);
    assert_eq!(export(&["--dtype", "bf16"]).0, Some(0));
    assert_eq!(fs::read_dir(&to).expect("readable").count(), 2, "config.json and model.safetensors");
}

#[test]
fn fine_tuning_goes_on_from_the_files_whatever_the_layout() {
    let cluster = cluster(2);
    make_base(&cluster, 2);
    let sizes = "kind = \"gpt2\"\nlayers = 4\nheads = 4\nwidth = 64\ncontext = 32\ninit_from = \"base\"";
    let two = cluster.submit(&job(&cluster, "two", sizes, 4));
    let want = cluster.final_digest(&two).state_blake3;
    let fresh = cluster.submit(&job(&cluster, "fresh", &sizes.replace("\ninit_from = \"base\"", ""), 4));
    assert_ne!(cluster.final_digest(&fresh).state_blake3, want, "it goes on from the files");
    cluster.kill(0);
    let one = cluster.submit(&job(&cluster, "one", sizes, 4));
    assert_eq!(cluster.final_digest(&one).state_blake3, want);
}

#[test]
fn files_of_another_model_are_refused_and_changed_ones_too() {
    let cluster = cluster(2);
    make_base(&cluster, 0);
    let sizes = |layers: u32| {
        format!("kind = \"gpt2\"\nlayers = {layers}\nheads = 4\nwidth = 64\ncontext = 32\ninit_from = \"base\"")
    };
    let refused = cluster.run(&["submit", job(&cluster, "other", &sizes(3), 4).to_str().expect("utf-8")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("its layers is 4, and the job's 3"), "{said}");

    // While it waits for its turn, its files change.
    let long = cluster.submit(&JobFile { steps: 100_000, ..JobFile::default() }.write(cluster.path(), "long"));
    cluster.wait(&long, "step=1");
    let waiting = cluster.submit(&job(&cluster, "waiting", &sizes(4), 4));
    let file = cluster.path().join("base/model.safetensors");
    let mut bytes = fs::read(&file).expect("readable");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&file, bytes).expect("written");
    cluster.ok(&["cancel", &long]);
    let output = cluster.run(&["wait", &waiting, "--until", "done", "--timeout", "60s"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let status = cluster.status(&waiting);
    let reason = status.reason.expect("a reason");
    assert!(
        status.state == JobState::Failed && reason.contains("differ from those that the job was submitted"),
        "{reason}"
    );
}
