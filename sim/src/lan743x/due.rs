//! What comes to its end by itself: ends that software may be told of by interrupt, and writes that arrive
//! late.
//!
//! The registers show an end as soon as its time has come, whoever reads them. The events here set the
//! interrupt bits that belong to it.
//!
//! A late write is a fault ([`super::Handle::delay_status_clears`]): with posted writes an acknowledge (a
//! one written into an interrupt status) can arrive after the next frame has set the bit again, and takes
//! it away. The order of writes stays: those behind it wait too, and a read pushes all of them before
//! itself, as on PCIe. Source: `INTEROP-NOTES.md`, where stock Linux stalls by it.

use std::collections::VecDeque;

use super::Lan743x;
use super::alarm::{Alarm, Ev};
use super::ptp::INT_STS as PTP_INT_STS;
use super::regs::{dmac, fct, int, mac};
use crate::device::Bus;

/// Writes that may be late at once; one more makes all of them arrive.
const MOST_LATE: usize = 64;

/// What has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// A DMA channel has stopped.
    Stop { rx: bool, channel: usize },
    /// A FIFO is disabled.
    Fifo { rx: bool, channel: usize },
    /// The receiver or the transmitter of the MAC is off.
    Mac { rx: bool },
    /// An access through the data port.
    DataPort,
    /// Late writes arrive.
    Writes,
}

/// Ends that are to come. Each kind is in it once at most.
#[derive(Debug, Default)]
pub(super) struct Due {
    ends: Vec<(u64, Done)>,
    alarm: Alarm,
    late: VecDeque<(u64, u32)>,
}

impl Lan743x {
    /// Something ends at `at`; never, if that is the end of time.
    pub(super) fn later(&mut self, bus: &mut dyn Bus, at: u64, done: Done) {
        self.due.ends.retain(|(_, other)| *other != done);
        if at != u64::MAX {
            self.due.ends.push((at, done));
            self.due.alarm.set_by(bus, Ev::Due.token(self.epoch), at);
        }
    }

    /// An event for an end has come.
    pub(super) fn due_event(&mut self, bus: &mut dyn Bus) {
        if !self.due.alarm.fires(bus, Ev::Due.token(self.epoch)) {
            return;
        }
        let now = bus.now_ns();
        let ended: Vec<Done> = self.due.ends.iter().filter(|end| end.0 <= now).map(|end| end.1).collect();
        self.due.ends.retain(|end| end.0 > now);
        for done in ended {
            self.end(bus, done);
        }
        if let Some(next) = self.due.ends.iter().map(|end| end.0).min() {
            self.due.alarm.set_by(bus, Ev::Due.token(self.epoch), next);
        }
        self.update_interrupts(bus);
    }

    fn end(&mut self, bus: &mut dyn Bus, done: Done) {
        let now = bus.now_ns();
        match done {
            Done::Stop { rx, channel } => self.stop_done(now, rx, channel),
            Done::Fifo { rx, channel } => self.fifo_off(now, rx, channel),
            Done::Mac { rx } => self.mac_off(now, rx),
            Done::DataPort => self.irq.latched |= int::DP,
            Done::Writes => self.arrive(bus),
        }
    }

    /// Whether a write waits, to arrive later.
    pub(super) fn is_late(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let delay = self.shared().faults.late_clears_ns;
        let clears = matches!(offset, int::STS | dmac::INT_STS | PTP_INT_STS | mac::INT_STS | fct::INT_STS);
        if self.due.late.is_empty() && (delay == 0 || !clears) {
            return false;
        }
        if self.due.late.is_empty() {
            let at = bus.now_ns().saturating_add(delay);
            self.later(bus, at, Done::Writes);
        }
        self.due.late.push_back((offset, value));
        if self.due.late.len() >= MOST_LATE {
            self.arrive(bus);
        }
        true
    }

    /// All late writes arrive.
    pub(super) fn arrive(&mut self, bus: &mut dyn Bus) {
        for (offset, value) in std::mem::take(&mut self.due.late) {
            self.carry_out(bus, offset, value);
        }
    }
}
