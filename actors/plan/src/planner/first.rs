//! The first plan of a job, which chooses what its nodes compute.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shoal_config::spec::{Auto, ParallelSpec};
use shoal_exact::Arithmetic;

use super::shape::{Layout, choose, predict_with};
use super::{Held, NoPlan, Planned, staying, with_layout};
use crate::blocks::ModelTable;
use crate::cost::flops_per_nanosecond;
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
    /// What is said when a job is submitted: its first plan is still to come.
    #[must_use]
    pub fn ahead(&self) -> String {
        format!("with the nodes of now its products will be plain: {self}; {}", means(self.way_out()))
    }

    /// What is said when the first plan is made.
    #[must_use]
    pub fn decided(&self) -> String {
        format!("its products are plain from now on: {self}; {}", means(self.way_out()))
    }

    /// What is said from then on, as long as the job is not over; names the living nodes that could be faster.
    #[must_use]
    pub fn since(left_out: &[String]) -> String {
        let faster = match left_out {
            [] => String::new(),
            [one] => format!(", and {one} is left out"),
            many => format!(", and {} are left out", many.join(", ")),
        };
        let way_out = "to have it fused, `shoalctl cancel` it and submit it again when enough workers of class avx2, avx512 or neon \
                       are there to hold it and to be no slower (`shoalctl nodes`; `class` in a worker's node.toml may keep it \
                       from that)";
        format!("its products are plain since its first plan{faster}: {}", means(way_out))
    }

    /// What would make it fused.
    fn way_out(&self) -> &'static str {
        match self {
            Self::NoneFused => {
                "to have it fused, `shoalctl cancel` it and submit it again when `shoalctl nodes` lists workers of class avx2, avx512 \
                 or neon (`class` in a worker's node.toml may keep it from that)"
            }
            Self::Refused(_) => {
                "to have it fused, `shoalctl cancel` it and submit it again when the nodes that fuse have more memory, or are more"
            }
            Self::Slower { .. } => {
                "to have it fused for nodes that come later, `shoalctl cancel` it and submit it again when more nodes that fuse are \
                 there, or these plain ones are not"
            }
        }
    }
}

/// What plain products mean for a job, and what to do about it: for an operator.
fn means(way_out: &str) -> String {
    let times = flops_per_nanosecond(Arithmetic::Fused) / flops_per_nanosecond(Arithmetic::Plain);
    format!(
        "plain products take about {times} times as long as fused ones, and for as long as the job lives no fused node can take part; \
         {way_out}"
    )
}

impl fmt::Display for WhyPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        match self {
            Self::NoneFused => f.write_str("no node that is here fuses multiply and add"),
            Self::Refused(reason) => write!(f, "the nodes that fuse multiply and add cannot have it: {reason}"),
            Self::Slower { fused, plain } => write!(
                f,
                "a step of its plan on the plain nodes is predicted to take {:.1} ms, of the fastest one on the fused nodes {:.1} ms",
                milliseconds(*plain),
                milliseconds(*fused)
            ),
        }
    }
}

/// Makes the first plan of a job, from its seed or files, for the members of one arithmetic. That is fused if any layout on the
/// fused ones is possible, unless a step of the plan is predicted to take less than half the time on the plain ones: the choice is
/// for good, nodes that come later are most likely fused, and a prediction is no promise. On the plain ones it is the layout with the
/// job's wishes that counts, as that is what runs for as long as the job lives; on the fused ones a faster layout counts too, as a
/// wish that is slow there says nothing about the nodes. Who came first does not matter.
///
/// # Errors
/// If no layout is possible with either; why, of the better one that any member has.
pub fn first_plan(
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    draining: &BTreeSet<NodeId>,
) -> Result<First, NoPlan> {
    let on = |arithmetic| {
        let members = alike(members, arithmetic);
        (!members.is_empty()).then(|| Possible::new(job, table, members, draining))
    };
    let plain_because = |plain: Possible<'_>, why| Ok(First { planned: plain.planned(), plain: Some(why) });
    match (on(Arithmetic::Fused), on(Arithmetic::Plain)) {
        (None, None) => Err(NoPlan::NoNodes { members: 0, draining: 0 }),
        (Some(Err(reason)), None | Some(Err(_))) | (None, Some(Err(reason))) => Err(reason),
        (None, Some(Ok(plain))) => plain_because(plain, WhyPlain::NoneFused),
        (Some(Err(reason)), Some(Ok(plain))) => plain_because(plain, WhyPlain::Refused(reason)),
        (Some(Ok(fused)), None | Some(Err(_))) => Ok(First { planned: fused.planned(), plain: None }),
        (Some(Ok(fused)), Some(Ok(plain))) => {
            let times = (fused.step_without_wishes(), plain.step());
            if CLEARLY * times.1 < times.0 {
                plain_because(plain, WhyPlain::Slower { fused: times.0, plain: times.1 })
            } else {
                Ok(First { planned: fused.planned(), plain: None })
            }
        }
    }
}

/// A first plan that nodes of one arithmetic can have, as far as it takes to compare it.
struct Possible<'a> {
    job: &'a Job,
    table: &'a ModelTable,
    members: BTreeMap<NodeId, Offer>,
    draining: &'a BTreeSet<NodeId>,
    layout: Layout,
}

impl<'a> Possible<'a> {
    fn new(
        job: &'a Job,
        table: &'a ModelTable,
        members: BTreeMap<NodeId, Offer>,
        draining: &'a BTreeSet<NodeId>,
    ) -> Result<Self, NoPlan> {
        let nodes = staying(&members, draining)?;
        let layout = choose((job, &job.spec.parallel), table, &nodes, &Held::none())?;
        Ok(Self { job, table, members, draining, layout })
    }

