//! Mutual TLS within one cluster. A certificate of another cluster is refused with both clusters' names.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
};

use super::pki::{ClusterName, Identity};

/// Spoken inside TLS; an endpoint of something else is refused in the handshake.
const ALPN: &[u8] = b"shoal";

/// What is wrong with a peer's certificate. Sent to it as the reason of the close.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum CertificateFault {
    /// It is of another cluster.
    #[error("asked for a certificate of {asked}, found one of {found}")]
    OtherCluster {
        /// Trusted here.
        asked: ClusterName,
        /// Shown by the peer.
        found: ClusterName,
    },
    /// It is of this cluster, but no good.
    #[error("asked for a valid certificate of {asked}, found: {found}")]
    Invalid {
        /// Trusted here.
        asked: ClusterName,
        /// What is wrong.
        found: Error,
    },
}

pub(super) fn client_config(identity: &Identity) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(ClusterVerifier::new(identity)?);
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain(identity), identity.key.clone_key().into())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

pub(super) fn server_config(identity: &Identity) -> Result<ServerConfig, Error> {
    let verifier = Arc::new(ClusterVerifier::new(identity)?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(identity), identity.key.clone_key().into())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Whether peers of the same cluster would accept this identity now.
pub(super) fn check_identity(identity: &Identity) -> Result<(), Error> {
    server_config(identity)?;
    ClusterVerifier::new(identity)?.check(&identity.certificate, &[], UnixTime::now())?;
    Ok(())
}

/// Whether what [`check_identity`] found is only that the certificate's time is over.
pub(super) fn is_expiry(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(fault))) = error else { return false };
    matches!(
        fault.downcast_ref(),
        Some(CertificateFault::Invalid {
            found: Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }),
            ..
        })
    )
}

/// Random bytes from the TLS provider.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    provider().secure_random.fill(&mut bytes).map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

/// Own certificate, then the authority's: it is not needed to verify, it tells a stranger which cluster this is.
fn chain(identity: &Identity) -> Vec<CertificateDer<'static>> {
    vec![identity.certificate.clone(), identity.authority.clone()]
}

/// ring with AES-128-GCM first: half the time of ChaCha20 where the processor has AES.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    let aes128 = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.suite();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != aes128);
    Arc::new(provider)
}

/// One check for both ends: every certificate is made for both uses, and whose it is, [`super::bearer`] looks at once the
/// hello is there.
#[derive(Debug)]
struct ClusterVerifier {
    cluster: ClusterName,
    chain: Arc<dyn ClientCertVerifier>,
}

impl ClusterVerifier {
    fn new(identity: &Identity) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(identity.authority.clone())?;
        let chain = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
        Ok(Self { cluster: identity.cluster(), chain })
    }

    /// `shown` is what came with the certificate: the authority of whoever shows it, see [`chain`].
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chain.verify_client_cert(certificate, &[], now).map_err(|error| {
            let asked = self.cluster;
            let fault = match shown.last().map(ClusterName::of) {
                Some(found) if found != asked => CertificateFault::OtherCluster { asked, found },
                Some(_) | None => CertificateFault::Invalid { asked, found: error },
            };
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(fault))))
        })
    }
}

/// What both of rustls' verifier traits ask in the same words.
macro_rules! signatures_as_the_chain_says {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chain.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chain.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.chain.supported_verify_schemes()
        }
    };
}

impl ServerCertVerifier for ClusterVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate, shown, now).map(|_| ServerCertVerified::assertion())
    }

    signatures_as_the_chain_says!();
}

impl ClientCertVerifier for ClusterVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hint: a stranger should show what it has, so that the refusal can name its cluster.
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate, shown, now)
    }

    signatures_as_the_chain_says!();
}
