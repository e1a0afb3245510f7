//! A DMA channel that moves nothing: for tests of what uses a channel.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::dmaengine::{
    ChannelCaps, Completion, Cookie, Descriptor, DescriptorPool, Direction, DmaChannel, Event, HeapPool,
    NoSpace, PrepFlags, Queue, Rejected, SgEntry, SlaveConfig, TxResult, TxState, TxStatus, Unsupported,
};
use crate::error::{Error, ErrorKind};

/// What the fake refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FakeError {
    /// Not a thing that it does.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The pool is full.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// There is no configuration.
    #[error("not configured")]
    NotConfigured,
    /// [`FakeChannel::set_refuse`] asked for it.
    #[error("refused because the test wants it")]
    Refused,
    /// A descriptor of another channel.
    #[error("a descriptor of another channel")]
    Foreign,
}

impl Error for FakeError {
    fn kind(&self) -> ErrorKind {
        match self {
            FakeError::Unsupported(_) => ErrorKind::Unsupported,
            FakeError::NoSpace(_) => ErrorKind::NoSpace,
            _ => ErrorKind::InvalidInput,
        }
    }
}

/// One call of `prep_slave_sg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The list.
    pub sg: Vec<SgEntry>,
    /// The direction.
    pub direction: Direction,
    /// The configuration in force.
    pub config: SlaveConfig<u32>,
}

#[derive(Debug)]
struct State {
    prepared: Vec<Prepared>,
    refuse: bool,
    quiescent: bool,
    pool: DescriptorPool<u64, (), HeapPool<u64, ()>>,
    sticky: Option<SlaveConfig<u32>>,
    submitted: Queue,
    issued: Queue,
    done: VecDeque<Completion>,
}

/// A channel with a sticky configuration only, as most engines have: it uses the default
/// [`prep_slave_sg_config`](DmaChannel::prep_slave_sg_config). Transfers end when the test says so.
///
/// Clones are the same channel: keep one to play the hardware's part.
#[derive(Clone, Debug)]
pub struct FakeChannel(Arc<Mutex<State>>);

impl FakeChannel {
    /// A channel with room for `descriptors` transfers.
    ///
    /// # Errors
    /// [`NoSpace`] if that is none.
    pub fn new(descriptors: usize) -> Result<Self, NoSpace> {
        Ok(Self(Arc::new(Mutex::new(State {
            prepared: Vec::new(),
            refuse: false,
            quiescent: true,
            pool: DescriptorPool::new(HeapPool::new(descriptors, descriptors))?,
            sticky: None,
            submitted: Queue::default(),
            issued: Queue::default(),
            done: VecDeque::new(),
        }))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The successful preparations since the last call.
    pub fn take_prepared(&self) -> Vec<Prepared> {
        core::mem::take(&mut self.state().prepared)
    }

    /// Whether preparations fail from now on.
    pub fn set_refuse(&self, refuse: bool) {
        self.state().refuse = refuse;
    }

    /// Whether the pretended hardware rests; [`terminate_all`](DmaChannel::terminate_all) does not wait
    /// for it.
    pub fn set_quiescent(&self, quiescent: bool) {
        self.state().quiescent = quiescent;
    }

    /// Ends the oldest issued transfer. False if there is none.
    pub fn finish_next(&self, result: TxResult, residue: u64) -> bool {
        let state = &mut *self.state();
        let Some(index) = state.pool.pop(&mut state.issued) else { return false };
        if let Some(cookie) = state.pool.cookie(index) {
            state.done.push_back(Completion { cookie, event: Event::Finished, result, residue });
        }
        state.pool.release(index);
        true
    }
}

impl DmaChannel for FakeChannel {
    type Error = FakeError;
    type Peripheral = u32;

    fn caps(&self) -> ChannelCaps {
        ChannelCaps {
            mem_to_dev: true,
            dev_to_mem: true,
            cyclic: false,
            memcpy: false,
            interleaved: false,
            max_segment: u64::MAX,
            max_segments: usize::MAX,
            align: 1,
        }
    }

    fn configure(&mut self, config: &SlaveConfig<u32>) -> Result<(), FakeError> {
        self.state().sticky = Some(*config);
        Ok(())
    }

    fn configuration(&self) -> Option<SlaveConfig<u32>> {
        self.state().sticky
    }

    fn restore_configuration(&mut self, saved: Option<SlaveConfig<u32>>) {
        self.state().sticky = saved;
    }

    fn prep_slave_sg(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        _: PrepFlags,
    ) -> Result<Descriptor, FakeError> {
        let mut state = self.state();
        let config = state.sticky.ok_or(FakeError::NotConfigured)?;
        if state.refuse {
            return Err(FakeError::Refused);
        }
        let bytes = sg.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.len()));
        let descriptor = state.pool.prepare(bytes, 1, core::iter::once(()))?;
        state.prepared.push(Prepared { sg: sg.to_vec(), direction, config });
        Ok(descriptor)
    }

    fn discard(&mut self, descriptor: Descriptor) {
        self.state().pool.discard(descriptor);
    }

    fn submit(&mut self, descriptor: Descriptor) -> Result<Cookie, Rejected<FakeError>> {
        let state = &mut *self.state();
        state
            .pool
            .submit(descriptor, &mut state.submitted)
            .map_err(|descriptor| Rejected { descriptor, error: FakeError::Foreign })
    }

    fn issue_pending(&mut self) {
        let state = &mut *self.state();
        state.pool.append(&mut state.issued, &mut state.submitted);
    }

    fn status(&self, cookie: Cookie) -> TxState {
        let state = self.state();
        match state.pool.find(cookie) {
            Some((_, slot)) => TxState { status: TxStatus::InProgress, residue: slot.data },
            None if state.pool.was_given_out(cookie) => TxState { status: TxStatus::Complete, residue: 0 },
            None => TxState { status: TxStatus::Unknown, residue: 0 },
        }
    }

    fn pop_completed(&mut self) -> Option<Completion> {
        self.state().done.pop_front()
    }

    fn poll_hardware(&mut self) -> Result<(), FakeError> {
        Ok(())
    }

    fn pause(&mut self) -> Result<(), FakeError> {
        Err(Unsupported("pausing").into())
    }

    fn resume(&mut self) -> Result<(), FakeError> {
        Ok(())
    }

    fn terminate_all(&mut self) -> Result<(), FakeError> {
        let state = &mut *self.state();
        state.pool.release_all(&mut state.submitted);
        state.pool.release_all(&mut state.issued);
        Ok(())
    }

    fn is_quiescent(&mut self) -> bool {
        let state = self.state();
        state.quiescent && state.issued.is_empty()
    }
}
