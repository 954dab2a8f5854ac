//! The first plan of a job, which chooses what its nodes compute.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shoal_config::spec::Auto;
use shoal_exact::Arithmetic;

use super::{Held, NoPlan, Planned, make_plan};
use crate::blocks::ModelTable;
use crate::draw;
use crate::engine::Offer;
use crate::ids::NodeId;
use crate::job::Job;

/// Of two predicted times the one must be so many times shorter for a job to be plain though it could be fused.
const CLEARLY: u64 = 2;

/// Those of the members that compute the same bits.
#[must_use]
pub fn alike(members: &BTreeMap<NodeId, Offer>, arithmetic: Arithmetic) -> BTreeMap<NodeId, Offer> {
    let alike = members.iter().filter(|(_, offer)| offer.arithmetic == arithmetic);
    alike.map(|(node, offer)| (*node, offer.clone())).collect()
}

/// A first plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// The plan.
    pub planned: Planned,
    /// Of a plan on plain nodes: why it is not on fused ones.
    pub plain: Option<WhyPlain>,
}

/// Why a job computes plain products, which are slow and stay so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyPlain {
    /// Nobody fuses.
    NoneFused,
    /// Those who do cannot hold it.
    Refused(NoPlan),
    /// Those who do are so few that even plain ones are clearly faster; nanoseconds of a step.
    Slower {
        /// On the fused nodes.
        fused: u64,
        /// On the plain ones.
        plain: u64,
    },
}

impl WhyPlain {
    /// What that means for a job, and what to do about it: for an operator.
    pub const MEANS: &str = "plain products take about five times as long as fused ones, and for as long as the job lives \
                             no fused node can take part; to have it fused, `shoalctl cancel` it and submit it again when \
                             `shoalctl nodes` lists workers of class avx2, avx512 or neon (`class` in a worker's node.toml \
                             may keep it from that)";
}

impl fmt::Display for WhyPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        match self {
            Self::NoneFused => f.write_str("no node that is here fuses multiply and add"),
            Self::Refused(reason) => write!(f, "the nodes that fuse multiply and add cannot have it: {reason}"),
            Self::Slower { fused, plain } => write!(
                f,
                "on the plain nodes a step of the fastest layout is predicted to take {:.1} ms, on the fused ones {:.1} ms",
                milliseconds(*plain),
                milliseconds(*fused)
            ),
        }
    }
}

/// Makes the first plan of a job, from its seed or files, for the members of one arithmetic. That is fused if any layout on the
/// fused ones is possible, unless a step of the fastest layout is predicted to take less than half the time on the plain ones: the
/// choice is for good, nodes that come later are most likely fused, and a prediction is no promise. Who came first does not matter.
///
/// # Errors
/// If no layout is possible with either; why, of the better one that any member has.
pub fn first_plan(
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    draining: &BTreeSet<NodeId>,
) -> Result<First, NoPlan> {
    let plan = |job: &Job, arithmetic| {
        let alike = alike(members, arithmetic);
        (!alike.is_empty()).then(|| make_plan(job, table, &alike, draining, &Held::none()))
    };
    let on = |arithmetic| plan(job, arithmetic);
    // A wish that is slow on the nodes of the one and cannot be fulfilled on those of the other says nothing about the nodes.
    let fastest = |planned: &Planned| {
        let free = plan(&without_wishes(job), planned.plan.arithmetic).and_then(Result::ok);
        draw::predicted(&free.as_ref().unwrap_or(planned).plan, job, table, members).step()
    };
    let plain_because = |planned, why| Ok(First { planned, plain: Some(why) });
    match (on(Arithmetic::Fused), on(Arithmetic::Plain)) {
        (None, None) => Err(NoPlan::NoNodes { members: 0, draining: 0 }),
        (Some(Err(reason)), None | Some(Err(_))) | (None, Some(Err(reason))) => Err(reason),
        (None, Some(Ok(planned))) => plain_because(planned, WhyPlain::NoneFused),
        (Some(Err(reason)), Some(Ok(planned))) => plain_because(planned, WhyPlain::Refused(reason)),
        (Some(Ok(planned)), None | Some(Err(_))) => Ok(First { planned, plain: None }),
        (Some(Ok(better)), Some(Ok(planned))) => {
            let (fused, plain) = (fastest(&better), fastest(&planned));
            if CLEARLY * plain < fused {
                plain_because(planned, WhyPlain::Slower { fused, plain })
            } else {
                Ok(First { planned: better, plain: None })
            }
        }
    }
}

