//! A device, opened.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::pci::{ConfigSpace, PciError, SavedConfig, command, regs};
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX,
};

use crate::container::Container;
use crate::irq::{self, VfioIrq};
use crate::regions::Core;
use crate::sysfs::Sysfs;
use crate::{Bar, Config, Error, PciAddress, VfioDma, sys};

/// A PCI function that this process has opened through VFIO.
///
/// Drop everything that was made from it to close it: the kernel then resets the function and takes its
/// memory away. Only memory in quarantine outlives it, to the end of the process.
#[derive(Debug)]
pub struct Device {
    core: Arc<Core>,
    dma: VfioDma,
    sysfs: Sysfs,
    enabled: AtomicBool,
    /// The kernel wants the device back: it is being removed or unbound.
    wanted_back: Option<OwnedFd>,
    /// The kernel saw an error on the device's link (AER).
    link_error: Option<OwnedFd>,
}

impl Device {
    /// Opens a function that is bound to vfio-pci.
    ///
    /// Nothing is switched on yet: see [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`Error`], which says what to do: bind the function, load a module, be somebody else.
    pub fn open(address: PciAddress) -> Result<Self, Error> {
        let sysfs = Sysfs::system();
        let function = sysfs.function(address)?;
        // First: without a group nothing can be bound.
        let group = function.group.ok_or(Error::NoGroup(address))?;
        if function.driver.as_deref() != Some(crate::sysfs::VFIO_PCI) {
            return Err(Error::WrongDriver { address, driver: function.driver });
        }
        let container = Arc::new(Container::open(&sysfs, group)?);
        let fd = container
            .device(&address.to_string())
            .map_err(|source| Error::Call { call: "VFIO_GROUP_GET_DEVICE_FD", source })?;
        let core = Arc::new(Core::open(address, fd, container.clone())?);
        let wanted_back = listen(&core, VFIO_PCI_REQ_IRQ_INDEX);
        let link_error = listen(&core, VFIO_PCI_ERR_IRQ_INDEX);
        let device = Self {
            dma: VfioDma::new(container),
            core,
            sysfs,
            enabled: AtomicBool::new(false),
            wanted_back,
            link_error,
        };
        log::info!("{address}: opened, IOMMU group {group}");
        Ok(device)
    }

    /// Where it is.
    pub fn address(&self) -> PciAddress {
        self.core.address
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
    pub fn dma(&self) -> VfioDma {
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
    /// [`Error::NoVectors`], [`Error::Call`].
    pub fn interrupts(&self, mode: IrqMode, want: u16) -> Result<VfioIrq, Error> {
        VfioIrq::new(&self.core, &self.sysfs, mode, want)
    }

    /// Resets the function, and puts configuration and mappings back. Interrupts are put back by
    /// [`VfioIrq::restore`].
    ///
    /// # Errors
    /// [`Error::NoReset`], [`Error::Call`], [`Error::Pci`] if it does not come back.
    pub fn reset(&self) -> Result<(), Error> {
        if self.core.flags & VFIO_DEVICE_FLAGS_RESET == 0 {
            return Err(Error::NoReset(self.core.address));
        }
        let config = self.config();
        let saved = SavedConfig::save(&config)?;
        sys::reset(self.core.file.as_fd())
            .map_err(|source| Error::Call { call: "VFIO_DEVICE_RESET", source })?;
        saved.restore(&config)?;
        if self.enabled.load(Ordering::Relaxed) {
            // Somebody may have switched it off before, which is why we are here.
            self.enable()?;
        }
        self.core.revive().map_err(|source| Error::Call { call: "mmap", source })?;
        log::info!("{}: reset", self.core.address);
        Ok(())
    }

    /// Whether the device was seen to be gone: a mapping was taken away, or its identity read all ones.
    /// Its BARs read all ones from then on, until a [`reset`](Self::reset) succeeds.
    pub fn is_gone(&self) -> bool {
        self.core.gone.is_set()
    }

    /// Looks whether the device is still there, decodes memory if it should, has no error on its link and
    /// is not [wanted back](Self::is_wanted_back); returns whether. Costs two reads of configuration
    /// space. A device that is wanted back is kept from sending anything, and counts as gone.
    pub fn check(&self) -> bool {
        let config = self.config();
        if self.is_wanted_back() && !self.is_gone() {
            log::warn!("{}: the kernel wants the device back", self.core.address);
            self.core.gone.set();
        }
        let absent = config.read32(regs::VENDOR_ID) == u32::MAX;
        let off = self.enabled.load(Ordering::Relaxed)
            && !command::read(&config).is_ok_and(|command| command.memory());
        if absent || off || signalled(&self.link_error) {
            self.core.gone.set();
        }
        if self.is_gone() {
            self.core.silence();
        }
        !self.is_gone()
    }

    /// Whether the kernel wants the device back, because it is being removed or unbound. It waits until
    /// the device is closed.
    pub fn is_wanted_back(&self) -> bool {
        signalled(&self.wanted_back)
    }
}

/// An eventfd for one of the device's events; `None` if this kernel has no such event.
fn listen(core: &Core, index: u32) -> Option<OwnedFd> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
    let set = sys::set_irqs(core.file.as_fd(), index, VFIO_IRQ_SET_ACTION_TRIGGER, &[fd.as_fd()]);
    set.is_ok().then_some(fd)
}

/// Whether an eventfd was signalled. It stays so: what it stands for is not undone.
fn signalled(fd: &Option<OwnedFd>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(fd) = fd else { return false };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
