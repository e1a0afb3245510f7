//! Waits in vain, removal at every step, memory that runs out.

mod common;

use common::*;
use std::sync::Arc;

use lan743x::{Config, Error, Nic, RxRing, Shared, TxRing, Wait as Waited};
use tombolo_hal::dmaengine::SgEntry;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::net::{TxDone, TxSink};
use tombolo_sim::fabric::{Fabric, MachineConfig, Removal};
use tombolo_sim::host::SimDelay;
use tombolo_sim::lan743x::{Lan743x, Params, Wait, presets};

/// Brings a controller up as far as a handle, with one thing wrong.
fn bring_up(params: Params, wrong: impl FnOnce(&tombolo_sim::lan743x::Handle)) -> Result<(), Error> {
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig { ram_size: 1 << 20, ..Default::default() }).unwrap();
    let model = Lan743x::new(params);
    wrong(&model.handle());
    let function = machine.attach(Box::new(model)).unwrap();
    function.enable();
    let shared = Arc::new(Shared::new(Window::new(function.mmio(0).unwrap()))?);
    let mut delay = SimDelay::new(&fabric);
    let mut nic = Nic::new(shared, Config::default(), &mut delay)?;
    let mode = nic.default_link(&mut delay)?;
    nic.start_link(mode, &mut delay)?;
    nic.set_filter(&Default::default(), &mut delay)
}

#[test]
fn what_does_not_end_is_named() {
    let waits = [
        (Wait::LiteReset, Waited::LiteReset),
        (Wait::PhyReset, Waited::PhyReset),
        (Wait::DmacReset, Waited::DmacReset),
        (Wait::Mdio, Waited::Mdio),
        (Wait::DataPort, Waited::DataPort),
        (Wait::Pcs, Waited::Pcs),
        (Wait::PcsPower, Waited::PcsPower),
        (Wait::SystemLock, Waited::SystemLock),
    ];
    for (stuck, named) in waits {
        let error = bring_up(presets::pci11414_b0(), |handle| handle.never_finish(stuck)).unwrap_err();
        assert!(matches!(error, Error::Timeout { what, .. } if what == named), "{stuck:?}: {error}");
    }
    assert_eq!(bring_up(presets::pci11414_b0(), |_| ()), Ok(()));
    // Another function has the lock for a while.
    assert_eq!(bring_up(presets::pci11414_b0(), |handle| handle.lock_busy(5)), Ok(()));
}

#[test]
fn a_device_that_goes_at_any_access_of_bring_up_is_gone() {
    for params in [presets::lan7430_a0(), presets::pci11414_b0()] {
        let mut worked = false;
        for accesses in 0..2_000 {
            let fabric = Fabric::new(1);
            let machine = fabric.machine(MachineConfig { ram_size: 1 << 20, ..Default::default() }).unwrap();
            let function = machine.attach(Box::new(Lan743x::new(params.clone()))).unwrap();
            function.enable();
            function.surprise_remove(Removal::AfterMmio(accesses));
            let result = Shared::new(Window::new(function.mmio(0).unwrap())).and_then(|shared| {
                let mut delay = SimDelay::new(&fabric);
                let mut nic = Nic::new(Arc::new(shared), Config::default(), &mut delay)?;
                let mode = nic.default_link(&mut delay)?;
                nic.start_link(mode, &mut delay)
            });
            worked = result.is_ok();
            if worked {
                break;
            }
            let expected = [Error::DeviceGone, Error::NoPhy(1)];
            assert!(expected.contains(&result.unwrap_err()), "after {accesses}: {result:?}");
        }
        assert!(worked, "bring-up takes more accesses than were tried");
    }
}

