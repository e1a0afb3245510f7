//! What Linux's own driver does when the device misbehaves. Recorded, not judged: each in a guest of its
//! own, which may die.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tombolo_sim::dw_edma::{Cause, Dir};

use super::{Context, silent};
use crate::devices::{Served, models};
use crate::guest::Spec;

/// A fault that strikes on the guest's word.
struct Fault {
    name: &'static str,
    strike: fn(&Served) -> Result<()>,
}

const FAULTS: [Fault; 3] = [
    Fault {
        name: "abort",
        strike: |device| {
            let engine = device.engine.as_ref().context("an engine")?;
            engine.abort_after(Dir::Write, 0, 64, Cause::AppRead);
            engine.abort_after(Dir::Read, 0, 64, Cause::CompletionTimeout);
            Ok(())
        },
    },
    Fault {
        name: "lost-interrupt",
        strike: |device| {
            device.server.lose_interrupts(1);
            Ok(())
        },
    },
    Fault {
        name: "removal",
        strike: |device| {
            device.server.remove(true);
            Ok(())
        },
    },
];

/// One guest for each fault.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    for fault in &FAULTS {
        facts.push(record(context, fault).with_context(|| fault.name)?);
    }
    Ok(())
}

fn record(context: &Context<'_>, fault: &Fault) -> Result<String> {
    let model = models().into_iter().find(|model| model.name == "edda-unroll").context("a model")?;
    let devices = super::stock::serve(context, &[model], true)?;
    let address = devices[0].address();
    let client =
        format!("device={address} mode=verify transfers=4 max_len=1024 max_sg=4 seed=7 timeout_ms=1000");
    let script = format!(
        "load dw-edma; load dw-edma-pcie\nclient before {client}\nask {}\nclient after {client}\n\
         client again {client}\n",
        fault.name
    );
    let mut spec = Spec::linux(&context.kernels.new.image, super::stock::files(context, &script)?);
    spec.limit = Duration::from_secs(120);
    let mut struck = false;
    let name = format!("stock-{}", fault.name);
    let transcript = context.boot(&name, spec, &devices, |what| {
        if what != fault.name {
            return silent(what);
        }
        struck = true;
        (fault.strike)(&devices[0]).map(|()| "ok".into())
    });
    if !struck {
        bail!("the guest never got to the fault: {:?}", transcript.err());
    }
    let seen = match transcript {
        Ok(transcript) => {
            super::passed("before the fault", &transcript.one("before")?)?;
            let tell = |name: &str| match transcript.one(name) {
                Ok(result) => {
                    let of = |key: &str| result[key].to_string();
                    format!(
                        "{name}: errors {}, timeouts {}, mismatches {}",
                        of("errors"),
                        of("timeouts"),
                        of("mismatches")
                    )
                }
                Err(_) => format!("{name}: no result"),
            };
            let complaints = transcript.complaints().len();
            format!("{}; {}; complaints of the kernel: {complaints}", tell("after"), tell("again"))
        }
        Err(error) => format!(
            "the guest did not end: {}",
            error.root_cause().to_string().lines().next().unwrap_or_default()
        ),
    };
    Ok(format!("Linux, {}: {seen}", fault.name))
}
