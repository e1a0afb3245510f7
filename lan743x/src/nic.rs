//! The control handle: bring-up, MAC, MTU, start and stop.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_csr_init`, `lan743x_hw_reset_phy`, `lan743x_hardware_init`,
//! `lan743x_mac_*`, `lan743x_dmac_init`, `pci11x1x_strap_get_status`).

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::Window;
use tombolo_hal::net::{FCS, HEADER, MIN_MTU, MacAddress};
use tombolo_hal::reg;
use tombolo_hal::register::{FieldValue, ReadWriteable, Readable, Writeable};
use tombolo_hal::sync::Ordering;

use crate::channel::{self, wait_for};
use crate::desc::Spacing;
use crate::error::Wait;
use crate::link::{Interface, Link};
use crate::regs::dmac::{COAL_CFG, DMAC_CFG, Dmac, OBFF_CFG, RX_CFG_B};
use crate::regs::interrupts::Interrupts;
use crate::regs::mac::{MAC_CR, MAC_RX, MAC_TX, Mac};
use crate::regs::rfe::{FILT_HI, FILTER_COUNT, FILTER_STRIDE, FILTERS, Filter as FilterEntry};
use crate::regs::serial::{
    CONFIG_LOAD, LOCK, Lock, MISC_CTL_0, RMII_CTL, SERIAL, SGMII_CTL, SYS_LOCK, Serial,
};
use crate::regs::system::{FPGA_REV, HW_CFG, PMT_CTL, STRAP, System};
use crate::shared::SharedRef;
use crate::{Error, Identity};

/// The longest frame without its frame check sequence: 9 KiB, as Linux has it, and one VLAN tag.
pub const MTU_MAX: usize = 9 * 1024 - HEADER - FCS;

/// How a controller is to be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes from one descriptor to the next.
    pub spacing: Spacing,
    /// The longest packet, in bytes, without Ethernet header and VLAN tag: 68 to 9198.
    pub mtu: usize,
    /// The station's address. `None`: the one that the controller has from its EEPROM or OTP memory.
    pub mac: Option<MacAddress>,
    /// Bits for a random address where there is no valid one.
    pub random: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { spacing: Spacing::default(), mtu: 1500, mac: None, random: 0 }
    }
}

/// The control handle of a controller. There is one at a time.
#[derive(Debug)]
pub struct Nic<S: SharedRef> {
    shared: S,
    pub(crate) config: Config,
    mac: MacAddress,
    interface: Interface,
    pub(crate) link: Link,
    /// What only PCI11x1x has.
    pub(crate) serial: Option<Window<S::Mmio, Serial>>,
    lock: Option<Window<S::Mmio, Lock>>,
    pub(crate) stamps: RxStamps,
    /// It was turned on, and not yet seen to be off: one that is off would never say that it has stopped.
    pub(crate) mac_on: bool,
}

/// Which received frames are given time stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxStamps {
    /// None.
    #[default]
    None,
    /// PTP event messages.
    Events,
    /// All.
    All,
}

/// A lock of the chip that is given back when it goes.
pub(crate) struct SystemLock<'a, M: tombolo_hal::mmio::Mmio>(&'a Window<M, Lock>);

impl<M: tombolo_hal::mmio::Mmio> Drop for SystemLock<'_, M> {
    fn drop(&mut self) {
        reg!(self.0, Lock, sys_lock).set(0);
    }
}

impl<S: SharedRef> Nic<S> {
    /// Resets the controller and its PHY, and sets up all that needs no ring: the MAC is off, no
    /// interrupt is enabled.
    ///
    /// # Errors
    /// [`Error`]. What the device did not do in time is named.
    pub fn new(shared: S, config: Config, delay: &mut impl DelayNs) -> Result<Self, Error> {
        check_mtu(config.mtu)?;
        let state = shared.shared();
        let is_pci11x1x = state.identity().chip.is_pci11x1x();
        let serial = if is_pci11x1x { Some(state.io.clone().layout(SERIAL)?) } else { None };
        let lock = if is_pci11x1x { Some(state.io.clone().layout(LOCK)?) } else { None };
        state.control()?;
        // From here on its drop gives the control back.
        let mut nic = Self {
            shared,
            config,
            mac: MacAddress::default(),
            interface: Interface::Gmii,
            link: Link::new(),
            serial,
            lock,
            stamps: RxStamps::None,
            mac_on: false,
        };
        nic.lite_reset(delay)?;
        nic.reset_phy(delay)?;
        nic.set_up(delay)?;
        Ok(nic)
    }

    /// Sets up the controller again after a reset or a time without power: everything but the PHY, which
    /// is reset when the handle is made and never again. Rings have to be opened anew, after the
    /// [`release`](crate::TxRing::release) of the old ones.
    ///
    /// # Errors
    /// [`Error`]; the controller is silent then, and this can be tried again.
    pub fn after_reset(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        self.lite_reset(delay)?;
        self.mac_on = false;
        self.config.mac = Some(self.mac);
        self.link = Link::new();
        self.set_up(delay)
    }

