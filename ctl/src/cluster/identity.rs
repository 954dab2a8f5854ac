//! Certificates of a cluster directory.

use shoal_daemon::pki::{Bearer, ClusterCa, Identity, NODE_VALIDITY, PkiError};

use super::dir::LocalCluster;
use crate::failure::Failure;

/// Makes the authority, unless it is there, and the coordinator's certificate, unless a good one is; gives the cluster's
/// name.
///
/// # Errors
/// If a file cannot be written or what is there is not a certificate of this cluster.
pub fn make_cluster(dir: &LocalCluster) -> Result<String, Failure> {
    let authority = if dir.is_cluster() { ClusterCa::load(&dir.ca()) } else { ClusterCa::create(&dir.ca()) };
    let authority = authority.map_err(refused)?;
    if Identity::load(&dir.coordinator(), &Bearer::Coordinator).is_err() {
        authority.issue("coordinator", &dir.coordinator(), NODE_VALIDITY).map_err(refused)?;
    }
    Ok(authority.name().to_string())
}

/// Makes a worker's certificate.
///
/// # Errors
/// If there is no authority in the directory, or a file cannot be written.
pub fn make_node(dir: &LocalCluster, name: &str) -> Result<(), Failure> {
    let authority = ClusterCa::load(&dir.ca()).map_err(refused)?;
    authority.issue(name, &dir.node(name), NODE_VALIDITY).map_err(refused)?;
    Ok(())
}

fn refused(error: PkiError) -> Failure {
    Failure::Usage(format!("{:#}", anyhow::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_whose_making_was_interrupted_is_made_anew() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = LocalCluster::new(&temp.path().join("c")).expect("path");
        let interrupted = make_cluster(&dir).expect("made");
        assert_eq!(make_cluster(&dir).expect("there"), interrupted);
        std::fs::remove_file(dir.ca().join("ca.crt")).expect("there");
        let name = make_cluster(&dir).expect("made anew");
        assert_ne!(name, interrupted);
        make_node(&dir, "w1").expect("issued");
    }
}
