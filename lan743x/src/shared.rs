//! What the control handle, the queues and the interrupt handler share.

use core::ops::Deref;

use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};
use tombolo_hal::sync::{AtomicBool, AtomicU32, Ordering};

use crate::regs::dmac::{self, Dmac, Ring, RxConfig, TxConfig};
use crate::regs::interrupts::{self, INT, Interrupts};
use crate::regs::mac::{self, Mac};
use crate::regs::rfe::{self, Rfe};
use crate::regs::statistics::{self, Statistics};
use crate::regs::system::System;
use crate::regs::{BAR_SIZE, BAR_SIZE_PCI11X1X};
use crate::{Error, Identity};

/// How a queue's interrupts are switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueIrq {
    /// Not at all: somebody polls.
    Polled,
    /// The handler masks the queue, who has polled it unmasks it.
    Manual,
    /// The device masks it, a write of the tail unmasks it.
    Auto,
}

impl QueueIrq {
    fn from_word(word: u32) -> Self {
        match word {
            1 => QueueIrq::Manual,
            2 => QueueIrq::Auto,
            _ => QueueIrq::Polled,
        }
    }

    pub(crate) const fn word(self) -> u32 {
        match self {
            QueueIrq::Polled => 0,
            QueueIrq::Manual => 1,
            QueueIrq::Auto => 2,
        }
    }
}

/// What [`Shared::on_irq`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IrqReport {
    /// Whether there was anything of ours: if not, a shared interrupt was another device's.
    pub handled: bool,
    /// Receive channels to be polled, a bit each.
    pub rx: u8,
    /// Transmit channels to be polled, a bit each.
    pub tx: u8,
    /// The PTP block wants attention.
    pub ptp: bool,
}

/// What a vector is for, in [`Shared`]'s word for it.
pub(crate) mod vector {
    /// It has no queue of its own: its handler reads the status.
    pub const SHARED: u32 = 0;
    /// It has one queue: the bit of its channel in the layout of the interrupt status.
    pub const ENABLES: u32 = 0x0f0f_0000;
    /// The device masks it by itself.
    pub const AUTO: u32 = 1;
}

/// The registers of a controller, and the words that its interrupt handler shares with the queues.
///
/// The platform decides where it lives and hands out references; handles take anything that dereferences
/// to it.
#[derive(Debug)]
pub struct Shared<M> {
    pub(crate) io: Window<M>,
    pub(crate) system: Window<M, System>,
    pub(crate) mac: Window<M, Mac>,
    pub(crate) rfe: Window<M, Rfe>,
    pub(crate) interrupts: Window<M, Interrupts>,
    pub(crate) dmac: Window<M, Dmac>,
    pub(crate) statistics: Window<M, Statistics>,
    identity: Identity,
    /// What each vector is for: see [`vector`].
    vectors: [AtomicU32; 16],
    /// The software interrupt of the self-test came.
    pub(crate) tested: AtomicBool,
    /// Which sources the shared vector's handler may see.
    pub(crate) shared_sources: AtomicU32,
    rx_modes: [AtomicU32; 4],
    tx_modes: [AtomicU32; 4],
    open_rx: AtomicU32,
    open_tx: AtomicU32,
    controlled: AtomicBool,
    gone: AtomicBool,
}

/// Anything that leads to a [`Shared`]: `&'static`, `Arc`, a counted pointer of a shim.
pub trait SharedRef: Clone {
    /// The registers' backend.
    type Mmio: Mmio + Clone;
    /// The shared state.
    fn shared(&self) -> &Shared<Self::Mmio>;
}

impl<M: Mmio + Clone, S: Deref<Target = Shared<M>> + Clone> SharedRef for S {
    type Mmio = M;
    #[inline(always)]
    fn shared(&self) -> &Shared<M> {
        self
    }
}

impl<M: Mmio + Clone> Shared<M> {
    /// Looks at the controller whose BAR 0 `io` is, and silences its interrupts.
    ///
    /// # Errors
    /// [`Error`] if it is gone, of no known kind, or if `io` is too small.
    pub fn new(io: Window<M>) -> Result<Self, Error> {
        io.clone().sub(0, BAR_SIZE)?;
        let system: Window<M, System> = io.clone().layout(0)?;
        let identity = Identity::from_id_rev(reg!(system, System, id_rev).get())?;
        if identity.chip.is_pci11x1x() {
            io.clone().sub(0, BAR_SIZE_PCI11X1X)?;
        }
        let words = || core::array::from_fn(|_| AtomicU32::new(0));
        let this = Self {
            system,
            mac: io.clone().layout(mac::MAC)?,
            rfe: io.clone().layout(rfe::RFE)?,
            interrupts: io.clone().layout(interrupts::INTERRUPTS)?,
            dmac: io.clone().layout(dmac::DMAC)?,
            statistics: io.clone().layout(statistics::STATISTICS)?,
            io,
            identity,
            vectors: core::array::from_fn(|_| AtomicU32::new(vector::SHARED)),
            tested: AtomicBool::new(false),
            shared_sources: AtomicU32::new(0),
            rx_modes: words(),
            tx_modes: words(),
            open_rx: AtomicU32::new(0),
            open_tx: AtomicU32::new(0),
            controlled: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        };
        reg!(this.interrupts, Interrupts, en_clr).set(u32::MAX);
        Ok(this)
    }

