//! Transfers by the handful, for tests of behaviour.
#![allow(dead_code)] // each test binary uses its own part

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arrayvec::ArrayVec;
use dw_edma::{ChannelId, Format, Location, Peripheral};
use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{Completed, DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{
    Cookie, Direction, Finished, OwnedTransfers, PrepFlags, SgEntry, SlaveConfig, TxResult,
};
use tombolo_hal::irq::IrqSource;
use tombolo_hal::mmio::Mmio;
use tombolo_sim::device::Width;
use tombolo_sim::dw_edma::{Params, presets};
use tombolo_sim::fabric::{TraceEntry, TraceEvent};
use tombolo_sim::host::SimDma;

use crate::common::*;

/// A channel with its buffers; segments come from the largest segment size that a job asks for.
pub type Tx = OwnedTransfers<Chan, SimDma, Vec<u8>, 16, 64>;
pub type Done = Finished<SimDma, Vec<u8>, 64>;

pub const BOTH: [Location; 2] = [Location::Local, Location::Remote];

/// All formats, each beside the CPU and across the link.
pub fn everywhere() -> impl Iterator<Item = (Format, Location)> {
    Format::ALL.into_iter().flat_map(|format| BOTH.map(|location| (format, location)))
}

pub fn params(format: Format, location: Location, write: u16, read: u16) -> Params {
    match location {
        Location::Local => presets::local(sim_format(format), write, read),
        Location::Remote => presets::remote(sim_format(format), write, read),
    }
}

pub fn rig(format: Format, location: Location, irqs: Irqs) -> Rig {
    rig_with(format, location, irqs, |p| p)
}

pub fn rig_with(
    format: Format,
    location: Location,
    irqs: Irqs,
    change: impl FnOnce(Params) -> Params,
) -> Rig {
    Rig::new(change(params(format, location, 2, 2)), location, irqs, 1)
}

/// A transfer that was submitted.
pub struct Job {
    pub cookie: Cookie,
    pub id: ChannelId,
    pub offset: u64,
    pub data: Vec<u8>,
    pub direction: Direction,
    /// The buffer as the device sees it.
    pub address: u64,
}

/// Takes the mapping of a job's buffer away before the engine gets there.
pub fn unmap(rig: &Rig, job: &Job) {
    rig.function.iommu_unmap(job.address, job.data.len() as u64).unwrap();
}

/// What a transfer shall be.
#[derive(Clone, Copy)]
pub struct Plan {
    pub len: usize,
    /// Largest segment.
    pub piece: u64,
    /// Where on the device side.
    pub offset: u64,
    pub flags: PrepFlags,
    pub peripheral: Peripheral,
}

impl Plan {
    pub fn bytes(len: usize) -> Self {
        Self {
            len,
            piece: u64::MAX,
            offset: 0,
            flags: PrepFlags::INTERRUPT,
            peripheral: Peripheral::default(),
        }
    }
    /// `count` segments of `each` bytes.
    pub fn segments(count: usize, each: usize) -> Self {
        Self { piece: each as u64, ..Self::bytes(count * each) }
    }
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }
    pub fn quiet(self) -> Self {
        Self { flags: PrepFlags::QUIET, ..self }
    }
    pub fn mode(self, mode: dw_edma::Mode) -> Self {
        Self { peripheral: Peripheral { mode: Some(mode) }, ..self }
    }
}

/// Submits a transfer, without issuing it.
pub fn submit<const N: usize, const S: usize>(
    rig: &Rig,
    ch: &mut OwnedTransfers<Chan, SimDma, Vec<u8>, N, S>,
    plan: Plan,
) -> Job {
    let id = ch.channel().id();
    let direction = rig.direction(id);
    let data = pattern(rig.fabric.now_ns() ^ plan.offset << 7 ^ plan.len as u64, plan.len);
    let start = match direction {
        Direction::MemToDev => data.clone(),
        Direction::DevToMem => {
            rig.device_write(id, plan.offset as usize, &data);
            vec![!data[0]; data.len()]
        }
    };
    let to = match direction {
        Direction::MemToDev => DataDirection::ToDevice,
        Direction::DevToMem => DataDirection::FromDevice,
    };
    let limits = DmaConstraints { max_segment: plan.piece, ..DmaConstraints::any() };
    let buffer = Streaming::prepare(rig.dma.clone(), start, to, &limits).unwrap();
    let address = buffer.device_address().value();
    let config = SlaveConfig { peripheral: plan.peripheral, ..rig.config(id, plan.offset) };
    let cookie =
        ch.submit(ArrayVec::from_iter([buffer]), direction, plan.flags, Some(&config)).expect("accepted");
    Job { cookie, id, offset: plan.offset, data, direction, address }
}

/// Submits and issues a transfer.
pub fn start(rig: &Rig, ch: &mut Tx, plan: Plan) -> Job {
    let job = submit(rig, ch, plan);
    ch.issue_pending();
    job
}

/// This job ended well, and every byte is there.
#[track_caller]
pub fn assert_done<const S: usize>(rig: &Rig, job: &Job, done: Finished<SimDma, Vec<u8>, S>) {
    assert_eq!(done.completion.cookie, job.cookie);
    assert_eq!(done.completion.result, TxResult::NoError);
    assert_eq!(done.completion.residue, 0);
    assert_arrived(rig, job, done.buffers);
}

