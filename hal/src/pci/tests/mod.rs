//! Tests that need more than one file of the module.

mod bar;
mod command;
mod ext_caps;
mod hostile;
mod identity;
mod msi;
mod reset;

use embedded_hal::delay::DelayNs;

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
