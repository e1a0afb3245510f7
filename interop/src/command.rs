//! Running other programs: bounded in time, gone when we are gone, and with a log.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Lines of a log that are shown when its program failed.
const TAIL: usize = 25;

/// A command that ends with its time limit or with this process, whatever comes first, and takes its
/// own children along. Spawn it from a thread that lives as long as it may run.
pub fn bounded(program: impl AsRef<OsStr>, limit: Duration) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "timeout", "--kill-after=5"]);
    command.arg(format!("{}", limit.as_secs().max(1))).arg(program);
    command
}

/// Runs a command to its end, with its output appended to `log`.
///
/// # Errors
/// If it cannot be started, runs out of time or fails; with the end of its output.
pub fn run(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    let mut file = append(log)?;
    writeln!(file, "+ {command:?}")?;
    let start = file.metadata()?.len();
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("{what}: {:?} cannot be started", command.get_program()))?;
    if status.success() {
        return Ok(());
    }
    let why = match status.code() {
        Some(124 | 137) => "ran out of time".to_owned(),
        Some(code) => format!("failed with exit code {code}"),
        None => format!("failed: {status}"),
    };
    bail!("{what} {why}; the end of {}:\n{}", log.display(), tail(log, start));
}

/// Runs a command and gives what it wrote to standard output.
///
/// # Errors
/// As [`run`].
pub fn output(what: &str, command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{what}: {:?} cannot be started", command.get_program()))?;
    if !output.status.success() {
        bail!("{what} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether there is such a program.
pub fn exists(program: &str) -> bool {
    let found = |path: std::path::PathBuf| path.join(program).is_file();
    std::env::var_os("PATH").is_some_and(|paths| std::env::split_paths(&paths).any(found))
}

/// Opens a log at its end.
///
/// # Errors
/// If it cannot be written.
pub fn append(log: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(log);
    file.with_context(|| format!("{} cannot be written", log.display()))
}

/// The last lines of a log, from byte `start` on.
pub fn tail(log: &Path, start: u64) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes.get(start as usize..).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL)..];
    shown.iter().map(|line| format!("  | {line}\n")).collect()
}
