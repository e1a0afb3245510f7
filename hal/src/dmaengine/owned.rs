//! Transfers that own their buffers.

use arrayvec::ArrayVec;
use embedded_hal::delay::DelayNs;

use super::channel::{DmaChannel, DmaChannelExt, SynchronizeError};
use super::types::*;
use crate::dma::{Completed, DataDirection, DmaBackend, DmaMemory, InFlight, Prepared, Streaming};
use crate::wait::{Timeout, poll_until};

/// A transfer was not accepted; here are its buffers.
#[derive(Debug, thiserror::Error)]
#[error("the transfer was not accepted: {reason}")]
pub struct Refused<B: DmaBackend, M: DmaMemory, E: core::error::Error + 'static, const S: usize> {
    /// The buffers, still mapped.
    pub buffers: ArrayVec<Streaming<B, M, Prepared>, S>,
    /// Why.
    #[source]
    pub reason: RefusedReason<E>,
}

/// Why a transfer was not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason<E: core::error::Error + 'static> {
    /// The channel's own reason.
    #[error(transparent)]
    Channel(E),
    /// No room for another transfer, or for so many segments.
    #[error(transparent)]
    NoSpace(NoSpace),
    /// A buffer is mapped for the other direction.
    #[error("a buffer is mapped {mapped:?}, which does not do for {wanted}")]
    WrongDirection {
        /// How it is mapped.
        mapped: DataDirection,
        /// What was asked for.
        wanted: Direction,
    },
}

/// Something finished; a period of a cyclic transfer comes without buffers.
#[derive(Debug)]
pub struct Finished<B: DmaBackend, M: DmaMemory, const S: usize> {
    /// What happened.
    pub completion: Completion,
    /// The buffers, in the order in which they were submitted.
    pub buffers: ArrayVec<Streaming<B, M, Completed>, S>,
}

struct Pending<B: DmaBackend, M: DmaMemory, const S: usize> {
    cookie: Cookie,
    terminated: bool,
    buffers: ArrayVec<Streaming<B, M, InFlight>, S>,
}

/// A channel with the buffers of its transfers: up to `N` transfers of up to `S` segments.
///
/// Buffers go in prepared and come back completed, or, after
/// [`terminate_all`](Self::terminate_all), from [`pop_terminated`](Self::pop_terminated) once the
/// channel is at rest. Dropping it quarantines what is in flight.
///
/// ```no_run
/// # fn example<C, B>(channel: C, backend: B, delay: &mut impl embedded_hal::delay::DelayNs) -> Option<()>
/// # where C: tombolo_hal::dmaengine::DmaChannel, B: tombolo_hal::dma::DmaBackend, Vec<u8>: tombolo_hal::dma::DmaMemory {
/// use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
/// use tombolo_hal::dmaengine::{Direction, OwnedTransfers, PrepFlags, SlaveConfig};
/// use tombolo_hal::EngineAddr;
///
/// let mut transfers: OwnedTransfers<C, B, Vec<u8>, 16, 4> = OwnedTransfers::new(channel);
/// let data = Streaming::prepare(backend, vec![0x5a; 4096], DataDirection::ToDevice, &DmaConstraints::any()).ok()?;
/// let config = SlaveConfig::at(EngineAddr::new(0x8000_0000));
/// let cookie = transfers.submit_one(data, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&config)).ok()?;
/// transfers.issue_pending();
/// let finished = transfers.wait_next(delay, 1_000_000).ok()?;
/// assert_eq!(finished.completion.cookie, cookie);
/// let buffer = finished.buffers.into_iter().next()?.into_inner();
/// # Some(()) }
/// ```
pub struct OwnedTransfers<C: DmaChannel, B: DmaBackend, M: DmaMemory, const N: usize, const S: usize> {
    channel: C,
    pending: ArrayVec<Pending<B, M, S>, N>,
}

