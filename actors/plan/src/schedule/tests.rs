//! Instruction lists against the published schedules.

use proptest::prelude::*;

use super::timeline::{Costs, Stuck, Timeline, Track, timeline};
use super::*;
use crate::draw::bars;
use crate::fixture;
use crate::ids::{BlockId, Replica, StageIndex};
use crate::space::GradPart;

fn seat(stage: usize) -> Seat {
    Seat { stage: StageIndex(stage as u16), replica: Replica(0) }
}

fn tracks(schedule: Schedule, stages: usize, micro_batches: u32) -> Vec<Track> {
    let track = |s| {
        let program = slots(schedule, (s as u32, stages as u32), Pass::Train, micro_batches);
        Track { seat: seat(s), device: s, program }
    };
    (0..stages).map(track).collect()
}

/// Equal stages, a forward of 1 and a backward of 2, free transfers: the golden table's costs.
fn golden_costs(stages: usize) -> Costs {
    Costs { forward: vec![1; stages], loss: vec![0; stages], backward: vec![2; stages], transfer: 0 }
}

fn run(schedule: Schedule, stages: usize, micro_batches: u32) -> Timeline {
    timeline(&tracks(schedule, stages, micro_batches), &golden_costs(stages)).expect("runs")
}

/// (K, M, wall, bubble, 1F1B peaks): the golden schedule table of GPipe and 1F1B for t_f = 1, t_b = 2.
#[test]
fn golden_table() {
    let rows: [(usize, u32, u64, f64, Vec<u32>); 6] = [
        (4, 1, 12, 0.7500, vec![1, 1, 1, 1]),
        (4, 4, 21, 0.4286, vec![4, 3, 2, 1]),
        (4, 8, 33, 0.2727, vec![4, 3, 2, 1]),
        (4, 16, 57, 0.1579, vec![4, 3, 2, 1]),
        (8, 32, 117, 0.1795, vec![8, 7, 6, 5, 4, 3, 2, 1]),
        (2, 32, 99, 0.0303, vec![2, 1]),
    ];
    for (k, m, wall, bubble, peaks) in rows {
        for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
            let pass = run(schedule, k, m);
            assert_eq!(pass.wall, wall, "{schedule:?} {k},{m}");
            assert_eq!((pass.bubble() * 1e4).round() / 1e4, bubble, "{schedule:?} {k},{m}");
            let found: Vec<u32> = pass.seats.iter().map(|s| s.peak_in_flight).collect();
            match schedule {
                Schedule::GPipe => assert_eq!(found, vec![m; k], "{k},{m}"),
                Schedule::OneFOneB => assert_eq!(found, peaks, "{k},{m}"),
            }
        }
    }
}

#[test]
fn gpipe_as_drawn() {
    assert_eq!(
        bars(&run(Schedule::GPipe, 4, 4), 200),
        ["0123.........aabbccdd", ".0123......aabbccdd..", "..0123...aabbccdd....", "...0123aabbccdd......",]
    );
}

#[test]
fn one_f_one_b_as_drawn() {
    assert_eq!(
        bars(&run(Schedule::OneFOneB, 4, 8), 200),
        [
            "0123......aa4bb5cc6dd7ee.ff.gg.hh",
            ".012....aa3bb4cc5dd6ee7ff.gg.hh..",
            "..01..aa2bb3cc4dd5ee6ff7gg.hh....",
            "...0aa1bb2cc3dd4ee5ff6gg7hh......",
        ]
    );
}

