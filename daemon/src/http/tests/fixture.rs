//! The router over a real coordinator actor, with workers that have written pieces.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, HOST, HeaderName};
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use ractor::Actor;
use serde::de::DeserializeOwned;
use shoal_actors::coordinator::{CoordinatorActor, CoordinatorArgs, MemoryJournal, Patience};
use shoal_actors::transport::{Callee, ClusterCa, Endpoint, EndpointConfig, Inbound, NoBulk, PeerId};
use shoal_config::JobSpec;
use shoal_exact::Arithmetic;
use shoal_plan::blocks::ModelTable;
use shoal_plan::digest;
use shoal_plan::engine::Timing;
use shoal_plan::ids::BlockId;
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::api::{DOWNLOAD_HEADER, JobStatus};
use shoal_wire::control::{
    Answer, Control, FromWorker, Hello, Introduction, Question, ToWorker, VERSION, Who, WrittenPiece,
};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::http::{App, router};

const VALIDITY: Duration = Duration::from_secs(3600);
const CALM: Patience = Patience { suspect: 60_000, lost: 120_000, jobs: Timing::STANDARD };
const LARGEST_BODY: usize = 64 << 20;

/// What a worker gives of its pieces.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    Values,
    /// Values that have grown beyond what fp16 holds.
    Grown,
    /// Its disk is gone.
    Nothing,
}

/// A coordinator with its router.
pub(super) struct Served {
    ca: ClusterCa,
    address: SocketAddr,
    router: Router,
    changes: watch::Receiver<u64>,
}

impl Served {
    pub(super) async fn up() -> Self {
        let ca = ClusterCa::generate().expect("a CA");
        let (endpoint, inbound) = bind(&ca, "coordinator");
        let address = endpoint.local_address();
        let (changes, seen) = watch::channel(0);
        let journal = Arc::new(MemoryJournal::default());
        let args = CoordinatorArgs { endpoint, inbound, journal, changes, patience: CALM };
        let (coordinator, _) = Actor::spawn(None, CoordinatorActor, args).await.expect("starts");
        let changes = seen.clone();
        Self {
            ca,
            address,
            router: router(App {
                coordinator,
                changes: seen,
                token: "secret".to_owned().into(),
                exports: crate::http::Exports::new(std::env::temp_dir()),
                downloads: crate::http::Downloads::default(),
            }),
            changes,
        }
    }

    pub(super) async fn send(&self, method: Method, path: &str, body: &str) -> (StatusCode, Vec<u8>) {
        let trusted = [(HOST, "127.0.0.1:80"), (AUTHORIZATION, "Bearer secret")];
        self.send_with(&trusted, method, path, body).await
    }

    /// With these headers and no others.
    pub(super) async fn send_with(
        &self,
        headers: &[(HeaderName, &str)],
        method: Method,
        path: &str,
        body: &str,
    ) -> (StatusCode, Vec<u8>) {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
        let answer = self.answer(request.body(Body::from(body.to_owned())).expect("a request")).await;
        let status = answer.status();
        (status, to_bytes(answer.into_body(), LARGEST_BODY).await.expect("a whole body").to_vec())
    }

    async fn answer(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.expect("infallible")
    }

