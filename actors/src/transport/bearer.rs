//! Whose certificate it is, and whom its bearer may speak as.
//!
//! A certificate carries one name besides the one that all carry: `coordinator.shoal`, or `NAME.node.shoal` for the worker
//! called NAME. Only names of one cluster are ever compared: TLS has turned away everyone else by then.

use std::fmt;

use quinn::Connection;
use rustls_pki_types::CertificateDer;
use shoal_config::node::COORDINATOR;
use shoal_plan::ids::NodeId;
use shoal_wire::control::Who;

use super::peer::PeerId;

const COORDINATOR_DNS: &str = "coordinator.shoal";
const WORKER_DOMAIN: &str = ".node.shoal";

/// For whom a certificate was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The coordinator.
    Coordinator,
    /// The worker of this name.
    Worker(String),
}

impl Bearer {
    pub(super) fn called(name: &str) -> Self {
        if name == COORDINATOR { Self::Coordinator } else { Self::Worker(name.to_owned()) }
    }

    /// How a certificate names it.
    pub(super) fn dns_name(&self) -> String {
        match self {
            Self::Coordinator => COORDINATOR_DNS.to_owned(),
            Self::Worker(name) => format!("{name}{WORKER_DOMAIN}"),
        }
    }

    fn of_dns_name(name: &str) -> Option<Self> {
        if name == COORDINATOR_DNS {
            return Some(Self::Coordinator);
        }
        name.strip_suffix(WORKER_DOMAIN).map(|name| Self::Worker(name.to_owned()))
    }

    pub(super) fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        certificate.valid_dns_names().find_map(Self::of_dns_name)
    }

    /// Whose certificate the other end of a connection has shown, if it names anyone.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
        Self::of_certificate(shown.first()?)
    }

    /// Whether it may say that of itself. Which worker has which id, a certificate does not tell.
    pub(super) fn may_say(&self, who: &Who) -> bool {
        match (self, who) {
            (Self::Coordinator, Who::Coordinator { .. }) | (Self::Worker(_), Who::Peer(_)) => true,
            (Self::Worker(name), Who::Worker(introduction)) => introduction.name == *name,
            (Self::Coordinator, Who::Worker(_) | Who::Peer(_)) | (Self::Worker(_), Who::Coordinator { .. }) => false,
        }
    }
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str("the coordinator"),
            Self::Worker(name) => write!(f, "worker {name}"),
        }
    }
}

/// How a speaker presents itself.
pub(super) fn says(who: &Who) -> String {
    match who {
        Who::Coordinator { .. } => Bearer::Coordinator.to_string(),
        Who::Worker(introduction) => Bearer::Worker(introduction.name.clone()).to_string(),
        Who::Peer(node) => format!("worker {node}"),
    }
}

/// Whom to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// What it is called here.
    pub(super) peer: PeerId,
    /// Whose certificate it has to show.
    pub(super) bearer: Bearer,
}

impl Callee {
    /// The coordinator, whichever incarnation.
    #[must_use]
    pub fn coordinator() -> Self {
        Self { peer: PeerId::Coordinator, bearer: Bearer::Coordinator }
    }

    /// The worker with this id, which the coordinator knows under this name.
    #[must_use]
    pub fn worker(node: NodeId, name: impl Into<String>) -> Self {
        Self { peer: PeerId::Worker(node), bearer: Bearer::Worker(name.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::pki::{ClusterCa, NODE_VALIDITY};

    #[test]
    fn a_certificate_names_its_bearer() {
        let ca = ClusterCa::generate().expect("a cluster");
        for name in [COORDINATOR, "n1", "a-b-9"] {
            let identity = ca.identity(name, NODE_VALIDITY).expect("an identity");
            assert_eq!(Bearer::of_certificate(&identity.certificate), Some(Bearer::called(name)));
        }
        assert_eq!(Bearer::of_certificate(&ca.identity("n1", NODE_VALIDITY).expect("an identity").authority), None);
    }
}
