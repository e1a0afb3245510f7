//! Finding an engine, switching it on and off, and coming back after a reset.

mod common;
mod helpers;

use common::*;
use dw_edma::{
    ChannelId, Config, CoreVersion, Error, Format, Location, RemoteEngine, VENDOR_XILINX, detect_local,
};
use helpers::*;
use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::mmio::Window;
use tombolo_sim::dw_edma::{DwEdma, Params, Placement, presets};
use tombolo_sim::fabric::{Fabric, Function, MachineConfig, Removal};

fn function(params: Params) -> Function {
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig::default()).unwrap();
    let function = machine.attach(Box::new(DwEdma::new(params))).unwrap();
    function.enable();
    function
}

#[test]
fn the_engines_of_16c3_edda_are_found_by_their_capability() {
    for format in Format::ALL {
        let function = function(presets::edda(sim_format(format)));
        let found = RemoteEngine::find(&function.config()).unwrap();
        assert_eq!((found.format, found.bar, found.register_offset), (format, 0, 0));
        assert_eq!((found.write_channels, found.read_channels, found.device_memory), (2, 2, None));
        assert_eq!(found.config(), Config::new(format, Location::Remote).channels(2, 2));
    }
}

#[test]
fn the_engines_of_10ee_are_found_with_their_device_memory() {
    for (params, memory) in [
        (presets::mdb_b054(), Some(presets::XILINX_DEVICE_MEMORY)),
        (presets::cpm6_b00f(), Some(presets::XILINX_DEVICE_MEMORY)),
        (presets::b054_without_list_memory(), None),
        (Params { device_memory_vsec: Some(u64::MAX), ..presets::mdb_b054() }, None),
    ] {
        let function = function(params);
        let found = RemoteEngine::find(&function.config()).unwrap();
        assert_eq!((found.format, found.bar), (Format::HdmaNative, 0));
        assert_eq!(
            (found.write_channels, found.read_channels, found.device_memory.map(|m| m.value())),
            (8, 8, memory)
        );
    }
}

#[test]
fn functions_without_a_usable_capability_have_no_engine() {
    let edda = presets::edda(sim_format(Format::Unroll));
    let mut foreign = edda.clone();
    foreign.identity.vendor = 0x1234;
    let mut wrong_map = edda.clone();
    wrong_map.identity.vendor = VENDOR_XILINX;
    for params in [Params { vsec: false, ..edda }, foreign, wrong_map] {
        let function = function(params);
        assert!(matches!(RemoteEngine::find(&function.config()), Err(Error::NoEngine(_))));
    }
}

#[test]
fn an_engine_found_by_capability_moves_data() {
    for params in [presets::mdb_b054(), presets::cpm6_b00f(), presets::edda(sim_format(Format::HdmaCompat))] {
        let mut rig = Rig::new(params, Location::Remote, Irqs::One, 1);
        let found = RemoteEngine::find(&rig.function.config()).unwrap();
        assert_eq!(found.config(), *rig.shared.config());
        for id in [ChannelId::write(1), ChannelId::read(0)] {
            let mut ch = open(&mut rig, id);
            run(&rig, &mut ch, Plan::segments(60, 99));
        }
        assert_clean(&rig);
    }
}

#[test]
fn local_engines_are_told_apart_behind_dbi() {
    for (version, format) in [
        (presets::CORE_470A, Format::Legacy),
        (presets::CORE_490A, Format::Unroll),
        (presets::CORE_540A, Format::Unroll),
    ] {
        let mut params = presets::local(sim_format(format), 3, 4);
        if let Placement::Local { core_version, .. } = &mut params.placement {
            *core_version = Some(version);
        }
        let function = function(params);
        let dbi = function.mmio(0).unwrap();
        let found = detect_local(&dbi, CoreVersion(version)).unwrap();
        let offset = if format == Format::Legacy { 0x970 } else { 0x8_0000 };
        assert_eq!((found.format, found.register_offset), (format, offset), "{version:#x}");
        assert_eq!((found.write_channels, found.read_channels), (3, 4));
        assert_eq!(found.config(), Config::new(format, Location::Local).channels(3, 4));
        let io = Window::new(dbi.clone()).sub(found.register_offset, 0x1200).unwrap();
        let lock = tombolo_hal::lock::SpinLock::new();
        assert!(dw_edma::Shared::new(io, lock, found.config()).is_ok());
        function.surprise_remove(Removal::Now);
        assert!(matches!(detect_local(&dbi, CoreVersion(version)), Err(Error::NoEngine(_))));
    }
}

