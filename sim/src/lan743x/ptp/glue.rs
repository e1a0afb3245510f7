//! The 1588 unit inside of the controller: its registers, its alarm, its frames, its faults.

use super::Ptp;
use super::line_delays;
use crate::device::Bus;
use crate::lan743x::Lan743x;
use crate::lan743x::alarm::Ev;
use crate::lan743x::handle::Wait;
use crate::lan743x::regs::dmac;
use crate::lan743x::wire::Frame;

impl Lan743x {
    /// The unit, told what lies between it and the medium.
    fn unit(&mut self) -> &mut Ptp {
        let speed = self.port.as_ref().map_or(1000, |port| port.speed());
        let (tx, rx) = line_delays(self.params.interface, speed);
        self.ptp.set_line_delays(tx, rx);
        &mut self.ptp
    }

    pub(in super::super) fn ptp_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        self.unit().read(offset, now)
    }

    pub(in super::super) fn ptp_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        let done = self.end_of(Wait::Ptp, now, self.params.timing.ptp_ns);
        let known = self.unit().write(offset, value, now, done);
        self.ptp_moved(bus);
        known
    }

    /// Counts pulses, asks to be called for the next one, and passes the interrupt on.
    fn ptp_moved(&mut self, bus: &mut dyn Bus) {
        let now = bus.now_ns();
        let happened = self.unit().advance(now);
        {
            let mut counters = self.counters();
            for (count, new) in counters.ptp_pulses.iter_mut().zip(happened.pulses) {
                *count = count.saturating_add(new);
            }
        }
        match self.ptp.next_event(now) {
            Some(at) => self.ptp.alarm.set(bus, Ev::Ptp.token(self.epoch), at),
            None => self.ptp.alarm.cancel(),
        }
        self.update_interrupts(bus);
    }

    /// A frame of `channel` leaves at `at`: its time stamp, if its descriptor asks for one, and its own egress
    /// time inside of it.
    pub(in super::super) fn tx_stamp(&mut self, at: u64, bytes: &mut [u8], requested: bool, channel: usize) {
        let lost = requested && {
            let mut shared = self.shared();
            let lost = shared.faults.lost_tx_stamps;
            shared.faults.lost_tx_stamps = lost.saturating_sub(1);
            lost != 0
        };
        self.unit().transmit(at, bytes, requested, channel as u8, lost);
    }

    /// The time stamp that a received frame gets, by the mode of its channel.
    pub(in super::super) fn rx_stamp(
        &mut self,
        now: u64,
        frame: &Frame,
        channel: usize,
    ) -> Option<(u32, u32)> {
        let mode = self.ring(true, channel).cfg_b;
        let received = self.unit().receive(now, &frame.bytes, !frame.damaged)?;
        let wanted = mode & dmac::RX_TS_ALL != 0 || mode & dmac::RX_TS_DESCR != 0 && received.event;
        wanted.then_some((received.seconds, received.nanoseconds))
    }

    /// An event of the timers.
    pub(in super::super) fn ptp_timer_event(&mut self, bus: &mut dyn Bus) {
        if self.ptp.alarm.fires(bus, Ev::Ptp.token(self.epoch)) {
            self.ptp_moved(bus);
        }
    }

    /// Edges at the inputs that came from outside.
    pub(in super::super) fn take_edges(&mut self, bus: &mut dyn Bus) {
        let edges = std::mem::take(&mut self.shared().faults.edges);
        if edges.is_empty() {
            return;
        }
        let now = bus.now_ns();
        for edge in edges {
            self.unit().edge(edge.input, edge.rising, now);
        }
        self.ptp_moved(bus);
    }
}
