//! Interrupts on the device's side: which message a vector sends, and when it may.

use super::fault::take;
use super::state::State;
use super::trace::TraceEvent;

impl State {
    /// Sends `vector` by MSI-X or MSI, or remembers it while it is masked.
    pub fn raise(&mut self, function: usize, vector: u16) {
        let state = &mut self.functions[function];
        if state.config.msix().is_some_and(|msix| msix.enabled) {
            self.raise_msix(function, vector);
        } else if let Some(msi) = state.config.msi().filter(|msi| msi.vectors > 0) {
            let bit = 1_u32.checked_shl(u32::from(vector)).unwrap_or(0);
            if msi.mask & bit != 0 {
                state.msi_pending |= bit;
                state.config.set_msi_pending(state.msi_pending);
            } else {
                let (address, data) = msi.message(vector);
                self.send(function, address, data);
            }
        }
    }

    fn raise_msix(&mut self, function: usize, vector: u16) {
        let state = &mut self.functions[function];
        let all_masked = state.config.msix().is_none_or(|msix| msix.function_mask);
        match state.msix.vector(vector) {
            Some((address, data, false)) if !all_masked => self.send(function, address, data),
            Some(_) => state.msix.set_pending(vector),
            None => {}
        }
    }

    /// Sends what waited for a mask that is gone now.
    pub fn send_unmasked(&mut self, function: usize) {
        let state = &mut self.functions[function];
        let msix = state.config.msix();
        if state.msix.has_pending() && msix.is_some_and(|msix| msix.enabled && !msix.function_mask) {
            while let Some(vector) = self.functions[function].msix.take_unmasked() {
                self.raise_msix(function, vector);
            }
        }
        self.send_unmasked_msi(function);
    }

    fn send_unmasked_msi(&mut self, function: usize) {
        let state = &mut self.functions[function];
        let Some(msi) = state.config.msi().filter(|msi| msi.vectors > 0) else { return };
        let ready = state.msi_pending & !msi.mask;
        state.msi_pending &= msi.mask;
        state.config.set_msi_pending(state.msi_pending);
        for vector in (0..32).filter(|vector| ready >> vector & 1 != 0) {
            let (address, data) = msi.message(vector);
            self.send(function, address, data);
        }
    }

    /// A message is a memory write like any other: where it leads, the address says.
    fn send(&mut self, function: usize, address: u64, data: u32) {
        // Faults are counted on the way; a device hears nothing of a lost posted write.
        let _ = self.dma_write(function, address, &data.to_le_bytes());
    }

    /// A write to where the host listens for messages.
    pub fn message_write(&mut self, function: usize, address: u64, bytes: &[u8]) {
        self.functions[function].counters.messages += 1;
        let word = <[u8; 4]>::try_from(bytes).ok().filter(|_| address.is_multiple_of(4));
        let Some(data) = word.map(u32::from_le_bytes) else {
            self.functions[function].counters.messages_unrouted += 1;
            return;
        };
        self.record(function, TraceEvent::Message { address, data });
        if self.loses_message(function) {
            self.functions[function].counters.messages_lost += 1;
            return;
        }
        match self.machines[self.functions[function].machine].controller.route(address, data) {
            Some(line) => self.delivery.post(line),
            None => self.functions[function].counters.messages_unrouted += 1,
        }
    }

    fn loses_message(&mut self, function: usize) -> bool {
        let faults = &mut self.functions[function].faults;
        take(&mut faults.lose_next) || self.rng.chance(faults.lose_probability)
    }

    /// Whether the function's pin interrupts: asserted, not switched off, and not replaced by
    /// messages.
    pub fn intx_fires(&self, function: usize) -> bool {
        let state = &self.functions[function];
        let config = &state.config;
        let messages =
            config.msix().is_some_and(|msix| msix.enabled) || config.msi().is_some_and(|msi| msi.vectors > 0);
        state.intx && !state.removed && !config.intx_disabled() && !messages
    }

    /// The pin is a level: as long as it fires, its handler is called at every opportunity.
    pub fn post_levels(&mut self) {
        for function in 0..self.functions.len() {
            let line = (function, 0);
            if self.intx_fires(function) && !self.delivery.is_active(line) {
                self.delivery.post(line);
            }
        }
    }
}
