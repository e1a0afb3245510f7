//! Drives a vfio-user device from this process, without a virtual machine.
//!
//! A [`Device`] gives what a driver needs: [`Bar`] is [`Mmio`](tombolo_hal::mmio::Mmio), [`Config`] is
//! [`ConfigSpace`], [`ClientDma`] is
//! [`DmaBackend`](tombolo_hal::dma::DmaBackend), [`ClientIrq`] is
//! [`IrqSource`](tombolo_hal::irq::IrqSource). It is also the machine around the device: it gives the
//! BARs addresses, and has memory and a window for interrupt messages at addresses of its own.
//!
//! The server is not trusted: its answers are checked, what it lets be mapped is mapped only if it cannot
//! become shorter, and one that does not answer for some seconds is gone. From then on everything reads
//! all ones, and calls fail; nothing hangs.

mod bar;
mod connection;
mod core;
mod dma;
mod error;
mod irq;
mod machine;
mod place;
mod pool;

pub use bar::{Bar, Config};
pub use dma::ClientDma;
pub use error::{DmaError, Error};
pub use irq::{ClientIrq, IrqThread};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_hal::irq::IrqMode;
use tombolo_hal::pci::{ConfigSpace, PciError, SavedConfig, command, regs};
use vfio_bindings::bindings::vfio::VFIO_DEVICE_FLAGS_RESET;

use self::core::Core;
use crate::protocol::Command;

/// How long an answer may take. QEMU waits as long.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A device behind a socket.
///
/// Drop everything that was made from it to close the connection; the server then resets the device.
///
/// # Examples
/// ```no_run
/// use tombolo_hal::mmio::Mmio;
/// use tombolo_vfio_user::client::Device;
///
/// let device = Device::connect("/run/edma.sock")?;
/// device.enable()?;
/// let registers = device.bar(0).expect("it has registers");
/// println!("{:#x}", registers.read32(0x8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Device {
    core: Arc<Core>,
    dma: ClientDma,
    enabled: AtomicBool,
}

impl Device {
    /// Connects to the server at `path`, and gives the BARs addresses.
    ///
    /// Nothing is switched on yet: see [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`Error`] if there is no server, or what it serves is no PCI function.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::connect_with(path, DEFAULT_TIMEOUT)
    }

    /// The same; an answer may take no longer than `timeout`.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn connect_with(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, Error> {
        let core = Arc::new(Core::open(path.as_ref(), timeout)?);
        let device = Self { dma: ClientDma::new(&core), core, enabled: AtomicBool::new(false) };
        let config = device.config();
        command::set_memory_enabled(&config, false)?;
        place::place(&config)?;
        Ok(device)
    }

    /// Its configuration space.
    pub fn config(&self) -> Config {
        Config(self.core.clone())
    }

    /// A BAR, 0 to 5, if the function has it. The upper half of a 64-bit BAR is none.
    pub fn bar(&self, index: u8) -> Option<Bar> {
        Bar::new(&self.core, index)
    }

    /// DMA memory for the device.
    pub fn dma(&self) -> ClientDma {
        self.dma.clone()
    }

    /// Switches memory decoding and bus mastering on.
    ///
    /// # Errors
    /// [`PciError`] if the device is gone or refuses.
    pub fn enable(&self) -> Result<(), PciError> {
        let config = self.config();
        command::set_memory_enabled(&config, true)?;
        command::set_bus_master(&config, true)?;
        self.enabled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Switches bus mastering off: from here on the device sends nothing, interrupts included.
    ///
    /// # Errors
    /// [`PciError`] if the device is gone or refuses.
    pub fn disable(&self) -> Result<(), PciError> {
        self.enabled.store(false, Ordering::Relaxed);
        command::set_bus_master(&self.config(), false)
    }

    /// Vectors of `mode` that the function has.
    pub fn vectors(&self, mode: IrqMode) -> u16 {
        irq::available(&self.core, mode)
    }

    /// Up to `want` vectors of `mode`. They stay until the value and its clones are dropped; a device
    /// has one such set at a time.
    ///
    /// # Errors
    /// [`Error::NoVectors`], or that the server or the function refused.
    pub fn interrupts(&self, mode: IrqMode, want: u16) -> Result<ClientIrq, Error> {
        ClientIrq::new(&self.core, mode, want)
    }

    /// Resets the function, and puts configuration back. Interrupts are put back by
    /// [`ClientIrq::restore`].
    ///
    /// # Errors
    /// [`Error::NoReset`], or that the server or the function does not come back.
    pub fn reset(&self) -> Result<(), Error> {
        const WHAT: &str = "reset the device";
        if self.core.connection.is_gone() {
            return Err(Error::Gone { what: WHAT });
        }
        if self.core.info.flags & VFIO_DEVICE_FLAGS_RESET == 0 {
            return Err(Error::NoReset);
        }
        let config = self.config();
        let saved = SavedConfig::save(&config)?;
        self.core.connection.call(WHAT, Command::DeviceReset, &[], &[])?;
        saved.restore(&config)?;
        if self.enabled.load(Ordering::Relaxed) {
            self.enable()?;
        }
        self.core.set_absent(false);
        Ok(())
    }

    /// Whether the device was seen to be gone: the server does not answer, or the device's identity read
    /// all ones. Its BARs read all ones from then on; until a [`reset`](Self::reset) succeeds, if it is
    /// only the device that is gone.
    pub fn is_gone(&self) -> bool {
        self.core.is_gone()
    }

    /// Looks whether the device is still there; returns whether. Costs a read of configuration space.
    pub fn check(&self) -> bool {
        let absent = self.config().read32(regs::VENDOR_ID) == u32::MAX;
        if absent {
            self.core.set_absent(true);
        }
        !self.is_gone()
    }
}
