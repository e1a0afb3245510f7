//! What a test may know and do from outside: counters and fault hooks, by a cloneable handle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::params::Dir;
use crate::memory::SharedMemory;

/// Why a channel gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The local side refused a read (bridge error).
    AppRead,
    /// The local side refused a write (bridge error).
    AppWrite,
    /// A list element could not be fetched, or too many links came in a row.
    ListFetch,
    /// A read across the link was answered with Unsupported Request.
    UnsupportedRequest,
    /// A read across the link was answered with Completer Abort.
    CompleterAbort,
    /// A read across the link was not answered.
    CompletionTimeout,
    /// The data of a read across the link was poisoned.
    Poisoned,
    /// A write across the link was refused (seen only with
    /// [`super::Params::posted_write_errors`]).
    LinkWrite,
}

impl Cause {
    /// Whether eDMA v0 calls it fatal for the engine (bridge and list errors) rather than for the one
    /// transfer.
    pub const fn is_fatal(self) -> bool {
        matches!(self, Cause::AppRead | Cause::AppWrite | Cause::ListFetch)
    }
}

/// Counts of one channel since the model was made; a reset does not clear them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Start doorbells, dropped ones included.
    pub doorbells: u64,
    /// Start doorbells without effect: channel running, disabled or dead.
    pub dropped_doorbells: u64,
    /// Stop doorbells on a running channel.
    pub stops: u64,
    /// Elements read from list memory, links and unowned ones included.
    pub fetched: u64,
    /// Data elements (or register transfers) worked off.
    pub elements: u64,
    /// Link elements followed.
    pub links: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Ends without an error: unowned element met, or register transfer done.
    pub ends: u64,
    /// Errors that halted the channel.
    pub aborts: u64,
    /// Interrupt messages that the engine wrote.
    pub messages: u64,
    /// Writes across the link that went nowhere unnoticed.
    pub lost_writes: u64,
}

impl ChannelCounters {
    fn add(&mut self, other: &Self) {
        self.doorbells += other.doorbells;
        self.dropped_doorbells += other.dropped_doorbells;
        self.stops += other.stops;
        self.fetched += other.fetched;
        self.elements += other.elements;
        self.links += other.links;
        self.bytes += other.bytes;
        self.ends += other.ends;
        self.aborts += other.aborts;
        self.messages += other.messages;
        self.lost_writes += other.lost_writes;
    }
}

/// Counts of the engine since the model was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Register accesses that are not aligned 32-bit ones; they had no effect and read all ones.
    pub bad_accesses: u64,
    /// Accesses to offsets without a register; read zero.
    pub reserved_accesses: u64,
    /// Local interrupts: vectors raised, or rises of INTx.
    pub local_interrupts: u64,
    /// Emulated interrupts: writes to a v0 interrupt status register.
    pub emulated_interrupts: u64,
    /// The sum over all channels.
    pub total: ChannelCounters,
}

/// Faults set on a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub abort: Option<(u64, Cause)>,
    pub hang: bool,
    pub llp: Option<u64>,
    pub fake_done: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub counters: Counters,
    pub channels: Vec<ChannelCounters>,
    pub faults: Vec<Faults>,
}

impl Shared {
    pub fn new(channels: usize) -> Self {
        Self {
            counters: Counters::default(),
            channels: vec![ChannelCounters::default(); channels],
            faults: vec![Faults::default(); channels],
        }
    }
}

/// Access to a model's counters, fault hooks and memory, valid wherever the model itself lives.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) memory: SharedMemory,
    pub(super) write_channels: u16,
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, dir: Dir, channel: u16) -> usize {
        let first = if dir == Dir::Read { self.write_channels } else { 0 };
        usize::from(first) + usize::from(channel)
    }

    /// Counts of the engine and the sums over its channels.
    pub fn counters(&self) -> Counters {
        let shared = self.lock();
        let mut counters = shared.counters;
        for channel in &shared.channels {
            counters.total.add(channel);
        }
        counters
    }

    /// Counts of one channel; zeros if there is no such channel.
    pub fn channel(&self, dir: Dir, channel: u16) -> ChannelCounters {
        self.lock().channels.get(self.slot(dir, channel)).copied().unwrap_or_default()
    }

    /// The model's memory: the device's own for a remotely programmed engine, what lies across the
    /// link for a local one.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    fn with_faults(&self, dir: Dir, channel: u16, change: impl FnOnce(&mut Faults)) {
        let slot = self.slot(dir, channel);
        if let Some(faults) = self.lock().faults.get_mut(slot) {
            change(faults);
        }
    }

    /// The channel gives up after `bytes` more bytes, once.
    pub fn abort_after(&self, dir: Dir, channel: u16, bytes: u64, cause: Cause) {
        self.with_faults(dir, channel, |faults| faults.abort = Some((bytes, cause)));
    }

    /// From now on the channel stays in state running, moves nothing and obeys no stop. Ends with a
    /// reset of the device after [`Handle::clear_faults`].
    pub fn hang(&self, dir: Dir, channel: u16) {
        self.with_faults(dir, channel, |faults| faults.hang = true);
    }

    /// Reads of the channel's list pointer give `value`.
    pub fn garbage_llp(&self, dir: Dir, channel: u16, value: u64) {
        self.with_faults(dir, channel, |faults| faults.llp = Some(value));
    }

    /// The next start doorbell ends at once with a done (stop) event and no work, once.
    pub fn done_without_work(&self, dir: Dir, channel: u16) {
        self.with_faults(dir, channel, |faults| faults.fake_done = true);
    }

    /// Removes the faults of all channels.
    pub fn clear_faults(&self) {
        self.lock().faults.fill(Faults::default());
    }
}
