//! One run of `tombolo dma`: what is asked for, whether it can be, and doing it.

use clap::ValueEnum;
use dw_edma::{ChannelId, ChannelKind, Format, Location, Peripheral};
use tombolo_hal::irq::IrqMode;

use crate::Usage;
use crate::cyclic::Cyclic;
use crate::data::{self, Data};
use crate::device::Found;
use crate::device_side::GUARD;
use crate::fault::{Armed, Fault};
use crate::machine::{DEVICE_MEMORY_MAX, RigSpec, lists_bytes, memory_bytes};
use crate::pace::{Limits, Pacer};
use crate::plan::{DEPTH_MAX, Plan, SEGMENTS_MAX, Work};
use crate::platform::Platform;
use crate::progress::Progress;
use crate::report::Report;
use crate::rig::{Rig, RigError};
use crate::simulated::Simulated;
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
    /// The device that was opened; a simulated one is made to fit.
    pub device: Option<Found>,
    /// Where the engine finds the device's memory, if the device does not say.
    pub device_memory: Option<u64>,
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
        if let Some(text) = self.device.as_ref().and_then(|device| self.device_objection(device)) {
            return Some(text);
        }
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
                "--irq intx: an engine across the link writes messages; the pin is for --location local"
                    .into(),
            );
        }
        if let Some(text) = self.fault.and_then(|fault| fault.conflict(self.irq.into())) {
            return Some(text.into());
        }
        self.bad_number().or_else(|| self.bad_size())
    }

    /// What the opened device rules out.
    fn device_objection(&self, device: &Found) -> Option<String> {
        let Found { name, format, channels, knows_memory, .. } = device;
        if self.format != *format {
            return Some(format!("--format {}: {name} is {format}", self.format));
        }
        if self.location == Location::Local {
            return Some(format!("--location local: the engine of {name} is across the link"));
        }
        if self.fault.is_some() {
            return Some(format!("--fault: only simulated devices can be made to fail, {name} is not one"));
        }
        if self.channels == 0 || self.channels > *channels {
            return Some(format!("--channels {}: {name} has 1 to {channels} of each kind", self.channels));
        }
        if self.mode != Mode::NonLl && !knows_memory {
            return Some(format!(
                "--mode {}: {name} does not say where its engine finds list memory; \
                 only --mode non-ll with --device-memory works",
                self.mode.name()
            ));
        }
        if !knows_memory && self.device_memory.is_none() {
            return Some(format!(
                "{name} does not say where its engine finds the memory behind BAR 2: --device-memory ADDRESS \
                 (0x5000000000 for models of `tombolo serve`)"
            ));
        }
        None
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
        if let Some(device) = &self.device {
            return self.too_large_for(device);
        }
        if self.slot_bytes() > DEVICE_MEMORY_MAX || memory_bytes(&self.spec()) > DEVICE_MEMORY_MAX {
            let mib = DEVICE_MEMORY_MAX >> 20;
            return Some(format!(
                "--size {} for {} channels is more than the simulated device's memory of {mib} MiB",
                self.size,
                2 * self.channels
            ));
        }
        None
    }

    /// Whether one buffer of each channel and the lists do not fit into a device's memory.
    fn too_large_for(&self, device: &Found) -> Option<String> {
        let needed = lists_bytes(&self.spec()).saturating_add(self.slot_bytes());
        (needed > device.memory_bytes).then(|| {
            format!(
                "--size {} for {} channels and their lists is {needed} bytes, {} has {} behind its BAR",
                self.size,
                2 * self.channels,
                device.name,
                device.memory_bytes
            )
        })
    }

    /// Bytes on the device side for one transfer of every channel.
    fn slot_bytes(&self) -> u64 {
        self.size.saturating_add(2 * GUARD).saturating_mul(2 * u64::from(self.channels))
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
        let room = self.device.as_ref().map_or(u64::MAX, |device| {
            let lists = lists_bytes(&self.place());
            device.memory_bytes.saturating_sub(lists) / self.slot_bytes().max(1)
        });
        let most = DEPTH_MAX.min(self.iterations as usize) as u64;
        (IN_FLIGHT_BYTES / one).min(room).clamp(1, most) as usize
    }

    /// The machine that the job needs.
    pub(crate) fn spec(&self) -> RigSpec {
        RigSpec { data_bytes: self.slot_bytes().saturating_mul(self.slots() as u64), ..self.place() }
    }

    /// The machine without its data.
    fn place(&self) -> RigSpec {
        RigSpec {
            format: self.format,
            location: self.location,
            irq: self.irq.into(),
            channels: self.channels,
            list_elements: self.list_elements,
            data_bytes: 0,
            device_memory: self.device_memory,
            seed: self.seed,
        }
    }

    /// Does it on a simulated machine, and tells how it went.
    pub fn run(&self) -> Report {
        self.run_on(Simulated::new)
    }

    /// Does it on the platform that `platform` gives, and tells how it went.
    pub fn run_on<P: Platform>(&self, platform: impl FnOnce(&RigSpec) -> Result<P, RigError>) -> Report {
        let mut report = Report::new(self);
        if let Err(error) = self.try_run(platform, &mut report) {
            report.problem(error.to_string());
        }
        report
    }

    fn try_run<P: Platform>(
        &self,
        platform: impl FnOnce(&RigSpec) -> Result<P, RigError>,
        report: &mut Report,
    ) -> Result<(), RigError> {
        let progress = Progress::new(self.total_bytes());
        progress.say(&format!("{} {}", self.format, self.mode.name()));
        let spec = self.spec();
        let mut rig = Rig::new(platform(&spec)?, spec)?;
        report.vectors(&rig);
        let limits = self.limits(&rig);
        let armed = Armed::new(&rig.platform, self.fault, self.size, self.total_bytes());
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

    fn limits<P: Platform>(&self, rig: &Rig<P>) -> Limits {
        let bytes = self.size.saturating_mul(u64::from(self.channels)).saturating_mul(self.slots() as u64);
        Limits::new(rig, self.timeout_ms, bytes, u64::from(self.iterations))
    }

    fn drive<P: Platform>(
        &self,
        rig: &mut Rig<P>,
        pacer: Pacer,
        progress: &Progress,
    ) -> Result<(Tally, Pacer), RigError> {
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
