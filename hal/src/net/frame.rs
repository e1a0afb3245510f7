//! What is said about a frame, and about a link.

use core::num::NonZeroU16;

/// What the device is to do to a frame that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Insert the checksums of IPv4 header, TCP and UDP.
    pub checksum: bool,
    /// TCP segmentation: bytes of payload in each segment. The frame is one large TCP segment.
    pub segment: Option<NonZeroU16>,
    /// Tell when it was sent.
    pub timestamp: bool,
}

/// What the device found about the checksums of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing: the receiver must compute them.
    #[default]
    Unknown,
    /// Those of the IPv4 header (if there is one) and of TCP or UDP are right.
    Good,
    /// At least one is wrong.
    Bad,
}

/// A moment of a device's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: u64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What is known of a whole frame that was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxFrameInfo {
    /// Bytes, without the frame check sequence.
    pub length: usize,
    /// Its checksums.
    pub checksum: RxChecksum,
    /// Its hash over addresses and ports, if the device told.
    pub hash: Option<u32>,
    /// When it came, if the device told.
    pub timestamp: Option<Timestamp>,
}

/// Which pause frames are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// We send them when our buffers fill up.
    pub tx: bool,
    /// We stop when the partner sends them.
    pub rx: bool,
}

/// Whether both sides of a link may send at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// One at a time.
    Half,
    /// Both.
    Full,
}

/// A link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// No carrier.
    #[default]
    Down,
    /// Frames can go.
    Up {
        /// Mbit/s.
        speed: u32,
        /// Whether both sides may send at once.
        duplex: Duplex,
        /// What was agreed about pause frames.
        pause: Pause,
    },
}

impl LinkState {
    /// Whether frames can go.
    pub const fn is_up(&self) -> bool {
        matches!(self, LinkState::Up { .. })
    }
}
