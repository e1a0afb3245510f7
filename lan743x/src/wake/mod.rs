//! Wake-on-LAN.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_pm_set_wol`, `lan743x_pm_suspend`, `lan743x_pm_resume`),
//! AN2948 section 6.1 (`WUCSR`, `WK_SRC`, `WUF_CFG`, `WUF_MASK`).

use tombolo_hal::mmio::Window;
use tombolo_hal::reg;
use tombolo_hal::register::{LocalRegisterCopy, ReadWriteable, Readable, Writeable, register_bitfields};

use crate::regs::mac::{MAC_RX, Mac, WAKE2, WUCSR, WUF_CFG, WUF_COUNT, Wake2};
use crate::regs::system::{PMT_CTL, System};
use crate::shared::SharedRef;
use crate::{Error, Nic};

mod bits {
    #![allow(missing_docs)]
    use super::register_bitfields;

    register_bitfields![u32,
        /// What woke. Bits from 7 on are cleared by writing ones.
        pub WK_SRC [
            /// GPIOs.
            GPIO OFFSET(20) NUMBITS(12) [],
            /// The PHY.
            ETH_PHY_WK OFFSET(17) NUMBITS(1) [],
            /// A TCP SYN over IPv6.
            IPV6_TCPSYN_RCD_WK OFFSET(16) NUMBITS(1) [],
            /// A TCP SYN over IPv4.
            IPV4_TCPSYN_RCD_WK OFFSET(15) NUMBITS(1) [],
            /// EEE, transmitter.
            EEE_TX_WK OFFSET(14) NUMBITS(1) [],
            /// EEE, receiver.
            EEE_RX_WK OFFSET(13) NUMBITS(1) [],
            /// A frame that the filter accepted.
            RFE_FR_WK OFFSET(12) NUMBITS(1) [],
            /// A frame for our address.
            PFDA_FR_WK OFFSET(11) NUMBITS(1) [],
            /// A magic packet.
            MP_FR_WK OFFSET(10) NUMBITS(1) [],
            /// A broadcast.
            BCAST_FR_WK OFFSET(9) NUMBITS(1) [],
            /// A wake-up frame.
            WU_FR_WK OFFSET(8) NUMBITS(1) [],
            /// The frame was kept.
            WK_FR_SAVED OFFSET(7) NUMBITS(1) [],
            /// Which filter a wake-up frame matched.
            FILTER OFFSET(0) NUMBITS(5) []
        ],
        /// Protection against resets in low-power states. PCI11x1x.
        pub HW_CFG_PM [
            /// The configuration against PCIe's resets.
            RST_PROTECT_PCIE OFFSET(19) NUMBITS(1) [],
            /// A hot reset resets nothing.
            HOT_RESET_DIS OFFSET(15) NUMBITS(1) [],
            /// As if there were auxiliary power.
            D3_VAUX_OVR OFFSET(14) NUMBITS(1) [],
            /// Leaving D3 resets nothing.
            D3_RESET_DIS OFFSET(13) NUMBITS(1) [],
            /// The configuration against other resets.
            RST_PROTECT OFFSET(12) NUMBITS(1) []
        ],
        /// Status of the second wake-up register; ones clear.
        pub WUCSR2 [
            /// Neighbour solicitation, ARP, TCP SYN over IPv6 and IPv4.
            STATUS OFFSET(4) NUMBITS(4) []
        ]
    ];
}
use bits::{HW_CFG_PM, WK_SRC, WUCSR2};

/// The status bits of `WUCSR` that are cleared by ones: EEE 13 and 11, filter 9, address 7, wake-up frame
/// 6, magic packet 5, broadcast 4.
const WUCSR_STATUS: u32 = 1 << 13 | 1 << 11 | 1 << 9 | 0xf << 4;

/// What wakes the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeOptions {
    /// A magic packet.
    pub magic: bool,
    /// Only a magic packet that this password follows (SecureOn). PCI11x1x, with `magic`.
    pub password: Option<[u8; 6]>,
    /// A frame for the station's address.
    pub unicast: bool,
    /// A broadcast.
    pub broadcast: bool,
    /// A multicast of IPv4 or IPv6.
    pub multicast: bool,
    /// An ARP request or answer.
    pub arp: bool,
    /// What the PHY was told to wake for, by whoever drives the PHY.
    pub phy: bool,
}

impl WakeOptions {
    /// Whether nothing wakes.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether received frames have to go through the filter.
    const fn filtered(&self) -> bool {
        self.unicast || self.broadcast || self.multicast || self.arp
    }
}

/// What [`Nic::arm_wake`] changed, for [`Nic::disarm_wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "`Nic::disarm_wake` takes it back"]
pub struct Armed {
    hw_cfg: Option<u32>,
}

