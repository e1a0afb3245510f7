#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(target_os = "linux"),
    doc = "PCIe device models for virtual machines over vfio-user: empty on this host."
)]
#![cfg(target_os = "linux")]

pub mod client;
pub mod protocol;
pub mod server;
mod shared_file;
mod stream;
