//! Against an ITS in memory that reads its commands and tables as the specification says.

use core::ptr::with_exposed_provenance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use core::ptr::NonNull;
use tombolo_hal::DmaAddr;
use tombolo_hal::fake::FakeMmio;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Mmio;

use super::registers::*;
use super::*;
use crate::dma::{Coherent, DmaPool, DmaRegion};
use crate::irq::{IrqError, MessageController};
use crate::pci::Bdf;

#[derive(Default)]
struct State {
    ctlr: u32,
    cbaser: u64,
    cwriter: u64,
    creadr: u64,
    baser: [u64; 8],
    /// Pages of 64 KiB are not taken.
    small_pages: bool,
    stuck: bool,
    devices: BTreeMap<u64, (u64, u64)>,
    events: BTreeMap<(u64, u64), u64>,
    collections: BTreeMap<u64, u64>,
    invalidated: Vec<(u64, u64)>,
    syncs: u32,
}

#[derive(Clone)]
struct FakeIts(Arc<Mutex<State>>);

const SHAPE: u64 = 0x7 << 56 | 0x1f << 48;

impl State {
    fn read(&self, offset: usize) -> u64 {
        match offset {
            // Physical; ITT entries of 12 bytes; 16 bits of events and devices.
            GITS_TYPER => 1 | 11 << 4 | 15 << 8 | 15 << 13,
            GITS_CTLR => u64::from(self.ctlr | (GITS_CTLR_QUIESCENT * u32::from(self.ctlr & 1 == 0))),
            GITS_CREADR => self.creadr,
            0x100..0x140 => self.baser[(offset - 0x100) / 8],
            _ => 0,
        }
    }

    fn write(&mut self, offset: usize, value: u64) {
        match offset {
            GITS_CTLR => self.ctlr = value as u32 & 1,
            GITS_CBASER => self.cbaser = value,
            GITS_CWRITER => {
                self.cwriter = value;
                self.work();
            }
            0x100..0x140 => {
                let baser = &mut self.baser[(offset - 0x100) / 8];
                *baser = *baser & SHAPE | value & !SHAPE;
                if self.small_pages && *baser >> 8 & 3 == 2 {
                    *baser &= !(3 << 8);
                }
            }
            _ => {}
        }
    }

    fn work(&mut self) {
        if self.creadr != self.cwriter {
            assert_eq!((self.ctlr, self.cbaser >> 63), (1, 1));
        }
        while self.creadr != self.cwriter && !self.stuck {
            let at = (self.cbaser & 0xf_ffff_ffff_f000) + self.creadr;
            // SAFETY: the queue lies in the pool, whose memory is leaked.
            let words = unsafe { with_exposed_provenance::<[u64; 4]>(at as usize).read_volatile() };
            self.command(words);
            self.creadr = (self.creadr + 32) % ((self.cbaser & 0xff) * 4096 + 4096);
        }
    }

    fn command(&mut self, [a, b, c, _]: [u64; 4]) {
        let (device, event) = (a >> 32, b & 0xffff_ffff);
        match a & 0xff {
            0x08 => {
                assert_eq!((c >> 63, c & 0xff), (1, 0));
                self.devices.insert(device, (c & 0xf_ffff_ffff_ff00, 1 << (b + 1)));
            }
            0x09 => {
                self.collections.insert(c & 0xffff, c >> 16 & 0x7_ffff_ffff);
            }
            0x0a => {
                assert!(event < self.devices[&device].1 && self.collections.contains_key(&(c & 0xffff)));
                self.events.insert((device, event), b >> 32);
            }
            0x0c => self.invalidated.push((device, event)),
            0x0f => {
                self.events.remove(&(device, event)).expect("a mapped event");
            }
            0x05 => self.syncs += 1,
            0x0d => {}
            other => panic!("unknown command {other:#x}"),
        }
    }
}

impl Mmio for FakeIts {
    fn size(&self) -> usize {
        0x2_0000
    }
    fn read32(&self, offset: usize) -> u32 {
        (self.0.lock().unwrap().read(offset & !7) >> (8 * (offset & 4))) as u32
    }
    fn write32(&self, offset: usize, value: u32) {
        self.write64_relaxed(offset, value.into());
    }
    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.0.lock().unwrap().write(offset, value);
    }
}

