//! Function-level reset, and what has to be saved around it.

use embedded_hal::delay::DelayNs;

use super::bar::BAR_COUNT;
use super::caps::{CapabilityId, find_capability};
use super::command;
use super::config::{self, ConfigSpace};
use super::error::PciError;
use super::identity::{self, classify};
use super::regs::{self, Command, HeaderType};
use super::regs_express::{DEVICE_CONTROL_2, DeviceCapabilities, DeviceControl, DeviceStatus, PcieFlags};

/// Longest wait for the function's own requests to complete, in milliseconds, the last poll
/// included (Linux's `pci_wait_for_pending` waits 700).
pub const TRANSACTIONS_LIMIT_MS: u32 = 700;
/// Wait after a reset before the first access, in milliseconds (PCI Express Base, 6.6.2).
pub const FLR_SETTLE_MS: u32 = 100;
/// A patient limit for [`function_level_reset`], in milliseconds (Linux:
/// `PCIE_RESET_READY_POLL_MS`). The specification allows 1000.
pub const FLR_READY_LIMIT_MS: u32 = 60_000;

/// Longest pause between two looks at a function that is not ready.
const LONGEST_PAUSE_MS: u32 = 1000;
/// Bytes of the PCI Express capability up to and including device status.
const PCIE_SIZE: u16 = 0x0c;
/// Bytes of a capability of version 2 that has Device Control 2.
const PCIE_SIZE_V2: u16 = 0x2a;

/// How a function-level reset went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlrReport {
    /// The function still waited for completions when it was reset. They may arrive after the
    /// reset and be taken for answers to new requests: do not enable bus mastering again soon.
    pub transactions_pending: bool,
    /// Milliseconds from the reset until the function answered.
    pub ready_after_ms: u32,
}

/// Resets the function, alone of its device, through its PCI Express capability.
///
/// In order: bus mastering off; wait for the function's own requests
/// ([`TRANSACTIONS_LIMIT_MS`] at most; a function that never finishes them is reset all the same,
/// and the report says so); reset; [`FLR_SETTLE_MS`]; wait until it answers, at most
/// `ready_limit_ms` after the reset.
///
/// Afterwards the function has forgotten BARs, command and control registers, MSI and MSI-X and all
/// of its own registers. [`SavedConfig`] brings the first three back. Where a platform (VFIO, a
/// kernel) owns the device, use its reset instead: it restores what it knows of.
///
/// ```
/// use tombolo_hal::pci::{self, fake::FakeConfigSpace, BarKind, PciError};
/// # struct Delay;
/// # impl embedded_hal::delay::DelayNs for Delay { fn delay_ns(&mut self, _ns: u32) {} }
/// # let mut delay = Delay;
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda)
///     .with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x1000)
///     .with_flr(0x70, 2);
/// let saved = pci::SavedConfig::save(&cfg)?;
/// let report = pci::function_level_reset(&cfg, &mut delay, pci::FLR_READY_LIMIT_MS)?;
/// saved.restore(&cfg)?;
/// assert!(!report.transactions_pending);
/// assert_eq!(pci::bars(&cfg)?[0].map(|bar| bar.address), Some(0xe000_0000));
/// # Ok::<(), PciError>(())
/// ```
///
/// # Errors
///
/// Before the reset: [`PciError::Absent`], [`PciError::NotReady`], [`PciError::DeviceGone`], those
/// of [`find_capability`], [`PciError::CapabilityMissing`], [`PciError::FlrUnsupported`]. After it:
/// [`PciError::ResetTimeout`], [`PciError::IdentityChanged`].
pub fn function_level_reset<C: ConfigSpace + ?Sized>(
    cfg: &C,
    delay: &mut impl DelayNs,
    ready_limit_ms: u32,
) -> Result<FlrReport, PciError> {
    let id = cfg.read32(regs::VENDOR_ID);
    classify(id)?;
    let missing = PciError::CapabilityMissing { id: CapabilityId::PCI_EXPRESS };
    let pcie = find_pcie(cfg)?.ok_or(missing)?;
    let capabilities = DeviceCapabilities::from_bits(cfg.read32(pcie + DeviceCapabilities::OFFSET));
    config::check_present(cfg)?;
    if !capabilities.flr() {
        return Err(PciError::FlrUnsupported);
    }
    match command::set_bus_master(cfg, false) {
        // A function that keeps on mastering needs the reset all the more.
        Ok(()) | Err(PciError::RegisterRefused { .. }) => {}
        Err(error) => return Err(error),
    }
    let transactions_pending = !transactions_done(cfg, delay, pcie)?;
    let control = cfg.read16(pcie + DeviceControl::OFFSET);
    let control = DeviceControl::from_bits(control).with_initiate_flr(true);
    cfg.write16(pcie + DeviceControl::OFFSET, control.into_bits());
    delay.delay_ms(FLR_SETTLE_MS);
    let ready_after_ms = wait_ready(cfg, delay, id, ready_limit_ms)?;
    Ok(FlrReport { transactions_pending, ready_after_ms })
}

/// Waits for the function's own requests; says whether they all completed.
fn transactions_done<C: ConfigSpace + ?Sized>(
    cfg: &C,
    delay: &mut impl DelayNs,
    pcie: u16,
) -> Result<bool, PciError> {
    let interval_us = 10_000;
    let waited = crate::wait::poll_until(delay, interval_us, TRANSACTIONS_LIMIT_MS * 1000, || {
        let status = cfg.read16(pcie + DeviceStatus::OFFSET);
        if status == u16::MAX {
            return config::check_present(cfg).err().map(Err);
        }
        let pending = DeviceStatus::from_bits(status).transactions_pending();
        (!pending).then_some(Ok(()))
    });
    match waited {
        Ok(Ok(())) => Ok(true),
        Ok(Err(gone)) => Err(gone),
        Err(crate::wait::Timeout { .. }) => Ok(false),
    }
}

