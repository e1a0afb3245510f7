//! Registers for a report, as `ethtool -d` shows them.
//!
//! Source: Linux 7.3 `lan743x_ethtool.c` (`lan743x_common_regs`, `lan743x_sgmii_regs`): the same registers in
//! the same order, without its first word, which is no register but the flags of that driver.

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::Mmio;

use crate::pcs::{Pcs, VEND2};
use crate::shared::SharedRef;
use crate::{Interface, Nic};

/// Version of the format, of Linux's ethtool.
pub const DUMP_VERSION: u32 = 1;

/// The serial lane's other MDIO manageable device.
const VEND1: u8 = 30;

/// Where a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterPlace {
    /// In BAR 0, at this byte offset.
    Bar(u16),
    /// In the serial lane's PCS.
    Mmd {
        /// MDIO manageable device.
        device: u8,
        /// Its register, of 16 bits.
        register: u16,
    },
}

/// A register as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterValue {
    /// Its name, Linux's.
    pub name: &'static str,
    /// Where it is.
    pub place: RegisterPlace,
    /// What it read.
    pub value: u32,
}

/// The registers that all chips have.
const COMMON: [(u16, &str); 17] = [
    (0x000, "ID_REV"),
    (0x004, "FPGA_REV"),
    (0x00c, "STRAP_READ"),
    (0x780, "INT_STS"),
    (0x010, "HW_CFG"),
    (0x014, "PMT_CTL"),
    (0x040, "E2P_CMD"),
    (0x044, "E2P_DATA"),
    (0x100, "MAC_CR"),
    (0x104, "MAC_RX"),
    (0x108, "MAC_TX"),
    (0x10c, "FLOW"),
    (0x120, "MII_ACC"),
    (0x124, "MII_DATA"),
    (0x130, "EEE_TX_LPI_REQ_DLY"),
    (0x140, "WUCSR"),
    (0x144, "WK_SRC"),
];

/// The registers of the serial lane.
#[rustfmt::skip]
const SERIAL: [(u8, u16, &str); 62] = [
    (VEND1, 0x0002, "SR_VSMMD_DEV_ID1"),
    (VEND1, 0x0003, "SR_VSMMD_DEV_ID2"),
    (VEND1, 0x0004, "SR_VSMMD_PCS_ID1"),
    (VEND1, 0x0005, "SR_VSMMD_PCS_ID2"),
    (VEND1, 0x0008, "SR_VSMMD_STS"),
    (VEND1, 0x0009, "SR_VSMMD_CTRL"),
    (VEND2, 0x0000, "SR_MII_CTRL"),
    (VEND2, 0x0001, "SR_MII_STS"),
    (VEND2, 0x0002, "SR_MII_DEV_ID1"),
    (VEND2, 0x0003, "SR_MII_DEV_ID2"),
    (VEND2, 0x0004, "SR_MII_AN_ADV"),
    (VEND2, 0x0005, "SR_MII_LP_BABL"),
    (VEND2, 0x0006, "SR_MII_EXPN"),
    (VEND2, 0x000f, "SR_MII_EXT_STS"),
    (VEND2, 0x0708, "SR_MII_TIME_SYNC_ABL"),
    (VEND2, 0x0709, "SR_MII_TIME_SYNC_TX_MAX_DLY_LWR"),
    (VEND2, 0x070a, "SR_MII_TIME_SYNC_TX_MAX_DLY_UPR"),
    (VEND2, 0x070b, "SR_MII_TIME_SYNC_TX_MIN_DLY_LWR"),
    (VEND2, 0x070c, "SR_MII_TIME_SYNC_TX_MIN_DLY_UPR"),
    (VEND2, 0x070d, "SR_MII_TIME_SYNC_RX_MAX_DLY_LWR"),
    (VEND2, 0x070e, "SR_MII_TIME_SYNC_RX_MAX_DLY_UPR"),
    (VEND2, 0x070f, "SR_MII_TIME_SYNC_RX_MIN_DLY_LWR"),
    (VEND2, 0x0710, "SR_MII_TIME_SYNC_RX_MIN_DLY_UPR"),
    (VEND2, 0x8000, "VR_MII_DIG_CTRL1"),
    (VEND2, 0x8001, "VR_MII_AN_CTRL"),
    (VEND2, 0x8002, "VR_MII_AN_INTR_STS"),
    (VEND2, 0x8003, "VR_MII_TC"),
    (VEND2, 0x8005, "VR_MII_DBG_CTRL"),
    (VEND2, 0x8006, "VR_MII_EEE_MCTRL0"),
    (VEND2, 0x8008, "VR_MII_EEE_TXTIMER"),
    (VEND2, 0x8009, "VR_MII_EEE_RXTIMER"),
    (VEND2, 0x800a, "VR_MII_LINK_TIMER_CTRL"),
    (VEND2, 0x800b, "VR_MII_EEE_MCTRL1"),
    (VEND2, 0x8010, "VR_MII_DIG_STS"),
    (VEND2, 0x8011, "VR_MII_ICG_ERRCNT1"),
    (VEND2, 0x8015, "VR_MII_GPIO"),
    (VEND2, 0x8016, "VR_MII_EEE_LPI_STATUS"),
    (VEND2, 0x8017, "VR_MII_EEE_WKERR"),
    (VEND2, 0x8018, "VR_MII_MISC_STS"),
    (VEND2, 0x8020, "VR_MII_RX_LSTS"),
    (VEND2, 0x8038, "VR_MII_GEN2_GEN4_TX_BSTCTRL0"),
    (VEND2, 0x803a, "VR_MII_GEN2_GEN4_TX_LVLCTRL0"),
    (VEND2, 0x803c, "VR_MII_GEN2_GEN4_TXGENCTRL0"),
    (VEND2, 0x803d, "VR_MII_GEN2_GEN4_TXGENCTRL1"),
    (VEND2, 0x803e, "VR_MII_GEN4_TXGENCTRL2"),
    (VEND2, 0x8048, "VR_MII_GEN2_GEN4_TX_STS"),
    (VEND2, 0x8058, "VR_MII_GEN2_GEN4_RXGENCTRL0"),
    (VEND2, 0x8059, "VR_MII_GEN2_GEN4_RXGENCTRL1"),
    (VEND2, 0x805b, "VR_MII_GEN4_RXEQ_CTRL"),
    (VEND2, 0x805d, "VR_MII_GEN4_RXLOS_CTRL0"),
    (VEND2, 0x8078, "VR_MII_GEN2_GEN4_MPLL_CTRL0"),
    (VEND2, 0x8079, "VR_MII_GEN2_GEN4_MPLL_CTRL1"),
    (VEND2, 0x8088, "VR_MII_GEN2_GEN4_MPLL_STS"),
    (VEND2, 0x8090, "VR_MII_GEN2_GEN4_LVL_CTRL"),
    (VEND2, 0x8093, "VR_MII_GEN4_MISC_CTRL2"),
    (VEND2, 0x8099, "VR_MII_GEN2_GEN4_MISC_CTRL0"),
    (VEND2, 0x809a, "VR_MII_GEN2_GEN4_MISC_CTRL1"),
    (VEND2, 0x80a0, "VR_MII_SNPS_CR_CTRL"),
    (VEND2, 0x80a1, "VR_MII_SNPS_CR_ADDR"),
    (VEND2, 0x80a2, "VR_MII_SNPS_CR_DATA"),
    (VEND2, 0x80e1, "VR_MII_DIG_CTRL2"),
    (VEND2, 0x80e2, "VR_MII_DIG_ERRCNT"),
];

