//! What nodes say of themselves: memory, calls of blocks, bytes on the wire.

use serde::{Deserialize, Serialize};

/// One node's part of `report JOB`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Node's name.
    pub node: String,
    /// One entry a device.
    pub devices: Vec<DeviceReport>,
    /// Sent, by peer and purpose.
    pub traffic: Vec<TrafficLine>,
    /// Steps prepared here whose record came.
    #[serde(default)]
    pub decisions: u64,
    /// Seconds from such a report to its record, in all: what this node waited for the decision of a step.
    #[serde(default)]
    pub decision_seconds: f64,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// e.g. `cpu`.
    pub device: String,
    /// Parameter elements of the stages computed here.
    pub parameters: u64,
    /// Elements owned here.
    pub owned: u64,
    /// Elements shadowed here.
    pub shadowed: u64,
    /// High-water marks.
    pub arenas: Vec<ArenaLine>,
    /// Calls by block.
    pub calls: Vec<CallLine>,
    /// Seconds the device thread computed since the job began there.
    pub busy_seconds: f64,
}

/// High-water mark of one tag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArenaLine {
    /// `device` or `host`.
    pub tier: String,
    /// What for.
    pub tag: String,
    /// Bytes held now.
    pub live_bytes: u64,
    /// Most bytes held since the job began there.
    pub high_water_bytes: u64,
}

/// Calls of one block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallLine {
    /// Block number.
    pub block: u32,
    /// Forward calls.
    pub forward: u64,
    /// Backward calls.
    pub backward: u64,
}

/// Traffic to one peer for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficLine {
    /// Peer's name, or `coordinator`.
    pub peer: String,
    /// One word.
    pub purpose: String,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Bytes of headers and lengths sent, apart from the payload. What QUIC adds is not counted.
    #[serde(default)]
    pub framing_sent: u64,
    /// Bytes of headers and lengths received.
    #[serde(default)]
    pub framing_received: u64,
}
