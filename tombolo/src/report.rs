//! The result of `tombolo dma`: a JSON object, or a summary for people.

use serde::Serialize;
use tombolo_hal::irq::IrqSource;

use crate::fault::{Armed, Fault};
use crate::job::{Job, Mode};
use crate::platform::Platform;
use crate::rig::Rig;
use crate::tally::Tally;
use crate::text::{bytes, count, per, rate, time};

/// The result of `tombolo dma`. The field names are those of the JSON object.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `sim`, or the device as the user named it.
    pub device: String,
    /// Register map.
    pub format: String,
    /// `ll`, `non-ll` or `cyclic`.
    pub mode: &'static str,
    /// `remote` or `local`.
    pub location: &'static str,
    /// Channels of each kind.
    pub channels: u16,
    /// Bytes of one transfer or cyclic buffer.
    pub size: u64,
    /// Segments or periods of one.
    pub sg: usize,
    /// Transfers of each channel, or rounds.
    pub iterations: u32,
    /// Data elements of each list.
    pub list_elements: usize,
    /// The seed.
    pub seed: u64,
    /// The fault, if one was injected.
    pub fault: Option<String>,
    /// Whether data was compared.
    pub verified: bool,
    /// Transfers that ended without error.
    pub transfers: u64,
    /// Transfers that failed.
    pub failures: u64,
    /// Transfers that were never started.
    pub not_run: u64,
    /// Periods of cyclic transfers.
    pub periods: u64,
    /// Bytes of transfers and periods that ended without error.
    pub bytes: u64,
    /// Bytes that are wrong.
    pub mismatches: u64,
    /// How interrupts arrived.
    pub irq_mode: String,
    /// Interrupt vectors.
    pub vectors: u16,
    /// Interrupts that were delivered while data moved.
    pub interrupts: u64,
    /// Interrupt messages that fault injection lost.
    pub lost_interrupts: u64,
    /// Interrupts in which the driver found nothing of its own.
    pub unclaimed_interrupts: u64,
    /// Completions that were found without an interrupt.
    pub found_by_looking: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// Doorbells because the engine had or might have stopped with work left.
    pub doorbells_again: u64,
    /// List elements, or register loads.
    pub elements: u64,
    /// Times the device contradicted itself.
    pub violations: u64,
    /// Requests that the IOMMU refused.
    pub iommu_faults: u64,
    /// Posted writes of the engine that went nowhere.
    pub lost_writes: u64,
    /// MMIO reads of the driver while data moved.
    pub mmio_reads: u64,
    /// MMIO writes, those of lists behind a BAR included.
    pub mmio_writes: u64,
    /// Of these, writes of lists behind a BAR.
    pub list_writes: u64,
    /// Simulated time while data moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_ns: Option<u64>,
    /// Real time while data moved; of devices that are not simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// How the run got over the fault, if it did.
    pub recovery: Option<String>,
    /// What is wrong, if anything is.
    pub error: Option<String>,
}

impl Report {
    /// Nothing happened yet.
    pub fn new(job: &Job) -> Self {
        let simulated = job.device.is_none();
        Self {
            device: job.device.as_ref().map_or("sim", |device| &device.name).to_owned(),
            format: job.format.to_string(),
            mode: job.mode.name(),
            location: match job.location {
                dw_edma::Location::Local => "local",
                dw_edma::Location::Remote => "remote",
            },
            channels: job.channels,
            size: job.size,
            sg: job.sg,
            iterations: job.iterations,
            list_elements: job.list_elements,
            seed: job.seed,
            fault: job.fault.map(|fault| fault.to_string()),
            verified: job.verify,
            transfers: 0,
            failures: 0,
            not_run: 0,
            periods: 0,
            bytes: 0,
            mismatches: 0,
            irq_mode: tombolo_hal::irq::IrqMode::from(job.irq).to_string(),
            vectors: 0,
            interrupts: 0,
            lost_interrupts: 0,
            unclaimed_interrupts: 0,
            found_by_looking: 0,
            doorbells: 0,
            doorbells_again: 0,
            elements: 0,
            violations: 0,
            iommu_faults: 0,
            lost_writes: 0,
            mmio_reads: 0,
            mmio_writes: 0,
            list_writes: 0,
            virtual_ns: simulated.then_some(0),
            elapsed_ns: (!simulated).then_some(0),
            recovery: None,
            error: None,
        }
    }

    /// The vectors that the rig got.
    pub fn vectors<P: Platform>(&mut self, rig: &Rig<P>) {
        self.vectors = rig.platform.irq().vectors();
    }

    /// What was counted.
    pub fn tell<P: Platform>(&mut self, rig: &Rig<P>, tally: &Tally, armed: &Armed) {
        let counts = rig.counts();
        self.transfers = tally.transfers;
        self.failures = tally.failures;
        self.not_run = tally.not_run;
        self.periods = tally.periods;
        self.bytes = tally.bytes;
        self.mismatches = tally.mismatches;
        self.interrupts = tally.interrupts;
        self.lost_interrupts = counts.messages_lost;
        self.unclaimed_interrupts = rig.unclaimed_interrupts();
        self.found_by_looking = tally.stats.found_by_looking;
        self.doorbells = tally.stats.doorbells;
        self.doorbells_again = tally.stats.doorbells_again;
        self.elements = tally.stats.segments;
        self.violations = tally.stats.violations;
        self.iommu_faults = counts.iommu_faults;
        self.lost_writes = counts.lost_writes;
        let [reads, writes, list_reads, list_writes] = tally.mmio;
        (self.mmio_reads, self.mmio_writes) = (reads + list_reads, writes + list_writes);
        self.list_writes = list_writes;
        for time in [&mut self.virtual_ns, &mut self.elapsed_ns] {
            *time = time.map(|_| tally.time_ns);
        }
        if let Some(error) = tally.error() {
            self.problem(error);
        }
        self.explain();
        self.recovery = self.recovery(armed);
    }