impl<S: SharedRef> Nic<S> {
    /// The registers that all chips have. None of them changes by being read. A device that is gone reads
    /// all ones.
    pub fn registers(&self) -> impl Iterator<Item = RegisterValue> + '_ {
        let io = &self.shared_ref().shared().io;
        COMMON.iter().map(|(offset, name)| RegisterValue {
            name,
            place: RegisterPlace::Bar(*offset),
            value: io.read32(usize::from(*offset)),
        })
    }

    /// The registers of the serial lane; none without one. Status bits that reading clears are among them:
    /// the next [`poll_link`](Self::poll_link) may see a link that was away.
    ///
    /// What cannot be read is 0xffff, and nothing is tried after that.
    pub fn serial_registers<'a>(
        &'a mut self,
        delay: &'a mut impl DelayNs,
    ) -> impl Iterator<Item = RegisterValue> + 'a {
        let lane = self.serial.as_ref().filter(|_| self.interface() == Interface::Sgmii);
        let mut works = true;
        lane.into_iter().flat_map(|registers| SERIAL.iter().map(move |row| (registers, row))).map(
            move |(registers, (device, register, name))| {
                let mut pcs = Pcs::new(registers);
                let read = if works { pcs.read_mmd(*device, *register, delay) } else { Ok(0xffff) };
                works &= read.is_ok();
                let place = RegisterPlace::Mmd { device: *device, register: *register };
                RegisterValue { name, place, value: read.unwrap_or(0xffff).into() }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Device, LAN7430, PCI11414, Waited};
    use std::sync::Arc;
    use std::vec::Vec;

    fn with_lane() -> (Arc<Device>, testing::TestNic) {
        let device = Device::new(PCI11414);
        device.poke(0x0c, 1 << 22 | 1 << 6);
        testing::bring_up(device)
    }

    #[test]
    fn the_common_registers_are_read_and_not_changed() {
        let (device, nic) = testing::brought_up(LAN7430);
        device.poke(0x144, 1 << 10);
        let registers: Vec<_> = nic.registers().collect();
        assert_eq!(registers.len(), 17);
        assert_eq!(registers[0].value, LAN7430);
        assert_eq!((registers[16].name, registers[16].value), ("WK_SRC", 1 << 10));
        assert!(device.take_writes().is_empty());
    }

    #[test]
    fn the_serial_lane_is_read_where_there_is_one() {
        let (_device, mut nic) = testing::brought_up(LAN7430);
        assert_eq!(nic.serial_registers(&mut Waited::default()).count(), 0);
        let (device, mut nic) = with_lane();
        device.behave(|words, offset, value| {
            if let (0x720, Some(value)) = (offset, value) {
                words.set(0x720, value & !(1 << 31));
                words.set(0x724, value & 0xffff);
            }
        });
        let delay = &mut Waited::default();
        let registers: Vec<_> = nic.serial_registers(delay).collect();
        assert_eq!(registers.len(), 62);
        for RegisterValue { place, value, .. } in registers {
            assert!(matches!(place, RegisterPlace::Mmd { register, .. } if u32::from(register) == value));
        }
    }

    #[test]
    fn a_lane_that_does_not_answer_is_waited_for_once() {
        let (device, mut nic) = with_lane();
        device.poke(0x720, 1 << 31);
        let mut delay = Waited::default();
        assert!(nic.serial_registers(&mut delay).all(|register| register.value == 0xffff));
        assert_eq!(delay.0, 1_000_000_000);
    }
}