/// Distributor and redistributors are plain memory with the right words; the ITS is not.
#[derive(Clone)]
enum Part {
    Plain(Arc<FakeMmio>),
    Its(FakeIts),
}

impl Mmio for Part {
    fn size(&self) -> usize {
        match self {
            Part::Plain(io) => io.size(),
            Part::Its(io) => io.size(),
        }
    }
    fn read32(&self, offset: usize) -> u32 {
        match self {
            Part::Plain(io) => io.read32(offset),
            Part::Its(io) => io.read32(offset),
        }
    }
    fn write32(&self, offset: usize, value: u32) {
        match self {
            Part::Plain(io) => io.write32(offset, value),
            Part::Its(io) => io.write32(offset, value),
        }
    }
    fn write64_relaxed(&self, offset: usize, value: u64) {
        match self {
            Part::Plain(io) => io.write64_relaxed(offset, value),
            Part::Its(io) => io.write64_relaxed(offset, value),
        }
    }
}

struct NoDelay;
impl embedded_hal::delay::DelayNs for NoDelay {
    fn delay_ns(&mut self, _: u32) {}
}

type Pool = DmaPool<SpinLock, Coherent, 32>;

fn pool() -> &'static Pool {
    #[repr(align(65536))]
    struct Page(#[allow(dead_code)] [u8; 65536]);
    let memory: &'static mut [Page] = (0..24).map(|_| Page([0; 65536])).collect::<Vec<_>>().leak();
    let size = size_of_val(memory);
    let cpu = NonNull::from(memory).cast::<u8>();
    let region = DmaRegion { cpu, device: DmaAddr::new(cpu.as_ptr().expose_provenance() as u64), size };
    // SAFETY: the memory is leaked, and only the fake ITS reads it beside the pool's users.
    std::boxed::Box::leak(unsafe { DmaPool::new(region, SpinLock::new(), Coherent) }.into())
}

struct Rig {
    its: Its<Part, &'static Pool, SpinLock>,
    state: Arc<Mutex<State>>,
    redistributors: Arc<FakeMmio>,
}

fn start(change: impl FnOnce(&mut State)) -> Result<Rig, IrqError> {
    let gicd = Arc::new(FakeMmio::new(0x1_0000));
    gicd.poke32(GICD_TYPER, GICD_TYPER_LPIS | 15 << 19);
    let gicr = Arc::new(FakeMmio::new(2 * GICR_FRAME));
    let second = GICR_FRAME;
    gicr.poke32(GICR_TYPER, 1);
    gicr.poke32(second + GICR_TYPER, 1 | 1 << 8 | GICR_TYPER_LAST);
    gicr.poke32(second + GICR_TYPER + 4, 0x101);
    let mut state =
        State { baser: [1 << 56 | 7 << 48, 4 << 56 | 7 << 48, 0, 0, 0, 0, 0, 0], ..State::default() };
    change(&mut state);
    let state = Arc::new(Mutex::new(state));
    let distributor = Distributor::start(Part::Plain(gicd), &mut NoDelay)?;
    let redistributor = Redistributor::find(Part::Plain(gicr.clone()), 0x80a_0000, 0x101, &mut NoDelay)?;
    let io = (Part::Its(FakeIts(state.clone())), 0x808_0000);
    let its = Its::start(io, &distributor, &redistributor, pool(), SpinLock::new(), &mut NoDelay)?;
    Ok(Rig { its, state, redistributors: gicr })
}

fn at(bus: u8, device: u8) -> Bdf {
    Bdf::new(bus, device, 0).unwrap()
}

/// Whether the LPI is enabled in the table that the redistributor was given.
fn is_enabled(rig: &Rig, lpi: u64) -> bool {
    let table = u64::from(rig.redistributors.peek32(GICR_FRAME + GICR_PROPBASER))
        | u64::from(rig.redistributors.peek32(GICR_FRAME + GICR_PROPBASER + 4)) << 32;
    assert_eq!(table & 0x1f, 13);
    let byte = (table & 0xf_ffff_ffff_f000) + lpi - u64::from(FIRST_LPI);
    // SAFETY: it lies in the pool, whose memory is leaked.
    let byte = unsafe { with_exposed_provenance::<u8>(byte as usize).read_volatile() };
    byte & 1 != 0
}

