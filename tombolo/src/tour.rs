//! What runs without arguments: a file's bytes to simulated devices and back, in all formats.

use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use dw_edma::{ChannelId, ChannelKind, Format, Location, Mode, Peripheral, direction_of};
use tombolo_hal::dmaengine::Direction;
use tombolo_hal::irq::IrqMode;

use crate::data::{self, Data};
use crate::device_side::GUARD;
use crate::fault::Armed;
use crate::machine::RigSpec;
use crate::pace::{Limits, Pacer};
use crate::plan::{Plan, Work};
use crate::progress::Progress;
use crate::rig::{Rig, RigError};
use crate::simulated::Simulated;
use crate::tally::Tally;
use crate::text::{bytes, per, time};
use crate::transfers::Runner;
use crate::{Usage, emit};

/// Bytes of generated data.
const GENERATED: usize = 8 << 20;
/// The largest file: the simulated device must hold it.
const INPUT_MAX: u64 = 256 << 20;
/// Channels of each kind.
const CHANNELS: u16 = 4;
/// Transfers on their way on one channel.
const DEPTH: usize = 4;
/// The largest transfer.
const CHUNK: usize = 256 << 10;
/// Segments of one transfer.
const SEGMENTS: usize = 16;
/// How completions arrive: a machine without these vectors is refused.
const IRQ: IrqMode = IrqMode::MsiX;
const SEED: u64 = 1;

/// Moves the bytes of `input`, or generated ones. Returns whether all data was right.
///
/// # Errors
/// [`Usage`] if the file cannot be used.
pub fn run(input: Option<&Path>) -> Result<bool, Usage> {
    let file = match input {
        Some(path) => read(path)?,
        None => generated(),
    };
    let what = match input {
        Some(path) => format!("the {} of {}", bytes(file.len() as u64), path.display()),
        None => format!("{} of generated data", bytes(file.len() as u64)),
    };
    emit(&format!(
        "Moving {what} to a simulated PCIe device and back,\n\
         by Tombolo's eDMA driver, in every register format of the engine ...\n"
    ));
    let began = Instant::now();
    let progress = Progress::new(2 * file.len() as u64 * stops().count() as u64);
    let results: Vec<(Stop, Tally)> = stops().map(|stop| (stop, stop.run(&file, &progress))).collect();
    drop(progress);
    emit(&table(&results));
    let right = results.iter().all(|(_, tally)| tally.error().is_none());
    emit(&conclusion(&results, began.elapsed().as_secs_f64()));
    Ok(right)
}

fn generated() -> Vec<u8> {
    let mut bytes = vec![0; GENERATED];
    Data::Pattern(SEED).fill(0, 0, &mut bytes);
    bytes
}

fn read(path: &Path) -> Result<Vec<u8>, Usage> {
    let fail = |error: std::io::Error| Usage(format!("cannot read {}: {error}", path.display()));
    // A size that a file claims need not be what comes out of it: devices and pipes claim none.
    let mut file = Vec::new();
    let source = std::fs::File::open(path).map_err(fail)?;
    source.take(INPUT_MAX + 1).read_to_end(&mut file).map_err(fail)?;
    if file.len() as u64 > INPUT_MAX {
        let most = bytes(INPUT_MAX);
        return Err(Usage(format!(
            "{} is larger than {most}, which is the most that the tour moves",
            path.display()
        )));
    }
    if file.is_empty() {
        return Err(Usage(format!("{} is empty: there is nothing to move", path.display())));
    }
    Ok(file)
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Stop {
    format: Format,
    mode: Mode,
}

/// All formats by lists, and the one that can also without.
fn stops() -> impl Iterator<Item = Stop> {
    let lists = Format::ALL.into_iter().map(|format| Stop { format, mode: Mode::List });
    lists.chain([Stop { format: Format::HdmaNative, mode: Mode::NonList }])
}

impl Stop {
    fn mode_name(self) -> &'static str {
        match self.mode {
            Mode::List => "ll",
            Mode::NonList => "non-ll",
        }
    }

    fn run(self, file: &[u8], progress: &Progress) -> Tally {
        let mut tally = Tally::default();
        if let Err(error) = self.there_and_back(file, progress, &mut tally) {
            tally.cause(error.to_string());
        }
        tally
    }

    fn there_and_back(self, file: &[u8], progress: &Progress, tally: &mut Tally) -> Result<(), RigError> {
        let leg = |direction| Leg { stop: self, direction, len: file.len() };
        let spec = RigSpec {
            format: self.format,
            location: Location::Remote,
            irq: IRQ,
            channels: CHANNELS,
            list_elements: 64,
            data_bytes: leg(Direction::MemToDev).device_bytes(),
            device_memory: None,
            seed: SEED,
        };
        let mut rig = Rig::new(Simulated::new(&spec)?, spec)?;
        for direction in [Direction::MemToDev, Direction::DevToMem] {
            let way = if direction == Direction::MemToDev { "there" } else { "back" };
            progress.say(&format!("{} {way}", self.format));
            let leg = leg(direction);
            let limits = Limits::new(&rig, None, file.len() as u64, 1);
            let pacer = Pacer::new(&rig, limits, Armed::none());
            let (one, _) = Runner::new(&mut rig, &leg, Data::Bytes(file), pacer, progress).run()?;
            tally.add(one);
        }
        if rig.counts().iommu_faults != 0 {
            tally.cause("the engine went outside of its buffers".into());
        }
        rig.shut_down()
    }
}

