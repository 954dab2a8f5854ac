//! Ten thousand fault histories: the real engine and real holders in virtual time.
//!
//! A failing seed is printed; `SHOAL_HISTORY=<seed> cargo test -p shoal-plan --test histories replay -- --nocapture` tells
//! what happened in it, `SHOAL_BREACH=<rule>` with a broken rule.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use shoal_plan::rules::{Breach, Rules};
use shoal_plan::sim::{self, Fault, Oracle, Outcome, Point};

const HISTORIES: u64 = 10_000;
/// Every pair of fault and point has to be hit this often.
const LEAST_HITS: u32 = 20;
const LEAST_FAULTS: u32 = 3;

/// Plays histories on all cores until they are through or `enough` says so.
fn play(seeds: std::ops::Range<u64>, rules: Rules, mut take: impl FnMut(u64, Outcome) -> bool) {
    let next = AtomicU64::new(seeds.start);
    let workers = thread::available_parallelism().map_or(2, usize::from).min(8);
    let (send, receive) = std::sync::mpsc::sync_channel(64);
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next, end) = (send.clone(), &next, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || send.send((seed, sim::run(seed, rules))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        while let Ok((seed, outcome)) = receive.recv() {
            if !take(seed, outcome) {
                break;
            }
        }
        drop(receive);
    });
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn ten_thousand_histories() {
    let histories = variable("SHOAL_HISTORIES").map_or(HISTORIES, |text| text.parse().expect("a number"));
    let began = Instant::now();
    let mut hits: BTreeMap<(Fault, Point), u32> = BTreeMap::new();
    let mut wrong: Vec<(u64, sim::Finding)> = Vec::new();
    let (mut events, mut faults, mut lost, mut redone, mut full) = (0, 0, 0, 0, 0);
    // Some jobs end by `on_loss = halt` before their third fault; they are played on top.
    play(0..histories + histories / 50, Rules::SOUND, |seed, outcome| {
        assert!((4..=8).contains(&outcome.nodes) && outcome.steps >= 20, "history {seed} is too small");
        events += outcome.events;
        faults += u64::from(outcome.faults);
        lost += u64::from(outcome.steps_lost > 0);
        redone += outcome.steps_redone;
        full += u64::from(outcome.faults >= LEAST_FAULTS);
        for (pair, count) in outcome.hits {
            *hits.entry(pair).or_default() += count;
        }
        if let Some(finding) = outcome.finding {
            println!("history {seed}: {}: {}", finding.oracle, finding.found);
            wrong.push((seed, finding));
        }
        true
    });
    print_hits(&hits);
    println!(
        "{full} histories of {LEAST_FAULTS} faults and more in {:.1?}: {events} engine events, {faults} faults, {redone} steps redone, {lost} with reported loss",
        began.elapsed()
    );
    assert!(wrong.is_empty(), "{} histories went wrong; replay with SHOAL_HISTORY={}", wrong.len(), wrong[0].0);
    assert!(full >= histories, "only {full} histories had {LEAST_FAULTS} faults and more");
    if histories >= HISTORIES {
        for fault in Fault::ALL {
            for point in Point::ALL {
                let count = hits.get(&(fault, point)).copied().unwrap_or(0);
                assert!(count >= LEAST_HITS, "{fault} at {point} struck only {count} times");
            }
        }
    }
}

fn print_hits(hits: &BTreeMap<(Fault, Point), u32>) {
    print!("{:<18}", "struck");
    for fault in Fault::ALL {
        print!(" {:>8.8}", fault.to_string());
    }
    println!();
    for point in Point::ALL {
        print!("{point:<18}");
        for fault in Fault::ALL {
            print!(" {:>8}", hits.get(&(fault, point)).copied().unwrap_or(0));
        }
        println!();
    }
}

/// Engines and holders that break one rule each: the histories notice every one.
#[test]
fn wrong_engines_are_caught() {
    let mut missed = Vec::new();
    for breach in Breach::ALL {
        let mut caught: BTreeMap<Oracle, u32> = BTreeMap::new();
        let (mut first, mut played) = (None, 0u64);
        play(0..2 * HISTORIES, Rules::without(breach), |seed, outcome| {
            played += 1;
            if let Some(finding) = outcome.finding {
                *caught.entry(finding.oracle).or_default() += 1;
                let earliest = first.get_or_insert((seed, finding.clone()));
                if seed < earliest.0 {
                    *earliest = (seed, finding);
                }
            }
            caught.values().sum::<u32>() < 3
        });
        match first {
            Some((seed, finding)) => {
                let oracles: Vec<String> = caught.keys().map(Oracle::to_string).collect();
                let found: String = finding.found.chars().take(110).collect();
                println!("{breach:?}: {} after {played} histories; {seed}: {found}", oracles.join(", "));
            }
            None => missed.push(breach),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// Tells one history, if asked for by `SHOAL_HISTORY`.
#[test]
fn replay() {
    let Some(seed) = variable("SHOAL_HISTORY") else { return };
    let rules = match variable("SHOAL_BREACH") {
        Some(name) => {
            let breach = Breach::ALL.into_iter().find(|breach| format!("{breach:?}") == name);
            Rules::without(breach.expect("SHOAL_BREACH names a rule"))
        }
        None => Rules::SOUND,
    };
    let outcome = sim::run_traced(seed.parse().expect("SHOAL_HISTORY is a number"), rules);
    for line in &outcome.trace {
        println!("{line}");
    }
    if let Some(finding) = outcome.finding {
        panic!("{}: {}", finding.oracle, finding.found);
    }
}
