//! The vocabulary of a DMA channel.

use core::num::NonZeroU32;

use crate::{DmaAddr, EngineAddr};

/// Which way data moves, as seen from the memory of the one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From memory (the scatter-gather list) to the device side (the slave address).
    MemToDev,
    /// From the device side to memory.
    DevToMem,
}

impl core::fmt::Display for Direction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Direction::MemToDev => "memory to device",
            Direction::DevToMem => "device to memory",
        })
    }
}

/// One contiguous piece of memory as the device reaches it.
///
/// In memory it is the address and then the length, 64 bits each, so that an adapter can take a list
/// of such pairs as it is. The promise of [`from_raw`](Self::from_raw) is then one about each pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SgEntry {
    address: DmaAddr,
    len: u64,
}

static_assertions::const_assert_eq!(size_of::<SgEntry>(), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(SgEntry, address), 0);
static_assertions::const_assert_eq!(core::mem::offset_of!(SgEntry, len), 8);

impl SgEntry {
    /// The piece of `len` bytes at `address`.
    ///
    /// [`OwnedTransfers`](super::OwnedTransfers) and [`PeerWindow`] make entries safely.
    ///
    /// # Safety
    /// An engine will read or write these bytes without asking Rust. From the submission of a
    /// descriptor with this entry until its completion, or until the channel is quiescent after
    /// `terminate_all`, they stay mapped, and no Rust reference to them exists (for a
    /// memory-to-device transfer: no exclusive one).
    #[allow(unsafe_code)]
    pub const unsafe fn from_raw(address: DmaAddr, len: u64) -> Self {
        Self { address, len }
    }

    /// A piece of a mapping that the caller keeps for as long as a device knows of the piece.
    pub(crate) const fn of_mapping(address: DmaAddr, len: u64) -> Self {
        Self { address, len }
    }

    /// Where it begins.
    pub const fn address(&self) -> DmaAddr {
        self.address
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // an empty entry is refused at prep; nobody asks for it
    pub const fn len(&self) -> u64 {
        self.len
    }
}

/// A range that is no Rust memory: a BAR of another device, a window to a peer.
///
/// Entries from it are checked against its bounds and need no further promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWindow {
    base: DmaAddr,
    size: u64,
}

impl PeerWindow {
    /// The window of `size` bytes at `base`, as this engine reaches it.
    ///
    /// # Safety
    /// No byte of it is memory of this program, now or later.
    #[allow(unsafe_code)]
    pub const unsafe fn new(base: DmaAddr, size: u64) -> Self {
        Self { base, size }
    }

    /// The piece of `len` bytes at `offset`, or `None` if it is not inside.
    pub fn entry(&self, offset: u64, len: u64) -> Option<SgEntry> {
        let end = offset.checked_add(len)?;
        if end > self.size {
            return None;
        }
        Some(SgEntry { address: self.base.checked_add(offset)?, len })
    }
}

/// The width of the accesses on the device side: addresses and lengths must be multiples of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BusWidth {
    /// Any byte.
    #[default]
    Bytes1,
    /// 2 bytes.
    Bytes2,
    /// 4 bytes.
    Bytes4,
    /// 8 bytes.
    Bytes8,
}

impl BusWidth {
    /// The width in bytes: a power of two.
    pub const fn bytes(self) -> u64 {
        match self {
            BusWidth::Bytes1 => 1,
            BusWidth::Bytes2 => 2,
            BusWidth::Bytes4 => 4,
            BusWidth::Bytes8 => 8,
        }
    }
}

/// How a channel reaches the device side; `P` is what only this engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlaveConfig<P> {
    /// Source on the device side, for [`Direction::DevToMem`].
    pub src_addr: EngineAddr,
    /// Destination on the device side, for [`Direction::MemToDev`].
    pub dst_addr: EngineAddr,
    /// Width of the accesses on the device side.
    pub addr_width: BusWidth,
    /// The engine's own part (Linux: `peripheral_config`).
    pub peripheral: P,
}

impl<P: Default> Default for SlaveConfig<P> {
    fn default() -> Self {
        Self {
            src_addr: EngineAddr::new(0),
            dst_addr: EngineAddr::new(0),
            addr_width: BusWidth::default(),
            peripheral: P::default(),
        }
    }
}

impl<P: Default> SlaveConfig<P> {
    /// Both sides of the device at `addr`: whichever the direction uses.
    pub fn at(addr: EngineAddr) -> Self {
        Self { src_addr: addr, dst_addr: addr, ..Self::default() }
    }
}

impl<P> SlaveConfig<P> {
    /// The address that a transfer in `direction` uses.
    pub fn device_address(&self, direction: Direction) -> EngineAddr {
        match direction {
            Direction::DevToMem => self.src_addr,
            Direction::MemToDev => self.dst_addr,
        }
    }
}

/// What the caller wants of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrepFlags {
    /// Ask for an interrupt at its end. Without it the completion is noticed with a later one's.
    pub interrupt: bool,
}

impl PrepFlags {
    /// An interrupt at the end.
    pub const INTERRUPT: Self = Self { interrupt: true };
    /// No interrupt of its own.
    pub const QUIET: Self = Self { interrupt: false };
}

impl Default for PrepFlags {
    fn default() -> Self {
        Self::INTERRUPT
    }
}

/// What a channel can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelCaps {
    /// Whether it moves data from memory to the device.
    pub mem_to_dev: bool,
    /// Whether it moves data from the device to memory.
    pub dev_to_mem: bool,
    /// `prep_dma_cyclic` works.
    pub cyclic: bool,
    /// `prep_dma_memcpy` works.
    pub memcpy: bool,
    /// `prep_interleaved_dma` works.
    pub interleaved: bool,
    /// The largest segment in bytes.
    pub max_segment: u64,
    /// How many segments fit into one descriptor when nothing else is queued.
    pub max_segments: usize,
    /// What addresses and lengths must be multiples of, in bytes.
    pub align: u64,
}

