//! The loader of one job on one worker: a child of the job's holder. Owns the token files, reads windows on demand: the
//! credit is a pass, since nobody asks for the next one before its walk begins.
//!
//! Files are read on the blocking pool, one request after the other.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};
use shoal_plan::job::Job;

use super::checked::Checked;

/// Which tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Training tokens.
    Train,
    /// Validation tokens.
    Validation,
}

/// Tokens of some windows, micro-batch by micro-batch, or what was found instead.
pub type Windows = Result<Vec<Vec<u32>>, String>;

/// Takes the answer to a request.
pub type Reply = Box<dyn FnOnce(Windows) + Send>;

/// What the loader is told.
pub enum LoaderMsg {
    /// Open the files and hold them against what was submitted.
    Open,
    /// Read windows; one list of tokens for each list of windows.
    Read(Split, Vec<Vec<Range<u64>>>, Reply),
}

impl fmt::Debug for LoaderMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("Open"),
            Self::Read(split, windows, _) => write!(f, "Read({split:?}, {} micro-batches)", windows.len()),
        }
    }
}

/// A handle on a job's loader.
#[derive(Clone, Debug)]
pub struct Loader(ActorRef<LoaderMsg>);

impl Loader {
    /// A handle on this actor.
    #[must_use]
    pub fn new(actor: ActorRef<LoaderMsg>) -> Self {
        Self(actor)
    }

    /// Which actor it is.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.0.get_id()
    }

    /// Asks for windows; `reply` is called from the loader's task and should only pass the answer on.
    pub fn read(&self, split: Split, windows: Vec<Vec<Range<u64>>>, reply: Reply) {
        if let Err(error) = self.0.cast(LoaderMsg::Read(split, windows, reply)) {
            tracing::warn!(%error, "loader is gone");
        }
    }
}

/// The loader's actor.
#[derive(Debug)]
pub struct LoaderActor;

/// Where its files stand.
#[derive(Debug)]
pub struct LoaderState {
    job: Arc<Job>,
    corpus: Opened,
}

#[derive(Clone, Debug)]
enum Opened {
    NotYet,
    Good(Arc<Checked>),
    /// What was found.
    Bad(String),
}

impl Actor for LoaderActor {
    type Msg = LoaderMsg;
    type State = LoaderState;
    type Arguments = Arc<Job>;

    async fn pre_start(&self, me: ActorRef<LoaderMsg>, job: Arc<Job>) -> Result<LoaderState, ActorProcessingErr> {
        me.cast(LoaderMsg::Open)?;
        Ok(LoaderState { job, corpus: Opened::NotYet })
    }

    async fn handle(
        &self,
        _: ActorRef<LoaderMsg>,
        message: LoaderMsg,
        state: &mut LoaderState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LoaderMsg::Open => {
                let job = Arc::clone(&state.job);
                state.corpus = match tokio::task::spawn_blocking(move || Checked::open(&job)).await? {
                    Ok(checked) => Opened::Good(Arc::new(checked)),
                    Err(error) => {
                        let found = crate::chain(&error);
                        tracing::warn!(found, "data refused");
                        Opened::Bad(found)
                    }
                };
            }
            LoaderMsg::Read(split, windows, reply) => match state.corpus.clone() {
                Opened::Good(checked) => {
                    let job = Arc::clone(&state.job);
                    let read = move || checked.read(&job, split, &windows).map_err(|error| crate::chain(&error));
                    reply(tokio::task::spawn_blocking(read).await?);
                }
                Opened::Bad(found) => reply(Err(found)),
                Opened::NotYet => reply(Err("the data was never opened".to_owned())),
            },
        }
        Ok(())
    }
}
