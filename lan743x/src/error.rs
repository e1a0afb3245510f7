//! What can go wrong.

use tombolo_hal::error::ErrorKind;
use tombolo_hal::mmio::WindowError;
use tombolo_hal::wait::Timeout;

/// Something that the driver waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// The controller's reset.
    LiteReset,
    /// The PHY's reset.
    PhyReset,
    /// The DMA controller's reset.
    DmacReset,
    /// A channel's reset.
    ChannelReset,
    /// A channel's stop.
    ChannelStop,
    /// A FIFO's reset.
    FifoReset,
    /// A FIFO's disable.
    FifoDisable,
    /// The receiver's stop.
    ReceiverStop,
    /// The transmitter's stop.
    TransmitterStop,
    /// MDIO.
    Mdio,
    /// The PCS's registers.
    Pcs,
    /// The PCS's power sequence.
    PcsPower,
    /// The data port.
    DataPort,
    /// The system lock, which another function of the chip has.
    SystemLock,
    /// The EEPROM.
    Eeprom,
    /// The OTP memory.
    Otp,
    /// A command of the PTP clock.
    PtpCommand,
    /// The interrupt of the self-test.
    TestInterrupt,
}

impl core::fmt::Display for Wait {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Wait::LiteReset => "the lite reset",
            Wait::PhyReset => "the reset of the PHY",
            Wait::DmacReset => "the reset of the DMA controller",
            Wait::ChannelReset => "the reset of a DMA channel",
            Wait::ChannelStop => "the stop of a DMA channel",
            Wait::FifoReset => "the reset of a FIFO",
            Wait::FifoDisable => "the disabling of a FIFO",
            Wait::ReceiverStop => "the stop of the receiver",
            Wait::TransmitterStop => "the stop of the transmitter",
            Wait::Mdio => "an MDIO transaction",
            Wait::Pcs => "an access to the PCS",
            Wait::PcsPower => "the power sequence of the PCS",
            Wait::DataPort => "the data port",
            Wait::SystemLock => "the system lock",
            Wait::Eeprom => "the EEPROM",
            Wait::Otp => "the OTP memory",
            Wait::PtpCommand => "a command of the PTP clock",
            Wait::TestInterrupt => "the test interrupt",
        })
    }
}

/// An error of the driver. Nothing was changed unless a variant says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device reads all ones: it was removed, or its link is down.
    #[error("the device is gone (it reads all ones)")]
    DeviceGone,
    /// The identity register names no chip that this driver knows.
    #[error("unknown chip: the identity register reads {id:#010x}")]
    UnknownChip {
        /// What it reads.
        id: u32,
    },
    /// BAR 0 is too small.
    #[error("register window: {0}")]
    Registers(#[source] WindowError),
    /// The device did not do in time what it had to do.
    #[error("{what} did not end within {waited_us} us")]
    Timeout {
        /// What was waited for.
        what: Wait,
        /// How long, in microseconds.
        waited_us: u32,
    },
    /// A number is outside of what the device takes.
    #[error("{what} is {value}; {least} to {most} is possible")]
    Range {
        /// Of what.
        what: &'static str,
        /// What was given.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A ring's length is no power of two.
    #[error("a ring of {0} descriptors: a power of two is wanted")]
    RingLength(usize),
    /// There is no such channel.
    #[error("there is no channel {channel}: this chip has {available}")]
    NoChannel {
        /// Which was asked for.
        channel: u8,
        /// How many there are.
        available: u8,
    },
    /// The channel is open already.
    #[error("channel {0} is open already")]
    ChannelOpen(u8),
    /// The channel did not start where it has to.
    #[error("after its reset the head of channel {channel} is {head} and not 0")]
    Head {
        /// Which channel.
        channel: u8,
        /// What it reads.
        head: u32,
    },
    /// There is a control handle already.
    #[error("this controller is controlled by another handle")]
    Controlled,
    /// The ring is full now.
    #[error("the ring is full: {needed} descriptors are needed, {free} are free")]
    Full {
        /// How many the frame needs.
        needed: usize,
        /// How many are free.
        free: usize,
    },
    /// The frame can never be sent.
    #[error("a frame of {pieces} pieces and {length} bytes cannot be sent: {why}")]
    Frame {
        /// How many pieces it has.
        pieces: usize,
        /// How many bytes.
        length: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody answers at this address.
    #[error("no PHY answers at MDIO address {0}")]
    NoPhy(u8),
    /// The memory gave an error.
    #[error("the memory did not answer: is there an EEPROM?")]
    NoMemory,
    /// The chip cannot do this.
    #[error("{0} is not supported by this chip")]
    Unsupported(&'static str),
    /// The device gives a time that is none.
    #[error("the clock reads {0} nanoseconds, which is a second or more")]
    BadTime(u32),
    /// The pin is used for something else.
    #[error("pin {0} is in use")]
    PinInUse(u8),
    /// OTP bits that are programmed cannot be cleared. Nothing was written.
    #[error("OTP byte {offset:#x} is {found:#04x} for ever and cannot become {wanted:#04x}")]
    Programmed {
        /// Which byte.
        offset: u32,
        /// What it is.
        found: u8,
        /// What it was to be.
        wanted: u8,
    },
    /// A byte of EEPROM or OTP is not what was written. All were written.
    #[error("byte {offset:#x} of the memory reads {found:#04x} after {wanted:#04x} was written")]
    Verify {
        /// Which byte.
        offset: u32,
        /// What it reads.
        found: u8,
        /// What was written.
        wanted: u8,
    },
    /// A register does not keep what is written to it. It was restored.
    #[error("register {offset:#x} reads {read:#010x} after {wrote:#010x} was written")]
    RegisterTest {
        /// Which register: byte offset in BAR 0.
        offset: u32,
        /// What was written.
        wrote: u32,
        /// What was read, of the bits that can be written.
        read: u32,
    },
}

impl Error {
    pub(crate) fn timeout(what: Wait) -> impl FnOnce(Timeout) -> Error {
        move |timeout| Error::Timeout { what, waited_us: timeout.waited_us }
    }
}

impl tombolo_hal::error::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::DeviceGone => ErrorKind::DeviceGone,
            Error::Timeout { .. } | Error::NoMemory => ErrorKind::Timeout,
            Error::Registers(_)
            | Error::Range { .. }
            | Error::RingLength(_)
            | Error::NoChannel { .. }
            | Error::Frame { .. } => ErrorKind::InvalidInput,
            Error::ChannelOpen(_) | Error::Controlled | Error::PinInUse(_) => ErrorKind::Busy,
            Error::Full { .. } => ErrorKind::NoSpace,
            Error::Head { .. } | Error::BadTime(_) => ErrorKind::Protocol,
            Error::UnknownChip { .. } | Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::NoPhy(_)
            | Error::Programmed { .. }
            | Error::Verify { .. }
            | Error::RegisterTest { .. } => ErrorKind::Other,
        }
    }
}

impl From<WindowError> for Error {
    fn from(error: WindowError) -> Self {
        Error::Registers(error)
    }
}
