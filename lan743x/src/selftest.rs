//! Self-tests. That of the interrupt is [`Nic::test_interrupt`].

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::Mmio;
use tombolo_hal::reg;
use tombolo_hal::register::ReadWriteable;

use crate::regs::mac::{MAC_CR, Mac};
use crate::shared::SharedRef;
use crate::{Error, Interface, Nic};

/// Rows of registers that only store: offset of the first, how many, and the bits that are there
/// (AN2948).
const STORAGE: [(usize, usize, u32); 5] = [
    // The station's address: RX_ADDRH, then RX_ADDRL.
    (0x118, 1, 0x0000_ffff),
    (0x11c, 1, 0xffff_ffff),
    // Masks of wake-up filters.
    (0x200, 128, 0xffff_ffff),
    // Key and table of receive-side scaling.
    (0x558, 10, 0xffff_ffff),
    (0x580, 32, 0x0303_0303),
];

/// Each bit is once a one and once a zero, also where its neighbours differ.
const PATTERNS: [u32; 4] = [0x0000_0000, 0xffff_ffff, 0x5555_5555, 0xaaaa_aaaa];

impl<S: SharedRef> Nic<S> {
    /// Writes patterns to registers that only store, reads them again and restores what was in them.
    /// While no frames are received: to be called with rings closed.
    ///
    /// # Errors
    /// [`Error::RegisterTest`] for the first register that does not keep them, [`Error::DeviceGone`].
    pub fn test_registers(&mut self) -> Result<(), Error> {
        self.shared_ref().shared().check_present()?;
        for (first, count, mask) in STORAGE {
            for index in 0..count {
                self.test_register(first + index * 4, mask)?;
            }
        }
        Ok(())
    }

    fn test_register(&self, offset: usize, mask: u32) -> Result<(), Error> {
        let shared = self.shared_ref().shared();
        let old = shared.io.read32(offset);
        let wrong = PATTERNS.into_iter().find_map(|pattern| {
            let wrote = pattern & mask;
            shared.io.write32(offset, old & !mask | wrote);
            let read = shared.io.read32(offset) & mask;
            (read != wrote).then_some((wrote, read))
        });
        shared.io.write32(offset, old);
        match wrong {
            None => Ok(()),
            Some((wrote, read)) => {
                shared.check_present()?;
                Err(Error::RegisterTest { offset: offset as u32, wrote, read })
            }
        }
    }

    /// The MAC sends to itself instead of its PHY, or no longer: frames go out through a transmit ring and
    /// come back through a receive ring. 1000 Mbit/s, or 100 with MII and RMII; the link's speed comes
    /// back afterwards.
    ///
    /// The MAC is off for a moment, if it is on.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the MAC does not stop: then nothing else was changed.
    pub fn set_loopback(&mut self, on: bool, delay: &mut impl DelayNs) -> Result<(), Error> {
        // These bits must not be changed while the MAC is on (AN2948).
        let running = self.mac_on;
        self.stop(delay)?;
        let cr = reg!(self.shared_ref().shared().mac, Mac, cr);
        if on {
            let slow = matches!(self.interface(), Interface::Mii | Interface::Rmii);
            let speed = if slow { MAC_CR::CFG::Mbit100 } else { MAC_CR::CFG::Mbit1000 };
            cr.modify(MAC_CR::INT_LOOP::SET + MAC_CR::DPX::SET + speed);
        } else {
            cr.modify(MAC_CR::INT_LOOP::CLEAR);
            let state = self.link_state();
            self.set_link(&state);
        }
        if running {
            self.start();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Wait;
    use crate::testing::{self, LAN7430, LAN7431, Waited};
    use std::vec::Vec;

    #[test]
    fn registers_that_keep_everything_pass_and_are_as_before() {
        let (device, mut nic) = testing::brought_up(LAN7430);
        let places: Vec<usize> =
            STORAGE.iter().flat_map(|(first, count, _)| (0..*count).map(move |i| first + i * 4)).collect();
        for place in &places {
            device.poke(*place, 0x0102_0300 + *place as u32);
        }
        nic.test_registers().unwrap();
        assert!(places.iter().all(|place| device.peek(*place) == 0x0102_0300 + *place as u32));
    }

    #[test]
    fn a_bit_that_sticks_is_found_and_the_register_restored() {
        let (device, mut nic) = testing::brought_up(LAN7430);
        device.poke(0x56c, 0x1234_5678);
        device.behave(|words, offset, value| {
            if let (0x56c, Some(value)) = (offset, value) {
                words.set(offset, value & !(1 << 17));
            }
        });
        let error = nic.test_registers().unwrap_err();
        assert_eq!(error, Error::RegisterTest { offset: 0x56c, wrote: u32::MAX, read: !(1 << 17) });
        assert_eq!(device.peek(0x56c), 0x1234_5678);
        device.remove();
        assert_eq!(nic.test_registers(), Err(Error::DeviceGone));
    }

    #[test]
    fn loopback_is_changed_while_the_mac_is_off() {
        let (device, mut nic) = testing::brought_up(LAN7431);
        let delay = &mut Waited::default();
        nic.set_loopback(true, delay).unwrap();
        assert_eq!(device.peek(0x100) & 0x40e, 1 << 10 | 1 << 3 | 2 << 1);
        assert_eq!(device.peek(0x104) & 1, 0, "it was off and stays off");
        // A receiver that says when it has stopped.
        device.behave(|words, offset, value| {
            if let (0x104, Some(value)) = (offset, value) {
                words.set(offset, value & !2 | if value & 1 == 0 { 2 } else { 0 });
            }
        });
        nic.start();
        device.take_writes();
        nic.set_loopback(false, delay).unwrap();
        let writes = device.take_writes();
        let place = |wanted: &dyn Fn(&(usize, u32)) -> bool| writes.iter().position(wanted).unwrap();
        let (stopped, changed) = (place(&|w| w.0 == 0x104 && w.1 & 1 == 0), place(&|w| w.0 == 0x100));
        assert!(stopped < changed);
        assert!(changed < place(&|w| w.0 == 0x104 && w.1 & 1 == 1));
        assert_eq!((device.peek(0x100) & 1 << 10, device.peek(0x104) & 1, device.peek(0x108) & 1), (0, 1, 1));
    }

    #[test]
    fn a_mac_that_does_not_stop_is_left_as_it_is() {
        let (device, mut nic) = testing::brought_up(LAN7430);
        nic.start();
        let before = device.peek(0x100);
        device.behave(|words, offset, _| {
            if offset == 0x104 {
                words.clear(offset, 2);
            }
        });
        let result = nic.set_loopback(true, &mut Waited::default());
        assert!(matches!(result, Err(Error::Timeout { what: Wait::ReceiverStop, .. })));
        assert_eq!(device.peek(0x100), before);
    }
}
