//! Two guests on one process: shared memory behind a BAR, doorbells across. Groundwork for the bridge.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tombolo_sim::bridge;
use tombolo_vfio_user::server::ServerHandle;

use super::{Context, number};
use crate::devices::Served;
use crate::guest::{Guest, Spec, Transcript};

const MEMORY_BYTES: usize = 1 << 20;
/// The sides sit in different slots, so that their sockets differ.
const SLOTS: [u8; 2] = [4, 5];

/// Both guests at once.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    context
        .folder
        .cargo("building vfio-pingpong", &["--package", "tombolo-vfio", "--example", "vfio-pingpong"])?;
    context.folder.cargo("building tombolo", &["--package", "tombolo"])?;
    let rounds = context.pick(300_u64, 5000);
    let sides = serve(context)?;
    let transcripts = boot(context, &sides, rounds)?;
    for (transcript, side) in transcripts.iter().zip(&sides) {
        transcript.check()?;
        let result = transcript.one("pingpong")?;
        let interrupts = number(&result, "interrupts")?;
        // Each round has one bell; bells never come together, since the sides take turns.
        if number(&result, "rounds")? != rounds || result["irq_mode"] != "msi-x" || interrupts < rounds {
            bail!("not every bell was an interrupt: {result}");
        }
        facts.push(format!(
            "side {}: {rounds} rounds, {interrupts} interrupts by msi-x, no word late; server: {} interrupts",
            result["side"],
            side.server.counters().msix_interrupts
        ));
    }
    sides.into_iter().try_for_each(Served::stop)
}

fn serve(context: &Context<'_>) -> Result<[Served; 2]> {
    // A server exists only after its model does.
    let handles: [Arc<OnceLock<ServerHandle>>; 2] = Default::default();
    let tell = |number: usize| {
        let handle = handles[number].clone();
        move |bells| {
            // A bell that finds too many events waiting stays in the other side's STATUS.
            let _ = handle.get().is_some_and(|handle| handle.post_event(bells));
        }
    };
    let (one, two) = bridge::pair(MEMORY_BYTES, tell(1), tell(0));
    let one = Served::device(context.sockets(), SLOTS[0], Box::new(one), true)?;
    let two = Served::device(context.sockets(), SLOTS[1], Box::new(two), true)?;
    let _ = (handles[0].set(one.server.clone()), handles[1].set(two.server.clone()));
    Ok([one, two])
}

fn boot(context: &Context<'_>, sides: &[Served; 2], rounds: u64) -> Result<Vec<Transcript>> {
    let mut guests = Vec::new();
    for (index, side) in sides.iter().enumerate() {
        let address = side.address();
        let script = format!(
            "load irqbypass; load vfio; load vfio_iommu_type1; load vfio-pci-core; load vfio-pci\n\
             tombolo bind {address} || fail bind\n\
             timeout 150 vfio-pingpong {address} {rounds} > /tmp/out 2>/tmp/err || fail \"pingpong: $(head -n 2 /tmp/err)\"\n\
             result pingpong \"$(cat /tmp/out)\"\n"
        );
        let target = context.folder.target()?.join("release");
        let files = context.files(&script)?;
        let files =
            files.program(&target.join("tombolo"))?.program(&target.join("examples/vfio-pingpong"))?;
        let modules = ["irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"];
        let kernel = &context.kernels.new;
        let packed = context.folder.file(&format!("initramfs-{index}.cpio"));
        let mut spec = Spec::linux(&kernel.image, files.kernel_modules(kernel, &modules)?.pack(&packed)?);
        spec.append.push_str(" intel_iommu=on");
        spec.arguments = vec!["-device".into(), "intel-iommu,intremap=on,caching-mode=on".into()];
        spec.arguments.extend(side.arguments());
        spec.limit = Duration::from_secs(context.pick(180, 600));
        let log = context.fresh_log(&format!("two-guests-{index}"))?;
        guests.push(Guest::start(context.folder, &spec, &log)?);
    }
    // The guests were started from this thread, which outlives both: they end with it.
    thread::scope(|scope| {
        let readers: Vec<_> =
            guests.into_iter().map(|guest| scope.spawn(move || guest.talk(super::silent))).collect();
        let join = |reader: thread::ScopedJoinHandle<'_, Result<Transcript>>| {
            reader.join().map_err(|_| anyhow!("reading a console panicked"))?
        };
        readers.into_iter().map(join).collect::<Result<_>>().context("two guests")
    })
}
