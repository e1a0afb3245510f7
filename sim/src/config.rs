//! Configuration space of a PCIe function: 4 KiB, header type 0.
//!
//! A model describes its function with a [`ConfigSpaceBuilder`]; the fabric, or an adapter that
//! serves the model to a virtual machine, keeps the resulting [`ConfigSpace`] and reacts to
//! [`Effects`]. Register facts and sources: module `regs`.

mod builder;
mod caps;
mod error;
mod layout;
mod regs;
#[cfg(test)]
mod tests;

pub use builder::{Bar, Capability, ConfigSpaceBuilder, Msi, Msix, Vsec};
pub use error::ConfigError;

use crate::device::Width;
use caps::Dword;
use regs::*;

const DWORDS: usize = CONFIG_SPACE_SIZE as usize / 4;

/// All dwords with their rules.
#[derive(Clone, Debug)]
struct Image {
    dwords: Vec<Dword>,
    vendor: Vec<bool>,
}

impl Image {
    fn new() -> Self {
        Self { dwords: vec![Dword::default(); DWORDS], vendor: vec![false; DWORDS] }
    }

    /// Sets value and writable bits of the dword at `offset`, which the caller knows to exist.
    fn set(&mut self, offset: u16, value: u32, writable: u32) {
        let dword = &mut self.dwords[usize::from(offset / 4)];
        (dword.value, dword.writable) = (value, writable);
    }

    fn add(&mut self, offset: u16, bits: u32) {
        self.dwords[usize::from(offset / 4)].value |= bits;
    }

    fn clear_on_one(&mut self, offset: u16, bits: u32) {
        self.dwords[usize::from(offset / 4)].clear_on_one = bits;
    }

    fn write_capability(&mut self, offset: u16, dwords: &[Dword], is_vendor: bool) {
        let start = usize::from(offset / 4);
        self.dwords[start..start + dwords.len()].copy_from_slice(dwords);
        self.vendor[start..start + dwords.len()].fill(is_vendor);
    }
}

/// What a write to configuration space changed, for whoever runs the function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effects {
    /// Memory decoding, bus mastering, INTx, a BAR or the power state may have changed.
    pub routing: bool,
    /// The MSI or MSI-X registers were written: pending vectors may now be sent.
    pub interrupts: bool,
    /// The host asked for a function-level reset: reset the model and call [`ConfigSpace::reset`].
    pub function_reset: bool,
    /// A vendor-specific dword with writable bits was written: its offset and new value, for
    /// [`Device::config_written`](crate::device::Device::config_written).
    pub vendor: Option<(u16, u32)>,
}

/// The MSI registers as the host programmed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiState {
    /// Vectors that the host enabled; 0 while MSI is off.
    pub vectors: u8,
    /// Message address.
    pub address: u64,
    /// Message data of vector 0; a vector's number goes into the low bits.
    pub data: u16,
    /// Masked vectors.
    pub mask: u32,
}

impl MsiState {
    /// Address and data of the message of `vector`. A vector that the host did not enable shares
    /// the enabled ones.
    pub fn message(&self, vector: u16) -> (u64, u32) {
        let low = u16::from(self.vectors.max(1)) - 1;
        (self.address, u32::from(self.data & !low | vector & low))
    }
}

/// The MSI-X control bits as the host programmed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsixState {
    /// MSI-X is on.
    pub enabled: bool,
    /// All vectors are masked.
    pub function_mask: bool,
}

/// The configuration space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    image: Image,
    values: Vec<u32>,
    bars: [Option<Bar>; 6],
    pm: Option<u16>,
    exp: Option<u16>,
    msi: Option<(u16, Msi)>,
    msix: Option<(u16, Msix)>,
}

impl ConfigSpace {
    fn from_parts(
        image: Image,
        bars: [Option<Bar>; 6],
        pm: Option<u16>,
        exp: Option<u16>,
        msi: Option<(u16, Msi)>,
        msix: Option<(u16, Msix)>,
    ) -> Self {
        let values = image.dwords.iter().map(|dword| dword.value).collect();
        Self { image, values, bars, pm, exp, msi, msix }
    }

