//! Questions that change nothing: answered from the holder of the job, or from what is written.

use std::time::Duration;

use ractor::ActorRef;
use shoal_plan::ids::JobId;
use shoal_wire::control::{Answer, FromWorker, Question};

use super::links::Links;
use crate::holder::HolderMsg;
use crate::written::{Shelf, WrittenError};

/// How long a holder may take to report.
const DEADLINE: Duration = Duration::from_secs(2);

/// Answers in a task of its own.
pub(super) fn answer(
    links: Links,
    shelf: Shelf,
    holder: Option<ActorRef<HolderMsg>>,
    request: u64,
    question: Question,
) {
    tokio::spawn(async move {
        let answer = match question {
            Question::Report { job } => report(shelf, holder, job).await,
            Question::Manifest { job } => blocking(move || shelf.manifest(job).map(Answer::Manifest)).await,
            Question::Written { job, step, block, kind, interval } => {
                blocking(move || shelf.read(job, step, (block, kind, interval)).map(Answer::Written)).await
            }
        };
        links.tell(FromWorker::Answer { request, answer });
    });
}

async fn report(shelf: Shelf, holder: Option<ActorRef<HolderMsg>>, job: JobId) -> Answer {
    if let Some(holder) = holder
        && let Ok(ractor::rpc::CallResult::Success(Some(report))) = holder.call(HolderMsg::Report, Some(DEADLINE)).await
    {
        return Answer::Report(report);
    }
    blocking(move || shelf.report(job).map(|report| Answer::Report(Box::new(report)))).await
}

async fn blocking(read: impl FnOnce() -> Result<Answer, WrittenError> + Send + 'static) -> Answer {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::Refused(crate::chain(&error)),
        Err(error) => Answer::Refused(error.to_string()),
    }
}
