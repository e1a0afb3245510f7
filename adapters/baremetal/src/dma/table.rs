//! Which parts of a range are in use.
//!
//! The table holds what is in use, in order; everything between is free. So a free needs no room,
//! neighbouring free parts are one by nature, and nothing of it lies in memory that a device can
//! write.

use arrayvec::ArrayVec;
use tombolo_hal::DmaAddr;
use tombolo_hal::dma::DmaConstraints;

/// A part of the range that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    offset: u64,
    size: u64,
    quarantined: bool,
}

/// Why there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No free part is large enough within the constraints.
    NoRoom,
    /// All entries are in use.
    TableFull,
}

/// At most `N` parts in use of a range that the device sees at `device`.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    device: u64,
    size: u64,
    used: ArrayVec<Used, N>,
}

impl<const N: usize> Table<N> {
    pub(super) const fn new(device: u64, size: u64) -> Self {
        Self { device, size, used: ArrayVec::new_const() }
    }

    /// The first free part for `size` bytes (not 0) that `limits` allow, aligned to `align` at least; as
    /// an offset into the range.
    pub(super) fn take(&mut self, size: u64, align: u64, limits: &DmaConstraints) -> Result<u64, Refused> {
        if self.used.is_full() {
            return Err(Refused::TableFull);
        }
        let align = align.max(limits.align).max(1);
        let mut free_from = 0;
        for index in 0..=self.used.len() {
            let next = self.used.get(index);
            let free_to = next.map_or(self.size, |used| used.offset);
            if let Some(offset) = self.fit(free_from, free_to, size, align, limits) {
                self.used.insert(index, Used { offset, size, quarantined: false });
                return Ok(offset);
            }
            free_from = next.map_or(self.size, |used| used.offset + used.size);
        }
        Err(Refused::NoRoom)
    }

    fn fit(&self, from: u64, to: u64, size: u64, align: u64, limits: &DmaConstraints) -> Option<u64> {
        let start = self.device.checked_add(from)?;
        let mut at = start.checked_next_multiple_of(align)?;
        if limits.boundary > 1 && size <= limits.boundary {
            let last = at.checked_add(size - 1)?;
            if at & !(limits.boundary - 1) != last & !(limits.boundary - 1) {
                at = at.checked_next_multiple_of(limits.boundary)?.checked_next_multiple_of(align)?;
            }
        }
        let offset = at - self.device;
        let inside = offset.checked_add(size)? <= to;
        (inside && limits.allow(DmaAddr::new(at), size)).then_some(offset)
    }

    /// Gives back what was taken. False if this is nothing that is in use, or it is quarantined.
    pub(super) fn give_back(&mut self, offset: u64, size: u64) -> bool {
        match self.find(offset) {
            Some(index) if self.is(index, size) => {
                self.used.remove(index);
                true
            }
            _ => false,
        }
    }

    /// Keeps what was taken for ever. False if this is nothing that is in use.
    pub(super) fn quarantine(&mut self, offset: u64) -> bool {
        let used = self.find(offset).and_then(|index| self.used.get_mut(index));
        used.map(|used| used.quarantined = true).is_some()
    }

    /// The part in which `offset` lies.
    fn find(&self, offset: u64) -> Option<usize> {
        let behind = self.used.partition_point(|used| used.offset <= offset);
        let index = behind.checked_sub(1)?;
        let used = self.used.get(index)?;
        (offset - used.offset < used.size).then_some(index)
    }

    fn is(&self, index: usize, size: u64) -> bool {
        self.used.get(index).is_some_and(|used| !used.quarantined && used.size == size)
    }

    /// Bytes in use, quarantined ones included.
    pub(super) fn in_use(&self) -> u64 {
        self.used.iter().map(|used| used.size).sum()
    }

