//! The side of the server that a model sees.

use tombolo_sim::config::MsiState;
use tombolo_sim::device::{Bus, DmaFault};
use tombolo_sim::fabric::MESSAGE_RANGE;
use tombolo_sim::memory::SharedMemory;

use super::counters::add;
use super::function::Parts;
use super::irqs::{MSI, MSIX, Outcome};
use super::shared::Shared;

/// [`Bus`] while the model is being called.
pub(super) struct ServedBus<'a> {
    pub shared: &'a Shared,
    pub parts: &'a mut Parts,
}

impl ServedBus<'_> {
    /// Whether the device may send requests now.
    fn may_send(&self) -> Result<(), DmaFault> {
        if self.shared.is_removed() {
            return Err(DmaFault::LinkDown);
        }
        self.parts.config.bus_master().then_some(()).ok_or(DmaFault::NotBusMaster)
    }

    /// The function's own plain memory at a bus address: the memory, where, and how many bytes there are.
    fn own_memory(&self, address: u64) -> Option<(&SharedMemory, usize, usize)> {
        self.shared.layout.memory.iter().zip(0u8..).find_map(|(memory, bar)| {
            let memory = memory.as_ref()?;
            let offset = address.checked_sub(self.parts.config.bar_address(bar)?)?;
            let left = self.parts.config.bar(bar)?.size.checked_sub(offset).filter(|left| *left != 0)?;
            Some((memory, usize::try_from(offset).ok()?, usize::try_from(left).unwrap_or(usize::MAX)))
        })
    }

    /// Copies piece by piece: `copy` gets address and range of a piece and says how much it did.
    fn pieces(
        &self,
        address: u64,
        len: usize,
        mut copy: impl FnMut(&Self, u64, usize) -> Result<usize, DmaFault>,
    ) -> Result<(), DmaFault> {
        self.may_send()?;
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(DmaFault::Unmapped(address))?;
            done += copy(self, at, done)?;
        }
        Ok(())
    }

    fn counted(&self, result: Result<(), DmaFault>) -> Result<(), DmaFault> {
        if result.is_err() {
            add(&self.shared.counters.dma_refused, 1);
        }
        result
    }

    fn send_message(&mut self, address: u64, data: u32) -> Result<(), DmaFault> {
        self.may_send()?;
        // With MSI the message says which vector it is, and a vector's own signal has the function's
        // requester ID, which the client's write has not.
        let msi = self.parts.config.msi().filter(|msi| msi.vectors > 0);
        let vector = msi.and_then(|msi| vector_of(msi, address, data));
        if let Some(vector) = vector.filter(|vector| self.shared.irqs.is_connected(MSI, *vector)) {
            self.parts.fire(self.shared, MSI, vector);
            return Ok(());
        }
        if self.own_memory(address).is_some() || self.shared.memory.holds(address) {
            return self.dma_write(address, &data.to_le_bytes());
        }
        if self.shared.loses_interrupt() {
            return Ok(());
        }
        let sent = self.shared.link.write_memory(address, data);
        let counters = &self.shared.counters;
        add(if sent { &counters.message_interrupts } else { &counters.refused_messages }, 1);
        Ok(())
    }
}

/// The vector whose message this is.
fn vector_of(msi: MsiState, address: u64, data: u32) -> Option<u16> {
    (0..u16::from(msi.vectors)).find(|vector| msi.message(*vector) == (address, data))
}

impl Bus for ServedBus<'_> {
    fn now_ns(&self) -> u64 {
        self.shared.queue.now_ns()
    }

    fn schedule(&mut self, delay_ns: u64, token: u64) {
        self.shared.post(delay_ns, token);
    }

    fn dma_read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        let result = self.pieces(addr, data.len(), |bus, at, done| match bus.own_memory(at) {
            Some((memory, offset, left)) => {
                let count = left.min(data.len() - done);
                let piece = &mut data[done..done + count];
                memory.read(offset, piece).map_err(|_| DmaFault::Unmapped(at)).map(|()| count)
            }
            None => bus.shared.memory.read(at, &mut data[done..]),
        });
        add(&self.shared.counters.dma_read_bytes, if result.is_ok() { data.len() as u64 } else { 0 });
        self.counted(result)
    }

    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        // Where an x86 machine listens for interrupts, a write is one.
        if let Ok(word) = <[u8; 4]>::try_from(data)
            && MESSAGE_RANGE.contains(&addr)
            && !self.shared.memory.holds(addr)
        {
            let result = self.send_message(addr, u32::from_le_bytes(word));
            return self.counted(result);
        }
        let result = self.pieces(addr, data.len(), |bus, at, done| match bus.own_memory(at) {
            Some((memory, offset, left)) => {
                let count = left.min(data.len() - done);
                let piece = &data[done..done + count];
                memory.write(offset, piece).map_err(|_| DmaFault::Unmapped(at)).map(|()| count)
            }
            None => bus.shared.memory.write_at(at, &data[done..]),
        });
        add(&self.shared.counters.dma_written_bytes, if result.is_ok() { data.len() as u64 } else { 0 });
        self.counted(result)
    }

    fn message_write(&mut self, addr: u64, data: u32) -> Result<(), DmaFault> {
        let result = self.send_message(addr, data);
        self.counted(result)
    }

    fn raise(&mut self, vector: u16) {
        if self.may_send().is_err() {
            return;
        }
        if let Some(msix) = self.parts.config.msix().filter(|msix| msix.enabled) {
            if msix.function_mask {
                self.shared.irqs.hold(vector);
            } else {
                self.parts.fire(self.shared, MSIX, vector);
            }
        } else if let Some(msi) = self.parts.config.msi().filter(|msi| msi.vectors > 0) {
            self.parts.raise_msi(self.shared, msi, vector & (u16::from(msi.vectors) - 1));
        }
    }

    fn set_intx(&mut self, asserted: bool) {
        if self.parts.config.has_intx() && !self.shared.is_removed() {
            self.parts.intx = asserted;
            self.parts.config.set_interrupt_status(asserted);
            self.parts.update_pin(self.shared);
        }
    }

    fn bar_address(&self, bar: u8) -> Option<u64> {
        self.parts.config.bar_address(bar)
    }
}

impl Parts {
    /// Sends a vector, unless it shall be lost.
    pub fn fire(&self, shared: &Shared, index: u32, vector: u16) {
        if !shared.irqs.is_connected(index, vector) || !shared.loses_interrupt() {
            let sent = shared.irqs.fire(index, vector) == Outcome::Sent;
            add(shared.counters.interrupts(index), sent.into());
        }
    }

    /// Sends a vector of MSI, or remembers it while it is masked.
    pub fn raise_msi(&mut self, shared: &Shared, msi: MsiState, vector: u16) {
        let bit = 1u32.checked_shl(vector.into()).unwrap_or(0);
        if msi.mask & bit != 0 {
            self.msi_pending |= bit;
            self.config.set_msi_pending(self.msi_pending);
        } else {
            self.fire(shared, MSI, vector);
        }
    }
}
