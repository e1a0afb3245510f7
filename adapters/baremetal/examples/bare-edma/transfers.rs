//! Random transfers on every channel.

use arrayvec::ArrayVec;
use dw_edma::{
    Channel, ChannelId, ChannelKind, Controller, Desc, ListMemory, Location, Segment, direction_of,
};
use tombolo_baremetal::clock::{Counter, microseconds_since};
use tombolo_baremetal::rt::{Machine, Memory as Buffer, Pool};
use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{
    ArrayPool, Direction, OwnedTransfers, PrepFlags, RefusedReason, SlaveConfig, TxResult,
};
use tombolo_hal::mmio::{Mmio, RawMmio, Window};

use crate::bring_up::{Engine, Error};
use crate::options::Options;
use crate::report::Report;

/// Channels that are used.
const CHANNELS: usize = 16;
/// Segments of a transfer.
const SEGMENTS: usize = 16;
/// Longest transfer.
const LONGEST: usize = 64 << 10;
/// How long a transfer may take, in microseconds: the machine may be an emulated one.
const LIMIT_US: u64 = 20_000_000;

type Storage = ArrayPool<Desc, Segment, 2, 32>;
type Transfers<L> = OwnedTransfers<Channel<Engine, L, Storage>, &'static Pool, Buffer, 1, SEGMENTS>;

pub fn all(shared: Engine) -> impl Iterator<Item = ChannelId> {
    let ids = move |kind| (0..shared.channel_count(kind)).map(move |i| ChannelId { kind, index: i as u8 });
    ChannelKind::ALL.into_iter().flat_map(ids).take(CHANNELS)
}

/// The device's memory, cut evenly: the first half of a channel's part is its list's.
pub struct Memory {
    window: RawMmio,
    base: EngineAddr,
    part: u64,
}

impl Memory {
    pub fn new(window: RawMmio, base: EngineAddr, channels: u16) -> Self {
        let part = (window.size() as u64 / u64::from(channels.max(1))) & !0xfff;
        Self { window, base, part }
    }

    fn at(&self, offset: u64) -> Result<EngineAddr, Error> {
        self.base.checked_add(offset).ok_or(Error::NoDeviceMemory)
    }

    /// The list of channel `number`.
    pub fn list(&self, number: usize) -> Result<ListMemory<Window<RawMmio>>, Error> {
        let offset = number as u64 * self.part;
        let size = (self.part / 2).min(0x1000) as usize;
        let window = Window::new(self.window).sub(offset as usize, size);
        let window = window.map_err(|_| Error::Transfer("the device's memory is too small for lists"))?;
        ListMemory::behind_bar(window, self.at(offset)?)
            .map_err(|refused| dw_edma::Error::from(refused).into())
    }

    /// Where the data of pair `number` is, `room` bytes at least.
    fn data(&self, number: usize, skip: u64) -> Result<EngineAddr, Error> {
        if self.part / 2 < LONGEST as u64 * 2 {
            return Err(Error::Transfer("the device's memory is too small for data"));
        }
        self.at(number as u64 * self.part + self.part / 2 + skip)
    }

    /// Overwrites the data of pair `number`, so that old data cannot pass for new.
    fn spoil(&self, number: usize, skip: u64, len: usize) {
        let start = number as u64 * self.part + self.part / 2 + skip;
        let words = (start & !3..start + len as u64).step_by(4);
        words.for_each(|at| self.window.write32_relaxed(at as usize, 0xdead_beef));
    }
}

/// xorshift64*, by George Marsaglia and Sebastiano Vigna.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 1 to `limit`.
    fn up_to(&mut self, limit: usize) -> usize {
        1 + (self.next() >> 33) as usize % limit.max(1)
    }
}

/// What goes out on a read channel and comes back on a write channel.
struct Job {
    len: usize,
    skip: u64,
    seed: u64,
}

impl Job {
    /// Byte `at` of the data.
    fn byte(&self, at: usize) -> u8 {
        let word = self.seed.wrapping_add(at as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word >> (8 * (at & 7))) as u8 ^ at as u8
    }
}

pub fn run<L: Mmio + 'static>(
    machine: &'static Machine,
    control: &mut Controller<Engine>,
    memory: &Memory,
    list: impl Fn(usize) -> Result<ListMemory<L>, Error>,
    options: &Options,
    report: &mut Report,
) -> Result<(), Error> {
    let mut sides: [ArrayVec<Transfers<L>, { CHANNELS / 2 }>; 2] = [ArrayVec::new(), ArrayVec::new()];
    for (number, id) in all(control.shared()).enumerate() {
        let channel = control.open_channel(id, list(number)?, Storage::default())?;
        let side = usize::from(id.kind == ChannelKind::Read);
        let full = Error::Transfer("more channels of a kind than this example uses");
        sides[side].try_push(OwnedTransfers::new(channel)).map_err(|_| full)?;
    }
    let [back, out] = &mut sides;
    let mut random = Random(options.seed | 1);
    let start = machine.clock().ticks();
    let pairs = out.len().max(back.len());
    for _ in 0..options.rounds {
        round(machine, memory, out, back, pairs, &mut random, report)?;
    }
    report.microseconds = microseconds_since(&machine.clock(), start);
    for transfers in sides.into_iter().flatten() {
        report.found_by_looking += transfers.channel().stats().found_by_looking;
        close(machine, transfers)?;
    }
    Ok(())
}

