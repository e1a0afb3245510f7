//! A device that answers every read with arbitrary bytes, and a channel that is driven anyhow.
//!
//! Whatever happens: no panic, no operation without end, no cookie that ends twice, out of order or
//! was never submitted, and every buffer comes back as it was (this device moves nothing).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arbitrary::{Arbitrary, Unstructured};
use arrayvec::ArrayVec;
use dw_edma::{
    Channel, ChannelId, ChannelKind, Config, Controller, Desc, Error, Format, ListMemory, Location, Mode,
    Peripheral, Segment, Shared, Vectors,
};
use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{Coherent, DataDirection, DmaBackend, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{Cookie, Direction, Event, HeapPool, OwnedTransfers, PrepFlags, SlaveConfig};
use tombolo_hal::fake::HeapDma;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{Mmio, Window};

/// Most accesses that one operation may take.
const STEPS: usize = 600;
const TRANSFERS: usize = 6;
/// More than what a channel can have to report after a run: a few periods for each access of the device.
const MOST_EVENTS: usize = 10_000;
const SEGMENTS: usize = 4;

/// What the device answers.
struct Script {
    bytes: Vec<u8>,
    at: usize,
    /// Answers of before, for a device that says the same again.
    last: u32,
    list: u32,
    accesses: usize,
    /// It behaves: four channels of each kind, at rest.
    tame: bool,
}

impl Script {
    fn take(&mut self) -> u32 {
        let value = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        u32::from(value)
    }

    /// Wholly arbitrary words seldom get far, so some answers are near the truth.
    fn answer(&mut self) -> u32 {
        self.accesses += 1;
        if self.tame {
            return 0x0004_0004;
        }
        let kind = self.take();
        self.last = match kind & 7 {
            0 => 0,
            1 => self.last,
            // A state: of v0 in bits 6:5, of native in bits 1:0.
            2 => (kind >> 3 & 3) * 0x21,
            // A place in the list, or nearly.
            3 | 4 => self.list.wrapping_add(24 * (self.take() & 0x1f)).wrapping_add(kind >> 7),
            // Events of the first channels.
            5 => self.take() & 0xf | (kind & 0x78) << 13,
            6 if kind & 0x80 != 0 => u32::MAX,
            _ => self.take() | self.take() << 8 | self.take() << 16 | self.take() << 24,
        };
        self.last
    }
}

#[derive(Clone)]
struct Hostile(Arc<Mutex<Script>>);

impl Hostile {
    fn lock(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

impl Mmio for Hostile {
    fn size(&self) -> usize {
        0x1_0000
    }
    fn read32(&self, offset: usize) -> u32 {
        assert!(offset % 4 == 0 && offset < self.size());
        self.lock().answer()
    }
    fn write32(&self, offset: usize, _value: u32) {
        assert!(offset % 4 == 0 && offset < self.size());
        self.lock().accesses += 1;
    }
}

struct Source(IrqMode);

impl IrqSource for Source {
    fn mode(&self) -> IrqMode {
        self.0
    }
    fn vectors(&self) -> u16 {
        4
    }
    fn message(&self, vector: u16) -> Option<MsiMessage> {
        Some(MsiMessage { address: 0xfee0_0000, data: u32::from(vector) })
    }
    fn message_epoch(&self) -> u32 {
        0
    }
}

#[derive(Arbitrary, Debug)]
struct Setup {
    format: u8,
    remote: bool,
    polling: bool,
    read: bool,
    index: u8,
    elements: u8,
    answers: u16,
    /// Hostile from the start, and not only once the channel is open.
    wild: bool,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Transfer { lens: [u8; SEGMENTS], count: u8, quiet: bool, non_list: bool },
    Cyclic { period: u8, count: u8 },
    Issue,
    Irq,
    Pop,
    Poll,
    Pause,
    Resume,
    Terminate,
    PopTerminated,
    Quiescent,
    Reset,
}

type Engine = Shared<Hostile, SpinLock>;
type Chan = Channel<Arc<Engine>, Coherent<HeapDma>, HeapPool<Desc, Segment>>;

struct Case {
    device: Hostile,
    dma: HeapDma,
    shared: Arc<Engine>,
    control: Controller<Arc<Engine>>,
    irq: Source,
    ch: OwnedTransfers<Chan, HeapDma, Vec<u8>, TRANSFERS, SEGMENTS>,
    direction: Direction,
    stamp: u8,
    /// What is in flight: cookie and the byte that its buffers are full of.
    pending: VecDeque<(Cookie, u8)>,
}

impl Case {
    fn new(setup: &Setup, answers: &[u8]) -> Result<Self, Error> {
        let script =
            Script { bytes: answers.to_vec(), at: 0, last: 0, list: 0, accesses: 0, tame: !setup.wild };
        let device = Hostile(Arc::new(Mutex::new(script)));
        let format = Format::ALL[usize::from(setup.format & 3)];
        let location = if setup.remote { Location::Remote } else { Location::Local };
        let channels = 1 + u16::from(setup.index & 3);
        let config = Config::new(format, location).channels(channels, channels);
        let shared = Arc::new(Shared::new(Window::new(device.clone()), SpinLock::new(), config)?);
        let mut control = Controller::new(shared.clone())?;
        let irq = Source(if setup.polling { IrqMode::Polling } else { IrqMode::Msi });
        control.connect(&irq, Vectors::PerChannel)?;
        let dma = HeapDma::new();
        let bytes = dw_edma::ELEMENT_SIZE * (3 + usize::from(setup.elements & 0x1f));
        let memory = Coherent::new(dma.clone(), bytes, &DmaConstraints::any().aligned(8)).unwrap();
        let address = EngineAddr::from(memory.device_address());
        device.lock().list = address.value() as u32;
        let kind = if setup.read { ChannelKind::Read } else { ChannelKind::Write };
        let id = ChannelId { kind, index: setup.index & 3 };
        let list = ListMemory::new(memory, address).map_err(|refused| refused.error)?;
        let ch = control.open_channel(id, list, HeapPool::new(TRANSFERS, 2 * TRANSFERS))?;
        device.lock().tame = false;
        let (ch, direction) = (OwnedTransfers::new(ch), dw_edma::direction_of(location, kind));
        Ok(Self { device, dma, shared, control, irq, ch, direction, stamp: 0, pending: VecDeque::new() })
    }

    fn buffer(&mut self, len: usize) -> Streaming<HeapDma, Vec<u8>, tombolo_hal::dma::Prepared> {
        let direction = match self.direction {
            Direction::MemToDev => DataDirection::ToDevice,
            Direction::DevToMem => DataDirection::FromDevice,
        };
        let data = vec![self.stamp; len];
        Streaming::prepare(self.dma.clone(), data, direction, &DmaConstraints::any()).unwrap()
    }

    fn transfer(&mut self, lens: &[u8], quiet: bool, mode: Option<Mode>) {
        self.stamp = self.stamp.wrapping_add(1);
        let buffers: ArrayVec<_, SEGMENTS> = lens.iter().map(|len| self.buffer(usize::from(*len))).collect();
        let config =
            SlaveConfig { peripheral: Peripheral { mode }, ..SlaveConfig::at(EngineAddr::new(0x8000)) };
        let flags = if quiet { PrepFlags::QUIET } else { PrepFlags::INTERRUPT };
        match self.ch.submit(buffers, self.direction, flags, Some(&config)) {
            Ok(cookie) => self.pending.push_back((cookie, self.stamp)),
            Err(refused) => assert_eq!(refused.buffers.len(), lens.len()),
        }
    }

    fn cyclic(&mut self, period: u8, count: u8) {
        self.stamp = self.stamp.wrapping_add(1);
        let buffer = self.buffer(usize::from(period) * usize::from(count));
        if self.ch.configure(&SlaveConfig::at(EngineAddr::new(0x8000))).is_err() {
            return;
        }
        let flags = PrepFlags::INTERRUPT;
        if let Ok(cookie) = self.ch.submit_cyclic(buffer, u64::from(period), self.direction, flags) {
            self.pending.push_back((cookie, self.stamp));
        }
    }

    fn pop(&mut self) -> bool {
        let Some(finished) = self.ch.pop_finished() else { return false };
        let front = self.pending.front().copied().expect("an end of nothing");
        assert_eq!(finished.completion.cookie, front.0, "out of order or never submitted");
        if finished.completion.event == Event::Finished {
            self.pending.pop_front();
            assert!(!finished.buffers.is_empty());
            for buffer in finished.buffers {
                assert!(buffer.into_inner().iter().all(|byte| *byte == front.1), "a buffer was changed");
            }
        }
        true
    }

    fn terminate(&mut self) {
        let _ = self.ch.terminate_all();
        // What had ended before is still reported: of a cyclic transfer each period that was seen to end.
        assert!((0..MOST_EVENTS).any(|_| !self.pop()), "a channel that was terminated reports without end");
        self.pending.clear();
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Transfer { lens, count, quiet, non_list } => {
                let count = usize::from(*count) % (SEGMENTS + 1);
                self.transfer(&lens[..count], *quiet, non_list.then_some(Mode::NonList));
            }
            Op::Cyclic { period, count } => self.cyclic(*period, count & 7),
            Op::Issue => self.ch.issue_pending(),
            Op::Irq => {
                self.shared.on_irq();
            }
            Op::Pop => {
                self.pop();
            }
            Op::Poll => drop(self.ch.poll_hardware()),
            Op::Pause => drop(self.ch.pause()),
            Op::Resume => drop(self.ch.resume()),
            Op::Terminate => self.terminate(),
            Op::PopTerminated => drop(self.ch.pop_terminated()),
            Op::Quiescent => {
                self.ch.is_quiescent();
            }
            Op::Reset => drop(self.control.after_reset(&self.irq)),
        }
    }
}

/// One run: the first bytes are the setup, then come the device's answers, the rest is what is done.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let answers = usize::from(setup.answers).min(input.len() / 2);
    let Ok(answers) = input.bytes(answers) else { return };
    let Ok(mut case) = Case::new(&setup, answers) else { return };
    while !input.is_empty() {
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        let before = case.device.lock().accesses;
        case.apply(&op);
        let steps = case.device.lock().accesses - before;
        assert!(steps <= STEPS, "{op:?} took {steps} accesses");
    }
    case.terminate();
    while case.ch.pop_terminated().is_some() {}
    // A device that never comes to rest keeps its buffers: they are quarantined and not reused.
    let kept = case.dma.mapped();
    let (dma, ch) = (case.dma.clone(), case.ch);
    match ch.into_channel() {
        Ok(channel) => {
            assert_eq!(kept, 0, "a buffer is missing");
            if let Ok(list) = channel.close() {
                list.into_inner().free();
            }
        }
        Err(ch) => drop(ch),
    }
    assert_eq!(dma.mapped(), kept, "a buffer in flight was unmapped");
    assert!(dma.quarantined() >= kept);
}
