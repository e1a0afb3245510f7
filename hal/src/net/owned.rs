//! Queues with buffers that are owned here: for userspace and bare metal.
//!
//! A kernel, whose stack maps and frees its own buffers, uses [`TxQueue`] and [`RxQueue`] alone.

use arrayvec::ArrayVec;

use super::{
    Part, RxBuffer, RxDecision, RxFrameInfo, RxProgress, RxQueue, RxSink, TxDone, TxFrame, TxOffload,
    TxQueue, TxSink,
};
use crate::dma::{DataDirection, DmaBackend, DmaConstraints, DmaMemory, InFlight, PrepareError, Streaming};
use crate::dmaengine::SgEntry;

/// Pieces that one buffer may be mapped in.
const MAX_PIECES: usize = 4;

/// Why a buffer was not sent; here it is again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError<M, Q: core::error::Error + 'static, E: core::error::Error + 'static> {
    /// It cannot be mapped.
    #[error(transparent)]
    Map(PrepareError<M, E>),
    /// It is mapped in more pieces than a frame may have here, or is empty.
    #[error("a frame of {size} bytes in {pieces} pieces cannot be sent")]
    Pieces {
        /// The buffer.
        memory: M,
        /// Its size in bytes.
        size: usize,
        /// How many pieces.
        pieces: usize,
    },
    /// The queue did not take it.
    #[error("not sent: {error}")]
    Queue {
        /// The buffer.
        memory: M,
        /// Why.
        #[source]
        error: Q,
    },
}

impl<M, Q: core::error::Error + 'static, E: core::error::Error + 'static> SendError<M, Q, E> {
    /// The buffer.
    pub fn into_memory(self) -> M {
        match self {
            SendError::Map(error) => error.memory,
            SendError::Pieces { memory, .. } | SendError::Queue { memory, .. } => memory,
        }
    }
}

/// A transmit queue whose frames are owned buffers, one a frame.
#[derive(Debug)]
pub struct OwnedTx<Q, B> {
    queue: Q,
    backend: B,
    constraints: DmaConstraints,
}

type TxToken<B, M> = Streaming<B, M, InFlight>;
type Refused<M, B, Q> = SendError<M, <Q as TxQueue>::Error, <B as DmaBackend>::Error>;

impl<B: DmaBackend, M: DmaMemory, Q: TxQueue<Token = TxToken<B, M>>> OwnedTx<Q, B>
where
    Q::Error: 'static,
{
    /// Over `queue`, with buffers mapped by `backend`.
    pub fn new(queue: Q, backend: B, constraints: DmaConstraints) -> Self {
        Self { queue, backend, constraints }
    }

    /// Sends all of `memory` as a frame. The device sees it after [`kick`](Self::kick).
    ///
    /// # Errors
    /// [`SendError`] with the buffer.
    pub fn push(&mut self, memory: M, offload: TxOffload) -> Result<(), Refused<M, B, Q>> {
        let prepared =
            Streaming::prepare(self.backend.clone(), memory, DataDirection::ToDevice, &self.constraints)
                .map_err(SendError::Map)?;
        let mut pieces = ArrayVec::<SgEntry, MAX_PIECES>::new();
        let all = prepared.segments().all(|piece| pieces.try_push(piece).is_ok());
        if !all || pieces.is_empty() {
            let (size, pieces) = (prepared.size(), prepared.segments().count());
            return Err(SendError::Pieces { memory: prepared.cancel(), size, pieces });
        }
        self.queue.push(&TxFrame { pieces: &pieces, offload }, prepared.start()).map_err(|(token, error)| {
            // The queue gave it back: the device was never told of it.
            SendError::Queue { memory: token.complete().into_inner(), error }
        })
    }

    /// Lets the device see what was pushed.
    pub fn kick(&mut self) {
        self.queue.kick();
    }

    /// Hands the buffers of at most `budget` sent frames to `done`, with whether a time stamp was asked
    /// for. Returns how many.
    pub fn reap(&mut self, budget: usize, done: impl FnMut(M, bool)) -> usize {
        self.queue.reap(budget, &mut Returned(done))
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// The queue, for what this does not do.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// The queue, to be closed.
    pub fn into_queue(self) -> Q {
        self.queue
    }
}

/// Unmaps what comes back.
struct Returned<F>(F);

impl<B: DmaBackend, M: DmaMemory, F: FnMut(M, bool)> TxSink<TxToken<B, M>> for Returned<F> {
    fn sent(&mut self, done: TxDone<TxToken<B, M>>) {
        (self.0)(done.token.complete().into_inner(), done.timestamp);
    }
}

impl<B: DmaBackend, M: DmaMemory> RxBuffer<Streaming<B, M, InFlight>> {
    /// A buffer for a receive queue.
    ///
    /// # Errors
    /// [`PrepareError`] with the memory, if it cannot be mapped.
    pub fn owned(
        backend: B,
        memory: M,
        constraints: &DmaConstraints,
    ) -> Result<Self, PrepareError<M, B::Error>> {
        let prepared = Streaming::prepare(backend, memory, DataDirection::FromDevice, constraints)?;
        // One piece: of a buffer that the device cannot take whole it gets the beginning.
        let address = prepared.device_address();
        let length = constraints.segment_at(address, prepared.size() as u64);
        let memory = SgEntry::of_mapping(address, length);
        Ok(Self { memory, token: prepared.start() })
    }

    /// The memory of a buffer that a closed queue has given up.
    ///
    /// To call it is to say that the device no longer uses it: the queue was stopped, or its device was
    /// reset or is gone.
    pub fn reclaim(self) -> M {
        self.token.complete().into_inner()
    }
}

/// Counts of what a receive queue did with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Frames handed over.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped because there was no buffer to replace theirs.
    pub no_buffer: u64,
    /// Frames dropped because they had more parts than there is room for.
    pub too_many_parts: u64,
}