impl<C: DmaChannel, B: DmaBackend, M: DmaMemory, const N: usize, const S: usize>
    OwnedTransfers<C, B, M, N, S>
{
    /// Over `channel`, which must have nothing queued.
    pub fn new(channel: C) -> Self {
        Self { channel, pending: ArrayVec::new() }
    }

    /// The channel.
    pub fn channel(&self) -> &C {
        &self.channel
    }

    // There is no `channel_mut`: with it, two of these could swap their channels, and one's completion
    // would give back a buffer that the other's engine still writes.

    /// Sets the channel's sticky configuration.
    ///
    /// # Errors
    /// The channel's.
    pub fn configure(&mut self, config: &SlaveConfig<C::Peripheral>) -> Result<(), C::Error> {
        self.channel.configure(config)
    }

    /// Stops handing further transfers to the hardware.
    ///
    /// # Errors
    /// The channel's.
    pub fn pause(&mut self) -> Result<(), C::Error> {
        self.channel.pause()
    }

    /// Goes on after [`pause`](Self::pause).
    ///
    /// # Errors
    /// The channel's.
    pub fn resume(&mut self) -> Result<(), C::Error> {
        self.channel.resume()
    }

    /// Looks at the device whether or not an interrupt came.
    ///
    /// # Errors
    /// The channel's.
    pub fn poll_hardware(&mut self) -> Result<(), C::Error> {
        self.channel.poll_hardware()
    }

    /// Whether the hardware has come to rest. One look, no waiting.
    pub fn is_quiescent(&mut self) -> bool {
        self.channel.is_quiescent()
    }

    /// Copies out of the buffer of a cyclic transfer, from a period that was just reported: it is the
    /// caller's until the next [`pop_finished`](Self::pop_finished). False if there is no such transfer
    /// or the bytes are not all inside.
    pub fn read_period(&self, cookie: Cookie, offset: usize, out: &mut [u8]) -> bool {
        let pending = self.pending.iter().find(|p| p.cookie == cookie);
        pending.and_then(|p| p.buffers.first()).is_some_and(|buffer| buffer.read(offset, out))
    }

    /// Copies into the buffer of a cyclic transfer, into a period that was just reported. False if there
    /// is no such transfer or the bytes are not all inside.
    pub fn write_period(&mut self, cookie: Cookie, offset: usize, data: &[u8]) -> bool {
        let pending = self.pending.iter_mut().find(|p| p.cookie == cookie);
        pending.and_then(|p| p.buffers.first_mut()).is_some_and(|buffer| buffer.write(offset, data))
    }

    /// The channel again, if nothing is in flight.
    ///
    /// # Errors
    /// `self`, if something is.
    pub fn into_channel(self) -> Result<C, Self> {
        if self.pending.is_empty() { Ok(self.channel) } else { Err(self) }
    }

    /// How many transfers are in flight.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Prepares and submits one transfer over `buffers`, one after the other.
    ///
    /// # Errors
    /// [`Refused`] with the buffers.
    #[allow(clippy::result_large_err)] // the buffers come back by value: nothing may allocate here
    pub fn submit(
        &mut self,
        buffers: ArrayVec<Streaming<B, M, Prepared>, S>,
        direction: Direction,
        flags: PrepFlags,
        config: Option<&SlaveConfig<C::Peripheral>>,
    ) -> Result<Cookie, Refused<B, M, C::Error, S>> {
        self.submit_with(buffers, direction, |channel, sg| {
            channel.prep_slave_sg_config(sg, direction, flags, config)
        })
    }

    /// [`submit`](Self::submit) with one buffer.
    ///
    /// # Errors
    /// The same.
    #[allow(clippy::result_large_err)] // as above
    pub fn submit_one(
        &mut self,
        buffer: Streaming<B, M, Prepared>,
        direction: Direction,
        flags: PrepFlags,
        config: Option<&SlaveConfig<C::Peripheral>>,
    ) -> Result<Cookie, Refused<B, M, C::Error, S>> {
        self.submit(ArrayVec::from_iter([buffer]), direction, flags, config)
    }

    /// Starts an endless transfer over `buffer` with the sticky configuration. The buffer comes
    /// back from [`pop_terminated`](Self::pop_terminated).
    ///
    /// # Errors
    /// [`Refused`] with the buffer.
    #[allow(clippy::result_large_err)] // as above
    pub fn submit_cyclic(
        &mut self,
        buffer: Streaming<B, M, Prepared>,
        period: u64,
        direction: Direction,
        flags: PrepFlags,
    ) -> Result<Cookie, Refused<B, M, C::Error, S>> {
        self.submit_with(ArrayVec::from_iter([buffer]), direction, |channel, sg| match sg {
            [one] => channel.prep_dma_cyclic(*one, period, direction, flags),
            _ => Err(Unsupported("cyclic transfers over several segments").into()),
        })
    }

    #[allow(clippy::result_large_err)] // as above
    fn submit_with(
        &mut self,
        buffers: ArrayVec<Streaming<B, M, Prepared>, S>,
        direction: Direction,
        prep: impl FnOnce(&mut C, &[SgEntry]) -> Result<Descriptor, C::Error>,
    ) -> Result<Cookie, Refused<B, M, C::Error, S>> {
        let sg = match self.segments(&buffers, direction) {
            Ok(sg) => sg,
            Err(reason) => return Err(Refused { buffers, reason }),
        };
        let descriptor = match prep(&mut self.channel, &sg) {
            Ok(descriptor) => descriptor,
            Err(error) => return Err(Refused { buffers, reason: RefusedReason::Channel(error) }),
        };
        match self.channel.submit(descriptor) {
            Ok(cookie) => {
                let buffers = buffers.into_iter().map(Streaming::start).collect();
                // `segments` saw that there is room.
                self.pending.push(Pending { cookie, terminated: false, buffers });
                Ok(cookie)
            }
            Err(rejected) => {
                self.channel.discard(rejected.descriptor);
                Err(Refused { buffers, reason: RefusedReason::Channel(rejected.error) })
            }
        }
    }

    fn segments(
        &self,
        buffers: &[Streaming<B, M, Prepared>],
        direction: Direction,
    ) -> Result<ArrayVec<SgEntry, S>, RefusedReason<C::Error>> {
        if self.pending.is_full() {
            return Err(RefusedReason::NoSpace(NoSpace { what: "transfers", needed: 1, available: 0 }));
        }
        let mut sg = ArrayVec::new();
        for buffer in buffers {
            let mapped = buffer.direction();
            let fits = match direction {
                Direction::MemToDev => mapped != DataDirection::FromDevice,
                Direction::DevToMem => mapped != DataDirection::ToDevice,
            };
            if !fits {
                return Err(RefusedReason::WrongDirection { mapped, wanted: direction });
            }
            for entry in buffer.segments() {
                sg.try_push(entry).map_err(|_| {
                    RefusedReason::NoSpace(NoSpace { what: "segments", needed: S + 1, available: S })
                })?;
            }
        }
        Ok(sg)
    }

    /// Hands what was submitted to the hardware.
    pub fn issue_pending(&mut self) {
        self.channel.issue_pending();
    }

    /// How far `cookie` has come.
    pub fn status(&self, cookie: Cookie) -> TxState {
        self.channel.status(cookie)
    }

    /// The next thing that happened, with the buffers of what is finished.
    pub fn pop_finished(&mut self) -> Option<Finished<B, M, S>> {
        loop {
            let completion = self.channel.pop_completed()?;
            let buffers = match completion.event {
                Event::Period { .. } => ArrayVec::new(),
                Event::Finished => match self.take(|p| p.cookie == completion.cookie) {
                    Some(buffers) => buffers,
                    // It was given back as terminated: each transfer is told of once. At most as many
                    // rounds as the channel has completions.
                    None => continue,
                },
            };
            return Some(Finished { completion, buffers });
        }
    }

    /// Waits for the next thing to happen, `limit_us` at most. Looks at the hardware itself in
    /// between, so a lost interrupt costs time and nothing else.
    ///
    /// # Errors
    /// [`Timeout`].
    pub fn wait_next(
        &mut self,
        delay: &mut impl DelayNs,
        limit_us: u32,
    ) -> Result<Finished<B, M, S>, Timeout> {
        poll_until(delay, 10, limit_us, || {
            self.pop_finished().or_else(|| {
                // A device that is gone or lies completes its transfers with an error: popped next.
                let _ = self.channel.poll_hardware();
                self.pop_finished()
            })
        })
    }

    /// Drops what is queued and starts stopping what runs.
    ///
    /// # Errors
    /// The channel's, if the device is gone; all is dropped nevertheless.
    pub fn terminate_all(&mut self) -> Result<(), C::Error> {
        for pending in &mut self.pending {
            // What has finished already comes back with its completion.
            pending.terminated |= self.channel.status(pending.cookie).status != TxStatus::Complete;
        }
        self.channel.terminate_all()
    }

    /// Waits until the channel is at rest; then [`pop_terminated`](Self::pop_terminated) has the
    /// buffers.
    ///
    /// # Errors
    /// [`SynchronizeError`]: dropping `self` then quarantines the buffers.
    pub fn synchronize(&mut self, delay: &mut impl DelayNs, limit_us: u32) -> Result<(), SynchronizeError> {
        self.channel.synchronize(delay, limit_us)
    }

    /// The buffers of a transfer that was terminated, once the hardware has let go of it. Newer
    /// transfers may be running.
    pub fn pop_terminated(&mut self) -> Option<ArrayVec<Streaming<B, M, Completed>, S>> {
        if !self.pending.iter().any(|p| p.terminated) || !self.channel.is_terminated() {
            return None;
        }
        self.take(|p| p.terminated)
    }

    fn take(
        &mut self,
        which: impl Fn(&Pending<B, M, S>) -> bool,
    ) -> Option<ArrayVec<Streaming<B, M, Completed>, S>> {
        let index = self.pending.iter().position(which)?;
        // Found by cookie, so their order does not matter.
        Some(self.pending.swap_remove(index).buffers.into_iter().map(Streaming::complete).collect())
    }
}
