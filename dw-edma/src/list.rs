//! The linked list of a channel: a ring of elements in memory that the engine reads.
//!
//! Source: Linux 7.3 `dw_edma_v0_lli`/`dw_hdma_v0_lli` and the control bits in `dw-edma-v0-core.c`.
//! Every element takes 24 bytes, the link too. An element belongs to the engine while its cycle bit
//! equals the engine's cycle state; the link at the end toggles that state, so one lap's leftovers
//! are not the next lap's work.

use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{Coherent, DmaBackend};
use tombolo_hal::le::Le32;
use tombolo_hal::mmio::{Mmio, Window};

use crate::error::ListError;

/// First word of an element.
#[bitfield_struct::bitfield(u32, repr = Le32, from = Le32::from_native, into = Le32::to_native)]
#[derive(PartialEq, Eq)]
pub struct ElementControl {
    /// Cycle bit: whose element it is.
    pub cycle: bool,
    /// In a link: toggle the cycle state.
    pub toggle_cycle: bool,
    /// This is a link.
    pub link: bool,
    /// v0: interrupt on the engine's side (LIE). HDMA: watermark on the engine's side (LWIE).
    pub local_interrupt: bool,
    /// v0: interrupt across the link (RIE). HDMA: watermark across the link (RWIE).
    pub remote_interrupt: bool,
    #[bits(27)]
    __: u32,
}

/// A data element as it lies in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataElement {
    /// First word; written last.
    pub control: ElementControl,
    /// Bytes to move.
    pub transfer_size: Le32,
    /// Source address, low half.
    pub sar_low: Le32,
    /// Source address, high half.
    pub sar_high: Le32,
    /// Destination address, low half.
    pub dar_low: Le32,
    /// Destination address, high half.
    pub dar_high: Le32,
}

/// A link as it lies in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkElement {
    /// First word; written last.
    pub control: ElementControl,
    /// Reserved.
    pub reserved: Le32,
    /// Where the next element is, low half.
    pub pointer_low: Le32,
    /// Where the next element is, high half.
    pub pointer_high: Le32,
    /// Reserved.
    pub reserved2: [Le32; 2],
}

/// Bytes from one element to the next.
pub const ELEMENT_SIZE: usize = 24;

static_assertions::const_assert_eq!(size_of::<DataElement>(), ELEMENT_SIZE);
static_assertions::const_assert_eq!(size_of::<LinkElement>(), ELEMENT_SIZE);
static_assertions::const_assert_eq!(core::mem::offset_of!(DataElement, sar_low), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(DataElement, dar_low), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(LinkElement, pointer_low), 8);

const SIZE: usize = core::mem::offset_of!(DataElement, transfer_size);
const SAR: usize = core::mem::offset_of!(DataElement, sar_low);
const DAR: usize = core::mem::offset_of!(DataElement, dar_low);
const POINTER: usize = core::mem::offset_of!(LinkElement, pointer_low);

/// Data elements that a list must have room for: one in use and one that stays free.
const MIN_SLOTS: usize = 2;
/// More are not used: what goes over the whole list (once, when a channel is opened) stays short.
const MAX_SLOTS: usize = 1 << 13;

/// One data element to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Source address.
    pub sar: u64,
    /// Destination address.
    pub dar: u64,
    /// Bytes.
    pub size: u32,
}

/// Memory for the list of one channel.
///
/// In RAM for a local engine, behind a BAR for a remote one.
#[derive(Debug)]
pub struct ListMemory<L> {
    io: L,
    address: EngineAddr,
    slots: u32,
}

/// List memory was refused; here it is again.
#[derive(Debug)]
pub struct RefusedList<L> {
    /// The memory.
    pub memory: L,
    /// Why.
    pub error: ListError,
}

impl<L> From<RefusedList<L>> for crate::Error {
    fn from(refused: RefusedList<L>) -> Self {
        refused.error.into()
    }
}

/// For channels that never use a list.
#[derive(Clone, Copy, Debug)]
pub struct NoList;

impl Mmio for NoList {
    fn size(&self) -> usize {
        0
    }
    fn read32(&self, _offset: usize) -> u32 {
        u32::MAX
    }
    fn write32(&self, _offset: usize, _value: u32) {}
}

impl ListMemory<NoList> {
    /// No list: only transfers in non-linked-list mode are possible (HDMA native).
    pub const fn none() -> Self {
        Self::absent(NoList)
    }
}

impl<L> ListMemory<L> {
    /// A channel without a list whose type says what its list would have been, so that engines with
    /// and without list memory can share one channel type. `io` is never used.
    pub const fn absent(io: L) -> Self {
        Self { io, address: EngineAddr::new(0), slots: 0 }
    }
}

impl<B: DmaBackend> ListMemory<Coherent<B>> {
    /// A list in RAM, for an engine on this side of the link. All of the memory is used.
    ///
    /// # Errors
    /// [`RefusedList`] with the memory, if it is too small or misaligned.
    pub fn in_ram(memory: Coherent<B>) -> Result<Self, RefusedList<Coherent<B>>> {
        let address = EngineAddr::from(memory.device_address());
        Self::new(memory, address)
    }
}

