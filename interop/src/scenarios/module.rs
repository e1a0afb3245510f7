//! Our driver as a kernel module under load, on both kernels, in guests that watch their memory.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::faults::ALONE;
use super::{Context, number, passed, silent};
use crate::devices::{Model, Served, models, strike};
use crate::guest::{Spec, Transcript};
use crate::setup::Kernel;

/// Guests that notice use of memory after its end.
const WATCHFUL: &str = "slub_debug=FZPU kfence.sample_interval=10";

/// The interrupt is moved six times; one that is moved again at once may be followed once for two.
const MOVES_FOLLOWED: u64 = 3;

/// Helpers of the guest's script.
const HELPERS: &str = r#"
P=/sys/module/tombolo_dmaclient/parameters
# status DEVICE NAME: what the driver counted, as JSON.
status() { result "status-$2" "$(awk 'BEGIN { printf "{" } NF == 2 { printf "%s\"%s\":\"%s\"", sep, $1, $2; sep = "," } END { print "}" }' "/sys/kernel/debug/tombolo_edma/$1/status")"; }
# held NAME DEVICE: the client holds the device's channels until `let_go NAME`.
held() { insmod /m/tombolo_dmaclient.ko device="$2" mode=hold depth=8 max_len=2048 max_sg=8 seed=5 || fail "$1: the client cannot be loaded"; sleep 1; }
let_go() { echo 0 > $P/run; i=0; while [ "$(cat $P/run)" != 0 ] && [ $i -lt 30 ]; do sleep 1; i=$((i + 1)); done
	result "$1" "$(cat $P/result)"; rmmod tombolo_dmaclient || fail "$1: the client cannot be unloaded"; }
"#;

/// Each kernel: load and faults.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    for (kernel, name) in [(&context.kernels.new, "new"), (&context.kernels.old, "old")] {
        let modules = context.ours(kernel)?;
        facts.push(format!(
            "{}: tombolo_edma.ko has {} bytes",
            kernel.version,
            modules.size(context.folder, "tombolo_edma")?
        ));
        load(context, kernel, &modules, name, facts).with_context(|| format!("{}: load", kernel.version))?;
        misfortunes(context, kernel, &modules, name, facts)
            .with_context(|| format!("{}: misfortunes", kernel.version))?;
    }
    Ok(())
}

fn boot(
    context: &Context<'_>,
    kernel: &Kernel,
    modules: &crate::setup::Modules,
    name: &str,
    script: &str,
    devices: &[Served],
    asked: impl FnMut(&str) -> Result<String>,
) -> Result<Transcript> {
    let files = context.client(kernel, &format!("{HELPERS}{script}"))?;
    let files = files.module_file(&modules.file("tombolo_edma"))?;
    let mut spec = Spec::linux(&kernel.image, files.pack(&context.folder.file("initramfs.cpio"))?);
    spec.append = format!("{} {WATCHFUL}", spec.append);
    spec.cpus = 2;
    spec.limit = Duration::from_secs(context.pick(200, 1500));
    context.boot(name, spec, devices, asked)
}

