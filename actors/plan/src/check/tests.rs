use super::*;
use crate::fixture;
use crate::space::Interval;

fn found(break_it: impl FnOnce(&mut Plan)) -> Vec<Invariant> {
    let job = fixture::job();
    let mut plan = fixture::plan(&job);
    break_it(&mut plan);
    let mut all: Vec<_> = check(&plan, &job, &fixture::table(&job), &fixture::members(1..=4))
        .into_iter()
        .map(|violation| violation.invariant)
        .collect();
    all.dedup();
    all
}

#[test]
fn a_sound_plan_passes() {
    assert_eq!(found(|_| ()), []);
}

#[test]
fn each_invariant_can_fail() {
    use Invariant as I;
    assert_eq!(found(|plan| plan.stages[1].blocks = 2..6), [I::Stages]);
    assert_eq!(found(|plan| plan.stages[1].blocks = 3..5), [I::Stages]);
    assert_eq!(found(|plan| plan.lanes = vec![0..4, 5..8]), [I::Lanes]);
    assert_eq!(found(|plan| plan.lanes = vec![0..8, 8..8]), [I::Lanes]);
    assert_eq!(found(|plan| plan.stages[1].seats.truncate(1)), [I::Seats]);
    assert_eq!(found(|plan| plan.stages[1].seats[0] = NodeId(7)), [I::Seats]);
    assert_eq!(found(|plan| drop(plan.pieces.remove(2))), [I::Pieces]);
    assert_eq!(found(|plan| plan.pieces.swap(0, 1)), [I::Pieces]);
    assert_eq!(found(|plan| drop(plan.pieces.pop())), [I::Pieces, I::Loss]);
    assert_eq!(found(|plan| plan.pieces[0].owner = NodeId(7)), [I::Holders]);
    assert_eq!(
        found(|plan| {
            let owner = plan.pieces[0].owner;
            plan.pieces[0].shadows = vec![owner];
        }),
        [I::Holders]
    );
    assert_eq!(
        found(|plan| {
            let owner = plan.pieces[0].owner;
            plan.pieces[0].shadows = (1..=4).map(NodeId).filter(|node| *node != owner).collect();
        }),
        [I::Shadows]
    );
    assert_eq!(found(|plan| plan.spares.push(NodeId(1))), [I::Spares]);
}

#[test]
fn a_cut_inside_a_segment_is_found() {
    let shift = |plan: &mut Plan| {
        let [left, right] = [plan.pieces[0].interval, plan.pieces[1].interval];
        plan.pieces[0].interval = Interval::new(left.start, left.end + 16);
        plan.pieces[1].interval = Interval::new(right.start + 16, right.end);
    };
    assert_eq!(found(shift), [Invariant::Edges]);
}

#[test]
fn too_small_a_budget_is_found_with_bytes() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let plan = fixture::plan(&job);
    let mut members = fixture::members(1..=4);
    members.get_mut(&NodeId(2)).expect("member").budget_bytes = 1000;
    let needed = memory::of_plan(&plan, &job.spec, &table)[&NodeId(2)].total();
    let violations = check(&plan, &job, &table, &members);
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].to_string(), format!("PL-10 (memory): n2 is given {needed} bytes, its budget is 1000"));
}
