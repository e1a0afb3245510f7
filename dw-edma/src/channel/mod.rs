//! One channel: its queue, its ring, and the dmaengine calls.
//!
//! Where things are: [`prep`](self) checks and stores transfers, `feed` writes them into the list
//! behind the running engine, `progress` finds out how far the engine has come, `stop` brings it to
//! rest and picks up after errors.

mod feed;
mod prep;
mod progress;
mod stats;
mod stop;

use tombolo_hal::dmaengine::{
    ChannelCaps, Completion, Cookie, DescState, Descriptor, DescriptorPool, Direction, DmaChannel, Event,
    PoolMemory, PrepFlags, Queue, Rejected, SgEntry, SlaveConfig, TxResult, TxState, TxStatus,
};
use tombolo_hal::mmio::Mmio;

use crate::engine::{ChannelRegs, Engine};
use crate::list::Burst;
use crate::shared::Shared;
use crate::{ChannelId, Error, ListMemory, SharedRef, direction_of};

pub use stats::Stats;

/// How a transfer is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through the linked list.
    List,
    /// From the channel's registers, one segment after the other (HDMA native only).
    NonList,
}

/// The engine's own part of a slave configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peripheral {
    /// How to carry out the transfer; `None` for the list if the channel has one. It is kept with
    /// each descriptor, so a later configuration does not change those that are queued.
    pub mode: Option<Mode>,
}

/// One segment of a transfer, as the pool keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment(pub(crate) Burst);

/// What the pool keeps of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Desc {
    kind: Kind,
    interrupt: bool,
    /// The engine has, or had, a part of it.
    begun: bool,
    result: Option<TxResult>,
    /// Bytes in all, and bytes known to be moved.
    bytes: u64,
    moved: u64,
    /// The next segment for the engine, and how many it has got (cyclic: that are not retired).
    feed_at: u32,
    fed: u32,
    /// The next segment that the engine will have moved, and how many it has.
    retire_at: u32,
    retired: u32,
    /// Cyclic: periods that are moved and not yet reported, whether one more was just reported and is
    /// the client's, and the index and size of the next one to report.
    ready: u32,
    held: bool,
    period: u32,
    period_bytes: u32,
}

impl Desc {
    /// Whether the engine has a part of it that is not known to be moved.
    fn is_with_engine(&self) -> bool {
        match self.kind {
            Kind::Cyclic => self.fed != 0,
            Kind::List | Kind::NonList => self.fed != self.retired,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    List,
    NonList,
    Cyclic,
}

/// Memory for a channel's descriptors; see [`PoolMemory`] and its implementors.
pub trait ChannelMemory: PoolMemory<Desc, Segment> {}
impl<P: PoolMemory<Desc, Segment>> ChannelMemory for P {}

/// What the hardware is programmed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Programmed {
    Nothing,
    List,
    NonList,
}

/// Why the channel is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    /// It is not.
    No,
    /// Everything was dropped.
    Terminate,
    /// The engine contradicts itself: what it has ends as aborted.
    Recover,
}

/// The ring of list elements.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Where the next element is written.
    head: u32,
    /// Where the oldest element is that the engine has.
    tail: u32,
    /// How many the engine has.
    outstanding: u32,
    /// Cycle bit of this lap.
    cycle: bool,
}

impl Ring {
    const START: Self = Self { head: 0, tail: 0, outstanding: 0, cycle: true };
}

