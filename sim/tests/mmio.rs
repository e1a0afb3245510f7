//! MMIO: time, routing, counters, trace.

mod common;

use common::*;
use std::sync::Arc;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_sim::clock::MonotonicClock;
use tombolo_sim::device::Width;
use tombolo_sim::fabric::{AttachError, BarCounters, Fabric, FabricConfig, MachineConfig, TraceEvent};

#[test]
fn registers_answer_and_accesses_take_time() {
    let world = World::new();
    let start = world.fabric.now_ns();
    assert_eq!(world.regs.read32(ID), ID_VALUE);
    world.regs.write32(SCRATCH, 0x1234_5678);
    assert_eq!(world.regs.read32(SCRATCH), 0x1234_5678);
    assert_eq!(world.fabric.now_ns() - start, 500 + 50 + 500);
    assert_eq!(world.function.counters().bars[0], BarCounters { reads: 2, writes: 1 });
}

#[test]
fn narrow_and_wide_reads_reach_the_model_as_such() {
    let world = World::new();
    assert_eq!(world.regs.read8(ID + 3), 0xc0);
    assert_eq!(world.regs.read16(ID + 2), 0xc0de);
    assert_eq!(world.regs.read64(ID), u64::from(ID_VALUE) << 32 | u64::from(ID_VALUE));
}

#[test]
fn accesses_that_nobody_claims_read_ones_and_are_counted() {
    let world = World::new();
    assert_eq!(world.regs.size(), 0x1000);
    assert_eq!(world.regs.read32(0x1000), u32::MAX);
    assert_eq!(world.regs.read32(usize::MAX - 3), u32::MAX);
    assert_eq!(world.regs.read32(2), u32::MAX);
    assert_eq!(world.regs.read8(0x1000), u8::MAX);
    world.regs.write32(0x1000, 1);
    let counters = world.function.counters();
    assert_eq!((counters.unclaimed, counters.mmio_reads(), counters.mmio_writes()), (5, 0, 0));
    assert!(world.function.mmio(1).is_none() && world.function.mmio(6).is_none());
}

#[test]
fn a_bar_answers_only_while_memory_decoding_is_on() {
    use tombolo_hal::pci::command;
    let world = World::new();
    let config = world.function.config();
    command::set_memory_enabled(&config, false).unwrap();
    assert_eq!(world.regs.read32(ID), u32::MAX);
    assert_eq!(world.function.bar_address(0), None);
    command::set_memory_enabled(&config, true).unwrap();
    assert_eq!(world.regs.read32(ID), ID_VALUE);
}

#[test]
fn without_firmware_the_driver_places_the_bars() {
    use tombolo_hal::pci::ConfigSpace;
    let fabric = Fabric::new(1);
    let bare = MachineConfig { firmware: false, ..Default::default() };
    let machine = fabric.machine(bare).unwrap();
    let function = machine.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    let regs = function.mmio(0).unwrap();
    function.enable();
    assert_eq!(regs.read32(ID), u32::MAX);
    function.config().write32(0x10, 0xd000_0000);
    assert_eq!(function.bar_address(0), Some(0xd000_0000));
    assert_eq!(regs.read32(ID), ID_VALUE);
}

#[test]
fn a_memory_bar_is_plain_memory() {
    let world = World::new();
    let memory = world.function.mmio(2).unwrap();
    memory.write32(0, 0x0403_0201);
    memory.write64(8, 0x1122_3344_5566_7788);
    memory.write8(3, 9);
    assert_eq!(memory.read16(2), 0x0903);
    assert_eq!(memory.read32(12), 0x1122_3344);
    assert_eq!(memory.read32(MEMORY_LEN as usize - 4), 0);
    assert_eq!(world.function.counters().bars[2], BarCounters { reads: 3, writes: 3 });
}

#[test]
fn vendor_config_writes_reach_the_model() {
    use tombolo_hal::pci::{ConfigSpace, find_vsec};
    let world = World::new();
    let config = world.function.config();
    let vsec = find_vsec(&config, 0x1234, 6).unwrap().unwrap();
    config.write32(vsec.offset + 12, 0xabcd);
    assert_eq!(world.regs.read32(VENDOR), u32::from(vsec.offset + 12) << 16 | 0xcd);
}

