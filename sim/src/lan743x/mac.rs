//! The MAC's registers, and what goes out (AN2948 section 6.1). What comes in: [`super::receive`].
//!
//! Decisions. A MAC reset leaves what the note marks NASR, which are all registers. Straps and defaults
//! alone make `MAC_CR`; the byte for it in an EEPROM's image is not loaded.

use super::alarm::{Alarm, Ev};
use super::due::Done;
use super::handle::Wait;
use super::regs::mac;
use super::stats::{cast, size_class, tx};
use super::wire::Frame;
use super::{DropReason, Interface, Lan743x};
use crate::device::Bus;

/// Where pause frames go.
pub(super) const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

#[derive(Debug)]
pub(super) struct Mac {
    pub cr: u32,
    pub rx: u32,
    tx: u32,
    rx_done_at: Option<u64>,
    tx_done_at: Option<u64>,
    reset_until: u64,
    pub flow: u32,
    pub err: u32,
    pub address_low: u32,
    pub address_high: u32,
    pub int_en: u32,
    int_sts: u32,
    /// Until when the partner asked us to be silent.
    pub paused_until: u64,
    pub pause_alarm: Alarm,
    pub wire_alarm: Alarm,
}

/// A frame on its way out, without its check sequence.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub bytes: Vec<u8>,
    /// The MAC pads it and makes the check sequence.
    pub inserts: bool,
    /// Its own check sequence is wrong.
    pub damaged: bool,
    /// Its descriptor asks for a time stamp.
    pub stamp: bool,
    pub channel: usize,
}

impl Default for Mac {
    fn default() -> Self {
        Self {
            cr: mac::CR_ADP | mac::CR_ADD,
            rx: mac::RX_RESET,
            tx: 0,
            rx_done_at: None,
            tx_done_at: None,
            reset_until: 0,
            flow: 0,
            err: 0,
            address_low: u32::MAX,
            address_high: 0xffff,
            int_en: 0,
            int_sts: 0,
            paused_until: 0,
            pause_alarm: Alarm::default(),
            wire_alarm: Alarm::default(),
        }
    }
}

impl Mac {
    /// As after power-on, but for the address (NALR).
    pub fn lite_reset(&mut self) {
        let (address_low, address_high) = (self.address_low, self.address_high);
        *self = Self { address_low, address_high, ..Self::default() };
    }

    pub fn speed(&self) -> u32 {
        match self.cr & mac::CR_CFG {
            0 => 10,
            2 => 100,
            4 => 1000,
            _ => 2500,
        }
    }

    pub fn receives(&self, now: u64) -> bool {
        // A receiver that is told to stop takes what is under way until it has.
        self.rx & mac::RX_RXEN != 0 || self.rx_done_at.is_some_and(|at| now < at)
    }
}

impl Lan743x {
    pub(super) fn mac_int_status(&self) -> u32 {
        let roll = |rolled: u32, bit: u32| if rolled != 0 { bit } else { 0 };
        let rx = roll(self.stats.rx.rolled(), mac::INT_RX_ROLL);
        let error = if self.mac.err != 0 { mac::INT_ERR } else { 0 };
        self.mac.int_sts | rx | roll(self.stats.tx.rolled(), mac::INT_TX_ROLL) | error
    }

    /// What the pins of the chip make of the MAC.
    pub(super) fn strap_mac(&mut self) {
        if self.params.interface == Interface::Mii {
            self.mac.cr |= mac::CR_MII_EN;
        }
    }

    /// The receiver or the transmitter has come to its end.
    pub(super) fn mac_off(&mut self, now: u64, rx: bool) {
        let (at, bit) =
            if rx { (self.mac.rx_done_at, mac::INT_RX_DIS) } else { (self.mac.tx_done_at, mac::INT_TX_DIS) };
        if at.is_some_and(|at| now >= at) {
            self.mac.int_sts |= bit;
        }
    }

