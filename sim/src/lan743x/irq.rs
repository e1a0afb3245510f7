//! Interrupts: status, enables, vectors, automatic clearing, moderation.
//!
//! Sources: AN2948 section 7, sections 10.0.22 and 10.0.32 for the channels' automatic modes, Linux 7.3
//! `lan743x_intr_open`, `lan743x_intr_entry_isr` and `lan743x_csr_init`.
//!
//! A message goes out on the rising edge of (request of the vector & vector enable), which is looked at
//! anew after each event and each write: enabling a vector whose request is up sends one. INTx is the
//! level of master enable & any enabled status. A model does not know whether the host has enabled MSI or
//! MSI-X: with the pin in use the vector enables have to stay off, as stock Linux leaves them, or the
//! automatic modes clear what the pin shows.
//!
//! Moderation is not public. Here, after a message the timers of the sources that caused it run for their
//! interval; a source whose timer runs does not request. When a timer ends, channels that it moderates
//! write back what waits ([`super::Params::moderation_unit_ns`]).

use super::Lan743x;
use super::alarm::{Alarm, Ev};
use super::regs::{dmac, int};
use crate::device::Bus;

/// Timers of moderation maps that mean "none".
const NO_TIMER: usize = 0xf;

#[derive(Debug, Default)]
pub(super) struct Irq {
    /// Bits set by software, and those that have no level behind them.
    pub latched: u32,
    pub enable: u32,
    pub vec_enable: u32,
    pub auto_clear: u32,
    pub map: [u32; 3],
    pub mod_map: [u32; 3],
    pub mod_cfg: [u32; 10],
    pub timers: [Alarm; 10],
    /// Vectors whose enabled request is up.
    up: u32,
    intx: bool,
}

/// The nibble of a map that belongs to a status bit.
fn nibble(map: &[u32; 3], bit: u32) -> usize {
    let (word, shift) = match bit {
        24..=27 => (0, (bit - 24) * 4),
        16..=19 => (1, (bit - 16) * 4),
        2 => (2, 20),
        10 => (2, 16),
        9 => (2, 12),
        7 => (2, 8),
        1 => (2, 4),
        _ => (2, 0),
    };
    (map[word] >> shift & 0xf) as usize
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |bit| mask >> bit & 1 != 0)
}

impl Lan743x {
    fn level_status(&self) -> u32 {
        let dma = self.dmac.int_sts & self.dmac.int_en;
        let mut status = (dma & dmac::INT_RXFRM) << 8 | (dma & 0xf) << 16;
        let stops = dma & (dmac::INT_RX_STOP | dmac::INT_TX_STOP);
        if self.params.has_auto_clear() {
            status |= if stops != 0 { int::DMA_GEN } else { 0 };
        } else {
            status |= (stops & dmac::INT_RX_STOP) << 12 | (stops & dmac::INT_TX_STOP) << 8;
        }
        let mut add = |on: bool, bit: u32| status |= if on { bit } else { 0 };
        add(self.dmac_error() && self.dmac.int_en & dmac::INT_ERR != 0, int::DMA_GEN);
        add(self.media.interrupt, int::PHY);
        add(self.sys.gpio_status & self.sys.gpio_enable != 0, int::GPIO);
        add(self.ptp.interrupt(), int::PTP);
        add(self.mac_int_status() & self.mac.int_en != 0, int::MAC);
        add(self.fct_status() & self.fct.int_en != 0, int::FCT);
        status
    }

    /// `INT_STS`.
    pub(super) fn int_status(&self) -> u32 {
        let status = self.level_status() | self.irq.latched;
        status | u32::from(status & self.irq.enable & !int::MAS != 0)
    }

    /// Timer that moderates a status bit.
    fn timer_of(&self, bit: u32) -> Option<usize> {
        let timer = nibble(&self.irq.mod_map, bit);
        (timer != NO_TIMER && timer < self.params.chip.moderation_timers()).then_some(timer)
    }

    /// Timer of a receive (`true`) or transmit channel, if it has one.
    pub(super) fn channel_timer(&self, rx: bool, channel: usize) -> Option<usize> {
        self.timer_of(channel as u32 + if rx { 24 } else { 16 })
    }

    /// Whether a channel writes back at the end of its work whatever its threshold says, because its
    /// moderation timer is to do so and does not run.
    pub(super) fn rests(&self, rx: bool, channel: usize) -> bool {
        let timed = self.ring(rx, channel).cfg_a & dmac::ON_INT_TMR != 0;
        timed && self.channel_timer(rx, channel).is_some_and(|timer| !self.irq.timers[timer].is_set())
    }

    fn vector_of(&self, bit: u32) -> usize {
        nibble(&self.irq.map, bit) & (usize::from(self.params.chip.vectors()) - 1)
    }

