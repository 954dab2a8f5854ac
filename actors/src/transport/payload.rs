//! Bulk elements on their way from one arena to another: no copy on the sending side, one on the receiving side.
//!
//! TP-1 (ranges lie in the buffer): ranges of a payload are parts of its source.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use shoal_config::spec::Dtype;
use shoal_model::half;
use shoal_wire::data::Header;

/// Elements that outlive a transfer, in whatever keeps them.
pub trait BulkSource: Send + Sync + 'static {
    /// All of them.
    fn elements(&self) -> &[f32];
}

impl BulkSource for Vec<f32> {
    fn elements(&self) -> &[f32] {
        self
    }
}

/// Ranges of shared buffers, sent one after the other.
#[derive(Clone)]
pub struct Payload {
    parts: Vec<(Arc<dyn BulkSource>, Range<usize>)>,
}

impl Payload {
    /// A whole buffer.
    #[must_use]
    pub fn whole(source: Arc<dyn BulkSource>) -> Self {
        let range = 0..source.elements().len();
        Self { parts: vec![(source, range)] }
    }

    /// Some ranges of a buffer.
    ///
    /// # Panics
    /// If a range lies outside the buffer.
    #[must_use]
    pub fn ranges(source: Arc<dyn BulkSource>, ranges: Vec<Range<usize>>) -> Self {
        let len = source.elements().len();
        for range in &ranges {
            assert!(
                range.start <= range.end && range.end <= len,
                "TP-1 (ranges lie in the buffer): {range:?} of {len}"
            );
        }
        Self { parts: ranges.into_iter().map(|range| (Arc::clone(&source), range)).collect() }
    }

    /// This, then `other`, as one transfer.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Elements in all ranges.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.parts.iter().map(|(_, range)| range.len() as u64).sum()
    }

    /// The elements, for peers of a test that live in one process.
    #[cfg(test)]
    pub(crate) fn gather(&self) -> Vec<f32> {
        self.parts.iter().flat_map(|(source, range)| source.elements()[range.clone()].iter().copied()).collect()
    }

    /// The ranges as little-endian bytes of the asked type. f32 share the buffers, which are free again once all is dropped;
    /// others are made [`BLOCK`] elements at a time, as they are asked for.
    pub(super) fn chunks(self, dtype: Dtype) -> impl Iterator<Item = Bytes> + Send {
        let half = half(dtype);
        let most = if half.is_some() { BLOCK } else { usize::MAX };
        let parts = self.parts.into_iter().flat_map(move |(source, range)| {
            let starts = range.clone().step_by(most);
            starts.map(move |start| (Arc::clone(&source), start..range.end.min(start.saturating_add(most))))
        });
        parts.map(move |(source, range)| match half {
            None => Bytes::from_owner(Held { source, range }),
            Some(half) => source.elements()[range].iter().flat_map(|x| half.bits(*x).to_le_bytes()).collect(),
        })
    }
}

/// Elements of a half type that are under way between two types at once, at either end: 64 KiB.
pub(super) const BLOCK: usize = 32 << 10;

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} elements in {} ranges)", self.elements(), self.parts.len())
    }
}

struct Held {
    source: Arc<dyn BulkSource>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.source.elements()[self.range.clone()])
    }
}

/// A buffer that a transfer fills.
pub trait BulkTarget: Any + Send {
    /// All of it; as long as the header says.
    fn elements_mut(&mut self) -> &mut [f32];
    /// To get the concrete buffer back: `*buffer.into_any().downcast::<B>()`.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl BulkTarget for Vec<f32> {
    fn elements_mut(&mut self) -> &mut [f32] {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

impl fmt::Debug for dyn BulkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BulkTarget")
    }
}

/// Where the elements of one transfer go.
pub type Destination = Box<dyn BulkTarget>;

/// Says where received elements go. Called on the transport's thread: it must not wait.
pub trait BulkSink: Send + Sync + 'static {
    /// A buffer of exactly `header.elements` elements, or why the transfer is unwanted. The header is bounded and names
    /// the peer that sent it; generation, job, purpose and size are for the sink to judge.
    ///
    /// # Errors
    /// The transfer is stopped at its sender, which gets the reason; the connection goes on.
    fn accept(&self, header: &Header) -> Result<Destination, Refused>;
}

/// A sink that wants nothing: for a process without tensors.
#[derive(Clone, Copy, Debug)]
pub struct NoBulk;

impl BulkSink for NoBulk {
    fn accept(&self, _: &Header) -> Result<Destination, Refused> {
        Err(Refused::Unknown)
    }
}

/// Why a transfer is unwanted. Crosses the wire as the code of the stopped stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It belongs to an older generation.
    #[error("it belongs to a generation that is over")]
    Stale,
    /// Nobody here expects it.
    #[error("nobody expects it")]
    Unknown,
    /// The arena has no room for it.
    #[error("there is no room for it")]
    NoRoom,
    /// The header is too long, cannot be read, or claims another sender.
    #[error("its header is not valid")]
    Header,
    /// There are more, or fewer, elements than the header says.
    #[error("it has another length than its header says")]
    Length,
    /// Nothing more of it came.
    #[error("nothing of it came for too long")]
    Stalled,
}

impl Refused {
    const ALL: [Self; 6] = [Self::Stale, Self::Unknown, Self::NoRoom, Self::Header, Self::Length, Self::Stalled];

    pub(super) fn code(self) -> u32 {
        match self {
            Self::Stale => 1,
            Self::Unknown => 2,
            Self::NoRoom => 3,
            Self::Header => 4,
            Self::Length => 5,
            Self::Stalled => 6,
        }
    }

    pub(super) fn of_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|refused| u64::from(refused.code()) == code)
    }
}

#[cfg(target_endian = "big")]
compile_error!("bulk elements are sent as they lie in memory, which must be little-endian");
