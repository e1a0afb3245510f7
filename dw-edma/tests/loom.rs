//! What interrupt handler and channel share, under loom: every interleaving of an engine that moves
//! elements and interrupts, and of a channel that is fed and asked, within a bound of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p dw-edma --release --test loom`; empty without `cfg(loom)`.
#![cfg(loom)]

use std::sync::Arc as StdArc;

use dw_edma::{
    Channel, ChannelId, Config, Controller, Desc, ElementControl, Format, ListMemory, Location, Segment,
    Shared, Vectors,
};
use loom::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};
use loom::sync::{Arc, Mutex};
use loom::thread;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dmaengine::{
    ArrayPool, Cookie, Direction, DmaChannel, Event, PrepFlags, SgEntry, SlaveConfig, TxResult,
};
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Caching, Mmio, Window};
use tombolo_hal::{DmaAddr, EngineAddr};

const LIST: u64 = 0x1000;
const ELEMENT: usize = dw_edma::ELEMENT_SIZE;
/// Data elements of the list; a link follows.
const SLOTS: usize = 3;

const OWNED: u32 = 1;
const TOGGLE: u32 = 2;
const LINK: u32 = 4;
const LOCAL: u32 = 8;

/// One channel of an engine as other CPUs see it: every word is an atomic, and only the fences of
/// MMIO and DMA order accesses.
struct Device {
    native: bool,
    /// What the engine reads and writes.
    list: [AtomicU32; (SLOTS + 1) * 6],
    llp: AtomicU32,
    running: AtomicBool,
    status: AtomicU32,
    /// Consumer cycle state; only the engine and a channel that programs it at rest use it.
    cycle: AtomicBool,
    /// A start came when the channel did not run.
    rung: AtomicBool,
    moved: AtomicU32,
}

impl Device {
    fn new(native: bool) -> Self {
        Self {
            native,
            list: std::array::from_fn(|_| AtomicU32::new(0)),
            llp: AtomicU32::new(0),
            running: AtomicBool::new(false),
            status: AtomicU32::new(0),
            cycle: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            moved: AtomicU32::new(0),
        }
    }

    fn summary(&self) -> String {
        let words = [&self.llp, &self.status, &self.moved].map(|word| word.load(Relaxed));
        let flags = [&self.running, &self.cycle, &self.rung].map(|flag| flag.load(Relaxed));
        let controls: Vec<u32> = self.list.iter().step_by(6).map(|word| word.load(Relaxed)).collect();
        format!("llp, status, moved {words:x?}; running, cycle, rung {flags:?}; controls {controls:?}")
    }

    /// The bit that a finished element latches.
    fn bit(&self) -> u32 {
        if self.native { 2 } else { 1 }
    }

    fn read(&self, offset: usize) -> u32 {
        let state = if self.running.load(Relaxed) { 1 } else { 3 };
        match (self.native, offset) {
            (true, 0x10) | (false, 0x21c) => self.llp.load(Relaxed),
            (true, 0x80) => state,
            (false, 0x200) => state << 5,
            (true, 0x84) | (false, 0x4c) => self.status.load(Relaxed),
            // One write channel.
            (false, 0x08) => 1,
            _ => 0,
        }
    }

    fn write(&self, offset: usize, value: u32) {
        match (self.native, offset) {
            (true, 0x10) | (false, 0x21c) => self.llp.store(value, Relaxed),
            (true, 0x18) => self.cycle.store(value & 2 != 0, Relaxed),
            (false, 0x200) => self.cycle.store(value & 1 << 8 != 0, Relaxed),
            (true, 0x8c) | (false, 0x58) => {
                self.status.fetch_and(!value, Relaxed);
            }
            (true, 0x04) if value & 1 != 0 => self.start(),
            (false, 0x10) if value >> 31 == 0 => self.start(),
            _ => {}
        }
    }

    fn start(&self) {
        // A channel that runs ignores it.
        if !self.running.load(Relaxed) {
            // A swap, because loom lets a plain store be overtaken by the engine's.
            self.rung.swap(true, AcqRel);
        }
    }

