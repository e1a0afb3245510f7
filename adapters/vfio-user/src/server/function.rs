//! The function behind the device lock: the model, configuration space and the MSI-X table.

use std::sync::atomic::Ordering;

use tombolo_sim::config::{ConfigSpace, Effects};
use tombolo_sim::device::{Bus, Device, Width};

use super::bus::ServedBus;
use super::counters::add;
use super::shared::Shared;

const BAR_REGISTERS: [u16; 6] = [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24];
/// Vector control word of an entry after reset: masked.
const MASKED: u32 = 1;

/// The model and what surrounds it.
pub(super) struct Function {
    pub device: Box<dyn Device>,
    pub parts: Parts,
}

/// All but the model, which a call of the model can reach.
#[derive(Debug)]
pub(super) struct Parts {
    pub config: ConfigSpace,
    /// Four words for each vector. QEMU keeps the table itself and never comes here; what another client
    /// writes is kept, but where an interrupt goes is said by what the client connects.
    pub table: Vec<u32>,
    /// Level that the model gave the pin.
    pub intx: bool,
    /// Vectors of MSI that wait because the client's driver masked them.
    pub msi_pending: u32,
}

impl Parts {
    pub fn new(config: ConfigSpace) -> Self {
        let vectors = config.msix_capability().map_or(0, |(_, msix)| usize::from(msix.vectors));
        let mut parts = Self { config, table: vec![0; vectors * 4], intx: false, msi_pending: 0 };
        parts.reset_table();
        parts
    }

    fn reset_table(&mut self) {
        for entry in self.table.chunks_exact_mut(4) {
            entry.copy_from_slice(&[0, 0, 0, MASKED]);
        }
    }

    /// Whether the pin interrupts: it is asserted, not switched off, and not replaced by messages.
    fn pin_fires(&self) -> bool {
        let config = &self.config;
        let messages =
            config.msix().is_some_and(|msix| msix.enabled) || config.msi().is_some_and(|msi| msi.vectors > 0);
        self.intx && !config.intx_disabled() && !messages
    }
}

impl Function {
    /// Calls the model.
    pub fn call<R>(&mut self, shared: &Shared, call: impl FnOnce(&mut dyn Device, &mut dyn Bus) -> R) -> R {
        call(self.device.as_mut(), &mut ServedBus { shared, parts: &mut self.parts })
    }

    /// Back to the state after power-on. With `keep_bars` the BARs' addresses stay: the machine keeps
    /// them (QEMU emulates BARs and does not write them again after a function's reset).
    pub fn reset(&mut self, shared: &Shared, keep_bars: bool) {
        let config = &mut self.parts.config;
        let bars = BAR_REGISTERS.map(|register| config.read(register, Width::W32));
        config.reset();
        if keep_bars {
            for (register, value) in BAR_REGISTERS.into_iter().zip(bars) {
                config.write(register, Width::W32, value);
            }
        }
        self.parts.reset_table();
        (self.parts.intx, self.parts.msi_pending) = (false, 0);
        self.device.reset();
        shared.queue.clear();
        shared.irqs.reset();
    }

    /// A write to configuration space.
    pub fn write_config(&mut self, shared: &Shared, offset: u16, width: Width, value: u32) {
        let effects = self.parts.config.write(offset, width, value);
        if effects == Effects::default() {
            return;
        }
        if effects.function_reset {
            add(&shared.counters.resets, 1);
            return self.reset(shared, true);
        }
        if effects.routing || effects.interrupts {
            self.update_pin(shared);
        }
        if effects.interrupts {
            self.send_waiting(shared);
        }
        if let Some((offset, value)) = effects.vendor {
            self.call(shared, |device, bus| device.config_written(bus, offset, value));
        }
    }

    pub fn update_pin(&mut self, shared: &Shared) {
        self.parts.update_pin(shared);
    }

    /// Sends what waited for the driver to enable or unmask it.
    fn send_waiting(&mut self, shared: &Shared) {
        let config = &self.parts.config;
        if config.msix().is_some_and(|msix| msix.enabled && !msix.function_mask) {
            add(&shared.counters.msix_interrupts, shared.irqs.fire_pending(super::irqs::MSIX));
        }
        let Some(msi) = config.msi().filter(|msi| msi.vectors > 0) else { return };
        let ready = std::mem::take(&mut self.parts.msi_pending);
        for vector in (0..32).filter(|vector| ready >> vector & 1 != 0) {
            self.parts.raise_msi(shared, msi, vector);
        }
        self.parts.config.set_msi_pending(self.parts.msi_pending);
    }
}

impl Parts {
    /// Tells the client of the pin's level as it is now.
    pub fn update_pin(&mut self, shared: &Shared) {
        if shared.irqs.set_intx(self.pin_fires()) {
            add(&shared.counters.intx_interrupts, 1);
        }
    }
}

impl Shared {
    /// Pulls the function out, or plugs it in again.
    pub(super) fn set_removed(&self, removed: bool) {
        let mut function = self.function.urgent();
        if self.removed.swap(removed, Ordering::Relaxed) == removed {
            return;
        }
        // What was on its way is gone; what comes back comes from reset.
        function.reset(self, true);
        function.update_pin(self);
    }
}
