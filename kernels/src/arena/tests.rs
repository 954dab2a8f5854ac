use proptest::prelude::*;

use super::*;

const CAP: u64 = 1 << 20;
const BUDGET: u64 = 3 << 19;

#[derive(Clone, Debug)]
enum Step {
    Take { arena: usize, tag: usize, elements: usize },
    Drop { which: usize },
    Retag { which: usize, tag: usize },
    Trim { arena: usize },
}

fn step() -> impl Strategy<Value = Step> {
    // Few sizes, so that blocks are found again, and some of any size.
    let elements = prop_oneof![Just(0_usize), Just(100), Just(20_000), Just(70_000), 0_usize..300_000];
    prop_oneof![
        4 => (0_usize..2, 0..Tag::ALL.len(), elements).prop_map(|(arena, tag, elements)| Step::Take { arena, tag, elements }),
        3 => any::<usize>().prop_map(|which| Step::Drop { which }),
        1 => (any::<usize>(), 0..Tag::ALL.len()).prop_map(|(which, tag)| Step::Retag { which, tag }),
        1 => (0_usize..2).prop_map(|arena| Step::Trim { arena }),
    ]
}

/// Checks both arenas and the budget against what is alive.
fn check(arenas: &[Arena; 2], budget: &Budget, alive: &[(usize, Buffer)]) {
    let mut held = 0;
    for (i, arena) in arenas.iter().enumerate() {
        let live = |tag: Option<Tag>| -> u64 {
            let mine = alive.iter().filter(|(a, b)| *a == i && tag.is_none_or(|tag| b.tag() == tag));
            mine.map(|(_, b)| Arena::footprint(b.len())).sum()
        };
        for tag in Tag::ALL {
            assert_eq!(arena.usage(tag).live, live(Some(tag)), "AR-2 (one account): {tag}");
        }
        assert_eq!(arena.total().live, live(None), "AR-2 (one account)");
        assert!(arena.total().live + arena.cached() <= CAP, "AR-1 (hard cap)");
        held += arena.total().live + arena.cached();
    }
    assert_eq!(budget.held(), held);
    assert!(held <= BUDGET, "AR-1 (hard cap): budget");
}

proptest! {
    #[test]
    fn accounts_agree_with_what_is_alive(steps in prop::collection::vec(step(), 1..120)) {
        let budget = Budget::new(BUDGET);
        let arenas = [Arena::new(Tier::Device, CAP, &budget), Arena::new(Tier::Host, CAP, &budget)];
        let mut alive: Vec<(usize, Buffer)> = Vec::new();
        let mut high = [0, 0];
        for step in steps {
            match step {
                Step::Take { arena, tag, elements } => {
                    let bytes = Arena::footprint(elements);
                    let live = arenas[arena].total().live;
                    let everyone: u64 = arenas.iter().map(|a| a.total().live).sum();
                    match arenas[arena].alloc(Tag::ALL[tag], elements) {
                        Ok(buffer) => {
                            prop_assert!(live + bytes <= CAP && everyone + bytes <= BUDGET);
                            prop_assert_eq!(buffer.view().len(), elements);
                            prop_assert_eq!(buffer.view().host().as_ptr() as usize % 64, 0);
                            alive.push((arena, buffer));
                        }
                        Err(ArenaError::OverCap { live: said, cap, .. }) => {
                            prop_assert!(live + bytes > CAP && said == live && cap == CAP);
                        }
                        // Caches are evicted first, so only what is alive can be in the way.
                        Err(ArenaError::OverBudget { live: said, cap, .. }) => {
                            prop_assert!(everyone + bytes > BUDGET && said >= everyone && cap == BUDGET);
                        }
                        Err(refused @ ArenaError::Refused { .. }) => prop_assert!(false, "{refused}"),
                    }
                }
                Step::Drop { which } if !alive.is_empty() => drop(alive.swap_remove(which % alive.len())),
                Step::Retag { which, tag } if !alive.is_empty() => {
                    let at = which % alive.len();
                    alive[at].1.retag(Tag::ALL[tag]);
                }
                Step::Drop { .. } | Step::Retag { .. } => {}
                Step::Trim { arena } => {
                    let cached = arenas[arena].cached();
                    prop_assert_eq!(arenas[arena].trim(), cached);
                    prop_assert_eq!(arenas[arena].cached(), 0);
                }
            }
            check(&arenas, &budget, &alive);
            for (high, arena) in high.iter_mut().zip(&arenas) {
                *high = arena.total().live.max(*high);
                prop_assert_eq!(arena.total().high, *high);
            }
        }
        drop(alive);
        drop(arenas);
        prop_assert_eq!(budget.held(), 0);
    }
}