fn listing(schedule: Schedule, stage: usize, stages: usize, m: u32, pass: Pass) -> String {
    let word = |i: &Instruction| match i {
        Instruction::Load(m) => format!("load{}", m.0),
        Instruction::RecvActivation(m) => format!("<a{}", m.0),
        Instruction::Forward(m) => format!("F{}", m.0),
        Instruction::SendActivation(m) => format!("a{}>", m.0),
        Instruction::Loss(m) => format!("L{}", m.0),
        Instruction::RecvGradient(m) => format!("g{}<", m.0),
        Instruction::Backward(m) => format!("B{}", m.0),
        Instruction::SendGradient(m) => format!("<g{}", m.0),
        Instruction::Reduce(unit) => format!("reduce {}", unit.block),
    };
    let slots = slots(schedule, (stage as u32, stages as u32), pass, m);
    slots.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_as_written() {
    let train = |schedule, stage| listing(schedule, stage, 3, 3, Pass::Train);
    assert_eq!(train(Schedule::GPipe, 0), "load0 F0 a0> load1 F1 a1> load2 F2 a2> g0< B0 g1< B1 g2< B2");
    assert_eq!(train(Schedule::OneFOneB, 0), train(Schedule::GPipe, 0), "three in flight of three");
    assert_eq!(train(Schedule::OneFOneB, 1), "<a0 F0 a0> <a1 F1 a1> g0< B0 <g0 <a2 F2 a2> g1< B1 <g1 g2< B2 <g2");
    assert_eq!(train(Schedule::OneFOneB, 2), "load0 <a0 F0 L0 B0 <g0 load1 <a1 F1 L1 B1 <g1 load2 <a2 F2 L2 B2 <g2");
    assert_eq!(train(Schedule::GPipe, 2), "load0 <a0 F0 load1 <a1 F1 load2 <a2 F2 L0 B0 <g0 L1 B1 <g1 L2 B2 <g2");
    assert_eq!(listing(Schedule::OneFOneB, 0, 1, 2, Pass::Train), "load0 F0 L0 B0 load1 F1 L1 B1");
    assert_eq!(listing(Schedule::GPipe, 2, 3, 2, Pass::Evaluate), "load0 <a0 F0 L0 load1 <a1 F1 L1");
    assert_eq!(listing(Schedule::GPipe, 0, 3, 2, Pass::Evaluate), "load0 F0 a0> load1 F1 a1>");
}

/// After the last backward every unit of the stage is reduced once, the tied part with the head, last block first.
#[test]
fn reductions_follow_the_last_backward() {
    let job = fixture::job();
    let table = fixture::table(&job);
    let plan = fixture::plan(&job);
    let reduced = |stage: usize, pass| -> Vec<GradUnit> {
        let list = program(&plan, &table, seat(stage), pass, 4);
        let first = list.iter().position(|i| matches!(i, Instruction::Reduce(_))).unwrap_or(list.len());
        list[first..]
            .iter()
            .map(|i| match i {
                Instruction::Reduce(unit) => *unit,
                other => panic!("{other:?} after a reduction"),
            })
            .collect()
    };
    let unit = |block, part| GradUnit { block: BlockId(block), part };
    assert_eq!(reduced(0, Pass::Train), [2, 1, 0].map(|b| unit(b, GradPart::Own)));
    let tied = unit(0, GradPart::TiedHead);
    assert_eq!(reduced(1, Pass::Train), [tied, unit(5, GradPart::Own), unit(4, GradPart::Own), unit(3, GradPart::Own)]);
    assert_eq!(reduced(1, Pass::Evaluate), []);
}

/// A list that waits for what nobody sends is named, not run forever.
#[test]
fn a_missing_send_is_found() {
    let mut tracks = tracks(Schedule::GPipe, 2, 2);
    tracks[0].program.retain(|i| *i != Instruction::SendActivation(MicroBatch(1)));
    let stuck = timeline(&tracks, &golden_costs(2)).expect_err("nobody sends it");
    let gradient = (seat(0), Instruction::RecvGradient(MicroBatch(0)));
    assert_eq!(stuck, Stuck { waiting: vec![gradient, (seat(1), Instruction::RecvActivation(MicroBatch(1)))] });
}

/// Stages that share a device take turns: two stages on one device are as slow as all their work.
#[test]
fn shared_devices_take_turns() {
    let mut tracks = tracks(Schedule::OneFOneB, 2, 8);
    for track in &mut tracks {
        track.device = 0;
    }
    let pass = timeline(&tracks, &golden_costs(2)).expect("runs");
    assert_eq!((pass.wall, pass.bubble()), (8 * 2 * 3, 0.0));
}

proptest! {
    /// Never a deadlock, every receive has its send, every micro-batch goes forward and back once and backwards ascend,
    /// and no stage holds more than its bound.
    #[test]
    fn lists_are_sound(
        stages in 1usize..7, m in 0u32..20, gpipe: bool,
        costs in prop::collection::vec((1u64..9, 0u64..4, 1u64..9), 7), transfer in 0u64..9, shared in 1usize..7,
    ) {
        let schedule = if gpipe { Schedule::GPipe } else { Schedule::OneFOneB };
        let mut tracks = tracks(schedule, stages, m);
        for track in &mut tracks {
            track.device = track.device * shared / 7;
        }
        let costs = Costs {
            forward: costs.iter().map(|c| c.0).collect(),
            loss: costs.iter().map(|c| c.1).collect(),
            backward: costs.iter().map(|c| c.2).collect(),
            transfer,
        };
        let pass = timeline(&tracks, &costs).expect("no deadlock");
        for (s, (track, seat)) in tracks.iter().zip(&pass.seats).enumerate() {
            prop_assert!(seat.peak_in_flight <= in_flight(schedule, s as u32, stages as u32, m));
            let all = |f: &dyn Fn(&Instruction) -> Option<MicroBatch>| -> Vec<u32> {
                track.program.iter().filter_map(f).map(|m| m.0).collect()
            };
            let ascending: Vec<u32> = (0..m).collect();
            let forwards = all(&|i| if let Instruction::Forward(m) = i { Some(*m) } else { None });
            let backwards = all(&|i| if let Instruction::Backward(m) = i { Some(*m) } else { None });
            prop_assert_eq!(&forwards, &ascending);
            prop_assert_eq!(&backwards, &ascending);
            let sent = all(&|i| if let Instruction::SendActivation(m) = i { Some(*m) } else { None });
            if let Some(next) = tracks.get(s + 1) {
                let received: Vec<u32> = next.program.iter()
                    .filter_map(|i| if let Instruction::RecvActivation(m) = i { Some(m.0) } else { None }).collect();
                prop_assert_eq!(sent, received);
                let back: Vec<u32> = next.program.iter()
                    .filter_map(|i| if let Instruction::SendGradient(m) = i { Some(m.0) } else { None }).collect();
                let awaited = all(&|i| if let Instruction::RecvGradient(m) = i { Some(*m) } else { None });
                prop_assert_eq!(back, awaited);
            } else {
                prop_assert_eq!(sent, Vec::<u32>::new());
                for pair in track.program.windows(2) {
                    if let Instruction::Loss(m) = pair[0] {
                        prop_assert_eq!(pair[1], Instruction::Backward(m), "loss right before its backward");
                    }
                }
            }
        }
        let work: u64 = (0..stages).map(|s| {
            u64::from(m) * (costs.forward[s] + costs.backward[s] + if s + 1 == stages { costs.loss[s] } else { 0 })
        }).sum();
        prop_assert_eq!(pass.busy(), work);
    }
}