/// What woke the system. Nothing, if something else did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCause {
    /// The register, `WK_SRC`.
    pub raw: u32,
}

impl WakeCause {
    fn has(self, field: tombolo_hal::register::Field<u32, WK_SRC::Register>) -> bool {
        LocalRegisterCopy::<u32, WK_SRC::Register>::new(self.raw).is_set(field)
    }

    /// A magic packet.
    pub fn magic(self) -> bool {
        self.has(WK_SRC::MP_FR_WK)
    }

    /// A frame for the station's address.
    pub fn unicast(self) -> bool {
        self.has(WK_SRC::PFDA_FR_WK)
    }

    /// A broadcast.
    pub fn broadcast(self) -> bool {
        self.has(WK_SRC::BCAST_FR_WK)
    }

    /// The PHY.
    pub fn phy(self) -> bool {
        self.has(WK_SRC::ETH_PHY_WK)
    }

    /// A wake-up frame, by the filter of this number: multicasts take the first two that are armed, ARP the
    /// one after them.
    pub fn filter(self) -> Option<u8> {
        self.has(WK_SRC::WU_FR_WK).then_some((self.raw & WK_SRC::FILTER.mask) as u8)
    }
}

/// CRC-16 of the bytes that a wake-up filter looks at: polynomial 0x8005, all ones at the beginning, each
/// byte from its lowest bit on, as it goes over the wire.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = u16::MAX;
    for byte in bytes {
        for bit in 0..8 {
            let carry = crc >> 15 ^ u16::from(byte >> bit & 1);
            crc = crc << 1 ^ if carry != 0 { 0x8005 } else { 0 };
        }
    }
    crc
}

impl<S: SharedRef> Nic<S> {
    /// Arms what is to wake the system; the power may go off then. To be called when rings are closed and
    /// the MAC has stopped; the PHY's own wake-up is its driver's.
    ///
    /// Besides, PCI11x1x is protected against the resets of low-power states, also when nothing wakes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a password with LAN743x or without magic packets, and nothing was
    /// changed; [`Error::DeviceGone`].
    pub fn arm_wake(&mut self, options: &WakeOptions) -> Result<Armed, Error> {
        let is_pci11x1x = self.identity().chip.is_pci11x1x();
        if options.password.is_some() && !(is_pci11x1x && options.magic) {
            let what = if is_pci11x1x { "a password without magic packets" } else { "a SecureOn password" };
            return Err(Error::Unsupported(what));
        }
        self.shared_ref().shared().check_present()?;
        self.clear_wake(0, 0)?;
        if !options.is_none() {
            self.write_wake(options);
        }
        let shared = self.shared_ref().shared();
        if !is_pci11x1x {
            return Ok(Armed { hw_cfg: None });
        }
        let hw_cfg = reg!(shared.system, System, hw_cfg).get();
        let protect = HW_CFG_PM::RST_PROTECT_PCIE::SET
            + HW_CFG_PM::HOT_RESET_DIS::SET
            + HW_CFG_PM::D3_VAUX_OVR::SET
            + HW_CFG_PM::D3_RESET_DIS::SET
            + HW_CFG_PM::RST_PROTECT::SET;
        reg!(shared.system, System, hw_cfg).set(hw_cfg | protect.value);
        Ok(Armed { hw_cfg: Some(hw_cfg) })
    }

    /// Takes back what [`arm_wake`](Self::arm_wake) did, and tells what woke the system. To be called when
    /// the power is on again, before [`after_reset`](Self::after_reset), which clears the cause.
    ///
    /// # Errors
    /// [`Error::DeviceGone`].
    pub fn disarm_wake(&mut self, armed: Armed) -> Result<WakeCause, Error> {
        let shared = self.shared_ref().shared();
        shared.check_present()?;
        if let Some(hw_cfg) = armed.hw_cfg {
            reg!(shared.system, System, hw_cfg).set(hw_cfg);
        }
        let cause = self.wake_cause();
        self.clear_wake(WUCSR_STATUS, WUCSR2::STATUS.val(0xf).value)?;
        self.write_filters(&WakeOptions::default());
        if self.identity().chip.is_pci11x1x() {
            self.write_password([0; 6]);
        }
        let pmt = reg!(shared.system, System, pmt_ctl).get() & !wake_enables();
        // The status bits are cleared by ones.
        reg!(shared.system, System, pmt_ctl).set(pmt | PMT_CTL::WUPS.val(3).value);
        Ok(cause)
    }

    /// What woke the system, as long as nothing has cleared it.
    pub fn wake_cause(&self) -> WakeCause {
        WakeCause { raw: reg!(self.shared_ref().shared().mac, Mac, wk_src).get() }
    }