/// All devices: random transfers, callbacks that submit and terminate, an interrupt that moves from one
/// processor to the other, unloading and loading again.
fn load(
    context: &Context<'_>,
    kernel: &Kernel,
    modules: &crate::setup::Modules,
    name: &str,
    facts: &mut Vec<String>,
) -> Result<()> {
    let names: &[&str] = context.pick(
        &["edda-legacy", "edda-unroll", "edda-hdma-native", "b054"],
        &["edda-legacy", "edda-unroll", "edda-hdma-compat", "edda-hdma-native", "b054", "b00f"],
    );
    let chosen: Vec<Model> = models().into_iter().filter(|model| names.contains(&model.name)).collect();
    let devices = super::stock::serve(context, &chosen, true)?;
    let pairs = context.pick(100, 5000);
    // A late interrupt is no lost one: the guest's processors are slow.
    let mut script = String::from("load tombolo_edma watch_ms=2000\n");
    for (model, device) in chosen.iter().zip(&devices) {
        let (name, address) = (model.name, device.address());
        script.push_str(&format!(
            "client {name} device={address} mode=verify threads=2 transfers={pairs} max_len=2048 max_sg=12 seed=3\n\
             client {name}-reenter device={address} mode=reenter transfers={pairs} max_len=2048 max_sg=4 seed=4\n\
             status {address} {name}\n"
        ));
    }
    let first = devices[0].address();
    script.push_str(&moving(&first));
    script.push_str(&format!(
        "rmmod tombolo_edma || fail 'the module cannot be unloaded'\nload tombolo_edma\n\
         client again device={first} mode=verify transfers=10 max_len=2048 max_sg=12 seed=6\n\
         rmmod tombolo_edma || fail 'the module cannot be unloaded again'\n"
    ));
    let transcript =
        boot(context, kernel, modules, &format!("module-load-{name}"), &script, &devices, silent)?;
    transcript.check()?;
    let mut interrupts = 0;
    for model in &chosen {
        passed(model.name, &transcript.one(model.name)?)?;
        passed("reenter", &transcript.one(&format!("{}-reenter", model.name))?)?;
        interrupts += by_interrupts(&transcript.one(&format!("status-{}", model.name))?)?;
    }
    nothing_wrong_until_stopped(&transcript.one("moving")?)?;
    passed("loaded again", &transcript.one("again")?)?;
    let moved = transcript.one("status-moving")?;
    by_interrupts(&moved)?;
    if text(&moved, "messages_followed")? < MOVES_FOLLOWED {
        bail!("the interrupt moved and was not followed: {moved}");
    }
    facts.push(format!(
        "{}: {} devices, {interrupts} interrupts by msi-x, none lost; {} messages followed; dmesg clean",
        kernel.version,
        chosen.len(),
        text(&moved, "messages_followed")?
    ));
    devices.into_iter().try_for_each(Served::stop)
}

/// The first device's interrupt moves between two processors while transfers run, until the moves are
/// over. Linux keeps the old vector until the first interrupt at the new place.
fn moving(address: &str) -> String {
    format!(
        "insmod /m/tombolo_dmaclient.ko device={address} mode=verify threads=2 transfers=1000000 max_len=2048 max_sg=12 seed=8 || fail 'moving'\n\
         irq=$(ls /sys/bus/pci/devices/{address}/msi_irqs | head -n 1)\n\
         for cpu in 2 1 2 1 2 1; do sleep 0.5; echo $cpu > /proc/irq/$irq/smp_affinity || fail 'smp_affinity'; done\n\
         sleep 0.5; awk -v irq=\"$irq:\" '$1 == irq {{ if ($2 == 0 || $3 == 0) exit 1 }}' /proc/interrupts || fail 'one processor saw no interrupt'\n\
         status {address} moving; let_go moving\n"
    )
}

