//! Synopsys DesignWare PCIe eDMA and HDMA: the DMA engine of many PCIe endpoints and root ports.
//!
//! Four register formats ([`Format`]), programmed by a host through BARs or by the CPU beside the
//! engine ([`Placement`]), with linked lists, per-element interrupts and interrupts that the engine
//! itself writes. Written from public documents and from what the drivers of Linux 7.3 rely on;
//! modules `regs`, `list`, `irq` and `engine` name the sources of each part. Where sources are silent
//! or disagree, a field of [`Params`] chooses.
//!
//! The model has memory: for a remotely programmed engine it is the device's own, with lists and
//! data, and the host sees it as a BAR; for a locally programmed one it is what lies across the link.
//!
//! # What the sources leave open, and what the model does
//! - Start doorbell on a running channel: lost ([`RunningDoorbell`]). Without enable: lost.
//! - Start doorbell on a halted channel: the element under the list pointer is fetched again;
//!   [`Params::fatal_errors_need_reset`] makes bridge and list errors of v0 final until a disable.
//! - Taking an enable away from a running channel: it stops at the next burst and tells nobody. Until
//!   then its status is "running" and `ENGINE_EN` reads 1.
//! - Stop doorbell: at the next burst or element. v0 calls it an abort, native a stop with bytes left.
//! - Data size 0: an element without work. Addresses have byte granularity; list pointers lose
//!   bits 1:0.
//! - A posted write that nobody takes is lost in silence ([`Params::posted_write_errors`]).
//! - v0 done status latches for LIE or RIE, abort status for either enable; the line needs the local
//!   one. An emulated interrupt is on the line of channel 0 and ends with any `INT_CLEAR` write.
//! - Native error codes of bridge errors are unknown: 0xa for a read, 0xc for a write.
//! - Reset values: all zero, status 0 until the first start.
//!
//! # Examples
//! ```
//! use tombolo_sim::device::{Device, Width};
//! use tombolo_sim::dw_edma::{DwEdma, Format, presets};
//! use tombolo_sim::test_bus::TestBus;
//!
//! let mut bus = TestBus::new();
//! let mut engine = DwEdma::new(presets::edda(Format::Unrolled));
//! // The channel counts: two write and two read channels.
//! assert_eq!(engine.read(&mut bus, 0, 0x08, Width::W32), 0x0002_0002);
//! assert_eq!(engine.handle().counters().bad_accesses, 0);
//! ```

mod channel;
mod engine;
mod function;
mod handle;
mod hdma;
mod irq;
mod list;
mod params;
pub mod presets;
mod regs;
mod space;
#[cfg(test)]
mod tests;
mod v0;

pub use handle::{Cause, ChannelCounters, Counters, Handle};
pub use params::{Dir, Format, Identity, LocalIrq, MemoryBase, Params, Placement, RunningDoorbell, Timing};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use channel::Channel;
use handle::Shared;
use space::Space;
use v0::DirRegs;

/// Index of a channel in the engine: write channels first, then read channels.
type Slot = usize;

/// The model of one engine with the PCI function around it.
#[derive(Debug)]
pub struct DwEdma {
    params: Params,
    channels: Vec<Channel>,
    dirs: [DirRegs; 2],
    arb_prior: u32,
    viewport: u32,
    intx: bool,
    space: Space,
    /// Room for one burst.
    burst: Vec<u8>,
    shared: Arc<Mutex<Shared>>,
}

impl DwEdma {
    /// An engine after power-on. Numbers out of range are brought into it.
    pub fn new(params: Params) -> Self {
        let params = params.sanitized();
        let of = |dir| (0..params.channels(dir)).map(move |number| Channel::new(dir, number));
        let channels: Vec<_> = of(Dir::Write).chain(of(Dir::Read)).collect();
        let shared = Arc::new(Mutex::new(Shared::new(channels.len())));
        Self {
            space: Space::new(&params),
            burst: vec![0; params.burst_bytes as usize],
            channels,
            dirs: [DirRegs::default(); 2],
            arb_prior: 0,
            viewport: 0,
            intx: false,
            shared,
            params,
        }
    }

    /// The parameters, as the model uses them.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// A handle to counters, fault hooks and memory.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
            memory: self.space.memory.clone(),
            write_channels: self.params.write_channels,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
