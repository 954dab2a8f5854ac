//! Rules that tests break on purpose, one at a time, to see that the histories notice.
//!
//! Engine and holder run with [`Rules::SOUND`] unless built by a test. Each rule is asked for at the one place it governs.

/// Which rules hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules(Option<Breach>);

/// One rule that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// A node reports, and the engine commits, without the shadows' gradients.
    ShadowAcknowledgesLate,
    /// A step is committed when all counted holders but one are prepared.
    CommitBeforeAllPrepared,
    /// A fence drops prepared gradients.
    PreparedDroppedByFence,
    /// A holder frees what the plan does not name when it is deployed, not when all are ready.
    FreedTooEarly,
    /// Versions are compared by step number, and nobody asks which deployment they come from.
    VersionByNumberOnly,
    /// After a fence, one prepared holder of any interval is taken for all intervals.
    OnePreparedCopyForAll,
    /// A restarted coordinator counts generations from where its flushed journal ends, in the same incarnation.
    GenerationReused,
    /// State and records from before a rollback are taken.
    ZombieInventoryAccepted,
    /// A step that a holder applied is committed again by a new record.
    RecordRecomputed,
    /// A shadow is reported filled when the fill is ordered.
    FillCountedEarly,
    /// A node goes on updating while it sends a fill.
    FillSourceMoves,
    /// A holder of an older version is listed as a source.
    StaleSource,
    /// A repeated commit is applied again.
    UpdateTwice,
    /// A fence is answered while an update runs.
    FenceAnsweredMidUpdate,
    /// Holders are told that records are flushed when they are only written.
    WatermarkAhead,
    /// Training starts when the first node is ready.
    StartBeforeAllReady,
    /// Messages of older generations are obeyed.
    OldGenerationObeyed,
    /// What does not come is waited for without end.
    NoWatchdog,
    /// When nothing moves, whoever has not reported is evicted, hung or waiting for the one that is.
    MuteEvicted,
    /// Whoever is stuck in one piece of work is evicted, whether or not the others hold everything.
    StuckEvicted,
}

impl Breach {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::ShadowAcknowledgesLate,
        Self::CommitBeforeAllPrepared,
        Self::PreparedDroppedByFence,
        Self::FreedTooEarly,
        Self::VersionByNumberOnly,
        Self::OnePreparedCopyForAll,
        Self::GenerationReused,
        Self::ZombieInventoryAccepted,
        Self::RecordRecomputed,
        Self::FillCountedEarly,
        Self::FillSourceMoves,
        Self::StaleSource,
        Self::UpdateTwice,
        Self::FenceAnsweredMidUpdate,
        Self::WatermarkAhead,
        Self::StartBeforeAllReady,
        Self::OldGenerationObeyed,
        Self::NoWatchdog,
        Self::MuteEvicted,
        Self::StuckEvicted,
    ];
}

impl Rules {
    /// Every rule holds.
    pub const SOUND: Self = Self(None);

    /// All rules but one.
    #[must_use]
    pub fn without(rule: Breach) -> Self {
        Self(Some(rule))
    }

    /// Whether this rule is the broken one.
    #[must_use]
    pub(crate) fn breaks(self, rule: Breach) -> bool {
        self.0 == Some(rule)
    }
}