    fn nodes(&self) -> Vec<(NodeId, &Offer)> {
        staying(&self.members, self.draining).expect("PC-10 (nodes stay for a layout that was chosen)")
    }

    /// Nanoseconds, without shadows: that there are nodes to have them speaks for these, and costs them time.
    fn step(&self) -> u64 {
        predict_with(0, self.job, self.table, &self.layout, &self.nodes())
    }

    /// Nanoseconds of the fastest layout, if the planner had the choice of everything that it ever has, or of this one.
    fn step_without_wishes(&self) -> u64 {
        let free =
            ParallelSpec { pipeline: Auto::Auto, data: Auto::Auto, fixed: false, ..self.job.spec.parallel.clone() };
        let nodes = self.nodes();
        let free = choose((self.job, &free), self.table, &nodes, &Held::none());
        let free = free.map(|layout| predict_with(0, self.job, self.table, &layout, &nodes));
        free.map_or(self.step(), |free| free.min(self.step()))
    }

    fn planned(self) -> Planned {
        with_layout(self.layout.clone(), self.job, self.table, &self.members, &self.nodes(), &Held::none())
    }
}

#[cfg(test)]
mod tests {
    use super::super::make_plan;
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

    /// Of these threads; a job of the preset `bench-m` fits each of them, and computing is all that takes time there.
    fn roomy(arithmetic: Arithmetic, threads: u32) -> Offer {
        Offer { threads, arithmetic, budget_bytes: 64 << 30, ..fixture::members(1..=1)[&NodeId(1)].clone() }
    }

    fn bench_m() -> Job {
        let spec = shoal_config::preset("bench-m", "/".as_ref()).expect("a preset");
        Job { spec, ..fixture::job() }
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
            (small, None, "the nodes that fuse multiply and add cannot have it: pipeline 2 x data 2 on 1 node: "),
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
        let job = bench_m();
        let table = fixture::table(&job);
        for turned in [false, true] {
            let first = |threads| {
                let (plain, fused) = if turned { (2, 1) } else { (1, 2) };
                let members =
                    BTreeMap::from([(NodeId(plain), roomy(Plain, threads)), (NodeId(fused), roomy(Fused, 1))]);
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

    /// Twelve plain nodes of two threads are clearly faster than one that fuses if the job may have them all, but not if it asked for few of them.
    #[test]
    fn plain_nodes_that_a_job_does_not_ask_for_say_nothing() {
        let mut job = bench_m();
        // As many replicas as nodes, with much to compute between two exchanges.
        (job.spec.parallel.virtual_replicas, job.spec.train.global_batch) = (12, 12 * job.spec.train.global_batch);
        let table = fixture::table(&job);
        let mut members: BTreeMap<NodeId, Offer> = (2..=13).map(|n| (NodeId(n), roomy(Arithmetic::Plain, 2))).collect();
        members.insert(NodeId(1), roomy(Arithmetic::Fused, 1));
        let mut arithmetic = |(pipeline, data), fixed| {
            let parallel = &mut job.spec.parallel;
            (parallel.pipeline, parallel.data, parallel.fixed) = (pipeline, data, fixed);
            first_plan(&job, &table, &members, &BTreeSet::new()).expect("it fits").planned.plan.arithmetic
        };
        assert_eq!(arithmetic((Auto::Auto, Auto::Auto), false), Arithmetic::Plain);
        for fixed in [false, true] {
            assert_eq!(arithmetic((Auto::Set(1), Auto::Set(1)), fixed), Arithmetic::Fused);
        }
        assert_eq!(arithmetic((Auto::Set(2), Auto::Set(2)), false), Arithmetic::Fused);
    }

    #[test]
    fn what_is_said_of_plain_products_is_one_text_at_every_time() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (said, begins) in [
            (
                WhyPlain::NoneFused.ahead(),
                "with the nodes of now its products will be plain: no node that is here fuses",
            ),
            (
                WhyPlain::Slower { fused: 3_000_000, plain: 1_000_000 }.decided(),
                "its products are plain from now on: a step of its plan on the plain nodes is predicted to take 1.0 ms, of the \
                 fastest one on the fused nodes 3.0 ms; ",
            ),
            (WhyPlain::NoneFused.decided(), "its products are plain from now on: no node that is here fuses"),
            (WhyPlain::since(&[]), "its products are plain since its first plan: plain products take"),
            (WhyPlain::since(&names(&["w2"])), "its products are plain since its first plan, and w2 is left out: "),
            (
                WhyPlain::since(&names(&["w2", "w3"])),
                "its products are plain since its first plan, and w2, w3 are left out: ",
            ),
        ] {
            assert!(said.starts_with(begins) && said.contains(" take about 5 times as long as fused ones"), "{said}");
            assert_eq!(
                said.contains("when `shoalctl nodes` lists"),
                said.contains("no node that is here fuses"),
                "{said}"
            );
        }
    }

    /// Its shadows cost time, which is no reason to do without it.
    #[test]
    fn a_fused_node_more_is_no_reason_to_be_plain() {
        let mut job = fixture::job();
        (job.spec.parallel.pipeline, job.spec.parallel.data) = (Auto::Auto, Auto::Auto);
        job.spec.elastic.redundancy = 2;
        let table = fixture::table(&job);
        let mut members =
            BTreeMap::from([(NodeId(1), roomy(Arithmetic::Plain, 3)), (NodeId(2), roomy(Arithmetic::Fused, 1))]);
        for more in 3..6 {
            let first = first_plan(&job, &table, &members, &BTreeSet::new()).expect("it fits");
            assert_eq!((first.planned.plan.arithmetic, first.plain), (Arithmetic::Fused, None), "{more}");
            members.insert(NodeId(more), roomy(Arithmetic::Fused, 1));
        }
    }
}
