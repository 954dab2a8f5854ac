//! Ten thousand fault histories.
use shoal_plan::rules::Rules;
use shoal_plan::sim;

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn histories() {
    if let Some(seed) = env("SHOAL_SEED") {
        let outcome = sim::run_traced(seed, Rules::SOUND);
        for line in &outcome.trace {
            println!("{line}");
        }
        println!("{:?}", outcome.finding);
        return;
    }
    let from = env("SHOAL_FROM").unwrap_or(0);
    let to = env("SHOAL_TO").unwrap_or(200);
    let mut bad = 0;
    let start = std::time::Instant::now();
    let mut events = 0;
    let mut kinds = std::collections::BTreeMap::new();
    for seed in from..to {
        let outcome = match std::panic::catch_unwind(|| sim::run(seed, Rules::SOUND)) {
            Ok(o) => o,
            Err(_) => {
                println!("seed {seed} PANIC");
                bad += 1;
                continue;
            }
        };
        events += outcome.events;
        if let Some(finding) = outcome.finding {
            bad += 1;
            *kinds.entry(finding.oracle).or_insert(0) += 1;
            if bad < 12 {
                println!("seed {seed}: {} {}", finding.oracle, finding.found.chars().take(400).collect::<String>());
            }
        }
    }
    println!("{bad} bad of {}, {events} engine events, {:?} {kinds:?}", to - from, start.elapsed());
}
