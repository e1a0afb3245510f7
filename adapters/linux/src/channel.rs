//! A channel in the kernel: the portable channel, and Linux's meaning of a configuration.

use core::ptr::NonNull;

use dw_edma::{Channel, ChannelId, ChannelKind, Error, Format, ListMemory, Peripheral, Stats};
use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::{
    Cookie, Descriptor, Direction, DmaChannel, PrepFlags, Rejected, SgEntry, SlaveConfig,
};
use tombolo_hal::mmio::{Caching, RawMmio};

use crate::abi;
use crate::engine::{Control, SharedPtr};
use crate::errno::{EINVAL, errno};
use crate::memory::{LentPool, lend_pool};
use crate::translate;

/// One channel. The shim's channel lock is held for every call.
///
/// Its list lies behind a BAR. An engine that cannot be told where a list is has channels of the same
/// type, without one.
pub struct Chan {
    inner: Channel<SharedPtr, RawMmio, LentPool>,
    shared: SharedPtr,
    format: Format,
    /// The pool's size now.
    room: abi::Room,
}

/// How many completions [`Chan::poll`] reports at most at a time.
pub const MAX_BATCH: usize = 16;

/// Which channel the shim means.
pub fn channel_id(kind: u32, index: u32) -> Option<ChannelId> {
    let kind = match kind {
        0 => ChannelKind::Write,
        1 => ChannelKind::Read,
        _ => return None,
    };
    Some(ChannelId { kind, index: u8::try_from(index).ok()? })
}

impl Chan {
    /// Opens a channel.
    ///
    /// # Safety
    /// `args` is what [`ChanArgs`](abi::ChanArgs) says: the list is mapped and the pool's memory is
    /// nobody else's until the channel is closed.
    ///
    /// # Errors
    /// A negative number of Linux.
    pub unsafe fn open(control: &mut Control, args: &abi::ChanArgs) -> Result<Self, i32> {
        let id = channel_id(args.kind, args.index).ok_or(-EINVAL)?;
        let room = abi::Room { descriptors: args.descriptors, segments: args.segments };
        // SAFETY: the caller's promise.
        let pool = unsafe { lend_pool(args.pool, room.descriptors, room.segments) }.ok_or(-EINVAL)?;
        let (shared, format) = (control.shared(), control.format());
        let opened = match NonNull::new(args.list.cast::<u8>()) {
            Some(list) => {
                // SAFETY: the caller's promise; ioremap maps uncached.
                let list = unsafe { RawMmio::new(list, args.list_size as usize, Caching::Uncached) };
                ListMemory::new(list, EngineAddr::new(args.list_address)).map_err(Error::from)
            }
            None => {
                let nothing = NonNull::<u64>::dangling().cast();
                // SAFETY: there is nothing in it, so nothing of it is accessed.
                Ok(ListMemory::absent(unsafe { RawMmio::new(nothing, 0, Caching::Uncached) }))
            }
        };
        let inner = opened
            .and_then(|list| control.controller().open_channel(id, list, pool))
            .map_err(|error| errno(&error))?;
        Ok(Self { inner, shared, format, room })
    }

    /// How large the pool should be for `segments` more; `None` if it is as large as it may be.
    pub fn more(&self, segments: u32) -> Option<abi::Room> {
        crate::memory::larger(self.room, segments)
    }

    /// Moves into a larger pool.
    ///
    /// # Safety
    /// `memory` has [`pool_layout`](crate::memory::pool_layout)'s size for `room`, and is nobody else's
    /// until the channel is closed or moves again. The old memory is free then.
    ///
    /// # Errors
    /// `EINVAL` if it is not larger; nothing is changed then.
    pub unsafe fn grow(&mut self, memory: *mut core::ffi::c_void, room: abi::Room) -> Result<(), i32> {
        // SAFETY: the caller's promise.
        let pool = unsafe { lend_pool(memory, room.descriptors, room.segments) }.ok_or(-EINVAL)?;
        self.inner.move_pool(pool).map_err(|_| -EINVAL)?;
        self.room = room;
        Ok(())
    }

    fn slave(&self, config: &abi::Slave) -> Result<SlaveConfig<Peripheral>, i32> {
        translate::slave(config, self.format).map_err(|_| -EINVAL)
    }

    /// Sets the sticky configuration.
    ///
    /// # Errors
    /// A negative number of Linux.
    pub fn configure(&mut self, config: &abi::Slave) -> Result<(), i32> {
        let config = self.slave(config)?;
        self.inner.configure(&config).map_err(|error| errno(&error))
    }

