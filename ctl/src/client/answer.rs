//! What comes of a request: an answer, or the failure that it stands for.

use std::io::ErrorKind;
use std::time::Duration;

use shoal_wire::api::ApiError;

use crate::failure::Failure;

/// Bytes of a refusal that are read.
const LONGEST: u64 = 1 << 20;
/// Said of an order whose answer did not come.
pub(super) const IN_DOUBT: &str = "; it may have been carried out all the same: look with `shoalctl list`, `status` or `nodes` before \
                        you repeat it (a `submit` can be repeated: it finds the job if it is there)";

pub(super) fn gone(address: &str, error: &ureq::Error) -> Failure {
    Failure::Unreachable(format!(
        "the coordinator at {address} cannot be reached ({error}); `shoalctl up` starts it again"
    ))
}

pub(super) type Answer = ureq::http::Response<ureq::Body>;

/// Whether sending again is safe: a question always, an order only if nobody can have heard it.
pub(super) fn may_be_repeated(error: &ureq::Error, is_order: bool) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() == ErrorKind::ConnectionRefused || !is_order,
        ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

/// How long to wait before a coordinator that has too much in hand is asked again.
pub(super) fn busy(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers().get("retry-after")?.to_str().ok()?.parse().ok()?;
    (answer.status().as_u16() == 503).then_some(Duration::from_secs(seconds))
}

/// An answer that is not a success, as the failure it stands for.
pub(super) fn refused(answer: Answer) -> Result<Answer, Failure> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = match answer.into_body().with_config().limit(LONGEST).read_to_string() {
        Ok(text) => text,
        Err(error) => format!("what it said cannot be read ({error}); its log has it"),
    };
    let (busy, message) = match serde_json::from_str::<ApiError>(&text) {
        Ok(error) => (error.error == "busy", error.message),
        Err(_) => (false, format!("the coordinator answered {status}: {}", text.trim())),
    };
    Err(match status.as_u16() {
        503 if busy => Failure::Timeout(message),
        400 | 401 | 403 | 404 | 405 | 413 | 414 | 415 | 422 => Failure::Usage(message),
        408 | 504 => Failure::Timeout(message),
        502 | 503 => Failure::Unreachable(message),
        _ => Failure::No(message),
    })
}
