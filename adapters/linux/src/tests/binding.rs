//! What the hal is given: config space, locks, interrupts, memory, a log.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::atomic::AtomicBool;

use tombolo_hal::dma::{Coherent, DataDirection, DmaBackend, DmaConstraints, Streaming};
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::pci::{ConfigSpace, ExtCapabilityId};

use crate::abi;
use crate::config::KernelConfig;
use crate::dma::{DmaError, KernelDma, data_direction};
use crate::entry;
use crate::fake::{Device, live, logged};
use crate::irq::KernelIrq;

/// A device for tests that count its memory; the fake shim does not look at it.
fn device(number: usize) -> NonNull<c_void> {
    NonNull::new(core::ptr::without_provenance_mut(number * 0x1000)).unwrap()
}

#[test]
fn config_space_is_read_by_width_and_outside_of_it_is_nothing() {
    let mut function = FakeConfigSpace::new(0x16c3, 0xedda);
    // SAFETY: it is there until the end of the test.
    let config = unsafe { KernelConfig::new(NonNull::from(&mut function).cast()) };
    assert_eq!((config.read32(0), config.read16(2), config.read8(1)), (0xedda_16c3, 0xedda, 0x16));
    assert_eq!((config.read32(2), config.read16(4095), config.read32(4096)), (u32::MAX, u16::MAX, u32::MAX));
    config.write8(4096, 1);
    config.write16(0x3d, 1);
}

#[test]
fn an_engine_is_found_by_its_capability_or_its_identity() {
    let words = [0x0180_0006, 0x0000_0007, 0x0002_0001, 0, 0];
    let mut function =
        FakeConfigSpace::new(0x16c3, 0xedda).with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x148, &words);
    let mut plain = FakeConfigSpace::new(0x10ee, 0xb054);
    let mut found = abi::Engine::default();
    // SAFETY: functions and `found` are there.
    unsafe {
        let at = NonNull::from(&mut function).as_ptr().cast();
        assert_eq!(entry::tombolo_edma_find(at, 0x16c3, 0xedda, &mut found), 0);
        assert_eq!((found.format, found.write_channels, found.read_channels), (7, 1, 2));
        let at = NonNull::from(&mut plain).as_ptr().cast();
        assert_eq!(entry::tombolo_edma_find(at, 0x10ee, 0xb054, &mut found), 0);
        assert_eq!((found.format, found.write_channels, found.flags), (7, 8, 0));
        plain.remove();
        assert_eq!(entry::tombolo_edma_find(at, 0x10ee, 0xb054, &mut found), -19);
    }
}

#[test]
fn a_vector_without_a_message_has_none() {
    let device = Device::new();
    // SAFETY: the vectors are there, and change only between the calls.
    let mut irq = unsafe { KernelIrq::new(NonNull::new(device.vectors.get()).unwrap(), None) };
    assert_eq!((irq.mode(), irq.vectors()), (IrqMode::Msi, 1));
    assert_eq!(irq.message(0), Some(MsiMessage { address: 0xfee0_0000, data: 0x4021 }));
    assert_eq!(irq.message(1), None);
    let before = irq.message_epoch();
    device.message(0, 0);
    assert!(irq.has_changed() && !irq.hold());
    irq.take_all();
    assert_eq!(irq.message(0), None);
    assert_ne!(irq.message_epoch(), before);
}

#[test]
fn the_self_test_passes_and_leaves_nothing_behind() {
    let mut lock = AtomicBool::new(false);
    let device = device(1).as_ptr();
    // SAFETY: the fake shim looks at no device.
    let result = unsafe { entry::tombolo_selftest(device, NonNull::from(&mut lock).as_ptr().cast(), 1) };
    assert_eq!((result, live(device)), (0, 0));
    assert!(logged(6, "self-test passed"));
}

#[test]
fn memory_that_the_device_cannot_use_is_given_back() {
    // SAFETY: the fake shim looks at no device.
    let dma = unsafe { KernelDma::new(device(2)) };
    let low = DmaConstraints { mask: 0xfff, ..DmaConstraints::any() };
    assert!(matches!(Coherent::new(dma, 64, &low), Err(DmaError::Unusable { size: 64, .. })));
    let refused = Streaming::prepare(dma, std::vec![1u8; 64], DataDirection::ToDevice, &low).unwrap_err();
    assert!(matches!(refused.error, DmaError::Unusable { .. }));
    assert_eq!((refused.memory.len(), live(device(2).as_ptr())), (64, 0));
    let both = Streaming::prepare(dma, refused.memory, DataDirection::Bidirectional, &DmaConstraints::any());
    assert_eq!(both.unwrap_err().error, DmaError::OutOfMemory { size: 64 });
    assert_eq!(data_direction(DataDirection::FromDevice), 2);
}

#[test]
fn quarantined_memory_stays_and_is_counted_and_logged() {
    entry::tombolo_init();
    // SAFETY: the fake shim looks at no device.
    let dma = unsafe { KernelDma::new(device(3)) };
    let quarantined = dma.quarantined();
    Coherent::new(dma, 4096, &DmaConstraints::any()).unwrap().quarantine();
    assert_eq!((live(device(3).as_ptr()), dma.quarantined()), (1, quarantined + 1));
    assert!(logged(4, "4096 bytes of DMA memory"), "at printk's level for warnings");
}
