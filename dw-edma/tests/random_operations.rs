//! Random sequences of operations on channels, against a simple reference of what a dmaengine
//! channel promises; once on a device that works, once on one that fails in every way.
// Far too slow under Miri, and loom has its own test.
#![cfg(not(any(miri, loom)))]

mod common;

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::*;
use dw_edma::{ChannelId, Error, Format, ListMemory, Location, Mode, Peripheral};
use proptest::prelude::*;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::{
    Completion, Cookie, Descriptor, Direction, DmaChannel, Event, HeapPool, OwnedTransfers, PrepFlags,
    SgEntry, SlaveConfig, TxResult, TxStatus,
};
use tombolo_hal::error::Error as _;
use tombolo_hal::mmio::MmioNarrow;
use tombolo_sim::dw_edma::{Cause, RunningDoorbell, presets};
use tombolo_sim::fabric::Removal;
use tombolo_sim::host::SimDma;

const DESCRIPTORS: usize = 8;
const SEGMENTS: usize = 32;
/// Longest segment in bytes: a few bursts.
const LONGEST: u16 = 300;
const ARENA: usize = 128 << 10;
/// Where a sticky configuration that nobody uses points.
const TRAP: usize = 0xf_0000;

/// `PROPTEST_CASES` decides how many cases run, if it is set.
fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = wanted.unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Default::default() }
}

/// The engine and how it is driven.
#[derive(Clone, Debug)]
struct Setup {
    format: Format,
    location: Location,
    irqs: Irqs,
    msi: bool,
    channels: usize,
    elements: usize,
    prefetch: usize,
    remembered: bool,
    lazy: bool,
    burst: u32,
    posted_ns: u64,
    seed: u64,
}

fn setup() -> impl Strategy<Value = Setup> {
    let kind = (
        prop::sample::select(&Format::ALL[..]),
        prop::sample::select(&[Location::Local, Location::Remote][..]),
        prop::sample::select(&[Irqs::One, Irqs::PerChannel, Irqs::Polling][..]),
        any::<bool>(),
    );
    let engine = (0usize..5, 3usize..14, 1usize..=8, any::<bool>(), any::<bool>(), 6u32..10);
    (kind, engine, prop::sample::select(&[0u64, 0, 700][..]), any::<u64>()).prop_map(
        |(
            (format, location, irqs, msi),
            (channels, elements, prefetch, remembered, lazy, burst),
            posted_ns,
            seed,
        )| {
            Setup {
                format,
                location,
                irqs,
                msi,
                channels,
                elements,
                prefetch,
                remembered,
                lazy,
                burst: 1 << burst,
                posted_ns,
                seed,
            }
        },
    )
}

impl Setup {
    fn rig(&self) -> Rig {
        let format = sim_format(self.format);
        let mut params = match self.location {
            Location::Local => presets::local(format, 2, 2),
            Location::Remote => presets::remote(format, 2, 2),
        };
        params.prefetch = self.prefetch;
        params.burst_bytes = self.burst;
        params.lazy_llp = self.lazy;
        if self.remembered {
            params.running_doorbell = RunningDoorbell::Remembered;
        }
        if self.msi {
            params.msix_vectors = 0;
        }
        let rig = Rig::new(params, self.location, self.irqs, self.seed);
        rig.function.delay_posted_writes(self.posted_ns);
        rig
    }

    fn ids(&self) -> &'static [ChannelId] {
        const W0: ChannelId = ChannelId::write(0);
        const R0: ChannelId = ChannelId::read(0);
        const ALL: [&[ChannelId]; 5] =
            [&[W0], &[R0], &[W0, R0], &[W0, ChannelId::write(1)], &[ChannelId::read(1), W0]];
        ALL[self.channels]
    }

    /// Bytes of list memory: 72, the smallest, for three elements with the link.
    fn list_bytes(&self) -> usize {
        self.elements * dw_edma::ELEMENT_SIZE
    }
}

// ---------------------------------------------------------------- a device that works

#[derive(Clone, Debug)]
enum Op {
    Prep { segments: Vec<u16>, quiet: bool, non_list: bool, sticky: bool },
    Cyclic { period: u16, count: u8 },
    Discard,
    Submit,
    Issue,
    Pause,
    Resume,
    Terminate,
    Quiescent,
    Pop(u8),
    Poll,
    Advance(u32),
    Configure { mode: Option<Mode> },
}

