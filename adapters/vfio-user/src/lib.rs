#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(target_os = "linux"),
    doc = "PCIe device models for virtual machines over vfio-user: empty on this host."
)]
#![cfg(target_os = "linux")]

// The fuzz targets, which are tests too, name this crate from outside.
#[cfg(test)]
extern crate self as tombolo_vfio_user;

pub mod client;
pub mod protocol;
pub mod server;
mod shared_file;
mod stream;

#[cfg(test)]
mod fuzz_inputs;
