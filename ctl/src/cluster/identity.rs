//! Certificates of a cluster directory.

use shoal_daemon::cluster::{COORDINATOR, ClusterDir};
use shoal_daemon::pki::{ClusterCa, PkiError};

use crate::failure::Failure;

/// Makes the authority, unless it is there, and the coordinator's certificate if it is not there or has expired; gives the
/// cluster's name.
///
/// # Errors
/// If a file cannot be read or written, or what is there is not a certificate of this cluster's coordinator.
pub fn make_cluster(dir: &ClusterDir) -> Result<String, Failure> {
    let there = dir.ca().join("ca.crt").is_file();
    let authority = if there { ClusterCa::load(&dir.ca()) } else { ClusterCa::create(&dir.ca()) };
    let authority = authority.map_err(refused)?;
    authority.keep(COORDINATOR, &dir.coordinator()).map_err(refused)?;
    Ok(authority.name().to_string())
}

/// Makes a worker's certificate if it is not there or has expired.
///
/// # Errors
/// If there is no authority in the directory, a file cannot be read or written, or what is there is another's.
pub fn make_node(dir: &ClusterDir, name: &str) -> Result<(), Failure> {
    let authority = ClusterCa::load(&dir.ca()).map_err(refused)?;
    authority.keep(name, &dir.node(name)).map_err(refused)?;
    Ok(())
}

fn refused(error: PkiError) -> Failure {
    Failure::Usage(format!("{:#}", anyhow::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use shoal_daemon::pki::NODE_VALIDITY;

    use super::*;

    fn new() -> (tempfile::TempDir, ClusterDir) {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = ClusterDir::new(temp.path().join("c"));
        make_cluster(&dir).expect("made");
        (temp, dir)
    }

    /// The coordinator's certificate before and after `make_cluster`, which changes nothing else of its identity.
    fn remade(dir: &ClusterDir) -> bool {
        let certificate = || fs::read(dir.coordinator().join("node.crt")).unwrap_or_default();
        let before = certificate();
        make_cluster(dir).expect("a good certificate");
        certificate() != before
    }

    fn refusal(dir: &ClusterDir) -> String {
        let error = make_cluster(dir).expect_err("what is there is not to be written over");
        assert_eq!(error.code(), 2);
        error.to_string()
    }

    #[test]
    fn an_authority_whose_making_was_interrupted_is_made_anew() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = ClusterDir::new(temp.path().join("c"));
        let interrupted = make_cluster(&dir).expect("made");
        assert_eq!(make_cluster(&dir).expect("there"), interrupted);
        fs::remove_dir_all(dir.coordinator()).expect("there");
        fs::remove_file(dir.ca().join("ca.crt")).expect("there");
        let name = make_cluster(&dir).expect("made anew");
        assert_ne!(name, interrupted);
        make_node(&dir, "w1").expect("issued");
    }

    #[test]
    fn a_certificate_that_is_absent_or_expired_is_made() {
        let (_temp, dir) = new();
        assert!(!remade(&dir), "a good one stays");
        for file in ["node.crt", "node.key", "ca.crt"] {
            fs::remove_file(dir.coordinator().join(file)).expect("there");
            assert!(remade(&dir), "without {file} its making was interrupted");
        }
        let authority = ClusterCa::load(&dir.ca()).expect("there");
        authority.issue(COORDINATOR, &dir.coordinator(), Duration::ZERO).expect("issued");
        let give_up = Instant::now() + Duration::from_secs(10);
        while !remade(&dir) {
            assert!(Instant::now() < give_up, "one that has expired is of no use to anybody");
            std::thread::yield_now();
        }
        assert!(!remade(&dir), "the new one stays");
    }

    #[test]
    fn a_certificate_of_another_cluster_is_an_error_that_names_both() {
        let (_temp, dir) = new();
        let (_other_temp, other) = new();
        let name = make_cluster(&dir).expect("there");
        let other_name = make_cluster(&other).expect("there");
        for file in ["node.crt", "node.key", "ca.crt"] {
            fs::copy(other.coordinator().join(file), dir.coordinator().join(file)).expect("copied");
        }
        let said = refusal(&dir);
        assert!(said.contains(&name) && said.contains(&other_name), "{said}");
        // With this cluster's authority beside it, it does not verify.
        fs::copy(dir.ca().join("ca.crt"), dir.coordinator().join("ca.crt")).expect("copied");
        assert!(refusal(&dir).contains(&format!("is not of {name}")));
    }

    #[test]
    fn a_certificate_of_somebody_else_or_that_cannot_be_read_is_an_error() {
        let (_temp, dir) = new();
        let authority = ClusterCa::load(&dir.ca()).expect("there");
        authority.issue("w1", &dir.coordinator(), NODE_VALIDITY).expect("issued");
        let said = refusal(&dir);
        assert!(said.contains("w1") && said.contains(COORDINATOR), "{said}");
        let certificate = dir.coordinator().join("node.crt");
        fs::write(&certificate, "not PEM").expect("written");
        assert!(refusal(&dir).contains("node.crt holds no certificate"));
        fs::remove_file(&certificate).expect("there");
        fs::create_dir(&certificate).expect("a directory cannot be read as a file");
        assert!(refusal(&dir).contains("cannot read"));
    }
}
