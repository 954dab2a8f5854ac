//! Kills any one worker at random moments, with redundancy full before each kill and a new worker after it, and compares
//! every run's final digest with that of a run that nobody disturbed. `scripts/kill-any.sh` builds and calls it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::process::Signal;
use shoal_exact::philox::philox;
use shoal_tests::{Cluster, JobFile, wait};

/// Kill workers at random; every run must end with the undisturbed digest.
#[derive(Parser)]
struct Args {
    /// The `shoalctl` to drive.
    #[arg(long)]
    exe: std::path::PathBuf,
    /// Kills in all.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Kills a run.
    #[arg(long, default_value_t = 2)]
    per_run: u32,
    /// Steps a run.
    #[arg(long, default_value_t = 200)]
    steps: u64,
    /// Workers.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Which random moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Random moments, by counter.
struct Moments {
    seed: u64,
    drawn: u64,
}

impl Moments {
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        philox(self.seed, [self.drawn, 0])[0] % bound.max(1)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let cluster = Cluster::up(&args.exe, args.nodes);
    let file = JobFile { steps: args.steps, ..JobFile::default() };
    let digest = |job: &str| cluster.final_digest(job).state_blake3;
    let want = digest(&cluster.submit(&file.write(cluster.path(), "undisturbed")));
    println!("undisturbed {want}");
    let mut moments = Moments { seed: args.seed, drawn: 0 };
    let (mut kills, mut wrong, mut run) = (0, 0, 0);
    while kills < args.kills {
        run += 1;
        let job = cluster.submit(&file.write(cluster.path(), &format!("run{run}")));
        let here = args.per_run.min(args.kills - kills);
        let mut recoveries = Vec::new();
        for part in 0..u64::from(here) {
            let window = args.steps / u64::from(here);
            let step = part * window + moments.below(window * 3 / 4);
            cluster.wait(&job, &format!("step={step}"));
            cluster.wait(&job, "redundancy=full");
            // A moment within a step, not just behind a commit.
            std::thread::park_timeout(Duration::from_micros(moments.below(60_000)));
            let nodes = cluster.nodes();
            let victim = &nodes[moments.below(nodes.len() as u64) as usize];
            let before = cluster.status(&job).step;
            let start = Instant::now();
            cluster.signal(victim.pid, Signal::KILL);
            wait::until("the next commit after a kill", Duration::from_secs(60), || {
                (cluster.status(&job).step > before + 1).then_some(())
            });
            recoveries.push(start.elapsed().as_millis());
            kills += 1;
            cluster.grow(args.nodes);
        }
        let got = digest(&job);
        let status = cluster.status(&job);
        let same = got == want && status.steps_lost == 0;
        wrong += u32::from(!same);
        println!(
            "run {run}: {here} kills, second commit after {recoveries:?} ms, {} steps redone, {} lost: {}",
            status.steps_redone,
            status.steps_lost,
            if same { "same digest" } else { "DIFFERENT" }
        );
    }
    println!("{kills} kills in {run} runs, seed {}: {wrong} runs differ", args.seed);
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
