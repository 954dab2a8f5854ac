//! The cluster's certificate authority and the identities it gives out.
//!
//! A cluster is one CA certificate. A daemon's directory holds a copy of it beside its own certificate and key; whoever
//! shows a certificate of the same CA is of the cluster. The certificate also says for whom it was made, and its bearer may
//! speak as nobody else (see [`super::Bearer`]).
//!
//! Files: `ca.crt` and `ca.key` in the CA's directory; `ca.crt`, `node.crt` and `node.key` in a daemon's. All 0600.

mod files;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

pub use super::bearer::Bearer;
use super::tls;

/// The name that every node certificate carries and every dialler asks for.
pub(super) const SERVER_NAME: &str = "node.shoal";
const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NODE_CERT: &str = "node.crt";
const NODE_KEY: &str = "node.key";
/// Clocks of one cluster may differ by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);
/// Life of a CA.
const CA_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Life of a node certificate unless asked otherwise.
pub const NODE_VALIDITY: Duration = Duration::from_secs(825 * 24 * 3600);

/// Why certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read.
    #[error("cannot read {}; create it with `shoalctl init` or point `--dir` at the cluster's directory", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}; check that the directory is writable and has room", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file would be overwritten.
    #[error("{} exists; remove it to make a new one (certificates of the old cluster stop working)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file is no PEM of the expected kind.
    #[error("{} holds no {expected}: {found}; restore it or make a new one with `shoalctl init`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        expected: &'static str,
        /// What is.
        found: String,
    },
    /// Certificate and key do not belong together, or not to this CA.
    #[error("{} is not of {cluster}: {found}; issue it anew with this cluster's CA", path.display())]
    Foreign {
        /// The certificate's file.
        path: PathBuf,
        /// The cluster trusted.
        cluster: ClusterName,
        /// What was found.
        found: String,
    },
    /// A certificate is not valid any more.
    #[error(
        "{} has expired; the coordinator's is made anew by `shoalctl up` or `init`, a worker's by `init` once its directory is removed",
        path.display()
    )]
    Expired {
        /// The certificate's file.
        path: PathBuf,
    },
    /// A certificate was made for someone else.
    #[error("{} is the certificate of {found}, not of {asked}; remove the file and make it anew with `shoalctl init`", path.display())]
    Misnamed {
        /// The certificate's file.
        path: PathBuf,
        /// Who is to use it.
        asked: Bearer,
        /// For whom it was made.
        found: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate for {name:?}")]
    Issue {
        /// For whom.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
}

/// A cluster, named by the first bytes of its CA certificate's blake3.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterName([u8; 6]);

impl ClusterName {
    pub(super) fn of(ca: &CertificateDer<'_>) -> Self {
        let hash = blake3::hash(ca);
        let mut name = [0; 6];
        name.copy_from_slice(&hash.as_bytes()[..6]);
        Self(name)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cluster ")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The authority of one cluster. Its key stays where nodes are made.
pub struct ClusterCa {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl fmt::Debug for ClusterCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterCa({})", self.name())
    }
}

impl ClusterCa {
    /// A new authority, in memory.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate() -> Result<Self, PkiError> {
        let failed = |source| PkiError::Issue { name: "cluster ca".to_owned(), source };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let certificate = ca_params(&key).self_signed(&key).map_err(failed)?;
        Ok(Self { certificate: certificate.der().clone(), pem: certificate.pem(), key })
    }

    /// A new authority in `dir`, which is created.
    ///
    /// # Errors
    /// If there is one already, or a file cannot be written.
    pub fn create(dir: &Path) -> Result<Self, PkiError> {
        // The certificate is written last: a key without one belongs to an attempt that was interrupted.
        files::refuse_existing(&[dir.join(CA_CERT)])?;
        let ca = Self::generate()?;
        files::write(&dir.join(CA_KEY), &ca.key.serialize_pem())?;
        files::write(&dir.join(CA_CERT), &ca.pem)?;
        Ok(ca)
    }

    /// The authority kept in `dir`.
    ///
    /// # Errors
    /// If a file is missing or malformed, or certificate and key do not belong together.
    pub fn load(dir: &Path) -> Result<Self, PkiError> {
        let (cert_path, key_path) = (dir.join(CA_CERT), dir.join(CA_KEY));
        let (certificate, pem) = files::read_certificate(&cert_path)?;
        let key = KeyPair::from_pem(&files::read(&key_path)?).map_err(|e| PkiError::Malformed {
            path: key_path.clone(),
            expected: "private key",
            found: e.to_string(),
        })?;
        let ca = Self { certificate, pem, key };
        // Only if they belong together does the certificate verify what the key signs.
        let probe = ca.identity("probe", NODE_VALIDITY)?;
        tls::check_identity(&probe).map_err(|e| PkiError::Foreign {
            path: key_path,
            cluster: ca.name(),
            found: format!("what it signs does not verify ({e})"),
        })?;
        Ok(ca)
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> ClusterName {
        ClusterName::of(&self.certificate)
    }

    /// The identity in `dir` if it is good; one that is not there, or not whole because its making was interrupted, or has
    /// expired, is made.
    ///
    /// # Errors
    /// If what is there cannot be read, is of another cluster or of somebody else, or a file cannot be written.
    pub fn keep(&self, name: &str, dir: &Path) -> Result<Identity, PkiError> {
        match Identity::load(dir, &Bearer::called(name)) {
            Ok(identity) if identity.cluster() == self.name() => Ok(identity),
            Ok(identity) => Err(PkiError::Foreign {
                path: dir.join(NODE_CERT),
                cluster: self.name(),
                found: format!("it is of {}", identity.cluster()),
            }),
            Err(PkiError::Expired { .. }) => self.issue(name, dir, NODE_VALIDITY),
            Err(PkiError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                self.issue(name, dir, NODE_VALIDITY)
            }
            Err(error) => Err(error),
        }
    }

    /// A new identity, in memory: for the worker of this name, or the coordinator's for [`super::COORDINATOR`].
    ///
    /// # Errors
    /// If the name cannot stand on a certificate.
    pub fn identity(&self, name: &str, validity: Duration) -> Result<Identity, PkiError> {
        let (certificate, key) = self.sign(name, validity)?;
        Ok(self.identity_of(&certificate, &key))
    }

    /// A new identity, as by [`Self::identity`], for the daemon that lives in `dir`, which is created; an older one there is
    /// replaced.
    ///
    /// # Errors
    /// If the name cannot stand on a certificate or a file cannot be written.
    pub fn issue(&self, name: &str, dir: &Path, validity: Duration) -> Result<Identity, PkiError> {
        let (certificate, key) = self.sign(name, validity)?;
        files::write(&dir.join(NODE_KEY), &key.serialize_pem())?;
        files::write(&dir.join(NODE_CERT), &certificate.pem())?;
        files::write(&dir.join(CA_CERT), &self.pem)?;
        Ok(self.identity_of(&certificate, &key))
    }

    fn sign(&self, name: &str, validity: Duration) -> Result<(Certificate, KeyPair), PkiError> {
        let failed = |source| PkiError::Issue { name: name.to_owned(), source };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let names = vec![SERVER_NAME.to_owned(), Bearer::called(name).dns_name()];
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, validity);
        let issuer = Issuer::new(ca_params(&self.key), &self.key);
        Ok((params.signed_by(&key, &issuer).map_err(failed)?, key))
    }

    fn identity_of(&self, certificate: &Certificate, key: &KeyPair) -> Identity {
        Identity {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
            authority: self.certificate.clone(),
        }
    }
}

/// One daemon's certificate and key, and the authority it trusts.
pub struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivatePkcs8KeyDer<'static>,
    pub(super) authority: CertificateDer<'static>,
}

