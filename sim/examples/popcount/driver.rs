//! Driver of the popcount unit that `docs/tutorial.md` describes. It uses `core`,
//! `tombolo-hal`, the delay trait of `embedded-hal` and `thiserror`, so it runs wherever they do.

use core::sync::atomic::{AtomicU32, Ordering};

use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::{Coherent, DmaBackend, DmaConstraints};
use tombolo_hal::error::{Error as _, ErrorKind};
use tombolo_hal::mmio::{Mmio, MmioNarrow, Window, WindowError};
use tombolo_hal::pci::{ConfigSpace, Identity, PciError, command};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadOnly, ReadWrite, Split64, W1c, WriteOnly};
use tombolo_hal::register::{ReadWriteable, Readable, Writeable, register_bitfields, register_structs};
use tombolo_hal::wait::{Timeout, poll_until};

register_bitfields![u32,
    CONTROL [ ENABLE OFFSET(0) NUMBITS(1) [], BUSY OFFSET(31) NUMBITS(1) [] ],
    EVENT [ DONE OFFSET(0) NUMBITS(1) [], FAULT OFFSET(1) NUMBITS(1) [] ]
];
register_structs! {
    Regs {
        (0x00 => id: ReadOnly<u32>),
        (0x04 => control: ReadWrite<u32, CONTROL::Register>),
        (0x08 => event: W1c<u32, EVENT::Register>),
        (0x0c => source: Split64),
        (0x14 => length: WriteOnly<u32>),
        (0x18 => result: ReadOnly<u32>),
        (0x1c => @END),
    }
}

/// The longest job in bytes.
const MAX_LENGTH: usize = 4096;

/// What can go wrong.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the device is gone")]
    DeviceGone,
    #[error("this is no popcount unit: its ID register reads {0:#010x}")]
    Unknown(u32),
    #[error("a job has 1 to {MAX_LENGTH} bytes, not {0}")]
    Length(usize),
    #[error("the device could not read the buffer")]
    Fault,
    #[error(transparent)]
    Timeout(#[from] Timeout),
    #[error(transparent)]
    Pci(#[from] PciError),
    #[error("no DMA memory: {0}")]
    Memory(ErrorKind),
}

/// What the interrupt handler and the data side share. The platform decides where it lives.
pub struct Shared<M> {
    regs: Window<M, Regs>,
    events: AtomicU32,
}

impl<M: Mmio> Shared<M> {
    /// The unit whose registers are at the beginning of `bar0`.
    pub fn new(bar0: M) -> Result<Self, WindowError> {
        Ok(Self { regs: Window::new(bar0).layout(0)?, events: AtomicU32::new(0) })
    }

    /// The interrupt handler: may run on any CPU at any time.
    pub fn on_irq(&self) {
        let events = reg!(self.regs, Regs, event).get();
        // Zero: it was another device on the same pin. All ones: the device is gone.
        if events != 0 && events != u32::MAX {
            reg!(self.regs, Regs, event).clear_bits(events);
            self.events.fetch_or(events, Ordering::Release);
        }
    }
}

/// The data side: one job at a time.
pub struct Popcount<'a, M, B: DmaBackend> {
    shared: &'a Shared<M>,
    ram: Coherent<B>,
}

impl<'a, M: Mmio, B: DmaBackend> Popcount<'a, M, B> {
    /// Checks what the function is, and switches it on.
    pub fn probe(cfg: &impl ConfigSpace, shared: &'a Shared<M>, dma: B) -> Result<Self, Error> {
        let found = Identity::read(cfg)?;
        command::set_memory_enabled(cfg, true)?;
        let id = reg!(shared.regs, Regs, id).get();
        if (found.vendor, found.device, id) != (0x1234, 0x9c07, 0x504f_5043) {
            return Err(if id == u32::MAX { Error::DeviceGone } else { Error::Unknown(id) });
        }
        command::set_bus_master(cfg, true)?;
        let ram =
            Coherent::new(dma, MAX_LENGTH, &DmaConstraints::any()).map_err(|e| Error::Memory(e.kind()))?;
        reg!(shared.regs, Regs, control).modify(CONTROL::ENABLE::SET);
        Ok(Self { shared, ram })
    }

    /// Counts the ones among the bits of `data`. Waits at most 20 ms.
    pub fn count_ones(&mut self, data: &[u8], delay: &mut impl DelayNs) -> Result<u32, Error> {
        if data.is_empty() || data.len() > MAX_LENGTH {
            return Err(Error::Length(data.len()));
        }
        let taken = || Some(self.shared.events.swap(0, Ordering::Acquire)).filter(|events| *events != 0);
        // A job that timed out may still run, and as long as it does the memory is the device's.
        self.wait(delay, || (!reg!(self.shared.regs, Regs, control).is_set(CONTROL::BUSY)).then_some(()))?;
        self.shared.on_irq();
        taken();
        data.iter().enumerate().for_each(|(offset, byte)| self.ram.write8(offset, *byte));
        reg!(self.shared.regs, Regs, source).write_lo_hi(self.ram.device_address().value());
        reg!(self.shared.regs, Regs, length).set(data.len() as u32);
        let events = self.wait(delay, taken).or_else(|late| {
            self.shared.on_irq(); // The interrupt may have been lost: look once.
            taken().ok_or(late)
        })?;
        match reg!(self.shared.regs, Regs, result).get() {
            u32::MAX => Err(Error::DeviceGone),
            _ if EVENT::FAULT.is_set(events) => Err(Error::Fault),
            ones => Ok(ones),
        }
    }

    /// Waits for at most 10 ms. A device that is gone is never ready.
    fn wait<T>(&self, delay: &mut impl DelayNs, ready: impl FnMut() -> Option<T>) -> Result<T, Error> {
        let gone = || reg!(self.shared.regs, Regs, id).get() == u32::MAX;
        let error = |late| if gone() { Error::DeviceGone } else { Error::Timeout(late) };
        poll_until(delay, 10, 10_000, ready).map_err(error)
    }

    /// Stops the device and gives the memory back; if it cannot be stopped, nobody gets it.
    pub fn remove(self, cfg: &impl ConfigSpace) {
        let stopped = matches!(command::set_bus_master(cfg, false), Ok(()) | Err(PciError::DeviceGone));
        if stopped { self.ram.free() } else { self.ram.quarantine() }
    }
}
