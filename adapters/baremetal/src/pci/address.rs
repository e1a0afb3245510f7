//! Where a function is.

use core::fmt;

/// Bus, device and function: the place of a function behind one host bridge, and its requester ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf(u16);

impl Bdf {
    /// Devices on a bus.
    pub const DEVICES: u8 = 32;
    /// Functions of a device (without Alternative Routing-ID).
    pub const FUNCTIONS: u8 = 8;

    /// The function `function` (0 to 7) of device `device` (0 to 31) on bus `bus`; `None` if there can
    /// be no such function.
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Self> {
        if device >= Self::DEVICES || function >= Self::FUNCTIONS {
            return None;
        }
        Some(Self((bus as u16) << 8 | (device as u16) << 3 | function as u16))
    }

    /// The function whose requests carry this ID.
    pub const fn from_requester_id(id: u16) -> Self {
        Self(id)
    }

    /// What its requests carry.
    pub const fn requester_id(self) -> u16 {
        self.0
    }

    /// The bus.
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The device, 0 to 31.
    pub const fn device(self) -> u8 {
        (self.0 >> 3) as u8 & 0x1f
    }

    /// The function, 0 to 7.
    pub const fn function(self) -> u8 {
        self.0 as u8 & 7
    }
}

/// As `lspci` writes it.
impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus(), self.device(), self.function())
    }
}

impl fmt::Debug for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_in_and_out() {
        let at = Bdf::new(0x3a, 31, 7).unwrap();
        assert_eq!((at.bus(), at.device(), at.function()), (0x3a, 31, 7));
        assert_eq!(Bdf::from_requester_id(at.requester_id()), at);
        assert_eq!(std::format!("{at}"), "3a:1f.7");
        assert!(Bdf::new(0, 32, 0).is_none() && Bdf::new(0, 0, 8).is_none());
    }
}