/// The file in one direction: chunk by chunk, dealt out to the channels in turn.
struct Leg {
    stop: Stop,
    direction: Direction,
    len: usize,
}

impl Leg {
    /// Bytes of all chunks but the last: small files are dealt out as well.
    fn chunk(&self) -> usize {
        let share = self.len.div_ceil(usize::from(CHANNELS) * DEPTH);
        share.clamp(1, CHUNK)
    }

    fn chunks(&self) -> usize {
        self.len.div_ceil(self.chunk())
    }

    /// Bytes from one chunk to the next on the device side, guards included.
    fn stride(&self) -> u64 {
        self.chunk() as u64 + 2 * GUARD
    }

    /// Bytes of all of them there.
    fn device_bytes(&self) -> u64 {
        self.chunks() as u64 * self.stride()
    }
}

impl Plan for Leg {
    fn channels(&self) -> Vec<ChannelId> {
        let kinds = ChannelKind::ALL.into_iter();
        let kind = kinds.filter(|kind| direction_of(Location::Remote, *kind) == self.direction);
        let all = kind.flat_map(|kind| (0..CHANNELS).map(move |i| ChannelId { kind, index: i as u8 }));
        all.take(self.chunks()).collect()
    }

    fn count(&self, lane: usize) -> usize {
        (self.chunks() - lane).div_ceil(usize::from(CHANNELS))
    }

    fn work(&self, lane: usize, index: usize) -> Work {
        let number = index * usize::from(CHANNELS) + lane;
        let at = number * self.chunk();
        let len = self.chunk().min(self.len - at);
        Work {
            stream: 0,
            at: at as u64,
            offset: GUARD + number as u64 * self.stride(),
            lengths: data::cut(len, SEGMENTS.min(len), number as u64),
        }
    }

    fn depth(&self) -> usize {
        DEPTH
    }

    fn verify(&self) -> bool {
        true
    }

    /// What went there comes back.
    fn fills_device(&self) -> bool {
        false
    }

    fn peripheral(&self) -> Peripheral {
        Peripheral { mode: Some(self.stop.mode) }
    }
}

fn table(results: &[(Stop, Tally)]) -> String {
    let head = "format      mode   chan xfers     bytes   interrupts MMIO/x      time  GB/s data";
    let mut lines = vec![head.to_owned(), "-".repeat(head.len())];
    for (stop, tally) in results {
        lines.push(format!(
            "{:<11} {:<6} {:>4} {:>5} {:>9} {:>12} {:>6} {:>9} {:>5} {}",
            stop.format.to_string(),
            stop.mode_name(),
            format!("{CHANNELS}+{CHANNELS}"),
            tally.transfers,
            bytes(tally.bytes),
            format!("{} {IRQ}", tally.interrupts),
            per(tally.mmio.iter().sum(), tally.transfers),
            time(tally.time_ns),
            // Bytes per nanosecond.
            format!("{:.2}", tally.bytes as f64 / tally.time_ns.max(1) as f64),
            if tally.error().is_none() { "ok" } else { "WRONG" },
        ));
    }
    lines.push("chan: write + read channels. MMIO/x: register and list accesses of the driver".into());
    lines.push("per transfer. Time and GB/s are those of the simulated device.".into());
    lines.join("\n")
}

fn conclusion(results: &[(Stop, Tally)], seconds: f64) -> String {
    let mut lines = vec![String::new()];
    let wrong = results.iter().filter_map(|(stop, tally)| Some((stop, tally.error()?)));
    for (stop, error) in wrong {
        lines.push(format!("{} {}: {error}", stop.format, stop.mode_name()));
    }
    let moved = bytes(results.iter().map(|(_, tally)| tally.bytes).sum());
    if lines.len() == 1 {
        lines.push(format!("All data was right: {moved} moved in {seconds:.1} s, every byte compared."));
        lines.push("Next, let something go wrong: cargo run --release -- dma --fault lost-irq".into());
    } else {
        lines.push("Some data was WRONG or did not arrive, see above.".into());
        lines.push("Next, look closer: cargo run --release -- -v dma --verify --format FORMAT".into());
    }
    lines.join("\n")
}
