//! DMA controller: commands, channels' registers, descriptor fetch and head write-back (AN2948 section 10).

use super::Lan743x;
use super::alarm::Ev;
use super::due::Done;
use super::handle::{ChannelCounters, Wait};
use super::regs::dmac;
use super::ring::{Descriptor, Ring, State};
use crate::device::Bus;

#[derive(Debug)]
pub(super) struct Dmac {
    cfg: u32,
    pub int_sts: u32,
    pub int_en: u32,
    reset_until: u64,
    pub rx: [Ring; 4],
    pub tx: [Ring; 4],
    /// Frames being put together, by transmit channel.
    pub frames: [Option<super::tx::Outgoing>; 4],
}

impl Dmac {
    /// The controller of a chip with that many transmit channels. The stop interrupts are up from the
    /// beginning, as nothing runs.
    pub fn new(tx_channels: usize) -> Self {
        let tx_stops = ((1 << tx_channels) - 1) << 8;
        Self {
            cfg: dmac::CFG_RESET,
            int_sts: dmac::INT_RX_STOP | tx_stops & dmac::INT_TX_STOP,
            int_en: 0,
            reset_until: 0,
            rx: std::array::from_fn(|_| Ring::new(true)),
            tx: std::array::from_fn(|_| Ring::new(false)),
            frames: Default::default(),
        }
    }
}

/// Fields of the command register: reset, start, stop.
fn fields(rx: bool) -> (u32, u32, u32) {
    if rx { (8, 4, 0) } else { (24, 20, 16) }
}

impl Lan743x {
    pub(super) fn dmac_error(&self) -> bool {
        self.dmac.rx.iter().chain(&self.dmac.tx).any(Ring::reports_error)
    }

    /// `DMAC_INT_STS`.
    fn dmac_status(&self) -> u32 {
        self.dmac.int_sts | if self.dmac_error() { dmac::INT_ERR } else { 0 }
    }

    /// Channel registers: direction, channel, offset in it.
    fn channel_at(&self, offset: u64) -> Option<(bool, usize, u64)> {
        let (rx, first) = if offset >= dmac::TX { (false, dmac::TX) } else { (true, dmac::RX) };
        let at = offset.checked_sub(first)?;
        let channel = (at / dmac::STRIDE) as usize;
        (channel < self.channels(rx)).then_some((rx, channel, at % dmac::STRIDE))
    }

    pub(super) fn dmac_read(&mut self, bus: &mut dyn Bus, offset: u64) -> Option<u32> {
        let now = bus.now_ns();
        match offset {
            dmac::CFG => return Some(self.dmac.cfg),
            dmac::CMD => return Some(self.command_word(now)),
            dmac::INT_STS => return Some(self.dmac_status()),
            dmac::INT_EN_SET | dmac::INT_EN_CLR => return Some(self.dmac.int_en),
            dmac::INT_STS_R2C => {
                let value = self.dmac_status();
                for channel in 0..4 {
                    self.clear_by_read(true, channel, value, false);
                    self.clear_by_read(false, channel, value, false);
                }
                self.update_interrupts(bus);
                return Some(value);
            }
            _ => {}
        }
        let Some((rx, channel, at)) = self.channel_at(offset) else { return self.plain.read(offset) };
        let ring = self.ring(rx, channel);
        Some(match at {
            dmac::CFG_A => ring.cfg_a,
            dmac::CFG_B => ring.cfg_b,
            dmac::BASE_H => (ring.base >> 32) as u32,
            dmac::BASE_L => ring.base as u32,
            dmac::WB_H => (ring.head_address >> 32) as u32,
            dmac::WB_L => ring.head_address as u32,
            dmac::HEAD => ring.head,
            dmac::TAIL => ring.tail,
            dmac::ERR_STS => ring.err,
            dmac::CFG_C => ring.cfg_c,
            _ => return None,
        })
    }

    fn command_word(&self, now: u64) -> u32 {
        let mut word = if now < self.dmac.reset_until { dmac::CMD_SWR } else { 0 };
        for channel in 0..4 {
            for rx in [true, false] {
                let (ring, (reset, start, stop)) = (self.ring(rx, channel), fields(rx));
                let (started, stopped) = ring.bits(now);
                word |= u32::from(started) << (start + channel as u32);
                word |= u32::from(stopped) << (stop + channel as u32);
                word |= u32::from(now < ring.reset_until) << (reset + channel as u32);
            }
        }
        word
    }

