//! The client against a server of this process: what is asked, and what every answer means.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Answers one connection for each entry: status line and body. Gives back the requests (first line, body).
fn serve(answers: Vec<(&'static str, String)>) -> (tempfile::TempDir, Client, JoinHandle<Vec<(String, String)>>) {
    let whole = |(status, body): (&str, String)| (status.to_owned(), body.len(), body);
    serve_some(answers.into_iter().map(whole).collect())
}

/// As [`serve`], with the length that each body is said to have.
fn serve_some(answers: Vec<(String, usize, String)>) -> (tempfile::TempDir, Client, JoinHandle<Vec<(String, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(
        ClusterDir::new(dir.path()).http_address(),
        format!("{}\n", listener.local_addr().expect("address")),
    )
    .expect("write");
    let client = Client::new(dir.path());
    let server = std::thread::spawn(move || {
        answers
            .into_iter()
            .map(|(status, said, body)| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut reader = BufReader::new(stream.try_clone().expect("clone"));
                let mut first = String::new();
                reader.read_line(&mut first).expect("request line");
                let mut length = 0;
                loop {
                    let mut header = String::new();
                    reader.read_line(&mut header).expect("header");
                    let header = header.trim().to_ascii_lowercase();
                    if header.is_empty() {
                        break;
                    }
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().expect("length");
                    }
                }
                let mut sent = vec![0; length];
                reader.read_exact(&mut sent).expect("body");
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {said}\r\nconnection: close\r\n\r\n{body}")
                    .expect("answer");
                (first.trim().to_owned(), String::from_utf8(sent).expect("text"))
            })
            .collect()
    });
    (dir, client, server)
}

#[test]
fn questions_go_to_their_paths_and_answers_come_back_typed() {
    let digest = r#"{"state_blake3":"ab","step":7}"#;
    let (_dir, client, server) = serve(vec![
        ("200 OK", "[]".into()),
        ("200 OK", r#"{"job":"j3"}"#.into()),
        ("200 OK", digest.into()),
        ("204 No Content", String::new()),
        ("200 OK", "[]".into()),
        ("200 OK", "raw bytes".into()),
    ]);
    assert_eq!(client.nodes().expect("nodes"), []);
    let spec = shoal_config::preset("demo", Path::new("/text")).expect("known preset");
    assert_eq!(client.submit(spec.clone(), false).expect("submit").job, "j3");
    assert_eq!(client.digest("j3", Some(7), QUICK).expect("digest").step, 7);
    client.pause("j3", None).expect("pause");
    assert_eq!(client.events("j3", 4, Duration::from_millis(20)).expect("events"), []);
    let mut text = String::new();
    client.download("jobs/j3/state/7/0/weight", QUICK).expect("download").read_to_string(&mut text).expect("read");
    assert_eq!(text, "raw bytes");

    let seen = server.join().expect("server");
    let lines: Vec<&str> = seen.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/nodes HTTP/1.1",
            "POST /v1/jobs HTTP/1.1",
            "POST /v1/jobs/j3/digest HTTP/1.1",
            "POST /v1/jobs/j3/pause HTTP/1.1",
            "GET /v1/jobs/j3/events?after=4&wait_ms=20 HTTP/1.1",
            "GET /v1/jobs/j3/state/7/0/weight HTTP/1.1",
        ]
    );
    assert_eq!(serde_json::from_str::<SubmitRequest>(&seen[1].1).expect("a submission").spec, spec);
    let at = |body: &str| serde_json::from_str::<AtStep>(body).expect("a step").at;
    assert_eq!((at(&seen[2].1), at(&seen[3].1)), (Some(7), None));
}

