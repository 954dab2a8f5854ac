//! What goes wrong, as an answer.

use std::sync::Arc;
use std::{fmt, io};

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use shoal_actors::chain;
use shoal_actors::coordinator::RequestError;
use shoal_actors::coordinator::written::CatalogueError;
use shoal_model::files::{AsideError, Unfit, WriteError};
use shoal_plan::digest::DigestError;
use shoal_plan::ids::JobId;
use shoal_wire::api::ApiError;

/// Why a request is not answered as asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The coordinator says no.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The coordinator did not answer in time.
    #[error("the coordinator did not answer within {seconds} s; it may be starting again, ask again")]
    NoAnswer {
        /// How long was waited.
        seconds: u64,
    },
    /// The coordinator's actor is gone.
    #[error("the coordinator is stopping; `shoalctl up` starts it again")]
    Gone,
    /// The body or path is not what the route takes.
    #[error("{0}")]
    Malformed(String),
    /// Part of a written state is not there.
    #[error("{missing}; {absent}")]
    Written {
        /// What is not.
        missing: CatalogueError,
        /// Who may have it.
        absent: Arc<Absent>,
    },
    /// The written pieces make no digest.
    #[error("the written pieces that are here do not make up the state of step {step}; {absent}")]
    Digest {
        /// Of this step.
        step: u64,
        /// Who may have the rest.
        absent: Arc<Absent>,
        /// Why.
        #[source]
        source: DigestError,
    },
    /// Not from this machine.
    #[error(
        "{header} is `{found}`, and only programs and pages of this machine are served; ask under the IP address in \
         coordinator.addr or as localhost"
    )]
    Foreign {
        /// The header that says so.
        header: &'static str,
        /// Its value.
        found: String,
    },
    /// Not by somebody who may read the cluster directory.
    #[error(
        "the cluster's token is needed and {found} was sent; send `Authorization: Bearer` with the content of \
         coordinator.token in the cluster directory, which only its owner can read"
    )]
    Token {
        /// What was sent.
        found: &'static str,
    },
    /// More than any body of this interface.
    #[error("the body is larger than anything this takes: {0}")]
    TooLarge(String),
    /// As many models are being written out as may be.
    #[error(
        "{most} models are being written out just now, and each takes memory of the coordinator's; ask again when one is done"
    )]
    Busy {
        /// At once.
        most: usize,
    },
    /// Weights that the type asked for does not hold.
    #[error(transparent)]
    Unfit(Unfit),
    /// What is put together on a disk cannot be there.
    #[error(transparent)]
    Aside(AsideError),
    /// Who asked does not take it.
    #[error("the answer was not taken")]
    Untaken(#[source] io::Error),
    /// A download of which no reason is known.
    #[error(
        "nothing is known of a download {number} that broke off; the log of the coordinator has what went wrong in it"
    )]
    NoReason {
        /// As asked.
        number: u64,
    },
    /// What the HTTP library refuses.
    #[error("the request cannot be understood: {said}")]
    Library {
        /// With which status.
        status: StatusCode,
        /// In which words.
        said: String,
    },
    /// A state that is gone.
    #[error(
        "{job} is at step {step}, and the state of step {at} was not written while it was there; possible are the steps \
         from {step} to {steps}, and those that an export has written"
    )]
    Past {
        /// The job.
        job: JobId,
        /// What was asked for.
        at: u64,
        /// Committed steps.
        step: u64,
        /// Steps in all.
        steps: u64,
    },
    /// No such route.
    #[error("there is no {method} {path}; this is version 1 of the interface")]
    NoRoute {
        /// As asked.
        method: Method,
        /// As asked.
        path: String,
    },
}

/// Nodes that had pieces and are not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Absent {
    /// Their names, as far as they are known.
    pub(super) names: Vec<String>,
    /// How many nodes are here.
    pub(super) here: usize,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("start the nodes that have the rest");
        }
        write!(
            f,
            "{} had pieces of it and do not run; `shoalctl up --nodes {}` starts stopped workers of its machine again, those \
             with written pieces first",
            self.names.join(", "),
            self.here + self.names.len()
        )
    }
}

impl Fault {
    /// What is said of it.
    pub(super) fn told(&self) -> ApiError {
        ApiError { error: self.word().1.to_owned(), message: chain(self) }
    }