    pub(super) fn dmac_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        match offset {
            dmac::CFG => self.dmac.cfg = value,
            dmac::CMD => self.command(bus, value),
            dmac::INT_STS => self.dmac.int_sts &= !value,
            dmac::INT_EN_SET => self.dmac.int_en |= value,
            dmac::INT_EN_CLR => self.dmac.int_en &= !value,
            dmac::INT_STS_R2C => {}
            _ => match self.channel_at(offset) {
                Some((rx, channel, at)) => {
                    if !self.channel_write(bus, rx, channel, at, value) {
                        return false;
                    }
                }
                None => return self.plain.write(offset, value),
            },
        }
        self.update_interrupts(bus);
        true
    }

    fn channel_write(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, at: u64, value: u32) -> bool {
        let parameter = !matches!(at, dmac::TAIL | dmac::ERR_STS | dmac::CFG_C | dmac::HEAD);
        // Parameters can be changed in the initial state; RX_CFG_B's time stamp mode always (Linux does).
        let initial = self.ring(rx, channel).state == State::Initial;
        if at == dmac::CFG_A && value & dmac::FLUSH != 0 {
            self.write_back(bus, rx, channel, true);
        }
        if parameter && !initial {
            if rx && at == dmac::CFG_B {
                let stamps = dmac::RX_TS_ALL | dmac::RX_TS_DESCR;
                let ring = self.ring_mut(rx, channel);
                ring.cfg_b = ring.cfg_b & !stamps | value & stamps;
            } else {
                self.channel_counters(rx, channel, |counters| counters.refused_writes += 1);
            }
            return true;
        }
        let ring = self.ring_mut(rx, channel);
        match at {
            dmac::CFG_A => ring.cfg_a = value & !dmac::FLUSH,
            dmac::CFG_B => ring.cfg_b = value,
            dmac::BASE_H => ring.base = ring.base & 0xffff_ffff | u64::from(value) << 32,
            dmac::BASE_L => {
                ring.base = ring.base >> 32 << 32 | u64::from(value & !3);
                ring.rebase();
            }
            dmac::WB_H => ring.head_address = ring.head_address & 0xffff_ffff | u64::from(value) << 32,
            dmac::WB_L => ring.head_address = ring.head_address >> 32 << 32 | u64::from(value & !3),
            dmac::HEAD => {}
            dmac::TAIL => self.write_tail(bus, rx, channel, value),
            dmac::ERR_STS => {
                let enables = dmac::ERR_TAIL_HALT | dmac::ERR_SEQUENCE_HALT;
                ring.err = ring.err & 0xff & !value | value & enables;
            }
            dmac::CFG_C => ring.cfg_c = value & 0x7f,
            _ => return false,
        }
        true
    }

    fn write_tail(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, value: u32) {
        self.channel_counters(rx, channel, |counters| counters.doorbells += 1);
        self.ring_mut(rx, channel).set_tail(value & 0xffff);
        self.tail_flags(rx, channel, value);
        self.ring_any(bus, rx, channel);
    }

    fn command(&mut self, bus: &mut dyn Bus, value: u32) {
        let now = bus.now_ns();
        if value & dmac::CMD_SWR != 0 {
            let until = self.end_of(Wait::DmacReset, now, self.params.timing.reset_ns);
            self.dmac.reset_until = until;
            self.dmac.rx.iter_mut().chain(&mut self.dmac.tx).for_each(|ring| ring.soft_reset(0));
            self.dmac.frames = Default::default();
        }
        for channel in 0..4 {
            for rx in [true, false] {
                self.channel_command(bus, rx, channel, value);
            }
        }
    }

    fn channel_command(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, value: u32) {
        let now = bus.now_ns();
        let (reset, start, stop) = fields(rx);
        let has = |bit: u32| value >> (bit + channel as u32) & 1 != 0;
        let reset_until = self.end_of(Wait::ChannelReset, now, self.params.timing.reset_ns);
        let stopped_at = self.end_of(Wait::ChannelStop, now, self.params.timing.reset_ns);
        if channel >= self.channels(rx) {
            return;
        }
        let ring = self.ring_mut(rx, channel);
        if has(reset) {
            ring.soft_reset(reset_until);
            if !rx {
                self.dmac.frames[channel] = None;
            }
            return;
        }
        let stopped = matches!(ring.state, State::Stopping(until) if now >= until);
        if has(stop) && ring.state == State::Running {
            ring.state = State::Stopping(stopped_at);
            // What is used up goes back, since software looks at it once the channel has stopped.
            self.write_back(bus, rx, channel, true);
            self.later(bus, stopped_at, Done::Stop { rx, channel });
        } else if has(start) && (stopped || ring.state == State::Initial) && now >= ring.reset_until {
            ring.state = State::Running;
            self.ring_any(bus, rx, channel);
        }
    }

    /// A channel has stopped.
    pub(super) fn stop_done(&mut self, now: u64, rx: bool, channel: usize) {
        if matches!(self.ring(rx, channel).state, State::Stopping(until) if now >= until) {
            self.dmac.int_sts |= if rx { 1 << (12 + channel) } else { 1 << (8 + channel) };
        }
    }

    fn channels(&self, rx: bool) -> usize {
        if rx { 4 } else { self.params.chip.tx_channels() }
    }

    pub(super) fn channel_counters(
        &self,
        rx: bool,
        channel: usize,
        count: impl FnOnce(&mut ChannelCounters),
    ) {
        let mut counters = self.counters();
        let list = if rx { &mut counters.rx } else { &mut counters.tx };
        if let Some(channel) = list.get_mut(channel) {
            count(channel);
        }
    }

    /// A channel has something to do soon.
    fn ring_any(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize) {
        if rx { self.ring_rx(bus, channel) } else { self.ring_tx(bus, channel) }
    }

    pub(super) fn wake_channel(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, delay: u64) {
        let hung = {
            let faults = &self.shared().faults;
            if rx { faults.rx_hung } else { faults.tx_hung }
        };
        if hung >> channel & 1 != 0 || !self.ring(rx, channel).runs() {
            return;
        }
        let token = if rx { Ev::Rx(channel) } else { Ev::Tx(channel) }.token(self.epoch);
        let at = bus.now_ns().saturating_add(delay);
        // Taken out, since setting it may ask the bus.
        let mut alarm = self.ring(rx, channel).alarm;
        alarm.set_by(bus, token, at);
        self.ring_mut(rx, channel).alarm = alarm;
    }

    /// Whether the event of a channel is the one that was asked for.
    pub(super) fn channel_fires(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize) -> bool {
        let token = if rx { Ev::Rx(channel) } else { Ev::Tx(channel) }.token(self.epoch);
        let mut alarm = self.ring(rx, channel).alarm;
        let fires = alarm.fires(bus, token);
        self.ring_mut(rx, channel).alarm = alarm;
        fires
    }

    pub(super) fn spacing(&self) -> u64 {
        16 << (self.dmac.cfg & 3)
    }

    /// Address of a descriptor.
    pub(super) fn descriptor_address(&self, rx: bool, channel: usize, index: u32) -> u64 {
        self.ring(rx, channel).base.wrapping_add(u64::from(index) * self.spacing())
    }

    /// Fetches descriptors, if the channel holds no more than its threshold: as many as it has room for,
    /// those of one block ([`super::Params::completion_block`]) by one request. A frame that needs `least`
    /// descriptors has them whatever the cache's size.
    pub(super) fn fetch(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, least: usize) {
        let threshold = (self.ring(rx, channel).cfg_a >> 16 & 0x1f) as usize;
        let held = self.ring(rx, channel).cache.len();
        if held > threshold && held >= least {
            return;
        }
        let (block, limit) = (self.params.completion_block, self.params.cache_descriptors.max(least));
        let mut last_block = None;
        while self.ring(rx, channel).cache.len() < limit && self.ring(rx, channel).available() != 0 {
            let index = self.ring(rx, channel).fetch;
            let address = self.descriptor_address(rx, channel, index);
            let mut bytes = [0; 16];
            if bus.dma_read(address, &mut bytes).is_err() {
                self.halt(rx, channel, dmac::ERR_DESCRIPTOR);
                return;
            }
            let this_block = address / block;
            let new_request = last_block != Some(this_block);
            last_block = Some(this_block);
            self.channel_counters(rx, channel, |counters| {
                counters.fetches += u64::from(new_request);
                counters.fetched += 1;
            });
            let mut words = [0; 4];
            for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            }
            let ring = self.ring_mut(rx, channel);
            ring.cache.push_back(Descriptor { index, words });
            ring.fetch = ring.after(index);
        }
    }

    pub(super) fn halt(&mut self, rx: bool, channel: usize, error: u32) {
        self.channel_counters(rx, channel, |counters| counters.halts += 1);
        let ring = self.ring_mut(rx, channel);
        ring.err |= error;
        ring.halted = true;
    }

    /// Writes back what a channel owes: descriptors (receive), then the head, then the interrupt status.
    /// Without `force` only what its thresholds say.
    pub(super) fn write_back(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, force: bool) {
        if rx { self.write_back_rx(bus, channel, force) } else { self.write_back_tx(bus, channel, force) }
    }

    /// Puts the head into memory, if the channel does that.
    pub(super) fn write_head(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize) {
        let ring = self.ring_mut(rx, channel);
        ring.head = ring.next_head;
        let (enabled, address, head) = (ring.cfg_a & dmac::HP_WB != 0, ring.head_address, ring.head);
        if !enabled {
            return;
        }
        let lost = bus.dma_write(address, &head.to_le_bytes()).is_err();
        self.channel_counters(rx, channel, |counters| {
            counters.head_writes += 1;
            counters.lost_writes += u64::from(lost);
        });
    }
}
