//! EEPROM and OTP memory: MAC address, identity and settings that the chip loads at a reset.
//!
//! Sources: Linux 7.3 `lan743x_ethtool.c` (`lan743x_eeprom_*`, `lan743x_otp_*`, `lan743x_hs_*`), AN2948
//! chapter 4 (time-out, commands, image).

mod eeprom;
mod otp;

use embedded_hal::delay::DelayNs;
use tombolo_hal::net::MacAddress;

use crate::shared::SharedRef;
use crate::{Error, Nic};

/// How long a command may take. The EEPROM controller of LAN743x gives up after 30 ms itself.
const LIMIT_US: u32 = 1_000_000;

/// A memory of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The EEPROM beside the chip, if there is one.
    Eeprom,
    /// The memory inside, each bit of which can be programmed **once and never be cleared again**.
    Otp,
}

impl Memory {
    /// The number that a writer has to give, which shows that he knows to which memory he writes: those of
    /// Linux's ethtool.
    pub const fn magic(self) -> u32 {
        match self {
            Memory::Eeprom => 0x74a5,
            Memory::Otp => 0x74f3,
        }
    }
}

/// The station's address in the image that an EEPROM or OTP memory holds, if it holds one. The first seven
/// bytes are enough.
///
/// Images of PCI11x1x are not documented. Neither is where the second image of an OTP memory lies (its
/// first byte is 0xf7).
pub fn image_mac_address(memory: Memory, image: &[u8]) -> Option<MacAddress> {
    let known: &[u8] = match memory {
        // All of it, or the MAC address alone.
        Memory::Eeprom => &[0xa5, 0xaa],
        Memory::Otp => &[0xf3],
    };
    let (indicator, rest) = image.split_first()?;
    let mac = MacAddress(*rest.first_chunk()?);
    (known.contains(indicator) && mac.is_valid_station()).then_some(mac)
}

impl<S: SharedRef> Nic<S> {
    /// Bytes of a memory.
    ///
    /// EEPROM: 512 and 65536 (PCI11x1x), of which the one at hand may have fewer. OTP: 1024; Linux says
    /// 8192 for PCI11x1x, but its address registers reach 1024, so that the rest would be the same bytes
    /// again.
    pub fn memory_size(&self, memory: Memory) -> usize {
        match (memory, self.identity().chip.is_pci11x1x()) {
            (Memory::Eeprom, false) => 512,
            (Memory::Eeprom, true) => 64 * 1024,
            (Memory::Otp, _) => 1024,
        }
    }

    /// Reads a memory from byte `offset` on.
    ///
    /// A missing EEPROM cannot be told from an empty one: it may read as ones.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its size, [`Error::NoMemory`] if there is no answer, [`Error::Timeout`],
    /// [`Error::DeviceGone`]. A part of `bytes` may have been filled.
    pub fn read_memory(
        &mut self,
        memory: Memory,
        offset: usize,
        bytes: &mut [u8],
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let first = self.check_part(memory, offset, bytes.len())?;
        match memory {
            Memory::Eeprom => self.read_eeprom(first, bytes, delay),
            Memory::Otp => {
                let result = self.read_otp(first, bytes, delay);
                self.otp_off(delay).and(result)
            }
        }
    }

    /// Writes a memory from byte `offset` on, and reads it again.
    ///
    /// **What is written to the OTP memory stays there for ever.** `magic` is [`Memory::magic`]. Nothing
    /// takes effect before the next reset of the chip.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its size or with another `magic`, and nothing was written;
    /// [`Error::Programmed`] where OTP bits would have to be cleared, and nothing was written;
    /// [`Error::NoMemory`] if there is no answer, [`Error::Timeout`] and [`Error::DeviceGone`], after
    /// which a part may have been written; [`Error::Verify`].
    pub fn write_memory(
        &mut self,
        memory: Memory,
        magic: u32,
        offset: usize,
        bytes: &[u8],
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        if magic != memory.magic() {
            let wanted = memory.magic().into();
            let (value, what) = (magic.into(), "the magic number");
            return Err(Error::Range { what, value, least: wanted, most: wanted });
        }
        let first = self.check_part(memory, offset, bytes.len())?;
        match memory {
            Memory::Eeprom => self.write_eeprom(first, bytes, delay),
            Memory::Otp => {
                let result = self.write_otp(first, bytes, delay);
                self.otp_off(delay).and(result)
            }
        }
    }

    /// The station's address that a memory holds, if it holds one: see [`image_mac_address`].
    ///
    /// # Errors
    /// As [`read_memory`](Self::read_memory).
    pub fn stored_mac_address(
        &mut self,
        memory: Memory,
        delay: &mut impl DelayNs,
    ) -> Result<Option<MacAddress>, Error> {
        let mut image = [0; 7];
        self.read_memory(memory, 0, &mut image, delay)?;
        Ok(image_mac_address(memory, &image))
    }

    fn check_part(&self, memory: Memory, offset: usize, length: usize) -> Result<u32, Error> {
        let size = self.memory_size(memory);
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(offset as u32),
            end => {
                let value = end.unwrap_or(usize::MAX) as u64;
                Err(Error::Range {
                    what: "the end of a part of the memory",
                    value,
                    least: 0,
                    most: size as u64,
                })
            }
        }
    }

    /// Runs something under the lock that PCI11x1x's functions share. Taken for each byte, so that nobody
    /// waits for all of them.
    fn locked<D: DelayNs, T>(
        &self,
        delay: &mut D,
        run: impl FnOnce(&mut D) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !self.identity().chip.is_pci11x1x() {
            return run(delay);
        }
        let lock = self.system_lock(delay)?;
        let result = run(delay);
        drop(lock);
        result
    }
}

fn verify(offset: u32, found: u8, wanted: u8) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::Verify { offset, found, wanted }) }
}

#[cfg(test)]
mod tests;
