//! Coming to rest: terminate, errors, a device that lies or is gone.

use tombolo_hal::dmaengine::{Queue, TxResult};
use tombolo_hal::mmio::Mmio;

use super::{Channel, ChannelMemory, Kind, Programmed, Ring, Stopping};
use crate::engine::Activity;
use crate::shared::event;
use crate::{Error, SharedRef};

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    /// Drops all that is queued and starts stopping what runs.
    pub(super) fn terminate(&mut self) -> Result<(), Error> {
        self.notice_reset();
        let had_work = self.has_work();
        self.pool.release_all(&mut self.submitted);
        self.pool.release_all(&mut self.issued);
        self.feeding = None;
        self.paused = false;
        if self.shared().is_gone() {
            self.rest();
            return Err(Error::DeviceGone);
        }
        if self.stopping != Stopping::No {
            self.stopping = Stopping::Terminate;
        } else if had_work {
            self.stopping = Stopping::Terminate;
            return self.request_stop();
        }
        Ok(())
    }

    /// Takes back what the engine has not come to: if it has not even started yet, it will find nothing
    /// to do.
    fn disown_outstanding(&mut self) {
        let slots = self.list.slots();
        let (mut slot, mut cycle) = (self.ring.tail, self.ring.cycle);
        if self.ring.tail >= self.ring.head {
            // They reach across the end of the list, from the lap before this one.
            cycle = !cycle;
        }
        for _ in 0..self.ring.outstanding {
            self.list.disown(slot, cycle);
            slot += 1;
            if slot == slots {
                slot = 0;
                cycle = !cycle;
            }
        }
        if self.ring.outstanding != 0 {
            self.list.flush_before_doorbell();
        }
    }

    /// Asks the engine to stop, if it runs. A request to a resting one would be stale.
    fn request_stop(&mut self) -> Result<(), Error> {
        match self.engine().activity() {
            Activity::Running => {
                self.engine().stop();
                Ok(())
            }
            Activity::Gone => {
                self.fail_gone();
                Err(Error::DeviceGone)
            }
            Activity::Resting | Activity::Halted => {
                self.disown_outstanding();
                Ok(())
            }
        }
    }

    /// Whether the hardware has come to rest: one look.
    pub(super) fn look_quiescent(&mut self) -> bool {
        self.notice_reset();
        if self.shared().is_gone() {
            self.fail_gone();
            return true;
        }
        if self.stopping != Stopping::No {
            let stopped = self.try_finish_stop();
            if stopped {
                self.feed();
            }
        }
        // When its last element was moved, the engine has yet to look at the one behind it.
        self.stopping == Stopping::No && !self.has_work() && (self.resting || self.rests())
    }

    /// Whether nothing that was terminated is with the hardware: one look.
    pub(super) fn look_terminated(&mut self) -> bool {
        if self.stopping == Stopping::No {
            return true;
        }
        self.look_quiescent();
        self.stopping == Stopping::No
    }

    /// If the engine has stopped, picks up what is left.
    pub(super) fn try_finish_stop(&mut self) -> bool {
        match self.engine().activity() {
            Activity::Running => {
                // The request may have come before the engine had started.
                self.engine().stop();
                return false;
            }
            Activity::Gone => {
                self.fail_gone();
                return true;
            }
            Activity::Resting | Activity::Halted => {}
        }
        // Done and abort of what was stopped are not those of what comes next.
        self.engine().take_status();
        self.shared().take_events(self.id);
        if self.stopping == Stopping::Recover {
            self.fail_begun(TxResult::Aborted);
        }
        self.stopping = Stopping::No;
        self.restart_ring();
        true
    }

    /// An error, or the echo of a stop.
    pub(super) fn on_abort(&mut self, events: u32) -> Result<(), Error> {
        if !self.has_work() {
            self.stats.spurious += 1;
            self.feed();
            return Ok(());
        }
        match self.engine().activity() {
            Activity::Gone => {
                self.fail_gone();
                Err(Error::DeviceGone)
            }
            // A channel that was aborted does not run: this is about an earlier transfer.
            Activity::Running => self.on_progress(events & !event::ABORT | event::CHECK),
            // A look and the interrupt may have shared what the engine said: put it together again.
            Activity::Halted => self.recover(events | self.cause_of_halt()),
            Activity::Resting if events & (event::READ_FAILED | event::WRITE_FAILED) != 0 => {
                self.recover(events)
            }
            Activity::Resting => self.on_progress(events & !event::ABORT | event::CHECK),
        }
    }

    /// The engine has given up: the transfer that it was at fails, the others go on.
    pub(super) fn recover(&mut self, events: u32) -> Result<(), Error> {
        let result = if events & event::WRITE_FAILED != 0 {
            TxResult::WriteFailed
        } else if events & event::READ_FAILED != 0 {
            TxResult::ReadFailed
        } else {
            TxResult::Aborted
        };
        self.stats.events += 1;
        let mut outcome = Ok(());
        if self.single.take().is_some() {
            // How much of the segment arrived before the error cannot be known.
            self.mark_busy(false);
            self.fail_front(result);
        } else {
            // What the engine has passed is done; the element that it points to is not.
            match self.advance() {
                // A cyclic transfer is never done, so an error is its error even between two periods.
                Ok(_) if self.ring.outstanding != 0 || self.front_is_cyclic() => self.fail_front(result),
                Ok(_) => {}
                Err(Error::DeviceGone) => return Err(Error::DeviceGone),
                Err(error) => {
                    self.stats.violations += 1;
                    self.fail_begun(result);
                    outcome = Err(error);
                }
            }
        }
        // What was latched or left meanwhile is about the same error.
        self.engine().take_status();
        self.shared().take_events(self.id);
        // The window was checked when the engine was opened, so there is no error to see.
        let _ = self.shared().clear_error(self.id);
        self.restart_ring();
        self.feed();
        outcome
    }

    fn front_is_cyclic(&self) -> bool {
        let front = self.issued.front().and_then(|index| self.pool.get(index));
        front.is_some_and(|slot| slot.data.kind == Kind::Cyclic && slot.data.begun)
    }

    fn fail_front(&mut self, result: TxResult) {
        if let Some(index) = self.issued.front() {
            let moved = self.pool.get(index).map_or(0, |s| s.data.moved);
            self.finish(index, result, moved);
        }
    }

    /// The engine is where it cannot be. It may still write to buffers, so it must stop before their
    /// transfers end.
    pub(super) fn on_violation(&mut self, error: Error) -> Result<(), Error> {
        if error == Error::DeviceGone {
            return Err(error);
        }
        self.stats.violations += 1;
        self.stopping = Stopping::Recover;
        self.request_stop()?;
        if self.try_finish_stop() {
            self.feed();
        }
        Err(error)
    }

    /// Ends every transfer of which the engine has a part.
    pub(super) fn fail_begun(&mut self, result: TxResult) {
        while let Some(index) = self.issued.front() {
            let Some(slot) = self.pool.get(index) else { return };
            if !slot.data.is_with_engine() {
                return;
            }
            let moved = slot.data.moved;
            self.finish(index, result, moved);
        }
    }

    /// The device is gone, and with it its link: nothing moves any more, so everything ends, whether it
    /// was issued or only submitted. That all ones stand for a dead link is the platform's promise; see
    /// [`DmaChannel`](tombolo_hal::dmaengine::DmaChannel).
    pub(super) fn fail_gone(&mut self) {
        self.pool.append(&mut self.issued, &mut self.submitted);
        while let Some(index) = self.issued.front() {
            let moved = self.pool.get(index).map_or(0, |s| s.data.moved);
            self.finish(index, TxResult::Aborted, moved);
        }
        self.rest();
    }

    fn rest(&mut self) {
        self.stopping = Stopping::No;
        self.feeding = None;
        self.restart_ring();
    }

    /// Forgets the ring: the engine has stopped, and is programmed again before it starts. What it had
    /// is fed again from its first segment.
    pub(super) fn restart_ring(&mut self) {
        self.ring = Ring::START;
        self.single = None;
        self.programmed = Programmed::Nothing;
        self.resting = true;
        self.mark_busy(false);
        let mut unfed = Queue::default();
        while let Some(index) = self.pool.pop(&mut self.issued) {
            if let Some(slot) = self.pool.get_mut(index) {
                let data = &mut slot.data;
                // One that was begun and of which the engine has nothing now goes on where it was.
                if data.is_with_engine() {
                    (data.begun, data.fed, data.retired, data.moved) = (false, 0, 0, 0);
                }
            }
            self.pool.push(&mut unfed, index);
        }
        self.issued = unfed;
        self.feeding = self.issued.front();
    }
}
