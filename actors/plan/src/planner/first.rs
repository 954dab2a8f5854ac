//! The first plan of a job, which chooses what its nodes compute.

use std::collections::{BTreeMap, BTreeSet};

use shoal_exact::Arithmetic;

use super::{Held, NoPlan, Planned, make_plan};
use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::NodeId;
use crate::job::Job;

/// Those of the members that compute the same bits.
#[must_use]
pub fn alike(members: &BTreeMap<NodeId, Offer>, arithmetic: Arithmetic) -> BTreeMap<NodeId, Offer> {
    let alike = members.iter().filter(|(_, offer)| offer.arithmetic == arithmetic);
    alike.map(|(node, offer)| (*node, offer.clone())).collect()
}

/// Makes the first plan of a job, from its seed or files, for the members of one arithmetic: the better one if any layout on its
/// nodes is possible, however many nodes have the other. Nodes without the instruction are slower by so much that their number does
/// not make up for it, and one of them must not slow down a cluster that it was added to.
///
/// # Errors
/// If no layout is possible with either; why, of the better one that any member has.
pub fn first_plan(
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    draining: &BTreeSet<NodeId>,
) -> Result<Planned, NoPlan> {
    let mut refused = None;
    for arithmetic in Arithmetic::ALL {
        let alike = alike(members, arithmetic);
        if alike.is_empty() {
            continue;
        }
        match make_plan(job, table, &alike, draining, &Held::none()) {
            Ok(planned) => return Ok(planned),
            Err(reason) => drop(refused.get_or_insert(reason)),
        }
    }
    Err(refused.unwrap_or(NoPlan::NoNodes { members: 0, draining: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Invariant, check};
    use crate::fixture;

    /// Nodes 1 to 4 with these arithmetics and this much memory.
    fn members(of: [(Arithmetic, u64); 4]) -> BTreeMap<NodeId, Offer> {
        let members = fixture::members(1..=4).into_iter().zip(of);
        let differ = |((node, offer), (arithmetic, budget_bytes))| (node, Offer { arithmetic, budget_bytes, ..offer });
        members.map(differ).collect()
    }

    #[test]
    fn the_better_arithmetic_that_fits_has_the_job() {
        use Arithmetic::{Fused, Plain};
        const ROOM: u64 = 1 << 30;
        let job = fixture::job();
        let table = fixture::table(&job);
        let nodes = |planned: &Planned| planned.plan.nodes().iter().map(|node| node.0).collect::<Vec<_>>();
        let first = |members, draining: &[u64]| {
            first_plan(&job, &table, &members, &draining.iter().map(|node| NodeId(*node)).collect())
        };
        let outnumbered = members([(Plain, ROOM), (Fused, ROOM), (Plain, ROOM), (Plain, ROOM)]);
        let planned = first(outnumbered.clone(), &[]).expect("it fits one node");
        assert_eq!((planned.plan.arithmetic, nodes(&planned)), (Fused, vec![2]));
        // Nobody of the better ones has room, or stays.
        let small = members([(Plain, ROOM), (Fused, 1 << 10), (Plain, ROOM), (Plain, ROOM)]);
        for planned in [first(small, &[]), first(outnumbered.clone(), &[2])] {
            let planned = planned.expect("it fits three nodes");
            assert_eq!((planned.plan.arithmetic, nodes(&planned)), (Plain, vec![1, 3, 4]));
        }
        let none = first(members([(Plain, 1 << 10), (Fused, 2 << 10), (Plain, 1 << 10), (Plain, 1 << 10)]), &[]);
        assert!(matches!(none, Err(NoPlan::Memory { budget: 2048, .. })), "{none:?}");
        assert_eq!(first(BTreeMap::new(), &[]), Err(NoPlan::NoNodes { members: 0, draining: 0 }));
        // A plan over both would be found out.
        let mixed = make_plan(&job, &table, &outnumbered, &BTreeSet::new(), &Held::none()).expect("it fits").plan;
        let found = check(&mixed, &job, &table, &outnumbered);
        assert!(found.iter().any(|violation| violation.invariant == Invariant::Alike), "{found:?}");
    }
}
