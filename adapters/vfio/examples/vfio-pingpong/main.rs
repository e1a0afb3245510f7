//! One side of a bridge of shared memory and doorbells (`tombolo_sim::bridge`) through VFIO: two guests
//! throw a block of words back and forth, and each checks that the data is there when the bell rings.
//!
//! ```text
//! cargo run -p tombolo-vfio-user --example two_guests -- /tmp/one.sock /tmp/two.sock
//! # in both guests:
//! tombolo bind 0000:00:04.0
//! cargo run -p tombolo-vfio --example vfio-pingpong -- 0000:00:04.0 500
//! ```

#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    common::main(linux::run)
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: VFIO exists on Linux only");
    std::process::ExitCode::FAILURE
}