/// One channel of an engine, with its own queue, list and doorbell.
///
/// It owns no buffer: use it through [`OwnedTransfers`](tombolo_hal::dmaengine::OwnedTransfers), or
/// keep the promise of [`SgEntry::from_raw`]. Close it with [`close`](Self::close); one that is just
/// dropped stays marked as open.
pub struct Channel<S: SharedRef, L: Mmio, P: ChannelMemory> {
    shared: S,
    id: ChannelId,
    regs: ChannelRegs<S::Mmio>,
    list: ListMemory<L>,
    pool: DescriptorPool<Desc, Segment, P>,
    sticky: Option<SlaveConfig<Peripheral>>,
    /// Submitted and not issued.
    submitted: Queue,
    /// Issued: the engine has the first ones.
    issued: Queue,
    /// Finished and not yet reported.
    done: Queue,
    /// The first issued transfer of which the engine lacks segments.
    feeding: Option<u32>,
    ring: Ring,
    /// The segment that the engine moves from registers.
    single: Option<Burst>,
    programmed: Programmed,
    stopping: Stopping,
    paused: bool,
    busy: bool,
    /// The engine was seen to rest since the last doorbell.
    resting: bool,
    /// How much of the list was written since it was last cleared.
    used_slots: u32,
    epoch: u32,
    stats: Stats,
}

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    pub(crate) fn new(
        shared: S,
        id: ChannelId,
        regs: ChannelRegs<S::Mmio>,
        list: ListMemory<L>,
        pool: DescriptorPool<Desc, Segment, P>,
    ) -> Self {
        let epoch = shared.shared().epoch();
        // What an earlier owner left is not ours.
        shared.shared().take_events(id);
        Self {
            shared,
            id,
            regs,
            list,
            pool,
            sticky: None,
            submitted: Queue::default(),
            issued: Queue::default(),
            done: Queue::default(),
            feeding: None,
            ring: Ring::START,
            single: None,
            programmed: Programmed::Nothing,
            stopping: Stopping::No,
            paused: false,
            busy: false,
            resting: true,
            used_slots: 0,
            epoch,
            stats: Stats::default(),
        }
    }

    /// Which channel it is.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// The one direction in which it moves data.
    pub fn direction(&self) -> Direction {
        direction_of(self.shared().config.location, self.id.kind)
    }

    /// What it has done so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether completions have to be looked for because there are no interrupts.
    pub fn is_polled(&self) -> bool {
        self.shared().interrupts() == crate::Interrupts::Polling
    }

    /// Whether transfers are queued or with the engine. A driver that relies on interrupts looks at
    /// [`poll_hardware`](DmaChannel::poll_hardware) now and then (every 10 ms, say) while it is set: a
    /// lost interrupt is found by nothing else.
    pub fn has_transfers(&self) -> bool {
        !self.issued.is_empty() || self.has_work()
    }

    /// Whether [`pause`](DmaChannel::pause) holds transfers back.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Moves the descriptors into other memory with at least as much room, and gives the old memory
    /// back: for a platform that lends more when [`Error::NoSpace`] says that there is too little. It
    /// copies all of it. Handles and cookies stay valid.
    ///
    /// # Errors
    /// The new memory, unused, if it has room for fewer descriptors or segments.
    pub fn move_pool(&mut self, memory: P) -> Result<P, P> {
        self.pool.move_to(memory)
    }

    /// Gives up a channel that will not come to rest. Its list memory and whatever its transfers use
    /// must never be used again: the list goes to quarantine here, if it is memory that can.
    pub fn abandon(self) {
        self.engine().close();
        self.shared().mark_busy(self.id, false);
        self.shared().mark_closed(self.id);
    }

    /// Ends the channel and gives the list memory back.
    ///
    /// # Errors
    /// [`Error::Busy`] with `self`, unless the channel has nothing queued and is at rest: terminate
    /// and synchronise first. A device that is gone is at rest.
    #[allow(clippy::result_large_err)] // the channel comes back by value: nothing may allocate here
    pub fn close(mut self) -> Result<ListMemory<L>, (Self, Error)> {
        let queued = !self.submitted.is_empty() || !self.issued.is_empty();
        if queued || !self.is_quiescent() {
            let error = Error::Busy(self.id);
            return Err((self, error));
        }
        self.engine().close();
        self.mark_busy(false);
        self.shared().mark_closed(self.id);
        Ok(self.list)
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared<S::Mmio, S::Lock> {
        self.shared.shared()
    }

    #[inline(always)]
    pub(crate) fn engine(&self) -> Engine<'_, S::Mmio, S::Lock> {
        Engine { regs: &self.regs, shared: self.shared.shared(), id: self.id }
    }

    #[inline]
    fn mark_busy(&mut self, busy: bool) {
        if self.busy != busy {
            self.busy = busy;
            self.shared().mark_busy(self.id, busy);
        }
    }

    /// Whether the engine has something of ours.
    #[inline(always)]
    fn has_work(&self) -> bool {
        self.ring.outstanding != 0 || self.single.is_some()
    }

    /// The device was reset since we last looked: program everything again. Returns whether that rang.
    fn notice_reset(&mut self) -> bool {
        let epoch = self.shared().epoch();
        if epoch == self.epoch {
            return false;
        }
        self.epoch = epoch;
        self.shared().take_events(self.id);
        self.stopping = Stopping::No;
        self.fail_begun(TxResult::Aborted);
        self.restart_ring();
        // It fails only where the device is gone again, which the next access finds out.
        let _ = self.engine().open();
        self.feed()
    }

    /// Takes one thing to report. What has finished was issued before the cyclic transfer that may
    /// have periods to report.
    fn pop_ready(&mut self) -> Option<Completion> {
        let Some(index) = self.done.front() else { return self.pop_period(self.issued.front()) };
        // A cyclic transfer that failed still has the periods that were moved before.
        if let Some(period) = self.pop_period(Some(index)) {
            return Some(period);
        }
        self.pool.pop(&mut self.done);
        let (cookie, desc) = (self.pool.cookie(index)?, self.pool.get(index)?.data);
        self.pool.release(index);
        Some(Completion {
            cookie,
            event: Event::Finished,
            result: desc.result.unwrap_or(TxResult::Aborted),
            residue: desc.bytes.saturating_sub(desc.moved),
        })
    }

    /// The client has asked for more, so the period that it was given last goes back to the engine.
    fn release_period(&mut self) {
        let Some(index) = self.issued.front() else { return };
        let Some(slot) = self.pool.get_mut(index) else { return };
        if core::mem::take(&mut slot.data.held) {
            self.feed();
        }
    }

    /// A period of a cyclic transfer.
    fn pop_period(&mut self, index: Option<u32>) -> Option<Completion> {
        let index = index?;
        let cookie = self.pool.cookie(index)?;
        let slot = self.pool.get_mut(index)?;
        if slot.data.ready == 0 {
            return None;
        }
        let (count, period) = (slot.segments(), slot.data.period);
        slot.data.ready -= 1;
        slot.data.held = true;
        slot.data.period = if period + 1 == count { 0 } else { period + 1 };
        self.stats.periods += 1;
        Some(Completion {
            cookie,
            event: Event::Period { index: period },
            result: TxResult::NoError,
            residue: 0,
        })
    }
}