/// A frame that was received, in one or several buffers.
#[derive(Debug)]
pub struct ReceivedFrame<M, const N: usize> {
    /// What is known of it.
    pub info: RxFrameInfo,
    parts: ArrayVec<(M, usize, usize), N>,
}

impl<M: AsRef<[u8]>, const N: usize> ReceivedFrame<M, N> {
    /// Its bytes, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(memory, offset, length)| {
            let bytes = memory.as_ref();
            bytes.get(*offset..offset.saturating_add(*length)).unwrap_or_default()
        })
    }

    /// The bytes of a frame that lies in one buffer.
    pub fn contiguous(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [_] => self.pieces().next(),
            _ => None,
        }
    }

    /// Copies the frame into `to`; gives how many bytes fitted.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut at = 0;
        for piece in self.pieces() {
            let Some(room) = to.get_mut(at..) else { break };
            let count = piece.len().min(room.len());
            room[..count].copy_from_slice(&piece[..count]);
            at += count;
        }
        at
    }

    /// The buffers, to be used again.
    pub fn into_buffers(self) -> impl Iterator<Item = M> {
        self.parts.into_iter().map(|(memory, ..)| memory)
    }
}

/// A receive queue with owned buffers; frames have at most `N` parts.
#[derive(Debug)]
pub struct OwnedRx<Q, B, M, const N: usize> {
    queue: Q,
    backend: B,
    constraints: DmaConstraints,
    parts: ArrayVec<(M, usize, usize), N>,
    counters: RxCounters,
}

impl<B: DmaBackend, M: DmaMemory, Q: RxQueue<Token = TxToken<B, M>>, const N: usize> OwnedRx<Q, B, M, N> {
    /// Over `queue`, with buffers mapped by `backend` within `constraints`: those with which its first
    /// buffers were mapped.
    pub fn new(queue: Q, backend: B, constraints: DmaConstraints) -> Self {
        Self { queue, backend, constraints, parts: ArrayVec::new(), counters: RxCounters::default() }
    }

    /// Hands at most `budget` frames to `take`. Each buffer in them is replaced by one from `fresh`; where
    /// that gives none, the frame is dropped and its buffers stay in the ring.
    pub fn poll(
        &mut self,
        budget: usize,
        fresh: impl FnMut() -> Option<M>,
        take: impl FnMut(ReceivedFrame<M, N>),
    ) -> RxProgress {
        let mut sink = Assembly {
            backend: &self.backend,
            constraints: &self.constraints,
            parts: &mut self.parts,
            counters: &mut self.counters,
            fresh,
            take,
        };
        self.queue.poll(budget, &mut sink)
    }

    /// Lets the device interrupt again. True if there may be something already.
    pub fn rearm(&mut self) -> bool {
        self.queue.rearm()
    }

    /// Counts.
    pub fn counters(&self) -> RxCounters {
        self.counters
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// The queue, to be closed.
    pub fn into_queue(self) -> Q {
        self.queue
    }
}

struct Assembly<'a, B, M, F, T, const N: usize> {
    backend: &'a B,
    constraints: &'a DmaConstraints,
    parts: &'a mut ArrayVec<(M, usize, usize), N>,
    counters: &'a mut RxCounters,
    fresh: F,
    take: T,
}

impl<B, M, F, T, const N: usize> Assembly<'_, B, M, F, T, N>
where
    B: DmaBackend,
    M: DmaMemory,
    F: FnMut() -> Option<M>,
{
    fn fresh_buffer(&mut self) -> Option<RxBuffer<TxToken<B, M>>> {
        RxBuffer::owned(self.backend.clone(), (self.fresh)()?, self.constraints).ok()
    }

    /// Cuts `count` bytes from the end of the parts, which may leave some empty.
    fn cut(&mut self, mut count: usize) {
        for (_, _, length) in self.parts.iter_mut().rev() {
            let here = count.min(*length);
            *length -= here;
            count -= here;
        }
    }
}

impl<B, M, F, T, const N: usize> RxSink<TxToken<B, M>> for Assembly<'_, B, M, F, T, N>
where
    B: DmaBackend,
    M: DmaMemory,
    F: FnMut() -> Option<M>,
    T: FnMut(ReceivedFrame<M, N>),
{
    fn part(&mut self, buffer: &mut RxBuffer<TxToken<B, M>>, part: &Part) -> RxDecision {
        if part.first {
            self.parts.clear();
        }
        if self.parts.is_full() {
            self.counters.too_many_parts += 1;
            return RxDecision::DropFrame;
        }
        let Some(fresh) = self.fresh_buffer() else {
            self.counters.no_buffer += 1;
            return RxDecision::DropFrame;
        };
        let memory = core::mem::replace(buffer, fresh).reclaim();
        self.parts.push((memory, part.offset, part.length));
        if let Some(info) = part.last {
            self.cut(part.cut);
            self.counters.frames += 1;
            self.counters.bytes += info.length as u64;
            (self.take)(ReceivedFrame { info, parts: core::mem::take(self.parts) });
        }
        RxDecision::Taken
    }

    fn abandon(&mut self) {
        self.parts.clear();
    }
}