/// The job as if the planner had the choice of everything that it ever has.
fn without_wishes(job: &Job) -> Job {
    let mut job = job.clone();
    let parallel = &mut job.spec.parallel;
    (parallel.pipeline, parallel.data, parallel.fixed) = (Auto::Auto, Auto::Auto, false);
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Invariant, check};
    use crate::fixture;

    const ROOM: u64 = 1 << 30;

    /// Nodes 1 to 4 with these arithmetics and this much memory.
    fn members(of: [(Arithmetic, u64); 4]) -> BTreeMap<NodeId, Offer> {
        let members = fixture::members(1..=4).into_iter().zip(of);
        let differ = |((node, offer), (arithmetic, budget_bytes))| (node, Offer { arithmetic, budget_bytes, ..offer });
        members.map(differ).collect()
    }

    fn nodes(first: &First) -> Vec<u64> {
        first.planned.plan.nodes().iter().map(|node| node.0).collect()
    }

    #[test]
    fn the_better_arithmetic_that_fits_has_the_job() {
        use Arithmetic::{Fused, Plain};
        let job = fixture::job();
        let table = fixture::table(&job);
        let first = |members, draining: &[u64]| {
            first_plan(&job, &table, &members, &draining.iter().map(|node| NodeId(*node)).collect())
        };
        let outnumbered = members([(Plain, ROOM), (Fused, ROOM), (Plain, ROOM), (Plain, ROOM)]);
        let made = first(outnumbered.clone(), &[]).expect("it fits one node");
        assert_eq!((made.planned.plan.arithmetic, nodes(&made), &made.plain), (Fused, vec![2], &None));
        // Nobody of the better ones has room, or stays, or is there.
        let small = members([(Plain, ROOM), (Fused, 1 << 10), (Plain, ROOM), (Plain, ROOM)]);
        let mut none = outnumbered.clone();
        none.remove(&NodeId(2));
        for (members, draining, why) in [
            (small, None, "the nodes that fuse multiply and add cannot have it: pipeline 2 x data 2 on 1 node(s): "),
            (
                outnumbered.clone(),
                Some(2),
                "the nodes that fuse multiply and add cannot have it: a plan takes a node that",
            ),
            (none, None, "no node that is here fuses multiply and add"),
        ] {
            let made = first(members, draining.as_slice()).expect("it fits three nodes");
            assert_eq!((made.planned.plan.arithmetic, nodes(&made)), (Plain, vec![1, 3, 4]));
            let said = made.plain.expect("a reason").to_string();
            assert!(said.starts_with(why), "{said}");
        }
        let none = first(members([(Plain, 1 << 10), (Fused, 2 << 10), (Plain, 1 << 10), (Plain, 1 << 10)]), &[]);
        assert!(matches!(none, Err(NoPlan::Memory { budget: 2048, .. })), "{none:?}");
        assert_eq!(first(BTreeMap::new(), &[]), Err(NoPlan::NoNodes { members: 0, draining: 0 }));
        // A plan over both would be found out.
        let mixed = make_plan(&job, &table, &outnumbered, &BTreeSet::new(), &Held::none()).expect("it fits").plan;
        let found = check(&mixed, &job, &table, &outnumbered);
        assert!(found.iter().any(|violation| violation.invariant == Invariant::Alike), "{found:?}");
    }

    /// Here a single node is fastest by far, and so small a thing is computed anywhere: three nodes as asked for are no worse nodes.
    #[test]
    fn a_wish_that_costs_time_is_no_reason_to_be_plain() {
        let job = fixture::job();
        let table = fixture::table(&job);
        let of = |arithmetic| (arithmetic, ROOM);
        let [fused, plain] = Arithmetic::ALL.map(of);
        let first =
            first_plan(&job, &table, &members([fused, fused, fused, plain]), &BTreeSet::new()).expect("it fits");
        assert_eq!((first.planned.plan.arithmetic, first.plain), (Arithmetic::Fused, None));
    }

    /// Twice the speed is what it takes, whoever has the lower ids.
    #[test]
    fn plain_nodes_have_a_job_only_if_they_are_clearly_faster() {
        use Arithmetic::{Fused, Plain};
        // Computing is all that takes time here.
        let spec = shoal_config::preset("bench-m", "/".as_ref()).expect("a preset");
        let job = Job { spec, ..fixture::job() };
        let table = fixture::table(&job);
        let offer = |arithmetic, threads| Offer {
            threads,
            arithmetic,
            budget_bytes: 64 << 30,
            ..fixture::members(1..=1)[&NodeId(1)].clone()
        };
        for turned in [false, true] {
            let first = |threads| {
                let (plain, fused) = if turned { (2, 1) } else { (1, 2) };
                let members =
                    BTreeMap::from([(NodeId(plain), offer(Plain, threads)), (NodeId(fused), offer(Fused, 1))]);
                first_plan(&job, &table, &members, &BTreeSet::new()).expect("it fits each of them")
            };
            for threads in [1, 5, 9] {
                assert_eq!((first(threads).planned.plan.arithmetic, first(threads).plain), (Fused, None), "{threads}");
            }
            let made = first(11);
            assert_eq!(made.planned.plan.arithmetic, Plain);
            let Some(WhyPlain::Slower { fused, plain }) = made.plain else { panic!("{:?}", made.plain) };
            assert!(2 * plain < fused && fused < 3 * plain, "{fused} and {plain}");
        }
    }
}
