//! Handing transfers to the engine: elements behind the running ring, or registers.

use tombolo_hal::mmio::Mmio;

use super::{Channel, ChannelMemory, Kind, Programmed, Ring, Stopping};
use crate::engine::Activity;
use crate::list::ElementControl;
use crate::shared::event;
use crate::{Interrupts, SharedRef};

/// How often a channel that has nothing left to do is asked whether it rests, when its mode changes.
const REST_LOOKS: usize = 16;

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    /// Gives the engine as much of what is issued as it can take. Returns whether it rang.
    pub(super) fn feed(&mut self) -> bool {
        if self.paused || self.stopping != Stopping::No || self.shared().is_gone() {
            return false;
        }
        let mut wrote = false;
        while let Some(index) = self.feeding {
            let Some(slot) = self.pool.get(index) else { break };
            if slot.data.kind == Kind::NonList {
                // From registers: one at a time, and only when the list has come to its end.
                return self.ring_if(wrote) | self.feed_single(index);
            }
            if !self.program_list() {
                break;
            }
            let (some, all) = self.feed_list(index);
            wrote |= some;
            if !all {
                break;
            }
            self.feeding = self.pool.after(index);
        }
        self.ring_if(wrote)
    }

    /// The doorbell, after the list has arrived.
    fn ring_if(&mut self, wrote: bool) -> bool {
        if wrote {
            self.mark_busy(true);
            self.list.flush_before_doorbell();
            self.stats.doorbells += 1;
            self.engine().ring();
        }
        wrote
    }

    /// Writes elements of one transfer while there is room. Returns whether it wrote some, and
    /// whether the engine has all of it now.
    fn feed_list(&mut self, index: u32) -> (bool, bool) {
        let interrupts = self.shared().interrupts();
        let slots = self.list.slots();
        let mut ring = self.ring;
        let Some(slot) = self.pool.get(index) else { return (false, true) };
        let (mut desc, count) = (slot.data, slot.segments());
        if desc.fed == 0 && desc.kind != Kind::Cyclic {
            desc.feed_at = slot.first_segment();
            desc.retire_at = desc.feed_at;
        }
        let first = slot.first_segment();
        let cyclic = desc.kind == Kind::Cyclic;
        if cyclic && desc.fed == 0 && desc.ready == 0 && desc.retired == 0 {
            (desc.feed_at, desc.retire_at) = (first, first);
        }
        let before = ring.outstanding;
        loop {
            // A cyclic transfer has at most as many periods ahead as its buffer holds, so none is
            // overwritten before it was reported.
            let due = if cyclic { desc.fed + desc.ready < count } else { desc.fed < count };
            // One slot stays free: a full ring and an empty one would look the same.
            if !due || ring.outstanding + 1 >= slots {
                break;
            }
            let Some((segment, next)) = self.pool.segment(desc.feed_at) else { break };
            let last = !cyclic && desc.fed + 1 == count;
            let tell = wants_interrupt(&desc, ring.head, slots, last, count);
            self.list.write_data(ring.head, &segment.0, control(ring.cycle, tell, interrupts));
            desc.feed_at = if cyclic && next == u32::MAX { first } else { next };
            desc.fed += 1;
            ring.outstanding += 1;
            ring.head += 1;
            if ring.head == slots {
                self.list.write_link(ring.cycle);
                ring.head = 0;
                ring.cycle = !ring.cycle;
            }
        }
        let written = ring.outstanding - before;
        self.ring = ring;
        self.stats.segments += u64::from(written);
        if let Some(slot) = self.pool.get_mut(index) {
            slot.data = desc;
        }
        // A cyclic transfer never ends, so nothing behind it is ever fed.
        (written != 0, !cyclic && desc.fed == count)
    }

    /// Points the engine at an empty list, unless it is there already. False if it cannot be yet.
    fn program_list(&mut self) -> bool {
        if self.programmed == Programmed::List {
            return true;
        }
        if self.has_work() || !self.rests() {
            return false;
        }
        self.ring = Ring::START;
        self.list.scrub();
        self.list.write_link(false);
        self.engine().program_list(self.list.address());
        self.programmed = Programmed::List;
        true
    }

    /// Loads the engine's registers with the next segment of a transfer.
    fn feed_single(&mut self, index: u32) -> bool {
        if self.has_work() || self.issued.front() != Some(index) || !self.rests() {
            return false;
        }
        let Some(slot) = self.pool.get_mut(index) else { return false };
        if slot.data.fed == 0 {
            slot.data.feed_at = slot.first_segment();
        }
        let at = slot.data.feed_at;
        slot.data.fed += 1;
        let all = slot.data.fed == slot.segments();
        let Some((segment, next)) = self.pool.segment(at) else { return false };
        if let Some(slot) = self.pool.get_mut(index) {
            slot.data.feed_at = next;
        }
        self.programmed = Programmed::NonList;
        self.single = Some(segment.0);
        self.mark_busy(true);
        self.stats.segments += 1;
        self.stats.doorbells += 1;
        let engine = self.engine();
        engine.program_single(&segment.0);
        engine.ring();
        if all {
            self.feeding = self.pool.after(index);
        }
        true
    }

    /// Whether the engine rests. One that has just moved its last byte does in a moment; if it does
    /// not, the next look at the channel tries again.
    fn rests(&mut self) -> bool {
        if self.programmed == Programmed::Nothing {
            return true;
        }
        for _ in 0..REST_LOOKS {
            match self.engine().activity() {
                Activity::Running => {}
                Activity::Gone => return false,
                Activity::Resting | Activity::Halted => return true,
            }
        }
        self.shared().leave(self.id, event::CHECK);
        false
    }
}

/// Whether an element asks for an interrupt: the last of a transfer that wants one, each period,
/// and twice a lap where the ring must be refilled before any of these.
#[inline(always)]
fn wants_interrupt(desc: &super::Desc, slot: u32, slots: u32, last: bool, count: u32) -> bool {
    let half = slots >> 1;
    let refill = (!desc.interrupt || count > half) && (slot + 1 == half || slot + 1 == slots);
    desc.kind == Kind::Cyclic || (last && desc.interrupt) || refill
}

/// An element's control word. Messages need the local bit too: status latches by it.
#[inline(always)]
fn control(cycle: bool, tell: bool, interrupts: Interrupts) -> ElementControl {
    let tell = tell && interrupts != Interrupts::Polling;
    ElementControl::new()
        .with_cycle(cycle)
        .with_local_interrupt(tell)
        .with_remote_interrupt(tell && interrupts == Interrupts::Remote)
}
