//! Power states through the power management capability.

use embedded_hal::delay::DelayNs;

use super::caps::{CapabilityId, find_capability};
use super::config::{self, ConfigSpace};
use super::error::PciError;
use super::regs::PmControl;

/// Bytes of the capability that are used here.
const SIZE: u16 = 6;

/// Time that a function may need to enter or leave D3hot (Linux: `PCI_PM_D3HOT_WAIT`).
const D3HOT_WAIT_MS: u32 = 10;
/// Time that a function may need to enter or leave D2 (Linux: `PCI_PM_D2_DELAY`).
const D2_WAIT_US: u32 = 200;

/// Power state of a function that has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PowerState {
    /// Works.
    D0,
    /// Light sleep; few devices have it.
    D1,
    /// Deeper sleep; few devices have it.
    D2,
    /// Asleep: only configuration space answers.
    D3Hot,
}

impl PowerState {
    fn from_field(state: u8) -> Self {
        match state & 3 {
            0 => Self::D0,
            1 => Self::D1,
            2 => Self::D2,
            _ => Self::D3Hot,
        }
    }
}

/// Reads the power state; `None` if the function has no power management and thus is in D0.
///
/// # Errors
///
/// Those of [`find_capability`], and [`PciError::CapabilityTruncated`].
pub fn power_state<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<PowerState>, PciError> {
    let Some(offset) = control_offset(cfg)? else {
        return Ok(None);
    };
    Ok(Some(PowerState::from_field(read(cfg, offset)?.state())))
}

/// Brings the function to `state` and waits the time it may take.
///
/// A function that comes back to D0 may have lost everything that a reset loses (see
/// [`PmControl::no_soft_reset`]); save and restore with [`SavedConfig`](super::SavedConfig).
///
/// # Errors
///
/// [`PciError::CapabilityMissing`] without power management, [`PciError::RegisterRefused`] if the
/// function does not have the state, and those of [`power_state`].
pub fn set_power_state<C: ConfigSpace + ?Sized>(
    cfg: &C,
    delay: &mut impl DelayNs,
    state: PowerState,
) -> Result<(), PciError> {
    let missing = PciError::CapabilityMissing { id: CapabilityId::POWER_MANAGEMENT };
    let offset = control_offset(cfg)?.ok_or(missing)?;
    let before = read(cfg, offset)?;
    // The wake-up status is write-one-to-clear and not ours to clear.
    let wanted = before.with_state(state as u8).with_pme_status(false);
    cfg.write16(offset, wanted.into_bits());
    match PowerState::from_field(before.state()).max(state) {
        PowerState::D3Hot => delay.delay_ms(D3HOT_WAIT_MS),
        PowerState::D2 => delay.delay_us(D2_WAIT_US),
        PowerState::D1 | PowerState::D0 => {}
    }
    let found = read(cfg, offset)?;
    if found.state() != wanted.state() {
        let (wanted, found) = (wanted.into_bits(), found.into_bits());
        return Err(PciError::RegisterRefused { offset, wanted, found });
    }
    Ok(())
}

fn control_offset<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<u16>, PciError> {
    let Some(capability) = find_capability(cfg, CapabilityId::POWER_MANAGEMENT)? else {
        return Ok(None);
    };
    Ok(Some(capability.check_size(SIZE)?.offset + PmControl::OFFSET))
}

fn read<C: ConfigSpace + ?Sized>(cfg: &C, offset: u16) -> Result<PmControl, PciError> {
    let bits = cfg.read16(offset);
    if bits == u16::MAX {
        config::check_present(cfg)?;
    }
    Ok(PmControl::from_bits(bits))
}