/// Waits until the function `expected` answers, with pauses that double; gives the milliseconds
/// since the reset.
fn wait_ready<C: ConfigSpace + ?Sized>(
    cfg: &C,
    delay: &mut impl DelayNs,
    expected: u32,
    limit_ms: u32,
) -> Result<u32, PciError> {
    let mut waited_ms = FLR_SETTLE_MS;
    let mut pause = 1;
    loop {
        let found = cfg.read32(regs::VENDOR_ID);
        if found == expected {
            return Ok(waited_ms);
        }
        if classify(found).is_ok() {
            return Err(PciError::IdentityChanged { expected, found });
        }
        if waited_ms >= limit_ms {
            return Err(PciError::ResetTimeout { waited_ms });
        }
        let step = pause.min(limit_ms - waited_ms);
        delay.delay_ms(step);
        waited_ms += step;
        pause = (pause * 2).min(LONGEST_PAUSE_MS);
    }
}

fn find_pcie<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<u16>, PciError> {
    let Some(capability) = find_capability(cfg, CapabilityId::PCI_EXPRESS)? else {
        return Ok(None);
    };
    Ok(Some(capability.check_size(PCIE_SIZE)?.offset))
}

/// The part of an endpoint's configuration that a reset loses and that belongs to the platform:
/// BARs, expansion ROM, command, device control, cache line size and interrupt line.
///
/// Not in it: MSI and MSI-X, which whoever routes interrupts programs again, and error reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedConfig {
    id: u32,
    command: Command,
    bars: [u32; BAR_COUNT],
    rom: u32,
    cache_line: u8,
    interrupt_line: u8,
    express: Option<SavedExpress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SavedExpress {
    offset: u16,
    control: DeviceControl,
    control_2: Option<u16>,
}

impl SavedConfig {
    /// Reads what has to be restored.
    ///
    /// # Errors
    ///
    /// [`PciError::Absent`], [`PciError::NotReady`], [`PciError::DeviceGone`],
    /// [`PciError::HeaderLayout`] unless it is an endpoint, and those of [`find_capability`].
    pub fn save<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Self, PciError> {
        let id = cfg.read32(regs::VENDOR_ID);
        classify(id)?;
        if usize::from(identity::bar_count(cfg)?) != BAR_COUNT {
            return Err(PciError::HeaderLayout { layout: HeaderType::BRIDGE });
        }
        let mut index = 0;
        let saved = Self {
            id,
            command: Command::from_bits(cfg.read16(regs::COMMAND)),
            bars: [(); BAR_COUNT].map(|()| {
                index += 1;
                cfg.read32(regs::base_address(index - 1))
            }),
            rom: cfg.read32(regs::ROM_ADDRESS),
            cache_line: cfg.read8(regs::CACHE_LINE_SIZE),
            interrupt_line: cfg.read8(regs::INTERRUPT_LINE),
            express: SavedExpress::save(cfg)?,
        };
        config::check_present(cfg)?;
        Ok(saved)
    }

    /// Writes it back, the command register last, so that nothing is decoded half programmed.
    ///
    /// # Errors
    ///
    /// [`PciError::DeviceGone`], or [`PciError::IdentityChanged`] if it is another function's;
    /// then nothing was written.
    pub fn restore<C: ConfigSpace + ?Sized>(&self, cfg: &C) -> Result<(), PciError> {
        let found = cfg.read32(regs::VENDOR_ID);
        classify(found).map_err(|_| PciError::DeviceGone)?;
        if found != self.id {
            return Err(PciError::IdentityChanged { expected: self.id, found });
        }
        let off = self.command.with_memory(false).with_io(false).with_bus_master(false);
        cfg.write16(regs::COMMAND, off.into_bits());
        if let Some(express) = &self.express {
            express.restore(cfg);
        }
        for (index, bar) in (0..).zip(self.bars) {
            cfg.write32(regs::base_address(index), bar);
        }
        cfg.write32(regs::ROM_ADDRESS, self.rom);
        cfg.write8(regs::CACHE_LINE_SIZE, self.cache_line);
        cfg.write8(regs::INTERRUPT_LINE, self.interrupt_line);
        cfg.write16(regs::COMMAND, self.command.into_bits());
        config::check_present(cfg)
    }
}

impl SavedExpress {
    fn save<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<Self>, PciError> {
        let Some(capability) = find_capability(cfg, CapabilityId::PCI_EXPRESS)? else {
            return Ok(None);
        };
        let offset = capability.check_size(PCIE_SIZE)?.offset;
        let flags = PcieFlags::from_bits(cfg.read16(offset + PcieFlags::OFFSET));
        let has_control_2 = flags.version() >= 2 && capability.check_size(PCIE_SIZE_V2).is_ok();
        Ok(Some(Self {
            offset,
            control: DeviceControl::from_bits(cfg.read16(offset + DeviceControl::OFFSET)),
            control_2: has_control_2.then(|| cfg.read16(offset + DEVICE_CONTROL_2)),
        }))
    }

    fn restore<C: ConfigSpace + ?Sized>(&self, cfg: &C) {
        // The reset bit reads zero on a sane device; writing it back would reset again.
        let control = self.control.with_initiate_flr(false);
        cfg.write16(self.offset + DeviceControl::OFFSET, control.into_bits());
        if let Some(control_2) = self.control_2 {
            cfg.write16(self.offset + DEVICE_CONTROL_2, control_2);
        }
    }
}