/// Unloading while channels are held, unbinding, removal, aborts, lost interrupts.
fn misfortunes(
    context: &Context<'_>,
    kernel: &Kernel,
    modules: &crate::setup::Modules,
    name: &str,
    facts: &mut Vec<String>,
) -> Result<()> {
    let names = ["edda-unroll", "edda-hdma-native"];
    let chosen: Vec<Model> = models().into_iter().filter(|model| names.contains(&model.name)).collect();
    let devices = super::stock::serve(context, &chosen, true)?;
    let mut script = String::from("load tombolo_edma\n");
    for (model, device) in chosen.iter().zip(&devices) {
        let (name, address) = (model.name, device.address());
        script.push_str(&format!(
            "held busy {address}; rmmod tombolo_edma 2>/dev/null && fail 'unloaded while channels were held'; let_go {name}-held\n\
             held unbind {address}; unbind {address}; let_go {name}-unbound\nbind {address} tombolo_edma\n\
             client {name}-bound device={address} mode=verify transfers=10 max_len=2048 max_sg=8 seed=2\n\
             ask abort {address}; client {name}-abort device={address} {ALONE} seed=2 timeout_ms=1000\n\
             ask lost-interrupt {address}; client {name}-lost device={address} {ALONE} seed=2; status {address} {name}-lost\n\
             held remove {address}; ask removal {address}; sleep 1\n\
             echo 1 > /sys/bus/pci/devices/{address}/remove; let_go {name}-removed\n"
        ));
    }
    script.push_str("rmmod tombolo_edma || fail 'the module cannot be unloaded'\n");
    let log = format!("module-misfortunes-{name}");
    let transcript = boot(context, kernel, modules, &log, &script, &devices, |what| strike(&devices, what))?;
    transcript.check()?;
    for (model, device) in chosen.iter().zip(&devices) {
        if device.server.counters().lost_interrupts == 0 {
            bail!("{}: no interrupt was lost", model.name);
        }
        let get = |suffix: &str| transcript.one(&format!("{}-{suffix}", model.name));
        let held = told_once(&get("held")?)?;
        let (unbound, removed) = (told_once(&get("unbound")?)?, told_once(&get("removed")?)?);
        if number(&unbound, "completed_error")? == 0 || number(&removed, "completed_error")? == 0 {
            bail!("nothing was in flight when the device went: {unbound} {removed}");
        }
        passed("bound again", &get("bound")?)?;
        passed("a lost interrupt", &get("lost")?)?;
        let found = text(&transcript.one(&format!("status-{}-lost", model.name))?, "found_by_looking")?;
        let abort = get("abort")?;
        if number(&abort, "completed_error")? == 0 || number(&abort, "mismatches")? != 0 {
            bail!("aborts were not told: {abort}");
        }
        facts.push(format!(
            "{}, {}: each of {} held, {} unbound (errors {}) and {} removed (errors {}) told once; abort: errors {}; \
             lost interrupt: no error, found by looking {found}",
            kernel.version,
            model.name,
            number(&held, "submitted")?,
            number(&unbound, "submitted")?,
            number(&unbound, "completed_error")?,
            number(&removed, "submitted")?,
            number(&removed, "completed_error")?,
            number(&abort, "completed_error")?
        ));
    }
    devices.into_iter().try_for_each(Served::stop)
}

/// Demands of a run that was stopped, and so did not pass, that nothing else was wrong.
fn nothing_wrong_until_stopped(result: &Value) -> Result<()> {
    let result = told_once(result)?;
    for key in [
        "mismatches",
        "completed_error",
        "errors",
        "timeouts",
        "refused",
        "silent",
        "no_descriptor",
        "leaked",
    ] {
        if number(&result, key)? != 0 {
            bail!("{key} while the interrupt moved: {result}");
        }
    }
    if result["failure"] != "stopped" {
        bail!("the interrupt moved, and the run ended by itself: {result}");
    }
    Ok(())
}

/// Demands that each submitted transfer was told of, and once.
fn told_once(result: &Value) -> Result<Value> {
    let of = |key: &str| number(result, key);
    if of("completed_twice")? != 0 || of("never")? != 0 || of("submitted")? == 0 {
        bail!("not every transfer was told of once: {result}");
    }
    Ok(result.clone())
}

/// Demands that the driver worked by the interrupts that it was given; gives their number.
fn by_interrupts(status: &Value) -> Result<u64> {
    let interrupts = text(status, "interrupts")?;
    if status["irq"] != "msi-x" || interrupts == 0 || text(status, "found_by_looking")? != 0 {
        bail!("not by interrupts: {status}");
    }
    Ok(interrupts)
}

/// A number of the status file.
fn text(status: &Value, name: &str) -> Result<u64> {
    let value = status[name].as_str().and_then(|text| text.parse().ok());
    value.with_context(|| format!("no number {name} in {status}"))
}
