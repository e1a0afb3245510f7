//! Error kinds, in embedded-hal's manner: drivers have typed errors of their own, and generic code
//! asks them for their [`kind`](Error::kind).

/// What went wrong, as far as generic code can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device is gone: it reads all ones, or its link is down. Close the driver.
    DeviceGone,
    /// The device did not do in time what it had to do.
    Timeout,
    /// The caller's arguments are wrong; nothing was changed.
    InvalidInput,
    /// A pool, list or ring is full; try again after completions.
    NoSpace,
    /// The device or driver cannot do this.
    Unsupported,
    /// Not now: another operation is under way.
    Busy,
    /// The device or peer broke the protocol; what it said was not used.
    Protocol,
    /// A DMA transfer failed.
    Dma,
    /// The platform (memory, mapping, interrupts) failed; see the error's source.
    Platform,
    /// Anything else.
    Other,
}

impl core::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ErrorKind::DeviceGone => "the device is gone",
            ErrorKind::Timeout => "timed out",
            ErrorKind::InvalidInput => "invalid input",
            ErrorKind::NoSpace => "no space",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::Busy => "busy",
            ErrorKind::Protocol => "the device or peer broke the protocol",
            ErrorKind::Dma => "DMA failed",
            ErrorKind::Platform => "the platform failed",
            ErrorKind::Other => "failed",
        })
    }
}

/// An error of a driver or platform.
pub trait Error: core::error::Error {
    /// What generic code can know of it.
    fn kind(&self) -> ErrorKind;
}

impl Error for core::convert::Infallible {
    fn kind(&self) -> ErrorKind {
        match *self {}
    }
}