#[test]
fn refusals_keep_the_coordinators_words_and_get_their_exit_code() {
    let body = |message: &str| format!(r#"{{"error":"x","message":"{message}"}}"#);
    let cases = [
        ("404 Not Found", body("no job j9; jobs: j1"), 2, "no job j9; jobs: j1"),
        ("400 Bad Request", body("file is empty"), 2, "file is empty"),
        ("409 Conflict", body("j1 is done"), 1, "j1 is done"),
        ("500 Internal Server Error", body("disk full"), 1, "disk full"),
        ("504 Gateway Timeout", body("not within 5 s"), 3, "not within 5 s"),
        ("503 Service Unavailable", body("starting"), 4, "starting"),
        (
            "500 Internal Server Error",
            "plain words".into(),
            1,
            "the coordinator answered 500 Internal Server Error: plain words",
        ),
    ];
    for (status, body, code, message) in cases {
        let (_dir, client, server) = serve(vec![(status, body)]);
        let failure = client.status("j9").expect_err(status);
        assert_eq!((failure.code(), failure.to_string().as_str()), (code, message), "{status}");
        server.join().expect("server");
    }
}

#[test]
fn an_answer_that_makes_no_sense_says_so() {
    let (_dir, client, server) = serve(vec![("200 OK", "<html>".into())]);
    let failure = client.nodes().expect_err("not JSON");
    assert_eq!(failure.code(), 4);
    assert!(failure.to_string().contains("is what answers at 127.0.0.1:"), "{failure}");
    server.join().expect("server");
}

#[test]
fn without_a_cluster_it_says_how_to_start_one() {
    let dir = tempfile::tempdir().expect("temp dir");
    let failure = Client::new(dir.path()).nodes().expect_err("no cluster");
    assert_eq!(failure.code(), 4);
    assert!(failure.to_string().contains("no cluster in ") && failure.to_string().contains("shoalctl up"), "{failure}");
}

#[test]
fn a_coordinator_that_does_not_come_back_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("address");
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(ClusterDir::new(dir.path()).http_address(), port.to_string()).expect("write");
    let failure = Client::new(dir.path()).nodes().expect_err("nobody listens");
    assert_eq!(failure.code(), 4);
    assert!(failure.to_string().contains("cannot be reached"), "{failure}");
}

/// Answers that take work come later than those that do not; the time that a command was given is what counts.
#[test]
fn a_slow_answer_is_waited_for_as_long_as_its_deadline_says() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(ClusterDir::new(dir.path()).http_address(), listener.local_addr().expect("address").to_string())
        .expect("write");
    let client = Client::new(dir.path());
    let error = client.digest("j1", None, Duration::from_millis(50)).expect_err("nobody answers");
    let said = error.to_string();
    assert_eq!(error.code(), 3, "{said}");
    assert!(said.contains("within 50ms") && said.contains("may have been carried out"), "{said}");
    // Longer than any question that takes no work is given.
    let (late, slow) = (QUICK + Duration::from_millis(300), QUICK * 3);
    let server = std::thread::spawn(move || {
        let _unanswered = listener.accept().expect("the first");
        let (mut stream, _) = listener.accept().expect("the second");
        let begun = Instant::now();
        stream.set_read_timeout(Some(late)).expect("a timeout");
        // Reads until that much time has passed; the client says nothing after its request.
        while begun.elapsed() < late && stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        let body = r#"{"state_blake3":"ab","step":7}"#;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    });
    assert_eq!(client.digest("j1", None, slow).expect("an answer").step, 7);
    server.join().expect("server").expect("written");
}

#[test]
fn a_busy_coordinator_is_asked_again_until_the_time_is_over() {
    let said = || r#"{"error":"busy","message":"2 models"}"#.to_owned();
    let busy = || ("503 Service Unavailable\r\nretry-after: 0", said());
    let (_dir, client, server) = serve(vec![busy(), busy(), ("200 OK", "here".into())]);
    let mut text = String::new();
    client.download("jobs/j1/hf/config.json", QUICK).expect("in the end").read_to_string(&mut text).expect("read");
    assert_eq!((text.as_str(), server.join().expect("served").len()), ("here", 3));

    let (_dir, client, server) = serve(vec![("503 Service Unavailable\r\nretry-after: 60", said())]);
    let failure = client.download("jobs/j1/hf/config.json", QUICK * 10).map(|_| ()).expect_err("no time");
    assert_eq!((failure.code(), failure.to_string()), (3, "2 models".to_owned()));
    server.join().expect("served");
}

/// A body that ends early says nothing of why; the coordinator does, if it knows.
#[test]
fn a_download_that_breaks_off_says_why() {
    let half = || ("200 OK\r\nshoal-download: 7".to_owned(), 100, "half of it".to_owned());
    let reason = r#"{"error":"unfit","message":"wte.weight is too much; export with --dtype fp32"}"#.to_owned();
    for (status, body, code, said) in [
        ("200 OK", reason, 1, "a.bin did not come whole: wte.weight is too much; export with --dtype fp32"),
        ("404 Not Found", r#"{"error":"no_reason","message":"nothing"}"#.to_owned(), 4, "a.bin broke off: "),
    ] {
        let (_dir, client, server) = serve_some(vec![half(), (status.to_owned(), body.len(), body)]);
        let mut download = client.download("jobs/j1/hf/a.bin", QUICK).expect("it begins");
        let error = download.read_to_end(&mut Vec::new()).expect_err("it ends early");
        let failure = crate::export::broke_off("a.bin", error);
        assert!(failure.code() == code && failure.to_string().contains(said), "{failure}");
        assert_eq!(server.join().expect("served")[1].0, "GET /v1/downloads/7 HTTP/1.1");
    }
}
