//! Accesses of the host: MMIO and configuration space.

use super::event::Action;
use super::fault::count_down;
use super::msix::Hit;
use super::state::{PostedWrite, State};
use super::trace::TraceEvent;
use crate::device::Width;

impl State {
    /// A read by the driver. All ones if nobody answers.
    pub fn host_read(&mut self, function: usize, bar: u8, offset: u64, width: Width) -> u64 {
        self.check_watches(function);
        self.pass(self.timing.read_ns);
        self.flush_posted(function);
        let answer = match self.claims(function, bar, offset, width) {
            true => self.bar_read(function, bar, offset, width),
            false => None,
        };
        let value = match answer {
            Some(value) => {
                self.functions[function].counters.bars[usize::from(bar)].reads += 1;
                self.spoil(function, value) & mask(width)
            }
            None => {
                self.functions[function].counters.unclaimed += 1;
                mask(width)
            }
        };
        self.record(function, TraceEvent::MmioRead { bar, offset, width, value });
        self.count_access(function);
        value
    }

    /// A posted write by the driver. Vanishes if nobody takes it.
    pub fn host_write(&mut self, function: usize, bar: u8, offset: u64, width: Width, value: u64) {
        self.check_watches(function);
        self.pass(self.timing.write_ns);
        let value = value & mask(width);
        self.record(function, TraceEvent::MmioWrite { bar, offset, width, value });
        if self.claims(function, bar, offset, width) {
            self.functions[function].counters.bars[usize::from(bar)].writes += 1;
            self.post_write(function, bar, offset, width, value);
        } else {
            self.functions[function].counters.unclaimed += 1;
        }
        self.count_access(function);
    }

    fn post_write(&mut self, function: usize, bar: u8, offset: u64, width: Width, value: u64) {
        let now = self.now();
        let delay = self.functions[function].faults.posted_delay_ns;
        let posted = &self.functions[function].posted;
        if delay == 0 && posted.is_empty() {
            return self.bar_write(function, bar, offset, width, value);
        }
        // Never before the write in front of it.
        let earliest = posted.back().map_or(now, |write| write.due_ns);
        let delay = if delay == 0 { 0 } else { self.rng.up_to(delay) };
        let due_ns = now.saturating_add(delay).max(earliest);
        let write = PostedWrite { due_ns, bar, offset, width, value };
        self.functions[function].posted.push_back(write);
        self.queue.push(due_ns, Action::Posted { function });
    }

    fn claims(&self, function: usize, bar: u8, offset: u64, width: Width) -> bool {
        let state = &self.functions[function];
        let bytes = width.bytes() as u64;
        let fits = |size: u64| offset.is_multiple_of(bytes) && offset < size && size - offset >= bytes;
        !state.removed
            && state.config.bar_address(bar).is_some()
            && state.config.bar(bar).is_some_and(|bar| fits(bar.size))
    }

    fn spoil(&mut self, function: usize, value: u64) -> u64 {
        let probability = self.functions[function].faults.corrupt_reads;
        if self.rng.chance(probability) { self.rng.next_u64() } else { value }
    }

    fn count_access(&mut self, function: usize) {
        if count_down(&mut self.functions[function].faults.mmio_until_removal) {
            self.remove_function(function);
        }
    }

    /// Reads a BAR of a function that claims the access: MSI-X structures, plain memory, the model.
    pub fn bar_read(&mut self, function: usize, bar: u8, offset: u64, width: Width) -> Option<u64> {
        let state = &self.functions[function];
        if let Some(hit) = state.msix.hit(bar, offset) {
            return Some(self.msix_read(function, hit, width));
        }
        if let Some(memory) = &state.memory[usize::from(bar)] {
            let mut bytes = [0; 8];
            memory.read(usize::try_from(offset).ok()?, &mut bytes[..width.bytes()]).ok()?;
            return Some(u64::from_le_bytes(bytes));
        }
        self.with_device(function, |device, bus| device.read(bus, bar, offset, width))
    }

    /// Writes a BAR of a function that claims the access.
    pub fn bar_write(&mut self, function: usize, bar: u8, offset: u64, width: Width, value: u64) {
        let state = &mut self.functions[function];
        if let Some(hit) = state.msix.hit(bar, offset) {
            return self.msix_write(function, hit, width, value);
        }
        if let Some(memory) = &state.memory[usize::from(bar)] {
            if let Ok(offset) = usize::try_from(offset) {
                // In range: the access was checked against the BAR, and the memory is that long.
                let _ = memory.write(offset, &value.to_le_bytes()[..width.bytes()]);
            }
            return;
        }
        self.with_device(function, |device, bus| device.write(bus, bar, offset, width, value));
    }

    fn msix_read(&self, function: usize, hit: Hit, width: Width) -> u64 {
        let table = &self.functions[function].msix;
        let (first, second, shift) = dwords(hit);
        let low = u64::from(table.read(first));
        match width {
            Width::W64 => u64::from(table.read(second)) << 32 | low,
            _ => low >> shift & mask(width),
        }
    }

    /// The specification allows only whole dwords and qwords; other writes are ignored.
    fn msix_write(&mut self, function: usize, hit: Hit, width: Width, value: u64) {
        let table = &mut self.functions[function].msix;
        let (first, second, _) = dwords(hit);
        match width {
            Width::W32 => table.write(first, value as u32),
            Width::W64 => {
                table.write(first, value as u32);
                table.write(second, (value >> 32) as u32);
            }
            _ => return,
        }
        self.send_unmasked(function);
    }

    /// Reads configuration space.
    pub fn config_read(&mut self, function: usize, offset: u16, width: Width) -> u32 {
        self.pass(self.timing.config_ns);
        self.flush_posted(function);
        let state = &mut self.functions[function];
        state.counters.config_reads += 1;
        if state.removed {
            return mask(width) as u32;
        }
        state.config.read(offset, width)
    }

    /// Writes configuration space and does what follows from it.
    pub fn config_write(&mut self, function: usize, offset: u16, width: Width, value: u32) {
        self.pass(self.timing.config_ns);
        self.flush_posted(function);
        self.functions[function].counters.config_writes += 1;
        self.apply_config(function, offset, width, value);
    }

    /// [`State::config_write`] as the platform's own act, which takes no time and is not counted.
    pub fn apply_config(&mut self, function: usize, offset: u16, width: Width, value: u32) {
        let state = &mut self.functions[function];
        if state.removed {
            return;
        }
        let effects = state.config.write(offset, width, value);
        if effects.function_reset {
            return self.reset_function(function);
        }
        if effects.routing {
            self.update_routing(function);
        }
        if effects.interrupts || effects.routing {
            self.send_unmasked(function);
        }
        if let Some((offset, value)) = effects.vendor {
            self.with_device(function, |device, bus| device.config_written(bus, offset, value));
        }
    }
}

/// All ones in the low bytes of an access.
pub(super) fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width.bytes())
}

/// The dword of an access, the next one, and the shift of the access in the first.
fn dwords(hit: Hit) -> (Hit, Hit, u64) {
    match hit {
        Hit::Table(at) => (Hit::Table(at & !3), Hit::Table((at & !3) + 4), at % 4 * 8),
        Hit::Pba(at) => (Hit::Pba(at & !3), Hit::Pba((at & !3) + 4), at % 4 * 8),
    }
}
