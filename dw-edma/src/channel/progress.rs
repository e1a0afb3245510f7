//! Finding out how far the engine has come.

use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::mmio::Mmio;

use super::{Channel, ChannelMemory, Kind, Stopping};
use crate::engine::Activity;
use crate::shared::event;
use crate::{Error, SharedRef};

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    /// Works on what interrupts have left, or looks itself where there are none.
    pub(super) fn service(&mut self) {
        self.notice_reset();
        if self.shared().is_gone() {
            // Whoever found out, it ends this channel's transfers too.
            self.fail_gone();
            return;
        }
        if self.shared().is_suspended() {
            return;
        }
        let mut events = self.shared().take_events(self.id);
        if self.is_polled() && (self.has_work() || self.stopping != Stopping::No) {
            events |= event::CHECK;
        }
        if events != 0 {
            // What a hostile or dead device said ends its transfers; they are popped with an error.
            let _ = self.handle(events);
        }
        // An interrupt in the midst of this may have left something that had to wait.
        let more = self.shared().take_events(self.id);
        if more != 0 {
            let _ = self.handle(more);
        }
    }

    /// Looks at the hardware although no interrupt came.
    pub(super) fn check_hardware(&mut self) -> Result<(), Error> {
        self.notice_reset();
        if self.shared().is_gone() {
            self.fail_gone();
            return Err(Error::DeviceGone);
        }
        if self.shared().is_suspended() {
            return Ok(());
        }
        let mut events = self.shared().take_events(self.id);
        let told = events != 0;
        if self.has_work() || self.stopping != Stopping::No {
            events |= event::CHECK | self.engine().take_status();
        }
        let known = |stats: &super::Stats| (stats.completed, stats.failed, stats.bytes);
        let before = known(&self.stats);
        let result = if events == 0 { Ok(()) } else { self.handle(events) };
        if !told && !self.is_polled() && known(&self.stats) != before {
            self.stats.found_by_looking += 1;
        }
        result
    }

    fn handle(&mut self, events: u32) -> Result<(), Error> {
        if self.shared().is_gone() {
            self.fail_gone();
            return Err(Error::DeviceGone);
        }
        if self.stopping != Stopping::No {
            self.try_finish_stop();
            self.feed();
            return Ok(());
        }
        if events & event::ABORT != 0 {
            return self.on_abort(events);
        }
        self.on_progress(events)
    }

    /// The engine says that it came further, or somebody wants to know.
    pub(super) fn on_progress(&mut self, events: u32) -> Result<(), Error> {
        if self.single.is_some() {
            return self.progress_single(events);
        }
        if self.ring.outstanding == 0 {
            self.stats.spurious += u64::from(events & !event::CHECK != 0);
            self.feed();
            return Ok(());
        }
        let consumed = match self.advance() {
            Ok(consumed) => consumed,
            Err(error) => return self.on_violation(error),
        };
        if consumed == 0 {
            self.stats.spurious += u64::from(events & !event::CHECK != 0);
        } else {
            self.stats.events += u64::from(events & !event::CHECK != 0);
        }
        if self.feed() || self.ring.outstanding == 0 {
            return Ok(());
        }
        if consumed != 0 && events & !event::CHECK != 0 {
            // The engine may have stopped at an element that it had fetched before we wrote it, and
            // ignored the doorbell because it had not stopped yet. By the time of the interrupt it
            // has; if it runs, it ignores this one too.
            self.ring_again();
            return Ok(());
        }
        if consumed == 0 { self.look_at_stalled() } else { Ok(()) }
    }

    /// Whether the engine has come to rest. If it has halted or is gone, its transfers end here.
    fn is_resting(&mut self) -> Result<bool, Error> {
        match self.engine().activity() {
            Activity::Running => Ok(false),
            Activity::Resting => Ok(true),
            Activity::Gone => {
                self.fail_gone();
                Err(Error::DeviceGone)
            }
            Activity::Halted => {
                let events = self.cause_of_halt();
                self.recover(events)?;
                Ok(false)
            }
        }
    }

    /// Nothing moved since the last look: does the engine run at all?
    fn look_at_stalled(&mut self) -> Result<(), Error> {
        if !self.is_resting()? {
            return Ok(());
        }
        // It may have come to its end between the two looks.
        match self.advance() {
            Ok(_) if self.ring.outstanding != 0 => self.ring_again(),
            Ok(_) => {
                self.feed();
            }
            Err(error) => return self.on_violation(error),
        }
        Ok(())
    }

    /// Why the engine has halted: as it says, or as an interrupt meanwhile has read from it.
    pub(super) fn cause_of_halt(&self) -> u32 {
        event::ABORT | self.engine().take_status() | self.shared().take_events(self.id)
    }

    fn ring_again(&mut self) {
        if self.shared().is_aborted(self.id) {
            // It has halted, and would start at the element that failed.
            return;
        }
        self.resting = false;
        self.stats.doorbells_again += 1;
        self.engine().ring();
    }

    /// Reads the engine's position and retires what it has passed. Returns how many elements.
    pub(super) fn advance(&mut self) -> Result<u32, Error> {
        let position = self.engine().list_position();
        let bad = || Error::BadPosition {
            channel: self.id,
            position: position.wrapping_sub(self.list.address().low()),
        };
        let Some(slot) = self.list.slot_of(position) else {
            if position == u32::MAX && self.engine().activity() == Activity::Gone {
                self.fail_gone();
                return Err(Error::DeviceGone);
            }
            return Err(bad());
        };
        let slots = self.list.slots();
        let tail = self.ring.tail;
        let consumed = if slot >= tail { slot - tail } else { slot + slots - tail };
        if consumed > self.ring.outstanding {
            return Err(bad());
        }
        self.ring.tail = slot;
        self.ring.outstanding -= consumed;
        self.retire(consumed);
        if self.ring.outstanding == 0 {
            self.mark_busy(false);
        }
        Ok(consumed)
    }

    /// The engine has moved `elements` more elements. They belong to the first issued transfers.
    fn retire(&mut self, mut elements: u32) {
        while elements != 0 {
            let Some(index) = self.issued.front() else { return };
            let Some(slot) = self.pool.get(index) else { return };
            let (desc, count) = (slot.data, slot.segments());
            if desc.kind == Kind::Cyclic {
                self.retire_periods(index, elements);
                return;
            }
            let has = desc.fed - desc.retired;
            if elements >= has && desc.fed == count {
                elements -= has;
                self.finish(index, TxResult::NoError, desc.bytes);
            } else {
                let some = elements.min(has);
                self.retire_some(index, some);
                return;
            }
        }
    }

    /// A part of a transfer is done: walk its segments for the residue.
    fn retire_some(&mut self, index: u32, elements: u32) {
        let Some(slot) = self.pool.get(index) else { return };
        let mut desc = slot.data;
        for _ in 0..elements {
            let Some((segment, next)) = self.pool.segment(desc.retire_at) else { break };
            desc.moved += u64::from(segment.0.size);
            desc.retire_at = next;
        }
        desc.retired += elements;
        if let Some(slot) = self.pool.get_mut(index) {
            slot.data = desc;
        }
    }

    fn retire_periods(&mut self, index: u32, elements: u32) {
        let Some(slot) = self.pool.get_mut(index) else { return };
        let periods = elements.min(slot.data.fed);
        slot.data.fed -= periods;
        slot.data.ready += periods;
        self.stats.bytes += u64::from(periods) * u64::from(slot.data.period_bytes);
    }

    /// The first issued transfer has ended.
    pub(super) fn finish(&mut self, index: u32, result: TxResult, moved: u64) {
        self.pool.pop(&mut self.issued);
        if self.feeding == Some(index) {
            self.feeding = self.issued.front();
        }
        if let Some(slot) = self.pool.get_mut(index) {
            let cyclic = slot.data.kind == Kind::Cyclic;
            slot.data.result = Some(result);
            slot.data.moved = moved;
            self.stats.bytes += if cyclic { 0 } else { moved };
        }
        match result {
            TxResult::NoError => self.stats.completed += 1,
            _ => self.stats.failed += 1,
        }
        self.pool.push(&mut self.done, index);
    }

    /// A transfer from registers: has it ended?
    fn progress_single(&mut self, events: u32) -> Result<(), Error> {
        if !self.is_resting()? {
            return Ok(());
        }
        let residue = self.engine().single_residue();
        let untouched = self.single.is_some_and(|burst| burst.size == residue);
        if untouched && events & event::DONE == 0 {
            // It has not begun yet; only an engine that says so has ended without moving a byte.
            return Ok(());
        }
        self.resting = true;
        self.finish_single(residue);
        self.feed();
        Ok(())
    }

    /// The segment in the registers has ended, with `residue` bytes not moved.
    pub(super) fn finish_single(&mut self, residue: u32) {
        let Some(burst) = self.single.take() else { return };
        self.stats.events += 1;
        self.mark_busy(false);
        let Some(index) = self.issued.front() else { return };
        let Some(slot) = self.pool.get_mut(index) else { return };
        // A device may say anything; more than all of it cannot be left.
        let residue = residue.min(burst.size);
        slot.data.moved += u64::from(burst.size - residue);
        slot.data.retired += 1;
        let (moved, all) = (slot.data.moved, slot.data.retired == slot.segments());
        if residue != 0 {
            self.finish(index, TxResult::Aborted, moved);
        } else if all {
            self.finish(index, TxResult::NoError, moved);
        }
    }
}
