//! FIFO controller: receive FIFOs with their flow control, transmit FIFOs (AN2948 section 5).
//!
//! Decisions. The receive FIFOs share 32 KiB; a FIFO begins where that of the channel before it ends. By the
//! reset values all four end at the same place, and drivers (Linux) use all four without a word about it:
//! then each has the whole memory. The used space counts data alone, not the command words, whose number
//! is not public. The transmit FIFO holds nothing: frames go to the MAC as they are read.

use std::collections::VecDeque;

use super::due::Done;
use super::handle::Wait;
use super::regs::{fct, mac};
use super::wire::Frame;
use super::{DropReason, Lan743x};
use crate::device::Bus;

/// The unit of the end registers and of the flow control thresholds, in bytes.
const UNIT: usize = 512;

/// A frame in a receive FIFO, and what the filter found about it.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub frame: Frame,
    /// Whether its check sequence is kept.
    pub with_fcs: bool,
    /// Status word of its last descriptor.
    pub status: u32,
    /// RSS hash, if it is stored.
    pub hash: Option<u32>,
    /// When it came, if it is to be told.
    pub stamp: Option<(u32, u32)>,
}

impl Accepted {
    /// What the host gets of it.
    pub fn length(&self) -> usize {
        self.frame.bytes.len() + if self.with_fcs { 4 } else { 0 }
    }

    /// What it takes in the FIFO.
    fn space(&self) -> usize {
        self.length().next_multiple_of(4)
    }
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

impl Fct {
    /// A frame to be sent failed the checks.
    pub fn tx_error(&mut self) {
        self.int_sts |= fct::INT_TXE;
    }
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
    /// `FCT_INT_STS`: what happened, and where frames wait.
    pub(super) fn fct_status(&self) -> u32 {
        let waits = |channel: &usize| !self.fct.rx[*channel].frames.is_empty();
        (0..4).filter(waits).fold(self.fct.int_sts, |word, channel| word | fct::INT_RDFPA << channel)
    }

    /// Bytes that a receive FIFO holds.
    fn fifo_bytes(&self, channel: usize) -> usize {
        let ends = self.plain.get(fct::RX_FIFO_END).to_le_bytes();
        let end = usize::from(ends[channel & 3] & 0x3f) + 1;
        let begin = channel.checked_sub(1).map_or(0, |before| usize::from(ends[before & 3] & 0x3f) + 1);
        (if begin < end { end - begin } else { end }) * UNIT
    }

    /// A FIFO that was told to be disabled is.
    pub(super) fn fifo_off(&mut self, now: u64, rx: bool, channel: usize) {
        let fifo = if rx { &self.fct.rx[channel & 3] } else { &self.fct.tx[channel & 3] };
        if !fifo.is_enabled(now) {
            self.fct.int_sts |= if rx { fct::INT_RX_DIS } else { fct::INT_TX_DIS } << channel;
        }
    }

    pub(super) fn fct_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        Some(match offset {
            fct::INT_STS => self.fct_status(),
            fct::INT_EN_SET | fct::INT_EN_CLR => self.fct.int_en,
            fct::RX_CTL => ctl(&self.fct.rx, now),
            fct::TX_CTL => ctl(&self.fct.tx, now),
            fct::RX_USED..=0x0c3 => {
                let channel = (offset - fct::RX_USED) as usize / 4;
                self.fct.rx.get(channel).map_or(0, |fifo| fifo.used as u32 & 0xffff)
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
        self.update_interrupts(bus);
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
            let disables = has(24) && fifo.is_enabled(now);
            if disables {
                fifo.disable_at = Some(disable);
            }
            if has(28) {
                (fifo.enabled, fifo.disable_at) = (true, None);
            }
            if disables {
                self.later(bus, disable, Done::Fifo { rx, channel });
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

    /// A frame for a channel. False if it is lost. A disabled FIFO's frames are not counted as dropped.
    pub(super) fn fifo_put(&mut self, bus: &mut dyn Bus, channel: usize, accepted: Accepted) -> bool {
        let now = bus.now_ns();
        let room = self.fifo_bytes(channel);
        let Some(fifo) = self.fct.rx.get_mut(channel) else { return false };
        if !fifo.is_enabled(now) {
            self.drop_frame(DropReason::FifoDisabled);
            return false;
        }
        let size = accepted.space();
        if fifo.used + size > room {
            self.fct.int_sts |= (fct::INT_RDFO | fct::INT_RXDF) << channel;
            self.stats.rx.add(super::stats::rx::DROPPED, 1);
            self.drop_frame(DropReason::FifoFull);
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
        fifo.used = fifo.used.saturating_sub(accepted.space());
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
