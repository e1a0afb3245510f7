//! What comes in over the wire: the MAC's checks, pause frames, and the way to filter and FIFO (AN2948
//! section 6.1).
//!
//! Decisions. A MAC that is off lets frames pass unseen. The length field of a frame is not checked, nor is
//! a frame cut at 15361 bytes: one that is too long is an error as a whole. Bad frames that are stored
//! (`FCT_CFG`) pass the filter like good ones.

use super::alarm::Ev;
use super::fct::Accepted;
use super::frame::{self, be16};
use super::mac::PAUSE_ADDRESS;
use super::regs::{desc, fct, mac, sys};
use super::stats::{cast, rx, size_class};
use super::wire::{Arrival, Frame};
use super::{DropReason, Lan743x};
use crate::device::Bus;

/// Frames taken from the wire in one event.
const BURST: usize = 64;

impl Lan743x {
    /// Something may have come over the wire.
    pub(super) fn wire_event(&mut self, bus: &mut dyn Bus) {
        let _ = self.mac.wire_alarm.fires(bus, super::wire::ARRIVAL);
        self.media_moved(bus);
        for left in (0..BURST).rev() {
            let Some(port) = &self.port else { return };
            match port.receive(bus.now_ns()) {
                // Others have their turn, then the rest.
                Arrival::Frame(frame) if left == 0 => {
                    self.counters().frames_in += 1;
                    self.receive_outer(bus, frame);
                    let now = bus.now_ns();
                    self.mac.wire_alarm.set_by(bus, super::wire::ARRIVAL, now);
                }
                Arrival::Frame(frame) => {
                    self.counters().frames_in += 1;
                    self.receive_outer(bus, frame);
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
    pub(super) fn poll_wire(&mut self, bus: &mut dyn Bus) {
        if self.params.wire_poll_ns != 0 && self.mac.rx & mac::RX_RXEN != 0 {
            let at = bus.now_ns().saturating_add(self.params.wire_poll_ns);
            self.mac.wire_alarm.set_by(bus, super::wire::ARRIVAL, at);
        }
    }

    /// A frame from the wire. While the MAC loops back it does not listen.
    fn receive_outer(&mut self, bus: &mut dyn Bus, frame: Frame) {
        if self.mac.cr & mac::CR_INT_LOOP != 0 {
            return self.drop_frame(DropReason::ReceiverOff);
        }
        self.receive(bus, frame, false);
    }

    /// A frame from the wire or from the loop.
    pub(super) fn receive(&mut self, bus: &mut dyn Bus, frame: Frame, looped: bool) {
        let now = bus.now_ns();
        let link = if looped { Ok(()) } else { self.has_link(now) };
        if let Err(reason) = link {
            return self.drop_frame(reason);
        }
        if !self.mac.receives(now) {
            return self.drop_frame(DropReason::ReceiverOff);
        }
        let error = self.count_received(&frame);
        let keeps = self.plain.get(fct::CFG) & fct::CFG_STORE_BAD != 0;
        if error != 0 && !keeps {
            return self.drop_frame(DropReason::Error);
        }
        if error == 0 && self.take_pause(bus, &frame) {
            return self.drop_frame(DropReason::Control);
        }
        let found = self.filter(&frame.bytes);
        if error == 0 && !self.shown(now, &frame.bytes, found.map(|found| found.channel)) {
            return self.drop_frame(DropReason::Asleep);
        }
        let Some(found) = found else {
            return self.drop_frame(DropReason::Filtered);
        };
        let stamp = self.rx_stamp(now, &frame, found.channel);
        let status = found.status | error | if error != 0 { desc::RX_ERROR } else { 0 };
        let with_fcs = self.mac.rx & mac::RX_FCS_STRIP == 0;
        let accepted = Accepted { frame, with_fcs, status, hash: found.hash, stamp };
        if self.fifo_put(bus, found.channel, accepted) {
            self.ring_rx(bus, found.channel);
        }
    }

    /// The longest frame: longer by its tags, if the MAC looks at them.
    fn longest(&self, bytes: &[u8]) -> usize {
        let most = (self.mac.rx >> 16 & 0x3fff) as usize;
        let tags = frame::parse(bytes, self.vlan_type()).map_or(0, |headers| headers.tags);
        if self.mac.rx & mac::RX_FSE != 0 { most + 4 * tags } else { most }
    }

    /// The second type of a VLAN tag (`VLAN_TYPE`).
    pub(super) fn vlan_type(&self) -> u16 {
        self.plain.get(sys::VLAN_TYPE) as u16
    }

    /// Counts a frame. Gives what is wrong with it, as status bits.
    fn count_received(&mut self, frame: &Frame) -> u32 {
        let (len, most) = (frame.wire_len(), self.longest(&frame.bytes));
        let (short, long) = (len < 64, len > most);
        let stats = &mut self.stats.rx;
        stats.add(rx::TOTAL, 1);
        stats.add(rx::SIZES + size_class(len), 1);
        let error = match (short, long, frame.damaged) {
            (true, _, true) => Some(rx::FRAGMENT),
            (true, _, false) => Some(rx::UNDERSIZE),
            (_, true, true) => Some(rx::JABBER),
            (_, true, false) => Some(rx::OVERSIZE),
            (_, _, true) => Some(rx::FCS),
            _ => None,
        };
        let Some(error) = error else {
            let kind = cast(&frame.bytes);
            stats.add(rx::BYTES + kind, len as u32);
            stats.add(rx::FRAMES + kind, 1);
            return 0;
        };
        stats.add(error, 1);
        let kinds = [
            (short, mac::ERR_RFERR, desc::RX_RUNT),
            (long, mac::ERR_LFERR, desc::RX_LONG),
            (frame.damaged, mac::ERR_FERR, desc::RX_FCS),
        ];
        let mut status = 0;
        for (_, latched, shown) in kinds.iter().filter(|kind| kind.0) {
            self.mac.err |= latched;
            status |= shown;
        }
        status
    }

    /// Whether it is a pause frame, which nobody else sees. Without receive flow control the MAC does not
    /// look for them, and the frame is like any other.
    fn take_pause(&mut self, bus: &mut dyn Bus, frame: &Frame) -> bool {
        let bytes = &frame.bytes;
        let is_pause = bytes.get(..6) == Some(&PAUSE_ADDRESS)
            && be16(bytes, 12) == Some(frame::ETH_CONTROL)
            && be16(bytes, 14) == Some(1);
        if !is_pause || self.mac.flow & mac::FLOW_RX == 0 {
            return false;
        }
        self.stats.rx.add(rx::PAUSE, 1);
        // 512 bit times each.
        let quanta = u64::from(be16(bytes, 16).unwrap_or(0));
        let time = quanta * 512 * 1000 / u64::from(self.mac.speed());
        self.mac.paused_until = bus.now_ns().saturating_add(time);
        let token = Ev::Pause.token(self.epoch);
        self.mac.pause_alarm.set(bus, token, self.mac.paused_until);
        self.mac.flow & mac::FLOW_PASS == 0
    }
}
