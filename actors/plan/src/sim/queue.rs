//! Events in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue ordered by time, then by order of insertion.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    items: Vec<Option<T>>,
    free: Vec<usize>,
    count: u64,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), count: 0 }
    }

    pub(super) fn push(&mut self, at: u64, item: T) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[index] = Some(item);
        self.heap.push(Reverse((at, self.count, index)));
        self.count += 1;
    }

    /// The next event with its time.
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        while let Some(Reverse((at, _, index))) = self.heap.pop() {
            if let Some(item) = self.items[index].take() {
                self.free.push(index);
                return Some((at, item));
            }
        }
        None
    }

    /// Puts off what `by` names a time for. Says whether there was any.
    pub(super) fn delay(&mut self, mut by: impl FnMut(&T) -> Option<u64>) -> bool {
        let mut hit = false;
        let all = std::mem::take(&mut self.heap).into_sorted_vec();
        for Reverse((at, count, index)) in all.into_iter().rev() {
            let more = self.items[index].as_ref().and_then(&mut by);
            hit |= more.is_some();
            self.heap.push(Reverse((at + more.unwrap_or(0), count, index)));
        }
        hit
    }

    /// Everything that is to come.
    pub(super) fn pending(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }
}
