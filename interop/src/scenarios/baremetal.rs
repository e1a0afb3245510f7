//! Our driver without an operating system: the images of `adapters/baremetal` on both machines.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use super::{Context, number};
use crate::command::tail;
use crate::devices::{Fault, Model, Served, Vectors, models};
use crate::guest::{Arch, Guest, Spec};

struct Machine {
    name: &'static str,
    arch: Arch,
    target: &'static str,
    /// Of the image: QEMU writes an engine's messages with requester 0, which an ITS looks at unless
    /// they are those of the MSI capability.
    options: &'static str,
    /// QEMU's exit status for the image's.
    status: fn(i32) -> i32,
}

const MACHINES: [Machine; 2] = [
    Machine { name: "q35", arch: Arch::X86, target: "x86_64-unknown-none", options: "", status: debug_exit },
    Machine {
        name: "virt",
        arch: Arch::Arm,
        target: "aarch64-unknown-none",
        options: "requester-alias=0",
        status: std::convert::identity,
    },
];

/// What QEMU's debug exit device makes of a status; success is told by power-off.
fn debug_exit(status: i32) -> i32 {
    if status == 0 { 0 } else { 2 * status + 1 }
}

/// Each machine with each kind of vectors, then with the faults that Linux's driver was shown.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let names: &[&str] = context.pick(
        &["edda-unroll", "b054"],
        &["edda-legacy", "edda-unroll", "edda-hdma-compat", "edda-hdma-native", "b054", "b00f"],
    );
    for machine in &MACHINES {
        let image = context.folder.bare_example("tombolo-baremetal", "bare-edma", machine.target)?;
        for model in models().into_iter().filter(|model| names.contains(&model.name)) {
            for vectors in [Vectors::MsiX, Vectors::Msi] {
                let what = format!("{} {} {vectors:?}", machine.name, model.name);
                let result = transfers(context, machine, &image, model.clone().with(vectors), vectors);
                facts.push(result.with_context(|| what)?);
            }
        }
        for fault in Fault::ALL {
            let what = format!("{} {}", machine.name, fault.name());
            facts.push(misfortune(context, machine, &image, fault).with_context(|| what)?);
        }
    }
    Ok(())
}

/// A machine with one device: what the image reports, and its exit status.
fn boot(
    context: &Context<'_>,
    machine: &Machine,
    image: &Path,
    device: &Served,
    options: String,
    log: &Path,
) -> Result<(Value, i32)> {
    let spec = Spec {
        arch: machine.arch,
        kernel: image.to_owned(),
        initrd: None,
        append: options,
        cpus: 1,
        arguments: device.arguments(),
        reboots: false,
        limit: Duration::from_secs(context.pick(60, 300)),
    };
    let (lines, code) = Guest::start(context.folder, &spec, log)?.wait()?;
    let end = || format!("the end of {}:\n{}", log.display(), tail(log, 0));
    let told = lines.iter().find_map(|line| line.strip_prefix("tombolo: exit status "));
    let status: i32 = told.with_context(end)?.trim().parse().with_context(end)?;
    if code != Some((machine.status)(status)) {
        bail!("the image ended with {status} and QEMU with {code:?}; {}", end());
    }
    let line = lines.iter().find(|line| line.starts_with('{')).with_context(end)?;
    Ok((serde_json::from_str(line).with_context(|| line.clone())?, status))
}

