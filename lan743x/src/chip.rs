//! Which chip it is, and what it has.

use tombolo_hal::register::LocalRegisterCopy;

use crate::Error;
use crate::regs::system::ID_REV;

/// PCI vendor ID of all chips: SMSC's, which Microchip bought.
pub const VENDOR: u16 = 0x1055;

/// The chips that this driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chip {
    /// LAN7430: with a PHY inside.
    Lan7430,
    /// LAN7431: RGMII or MII.
    Lan7431,
    /// PCI11010: SGMII, RGMII or RMII.
    Pci11010,
    /// PCI11414: as PCI11010.
    Pci11414,
}

impl Chip {
    /// All of them.
    pub const ALL: [Chip; 4] = [Chip::Lan7430, Chip::Lan7431, Chip::Pci11010, Chip::Pci11414];

    /// PCI device ID, which is also the upper half of the identity register.
    pub const fn device_id(self) -> u16 {
        match self {
            Chip::Lan7430 => 0x7430,
            Chip::Lan7431 => 0x7431,
            Chip::Pci11010 => 0xa011,
            Chip::Pci11414 => 0xa041,
        }
    }

    /// The chip with this PCI device ID.
    pub fn from_device_id(id: u16) -> Option<Chip> {
        Chip::ALL.into_iter().find(|chip| chip.device_id() == id)
    }

    /// Whether it is one of the PCI11x1x.
    pub const fn is_pci11x1x(self) -> bool {
        matches!(self, Chip::Pci11010 | Chip::Pci11414)
    }

    /// Transmit channels.
    pub const fn tx_channels(self) -> u8 {
        if self.is_pci11x1x() { 4 } else { 1 }
    }

    /// Receive channels.
    pub const fn rx_channels(self) -> u8 {
        4
    }

    /// Interrupt vectors.
    pub const fn vectors(self) -> u16 {
        if self.is_pci11x1x() { 16 } else { 8 }
    }

    /// Timers of interrupt moderation.
    pub const fn moderation_timers(self) -> usize {
        if self.is_pci11x1x() { 10 } else { 8 }
    }
}

impl core::fmt::Display for Chip {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Chip::Lan7430 => "LAN7430",
            Chip::Lan7431 => "LAN7431",
            Chip::Pci11010 => "PCI11010",
            Chip::Pci11414 => "PCI11414",
        })
    }
}

/// Chip and revision, as the identity register tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The chip.
    pub chip: Chip,
    /// Its revision: 0 and 0x10 are LAN743x A0 and B0, 0xa0 and 0xb0 are PCI11x1x A0 and B0.
    pub revision: u16,
}

impl Identity {
    /// From the identity register.
    ///
    /// # Errors
    /// [`Error::DeviceGone`] for all ones, [`Error::UnknownChip`] for what is none of [`Chip`].
    pub fn from_id_rev(value: u32) -> Result<Self, Error> {
        if value == u32::MAX {
            return Err(Error::DeviceGone);
        }
        let word = LocalRegisterCopy::<u32, ID_REV::Register>::new(value);
        let chip =
            Chip::from_device_id(word.read(ID_REV::ID) as u16).ok_or(Error::UnknownChip { id: value })?;
        Ok(Self { chip, revision: word.read(ID_REV::REVISION) as u16 })
    }

    /// LAN743x A0, whose interrupts clear nothing by themselves, and which has neither MSI nor
    /// moderation. (Linux: `LAN743X_CSR_FLAG_IS_A0`.)
    pub const fn is_a0(self) -> bool {
        !self.chip.is_pci11x1x() && self.revision == 0
    }

    /// PCI11x1x A0, which needs other straps to know its interface.
    pub const fn is_pci11x1x_a0(self) -> bool {
        self.chip.is_pci11x1x() && self.revision == 0xa0
    }

    /// PCI11x1x B0, whose filter needs a smaller read FIFO threshold.
    pub const fn is_pci11x1x_b0(self) -> bool {
        self.chip.is_pci11x1x() && self.revision == 0xb0
    }

    /// Whether interrupts can clear their own enable and status.
    pub const fn has_auto_clear(self) -> bool {
        !self.is_a0()
    }

    /// Whether it may use MSI. A0 must not.
    pub const fn has_msi(self) -> bool {
        !self.is_a0()
    }
}

impl core::fmt::Display for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let letter = match (self.chip.is_pci11x1x(), self.revision) {
            (false, 0) | (true, 0xa0) => " A0",
            (false, 0x10) | (true, 0xb0) => " B0",
            _ => return write!(f, "{} revision {:#x}", self.chip, self.revision),
        };
        write!(f, "{}{letter}", self.chip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn identities_are_told_apart() {
        let of = |value| Identity::from_id_rev(value);
        assert!(of(0x7430_0000).unwrap().is_a0());
        assert!(!of(0x7431_0010).unwrap().is_a0());
        assert!(of(0xa041_00a0).unwrap().is_pci11x1x_a0());
        assert!(of(0xa011_00b0).unwrap().is_pci11x1x_b0());
        assert!(of(0xa011_0000).unwrap().has_auto_clear(), "A0 is a revision of LAN743x");
        assert_eq!(of(0xa041_00b0).unwrap().to_string(), "PCI11414 B0");
        assert_eq!(of(u32::MAX), Err(Error::DeviceGone));
        assert_eq!(of(0x743f_0000), Err(Error::UnknownChip { id: 0x743f_0000 }));
        assert_eq!(of(0), Err(Error::UnknownChip { id: 0 }));
    }
}
