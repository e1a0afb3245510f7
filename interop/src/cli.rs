//! The arguments, and what they lead to.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::report::{Outcome, junit, summary};
use crate::scenarios::{Context as Scenery, SCENARIOS, Scenario};
use crate::setup::Folder;

/// Tries Tombolo against unmodified Linux kernels and drivers, in virtual machines.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 80)]
#[command(after_help = "Exit codes: 0 all passed, 1 something failed, 2 it cannot be tried.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios; all of them unless some are named
    Interop(InteropArgs),
    /// Count what a driver costs in a guest, ours beside Linux's own
    Measure(MeasureArgs),
}

/// Where things are kept.
#[derive(Debug, Args)]
struct Place {
    /// Folder for everything from outside, made once
    /// [default: ~/.cache/tombolo-interop]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Debian mirror [default: the one of this machine's apt]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
}

#[derive(Debug, Args)]
struct InteropArgs {
    /// Scenarios
    names: Vec<String>,
    /// Longer: 10000 transfers a register map and every combination
    #[arg(long)]
    full: bool,
    /// Name the scenarios and stop
    #[arg(long)]
    list: bool,
    /// Make what is needed from outside and stop
    #[arg(long)]
    set_up: bool,
    /// Also write the results there, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// The driver
    #[arg(value_parser = ["edma"])]
    driver: String,
    #[command(flatten)]
    place: Place,
}

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Interop(args) => interop(&args),
        Command::Measure(args) => measure(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn interop(args: &InteropArgs) -> Result<bool> {
    if args.list {
        for scenario in SCENARIOS {
            println!("{:<12} {}", scenario.name, scenario.what);
        }
        return Ok(true);
    }
    let chosen = choose(&args.names)?;
    let folder = Folder::open(args.place.dir.clone())?;
    let kernels = folder.make(args.place.mirror.as_deref())?;
    if args.set_up {
        return Ok(true);
    }
    let scenery = Scenery::new(&folder, kernels, args.full)?;
    let mut outcomes = Vec::new();
    for scenario in chosen {
        let outcome = run(scenario, &scenery);
        println!("{}", outcome.lines());
        outcomes.push(outcome);
    }
    if let Some(file) = &args.junit {
        std::fs::write(file, junit(&outcomes)).with_context(|| file.display().to_string())?;
    }
    println!("{}", summary(&outcomes));
    Ok(outcomes.iter().all(|outcome| outcome.failure.is_none()))
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| {
        let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
        found.with_context(|| format!("there is no scenario {name}; --list names them"))
    };
    names.iter().map(find).collect()
}

fn run(scenario: &Scenario, scenery: &Scenery<'_>) -> Outcome {
    let start = Instant::now();
    let mut facts = Vec::new();
    let result = (scenario.run)(scenery, &mut facts);
    Outcome {
        name: scenario.name.to_owned(),
        took: start.elapsed(),
        facts,
        failure: result.err().map(|error| format!("{error:#}")),
    }
}

fn measure(args: &MeasureArgs) -> Result<bool> {
    let folder = Folder::open(args.place.dir.clone())?;
    let kernels = folder.make(args.place.mirror.as_deref())?;
    let scenery = Scenery::new(&folder, kernels, false)?;
    match args.driver.as_str() {
        "edma" => crate::measure::edma(&scenery),
        other => anyhow::bail!("there is no measurement of {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent_and_names_are_checked() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        assert_eq!(choose(&[]).unwrap().len(), SCENARIOS.len());
        assert!(choose(&["no-such-thing".into()]).is_err());
        assert_eq!(choose(&[SCENARIOS[0].name.into()]).unwrap().len(), 1);
    }
}
