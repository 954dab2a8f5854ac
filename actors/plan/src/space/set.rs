//! Sets of elements of one block's space, as sorted runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Interval;

/// Elements of one block: sorted, disjoint intervals with a gap between neighbours, so equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntervalSet {
    runs: Vec<Interval>,
}

impl IntervalSet {
    /// No element.
    pub const EMPTY: Self = Self { runs: Vec::new() };

    /// The runs, ascending.
    #[must_use]
    pub fn runs(&self) -> &[Interval] {
        &self.runs
    }

    /// Elements in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Whether it has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds an interval; what was there stays.
    pub fn insert(&mut self, new: Interval) {
        let from = self.runs.partition_point(|run| run.end < new.start);
        let to = self.runs.partition_point(|run| run.start <= new.end);
        let mut merged = new;
        if from < to {
            merged.start = merged.start.min(self.runs[from].start);
            merged.end = merged.end.max(self.runs[to - 1].end);
        }
        self.runs.splice(from..to, [merged]);
    }

    /// Takes an interval out.
    pub fn remove(&mut self, gone: Interval) {
        let touched = self.touching(gone);
        let mut kept = Vec::with_capacity(2);
        for run in &self.runs[touched.clone()] {
            if run.start < gone.start {
                kept.push(Interval::new(run.start, gone.start));
            }
            if gone.end < run.end {
                kept.push(Interval::new(gone.end, run.end));
            }
        }
        self.runs.splice(touched, kept);
    }

    /// Elements in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.runs.iter().chain(&other.runs).copied().collect()
    }

    /// Elements in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        let mut runs = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            runs.extend(x.intersection(**y));
            if x.end <= y.end {
                a.next()
            } else {
                b.next()
            };
        }
        Self { runs }
    }

    /// Elements of this one that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for run in &other.runs {
            left.remove(*run);
        }
        left
    }

    /// Whether all of `interval` is in it.
    #[must_use]
    pub fn contains(&self, interval: Interval) -> bool {
        let at = self.runs.partition_point(|run| run.end < interval.end);
        self.runs.get(at).is_some_and(|run| run.start <= interval.start)
    }

    /// The part inside `interval`.
    #[must_use]
    pub fn within(&self, interval: Interval) -> Self {
        Self { runs: self.runs[self.touching(interval)].iter().filter_map(|r| r.intersection(interval)).collect() }
    }

    /// What `interval` has and the set has not.
    #[must_use]
    pub fn missing_from(&self, interval: Interval) -> Self {
        let mut missing = Self::from(interval);
        for run in &self.runs[self.touching(interval)] {
            missing.remove(*run);
        }
        missing
    }

    /// Elements of `interval` that are in the set.
    #[must_use]
    pub fn count_in(&self, interval: Interval) -> u64 {
        self.runs[self.touching(interval)].iter().filter_map(|r| r.intersection(interval)).map(Interval::len).sum()
    }

    /// The runs cut at every one of `edges` (ascending) that lies inside one.
    #[must_use]
    pub fn split_at(&self, edges: &[u64]) -> Vec<Interval> {
        let mut parts = Vec::with_capacity(self.runs.len() + edges.len());
        for run in &self.runs {
            let mut start = run.start;
            let first = edges.partition_point(|&edge| edge <= run.start);
            for &edge in edges[first..].iter().take_while(|&&edge| edge < run.end) {
                if edge > start {
                    parts.push(Interval::new(start, edge));
                    start = edge;
                }
            }
            parts.push(Interval::new(start, run.end));
        }
        parts
    }

    /// Indices of the runs that share an element with `interval`.
    fn touching(&self, interval: Interval) -> std::ops::Range<usize> {
        let from = self.runs.partition_point(|run| run.end <= interval.start);
        let to = self.runs.partition_point(|run| run.start < interval.end);
        from..to.max(from)
    }
}

impl From<Interval> for IntervalSet {
    fn from(interval: Interval) -> Self {
        Self { runs: vec![interval] }
    }
}

impl FromIterator<Interval> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut set = Self::EMPTY;
        for interval in intervals {
            set.insert(interval);
        }
        set
    }
}

impl fmt::Display for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return f.write_str("nothing");
        }
        for (i, run) in self.runs.iter().enumerate() {
            write!(f, "{}{run}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
