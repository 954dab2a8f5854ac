mod fixture;
mod guard;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use fixture::{Gives, Served, pieces, spec, values};
use serde_json::Value;
use shoal_exact::Arithmetic;
use shoal_model::files::{Aside, Destination};
use shoal_model::hf;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::job::Job;
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::api::{
    ApiError, EventLine, JobState, JobStatus, LedgerLine, NodeInfo, PlanAnswer, SubmitAnswer, SubmitRequest,
};

async fn submitted(served: &Served, dir: &std::path::Path) -> String {
    let body = serde_json::to_string(&SubmitRequest { spec: spec(dir), again: false }).expect("JSON");
    let (status, body) = served.send(Method::POST, "/v1/jobs", &body).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    let id = serde_json::from_slice::<SubmitAnswer>(&body).expect("an id").job;
    served.until_read(&id).await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said_as_json() {
    let served = Served::up().await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut missing = spec(dir.path());
    missing.data.path = dir.path().join("nothing.txt");
    let missing = serde_json::to_string(&SubmitRequest { spec: missing, again: false }).expect("JSON");
    let mut endless = spec(dir.path());
    endless.model.as_gpt2_mut().expect("a GPT-2").layers = u32::MAX;
    let endless = serde_json::to_string(&SubmitRequest { spec: endless, again: false }).expect("JSON");
    let long = " ".repeat(3 << 20);
    let good = serde_json::to_value(SubmitRequest { spec: spec(dir.path()), again: false }).expect("JSON");
    let with = |pointer: &str, key: &str, value: Value| {
        let mut body = good.clone();
        body.pointer_mut(pointer).expect("a section")[key] = value;
        body.to_string()
    };
    let unknown = with("/spec/train", "stepz", 3.into());
    let beside = with("", "agian", true.into());
    let relative = with("/spec/data", "path", "text.txt".into());
    let cases = [
        (
            Method::POST,
            "/v1/jobs",
            endless.as_str(),
            StatusCode::BAD_REQUEST,
            "malformed",
            "`model.layers` is 4294967295",
        ),
        (Method::GET, "/v1/jobs/j7", "", StatusCode::NOT_FOUND, "no_job", "there is no job j7"),
        (Method::GET, "/v1/jobs/seven", "", StatusCode::BAD_REQUEST, "malformed", "`seven` is no job"),
        (Method::POST, "/v1/jobs", &unknown, StatusCode::BAD_REQUEST, "malformed", "unknown field `stepz`"),
        (Method::POST, "/v1/jobs", &beside, StatusCode::BAD_REQUEST, "malformed", "unknown field `agian`"),
        (
            Method::POST,
            "/v1/jobs",
            &relative,
            StatusCode::BAD_REQUEST,
            "malformed",
            "`data.path` is text.txt; allowed: an absolute path",
        ),
        (
            Method::POST,
            "/v1/jobs/j7/pause",
            r#"{"step": 3}"#,
            StatusCode::BAD_REQUEST,
            "malformed",
            "unknown field `step`",
        ),
        (Method::POST, "/v1/jobs", "{", StatusCode::BAD_REQUEST, "malformed", "the body is not what this takes"),
        (
            Method::POST,
            "/v1/jobs",
            missing.as_str(),
            StatusCode::UNPROCESSABLE_ENTITY,
            "data",
            "nothing.txt does not exist",
        ),
        (Method::POST, "/v1/nodes/w9/drain", "", StatusCode::NOT_FOUND, "no_node", "no living node w9"),
        (Method::POST, "/v1/jobs/j7/resume", "", StatusCode::NOT_FOUND, "no_job", "there is no job j7"),
        (Method::GET, "/v2/jobs", "", StatusCode::NOT_FOUND, "no_route", "there is no GET /v2/jobs"),
        (Method::GET, "/v1/jobs/%ff", "", StatusCode::BAD_REQUEST, "malformed", "cannot be understood"),
        (Method::GET, "/v1/jobs/j7/events?after=x", "", StatusCode::BAD_REQUEST, "malformed", "cannot be understood"),
        (Method::POST, "/v1/jobs", long.as_str(), StatusCode::PAYLOAD_TOO_LARGE, "too_large", "larger than"),
        (Method::GET, "/favicon.ico", "", StatusCode::NOT_FOUND, "no_route", "there is no GET /favicon.ico"),
        (Method::DELETE, "/v1/jobs", "", StatusCode::NOT_FOUND, "no_route", "there is no DELETE /v1/jobs"),
    ];
    for (method, path, body, status, word, message) in cases {
        let (found, body) = served.send(method, path, body).await;
        let error: ApiError = serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!((found, error.error.as_str()), (status, word), "{path}: {}", error.message);
        assert!(error.message.contains(message), "{path}: {}", error.message);
    }
    assert_eq!(served.get::<Vec<JobStatus>>("/v1/jobs").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_nodes_waits_and_can_be_read_and_cancelled() {
    let served = Served::up().await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let id = submitted(&served, dir.path()).await;
    assert_eq!(id, "j1");
    let status: JobStatus = served.get("/v1/jobs/j1").await;
    assert_eq!((status.state, status.step, status.steps), (JobState::Queued, 0, 5));
    assert_eq!(served.get::<Job>("/v1/jobs/j1/job").await.spec, spec(dir.path()));
    assert_eq!(served.get::<PlanAnswer>("/v1/jobs/j1/plan").await.plan, None);
    assert_eq!(served.get::<Vec<LedgerLine>>("/v1/jobs/j1/ledger").await, []);
    assert_eq!(served.get::<Vec<NodeInfo>>("/v1/nodes").await, []);

    let before = served.get::<Vec<EventLine>>("/v1/jobs/j1/events").await.len();
    let path = format!("/v1/jobs/j1/events?after={before}&wait_ms=30000");
    let begun = Instant::now();
    let (events, cancelled) =
        tokio::join!(served.get::<Vec<EventLine>>(&path), served.send(Method::POST, "/v1/jobs/j1/cancel", ""));
    assert_eq!(cancelled.0, StatusCode::NO_CONTENT, "{}", String::from_utf8_lossy(&cancelled.1));
    assert!(!events.is_empty() && begun.elapsed() < Duration::from_secs(25), "a long poll ends with the event");
    assert!(events.iter().all(|event| event.number > before as u64), "{events:?}");
    assert_eq!(served.get::<JobStatus>("/v1/jobs/j1").await.state, JobState::Cancelled);

    let (status, metrics) = served.send(Method::GET, "/metrics", "").await;
    let metrics = String::from_utf8(metrics).expect("text");
    assert!(status.is_success() && metrics.contains("shoal_job_step{job=\"j1\",name=\"small\"} 0"), "{metrics}");
    let (status, page) = served.send(Method::GET, "/", "").await;
    assert!(status.is_success() && String::from_utf8_lossy(&page).contains("<td>cancelled</td>"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_written_state_is_served_from_whoever_has_it() {
    let served = Served::up().await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let id = submitted(&served, dir.path()).await;
    let job: Job = served.get(&format!("/v1/jobs/{id}/job")).await;
    let table = ModelTable::of_job(&job.spec);
    let genesis = Version { step: 0, chain: job.genesis(Arithmetic::Fused) };
    let all = pieces(&table, genesis);

    let path = format!("/v1/jobs/{id}/state/0/1/moment1");
    let (status, body) = served.send(Method::GET, &path, "").await;
    let error: ApiError = serde_json::from_slice(&body).expect("an error");
    assert_eq!((status, error.error.as_str()), (StatusCode::CONFLICT, "not_written"), "{}", error.message);

    // The first has everything and cannot read it any more; the others have a part each, and come while one is asking.
    let (some, rest) = all.iter().cloned().partition(|piece| piece.interval.start == 0);
    let come = async {
        served.writer("some", some, Gives::Values).await;
        served.writer("rest", rest, Gives::Values).await;
        served.writer("broken", all, Gives::Nothing).await;
    };
    let whole = Interval::new(0, table.blocks[1].len);
    let expected: Vec<u8> =
        values(BlockId(1), Kind::Moment1, whole).iter().flat_map(|value| value.to_le_bytes()).collect();
    let ((status, body), ()) = tokio::join!(served.send(Method::GET, &path, ""), come);
    assert!(status.is_success() && body == expected, "{status}, {} of {} bytes", body.len(), expected.len());

    let (status, body) = served.send(Method::GET, &format!("/v1/jobs/{id}/hf/model.safetensors?step=0"), "").await;
    let mut file = Vec::new();
    let read = |block, interval, out: &mut [f32]| {
        out.copy_from_slice(&values(block, Kind::Weight, interval));
        Ok::<_, Infallible>(())
    };
    let target = Destination { out: &mut file, aside: Aside { dir: dir.path(), leave: 0 } };
    hf::write_model(&table, &job.spec, read, target).expect("written");
    assert!(status.is_success() && body == file, "{status}, {} of {} bytes", body.len(), file.len());
    let (_, config) = served.send(Method::GET, &format!("/v1/jobs/{id}/hf/config.json?dtype=bf16"), "").await;
    assert!(config.starts_with(b"{\n  \"") && config.ends_with(b"\n}\n"), "as transformers writes it");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    assert_eq!((&config["model_type"], &config["dtype"]), (&Value::from("gpt2"), &Value::from("bfloat16")));
    let names: Vec<String> = served.get(&format!("/v1/jobs/{id}/hf")).await;
    assert_eq!(names, ["config.json", "model.safetensors"]);
    let shards = "dtype=bf16&shard_bytes=20000";
    let names: Vec<String> = served.get(&format!("/v1/jobs/{id}/hf?{shards}")).await;
    assert!(names.len() > 4 && names[1] == hf::INDEX, "{names:?}");
    let mut tensors = 0;
    for name in &names[2..] {
        let (status, body) = served.send(Method::GET, &format!("/v1/jobs/{id}/hf/{name}?step=0&{shards}"), "").await;
        assert!(status.is_success(), "{name}: {status}");
        tensors += safetensors::SafeTensors::deserialize(&body).expect("a shard").len();
    }
    let index: Value = served.get(&format!("/v1/jobs/{id}/hf/{}?{shards}", names[1])).await;
    assert_eq!(index["weight_map"].as_object().map(serde_json::Map::len), Some(tensors));
    let (status, body) = served.send(Method::GET, &format!("/v1/jobs/{id}/llmc/model.bin?step=0"), "").await;
    let header = shoal_model::llmc::header(&job.spec, shoal_config::llmc::Version::Single, None).expect("a GPT-2");
    assert!(status.is_success() && body.starts_with(&header.to_bytes()), "{status}");
    assert_eq!(header.bytes(), Some(body.len() as u64));

    for (path, status) in [
        (format!("/v1/jobs/{id}/state/0/9/weight"), StatusCode::BAD_REQUEST),
        (format!("/v1/jobs/{id}/hf/model.bin"), StatusCode::BAD_REQUEST),
        (format!("/v1/jobs/{id}/hf?dtype=int8"), StatusCode::BAD_REQUEST),
        (format!("/v1/jobs/{id}/llmc/model.bin?dtype=fp16"), StatusCode::BAD_REQUEST),
        (format!("/v1/jobs/{id}/state/0/1/gradient"), StatusCode::BAD_REQUEST),
        (format!("/v1/jobs/{id}/state/3/1/weight"), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(served.send(Method::GET, &path, "").await.0, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_breaks_off_says_why_to_whoever_asks() {
    for (gives, word, what) in [
        (Gives::Grown, "unfit", "is to be written as fp16, which cannot hold its value"),
        (Gives::Nothing, "not_written", "weight"),
    ] {
        let served = Served::up().await;
        let dir = tempfile::tempdir().expect("temporary directory");
        let id = submitted(&served, dir.path()).await;
        let job: Job = served.get(&format!("/v1/jobs/{id}/job")).await;
        let genesis = Version { step: 0, chain: job.genesis(Arithmetic::Fused) };
        served.writer("one", pieces(&ModelTable::of_job(&job.spec), genesis), gives).await;
        let number = served.broken_download(&format!("/v1/jobs/{id}/hf/model.safetensors?step=0&dtype=fp16")).await;
        let reason: ApiError = served.get(&format!("/v1/downloads/{number}")).await;
        assert_eq!(reason.error, word, "{}", reason.message);
        assert!(reason.message.contains(what), "{}", reason.message);
        if let Gives::Grown = gives {
            assert!(reason.message.starts_with("wte.weight is") && reason.message.ends_with("--dtype fp32 or bf16"));
            // As it is, nothing is lost.
            let whole = served.send(Method::GET, &format!("/v1/jobs/{id}/hf/model.safetensors?step=0"), "").await;
            assert_eq!(whole.0, StatusCode::OK);
            continue;
        }
        let number = served.broken_download(&format!("/v1/jobs/{id}/state/0/1/weight")).await;
        assert_eq!(served.get::<ApiError>(&format!("/v1/downloads/{number}")).await.error, word);
        assert_eq!(served.send(Method::GET, "/v1/downloads/1", "").await.0, StatusCode::NOT_FOUND);
    }
}
