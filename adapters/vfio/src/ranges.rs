//! Free and taken addresses.

use std::collections::BTreeMap;

/// What an address must be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// A multiple of this, a power of two.
    pub align: u64,
    /// The last byte is at most here.
    pub last: u64,
    /// A piece that is not larger does not cross a multiple of this, a power of two; 0 for none.
    pub boundary: u64,
}

/// A set of addresses from which pieces are taken, from the top down: what lies low is left for
/// devices that reach no higher.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// First and last address of each free range. They neither touch nor overlap.
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Everything in `ranges` (first and last address) is free.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all = Self::default();
        for (first, last) in ranges {
            if first <= last {
                // What is free twice is free.
                all.exclude(first, last);
                all.insert(first, last);
            }
        }
        all
    }

    /// Takes away `first..=last`, as far as it is free.
    pub fn exclude(&mut self, first: u64, last: u64) {
        let touched: Vec<_> = self
            .free
            .range(..=last)
            .rev()
            .take_while(|(_, end)| **end >= first)
            .map(|(a, b)| (*a, *b))
            .collect();
        for (start, end) in touched {
            self.free.remove(&start);
            if start < first {
                self.free.insert(start, first - 1);
            }
            if end > last {
                self.free.insert(last + 1, end);
            }
        }
    }

    /// Takes `size` bytes that fit; `None` if there are none.
    pub fn allocate(&mut self, size: u64, fit: &Fit) -> Option<u64> {
        let found = self.free.range(..=fit.last).rev().find_map(|(start, end)| {
            let at = highest(*start, (*end).min(fit.last), size, fit)?;
            Some((*start, *end, at))
        });
        let (start, end, at) = found?;
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at - 1);
        }
        let last = at + (size - 1);
        if last < end {
            self.free.insert(last + 1, end);
        }
        Some(at)
    }

    /// Gives `size` bytes at `at` back. False, and nothing is changed, if they are not all taken.
    pub fn release(&mut self, at: u64, size: u64) -> bool {
        let Some(last) = size.checked_sub(1).and_then(|more| at.checked_add(more)) else { return false };
        if self.free.range(..=last).next_back().is_some_and(|(_, end)| *end >= at) {
            return false;
        }
        self.insert(at, last);
        true
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u128 {
        self.free.iter().map(|(first, last)| u128::from(last - first) + 1).sum()
    }

    /// Inserts what is not free, and joins it to its neighbours.
    fn insert(&mut self, mut first: u64, mut last: u64) {
        if let Some((start, end)) = self.free.range(..first).next_back().map(|(a, b)| (*a, *b))
            && end.checked_add(1) == Some(first)
        {
            first = start;
        }
        if let Some(next) = last.checked_add(1)
            && let Some(end) = self.free.remove(&next)
        {
            last = end;
        }
        self.free.insert(first, last);
    }
}

/// The highest fitting place for `size` bytes in `start..=end`.
fn highest(start: u64, end: u64, size: u64, fit: &Fit) -> Option<u64> {
    let down = |at: u64| at & !(fit.align.max(1) - 1);
    let more = size.checked_sub(1)?;
    let mut at = down(end.checked_sub(more)?);
    if fit.boundary != 0 && size <= fit.boundary {
        let line = (at + more) & !(fit.boundary - 1);
        if line > at {
            // Alignment up to the boundary keeps the place above the line before; beyond it, every
            // place is on a line.
            at = down(line.checked_sub(size)?);
        }
    }
    (at >= start).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: Fit = Fit { align: 1, last: u64::MAX, boundary: 0 };

    #[test]
    fn pieces_come_from_the_top_below_the_mask() {
        let mut r = Ranges::new([(0x1000, 0xffff), (0x1_0000_0000, u64::MAX)]);
        let page = Fit { align: 0x1000, ..ANY };
        assert_eq!(r.allocate(0x1000, &page), Some(0xffff_ffff_ffff_f000));
        assert_eq!(r.allocate(0x1000, &Fit { last: 0xffff_ffff, ..page }), Some(0xf000));
        assert_eq!(r.allocate(0x10_0000, &Fit { last: 0xffff_ffff, ..page }), None);
        assert_eq!(r.allocate(0, &page), None);
    }

    #[test]
    fn excluded_windows_split_and_shrink_what_is_free() {
        let mut r = Ranges::new([(0, 0xffff_ffff)]);
        r.exclude(0xfee0_0000, 0xfeef_ffff);
        r.exclude(0, 0xffff);
        assert_eq!(r.free_bytes(), (1 << 32) - (1 << 20) - (1 << 16));
        assert_eq!(r.allocate(0xfede_0000, &Fit { align: 0x1_0000, ..ANY }), Some(0x2_0000));
    }

    #[test]
    fn a_piece_no_larger_than_the_boundary_does_not_cross_it() {
        let mut r = Ranges::new([(0, 0x1_07ff)]);
        let fit = Fit { boundary: 0x1_0000, ..ANY };
        assert_eq!(r.allocate(0x1000, &fit), Some(0xf000));
        assert_eq!(r.allocate(0x800, &fit), Some(0x1_0000));
    }

    #[test]
    fn the_end_of_the_address_space_is_usable_and_nothing_is_given_back_twice() {
        let mut r = Ranges::new([(u64::MAX - 0xfff, u64::MAX)]);
        assert_eq!(r.allocate(0x1000, &ANY), Some(u64::MAX - 0xfff));
        assert_eq!(r.allocate(1, &ANY), None);
        assert!(!r.release(u64::MAX, 2) && !r.release(5, 0));
        assert!(r.release(u64::MAX - 0xfff, 0x1000));
        assert!(!r.release(u64::MAX, 1), "free already");
    }

    proptest! {
        /// Against the plainest model: a bit for each byte of a small space.
        #[test]
        fn pieces_never_overlap_and_all_comes_back(
            ops in prop::collection::vec((1u64..80, 0u32..7, 0u64..600, prop::sample::select(vec![0u64, 16, 64])), 1..60),
            holes in prop::collection::vec((0u64..512, 0u64..40), 0..4),
        ) {
            let mut ranges = Ranges::new([(0, 255), (256, 511)]);
            let mut taken = [false; 512];
            for (first, more) in holes {
                let last = (first + more).min(511);
                ranges.exclude(first, last);
                (first..=last).for_each(|i| taken[i as usize] = true);
            }
            let whole = ranges.free_bytes();
            prop_assert_eq!(whole, taken.iter().filter(|t| !**t).count() as u128);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (size, order, last, boundary) in ops {
                let fit = Fit { align: 1 << order, last, boundary };
                let fits = |at: u64| {
                    let end = at + size - 1;
                    end <= last.min(511)
                        && at & (fit.align - 1) == 0
                        && (boundary == 0 || size > boundary || at / boundary == end / boundary)
                        && (at..=end).all(|i| !taken[i as usize])
                };
                let best = (0..512).rev().find(|at| fits(*at));
                let got = ranges.allocate(size, &fit);
                prop_assert_eq!(got.is_some(), best.is_some());
                if let Some(at) = got {
                    prop_assert!(fits(at));
                    (at..at + size).for_each(|i| taken[i as usize] = true);
                    held.push((at, size));
                } else if let Some((at, size)) = held.pop() {
                    prop_assert!(ranges.release(at, size));
                    prop_assert!(!ranges.release(at, size));
                    (at..at + size).for_each(|i| taken[i as usize] = false);
                }
            }
            for (at, size) in held {
                prop_assert!(ranges.release(at, size));
            }
            prop_assert_eq!(ranges.free_bytes(), whole);
        }
    }
}
