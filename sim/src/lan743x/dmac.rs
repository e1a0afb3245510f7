//! DMA controller: commands, channels' registers, descriptor fetch and head write-back (AN2948 section 10).

use std::collections::VecDeque;

use super::Lan743x;
use super::alarm::{Alarm, Ev};
use super::handle::{ChannelCounters, Wait};
use super::regs::dmac;
use crate::device::Bus;

/// A descriptor as it was fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub index: u32,
    pub words: [u32; 4],
}

/// Where a channel is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Initial,
    Running,
    /// Until then.
    Stopping(u64),
}

/// A channel.
#[derive(Debug)]
pub(super) struct Ring {
    pub cfg_a: u32,
    pub cfg_b: u32,
    pub cfg_c: u32,
    base: u64,
    head_address: u64,
    /// The first descriptor that software does not have back.
    pub head: u32,
    pub tail: u32,
    pub err: u32,
    state: State,
    reset_until: u64,
    /// Fetched, and not used up.
    pub cache: VecDeque<Descriptor>,
    /// The next that will be fetched.
    fetch: u32,
    /// Receive: used up, and not written back.
    pub done: VecDeque<Descriptor>,
    /// The head as it will be after the next write-back.
    pub next_head: u32,
    /// Transmit: descriptors passed that ask for a write-back.
    pub owed: u32,
    /// An error stopped it until its reset.
    pub halted: bool,
    pub alarm: Alarm,
}

impl Ring {
    fn new(rx: bool) -> Self {
        Self {
            cfg_a: 0,
            cfg_b: if rx { dmac::RX_CFG_B_RESET } else { dmac::TX_CFG_B_RESET },
            cfg_c: 0,
            base: 0,
            head_address: 0,
            head: 0,
            tail: 0,
            err: 0,
            state: State::Initial,
            reset_until: 0,
            cache: VecDeque::new(),
            fetch: 0,
            done: VecDeque::new(),
            next_head: 0,
            owed: 0,
            halted: false,
            alarm: Alarm::default(),
        }
    }

    pub fn length(&self) -> u32 {
        self.cfg_b & 0xffff
    }

    fn bits(&self, now: u64) -> (bool, bool) {
        match self.state {
            State::Initial => (false, false),
            State::Running => (true, false),
            State::Stopping(until) => (now < until, true),
        }
    }

    pub fn runs(&self) -> bool {
        self.state == State::Running && !self.halted
    }

    fn restart(&mut self) {
        (self.head, self.tail, self.fetch, self.next_head, self.owed) = (0, 0, 0, 0, 0);
        self.cache.clear();
        self.done.clear();
    }

    /// Forgets what was fetched: it is fetched again.
    pub fn forget_cache(&mut self) {
        if let Some(first) = self.cache.front() {
            self.fetch = first.index;
            self.cache.clear();
        }
    }

    /// The next index of the ring.
    pub fn after(&self, index: u32) -> u32 {
        if index + 1 >= self.length() { 0 } else { index + 1 }
    }

    /// Descriptors between the one to be fetched and the tail.
    fn available(&self) -> u32 {
        let length = self.length();
        if length < 2 || self.tail >= length {
            return 0;
        }
        (self.tail + length - self.fetch) % length
    }
}

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

impl Default for Dmac {
    fn default() -> Self {
        Self {
            cfg: dmac::CFG_RESET,
            int_sts: 0,
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
        self.dmac.rx.iter().chain(&self.dmac.tx).any(|ring| ring.err & 0xff != 0)
    }

    /// Channel registers: direction, channel, offset in it.
    fn channel_at(&self, offset: u64) -> Option<(bool, usize, u64)> {
        let (rx, first) = if offset >= dmac::TX { (false, dmac::TX) } else { (true, dmac::RX) };
        let at = offset.checked_sub(first)?;
        let channel = (at / dmac::STRIDE) as usize;
        let count = if rx { 4 } else { self.params.chip.tx_channels() };
        (channel < count).then_some((rx, channel, at % dmac::STRIDE))
    }

    pub(super) fn dmac_read(&mut self, bus: &mut dyn Bus, offset: u64) -> Option<u32> {
        let now = bus.now_ns();
        match offset {
            dmac::CFG => return Some(self.dmac.cfg),
            dmac::CMD => return Some(self.command_word(now)),
            dmac::INT_STS => return Some(self.dmac.int_sts),
            dmac::INT_EN_SET | dmac::INT_EN_CLR => return Some(self.dmac.int_en),
            dmac::INT_STS_R2C => {
                let value = self.dmac.int_sts;
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
                ring.restart();
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
        let ring = self.ring_mut(rx, channel);
        let index = value & 0xffff;
        if index >= ring.length() && ring.length() != 0 {
            ring.err |= dmac::ERR_TAIL;
            ring.halted |= ring.err & dmac::ERR_TAIL_HALT != 0;
        } else {
            ring.tail = index;
        }
        self.tail_flags(rx, channel, value);
        self.ring_any(bus, rx, channel);
    }

    fn command(&mut self, bus: &mut dyn Bus, value: u32) {
        let now = bus.now_ns();
        if value & dmac::CMD_SWR != 0 {
            self.epoch += 1;
            // Settings outlive it (NASR), channels do not.
            let cfg = self.dmac.cfg;
            self.dmac = Dmac { cfg, ..Dmac::default() };
            self.dmac.reset_until = self.end_of(Wait::DmacReset, now, self.params.timing.reset_ns);
            self.rearm_after_reset(bus);
        }
        for channel in 0..4 {
            for rx in [true, false] {
                self.channel_command(bus, rx, channel, value);
            }
        }
    }

    /// The alarms of an earlier life are void; what goes on asks again.
    fn rearm_after_reset(&mut self, bus: &mut dyn Bus) {
        self.irq.timers = Default::default();
        bus.schedule(0, super::wire::ARRIVAL);
    }

    fn channel_command(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize, value: u32) {
        let now = bus.now_ns();
        let (reset, start, stop) = fields(rx);
        let has = |bit: u32| value >> (bit + channel as u32) & 1 != 0;
        let reset_until = self.end_of(Wait::ChannelReset, now, self.params.timing.reset_ns);
        let stopped_at = self.end_of(Wait::ChannelStop, now, self.params.timing.reset_ns);
        let ring = self.ring_mut(rx, channel);
        if has(reset) {
            // Settings outlive it (NASR); head and tail do not.
            (ring.state, ring.halted, ring.err) = (State::Initial, false, 0);
            ring.restart();
            ring.reset_until = reset_until;
            if !rx {
                self.dmac.frames[channel] = None;
            }
            let (_, dma) = Self::channel_bits(rx, channel);
            self.dmac.int_sts &= !dma;
            return;
        }
        if has(stop) && ring.state == State::Running {
            ring.state = State::Stopping(stopped_at);
            self.write_back(bus, rx, channel, true);
        } else if has(start) && now >= ring.reset_until {
            ring.state = State::Running;
            self.ring_any(bus, rx, channel);
        }
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
    /// those of one block ([`super::Params::completion_block`]) by one request.
    pub(super) fn fetch(&mut self, bus: &mut dyn Bus, rx: bool, channel: usize) {
        let threshold = self.ring(rx, channel).cfg_a >> 16 & 0x1f;
        if self.ring(rx, channel).cache.len() > threshold as usize {
            return;
        }
        let (block, limit) = (self.params.completion_block, self.params.cache_descriptors);
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
            let word =
                |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let words = [word(0), word(4), word(8), word(12)];
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
