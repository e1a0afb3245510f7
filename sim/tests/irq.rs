//! Interrupts: messages, masks, levels, handlers.

mod common;

use common::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::mmio::Mmio;
use tombolo_hal::pci::ConfigSpace;
use tombolo_sim::fabric::{Fabric, MachineConfig};
use tombolo_sim::host::SimIrq;

fn world(msix: u16, msi: u8, intx: bool) -> World {
    World::shaped(1, Shape { msix, msi, intx })
}

#[test]
fn msi_x_comes_before_msi_before_the_pin_before_polling() {
    let pick = |msix, msi, intx| {
        let irq = SimIrq::allocate(&world(msix, msi, intx).function, 8);
        (irq.mode(), irq.vectors())
    };
    assert_eq!(pick(4, 4, true), (IrqMode::MsiX, 4));
    assert_eq!(pick(0, 4, true), (IrqMode::Msi, 4));
    assert_eq!(pick(0, 0, true), (IrqMode::Intx, 1));
    assert_eq!(pick(0, 0, false), (IrqMode::Polling, 0));
    let world = world(4, 4, true);
    assert!(SimIrq::allocate_mode(&world.function, IrqMode::MsiX, 0).is_none());
    let irq = SimIrq::allocate_mode(&world.function, IrqMode::Msi, 3).unwrap();
    assert_eq!(irq.vectors(), 2, "a power of two");
}

#[test]
fn every_vector_has_a_message_of_its_own_and_fires_alone() {
    for (msix, msi) in [(4, 0), (0, 4)] {
        let world = world(msix, msi, false);
        let irq = SimIrq::allocate(&world.function, 4);
        let fired = Fired::connect(&irq);
        let messages: Vec<_> = (0..4).map(|vector| irq.message(vector).unwrap()).collect();
        for vector in 0..4 {
            world.regs.write32(RAISE, vector);
            assert_eq!(fired.take(), [vector as u16]);
            let rest = &messages[vector as usize + 1..];
            assert!(!rest.contains(&messages[vector as usize]));
        }
        assert_eq!(irq.message(4), None);
        assert_eq!(world.function.counters().interrupts, [1; 4]);
        assert_eq!(world.function.counters().messages, 4);
    }
}

#[test]
fn msi_vectors_differ_in_the_low_data_bits() {
    let world = world(0, 4, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let first = irq.message(0).unwrap();
    assert_eq!(first.data % 4, 0);
    for vector in 0..4 {
        let MsiMessage { address, data } = irq.message(vector).unwrap();
        assert_eq!((address, data), (first.address, first.data + u32::from(vector)));
    }
}

#[test]
fn a_device_may_write_its_message_itself() {
    let world = world(4, 4, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    let message = irq.message(2).unwrap();
    let send = |address, data| {
        world.set_address(SRC, address);
        world.regs.write32(DST, data);
        world.regs.write32(MESSAGE, 1);
        world.fabric.advance(2 * DELAY_NS);
    };
    send(message.address, message.data);
    assert_eq!(fired.take(), [2]);
    send(message.address, message.data + 100);
    send(message.address + 2, message.data);
    assert!(fired.take().is_empty());
    let counters = world.function.counters();
    assert_eq!((counters.messages, counters.messages_unrouted), (3, 2));
    assert!(world.function.iommu_faults().is_empty(), "messages do not pass the IOMMU");
}

#[test]
fn interrupts_come_between_accesses_and_in_delays() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    world.start(0, 0, 0, 3);
    assert!(fired.take().is_empty());
    world.regs.read32(ID);
    world.regs.read32(ID);
    world.regs.read32(ID);
    assert_eq!(fired.take(), [3]);
    world.start(0, 0, 0, 1);
    world.fabric.advance(DELAY_NS);
    assert_eq!(fired.take(), [1]);
    world.start(0, 0, 0, 2);
    world.fabric.step();
    assert_eq!(fired.take(), [2]);
}

#[test]
fn masked_msi_x_vectors_wait_as_pending_bits() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    irq.set_masked(2, true);
    world.regs.write32(RAISE, 2);
    world.regs.write32(RAISE, 1);
    assert_eq!(fired.take(), [1]);
    assert_eq!(world.regs.read32(MSIX_PBA), 1 << 2);
    assert_eq!(world.regs.read32(MSIX_TABLE + 2 * 16 + 12), 1);
    world.regs.write32(MSIX_PBA, 0);
    assert_eq!(world.regs.read32(MSIX_PBA), 1 << 2, "read-only");
    irq.set_masked(2, false);
    assert_eq!(fired.take(), [2]);
    assert_eq!(world.regs.read64(MSIX_PBA), 0);
}

