//! Bad input ends in an error that says what was asked, what was found, what to do, and harms nothing that runs.

use std::fs;

use shoal_tests::{Cluster, JobFile};

use crate::cluster;

#[test]
fn bad_jobs_are_refused_and_the_cluster_goes_on() {
    let cluster = cluster(2);
    let good = JobFile { data: 1, steps: 200, ..JobFile::default() };
    let running = cluster.submit(&good.write(cluster.path(), "running"));
    let text = fs::read_to_string(cluster.path().join("running.toml")).expect("job file");
    let edit = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    let line = text.lines().position(|line| line.starts_with("heads = ")).expect("it has heads") + 1;
    let place = format!("typo.toml:{line}");
    let empty = cluster.path().join("empty.txt");
    fs::write(&empty, "").expect("written");
    let cases = [
        ("typo", edit("heads = 4", "haeds = 4"), 2, vec!["haeds", "heads", &place]),
        ("indivisible", edit("heads = 4", "heads = 5"), 2, vec!["heads", "64", "5"]),
        (
            "layout",
            edit("pipeline = 2", "pipeline = 9").replace("fixed = false", "fixed = true"),
            2,
            vec!["pipeline", "9"],
        ),
        ("missing", edit("corpus.txt", "nothing-here.txt"), 2, vec!["nothing-here.txt"]),
        ("empty", edit("corpus.txt", "empty.txt"), 2, vec!["empty.txt"]),
        ("format", edit("kind = \"text\"", "kind = \"llmc\""), 2, vec!["20240520"]),
        ("budget", edit("width = 64", "width = 4096").replace("layers = 4", "layers = 48"), 2, vec!["memory"]),
    ];
    for (name, toml, code, words) in cases {
        let path = cluster.path().join(format!("{name}.toml"));
        fs::write(&path, toml).expect("written");
        let output = cluster.run(&["submit", path.to_str().expect("UTF-8"), "--json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
        for word in words {
            assert!(said.contains(word), "{name}: {said:?} does not name {word:?}");
        }
    }
    cluster.wait(&running, "step=20");
    cluster.ok(&["cancel", &running]);
}

#[test]
fn no_cluster_is_exit_code_four() {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    for args in [&["list"][..], &["nodes"], &["status", "j1"]] {
        let output = cluster.run(args);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(cluster.run(&["frobnicate"]).status.code(), Some(2));
}

#[test]
fn unknown_jobs_are_named() {
    let cluster = cluster(1);
    let output = cluster.run(&["status", "j77"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("j77"));
}

/// With --json an error is one object on standard error, whoever finds it, and standard output stays empty.
#[test]
fn errors_are_json_when_that_was_asked_for() {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    let file = cluster.path().join("a-file");
    fs::write(&file, "precious").expect("written");
    let file = file.to_str().expect("UTF-8");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["list"], 4, "unreachable"),
        (&["status", ""], 2, "usage"),
        (&["up", "--nodes", "1", "--memory", "1MiB"], 2, "usage"),
        (&["submit", "no-such-file.toml"], 2, "usage"),
        (&["nodes", "--dir", file], 2, "usage"),
        (&["down"], 4, "unreachable"),
    ];
    for (args, code, word) in cases {
        let output = cluster.run(&[args, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let error: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"));
        assert_eq!((&error["error"], &error["exit_code"]), (&word.into(), &code.into()), "{args:?}: {said}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(file).expect("there"), "precious");
}

/// What cannot be done is refused in words, and what was not done is said.
#[test]
fn orders_that_come_too_late_are_refused_and_up_says_what_it_left_alone() {
    let cluster = cluster(2);
    let job = cluster.submit(&JobFile { steps: 4, ..JobFile::default() }.write(cluster.path(), "short"));
    cluster.wait(&job, "done");
    let file = cluster.path().join("corpus.txt");
    let file = file.to_str().expect("UTF-8");
    let cases: [(&[&str], i32, &str); 4] = [
        (&["chaos", "panic-stage", &job], 1, "is over"),
        (&["chaos", "panic-stage", &job, "--node", "w9"], 2, "no living node w9"),
        (&["digest", &job, "--at", "step=2"], 1, "possible are the steps from 4 to 4"),
        (&["export", &job, "--to", file], 2, "is there and no directory"),
    ];
    for (args, code, word) in cases {
        let output = cluster.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(word), "{args:?}: {} {said}", output.status);
    }
    for event in cluster.events(&job) {
        let ids =
            event.reason.split(|c: char| !c.is_alphanumeric()).filter(|word| matches!(*word, "n1" | "n2")).count();
        assert_eq!(ids, 0, "people know workers by name: {}", event.reason);
    }
    let raised: serde_json::Value = cluster.json(&["up", "--nodes", "1", "--memory", "2GiB"]);
    let notes: Vec<&str> = raised["notes"].as_array().into_iter().flatten().filter_map(|note| note.as_str()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("2 workers run and 1 were asked for") && notes[1].contains("--memory 2GiB"), "{notes:?}");
    assert!(raised["page"].as_str().is_some_and(|page| page.starts_with("http://127.0.0.1:")), "{raised}");
    let again = cluster.run(&["submit", cluster.path().join("short.toml").to_str().expect("UTF-8"), "--json"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("\"known\": false"), "a job that is over is no obstacle");
}
