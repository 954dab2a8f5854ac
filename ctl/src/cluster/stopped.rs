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
/// process is still there or holds a lock while it dies, who was never started by `up`, and who has no node.toml any more.
/// Beside them why others cannot be started: each with file, line and key.
///
/// # Errors
/// If records cannot be read.
pub(super) fn stopped(dir: &LocalCluster, living: &[String]) -> Result<(Vec<StoppedWorker>, Vec<Failure>), Failure> {
    let running: Vec<String> = dir.started()?.into_iter().filter(|s| s.process.lives()).map(|s| s.name).collect();
    let names = fs::read_dir(dir.paths().nodes()).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names = names
        .filter(|name| !living.contains(name) && !running.contains(name) && dir.paths().log(name).is_file())
        .filter(|name| dir.paths().node_file(name).exists() && is_free(&dir.paths().node(name)));
    let (mut all, mut broken) = (Vec::new(), Vec::new());
    for name in names {
        match settings(dir, &name) {
            Ok(spec) if is_free(&spec.data_dir) => {
                all.push(StoppedWorker { written: written(&spec.data_dir), spec });
            }
            Ok(_dies_there) => {}
            Err(failure) => broken.push(failure),
        }
    }
    all.sort_by_key(|worker| {
        let name = &worker.spec.name;
        let number = name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap_or(u64::MAX);
        (worker.written.is_empty(), number, name.clone())
    });
    Ok((all, broken))
}

fn settings(dir: &LocalCluster, name: &str) -> Result<NodeSpec, Failure> {
    let file = dir.paths().node_file(name);
    let spec = node::read(&file)?;
    if spec.name != name {
        return Err(Failure::Usage(format!(
            "{}: `name` is \"{}\"; allowed: \"{name}\", as its directory is called",
            file.display(),
            spec.name
        )));
    }
    Ok(spec)
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
            stopped(&dir, &living).expect("listed").0.into_iter().map(|worker| worker.spec.name).collect()
        };
        assert_eq!(names(&["w1"]), ["w5", "w9", "w10", "w2"]);
        drop(lock);
        assert_eq!(names(&["w1", "w9"]), ["w5", "w10", "w2", "w4"]);

        let (all, broken) = stopped(&dir, &["w5".to_owned()]).expect("listed");
        assert!(broken.is_empty(), "{broken:?}");
        let finished = BTreeSet::from(["j1".to_owned()]);
        let said = left_behind(&all, &finished, 2).expect("w10 has pieces of it");
        assert_eq!(said, "written pieces of j1 lie with w10, stopped; `shoalctl up --nodes 4` starts them again");
        assert_eq!(left_behind(&all, &BTreeSet::new(), 2), None, "a job that is not over needs nobody's pieces");
    }

    #[test]
    fn one_that_cannot_be_read_is_named_with_file_and_key() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = LocalCluster::new(&temp.path().join("c")).expect("path");
        for name in ["w1", "w2", "w3", "w4"] {
            worker(&dir, name, &[]);
        }
        let write = |name, text| fs::write(dir.paths().node_file(name), text).expect("written");
        write("w2", "name = \"w2\"\nclas = \"auto\"\n");
        write("w3", "name = \"w1\"\n");
        fs::remove_file(dir.paths().node_file("w4")).expect("there");
        let (all, broken) = stopped(&dir, &[]).expect("listed");
        assert_eq!(all.iter().map(|worker| worker.spec.name.as_str()).collect::<Vec<_>>(), ["w1"]);
        let mut said: Vec<String> = broken.iter().map(ToString::to_string).collect();
        said.sort_unstable();
        let [key, name] = said.as_slice() else { panic!("{said:?}") };
        assert!(key.contains("w2/node.toml:2: `clas` is not a known key"), "{key}");
        assert!(name.contains("w3/node.toml: `name` is \"w1\"; allowed: \"w3\""), "{name}");
        assert!(broken.iter().all(|failure| failure.code() == 2), "{broken:?}");
        let alive: Vec<String> = ["w2", "w3"].map(str::to_owned).into();
        assert!(stopped(&dir, &alive).expect("listed").1.is_empty(), "who lives is left alone");
    }
}