impl Identity {
    /// The identity kept in a daemon's directory, to be used by `bearer`.
    ///
    /// # Errors
    /// If a file is missing or malformed, the certificate is expired, of another cluster or made for someone else, or the
    /// key is not its key.
    pub fn load(dir: &Path, bearer: &Bearer) -> Result<Self, PkiError> {
        let (cert_path, key_path) = (dir.join(NODE_CERT), dir.join(NODE_KEY));
        let (certificate, _) = files::read_certificate(&cert_path)?;
        let (authority, _) = files::read_certificate(&dir.join(CA_CERT))?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(files::read(&key_path)?.as_bytes()).map_err(|e| {
            PkiError::Malformed { path: key_path, expected: "PKCS #8 private key", found: e.to_string() }
        })?;
        let identity = Self { certificate, key, authority };
        tls::check_identity(&identity).map_err(|e| match tls::is_expiry(&e) {
            true => PkiError::Expired { path: cert_path.clone() },
            false => PkiError::Foreign { path: cert_path.clone(), cluster: identity.cluster(), found: e.to_string() },
        })?;
        match Bearer::of_certificate(&identity.certificate) {
            Some(found) if found == *bearer => Ok(identity),
            found => Err(PkiError::Misnamed {
                path: cert_path,
                asked: bearer.clone(),
                found: found.map_or_else(|| "nobody in particular".to_owned(), |found| found.to_string()),
            }),
        }
    }

    /// The cluster it belongs to.
    #[must_use]
    pub fn cluster(&self) -> ClusterName {
        ClusterName::of(&self.authority)
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { certificate: self.certificate.clone(), key: self.key.clone_key(), authority: self.authority.clone() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.cluster())
    }
}

/// The CA's certificate as a function of its key, so that nothing has to be parsed to sign with it again.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let fingerprint = blake3::hash(key.public_key_raw()).to_hex();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "shoal");
    params.distinguished_name.push(DnType::CommonName, format!("shoal cluster {}", &fingerprint[..12]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, CA_VALIDITY);
    params
}

fn set_validity(params: &mut CertificateParams, validity: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + validity).into();
}
