//! QEMU's teaching device `edu` (`-device edu`) through VFIO: registers, INTx and MSI, and DMA for a
//! device that reaches 256 MiB only. A first thing to try in a guest without any hardware:
//!
//! ```text
//! tombolo bind 0000:00:02.0
//! cargo run -p tombolo-vfio --example vfio-edu -- 0000:00:02.0
//! ```
//!
//! Source: `docs/specs/edu.rst` of QEMU.

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
