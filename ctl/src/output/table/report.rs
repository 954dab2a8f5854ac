//! `report JOB` for people: a table for each question.

use std::collections::BTreeMap;

use shoal_wire::api::{DeviceReport, NodeReport};

use super::{Show, table};
use crate::output::units::{bytes, count};

impl Show for Vec<NodeReport> {
    fn show(&self) -> String {
        if self.is_empty() {
            return "no node has anything to report about this job".to_owned();
        }
        [
            ("Devices", devices(self)),
            ("Arenas", arenas(self)),
            ("Calls by block", calls(self)),
            ("Decisions", decisions(self)),
            ("Sent by purpose", sent(self)),
            ("Traffic", traffic(self)),
        ]
        .map(|(title, body)| format!("{title}\n{body}"))
        .join("\n\n")
    }
}

fn each_device(nodes: &[NodeReport]) -> impl Iterator<Item = (&NodeReport, &DeviceReport)> {
    nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (node, device)))
}

fn devices(nodes: &[NodeReport]) -> String {
    table(
        ["NODE", "DEVICE", "COMPUTES", "OWNS", "SHADOWS", "BUSY"],
        &[2, 3, 4, 5],
        each_device(nodes).map(|(node, device)| {
            [
                node.node.clone(),
                device.device.clone(),
                count(device.parameters),
                count(device.owned),
                count(device.shadowed),
                format!("{:.2} s", device.busy_seconds),
            ]
        }),
    )
}

fn arenas(nodes: &[NodeReport]) -> String {
    table(
        ["NODE", "TIER", "TAG", "NOW", "MOST"],
        &[3, 4],
        each_device(nodes).flat_map(|(node, device)| {
            device.arenas.iter().map(|arena| {
                [
                    node.node.clone(),
                    arena.tier.clone(),
                    arena.tag.clone(),
                    bytes(arena.live_bytes),
                    bytes(arena.high_water_bytes),
                ]
            })
        }),
    )
}

fn calls(nodes: &[NodeReport]) -> String {
    table(
        ["NODE", "BLOCK", "FORWARD", "BACKWARD"],
        &[1, 2, 3],
        each_device(nodes).flat_map(|(node, device)| {
            device
                .calls
                .iter()
                .map(|call| [node.node.clone(), call.block.to_string(), count(call.forward), count(call.backward)])
        }),
    )
}

/// Steps decided, and what a node waited from its own report to the record: for slower nodes and for the coordinator.
fn decisions(nodes: &[NodeReport]) -> String {
    table(
        ["NODE", "STEPS", "WAITED"],
        &[1, 2],
        nodes.iter().map(|node| [node.node.clone(), count(node.decisions), format!("{:.2} s", node.decision_seconds)]),
    )
}

/// What all nodes sent, for each purpose and in all.
fn sent(nodes: &[NodeReport]) -> String {
    let mut purposes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in nodes.iter().flat_map(|node| &node.traffic) {
        let (bytes, messages) = purposes.entry(&line.purpose).or_default();
        *bytes += line.bytes_sent;
        *messages += line.messages_sent;
    }
    let all = purposes.values().fold((0, 0), |all, each| (all.0 + each.0, all.1 + each.1));
    let rows = purposes.into_iter().chain(std::iter::once(("all", all)));
    table(
        ["PURPOSE", "SENT", "MESSAGES"],
        &[1, 2],
        rows.map(|(purpose, (sent, messages))| [purpose.to_owned(), bytes(sent), count(messages)]),
    )
}

fn traffic(nodes: &[NodeReport]) -> String {
    table(
        ["NODE", "PEER", "PURPOSE", "SENT", "MESSAGES SENT", "RECEIVED", "MESSAGES RECEIVED"],
        &[3, 4, 5, 6],
        nodes.iter().flat_map(|node| {
            node.traffic.iter().map(|line| {
                [
                    node.node.clone(),
                    line.peer.clone(),
                    line.purpose.clone(),
                    bytes(line.bytes_sent),
                    count(line.messages_sent),
                    bytes(line.bytes_received),
                    count(line.messages_received),
                ]
            })
        }),
    )
}