#[test]
fn a_message_becomes_an_enabled_lpi_of_this_cpu() {
    let rig = start(|_| {}).unwrap();
    let block = rig.its.allocate(at(1, 0), 4).unwrap();
    assert_eq!((block.message.address, block.message.data, block.count), (0x809_0040, 0, 4));
    let state = rig.state.lock().unwrap();
    assert_eq!(state.collections[&0], 1, "the number of the second redistributor");
    for n in 0..4 {
        let lpi = state.events[&(0x100, n)];
        assert_eq!(lpi, u64::from(FIRST_LPI + block.first) + n);
        assert!(is_enabled(&rig, lpi) && state.invalidated.contains(&(0x100, n)));
    }
    assert!(!is_enabled(&rig, u64::from(FIRST_LPI) + 4));
    assert!(state.syncs >= 5);
    assert_eq!(state.devices[&0x100].0 % 256, 0);
}

#[test]
fn messages_under_an_alias_are_translated_too_and_never_clash() {
    let rig = start(|_| {}).unwrap();
    let first = rig.its.allocate(at(0, 1), 1).unwrap();
    rig.its.set_alias(Some(0));
    let second = rig.its.allocate(at(0, 2), 2).unwrap();
    let third = rig.its.allocate(at(0, 3), 1).unwrap();
    let state = rig.state.lock().unwrap();
    let lpi = |block: &crate::irq::MessageBlock| u64::from(FIRST_LPI + block.first);
    assert_eq!((first.message.data, second.message.data, third.message.data), (0, 0, 2));
    assert_eq!(state.events[&(8, 0)], lpi(&first));
    assert_eq!((state.events[&(0, 1)], state.events[&(16, 1)]), (lpi(&second) + 1, lpi(&second) + 1));
    assert_eq!((state.events[&(0, 2)], state.events[&(24, 2)]), (lpi(&third), lpi(&third)));
}

#[test]
fn what_is_given_back_is_unmapped_disabled_and_given_out_again() {
    let rig = start(|_| {}).unwrap();
    let block = rig.its.allocate(at(0, 1), 32).unwrap();
    assert_eq!(rig.its.allocate(at(0, 1), 1), Err(IrqError::InUse(at(0, 1))));
    rig.its.release(at(0, 2), block);
    assert_eq!(rig.state.lock().unwrap().events.len(), 32, "not that function's");
    rig.its.release(at(0, 1), block);
    assert!(rig.state.lock().unwrap().events.is_empty());
    assert!(!is_enabled(&rig, u64::from(FIRST_LPI)));
    for _ in 0..30 {
        let block = rig.its.allocate(at(0, 1), 32).unwrap();
        rig.its.release(at(0, 1), block);
    }
}

#[test]
fn lpis_and_devices_run_out_with_an_error() {
    let rig = start(|_| {}).unwrap();
    for device in 0..8 {
        rig.its.allocate(at(0, device), 32).unwrap();
    }
    assert_eq!(rig.its.allocate(at(1, 0), 1), Err(IrqError::NoneFree { wanted: 1, free: 0, limit: LPIS }));
}

#[test]
fn an_its_with_small_pages_gets_small_pages() {
    let rig = start(|state| state.small_pages = true).unwrap();
    let state = rig.state.lock().unwrap();
    let devices = state.baser[0];
    assert_eq!((devices >> 63, devices >> 8 & 3, devices & 0xff), (1, 1, 31), "32 pages of 16 KiB");
}

#[test]
fn what_cannot_work_is_an_error() {
    let stuck = start(|state| state.stuck = true).err();
    assert_eq!(stuck, Some(IrqError::Controller("the ITS does not take commands")));
    let io = Part::Plain(Arc::new(FakeMmio::new(0x1_0000)));
    assert!(Distributor::start(io.clone(), &mut NoDelay).is_err(), "no LPIs");
    assert!(Redistributor::find(io, 0, 0, &mut NoDelay).is_err(), "too small for one");
    let gicr = Part::Plain(Arc::new(FakeMmio::new(4 * GICR_FRAME)));
    assert!(Redistributor::find(gicr, 0, 9, &mut NoDelay).is_err(), "none has this affinity");
    let huge = start(|state| state.baser[0] |= 0x1f << 48).err();
    assert!(matches!(huge, Some(IrqError::Memory(_))), "2 MiB do not fit into the pool: {huge:?}");
}