    /// Enabled status bits that nothing holds back.
    fn requesting(&self) -> u32 {
        let enabled = self.int_status() & self.irq.enable & !int::MAS;
        let free = |bit: &u32| self.timer_of(*bit).is_none_or(|timer| !self.irq.timers[timer].is_set());
        bits(enabled).filter(free).fold(0, |mask, bit| mask | 1 << bit)
    }

    /// `INT_VEC_STS`.
    fn vector_requests(&self) -> u32 {
        if self.irq.enable & int::MAS == 0 {
            return 0;
        }
        bits(self.requesting()).fold(0, |mask, bit| mask | 1 << self.vector_of(bit))
    }

    /// Sends what has to be sent. To be called after everything that may change a status or an enable.
    pub(super) fn update_interrupts(&mut self, bus: &mut dyn Bus) {
        for _ in 0..=self.params.chip.vectors() {
            let up = self.vector_requests() & self.irq.vec_enable;
            let rising = up & !self.irq.up;
            self.irq.up = up;
            if rising == 0 {
                break;
            }
            for vector in bits(rising) {
                self.send_message(bus, vector as usize);
            }
        }
        let level = self.irq.enable & int::MAS != 0 && self.int_status() & int::MAS != 0;
        if level != self.irq.intx {
            self.irq.intx = level;
            if level {
                self.counters().intx_rises += 1;
            }
            bus.set_intx(level);
        }
    }

    fn send_message(&mut self, bus: &mut dyn Bus, vector: usize) {
        let causes: Vec<u32> = bits(self.requesting()).filter(|bit| self.vector_of(*bit) == vector).collect();
        let timers: Vec<usize> = causes.iter().filter_map(|bit| self.timer_of(*bit)).collect();
        for timer in timers {
            self.start_timer(bus, timer);
        }
        if self.params.has_auto_clear() {
            self.auto_clear(vector);
        }
        if let Some(count) = self.counters().messages.get_mut(vector) {
            *count += 1;
        }
        bus.raise(vector as u16);
    }

    fn start_timer(&mut self, bus: &mut dyn Bus, timer: usize) {
        let interval = u64::from(self.irq.mod_cfg[timer] & int::MOD_INTERVAL);
        let time = interval * self.params.moderation_unit_ns;
        if time != 0 && !self.irq.timers[timer].is_set() {
            let token = Ev::Moderation(timer).token(self.epoch);
            let at = bus.now_ns().saturating_add(time);
            self.irq.timers[timer].set(bus, token, at);
        }
    }

    /// What the message of a vector clears by itself.
    fn auto_clear(&mut self, vector: usize) {
        self.irq.vec_enable &= !(self.irq.auto_clear & 1 << vector);
        for channel in 0..4 {
            for rx in [true, false] {
                let bit = channel as u32 + if rx { 24 } else { 16 };
                if self.vector_of(bit) == vector && (rx || channel < self.params.chip.tx_channels()) {
                    self.auto_clear_channel(rx, channel);
                }
            }
        }
    }

    fn auto_clear_channel(&mut self, rx: bool, channel: usize) {
        let mode = self.ring(rx, channel).cfg_c;
        let (top, dma) = Self::channel_bits(rx, channel);
        if mode & dmac::C_INT_EN != 0 {
            self.irq.enable &= !top;
        }
        if mode & dmac::C_DMA_EN != 0 {
            self.dmac.int_en &= !dma;
        }
        if mode & dmac::C_STATUS != 0 {
            self.dmac.int_sts &= !dma;
            self.irq.latched &= !top;
        }
    }

    /// Bits of a channel in `INT_STS` and in `DMAC_INT_STS`.
    pub(super) fn channel_bits(rx: bool, channel: usize) -> (u32, u32) {
        if rx { (1 << (24 + channel), 1 << (16 + channel)) } else { (1 << (16 + channel), 1 << channel) }
    }

    /// What the flags of a tail write enable.
    pub(super) fn tail_flags(&mut self, rx: bool, channel: usize, value: u32) {
        if !self.params.has_auto_clear() {
            return;
        }
        let (top, dma) = Self::channel_bits(rx, channel);
        if value & 1 << 31 != 0 {
            self.dmac.int_en |= dma;
        }
        if value & 1 << 30 != 0 {
            self.irq.enable |= top;
        }
        if value & 1 << 29 != 0 {
            self.irq.vec_enable |= 1 << self.vector_of(top.trailing_zeros());
        }
    }

    /// A moderation timer came to its end.
    pub(super) fn moderation_end(&mut self, bus: &mut dyn Bus, timer: usize) {
        let token = Ev::Moderation(timer).token(self.epoch);
        if !self.irq.timers[timer].fires(bus, token) {
            return;
        }
        for channel in 0..4 {
            for rx in [true, false] {
                let mine = self.channel_timer(rx, channel) == Some(timer);
                if mine && self.ring(rx, channel).cfg_a & dmac::ON_INT_TMR != 0 {
                    self.write_back(bus, rx, channel, true);
                }
            }
        }
        self.update_interrupts(bus);
    }

