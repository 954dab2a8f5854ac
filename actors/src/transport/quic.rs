//! How quinn is set up. The traps that these values avoid are told beside them.
//!
//! QC-1 (65507 is a valid UDP payload): quinn takes anything from 1,200 to 65,527.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::config::Timing;
use super::endpoint::BindError;
use super::pki::Identity;
use super::tls;

/// Asked of the kernel, which gives what it allows (`net.core.rmem_max`).
const SOCKET_BUFFER: usize = 32 << 20;
/// UDP and TCP ports are taken separately; a pair with one number may need a few tries.
const PORT_TRIES: u32 = 64;
/// Loopback carries 64 KiB packets. Half of that, without segmentation offload: quinn batches ten segments a call, and
/// ten of these do not fit into one, which it would take for loss.
const LARGE_PACKET: u16 = 32_000;
/// A window below one packet never sends: with large packets it must be set.
const LARGE_WINDOW: u64 = 1 << 20;
/// What a connection may have under way and not yet read, and each transfer of it.
const PATH_WINDOW: u32 = 32 << 20;
/// The same with large packets, within what the socket's buffer holds: on loopback nothing else can lose a packet.
const LARGE_WINDOWS: RangeInclusive<usize> = (1 << 20)..=(8 << 20);
/// Packets after which an acknowledgement does not wait for its delay.
const ACK_EVERY: u32 = 8;
/// Open transfers of one connection and direction; more wait.
const STREAMS: u32 = 256;

/// Why a connection was closed by this protocol (not by QUIC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    /// After a goodbye.
    Goodbye,
    /// The reason is the closer's protocol version in decimal.
    Protocol,
    /// Another dial between the two stays.
    Crossing,
    /// The owner refused the caller; the reason is its own.
    Refused,
    /// The same peer has a newer connection.
    Replaced,
    /// The dialler asked for someone else.
    WrongPeer,
    /// The other end said something unreadable, or nothing in time.
    Unreadable,
    /// A control message found the queue full and is lost.
    Overrun,
}

impl CloseCode {
    const ALL: [Self; 8] = [
        Self::Goodbye,
        Self::Protocol,
        Self::Crossing,
        Self::Refused,
        Self::Replaced,
        Self::WrongPeer,
        Self::Unreadable,
        Self::Overrun,
    ];

    fn number(self) -> u32 {
        match self {
            Self::Goodbye => 0,
            Self::Protocol => 1,
            Self::Crossing => 2,
            Self::Refused => 3,
            Self::Replaced => 4,
            Self::WrongPeer => 5,
            Self::Unreadable => 6,
            Self::Overrun => 7,
        }
    }

    pub(super) fn of(code: VarInt) -> Option<Self> {
        Self::ALL.into_iter().find(|known| u64::from(known.number()) == code.into_inner())
    }

    pub(super) fn close(self, connection: &quinn::Connection, reason: &str) {
        connection.close(VarInt::from_u32(self.number()), reason.as_bytes());
    }
}

/// Client and server configurations for large and for path-sized packets.
#[derive(Debug)]
pub(super) struct Configs {
    large: (ClientConfig, Arc<ServerConfig>),
    path: (ClientConfig, Arc<ServerConfig>),
}

impl Configs {
    /// `buffer` is what the socket's receive buffer holds.
    pub(super) fn new(identity: &Identity, timing: &Timing, buffer: usize) -> Result<Self, BindError> {
        let unfit = |_| BindError::Tls(rustls::Error::General("no QUIC cipher suite".to_owned()));
        let client: QuicClientConfig =
            tls::client_config(identity).map_err(BindError::Tls)?.try_into().map_err(unfit)?;
        let server: QuicServerConfig =
            tls::server_config(identity).map_err(BindError::Tls)?.try_into().map_err(unfit)?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        let pair = |transport: TransportConfig| {
            let transport = Arc::new(transport);
            let mut client = ClientConfig::new(Arc::clone(&client) as Arc<dyn quinn::crypto::ClientConfig>);
            client.transport_config(Arc::clone(&transport));
            let mut server = ServerConfig::with_crypto(Arc::clone(&server) as Arc<dyn quinn::crypto::ServerConfig>);
            server.transport_config(transport);
            (client, Arc::new(server))
        };
        Ok(Self { large: pair(large(timing, buffer)), path: pair(common(timing, PATH_WINDOW)) })
    }

    pub(super) fn client(&self, large: bool) -> ClientConfig {
        if large { self.large.0.clone() } else { self.path.0.clone() }
    }

    pub(super) fn server(&self, large: bool) -> Arc<ServerConfig> {
        Arc::clone(if large { &self.large.1 } else { &self.path.1 })
    }
}

fn common(timing: &Timing, window: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle = IdleTimeout::try_from(timing.idle).unwrap_or_else(|_| IdleTimeout::from(VarInt::MAX));
    transport
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(timing.keep_alive))
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(window))
        .send_window(2 * u64::from(window))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .datagram_receive_buffer_size(None)
        .ack_frequency_config(Some(acknowledgements()));
    transport
}

/// A transfer is done when its last packet is acknowledged; by default that may take 25 ms, and every second packet costs
/// an acknowledgement.
fn acknowledgements() -> AckFrequencyConfig {
    let mut config = AckFrequencyConfig::default();
    config.max_ack_delay(Some(Duration::from_millis(1))).ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY));
    config
}

fn large(timing: &Timing, buffer: usize) -> TransportConfig {
    // The kernel counts what it spends on a packet; half of the buffer is left for that.
    let window = (buffer / 2).clamp(*LARGE_WINDOWS.start(), *LARGE_WINDOWS.end());
    let mut transport = common(timing, u32::try_from(window).unwrap_or(u32::MAX));
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(LARGE_PACKET);
    let mut congestion = CubicConfig::default();
    congestion.initial_window(LARGE_WINDOW);
    transport
        .initial_mtu(LARGE_PACKET)
        .mtu_discovery_config(Some(discovery))
        .enable_segmentation_offload(false)
        .congestion_controller_factory(Arc::new(congestion))
        .initial_rtt(Duration::from_millis(10));
    transport
}

/// What both kinds of connection share: packets up to what UDP can carry are received.
pub(super) fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(65_507).expect("QC-1 (65507 is a valid UDP payload)");
    config
}

/// A UDP socket and a TCP listener with one port number, and what the UDP socket's receive buffer holds.
pub(super) fn sockets(listen: SocketAddr) -> Result<(UdpSocket, TcpListener, usize), BindError> {
    let mut tries = 0;
    let failed = |source| BindError::Listen { transport: "UDP", address: listen, source };
    loop {
        tries += 1;
        let (udp, buffer) = udp(listen).map_err(failed)?;
        let address = udp.local_addr().map_err(failed)?;
        match tcp(address) {
            Ok(tcp) => return Ok((udp, tcp, buffer)),
            Err(e) if listen.port() == 0 && e.kind() == io::ErrorKind::AddrInUse && tries < PORT_TRIES => {}
            Err(source) => return Err(BindError::Listen { transport: "TCP", address, source }),
        }
    }
}

fn udp(listen: SocketAddr) -> io::Result<(UdpSocket, usize)> {
    let socket = Socket::new(Domain::for_address(listen), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&listen.into())?;
    let buffer = socket.recv_buffer_size()?;
    Ok((socket.into(), buffer))
}

fn tcp(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A port whose last connections still linger in TIME_WAIT can be listened on again; one in use cannot.
    socket.set_reuse_address(true)?;
    socket.bind(&listen.into())?;
    socket.listen(256)?;
    Ok(socket.into())
}