#[track_caller]
pub fn assert_arrived<const S: usize>(
    rig: &Rig,
    job: &Job,
    buffers: ArrayVec<Streaming<SimDma, Vec<u8>, Completed>, S>,
) {
    let memory: Vec<u8> = buffers.into_iter().flat_map(Streaming::into_inner).collect();
    let got = match job.direction {
        Direction::MemToDev => rig.device_read(job.id, job.offset as usize, job.data.len()),
        Direction::DevToMem => memory,
    };
    assert!(got == job.data, "wrong bytes at the destination of {}", job.id);
}

/// Lets time pass until something finishes, with what interrupts told alone; `None` if nothing
/// does for 10 ms.
pub fn next(rig: &Rig, ch: &mut Tx) -> Option<Done> {
    next_in_steps(rig, ch, 1_000)
}

pub fn next_in_steps(rig: &Rig, ch: &mut Tx, step_ns: u64) -> Option<Done> {
    for _ in 0..10_000_000 / step_ns {
        if let Some(done) = ch.pop_finished() {
            return Some(done);
        }
        rig.fabric.advance(step_ns);
    }
    None
}

#[track_caller]
pub fn finish(rig: &Rig, ch: &mut Tx, job: &Job) {
    match next(rig, ch) {
        Some(done) => assert_done(rig, job, done),
        None => panic!("no completion: {:?} {:?}", ch.channel().stats(), rig.handle.counters()),
    }
}

/// One transfer, from beginning to end.
#[track_caller]
pub fn run(rig: &Rig, ch: &mut Tx, plan: Plan) {
    let job = start(rig, ch, plan);
    finish(rig, ch, &job);
}

pub fn open(rig: &mut Rig, id: ChannelId) -> Tx {
    OwnedTransfers::new(rig.open(id))
}

/// A channel whose list has room for `slots` data elements.
pub fn open_slots(rig: &mut Rig, id: ChannelId, slots: usize) -> Tx {
    OwnedTransfers::new(rig.open_with(id, (slots + 1) * dw_edma::ELEMENT_SIZE, 32, 512))
}

/// A write and a read channel of each rig.
pub fn one_of_each() -> [ChannelId; 2] {
    [ChannelId::write(0), ChannelId::read(1)]
}

/// An entry that only goes into calls that must refuse it, or whose channel is never issued.
pub fn raw(address: u64, len: u64) -> SgEntry {
    // SAFETY: no engine ever gets it: the callers' prep fails, or its descriptor is discarded.
    unsafe { SgEntry::from_raw(DmaAddr::new(address), len) }
}

/// Offset of the registers in their BAR.
pub fn register_offset(rig: &Rig) -> u64 {
    use tombolo_sim::dw_edma::Placement;
    match rig.params.placement {
        Placement::Local { core_version: Some(_), .. } if rig.shared.config().format == Format::Legacy => {
            0x970
        }
        Placement::Local { core_version: Some(_), .. } => 0x8_0000,
        _ => rig.params.register_offset,
    }
}

/// A register of the engine, read behind the driver's back.
pub fn register(rig: &Rig, offset: u64) -> u32 {
    rig.function.mmio(rig.params.register_bar).unwrap().read32((register_offset(rig) + offset) as usize)
}

/// Writes a register behind the driver's back.
pub fn set_register(rig: &Rig, offset: u64, value: u32) {
    let bar = rig.function.mmio(rig.params.register_bar).unwrap();
    bar.write32((register_offset(rig) + offset) as usize, value);
}

/// An access to an engine register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    Read(u64),
    Write(u64, u32),
}

/// The register accesses of a trace.
pub fn register_trace(rig: &Rig, trace: &[TraceEntry]) -> Vec<Io> {
    let base = register_offset(rig);
    let bar = rig.params.register_bar;
    let ours = |b: u8, offset: u64| (b == bar).then(|| offset.wrapping_sub(base));
    trace
        .iter()
        .filter_map(|entry| match entry.event {
            TraceEvent::MmioRead { bar, offset, width, .. } => {
                ours(bar, offset).inspect(|_| assert_eq!(width, Width::W32)).map(Io::Read)
            }
            TraceEvent::MmioWrite { bar, offset, width, value } => ours(bar, offset)
                .inspect(|_| assert_eq!(width, Width::W32))
                .map(|offset| Io::Write(offset, value as u32)),
            _ => None,
        })
        .collect()
}

/// A switch between the vectors and the driver: what comes while it is off is kept, as by a CPU
/// that has interrupts disabled.
#[derive(Clone)]
pub struct Gate {
    open: Arc<AtomicBool>,
    waiting: Arc<AtomicU32>,
    shared: Arc<Engine>,
}

impl Gate {
    pub fn new(rig: &Rig) -> Self {
        let gate = Self { open: Arc::default(), waiting: Arc::default(), shared: rig.shared.clone() };
        gate.open.store(true, Ordering::SeqCst);
        for vector in 0..rig.irq.vectors() {
            let gate = gate.clone();
            rig.irq.connect(
                vector,
                Arc::new(move |_| {
                    if gate.open.load(Ordering::SeqCst) {
                        gate.shared.on_irq();
                    } else {
                        gate.waiting.fetch_add(1, Ordering::SeqCst);
                    }
                }),
            );
        }
        gate
    }
    pub fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
    }
    /// Opens it; one call answers all that has waited.
    pub fn open(&self) -> dw_edma::IrqReport {
        self.open.store(true, Ordering::SeqCst);
        if self.waiting.swap(0, Ordering::SeqCst) != 0 { self.shared.on_irq() } else { Default::default() }
    }
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }
}

/// Every buffer that went in is in quarantine or came out.
pub fn mapped(rig: &Rig) -> usize {
    rig.function.iommu_mapped().0
}
