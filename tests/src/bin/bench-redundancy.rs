//! What shadows and the decision of every step cost when nothing fails: the same job with and without shadows, in
//! interleaved pairs on one cluster of real processes. `scripts/bench-redundancy.sh` builds and calls it.
//!
//! A job is never run without the commit: without it there is no ledger, and no norm to clip by. What it costs is
//! therefore taken from the run without shadows: the time from the last worker's report that a step is prepared to the
//! record that answers it, and all that the coordinator computes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};
use shoal_tests::Cluster;
use shoal_wire::api::NodeReport;

/// Fault-free cost of shadows and commit: wall and CPU time of a step with `redundancy = 1` over `redundancy = 0`.
#[derive(Parser)]
struct Args {
    /// The `shoalctl` to drive.
    #[arg(long)]
    exe: PathBuf,
    /// Interleaved pairs of runs.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Samples a step, of 256 tokens each.
    #[arg(long, default_value_t = 64)]
    global_batch: u32,
    /// Steps measured a run, after one that is not.
    #[arg(long, default_value_t = 2)]
    steps: u64,
}

/// Seconds a step.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    /// Of all workers and the coordinator.
    cpu: f64,
    /// Of the coordinator.
    coordinator: f64,
    /// From the last report to its record.
    decision: f64,
}

impl Cost {
    /// As if nothing had to be decided.
    fn without_commit(self) -> Self {
        Self { wall: self.wall - self.decision, cpu: self.cpu - self.coordinator, ..self }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let cluster = Cluster::up(&args.exe, 2);
    let mut ratios: [Vec<f64>; 4] = Default::default();
    let mut plain = Vec::new();
    for pair in 0..args.pairs {
        // Alternating order, so that drift does not favour one side.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut cost = [Cost::default(); 2];
        for redundancy in order {
            cost[redundancy] = run(&cluster, &args, redundancy, pair);
        }
        let bare = cost[0].without_commit();
        let pairs = [cost[0].wall, cost[0].cpu, bare.wall, bare.cpu];
        for (i, base) in pairs.into_iter().enumerate() {
            ratios[i].push([cost[1].wall, cost[1].cpu][i % 2] / base);
        }
        plain.push(cost[0]);
        eprintln!(
            "pair {}: wall {:.3} s against {:.3} s, cpu {:.3} s against {:.3} s",
            pair + 1,
            cost[1].wall,
            cost[0].wall,
            cost[1].cpu,
            cost[0].cpu
        );
    }
    let [wall, cpu, bare_wall, bare_cpu] = ratios.map(|r| summary(&r));
    let of = |part: fn(&Cost) -> f64| summary(&plain.iter().map(part).collect::<Vec<_>>());
    let tokens = u64::from(args.global_batch) * 256;
    println!(
        "{}",
        json!({
            "tokens_a_step": tokens,
            "pairs": args.pairs,
            "step_s": of(|c| c.wall),
            "decision_s": of(|c| c.decision),
            "coordinator_cpu_s": of(|c| c.coordinator),
            "against_no_shadows": {"wall": wall, "cpu": cpu},
            "against_no_shadows_no_commit": {"wall": bare_wall, "cpu": bare_cpu},
        })
    );
    ExitCode::SUCCESS
}

/// One job to its last measured step, then cancelled.
fn run(cluster: &Cluster, args: &Args, redundancy: usize, pair: usize) -> Cost {
    let path = write(cluster.path(), args, redundancy, pair);
    let job = cluster.submit(&path);
    cluster.wait(&job, "step=1");
    let before = (cpu_seconds(cluster), cpu_of(cluster.coordinator_pid()));
    cluster.wait(&job, &format!("step={}", 1 + args.steps));
    let after = (cpu_seconds(cluster), cpu_of(cluster.coordinator_pid()));
    let reports: Vec<NodeReport> = cluster.json(&["report", &job]);
    cluster.ok(&["cancel", &job]);
    // The node that was ready last waits for the decision alone; the others wait for it too.
    let waits = reports.iter().map(|r| r.decision_seconds / r.decisions.max(1) as f64);
    let ledger: Vec<Value> = cluster.get(&format!("/v1/jobs/{job}/ledger?after=0"));
    let at = |step: u64| ledger[step as usize - 1]["committed_at_ms"].as_f64().expect("a time");
    let steps = args.steps as f64;
    Cost {
        wall: (at(1 + args.steps) - at(1)) / 1e3 / steps,
        cpu: (after.0 - before.0) / steps,
        coordinator: (after.1 - before.1) / steps,
        decision: waits.fold(f64::INFINITY, f64::min),
    }
}

fn write(dir: &Path, args: &Args, redundancy: usize, pair: usize) -> PathBuf {
    let corpus = dir.join("corpus.txt");
    if !corpus.exists() {
        let lines: String =
            (0..40_000u32).map(|i| format!("{i} times {i} ends in {}\n", i.wrapping_mul(i) % 1000)).collect();
        fs::write(&corpus, lines).expect("written");
    }
    let text = format!(
        "name = \"r{redundancy}\"\nseed = 1\n[model]\nkind = \"gpt2\"\nlayers = 6\nheads = 6\nwidth = 384\ncontext = 256\n\
         vocab = \"bytes\"\n[data]\nkind = \"text\"\npath = \"{}\"\nvalidation = 0\n[train]\nsteps = {}\nglobal_batch = {}\n\
         micro_batch = 8\n[parallel]\npipeline = 1\ndata = 2\nfixed = true\n[elastic]\nredundancy = {redundancy}\n",
        corpus.display(),
        args.steps + 2,
        args.global_batch
    );
    let path = dir.join(format!("r{redundancy}-{pair}.toml"));
    fs::write(&path, text).expect("written");
    path
}

/// User and system time of all workers and the coordinator.
fn cpu_seconds(cluster: &Cluster) -> f64 {
    cluster.nodes().into_iter().map(|n| n.pid).chain([cluster.coordinator_pid()]).map(cpu_of).sum()
}

fn cpu_of(pid: u32) -> f64 {
    // Linux shows times to user space in hundredths of a second, whatever the kernel's own tick.
    let ticks = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let field = |i: usize| fields[i].parse::<f64>().expect("a number");
    (field(11) + field(12)) / ticks
}

/// Min, median, max, mean and the upper 95 % bound of the mean (normal approximation).
fn summary(values: &[f64]) -> Value {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let spread = (sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
    json!({
        "min": sorted[0],
        "median": sorted[sorted.len() / 2],
        "max": sorted[sorted.len() - 1],
        "mean": mean,
        "upper_95": mean + 1.645 * spread / n.sqrt(),
    })
}