    /// Chip and revision.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether the device was seen to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Asks the device whether it is still there.
    ///
    /// # Errors
    /// [`Error::DeviceGone`].
    pub fn check_present(&self) -> Result<(), Error> {
        if self.is_gone() || reg!(self.system, System, id_rev).get() == u32::MAX {
            self.mark_gone();
            return Err(Error::DeviceGone);
        }
        Ok(())
    }

    /// To be called for each interrupt of `vector` (0 for MSI with one vector and for INTx). Uses nothing
    /// but registers and atomics; may run on any CPU at any time.
    ///
    /// A queue's own vector takes no register access where the device masks it by itself, and one write
    /// elsewhere.
    #[inline]
    pub fn on_irq(&self, vector: u16) -> IrqReport {
        let word =
            self.vectors.get(usize::from(vector)).map_or(vector::SHARED, |w| w.load(Ordering::Acquire));
        let queues = word & vector::ENABLES;
        if queues == 0 {
            return self.on_shared_irq();
        }
        if word & vector::AUTO == 0 {
            reg!(self.interrupts, Interrupts, en_clr).relaxed().set(queues);
        }
        IrqReport {
            handled: true,
            rx: (queues >> 24) as u8 & 0xf,
            tx: (queues >> 16) as u8 & 0xf,
            ptp: false,
        }
    }

    fn on_shared_irq(&self) -> IrqReport {
        let status = reg!(self.interrupts, Interrupts, sts).get();
        if status == u32::MAX {
            self.mark_gone();
            return IrqReport::default();
        }
        let ours = status & self.shared_sources.load(Ordering::Acquire);
        if ours == 0 {
            return IrqReport::default();
        }
        // Masked until somebody has looked: a level would come again and again.
        reg!(self.interrupts, Interrupts, en_clr).relaxed().set(ours);
        if ours & INT::SW_GP::SET.value != 0 {
            self.tested.store(true, Ordering::Release);
        }
        IrqReport {
            handled: true,
            rx: (ours >> 24) as u8 & 0xf,
            tx: (ours >> 16) as u8 & 0xf,
            ptp: ours & INT::PTP::SET.value != 0,
        }
    }

    pub(crate) fn set_vector(&self, number: u16, word: u32) {
        if let Some(slot) = self.vectors.get(usize::from(number)) {
            slot.store(word, Ordering::Release);
        }
    }

    pub(crate) fn queue_irq(&self, rx: bool, channel: u8) -> QueueIrq {
        let modes = if rx { &self.rx_modes } else { &self.tx_modes };
        QueueIrq::from_word(modes[usize::from(channel & 3)].load(Ordering::Acquire))
    }

    pub(crate) fn set_queue_irq(&self, rx: bool, channel: u8, mode: QueueIrq) {
        let modes = if rx { &self.rx_modes } else { &self.tx_modes };
        modes[usize::from(channel & 3)].store(mode.word(), Ordering::Release);
    }

    pub(crate) fn control(&self) -> Result<(), Error> {
        if self.controlled.swap(true, Ordering::AcqRel) { Err(Error::Controlled) } else { Ok(()) }
    }

    pub(crate) fn release_control(&self) {
        self.controlled.store(false, Ordering::Release);
    }

    /// Takes a channel; the caller gives it back with [`leave`](Self::leave).
    pub(crate) fn enter(&self, rx: bool, channel: u8) -> Result<(), Error> {
        let chip = self.identity.chip;
        let available = if rx { chip.rx_channels() } else { chip.tx_channels() };
        if channel >= available {
            return Err(Error::NoChannel { channel, available });
        }
        let open = if rx { &self.open_rx } else { &self.open_tx };
        let before = open.fetch_or(1 << channel, Ordering::AcqRel);
        if before >> channel & 1 != 0 { Err(Error::ChannelOpen(channel)) } else { Ok(()) }
    }

    pub(crate) fn leave(&self, rx: bool, channel: u8) {
        let open = if rx { &self.open_rx } else { &self.open_tx };
        open.fetch_and(!(1 << (channel & 3)), Ordering::AcqRel);
    }

    pub(crate) fn rx_config(&self, channel: u8) -> Result<Window<M, RxConfig>, Error> {
        Ok(self.io.clone().bank(dmac::RX_CHANNELS, dmac::CHANNEL_STRIDE, channel.into())?)
    }

    pub(crate) fn tx_config(&self, channel: u8) -> Result<Window<M, TxConfig>, Error> {
        Ok(self.io.clone().bank(dmac::TX_CHANNELS, dmac::CHANNEL_STRIDE, channel.into())?)
    }

    pub(crate) fn ring(&self, rx: bool, channel: u8) -> Result<Window<M, Ring>, Error> {
        let first = if rx { dmac::RX_CHANNELS } else { dmac::TX_CHANNELS };
        Ok(self.io.clone().bank(first + dmac::RING, dmac::CHANNEL_STRIDE, channel.into())?)
    }
}
