//! Scenarios in which unmodified Linux drivers and kernels are the peer: `cargo xtask`.
//!
//! | module | what it does |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`setup`] | makes, once, the Debian folder with kernels, QEMU and tools, and builds modules |
//! | [`command`] | runs other programs, with a limit and a log |
//! | [`initramfs`], [`guest`] | a virtual machine: its files, its console, its end |
//! | [`devices`] | models that are served to guests |
//! | [`scenarios`] | what is tried |
//! | [`report`] | what came out: a line each, and JUnit XML |
//! | [`measure`] | counts what drivers cost |
//!
//! Exit codes: 0 all passed, 1 something failed, 2 it cannot be tried (wrong usage, not root, no mirror).
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod devices;
#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod initramfs;
mod measure;
mod report;
#[cfg(target_os = "linux")]
mod scenarios;
#[cfg(target_os = "linux")]
mod setup;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    cli::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: interop needs Linux");
    std::process::ExitCode::from(2)
}
