//! What a program gets.

use core::ptr::NonNull;

use tombolo_hal::DmaAddr;
use tombolo_hal::mmio::{Caching, RawMmio};
use tombolo_hal::pci::BarInfo;

use super::once::Once;
use super::{Caches, Clock, IrqLock};
use crate::clock::CounterDelay;
use crate::dma::{DmaBuffer, DmaPool, DmaRegion};
use crate::irq::{IrqTable, MessageController};
use crate::pci::{Apertures, Ecam, ScanError};
use crate::platform::{MemoryRange, PciHost, PlatformError, Ranges, find_ram};

/// Bytes of RAM that are set aside for DMA.
const DMA_SIZE: u64 = 32 << 20;
const DMA_ALIGN: u64 = 2 << 20;

/// The DMA memory of the machine.
pub type Pool = DmaPool<IrqLock, Caches, 1024>;
/// A buffer of it.
pub type Memory = DmaBuffer<'static, IrqLock, Caches, 1024>;
/// The handlers of interrupts.
pub type Interrupts = IrqTable<IrqLock, 256>;

pub(super) static INTERRUPTS: Interrupts = IrqTable::new(IrqLock);

/// The machine that the program runs on.
pub struct Machine {
    pub(super) pci: PciHost,
    pub(super) dma: &'static Pool,
    pub(super) messages: &'static (dyn MessageController + Sync),
    pub(super) clock: Clock,
    pub(super) command_line: &'static str,
}

impl Machine {
    /// Configuration space.
    ///
    /// # Errors
    /// [`ScanError`] if firmware says something impossible of it.
    pub fn ecam(&self) -> Result<Ecam<RawMmio>, ScanError> {
        let PciHost { ecam, first_bus, last_bus, .. } = self.pci;
        let refused = ScanError::EcamSize { size: ecam.size as usize, first_bus, last_bus };
        // SAFETY: firmware says that configuration space is there; it is mapped uncached.
        let io = unsafe { device_memory(ecam) }.ok_or(refused)?;
        Ecam::new(io, first_bus, last_bus)
    }

    /// What the host bridge decodes.
    pub fn apertures(&self) -> &Apertures {
        &self.pci.apertures
    }

    /// The memory behind a base address register that was given an address.
    pub fn map(&self, bar: &BarInfo) -> Option<RawMmio> {
        if bar.address == 0 || !bar.is_memory() {
            return None;
        }
        let start = self.pci.apertures.cpu_address(bar.address, bar.size)?;
        // SAFETY: apertures hold no RAM, and are mapped uncached.
        unsafe { device_memory(MemoryRange { start, size: bar.size }) }
    }

    /// Memory for devices.
    pub fn dma(&self) -> &'static Pool {
        self.dma
    }

    /// The interrupt controller that takes messages.
    pub fn messages(&self) -> &'static (dyn MessageController + Sync) {
        self.messages
    }

    /// The handlers of interrupts.
    pub fn interrupts(&self) -> &'static Interrupts {
        &INTERRUPTS
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits by the clock.
    pub fn delay(&self) -> CounterDelay<Clock> {
        CounterDelay(self.clock)
    }

    /// The command line (QEMU: `-append`).
    pub fn command_line(&self) -> &'static str {
        self.command_line
    }

    /// The value of `key=value` on the command line.
    pub fn option(&self, key: &str) -> Option<&'static str> {
        option(self.command_line, key)
    }
}

/// The value of `key=value` on a command line.
pub(super) fn option<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let mut words = line.split_ascii_whitespace();
    words.find_map(|word| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
}

/// # Safety
/// The range is no RAM, and mapped uncached.
pub(super) unsafe fn device_memory(range: MemoryRange) -> Option<RawMmio> {
    let (start, size) = (usize::try_from(range.start).ok()?, usize::try_from(range.size).ok()?);
    let base = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(start))?;
    let usable = start.is_multiple_of(8) && start.checked_add(size).is_some();
    // SAFETY: aligned as just checked; the rest is the caller's promise.
    usable.then(|| unsafe { RawMmio::new(base, size, Caching::Uncached) })
}

/// Sets DMA memory aside: RAM that is not in `taken`, as low as possible, after `map` has mapped it as `caches`
/// needs it.
///
/// # Safety
/// `ram` is RAM that is identity mapped and nobody's, but for what is in `taken`; devices see it as `caches` says.
/// Called once.
pub(super) unsafe fn set_dma_aside(
    ram: &Ranges,
    taken: &[MemoryRange],
    caches: Caches,
    map: impl FnOnce(MemoryRange),
) -> Result<&'static Pool, PlatformError> {
    static POOL: Once<Pool> = Once::new();
    let found = find_ram(ram, taken, DMA_SIZE, DMA_ALIGN)?;
    map(found);
    let start = core::ptr::with_exposed_provenance_mut::<u8>(found.start as usize);
    let cpu = NonNull::new(start).ok_or(PlatformError::NoRam { size: DMA_SIZE })?;
    let region = DmaRegion { cpu, device: DmaAddr::new(found.start), size: DMA_SIZE as usize };
    // SAFETY: the range is RAM that is nobody's, as the caller says and `find_ram` chose; both machines' devices see
    // it at the same address.
    Ok(POOL.set(unsafe { DmaPool::new(region, IrqLock, caches) }))
}
