//! The nodes of a job compute the same bits: its first plan fixes their arithmetic, and nodes of another are left out.

use shoal_exact::Arithmetic;

use super::face::Offer;
use super::phase::Phase;
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::ledger::Head;
use crate::planner::WhyPlain;
use crate::protocol::ToNode;

impl Engine {
    /// What the nodes of this job compute, once a first plan has fixed it.
    #[must_use]
    pub fn arithmetic(&self) -> Option<Arithmetic> {
        self.plan().map(|plan| plan.arithmetic)
    }

    /// What a living node computes that this job has nothing for.
    #[must_use]
    pub fn left_out(&self, node: NodeId) -> Option<Arithmetic> {
        self.nodes.unlike().get(&node).map(|offer| offer.arithmetic)
    }

    /// The first plan is adopted: whoever computes something else goes, and the ledger starts from what is computed.
    pub(super) fn fix(&mut self, arithmetic: Arithmetic) {
        self.chain.begin(Head::genesis(&self.setup.job, arithmetic));
        let unlike = self.nodes.here().iter().filter(|(_, offer)| offer.arithmetic != arithmetic);
        for (node, offer) in unlike.map(|(node, offer)| (*node, offer.clone())).collect::<Vec<_>>() {
            self.leave_out(node, offer, arithmetic);
        }
    }

    /// From now on the job is slow, and nobody may notice why.
    pub(super) fn warn_of_plain(&mut self, why: &WhyPlain) {
        self.note(Happening::Warning { reason: why.decided() });
    }

    /// What there is to be said of a job that is slow though it need not be; names those who could be faster.
    pub(super) fn slowness(&self) -> Option<String> {
        match (self.arithmetic()?, self.state.is_over()) {
            (Arithmetic::Plain, false) => {}
            (Arithmetic::Fused, _) | (Arithmetic::Plain, true) => return None,
        }
        let names: Vec<String> = self.nodes.unlike().keys().map(NodeId::to_string).collect();
        Some(WhyPlain::since(&names))
    }

    /// A node that computes something else than the job gets nothing of it. It lives, for the jobs after this one.
    pub(super) fn leave_out(&mut self, node: NodeId, offer: Offer, wanted: Arithmetic) {
        let (class, arithmetic) = (offer.class.clone(), offer.arithmetic);
        if self.nodes.leave_out(node, offer) {
            self.note(Happening::NodeLeftOut { node, class, arithmetic, wanted });
        }
        // It may have been asked what it holds.
        self.send(node, ToNode::Release { generation: self.generation });
        if let Phase::Absent { expected, .. } = &mut self.phase {
            expected.remove(&node);
            self.go_on_if_all_are_back();
        } else if matches!(self.phase, Phase::Parked) && self.nodes.here().is_empty() {
            // With the new reason.
            self.fence("a node that cannot take part is here");
        }
    }

    /// Why nobody is there to work, though somebody is there.
    pub(super) fn only_unlike(&self) -> Option<String> {
        let wanted = self.arithmetic()?;
        let names: Vec<String> = self.nodes.unlike().keys().map(NodeId::to_string).collect();
        let do_what = match wanted {
            Arithmetic::Fused => {
                "start a worker of class avx2, avx512 or neon (`shoalctl nodes` shows which a worker has)"
            }
            Arithmetic::Plain => {
                "start a worker of class portable: any x86-64 machine has one with `class = \"portable\"` in the worker's \
                 node.toml, or `shoalctl up --class portable`"
            }
        };
        (!names.is_empty()).then(|| {
            format!(
                "no node of this job is left, and {} cannot take part: the job computes {wanted} since its first plan; {do_what}",
                names.join(", ")
            )
        })
    }
}
