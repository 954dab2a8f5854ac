//! What an endpoint is told at its start.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::pki::Identity;

/// What an endpoint is told at its start.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// UDP address to listen on; TCP of the same number is the death-watch. Port 0 takes one that is free for both.
    pub listen: SocketAddr,
    /// Own certificate and key, and the cluster that is trusted.
    pub identity: Identity,
    /// Sizes that nothing from outside may exceed.
    pub limits: Limits,
    /// How long to wait for whom.
    pub timing: Timing,
    /// How packets are cut.
    pub tuning: Tuning,
}

impl EndpointConfig {
    /// Everything but address and identity at its default.
    #[must_use]
    pub fn new(listen: SocketAddr, identity: Identity) -> Self {
        Self { listen, identity, limits: Limits::default(), timing: Timing::default(), tuning: Tuning::default() }
    }
}

/// Sizes that nothing from outside may exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// f32 elements of one bulk transfer.
    pub bulk_elements: u64,
    /// Control messages waiting to be sent to one peer.
    pub control_queue: usize,
    /// Messages waiting to be read by the endpoint's owner; then the peers wait.
    pub inbound_queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bulk_elements: 1 << 30, control_queue: 1024, inbound_queue: 1024 }
    }
}

/// How long to wait for whom. Every wait is longer by as much as the own timer is found late.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the first packet of a dial to the far end's hello.
    pub connect: Duration,
    /// Silence after which a connection is given up.
    pub idle: Duration,
    /// Packets that break a silence.
    pub keep_alive: Duration,
    /// For the answer of a death-watch.
    pub probe: Duration,
    /// For a broken connection to a living process to come back.
    pub restore: Duration,
    /// For the next byte of a bulk transfer, when the link carries none of others either.
    pub progress: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            idle: Duration::from_secs(3),
            keep_alive: Duration::from_millis(250),
            probe: Duration::from_millis(300),
            restore: Duration::from_secs(2),
            progress: Duration::from_secs(10),
        }
    }
}

/// How packets are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// [`Tuning::Loopback`] to a loopback address, [`Tuning::Network`] to any other.
    #[default]
    Auto,
    /// 32,000-byte packets: only where the path carries them.
    Loopback,
    /// Packet size found on the path, at most what Ethernet carries.
    Network,
}

impl Tuning {
    /// Whether to use large packets to this address.
    pub(super) fn large_packets(self, to: IpAddr) -> bool {
        match self {
            Self::Auto => to.is_loopback(),
            Self::Loopback => true,
            Self::Network => false,
        }
    }
}
