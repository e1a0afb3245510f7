//! Plain memory as MMIO, with a trace.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;
use std::vec::Vec;

use crate::barrier::Barrier;
use crate::mmio::{Caching, Mmio};

/// One recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read at an offset.
    Read(usize),
    /// A read without ordering.
    ReadRelaxed(usize),
    /// A write at an offset of a value.
    Write(usize, u32),
    /// A write without ordering.
    WriteRelaxed(usize, u32),
    /// A barrier.
    Barrier(Barrier),
}

/// Words that keep what was written, and a trace of all accesses.
#[derive(Debug)]
pub struct FakeMmio {
    words: Vec<AtomicU32>,
    trace: Mutex<Vec<Access>>,
    caching: Caching,
}

impl FakeMmio {
    /// `size` bytes of zeros, rounded up to whole words.
    pub fn new(size: usize) -> Self {
        Self {
            words: (0..size.div_ceil(4)).map(|_| AtomicU32::new(0)).collect(),
            trace: Mutex::new(Vec::new()),
            caching: Caching::Uncached,
        }
    }

    /// The same, mapped in another way.
    pub fn with_caching(self, caching: Caching) -> Self {
        Self { caching, ..self }
    }

    /// What is at `offset`, without a trace.
    pub fn peek32(&self, offset: usize) -> u32 {
        self.word(offset).map_or(u32::MAX, |w| w.load(Relaxed))
    }

    /// Changes what is at `offset`, without a trace.
    pub fn poke32(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Relaxed);
        }
    }

    /// The accesses since the last call.
    pub fn take_trace(&self) -> Vec<Access> {
        core::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Access>> {
        self.trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if offset & 3 != 0 { None } else { self.words.get(offset / 4) }
    }
}

impl Mmio for FakeMmio {
    fn size(&self) -> usize {
        self.words.len() * 4
    }
    fn read32(&self, offset: usize) -> u32 {
        self.lock().push(Access::Read(offset));
        self.peek32(offset)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.lock().push(Access::Write(offset, value));
        self.poke32(offset, value);
    }
    fn read32_relaxed(&self, offset: usize) -> u32 {
        self.lock().push(Access::ReadRelaxed(offset));
        self.peek32(offset)
    }
    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.lock().push(Access::WriteRelaxed(offset, value));
        self.poke32(offset, value);
    }
    fn barrier(&self, barrier: Barrier) {
        barrier.execute();
        self.lock().push(Access::Barrier(barrier));
    }
    fn caching(&self) -> Caching {
        self.caching
    }
}