    /// What the counters know and no transfer told.
    fn explain(&mut self) {
        let (faults, lost) = (self.iommu_faults, self.lost_writes);
        if faults != 0 {
            self.problem(format!("the IOMMU refused {} of the engine", count(faults, "request")));
        }
        if lost != 0 {
            let writes = count(lost, "posted write");
            self.problem(format!("{writes} of the engine went nowhere, which it cannot notice"));
        }
        if self.violations != 0 {
            self.problem(format!("the device contradicted itself {}", count(self.violations, "time")));
        }
    }

    /// What is still mapped at the end was lost track of, or is in quarantine.
    pub fn leaks<P: Platform>(&mut self, rig: &Rig<P>) {
        let (mappings, bytes) = rig.counts().mapped;
        if mappings != 0 {
            self.problem(format!(
                "{} ({bytes} bytes) left mapped for the device",
                count(mappings as u64, "buffer")
            ));
        }
    }

    /// One more thing that is wrong.
    pub fn problem(&mut self, text: String) {
        self.error = Some(match self.error.take() {
            Some(error) => format!("{error}; {text}"),
            None => text,
        });
    }

    /// Whether all went well, as far as it was looked at.
    pub fn is_right(&self) -> bool {
        self.error.is_none() && self.mismatches == 0
    }

    fn recovery(&self, armed: &Armed) -> Option<String> {
        let fault = armed.fault()?;
        let right = self.error.is_none();
        let all = count(self.transfers + self.failures + self.not_run, "transfer");
        match fault {
            Fault::LostIrq if self.lost_interrupts == 0 => Some("no interrupt was lost".into()),
            Fault::LostIrq if right => Some(self.lost_and_found()),
            Fault::SpuriousIrq if right => {
                Some(format!("{} came that nobody sent; none did harm", count(armed.injected(), "interrupt")))
            }
            Fault::DelayedWrites if right => Some("writes of the driver arrived late; none did harm".into()),
            _ if right => Some("the fault did not strike".into()),
            Fault::Iommu | Fault::Abort | Fault::Garbage | Fault::Hang if self.transfers != 0 => {
                Some(format!("the channels went on: {} of {all} completed", self.transfers))
            }
            _ => None,
        }
    }

    fn lost_and_found(&self) -> String {
        let sent = count(self.lost_interrupts + self.interrupts, "interrupt");
        let found = match self.found_by_looking {
            0 => "a later interrupt or a look made up for each".to_owned(),
            some => format!("{} found by looking", count(some, "completion")),
        };
        format!("{} of {sent} lost; {found}", self.lost_interrupts)
    }

    /// The JSON object, on one line.
    pub fn json(&self) -> String {
        // Numbers and strings only: it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people.
    pub fn summary(&self) -> String {
        let mut lines = vec![self.headline()];
        let mut line = |name: &str, text: String| lines.push(format!("  {name:<12}{text}"));
        let unit = if self.mode == Mode::Cyclic.name() { "period" } else { "segment" };
        line(
            "transfers",
            format!(
                "{} x {} in {}, {} in all",
                self.transfers,
                bytes(self.size),
                count(self.sg as u64, unit),
                bytes(self.bytes)
            ),
        );
        let (ns, clock) = match self.elapsed_ns {
            Some(ns) => (ns, ""),
            None => (self.virtual_ns.unwrap_or(0), " simulated"),
        };
        line("time", format!("{}{clock}, {}", time(ns), rate(self.bytes, ns)));
        line(
            "interrupts",
            format!(
                "{} by {} ({})",
                self.interrupts,
                self.irq_mode,
                count(u64::from(self.vectors), "vector")
            ),
        );
        line("doorbells", format!("{}, and {} again", self.doorbells, self.doorbells_again));
        line(
            "MMIO",
            format!(
                "{} reads, {} writes ({} to lists), {} a transfer",
                self.mmio_reads,
                self.mmio_writes,
                self.list_writes,
                per(self.mmio_reads + self.mmio_writes, self.transfers)
            ),
        );
        if let Some(fault) = &self.fault {
            line("fault", fault.clone());
        }
        if let Some(recovery) = &self.recovery {
            line("recovery", recovery.clone());
        }
        line("result", self.result());
        lines.join("\n")
    }

    fn headline(&self) -> String {
        let (n, kind) = (self.channels, &self.format);
        let side = if self.location == "remote" { "across the link" } else { "beside the CPU" };
        let whose = if self.elapsed_ns.is_some() { format!("{}:", self.device) } else { "Simulated".into() };
        format!("{whose} {kind} engine {side}, mode {}, {n} write and {n} read channels", self.mode)
    }

    fn result(&self) -> String {
        match &self.error {
            Some(error) => format!("FAILED: {error}"),
            None if self.verified => "ok: every byte was compared and is right".into(),
            None => "no errors reported; the data was not compared (--verify does)".into(),
        }
    }
}