    /// Works off the list up to the first element that is not owned. `interrupt` is called for every
    /// rise of the line. An element's interrupt is held until the engine knows what follows it, and
    /// has stopped if nothing does.
    fn run(&self, interrupt: impl Fn()) {
        // The doorbell is an MMIO write: what was written before it is seen.
        if !self.rung.swap(false, AcqRel) {
            return;
        }
        self.running.store(true, Relaxed);
        let mut held = false;
        for _ in 0..2 * SLOTS {
            let at = (self.llp.load(Relaxed) - LIST as u32) as usize / 4;
            let control = self.list[at].load(Relaxed);
            // What was read first is not older than what is read next.
            fence(Acquire);
            if control & LINK != 0 {
                self.llp.store(self.list[at + 2].load(Relaxed), Relaxed);
                let cycle = self.cycle.load(Relaxed);
                self.cycle.store(cycle ^ (control & TOGGLE != 0), Relaxed);
                continue;
            }
            if (control & OWNED != 0) != self.cycle.load(Relaxed) {
                break;
            }
            if std::mem::take(&mut held) {
                self.latch(&interrupt);
            }
            // The element is whole once it is owned.
            assert_eq!(self.list[at + 1].load(Relaxed), 8, "owned before its words were written");
            assert_ne!(self.list[at + 2].load(Relaxed), 0);
            self.llp.store((LIST as usize + at * 4 + ELEMENT) as u32, Relaxed);
            self.moved.fetch_add(1, Relaxed);
            held = control & LOCAL != 0;
        }
        self.running.store(false, Relaxed);
        if held {
            self.latch(&interrupt);
        }
    }

    fn latch(&self, interrupt: &impl Fn()) {
        fence(Release);
        let before = self.status.fetch_or(self.bit(), Relaxed);
        // A line that is up already tells nothing new.
        if before & self.bit() == 0 {
            interrupt();
        }
    }
}

/// The registers.
#[derive(Clone)]
struct Registers(StdArc<Device>);

impl Mmio for Registers {
    fn size(&self) -> usize {
        0x1_0000
    }
    fn read32(&self, offset: usize) -> u32 {
        let value = self.0.read(offset);
        fence(Acquire);
        value
    }
    fn write32(&self, offset: usize, value: u32) {
        fence(Release);
        self.0.write(offset, value);
    }
}

/// The list in coherent memory.
struct List(StdArc<Device>);

impl Mmio for List {
    fn size(&self) -> usize {
        (SLOTS + 1) * ELEMENT
    }
    fn read32(&self, offset: usize) -> u32 {
        self.0.list[offset / 4].load(Relaxed)
    }
    fn write32(&self, offset: usize, value: u32) {
        fence(Release);
        self.write32_relaxed(offset, value);
    }
    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.0.list[offset / 4].store(value, Relaxed);
    }
    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.write32_relaxed(offset, value as u32);
        self.write32_relaxed(offset + 4, (value >> 32) as u32);
    }
    fn barrier(&self, barrier: Barrier) {
        assert_eq!(barrier, Barrier::DmaWmb);
        fence(Release);
    }
    fn caching(&self) -> Caching {
        Caching::Coherent
    }
}

struct LoomLock(Mutex<()>);

impl RawLock for LoomLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().unwrap();
        section()
    }
}

struct Line;

impl IrqSource for Line {
    fn mode(&self) -> IrqMode {
        IrqMode::Intx
    }
    fn vectors(&self) -> u16 {
        1
    }
    fn message(&self, _vector: u16) -> Option<MsiMessage> {
        None
    }
    fn message_epoch(&self) -> u32 {
        0
    }
}

type Engine = Shared<Registers, LoomLock>;
type Chan = Channel<Arc<Engine>, List, ArrayPool<Desc, Segment, 4, 4>>;

struct Rig {
    device: StdArc<Device>,
    shared: Arc<Engine>,
    ch: Chan,
}

impl Rig {
    fn new(format: Format) -> Self {
        let device = StdArc::new(Device::new(!format.is_v0()));
        let registers = Window::new(Registers(device.clone()));
        let config = Config::new(format, Location::Local).channels(1, 0);
        let shared = Shared::new(registers, LoomLock(Mutex::new(())), config);
        let shared = Arc::new(shared.unwrap_or_else(|error| panic!("{error}")));
        let mut control = Controller::new(shared.clone()).unwrap_or_else(|error| panic!("{error}"));
        control.connect(&Line, Vectors::One).unwrap();
        let list = ListMemory::new(List(device.clone()), EngineAddr::new(LIST)).map_err(|r| r.error).unwrap();
        let ch = control.open_channel(ChannelId::write(0), list, ArrayPool::default());
        let ch = ch.unwrap_or_else(|error| panic!("{error}"));
        Self { device, shared, ch }
    }

    fn engine(&self) -> impl Fn() + use<> {
        let (device, shared) = (self.device.clone(), self.shared.clone());
        move || {
            device.run(|| {
                shared.on_irq();
            });
        }
    }

    fn submit(&mut self) -> Cookie {
        // SAFETY: the engine above touches no memory.
        let entry = unsafe { SgEntry::from_raw(DmaAddr::new(0x4000), 8) };
        let config = SlaveConfig::at(EngineAddr::new(0x8000));
        let descriptor = self
            .ch
            .prep_slave_sg_config(&[entry], Direction::MemToDev, PrepFlags::INTERRUPT, Some(&config))
            .unwrap();
        let cookie = self.ch.submit(descriptor).unwrap();
        self.ch.issue_pending();
        cookie
    }

