#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "std", test))]
extern crate std;

/// The register of one kind of channel: the write channels' or the read channels' one.
macro_rules! kind_reg {
    ($kind:expr, $globals:expr, $write:ident, $read:ident) => {
        match $kind {
            $crate::ChannelKind::Write => ::tombolo_hal::reg!($globals, $crate::regs::v0::Globals, $write),
            $crate::ChannelKind::Read => ::tombolo_hal::reg!($globals, $crate::regs::v0::Globals, $read),
        }
    };
}

mod channel;
mod config;
mod control;
mod detect;
mod engine;
mod error;
mod list;
pub mod regs;
mod shared;

pub use channel::{Channel, ChannelMemory, Desc, Mode, Peripheral, Segment, Stats};
pub use config::{
    ChannelId, ChannelKind, Config, Format, Location, Translation, TranslationWindow, direction_of,
};
pub use control::{Controller, Vectors};
pub use detect::{CoreVersion, LocalEngine, RemoteEngine, VENDOR_SYNOPSYS, VENDOR_XILINX, detect_local};
pub use error::{Error, ListError, MessageError};
pub use list::{DataElement, ELEMENT_SIZE, ElementControl, LinkElement, ListMemory, NoList, RefusedList};
pub use shared::{Interrupts, IrqReport, Shared, SharedRef};