    /// Reads 1, 2 or 4 bytes. All ones if the access is not aligned, too wide or outside.
    pub fn read(&self, offset: u16, width: Width) -> u32 {
        let all_ones = u32::MAX >> (32 - 8 * width.bytes().min(4));
        match lane(offset, width) {
            Some((index, shift)) => self.values[index] >> shift & all_ones,
            None => all_ones,
        }
    }

    /// Writes 1, 2 or 4 bytes. Ignored if the access is not aligned, too wide or outside.
    pub fn write(&mut self, offset: u16, width: Width, value: u32) -> Effects {
        let Some((index, shift)) = lane(offset, width) else { return Effects::default() };
        let lanes = (u32::MAX >> (32 - 8 * width.bytes())) << shift;
        let bits = value << shift & lanes;
        let rule = self.image.dwords[index];
        let old = self.values[index];
        let writable = rule.writable & lanes;
        let mut new = (old & !writable | bits & writable) & !(bits & rule.clear_on_one);
        let register = index as u16 * 4;
        if self.pm.is_some_and(|pm| pm + PM_CTRL == register) {
            new = checked_power_state(old, new);
        }
        self.values[index] = new;
        self.effects(register, lanes, bits, new)
    }

    fn effects(&self, register: u16, lanes: u32, bits: u32, new: u32) -> Effects {
        let bar_end = BASE_ADDRESS_0 + 24;
        let is_power = self.pm.is_some_and(|pm| pm + PM_CTRL == register);
        let is_bar = (BASE_ADDRESS_0..bar_end).contains(&register);
        let in_cap = |start: Option<u16>, len: u16| {
            start.is_some_and(|start| (start..start + len).contains(&register))
        };
        let control = self.exp.is_some_and(|exp| exp + EXP_DEVCTL == register);
        let index = usize::from(register / 4);
        let is_vendor = self.image.vendor[index] && self.image.dwords[index].writable & lanes != 0;
        Effects {
            routing: register == COMMAND || is_bar || is_power,
            interrupts: in_cap(self.msi.map(|msi| msi.0), 0x18) || in_cap(self.msix.map(|msix| msix.0), 4),
            function_reset: control && bits & EXP_DEVCTL_FLR != 0 && self.has_flr(),
            vendor: is_vendor.then_some((register, new)),
        }
    }

    /// Back to the values after reset: BARs and the command register are cleared. What belongs to
    /// the link (link control, payload size) stays, as a function-level reset demands.
    pub fn reset(&mut self) {
        for (value, rule) in self.values.iter_mut().zip(&self.image.dwords) {
            *value = rule.value & !rule.sticky | *value & rule.sticky;
        }
    }

    /// Puts all writable registers back to a state that was saved by cloning, as an operating
    /// system does after a reset.
    pub fn restore(&mut self, saved: &Self) {
        for ((value, old), rule) in self.values.iter_mut().zip(&saved.values).zip(&self.image.dwords) {
            *value = *value & !rule.writable | old & rule.writable;
        }
    }

    /// The BAR described at `index`.
    pub fn bar(&self, index: u8) -> Option<Bar> {
        self.bars.get(usize::from(index)).copied().flatten()
    }