    /// Prepares a transfer. A configuration that comes with it is the sticky one afterwards, as Linux
    /// has it.
    ///
    /// # Errors
    /// A negative number of Linux; nothing is changed then.
    #[inline]
    pub fn prep(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        interrupt: bool,
        config: Option<&abi::Slave>,
    ) -> Result<Descriptor, i32> {
        let config = config.map(|config| self.slave(config)).transpose()?;
        let flags = PrepFlags { interrupt };
        let prepared = self
            .inner
            .prep_slave_sg_config(sg, direction, flags, config.as_ref())
            .map_err(|error| errno(&error))?;
        if let Some(config) = config {
            // What was good enough for the transfer is good enough to keep.
            self.inner.restore_configuration(Some(config));
        }
        Ok(prepared)
    }

    /// Prepares a cyclic transfer with the sticky configuration.
    ///
    /// # Errors
    /// A negative number of Linux.
    pub fn prep_cyclic(
        &mut self,
        buffer: SgEntry,
        period: u64,
        direction: Direction,
        interrupt: bool,
    ) -> Result<Descriptor, i32> {
        let flags = PrepFlags { interrupt };
        self.inner.prep_dma_cyclic(buffer, period, direction, flags).map_err(|error| errno(&error))
    }

    /// Gives a prepared descriptor back.
    pub fn discard(&mut self, descriptor: Descriptor) {
        self.inner.discard(descriptor);
    }

    /// Queues a descriptor. One that is refused goes back into the pool.
    ///
    /// # Errors
    /// A negative number of Linux.
    #[inline]
    pub fn submit(&mut self, descriptor: Descriptor) -> Result<Cookie, i32> {
        self.inner.submit(descriptor).map_err(|Rejected { descriptor, error }| {
            self.inner.discard(descriptor);
            errno(&error)
        })
    }

    /// Hands what was submitted to the engine. Returns whether somebody must poll at once, because no
    /// interrupt will tell.
    #[inline]
    pub fn issue(&mut self) -> bool {
        self.inner.issue_pending();
        self.shared.is_gone()
    }

    /// Reports what happened. Stops behind a period of a cyclic transfer: its memory is the client's
    /// until the next call.
    pub fn poll(&mut self, mut report: impl FnMut(abi::Completion)) -> usize {
        let mut count = 0;
        while count < MAX_BATCH {
            let Some(next) = self.inner.pop_completed() else { break };
            let next = translate::completion(&next);
            report(next);
            count += 1;
            if next.kind == abi::KIND_PERIOD {
                break;
            }
        }
        count
    }

    /// Looks at the hardware whether or not an interrupt came.
    ///
    /// # Errors
    /// A negative number of Linux: the device is gone, or says what cannot be.
    pub fn look(&mut self) -> Result<(), i32> {
        self.inner.poll_hardware().map_err(|error| errno(&error))
    }

    /// How far a transfer has come.
    pub fn status(&mut self, cookie: u64) -> abi::Status {
        let Some(cookie) = Cookie::from_raw(cookie) else { return abi::Status::default() };
        translate::status(&self.inner.status(cookie))
    }

    /// Holds transfers back.
    pub fn pause(&mut self) -> Result<(), i32> {
        self.inner.pause().map_err(|error| errno(&error))
    }

    /// Lets them go on.
    pub fn resume(&mut self) -> Result<(), i32> {
        self.inner.resume().map_err(|error| errno(&error))
    }

    /// Whether it is paused.
    pub fn is_paused(&mut self) -> bool {
        self.inner.is_paused()
    }

    /// Drops all transfers and starts stopping what runs.
    pub fn terminate(&mut self) -> Result<(), i32> {
        self.inner.terminate_all().map_err(|error| errno(&error))
    }

    /// Whether nothing that was terminated is with the hardware.
    pub fn is_terminated(&mut self) -> bool {
        self.inner.is_terminated()
    }

    /// Whether the hardware rests.
    pub fn is_quiescent(&mut self) -> bool {
        self.inner.is_quiescent()
    }

    /// Whether transfers are queued or with the engine.
    pub fn has_transfers(&mut self) -> bool {
        self.inner.has_transfers()
    }

    /// What it has done so far.
    pub fn stats(&mut self) -> abi::Stats {
        let stats: Stats = *self.inner.stats();
        abi::Stats {
            submitted: stats.submitted,
            completed: stats.completed,
            failed: stats.failed,
            periods: stats.periods,
            bytes: stats.bytes,
            segments: stats.segments,
            doorbells: stats.doorbells,
            doorbells_again: stats.doorbells_again,
            events: stats.events,
            spurious: stats.spurious,
            found_by_looking: stats.found_by_looking,
            violations: stats.violations,
        }
    }

    /// Ends the channel. Returns false if its hardware did not come to rest: what it was told to move it
    /// may still move.
    pub fn close(self) -> bool {
        match self.inner.close() {
            Ok(_) => true,
            Err((channel, _)) => {
                channel.abandon();
                false
            }
        }
    }
}
