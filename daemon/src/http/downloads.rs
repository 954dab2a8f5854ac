//! Downloads that broke off, and why.
//!
//! A body of known length that ends early cannot say why. So each has a number, in a header of its answer, and whoever got less
//! than was promised asks for the reason by it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use shoal_wire::api::{ApiError, DOWNLOAD_HEADER};

use super::App;
use super::fault::Fault;

/// Reasons that are kept; whoever wants one asks at once.
const KEPT: usize = 64;

/// All downloads of this process.
#[derive(Clone, Debug)]
pub struct Downloads(Arc<Mutex<Broken>>);

#[derive(Debug)]
struct Broken {
    next: u64,
    /// Oldest first.
    reasons: VecDeque<(u64, ApiError)>,
}

impl Default for Downloads {
    fn default() -> Self {
        // An earlier process gave out other numbers.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Arc::new(Mutex::new(Broken { next: now.as_nanos() as u64, reasons: VecDeque::new() })))
    }
}

impl Downloads {
    /// One more.
    pub(super) fn begin(&self) -> Download {
        let mut broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        broken.next += 1;
        Download { number: broken.next, all: self.clone() }
    }

    fn reason(&self, number: u64) -> Option<ApiError> {
        let broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        broken.reasons.iter().find(|(of, _)| *of == number).map(|(_, reason)| reason.clone())
    }
}

/// One download.
#[derive(Clone, Debug)]
pub(super) struct Download {
    number: u64,
    all: Downloads,
}

impl Download {
    /// Its answer: a body of known length.
    pub(super) fn answer(&self, body: Body, bytes: u64) -> Response {
        let kind = "application/octet-stream".to_owned();
        let number = (DOWNLOAD_HEADER, self.number.to_string());
        ([(CONTENT_LENGTH.as_str(), bytes.to_string()), (CONTENT_TYPE.as_str(), kind), number], body).into_response()
    }

    /// It ends early, and this is why; to be said before the client can see that it does.
    pub(super) fn broke_off(&self, fault: &Fault) {
        tracing::warn!(download = self.number, error = fault as &dyn std::error::Error, "download broke off");
        let mut broken = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if broken.reasons.len() == KEPT {
            broken.reasons.pop_front();
        }
        broken.reasons.push_back((self.number, fault.told()));
    }
}

/// Why a download broke off.
pub(super) async fn reason(State(app): State<App>, Path(number): Path<u64>) -> Result<Json<ApiError>, Fault> {
    app.downloads.reason(number).map(Json).ok_or(Fault::NoReason { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_reasons_are_kept_each_under_its_number() {
        let all = Downloads::default();
        let broken: Vec<Download> = (0..=KEPT).map(|_| all.begin()).collect();
        for download in &broken {
            download.broke_off(&Fault::Malformed(format!("no {}", download.number)));
        }
        assert_eq!(all.reason(broken[0].number), None, "the oldest went for the newest");
        for download in &broken[1..] {
            let reason = all.reason(download.number).expect("kept");
            assert_eq!(reason.message, format!("no {}", download.number));
        }
        assert_eq!(all.reason(all.begin().number), None, "it goes on");
    }
}
