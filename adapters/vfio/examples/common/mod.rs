//! What the examples share: how they end.

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;

/// Arguments that are none: ends an example with status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(String);

impl Usage {
    /// What is wrong, and how it would be right.
    pub fn new(what: impl Display, usage: &str) -> Self {
        Self(format!("{what}\nusage: {usage}"))
    }
}

/// Runs an example and says how it ended.
pub fn main(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
