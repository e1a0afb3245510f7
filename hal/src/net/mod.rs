//! What network devices of this family have in common: frames, queues, the life of an interface.
//!
//! Two kinds of devices stand on it, NICs and the network device over an NTB. A driver implements
//! [`TxQueue`] and [`RxQueue`] for its rings; whoever uses it (a kernel's network stack, smoltcp, a
//! bridge) brings the buffers and takes the frames. No queue copies, allocates or blocks.
//!
//! | part | what it is for |
//! |---|---|
//! | [`TxQueue`], [`RxQueue`], [`RxSink`] | the rings of a device; addresses and tokens, no buffers |
//! | [`OwnedTx`], [`OwnedRx`] | the same with buffers that are owned here: userspace and bare metal |
//! | [`TxGate`] | when a transmit queue takes frames; stop, and wake with enough room |
//! | [`Lifecycle`] | down, up, recovering, suspended, gone: what is to be done when |
//!
//! Ethernet frames are without their frame check sequence everywhere.

mod address;
mod frame;
mod gate;
mod lifecycle;
mod owned;
mod queue;
mod toeplitz;

pub use address::{MacAddress, ParseMacError};
pub use frame::{Duplex, LinkState, Pause, RxChecksum, RxFrameInfo, Timestamp, TxOffload};
pub use gate::{Refusal, TxGate};
pub use lifecycle::{Action, Actions, Event, Lifecycle, State};
pub use owned::{OwnedRx, OwnedTx, ReceivedFrame, RxCounters, SendError};
pub use queue::{Part, RxBuffer, RxDecision, RxProgress, RxQueue, RxSink, TxDone, TxFrame, TxQueue, TxSink};
pub use toeplitz::{RSS_KEY_DEFAULT, RssInput, toeplitz};

/// Bytes of an Ethernet header without tags.
pub const HEADER: usize = 14;
/// Bytes of one VLAN tag.
pub const VLAN_TAG: usize = 4;
/// Bytes of the frame check sequence.
pub const FCS: usize = 4;
/// The least bytes of a frame on the wire, without its frame check sequence.
pub const MIN_FRAME: usize = 60;
/// The least MTU that IPv4 allows; Linux's `ETH_MIN_MTU`.
pub const MIN_MTU: usize = 68;
