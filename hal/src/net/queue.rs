//! The rings of a device, as traits.
//!
//! They know addresses and tokens and own no buffer. A token is whatever the user of a queue wants back
//! with a frame or buffer: an owned buffer, or a kernel's.

use super::{RxFrameInfo, TxOffload};
use crate::dmaengine::SgEntry;

/// A frame to be sent.
#[derive(Clone, Copy, Debug)]
pub struct TxFrame<'a> {
    /// Its pieces in order, none empty. The first one holds at least all headers if an offload is asked
    /// for.
    pub pieces: &'a [SgEntry],
    /// What the device is to do to it.
    pub offload: TxOffload,
}

/// A frame that the device has sent, or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxDone<T> {
    /// What came with it.
    pub token: T,
    /// Whether a time stamp was asked for: it comes later, by the device's clock.
    pub timestamp: bool,
}

/// Takes what comes back from a transmit queue.
pub trait TxSink<T> {
    /// A piece that the device no longer reads. Pieces come before their frame.
    fn piece(&mut self, piece: SgEntry) {
        let _ = piece;
    }

    /// A frame that is done.
    fn sent(&mut self, done: TxDone<T>);
}

/// A transmit queue.
pub trait TxQueue {
    /// What comes back with a frame.
    type Token;
    /// Why a frame is not taken.
    type Error: crate::error::Error;

    /// Puts a frame into the ring. The device sees it after the next [`kick`](Self::kick).
    ///
    /// # Errors
    /// With the token. Nothing was changed. A frame that can never fit is told apart from one that
    /// does not fit now.
    fn push(&mut self, frame: &TxFrame<'_>, token: Self::Token) -> Result<(), (Self::Token, Self::Error)>;

    /// Lets the device see what was pushed: one register write a burst.
    fn kick(&mut self);

    /// Gives back what is done: at most `budget` frames. Returns how many.
    fn reap(&mut self, budget: usize, sink: &mut impl TxSink<Self::Token>) -> usize;

    /// Lets the device interrupt again. True if there may be something to reap already.
    fn rearm(&mut self) -> bool;

    /// Descriptors that are free.
    fn free(&self) -> usize;

    /// Descriptors that a frame takes.
    fn needed(&self, frame: &TxFrame<'_>) -> usize;
}

/// A buffer of a receive queue.
#[derive(Debug)]
pub struct RxBuffer<T> {
    /// Where the device writes, and how many bytes it may.
    pub memory: SgEntry,
    /// Whose it is.
    pub token: T,
}

/// A filled buffer: a part of a frame, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the frame's bytes begin in the buffer.
    pub offset: usize,
    /// How many of its bytes are in this buffer. 0 if the device used a buffer more than it needed.
    pub length: usize,
    /// The frame begins here.
    pub first: bool,
    /// The frame ends here, and this is known of it.
    pub last: Option<RxFrameInfo>,
    /// Bytes to be cut from the end of the parts that came before: they were no part of the frame. Only
    /// with `last`.
    pub cut: usize,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxDecision {
    /// It was taken: the data was copied, or the buffer was replaced by a fresh one.
    Taken,
    /// It could not be taken, for want of memory: the frame's other parts are of no use. The buffer is as
    /// it was, and goes back to the device.
    DropFrame,
}

/// Takes what a receive queue received.
pub trait RxSink<T> {
    /// A filled buffer. To keep it, swap a fresh one (of at least the size that the queue was made for)
    /// into its place; whatever stands in `buffer` afterwards goes back into the ring.
    fn part(&mut self, buffer: &mut RxBuffer<T>, part: &Part) -> RxDecision;

    /// The parts taken since the last `first` are no whole frame: forget them.
    fn abandon(&mut self);
}

/// What a poll of a receive queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxProgress {
    /// Frames handed over.
    pub frames: usize,
    /// Whether the budget ended it: there may be more.
    pub more: bool,
}

/// A receive queue.
pub trait RxQueue {
    /// What a buffer is known by.
    type Token;

    /// Hands over what has come: at most `budget` frames.
    fn poll(&mut self, budget: usize, sink: &mut impl RxSink<Self::Token>) -> RxProgress;

    /// Gives buffers back to the device and lets it interrupt again. True if there may be something
    /// already.
    fn rearm(&mut self) -> bool;
}
