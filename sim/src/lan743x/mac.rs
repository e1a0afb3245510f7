//! The MAC: what goes out, what comes in (AN2948 section 6).

use super::alarm::{Alarm, Ev};
use super::fct::Accepted;
use super::frame::{self, be16};
use super::handle::Wait;
use super::regs::mac;
use super::stats::{cast, rx, size_class, tx};
use super::wire::{Arrival, Frame};
use super::{DropReason, Lan743x};
use crate::device::Bus;

/// Frames taken from the wire in one event.
const BURST: usize = 64;
const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

#[derive(Debug)]
pub(super) struct Mac {
    pub cr: u32,
    rx: u32,
    tx: u32,
    rx_done_at: Option<u64>,
    tx_done_at: Option<u64>,
    reset_until: u64,
    pub flow: u32,
    err: u32,
    pub address_low: u32,
    pub address_high: u32,
    pub int_en: u32,
    int_sts: u32,
    /// Until when the partner asked us to be silent.
    paused_until: u64,
    pause_alarm: Alarm,
    wire_alarm: Alarm,
}

impl Default for Mac {
    fn default() -> Self {
        Self {
            cr: mac::CR_ADD | mac::CR_ASD,
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
    fn speed(&self) -> u32 {
        match self.cr & mac::CR_CFG {
            0 => 10,
            2 => 100,
            4 => 1000,
            _ => 2500,
        }
    }

    fn receives(&self, now: u64) -> bool {
        // A receiver that is told to stop takes what is under way until it has.
        self.rx & mac::RX_RXEN != 0 || self.rx_done_at.is_some_and(|at| now < at)
    }
}

impl Lan743x {
    pub(super) fn mac_int_status(&self) -> u32 {
        let roll = |rolled: u32, bit: u32| if rolled != 0 { bit } else { 0 };
        let rx = roll(self.stats.rx.rolled(), mac::INT_RX_ROLL);
        self.mac.int_sts | rx | roll(self.stats.tx.rolled(), mac::INT_TX_ROLL)
    }

    pub(super) fn mac_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        let done = |at: Option<u64>| at.is_some_and(|at| now >= at);
        Some(match offset {
            mac::CR => self.mac.cr | u32::from(now < self.mac.reset_until),
            mac::RX => self.mac.rx | if done(self.mac.rx_done_at) { mac::RX_RXD } else { 0 },
            mac::TX => self.mac.tx | if done(self.mac.tx_done_at) { mac::TX_TXD } else { 0 },
            mac::FLOW => self.mac.flow,
            mac::ERR_STS => self.mac.err,
            mac::RX_ADDRH => self.mac.address_high,
            mac::RX_ADDRL => self.mac.address_low,
            mac::MII_ACC | mac::MII_DATA => self.mii_read(now, offset),
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
            mac::MII_ACC | mac::MII_DATA => self.mii_write(now, offset, value),
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
            let (low, high) = (self.mac.address_low, self.mac.address_high);
            self.mac = Mac { address_low: low, address_high: high, ..Mac::default() };
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
                self.mac.rx_done_at = Some(self.end_of(Wait::MacDisable, now, self.params.timing.reset_ns));
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
            self.mac.tx_done_at = Some(self.end_of(Wait::MacDisable, now, self.params.timing.reset_ns));
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
    fn has_link(&self) -> Result<(), DropReason> {
        let Some(port) = &self.port else { return Err(DropReason::NoLink) };
        if !self.mii.link_is_up(port.is_up()) {
            return Err(DropReason::NoLink);
        }
        if self.params.strict_speed && self.mac.speed() != port.speed() {
            return Err(DropReason::Speed);
        }
        Ok(())
    }

    /// Sends a frame, already padded. Gives when its first bit is out.
    pub(super) fn transmit(&mut self, bus: &mut dyn Bus, bytes: Vec<u8>, damaged: bool) -> Option<u64> {
        let now = bus.now_ns();
        self.count_sent(&bytes, damaged);
        if self.mac.cr & mac::CR_INT_LOOP != 0 {
            self.receive(bus, Frame { bytes, damaged });
            return Some(now);
        }
        if let Err(reason) = self.has_link() {
            self.drop_frame(reason);
            return Some(now);
        }
        let port = self.port.as_ref()?;
        let sent = port.send(now, Frame { bytes, damaged });
        self.counters().frames_out += 1;
        Some(sent.start_ns)
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

    pub(super) fn send_pause(&mut self, bus: &mut dyn Bus, time: u16) {
        let mut bytes = PAUSE_ADDRESS.to_vec();
        bytes.extend(self.mac.address_low.to_le_bytes());
        bytes.extend(&self.mac.address_high.to_le_bytes()[..2]);
        bytes.extend([0x88, 0x08, 0x00, 0x01]);
        bytes.extend(time.to_be_bytes());
        bytes.resize(60, 0);
        self.stats.tx.add(tx::PAUSE, 1);
        self.counters().pauses_sent += 1;
        self.transmit(bus, bytes, false);
    }

    /// Something may have come over the wire.
    pub(super) fn wire_event(&mut self, bus: &mut dyn Bus) {
        let _ = self.mac.wire_alarm.fires(bus, super::wire::ARRIVAL);
        for left in (0..BURST).rev() {
            let Some(port) = &self.port else { return };
            match port.receive(bus.now_ns()) {
                // Others have their turn, then the rest.
                Arrival::Frame(frame) if left == 0 => {
                    self.counters().frames_in += 1;
                    self.receive(bus, frame);
                    let now = bus.now_ns();
                    self.mac.wire_alarm.set_by(bus, super::wire::ARRIVAL, now);
                }
                Arrival::Frame(frame) => {
                    self.counters().frames_in += 1;
                    self.receive(bus, frame);
                }
                Arrival::At(at) => {
                    self.mac.wire_alarm.set_by(bus, super::wire::ARRIVAL, at);
                    break;
                }
                Arrival::Nothing => {
                    self.poll_wire(bus);
                    break;
                }
            }
        }
        self.update_interrupts(bus);
    }

    /// A model that nobody tells looks again by itself.
    fn poll_wire(&mut self, bus: &mut dyn Bus) {
        if self.params.wire_poll_ns != 0 && self.mac.rx & mac::RX_RXEN != 0 {
            let at = bus.now_ns().saturating_add(self.params.wire_poll_ns);
            self.mac.wire_alarm.set_by(bus, super::wire::ARRIVAL, at);
        }
    }

    /// A frame from the wire or from the loop.
    fn receive(&mut self, bus: &mut dyn Bus, frame: Frame) {
        let now = bus.now_ns();
        if self.mac.cr & mac::CR_INT_LOOP == 0
            && let Err(reason) = self.has_link()
        {
            return self.drop_frame(reason);
        }
        if !self.mac.receives(now) {
            return self.drop_frame(DropReason::ReceiverOff);
        }
        let headers = frame::parse(&frame.bytes, 0x88a8);
        let tagged = headers.is_some_and(|headers| headers.tags != 0);
        if !self.count_received(&frame, tagged) {
            return self.drop_frame(DropReason::Error);
        }
        if self.take_pause(bus, &frame) {
            return self.drop_frame(DropReason::Control);
        }
        let stamp = self.rx_stamp(now, &frame.bytes);
        let Some((channel, status, hash)) = self.filter(&frame.bytes) else {
            return self.drop_frame(DropReason::Filtered);
        };
        let accepted = Accepted { frame, status, hash, stamp };
        if self.fifo_put(bus, channel, accepted) {
            self.ring_rx(bus, channel);
        }
    }

    /// Counts a frame. False if it is a bad one.
    fn count_received(&mut self, frame: &Frame, tagged: bool) -> bool {
        let len = frame.wire_len();
        let most = (self.mac.rx >> 16 & 0x3fff) as usize;
        let most = if tagged && self.mac.rx & mac::RX_FSE != 0 { most + 4 } else { most };
        let stats = &mut self.stats.rx;
        stats.add(rx::TOTAL, 1);
        stats.add(rx::SIZES + size_class(len), 1);
        let error = match (len < 64, len > most, frame.damaged) {
            (true, _, true) => Some(rx::FRAGMENT),
            (true, _, false) => Some(rx::UNDERSIZE),
            (_, true, true) => Some(rx::JABBER),
            (_, true, false) => Some(rx::OVERSIZE),
            (_, _, true) => Some(rx::FCS),
            _ => None,
        };
        if let Some(error) = error {
            stats.add(error, 1);
            return false;
        }
        let kind = cast(&frame.bytes);
        stats.add(rx::BYTES + kind, len as u32);
        stats.add(rx::FRAMES + kind, 1);
        true
    }

    /// Whether it is a pause frame, which nobody else sees.
    fn take_pause(&mut self, bus: &mut dyn Bus, frame: &Frame) -> bool {
        let bytes = &frame.bytes;
        let is_pause = bytes.get(..6) == Some(&PAUSE_ADDRESS)
            && be16(bytes, 12) == Some(frame::ETH_CONTROL)
            && be16(bytes, 14) == Some(1);
        if !is_pause {
            return false;
        }
        self.stats.rx.add(rx::PAUSE, 1);
        if self.mac.flow & mac::FLOW_RX != 0 {
            // 512 bit times each.
            let quanta = u64::from(be16(bytes, 16).unwrap_or(0));
            let time = quanta * 512 * 1000 / u64::from(self.mac.speed());
            self.mac.paused_until = bus.now_ns().saturating_add(time);
            let token = Ev::Pause.token(self.epoch);
            self.mac.pause_alarm.set(bus, token, self.mac.paused_until);
        }
        self.mac.flow & mac::FLOW_PASS == 0
    }

    pub(super) fn pause_event(&mut self, bus: &mut dyn Bus) {
        let token = Ev::Pause.token(self.epoch);
        if self.mac.pause_alarm.fires(bus, token) {
            (0..self.params.chip.tx_channels()).for_each(|channel| self.ring_tx(bus, channel));
        }
    }
}
