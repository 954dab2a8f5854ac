//! Workers that `up` started once and that do not run now. What finished jobs have written lies in their directories, so
//! they come back under their names before anybody new is made.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use shoal_config::node::{self, NodeSpec};

use super::dir::LocalCluster;
use crate::failure::Failure;

/// A worker that can be started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoppedWorker {
    /// As its node.toml says.
    pub(super) spec: NodeSpec,
    /// Jobs that it has written pieces of, such as `j1`.
    pub(super) written: BTreeSet<String>,
}

/// All that can be started again: first those with written pieces, then by number. Left out is who is in `living`, whose
/// process is still there or holds a lock while it dies, and who was never started by `up`.
///
/// # Errors
/// If records cannot be read.
pub(super) fn stopped(dir: &LocalCluster, living: &[String]) -> Result<Vec<StoppedWorker>, Failure> {
    let running: Vec<String> = dir.started()?.into_iter().filter(|s| s.process.lives()).map(|s| s.name).collect();
    let names = fs::read_dir(dir.paths().nodes()).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut all: Vec<StoppedWorker> = names
        .filter(|name| !living.contains(name) && !running.contains(name) && dir.paths().log(name).is_file())
        .filter_map(|name| node::read(&dir.paths().node_file(&name)).ok().filter(|spec| spec.name == name))
        .filter(|spec| is_free(&dir.paths().node(&spec.name)) && is_free(&spec.data_dir))
        .map(|spec| StoppedWorker { written: written(&spec.data_dir), spec })
        .collect();
    all.sort_by_key(|worker| {
        let name = &worker.spec.name;
        let number = name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap_or(u64::MAX);
        (worker.written.is_empty(), number, name.clone())
    });
    Ok(all)
}

/// What is said about workers that stay stopped though they hold pieces of `finished` jobs, while `running` others run.
#[must_use]
pub(super) fn left_behind(stopped: &[StoppedWorker], finished: &BTreeSet<String>, running: usize) -> Option<String> {
    let with_data = stopped.iter().filter(|worker| !worker.written.is_empty()).count();
    let holders: Vec<&StoppedWorker> = stopped.iter().filter(|worker| !worker.written.is_disjoint(finished)).collect();
    let jobs: BTreeSet<&str> =
        holders.iter().flat_map(|worker| worker.written.intersection(finished)).map(String::as_str).collect();
    let names: Vec<&str> = holders.iter().map(|worker| worker.spec.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "written pieces of {} lie with {}, stopped; `shoalctl up --nodes {}` starts them again",
            jobs.into_iter().collect::<Vec<_>>().join(", "),
            names.join(", "),
            running + with_data
        )
    })
}

/// Whether no daemon has this directory. A lock that cannot be looked at counts as held.
pub(super) fn is_free(dir: &Path) -> bool {
    match File::open(dir.join("lock")) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Jobs with a version in a data directory: `jobs/<job>/<version>/manifest.json`.
fn written(data_dir: &Path) -> BTreeSet<String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries(&data_dir.join("jobs"))
        .filter(|job| entries(&job.path()).any(|version| version.path().join("manifest.json").is_file()))
        .filter_map(|job| job.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use shoal_config::Bytes;
    use shoal_config::spec::Auto;
    use shoal_daemon::lock::DirLock;

    use super::*;
    use crate::cluster::dir::Started;
    use crate::cluster::process::Process;

    fn worker(dir: &LocalCluster, name: &str, jobs: &[&str]) {
        dir.write_node(&NodeSpec {
            name: name.to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            join: None,
            memory: Bytes(1 << 30),
            threads: 1,
            class: Auto::Auto,
            data_dir: "data".into(),
        })
        .expect("written");
        fs::write(dir.paths().log(name), "").expect("a log");
        for job in jobs {
            let version = dir.paths().node(name).join("data/jobs").join(job).join("000000000004-00");
            fs::create_dir_all(&version).expect("made");
            fs::write(version.join("manifest.json"), "{}").expect("written");
        }
    }

    #[test]
    fn those_with_data_come_first_and_nobody_who_lives_or_is_locked() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = LocalCluster::new(&temp.path().join("c")).expect("path");
        let _claim = dir.claim(std::time::Duration::ZERO).expect("claim");
        for name in ["w1", "w2", "w3", "w4", "w5", "w10"] {
            worker(&dir, name, if matches!(name, "w5" | "w10") { &["j1"] } else { &[] });
        }
        worker(&dir, "w9", &["j2"]);
        worker(&dir, "w6", &[]);
        fs::remove_file(dir.paths().log("w6")).expect("only made, never started");
        dir.record(&Started { name: "w3".into(), process: Process::this() }).expect("record");
        let lock = DirLock::take(&dir.paths().node("w4")).expect("free");
        let names = |living: &[&str]| -> Vec<String> {
            let living: Vec<String> = living.iter().map(|name| (*name).to_owned()).collect();
            stopped(&dir, &living).expect("listed").into_iter().map(|worker| worker.spec.name).collect()
        };
        assert_eq!(names(&["w1"]), ["w5", "w9", "w10", "w2"]);
        drop(lock);
        assert_eq!(names(&["w1", "w9"]), ["w5", "w10", "w2", "w4"]);

        let all = stopped(&dir, &["w5".to_owned()]).expect("listed");
        let finished = BTreeSet::from(["j1".to_owned()]);
        let said = left_behind(&all, &finished, 2).expect("w10 has pieces of it");
        assert_eq!(said, "written pieces of j1 lie with w10, stopped; `shoalctl up --nodes 4` starts them again");
        assert_eq!(left_behind(&all, &BTreeSet::new(), 2), None, "a job that is not over needs nobody's pieces");
    }
}
