//! What will happen, ordered by time and then by when it was asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// A model asked for it. Dropped if the function was reset or removed since (`epoch`).
    Device { function: usize, epoch: u64, token: u64 },
    /// A delayed posted write reaches its function.
    Posted { function: usize },
}

#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, Action)>>,
    sequence: u64,
}

impl EventQueue {
    pub fn push(&mut self, due_ns: u64, action: Action) {
        self.sequence += 1;
        self.heap.push(Reverse((due_ns, self.sequence, action)));
    }

    pub fn next_due(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    pub fn pop_due(&mut self, limit_ns: u64) -> Option<(u64, Action)> {
        if self.next_due()? > limit_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((due, _, action))| (due, action))
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_first_and_equal_times_keep_their_order() {
        let mut queue = EventQueue::default();
        for (due, function) in [(20, 0), (10, 3), (10, 1), (10, 2)] {
            queue.push(due, Action::Posted { function });
        }
        assert_eq!(queue.next_due(), Some(10));
        assert_eq!(queue.pop_due(9), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_due(15)).collect();
        let expected = [3, 1, 2].map(|function| (10, Action::Posted { function }));
        assert_eq!(order, expected);
        assert_eq!(queue.len(), 1);
    }
}