#[test]
fn a_frame_without_memory_is_dropped_and_its_slots_go_on() {
    let setup = Setup { buffer: 500, ring: 16, ..Setup::default() };
    let mut pair = Pair::new(presets::lan7430_b0(), presets::lan7430_b0(), setup);
    // Memory runs out in the middle of each second frame, for longer than the ring is.
    let mut got = 0;
    for seed in 0..100_u8 {
        pair.a.send(&frame(1400, seed));
        pair.fabric.advance(100_000);
        pair.a.work();
        let mut left = if seed % 2 == 0 { 100 } else { 1 };
        let fresh = || {
            left -= 1;
            (left >= 0).then(|| vec![0; 500])
        };
        pair.b.rx[0].poll(64, fresh, |frame| {
            assert_eq!(frame.info.length, 1400);
            got += 1;
        });
        pair.b.rx[0].rearm();
    }
    assert_eq!(got, 50);
    let stats = pair.b.rx[0].queue().stats();
    assert_eq!((stats.frames, stats.no_memory, stats.violations), (50, 50, 0));
}

#[test]
fn an_extension_that_does_not_follow_costs_no_slot() {
    let setup = Setup { ring: 16, ..Setup::default() };
    let mut pair = Pair::new(presets::lan7430_b0(), presets::lan7430_b0(), setup);
    let now = tombolo_hal::net::Timestamp { seconds: 5, nanoseconds: 0 };
    let ptp = pair.b.nic.ptp(now, &mut pair.b.delay).unwrap();
    pair.b.nic.set_rx_stamps(lan743x::RxStamps::All).unwrap();
    pair.b.handle.missing_extension_every(3);
    let mut stamped = 0;
    for seed in 0..60 {
        pair.a.send(&frame(100, seed));
        let (_, got) = pair.run(100_000);
        assert_eq!(got[0].bytes, frame(100, seed), "{seed}");
        stamped += usize::from(got[0].info.timestamp.is_some());
    }
    assert_eq!(stamped, 40);
    assert_eq!(pair.b.rx[0].queue().stats().missing_extensions, 20);
    drop(ptp);
}

#[test]
fn a_channel_that_does_not_stop_is_told_and_its_memory_kept() {
    let fabric = Fabric::new(1);
    let (port, _other) = tombolo_sim::lan743x::wire::Wire::pair(Default::default());
    let mut station = Station::new(&fabric, presets::lan7430_b0(), port, Setup::default());
    station.handle.never_finish(Wait::ChannelStop);
    let mut ring = station.rx.pop().unwrap().into_queue();
    let error = ring.stop(&mut station.delay).unwrap_err();
    assert!(matches!(error, Error::Timeout { what: Waited::ChannelStop, .. }), "{error}");
    let mapped = station.function.iommu_mapped().0;
    drop(ring);
    assert_eq!(station.function.iommu_mapped().0, mapped, "the device may still write there");
}

#[test]
fn a_channel_that_cannot_be_opened_was_not_started() {
    for (stuck, named) in [(Wait::FifoReset, Waited::FifoReset), (Wait::ChannelReset, Waited::ChannelReset)] {
        let fabric = Fabric::new(1);
        let (port, _other) = tombolo_sim::lan743x::wire::Wire::pair(Default::default());
        let mut station = Station::new(&fabric, presets::pci11414_b0(), port, Setup::default());
        let registers = station.function.mmio(0).unwrap();
        let starts = || registers.read32(0xc0c) & (1 << 7 | 1 << 23);
        assert_eq!(starts(), 1 << 7 | 1 << 23, "channel 3 runs in both directions");
        let (mut rx, mut tx) =
            (station.rx.pop().unwrap().into_queue(), station.tx.pop().unwrap().into_queue());
        rx.stop(&mut station.delay).unwrap();
        tx.stop(&mut station.delay).unwrap();
        let (rx, tx) = (rx.release(), tx.release(&mut Nothing));
        station.handle.never_finish(stuck);
        let is_named = |error| matches!(error, Error::Timeout { what, .. } if what == named);
        let Err((error, rx)) = RxRing::open(&station.nic, 3, rx.ring, rx.slots, 2, &mut station.delay) else {
            panic!("{stuck:?}")
        };
        assert!(is_named(error), "{error}");
        let Err((error, tx)) = TxRing::open(&station.nic, 3, tx.ring, tx.slots, &mut station.delay) else {
            panic!("{stuck:?}")
        };
        assert!(is_named(error), "{error}");
        // The memory came back, so the device must not use it.
        assert_eq!(starts(), 0, "{stuck:?}");
        station.handle.clear_faults();
        let opened = RxRing::open(&station.nic, 3, rx.ring, rx.slots, 2, &mut station.delay);
        assert!(opened.is_ok() && starts() == 1 << 7, "{stuck:?}");
        let opened = TxRing::open(&station.nic, 3, tx.ring, tx.slots, &mut station.delay);
        assert!(opened.is_ok() && starts() == 1 << 7 | 1 << 23, "{stuck:?}");
    }
}

