//! What is counted while data moves.

use dw_edma::Stats;

use crate::data::Differences;
use crate::platform::Platform;
use crate::rig::Rig;
use crate::text::count;

/// Different causes that are named; all of them are counted by their transfers.
const CAUSES: usize = 4;

/// What was counted while a plan ran.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Transfers that ended without error; cyclic ones that did all rounds.
    pub transfers: u64,
    /// Transfers that did not.
    pub failures: u64,
    /// Transfers that were never started.
    pub not_run: u64,
    /// Periods of cyclic transfers.
    pub periods: u64,
    /// Bytes of all these.
    pub bytes: u64,
    /// Bytes, guard bytes included, that are not what they should be.
    pub mismatches: u64,
    /// The driver's own counts, of all channels.
    pub stats: Stats,
    /// Time, in nanoseconds.
    pub time_ns: u64,
    /// Interrupts that were delivered.
    pub interrupts: u64,
    /// Reads and writes of registers, reads and writes of lists behind a BAR.
    pub mmio: [u64; 4],
    first_mismatch: Option<String>,
    first_failure: Option<String>,
    causes: Vec<String>,
    begun: (u64, u64, [u64; 4]),
}

impl Tally {
    /// Time, interrupts and MMIO count from here.
    pub fn begin<P: Platform>(&mut self, rig: &Rig<P>) {
        let counts = rig.counts();
        self.begun = (rig.now_ns(), counts.interrupts, counts.mmio);
    }

    /// To here; `result` is how it ended.
    pub fn end<P: Platform>(&mut self, rig: &Rig<P>, result: Result<(), Box<dyn std::error::Error>>) {
        let (time, interrupts, mmio) = self.begun;
        let counts = rig.counts();
        self.time_ns += rig.now_ns() - time;
        self.interrupts += counts.interrupts - interrupts;
        for (sum, (now, then)) in self.mmio.iter_mut().zip(counts.mmio.into_iter().zip(mmio)) {
            *sum += now - then;
        }
        if rig.is_gone() {
            self.cause(dw_edma::Error::DeviceGone.to_string());
        }
        if let Err(error) = result {
            self.cause(error.to_string());
        }
    }

    /// A transfer failed.
    pub fn failed(&mut self, text: String) {
        tracing::info!(text, "a transfer failed");
        self.failures += 1;
        self.first_failure.get_or_insert(text);
    }

    /// What a comparison found, if it found anything.
    pub fn mismatch(&mut self, what: &str, differences: Differences) {
        if differences.count == 0 {
            return;
        }
        let at = differences.first.unwrap_or(0);
        let text = format!("{what}: {} bytes, from byte {at} on", differences.count);
        tracing::info!(text, "wrong data");
        self.mismatches += differences.count;
        self.first_mismatch.get_or_insert(text);
    }

    /// Something that explains failures.
    pub fn cause(&mut self, text: String) {
        if self.causes.len() < CAUSES && !self.causes.contains(&text) {
            self.causes.push(text);
        }
    }

    /// A channel's statistics.
    pub fn stats(&mut self, stats: &Stats) {
        add_stats(&mut self.stats, stats);
    }

    /// Adds what another plan did on the same rig.
    pub fn add(&mut self, other: Tally) {
        self.transfers += other.transfers;
        self.failures += other.failures;
        self.not_run += other.not_run;
        self.periods += other.periods;
        self.bytes += other.bytes;
        self.mismatches += other.mismatches;
        self.time_ns += other.time_ns;
        self.interrupts += other.interrupts;
        self.mmio.iter_mut().zip(other.mmio).for_each(|(sum, one)| *sum += one);
        add_stats(&mut self.stats, &other.stats);
        self.first_mismatch = self.first_mismatch.take().or(other.first_mismatch);
        self.first_failure = self.first_failure.take().or(other.first_failure);
        other.causes.into_iter().for_each(|cause| self.cause(cause));
    }

    /// What is wrong, in one sentence; `None` if nothing is.
    pub fn error(&self) -> Option<String> {
        let mut parts = self.causes.clone();
        if self.failures != 0 {
            let all = self.transfers + self.failures + self.not_run;
            let first = self.first_failure.as_ref().map(|text| format!(" (first: {text})"));
            let first = first.unwrap_or_default();
            parts.push(format!("{} of {} failed{first}", self.failures, count(all, "transfer")));
        }
        if self.not_run != 0 {
            parts.push(format!("{} never started", count(self.not_run, "transfer")));
        }
        if self.mismatches != 0 {
            let first = self.first_mismatch.as_deref().unwrap_or_default();
            parts.push(format!("{} wrong (first: {first})", count(self.mismatches, "byte")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Adds a channel's statistics to others.
fn add_stats(sum: &mut Stats, one: &Stats) {
    sum.doorbells += one.doorbells;
    sum.doorbells_again += one.doorbells_again;
    sum.segments += one.segments;
    sum.events += one.events;
    sum.spurious += one.spurious;
    sum.found_by_looking += one.found_by_looking;
    sum.violations += one.violations;
    sum.periods += one.periods;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_causes_counts_and_the_first_of_each() {
        let mut tally = Tally { transfers: 5, not_run: 2, ..Tally::default() };
        assert_eq!(tally.error().as_deref(), Some("2 transfers never started"));
        tally.cause("gone".into());
        tally.cause("gone".into());
        tally.failed("one".into());
        tally.failed("two".into());
        tally.mismatch("three", Differences { count: 4, first: Some(9) });
        assert_eq!(
            tally.error().unwrap(),
            "gone; 2 of 9 transfers failed (first: one); 2 transfers never started; \
             4 bytes wrong (first: three: 4 bytes, from byte 9 on)"
        );
        assert_eq!(Tally::default().error(), None);
    }
}
