//! Linux's own driver, unmodified, on our model: what it cannot use is wrong in the model.

use anyhow::{Context as _, Result, bail};

use super::{Context, number, passed, silent};
use crate::devices::{Model, Served, Vectors, models};
use crate::guest::Spec;

/// Slots of the devices in a guest begin here.
const FIRST_SLOT: u8 = 4;
/// Where a client finds data in the memory of a device that does not say where its memory is.
const NO_LIST_DATA: u64 = 32 << 20;

/// One way of offering the same devices.
struct Variant {
    name: &'static str,
    mapped: bool,
    vectors: Vectors,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "mapped-msi-x", mapped: true, vectors: Vectors::MsiX },
    Variant { name: "trapped-msi", mapped: false, vectors: Vectors::Msi },
    Variant { name: "mapped-msi", mapped: true, vectors: Vectors::Msi },
    Variant { name: "trapped-msi-x", mapped: false, vectors: Vectors::MsiX },
];

/// All devices in one guest for each variant, then one guest that reboots.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let variants = context.pick(2, VARIANTS.len());
    // Each transfer goes out on one channel and comes back on another.
    let pairs = context.pick(60, 5000_u64.div_ceil(variants as u64));
    for variant in &VARIANTS[..variants] {
        one(context, variant, pairs, facts).with_context(|| variant.name)?;
    }
    reboot(context, facts).context("reboot")?;
    facts.push(
        "only our own driver exercises: more than 2+2 channels of v0, several vectors, cyclic lists".into(),
    );
    Ok(())
}

fn one(context: &Context<'_>, variant: &Variant, pairs: u64, facts: &mut Vec<String>) -> Result<()> {
    let models: Vec<Model> = models().into_iter().map(|model| model.with(variant.vectors)).collect();
    let devices = serve(context, &models, variant.mapped)?;
    let mut script = String::from("load dw-edma; load dw-edma-pcie\n");
    for (model, device) in models.iter().zip(&devices) {
        script.push_str(&client_call(model, device, pairs, ""));
    }
    script.push_str("rmmod dw-edma-pcie || fail 'the driver cannot be unloaded'\n");
    script.push_str("load dw-edma-pcie\n");
    for (model, device) in models.iter().zip(&devices) {
        script.push_str(&client_call(model, device, 10, "-again"));
    }
    let transcript = boot(context, &format!("stock-{}", variant.name), &script, &devices)?;
    transcript.check()?;
    let mut total = 0;
    for model in &models {
        for suffix in ["", "-again"] {
            let result = transcript.one(&format!("{}{suffix}", model.name))?;
            passed(model.name, &result)?;
            total += number(&result, "transfers")?;
        }
        let result = transcript.one(model.name)?;
        if number(&result, "transfers")? < pairs {
            bail!("{}: too few transfers: {result}", model.name);
        }
    }
    facts.push(format!(
        "{}: {} devices, {total} transfers compared, no mismatch; unloaded and loaded again",
        variant.name,
        models.len()
    ));
    devices.into_iter().try_for_each(Served::stop)
}

/// The shell command that runs the client on a device.
fn client_call(model: &Model, device: &Served, pairs: u64, suffix: &str) -> String {
    let place = match (model.params.device_memory_vsec, model.memory) {
        // The provider does not know where its memory is, so the client has to.
        (None, Some(base)) => format!(" data_address={:#x} data_size=0x100000", base + NO_LIST_DATA),
        _ => String::new(),
    };
    format!(
        "client {}{suffix} device={} mode=verify threads=2 transfers={pairs} max_len=2048 max_sg=12 seed=7{place}\n",
        model.name,
        device.address()
    )
}

/// The server keeps the device while its guest starts anew: it must find it as after power-on.
fn reboot(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let models: Vec<Model> = models().into_iter().take(2).collect();
    let devices = serve(context, &models, true)?;
    let mut script = String::from("ask boot; boot=$answer\nload dw-edma; load dw-edma-pcie\n");
    for (model, device) in models.iter().zip(&devices) {
        script.push_str(&client_call(model, device, 10, ""));
    }
    script.push_str("if [ \"$boot\" = 1 ]; then sync; reboot -f; sleep 60; fi\n");
    let spec = |initrd| Spec { reboots: true, ..Spec::linux(&context.kernels.new.image, initrd) };
    let initrd = files(context, &script)?;
    let mut boots = 0;
    let transcript = context.boot("stock-reboot", spec(initrd), &devices, |what| match what {
        "boot" if boots < 2 => {
            boots += 1;
            Ok(boots.to_string())
        }
        other => silent(other),
    })?;
    transcript.check()?;
    for model in &models {
        let results = transcript.json(model.name)?;
        if results.len() != 2 {
            bail!("{}: {} results in place of one before and one after", model.name, results.len());
        }
        results.iter().try_for_each(|result| passed(model.name, result))?;
    }
    facts.push("the guest reset and booted again on the same servers: no mismatch before or after".into());
    devices.into_iter().try_for_each(Served::stop)
}

/// Serves models at the slots that follow each other.
///
/// # Errors
/// If one cannot be served.
pub fn serve(context: &Context<'_>, models: &[Model], mapped: bool) -> Result<Vec<Served>> {
    let slots = FIRST_SLOT..;
    let all = models.iter().zip(slots);
    all.map(|(model, slot)| Served::edma(context.sockets(), slot, model.params.clone(), mapped)).collect()
}

pub(super) fn files(context: &Context<'_>, script: &str) -> Result<std::path::PathBuf> {
    let stock = context.stock()?;
    let files = context.client(&context.kernels.new, script)?;
    let files = files.module_file(&stock.file("dw-edma"))?.module_file(&stock.file("dw-edma-pcie"))?;
    files.pack(&context.folder.file("initramfs.cpio"))
}

fn boot(
    context: &Context<'_>,
    name: &str,
    script: &str,
    devices: &[Served],
) -> Result<crate::guest::Transcript> {
    let mut spec = Spec::linux(&context.kernels.new.image, files(context, script)?);
    spec.limit = std::time::Duration::from_secs(context.pick(150, 1200));
    context.boot(name, spec, devices, silent)
}
