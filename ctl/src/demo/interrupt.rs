//! Ctrl-C and SIGTERM as a question that loops ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Whether the operator wants it to end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on signals only raise a flag, so that whoever owns processes can end them first.
    ///
    /// # Errors
    /// If the system refuses the handler.
    pub fn install() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&flag);
        ctrlc::set_handler(move || raised.store(true, Ordering::Relaxed))
            .map_err(|error| Failure::No(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(Self(flag))
    }

    /// Goes on, or fails if the operator wants it to end.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    pub fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }
}
