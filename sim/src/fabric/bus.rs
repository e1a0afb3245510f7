//! The side of the fabric that a model sees.

use super::event::Action;
use super::state::State;
use crate::device::{Bus, DmaFault};

/// [`Bus`] for one function while its model is being called.
pub(crate) struct FabricBus<'a> {
    pub state: &'a mut State,
    pub function: usize,
}

impl Bus for FabricBus<'_> {
    fn now_ns(&self) -> u64 {
        self.state.now()
    }

    fn schedule(&mut self, delay_ns: u64, token: u64) {
        let due = self.state.now().saturating_add(delay_ns);
        let (function, epoch) = (self.function, self.state.functions[self.function].epoch);
        self.state.queue.push(due, Action::Device { function, epoch, token });
    }

    fn dma_read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        self.state.dma_read(self.function, addr, data)
    }

    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        self.state.dma_write(self.function, addr, data)
    }

    fn raise(&mut self, vector: u16) {
        self.state.raise(self.function, vector);
    }

    fn set_intx(&mut self, asserted: bool) {
        let function = &mut self.state.functions[self.function];
        if function.config.has_intx() && !function.removed {
            function.intx = asserted;
            function.config.set_interrupt_status(asserted);
        }
    }

    fn bar_address(&self, bar: u8) -> Option<u64> {
        self.state.functions[self.function].config.bar_address(bar)
    }
}
