//! What is to be moved.

use dw_edma::{ChannelId, Peripheral};

/// The most transfers in flight on one channel.
pub const DEPTH_MAX: usize = 4;
/// The most segments of one transfer.
pub const SEGMENTS_MAX: usize = 256;
/// One transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The stream of its bytes, and where in it they begin.
    pub stream: u64,
    /// First byte in the stream.
    pub at: u64,
    /// Where on the device side they go to or come from.
    pub offset: u64,
    /// Lengths of the segments in memory: `SEGMENTS_MAX` at most.
    pub lengths: Vec<usize>,
}

impl Work {
    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.lengths.iter().map(|length| *length as u64).sum()
    }
}

/// What is to be moved.
pub trait Plan {
    /// The channels that take part.
    fn channels(&self) -> Vec<ChannelId>;
    /// How many transfers a channel (by its place among [`channels`](Self::channels)) does.
    fn count(&self, lane: usize) -> usize;
    /// One of them.
    fn work(&self, lane: usize, index: usize) -> Work;
    /// How many are in flight at once, `DEPTH_MAX` at most.
    fn depth(&self) -> usize;
    /// Whether every byte is compared at its destination.
    fn verify(&self) -> bool;
    /// Whether the source on the device side is filled before each transfer, or holds the data.
    fn fills_device(&self) -> bool;
    /// The engine's part of each transfer's configuration.
    fn peripheral(&self) -> Peripheral;
}
