//! Errors as people read them.

use std::error::Error;

use ractor::SpawnErr;

/// An error with everything behind it, outermost first.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// Why an actor did not start, with everything behind it: what its own start ended with, or that of one that it starts.
#[must_use]
pub fn startup(error: &SpawnErr) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(SpawnErr::StartupFailed(inner)) = cause.downcast_ref() {
        cause = inner.as_ref();
    }
    chain(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::JournalError;

    #[test]
    fn what_the_system_said_is_told_however_deep_it_happened() {
        let system = std::io::Error::from_raw_os_error(24);
        let said = format!("the coordinator's journal cannot be made durable: {system}");
        let failed = JournalError::Flush(Box::new(system));
        assert_eq!(chain(&failed), said);
        let inner = SpawnErr::StartupFailed(Box::new(failed));
        assert_eq!(startup(&SpawnErr::StartupFailed(Box::new(inner))), said);
    }
}
