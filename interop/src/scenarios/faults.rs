//! What Linux's own driver does when the device misbehaves. Recorded, not judged: each in a guest of its
//! own, which may die.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Context;
use crate::devices::{Fault, models, strike};
use crate::guest::Spec;

/// A client whose channels see nothing but what it does: what a fault does is told by one transfer.
pub(super) const ALONE: &str = "mode=verify channels=1 depth=2 align=64 transfers=4 max_len=2048 max_sg=1";

/// One guest for each fault.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    for fault in Fault::ALL {
        facts.push(record(context, fault).with_context(|| fault.name())?);
    }
    Ok(())
}

fn record(context: &Context<'_>, fault: Fault) -> Result<String> {
    let model = models().into_iter().find(|model| model.name == "edda-unroll").context("a model")?;
    let devices = super::stock::serve(context, &[model], true)?;
    let address = devices[0].address();
    // One channel of each direction, so that no other one's interrupt makes up for a lost one.
    let client = format!("device={address} {ALONE} seed=7 timeout_ms=1000");
    let script = format!(
        "load dw-edma; load dw-edma-pcie\nclient before {client}\nask {} {address}\nclient after {client}\n\
         client again {client}\n",
        fault.name()
    );
    let mut spec = Spec::linux(&context.kernels.new.image, super::stock::files(context, &script)?);
    spec.limit = Duration::from_secs(120);
    let mut struck = false;
    let name = format!("stock-{}", fault.name());
    let transcript = context.boot(&name, spec, &devices, |what| {
        struck = true;
        strike(&devices, what)
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
    Ok(format!("Linux, {}: {seen}", fault.name()))
}