    /// All BARs.
    pub fn bars(&self) -> impl Iterator<Item = Bar> + '_ {
        self.bars.iter().flatten().copied()
    }

    /// The address in the BAR's register, or `None` if the BAR does not exist, memory decoding is
    /// off, the function sleeps (D3), or no address was given yet (0).
    pub fn bar_address(&self, index: u8) -> Option<u64> {
        let bar = self.bar(index)?;
        let register = usize::from(BASE_ADDRESS_0 / 4) + usize::from(index);
        let low = u64::from(self.values[register]) & !BAR_FLAGS;
        let high = if bar.is_64bit { u64::from(self.values[register + 1]) << 32 } else { 0 };
        let address = high | low;
        (address != 0 && self.memory_enabled()).then_some(address)
    }

    fn command(&self) -> u32 {
        self.values[usize::from(COMMAND / 4)]
    }

    /// Whether the function answers memory accesses.
    pub fn memory_enabled(&self) -> bool {
        self.command() & COMMAND_MEMORY != 0 && self.is_awake()
    }

    /// Whether the function may send memory requests and interrupt messages.
    pub fn bus_master(&self) -> bool {
        self.command() & COMMAND_MASTER != 0 && self.is_awake()
    }

    /// Whether INTx is switched off.
    pub fn intx_disabled(&self) -> bool {
        self.command() & COMMAND_INTX_DISABLE != 0
    }

    /// Whether the function has an INTx pin.
    pub fn has_intx(&self) -> bool {
        self.values[usize::from(INTERRUPT_LINE / 4)] >> 8 & 0xff != 0
    }

    /// Whether the power state is D0.
    pub fn is_awake(&self) -> bool {
        let state = |pm: u16| self.values[usize::from((pm + PM_CTRL) / 4)] & PM_CTRL_STATE_MASK;
        self.pm.is_none_or(|pm| state(pm) == 0)
    }

    /// Whether the function can be reset by itself.
    pub fn has_flr(&self) -> bool {
        let capability = |exp: u16| self.values[usize::from(exp / 4) + 1];
        self.exp.is_some_and(|exp| capability(exp) & EXP_DEVCAP_FLR != 0)
    }

    /// Shows the level of the INTx pin in the status register.
    pub fn set_interrupt_status(&mut self, asserted: bool) {
        let value = &mut self.values[usize::from(COMMAND / 4)];
        *value = if asserted { *value | STATUS_INTERRUPT } else { *value & !STATUS_INTERRUPT };
    }

    /// The MSI capability: its offset and description.
    pub fn msi_capability(&self) -> Option<(u16, Msi)> {
        self.msi
    }

    /// The MSI-X capability: its offset and description.
    pub fn msix_capability(&self) -> Option<(u16, Msix)> {
        self.msix
    }

    /// How the host programmed MSI, if the function has it.
    pub fn msi(&self) -> Option<MsiState> {
        let (offset, msi) = self.msi?;
        let at = |register: u16| self.values[usize::from((offset + register) / 4)];
        let enabled = 1_u8 << ((at(0) & MSI_QSIZE) >> 20).min(5);
        let on = at(0) & MSI_ENABLE != 0;
        Some(MsiState {
            vectors: if on { enabled.min(msi.vectors) } else { 0 },
            address: u64::from(at(MSI_ADDRESS_HI)) << 32 | u64::from(at(MSI_ADDRESS_LO)),
            data: at(MSI_DATA_64) as u16,
            mask: if msi.per_vector_mask { at(MSI_MASK_64) } else { 0 },
        })
    }

    /// Shows which masked MSI vectors wait. Without per-vector masks there is nowhere to show it.
    pub fn set_msi_pending(&mut self, pending: u32) {
        if let Some((offset, Msi { per_vector_mask: true, .. })) = self.msi {
            self.values[usize::from((offset + MSI_PENDING_64) / 4)] = pending;
        }
    }

    /// How the host programmed MSI-X, if the function has it.
    pub fn msix(&self) -> Option<MsixState> {
        let (offset, _) = self.msix?;
        let control = self.values[usize::from(offset / 4)];
        Some(MsixState { enabled: control & MSIX_ENABLE != 0, function_mask: control & MSIX_MASKALL != 0 })
    }

    /// The bits of the dword at `offset` that a host's write can change in any way.
    pub fn writable_bits(&self, offset: u16) -> u32 {
        let rule = self.image.dwords.get(usize::from(offset / 4));
        rule.map_or(0, |rule| rule.writable | rule.clear_on_one)
    }
}

/// Index of the dword and shift of the access in it.
fn lane(offset: u16, width: Width) -> Option<(usize, u32)> {
    let bytes = width.bytes() as u16;
    if bytes > 4 || !offset.is_multiple_of(bytes) || offset >= CONFIG_SPACE_SIZE {
        return None;
    }
    Some((usize::from(offset / 4), u32::from(offset % 4) * 8))
}

/// A write of a power state that the function does not have (D1, D2) is discarded.
fn checked_power_state(old: u32, new: u32) -> u32 {
    match new & PM_CTRL_STATE_MASK {
        0 | PM_CTRL_STATE_MASK => new,
        _ => new & !PM_CTRL_STATE_MASK | old & PM_CTRL_STATE_MASK,
    }
}
