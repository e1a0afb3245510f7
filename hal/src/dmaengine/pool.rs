//! The pool behind a channel: descriptors and segments in memory that the caller supplies, so that
//! nothing allocates once the channel is open.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};

use super::types::{Cookie, Descriptor, NoSpace};

/// Number of the next pool. Descriptors and cookies carry their pool's, so that one channel's are
/// not taken for another's.
static NEXT_POOL: AtomicU32 = AtomicU32::new(1);

const NONE: u32 = u32::MAX;
/// One less than the number of descriptors that a handle can name.
const MAX_DESCRIPTORS: usize = u16::MAX as usize;

/// Where a descriptor is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescState {
    /// In the pool.
    #[default]
    Free,
    /// With the caller, between `prep_*` and `submit`.
    Prepared,
    /// With the channel.
    Submitted,
}

/// Room for one descriptor; `D` is what the driver keeps with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DescriptorSlot<D> {
    /// What the driver keeps with the descriptor.
    pub data: D,
    state: DescState,
    generation: u16,
    cookie: u32,
    next: u32,
    first: u32,
    last: u32,
    segments: u32,
}

impl<D> DescriptorSlot<D> {
    /// How many segments it has.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Where its segments begin; for [`DescriptorPool::segment`].
    pub fn first_segment(&self) -> u32 {
        self.first
    }

    /// Where it is in its life.
    pub fn state(&self) -> DescState {
        self.state
    }
}

/// Room for one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSlot<G> {
    value: G,
    next: u32,
}

/// Memory for a pool: what an adapter supplies when it opens a channel.
pub trait PoolMemory<D, G> {
    /// Both arrays.
    fn slots(&self) -> (&[DescriptorSlot<D>], &[SegmentSlot<G>]);
    /// Both arrays, to change.
    fn slots_mut(&mut self) -> (&mut [DescriptorSlot<D>], &mut [SegmentSlot<G>]);
}

/// Pool memory somewhere else: static, or lent by a C structure.
#[derive(Debug)]
pub struct SlicePool<'m, D, G> {
    /// Room for descriptors.
    pub descriptors: &'m mut [DescriptorSlot<D>],
    /// Room for segments, shared by all descriptors.
    pub segments: &'m mut [SegmentSlot<G>],
}

impl<D, G> PoolMemory<D, G> for SlicePool<'_, D, G> {
    #[inline(always)]
    fn slots(&self) -> (&[DescriptorSlot<D>], &[SegmentSlot<G>]) {
        (self.descriptors, self.segments)
    }
    #[inline(always)]
    fn slots_mut(&mut self) -> (&mut [DescriptorSlot<D>], &mut [SegmentSlot<G>]) {
        (self.descriptors, self.segments)
    }
}

/// Pool memory inside the channel's own value: `DESCS` descriptors that share `SEGS` segments.
#[derive(Debug)]
pub struct ArrayPool<D, G, const DESCS: usize, const SEGS: usize> {
    descriptors: [DescriptorSlot<D>; DESCS],
    segments: [SegmentSlot<G>; SEGS],
}

impl<D: Copy + Default, G: Copy + Default, const DESCS: usize, const SEGS: usize> Default
    for ArrayPool<D, G, DESCS, SEGS>
{
    fn default() -> Self {
        Self { descriptors: [DescriptorSlot::default(); DESCS], segments: [SegmentSlot::default(); SEGS] }
    }
}

impl<D, G, const DESCS: usize, const SEGS: usize> PoolMemory<D, G> for ArrayPool<D, G, DESCS, SEGS> {
    #[inline(always)]
    fn slots(&self) -> (&[DescriptorSlot<D>], &[SegmentSlot<G>]) {
        (&self.descriptors, &self.segments)
    }
    #[inline(always)]
    fn slots_mut(&mut self) -> (&mut [DescriptorSlot<D>], &mut [SegmentSlot<G>]) {
        (&mut self.descriptors, &mut self.segments)
    }
}

