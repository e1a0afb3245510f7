//! Model of the Microchip LAN7430, LAN7431, PCI11010 and PCI11414 Ethernet controllers.
//!
//! Sources: Microchip AN2948 "Configuration Registers of LAN743x"; for what it leaves out, and for all of
//! PCI11x1x, what Linux 7.3's `lan743x` driver expects. Doubtful points are decided where they are, and
//! those that software could notice are parameters ([`Params`]).
//!
//! A model sends and receives over a [`wire::Port`]. It is the same whether it stands in a simulated
//! machine or is served to a virtual one.
//!
//! ```
//! use tombolo_sim::lan743x::wire::{Wire, WireParams};
//! use tombolo_sim::lan743x::{Lan743x, presets};
//!
//! let (one, two) = Wire::pair(WireParams::default());
//! let mut left = Lan743x::new(presets::lan7430_a0());
//! let mut right = Lan743x::new(presets::pci11414_b0());
//! left.connect(one);
//! right.connect(two);
//! assert_eq!(left.handle().counters().frames_out, 0);
//! ```

mod alarm;
mod dmac;
mod due;
mod fct;
mod filter;
mod frame;
mod function;
mod handle;
mod irq;
mod mac;
mod mdio;
mod media;
mod nvm;
mod params;
mod pcs;
mod phy;
mod plain;
mod power;
pub mod presets;
mod ptp;
mod queue;
mod receive;
mod regs;
mod ring;
mod rx;
mod segment;
mod stats;
mod system;
#[cfg(test)]
mod tests;
mod tx;
mod wake;
pub mod wire;

pub use handle::{Block, ChannelCounters, Counters, DropReason, Handle, Wait};
pub use params::{Chip, Interface, Params, Revision, Timing};

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dmac::Dmac;
use due::Due;
use fct::Fct;
use irq::Irq;
use mac::Mac;
use media::Media;
use nvm::Nvm;
use pcs::Pcs;
use plain::Plain;
use power::Power;
use ptp::Ptp;
use regs::rfe;
use ring::Ring;
use stats::Stats;
use system::System;
use wire::Port;

/// A controller.
#[derive(Debug)]
pub struct Lan743x {
    params: Params,
    shared: Arc<Mutex<handle::Shared>>,
    /// Counts resets: events of an earlier life do nothing.
    epoch: u64,
    port: Option<Port>,
    plain: Plain,
    sys: System,
    fct: Fct,
    mac: Mac,
    media: Media,
    power: Power,
    pcs: Pcs,
    rfe_ram: [u32; rfe::RAM_WORDS],
    rfe_ctl: u32,
    irq: Irq,
    dmac: Dmac,
    ptp: Ptp,
    nvm: Nvm,
    stats: Stats,
    due: Due,
}

/// The counters, locked.
struct CountersGuard<'a>(MutexGuard<'a, handle::Shared>);

impl Deref for CountersGuard<'_> {
    type Target = Counters;
    fn deref(&self) -> &Counters {
        &self.0.counters
    }
}

impl DerefMut for CountersGuard<'_> {
    fn deref_mut(&mut self) -> &mut Counters {
        &mut self.0.counters
    }
}

impl Lan743x {
    /// A controller as after power-on, without a cable.
    pub fn new(params: Params) -> Self {
        let params = params.sanitized();
        let mut this = Self {
            shared: Arc::new(Mutex::new(handle::Shared::default())),
            epoch: 0,
            port: None,
            plain: Plain::new(params.chip.is_pci11x1x(), params.chip.register_bytes()),
            sys: System::default(),
            fct: Fct::default(),
            mac: Mac::default(),
            media: Media::new(&params),
            power: Power::new(params.chip.is_pci11x1x()),
            pcs: Pcs::new(params.strict_speed),
            rfe_ram: [0; rfe::RAM_WORDS],
            rfe_ctl: 0,
            irq: Irq::default(),
            dmac: Dmac::new(params.chip.tx_channels()),
            ptp: Ptp::new(params.chip.is_pci11x1x()),
            nvm: Nvm::new(&params),
            stats: Stats::default(),
            due: Due::default(),
            params,
        };
        this.lite_reset();
        this.load_mac_address();
        this
    }

    /// Plugs the cable in.
    pub fn connect(&mut self, port: Port) {
        self.port = Some(port);
    }

    /// Access to counters and faults.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// The parameters, each in its range.
    pub fn params(&self) -> &Params {
        &self.params
    }

    fn shared(&self) -> MutexGuard<'_, handle::Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> CountersGuard<'_> {
        CountersGuard(self.shared())
    }

    fn drop_frame(&self, reason: DropReason) {
        if let Some(count) = self.counters().dropped.get_mut(reason as usize) {
            *count += 1;
        }
    }

    fn is_stuck(&self, wait: Wait) -> bool {
        self.shared().faults.stuck >> wait as u32 & 1 != 0
    }

    /// When something that begins now is over; never, if that fault is set.
    fn end_of(&self, wait: Wait, now: u64, time: u64) -> u64 {
        if self.is_stuck(wait) { u64::MAX } else { now.saturating_add(time) }
    }

    fn ring(&self, rx: bool, channel: usize) -> &Ring {
        let rings = if rx { &self.dmac.rx } else { &self.dmac.tx };
        &rings[channel & 3]
    }

    fn ring_mut(&mut self, rx: bool, channel: usize) -> &mut Ring {
        let rings = if rx { &mut self.dmac.rx } else { &mut self.dmac.tx };
        &mut rings[channel & 3]
    }

    /// Everything but PCIe, PHY, the memories and the MAC's address is as after power-on.
    fn lite_reset(&mut self) {
        self.epoch += 1;
        self.plain.reset();
        self.reset_power();
        self.sys = System::default();
        self.fct = Fct::default();
        self.mac.lite_reset();
        self.strap_mac();
        self.pcs = Pcs::new(self.params.strict_speed);
        self.media.lite_reset();
        self.rfe_ram = [0; rfe::RAM_WORDS];
        self.rfe_ctl = 0;
        self.irq = Irq::default();
        self.dmac = Dmac::new(self.params.chip.tx_channels());
        self.due = Due::default();
        self.ptp = Ptp::new(self.params.chip.is_pci11x1x());
        self.stats = Stats::default();
    }

    /// What the loader of EEPROM and OTP brings.
    fn load_mac_address(&mut self) {
        let address = self.nvm.mac().or(self.params.mac).unwrap_or([0xff; 6]);
        let [a, b, c, d, e, f] = address;
        self.mac.address_low = u32::from_le_bytes([a, b, c, d]);
        self.mac.address_high = u32::from_le_bytes([e, f, 0, 0]);
    }
}
