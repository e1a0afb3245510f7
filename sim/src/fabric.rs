//! The world in which models and drivers meet: machines, their memory, IOMMUs and interrupts, and
//! one clock.
//!
//! A [`Fabric`] is a handle; clones are the same world. Time is virtual unless another
//! [`Clock`] is given: it passes by MMIO, by delays and by [`Fabric::advance`], and what is due then
//! happens in the order of time. One seed decides all chance, so a run on one thread can be repeated
//! exactly.
//!
//! Interrupts are delivered between, never inside, a driver's call: before and after an MMIO or
//! configuration access, and between events while time passes. No lock is held then.
//!
//! # Examples
//! ```
//! use tombolo_sim::config::{Bar, ConfigSpaceBuilder};
//! use tombolo_sim::device::{Bus, Device, Width};
//! use tombolo_sim::fabric::{Fabric, MachineConfig};
//! use tombolo_hal::mmio::Mmio;
//!
//! /// A device with one register that counts its writes.
//! struct Counter(u64);
//!
//! impl Device for Counter {
//!     fn name(&self) -> &str { "counter" }
//!     fn describe(&self, config: &mut ConfigSpaceBuilder) {
//!         config.identity(0x1234, 0x0001).bar(Bar::bits32(0, 4096));
//!     }
//!     fn reset(&mut self) { self.0 = 0 }
//!     fn read(&mut self, _: &mut dyn Bus, _bar: u8, _offset: u64, _: Width) -> u64 { self.0 }
//!     fn write(&mut self, _: &mut dyn Bus, _bar: u8, _offset: u64, _: Width, _value: u64) {
//!         self.0 += 1;
//!     }
//!     fn event(&mut self, _: &mut dyn Bus, _token: u64) {}
//! }
//!
//! let fabric = Fabric::new(1);
//! let machine = fabric.machine(MachineConfig::default())?;
//! let function = machine.attach(Box::new(Counter(0)))?;
//! let registers = function.mmio(0).unwrap();
//! registers.write32(0, 7);
//! registers.write32(0, 7);
//! assert_eq!(registers.read32(0), 2);
//! assert_eq!(fabric.now_ns(), 50 + 50 + 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod bus;
mod counters;
mod dma;
mod event;
mod fault;
mod function;
mod iommu;
mod iova;
mod irq;
mod machine;
mod machine_state;
mod message;
mod msix;
mod state;
mod trace;
mod watch;

pub use counters::{BarCounters, Counters};
pub use fault::Removal;
pub use function::Function;
pub use iommu::{Access, IommuError, IommuFault};
pub use irq::Handler;
pub use machine::{AttachError, Machine, MachineConfig, MachineError};
pub use trace::{TraceEntry, TraceEvent};

pub(crate) use irq::Message;
pub(crate) use state::State;

use crate::clock::{Clock, VirtualClock};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where writes are interrupt messages, as on x86.
pub const MESSAGE_RANGE: Range<u64> = 0xfee0_0000..0xfef0_0000;

/// Handlers that are called at one opportunity before the caller goes on.
const DELIVERIES_PER_CALL: usize = 1024;

/// Seed and costs of a [`Fabric`].
#[derive(Clone, Copy, Debug)]
pub struct FabricConfig {
    /// Seed of all chance.
    pub seed: u64,
    /// What an MMIO read costs, in nanoseconds.
    pub read_ns: u64,
    /// What a posted MMIO write costs the CPU, in nanoseconds.
    pub write_ns: u64,
    /// What a configuration access costs, in nanoseconds.
    pub config_ns: u64,
    /// Events that run at most while one access or delay lasts; a model that schedules without end
    /// at one moment cannot hang its driver.
    pub events_per_call: u64,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self { seed: 0, read_ns: 500, write_ns: 50, config_ns: 1_000, events_per_call: 10_000_000 }
    }
}

/// What [`Fabric::run_until_idle`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Events that ran.
    pub events: u64,
    /// Whether none is left.
    pub idle: bool,
}

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// A handle of a whole simulation.
#[derive(Clone)]
pub struct Fabric {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").field("now_ns", &self.now_ns()).finish_non_exhaustive()
    }
}

