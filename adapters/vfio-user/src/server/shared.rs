//! What dispatcher, worker and handles of one server share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use tombolo_sim::config::ConfigSpaceBuilder;
use tombolo_sim::device::Device;

use super::counters::{Counting, add};
use super::function::{Function, Parts};
use super::irqs::Irqs;
use super::layout::{Layout, counts};
use super::link::Link;
use super::memory::GuestMemory;
use super::queue::{Event, Queue};
use super::turns::Turns;
use super::{Error, ServerOptions};

/// Locks are taken in this order: function, memory, irqs, queue, link.
pub(super) struct Shared {
    pub name: String,
    pub options: ServerOptions,
    pub layout: Layout,
    pub function: Turns<Function>,
    pub memory: GuestMemory,
    pub irqs: Irqs,
    pub queue: Queue,
    pub link: Link,
    pub counters: Counting,
    pub removed: AtomicBool,
    losing: AtomicU64,
    stopped: AtomicBool,
    /// Readable from the stop on.
    pub stop_event: OwnedFd,
}

impl Shared {
    pub fn new(device: Box<dyn Device>, options: ServerOptions) -> Result<Self, Error> {
        let mut builder = ConfigSpaceBuilder::new();
        device.describe(&mut builder);
        let config = builder.build()?;
        let layout = Layout::new(device.as_ref(), &config, options.map_bars)?;
        let irqs = Irqs::new(counts(&config));
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            name: device.name().to_owned(),
            layout,
            irqs,
            function: Turns::new(Function { device, parts: Parts::new(config) }),
            memory: GuestMemory::default(),
            queue: Queue::default(),
            link: Link::new(options.send_timeout),
            counters: Counting::default(),
            removed: AtomicBool::new(false),
            losing: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            stop_event: eventfd(0, flags).map_err(|error| Error::System(error.into()))?,
            options,
        })
    }

    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends everything that waits.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.stop_event, &1u64.to_ne_bytes());
        self.queue.stop();
        // That also frees whoever waits in a signal.
        self.link.hang_up();
    }

    /// Has the worker call the model.
    pub fn post(&self, delay_ns: u64, token: u64) -> bool {
        let taken = self.queue.schedule(delay_ns, token);
        if !taken {
            add(&self.counters.dropped_events, 1);
        }
        taken
    }

    pub fn lose_interrupts(&self, count: u64) {
        self.losing.store(count, Ordering::Relaxed);
    }

    /// Whether the interrupt that is to be sent now shall be lost.
    pub fn loses_interrupt(&self) -> bool {
        if self.losing.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let less = |count: u64| count.checked_sub(1);
        let lost = self.losing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        add(&self.counters.lost_interrupts, lost.into());
        lost
    }

    /// The client is gone: the next one finds the device as after power-on. What lies in BARs that are
    /// memory stays, as a reset leaves it; another device may share it.
    pub fn client_gone(&self) {
        self.link.disconnect();
        let mut function = self.function.urgent();
        self.memory.clear();
        self.irqs.disconnect();
        function.reset(self, false);
    }

    /// The worker: calls the model when it is time, until the stop.
    pub fn work(&self) {
        while let Some(event) = self.queue.next() {
            self.run(event);
        }
    }

    pub fn run(&self, event: Event) {
        let mut function = self.function.patient();
        if self.queue.is_current(event) && !self.is_removed() {
            add(&self.counters.events, 1);
            function.call(self, |device, bus| device.event(bus, event.token));
        }
    }
}