/// A transfer on every channel: each pair of a read and a write channel moves its own data. Where there are fewer of
/// a kind, they serve several pairs, one after the other.
fn round<L: Mmio>(
    machine: &'static Machine,
    memory: &Memory,
    out: &mut [Transfers<L>],
    back: &mut [Transfers<L>],
    pairs: usize,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), Error> {
    let mut jobs = ArrayVec::<Job, { CHANNELS / 2 }>::new();
    for pair in 0..pairs {
        let len = if random.next() & 3 == 0 { random.up_to(64) } else { random.up_to(LONGEST) };
        let job = Job { len, skip: random.next() & 0xfff, seed: random.next() };
        memory.spoil(pair, job.skip, len);
        jobs.push(job);
    }
    for (side, direction) in [(out, Direction::MemToDev), (back, Direction::DevToMem)] {
        let count = side.len();
        if count == 0 {
            return Err(Error::Transfer("the engine has no channel of one kind: nothing comes back"));
        }
        let jobs = jobs.iter().enumerate().collect::<ArrayVec<_, { CHANNELS / 2 }>>();
        for group in jobs.chunks(count) {
            for ((pair, job), transfers) in group.iter().zip(side.iter_mut()) {
                submit(machine, memory, transfers, direction, *pair, job, random)?;
            }
            for ((_, job), transfers) in group.iter().zip(side.iter_mut()) {
                finish(machine, transfers, direction, job, report)?;
            }
        }
    }
    Ok(())
}

fn submit<L: Mmio>(
    machine: &'static Machine,
    memory: &Memory,
    transfers: &mut Transfers<L>,
    direction: Direction,
    pair: usize,
    job: &Job,
    random: &mut Random,
) -> Result<(), Error> {
    let id = transfers.channel().id();
    if direction_of(Location::Remote, id.kind) != direction {
        return Err(Error::Transfer("a channel of the wrong kind"));
    }
    let mapped = match direction {
        Direction::MemToDev => DataDirection::ToDevice,
        Direction::DevToMem => DataDirection::FromDevice,
    };
    let any = DmaConstraints::any();
    let mut buffers = ArrayVec::<_, SEGMENTS>::new();
    let mut done = 0;
    while done < job.len {
        let left = job.len - done;
        let last = buffers.remaining_capacity() == 1;
        let len = if last { left } else { random.up_to(left) };
        let mut buffer = machine.dma().buffer(len, &any)?;
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = if direction == Direction::MemToDev { job.byte(done + at) } else { 0xa5 };
        }
        let prepared = Streaming::prepare(machine.dma(), buffer, mapped, &any);
        buffers.push(prepared.map_err(|refused| refused.error)?);
        done += len;
    }
    let config = SlaveConfig::at(memory.data(pair, job.skip)?);
    let submitted = transfers.submit(buffers, direction, PrepFlags::INTERRUPT, Some(&config));
    submitted.map_err(|refused| match refused.reason {
        RefusedReason::Channel(error) => Error::Edma(error),
        _ => Error::Transfer("a transfer was refused: there is no room for it"),
    })?;
    transfers.issue_pending();
    Ok(())
}

fn finish<L: Mmio>(
    machine: &'static Machine,
    transfers: &mut Transfers<L>,
    direction: Direction,
    job: &Job,
    report: &mut Report,
) -> Result<(), Error> {
    let start = machine.clock().ticks();
    let finished = loop {
        // With interrupts this looks at what the handler collected, not at the device: an interrupt that does not
        // come is a failure.
        if let Some(finished) = transfers.pop_finished() {
            break finished;
        }
        if transfers.channel().is_polled() {
            transfers.poll_hardware().map_err(|_| Error::Transfer("the device is gone"))?;
        }
        if microseconds_since(&machine.clock(), start) > LIMIT_US {
            return Err(Error::Transfer("a transfer did not end in time: no interrupt came"));
        }
        core::hint::spin_loop();
    };
    report.transfers += 1;
    report.bytes += job.len as u64;
    if finished.completion.result != TxResult::NoError || finished.completion.residue != 0 {
        report.failed += 1;
    }
    let mut at = 0;
    let mut wrong = 0;
    for buffer in finished.buffers {
        let buffer = buffer.into_inner();
        if direction == Direction::DevToMem {
            wrong += buffer.iter().enumerate().filter(|(i, byte)| **byte != job.byte(at + i)).count();
        }
        at += buffer.len();
    }
    report.mismatches += u64::from(wrong != 0 || at != job.len);
    Ok(())
}

fn close<L: Mmio>(machine: &Machine, mut transfers: Transfers<L>) -> Result<(), Error> {
    let stopped = transfers.synchronize(&mut machine.delay(), 100_000);
    stopped.map_err(|_| Error::Transfer("a channel does not come to rest"))?;
    let channel = transfers.into_channel().map_err(|_| Error::Transfer("a transfer is still in flight"))?;
    channel.close().map_err(|(_, error)| error)?;
    Ok(())
}
