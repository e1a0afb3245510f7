//! Our driver without an operating system: the images of `adapters/baremetal` on both machines.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{Context, number};
use crate::devices::{Model, Served, Vectors, models};
use crate::guest::{Arch, Guest, Spec};

struct Machine {
    name: &'static str,
    arch: Arch,
    target: &'static str,
    /// Of the image: QEMU writes an engine's messages with requester 0, which an ITS looks at unless
    /// they are those of the MSI capability.
    options: &'static str,
    /// QEMU's exit status for success.
    success: i32,
}

const MACHINES: [Machine; 2] = [
    Machine { name: "q35", arch: Arch::X86, target: "x86_64-unknown-none", options: "", success: 0 },
    Machine {
        name: "virt",
        arch: Arch::Arm,
        target: "aarch64-unknown-none",
        options: "requester-alias=0",
        success: 0,
    },
];

/// Each machine with each kind of vectors.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let names: &[&str] = context.pick(
        &["edda-unroll", "b054"],
        &["edda-legacy", "edda-unroll", "edda-hdma-compat", "edda-hdma-native", "b054", "b00f"],
    );
    for machine in &MACHINES {
        let image = build(context, machine)?;
        for model in models().into_iter().filter(|model| names.contains(&model.name)) {
            for vectors in [Vectors::MsiX, Vectors::Msi] {
                let what = format!("{} {} {vectors:?}", machine.name, model.name);
                let result = boot(context, machine, &image, model.clone().with(vectors), vectors);
                facts.push(result.with_context(|| what)?);
            }
        }
    }
    Ok(())
}

fn build(context: &Context<'_>, machine: &Machine) -> Result<PathBuf> {
    // A machine without the target's prebuilt core says here how to build it.
    let more = std::env::var("TOMBOLO_BARE_OPTIONS").unwrap_or_default();
    let mut arguments =
        vec!["--package", "tombolo-baremetal", "--target", machine.target, "--example", "edma"];
    arguments.extend(more.split_whitespace());
    context.folder.cargo(machine.target, &arguments)?;
    Ok(context.folder.target()?.join(machine.target).join("release/examples/edma"))
}

fn boot(
    context: &Context<'_>,
    machine: &Machine,
    image: &std::path::Path,
    model: Model,
    vectors: Vectors,
) -> Result<String> {
    let device = Served::edma(context.sockets(), 4, model.params.clone(), true)?;
    let irq = if vectors == Vectors::MsiX { "msi-x" } else { "msi" };
    let rounds = context.pick(50, 1000);
    // With MSI the server knows the message and signals the vector itself.
    let alias = if vectors == Vectors::MsiX { machine.options } else { "" };
    let spec = Spec {
        arch: machine.arch,
        kernel: image.to_owned(),
        initrd: None,
        append: format!("irq={irq} rounds={rounds} {alias}"),
        cpus: 1,
        arguments: device.arguments(),
        reboots: false,
        limit: Duration::from_secs(context.pick(60, 300)),
    };
    let log = context.fresh_log(&format!("baremetal-{}-{}-{irq}", machine.name, model.name))?;
    let (lines, status) = Guest::start(context.folder, &spec, &log)?.wait()?;
    if !lines.iter().any(|line| line.trim() == "tombolo: exit status 0") || status != Some(machine.success) {
        bail!("exit status {status:?}; the end of {}:\n{}", log.display(), crate::command::tail(&log, 0));
    }
    let line = lines.iter().find(|line| line.starts_with("{\"function\":")).context("no line of JSON")?;
    let result: Value = serde_json::from_str(line).with_context(|| line.clone())?;
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