fn op() -> impl Strategy<Value = Op> {
    let segments = prop::collection::vec(1..=LONGEST, 1..7);
    prop_oneof![
        8 => (segments, any::<bool>(), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(segments, quiet, non_list, sticky)| Op::Prep { segments, quiet, non_list, sticky }),
        1 => (1u16..200, 1u8..6).prop_map(|(period, count)| Op::Cyclic { period, count }),
        1 => Just(Op::Discard),
        8 => Just(Op::Submit),
        8 => Just(Op::Issue),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
        1 => Just(Op::Terminate),
        2 => Just(Op::Quiescent),
        5 => (1u8..5).prop_map(Op::Pop),
        1 => Just(Op::Poll),
        8 => (1u32..6_000).prop_map(Op::Advance),
        1 => prop::sample::select(&[None, Some(Mode::List), Some(Mode::NonList)][..])
            .prop_map(|mode| Op::Configure { mode }),
    ]
}

/// What the reference knows of a transfer.
struct Transfer {
    /// Offset in the arena and length of each segment.
    segments: Vec<(usize, usize)>,
    /// Offset of the first byte on the device side.
    device: usize,
    quiet: bool,
    cyclic: bool,
    cookie: Option<Cookie>,
    /// The hardware may know of it.
    issued: bool,
    /// It was issued while the channel was paused.
    held: bool,
    next_period: u32,
}

impl Transfer {
    fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.1).sum()
    }
}

/// What the bytes of a transfer are: they differ from byte to byte and from transfer to transfer.
fn byte(transfer: usize, index: usize) -> u8 {
    let x = (transfer * 31 + index).wrapping_mul(0x9e37_79b1);
    (x >> 11) as u8 | 1
}

/// What a destination holds before; no transfer moves it.
const UNTOUCHED: u8 = 0;

/// One channel and its reference.
struct Lane {
    id: ChannelId,
    ch: Chan,
    direction: Direction,
    arena: Coherent<SimDma>,
    next_memory: usize,
    next_device: usize,
    transfers: Vec<Transfer>,
    prepared: VecDeque<(usize, Descriptor)>,
    submitted: VecDeque<usize>,
    issued: VecDeque<usize>,
    paused: bool,
    sticky: bool,
    last_cookie: u32,
    /// Periods reported so far.
    periods: usize,
    /// What [`until`] waits for: so few issued transfers, so many periods.
    goal: (usize, usize),
}

impl Lane {
    fn new(rig: &mut Rig, setup: &Setup, id: ChannelId) -> Self {
        let arena = Coherent::new(rig.dma.clone(), ARENA, &DmaConstraints::any()).unwrap();
        Self {
            id,
            ch: rig.open_with(id, setup.list_bytes(), DESCRIPTORS, SEGMENTS),
            direction: rig.direction(id),
            arena,
            next_memory: 0,
            next_device: 0,
            transfers: Vec::new(),
            prepared: VecDeque::new(),
            submitted: VecDeque::new(),
            issued: VecDeque::new(),
            paused: false,
            sticky: false,
            last_cookie: 0,
            periods: 0,
            goal: (0, 0),
        }
    }