/// Pool memory on the heap.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct HeapPool<D, G> {
    descriptors: alloc::boxed::Box<[DescriptorSlot<D>]>,
    segments: alloc::boxed::Box<[SegmentSlot<G>]>,
}

#[cfg(feature = "alloc")]
impl<D: Copy + Default, G: Copy + Default> HeapPool<D, G> {
    /// Room for `descriptors` descriptors that share `segments` segments.
    pub fn new(descriptors: usize, segments: usize) -> Self {
        Self {
            descriptors: alloc::vec![DescriptorSlot::default(); descriptors].into_boxed_slice(),
            segments: alloc::vec![SegmentSlot::default(); segments].into_boxed_slice(),
        }
    }
}

#[cfg(feature = "alloc")]
impl<D, G> PoolMemory<D, G> for HeapPool<D, G> {
    #[inline(always)]
    fn slots(&self) -> (&[DescriptorSlot<D>], &[SegmentSlot<G>]) {
        (&self.descriptors, &self.segments)
    }
    #[inline(always)]
    fn slots_mut(&mut self) -> (&mut [DescriptorSlot<D>], &mut [SegmentSlot<G>]) {
        (&mut self.descriptors, &mut self.segments)
    }
}

/// Descriptors in order: submitted, issued, done. Only ever used with the pool it belongs to.
#[derive(Debug)]
pub struct Queue {
    head: u32,
    tail: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Queue {
    /// Whether there is nothing in it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The first descriptor's index.
    #[inline(always)]
    pub fn front(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

/// Descriptors and their segments, in memory `P`.
///
/// All lists are chained by index inside the memory; every step is of constant time.
#[derive(Debug)]
pub struct DescriptorPool<D, G, P> {
    memory: P,
    free: u32,
    free_segments: u32,
    free_segment_count: u32,
    last_cookie: u32,
    id: u32,
    kinds: core::marker::PhantomData<fn() -> (D, G)>,
}

impl<D: Copy + Default, G: Copy + Default, P: PoolMemory<D, G>> DescriptorPool<D, G, P> {
    /// A pool in `memory`, all free.
    ///
    /// # Errors
    /// [`NoSpace`] if there is not room for one descriptor with one segment, or for more descriptors
    /// than a handle can name (65535).
    pub fn new(mut memory: P) -> Result<Self, NoSpace> {
        let (descriptors, segments) = memory.slots_mut();
        let (nd, ns) = (descriptors.len(), segments.len());
        if nd == 0 {
            return Err(NoSpace { what: "descriptor slots", needed: 1, available: 0 });
        }
        if nd > MAX_DESCRIPTORS {
            return Err(NoSpace { what: "descriptor handles", needed: nd, available: MAX_DESCRIPTORS });
        }
        if ns == 0 || ns >= NONE as usize {
            return Err(NoSpace { what: "segment slots", needed: 1, available: ns });
        }
        for (i, slot) in descriptors.iter_mut().enumerate() {
            *slot = DescriptorSlot {
                next: if i + 1 < nd { i as u32 + 1 } else { NONE },
                ..DescriptorSlot::default()
            };
        }
        for (i, slot) in segments.iter_mut().enumerate() {
            slot.next = if i + 1 < ns { i as u32 + 1 } else { NONE };
        }
        Ok(Self {
            memory,
            free: 0,
            free_segments: 0,
            free_segment_count: ns as u32,
            last_cookie: 0,
            id: NEXT_POOL.fetch_add(1, Ordering::Relaxed),
            kinds: core::marker::PhantomData,
        })
    }

    /// Moves everything into other memory with at least as much room, and gives the old memory back.
    /// Handles and cookies stay valid. This copies all of it, so make the memory much larger each time.
    ///
    /// # Errors
    /// The new memory, unused, if it has room for fewer of either, or for more descriptors than a
    /// handle can name.
    pub fn move_to(&mut self, mut memory: P) -> Result<P, P> {
        let (old_slots, old_segments) = self.memory.slots();
        let (nd, ns) = (old_slots.len(), old_segments.len());
        let (slots, segments) = memory.slots_mut();
        let fits = slots.len() <= MAX_DESCRIPTORS && segments.len() < NONE as usize;
        if slots.len() < nd || segments.len() < ns || !fits {
            return Err(memory);
        }
        let added = (segments.len() - ns) as u32;
        slots[..nd].copy_from_slice(old_slots);
        segments[..ns].copy_from_slice(old_segments);
        // What is new goes in front of what is free.
        for (i, slot) in slots.iter_mut().enumerate().skip(nd).rev() {
            *slot = DescriptorSlot { next: self.free, ..DescriptorSlot::default() };
            self.free = i as u32;
        }
        for (i, slot) in segments.iter_mut().enumerate().skip(ns).rev() {
            *slot = SegmentSlot { next: self.free_segments, ..SegmentSlot::default() };
            self.free_segments = i as u32;
        }
        self.free_segment_count += added;
        Ok(core::mem::replace(&mut self.memory, memory))
    }

    /// How many segments there are in all.
    pub fn segment_capacity(&self) -> usize {
        self.memory.slots().1.len()
    }

    /// How many segments are free.
    pub fn free_segments(&self) -> usize {
        self.free_segment_count as usize
    }

    /// A descriptor with `count` segments, which `segment` makes one by one.
    ///
    /// # Errors
    /// [`NoSpace`]; nothing is changed then.
    #[inline]
    pub fn prepare(
        &mut self,
        data: D,
        count: usize,
        segments: impl Iterator<Item = G>,
    ) -> Result<Descriptor, NoSpace> {
        if count > self.free_segment_count as usize {
            return Err(NoSpace {
                what: "segments",
                needed: count,
                available: self.free_segment_count as usize,
            });
        }
        let (slots, seg_slots) = self.memory.slots_mut();
        let Some(slot) = slots.get_mut(self.free as usize) else {
            return Err(NoSpace { what: "descriptors", needed: 1, available: 0 });
        };
        let first = self.free_segments;
        let (mut last, mut taken, mut next) = (NONE, 0u32, first);
        for value in segments.take(count) {
            let Some(seg) = seg_slots.get_mut(next as usize) else { break };
            seg.value = value;
            last = next;
            next = seg.next;
            taken += 1;
        }
        if let Some(seg) = seg_slots.get_mut(last as usize) {
            seg.next = NONE;
        }
        let index = self.free as u16;
        self.free = slot.next;
        self.free_segments = next;
        self.free_segment_count -= taken;
        slot.data = data;
        slot.state = DescState::Prepared;
        slot.cookie = 0;
        slot.next = NONE;
        slot.first = if taken == 0 { NONE } else { first };
        slot.last = last;
        slot.segments = taken;
        Ok(Descriptor { index, generation: slot.generation, pool: self.id })
    }

    /// Gives a prepared descriptor its cookie and puts it at the end of `queue`.
    ///
    /// # Errors
    /// The descriptor itself, if it is not one of this pool's prepared ones.
    #[inline]
    pub fn submit(&mut self, descriptor: Descriptor, queue: &mut Queue) -> Result<Cookie, Descriptor> {
        let index = u32::from(descriptor.index);
        let next = if self.last_cookie >= Cookie::MAX { 1 } else { self.last_cookie + 1 };
        let number = NonZeroU32::new(next).unwrap_or(NonZeroU32::MIN);
        let pool = self.id;
        let Some(slot) = self.prepared(&descriptor) else { return Err(descriptor) };
        slot.cookie = next;
        slot.state = DescState::Submitted;
        self.last_cookie = next;
        self.push(queue, index);
        Ok(Cookie { number, pool })
    }

    /// Takes a prepared descriptor back. One that is not this pool's is ignored.
    pub fn discard(&mut self, descriptor: Descriptor) {
        if self.prepared(&descriptor).is_some() {
            self.release(u32::from(descriptor.index));
        }
    }

    fn prepared(&mut self, d: &Descriptor) -> Option<&mut DescriptorSlot<D>> {
        let id = self.id;
        let slot = self.memory.slots_mut().0.get_mut(usize::from(d.index))?;
        (d.pool == id && slot.state == DescState::Prepared && slot.generation == d.generation).then_some(slot)
    }

    /// The descriptor at `index`.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&DescriptorSlot<D>> {
        self.memory.slots().0.get(index as usize)
    }

    /// The descriptor at `index`, to change.
    #[inline(always)]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut DescriptorSlot<D>> {
        self.memory.slots_mut().0.get_mut(index as usize)
    }

    /// The cookie of the descriptor at `index`, once submitted.
    #[inline]
    pub fn cookie(&self, index: u32) -> Option<Cookie> {
        let number = NonZeroU32::new(self.get(index)?.cookie)?;
        Some(Cookie { number, pool: self.id })
    }

    /// The segment at `index` and the index of the one after it.
    #[inline(always)]
    pub fn segment(&self, index: u32) -> Option<(G, u32)> {
        self.memory.slots().1.get(index as usize).map(|s| (s.value, s.next))
    }

    /// The submitted descriptor with this cookie.
    pub fn find(&self, cookie: Cookie) -> Option<(u32, &DescriptorSlot<D>)> {
        if cookie.pool != self.id {
            return None;
        }
        let slots = self.memory.slots().0;
        let index = slots.iter().position(|s| s.state == DescState::Submitted && s.cookie == cookie.get())?;
        Some((index as u32, &slots[index]))
    }

    /// Whether `cookie` was given out, as far as a wrapping counter can tell.
    pub fn was_given_out(&self, cookie: Cookie) -> bool {
        // Half of the numbers back is the past, the other half the future, across the wrap too.
        let back = (self.last_cookie.wrapping_sub(cookie.get())) & Cookie::MAX;
        cookie.pool == self.id && self.last_cookie != 0 && back < Cookie::MAX / 2
    }

    /// Puts `index` at the end of `queue`.
    #[inline]
    pub fn push(&mut self, queue: &mut Queue, index: u32) {
        let slots = self.memory.slots_mut().0;
        let Some(slot) = slots.get_mut(index as usize) else { return };
        slot.next = NONE;
        match slots.get_mut(queue.tail as usize) {
            Some(tail) => tail.next = index,
            None => queue.head = index,
        }
        queue.tail = index;
    }

    /// Takes the first of `queue`.
    #[inline]
    pub fn pop(&mut self, queue: &mut Queue) -> Option<u32> {
        let index = queue.front()?;
        let slot = self.get_mut(index)?;
        queue.head = core::mem::replace(&mut slot.next, NONE);
        if queue.head == NONE {
            queue.tail = NONE;
        }
        Some(index)
    }

    /// What stands behind `index` in its queue.
    #[inline]
    pub fn after(&self, index: u32) -> Option<u32> {
        self.get(index).map(|slot| slot.next).filter(|next| *next != NONE)
    }

    /// Puts all of `from` at the end of `to`.
    #[inline]
    pub fn append(&mut self, to: &mut Queue, from: &mut Queue) {
        if from.is_empty() {
            return;
        }
        match self.get_mut(to.tail) {
            Some(tail) => tail.next = from.head,
            None => to.head = from.head,
        }
        to.tail = from.tail;
        *from = Queue::default();
    }

    /// Back into the pool, segments and all. `index` must be in no queue.
    #[inline]
    pub fn release(&mut self, index: u32) {
        let (slots, segments) = self.memory.slots_mut();
        let Some(slot) = slots.get_mut(index as usize) else { return };
        if slot.state == DescState::Free {
            return;
        }
        if let Some(last) = segments.get_mut(slot.last as usize) {
            last.next = self.free_segments;
            self.free_segments = slot.first;
            self.free_segment_count += slot.segments;
        }
        slot.state = DescState::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.cookie = 0;
        (slot.first, slot.last, slot.segments) = (NONE, NONE, 0);
        slot.next = self.free;
        self.free = index;
    }

    /// Empties `queue` into the pool. At most as many steps as there are descriptors.
    pub fn release_all(&mut self, queue: &mut Queue) {
        while let Some(index) = self.pop(queue) {
            self.release(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    type Pool = DescriptorPool<u8, u32, ArrayPool<u8, u32, 3, 5>>;

    fn pool() -> Pool {
        DescriptorPool::new(ArrayPool::default()).unwrap()
    }

    fn segments<P: PoolMemory<u8, u32>>(p: &DescriptorPool<u8, u32, P>, index: u32) -> Vec<u32> {
        let slot = p.get(index).unwrap();
        let mut at = slot.first_segment();
        let mut all = Vec::new();
        while let Some((value, next)) = p.segment(at) {
            all.push(value);
            at = next;
        }
        assert_eq!(all.len() as u32, slot.segments());
        all
    }

    #[test]
    fn a_descriptor_keeps_its_segments_in_order_and_gives_them_back() {
        let mut p = pool();
        let mut q = Queue::default();
        let a = p.prepare(7, 3, [1, 2, 3].into_iter()).unwrap();
        let b = p.prepare(8, 2, [4, 5].into_iter()).unwrap();
        assert_eq!(p.free_segments(), 0);
        assert_eq!(
            p.prepare(9, 1, [6].into_iter()).unwrap_err(),
            NoSpace { what: "segments", needed: 1, available: 0 }
        );
        let ca = p.submit(a, &mut q).unwrap();
        let cb = p.submit(b, &mut q).unwrap();
        assert!(cb.get() == ca.get() + 1 && p.was_given_out(ca));
        let first = p.pop(&mut q).unwrap();
        assert_eq!((segments(&p, first), p.get(first).unwrap().data), (std::vec![1, 2, 3], 7));
        p.release(first);
        p.release(first);
        assert_eq!(p.free_segments(), 3);
        p.release_all(&mut q);
        assert_eq!((p.free_segments(), q.is_empty()), (5, true));
    }

    #[test]
    fn a_stale_handle_is_refused() {
        let mut p = pool();
        let mut q = Queue::default();
        let d = p.prepare(0, 1, [1].into_iter()).unwrap();
        let stale = Descriptor { index: d.index, generation: d.generation, pool: d.pool };
        p.discard(d);
        let again = p.prepare(0, 1, [2].into_iter()).unwrap();
        assert_eq!(again.index, stale.index);
        assert!(p.submit(stale, &mut q).is_err());
        assert!(p.submit(Descriptor { index: 77, generation: 0, pool: p.id }, &mut q).is_err());
        let mut other = pool();
        let foreign = other.prepare(0, 1, [1].into_iter()).unwrap();
        assert_eq!(foreign.index, 0);
        assert!(p.submit(foreign, &mut q).is_err());
        assert!(p.submit(again, &mut q).is_ok());
    }

    #[test]
    fn running_out_of_descriptors_changes_nothing() {
        let mut p = pool();
        for _ in 0..3 {
            let _kept = p.prepare(0, 1, [1].into_iter()).unwrap();
        }
        assert_eq!(p.prepare(0, 1, [1].into_iter()).unwrap_err().what, "descriptors");
        assert_eq!(p.free_segments(), 2);
    }

    #[test]
    fn a_move_to_larger_memory_keeps_what_there_is_and_adds_room() {
        let mut p = DescriptorPool::<u8, u32, _>::new(HeapPool::new(2, 3)).unwrap();
        let mut q = Queue::default();
        let a = p.prepare(1, 2, [10, 11].into_iter()).unwrap();
        let cookie = p.submit(a, &mut q).unwrap();
        let b = p.prepare(2, 1, [20].into_iter()).unwrap();
        assert!(p.prepare(3, 1, [30].into_iter()).is_err());
        assert!(p.move_to(HeapPool::new(1, 9)).is_err());
        let old = p.move_to(HeapPool::new(4, 6)).unwrap();
        assert_eq!((old.slots().0.len(), old.slots().1.len()), (2, 3));
        assert_eq!((p.segment_capacity(), p.free_segments()), (6, 3));
        assert_eq!(p.find(cookie).map(|(_, slot)| slot.data), Some(1));
        let c = p.prepare(3, 3, [30, 31, 32].into_iter()).unwrap();
        let cookies: Vec<u32> = [b, c].map(|d| p.submit(d, &mut q).unwrap().get()).into();
        assert_eq!(cookies, [2, 3]);
        let order: Vec<_> = core::iter::from_fn(|| p.pop(&mut q)).collect();
        assert_eq!(order.iter().map(|i| p.get(*i).unwrap().data).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(segments(&p, order[2]), [30, 31, 32]);
        order.into_iter().for_each(|i| p.release(i));
        assert_eq!(p.free_segments(), 6);
        let all: Vec<_> = (0..4).map(|i| p.prepare(0, 1, [i].into_iter()).unwrap()).collect();
        assert!(all.len() == 4 && p.prepare(0, 1, [9].into_iter()).is_err());
    }

    #[test]
    fn cookies_wrap_around_zero() {
        let mut p = pool();
        let mut q = Queue::default();
        p.last_cookie = Cookie::MAX;
        let d = p.prepare(0, 1, [1].into_iter()).unwrap();
        let cookie = p.submit(d, &mut q).unwrap();
        assert_eq!(cookie.get(), 1);
        let future = Cookie { number: NonZeroU32::new(2).unwrap(), ..cookie };
        let past = Cookie { number: NonZeroU32::new(Cookie::MAX - 1).unwrap(), ..cookie };
        assert!(p.was_given_out(cookie) && p.was_given_out(past) && !p.was_given_out(future));
        assert!(!pool().was_given_out(cookie));
    }

    #[test]
    fn memory_without_room_is_refused() {
        assert!(DescriptorPool::<u8, u8, _>::new(ArrayPool::<u8, u8, 0, 1>::default()).is_err());
        assert!(DescriptorPool::<u8, u8, _>::new(ArrayPool::<u8, u8, 1, 0>::default()).is_err());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]
        #[test]
        fn nothing_is_lost_or_shared(ops in proptest::collection::vec((0u8..5, 1usize..4), 0..60)) {
            let mut p = pool();
            let (mut submitted, mut issued) = (Queue::default(), Queue::default());
            let mut prepared = Vec::new();
            let mut stamp = 0u32;
            for (op, n) in ops {
                match op {
                    0 => if let Ok(d) = p.prepare(n as u8, n, (0..n as u32).map(|i| stamp + i)) { prepared.push((d, stamp, n)); stamp += 10; },
                    1 => if let Some((d, ..)) = prepared.pop() { p.submit(d, &mut submitted).unwrap(); },
                    2 => if let Some((d, ..)) = prepared.pop() { p.discard(d) },
                    3 => p.append(&mut issued, &mut submitted),
                    _ => if let Some(i) = p.pop(&mut issued) { p.release(i) },
                }
                for (d, stamp, n) in &prepared {
                    let want: Vec<u32> = (0..*n as u32).map(|i| stamp + i).collect();
                    assert_eq!(segments(&p, u32::from(d.index)), want);
                }
            }
            for (d, ..) in prepared { p.discard(d) }
            p.release_all(&mut submitted);
            p.release_all(&mut issued);
            assert_eq!(p.free_segments(), 5);
            let all: Vec<_> = (0..3).map(|i| p.prepare(0, 1, [i].into_iter())).collect();
            assert!(all.iter().all(Result::is_ok));
        }
    }
}