#[test]
fn a_mac_that_does_not_stop_is_named_each_time_and_one_that_is_off_has_stopped() {
    let fabric = Fabric::new(1);
    let (port, _other) = tombolo_sim::lan743x::wire::Wire::pair(Default::default());
    let mut station = Station::new(&fabric, presets::lan7430_b0(), port, Setup::default());
    station.handle.never_finish(Wait::MacDisable);
    for _ in 0..2 {
        let error = station.nic.stop(&mut station.delay).unwrap_err();
        assert!(matches!(error, Error::Timeout { what: Waited::TransmitterStop, .. }), "{error}");
    }
    station.handle.clear_faults();
    station.nic.after_reset(&mut station.delay).unwrap();
    let before = fabric.now_ns();
    assert_eq!(station.nic.stop(&mut station.delay), Ok(()), "it was never on since its reset");
    assert_eq!(fabric.now_ns(), before, "waited for what does not come");
    for _ in 0..2 {
        station.nic.start();
        assert_eq!(station.nic.stop(&mut station.delay), Ok(()));
        assert_eq!(station.nic.stop(&mut station.delay), Ok(()), "it is off already");
    }
}

/// Whoever takes what a ring gives back when it is released without frames.
struct Nothing;

impl TxSink<Buffer> for Nothing {
    fn piece(&mut self, _: SgEntry) {
        panic!("no frame was sent");
    }
    fn sent(&mut self, _: TxDone<Buffer>) {
        panic!("no frame was sent");
    }
}

#[test]
fn heads_and_descriptors_of_garbage_reach_nothing() {
    for (seed, params) in
        [(1, presets::lan7430_a0()), (2, presets::lan7430_b0()), (3, presets::pci11414_b0())]
    {
        let setup = Setup { ring: 16, buffer: 500, ..Setup::default() };
        let mut pair = Pair::new(params.clone(), params, setup);
        pair.a.function.corrupt_dma_writes(0.3);
        pair.b.function.corrupt_dma_writes(0.3);
        let mut violations = 0;
        for number in 0..400_u32 {
            let bytes = frame(60 + (number as usize * 7) % 1400, seed);
            let _ = pair.a.send_on(0, &bytes, Default::default());
            pair.a.tx[0].kick();
            pair.fabric.advance(20_000);
            for station in [&mut pair.a, &mut pair.b] {
                // What a poll hands over lies inside of its buffers, whatever the device says.
                for queue in 0..4 {
                    let sum = |frame: tombolo_hal::net::ReceivedFrame<Vec<u8>, 8>| {
                        assert_eq!(frame.pieces().map(<[u8]>::len).sum::<usize>(), frame.info.length);
                    };
                    station.rx[queue].poll(64, || Some(vec![0; 500]), sum);
                    station.rx[queue].rearm();
                }
                station.tx[0].reap(usize::MAX, |_, _| {});
            }
            violations = pair.b.rx[0].queue().stats().violations + pair.a.tx[0].queue().stats().violations;
        }
        assert!(violations > 0, "nothing was corrupted");
    }
}