#[test]
fn the_driver_s_own_table_writes_mask_too() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    let message = irq.message(1).unwrap();
    assert_eq!(u64::from(world.regs.read32(MSIX_TABLE + 16)), message.address);
    assert_eq!(world.regs.read64(MSIX_TABLE + 24), u64::from(message.data));
    world.regs.write32(MSIX_TABLE + 28, 1);
    world.regs.write32(RAISE, 1);
    assert!(fired.take().is_empty());
    world.regs.write32(MSIX_TABLE + 28, 0);
    assert_eq!(fired.take(), [1]);
}

#[test]
fn the_function_mask_holds_all_vectors_back() {
    use tombolo_hal::pci::MsixInfo;
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    let config = world.function.config();
    let msix = MsixInfo::read(&config).unwrap().unwrap();
    msix.set_masked(&config, true).unwrap();
    for vector in [3, 0, 3] {
        world.regs.write32(RAISE, vector);
    }
    assert_eq!((fired.take().len(), world.regs.read32(MSIX_PBA)), (0, 0b1001));
    msix.set_masked(&config, false).unwrap();
    assert_eq!(fired.take(), [0, 3]);
}

#[test]
fn masked_msi_vectors_wait_as_pending_bits() {
    let world = world(0, 4, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    let config = world.function.config();
    let pending = tombolo_hal::pci::MsiInfo::read(&config).unwrap().unwrap().offset + 20;
    irq.set_masked(1, true);
    world.regs.write32(RAISE, 1);
    assert_eq!((fired.take().len(), config.read32(pending)), (0, 2));
    irq.set_masked(1, false);
    assert_eq!((fired.take(), config.read32(pending)), (vec![1], 0));
}

#[test]
fn the_pin_is_a_level() {
    let world = world(0, 0, true);
    let irq = SimIrq::allocate(&world.function, 1);
    assert_eq!((irq.mode(), irq.message(0)), (IrqMode::Intx, None));
    let fired = Fired::connect(&irq);
    world.start(0, 0, 0, 0);
    world.fabric.advance(2 * DELAY_NS);
    assert!(!fired.take().is_empty());
    world.regs.read32(ID);
    assert!(!fired.take().is_empty(), "still asserted");
    assert_eq!(world.function.config().read16(6) & 8, 8);
    world.regs.write32(STATUS, DONE | FAILED);
    fired.take();
    world.regs.read32(ID);
    assert!(fired.take().is_empty());
    world.start(0, 0, 0, 0);
    irq.set_masked(0, true);
    world.fabric.advance(2 * DELAY_NS);
    assert!(fired.take().is_empty());
    irq.set_masked(0, false);
    assert!(!fired.take().is_empty());
}

#[test]
fn a_level_that_its_handler_clears_fires_once() {
    let world = world(0, 0, true);
    let irq = SimIrq::allocate(&world.function, 1);
    let count = Arc::new(AtomicU32::new(0));
    let (regs, calls) = (world.regs.clone(), count.clone());
    irq.connect(
        0,
        Arc::new(move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            let status = regs.read32(STATUS);
            regs.write32(STATUS, status);
        }),
    );
    world.start(0, 0, 0, 0);
    world.fabric.advance(5 * DELAY_NS);
    world.regs.read32(ID);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_handler_does_mmio_and_is_never_interrupted_by_another() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let log = Arc::new(Mutex::new(Vec::new()));
    for vector in 0..4 {
        let (regs, log) = (world.regs.clone(), log.clone());
        irq.connect(
            vector,
            Arc::new(move |vector| {
                log.lock().unwrap().push((vector, "in"));
                if vector == 0 {
                    // Itself, and another one, while it runs.
                    regs.write32(RAISE, 0);
                    regs.write32(RAISE, 1);
                    assert_eq!(regs.read32(ID), ID_VALUE);
                    if log.lock().unwrap().len() > 4 {
                        regs.write32(RAISE, u32::from(u16::MAX));
                    }
                }
                log.lock().unwrap().push((vector, "out"));
            }),
        );
    }
    irq.set_masked(0, false);
    world.regs.write32(RAISE, 0);
    let log = log.lock().unwrap();
    assert!(log.len() >= 8, "the storm is bounded but what came is delivered");
    for pair in log.chunks_exact(2) {
        assert_eq!((pair[0].0, pair[0].1, pair[1].1), (pair[1].0, "in", "out"));
    }
    assert!(log.contains(&(1, "in")));
}

#[test]
fn an_endless_storm_does_not_keep_the_driver_for_ever() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 1);
    let regs = world.regs.clone();
    irq.connect(0, Arc::new(move |_| regs.write32(RAISE, 0)));
    world.regs.write32(RAISE, 0);
    let first = world.function.counters().interrupts_delivered();
    assert!((2..=1024).contains(&first), "{first}");
}

