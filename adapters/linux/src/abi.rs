//! What C and Rust share: `shim/shim.h` in Rust's words.
//!
//! Every structure is checked for size and offsets here and with `static_assert` there. Numbers that
//! are Linux's own (directions, results) are compared with the kernel's headers on the C side.

use core::ffi::c_void;

use static_assertions::const_assert_eq;

/// The version of this interface: the shim compares it with its own before it calls anything else.
pub const VERSION: u32 = 1;

/// The most interrupt vectors that the shim follows.
pub const MAX_VECTORS: usize = 32;

/// Linux `DMA_MEM_TO_DEV`.
pub const MEM_TO_DEV: u32 = 1;
/// Linux `DMA_DEV_TO_MEM`.
pub const DEV_TO_MEM: u32 = 2;

/// Linux `DMA_TRANS_NOERROR`.
pub const TRANS_NOERROR: u32 = 0;
/// Linux `DMA_TRANS_READ_FAILED`.
pub const TRANS_READ_FAILED: u32 = 1;
/// Linux `DMA_TRANS_WRITE_FAILED`.
pub const TRANS_WRITE_FAILED: u32 = 2;
/// Linux `DMA_TRANS_ABORTED`.
pub const TRANS_ABORTED: u32 = 3;

/// A [`Completion`] of a transfer that has ended.
pub const KIND_FINISHED: u32 = 0;
/// A [`Completion`] of one period of a cyclic transfer, which goes on.
pub const KIND_PERIOD: u32 = 1;

/// [`Vectors::mode`]: no interrupts.
pub const IRQ_POLLING: u32 = 0;
/// [`Vectors::mode`]: MSI.
pub const IRQ_MSI: u32 = 1;
/// [`Vectors::mode`]: MSI-X.
pub const IRQ_MSIX: u32 = 2;

/// [`Slave::flags`]: [`Slave::non_list`] was given by the client.
pub const SLAVE_HAS_MODE: u32 = 1;

/// [`Engine::flags`]: channels have lists, in [`Engine::memory_bar`].
pub const ENGINE_HAS_LISTS: u32 = 1;
/// [`Engine::flags`]: [`Engine::memory_base`] is known from the device; else the shim sets it to the
/// bus address of [`Engine::memory_bar`].
pub const ENGINE_BASE_KNOWN: u32 = 2;

/// One piece of memory, as [`SgEntry`](tombolo_hal::dmaengine::SgEntry) has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sg {
    /// Where the device reaches it.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// What a client configured.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slave {
    /// Linux `src_addr`, as a bus address.
    pub src_addr: u64,
    /// Linux `dst_addr`, as a bus address.
    pub dst_addr: u64,
    /// [`SLAVE_HAS_MODE`].
    pub flags: u32,
    /// The client's `int` in `peripheral_config`: not 0 for transfers without a list.
    pub non_list: i32,
}

/// One thing that a channel reports.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The transfer, as [`entry::tombolo_edma_chan_submit`](crate::entry::tombolo_edma_chan_submit)
    /// named it.
    pub cookie: u64,
    /// [`KIND_FINISHED`] or [`KIND_PERIOD`].
    pub kind: u32,
    /// Linux's `enum dmaengine_tx_result`.
    pub result: u32,
    /// Bytes not moved, at most `u32::MAX`.
    pub residue: u32,
    /// Which period, from 0.
    pub period: u32,
}

/// How far a transfer has come.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes not known to be moved, at most `u32::MAX`.
    pub residue: u32,
    /// Not 0 if the channel is paused.
    pub paused: u32,
}

/// What an interrupt brought.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Write channels with work, one bit each.
    pub write_channels: u64,
    /// Read channels with work, one bit each.
    pub read_channels: u64,
}

/// An engine as [`entry::tombolo_edma_find`](crate::entry::tombolo_edma_find) found it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// What list and data offsets are added to, as the engine sees it.
    pub memory_base: u64,
    /// The map number of the capability: 0, 1, 5 or 7.
    pub format: u32,
    /// Which BAR holds the registers.
    pub register_bar: u32,
    /// Which BAR holds lists and data.
    pub memory_bar: u32,
    /// [`ENGINE_HAS_LISTS`], [`ENGINE_BASE_KNOWN`].
    pub flags: u32,
    /// Number of write channels.
    pub write_channels: u16,
    /// Number of read channels.
    pub read_channels: u16,
    /// Bytes of [`Engine::memory_bar`] that lists and data reach into.
    pub memory_size: u32,
}

/// Where a channel's list and data are, in [`Engine::memory_bar`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Offset of the list.
    pub list_offset: u32,
    /// Bytes of the list.
    pub list_size: u32,
    /// Offset of the memory for data.
    pub data_offset: u32,
    /// Bytes for data.
    pub data_size: u32,
}

/// The message of a vector.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Where to write; 0 while there is none.
    pub address: u64,
    /// What to write.
    pub data: u32,
    /// Nothing.
    pub reserved: u32,
}

/// The interrupts of a function. The shim changes it under the lock under which it calls the control
/// functions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Vectors {
    /// [`IRQ_POLLING`], [`IRQ_MSI`] or [`IRQ_MSIX`].
    pub mode: u32,
    /// How many vectors there are.
    pub count: u32,
    /// Grows with every change of a message.
    pub epoch: u32,
    /// Nothing.
    pub reserved: u32,
    /// Their messages.
    pub messages: [Message; MAX_VECTORS],
}