    fn set_up(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        reg!(shared.interrupts, Interrupts, en_clr).set(u32::MAX);
        self.set_up_interface(delay)?;
        self.set_up_mac(delay)?;
        self.set_up_dmac(delay)
    }

    /// Chip and revision.
    pub fn identity(&self) -> Identity {
        self.shared.shared().identity()
    }

    /// The station's address.
    pub fn mac_address(&self) -> MacAddress {
        self.mac
    }

    /// How the MAC reaches its PHY or partner.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// The longest packet.
    pub fn mtu(&self) -> usize {
        self.config.mtu
    }

    /// The least size of receive buffers in which each frame fits whole: for the MTU, a VLAN tag, the
    /// frame check sequence and `pad`.
    pub fn buffer_size(&self, pad: u8) -> usize {
        self.config.mtu + HEADER + tombolo_hal::net::VLAN_TAG + FCS + usize::from(pad)
    }

    pub(crate) fn shared_ref(&self) -> &S {
        &self.shared
    }

    pub(crate) fn check_spacing(&self, spacing: Spacing) -> Result<(), Error> {
        let (want, value) = (self.config.spacing.bytes() as u64, spacing.bytes() as u64);
        if want == value {
            return Ok(());
        }
        Err(Error::Range { what: "the spacing of a ring's descriptors", value, least: want, most: want })
    }

    pub(crate) fn rx_time_stamps(&self) -> FieldValue<u32, RX_CFG_B::Register> {
        match self.stamps {
            RxStamps::None => RX_CFG_B::TS::None,
            RxStamps::Events => RX_CFG_B::TS::Descriptor,
            RxStamps::All => RX_CFG_B::TS::All,
        }
    }

    fn lite_reset(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        let hw_cfg = reg!(shared.system, System, hw_cfg).get();
        if hw_cfg == u32::MAX {
            return Err(Error::DeviceGone);
        }
        reg!(shared.system, System, hw_cfg).set(hw_cfg | HW_CFG::LRST::SET.value);
        let read = || reg!(shared.system, System, hw_cfg).get();
        // Linux gives it 10 s, and looks every 100 ms.
        let done = |value: u32| value & HW_CFG::LRST::SET.value == 0;
        wait_for(Wait::LiteReset, delay, 1_000, 10_000_000, read, done).map(drop)
    }

    fn reset_phy(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        // The status bits are cleared by ones: they are kept out of this.
        let pmt = reg!(shared.system, System, pmt_ctl).get() & !PMT_CTL::WUPS.val(3).value;
        reg!(shared.system, System, pmt_ctl).set(pmt | PMT_CTL::ETH_PHY_RST::SET.value);
        let read = || reg!(shared.system, System, pmt_ctl).get();
        let (reset, ready) = (PMT_CTL::ETH_PHY_RST::SET.value, PMT_CTL::READY::SET.value);
        let done = |value: u32| value & (reset | ready) == ready;
        wait_for(Wait::PhyReset, delay, 1_000, 1_000_000, read, done).map(drop)
    }

    /// Which interface the pins choose, and power for its blocks.
    fn set_up_interface(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        self.interface = match &self.serial {
            None if self.identity().chip == crate::Chip::Lan7430 => Interface::Gmii,
            None if reg!(self.shared.shared().mac, Mac, cr).is_set(MAC_CR::MII_EN) => Interface::Mii,
            None => Interface::Rgmii,
            Some(_) => self.strapped_interface(delay)?,
        };
        let Some(serial) = &self.serial else { return Ok(()) };
        if self.identity().is_pci11x1x_b0() {
            reg!(serial, Serial, misc_ctl_0).modify(MISC_CTL_0::RFE_READ_FIFO.val(3));
        }
        let sgmii = self.interface == Interface::Sgmii;
        let power = if sgmii {
            SGMII_CTL::ENABLE::SET + SGMII_CTL::POWER_DN::CLEAR
        } else {
            SGMII_CTL::ENABLE::CLEAR + SGMII_CTL::POWER_DN::SET
        };
        reg!(serial, Serial, sgmii_ctl).modify(power);
        let rmii = RMII_CTL::ENABLE.val((self.interface == Interface::Rmii).into());
        reg!(serial, Serial, rmii_ctl).modify(rmii);
        Ok(())
    }