    fn word(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Request(RequestError::NoJob(_)) => (StatusCode::NOT_FOUND, "no_job"),
            Self::Request(RequestError::NoNode(_)) => (StatusCode::NOT_FOUND, "no_node"),
            Self::Request(RequestError::NoStep { .. }) => (StatusCode::NOT_FOUND, "no_step"),
            Self::Request(RequestError::Data(_) | RequestError::Weights(_)) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "data")
            }
            Self::Request(RequestError::Layout(_)) => (StatusCode::UNPROCESSABLE_ENTITY, "layout"),
            Self::Request(RequestError::Unread(_)) => (StatusCode::CONFLICT, "unread"),
            Self::Request(RequestError::Refused(_)) => (StatusCode::CONFLICT, "refused"),
            Self::Request(RequestError::Stopping) | Self::Gone => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Self::NoAnswer { .. } => (StatusCode::GATEWAY_TIMEOUT, "no_answer"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
            Self::Foreign { .. } => (StatusCode::FORBIDDEN, "foreign"),
            Self::Token { .. } => (StatusCode::UNAUTHORIZED, "token"),
            Self::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::Library { status, .. } => (*status, "malformed"),
            Self::Written { missing: CatalogueError::Missing { .. }, .. } => (StatusCode::CONFLICT, "not_written"),
            Self::Digest { .. } | Self::Past { .. } => (StatusCode::CONFLICT, "not_written"),
            Self::Unfit(_) => (StatusCode::UNPROCESSABLE_ENTITY, "unfit"),
            Self::Aside(AsideError::NoRoom { .. }) => (StatusCode::INSUFFICIENT_STORAGE, "no_room"),
            Self::Aside(AsideError::Failed { .. }) => (StatusCode::INTERNAL_SERVER_ERROR, "aside"),
            Self::Untaken(_) => (StatusCode::REQUEST_TIMEOUT, "untaken"),
            Self::NoReason { .. } => (StatusCode::NOT_FOUND, "no_reason"),
            Self::NoRoute { .. } => (StatusCode::NOT_FOUND, "no_route"),
        }
    }
}

impl From<WriteError<Self>> for Fault {
    fn from(error: WriteError<Self>) -> Self {
        match error {
            WriteError::Read(fault) => fault,
            WriteError::Unfit(unfit) => Self::Unfit(unfit),
            WriteError::Aside(error) => Self::Aside(error),
            WriteError::Out(error) => Self::Untaken(error),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = (self.word().0, Json(self.told()));
        match self {
            Self::Busy { .. } => ([(RETRY_AFTER, "1")], body).into_response(),
            Self::Request(_)
            | Self::NoAnswer { .. }
            | Self::Gone
            | Self::Malformed(_)
            | Self::Written { .. }
            | Self::Digest { .. }
            | Self::Foreign { .. }
            | Self::Token { .. }
            | Self::TooLarge(_)
            | Self::Library { .. }
            | Self::Past { .. }
            | Self::Unfit(_)
            | Self::Aside(_)
            | Self::Untaken(_)
            | Self::NoReason { .. }
            | Self::NoRoute { .. } => body.into_response(),
        }
    }
}

pub(super) async fn no_route(method: Method, uri: Uri) -> Fault {
    Fault::NoRoute { method, path: uri.path().to_owned() }
}

pub(super) async fn no_method(method: Method, uri: Uri) -> Fault {
    Fault::NoRoute { method, path: uri.path().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_room_is_asked_for_where_room_is_missing() {
        let (tensor, dir, source) = ("turned".to_owned(), "/disk".into(), io::Error::other("why"));
        let fault = Fault::from(WriteError::Aside(AsideError::Failed { tensor, dir, source }));
        assert_eq!(fault.word(), (StatusCode::INTERNAL_SERVER_ERROR, "aside"));
        let (tensor, dir, source) = ("turned".to_owned(), "/disk".into(), io::Error::other("why"));
        let fault = Fault::from(WriteError::Aside(AsideError::NoRoom { tensor, bytes: 2, dir, leave: 1, source }));
        assert_eq!(fault.word(), (StatusCode::INSUFFICIENT_STORAGE, "no_room"));
    }

    #[test]
    fn what_is_missing_is_said_once() {
        let block = shoal_plan::ids::BlockId(0);
        let missing = CatalogueError::Missing { step: 0, block, kind: shoal_plan::space::Kind::Weight, at: 0 };
        let absent = Arc::new(Absent { names: vec!["w1".to_owned()], here: 0 });
        let said = Fault::Written { missing, absent }.told().message;
        assert_eq!(said.matches("are written on no node that is here").count(), 1, "{said}");
    }
}