impl<M: Mmio> ListMemory<Window<M>> {
    /// A list behind a BAR: `window` is how this side reaches it, `address` how the engine does.
    /// Best at a multiple of 8 in the BAR, so that addresses go out in one write.
    ///
    /// # Errors
    /// [`RefusedList`] with the window, if it is too small or misaligned.
    pub fn behind_bar(window: Window<M>, address: EngineAddr) -> Result<Self, RefusedList<Window<M>>> {
        Self::new(window, address)
    }
}

impl<L: Mmio> ListMemory<L> {
    /// A list in `io`, which the engine reaches at `address`.
    ///
    /// # Errors
    /// [`RefusedList`] with `io`, if it is too small or misaligned.
    pub fn new(io: L, address: EngineAddr) -> Result<Self, RefusedList<L>> {
        match Self::count_slots(io.size(), address) {
            Ok(slots) => Ok(Self { io, address, slots }),
            Err(error) => Err(RefusedList { memory: io, error }),
        }
    }

    fn count_slots(size: usize, address: EngineAddr) -> Result<u32, ListError> {
        let slots = (size / ELEMENT_SIZE).saturating_sub(1).min(MAX_SLOTS);
        if slots < MIN_SLOTS {
            return Err(ListError::TooSmall { size, min: (MIN_SLOTS + 1) * ELEMENT_SIZE });
        }
        if !address.is_aligned(8) {
            return Err(ListError::Misaligned(address.value()));
        }
        if address.checked_add(size as u64).is_none() {
            return Err(ListError::AddressOverflow(address.value()));
        }
        Ok(slots as u32)
    }

    /// How many bytes a list for `elements` data elements at a time takes.
    pub const fn size_for(elements: usize) -> usize {
        (elements + MIN_SLOTS) * ELEMENT_SIZE
    }

    /// The memory again.
    pub fn into_inner(self) -> L {
        self.io
    }

    pub(crate) fn exists(&self) -> bool {
        self.slots != 0
    }

    pub(crate) fn address(&self) -> EngineAddr {
        self.address
    }

    /// Number of data elements; the link stands behind them.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    #[inline(always)]
    fn offset(slot: u32) -> usize {
        slot as usize * ELEMENT_SIZE
    }

    /// Takes the first `slots` elements from a resting engine whose cycle state will be `true`.
    pub(crate) fn scrub(&self, slots: u32) {
        for slot in 0..slots.min(self.slots) {
            self.io.write32_relaxed(Self::offset(slot), 0);
        }
    }

    /// Takes one element back from an engine that may still come to it: its lap's bit was `cycle`.
    pub(crate) fn disown(&self, slot: u32, cycle: bool) {
        let control = ElementControl::new().with_cycle(!cycle);
        self.io.write32_relaxed(Self::offset(slot), control.into_bits().to_native());
    }

    /// Writes a data element but for its control word.
    #[inline(always)]
    pub(crate) fn write_addresses(&self, slot: u32, burst: &Burst) {
        let at = Self::offset(slot);
        self.io.write32_relaxed(at + SIZE, burst.size);
        self.io.write64_relaxed(at + SAR, burst.sar);
        self.io.write64_relaxed(at + DAR, burst.dar);
    }

    /// Writes a data element's control word, which gives the element to the engine: after everything
    /// that was written before.
    #[inline(always)]
    pub(crate) fn write_control(&self, slot: u32, control: ElementControl) {
        self.order_writes();
        self.io.write32_relaxed(Self::offset(slot), control.into_bits().to_native());
    }

    /// Writes the link back to the start for a lap whose data elements have cycle bit `cycle`.
    ///
    /// Its own cycle bit is that of the next lap, as in Linux: engines follow a link whatever its
    /// bit says, or compare it after toggling.
    pub(crate) fn write_link(&self, cycle: bool) {
        let at = Self::offset(self.slots);
        self.io.write64_relaxed(at + POINTER, self.address.value());
        self.order_writes();
        let control = ElementControl::new().with_link(true).with_toggle_cycle(true).with_cycle(!cycle);
        self.io.write32_relaxed(at, control.into_bits().to_native());
    }

    #[inline(always)]
    fn order_writes(&self) {
        if let Some(barrier) = self.io.caching().write_barrier() {
            self.io.barrier(barrier);
        }
    }

    /// Makes sure that the list has arrived before the doorbell does. Registers and memory of a
    /// remote engine lie behind different buses of the endpoint: only a read of the memory, whose
    /// answer comes after the writes, says that they are there.
    #[inline(always)]
    pub(crate) fn flush_before_doorbell(&self) {
        match self.io.caching() {
            tombolo_hal::mmio::Caching::Coherent => {}
            _ => {
                // Combined writes must leave the CPU before the read does.
                self.order_writes();
                self.io.read32(0);
            }
        }
    }