/// A prepared transfer. Submit it or give it back with `discard`: a dropped one stays in the pool.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a descriptor that is neither submitted nor discarded stays in the pool"]
pub struct Descriptor {
    pub(super) index: u16,
    pub(super) generation: u16,
    /// Which pool made it.
    pub(super) pool: u32,
}

impl Descriptor {
    /// The handle as a number, for an adapter that keeps it outside of Rust.
    pub const fn into_raw(self) -> u64 {
        self.index as u64 | (self.generation as u64) << 16 | (self.pool as u64) << 32
    }

    /// The handle that was this number. One that was used already, or never existed, is refused where
    /// it is used.
    pub const fn from_raw(raw: u64) -> Self {
        Self { index: raw as u16, generation: (raw >> 16) as u16, pool: (raw >> 32) as u32 }
    }
}

/// The ticket of a submitted transfer: a number that grows with each submission of a channel and
/// wraps, and which channel it was, so that cookies of two channels are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    pub(super) number: NonZeroU32,
    pub(super) pool: u32,
}

impl Cookie {
    /// The largest number: that of Linux's `dma_cookie_t`, whose negative values are errors.
    pub const MAX: u32 = i32::MAX as u32;

    /// The number, from 1 to [`MAX`](Self::MAX).
    pub const fn get(self) -> u32 {
        self.number.get()
    }

    /// Number and channel as one number, never 0, for an adapter that keeps it outside of Rust.
    pub const fn into_raw(self) -> u64 {
        self.number.get() as u64 | (self.pool as u64) << 32
    }

    /// The cookie that was this number, or `None` if none ever is.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Some(Self { number: NonZeroU32::new(raw as u32)?, pool: (raw >> 32) as u32 })
    }
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// Submitted or running.
    InProgress,
    /// Waiting in a paused channel.
    Paused,
    /// Finished or terminated; how it ended [`pop_completed`](super::DmaChannel::pop_completed) told
    /// or tells.
    Complete,
    /// This channel never gave out such a cookie.
    Unknown,
}

/// State of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxState {
    /// How far it has come.
    pub status: TxStatus,
    /// Bytes not yet known to be moved. 0 for finished and unknown ones.
    pub residue: u64,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TxResult {
    /// All data was moved.
    NoError,
    /// The engine could not read the source, or its list.
    ReadFailed,
    /// The engine could not write the destination.
    WriteFailed,
    /// It was stopped, or the device is gone.
    Aborted,
}

impl core::fmt::Display for TxResult {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            TxResult::NoError => "no error",
            TxResult::ReadFailed => "read failed",
            TxResult::WriteFailed => "write failed",
            TxResult::Aborted => "aborted",
        })
    }
}

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The transfer has ended.
    Finished,
    /// One period of a cyclic transfer has been moved; it goes on. The period's memory is the
    /// caller's until the next call of [`pop_completed`](super::DmaChannel::pop_completed).
    Period {
        /// Which period of the buffer, from 0.
        index: u32,
    },
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The transfer.
    pub cookie: Cookie,
    /// What happened to it.
    pub event: Event,
    /// How it went.
    pub result: TxResult,
    /// Bytes not known to be moved: 0 unless it failed.
    pub residue: u64,
}

/// A rectangle: `frames` times `size` bytes, with gaps (Linux: `dma_interleaved_template`, one
/// chunk a frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterleavedTemplate {
    /// Memory side: first byte of the first frame.
    pub memory: SgEntry,
    /// Device side: first byte of the first frame.
    pub device: EngineAddr,
    /// Which way.
    pub direction: Direction,
    /// Bytes a frame.
    pub size: u64,
    /// Number of frames.
    pub frames: u32,
    /// Bytes between frames on the memory side.
    pub memory_gap: u64,
    /// Bytes between frames on the device side.
    pub device_gap: u64,
}

/// The channel does not do this kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this channel does not support {0}")]
pub struct Unsupported(pub &'static str);

/// A pool or list is too small, now or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} {what} needed, {available} available")]
pub struct NoSpace {
    /// Of what.
    pub what: &'static str,
    /// How many are needed.
    pub needed: usize,
    /// How many there are.
    pub available: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn a_peer_window_gives_no_entry_outside_itself() {
        // SAFETY: no engine is involved; the address is only compared.
        let w = unsafe { PeerWindow::new(DmaAddr::new(0x1000), 0x100) };
        assert_eq!(w.entry(0xf0, 0x10).unwrap().address(), DmaAddr::new(0x10f0));
        assert_eq!(w.entry(0xf0, 0x11), None);
        assert_eq!(w.entry(u64::MAX, 2), None);
    }

    #[test]
    fn handles_survive_being_numbers() {
        let number = NonZeroU32::new(Cookie::MAX).unwrap();
        let cookie = Cookie { number, pool: 0x8000_0001 };
        assert_eq!(cookie.into_raw(), 0x8000_0001_7fff_ffff);
        assert_eq!(Cookie::from_raw(cookie.into_raw()), Some(cookie));
        assert_eq!(Cookie::from_raw(0x1_0000_0000), None);
        let raw = Descriptor { index: 0xfffe, generation: 0x8001, pool: 0xc000_0002 }.into_raw();
        assert_eq!(
            Descriptor::from_raw(raw),
            Descriptor { index: 0xfffe, generation: 0x8001, pool: 0xc000_0002 }
        );
    }
}
