use std::cell::RefCell;
use std::sync::Arc;

use tombolo_hal::fake::FakeMmio;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Mmio;
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::pci::{BarInfo, BarKind, CapabilityId, ConfigSpace, size_bars};

use super::*;
use crate::pci::Bdf;

const AT: Bdf = Bdf::from_requester_id(0x18);

/// Gives out numbers, and remembers what is out.
#[derive(Default)]
struct Controller(RefCell<std::vec::Vec<MessageBlock>>);

impl MessageController for Controller {
    fn allocate(&self, requester: Bdf, count: u16) -> Result<MessageBlock, IrqError> {
        assert_eq!(requester, AT);
        let message = MsiMessage { address: 0x1_fee0_0000, data: 0x40 };
        let block = MessageBlock { first: 16, count, message };
        self.0.borrow_mut().push(block);
        Ok(block)
    }
    fn release(&self, _: Bdf, block: MessageBlock) {
        self.0.borrow_mut().retain(|other| *other != block);
    }
}

/// A BAR that nobody answers for.
#[derive(Debug)]
struct Gone;

impl Mmio for Gone {
    fn size(&self) -> usize {
        0x1000
    }
    fn read32(&self, _: usize) -> u32 {
        u32::MAX
    }
    fn write32(&self, _: usize, _: u32) {}
}

fn device() -> FakeConfigSpace {
    FakeConfigSpace::new(0x16c3, 0xedda)
        .with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x1000)
        // Two vectors of MSI, 64-bit address.
        .with_capability(CapabilityId::MSI, 0x50, &[0x82, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// MSI-X of 4 vectors as well: table in BAR 0 at 0x800, pending bits at 0xc00.
fn with_msix(cfg: FakeConfigSpace) -> FakeConfigSpace {
    cfg.with_capability(CapabilityId::MSIX, 0x70, &[3, 0, 0, 8, 0, 0, 0, 0x0c, 0, 0])
}

fn set_up(
    cfg: &FakeConfigSpace,
    bar: &Arc<FakeMmio>,
    controller: &Controller,
    wanted: (Wanted, u16),
) -> Result<FunctionInterrupts, IrqError> {
    let bars = size_bars(cfg).unwrap();
    let map = |_: &BarInfo| Some(bar.clone());
    FunctionInterrupts::set_up(cfg, AT, &bars, map, controller, wanted)
}

#[test]
fn msix_is_preferred_and_unused_entries_stay_masked() {
    let (cfg, bar, controller) =
        (with_msix(device()), Arc::new(FakeMmio::new(0x1000)), Controller::default());
    let irq = set_up(&cfg, &bar, &controller, (Wanted::Best, 3)).unwrap();
    assert_eq!((irq.mode(), irq.vectors(), irq.message_epoch()), (IrqMode::MsiX, 3, 0));
    assert_eq!(irq.message(2), Some(MsiMessage { address: 0x1_fee0_0000, data: 0x42 }));
    assert_eq!((irq.message(3), irq.number(2), irq.number(3)), (None, Some(18), None));
    let entry = |n: usize| core::array::from_fn(|word| bar.peek32(0x800 + 16 * n + 4 * word));
    assert_eq!(entry(2), [0xfee0_0000, 1, 0x42, 0]);
    assert_eq!(entry(3), [0, 0, 0, 1]);
    assert_eq!(cfg.read16(0x72), 0x8003, "enabled, not masked");
    irq.tear_down(&cfg, &IrqTable::<_, 32>::new(SpinLock::new()), &controller).unwrap();
    assert_eq!((cfg.read16(0x72) & 0x8000, controller.0.borrow().len()), (0, 0));
}

#[test]
fn msi_gets_a_power_of_two() {
    let (cfg, bar, controller) = (device(), Arc::new(FakeMmio::new(0x1000)), Controller::default());
    let irq = set_up(&cfg, &bar, &controller, (Wanted::Best, 3)).unwrap();
    assert_eq!((irq.mode(), irq.vectors()), (IrqMode::Msi, 2));
    assert_eq!((cfg.read32(0x54), cfg.read32(0x58), cfg.read16(0x5c)), (0xfee0_0000, 1, 0x40));
    assert_eq!(cfg.read16(0x52), 0x93, "enabled, two vectors");
    assert_eq!(set_up(&cfg, &bar, &controller, (Wanted::MsiX, 1)).err(), Some(IrqError::Missing("MSI-X")));
}

#[test]
fn without_either_it_is_polling_and_only_if_that_will_do() {
    let bare = FakeConfigSpace::new(0x1234, 2);
    let (bar, controller) = (Arc::new(FakeMmio::new(0x1000)), Controller::default());
    let irq = set_up(&bare, &bar, &controller, (Wanted::Best, 1)).unwrap();
    assert_eq!((irq.mode(), irq.vectors(), irq.message(0)), (IrqMode::Polling, 0, None));
    assert_eq!(set_up(&bare, &bar, &controller, (Wanted::Msi, 1)).err(), Some(IrqError::Missing("MSI")));
    let asked = set_up(&with_msix(device()), &bar, &controller, (Wanted::Polling, 0)).unwrap();
    assert_eq!(asked.mode(), IrqMode::Polling);
    assert_eq!(set_up(&device(), &bar, &controller, (Wanted::Best, 0)).err(), Some(IrqError::NoVectors));
    assert!(controller.0.borrow().is_empty());
}

#[test]
fn a_table_that_is_not_there_is_an_error_and_gives_everything_back() {
    let controller = Controller::default();
    let cfg = with_msix(device());
    let short = Arc::new(FakeMmio::new(0x810));
    let refused = set_up(&cfg, &short, &controller, (Wanted::Best, 4));
    assert_eq!(refused.err(), Some(IrqError::TableUnreachable { bar: 0 }));
    let bars = size_bars(&cfg).unwrap();
    let map = |_: &BarInfo| Some(Gone);
    let refused = FunctionInterrupts::set_up(&cfg, AT, &bars, map, &controller, (Wanted::Best, 4));
    assert_eq!(refused.err(), Some(IrqError::TableRefused { vector: 0 }));
    assert_eq!((cfg.read16(0x72) & 0x8000, controller.0.borrow().len()), (0, 0));
}

#[test]
fn handlers_are_connected_by_vector() {
    static TABLE: IrqTable<SpinLock, 32> = IrqTable::new(SpinLock::new());
    let (cfg, bar, controller) =
        (with_msix(device()), Arc::new(FakeMmio::new(0x1000)), Controller::default());
    let irq = set_up(&cfg, &bar, &controller, (Wanted::Best, 2)).unwrap();
    static CALLS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    let handler = &|| {
        CALLS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    };
    irq.connect(&TABLE, 1, handler).unwrap();
    assert_eq!(irq.connect(&TABLE, 2, handler), Err(IrqError::NoSuchInterrupt { number: 2, limit: 2 }));
    TABLE.dispatch(17);
    assert_eq!(CALLS.load(core::sync::atomic::Ordering::Relaxed), 1);
    irq.tear_down(&cfg, &TABLE, &controller).unwrap();
    TABLE.dispatch(17);
    assert_eq!(TABLE.unexpected(), 1);
}
