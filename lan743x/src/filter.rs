//! What is received: addresses, checksums, receive-side scaling.
//!
//! Source: Linux 7.3 `lan743x_main.c` (`lan743x_rfe_*`, `lan743x_dp_write`) and `lan743x_ethtool.c`
//! (`lan743x_ethtool_*_rxfh`).

use embedded_hal::delay::DelayNs;
use tombolo_hal::net::MacAddress;
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Readable, Writeable};

use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::rfe::{FILTER_COUNT, RFE_CTL, RSS_CFG, Rfe};
use crate::regs::system::{DP_CMD, DP_SEL, DP_VHF_HASH, System, VHF_HASH_WORDS};
use crate::shared::SharedRef;
use crate::{Error, Nic};

/// Which frames are received, besides broadcasts and those for the station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter<'a> {
    /// All frames.
    pub promiscuous: bool,
    /// All multicasts.
    pub all_multicast: bool,
    /// These multicast addresses: 32 exactly, the others by a hash of 512 bits, which lets some more
    /// through.
    pub multicast: &'a [MacAddress],
    /// Check the checksums of IP, TCP and UDP.
    pub checksums: bool,
}

/// Receive-side scaling: frames of one flow go to one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rss {
    /// Key of the Toeplitz hash.
    pub key: [u8; 40],
    /// The queue (0 to 3) for the lowest seven bits of the hash.
    pub queues: [u8; 128],
}

impl Rss {
    /// Flows spread over `queues` queues evenly.
    pub fn spread(key: [u8; 40], queues: u8) -> Self {
        let queues = queues.clamp(1, 4);
        Self { key, queues: core::array::from_fn(|index| (index % usize::from(queues)) as u8) }
    }
}

/// The bit of the hash table for an address: the upper nine bits of its CRC-32, as it goes over the wire.
fn hash_bit(mac: MacAddress) -> usize {
    let mut crc = u32::MAX;
    for byte in mac.0 {
        for bit in 0..8 {
            let carry = crc >> 31 ^ u32::from(byte >> bit & 1);
            crc = crc << 1 ^ if carry != 0 { 0x04c1_1db7 } else { 0 };
        }
    }
    (crc >> 23) as usize
}

impl<S: SharedRef> Nic<S> {
    /// Chooses which frames are received.
    ///
    /// # Errors
    /// [`Error`] if the hash table cannot be written; broadcasts and frames for the station come all the
    /// same.
    pub fn set_filter(&mut self, filter: &Filter<'_>, delay: &mut impl DelayNs) -> Result<(), Error> {
        // The first entry is the station's.
        let exact = filter.multicast.len().min(FILTER_COUNT - 1);
        let (exact, hashed) = filter.multicast.split_at(exact);
        for index in 1..FILTER_COUNT {
            self.write_filter(index, exact.get(index - 1).copied())?;
        }
        let mut table = [0_u32; VHF_HASH_WORDS];
        for mac in hashed {
            let bit = hash_bit(*mac);
            if let Some(word) = table.get_mut(bit / 32) {
                *word |= 1 << (bit % 32);
            }
        }
        self.write_hash_table(&table, delay)?;
        let on = |condition: bool| u32::from(condition);
        reg!(self.shared_ref().shared().rfe, Rfe, ctl).modify(
            RFE_CTL::AB::SET
                + RFE_CTL::AU.val(on(filter.promiscuous))
                + RFE_CTL::AM.val(on(filter.promiscuous || filter.all_multicast))
                + RFE_CTL::DA_PERFECT::SET
                + RFE_CTL::MCAST_HASH.val(on(!hashed.is_empty()))
                + RFE_CTL::IP_COE.val(on(filter.checksums))
                + RFE_CTL::TCP_UDP_COE.val(on(filter.checksums)),
        );
        Ok(())
    }

    fn write_hash_table(&self, table: &[u32; VHF_HASH_WORDS], delay: &mut impl DelayNs) -> Result<(), Error> {
        let system = &self.shared_ref().shared().system;
        let mut ready = || {
            let read = || reg!(system, System, dp_sel).get();
            let is_ready = |value: u32| value & DP_SEL::READY::SET.value != 0;
            // Linux gives it 4 ms.
            wait_for(Wait::DataPort, delay, 10, 4_000, read, is_ready).map(drop)
        };
        ready()?;
        reg!(system, System, dp_sel).modify(DP_SEL::SELECT::Rfe);
        for (address, word) in (DP_VHF_HASH..).zip(table) {
            reg!(system, System, dp_addr).set(address);
            reg!(system, System, dp_data).set(*word);
            reg!(system, System, dp_cmd).write(DP_CMD::WRITE::SET);
            ready()?;
        }
        Ok(())
    }

    /// Spreads flows over the receive queues: all kinds of packets that the device can hash.
    ///
    /// # Errors
    /// [`Error::NoChannel`] for a queue that is none.
    pub fn set_rss(&mut self, rss: &Rss) -> Result<(), Error> {
        let available = self.identity().chip.rx_channels();
        if let Some(channel) = rss.queues.iter().copied().find(|queue| *queue >= available) {
            return Err(Error::NoChannel { channel, available });
        }
        let registers = &self.shared_ref().shared().rfe;
        for (index, bytes) in rss.key.chunks_exact(4).enumerate() {
            if let Some(word) = reg!(registers, Rfe, hash_key[index]) {
                word.set(bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
            }
        }
        for (index, queues) in rss.queues.chunks_exact(4).enumerate() {
            if let Some(word) = reg!(registers, Rfe, indx[index]) {
                word.set(queues.iter().rev().fold(0, |word, queue| word << 8 | u32::from(*queue)));
            }
        }
        reg!(registers, Rfe, rss_cfg).write(
            RSS_CFG::KINDS.val(0x1ff)
                + RSS_CFG::VALID_HASH_BITS.val(7)
                + RSS_CFG::QUEUE_ENABLE::SET
                + RSS_CFG::HASH_STORE::SET
                + RSS_CFG::ENABLE::SET,
        );
        Ok(())
    }

    /// All frames go to queue 0.
    pub fn disable_rss(&mut self) {
        reg!(self.shared_ref().shared().rfe, Rfe, rss_cfg).set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same hash by the reflected CRC-32 that everybody has, its bits turned round.
    #[test]
    fn the_hash_is_the_upper_end_of_the_crc_of_ethernet() {
        for seed in 0..200_u64 {
            let mac = MacAddress::random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut crc = u32::MAX;
            for byte in mac.0 {
                crc ^= u32::from(byte);
                for _ in 0..8 {
                    crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
                }
            }
            assert_eq!(hash_bit(mac), (crc.reverse_bits() >> 23) as usize);
        }
    }
}
