//! What a channel counts.

/// Numbers of one channel since it was opened. Plain counters: reading them costs no access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transfers submitted.
    pub submitted: u64,
    /// Transfers that ended without error.
    pub completed: u64,
    /// Transfers that ended with an error.
    pub failed: u64,
    /// Periods of cyclic transfers reported.
    pub periods: u64,
    /// Bytes known to be moved.
    pub bytes: u64,
    /// List elements or register loads handed to the engine.
    pub segments: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Doorbells rung again because the engine had, or might have, stopped with work left.
    pub doorbells_again: u64,
    /// Interrupt events that brought news.
    pub events: u64,
    /// Interrupt events without news: spurious, stale, or answered by an earlier look.
    pub spurious: u64,
    /// Progress that was found by looking although interrupts are in use: an interrupt was lost or
    /// late.
    pub found_by_looking: u64,
    /// Times the engine contradicted itself.
    pub violations: u64,
}
