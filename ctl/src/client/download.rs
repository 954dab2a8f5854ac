//! A body as it comes, and why it does not come whole.

use std::io::{self, ErrorKind, Read};

use shoal_wire::api::{ApiError, DOWNLOAD_HEADER};

use super::answer::Answer;
use super::{Client, QUICK};

/// Bytes of an answer. A read that fails gives [`Told`], if the coordinator says why.
pub struct Download {
    client: Client,
    /// What the coordinator knows it by.
    number: Option<String>,
    body: ureq::BodyReader<'static>,
}

/// Why the coordinator did not go on, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Told(pub String);

impl Download {
    pub(super) fn of(client: Client, answer: Answer) -> Self {
        let number = answer.headers().get(DOWNLOAD_HEADER).and_then(|number| number.to_str().ok());
        Self { client, number: number.map(str::to_owned), body: answer.into_body().into_reader() }
    }

    fn reason(&self) -> Option<Told> {
        let number = self.number.as_ref()?;
        // Without an answer, what the read said is all that is known.
        let reason: Option<ApiError> = self.client.get(&format!("downloads/{number}"), QUICK).ok();
        reason.map(|reason| Told(reason.message))
    }
}

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.body.read(out).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            _ => self.reason().map_or(error, io::Error::other),
        })
    }
}
