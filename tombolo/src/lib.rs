//! The library half of the command-line tool `tombolo`: Tombolo's portable PCIe drivers on simulated
//! machines.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`tour`] | what runs without arguments: a file through all formats and back |
//! | [`job`] | one run of `tombolo dma`: what is asked for, and whether it can be |
//! | [`machine`] | what the simulated machine and its device are like |
//! | [`rig`], [`list`] | such a machine with the driver on it |
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
pub mod device_side;
pub mod fault;
pub mod job;
pub mod list;
pub mod machine;
pub mod pace;
pub mod plan;
pub mod progress;
pub mod report;
pub mod rig;
pub mod tally;
pub mod text;
pub mod tour;
pub mod transfers;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing::Level;

use cli::{Cli, Command, DmaArgs};

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
    let job = args.job()?;
    let report = job.run();
    if args.json {
        emit(&report.json());
    } else {
        emit(&report.summary());
    }
    Ok(report.is_right())
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