#[test]
fn moving_a_vector_changes_its_message_and_silences_the_old_one() {
    for (msix, msi) in [(4, 0), (0, 4)] {
        let world = world(msix, msi, false);
        let irq = SimIrq::allocate(&world.function, 4);
        let fired = Fired::connect(&irq);
        let moved = Arc::new(Mutex::new(Vec::new()));
        let log = moved.clone();
        irq.on_message_change(Arc::new(move |vector| log.lock().unwrap().push(vector)));
        let (old, epoch) = (irq.message(1).unwrap(), irq.message_epoch());
        assert!(irq.set_affinity(1, 3));
        assert!(!irq.set_affinity(4, 3));
        let new = irq.message(1).unwrap();
        assert_ne!(old, new);
        assert_ne!(irq.message_epoch(), epoch);
        let expected: &[u16] = if msix > 0 { &[1] } else { &[0, 1, 2, 3] };
        assert_eq!(*moved.lock().unwrap(), expected);
        world.regs.write32(RAISE, 1);
        assert_eq!(fired.take(), [1], "the function sends the new one");
        for (message, heard) in [(old, false), (new, true)] {
            world.set_address(SRC, message.address);
            world.regs.write32(DST, message.data);
            world.regs.write32(MESSAGE, 1);
            world.fabric.advance(2 * DELAY_NS);
            assert_eq!(!fired.take().is_empty(), heard);
        }
    }
}

#[test]
fn vectors_are_given_back_and_silent_afterwards() {
    let world = world(4, 0, true);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    let message = irq.message(0).unwrap();
    assert_eq!(SimIrq::allocate(&world.function, 4).mode(), IrqMode::Polling, "taken");
    let keep = irq.clone();
    drop(irq);
    world.regs.write32(RAISE, 0);
    assert_eq!(fired.take(), [0]);
    drop(keep);
    world.regs.write32(RAISE, 0);
    assert!(fired.take().is_empty());
    assert_eq!(SimIrq::allocate(&world.function, 4).message(0), Some(message));
}

#[test]
fn a_machine_runs_out_of_vectors_without_a_fuss() {
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig { cpus: 1, ..Default::default() }).unwrap();
    let shape = Shape { msix: 60, msi: 4, intx: true };
    let functions: Vec<_> = (0..5).map(|_| machine.attach(Box::new(Copier::new(shape))).unwrap()).collect();
    let sources: Vec<_> = functions.iter().map(|function| SimIrq::allocate(function, 60)).collect();
    let found: Vec<_> = sources.iter().map(|irq| (irq.mode(), irq.vectors())).collect();
    let full = (IrqMode::MsiX, 60);
    assert_eq!(found, [full, full, full, (IrqMode::MsiX, 28), (IrqMode::Intx, 1)]);
}

#[test]
fn lost_and_spurious_interrupts() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 4);
    let fired = Fired::connect(&irq);
    world.function.lose_next_interrupts(2);
    for _ in 0..3 {
        world.regs.write32(RAISE, 1);
    }
    assert_eq!(fired.take(), [1]);
    world.function.spurious_interrupt(3);
    assert_eq!(fired.take(), [3]);
    world.function.lose_interrupts(0.5);
    for _ in 0..100 {
        world.regs.write32(RAISE, 1);
    }
    let (heard, counters) = (fired.take().len() as u64, world.function.counters());
    assert!((30..70).contains(&heard), "{heard}");
    assert_eq!(counters.messages_lost, 2 + 100 - heard);
    world.function.lose_interrupts(0.0);
    world.regs.write32(RAISE, 1);
    assert_eq!(fired.take(), [1]);
}

#[test]
fn threads_share_a_fabric_and_a_vector_runs_on_one_of_them() {
    let world = world(4, 0, false);
    let irq = SimIrq::allocate(&world.function, 1);
    let (busy, calls) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (inside, count) = (busy.clone(), calls.clone());
    irq.connect(
        0,
        Arc::new(move |_| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            std::thread::yield_now();
            count.fetch_add(1, Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
        }),
    );
    let rounds = if cfg!(miri) { 20 } else { 500 };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let regs = world.regs.clone();
            scope.spawn(move || (0..rounds).for_each(|_| regs.write32(RAISE, 0)));
        }
    });
    world.regs.read32(ID);
    let calls = u64::from(calls.load(Ordering::SeqCst));
    assert_eq!(calls, world.function.counters().interrupts_delivered());
    assert!(calls > 0 && calls <= 3 * rounds);
}
