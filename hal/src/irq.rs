//! Interrupts as a driver sees them.
//!
//! A driver never registers a handler itself: it offers `on_irq(&self)`, which uses atomics only and
//! may run on any CPU at any time, and the platform calls it. What the driver does need is the
//! message of a vector, if its engine writes its own interrupts.

/// How interrupts reach the driver, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IrqMode {
    /// MSI-X.
    MsiX,
    /// MSI.
    Msi,
    /// The shared, level-triggered pin.
    Intx,
    /// None: the driver looks at the device itself. Every platform has this one.
    Polling,
}

impl core::fmt::Display for IrqMode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            IrqMode::MsiX => "msi-x",
            IrqMode::Msi => "msi",
            IrqMode::Intx => "intx",
            IrqMode::Polling => "polling",
        })
    }
}

/// The memory write that is an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MsiMessage {
    /// Where to write, as a bus address.
    pub address: u64,
    /// What to write.
    pub data: u32,
}

/// The interrupt vectors that a platform gave to a function.
#[cfg_attr(feature = "mock", mockall::automock)]
pub trait IrqSource {
    /// How interrupts arrive.
    fn mode(&self) -> IrqMode;

    /// How many vectors there are: 0 when polling.
    fn vectors(&self) -> u16;

    /// The message of `vector` as the platform programmed it, data included: for MSI with several
    /// vectors the low data bits differ from vector to vector.
    ///
    /// `None` if the platform cannot tell, or for INTx and polling: an engine that must write its
    /// own interrupt then has to be polled.
    fn message(&self, vector: u16) -> Option<MsiMessage>;

    /// A number that differs from its earlier values whenever a message has changed, as it does
    /// when a vector moves to another CPU. Drivers that handed messages to an engine compare it and
    /// hand out the new ones.
    fn message_epoch(&self) -> u32;
}

impl<T: IrqSource + ?Sized> IrqSource for &T {
    fn mode(&self) -> IrqMode {
        (**self).mode()
    }
    fn vectors(&self) -> u16 {
        (**self).vectors()
    }
    fn message(&self, vector: u16) -> Option<MsiMessage> {
        (**self).message(vector)
    }
    fn message_epoch(&self) -> u32 {
        (**self).message_epoch()
    }
}

/// No interrupts: the driver polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollingOnly;

impl IrqSource for PollingOnly {
    fn mode(&self) -> IrqMode {
        IrqMode::Polling
    }
    fn vectors(&self) -> u16 {
        0
    }
    fn message(&self, _vector: u16) -> Option<MsiMessage> {
        None
    }
    fn message_epoch(&self) -> u32 {
        0
    }
}
