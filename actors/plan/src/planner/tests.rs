use std::collections::{BTreeMap, BTreeSet};

use shoal_config::spec::Auto;

use super::*;
use crate::check::check;
use crate::fixture;
use crate::space::Interval;

/// What every holder of a plan holds once it runs and all shadows are filled.
fn held_by(plan: &Plan) -> Held {
    let mut held = Held::none();
    for piece in &plan.pieces {
        for node in piece.holders() {
            held.insert(node, piece.block, piece.interval);
        }
    }
    held
}

fn without(held: &Held, plan: &Plan, gone: &[NodeId]) -> Held {
    let _ = held;
    let mut left = Held::none();
    for piece in &plan.pieces {
        for node in piece.holders().filter(|node| !gone.contains(node)) {
            left.insert(node, piece.block, piece.interval);
        }
    }
    left
}

#[test]
fn first_plan_is_what_was_asked() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let members = fixture::members(1..=4);
    let planned = make_plan(&job, &table, &members, &BTreeSet::new(), &Held::none()).expect("fits");
    assert_eq!(check(&planned.plan, &job, &table, &members), []);
    assert_eq!(planned.plan.stages.len(), 2);
    let _ = (Auto::<u32>::Auto, Interval::new(0, 1), BTreeMap::<u8, u8>::new(), held_by(&planned.plan));
    let held = without(&Held::none(), &planned.plan, &[NodeId(2)]);
    let three = fixture::members([1, 3, 4]);
    let next = make_plan(&job, &table, &three, &BTreeSet::new(), &held).expect("fits");
    assert_eq!(check(&next.plan, &job, &table, &three), []);
}
