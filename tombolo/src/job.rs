//! One run of `tombolo dma`: what is asked for, whether it can be, and doing it.

use clap::ValueEnum;
use dw_edma::{ChannelId, ChannelKind, Format, Location, Peripheral};
use tombolo_hal::irq::IrqMode;

use crate::Usage;
use crate::cyclic::Cyclic;
use crate::data::{self, Data};
use crate::device_side::GUARD;
use crate::fault::{Armed, Fault};
use crate::machine::{DEVICE_MEMORY_MAX, RigSpec, memory_bytes};
use crate::pace::{Limits, Pacer};
use crate::plan::{DEPTH_MAX, Plan, SEGMENTS_MAX, Work};
use crate::progress::Progress;
use crate::report::Report;
use crate::rig::{Rig, RigError};
use crate::tally::Tally;
use crate::transfers::Runner;

/// Bytes in flight in all, if one transfer of each channel is not more already.
const IN_FLIGHT_BYTES: u64 = 128 << 20;
/// Elements of a linked list that can be asked for.
const LIST_ELEMENTS: std::ops::RangeInclusive<usize> = 2..=4096;

/// How transfers are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Through the linked list
    Ll,
    /// From registers, segment by segment (hdma-native only)
    NonLl,
    /// Endless, with a report for each period of the buffer
    Cyclic,
}

impl Mode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Ll => "ll",
            Mode::NonLl => "non-ll",
            Mode::Cyclic => "cyclic",
        }
    }
}

/// How completions reach the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Irq {
    /// MSI-X, a vector for each channel
    Msix,
    /// MSI, up to 32 vectors
    Msi,
    /// The shared pin (only with --location local)
    Intx,
    /// None: the driver looks at the device
    Polling,
}