    /// No frame wakes; these status bits are cleared, and the cause.
    fn clear_wake(&self, status: u32, status2: u32) -> Result<(), Error> {
        let shared = self.shared_ref().shared();
        let wake2: Window<S::Mmio, Wake2> = shared.io.clone().layout(WAKE2)?;
        reg!(shared.mac, Mac, wucsr).set(status);
        reg!(wake2, Wake2, wucsr2).set(status2);
        reg!(shared.mac, Mac, wk_src).clear_bits(u32::MAX);
        Ok(())
    }

    fn write_wake(&self, options: &WakeOptions) {
        let shared = self.shared_ref().shared();
        self.write_filters(options);
        if let Some(password) = options.password {
            self.write_password(password);
        }
        let on = |condition: bool| u32::from(condition);
        reg!(shared.mac, Mac, wucsr).write(
            WUCSR::MPEN.val(on(options.magic))
                + WUCSR::MP_SO_EN.val(on(options.password.is_some()))
                + WUCSR::RFE_WAKE_EN.val(on(options.filtered()))
                + WUCSR::PFDA_EN.val(on(options.unicast))
                + WUCSR::BCST_EN.val(on(options.broadcast))
                + WUCSR::WAKE_EN.val(on(options.multicast || options.arp)),
        );
        let frames = options.magic || options.filtered();
        let wakes = PMT_CTL::WUPS.val(3)
            + PMT_CTL::RES_CLR_WKP.val(3)
            + PMT_CTL::ETH_PHY_D3_COLD_OVR::SET
            + PMT_CTL::ETH_PHY_D3_OVR::SET
            + PMT_CTL::WOL_EN.val(on(frames))
            + PMT_CTL::MAC_D3_RX_CLK_OVR.val(on(frames))
            + PMT_CTL::RX_FCT_RFE_D3_CLK_OVR.val(on(options.filtered()))
            + PMT_CTL::ETH_PHY_WAKE_EN.val(on(options.phy));
        let pmt = reg!(shared.system, System, pmt_ctl).get() & !wake_enables();
        reg!(shared.system, System, pmt_ctl).set(pmt | wakes.value);
        if frames {
            reg!(shared.mac, Mac, rx).modify(MAC_RX::RXEN::SET);
        }
    }

    /// The first four bytes go into the low register, first byte lowest.
    fn write_password(&self, [a, b, c, d, e, f]: [u8; 6]) {
        let mac = &self.shared_ref().shared().mac;
        reg!(*mac, Mac, mp_so_lo).set(u32::from_le_bytes([a, b, c, d]));
        reg!(*mac, Mac, mp_so_hi).set(u32::from_le_bytes([e, f, 0, 0]));
    }

    /// Wake-up filters for multicasts and ARP; the others are off.
    fn write_filters(&self, options: &WakeOptions) {
        let mac = &self.shared_ref().shared().mac;
        for index in 0..WUF_COUNT {
            if let Some(filter) = reg!(*mac, Mac, wuf_cfg[index]) {
                filter.set(0);
            }
        }
        let multicast = WUF_CFG::TYPE::Multicast;
        let filters = [
            (options.multicast, multicast, 0x0007, &[0x01, 0x00, 0x5e][..]),
            (options.multicast, multicast, 0x0003, &[0x33, 0x33][..]),
            // The type of the frame, behind both addresses.
            (options.arp, WUF_CFG::TYPE::All, 0x3000, &[0x08, 0x06][..]),
        ];
        let wanted = filters.into_iter().filter(|(on, ..)| *on);
        for (index, (_, kind, mask, bytes)) in wanted.enumerate() {
            for (word, bits) in [mask, 0, 0, 0].into_iter().enumerate() {
                if let Some(register) = reg!(*mac, Mac, wuf_mask[index * 4 + word]) {
                    register.set(bits);
                }
            }
            if let Some(filter) = reg!(*mac, Mac, wuf_cfg[index]) {
                filter.write(WUF_CFG::EN::SET + kind + WUF_CFG::CRC.val(crc16(bytes).into()));
            }
        }
    }
}

/// What may wake, by `PMT_CTL`, and the clocks that run for it.
fn wake_enables() -> u32 {
    (PMT_CTL::GPIO_WAKEUP_EN::SET
        + PMT_CTL::EEE_WAKEUP_EN::SET
        + PMT_CTL::WOL_EN::SET
        + PMT_CTL::MAC_D3_RX_CLK_OVR::SET
        + PMT_CTL::RX_FCT_RFE_D3_CLK_OVR::SET
        + PMT_CTL::ETH_PHY_WAKE_EN::SET)
        .value
}

#[cfg(test)]
mod tests;
