//! A broken link to a living process is dialled again by the end that dialled it first; the other end waits.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, sleep};

use super::connect::ConnectError;
use super::dial::{self, DialError};
use super::patience::within;
use super::peer::{DownCause, Inbound, PeerId};
use super::shared::Shared;
use super::table::{Dialler, Outcome};
use super::watch::Watch;

/// Between two dials.
const RETRY: Duration = Duration::from_millis(50);

/// How a restoration ends.
enum Found {
    /// A link is up again.
    Back,
    /// It will not come back.
    Gone(DownCause),
}

/// Ends with a new link, or with `PeerDown`.
pub(super) async fn restore(
    shared: &Arc<Shared>,
    peer: PeerId,
    address: SocketAddr,
    (token, by, mut outcome): (u64, Dialler, watch::Receiver<Outcome>),
    mut watch: Watch,
) {
    let work = async {
        tokio::select! {
            biased;
            // An error means that the slot was taken away: nothing is to be told.
            _ = outcome.wait_for(Option::is_some) => Found::Back,
            cause = again(shared, peer, address, token, by) => cause,
            () = watch.dead() => Found::Gone(DownCause::Died),
        }
    };
    let cause = match within(shared.timing.restore, work).await {
        Some(Found::Back) => return,
        Some(Found::Gone(cause)) => cause,
        None => DownCause::Silent,
    };
    let error = ConnectError::Broken { address, cause: cause.to_string() };
    if shared.table().given_up(peer, token, error) {
        tracing::info!(node = %peer, %cause, "peer down");
        shared.tell(Inbound::PeerDown { peer, cause }).await;
        shared.table().told(peer, token);
    }
}

async fn again(shared: &Arc<Shared>, peer: PeerId, address: SocketAddr, token: u64, by: Dialler) -> Found {
    match by {
        Dialler::There => std::future::pending().await,
        Dialler::Here => loop {
            let dialled = shared.dialled().get(&peer).cloned();
            let Some((callee, hello)) = dialled else { return Found::Gone(DownCause::Silent) };
            match dial::dial(shared, &callee, address, &hello).await {
                Ok(ready) => {
                    dial::install(shared, peer, token, ready);
                    return Found::Back;
                }
                Err(DialError::Failed(
                    ConnectError::NobodyListens { .. } | ConnectError::WrongPeer { .. } | ConnectError::Impostor { .. },
                )) => return Found::Gone(DownCause::Died),
                Err(DialError::Failed(ConnectError::Refused { reason, .. })) => {
                    return Found::Gone(DownCause::Closed(reason));
                }
                Err(DialError::Crossing) => std::future::pending().await,
                Err(DialError::Failed(
                    error @ (ConnectError::NoAnswer { .. }
                    | ConnectError::Certificate { .. }
                    | ConnectError::Protocol { .. }
                    | ConnectError::Broken { .. }
                    | ConnectError::ShutDown),
                )) => {
                    tracing::debug!(node = %peer, %error, "link not restored yet");
                    sleep(RETRY).await;
                }
            }
        },
    }
}