fn transfers(
    context: &Context<'_>,
    machine: &Machine,
    image: &Path,
    model: Model,
    vectors: Vectors,
) -> Result<String> {
    let device = Served::edma(context.sockets(), 4, model.params.clone(), true)?;
    let irq = if vectors == Vectors::MsiX { "msi-x" } else { "msi" };
    let rounds = context.pick(50, 1000);
    // With MSI the server knows the message and signals the vector itself.
    let alias = if vectors == Vectors::MsiX { machine.options } else { "" };
    let log = context.fresh_log(&format!("baremetal-{}-{}-{irq}", machine.name, model.name))?;
    let options = format!("irq={irq} rounds={rounds} {alias}");
    let (result, status) = boot(context, machine, image, &device, options, &log)?;
    if status != 0 {
        bail!("exit status {status}: {result}; see {}", log.display());
    }
    super::passed("verdict", &result)?;
    let interrupts: u64 =
        result["interrupts"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
    if result["irq"] != irq || interrupts == 0 || number(&result, "found_by_looking")? != 0 {
        bail!("not by {irq}: {result}");
    }
    device.stop()?;
    Ok(format!(
        "{} {}: {} transfers, {} bytes, {interrupts} interrupts by {irq}, status 0",
        machine.name, model.name, result["transfers"], result["bytes"]
    ))
}

/// A fault strikes while transfers run. The image says what it was, and its exit status too.
fn misfortune(context: &Context<'_>, machine: &Machine, image: &Path, fault: Fault) -> Result<String> {
    let model = models().into_iter().find(|model| model.name == "edda-unroll").context("a model")?;
    let device = Served::edma(context.sockets(), 4, model.params.clone(), true)?;
    let log = context.fresh_log(&format!("baremetal-{}-{}", machine.name, fault.name()))?;
    let options = format!("irq=msi-x rounds=200 {}", machine.options);
    let over = AtomicBool::new(false);
    let (result, status) = std::thread::scope(|scope| {
        let striker = scope.spawn(|| {
            while device.server.counters().message_interrupts < 20 && !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            fault.strike(&device)
        });
        let ended = boot(context, machine, image, &device, options, &log);
        over.store(true, Ordering::Relaxed);
        striker.join().map_err(|_| anyhow!("the fault's thread panicked"))??;
        ended
    })?;
    told(fault, &result, status).with_context(|| format!("exit status {status}: {result}"))?;
    device.stop()?;
    Ok(format!(
        "{} {}: status {status}, error {}, failed {}, found by looking {}",
        machine.name,
        fault.name(),
        result["error"],
        result["failed"],
        result["found_by_looking"]
    ))
}

/// Demands that a fault was told as what it is.
fn told(fault: Fault, result: &Value, status: i32) -> Result<()> {
    match fault {
        Fault::Removal if status == 2 && result["error"].as_str().is_some_and(|e| e.contains("gone")) => {
            Ok(())
        }
        // Another channel's interrupt may make up for a lost one; what was found by looking fails the image.
        Fault::LostInterrupt if number(result, "failed")? == 0 && number(result, "mismatches")? == 0 => {
            let found = number(result, "found_by_looking")?;
            if status == i32::from(found > 0) { Ok(()) } else { bail!("the status does not fit") }
        }
        // What an aborted transfer did not bring is missing where it should have arrived.
        Fault::Abort if status == 1 && number(result, "failed")? > 0 => {
            let unexplained = number(result, "mismatches")? > number(result, "failed")?;
            if unexplained { bail!("other data is wrong too") } else { Ok(()) }
        }
        _ => bail!("the fault was not told"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_that_the_image_does_not_tell_of_is_a_failure() {
        let gone = json!({ "error": "the device is gone (it reads all ones)" });
        assert!(told(Fault::Removal, &gone, 2).is_ok());
        assert!(told(Fault::Removal, &gone, 1).is_err());
        assert!(told(Fault::Removal, &json!({ "passed": true }), 0).is_err());
        let run = |failed, found| json!({ "failed": failed, "mismatches": 0, "found_by_looking": found });
        assert!(told(Fault::LostInterrupt, &run(0, 1), 1).is_ok());
        assert!(told(Fault::LostInterrupt, &run(0, 1), 0).is_err());
        assert!(told(Fault::LostInterrupt, &gone, 2).is_err());
        assert!(told(Fault::Abort, &run(2, 0), 1).is_ok());
        assert!(told(Fault::Abort, &run(0, 0), 0).is_err());
    }
}