impl Fabric {
    /// A world with virtual time, default costs and this seed.
    pub fn new(seed: u64) -> Self {
        Self::with(FabricConfig { seed, ..Default::default() }, Arc::new(VirtualClock::new()))
    }

    /// A world with costs and clock of one's own.
    pub fn with(config: FabricConfig, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(State::new(clock.clone(), config));
        Self { shared: Arc::new(Shared { clock, state }) }
    }

    /// The present time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// Adds a machine.
    ///
    /// # Errors
    /// [`MachineError`] if RAM and address windows overlap.
    pub fn machine(&self, config: MachineConfig) -> Result<Machine, MachineError> {
        Machine::add(self, config)
    }

    /// Lets `ns` nanoseconds pass: all that is due happens, interrupts are delivered.
    pub fn advance(&self, ns: u64) {
        let deadline = self.now_ns().saturating_add(ns);
        let limit = self.lock().timing.events_per_call;
        for _ in 0..limit {
            self.deliver();
            let now = self.now_ns();
            let mut state = self.lock();
            match state.queue.next_due() {
                Some(due) if due <= now => {
                    state.run_one(now);
                }
                Some(due) if due <= deadline => {
                    drop(state);
                    self.shared.clock.wait_until(due);
                }
                _ => break,
            }
        }
        self.shared.clock.wait_until(deadline);
        self.deliver();
    }

    /// Runs the next event, moving time to it, and delivers interrupts. False if there is none.
    pub fn step(&self) -> bool {
        self.deliver();
        let due = self.lock().queue.next_due();
        let Some(due) = due else { return false };
        self.shared.clock.wait_until(due);
        let ran = self.lock().run_one(self.now_ns().max(due));
        self.deliver();
        ran
    }

    /// Runs events until none is left, at most `limit` of them.
    pub fn run_until_idle(&self, limit: u64) -> Progress {
        let mut events = 0;
        while events < limit && self.step() {
            events += 1;
        }
        Progress { events, idle: self.pending_events() == 0 }
    }

    /// Events that wait for their time.
    pub fn pending_events(&self) -> usize {
        self.lock().queue.len()
    }

    /// Keeps the newest `capacity` entries of a trace from now on; 0 switches it off.
    pub fn set_trace(&self, capacity: usize) {
        self.lock().trace.set_capacity(capacity);
    }

    /// Takes the trace recorded so far.
    pub fn take_trace(&self) -> Vec<TraceEntry> {
        self.lock().trace.take()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a model's bug; what it left is still a consistent world.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An access of the host, with interrupts delivered before and after it.
    pub(crate) fn access<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        if state.deliverable() {
            drop(state);
            self.deliver();
            state = self.lock();
        }
        let result = call(&mut state);
        let ready = state.deliverable();
        drop(state);
        if ready {
            self.deliver();
        }
        result
    }

    /// Calls the handlers of what fired, without the lock, unless this thread is in a handler.
    fn deliver(&self) {
        if !self.lock().deliverable() {
            return;
        }
        let thread = std::thread::current().id();
        for _ in 0..DELIVERIES_PER_CALL {
            let Some((line, handler)) = self.lock().begin_delivery(thread) else { return };
            let guard = Delivering { fabric: self, thread, line };
            handler(line.1);
            drop(handler);
            drop(guard);
        }
    }
}

/// Marks the end of a handler's call, be it by a panic.
struct Delivering<'a> {
    fabric: &'a Fabric,
    thread: std::thread::ThreadId,
    line: irq::Line,
}

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        self.fabric.lock().delivery.end(self.thread, self.line);
    }
}

impl State {
    /// Whether this thread could call a handler now.
    fn deliverable(&mut self) -> bool {
        self.post_levels();
        self.delivery.has_ready() && !self.delivery.is_delivering(std::thread::current().id())
    }

    fn begin_delivery(&mut self, thread: std::thread::ThreadId) -> Option<(irq::Line, Handler)> {
        let (line, handler) = self.delivery.begin(thread)?;
        self.functions[line.0].counters.count_interrupt(line.1);
        self.record(line.0, TraceEvent::Interrupt { vector: line.1 });
        Some((line, handler))
    }
}
