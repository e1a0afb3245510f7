//! A device that another process serves at a vfio-user socket.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_vfio_user::client::{Bar, ClientDma, ClientIrq, Config, Device, IrqThread};

use crate::hosted::Opened;
use crate::platform::Handler;
use crate::rig::RigError;

/// The device, and what was made from it.
pub struct VfioUser {
    /// First: its handler uses the rest.
    thread: Mutex<Option<IrqThread>>,
    irq: ClientIrq,
    dma: ClientDma,
    device: Device,
    name: String,
}

impl VfioUser {
    /// Connects to a server, and lets the device decode memory and master the bus.
    ///
    /// # Errors
    /// [`RigError`], which says what to do.
    pub fn open(path: &Path) -> Result<Self, RigError> {
        let device = Device::connect(path).map_err(RigError::platform)?;
        device.enable().map_err(RigError::platform)?;
        let irq = device.interrupts(IrqMode::Polling, 0).map_err(RigError::platform)?;
        let (dma, name) = (device.dma(), format!("vfio-user:{}", path.display()));
        Ok(Self { thread: Mutex::new(None), irq, dma, device, name })
    }
}

impl Opened for VfioUser {
    type Mmio = Bar;
    type Dma = ClientDma;
    type Irq = ClientIrq;
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

    fn dma(&self) -> &ClientDma {
        &self.dma
    }

    fn mapped(&self) -> (usize, u64) {
        self.dma.mapped()
    }

    fn read_bytes(&self, memory: &Bar, offset: usize, data: &mut [u8]) {
        memory.read_bytes(offset, data);
    }

    fn write_bytes(&self, memory: &Bar, offset: usize, data: &[u8]) {
        memory.write_bytes(offset, data);
    }

    fn vectors(&self, mode: IrqMode) -> u16 {
        self.device.vectors(mode)
    }

    fn irq(&self) -> &ClientIrq {
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
        // What it finds is remembered, and its BARs show it. Messages never change.
        let _ = self.device.check();
    }

    fn reset(&mut self) -> Result<(), RigError> {
        self.device.reset().map_err(RigError::platform)?;
        self.irq.restore().map_err(RigError::platform)
    }
}