    fn read_to_clear(&mut self) -> u32 {
        let value = self.int_status();
        for channel in 0..4 {
            for rx in [true, false] {
                self.clear_by_read(rx, channel, value, true);
            }
        }
        value
    }

    /// What a read of `INT_STS_R2C` (`top`) or `DMAC_INT_STS_R2C` with this value clears for a channel.
    pub(super) fn clear_by_read(&mut self, rx: bool, channel: usize, value: u32, top: bool) {
        let mode = self.ring(rx, channel).cfg_c;
        let (top_bit, dma_bit) = Self::channel_bits(rx, channel);
        let (top_on, dma_on) = (self.irq.enable & top_bit != 0, self.dmac.int_en & dma_bit != 0);
        let clears = match (top, mode & 7) {
            (_, 0..=3) => false,
            (true, 4) | (false, 4 | 6) => true,
            (true, 5) | (false, _) => dma_on,
            (true, 6) => top_on,
            (true, _) => top_on && dma_on,
        };
        let was_set = value & if top { top_bit } else { dma_bit } != 0;
        if clears {
            self.dmac.int_sts &= !dma_bit;
            self.irq.latched &= !top_bit;
        }
        if mode & dmac::C_EN_R2C != 0 && was_set {
            if top {
                self.irq.enable &= !top_bit;
            } else {
                self.dmac.int_en &= !dma_bit;
            }
        }
    }

    pub(super) fn irq_read(&mut self, bus: &mut dyn Bus, offset: u64) -> Option<u32> {
        let auto = self.params.has_auto_clear();
        Some(match offset {
            int::STS => self.int_status(),
            int::SET => 0,
            int::EN_SET | int::EN_CLR => self.irq.enable,
            int::STS_R2C if auto => {
                let value = self.read_to_clear();
                self.update_interrupts(bus);
                value
            }
            int::VEC_EN_SET | int::VEC_EN_CLR => self.irq.vec_enable,
            int::VEC_EN_AUTO_CLR if auto => self.irq.auto_clear,
            0x7a0 | 0x7a4 | 0x7a8 => self.irq.map[(offset - int::VEC_MAP0) as usize / 4],
            int::VEC_STS => self.vector_requests(),
            0x7b0 | 0x7b4 | 0x7b8 => self.irq.mod_map[(offset - int::MOD_MAP0) as usize / 4],
            int::MOD_CFG0..=0x7e4 => self.moderation_config(offset)?,
            _ => return None,
        })
    }

    fn moderation_config(&self, offset: u64) -> Option<u32> {
        let timer = (offset - int::MOD_CFG0) as usize / 4;
        let running = self.irq.timers[timer].is_set();
        let known = timer < self.params.chip.moderation_timers();
        known.then(|| self.irq.mod_cfg[timer] | if running { int::MOD_STATUS } else { 0 })
    }

    pub(super) fn irq_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let auto = self.params.has_auto_clear();
        let vectors = (1_u32 << self.params.chip.vectors()) - 1;
        match offset {
            int::STS => self.clear_int_status(value),
            int::SET => self.irq.latched |= value & self.settable(),
            int::EN_SET => self.irq.enable |= value & (self.settable() | int::MAS),
            int::EN_CLR => self.irq.enable &= !value,
            int::VEC_EN_SET => self.irq.vec_enable |= value & vectors,
            int::VEC_EN_CLR => self.irq.vec_enable &= !value,
            int::VEC_EN_AUTO_CLR if auto => self.irq.auto_clear = value & vectors,
            0x7a0 | 0x7a4 | 0x7a8 => self.irq.map[(offset - int::VEC_MAP0) as usize / 4] = value,
            0x7b0 | 0x7b4 | 0x7b8 => self.irq.mod_map[(offset - int::MOD_MAP0) as usize / 4] = value,
            int::MOD_CFG0..=0x7e4 => {
                let timer = (offset - int::MOD_CFG0) as usize / 4;
                self.irq.mod_cfg[timer] = value & int::MOD_WRITABLE;
            }
            int::VEC_STS | int::STS_R2C => {}
            _ => return false,
        }
        self.update_interrupts(bus);
        true
    }

    fn settable(&self) -> u32 {
        let tx = if self.params.chip.is_pci11x1x() { int::TX } else { 1 << 16 };
        int::RX | tx | 0xffe
    }

    /// Writing ones to `INT_STS`. What stays up by its level is up again at once.
    fn clear_int_status(&mut self, value: u32) {
        self.irq.latched &= !value;
        self.dmac.int_sts &= !((value & int::RX) >> 8);
        self.dmac.int_sts &= !((value & int::TX) >> 16);
    }
}