/// What [`entry::tombolo_edma_open`](crate::entry::tombolo_edma_open) needs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs {
    /// The mapped registers.
    pub registers: *mut c_void,
    /// Their size in bytes.
    pub registers_size: u64,
    /// A raw spinlock, for [`lock::KernelLock`](crate::lock::KernelLock).
    pub lock: *mut c_void,
    /// The function's interrupts.
    pub vectors: *const Vectors,
    /// The map number of the capability.
    pub format: u32,
    /// Number of write channels.
    pub write_channels: u16,
    /// Number of read channels.
    pub read_channels: u16,
    /// The PCI function number.
    pub function: u32,
    /// Nothing.
    pub reserved: u32,
    /// The `struct device`, whose coherent DMA mask has 32 bits.
    pub device: *mut c_void,
}

/// The two halves of an open engine: what the interrupt handler shares, and the control handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    /// For [`entry::tombolo_edma_irq`](crate::entry::tombolo_edma_irq).
    pub shared: *const c_void,
    /// For everything else.
    pub control: *mut c_void,
}

/// What [`entry::tombolo_edma_chan_open`](crate::entry::tombolo_edma_chan_open) needs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChanArgs {
    /// [`entry::tombolo_edma_chan_size`](crate::entry::tombolo_edma_chan_size) bytes for the channel.
    pub place: *mut c_void,
    /// [`entry::tombolo_edma_pool_size`](crate::entry::tombolo_edma_pool_size) bytes for descriptors.
    pub pool: *mut c_void,
    /// The mapped list, or null.
    pub list: *mut c_void,
    /// Where the engine sees the list.
    pub list_address: u64,
    /// Bytes of the list.
    pub list_size: u32,
    /// How many descriptors fit into the pool.
    pub descriptors: u32,
    /// How many segments fit into the pool.
    pub segments: u32,
    /// 0 for a write channel, 1 for a read channel.
    pub kind: u32,
    /// Which of its kind.
    pub index: u32,
    /// Nothing.
    pub reserved: u32,
}

/// Room for a pool that ran out: see
/// [`entry::tombolo_edma_chan_more`](crate::entry::tombolo_edma_chan_more).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Descriptors.
    pub descriptors: u32,
    /// Segments.
    pub segments: u32,
}

/// What a channel counts, as [`Stats`](dw_edma::Stats).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transfers submitted.
    pub submitted: u64,
    /// Transfers that ended without error.
    pub completed: u64,
    /// Transfers that ended with an error.
    pub failed: u64,
    /// Periods of cyclic transfers.
    pub periods: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Segments handed to the engine.
    pub segments: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// Doorbells rung again.
    pub doorbells_again: u64,
    /// Interrupt events with news.
    pub events: u64,
    /// Interrupt events without.
    pub spurious: u64,
    /// Progress found by looking although interrupts are in use.
    pub found_by_looking: u64,
    /// Times that the engine contradicted itself.
    pub violations: u64,
}

macro_rules! offsets {
    ($ty:ty, $size:expr, $($field:ident = $offset:expr),*) => {
        const_assert_eq!(size_of::<$ty>(), $size);
        $(const_assert_eq!(core::mem::offset_of!($ty, $field), $offset);)*
    };
}

#[cfg(target_pointer_width = "64")]
mod checks {
    use super::*;

    offsets!(Sg, 16, address = 0, length = 8);
    const_assert_eq!(size_of::<Sg>(), size_of::<tombolo_hal::dmaengine::SgEntry>());
    const_assert_eq!(align_of::<Sg>(), align_of::<tombolo_hal::dmaengine::SgEntry>());
    offsets!(Slave, 24, src_addr = 0, dst_addr = 8, flags = 16, non_list = 20);
    offsets!(Completion, 24, cookie = 0, kind = 8, result = 12, residue = 16, period = 20);
    offsets!(Status, 8, residue = 0, paused = 4);
    offsets!(Report, 16, write_channels = 0, read_channels = 8);
    offsets!(
        Engine,
        32,
        memory_base = 0,
        format = 8,
        register_bar = 12,
        memory_bar = 16,
        flags = 20,
        write_channels = 24,
        read_channels = 26,
        memory_size = 28
    );
    offsets!(Places, 16, list_offset = 0, list_size = 4, data_offset = 8, data_size = 12);
    offsets!(Message, 16, address = 0, data = 8, reserved = 12);
    offsets!(Vectors, 16 + 16 * MAX_VECTORS, mode = 0, count = 4, epoch = 8, reserved = 12, messages = 16);
    offsets!(
        OpenArgs,
        56,
        registers = 0,
        registers_size = 8,
        lock = 16,
        vectors = 24,
        format = 32,
        write_channels = 36,
        read_channels = 38,
        function = 40,
        reserved = 44,
        device = 48
    );
    offsets!(Handles, 16, shared = 0, control = 8);
    offsets!(
        ChanArgs,
        56,
        place = 0,
        pool = 8,
        list = 16,
        list_address = 24,
        list_size = 32,
        descriptors = 36,
        segments = 40,
        kind = 44,
        index = 48,
        reserved = 52
    );
    offsets!(Room, 8, descriptors = 0, segments = 4);
    offsets!(
        Stats,
        96,
        submitted = 0,
        completed = 8,
        failed = 16,
        periods = 24,
        bytes = 32,
        segments = 40,
        doorbells = 48,
        doorbells_again = 56,
        events = 64,
        spurious = 72,
        found_by_looking = 80,
        violations = 88
    );
}
