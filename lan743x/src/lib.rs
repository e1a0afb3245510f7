#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "std", test))]
extern crate std;

mod channel;
mod chip;
mod desc;
mod dump;
mod error;
mod filter;
mod interrupts;
mod link;
mod mdio;
mod nic;
mod nvm;
mod pcs;
mod phy;
pub mod ptp;
pub mod regs;
mod ring;
mod rx;
mod selftest;
mod shared;
mod statistics;
#[cfg(test)]
mod testing;
mod tx;
mod wake;

pub use chip::{Chip, Identity, VENDOR};
pub use desc::{RX_BUFFER_MAX, Spacing, TX_FRAME_MAX, TX_LSO_MAX, TX_MSS_MIN, TX_PIECE_MAX};
pub use dump::{DUMP_VERSION, RegisterPlace, RegisterValue};
pub use error::{Error, Wait};
pub use filter::{Filter, Rss};
pub use interrupts::{Moderation, Vectors};
pub use link::{Interface, LinkMode};
pub use mdio::{Mdio, MdioAddress};
pub use nic::{Config, MTU_MAX, Nic, RxStamps};
pub use nvm::{Memory, image_mac_address};
pub use pcs::SerialMode;
pub use phy::{Advertise, Phy};
pub use ring::{RING_MAX, RING_MIN, RingError, RingMemory};
pub use rx::{RxRing, RxStats};
pub use shared::{IrqReport, Shared, SharedRef};
pub use statistics::{COUNTERS, Counter, Statistics};
pub use tx::{Closed, TxRing, TxSlot, TxStats};
pub use wake::{Armed, WakeCause, WakeOptions};
