//! FIFO controller: receive FIFOs with their flow control, transmit FIFOs (AN2948 section 5).

use std::collections::VecDeque;

use super::handle::Wait;
use super::regs::{fct, mac};
use super::wire::Frame;
use super::{DropReason, Lan743x};
use crate::device::Bus;

/// Bytes of a receive FIFO. The four share 64 KiB as the boundary registers say; here each has all of it,
/// which no driver of the four-channel layout can notice but by pause frames.
const FIFO_BYTES: usize = 64 << 10;
const UNIT: usize = 512;

/// A frame in a receive FIFO, and what the filter found about it.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub frame: Frame,
    /// Status word of its last descriptor.
    pub status: u32,
    /// RSS hash, if it is stored.
    pub hash: Option<u32>,
    /// When it came, if it is to be told.
    pub stamp: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
pub(super) struct Fifo {
    pub frames: VecDeque<Accepted>,
    pub used: usize,
    enabled: bool,
    disable_at: Option<u64>,
    reset_until: u64,
    paused: bool,
}

#[derive(Debug, Default)]
pub(super) struct Fct {
    pub rx: [Fifo; 4],
    pub tx: [Fifo; 4],
    pub int_en: u32,
    int_sts: u32,
}

impl Fifo {
    fn is_enabled(&self, now: u64) -> bool {
        self.enabled && self.disable_at.is_none_or(|at| now < at)
    }
}

fn ctl(fifos: &[Fifo; 4], now: u64) -> u32 {
    (0..4).fold(0, |word, channel| {
        let fifo = &fifos[channel];
        let enabled = u32::from(fifo.is_enabled(now)) << (28 + channel);
        word | enabled | u32::from(now < fifo.reset_until) << (20 + channel)
    })
}

impl Lan743x {
    pub(super) fn fct_status(&self) -> u32 {
        self.fct.int_sts
    }

    pub(super) fn fct_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        Some(match offset {
            fct::INT_STS => self.fct.int_sts,
            fct::INT_EN_SET | fct::INT_EN_CLR => self.fct.int_en,
            fct::RX_CTL => ctl(&self.fct.rx, now),
            fct::TX_CTL => ctl(&self.fct.tx, now),
            fct::RX_USED..=0x0c3 => {
                let channel = (offset - fct::RX_USED) as usize / 4;
                self.fct.rx.get(channel).map_or(0, |fifo| fifo.used.div_ceil(UNIT) as u32)
            }
            fct::TX_USED..=0x0db => 0,
            _ => return self.plain.read(offset),
        })
    }

    pub(super) fn fct_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        match offset {
            fct::INT_STS => self.fct.int_sts &= !value,
            fct::INT_EN_SET => self.fct.int_en |= value,
            fct::INT_EN_CLR => self.fct.int_en &= !value,
            fct::RX_CTL => self.fct_control(bus, true, value),
            fct::TX_CTL => self.fct_control(bus, false, value),
            fct::RX_USED..=0x0c3 | fct::TX_USED..=0x0db => {}
            _ => return self.plain.write(offset, value),
        }
        true
    }

    fn fct_control(&mut self, bus: &mut dyn Bus, rx: bool, value: u32) {
        let now = bus.now_ns();
        let (reset, disable) = (
            self.end_of(Wait::FifoReset, now, self.params.timing.reset_ns),
            self.end_of(Wait::FifoDisable, now, self.params.timing.reset_ns),
        );
        for channel in 0..4 {
            let fifo = if rx { &mut self.fct.rx[channel] } else { &mut self.fct.tx[channel] };
            let has = |bit: usize| value >> (bit + channel) & 1 != 0;
            if has(20) {
                *fifo = Fifo { enabled: fifo.enabled, reset_until: reset, ..Fifo::default() };
            }
            if has(24) && fifo.enabled {
                fifo.disable_at = Some(disable);
            }
            if has(28) {
                (fifo.enabled, fifo.disable_at) = (true, None);
            }
        }
        if !rx {
            (0..self.params.chip.tx_channels()).for_each(|channel| self.ring_tx(bus, channel));
        }
    }

    /// Whether a transmit FIFO takes frames.
    pub(super) fn tx_fifo_enabled(&self, now: u64, channel: usize) -> bool {
        self.fct.tx.get(channel).is_some_and(|fifo| fifo.is_enabled(now))
    }

    /// A frame for a channel. False if it is lost.
    pub(super) fn fifo_put(&mut self, bus: &mut dyn Bus, channel: usize, accepted: Accepted) -> bool {
        let now = bus.now_ns();
        let Some(fifo) = self.fct.rx.get_mut(channel) else { return false };
        let size = accepted.frame.wire_len();
        let reason = if !fifo.is_enabled(now) {
            Some(DropReason::FifoDisabled)
        } else {
            (fifo.used + size > FIFO_BYTES).then_some(DropReason::FifoFull)
        };
        if let Some(reason) = reason {
            self.fct.int_sts |= fct::INT_RXDF << channel;
            self.stats.rx.add(super::stats::rx::DROPPED, 1);
            self.drop_frame(reason);
            return false;
        }
        fifo.used += size;
        fifo.frames.push_back(accepted);
        self.flow_control(bus, channel);
        true
    }

    /// Takes the oldest frame of a FIFO.
    pub(super) fn fifo_take(&mut self, bus: &mut dyn Bus, channel: usize) -> Option<Accepted> {
        let fifo = self.fct.rx.get_mut(channel)?;
        let accepted = fifo.frames.pop_front()?;
        fifo.used = fifo.used.saturating_sub(accepted.frame.wire_len());
        self.flow_control(bus, channel);
        Some(accepted)
    }

    /// Sends a pause frame when a threshold is crossed.
    fn flow_control(&mut self, bus: &mut dyn Bus, channel: usize) {
        let flow = self.plain.get(fct::FLOW + channel as u64 * 4);
        let (on, off) = ((flow & 0x7f) as usize * UNIT, (flow >> 8 & 0x7f) as usize * UNIT);
        let fifo = &mut self.fct.rx[channel];
        let before = fifo.paused;
        if flow & fct::FLOW_ENABLE == 0 {
            return;
        }
        fifo.paused = if before { fifo.used > off } else { fifo.used >= on && on != 0 };
        let after = fifo.paused;
        if before != after && self.mac.flow & mac::FLOW_TX != 0 {
            let time = if after { self.mac.flow as u16 } else { 0 };
            self.send_pause(bus, time);
        }
    }
}
