//! Our errors as Linux's numbers.

use tombolo_hal::error::{Error, ErrorKind};

/// Out of memory.
pub const ENOMEM: i32 = 12;
/// Busy.
pub const EBUSY: i32 = 16;
/// No such device.
pub const ENODEV: i32 = 19;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// No space: the shim lends more memory.
pub const ENOSPC: i32 = 28;
/// The other side broke the protocol.
pub const EPROTO: i32 = 71;
/// Not supported.
pub const EOPNOTSUPP: i32 = 95;
/// Input or output error.
pub const EIO: i32 = 5;
/// Timed out.
pub const ETIMEDOUT: i32 = 110;

/// The negative number for an error.
pub fn errno(error: &impl Error) -> i32 {
    match error.kind() {
        ErrorKind::DeviceGone => -ENODEV,
        ErrorKind::Timeout => -ETIMEDOUT,
        ErrorKind::InvalidInput => -EINVAL,
        ErrorKind::NoSpace => -ENOSPC,
        ErrorKind::Unsupported => -EOPNOTSUPP,
        ErrorKind::Busy => -EBUSY,
        ErrorKind::Protocol => -EPROTO,
        ErrorKind::Dma | ErrorKind::Platform => -EIO,
        // What it is for is not there.
        _ => -ENODEV,
    }
}

/// 0, or the negative number.
pub fn result(outcome: Result<(), impl Error>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(error) => errno(&error),
    }
}
