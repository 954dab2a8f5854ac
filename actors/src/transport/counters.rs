//! Bytes and messages, counted where they enter and leave a connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shoal_plan::ids::JobId;
use shoal_wire::api::TrafficLine;
use shoal_wire::data::TrafficKind;

use super::peer::PeerId;

/// What one line counts. Payload of a control message is its postcard; of a bulk transfer, its elements.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: OneWay,
    pub(super) received: OneWay,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct OneWay {
    payload: AtomicU64,
    framing: AtomicU64,
    messages: AtomicU64,
}

impl OneWay {
    pub(super) fn payload(&self, bytes: usize) {
        self.payload.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn framing(&self, bytes: usize) {
        self.framing.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// One message is complete.
    pub(super) fn message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }
}

type Key = (PeerId, TrafficKind, Option<JobId>);

/// All lines of one endpoint. They outlive connections.
#[derive(Debug, Default)]
pub(super) struct Counters {
    lines: Mutex<BTreeMap<Key, Arc<Counts>>>,
}

impl Counters {
    /// The line of a peer and kind; bulk transfers are also kept apart by job.
    pub(super) fn line(&self, peer: PeerId, kind: TrafficKind, job: Option<JobId>) -> Arc<Counts> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry((peer, kind, job)).or_default())
    }

    /// Bulk of one job, or everything there is.
    pub(super) fn snapshot(&self, of: Option<JobId>) -> Vec<TrafficLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<(PeerId, TrafficKind), TrafficLine> = BTreeMap::new();
        for ((peer, kind, job), counts) in lines.iter() {
            if of.is_some() && of != *job {
                continue;
            }
            let line = sums.entry((*peer, *kind)).or_insert_with(|| TrafficLine {
                peer: peer.to_string(),
                purpose: kind.word().to_owned(),
                ..TrafficLine::default()
            });
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            line.bytes_sent += read(&counts.sent.payload);
            line.messages_sent += read(&counts.sent.messages);
            line.framing_sent += read(&counts.sent.framing);
            line.bytes_received += read(&counts.received.payload);
            line.messages_received += read(&counts.received.messages);
            line.framing_received += read(&counts.received.framing);
        }
        let silent = |line: &TrafficLine| {
            line.framing_sent == 0 && line.framing_received == 0 && line.bytes_sent == 0 && line.bytes_received == 0
        };
        sums.into_values().filter(|line| !silent(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_plan::ids::NodeId;

    #[test]
    fn lines_add_up_over_jobs_and_can_be_told_apart() {
        let counters = Counters::default();
        let peer = PeerId::Worker(NodeId(3));
        for (job, bytes) in [(1, 100), (2, 20), (1, 3)] {
            let line = counters.line(peer, TrafficKind::Weights, Some(JobId(job)));
            line.sent.payload(bytes);
            line.sent.framing(7);
            line.sent.message();
        }
        counters.line(peer, TrafficKind::Control, None).received.payload(9);
        let all = counters.snapshot(None);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].purpose.as_str(), all[0].bytes_received), ("control", 9));
        assert_eq!(
            (all[1].peer.as_str(), all[1].bytes_sent, all[1].messages_sent, all[1].framing_sent),
            ("n3", 123, 3, 21)
        );
        let one = counters.snapshot(Some(JobId(1)));
        assert_eq!((one.len(), one[0].bytes_sent, one[0].messages_sent), (1, 103, 2));
    }
}
