//! Tests that need more than one file of the module.

mod bar;
mod command;
mod ext_caps;
mod hostile;
mod identity;
mod msi;
mod reset;

use embedded_hal::delay::DelayNs;

use super::ConfigSpace;
use super::fake::FakeConfigSpace;

fn device() -> FakeConfigSpace {
    FakeConfigSpace::new(0x16c3, 0xedda)
}

/// Adds up what it was asked to wait.
#[derive(Default)]
struct Clock {
    ns: u64,
}

impl Clock {
    fn ms(&self) -> u64 {
        self.ns / 1_000_000
    }
}

impl DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.ns += u64::from(ns);
    }
}

/// Shows each write to `see` before the fake takes it.
struct Spy<F> {
    fake: FakeConfigSpace,
    see: F,
}

impl<F: Fn(&FakeConfigSpace, u16, u32) + Send + Sync> Spy<F> {
    fn on_write(fake: FakeConfigSpace, see: F) -> Self {
        Self { fake, see }
    }
}

impl<F: Fn(&FakeConfigSpace, u16, u32) + Send + Sync> ConfigSpace for Spy<F> {
    fn read8(&self, offset: u16) -> u8 {
        self.fake.read8(offset)
    }
    fn read16(&self, offset: u16) -> u16 {
        self.fake.read16(offset)
    }
    fn read32(&self, offset: u16) -> u32 {
        self.fake.read32(offset)
    }
    fn write8(&self, offset: u16, value: u8) {
        (self.see)(&self.fake, offset, value.into());
        self.fake.write8(offset, value);
    }
    fn write16(&self, offset: u16, value: u16) {
        (self.see)(&self.fake, offset, value.into());
        self.fake.write16(offset, value);
    }
    fn write32(&self, offset: u16, value: u32) {
        (self.see)(&self.fake, offset, value);
        self.fake.write32(offset, value);
    }
}
