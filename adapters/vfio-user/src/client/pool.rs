//! Memory in anonymous files that the server maps once, cut into pieces.

use std::collections::BTreeMap;

use tombolo_hal::dma::DmaConstraints;
use tombolo_sim::memory::SharedMemory;

use super::place::{WINDOW_32, WINDOW_64};

/// Pieces are multiples of this.
const GRANULE: u64 = 64;
/// Memory that is mapped at once, unless more is asked for.
const CHUNK: u64 = 4 << 20;
/// Where memory is placed for devices that reach no higher, and for others. Free of BARs and of the
/// window for messages.
const LOW: (u64, u64) = (0x10_0000, WINDOW_32.0 - 1);
const HIGH: (u64, u64) = (0x1_0000_0000, WINDOW_64.0 - 1);

/// A file's memory at its address, and what of it is free: start and end of each range.
#[derive(Debug)]
struct Chunk {
    memory: SharedMemory,
    free: BTreeMap<u64, u64>,
}

/// A piece that was handed out.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Where the device sees it.
    pub address: u64,
    /// Where it is in the memory.
    pub memory: SharedMemory,
    pub offset: usize,
}

/// What must be mapped before a piece of it can be had.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub address: u64,
    pub size: usize,
}

/// Memory by address.
#[derive(Debug)]
pub(super) struct Pool {
    chunks: BTreeMap<u64, Chunk>,
    next: [u64; 2],
}

impl Pool {
    pub fn new() -> Self {
        Self { chunks: BTreeMap::new(), next: [LOW.0, HIGH.0] }
    }

    /// Takes `size` bytes that keep to the constraints, if memory for them is mapped.
    pub fn take(&mut self, size: u64, limits: &DmaConstraints) -> Option<Piece> {
        let len = size.checked_next_multiple_of(GRANULE)?;
        let align = limits.align.max(GRANULE);
        self.chunks.iter_mut().find_map(|(base, chunk)| {
            let found = chunk.free.iter().find_map(|(start, end)| {
                let at = fit(*base + start, len, size, align, limits.boundary)?;
                let inside = at.checked_add(len)? <= base + end;
                let reachable = at.checked_add(size - 1)? <= limits.mask;
                (inside && reachable).then_some((*start, *end, at - base))
            });
            let (start, end, offset) = found?;
            chunk.free.remove(&start);
            if start < offset {
                chunk.free.insert(start, offset);
            }
            if offset + len < end {
                chunk.free.insert(offset + len, end);
            }
            Some(Piece { address: base + offset, memory: chunk.memory.clone(), offset: offset as usize })
        })
    }

    /// Gives `size` bytes at `address` back.
    pub fn give_back(&mut self, address: u64, size: u64) {
        let Some((base, chunk)) = self.chunks.range_mut(..=address).next_back() else { return };
        let (mut start, mut end) = (address - base, address - base + size.next_multiple_of(GRANULE));
        if let Some((before, _)) = chunk.free.range(..start).next_back().filter(|(_, last)| **last == start) {
            start = *before;
        }
        if let Some(last) = chunk.free.remove(&end) {
            end = last;
        }
        chunk.free.insert(start, end);
    }

    /// Where more memory could be mapped for `size` bytes. The address is used up.
    pub fn more(&mut self, size: u64, limits: &DmaConstraints) -> Option<Wanted> {
        let bytes = size.max(CHUNK).checked_next_power_of_two()?;
        let align = limits.align.max(bytes);
        // High addresses first, so that a driver which drops the upper half is found out.
        [(1, HIGH), (0, LOW)].into_iter().find_map(|(which, (_, last))| {
            let address = self.next[which].checked_next_multiple_of(align)?;
            let end = address.checked_add(bytes - 1)?;
            // All of it must be reachable, or the piece might not be.
            if end > last || end > limits.mask {
                return None;
            }
            self.next[which] = end + 1;
            Some(Wanted { address, size: usize::try_from(bytes).ok()? })
        })
    }