    /// The interface of a PCI11x1x: A0 has to look whether the configuration was loaded before its straps
    /// count, later ones have a strap for that.
    fn strapped_interface(&self, delay: &mut impl DelayNs) -> Result<Interface, Error> {
        let shared = self.shared.shared();
        let loaded = {
            let lock = self.system_lock(delay)?;
            reg!(lock.0, Lock, config_load).is_set(CONFIG_LOAD::ETH)
        };
        let strap = reg!(shared.system, System, strap).extract();
        let protected = reg!(shared.system, System, hw_cfg).is_set(HW_CFG::RST_PROTECT);
        let a0 = self.identity().is_pci11x1x_a0() && (loaded || protected);
        let sgmii = if a0 || strap.is_set(STRAP::USE_SGMII) {
            strap.is_set(STRAP::SGMII)
        } else {
            reg!(shared.system, System, fpga_rev).is_set(FPGA_REV::SGMII)
        };
        Ok(match (sgmii, strap.is_set(STRAP::USE_RMII) && strap.is_set(STRAP::RMII)) {
            (true, _) => Interface::Sgmii,
            (false, true) => Interface::Rmii,
            (false, false) => Interface::Rgmii,
        })
    }

    /// Takes the lock that the chip's functions share.
    pub(crate) fn system_lock(&self, delay: &mut impl DelayNs) -> Result<SystemLock<'_, S::Mmio>, Error> {
        let lock = self.lock.as_ref().ok_or(Error::Unsupported("the system lock"))?;
        let read = || {
            reg!(lock, Lock, sys_lock).write(SYS_LOCK::ENET_SS::SET);
            reg!(lock, Lock, sys_lock).get()
        };
        let ours = |value: u32| value & SYS_LOCK::ENET_SS::SET.value != 0;
        // Linux tries every 10 ms, a hundred times.
        wait_for(Wait::SystemLock, delay, 10_000, 1_000_000, read, ours)?;
        Ok(SystemLock(lock))
    }

    fn set_up_mac(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        // The link's state machine sets speed and duplex. EEE stays off until its timer is set.
        reg!(shared.mac, Mac, cr)
            .modify(MAC_CR::ADD::CLEAR + MAC_CR::ASD::CLEAR + MAC_CR::EEE_EN::CLEAR + MAC_CR::CNTR_RST::SET);
        let own = MacAddress::from_words(
            reg!(shared.mac, Mac, rx_addrl).get(),
            reg!(shared.mac, Mac, rx_addrh).get(),
        );
        let wanted = self.config.mac.unwrap_or(own);
        let mac = if wanted.is_valid_station() { wanted } else { MacAddress::random(self.config.random) };
        self.write_mac_address(mac)?;
        self.program_receiver(delay)
    }

    /// Changes the station's address, in MAC and filter.
    ///
    /// # Errors
    /// [`Error::Range`] if no station can have it.
    pub fn set_mac_address(&mut self, mac: MacAddress) -> Result<(), Error> {
        if !mac.is_valid_station() {
            let value = u64::from(mac.high()) << 32 | u64::from(mac.low());
            return Err(Error::Range { what: "the MAC address", value, least: 1, most: u64::MAX >> 16 });
        }
        self.write_mac_address(mac)
    }

    fn write_mac_address(&mut self, mac: MacAddress) -> Result<(), Error> {
        let shared = self.shared.shared();
        reg!(shared.mac, Mac, rx_addrl).set(mac.low());
        reg!(shared.mac, Mac, rx_addrh).set(mac.high());
        self.mac = mac;
        self.write_filter(0, Some(mac))
    }

    /// Writes an entry of the perfect filter; an entry that changes is not valid in between.
    pub(crate) fn write_filter(&self, index: usize, mac: Option<MacAddress>) -> Result<(), Error> {
        if index >= FILTER_COUNT {
            let most = FILTER_COUNT as u64 - 1;
            return Err(Error::Range { what: "the filter entry", value: index as u64, least: 0, most });
        }
        let io = self.shared.shared().io.clone();
        let entry: Window<S::Mmio, FilterEntry> = io.bank(FILTERS, FILTER_STRIDE, index)?;
        reg!(entry, FilterEntry, hi).set(0);
        let Some(mac) = mac else { return Ok(()) };
        reg!(entry, FilterEntry, lo).set(mac.low());
        reg!(entry, FilterEntry, hi).write(FILT_HI::VALID::SET + FILT_HI::ADDRESS.val(mac.high()));
        Ok(())
    }

    /// The longest frame that the MAC takes: one VLAN tag does not count (`FSE`), which like the size can
    /// only be set while the receiver is off.
    fn program_receiver(&self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        let enabled = reg!(shared.mac, Mac, rx).is_set(MAC_RX::RXEN);
        if self.mac_on {
            self.stop_receiver(delay)?;
        }
        let longest = (self.config.mtu + HEADER + FCS) as u32;
        let setting = MAC_RX::FSE::SET + MAC_RX::MAX_SIZE.val(longest);
        reg!(shared.mac, Mac, rx).write(setting);
        if enabled {
            reg!(shared.mac, Mac, rx).write(setting + MAC_RX::RXEN::SET);
        }
        Ok(())
    }

    /// Changes the MTU, also while frames come. Receive buffers that are too small for it from now on
    /// share frames; replace them by larger ones as they come back.
    ///
    /// # Errors
    /// [`Error::Range`], or a receiver that does not stop: then the MTU is the old one.
    pub fn set_mtu(&mut self, mtu: usize, delay: &mut impl DelayNs) -> Result<(), Error> {
        check_mtu(mtu)?;
        let old = core::mem::replace(&mut self.config.mtu, mtu);
        let result = self.program_receiver(delay);
        if result.is_err() {
            self.config.mtu = old;
        }
        result
    }

    /// Turns the MAC on.
    pub fn start(&mut self) {
        self.mac_on = true;
        let shared = self.shared.shared();
        // Reads of the done bits as ones would clear them when written back; nothing waits for them here.
        reg!(shared.mac, Mac, rx).modify(MAC_RX::RXEN::SET);
        reg!(shared.mac, Mac, tx).modify(MAC_TX::TXEN::SET);
    }

    /// Turns the MAC off. Rings are closed before that. One that is off stays so.
    ///
    /// # Errors
    /// [`Error::Timeout`], after both halves were told; this can be tried again.
    pub fn stop(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        if !self.mac_on {
            return Ok(());
        }
        let tx = self.stop_transmitter(delay);
        let rx = self.stop_receiver(delay);
        tx?;
        rx?;
        self.mac_on = false;
        Ok(())
    }

    fn stop_transmitter(&self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        // One that was told before is only waited for. The write clears a done bit of an earlier stop.
        if reg!(shared.mac, Mac, tx).is_set(MAC_TX::TXEN) {
            reg!(shared.mac, Mac, tx).modify(MAC_TX::TXD::SET + MAC_TX::TXEN::CLEAR);
        }
        let read = || reg!(shared.mac, Mac, tx).get();
        let done = |value: u32| value & MAC_TX::TXD::SET.value != 0;
        wait_for(Wait::TransmitterStop, delay, 10, 100_000, read, done).map(drop)
    }

    fn stop_receiver(&self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        if reg!(shared.mac, Mac, rx).is_set(MAC_RX::RXEN) {
            reg!(shared.mac, Mac, rx).modify(MAC_RX::RXD::SET + MAC_RX::RXEN::CLEAR);
        }
        let read = || reg!(shared.mac, Mac, rx).get();
        let done = |value: u32| value & MAC_RX::RXD::SET.value != 0;
        wait_for(Wait::ReceiverStop, delay, 10, 100_000, read, done).map(drop)
    }

    fn set_up_dmac(&self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        channel::reset_all(shared, delay)?;
        let spacing = match self.config.spacing {
            Spacing::Bytes16 => DMAC_CFG::MAX_DSPACE::Bytes16,
            Spacing::Bytes32 => DMAC_CFG::MAX_DSPACE::Bytes32,
            Spacing::Bytes64 => DMAC_CFG::MAX_DSPACE::Bytes64,
            Spacing::Bytes128 => DMAC_CFG::MAX_DSPACE::Bytes128,
        };
        let mut cfg = spacing + DMAC_CFG::MAX_READ_REQ.val(6);
        if !self.identity().is_a0() {
            cfg += DMAC_CFG::COAL_EN::SET;
        }
        reg!(shared.dmac, Dmac, cfg).write(cfg);
        // Linux's values; their units are not public.
        reg!(shared.dmac, Dmac, coal_cfg).write(
            COAL_CFG::TIMER_LIMIT.val(1)
                + COAL_CFG::TIMER_TX_START::SET
                + COAL_CFG::FLUSH_INTS::SET
                + COAL_CFG::INT_EXIT_COAL::SET
                + COAL_CFG::CSR_EXIT_COAL::SET
                + COAL_CFG::TX_THRES.val(10)
                + COAL_CFG::RX_THRES.val(12),
        );
        reg!(shared.dmac, Dmac, obff_cfg).write(OBFF_CFG::TX_THRES.val(8) + OBFF_CFG::RX_THRES.val(10));
        Ok(())
    }
}

impl<S: SharedRef> Drop for Nic<S> {
    fn drop(&mut self) {
        let shared = self.shared.shared();
        shared.shared_sources.store(0, Ordering::Release);
        reg!(shared.interrupts, Interrupts, en_clr).set(u32::MAX);
        shared.release_control();
    }
}

fn check_mtu(mtu: usize) -> Result<(), Error> {
    if (MIN_MTU..=MTU_MAX).contains(&mtu) {
        return Ok(());
    }
    Err(Error::Range { what: "the MTU", value: mtu as u64, least: MIN_MTU as u64, most: MTU_MAX as u64 })
}
