//! Lists: the driver with a list of any size at any address and an engine that says to be anywhere in
//! it, and the model with anything in its list memory.
//!
//! The driver writes inside its list only and believes no position outside of what it handed out; the
//! model never panics, works a bounded number of events a list, and reaches nothing that it was not
//! given.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arbitrary::{Arbitrary, Unstructured};
use dw_edma::{ChannelId, Config, Controller, ElementControl, Format, ListMemory, Location, Shared, Vectors};
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::{Direction, DmaChannel, HeapPool, PrepFlags, SgEntry, SlaveConfig, TxResult};
use tombolo_hal::irq::PollingOnly;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{Caching, Mmio, Window};
use tombolo_hal::{DmaAddr, EngineAddr};
use tombolo_sim::dw_edma::{DwEdma, Params, presets};
use tombolo_sim::fabric::{Fabric, Machine, MachineConfig};
use tombolo_sim::host::SimDma;

// ---------------------------------------------------------------- the driver

/// An engine whose list pointer and state are whatever the input says.
#[derive(Clone)]
struct Anywhere(Arc<Answers>);

struct Answers {
    native: bool,
    pointer: AtomicU32,
    state: AtomicU32,
}

impl Mmio for Anywhere {
    fn size(&self) -> usize {
        0x1_0000
    }
    fn read32(&self, offset: usize) -> u32 {
        let state = self.0.state.load(Relaxed) & 3;
        match (self.0.native, offset) {
            (true, 0x10) | (false, 0x21c) => self.0.pointer.load(Relaxed),
            (true, 0x80) => state,
            (false, 0x200) => state << 5,
            (false, 0x08) => 1,
            _ => 0,
        }
    }
    fn write32(&self, _offset: usize, _value: u32) {}
}

/// List memory that refuses every access outside.
#[derive(Clone)]
struct Checked(Arc<Mutex<Vec<u32>>>);

impl Mmio for Checked {
    fn size(&self) -> usize {
        self.0.lock().unwrap().len() * 4
    }
    fn read32(&self, offset: usize) -> u32 {
        assert_eq!(offset % 4, 0);
        self.0.lock().unwrap()[offset / 4]
    }
    fn write32(&self, offset: usize, value: u32) {
        assert_eq!(offset % 4, 0);
        self.0.lock().unwrap()[offset / 4] = value;
    }
    fn caching(&self) -> Caching {
        Caching::Coherent
    }
}

#[derive(Arbitrary, Debug)]
struct Driver {
    native: bool,
    words: u8,
    address: u64,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Transfer {
        segments: u8,
    },
    /// The engine is that many bytes behind the list's start, in that state.
    Position {
        bytes: i16,
        state: u8,
    },
    Anywhere(u32),
    Look,
    Terminate,
}

const SEGMENTS: usize = 16;

fn driver(input: &Driver) {
    let engine = Answers { native: input.native, pointer: AtomicU32::new(0), state: AtomicU32::new(0) };
    let engine = Anywhere(Arc::new(engine));
    let format = if input.native { Format::HdmaNative } else { Format::Unroll };
    let config = Config::new(format, Location::Local).channels(1, 0);
    let shared = Shared::new(Window::new(engine.clone()), SpinLock::new(), config);
    let shared = Arc::new(shared.expect("this engine answers"));
    let mut control = Controller::new(shared).expect("nobody else controls it");
    control.connect(&PollingOnly, Vectors::One).expect("polling always works");
    let memory = Checked(Arc::new(Mutex::new(vec![0; usize::from(input.words)])));
    let address = EngineAddr::new(input.address);
    let list = match ListMemory::new(memory.clone(), address) {
        Ok(list) => list,
        Err(refused) => {
            let end = input.address.checked_add(memory.size() as u64);
            assert!(memory.size() < 72 || input.address % 8 != 0 || end.is_none(), "{}", refused.error);
            return;
        }
    };
    let slots = memory.size() / dw_edma::ELEMENT_SIZE - 1;
    let mut ch = control.open_channel(ChannelId::write(0), list, HeapPool::new(4, SEGMENTS)).unwrap();
    let base = input.address as u32;
    engine.0.pointer.store(base, Relaxed);
    let (mut submitted, mut ended) = (Vec::new(), 0);
    for step in &input.steps {
        match step {
            Step::Transfer { segments } => {
                // SAFETY: there is no engine that moves anything.
                let entry = unsafe { SgEntry::from_raw(DmaAddr::new(0x1000), 8) };
                let sg = vec![entry; usize::from(*segments) % SEGMENTS + 1];
                let config = SlaveConfig::at(EngineAddr::new(0x2000));
                let flags = PrepFlags::INTERRUPT;
                if let Ok(d) = ch.prep_slave_sg_config(&sg, Direction::MemToDev, flags, Some(&config)) {
                    submitted.push(ch.submit(d).unwrap());
                    ch.issue_pending();
                }
            }
            Step::Position { bytes, state } => {
                engine.0.pointer.store(base.wrapping_add_signed(i32::from(*bytes)), Relaxed);
                engine.0.state.store(u32::from(*state), Relaxed);
            }
            Step::Anywhere(pointer) => engine.0.pointer.store(*pointer, Relaxed),
            Step::Look => {
                let bytes = engine.0.pointer.load(Relaxed).wrapping_sub(base);
                let inside = bytes % 24 == 0 && bytes as usize / 24 <= slots;
                let _ = ch.poll_hardware();
                while let Some(completion) = ch.pop_completed() {
                    assert!(inside || completion.result != TxResult::NoError, "believed {bytes:#x}");
                    assert_eq!(completion.cookie, submitted[ended], "out of order");
                    ended += 1;
                }
            }
            Step::Terminate => {
                let _ = ch.terminate_all();
                while let Some(completion) = ch.pop_completed() {
                    assert_eq!(completion.cookie, submitted[ended], "out of order");
                    ended += 1;
                }
                ended = submitted.len();
            }
        }
    }
}

