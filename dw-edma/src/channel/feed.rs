//! Handing transfers to the engine: elements behind the running ring, or registers.

use tombolo_hal::mmio::Mmio;

use super::{Channel, ChannelMemory, Desc, Kind, Programmed, Ring, Stopping};
use crate::engine::Activity;
use crate::list::ElementControl;
use crate::shared::event;
use crate::{Interrupts, SharedRef};

/// How often a channel that has nothing left to do is asked whether it rests. It does within one or
/// two reads; the bound keeps this short in contexts that may not wait.
const REST_LOOKS: usize = 8;

/// The element that was written last: its control word, and with it the element, is still ours.
struct Unpublished {
    slot: u32,
    cycle: bool,
    tell: bool,
}

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    /// Gives the engine as much of what is issued as it can take. Returns whether it rang.
    pub(super) fn feed(&mut self) -> bool {
        if self.feeding.is_none() || self.paused || self.stopping != Stopping::No || self.shared().is_gone() {
            return false;
        }
        if self.shared().epoch() != self.epoch {
            return self.notice_reset();
        }
        // A doorbell can start a halted engine at the element that failed: first the error.
        if self.shared().is_aborted(self.id) || !self.become_busy() {
            return false;
        }
        let rang = self.feed_more();
        if !self.has_work() {
            self.mark_busy(false);
        }
        rang
    }

    /// Says that we are about to use the engine. False if it is suspended.
    fn become_busy(&mut self) -> bool {
        if self.busy {
            return true;
        }
        // In this order: see `Shared::mark_busy`.
        self.mark_busy(true);
        if self.shared().is_suspended() {
            self.mark_busy(false);
            return false;
        }
        self.engine().forget_status();
        true
    }

    fn feed_more(&mut self) -> bool {
        let mut last = None;
        while let Some(index) = self.feeding {
            let Some(slot) = self.pool.get(index) else { break };
            if slot.data.kind == Kind::NonList {
                // From registers: one at a time, and only when the list has come to its end.
                return self.publish_last(last) | self.feed_single(index);
            }
            if !self.program_list() || !self.feed_list(index, &mut last) {
                break;
            }
            self.feeding = self.pool.after(index);
        }
        self.publish_last(last)
    }

    /// Writes elements of one transfer while there is room. Returns whether the engine has all of it
    /// now.
    fn feed_list(&mut self, index: u32, last: &mut Option<Unpublished>) -> bool {
        let (slots, telling) = (self.list.slots(), telling(self.shared().interrupts()));
        let mut ring = self.ring;
        let Some(slot) = self.pool.get(index) else { return true };
        let (mut desc, count, first) = (slot.data, slot.segments(), slot.first_segment());
        let cyclic = desc.kind == Kind::Cyclic;
        if !desc.begun {
            (desc.begun, desc.feed_at, desc.retire_at) = (true, first, first);
        }
        // One slot stays free: a full ring and an empty one would look the same. A cyclic transfer has
        // at most as many periods ahead as its buffer holds, so none is overwritten that was not
        // reported, or is still being looked at.
        let due = count - (desc.fed + desc.ready + u32::from(desc.held)).min(count);
        let room = slots - 1 - ring.outstanding;
        if due > room && room < slots >> 1 && ring.outstanding != 0 {
            // Refilled a few elements at a time, the ring would ask for an interrupt each time. The last
            // element that the engine has tells of its end, so we come back.
            return false;
        }
        let amount = due.min(room);
        if amount != 0 {
            self.publish(last.take(), telling);
        }
        for left in (0..amount).rev() {
            let Some((segment, next)) = self.pool.segment(desc.feed_at) else { break };
            if ring.head + 1 == slots {
                // The engine goes on to the link by itself once it has the element before it.
                self.list.write_link(ring.cycle);
            }
            self.list.write_addresses(ring.head, &segment.0);
            desc.fed += 1;
            let ends = !cyclic && desc.fed == count;
            let tell = wants_interrupt(&desc, ring.head, slots, ends, count);
            let element = Some(Unpublished { slot: ring.head, cycle: ring.cycle, tell });
            if left == 0 {
                *last = element;
            } else {
                self.publish(element, telling);
            }
            desc.feed_at = if cyclic && next == u32::MAX { first } else { next };
            ring.outstanding += 1;
            ring.advance_head(slots);
        }
        self.stats.segments += u64::from(amount);
        self.used_slots = self.used_slots.max(if ring.cycle { ring.head } else { slots });
        self.ring = ring;
        if let Some(slot) = self.pool.get_mut(index) {
            slot.data = desc;
        }
        // A cyclic transfer never ends, so nothing behind it is ever fed.
        !cyclic && desc.fed == count
    }

    /// Gives an element to the engine.
    #[inline(always)]
    fn publish(&self, element: Option<Unpublished>, telling: ElementControl) {
        if let Some(e) = element {
            let interrupts = if e.tell { telling } else { ElementControl::new() };
            self.list.write_control(e.slot, interrupts.with_cycle(e.cycle));
        }
    }

    /// Gives the engine the last element of this round, and rings. Whatever its transfer wants, this
    /// one tells of its end: an engine that has fetched the place before it was written stops there
    /// and ignores the doorbell, and the interrupt is what makes us ring again.
    fn publish_last(&mut self, last: Option<Unpublished>) -> bool {
        let Some(last) = last else { return false };
        let telling = telling(self.shared().interrupts());
        self.publish(Some(Unpublished { tell: true, ..last }), telling);
        self.list.flush_before_doorbell();
        self.ring_doorbell();
        true
    }

    fn ring_doorbell(&mut self) {
        self.resting = false;
        self.stats.doorbells += 1;
        self.engine().ring();
    }

    /// Points the engine at an empty list, unless it is there already. False if it cannot be yet.
    fn program_list(&mut self) -> bool {
        if self.programmed == Programmed::List {
            if self.ring.outstanding == 0 && !self.rests() {
                // It has not yet looked at the place where its next element will be, and might do so
                // before that is written and stop after our doorbell: somebody must look again.
                self.shared().leave(self.id, event::CHECK);
            }
            return true;
        }
        if self.has_work() || !self.rests() {
            return false;
        }
        self.ring = Ring::START;
        self.list.scrub(self.used_slots);
        self.used_slots = 0;
        self.list.write_link(false);
        self.engine().program_list(self.list.address());
        self.programmed = Programmed::List;
        true
    }

    /// Takes the whole list from the engine, once, before the channel is used: the memory may hold
    /// anything.
    pub(crate) fn clear_list(&self) {
        self.list.scrub(self.list.slots());
    }

    /// Loads the engine's registers with the next segment of a transfer.
    fn feed_single(&mut self, index: u32) -> bool {
        if self.has_work() || self.issued.front() != Some(index) || !self.rests_or_tells() {
            return false;
        }
        let Some(slot) = self.pool.get_mut(index) else { return false };
        let first = slot.first_segment();
        let desc = &mut slot.data;
        if !desc.begun {
            (desc.begun, desc.feed_at) = (true, first);
        }
        desc.fed += 1;
        let (at, all) = (desc.feed_at, desc.fed == slot.segments());
        let Some((segment, next)) = self.pool.segment(at) else { return false };
        if let Some(slot) = self.pool.get_mut(index) {
            slot.data.feed_at = next;
        }
        self.programmed = Programmed::NonList;
        self.single = Some(segment.0);
        self.stats.segments += 1;
        self.engine().program_single(&segment.0);
        self.ring_doorbell();
        if all {
            self.feeding = self.pool.after(index);
        }
        true
    }

    /// Whether the engine rests. One that has just moved its last byte does in a moment.
    pub(super) fn rests(&mut self) -> bool {
        for _ in 0..REST_LOOKS {
            if self.resting {
                return true;
            }
            match self.engine().activity() {
                Activity::Running => {}
                Activity::Gone => return false,
                Activity::Resting | Activity::Halted => self.resting = true,
            }
        }
        self.resting
    }

    /// Whether the engine rests; if not, it tells when it does.
    fn rests_or_tells(&mut self) -> bool {
        if self.rests() {
            return true;
        }
        self.engine().announce_end();
        // It may have come to rest before that; an end that it did not tell of is found now.
        if self.rests() {
            return true;
        }
        self.shared().leave(self.id, event::CHECK);
        false
    }
}

impl Ring {
    #[inline(always)]
    fn advance_head(&mut self, slots: u32) {
        self.head += 1;
        if self.head == slots {
            self.head = 0;
            self.cycle = !self.cycle;
        }
    }
}

/// Whether an element asks for an interrupt: the last of a transfer that wants one, each period, and
/// twice a lap where the ring is to be refilled before any of these.
#[inline(always)]
fn wants_interrupt(desc: &Desc, slot: u32, slots: u32, ends: bool, count: u32) -> bool {
    let half = slots >> 1;
    let refill = (!desc.interrupt || count > half) && (slot + 1 == half || slot + 1 == slots);
    desc.kind == Kind::Cyclic || (ends && desc.interrupt) || refill
}

/// What the control word of an element that asks for an interrupt has besides the cycle bit. Messages
/// need the local bit too: status latches by it.
#[inline(always)]
fn telling(interrupts: Interrupts) -> ElementControl {
    ElementControl::new()
        .with_local_interrupt(interrupts != Interrupts::Polling)
        .with_remote_interrupt(interrupts == Interrupts::Remote)
}
