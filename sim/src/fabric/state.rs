//! Everything behind the fabric's lock.

use super::counters::Counters;
use super::event::{Action, EventQueue};
use super::fault::Faults;
use super::iommu::Iommu;
use super::irq::Delivery;
use super::machine_state::MachineState;
use super::msix::MsixTable;
use super::trace::{Trace, TraceEntry, TraceEvent};
use super::watch::Watch;
use super::{FabricConfig, bus::FabricBus};
use crate::clock::Clock;
use crate::config::ConfigSpace;
use crate::device::{Bus, Device, Width};
use crate::memory::SharedMemory;
use crate::rng::Rng;
use std::collections::VecDeque;
use std::sync::Arc;

/// A posted write on its way to a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedWrite {
    pub due_ns: u64,
    pub bar: u8,
    pub offset: u64,
    pub width: Width,
    pub value: u64,
}

pub(crate) struct FunctionState {
    pub machine: usize,
    /// `None` while the model is being called.
    pub device: Option<Box<dyn Device>>,
    pub config: ConfigSpace,
    pub msix: MsixTable,
    /// Masked MSI vectors that wait.
    pub msi_pending: u32,
    pub memory: [Option<SharedMemory>; 6],
    pub iommu: Iommu,
    pub posted: VecDeque<PostedWrite>,
    pub faults: Faults,
    pub counters: Counters,
    pub watches: Vec<Watch>,
    /// Counts resets, so that events from before them are dropped.
    pub epoch: u64,
    pub removed: bool,
    pub intx: bool,
    /// Whether a driver has the function's vectors.
    pub vectors_taken: bool,
    /// Next address that the IOVA allocator tries, below and above 4 GiB.
    pub next_iova: [u64; 2],
}

pub(crate) struct State {
    pub clock: Arc<dyn Clock>,
    pub timing: FabricConfig,
    pub queue: EventQueue,
    pub rng: Rng,
    pub machines: Vec<MachineState>,
    pub functions: Vec<FunctionState>,
    pub trace: Trace,
    pub delivery: Delivery,
    pub events_run: u64,
}

impl State {
    pub fn new(clock: Arc<dyn Clock>, timing: FabricConfig) -> Self {
        Self {
            clock,
            rng: Rng::new(timing.seed),
            timing,
            queue: EventQueue::default(),
            machines: Vec::new(),
            functions: Vec::new(),
            trace: Trace::default(),
            delivery: Delivery::default(),
            events_run: 0,
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    pub fn record(&mut self, function: usize, event: TraceEvent) {
        let time_ns = self.now();
        self.trace.push(TraceEntry { time_ns, function, event });
    }

    /// Calls the model with its side of the bus. `None` if it is being called already (a device that
    /// reaches a register of its own by DMA) or was removed.
    pub fn with_device<R>(
        &mut self,
        function: usize,
        call: impl FnOnce(&mut dyn Device, &mut dyn Bus) -> R,
    ) -> Option<R> {
        let mut device = self.functions[function].device.take()?;
        let result = call(device.as_mut(), &mut FabricBus { state: self, function });
        self.functions[function].device = Some(device);
        Some(result)
    }

    /// Runs one event that is due at `limit_ns`. False if there is none.
    pub fn run_one(&mut self, limit_ns: u64) -> bool {
        let Some((due, action)) = self.queue.pop_due(limit_ns) else { return false };
        self.clock.wait_until(due);
        self.events_run += 1;
        match action {
            Action::Device { function, epoch, token } => {
                let state = &self.functions[function];
                if state.epoch == epoch && !state.removed {
                    self.with_device(function, |device, bus| device.event(bus, token));
                }
            }
            Action::Posted { function } => self.run_posted(function),
        }
        true
    }

    /// Lets an access of `cost_ns` take its time, and everything happen that is due in it.
    pub fn pass(&mut self, cost_ns: u64) {
        let end = self.clock.access_end(cost_ns);
        for _ in 0..self.timing.events_per_call {
            if !self.run_one(end) {
                break;
            }
        }
        self.clock.wait_until(end);
    }

    /// The posted writes that have arrived by now reach the model.
    fn run_posted(&mut self, function: usize) {
        let now = self.now();
        let arrived = |write: &&PostedWrite| write.due_ns <= now;
        while let Some(write) = self.functions[function].posted.front().filter(arrived).copied() {
            self.functions[function].posted.pop_front();
            self.bar_write(function, write.bar, write.offset, write.width, write.value);
        }
    }

    /// All posted writes reach the model, as a read pushes them ahead of itself.
    pub fn flush_posted(&mut self, function: usize) {
        while let Some(write) = self.functions[function].posted.pop_front() {
            self.bar_write(function, write.bar, write.offset, write.width, write.value);
        }
    }

    /// Makes the BARs of a function reachable where it decodes them now.
    pub fn update_routing(&mut self, function: usize) {
        let state = &self.functions[function];
        let machine = &mut self.machines[state.machine];
        machine.forget_bars(function);
        if !state.removed {
            machine.add_bars(function, &state.config);
        }
    }

    pub fn reset_function(&mut self, function: usize) {
        let state = &mut self.functions[function];
        if state.removed {
            return;
        }
        state.epoch += 1;
        state.posted.clear();
        state.config.reset();
        state.msix.reset();
        state.msi_pending = 0;
        state.intx = false;
        if let Some(device) = state.device.as_mut() {
            device.reset();
        }
        self.update_routing(function);
        self.record(function, TraceEvent::Reset);
    }

    pub fn remove_function(&mut self, function: usize) {
        let state = &mut self.functions[function];
        if state.removed {
            return;
        }
        state.removed = true;
        state.epoch += 1;
        state.posted.clear();
        state.intx = false;
        self.update_routing(function);
        self.record(function, TraceEvent::Removed);
    }
}
