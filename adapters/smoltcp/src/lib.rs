#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod device;
mod pool;

pub use device::{Device, DeviceConfig, DeviceStats, RxToken, TxToken};
pub use pool::Pool;