#[test]
fn compatible_engines_are_switched_on_and_off_channel_by_channel() {
    for location in BOTH {
        let mut rig = rig(Format::HdmaCompat, location, Irqs::One);
        let power = |rig: &Rig| [0x128, 0x12c, 0x168, 0x16c].map(|at| register(rig, at));
        assert_eq!(power(&rig), [0, 0, 0, 0], "{location:?}");
        rig.fabric.set_trace(10_000);
        let mut a = open(&mut rig, ChannelId::write(1));
        let b = open(&mut rig, ChannelId::read(0));
        assert_eq!(power(&rig), [0, 1, 1, 0]);
        run(&rig, &mut a, Plan::segments(3, 50));
        let a = a.into_channel().map_err(|_| "idle").unwrap();
        a.close().map_err(|(_, e)| e).unwrap();
        assert_eq!(power(&rig), [0, 0, 1, 0]);
        let b = b.into_channel().map_err(|_| "idle").unwrap();
        b.close().map_err(|(_, e)| e).unwrap();
        assert_eq!(power(&rig), [0, 0, 0, 0]);
        rig.control.suspend().unwrap();
        rig.control.resume(&rig.irq).unwrap();
        // It has no engine enable.
        let io = register_trace(&rig, &rig.fabric.take_trace());
        assert!(!io.iter().any(|io| matches!(io, Io::Read(0xc | 0x2c) | Io::Write(0xc | 0x2c, _))));
    }
}

#[test]
fn suspend_is_refused_while_the_engine_has_work() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[0];
        let mut ch = open(&mut rig, id);
        let job = start(&rig, &mut ch, Plan::segments(4, 4096));
        assert_eq!(rig.control.suspend(), Err(Error::Busy(id)), "{format} {location:?}");
        finish(&rig, &mut ch, &job);
        rig.control.suspend().unwrap();
        rig.control.resume(&rig.irq).unwrap();
        run(&rig, &mut ch, Plan::bytes(100));
    }
}

#[test]
fn what_is_queued_survives_suspend_and_loss_of_power() {
    for (format, location) in everywhere() {
        for irqs in [Irqs::One, Irqs::PerChannel, Irqs::Polling] {
            let mut rig = rig(format, location, irqs);
            let id = one_of_each()[1];
            let mut ch = open_slots(&mut rig, id, 9);
            run(&rig, &mut ch, Plan::segments(20, 30));
            ch.pause().unwrap();
            let issued = start(&rig, &mut ch, Plan::segments(20, 30));
            let submitted = submit(&rig, &mut ch, Plan::segments(2, 30).at(4096));
            rig.control.suspend().unwrap();
            // Power goes, and with it all that the device knew.
            rig.function.reset_and_restore();
            rig.control.resume(&rig.irq).unwrap();
            ch.resume().unwrap();
            finish(&rig, &mut ch, &issued);
            rig.fabric.advance(50_000);
            assert!(ch.pop_finished().is_none(), "it was not issued");
            ch.issue_pending();
            finish(&rig, &mut ch, &submitted);
            run(&rig, &mut ch, Plan::segments(50, 30));
            assert_eq!(ch.channel().stats().failed, 0, "{format} {location:?} {irqs:?}");
            assert_clean(&rig);
        }
    }
}

#[test]
fn a_paused_cyclic_transfer_goes_on_after_suspend_where_it_was() {
    use tombolo_hal::dmaengine::{Event, OwnedTransfers, PrepFlags};
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[1];
        let mut ch: OwnedTransfers<_, _, Vec<u8>, 4, 4> = OwnedTransfers::new(rig.open(id));
        let direction = rig.direction(id);
        let buffer = rig.prepare(vec![1; 640], direction);
        ch.configure(&rig.config(id, 0)).unwrap();
        ch.submit_cyclic(buffer, 128, direction, PrepFlags::INTERRUPT).unwrap();
        ch.issue_pending();
        let mut seen = 0;
        let mut periods = |ch: &mut OwnedTransfers<Chan, _, Vec<u8>, 4, 4>, rig: &Rig| {
            for _ in 0..40 {
                rig.fabric.advance(5_000);
                // Each look costs time in which another period ends, so not until there is none.
                if let Some(done) = ch.pop_finished() {
                    assert_eq!(
                        done.completion.event,
                        Event::Period { index: seen % 5 },
                        "{format} {location:?}"
                    );
                    seen += 1;
                }
            }
            seen
        };
        let before = periods(&mut ch, &rig);
        ch.pause().unwrap();
        let paused = periods(&mut ch, &rig);
        rig.control.suspend().unwrap();
        rig.function.reset_and_restore();
        rig.control.resume(&rig.irq).unwrap();
        ch.resume().unwrap();
        let after = periods(&mut ch, &rig);
        assert!(before > 0 && after > paused + 5, "{format} {location:?}: {before} {paused} {after}");
    }
}

