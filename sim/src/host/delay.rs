//! Time as a driver spends it.

use crate::fabric::Fabric;
use embedded_hal::delay::DelayNs;

/// A delay that lets the fabric's time pass: what is due happens, interrupts are delivered.
///
/// # Examples
/// ```
/// use embedded_hal::delay::DelayNs;
/// use tombolo_sim::fabric::Fabric;
/// use tombolo_sim::host::SimDelay;
///
/// let fabric = Fabric::new(1);
/// SimDelay::new(&fabric).delay_us(3);
/// assert_eq!(fabric.now_ns(), 3_000);
/// ```
#[derive(Clone, Debug)]
pub struct SimDelay {
    fabric: Fabric,
}

impl SimDelay {
    /// A delay in this world.
    pub fn new(fabric: &Fabric) -> Self {
        Self { fabric: fabric.clone() }
    }
}

impl DelayNs for SimDelay {
    fn delay_ns(&mut self, ns: u32) {
        self.fabric.advance(u64::from(ns));
    }

    fn delay_us(&mut self, us: u32) {
        self.fabric.advance(u64::from(us) * 1_000);
    }

    fn delay_ms(&mut self, ms: u32) {
        self.fabric.advance(u64::from(ms) * 1_000_000);
    }
}