    /// A download that breaks off, by its number.
    pub(super) async fn broken_download(&self, path: &str) -> String {
        let request = Request::get(path).header(HOST, "127.0.0.1:80").header(AUTHORIZATION, "Bearer secret");
        let answer = self.answer(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let number = answer.headers()[DOWNLOAD_HEADER].to_str().expect("a number").to_owned();
        to_bytes(answer.into_body(), LARGEST_BODY).await.expect_err("it breaks off");
        number
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let (status, body) = self.send(Method::GET, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Waits until a job's data has been read.
    pub(super) async fn until_read(&self, job: &str) {
        let mut changes = self.changes.clone();
        let read = async {
            loop {
                changes.mark_unchanged();
                if self.get::<JobStatus>(&format!("/v1/jobs/{job}")).await.reading.is_none() {
                    return;
                }
                changes.changed().await.expect("the coordinator lives");
            }
        };
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("its data is read");
    }

    /// A worker that has written what `pieces` says.
    pub(super) async fn writer(&self, name: &str, pieces: Vec<WrittenPiece>, gives: Gives) {
        let (endpoint, mut inbound) = bind(&self.ca, name);
        let introduction = Introduction {
            node: None,
            name: name.to_owned(),
            address: endpoint.local_address(),
            pid: 1,
            budget_bytes: 64 << 20,
            threads: 1,
            class: "portable".to_owned(),
            arithmetic: Arithmetic::Fused,
            written: Vec::new(),
        };
        let hello = Hello { protocol: VERSION, who: Who::Worker(introduction) };
        endpoint.connect(Callee::coordinator(), self.address, hello).await.expect("let in");
        let (welcomed, mut welcome) = watch::channel(false);
        tokio::spawn(async move {
            while let Some(message) = inbound.recv().await {
                let Inbound::Control { message: Control::ToWorker(message), .. } = message else { continue };
                match *message {
                    ToWorker::Ask { request, question } => {
                        let answer = answer(question, &pieces, gives);
                        let message = Control::FromWorker(FromWorker::Answer { request, answer });
                        endpoint.send(PeerId::Coordinator, &message).expect("linked");
                    }
                    ToWorker::Welcome { .. } => drop(welcomed.send(true)),
                    _ => {}
                }
            }
        });
        welcome.wait_for(|welcomed| *welcomed).await.expect("welcomed");
    }
}

fn bind(ca: &ClusterCa, name: &str) -> (Endpoint, tokio::sync::mpsc::Receiver<Inbound>) {
    let identity = ca.identity(name, VALIDITY).expect("an identity");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Endpoint::bind(EndpointConfig::new(listen, identity), Arc::new(NoBulk)).expect("binds")
}

fn answer(question: Question, pieces: &[WrittenPiece], gives: Gives) -> Answer {
    match question {
        Question::Manifest { .. } => Answer::Manifest(pieces.to_vec()),
        Question::Written { block, kind, interval, .. } => {
            let factor = match gives {
                Gives::Values => 1.0,
                Gives::Grown => 1e6,
                Gives::Nothing => return Answer::Refused("the disk is gone".to_owned()),
            };
            let values = values(block, kind, interval).into_iter().map(|value| value * factor);
            Answer::Written(values.flat_map(f32::to_le_bytes).collect())
        }
        Question::Report { .. } => Answer::Refused("nothing was computed".to_owned()),
    }
}

/// Values that tell block, kind and place.
pub(super) fn values(block: BlockId, kind: Kind, interval: Interval) -> Vec<f32> {
    let base = block.0 as f32 + 100.0 * (kind as u8) as f32;
    (interval.start..interval.end).map(|i| base + i as f32 / 65_536.0).collect()
}

/// The whole state, cut in two at a segment edge where there is one.
pub(super) fn pieces(table: &ModelTable, version: Version) -> Vec<WrittenPiece> {
    let mut pieces = Vec::new();
    for block in &table.blocks {
        let whole = Interval::new(0, block.len);
        let middle = digest::segments(block, whole).nth(1).map(|segment| segment.start);
        let mut edges = vec![0, block.len];
        edges.extend(middle);
        edges.sort_unstable();
        for pair in edges.windows(2) {
            let interval = Interval::new(pair[0], pair[1]);
            for kind in [Kind::Weight, Kind::Moment1, Kind::Moment2] {
                let leaves = digest::leaves(block, interval, &values(block.id, kind, interval));
                pieces.push(WrittenPiece { version, block: block.id, kind, interval, leaves });
            }
        }
    }
    pieces
}

/// A small job whose text lies in `dir`.
pub(super) fn spec(dir: &Path) -> JobSpec {
    std::fs::write(dir.join("text.txt"), "every single fish may vanish\n".repeat(200)).expect("written");
    let text = "name = \"small\"\n[model]\nkind = \"gpt2\"\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\n\
                vocab = \"bytes\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\n[train]\nsteps = 5\nglobal_batch = 4\n";
    shoal_config::job::parse(text, "job.toml", dir).expect("a good job file")
}