impl<S: SharedRef, L: Mmio, P: ChannelMemory> DmaChannel for Channel<S, L, P> {
    type Error = Error;
    type Peripheral = Peripheral;

    fn caps(&self) -> ChannelCaps {
        let direction = self.direction();
        ChannelCaps {
            mem_to_dev: direction == Direction::MemToDev,
            dev_to_mem: direction == Direction::DevToMem,
            cyclic: self.list.exists(),
            memcpy: false,
            interleaved: false,
            max_segment: prep::MAX_SEGMENT,
            max_segments: self.pool.segment_capacity(),
            align: 1,
        }
    }

    fn configure(&mut self, config: &SlaveConfig<Peripheral>) -> Result<(), Error> {
        self.mode_of(config)?;
        self.sticky = Some(*config);
        Ok(())
    }

    fn configuration(&self) -> Option<SlaveConfig<Peripheral>> {
        self.sticky
    }

    fn restore_configuration(&mut self, saved: Option<SlaveConfig<Peripheral>>) {
        self.sticky = saved;
    }

    fn prep_slave_sg(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        flags: PrepFlags,
    ) -> Result<Descriptor, Error> {
        self.prep_slave_sg_config(sg, direction, flags, None)
    }

    fn prep_slave_sg_config(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        flags: PrepFlags,
        config: Option<&SlaveConfig<Peripheral>>,
    ) -> Result<Descriptor, Error> {
        let config = config.copied().or(self.sticky).ok_or(Error::NotConfigured)?;
        self.prep_sg(sg, direction, flags, &config)
    }

    fn prep_dma_cyclic(
        &mut self,
        buffer: SgEntry,
        period: u64,
        direction: Direction,
        flags: PrepFlags,
    ) -> Result<Descriptor, Error> {
        let config = self.sticky.ok_or(Error::NotConfigured)?;
        self.prep_cyclic(buffer, period, direction, flags, &config)
    }

    fn discard(&mut self, descriptor: Descriptor) {
        self.pool.discard(descriptor);
    }

    fn submit(&mut self, descriptor: Descriptor) -> Result<Cookie, Rejected<Error>> {
        if self.shared().is_gone() {
            return Err(Rejected { descriptor, error: Error::DeviceGone });
        }
        let cookie = self
            .pool
            .submit(descriptor, &mut self.submitted)
            .map_err(|descriptor| Rejected { descriptor, error: Error::ForeignDescriptor })?;
        self.stats.submitted += 1;
        Ok(cookie)
    }

    fn issue_pending(&mut self) {
        if self.feeding.is_none() {
            self.feeding = self.submitted.front();
        }
        self.pool.append(&mut self.issued, &mut self.submitted);
        self.notice_reset();
        if self.shared().is_gone() {
            self.fail_gone();
            return;
        }
        if self.stopping != Stopping::No {
            self.try_finish_stop();
        }
        self.feed();
    }

    fn status(&self, cookie: Cookie) -> TxState {
        let Some((_, slot)) = self.pool.find(cookie) else {
            // Descriptors return to the pool when they are reported or terminated, so all that is known
            // of an old cookie is that it was given out.
            let known = self.pool.was_given_out(cookie);
            return TxState {
                status: if known { TxStatus::Complete } else { TxStatus::Unknown },
                residue: 0,
            };
        };
        debug_assert_eq!(slot.state(), DescState::Submitted);
        if slot.data.result.is_some() {
            return TxState { status: TxStatus::Complete, residue: 0 };
        }
        let status = if self.paused { TxStatus::Paused } else { TxStatus::InProgress };
        TxState { status, residue: slot.data.bytes.saturating_sub(slot.data.moved) }
    }

    fn pop_completed(&mut self) -> Option<Completion> {
        self.release_period();
        if let Some(ready) = self.pop_ready() {
            return Some(ready);
        }
        self.service();
        self.pop_ready()
    }

    fn poll_hardware(&mut self) -> Result<(), Error> {
        self.check_hardware()
    }

    fn pause(&mut self) -> Result<(), Error> {
        self.paused = true;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Error> {
        self.paused = false;
        if self.shared().is_gone() {
            return Err(Error::DeviceGone);
        }
        self.feed();
        Ok(())
    }

    fn terminate_all(&mut self) -> Result<(), Error> {
        self.terminate()
    }

    fn is_quiescent(&mut self) -> bool {
        self.look_quiescent()
    }

    fn is_terminated(&mut self) -> bool {
        self.look_terminated()
    }
}
