//! Our driver in a guest's userspace, over VFIO, behind two kinds of IOMMU.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{Context, number};
use crate::devices::{Model, Served, models, strike};
use crate::guest::{Spec, Transcript};
use crate::setup::Folder;

/// Modules of the kernel's package, in the order in which they are loaded.
const MODULES: [&str; 5] = ["irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"];

struct Iommu {
    name: &'static str,
    device: &'static str,
    append: &'static str,
    /// Loaded before the rest.
    module: Option<&'static str>,
    /// Parameter of `vfio_iommu_type1`.
    type1: &'static str,
}

const IOMMUS: [Iommu; 2] = [
    Iommu {
        name: "intel-iommu",
        device: "intel-iommu,intremap=on,caching-mode=on",
        append: "intel_iommu=on",
        module: None,
        type1: "",
    },
    Iommu {
        name: "virtio-iommu",
        device: "virtio-iommu-pci",
        append: "",
        module: Some("virtio-iommu"),
        // There is no interrupt remapping.
        type1: "allow_unsafe_interrupts=1",
    },
];

/// What the guest does with one device.
const RUNS: &str = "
tombolo_run() { name=$1; shift; timeout 60 tombolo dma --verify --json \"$@\" > /tmp/out 2>/tmp/err; status=$?; \
    result \"$name\" \"$(cat /tmp/out)\"; [ $status = 0 ] || fail \"$name: exit $status: $(head -n 2 /tmp/err)\"; }
# fails NAME ARGUMENT...: a run that has to end with exit code 1.
fails() { name=$1; shift; timeout 60 tombolo dma --verify --json \"$@\" > /tmp/out 2>/tmp/err; status=$?; \
    result \"$name\" \"$(cat /tmp/out)\"; [ $status = 1 ] || fail \"$name: exit $status: $(head -n 2 /tmp/err)\"; }
edma_run() { timeout 60 vfio-edma \"$1\" \"$2\" > /tmp/out 2>&1; status=$?; [ $status = 0 ] || \
    fail \"example edma $2: exit $status: $(tail -n 3 /tmp/out)\"; fact \"edma $2: $(tail -n 1 /tmp/out)\"; }
";

/// A guest for each IOMMU.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let programs = Programs::build(context.folder)?;
    for iommu in &IOMMUS {
        one(context, &programs, iommu, facts).with_context(|| iommu.name)?;
    }
    Ok(())
}

struct Programs {
    tombolo: PathBuf,
    edma: PathBuf,
}

impl Programs {
    fn build(folder: &Folder) -> Result<Self> {
        folder.cargo("building tombolo", &["--package", "tombolo"])?;
        folder.cargo(
            "building the example vfio-edma",
            &["--package", "tombolo-vfio", "--example", "vfio-edma"],
        )?;
        let target = folder.target()?.join("release");
        Ok(Self { tombolo: target.join("tombolo"), edma: target.join("examples/vfio-edma") })
    }
}

fn one(context: &Context<'_>, programs: &Programs, iommu: &Iommu, facts: &mut Vec<String>) -> Result<()> {
    let names: &[&str] = context.pick(
        &["edda-unroll", "b054"],
        &["edda-legacy", "edda-unroll", "edda-hdma-compat", "edda-hdma-native", "b054"],
    );
    let chosen: Vec<Model> = models().into_iter().filter(|model| names.contains(&model.name)).collect();
    let devices = super::stock::serve(context, &chosen, true)?;
    let transcript = boot(context, programs, iommu, &chosen, &devices)?;
    transcript.check()?;
    for model in &chosen {
        for irq in ["msi-x", "msi"] {
            judge(&transcript.one(&format!("{}-{irq}", model.name))?, irq)?;
        }
        judge(&transcript.one(&format!("{}-cyclic", model.name))?, "msi-x")?;
    }
    lost(&transcript.one("memory-off")?)?;
    judge(&transcript.one("after-all")?, "msi-x")?;
    facts.push(format!("{}: {}", iommu.name, faults(&transcript)?));
    let first = transcript.one(&format!("{}-msi-x", chosen[0].name))?;
    facts.push(format!(
        "{}: {} devices, {} transfers of the first one, {} interrupts by {}, found by looking {}",
        iommu.name,
        chosen.len(),
        first["transfers"],
        first["interrupts"],
        first["irq_mode"],
        first["found_by_looking"]
    ));
    facts.extend(transcript.facts.iter().map(|fact| format!("{}: {fact}", iommu.name)));
    devices.into_iter().try_for_each(Served::stop)
}

fn boot(
    context: &Context<'_>,
    programs: &Programs,
    iommu: &Iommu,
    chosen: &[Model],
    devices: &[Served],
) -> Result<Transcript> {
    let mut script = String::from(RUNS);
    for module in iommu.module.iter().chain(&MODULES) {
        let parameter = if *module == "vfio_iommu_type1" { iommu.type1 } else { "" };
        script.push_str(&format!("load {module} {parameter}\n"));
    }
    let size = context.pick("--size 64K --sg 8 --iterations 16", "--size 256K --sg 32 --iterations 200");
    for (model, device) in chosen.iter().zip(devices) {
        let (name, address) = (model.name, device.address());
        script.push_str(&format!("tombolo bind {address} || fail 'bind {address}'\n"));
        for (irq, option) in [("msi-x", "msix"), ("msi", "msi")] {
            script.push_str(&format!(
                "tombolo_run {name}-{irq} --device vfio:{address} --irq {option} {size}\n"
            ));
        }
        script.push_str(&format!(
            "tombolo_run {name}-cyclic --device vfio:{address} --mode cyclic --size 64K\n"
        ));
    }
    script.push_str(&misfortunes(&devices[0].address()));
    let kernel = &context.kernels.new;
    let files = context.files(&script)?.program(&programs.tombolo)?.program(&programs.edma)?;
    let modules: Vec<&str> = iommu.module.into_iter().chain(MODULES).collect();
    let initrd = files.kernel_modules(kernel, &modules)?.pack(&context.folder.file("initramfs.cpio"))?;
    let mut spec = Spec::linux(&kernel.image, initrd);
    spec.append = format!("{} {}", spec.append, iommu.append);
    spec.arguments = vec!["-device".into(), iommu.device.into()];
    spec.limit = Duration::from_secs(context.pick(180, 900));
    context.boot(&format!("vfio-{}", iommu.name), spec, devices, |what| strike(devices, what))
}

/// An address that is not mapped; memory switched off through VFIO and from outside; the faults that
/// Linux's driver was shown; between them all is well again.
fn misfortunes(address: &str) -> String {
    format!(
        "edma_run {address} unmapped\nedma_run {address} lost\n\
         timeout 60 tombolo dma --device vfio:{address} --verify --json --size 1M --iterations 4000 > /tmp/out 2>/tmp/err & run=$!\n\
         sleep 4; printf '\\0\\0' | dd of=/sys/bus/pci/devices/{address}/config bs=1 seek=4 count=2 conv=notrunc 2>/dev/null\n\
         wait $run; status=$?; result memory-off \"$(cat /tmp/out)\"\n\
         [ $status = 1 ] || fail \"memory switched off from outside: exit $status\"\n\
         tombolo_run after-all --device vfio:{address} --irq msix --size 64K\n\
         ask abort {address}; fails abort --device vfio:{address} --size 64K\n\
         ask lost-interrupt {address}; tombolo_run lost-interrupt --device vfio:{address} --channels 1 --iterations 1 --size 64K\n\
         timeout 60 tombolo dma --device vfio:{address} --verify --json --size 1M --iterations 4000 > /tmp/out 2>/tmp/err & run=$!\n\
         sleep 4; ask removal {address}; wait $run; status=$?; result removal \"$(cat /tmp/out)\"\n\
         [ $status = 1 ] || fail \"removal: exit $status\"\n"
    )
}

/// Demands right data, the interrupts that were asked for, and no polling that was not.
fn judge(result: &Value, irq: &str) -> Result<()> {
    let good = result["error"].is_null()
        && result["irq_mode"] == irq
        && number(result, "mismatches")? == 0
        && number(result, "transfers")? > 0
        && number(result, "interrupts")? > 0
        && number(result, "found_by_looking")? == 0;
    if good { Ok(()) } else { bail!("not by {irq}, or not right: {result}") }
}

/// Demands that an abort and a removal are told, and that a lost interrupt loses nothing else.
fn faults(transcript: &Transcript) -> Result<String> {
    let abort = transcript.one("abort")?;
    if number(&abort, "failures")? != 2 || number(&abort, "mismatches")? != 0 {
        bail!("two transfers were aborted: {abort}");
    }
    // The other channel's interrupt makes up for it, or a look.
    let lost_one = transcript.one("lost-interrupt")?;
    let (moved, interrupts) = (number(&lost_one, "transfers")?, number(&lost_one, "interrupts")?);
    if !lost_one["error"].is_null() || number(&lost_one, "mismatches")? != 0 || interrupts >= moved {
        bail!("an interrupt was lost, which is not seen or not survived: {lost_one}");
    }
    let removal = transcript.one("removal")?;
    lost(&removal)?;
    Ok(format!(
        "abort: errors {}; lost interrupt: no error, {moved} transfers by {interrupts}; removal: {}",
        abort["failures"], removal["error"]
    ))
}

/// Demands that the loss of the device was told.
fn lost(result: &Value) -> Result<()> {
    match result["error"].as_str() {
        Some(text) if text.contains("gone") => Ok(()),
        _ => bail!("the device went away and nobody said so: {result}"),
    }
}
