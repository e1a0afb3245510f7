//! A driver for QEMU's educational device (`-device edu`): the walk-through of the README.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod driver;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("build this for x86_64-unknown-none or aarch64-unknown-none and boot it; see the README");
    std::process::exit(2);
}
