//! When a transmit queue takes frames.

use crate::sync::{AtomicU32, Ordering};

const CLOSED: u32 = 1 << 0;
const NO_CARRIER: u32 = 1 << 1;
const FULL: u32 = 1 << 2;

/// Why a frame is not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The interface is not up, or is being closed or reset.
    #[error("the queue is closed")]
    Closed,
    /// There is no link.
    #[error("there is no carrier")]
    NoCarrier,
    /// The ring is full. It is woken when there is room for what did not fit.
    #[error("the queue is full")]
    Full,
}

/// Whether a transmit queue takes frames: seen by the sender, changed by the control side and by whoever
/// reaps sent frames. A queue begins closed and without carrier.
///
/// ```
/// use tombolo_hal::net::{Refusal, TxGate};
///
/// let gate = TxGate::new();
/// assert_eq!(gate.admit(), Err(Refusal::Closed));
/// gate.open();
/// gate.carrier(true);
/// assert_eq!(gate.admit(), Ok(()));
/// gate.stop(5); // a frame of five descriptors did not fit
/// assert_eq!(gate.admit(), Err(Refusal::Full));
/// assert!(!gate.wake(4));
/// assert!(gate.wake(5));
/// ```
#[derive(Debug)]
pub struct TxGate {
    why_not: AtomicU32,
    /// Room that the frame needs which found the ring full.
    needed: AtomicU32,
}

impl Default for TxGate {
    fn default() -> Self {
        Self::new()
    }
}

impl TxGate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { why_not: AtomicU32::new(CLOSED | NO_CARRIER), needed: AtomicU32::new(0) }
    }

    /// Whether a frame may be sent.
    ///
    /// # Errors
    /// [`Refusal`]: the most lasting reason.
    #[inline]
    pub fn admit(&self) -> Result<(), Refusal> {
        match self.why_not.load(Ordering::Acquire) {
            0 => Ok(()),
            bits if bits & CLOSED != 0 => Err(Refusal::Closed),
            bits if bits & NO_CARRIER != 0 => Err(Refusal::NoCarrier),
            _ => Err(Refusal::Full),
        }
    }

    /// The interface is up.
    pub fn open(&self) {
        self.needed.store(0, Ordering::Relaxed);
        self.why_not.fetch_and(!(CLOSED | FULL), Ordering::AcqRel);
    }

    /// The interface goes down.
    pub fn close(&self) {
        self.why_not.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// The link came or went.
    pub fn carrier(&self, on: bool) {
        if on {
            self.why_not.fetch_and(!NO_CARRIER, Ordering::AcqRel);
        } else {
            self.why_not.fetch_or(NO_CARRIER, Ordering::AcqRel);
        }
    }

    /// A frame that needs room for `needed` descriptors did not fit. The sender asks its ring once more
    /// after this, and calls [`wake`](Self::wake) itself if there is room by now: the other side may have
    /// looked before this.
    pub fn stop(&self, needed: usize) {
        self.needed.store(u32::try_from(needed).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.why_not.fetch_or(FULL, Ordering::AcqRel);
    }

    /// There is room for `free` descriptors now. True if this opened a gate that was shut for want of
    /// room: the sender is to be told.
    #[inline]
    pub fn wake(&self, free: usize) -> bool {
        let bits = self.why_not.load(Ordering::Acquire);
        if bits & FULL == 0 || (self.needed.load(Ordering::Relaxed) as usize) > free {
            return false;
        }
        self.why_not.fetch_and(!FULL, Ordering::AcqRel) & FULL != 0
    }

    /// Whether it is shut for want of room.
    pub fn is_full(&self) -> bool {
        self.why_not.load(Ordering::Acquire) & FULL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_lasting_reason_is_told() {
        let gate = TxGate::new();
        assert_eq!(gate.admit(), Err(Refusal::Closed));
        gate.open();
        assert_eq!(gate.admit(), Err(Refusal::NoCarrier));
        gate.carrier(true);
        gate.stop(3);
        gate.carrier(false);
        assert_eq!(gate.admit(), Err(Refusal::NoCarrier));
        gate.carrier(true);
        assert_eq!(gate.admit(), Err(Refusal::Full));
        gate.close();
        gate.open();
        assert_eq!(gate.admit(), Ok(()), "a ring that was opened anew is empty");
    }

    #[test]
    fn it_wakes_once_and_only_with_the_room_that_was_wanted() {
        let gate = TxGate::new();
        gate.open();
        gate.carrier(true);
        assert!(!gate.wake(100), "it was not stopped");
        gate.stop(18);
        assert!(!gate.wake(17));
        assert!(gate.is_full());
        assert!(gate.wake(18));
        assert!(!gate.wake(18));
    }
}