    /// The position in the list that the low half of the engine's list pointer means: a slot, or
    /// `None` if the pointer is not at an element of this list.
    #[inline(always)]
    pub(crate) fn slot_of(&self, llp_low: u32) -> Option<u32> {
        let bytes = llp_low.wrapping_sub(self.address.low());
        let slot = bytes / ELEMENT_SIZE as u32;
        if slot * ELEMENT_SIZE as u32 != bytes || slot > self.slots {
            return None;
        }
        // At the link is at the start: the link moves no data.
        Some(if slot == self.slots { 0 } else { slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_hal::barrier::Barrier;
    use tombolo_hal::fake::{Access, FakeMmio};
    use tombolo_hal::mmio::Caching;

    fn list(io: &FakeMmio) -> ListMemory<&FakeMmio> {
        ListMemory::new(io, EngineAddr::new(0x1_ffff_ffe0)).unwrap()
    }

    #[test]
    fn the_control_word_is_written_after_the_addresses_and_a_barrier() {
        let io = FakeMmio::new(0x100).with_caching(Caching::Coherent);
        let control = ElementControl::new().with_cycle(true).with_local_interrupt(true);
        list(&io).write_addresses(1, &Burst { sar: 0x1_0000_0002, dar: 0x3_0000_0004, size: 5 });
        list(&io).write_control(1, control);
        let trace = io.take_trace();
        assert_eq!(
            trace[trace.len() - 2..],
            [Access::Barrier(Barrier::DmaWmb), Access::WriteRelaxed(24, 0b1001)]
        );
        assert_eq!(
            (io.peek32(28), io.peek32(32), io.peek32(36), io.peek32(40), io.peek32(44)),
            (5, 2, 1, 4, 3)
        );
    }

    #[test]
    fn a_write_combined_list_gets_a_full_write_barrier_and_an_uncached_one_none() {
        for (caching, barriers) in [(Caching::WriteCombined, 2), (Caching::Uncached, 0)] {
            let io = FakeMmio::new(0x100).with_caching(caching);
            list(&io).write_link(true);
            list(&io).flush_before_doorbell();
            let wmb = io.take_trace().iter().filter(|a| **a == Access::Barrier(Barrier::Wmb)).count();
            assert_eq!(wmb, barriers, "{caching:?}");
        }
    }

    #[test]
    fn a_list_behind_a_bar_is_read_before_the_doorbell_and_one_in_ram_is_not() {
        for (caching, reads) in [(Caching::Uncached, 1), (Caching::WriteCombined, 1), (Caching::Coherent, 0)]
        {
            let io = FakeMmio::new(0x100).with_caching(caching);
            list(&io).flush_before_doorbell();
            let found = io.take_trace().iter().filter(|a| matches!(a, Access::Read(0))).count();
            assert_eq!(found, reads, "{caching:?}");
        }
    }

    #[test]
    fn the_link_toggles_and_carries_the_next_laps_cycle_bit() {
        let io = FakeMmio::new(0x100);
        let l = list(&io);
        let at = l.slots() as usize * ELEMENT_SIZE;
        l.write_link(true);
        assert_eq!((io.peek32(at), io.peek32(at + 8), io.peek32(at + 12)), (0b110, 0xffff_ffe0, 1));
        l.write_link(false);
        assert_eq!(io.peek32(at), 0b111);
    }

    #[test]
    fn positions_off_the_list_or_between_elements_are_refused() {
        let io = FakeMmio::new(0x100);
        let l = list(&io);
        assert_eq!(l.slots(), 9);
        let base = 0xffff_ffe0u32;
        assert_eq!(l.slot_of(base), Some(0));
        // The low half wraps in the middle of this list.
        assert_eq!(l.slot_of(base.wrapping_add(48)), Some(2));
        assert_eq!(l.slot_of(base.wrapping_add(9 * 24)), Some(0));
        for bad in [base.wrapping_add(10 * 24), base.wrapping_add(4), base.wrapping_sub(24), u32::MAX] {
            assert_eq!(l.slot_of(bad), None, "{bad:#x}");
        }
    }

    #[test]
    fn memory_that_does_not_do_is_refused() {
        let small = FakeMmio::new(68);
        let good = FakeMmio::new(72);
        let at = EngineAddr::new;
        assert_eq!(
            ListMemory::new(&small, at(0x1000)).unwrap_err().error,
            ListError::TooSmall { size: 68, min: 72 }
        );
        assert_eq!(ListMemory::new(&good, at(0x1004)).unwrap_err().error, ListError::Misaligned(0x1004));
        let end = u64::MAX - 7;
        assert_eq!(ListMemory::new(&good, at(end)).unwrap_err().error, ListError::AddressOverflow(end));
        assert_eq!(ListMemory::new(&good, at(0x1000)).unwrap().slots(), 2);
        let odd = Window::new(&good).sub(4, 68).unwrap();
        let refused = ListMemory::behind_bar(odd, at(0x1000)).unwrap_err();
        assert_eq!(refused.error, ListError::TooSmall { size: 68, min: 72 });
    }
}
