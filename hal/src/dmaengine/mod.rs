//! DMA channels in the words of Linux's dmaengine: slave configuration, scatter-gather, descriptor,
//! cookie, residue, terminate, synchronise.
//!
//! Two layers:
//! - [`DmaChannel`] works on [`SgEntry`]s, handles and cookies, and owns no buffer. A kernel
//!   provider, whose client keeps its own mapping, uses it alone.
//! - [`OwnedTransfers`] sits on a channel, keeps the buffers by cookie and gives them back with the
//!   completion. Safe code uses this one.
//!
//! The life of a transfer: `prep_*` makes a [`Descriptor`], `submit` gives it a [`Cookie`],
//! `issue_pending` hands all submitted ones to the hardware, `pop_completed` tells how they ended.
//! Nothing allocates in between.

mod channel;
#[cfg(feature = "async")]
pub mod future;
mod owned;
mod pool;
mod types;

pub use channel::{DmaChannel, DmaChannelExt, Rejected, SynchronizeError};
pub use owned::{Finished, OwnedTransfers, Refused, RefusedReason};
#[cfg(feature = "alloc")]
pub use pool::HeapPool;
pub use pool::{
    ArrayPool, DescState, DescriptorPool, DescriptorSlot, PoolMemory, Queue, SegmentSlot, SlicePool,
};
pub use types::{
    BusWidth, ChannelCaps, Completion, Cookie, Descriptor, Direction, Event, InterleavedTemplate, NoSpace,
    PeerWindow, PrepFlags, SgEntry, SlaveConfig, TxResult, TxState, TxStatus, Unsupported,
};
