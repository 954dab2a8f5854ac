//! Who is served and who is not.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use axum::http::{Method, StatusCode};
use serde_json::Value;
use shoal_config::spec::LrShape;
use shoal_wire::api::ApiError;

use super::fixture::Served;

type Headers = &'static [(HeaderName, &'static str)];

const HERE: (HeaderName, &str) = (HOST, "127.0.0.1:80");
const KNOWN: (HeaderName, &str) = (AUTHORIZATION, "Bearer secret");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_pages_of_the_web_are_turned_away_from_every_route() {
    let served = Served::up().await;
    let refused: [(Headers, StatusCode, &str); 7] = [
        (&[HERE], StatusCode::UNAUTHORIZED, "token"),
        (&[HERE, (AUTHORIZATION, "Bearer guess")], StatusCode::UNAUTHORIZED, "token"),
        (&[HERE, (AUTHORIZATION, "secret")], StatusCode::UNAUTHORIZED, "token"),
        (&[KNOWN], StatusCode::FORBIDDEN, "foreign"),
        // A name that somebody else's DNS points at loopback.
        (&[(HOST, "rebound.example:80"), KNOWN], StatusCode::FORBIDDEN, "foreign"),
        (&[HERE, KNOWN, (ORIGIN, "https://page.example")], StatusCode::FORBIDDEN, "foreign"),
        (&[HERE, KNOWN, (ORIGIN, "null")], StatusCode::FORBIDDEN, "foreign"),
    ];
    let routes = [
        (Method::GET, "/"),
        (Method::GET, "/metrics"),
        (Method::GET, "/v1/nodes"),
        (Method::GET, "/v1/jobs"),
        (Method::POST, "/v1/jobs"),
        (Method::GET, "/v1/jobs/j1/events"),
        (Method::POST, "/v1/jobs/j1/cancel"),
        (Method::POST, "/v1/nodes/w1/drain"),
        (Method::POST, "/v1/shutdown"),
    ];
    for (method, path) in routes {
        for (headers, status, word) in &refused {
            let (found, body) = served.send_with(headers, method.clone(), path, "").await;
            let error: ApiError = serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{path}: {e}"));
            assert_eq!((found, error.error.as_str()), (*status, *word), "{method} {path} {headers:?}");
        }
    }
    assert_eq!(served.send(Method::GET, "/v1/nodes", "").await.0, StatusCode::OK, "nothing was shut down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_our_own_is_served_and_the_status_page_takes_the_token_in_its_address() {
    let served = Served::up().await;
    let own = [HERE, KNOWN, (ORIGIN, "http://127.0.0.1:80")];
    assert_eq!(served.send_with(&own, Method::GET, "/v1/nodes", "").await.0, StatusCode::OK);
    let status = async |path| served.send_with(&[HERE], Method::GET, path, "").await.0;
    assert_eq!(status("/?token=secret").await, StatusCode::OK);
    assert_eq!(status("/?token=guess").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("/v1/nodes?token=secret").await, StatusCode::UNAUTHORIZED, "only a page needs that");
}

/// The job that docs/http.md shows is one that can be submitted.
#[test]
fn the_documented_job_is_a_job() {
    let page = include_str!("../../../../docs/http.md");
    let block = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let spec: shoal_config::JobSpec = serde_json::from_str(block).expect("a job");
    spec.check().expect("within its limits");
    let shown: Value = serde_json::from_str(block).expect("JSON");
    let mut keys = (BTreeSet::new(), BTreeSet::new());
    paths("", &shown, &mut keys.0);
    paths("", &serde_json::to_value(&spec).expect("plain data"), &mut keys.1);
    assert_eq!(keys.0, keys.1, "every key, with every default filled in");
}

/// docs/http.md has every value that stands for a choice.
#[test]
fn the_documentation_knows_every_choice() {
    let page = include_str!("../../../../docs/http.md");
    let shapes = [
        LrShape::Cosine,
        LrShape::Linear,
        LrShape::Constant,
        LrShape::InverseSqrt,
        LrShape::RelativeStep,
        LrShape::Wsd { decay: 6 },
    ];
    // A shape that is added does not compile here until it is in the list above.
    let in_words = |shape: LrShape| match shape {
        LrShape::Cosine
        | LrShape::Linear
        | LrShape::Constant
        | LrShape::InverseSqrt
        | LrShape::RelativeStep
        | LrShape::Wsd { .. } => serde_json::to_string(&shape).expect("plain data").replace([' ', '\n'], ""),
    };
    let page: String = page.replace([' ', '\n'], "");
    for shape in shapes.map(in_words) {
        assert!(page.contains(&format!("`{shape}`")), "docs/http.md lacks {shape}");
    }
    let spec = |keys: &str| {
        let text = format!(
            "[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n[data]\nkind = \"text\"\n\
             path = \"/data\"\n[train]\nsteps = 30\noptimizer = {keys}\n"
        );
        shoal_config::job::parse(&text, "job.toml", Path::new("/")).expect(keys).train.optimizer
    };
    let optimizers = [
        "\"adamw\"",
        "\"adam\"",
        "\"sgd\"",
        "\"sgd\"\nmomentum = 0.9",
        "\"sgd\"\nmomentum = 0.9\nnesterov = true",
        "\"rmsprop\"",
        "\"adafactor\"",
    ];
    for optimizer in optimizers.map(spec) {
        let optimizer = serde_json::to_string(&optimizer).expect("plain data").replace([' ', '\n'], "");
        assert!(page.contains(&optimizer), "docs/http.md lacks {optimizer}");
    }
}

/// Every key with the keys above it.
fn paths(above: &str, value: &Value, into: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{above}.{key}");
        paths(&path, value, into);
        into.insert(path);
    }
}