// ---------------------------------------------------------------- the model

#[derive(Arbitrary, Debug)]
struct Model {
    format: u8,
    read: bool,
    prefetch: u8,
    start: u16,
    owned: bool,
    elements: Vec<Element>,
    loose: Vec<u32>,
}

/// An element that goes somewhere, more often than loose words do.
#[derive(Arbitrary, Debug)]
struct Element {
    control: u8,
    size: u16,
    from: u16,
    to: u16,
}

const LIST: usize = 4096;
const DATA: usize = 8192;
/// Memory across the link.
const LINK: usize = 1 << 16;
/// Events of one list: elements may be linked in a ring for ever, so there is a limit.
const EVENTS: u64 = 3_000;

fn model(input: &Model) {
    let format = tombolo_sim::dw_edma::Format::ALL[usize::from(input.format & 3)];
    let params = Params {
        prefetch: usize::from(input.prefetch),
        memory_bytes: LINK as u64,
        ..presets::local(format, 1, 1)
    };
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig { ram_size: 1 << 17, ..Default::default() }).unwrap();
    let model = DwEdma::new(params);
    let handle = model.handle();
    let function = machine.attach(Box::new(model)).unwrap();
    function.enable();
    let any = DmaConstraints::any();
    let list = Coherent::new(function.dma(), LIST, &any).unwrap();
    let data = Coherent::new(function.dma(), DATA, &any).unwrap();
    let other = Coherent::new(another(&machine), DATA, &any).unwrap();
    fill(&list, &data, input);
    let registers = function.mmio(0).unwrap();
    let base = if format == tombolo_sim::dw_edma::Format::Legacy { 0x970 } else { 0x8_0000 };
    program(&registers, base, input, list.device_address().value() + u64::from(input.start) % LIST as u64);
    let progress = fabric.run_until_idle(EVENTS);
    assert!(progress.idle || progress.events == EVENTS);
    // All that it did beyond its own maps was refused.
    for word in 0..DATA / 4 {
        assert_eq!(other.read32(word * 4), 0, "memory of somebody else was written");
    }
    assert_eq!(handle.counters().bad_accesses, 0);
    list.free();
    data.free();
    other.free();
}

/// Memory of another function of the same machine.
fn another(machine: &Machine) -> SimDma {
    let format = tombolo_sim::dw_edma::Format::Unrolled;
    let params = Params { memory_bytes: LINK as u64, ..presets::local(format, 1, 0) };
    machine.attach(Box::new(DwEdma::new(params))).unwrap().dma()
}

fn fill<B: tombolo_hal::dma::DmaBackend>(list: &Coherent<B>, data: &Coherent<B>, input: &Model) {
    let (at, link) = (data.device_address().value(), 0x8000_0000u64);
    for (index, element) in input.elements.iter().take(LIST / 24).enumerate() {
        let offset = index * 24;
        let control = u32::from(element.control & 0x1f);
        let (from, to) = (u64::from(element.from), u64::from(element.to));
        let is_link = ElementControl::from_bits(tombolo_hal::le::Le32::from_native(control)).link();
        let (sar, dar) = match (is_link, input.read) {
            (true, _) => (list.device_address().value() + from % LIST as u64, 0),
            (false, false) => (at + from, link + to),
            (false, true) => (link + from, at + to),
        };
        let words = [
            control,
            u32::from(element.size),
            sar as u32,
            (sar >> 32) as u32,
            dar as u32,
            (dar >> 32) as u32,
        ];
        for (word, value) in words.into_iter().enumerate() {
            list.write32_relaxed(offset + word * 4, value);
        }
    }
    for (index, word) in input.loose.iter().take(LIST / 4).enumerate() {
        list.write32_relaxed(LIST - 4 - index * 4, *word);
    }
}

/// Starts the channel as a driver would, in the register map of the format.
fn program(registers: &impl Mmio, base: usize, input: &Model, list: u64) {
    let write = |offset: usize, value: u32| registers.write32(base + offset, value);
    let read = usize::from(input.read);
    if input.format & 3 == 3 {
        let channel = read * 0x100;
        write(channel, 1);
        write(channel + 0x34, 1);
        write(channel + 0x88, 1 << 4 | 1 << 6);
        write(channel + 0x10, list as u32);
        write(channel + 0x14, (list >> 32) as u32);
        write(channel + 0x18, if input.owned { 3 } else { 0 });
        write(channel + 0x04, 1);
        return;
    }
    write([0x0c, 0x2c][read], 1);
    write([0x128, 0x168][read], if input.format & 3 == 2 { 1 } else { 0 });
    let channel = if input.format & 3 == 0 {
        write(0xfc, (read as u32) << 31);
        0x100
    } else {
        0x200 + read * 0x100
    };
    write(channel, 1 << 9 | u32::from(input.owned) << 8);
    write(channel + 0x1c, list as u32);
    write(channel + 0x20, (list >> 32) as u32);
    write([0x10, 0x30][read], 0);
}

#[derive(Arbitrary, Debug)]
enum Input {
    Driver(Driver),
    Model(Model),
}

/// One run.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    match Input::arbitrary(&mut input) {
        Ok(Input::Driver(input)) => driver(&input),
        Ok(Input::Model(input)) => model(&input),
        Err(_) => {}
    }
}