    /// Transfers that hold memory of the pool.
    fn held(&self) -> impl Iterator<Item = usize> + '_ {
        self.prepared
            .iter()
            .map(|p| p.0)
            .chain(self.submitted.iter().copied())
            .chain(self.issued.iter().copied())
    }

    fn has_room(&self, segments: usize) -> bool {
        let (mut descriptors, mut used) = (1, segments);
        for index in self.held() {
            descriptors += 1;
            used += self.transfers[index].segments.len();
        }
        descriptors <= DESCRIPTORS && used <= SEGMENTS
    }

    fn entry(&self, offset: usize, len: usize) -> SgEntry {
        let address = self.arena.device_address().checked_add(offset as u64).unwrap();
        // SAFETY: the arena stays mapped for the whole test and is only accessed word by word.
        unsafe { SgEntry::from_raw(address, len as u64) }
    }

    /// Places a new transfer in memory and fills its source.
    fn place(&mut self, rig: &Rig, lens: &[usize], quiet: bool, cyclic: bool) -> Option<usize> {
        let total: usize = lens.iter().sum();
        let index = self.transfers.len();
        let mut at = self.next_memory;
        let mut segments = Vec::new();
        for len in lens {
            segments.push((at, *len));
            at += if cyclic { *len } else { len + 1 + index % 5 };
        }
        if at + 8 > ARENA || self.next_device + total + 8 > TRAP {
            return None;
        }
        let transfer = Transfer {
            segments,
            device: self.next_device,
            quiet,
            cyclic,
            cookie: None,
            issued: false,
            held: false,
            next_period: 0,
        };
        self.next_memory = at + 3;
        self.next_device += total + index % 3;
        let data: Vec<u8> = (0..total).map(|i| byte(index, i)).collect();
        match self.direction {
            Direction::DevToMem => rig.device_write(self.id, transfer.device, &data),
            Direction::MemToDev => {
                for (place, value) in places(&transfer).zip(&data) {
                    self.arena.write8(place, *value);
                }
            }
        }
        self.transfers.push(transfer);
        Some(index)
    }

    /// Checks bytes of a transfer's destination.
    fn check(&self, rig: &Rig, index: usize, range: core::ops::Range<usize>, moved: bool) {
        let transfer = &self.transfers[index];
        let got: Vec<u8> = match self.direction {
            Direction::DevToMem => {
                places(transfer).skip(range.start).take(range.len()).map(|p| self.arena.read8(p)).collect()
            }
            Direction::MemToDev => rig.device_read(self.id, transfer.device + range.start, range.len()),
        };
        for (i, value) in range.zip(got) {
            let want = if moved { byte(index, i) } else { UNTOUCHED };
            assert_eq!(value, want, "{}: transfer {index}, byte {i}", self.id);
        }
    }

    fn config(&self, rig: &Rig, offset: usize, mode: Option<Mode>) -> SlaveConfig<Peripheral> {
        SlaveConfig { peripheral: Peripheral { mode }, ..rig.config(self.id, offset as u64) }
    }

    fn prep(&mut self, rig: &Rig, lens: &[u16], quiet: bool, mode: Option<Mode>, sticky: bool) {
        let lens: Vec<usize> = lens.iter().map(|len| usize::from(*len)).collect();
        let room = self.has_room(lens.len());
        let Some(index) = self.place(rig, &lens, quiet, false) else { return };
        let transfer = &self.transfers[index];
        let sg: Vec<SgEntry> = transfer.segments.iter().map(|s| self.entry(s.0, s.1)).collect();
        let flags = if quiet { PrepFlags::QUIET } else { PrepFlags::INTERRUPT };
        let config = self.config(rig, transfer.device, mode);
        let result = if sticky {
            self.ch.configure(&config).unwrap();
            self.sticky = true;
            self.ch.prep_slave_sg(&sg, self.direction, flags)
        } else {
            let before = self.ch.configuration();
            let result = self.ch.prep_slave_sg_config(&sg, self.direction, flags, Some(&config));
            assert_eq!(self.ch.configuration(), before);
            result
        };
        self.prepared(index, room, result);
    }

    fn prep_cyclic(&mut self, rig: &Rig, period: usize, count: usize) {
        let room = self.has_room(count);
        let Some(index) = self.place(rig, &vec![period; count], false, true) else { return };
        let transfer = &self.transfers[index];
        let buffer = self.entry(transfer.segments[0].0, period * count);
        let config = self.config(rig, transfer.device, None);
        self.ch.configure(&config).unwrap();
        self.sticky = true;
        let result = self.ch.prep_dma_cyclic(buffer, period as u64, self.direction, PrepFlags::INTERRUPT);
        self.prepared(index, room, result);
    }

    fn prepared(&mut self, index: usize, room: bool, result: Result<Descriptor, Error>) {
        match result {
            Ok(descriptor) => {
                assert!(room, "prepared more than the pool holds");
                self.prepared.push_back((index, descriptor));
            }
            Err(Error::NoSpace(_)) => assert!(!room, "the pool has leaked"),
            Err(error) => panic!("{error}"),
        }
    }

    fn submit(&mut self) {
        let Some((index, descriptor)) = self.prepared.pop_front() else { return };
        let cookie = self.ch.submit(descriptor).unwrap();
        assert!(cookie.get() > self.last_cookie, "cookies grow");
        self.last_cookie = cookie.get();
        self.transfers[index].cookie = Some(cookie);
        self.submitted.push_back(index);
    }

    fn issue(&mut self) {
        for index in &self.submitted {
            let transfer = &mut self.transfers[*index];
            (transfer.issued, transfer.held) = (true, self.paused);
        }
        self.issued.append(&mut self.submitted);
        self.ch.issue_pending();
    }

    fn resume(&mut self) {
        self.paused = false;
        self.issued.iter().for_each(|index| self.transfers[*index].held = false);
        self.ch.resume().unwrap();
    }

    fn status(&self, index: usize) -> TxStatus {
        let transfer = &self.transfers[index];
        let state = self.ch.status(transfer.cookie.unwrap());
        assert!(state.residue <= transfer.bytes() as u64);
        state.status
    }

    /// What had finished before is reported at once; nothing else ever is.
    fn terminate(&mut self, rig: &Rig) {
        self.ch.terminate_all().unwrap();
        self.paused = false;
        self.issued.append(&mut self.submitted);
        while self.pop(rig) {}
        self.issued.clear();
    }

    fn pop(&mut self, rig: &Rig) -> bool {
        let Some(completion) = self.ch.pop_completed() else { return false };
        let Completion { cookie, event, result, residue } = completion;
        let index = *self.issued.front().expect("something completed that was not issued");
        let transfer = &mut self.transfers[index];
        assert_eq!(Some(cookie), transfer.cookie, "out of order");
        assert_eq!((result, residue), (TxResult::NoError, 0));
        match event {
            Event::Period { index: period } => {
                assert!(transfer.cyclic && period == transfer.next_period);
                let count = transfer.segments.len() as u32;
                transfer.next_period = (period + 1) % count;
                let len = transfer.segments[0].1;
                let from = period as usize * len;
                self.periods += 1;
                self.check(rig, index, from..from + len, true);
            }
            Event::Finished => {
                assert!(!transfer.cyclic, "an endless transfer has ended");
                assert!(!transfer.held, "a paused channel was given work");
                let bytes = transfer.bytes();
                self.issued.pop_front();
                self.check(rig, index, 0..bytes, true);
                assert!(!matches!(self.status(index), TxStatus::InProgress | TxStatus::Paused));
            }
        }
        true
    }

    fn counted(&self, rig: &Rig) -> u64 {
        rig.handle.channel(sim_dir(self.id.kind), u16::from(self.id.index)).bytes
    }

    /// A channel at rest moves nothing.
    fn quiescent(&mut self, rig: &Rig) -> bool {
        let quiet = self.ch.is_quiescent();
        if quiet {
            let before = self.counted(rig);
            rig.fabric.advance(5_000);
            assert_eq!(self.counted(rig), before, "moved data while quiescent");
        }
        quiet
    }

    fn queued(&self) -> Vec<usize> {
        self.submitted.iter().chain(&self.issued).copied().collect()
    }

    fn apply(&mut self, rig: &mut Rig, op: &Op) {
        let native = rig.shared.config().format == Format::HdmaNative;
        match op {
            Op::Prep { segments, quiet, non_list, sticky } => {
                let mode = (*non_list && native).then_some(Mode::NonList);
                self.prep(rig, segments, *quiet, mode, *sticky);
            }
            Op::Cyclic { period, count } => self.prep_cyclic(rig, usize::from(*period), usize::from(*count)),
            Op::Discard => {
                if let Some((_, descriptor)) = self.prepared.pop_back() {
                    self.ch.discard(descriptor);
                }
            }
            Op::Submit => self.submit(),
            Op::Issue => self.issue(),
            Op::Pause => {
                self.ch.pause().unwrap();
                self.paused = true;
            }
            Op::Resume => self.resume(),
            Op::Terminate => self.terminate(rig),
            Op::Quiescent => {
                self.quiescent(rig);
            }
            Op::Pop(count) => {
                for _ in 0..*count {
                    self.pop(rig);
                }
            }
            Op::Poll => self.ch.poll_hardware().unwrap(),
            Op::Advance(ns) => rig.fabric.advance(u64::from(*ns)),
            Op::Configure { mode } => self.configure(rig, *mode, native),
        }
        for index in self.queued() {
            assert!(self.status(index) != TxStatus::Unknown, "a queued transfer was forgotten");
        }
    }

    /// A configuration that no prepared transfer may be changed by.
    fn configure(&mut self, rig: &Rig, mode: Option<Mode>, native: bool) {
        let before = self.ch.configuration();
        let config = self.config(rig, TRAP, mode);
        match self.ch.configure(&config) {
            Ok(()) => {
                assert!(native || mode != Some(Mode::NonList));
                assert_eq!(self.ch.configuration(), Some(config));
            }
            Err(Error::Unsupported(_)) => {
                assert!(!native && mode == Some(Mode::NonList));
                assert_eq!(self.ch.configuration(), before);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Where the bytes of a transfer are in the arena.
fn places(transfer: &Transfer) -> impl Iterator<Item = usize> + '_ {
    transfer.segments.iter().flat_map(|(at, len)| *at..at + len)
}

/// Lets time pass, and takes what interrupts bring, until all lanes reach their goal. Never looks at
/// the hardware.
fn until(rig: &Rig, lanes: &mut [Lane], what: &str) {
    let done = |lane: &Lane| lane.issued.len() <= lane.goal.0 && lane.periods >= lane.goal.1;
    let mut idle = 0;
    while !lanes.iter().all(done) {
        let mut news = false;
        for lane in lanes.iter_mut() {
            while !done(lane) && lane.pop(rig) {
                news = true;
            }
        }
        idle = if news { 0 } else { idle + 1 };
        if idle == 200 {
            let stats: Vec<_> = lanes.iter().map(|l| (l.id, l.ch.stats(), l.issued.len())).collect();
            panic!("{what}: nothing comes any more: {stats:#?} {:?}", rig.handle.counters());
        }
        rig.fabric.advance(1_000);
    }
}

/// How many at the front of the queue must finish although nobody asks the hardware: up to the last
/// that wants an interrupt, or to an endless one.
fn promised(lane: &Lane) -> usize {
    let wants = |index: &usize| !lane.transfers[*index].quiet;
    match lane.issued.iter().position(|index| lane.transfers[*index].cyclic) {
        Some(cyclic) => cyclic,
        None => lane.issued.iter().rposition(wants).map_or(0, |last| last + 1),
    }
}

fn drain(rig: &mut Rig, lanes: &mut [Lane]) {
    for lane in lanes.iter_mut() {
        while let Some((_, descriptor)) = lane.prepared.pop_front() {
            lane.ch.discard(descriptor);
        }
        lane.issue();
        lane.resume();
        lane.goal.0 = lane.issued.len() - promised(lane);
    }
    until(rig, lanes, "issued transfers");
    for lane in lanes.iter_mut() {
        if let Some(index) = lane.issued.front().copied().filter(|i| lane.transfers[*i].cyclic) {
            lane.goal.1 = lane.periods + 2 * lane.transfers[index].segments.len() + 1;
        }
    }
    until(rig, lanes, "periods");
    for lane in lanes.iter_mut() {
        if lane.issued.front().is_some_and(|index| lane.transfers[*index].cyclic) {
            lane.terminate(rig);
        }
        lane.goal.0 = 0;
        finish_quiet(rig, lane);
    }
    until(rig, lanes, "quiet transfers");
    for lane in lanes.iter_mut() {
        assert!((0..100).any(|_| lane.quiescent(rig)), "{} does not come to rest", lane.id);
    }
}

/// Only transfers without an interrupt are left: one with an interrupt brings them.
fn finish_quiet(rig: &mut Rig, lane: &mut Lane) {
    for _ in 0..100 {
        if lane.has_room(1) {
            break;
        }
        lane.ch.poll_hardware().unwrap();
        while lane.pop(rig) {}
        rig.fabric.advance(1_000);
    }
    lane.prep(rig, &[64], false, None, false);
    lane.submit();
    lane.issue();
}

/// After everything has ended.
fn check_end(rig: &Rig, lane: &mut Lane) {
    for (index, transfer) in lane.transfers.iter().enumerate() {
        if !transfer.issued {
            lane.check(rig, index, 0..transfer.bytes(), false);
        }
    }
    let stats = *lane.ch.stats();
    assert_eq!((stats.failed, stats.violations), (0, 0), "{stats:?}");
    let trap = rig.device_read(lane.id, TRAP, 4096);
    assert!(trap.iter().all(|byte| *byte == 0), "a queued transfer took a later configuration");
    // The pool has everything back: all segments in one transfer, then all descriptors.
    let config = lane.config(rig, 0, None);
    for (transfers, segments) in [(1, SEGMENTS), (DESCRIPTORS, 1)] {
        let sg = vec![lane.entry(0, 1); segments];
        let all: Vec<Descriptor> = (0..transfers)
            .map(|_| {
                lane.ch
                    .prep_slave_sg_config(&sg, lane.direction, PrepFlags::INTERRUPT, Some(&config))
                    .unwrap()
            })
            .collect();
        all.into_iter().for_each(|descriptor| lane.ch.discard(descriptor));
    }
}

fn free(channel: Chan) {
    let Ok(list) = channel.close() else { panic!("a channel at rest does not close") };
    if let AnyList::Ram(memory) = list.into_inner() {
        memory.free();
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// Cookies complete in order, once each, with the right result and data, and none after it was
    /// terminated; interrupts alone bring all that was promised; what was not issued is not touched;
    /// the pool gets everything back; a channel at rest is at rest.
    #[test]
    fn a_channel_keeps_its_promises(setup in setup(), ops in prop::collection::vec((0usize..2, op()), 1..50)) {
        let mut rig = setup.rig();
        let ids = setup.ids();
        let mut lanes: Vec<Lane> = ids.iter().map(|id| Lane::new(&mut rig, &setup, *id)).collect();
        for (lane, op) in &ops {
            lanes[lane % ids.len()].apply(&mut rig, op);
        }
        drain(&mut rig, &mut lanes);
        lanes.iter_mut().for_each(|lane| check_end(&rig, lane));
        for lane in lanes {
            free(lane.ch);
            lane.arena.free();
        }
        assert_clean(&rig);
        prop_assert!(rig.control.close().is_ok());
    }
}

// ---------------------------------------------------------------- a device that fails

#[derive(Clone, Debug)]
enum Fault {
    LoseNext(u8),
    LoseHalf,
    Spurious(u8),
    AbortAfter(u16, Cause),
    GarbageLlp(u64),
    /// Into the list, that many bytes from its start.
    NearLlp(i16),
    DoneWithoutWork,
    CorruptReads(u8),
    CorruptWrites,
    IommuNext(u8),
    Hang,
    Remove(Removal),
    DelayWrites(u16),
    Clear,
}

#[derive(Clone, Debug)]
enum RoughOp {
    Transfer { segments: Vec<u16>, quiet: bool, non_list: bool },
    Cyclic { period: u16, count: u8 },
    Issue,
    Pause,
    Resume,
    Terminate,
    Pop(u8),
    PopTerminated,
    Quiescent,
    Poll,
    Advance(u32),
    Reset,
    Fault(Fault),
}

fn cause() -> impl Strategy<Value = Cause> {
    use Cause::*;
    prop::sample::select(
        &[
            AppRead,
            AppWrite,
            ListFetch,
            UnsupportedRequest,
            CompleterAbort,
            CompletionTimeout,
            Poisoned,
            LinkWrite,
        ][..],
    )
}

fn fault() -> impl Strategy<Value = Fault> {
    let removal = prop_oneof![
        Just(Removal::Now),
        (1u64..60).prop_map(Removal::AfterMmio),
        (1u64..60).prop_map(Removal::AfterDma)
    ];
    prop_oneof![
        4 => (1u8..4).prop_map(Fault::LoseNext),
        2 => Just(Fault::LoseHalf),
        4 => (0u8..5).prop_map(Fault::Spurious),
        4 => (1u16..900, cause()).prop_map(|(bytes, cause)| Fault::AbortAfter(bytes, cause)),
        3 => prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)].prop_map(Fault::GarbageLlp),
        3 => (-48i16..500).prop_map(|bytes| Fault::NearLlp(bytes / 4 * 4)),
        3 => Just(Fault::DoneWithoutWork),
        2 => (1u8..60).prop_map(Fault::CorruptReads),
        1 => Just(Fault::CorruptWrites),
        3 => (1u8..5).prop_map(Fault::IommuNext),
        1 => Just(Fault::Hang),
        1 => removal.prop_map(Fault::Remove),
        1 => (0u16..3_000).prop_map(Fault::DelayWrites),
        4 => Just(Fault::Clear),
    ]
}

fn rough_op() -> impl Strategy<Value = RoughOp> {
    let segments = prop::collection::vec(1..=LONGEST, 1..7);
    prop_oneof![
        8 => (segments, any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(segments, quiet, non_list)| RoughOp::Transfer { segments, quiet, non_list }),
        1 => (1u16..200, 1u8..6).prop_map(|(period, count)| RoughOp::Cyclic { period, count }),
        6 => Just(RoughOp::Issue),
        1 => Just(RoughOp::Pause),
        2 => Just(RoughOp::Resume),
        2 => Just(RoughOp::Terminate),
        4 => (1u8..5).prop_map(RoughOp::Pop),
        2 => Just(RoughOp::PopTerminated),
        1 => Just(RoughOp::Quiescent),
        3 => Just(RoughOp::Poll),
        6 => (1u32..6_000).prop_map(RoughOp::Advance),
        1 => Just(RoughOp::Reset),
        6 => fault().prop_map(RoughOp::Fault),
    ]
}

type Small = OwnedTransfers<Chan, SimDma, Vec<u8>, DESCRIPTORS, 8>;

/// A channel with the buffers of its transfers.
struct Rough {
    id: ChannelId,
    ch: Box<Small>,
    list: u64,
    /// Cookie and number of buffers of what is in flight.
    pending: VecDeque<(Cookie, usize)>,
    /// Buffers that are with the channel.
    buffers: usize,
}

impl Rough {
    fn new(rig: &mut Rig, setup: &Setup, id: ChannelId) -> Self {
        let list = rig.list(id, setup.list_bytes()).into_inner();
        let address = match &list {
            AnyList::Ram(memory) => memory.device_address().into(),
            AnyList::Bar(window) => tombolo_hal::EngineAddr::new(rig.device_base() + window.base() as u64),
            AnyList::None => unreachable!(),
        };
        let list = ListMemory::new(list, address).map_err(|refused| refused.error).unwrap();
        let ch = rig.control.open_channel(id, list, HeapPool::new(DESCRIPTORS, SEGMENTS)).unwrap();
        Self { id, ch: Box::new(Small::new(ch)), list: address.value(), pending: VecDeque::new(), buffers: 0 }
    }

    fn transfer(&mut self, rig: &Rig, segments: &[u16], quiet: bool, mode: Option<Mode>) {
        let direction = rig.direction(self.id);
        let buffers: ArrayVec<_, 8> =
            segments.iter().map(|len| rig.prepare(vec![7; usize::from(*len)], direction)).collect();
        let config = SlaveConfig { peripheral: Peripheral { mode }, ..rig.config(self.id, 0) };
        let flags = if quiet { PrepFlags::QUIET } else { PrepFlags::INTERRUPT };
        match self.ch.submit(buffers, direction, flags, Some(&config)) {
            Ok(cookie) => self.submitted(cookie, segments.len()),
            Err(refused) => assert_eq!(refused.buffers.len(), segments.len()),
        }
    }

    fn cyclic(&mut self, rig: &Rig, period: usize, count: usize) {
        let direction = rig.direction(self.id);
        let buffer = rig.prepare(vec![7; period * count], direction);
        self.ch.configure(&rig.config(self.id, 0)).unwrap();
        match self.ch.submit_cyclic(buffer, period as u64, direction, PrepFlags::INTERRUPT) {
            Ok(cookie) => self.submitted(cookie, 1),
            Err(refused) => assert_eq!(refused.buffers.len(), 1),
        }
    }

    fn submitted(&mut self, cookie: Cookie, buffers: usize) {
        self.pending.push_back((cookie, buffers));
        self.buffers += buffers;
    }

    /// Whatever the device does, cookies end in order and once each, with all their buffers.
    fn pop(&mut self) -> bool {
        let Some(finished) = self.ch.pop_finished() else { return false };
        let at = self.pending.iter().position(|p| p.0 == finished.completion.cookie);
        let at = at.expect("a cookie that is not in flight has ended");
        if finished.completion.event == Event::Finished {
            assert_eq!(at, 0, "out of order");
            let (_, buffers) = self.pending.remove(at).unwrap();
            assert_eq!(finished.buffers.len(), buffers);
            self.buffers -= buffers;
        }
        true
    }

    fn pop_some(&mut self) {
        // An endless transfer may have more to report each time.
        let _ = (0..2 * DESCRIPTORS).all(|_| self.pop());
    }

    fn pop_terminated(&mut self) -> bool {
        let Some(buffers) = self.ch.pop_terminated() else { return false };
        self.buffers -= buffers.len();
        true
    }

    /// Drops it all. What had ended before is reported at once; nothing else ever is.
    fn terminate(&mut self) {
        check_error(self.ch.terminate_all());
        while self.pop() {}
        self.pending.clear();
    }

    fn apply(&mut self, rig: &mut Rig, op: &RoughOp) {
        let native = rig.shared.config().format == Format::HdmaNative;
        match op {
            RoughOp::Transfer { segments, quiet, non_list } => {
                let mode = (*non_list && native).then_some(Mode::NonList);
                self.transfer(rig, segments, *quiet, mode);
            }
            RoughOp::Cyclic { period, count } => self.cyclic(rig, usize::from(*period), usize::from(*count)),
            RoughOp::Issue => self.ch.issue_pending(),
            RoughOp::Pause => check_error(self.ch.pause()),
            RoughOp::Resume => check_error(self.ch.resume()),
            RoughOp::Terminate => self.terminate(),
            RoughOp::Pop(count) => {
                let _ = (0..*count).all(|_| self.pop());
            }
            RoughOp::PopTerminated => {
                self.pop_terminated();
            }
            RoughOp::Quiescent => {
                self.ch.is_quiescent();
            }
            RoughOp::Poll => check_error(self.ch.poll_hardware()),
            RoughOp::Advance(ns) => rig.fabric.advance(u64::from(*ns)),
            RoughOp::Reset => reset(rig),
            RoughOp::Fault(fault) => self.fault(rig, fault),
        }
    }

    /// A transfer brings its data, by interrupts alone.
    fn check_transfer(&mut self, rig: &Rig) {
        let direction = rig.direction(self.id);
        let data = pattern(5, 700);
        let start = match direction {
            Direction::MemToDev => data.clone(),
            Direction::DevToMem => vec![0; data.len()],
        };
        if direction == Direction::DevToMem {
            rig.device_write(self.id, 64, &data);
        }
        let buffers = cut(&start, 7).into_iter().map(|piece| rig.prepare(piece, direction)).collect();
        let config = rig.config(self.id, 64);
        let cookie = self.ch.submit(buffers, direction, PrepFlags::INTERRUPT, Some(&config)).unwrap();
        self.ch.issue_pending();
        let finished = (0..200).find_map(|_| {
            rig.fabric.advance(1_000);
            self.ch.pop_finished()
        });
        let finished = finished.expect("nothing comes after a reset");
        assert_eq!((finished.completion.cookie, finished.completion.result), (cookie, TxResult::NoError));
        let back: Vec<u8> = finished.buffers.into_iter().flat_map(|b| b.into_inner()).collect();
        let got =
            if direction == Direction::DevToMem { back } else { rig.device_read(self.id, 64, data.len()) };
        assert!(got == data, "wrong data after a reset");
    }

    fn fault(&self, rig: &Rig, fault: &Fault) {
        let (function, handle) = (&rig.function, &rig.handle);
        let (dir, number) = (sim_dir(self.id.kind), u16::from(self.id.index));
        match fault {
            Fault::LoseNext(count) => function.lose_next_interrupts(u64::from(*count)),
            Fault::LoseHalf => function.lose_interrupts(0.5),
            Fault::Spurious(vector) => function.spurious_interrupt(u16::from(*vector)),
            Fault::AbortAfter(bytes, cause) => handle.abort_after(dir, number, u64::from(*bytes), *cause),
            Fault::GarbageLlp(value) => handle.garbage_llp(dir, number, *value),
            Fault::NearLlp(bytes) => {
                handle.garbage_llp(dir, number, self.list.wrapping_add_signed(i64::from(*bytes)));
            }
            Fault::DoneWithoutWork => handle.done_without_work(dir, number),
            Fault::CorruptReads(percent) => function.corrupt_reads(f64::from(*percent) / 100.0),
            Fault::CorruptWrites => function.corrupt_dma_writes(0.5),
            Fault::IommuNext(count) => function.iommu_fault_next(u64::from(*count)),
            Fault::Hang => handle.hang(dir, number),
            Fault::Remove(when) => function.surprise_remove(*when),
            Fault::DelayWrites(ns) => function.delay_posted_writes(u64::from(*ns)),
            Fault::Clear => clear(rig),
        }
    }
}

fn check_error(result: Result<(), Error>) {
    if let Err(error) = result {
        // Every error has its kind and says something.
        let _ = error.kind();
        assert!(!error.to_string().is_empty());
    }
}

fn clear(rig: &Rig) {
    rig.handle.clear_faults();
    rig.function.lose_next_interrupts(0);
    rig.function.lose_interrupts(0.0);
    rig.function.corrupt_reads(0.0);
    rig.function.corrupt_dma_writes(0.0);
    rig.function.iommu_fault_next(0);
    rig.function.delay_posted_writes(0);
}

fn reset(rig: &mut Rig) {
    rig.function.reset_and_restore();
    check_error(rig.control.after_reset(&rig.irq));
}

fn accesses(rig: &Rig) -> u64 {
    let counters = rig.function.counters();
    counters.mmio_reads() + counters.mmio_writes() + counters.unclaimed
}

/// No operation takes more accesses than a small number and some for each list element.
const STEPS: u64 = 400;

fn rough_run(setup: &Setup, ops: &[(usize, RoughOp)]) {
    let mut rig = setup.rig();
    let ids = setup.ids();
    let mut lanes: Vec<Rough> = ids.iter().map(|id| Rough::new(&mut rig, setup, *id)).collect();
    for (lane, op) in ops {
        let before = accesses(&rig);
        lanes[lane % ids.len()].apply(&mut rig, op);
        let steps = accesses(&rig) - before;
        assert!(steps <= STEPS, "{op:?} took {steps} accesses");
    }
    if ops.iter().any(|(_, op)| matches!(op, RoughOp::Fault(Fault::Remove(_)))) {
        // One that was to be removed later is removed now.
        rig.function.surprise_remove(Removal::Now);
    }
    recover(&mut rig, &mut lanes);
    for lane in lanes {
        assert_eq!((lane.buffers, lane.ch.in_flight(), lane.pending.len()), (0, 0, 0), "{}", lane.id);
        let Ok(channel) = (*lane.ch).into_channel() else { panic!("buffers are missing") };
        free(channel);
    }
    assert!(rig.control.close().is_ok());
}

/// The device is reset, or is gone for good: everything ends, and a channel of a device that is
/// there works.
fn recover(rig: &mut Rig, lanes: &mut [Rough]) {
    clear(rig);
    let removed = rig.function.is_removed();
    if removed {
        rig.fabric.advance(10_000);
        assert!(rig.control.after_reset(&rig.irq).is_err());
    } else {
        rig.function.reset_and_restore();
        rig.control.after_reset(&rig.irq).unwrap();
    }
    for lane in lanes.iter_mut() {
        check_error(lane.ch.resume());
        lane.ch.issue_pending();
    }
    for _ in 0..400 {
        for lane in lanes.iter_mut() {
            lane.pop_some();
            if removed {
                check_error(lane.ch.poll_hardware());
            }
            while lane.pop_terminated() {}
        }
        rig.fabric.advance(1_000);
    }
    for lane in lanes.iter_mut() {
        // An endless transfer never ends by itself, nor is anything behind it begun; quiet ones may
        // wait for a later interrupt.
        lane.terminate();
        for _ in 0..100 {
            lane.pop_some();
            while lane.pop_terminated() {}
            rig.fabric.advance(1_000);
        }
        assert_eq!(lane.ch.in_flight(), 0, "{}: buffers are kept", lane.id);
        if !removed {
            lane.check_transfer(rig);
        }
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// Whatever the device does: no panic, no operation without end, no cookie that ends twice, out
    /// of order or was never submitted, every buffer back; and after a reset everything works again.
    #[test]
    fn a_device_that_fails_does_no_harm(
        setup in setup(),
        ops in prop::collection::vec((0usize..2, rough_op()), 1..50),
    ) {
        rough_run(&setup, &ops);
    }
}