    /// `MAC_CR`: automatic detection shows what it found.
    fn read_cr(&mut self, now: u64) -> u32 {
        let mut word = self.mac.cr | u32::from(now < self.mac.reset_until);
        let Some(line) = self.line(now) else { return word };
        if word & mac::CR_ADD != 0 {
            word = word & !mac::CR_DPX | if line.full { mac::CR_DPX } else { 0 };
        }
        if word & mac::CR_ASD != 0 {
            let found = match line.speed {
                10 => 0,
                100 => 2,
                1000 => 4,
                _ => 6,
            };
            word = word & !mac::CR_CFG | found;
        }
        word
    }

    pub(super) fn mac_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        let done = |at: Option<u64>| at.is_some_and(|at| now >= at);
        Some(match offset {
            mac::CR => self.read_cr(now),
            mac::RX => self.mac.rx | if done(self.mac.rx_done_at) { mac::RX_RXD } else { 0 },
            mac::TX => self.mac.tx | if done(self.mac.tx_done_at) { mac::TX_TXD } else { 0 },
            mac::FLOW => self.mac.flow,
            mac::ERR_STS => self.mac.err,
            mac::RX_ADDRH => self.mac.address_high,
            mac::RX_ADDRL => self.mac.address_low,
            mac::MII_ACC | mac::MII_DATA => return self.mii_read(now, offset),
            mac::INT_STS => self.mac_int_status(),
            mac::INT_EN_SET | mac::INT_EN_CLR => self.mac.int_en,
            _ => return self.plain.read(offset),
        })
    }

    pub(super) fn mac_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        match offset {
            mac::CR => self.write_cr(now, value),
            mac::RX => self.write_rx(bus, value),
            mac::TX => self.write_tx(bus, value),
            mac::FLOW => {
                self.mac.flow = value & !mac::FLOW_FORCE;
                if value & mac::FLOW_FORCE != 0 {
                    self.send_pause(bus, value as u16);
                }
            }
            mac::ERR_STS => self.mac.err &= !(value & mac::ERR_ALL),
            mac::RX_ADDRH => self.mac.address_high = value & 0xffff,
            mac::RX_ADDRL => self.mac.address_low = value,
            mac::MII_ACC | mac::MII_DATA => self.mii_write(bus, offset, value),
            mac::INT_STS => self.mac.int_sts &= !value,
            mac::INT_EN_SET => self.mac.int_en |= value,
            mac::INT_EN_CLR => self.mac.int_en &= !value,
            _ => return self.plain.write(offset, value),
        }
        self.update_interrupts(bus);
        true
    }

    fn write_cr(&mut self, now: u64, value: u32) {
        if value & mac::CR_MRST != 0 {
            self.mac.paused_until = 0;
            self.mac.reset_until = self.end_of(Wait::MacReset, now, self.params.timing.reset_ns);
        }
        if value & mac::CR_CNTR_RST != 0 {
            self.stats = super::Stats::default();
        }
        self.mac.cr = value & !(mac::CR_MRST | mac::CR_CNTR_RST);
    }

    /// The fields can be changed while the receiver is off only.
    fn write_rx(&mut self, bus: &mut dyn Bus, value: u32) {
        let now = bus.now_ns();
        let was = self.mac.rx & mac::RX_RXEN != 0;
        if value & mac::RX_RXD != 0 && self.mac.rx_done_at.is_some_and(|at| now >= at) {
            self.mac.rx_done_at = None;
        }
        if !was {
            self.mac.rx = value & mac::RX_FIELDS;
        }
        if value & mac::RX_RXEN != 0 {
            self.mac.rx |= mac::RX_RXEN;
            self.mac.rx_done_at = None;
        } else {
            self.mac.rx &= !mac::RX_RXEN;
            if was {
                let at = self.end_of(Wait::MacDisable, now, self.params.timing.reset_ns);
                self.mac.rx_done_at = Some(at);
                self.later(bus, at, Done::Mac { rx: true });
            }
        }
        self.poll_wire(bus);
    }

    fn write_tx(&mut self, bus: &mut dyn Bus, value: u32) {
        let now = bus.now_ns();
        let was = self.mac.tx & mac::TX_TXEN != 0;
        if value & mac::TX_TXD != 0 && self.mac.tx_done_at.is_some_and(|at| now >= at) {
            self.mac.tx_done_at = None;
        }
        self.mac.tx = value & (mac::TX_TXEN | mac::TX_BFCS);
        if value & mac::TX_TXEN != 0 {
            self.mac.tx_done_at = None;
            (0..self.params.chip.tx_channels()).for_each(|channel| self.ring_tx(bus, channel));
        } else if was {
            let at = self.end_of(Wait::MacDisable, now, self.params.timing.reset_ns);
            self.mac.tx_done_at = Some(at);
            self.later(bus, at, Done::Mac { rx: false });
        }
    }

    /// When the transmitter may take the next frame: `None` while it is off.
    pub(super) fn transmitter_free(&self, now: u64) -> Option<u64> {
        if self.mac.tx & mac::TX_TXEN == 0 {
            return None;
        }
        let free = self.port.as_ref().map_or(0, |port| port.free_ns());
        Some(now.max(free).max(self.mac.paused_until))
    }

    /// Whether there is a link at the MAC's speed.
    pub(super) fn has_link(&mut self, now: u64) -> Result<(), DropReason> {
        let Some(line) = self.line(now) else { return Err(DropReason::NoLink) };
        let detects = self.mac.cr & mac::CR_ASD != 0;
        if self.params.strict_speed && !detects && self.mac.speed() != line.speed {
            return Err(DropReason::Speed);
        }
        Ok(())
    }

    /// Sends a frame, and has its time stamp taken if `stamp` says that its descriptor asks for one, and of
    /// which channel. The MAC pads the frame and makes the check sequence if it is told so.
    pub(super) fn transmit(&mut self, bus: &mut dyn Bus, out: Out) {
        let now = bus.now_ns();
        let mut bytes = out.bytes;
        if out.inserts && bytes.len() < 60 {
            bytes.resize(60, 0);
        }
        let damaged = out.damaged || out.inserts && self.mac.tx & mac::TX_BFCS != 0;
        self.count_sent(&bytes, damaged);
        let at = self.port.as_ref().map_or(now, |port| port.free_ns().max(now));
        self.tx_stamp(at, &mut bytes, out.stamp, out.channel);
        let frame = Frame { bytes, damaged };
        if self.mac.cr & mac::CR_INT_LOOP != 0 || self.loops_back() {
            return self.receive(bus, frame, true);
        }
        if let Err(reason) = self.has_link(now) {
            return self.drop_frame(reason);
        }
        let Some(port) = self.port.as_ref() else { return };
        port.send(now, frame);
        self.counters().frames_out += 1;
    }

    fn count_sent(&mut self, bytes: &[u8], damaged: bool) {
        let (len, kind) = (bytes.len() + 4, cast(bytes));
        let stats = &mut self.stats.tx;
        if damaged {
            stats.add(tx::FCS, 1);
            stats.add(tx::BAD_BYTES, len as u32);
        } else {
            stats.add(tx::BYTES + kind, len as u32);
            stats.add(tx::FRAMES + kind, 1);
        }
        stats.add(tx::SIZES + size_class(len), 1);
        stats.add(tx::TOTAL, 1);
    }

    /// Sends a pause frame. A loop does not carry it: it belongs to the line.
    pub(super) fn send_pause(&mut self, bus: &mut dyn Bus, time: u16) {
        if self.mac.cr & mac::CR_INT_LOOP != 0 || self.loops_back() {
            return;
        }
        let mut bytes = PAUSE_ADDRESS.to_vec();
        bytes.extend(self.mac.address_low.to_le_bytes());
        bytes.extend(&self.mac.address_high.to_le_bytes()[..2]);
        bytes.extend([0x88, 0x08, 0x00, 0x01]);
        bytes.extend(time.to_be_bytes());
        bytes.resize(60, 0);
        self.stats.tx.add(tx::PAUSE, 1);
        self.counters().pauses_sent += 1;
        self.transmit(bus, Out { bytes, inserts: true, ..Out::default() });
    }

    pub(super) fn pause_event(&mut self, bus: &mut dyn Bus) {
        let token = Ev::Pause.token(self.epoch);
        if self.mac.pause_alarm.fires(bus, token) {
            (0..self.params.chip.tx_channels()).for_each(|channel| self.ring_tx(bus, channel));
        }
    }
}
