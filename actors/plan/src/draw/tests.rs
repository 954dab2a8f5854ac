use std::collections::BTreeSet;

use super::*;
use crate::fixture;
use crate::planner::{Held, make_plan};

#[test]
fn a_plan_as_text() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let members = fixture::members(1..=5);
    let plan = make_plan(&job, &table, &members, &BTreeSet::new(), &Held::none()).expect("fits").plan;
    let text = text(&plan, &job, &table, &members);
    let head = "\
pipeline 2 x data 2, 1f1b, 5 nodes

stage 0: embedding, 2 layers on n1 n3
stage 1: 2 layers, head on n2 n4
replica 0: lanes 0..4 of 8
replica 1: lanes 4..8 of 8

node  seats   owns  shadows   device     host      budget
n1    s0r0   66560        0  4.4 MiB  0.0 MiB  1024.0 MiB
";
    assert!(text.starts_with(head), "{text}");
    let sent = traffic::of_step(&plan, &job.spec, &table).total().total() as f64 / f64::from(1 << 20);
    assert!(text.contains(&format!("\na step sends {sent:.1} MiB between nodes: activations")), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.ends_with('|')).collect();
    assert_eq!(rows.len(), 4, "a row for each node that computes:\n{text}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len() && row.contains('0') && row.contains('h')), "{text}");
}

#[test]
fn lines_count_their_nodes() {
    let job = fixture::job();
    let mut plan = fixture::plan(&job);
    assert_eq!(line(&plan), "pipeline 2 x data 2, 1f1b, 4 nodes");
    plan.spares = vec![NodeId(8)];
    plan.schedule = Schedule::GPipe;
    assert_eq!(line(&plan), "pipeline 2 x data 2, gpipe, 4 nodes, 1 spare");
}

#[test]
fn what_was_asked_in_the_same_words() {
    let mut parallel = fixture::job().spec.parallel;
    parallel.data = Auto::Auto;
    assert_eq!(asked(&parallel), "pipeline 2 x data auto");
}
