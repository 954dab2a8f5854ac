//! Records and messages in a word or two, for the trace of a history.

use crate::engine::Record;
use crate::protocol::{FromNode, ToNode};

pub(super) fn brief(record: &Record) -> String {
    match record {
        Record::Happened(happening) => format!("{}: {happening}", happening.kind()),
        Record::Committed(entry) => format!("committed {}", entry.step),
        Record::Planned { generation, plan, unfilled } => {
            let pieces: Vec<String> = plan
                .pieces()
                .map(|(id, p)| {
                    format!("{id}={}{} {}+{}", p.block, p.interval, p.owner, super::world::names(p.shadows.clone()))
                })
                .collect();
            format!("planned {generation}, unfilled {unfilled:?}: {}", pieces.join("; "))
        }
        other @ (Record::Fenced { .. }
        | Record::Restored { .. }
        | Record::Evaluated { .. }
        | Record::RolledBack { .. }
        | Record::Ordered(_)
        | Record::State(_)) => format!("{other:?}"),
    }
}

pub(super) fn brief_to(message: &ToNode) -> String {
    match message {
        ToNode::Fence { generation, .. } => format!("fence {generation}"),
        ToNode::Deploy(deploy) => {
            let resolve = match &deploy.resolve {
                crate::protocol::Resolution::Initialise => "initialise".to_owned(),
                crate::protocol::Resolution::Commit(entry) => format!("commit {}", entry.step),
                crate::protocol::Resolution::Abort => "abort".to_owned(),
            };
            format!("deploy {} {resolve} at {}, fetches {:?}", deploy.generation, deploy.version.step, deploy.fetches)
        }
        ToNode::Start { generation, version, loss_scale: _, next, fills, persist } => {
            format!("start {generation} at {} {next:?} {fills:?} {persist:?}", version.step)
        }
        ToNode::Commit { generation, entry, next, fills, persist, flushed } => {
            format!("commit {generation} {} {next:?} {fills:?} {persist:?} flushed {flushed}", entry.step)
        }
        ToNode::Release { generation } => format!("release {generation}"),
    }
}

pub(super) fn brief_from(message: &FromNode) -> String {
    match message {
        FromNode::Inventory(i) => {
            let holdings: Vec<String> = i
                .holdings
                .iter()
                .map(|h| {
                    format!(
                        "{}{}@{}{}",
                        h.block,
                        h.interval,
                        h.version.step,
                        if h.prepared.is_some() { "+" } else { "" }
                    )
                })
                .collect();
            format!("inventory {} seen {} adopted {}: {}", i.generation, i.seen, i.adopted, holdings.join(" "))
        }
        FromNode::Prepared(p) => {
            format!("prepared {} {} {:?}", p.generation, p.step, p.pieces.iter().map(|x| x.0.0).collect::<Vec<_>>())
        }
        FromNode::Filled { generation, piece, version } => format!("filled {generation} {piece} at {}", version.step),
        FromNode::Persisted { generation, request, version, .. } => {
            format!("persisted {generation} {request} at {}", version.step)
        }
        other @ (FromNode::Ready { .. } | FromNode::Evaluated { .. } | FromNode::Trouble { .. }) => {
            format!("{other:?}")
        }
    }
}
