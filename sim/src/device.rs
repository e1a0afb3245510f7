//! What a device model is, and all that it may see of the world.
//!
//! A model sees what hardware sees: accesses to its BARs, time, DMA through whatever stands between
//! it and memory, and interrupt messages. It never sees the driver, the fabric's internals or host
//! pointers. The same object is therefore driven by unit tests, by the in-process fabric and by an
//! adapter that serves it to a virtual machine.
//!
//! A whole small device stands in the example of [`crate::fabric`].

use crate::config::ConfigSpaceBuilder;

/// Width of one MMIO access in bytes: 1, 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1 byte.
    W8,
    /// 2 bytes.
    W16,
    /// 4 bytes.
    W32,
    /// 8 bytes.
    W64,
}

impl Width {
    /// The width in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Width::W8 => 1,
            Width::W16 => 2,
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }
}

/// Why a memory request of a device was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmaFault {
    /// No translation or no memory at this address: completes as Unsupported Request.
    #[error("no mapping for bus address {0:#x}")]
    Unmapped(u64),
    /// The mapping exists but forbids this direction.
    #[error("bus address {0:#x} does not allow this access")]
    Permission(u64),
    /// Bus mastering is off: the function may not send requests.
    #[error("bus mastering is disabled")]
    NotBusMaster,
    /// The device was removed, or the link is down.
    #[error("the link is down")]
    LinkDown,
}

/// All that a model can reach: its side of the PCIe link, and time.
///
/// Implemented by the in-process fabric and by adapters that serve a model elsewhere.
pub trait Bus {
    /// The present time in nanoseconds. Never goes back.
    fn now_ns(&self) -> u64;

    /// Calls [`Device::event`] with `token` after `delay_ns`.
    ///
    /// Events of one device with equal time arrive in the order in which they were scheduled.
    fn schedule(&mut self, delay_ns: u64, token: u64);

    /// A memory read request: fills `data` from bus address `addr`.
    ///
    /// Peers' BARs and the function's own plain-memory BARs are reached by their bus addresses; a
    /// function's own registers are not.
    ///
    /// # Errors
    /// A fault means that nothing of `data` may be used. Reads do not overtake earlier writes.
    fn dma_read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault>;

    /// A posted memory write. Writes land in the order of the calls. A write to an address at which
    /// the host listens for interrupt messages (MSI, MSI-X) is that interrupt.
    ///
    /// # Errors
    /// A fault means that a part of the data may have been written; real posted writes report
    /// nothing back, so a model uses it for its error status only where hardware would know.
    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault>;

    /// An interrupt message that the model itself composed from address and data that the host
    /// programmed, as engines do that write their own interrupts. On the link it is a posted write of
    /// four bytes like any other; whoever cannot tell by the address what the host takes for a message
    /// (an adapter: the interrupt controller belongs to the virtual machine) tells it by this call.
    ///
    /// # Errors
    /// As [`Bus::dma_write`].
    fn message_write(&mut self, addr: u64, data: u32) -> Result<(), DmaFault> {
        self.dma_write(addr, &data.to_le_bytes())
    }

    /// Sends the interrupt `vector` of the function's MSI-X or MSI capability, whichever is enabled.
    /// Masked vectors are remembered as pending. Without either, nothing happens.
    fn raise(&mut self, vector: u16);

    /// Drives the level of the function's INTx pin.
    fn set_intx(&mut self, asserted: bool);

    /// The bus address at which the host placed this BAR, or `None` while memory decoding is off or
    /// the BAR does not exist. Devices whose engines reach their own BAR memory by its bus address
    /// need it.
    fn bar_address(&self, bar: u8) -> Option<u64>;
}

/// A PCI function's model.
///
/// No call may panic, loop without bound or keep data from outside unchecked: guests are hostile.
pub trait Device: Send {
    /// A short name for traces, such as `dw-edma`.
    fn name(&self) -> &str;

    /// Describes the function: identity, class, BARs (with sizes, and which of them is plain memory
    /// that may be mapped), MSI, MSI-X, vendor-specific capabilities.
    fn describe(&self, config: &mut ConfigSpaceBuilder);

    /// Back to the state after power-on (function-level reset, bus reset).
    fn reset(&mut self);

    /// Reads `width` bytes at `offset` of `bar`; the value is in the low bytes.
    ///
    /// The fabric has checked that the access lies inside the BAR and is aligned to its width. It
    /// never asks for MSI-X structures and plain memory. Reads may have side effects.
    fn read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width) -> u64;

    /// Writes the low `width` bytes of `value` at `offset` of `bar`.
    ///
    /// Work that takes time (DMA) is queued with [`Bus::schedule`], never done here.
    fn write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width, value: u64);

    /// A moment that was asked for with [`Bus::schedule`] has come.
    fn event(&mut self, bus: &mut dyn Bus, token: u64);

    /// A write to a vendor-specific part of config space which [`Device::describe`] made writable.
    fn config_written(&mut self, bus: &mut dyn Bus, offset: u16, value: u32) {
        let _ = (bus, offset, value);
    }

    /// The memory behind a BAR that [`Device::describe`] declared as plain memory, so that an
    /// adapter can map it without trapping. `None` for register BARs. The same memory, at least as
    /// long as the BAR, for the whole life of the model; a reset does not replace it.
    fn bar_memory(&self, bar: u8) -> Option<crate::memory::SharedMemory> {
        let _ = bar;
        None
    }
}
