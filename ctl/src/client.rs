//! The coordinator's HTTP interface as functions. Every request has a deadline; every error says which exit code it is.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use shoal_config::JobSpec;
use shoal_daemon::cluster::ClusterDir;
use shoal_plan::job::Job;
use shoal_wire::api::{
    AtStep, EventLine, JobStatus, LedgerLine, NodeInfo, NodeReport, OnNode, PlanAnswer, StateDigest, SubmitAnswer,
    SubmitRequest,
};

use crate::failure::Failure;
use answer::{Answer, IN_DOUBT, busy, gone, may_be_repeated, refused};

mod answer;
mod download;

pub use download::{Download, Told};

/// Longest wait for an answer that takes no work.
const QUICK: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// For a submission: the files of its data are listed and opened.
const SUBMIT: Duration = Duration::from_secs(90);
/// A coordinator that died is back within this time, so a refused connection is tried again for as long.
const RESPAWN: Duration = Duration::from_secs(3);
/// For a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(50);

/// Talks to one coordinator.
#[derive(Clone, Debug)]
pub struct Client {
    dir: ClusterDir,
    agent: ureq::Agent,
}

/// What is posted when there is nothing to say.
#[derive(Serialize)]
struct Nothing {}

impl Client {
    /// For the cluster in `dir`. Nothing is sent yet.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(QUICK))
            .timeout_send_body(Some(QUICK))
            // A kept connection to a coordinator that was restarted would fail in a way that looks like a lost answer.
            .max_idle_connections(0)
            .build();
        Self { dir: ClusterDir::new(dir), agent: config.into() }
    }

    /// Workers.
    ///
    /// # Errors
    /// As every request: not reachable, timed out, or refused by the coordinator.
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, Failure> {
        self.get("nodes", QUICK)
    }

    /// Lets a worker leave.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn drain(&self, node: &str) -> Result<(), Failure> {
        self.post(&format!("nodes/{node}/drain"), &Nothing {}, QUICK)
    }

    /// Stops the whole cluster.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn shutdown(&self) -> Result<(), Failure> {
        self.post("shutdown", &Nothing {}, QUICK)
    }

    /// Submits a job; its data is read after that. Unless a second one is asked for, the very same job that is not over is
    /// meant, so this can be repeated.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn submit(&self, spec: JobSpec, again: bool) -> Result<SubmitAnswer, Failure> {
        let answer = self.send("jobs", Some(&SubmitRequest { spec, again }), SUBMIT)?;
        self.decode("jobs", answer)
    }

    /// All jobs.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn jobs(&self) -> Result<Vec<JobStatus>, Failure> {
        self.get("jobs", QUICK)
    }

    /// One job.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn status(&self, job: &str) -> Result<JobStatus, Failure> {
        self.get(&format!("jobs/{job}"), QUICK)
    }

    /// The job as every decision sees it.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn job(&self, job: &str) -> Result<Job, Failure> {
        self.get(&format!("jobs/{job}/job"), QUICK)
    }

    /// Its current plan.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn plan(&self, job: &str) -> Result<PlanAnswer, Failure> {
        self.get(&format!("jobs/{job}/plan"), QUICK)
    }

    /// Events after number `after`, waiting up to `wait` for the first; the coordinator gives them in parts.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn events(&self, job: &str, after: u64, wait: Duration) -> Result<Vec<EventLine>, Failure> {
        self.get(&format!("jobs/{job}/events?after={after}&wait_ms={}", wait.as_millis()), wait + QUICK)
    }

    /// Every event, asked for in as many answers as the coordinator makes of them.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn all_events(&self, job: &str) -> Result<Vec<EventLine>, Failure> {
        let mut lines: Vec<EventLine> = Vec::new();
        loop {
            let after = lines.last().map_or(0, |line| line.number);
            let more = self.events(job, after, Duration::ZERO)?;
            if more.is_empty() {
                return Ok(lines);
            }
            lines.extend(more);
        }
    }

    /// Every commit record, asked for in as many answers as the coordinator makes of them.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn ledger(&self, job: &str) -> Result<Vec<LedgerLine>, Failure> {
        let mut lines: Vec<LedgerLine> = Vec::new();
        loop {
            let after = lines.last().map_or(0, |line| line.entry.step);
            let more: Vec<LedgerLine> = self.get(&format!("jobs/{job}/ledger?after={after}"), QUICK)?;
            if more.is_empty() {
                return Ok(lines);
            }
            lines.extend(more);
        }
    }

    /// Holds a job.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn pause(&self, job: &str, at: Option<u64>) -> Result<(), Failure> {
        self.post(&format!("jobs/{job}/pause"), &AtStep { at }, QUICK)
    }

    /// Lets a job go on.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn resume(&self, job: &str) -> Result<(), Failure> {
        self.post(&format!("jobs/{job}/resume"), &Nothing {}, QUICK)
    }

    /// Ends a job.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn cancel(&self, job: &str) -> Result<(), Failure> {
        self.post(&format!("jobs/{job}/cancel"), &Nothing {}, QUICK)
    }

    /// Hashes the state at the next commit or at a step; that step must come within `deadline`.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn digest(&self, job: &str, at: Option<u64>, deadline: Duration) -> Result<StateDigest, Failure> {
        let path = format!("jobs/{job}/digest");
        let answer = self.send(&path, Some(&AtStep { at }), deadline)?;
        self.decode(&path, answer)
    }

    /// Names of the files of a job's model in Hugging Face form.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn hf_files(&self, job: &str, query: &str) -> Result<Vec<String>, Failure> {
        self.get(&format!("jobs/{job}/hf?{query}"), QUICK)
    }

    /// As [`Self::digest`]; the pieces are written, so that they can be fetched.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn write(&self, job: &str, at: Option<u64>, deadline: Duration) -> Result<StateDigest, Failure> {
        let path = format!("jobs/{job}/write");
        let answer = self.send(&path, Some(&AtStep { at }), deadline)?;
        self.decode(&path, answer)
    }

    /// What every node did for a job.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn report(&self, job: &str) -> Result<Vec<NodeReport>, Failure> {
        self.get(&format!("jobs/{job}/report"), QUICK)
    }

    /// Makes a fault on purpose: `panic-stage`, `hang-stage` or `poison-stage`.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn chaos(&self, job: &str, fault: &str, node: String) -> Result<(), Failure> {
        self.post(&format!("jobs/{job}/chaos/{fault}"), &OnNode { node }, QUICK)
    }

    /// A stream of bytes that begins within `deadline`; each read has one too. While the coordinator is busy it is asked again.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn download(&self, path: &str, deadline: Duration) -> Result<Download, Failure> {
        let answer = self.send::<Nothing>(path, None, deadline)?;
        Ok(Download::of(self.clone(), answer))
    }

    fn get<T: DeserializeOwned>(&self, path: &str, deadline: Duration) -> Result<T, Failure> {
        let answer = self.send::<Nothing>(path, None, deadline)?;
        self.decode(path, answer)
    }

    fn post(&self, path: &str, body: &impl Serialize, deadline: Duration) -> Result<(), Failure> {
        self.send(path, Some(body), deadline).map(|_| ())
    }

    fn decode<T: DeserializeOwned>(&self, path: &str, answer: Answer) -> Result<T, Failure> {
        answer.into_body().with_config().limit(1 << 30).read_json().map_err(|error| match error {
            ureq::Error::Timeout(_) => Failure::Timeout(format!("/v1/{path}: the answer broke off")),
            other => Failure::Unreachable(format!(
                "/v1/{path}: {other}; is what answers at {} a shoal coordinator of this version?",
                self.address().unwrap_or_default()
            )),
        })
    }

    fn address(&self) -> Result<String, Failure> {
        let path = self.dir.http_address();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::Unreachable(format!(
                "no cluster in {}: start one with `shoalctl up --nodes N --dir DIR`, or say which one with --dir or SHOAL_DIR",
                self.dir.root().display()
            ))),
            Err(source) => Err(Failure::File { action: "read", path, source }),
        }
    }

    /// What the coordinator knows its clients by; empty if there is none, and then it says so.
    fn token(&self) -> Result<String, Failure> {
        let path = self.dir.token();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(Failure::Usage(format!(
                "{} cannot be read ({error}); only whoever runs the cluster may use it",
                path.display()
            ))),
        }
    }

    /// Whether somebody takes a connection there, tried once.
    #[must_use]
    pub fn reaches(&self) -> bool {
        let addresses = self.address().ok().and_then(|address| address.to_socket_addrs().ok());
        addresses.into_iter().flatten().any(|address| TcpStream::connect_timeout(&address, CONNECT).is_ok())
    }

    /// Address of the HTTP interface, and of its page for people with what it takes to see it.
    ///
    /// # Errors
    /// If there is no cluster, or it is somebody else's.
    pub fn addresses(&self) -> Result<(String, String), Failure> {
        let http = format!("http://{}", self.address()?);
        let page = format!("{http}/?token={}", self.token()?);
        Ok((http, page))
    }

    /// Sends, again while the connection is refused and the coordinator may be coming back.
    fn send<B: Serialize>(&self, path: &str, body: Option<&B>, deadline: Duration) -> Result<Answer, Failure> {
        let begun = Instant::now();
        let give_up = begun + RESPAWN;
        loop {
            let address = self.address()?;
            let url = format!("http://{address}/v1/{path}");
            match self.once(&url, &self.token()?, body, deadline) {
                Ok(answer) => match busy(&answer).filter(|wait| body.is_none() && begun.elapsed() + *wait < deadline) {
                    Some(wait) => std::thread::sleep(wait),
                    None => return refused(answer),
                },
                Err(error) if may_be_repeated(&error, body.is_some()) && Instant::now() < give_up => {
                    std::thread::sleep(RETRY);
                }
                Err(error @ ureq::Error::Timeout(ureq::Timeout::Connect)) => return Err(gone(&address, &error)),
                Err(ureq::Error::Timeout(_)) => {
                    let doubt = if body.is_some() { IN_DOUBT } else { "" };
                    return Err(Failure::Timeout(format!(
                        "no answer from {address} to /v1/{path} within {deadline:?}{doubt}"
                    )));
                }
                Err(ureq::Error::Io(error)) if body.is_some() && error.kind() != ErrorKind::ConnectionRefused => {
                    return Err(Failure::Unreachable(format!(
                        "the connection to {address} broke before /v1/{path} was answered ({error}){IN_DOUBT}"
                    )));
                }
                Err(error) => return Err(gone(&address, &error)),
            }
        }
    }

    fn once<B: Serialize>(
        &self,
        url: &str,
        token: &str,
        body: Option<&B>,
        deadline: Duration,
    ) -> Result<Answer, ureq::Error> {
        let bearer = format!("Bearer {token}");
        // The first byte may take as long as the whole answer; a body that has begun comes without long pauses.
        let (answer, read) = (Some(deadline), Some(deadline.max(QUICK)));
        match body {
            None => {
                let request = self.agent.get(url).header("authorization", bearer);
                let request = request.config().timeout_recv_response(answer).timeout_per_read(read).build();
                request.call()
            }
            Some(body) => {
                let request = self.agent.post(url).header("authorization", bearer);
                let request = request.config().timeout_recv_response(answer).timeout_per_read(read).build();
                request.send_json(body)
            }
        }
    }
}

#[cfg(test)]
mod tests;