impl From<Irq> for IrqMode {
    fn from(irq: Irq) -> Self {
        match irq {
            Irq::Msix => IrqMode::MsiX,
            Irq::Msi => IrqMode::Msi,
            Irq::Intx => IrqMode::Intx,
            Irq::Polling => IrqMode::Polling,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Register map.
    pub format: Format,
    /// How transfers are carried out.
    pub mode: Mode,
    /// On which side of the link the driver runs.
    pub location: Location,
    /// How completions arrive.
    pub irq: Irq,
    /// Channels of each kind.
    pub channels: u16,
    /// Bytes of one transfer, or of the buffer of a cyclic one.
    pub size: u64,
    /// Segments of one transfer, or periods of a cyclic one.
    pub sg: usize,
    /// Transfers of each channel, or rounds of a cyclic one.
    pub iterations: u32,
    /// Whether data is compared.
    pub verify: bool,
    /// Decides all chance.
    pub seed: u64,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Data elements of each list.
    pub list_elements: usize,
    /// Milliseconds of silence after which a channel is given up.
    pub timeout_ms: Option<u64>,
}

impl Job {
    /// The job, if there can be one.
    ///
    /// # Errors
    /// [`Usage`] with what is wrong.
    pub fn checked(self) -> Result<Self, Usage> {
        match self.objection() {
            Some(text) => Err(Usage(text)),
            None => Ok(self),
        }
    }

    fn objection(&self) -> Option<String> {
        let most = self.format.max_channels();
        if self.channels == 0 || self.channels > most {
            return Some(format!(
                "--channels {}: {} has 1 to {most} of each kind",
                self.channels, self.format
            ));
        }
        if self.mode == Mode::NonLl && self.format != Format::HdmaNative {
            return Some(format!(
                "--mode non-ll needs --format hdma-native; {} works by lists only",
                self.format
            ));
        }
        if self.irq == Irq::Intx && self.location == Location::Remote {
            return Some(
                "--irq intx needs --location local: an engine across the link writes messages".into(),
            );
        }
        if let Some(text) = self.fault.and_then(|fault| fault.conflict(self.irq.into())) {
            return Some(text.into());
        }
        self.bad_number().or_else(|| self.bad_size())
    }

    fn bad_number(&self) -> Option<String> {
        let (first, last) = (LIST_ELEMENTS.start(), LIST_ELEMENTS.end());
        if !LIST_ELEMENTS.contains(&self.list_elements) {
            return Some(format!("--list-elements {}: {first} to {last} are possible", self.list_elements));
        }
        if self.iterations == 0 {
            return Some("--iterations 0: nothing would be moved".into());
        }
        if self.timeout_ms == Some(0) {
            return Some("--timeout 0: nothing can be that fast".into());
        }
        if self.sg == 0 || self.sg > SEGMENTS_MAX {
            return Some(format!("--sg {}: 1 to {SEGMENTS_MAX} are possible", self.sg));
        }
        None
    }

    fn bad_size(&self) -> Option<String> {
        if self.size < self.sg as u64 {
            return Some(format!(
                "--size {} is too small for {} pieces of a byte or more",
                self.size, self.sg
            ));
        }
        if self.mode == Mode::Cyclic && !self.size.is_multiple_of(self.sg as u64) {
            return Some(format!("--size {} cannot be cut into {} equal periods (--sg)", self.size, self.sg));
        }
        let all = (self.size.saturating_add(2 * GUARD)).saturating_mul(2 * u64::from(self.channels));
        if all > DEVICE_MEMORY_MAX || memory_bytes(&self.spec()) > DEVICE_MEMORY_MAX {
            let mib = DEVICE_MEMORY_MAX >> 20;
            return Some(format!(
                "--size {} for {} channels is more than the simulated device's memory of {mib} MiB",
                self.size,
                2 * self.channels
            ));
        }
        None
    }

    /// Bytes of one period.
    pub fn period(&self) -> u64 {
        self.size / self.sg as u64
    }

    /// Bytes that all channels move.
    pub fn total_bytes(&self) -> u64 {
        self.size.saturating_mul(u64::from(self.iterations)).saturating_mul(2 * u64::from(self.channels))
    }

    /// The stream of a channel's transfer or round.
    pub fn stream(&self, id: ChannelId, index: u64) -> u64 {
        let kind = u64::from(id.kind == ChannelKind::Read);
        data::mix(index + 1) ^ (kind << 8 | u64::from(id.index))
    }

    /// Where the data of a channel's slot is on the device side.
    pub fn device_offset(&self, lane: usize, slot: usize) -> u64 {
        let number = (lane * self.slots() + slot) as u64;
        GUARD + number * (self.size + 2 * GUARD)
    }

    /// Transfers of one channel in flight at once.
    fn slots(&self) -> usize {
        if self.mode == Mode::Cyclic {
            return 1;
        }
        let one = self.size.saturating_mul(2 * u64::from(self.channels)).max(1);
        (IN_FLIGHT_BYTES / one).clamp(1, DEPTH_MAX.min(self.iterations as usize) as u64) as usize
    }

    /// The machine that the job needs.
    fn spec(&self) -> RigSpec {
        let lanes = 2 * u64::from(self.channels);
        let buffer = self.size + 2 * GUARD;
        RigSpec {
            format: self.format,
            location: self.location,
            irq: self.irq.into(),
            channels: self.channels,
            list_elements: self.list_elements,
            data_bytes: buffer * lanes * self.slots() as u64,
            seed: self.seed,
        }
    }

    /// Does it, and tells how it went.
    pub fn run(&self) -> Report {
        let mut report = Report::new(self);
        if let Err(error) = self.try_run(&mut report) {
            report.problem(error.to_string());
        }
        report
    }

    fn try_run(&self, report: &mut Report) -> Result<(), RigError> {
        let progress = Progress::new(self.total_bytes());
        progress.say(&format!("{} {}", self.format, self.mode.name()));
        let mut rig = Rig::new(self.spec())?;
        report.vectors(&rig);
        let limits = self.limits(&rig);
        let armed = Armed::new(&rig, self.fault, self.size, self.total_bytes());
        let pacer = Pacer::new(&rig, limits, armed);
        let result = self.drive(&mut rig, pacer, &progress);
        drop(progress);
        match result {
            Ok((tally, pacer)) => report.tell(&rig, &tally, pacer.armed()),
            Err(error) => report.problem(error.to_string()),
        }
        report.leaks(&rig);
        rig.shut_down()
    }

    fn limits(&self, rig: &Rig) -> Limits {
        let bytes = self.size.saturating_mul(u64::from(self.channels)).saturating_mul(self.slots() as u64);
        Limits::new(rig, self.timeout_ms, bytes, u64::from(self.iterations))
    }

    fn drive(&self, rig: &mut Rig, pacer: Pacer, progress: &Progress) -> Result<(Tally, Pacer), RigError> {
        match self.mode {
            Mode::Cyclic => Cyclic::new(rig, self, pacer, progress).run(),
            Mode::Ll | Mode::NonLl => Runner::new(rig, self, Data::Pattern(self.seed), pacer, progress).run(),
        }
    }
}

impl Plan for Job {
    fn channels(&self) -> Vec<ChannelId> {
        let kinds = ChannelKind::ALL.into_iter();
        kinds.flat_map(|kind| (0..self.channels).map(move |i| ChannelId { kind, index: i as u8 })).collect()
    }

    fn count(&self, _lane: usize) -> usize {
        self.iterations as usize
    }

    fn work(&self, lane: usize, index: usize) -> Work {
        let (channels, slot) = (usize::from(self.channels), index % self.slots());
        let (kind, number) = (ChannelKind::ALL[lane / channels], lane % channels);
        let id = ChannelId { kind, index: number as u8 };
        Work {
            stream: self.stream(id, index as u64),
            at: 0,
            offset: self.device_offset(lane, slot),
            // By slot, so that buffers fit again.
            lengths: data::cut(
                self.size as usize,
                self.sg,
                data::mix(self.seed) ^ (lane * DEPTH_MAX + slot) as u64,
            ),
        }
    }

    fn depth(&self) -> usize {
        self.slots()
    }

    fn verify(&self) -> bool {
        self.verify
    }

    fn fills_device(&self) -> bool {
        true
    }

    fn peripheral(&self) -> Peripheral {
        let mode = if self.mode == Mode::NonLl { dw_edma::Mode::NonList } else { dw_edma::Mode::List };
        Peripheral { mode: Some(mode) }
    }
}
