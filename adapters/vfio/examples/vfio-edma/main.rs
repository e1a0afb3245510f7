//! Drives a DesignWare eDMA or HDMA across the link through VFIO:
//!
//! ```text
//! tombolo bind 0000:01:00.0
//! cargo run -p tombolo-vfio --example vfio-edma -- 0000:01:00.0 [copy|unmapped|lost]
//! ```
//!
//! - `copy` moves 1 MiB into the device and back, and compares;
//! - `unmapped` makes the engine read an address that was never mapped, which the IOMMU must refuse;
//! - `lost` switches the function's memory off while transfers run: the driver says that the device is
//!   gone, and nothing ends in SIGBUS.
//!
//! Exit status: 0 if what was expected came true, 1 if not, 2 for arguments that are none.

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
