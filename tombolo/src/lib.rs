//! The library half of the command-line tool `tombolo`: Tombolo's portable PCIe drivers on simulated
//! machines.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`device`] | which device is meant, and what was found there |
//! | [`tour`] | what runs without arguments: a file through all formats and back |
//! | [`job`] | one run of `tombolo dma`: what is asked for, and whether it can be |
//! | [`machine`] | what the simulated machine and its device are like |
//! | [`platform`] | what the tool needs of the place where a driver runs |
//! | [`simulated`] | the simulated machine as such a place |
//! | [`hosted`] | a device that was opened as such a place |
//! | `vfio`, `functions` | devices of VFIO, and giving them to it (on Linux) |
//! | [`rig`], [`list`] | a platform with the driver on it |
//! | [`pace`] | waiting for the device, with limits, so that nothing hangs |
//! | [`plan`], [`transfers`] | scatter-gather transfers with several in flight |
//! | [`cyclic`] | cyclic transfers, checked period by period |
//! | [`fault`] | what is made to go wrong |
//! | [`data`], [`device_side`] | the bytes, and whether they arrived |
//! | [`progress`], [`tally`], [`text`], [`report`] | what is shown, counted and told at the end |
//!
//! Exit codes: 0 all data was right, 1 data was wrong or a transfer failed, 2 wrong usage.
#![forbid(unsafe_code)]

pub mod cli;
pub mod cyclic;
pub mod data;
pub mod device;
pub mod device_side;
pub mod fault;
#[cfg(target_os = "linux")]
pub mod functions;
pub mod hosted;
pub mod job;
pub mod list;
pub mod machine;
pub mod pace;
pub mod plan;
pub mod platform;
pub mod progress;
pub mod report;
pub mod rig;
#[cfg(target_os = "linux")]
pub mod serve;
pub mod simulated;
pub mod tally;
pub mod text;
pub mod tour;
pub mod transfers;
#[cfg(target_os = "linux")]
pub mod vfio;
#[cfg(target_os = "linux")]
pub mod vfio_user;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing::Level;

use cli::{Cli, Command, DmaArgs};
use device::DeviceArg;

/// What the user asked for cannot be done: exit code 2.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(cli.verbose);
    let (result, help) = match &cli.command {
        None => (tour::run(cli.input.as_deref()), "--help"),
        Some(Command::Dma(args)) => (dma(args), "dma --help"),
        #[cfg(target_os = "linux")]
        Some(Command::Serve(args)) => (serve::run(args), "serve --help"),
        #[cfg(target_os = "linux")]
        Some(Command::List { json }) => (Ok(tell(functions::list(*json))), "list --help"),
        #[cfg(target_os = "linux")]
        Some(Command::Bind(args)) => (Ok(tell(functions::bind(args.address, args.force))), "bind --help"),
        #[cfg(target_os = "linux")]
        Some(Command::Unbind(args)) => {
            (Ok(tell(functions::unbind(args.address, args.force))), "unbind --help")
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(usage) => {
            eprintln!("error: {usage}\n\nFor more information, try 'tombolo {help}'.");
            ExitCode::from(2)
        }
    }
}

/// `tombolo dma`. Returns whether all data was right.
fn dma(args: &DmaArgs) -> Result<bool, Usage> {
    let report = match &args.device {
        DeviceArg::Sim => Ok(args.job(None)?.run()),
        #[cfg(target_os = "linux")]
        DeviceArg::Vfio(address) => device::run(args, || vfio::Vfio::open(*address))?,
        #[cfg(target_os = "linux")]
        DeviceArg::VfioUser(path) => device::run(args, || vfio_user::VfioUser::open(path))?,
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            if args.json {
                emit(&device::refused(args, &error));
            }
            return Ok(false);
        }
    };
    if args.json {
        emit(&report.json());
    } else {
        emit(&report.summary());
    }
    Ok(report.is_right())
}

/// Prints what was done, or why it was not. Returns whether it was.
#[cfg(target_os = "linux")]
fn tell(result: Result<String, tombolo_vfio::Error>) -> bool {
    match &result {
        Ok(text) => emit(text),
        Err(error) => eprintln!("error: {error}"),
    }
    result.is_ok()
}

/// Prints to standard output. Nobody may be listening any more (`tombolo | head`), which is no error.
pub(crate) fn emit(text: &str) {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            // A result that nobody can read must not look like a good one.
            eprintln!("error: cannot write the result: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let colours = std::io::stderr().is_terminal();
    let to_stderr = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colours);
    to_stderr.with_max_level(level).without_time().init();
}