#[test]
fn a_transfer_that_a_reset_and_a_terminate_end_is_told_of_once_with_its_buffers() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        for id in one_of_each() {
            let mut ch = open_slots(&mut rig, id, 30);
            start(&rig, &mut ch, Plan::segments(16, 4096));
            rig.fabric.advance(2_000);
            rig.function.reset_and_restore();
            rig.control.after_reset(&rig.irq).unwrap();
            ch.terminate_all().unwrap();
            let mut told = 0;
            while let Some(buffers) = ch.pop_terminated() {
                assert!(!buffers.is_empty());
                told += 1;
            }
            while let Some(done) = ch.pop_finished() {
                assert!(!done.buffers.is_empty(), "{format} {location:?}");
                told += 1;
            }
            assert_eq!(told, 1, "{format} {location:?}");
            run(&rig, &mut ch, Plan::segments(4, 64));
        }
    }
}

#[test]
fn after_a_reset_what_the_engine_had_is_aborted_and_what_it_had_not_goes_on() {
    for (format, location) in everywhere() {
        for irqs in [Irqs::One, Irqs::Polling] {
            let mut rig = rig(format, location, irqs);
            for id in one_of_each() {
                let mut ch = open_slots(&mut rig, id, 9);
                let what = format!("{format} {location:?} {irqs:?} {id}");
                let running = start(&rig, &mut ch, Plan::segments(40, 4096));
                let waiting = start(&rig, &mut ch, Plan::segments(3, 64).at(512 << 10));
                let submitted = submit(&rig, &mut ch, Plan::bytes(64).at(600 << 10));
                rig.fabric.advance(9_000);
                rig.function.reset_and_restore();
                rig.control.after_reset(&rig.irq).unwrap();
                let aborted = next(&rig, &mut ch).expect(&what).completion;
                assert_eq!((aborted.cookie, aborted.result), (running.cookie, TxResult::Aborted), "{what}");
                assert!(aborted.residue > 0 && aborted.residue <= 40 * 4096, "{what}");
                finish(&rig, &mut ch, &waiting);
                ch.issue_pending();
                finish(&rig, &mut ch, &submitted);
                // And a reset of a channel that is stopping.
                start(&rig, &mut ch, Plan::segments(40, 4096));
                rig.fabric.advance(5_000);
                ch.terminate_all().unwrap();
                rig.function.reset_and_restore();
                rig.control.after_reset(&rig.irq).unwrap();
                run(&rig, &mut ch, Plan::segments(20, 64));
                assert!(ch.pop_terminated().is_some());
                // And of an idle one.
                rig.function.reset_and_restore();
                rig.control.after_reset(&rig.irq).unwrap();
                run(&rig, &mut ch, Plan::segments(20, 64));
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn a_device_that_is_not_back_stays_gone() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        start(&rig, &mut ch, Plan::bytes(64));
        rig.function.surprise_remove(Removal::Now);
        assert_eq!(rig.control.after_reset(&rig.irq), Err(Error::DeviceGone), "{format} {location:?}");
        assert!(rig.shared.is_gone());
        let done = ch.wait_next(&mut rig.delay.clone(), 1_000).unwrap();
        assert_eq!(done.completion.result, TxResult::Aborted);
        let list = rig.list(ChannelId::read(1), 0x400);
        let pool = tombolo_hal::dmaengine::HeapPool::new(1, 1);
        assert_eq!(rig.control.open_channel(ChannelId::read(1), list, pool).err(), Some(Error::DeviceGone));
    }
}