#[test]
fn the_trace_shows_descriptor_barrier_doorbell() {
    let world = World::new();
    let ring = Coherent::new(world.function.dma(), 64, &DmaConstraints::any()).unwrap();
    let address = ring.device_address().value();
    world.function.watch(address, 16);
    world.fabric.set_trace(100);
    ring.write32_relaxed(4, 7);
    ring.barrier(Barrier::DmaWmb);
    ring.write32_relaxed(0, 1);
    ring.barrier(Barrier::Wmb);
    world.regs.write32(SCRATCH, 5);
    let events: Vec<_> = world.fabric.take_trace().into_iter().map(|entry| entry.event).collect();
    let expected = [
        TraceEvent::Memory { address: address + 4, value: 7 },
        TraceEvent::Barrier(Barrier::DmaWmb),
        TraceEvent::Memory { address, value: 1 },
        TraceEvent::Barrier(Barrier::Wmb),
        TraceEvent::MmioWrite { bar: 0, offset: SCRATCH as u64, width: Width::W32, value: 5 },
    ];
    assert_eq!(events, expected);
    assert_eq!(world.function.counters().barriers, 2);
    ring.free();
}

#[test]
fn the_device_s_own_writes_are_not_the_driver_s_changes() {
    let world = World::new();
    let ring = Coherent::new(world.function.dma(), 64, &DmaConstraints::any()).unwrap();
    let address = ring.device_address().value();
    ring.write32_relaxed(0, 3);
    world.function.watch(address, 16);
    world.fabric.set_trace(100);
    assert_eq!(world.copy(address, address + 32, 4), DONE);
    assert_eq!(ring.read32(32), 3);
    let trace = world.fabric.take_trace();
    assert!(!trace.iter().any(|entry| matches!(entry.event, TraceEvent::Memory { .. })));
    assert!(trace.iter().any(|entry| matches!(entry.event, TraceEvent::DmaWrite { len: 4, .. })));
    ring.free();
}

#[test]
fn events_that_fall_due_during_an_access_run_before_it() {
    let world = World::new();
    world.regs.write32(GO, 0);
    for _ in 0..2 {
        world.regs.write32(SCRATCH, 0);
    }
    assert_eq!(world.regs.read32(STATUS), 0, "600 ns after the doorbell");
    assert_ne!(world.regs.read32(STATUS), 0, "1100 ns after it");
}

#[test]
fn time_can_be_stepped_and_run_until_nothing_is_left() {
    let world = World::new();
    let start = world.fabric.now_ns();
    assert!(!world.fabric.step());
    world.regs.write32(GO, 0);
    world.regs.write32(MESSAGE, 0);
    assert!(world.fabric.step());
    assert_eq!(world.fabric.now_ns() - start, 50 + DELAY_NS);
    assert_eq!(world.fabric.pending_events(), 1);
    let progress = world.fabric.run_until_idle(10);
    assert_eq!((progress.events, progress.idle), (1, true));
    assert_eq!(world.fabric.now_ns() - start, 100 + DELAY_NS);
}

#[test]
fn a_device_that_schedules_without_end_does_not_hang_its_driver() {
    let config = FabricConfig { events_per_call: 1_000, ..Default::default() };
    let fabric = Fabric::with(config, Arc::new(tombolo_sim::clock::VirtualClock::new()));
    let machine = fabric.machine(MachineConfig::default()).unwrap();
    let function = machine.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    let regs = function.mmio(0).unwrap();
    regs.write32(STORM, 1);
    assert_eq!(regs.read32(ID), ID_VALUE);
    fabric.advance(1_000);
    assert_eq!(fabric.now_ns(), 1_550);
    assert!(!fabric.run_until_idle(100).idle);
}

#[test]
fn real_time_runs_events_when_they_are_due() {
    let fabric = Fabric::with(FabricConfig::default(), Arc::new(MonotonicClock::new()));
    let machine = fabric.machine(MachineConfig::default()).unwrap();
    let function = machine.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    let regs = function.mmio(0).unwrap();
    regs.write32(GO, 0);
    fabric.advance(2_000_000);
    assert!(fabric.now_ns() >= 2_000_000);
    assert_eq!(regs.read32(EVENTS), 1);
}

#[test]
fn devices_that_do_not_fit_are_refused() {
    let fabric = Fabric::new(1);
    let small = MachineConfig { mmio64: 0x1_0000_0000..0x1_0000_8000, ..Default::default() };
    let machine = fabric.machine(small).unwrap();
    let error = machine.attach(Box::new(Copier::new(Shape::default()))).unwrap_err();
    assert_eq!(error, AttachError::NoRoom { bar: 2, size: MEMORY_LEN });
    let shape = Shape { msi: 3, ..Default::default() };
    let error = machine.attach(Box::new(Copier::new(shape))).unwrap_err();
    assert!(matches!(error, AttachError::Config(_)));
}

#[test]
fn a_narrow_trace_keeps_the_newest() {
    let world = World::new();
    world.fabric.set_trace(1);
    world.regs.read32(ID);
    world.regs.write32(SCRATCH, 1);
    let trace = world.fabric.take_trace();
    assert_eq!(trace.len(), 1);
    assert!(matches!(trace[0].event, TraceEvent::MmioWrite { .. }));
    world.fabric.set_trace(0);
    world.regs.read32(ID);
    assert!(world.fabric.take_trace().is_empty());
}