    fn pop_into(&mut self, done: &mut Vec<Cookie>) {
        while let Some(completion) = self.ch.pop_completed() {
            assert_eq!((completion.event, completion.result), (Event::Finished, TxResult::NoError));
            done.push(completion.cookie);
        }
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(3));
    builder.max_branches = 20_000;
    builder.check(check);
}

/// Two transfers while the engine runs on another CPU, and a third one afterwards: all complete,
/// once each and in order, and nobody looks at the hardware unasked.
fn no_completion_is_lost_or_doubled(format: Format) {
    model(move || {
        let mut rig = Rig::new(format);
        let mut submitted = vec![rig.submit()];
        let other_cpu = thread::spawn(rig.engine());
        let mut done = Vec::new();
        submitted.push(rig.submit());
        rig.pop_into(&mut done);
        other_cpu.join().unwrap();
        let engine = rig.engine();
        for _ in 0..2 {
            engine();
            rig.pop_into(&mut done);
        }
        assert_eq!(done, submitted, "after the first two");
        // Nothing that the first two left behind hides the third's interrupt.
        submitted.push(rig.submit());
        engine();
        rig.pop_into(&mut done);
        assert_eq!(done, submitted, "after the third");
        assert_eq!(rig.device.moved.load(Relaxed), 3);
    });
}

#[test]
fn v0_completions_reach_the_channel() {
    no_completion_is_lost_or_doubled(Format::Unroll);
}

#[test]
fn native_completions_reach_the_channel() {
    no_completion_is_lost_or_doubled(Format::HdmaNative);
}

/// The channel looks at the hardware itself, reading and clearing the same status as the handler.
fn looking_meanwhile_loses_nothing(format: Format) {
    model(move || {
        let mut rig = Rig::new(format);
        let mut submitted = vec![rig.submit()];
        let other_cpu = thread::spawn(rig.engine());
        let mut done = Vec::new();
        rig.ch.poll_hardware().unwrap();
        rig.pop_into(&mut done);
        other_cpu.join().unwrap();
        rig.pop_into(&mut done);
        assert_eq!(done, submitted);
        submitted.push(rig.submit());
        rig.engine()();
        rig.pop_into(&mut done);
        assert_eq!(done, submitted);
    });
}

#[test]
fn v0_looking_while_the_handler_runs_loses_nothing() {
    looking_meanwhile_loses_nothing(Format::Unroll);
}

#[test]
fn native_looking_while_the_handler_runs_loses_nothing() {
    looking_meanwhile_loses_nothing(Format::HdmaNative);
}

/// Terminated while the engine finishes: nothing is reported that was dropped, and the channel works
/// again afterwards.
fn nothing_comes_after_terminate(format: Format) {
    model(move || {
        let mut rig = Rig::new(format);
        let first = rig.submit();
        let other_cpu = thread::spawn(rig.engine());
        rig.ch.terminate_all().unwrap();
        other_cpu.join().unwrap();
        let mut done = Vec::new();
        rig.pop_into(&mut done);
        assert!(!done.contains(&first));
        assert!((0..4).any(|_| rig.ch.is_quiescent()));
        let second = rig.submit();
        rig.engine()();
        rig.pop_into(&mut done);
        assert_eq!(done, [second]);
    });
}

#[test]
fn v0_nothing_comes_after_terminate() {
    nothing_comes_after_terminate(Format::Unroll);
}

#[test]
fn native_nothing_comes_after_terminate() {
    nothing_comes_after_terminate(Format::HdmaNative);
}

/// Only the handler's status read tells of a native channel that it does not think busy.
#[test]
fn a_native_channel_is_busy_before_its_doorbell() {
    model(|| {
        let mut rig = Rig::new(Format::HdmaNative);
        let (device, shared) = (rig.device.clone(), rig.shared.clone());
        let other_cpu = thread::spawn(move || {
            device.run(|| {
                assert_ne!(shared.on_irq().write_channels, 0, "an interrupt of a channel that is not busy");
            });
        });
        let cookie = rig.submit();
        other_cpu.join().unwrap();
        rig.engine()();
        let mut done = Vec::new();
        rig.pop_into(&mut done);
        assert_eq!(done, [cookie], "{}", rig.device.summary());
    });
}

#[test]
fn the_control_bits_are_those_of_the_driver() {
    let word = |control: ElementControl| control.into_bits().to_native();
    let new = ElementControl::new;
    assert_eq!(word(new().with_cycle(true)), OWNED);
    assert_eq!(word(new().with_toggle_cycle(true)), TOGGLE);
    assert_eq!(word(new().with_link(true)), LINK);
    assert_eq!(word(new().with_local_interrupt(true)), LOCAL);
}