    /// Parts that are quarantined.
    pub(super) fn quarantined(&self) -> usize {
        self.used.iter().filter(|used| used.quarantined).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const ANY: DmaConstraints = DmaConstraints::any();

    #[test]
    fn frees_merge_and_the_whole_range_can_be_had_again() {
        let mut table = Table::<8>::new(0x1000, 0x400);
        let parts: Vec<u64> = (0..4).map(|_| table.take(0x100, 8, &ANY).unwrap()).collect();
        assert_eq!(table.take(8, 8, &ANY), Err(Refused::NoRoom));
        for offset in [parts[2], parts[0], parts[3], parts[1]] {
            assert!(table.give_back(offset, 0x100));
            assert!(!table.give_back(offset, 0x100), "only once");
        }
        assert_eq!(table.take(0x400, 8, &ANY), Ok(0));
    }

    #[test]
    fn quarantined_parts_are_not_given_out_again() {
        let mut table = Table::<4>::new(0, 0x200);
        let part = table.take(0x100, 8, &ANY).unwrap();
        assert!(table.quarantine(part + 0x80), "from a place inside");
        assert!(!table.give_back(part, 0x100));
        assert!(!table.quarantine(0x180), "nothing is there");
        assert_eq!(table.take(0x100, 8, &ANY), Ok(0x100));
        assert_eq!(table.take(8, 8, &ANY), Err(Refused::NoRoom));
        assert_eq!((table.quarantined(), table.in_use()), (1, 0x200));
    }

    #[test]
    fn constraints_hold_for_the_address_that_the_device_sees() {
        let mut table = Table::<8>::new(0xffff_fe80, 0x1000);
        let below = DmaConstraints { mask: 0xffff_ffff, ..ANY };
        assert_eq!(table.take(0x100, 0x100, &below), Ok(0x80));
        assert_eq!(table.take(0x100, 8, &below), Err(Refused::NoRoom));
        assert_eq!(table.take(0x80, 8, &DmaConstraints { boundary: 0x1000, ..ANY }), Ok(0));
        let boundary = DmaConstraints { boundary: 0x1000, ..ANY };
        assert_eq!(table.take(0xf00, 8, &boundary), Err(Refused::NoRoom));
        assert_eq!(table.take(0xe00, 8, &boundary), Ok(0x180));
    }

    #[test]
    fn a_full_table_refuses_and_frees_still_work() {
        let mut table = Table::<2>::new(0, 0x1000);
        let a = table.take(8, 8, &ANY).unwrap();
        table.take(8, 8, &ANY).unwrap();
        assert_eq!(table.take(8, 8, &ANY), Err(Refused::TableFull));
        assert!(table.give_back(a, 8));
        assert_eq!(table.take(8, 8, &ANY), Ok(0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take { size: u64, align: u32, boundary: u32 },
        Free(usize),
        Quarantine(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1u64..600, 0u32..10, 6u32..13)
                .prop_map(|(size, align, boundary)| Step::Take { size, align, boundary }),
            2 => any::<usize>().prop_map(Step::Free),
            1 => any::<usize>().prop_map(Step::Quarantine),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

        /// Against a byte map.
        #[test]
        fn parts_in_use_never_overlap_and_quarantined_bytes_stay(
            base in 0u64..0x1_0000,
            steps in proptest::collection::vec(step(), 0..120),
        ) {
            const SIZE: usize = 4096;
            let mut table = Table::<16>::new(base, SIZE as u64);
            let mut map = [0u8; SIZE];
            let mut live: Vec<(u64, u64)> = Vec::new();
            let mut kept = 0;
            for step in steps {
                match step {
                    Step::Take { size, align, boundary } => {
                        let limits = DmaConstraints { boundary: 1 << boundary, ..ANY.aligned(1 << align) };
                        let Ok(offset) = table.take(size, 8, &limits) else { continue };
                        let bytes = &mut map[offset as usize..(offset + size) as usize];
                        prop_assert!(bytes.iter().all(|b| *b == 0));
                        bytes.fill(1);
                        let at = base + offset;
                        prop_assert_eq!(at % (1 << align).max(8), 0);
                        prop_assert!(size > limits.boundary || at / limits.boundary == (at + size - 1) / limits.boundary);
                        live.push((offset, size));
                    }
                    Step::Free(which) if !live.is_empty() => {
                        let (offset, size) = live.swap_remove(which % live.len());
                        prop_assert!(!table.give_back(offset, size + 1));
                        prop_assert!(table.give_back(offset, size));
                        map[offset as usize..(offset + size) as usize].fill(0);
                    }
                    Step::Quarantine(which) if !live.is_empty() => {
                        let (offset, size) = live.swap_remove(which % live.len());
                        prop_assert!(table.quarantine(offset));
                        prop_assert!(!table.give_back(offset, size));
                        kept += 1;
                    }
                    _ => {}
                }
                prop_assert_eq!(table.in_use(), map.iter().map(|b| u64::from(*b)).sum::<u64>());
                prop_assert_eq!(table.quarantined(), kept);
                prop_assert!(live.len() + kept <= 16);
            }
        }
    }
}