    /// Memory that is mapped now.
    pub fn add(&mut self, address: u64, memory: SharedMemory) {
        let free = BTreeMap::from([(0, memory.len() as u64)]);
        self.chunks.insert(address, Chunk { memory, free });
    }

    /// All that is mapped: address and bytes.
    pub fn mapped(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.chunks.iter().map(|(address, chunk)| (*address, chunk.memory.len()))
    }
}

/// The first address from `start` on that is aligned, and from which `size` bytes cross no multiple of
/// the boundary, unless they are larger than it.
fn fit(start: u64, len: u64, size: u64, align: u64, boundary: u64) -> Option<u64> {
    let at = start.checked_next_multiple_of(align)?;
    if boundary == 0 || size > boundary || at / boundary == (at + size - 1) / boundary {
        return Some(at);
    }
    let next = at.checked_next_multiple_of(boundary)?.checked_next_multiple_of(align)?;
    next.checked_add(len).map(|_| next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(order: u32, boundary: u64) -> DmaConstraints {
        DmaConstraints { boundary, ..DmaConstraints::any().aligned(1 << order) }
    }

    fn grown(pool: &mut Pool, size: u64, limits: &DmaConstraints) -> Option<Piece> {
        if let Some(piece) = pool.take(size, limits) {
            return Some(piece);
        }
        let wanted = pool.more(size, limits)?;
        pool.add(wanted.address, SharedMemory::new(wanted.size));
        pool.take(size, limits)
    }

    #[test]
    fn devices_with_few_address_bits_get_low_memory() {
        let mut pool = Pool::new();
        let any = grown(&mut pool, 100, &DmaConstraints::any()).unwrap();
        assert!(any.address >= 1 << 32);
        let few = DmaConstraints { mask: 0x0fff_ffff, ..DmaConstraints::any() };
        let low = grown(&mut pool, 100, &few).unwrap();
        assert!(low.address + 99 <= few.mask);
        let none = DmaConstraints { mask: 0xffff, ..DmaConstraints::any() };
        assert!(grown(&mut pool, 1, &none).is_none());
        assert!(grown(&mut pool, 1 << 40, &DmaConstraints::any()).is_none());
    }

    #[test]
    fn more_than_a_chunk_is_one_piece() {
        let mut pool = Pool::new();
        let size = 9 << 20;
        let piece = grown(&mut pool, size, &limits(20, 0)).unwrap();
        assert!(piece.address.is_multiple_of(1 << 20) && piece.memory.len() as u64 >= size);
    }

    proptest! {
        #[test]
        fn pieces_keep_to_the_constraints_and_never_overlap(
            ops in prop::collection::vec((1u64..100_000, 0u32..14, 0u32..17, any::<bool>()), 1..60)
        ) {
            let mut pool = Pool::new();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (size, order, boundary, give_back) in ops {
                if give_back && !held.is_empty() {
                    let (address, size) = held.swap_remove(size as usize % held.len());
                    pool.give_back(address, size);
                    continue;
                }
                let boundary = if boundary < 12 { 0 } else { 1 << boundary };
                let limits = limits(order, boundary);
                let piece = grown(&mut pool, size, &limits).unwrap();
                let (first, last) = (piece.address, piece.address + size - 1);
                prop_assert!(first.is_multiple_of(1 << order));
                prop_assert!(boundary == 0 || size > boundary || first / boundary == last / boundary);
                prop_assert!(piece.offset + size as usize <= piece.memory.len());
                prop_assert!(held.iter().all(|(at, len)| last < *at || first > at + len - 1));
                held.push((first, size));
            }
            for (address, size) in held {
                pool.give_back(address, size);
            }
            for chunk in pool.chunks.values() {
                prop_assert_eq!(&chunk.free, &BTreeMap::from([(0, chunk.memory.len() as u64)]));
            }
        }
    }
}
