//! What each of the two copies lacks.

use std::collections::BTreeMap;

use shoal_wire::journal::Entry;

/// What has to be written so that both copies hold the newest entry of every key.
#[derive(Debug, PartialEq)]
pub(super) struct Missing<'a> {
    pub(super) in_database: Vec<&'a Entry>,
    pub(super) in_log: Vec<&'a Entry>,
}

/// Either copy may have lost its end. Of two entries under one key the newer one says so itself (JN-1).
pub(super) fn missing<'a>(logged: &'a BTreeMap<Vec<u8>, Entry>, kept: &'a BTreeMap<Vec<u8>, Entry>) -> Missing<'a> {
    let stale = |other: &Entry, entry: &Entry| other != entry && other.revision() <= entry.revision();
    let in_database = logged.iter().filter(|(key, entry)| kept.get(*key).is_none_or(|kept| stale(kept, entry)));
    let older = |other: &Entry, entry: &Entry| other.revision() < entry.revision();
    let in_log = kept.iter().filter(|(key, entry)| logged.get(*key).is_none_or(|logged| older(logged, entry)));
    Missing {
        in_database: in_database.map(|(_, entry)| entry).collect(),
        in_log: in_log.map(|(_, entry)| entry).collect(),
    }
}
