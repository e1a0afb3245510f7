//! A device for unit tests: words, a trace of writes, and what commands do to them.
//!
//! It knows just enough to be brought up. It is no model: those tests that need one are in `tests/`.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};

use crate::{Config, Nic, Shared};

/// Registers by offset; those that nobody wrote are zeros.
#[derive(Default)]
pub(crate) struct Words(BTreeMap<usize, u32>);

impl Words {
    pub fn get(&self, offset: usize) -> u32 {
        self.0.get(&offset).copied().unwrap_or(0)
    }

    pub fn set(&mut self, offset: usize, value: u32) {
        self.0.insert(offset, value);
    }

    pub fn clear(&mut self, offset: usize, bits: u32) {
        self.set(offset, self.get(offset) & !bits);
    }
}

/// What a test's device does at an access, after the common things: offset, and the value of a write.
pub(crate) type Behaviour = Box<dyn FnMut(&mut Words, usize, Option<u32>) + Send>;

struct Inner {
    words: Words,
    writes: Vec<(usize, u32)>,
    behaviour: Behaviour,
    gone: bool,
}

/// The device.
pub(crate) struct Device(Mutex<Inner>);

impl Device {
    pub fn new(id_rev: u32) -> Arc<Self> {
        let mut words = Words::default();
        words.set(0, id_rev);
        words.set(0x11c, 0x120f_8000);
        words.set(0x118, 0x5634);
        let behaviour: Behaviour = Box::new(|_, _, _| {});
        Arc::new(Self(Mutex::new(Inner { words, writes: Vec::new(), behaviour, gone: false })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn peek(&self, offset: usize) -> u32 {
        self.lock().words.get(offset)
    }

    pub fn poke(&self, offset: usize, value: u32) {
        self.lock().words.set(offset, value);
    }

    pub fn behave(&self, behaviour: impl FnMut(&mut Words, usize, Option<u32>) + Send + 'static) {
        self.lock().behaviour = Box::new(behaviour);
    }

    pub fn remove(&self) {
        self.lock().gone = true;
    }

    /// Writes since the last call.
    pub fn take_writes(&self) -> Vec<(usize, u32)> {
        core::mem::take(&mut self.lock().writes)
    }
}

impl Mmio for Device {
    fn size(&self) -> usize {
        0x6000
    }

    fn read32(&self, offset: usize) -> u32 {
        let inner = &mut *self.lock();
        if inner.gone {
            return u32::MAX;
        }
        (inner.behaviour)(&mut inner.words, offset, None);
        inner.words.get(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        let inner = &mut *self.lock();
        if inner.gone {
            return;
        }
        inner.writes.push((offset, value));
        common(&mut inner.words, offset, value);
        (inner.behaviour)(&mut inner.words, offset, Some(value));
    }
}

/// Enables with a register to set and one to clear bits, status words that ones clear, and commands that
/// are done at once.
fn common(words: &mut Words, offset: usize, value: u32) {
    match offset {
        0x010 => words.set(offset, value & !2),
        0x014 => words.set(offset, value & !0x10 | 0x80),
        0x108 if value & 1 == 0 => words.set(offset, value | 2),
        0xc0c => words.set(offset, 0),
        0x0ac | 0x0c4 => words.clear(offset, value),
        0x144 | 0xa08 => words.clear(offset, value),
        0x788 | 0xa0c => words.set(offset, words.get(offset) | value),
        0x78c | 0xa10 => words.clear(offset - 4, value),
        0xa00 => command(words, value),
        _ => words.set(offset, value),
    }
}

/// A command of the PTP unit. The clock is in words that no device has, and stands still.
fn command(words: &mut Words, value: u32) {
    let enabled = words.get(0xa00) & 4;
    let state = if value & 3 != 0 { 0 } else { enabled | value & 4 };
    words.set(0xa00, state);
    let step = words.get(0xa2c);
    let amount = step & 0x3fff_ffff;
    if value & 1 << 3 != 0 {
        for (from, to) in [(CLOCK, 0xa14), (CLOCK + 4, 0xa18), (CLOCK, 0xaf4), (CLOCK + 4, 0xaf8)] {
            words.set(to, words.get(from));
        }
    }
    if value & 1 << 4 != 0 {
        words.set(CLOCK, words.get(0xa14));
        words.set(CLOCK + 4, words.get(0xa18));
    }
    if value & 1 << 5 != 0 {
        let seconds = words.get(CLOCK);
        let amount = amount & 0xf;
        let up = step >> 31 != 0;
        words.set(CLOCK, if up { seconds.wrapping_add(amount) } else { seconds.wrapping_sub(amount) });
    }
    if value & 1 << 6 != 0 {
        // Instead of a tick of 8 ns, which this clock does not make by itself.
        let time = words.get(CLOCK + 4) as i64 + i64::from(amount) - 8;
        words.set(CLOCK, words.get(CLOCK).wrapping_add(time.div_euclid(1_000_000_000) as u32));
        words.set(CLOCK + 4, time.rem_euclid(1_000_000_000) as u32);
    }
}

/// Where [`Device`] keeps its clock: seconds, then nanoseconds.
pub(crate) const CLOCK: usize = 0x5f00;

/// Counts the time that is waited.
#[derive(Default)]
pub(crate) struct Waited(pub u64);

impl DelayNs for Waited {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

pub(crate) const LAN7430: u32 = 0x7430_0010;
pub(crate) const LAN7431: u32 = 0x7431_0010;
pub(crate) const PCI11414: u32 = 0xa041_00b0;

pub(crate) type TestNic = Nic<Arc<Shared<Arc<Device>>>>;

/// A device with its driver, brought up.
pub(crate) fn brought_up(id_rev: u32) -> (Arc<Device>, TestNic) {
    bring_up(Device::new(id_rev))
}

pub(crate) fn bring_up(device: Arc<Device>) -> (Arc<Device>, TestNic) {
    let shared = Arc::new(Shared::new(Window::new(device.clone())).unwrap());
    let nic = Nic::new(shared, Config::default(), &mut Waited::default()).unwrap();
    device.take_writes();
    (device, nic)
}
