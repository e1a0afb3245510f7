//! A device that VFIO opens for this process.

use std::sync::{Arc, Mutex, PoisonError};

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_vfio::{Bar, Config, Device, IrqThread, PciAddress, VfioDma, VfioIrq};

use crate::hosted::Opened;
use crate::platform::Handler;
use crate::rig::RigError;

/// The device, and what was made from it.
pub struct Vfio {
    /// First: its handler uses the rest.
    thread: Mutex<Option<IrqThread>>,
    irq: VfioIrq,
    dma: VfioDma,
    device: Device,
    name: String,
}

impl Vfio {
    /// Opens a function that is bound to vfio-pci, and lets it decode memory and master the bus.
    ///
    /// # Errors
    /// [`RigError`], which says what to do.
    pub fn open(address: PciAddress) -> Result<Self, RigError> {
        let device = Device::open(address).map_err(RigError::platform)?;
        device.enable().map_err(RigError::platform)?;
        let irq = device.interrupts(IrqMode::Polling, 0).map_err(RigError::platform)?;
        let (dma, name) = (device.dma(), format!("vfio:{address}"));
        Ok(Self { thread: Mutex::new(None), irq, dma, device, name })
    }
}

impl Opened for Vfio {
    type Mmio = Bar;
    type Dma = VfioDma;
    type Irq = VfioIrq;
    type Config = Config;

    fn name(&self) -> &str {
        &self.name
    }

    fn config(&self) -> Config {
        self.device.config()
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        self.device.bar(index)
    }

    fn dma(&self) -> &VfioDma {
        &self.dma
    }

    fn mapped(&self) -> (usize, u64) {
        self.dma.mapped()
    }

    fn vectors(&self, mode: IrqMode) -> u16 {
        self.device.vectors(mode)
    }

    fn irq(&self) -> &VfioIrq {
        &self.irq
    }

    fn interrupts(&self) -> u64 {
        self.irq.fired_in_all()
    }

    fn take_vectors(&mut self, mode: IrqMode, want: u16) -> Result<(), RigError> {
        self.irq = self.device.interrupts(mode, want).map_err(RigError::platform)?;
        Ok(())
    }

    fn connect(&self, handler: Handler) -> Result<(), RigError> {
        if self.irq.mode() == IrqMode::Polling {
            return Ok(());
        }
        let handler = Arc::clone(&handler);
        let thread = self.irq.spawn(move |vector| handler(vector)).map_err(RigError::platform)?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn check(&self) {
        if self.device.check() {
            self.irq.look_for_new_messages();
        }
    }

    fn reset(&mut self) -> Result<(), RigError> {
        self.device.reset().map_err(RigError::platform)?;
        self.irq.restore().map_err(RigError::platform)
    }
}