#[test]
fn a_size_seen_before_takes_no_memory_from_the_system() {
    let budget = Budget::new(1 << 30);
    let arena = Arena::new(Tier::Device, 1 << 30, &budget);
    let first = arena.alloc(Tag::Stash, 1 << 20).expect("room");
    let place = first.view().host().as_ptr();
    drop(first);
    assert_eq!((arena.total().live, arena.cached()), (0, 4 << 20));
    let again = arena.alloc(Tag::Gradient, 1 << 20).expect("room");
    assert_eq!(again.view().host().as_ptr(), place, "AR-3 (steady state)");
    assert_eq!(budget.held(), 4 << 20);
}

#[test]
fn marks_begin_anew_at_what_is_alive() {
    let arena = Arena::new(Tier::Device, 1 << 20, &Budget::new(1 << 20));
    let held = arena.alloc(Tag::Weight, 1024).expect("room");
    drop(arena.alloc(Tag::Moment, 2048).expect("room"));
    assert_eq!(arena.usage(Tag::Moment), Usage { live: 0, high: 8192 });
    arena.restart_marks();
    assert_eq!(arena.usage(Tag::Moment), Usage::default());
    assert_eq!((arena.usage(Tag::Weight), arena.total()), (Usage { live: 4096, high: 4096 }, arena.usage(Tag::Weight)));
    drop(held);
    drop(arena.alloc(Tag::Moment, 1024).expect("room"));
    assert_eq!((arena.usage(Tag::Moment).high, arena.total()), (4096, Usage { live: 0, high: 4096 }));
}

#[test]
fn the_error_says_what_was_asked_and_what_is_there() {
    let arena = Arena::new(Tier::Host, 8192, &Budget::new(1 << 20));
    let _held = arena.alloc(Tag::Weight, 1024).expect("room");
    let error = arena.alloc(Tag::Moment, 2000).expect_err("no room");
    assert_eq!(error.to_string(), "host arena is full: asked for 8000 bytes of moment, 4096 of 8192 bytes are in use");
    assert_eq!(arena.total(), Usage { live: 4096, high: 4096 });
    assert!(matches!(arena.alloc(Tag::Moment, usize::MAX), Err(ArenaError::OverCap { .. })));
}

#[test]
fn buffers_cross_threads_and_outlive_their_arena_handle() {
    let budget = Budget::new(1 << 20);
    let buffer = Arena::new(Tier::Host, 1 << 20, &budget).alloc_zeroed(Tag::Communication, 500).expect("room");
    let shared = Arc::new(buffer);
    let sums: Vec<f32> = (0..4)
        .map(|_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.host_visible().expect("host memory").iter().sum::<f32>())
        })
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    assert_eq!(sums, [0.0; 4]);
    drop(shared);
    assert_eq!(budget.held(), 0);
}

#[test]
fn threads_share_one_cap() {
    let budget = Budget::new(40 * 4096);
    let arena = Arena::new(Tier::Device, 32 * 4096, &budget);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                for i in 0..2000_usize {
                    match arena.alloc(Tag::ALL[i % 8], 1024 * (1 + i % 3)) {
                        Ok(buffer) => kept.push(buffer),
                        Err(_) => kept.clear(),
                    }
                    assert!(budget.held() <= 40 * 4096, "AR-1 (hard cap): budget");
                    assert!(arena.total().high <= 32 * 4096, "AR-1 (hard cap)");
                }
            });
        }
    });
    assert_eq!(arena.total().live, 0);
    assert_eq!(arena.cached(), budget.held());
}
