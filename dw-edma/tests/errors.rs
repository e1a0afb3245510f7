//! Errors of the engine: what a transfer is told, and that the others go on.

mod common;
mod helpers;

use common::*;
use dw_edma::{ChannelKind, Error, Format, Location, RemoteEngine, Shared};
use helpers::*;
use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Window;
use tombolo_sim::dw_edma::{Cause, DwEdma, Params};
use tombolo_sim::fabric::{Fabric, MachineConfig, Removal};

const WRITE: [Cause; 3] = [Cause::AppRead, Cause::ListFetch, Cause::LinkWrite];
const READ: [Cause; 6] = [
    Cause::AppWrite,
    Cause::ListFetch,
    Cause::UnsupportedRequest,
    Cause::CompleterAbort,
    Cause::CompletionTimeout,
    Cause::Poisoned,
];

fn expected(format: Format, cause: Cause) -> TxResult {
    match cause {
        Cause::AppWrite => TxResult::WriteFailed,
        Cause::LinkWrite if format == Format::HdmaNative => TxResult::WriteFailed,
        // v0 has no status bit for it.
        Cause::LinkWrite => TxResult::Aborted,
        _ => TxResult::ReadFailed,
    }
}

#[test]
fn each_cause_ends_one_transfer_with_its_result_and_residue_and_the_queued_ones_go_on() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        for id in one_of_each() {
            let mut ch = open_slots(&mut rig, id, 20);
            for cause in if id.kind == ChannelKind::Write { &WRITE[..] } else { &READ[..] } {
                let what = format!("{format} {location:?} {cause:?}");
                let before = start(&rig, &mut ch, Plan::segments(2, 300));
                finish(&rig, &mut ch, &before);
                rig.handle.abort_after(sim_dir(id.kind), id.index.into(), 600 + 2 * 4096 + 100, *cause);
                let ahead = submit(&rig, &mut ch, Plan::segments(2, 300));
                let bad = submit(&rig, &mut ch, Plan::segments(4, 4096).at(65536));
                let next_one = submit(&rig, &mut ch, Plan::segments(2, 500).at(8192));
                let last = submit(&rig, &mut ch, Plan::segments(4, 20).at(16384));
                ch.issue_pending();
                finish(&rig, &mut ch, &ahead);
                let failed = next(&rig, &mut ch).unwrap_or_else(|| panic!("{what}: not told"));
                assert_eq!(failed.completion.cookie, bad.cookie);
                assert_eq!(failed.completion.result, expected(format, *cause), "{what}");
                assert_eq!(failed.completion.residue, 2 * 4096, "{what}");
                assert_eq!(failed.buffers.len(), 1);
                finish(&rig, &mut ch, &next_one);
                finish(&rig, &mut ch, &last);
            }
            let stats = *ch.channel().stats();
            assert_eq!(stats.failed as usize, if id.kind == ChannelKind::Write { 3 } else { 6 });
            assert_eq!((stats.found_by_looking, stats.violations), (0, 0));
        }
        assert_clean(&rig);
    }
}

#[test]
fn an_error_while_the_ring_is_refilled_is_told_or_made_good_and_the_others_go_on() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        for id in one_of_each() {
            let mut ch = open_slots(&mut rig, id, 7);
            for after in (10..2_000).step_by(170) {
                let what = format!("{format} {location:?} {id} after {after}");
                rig.handle.abort_after(sim_dir(id.kind), id.index.into(), after, Cause::ListFetch);
                let jobs: Vec<Job> =
                    (0..3).map(|i| submit(&rig, &mut ch, Plan::segments(20, 33).at(i * 4096))).collect();
                ch.issue_pending();
                let mut failed = 0;
                for job in &jobs {
                    let done = next(&rig, &mut ch).unwrap_or_else(|| panic!("{what}: not told"));
                    assert_eq!(done.completion.cookie, job.cookie);
                    if done.completion.result == TxResult::NoError {
                        // A doorbell on a halted channel makes it try the element again.
                        assert_done(&rig, job, done);
                    } else {
                        assert_eq!(done.completion.result, TxResult::ReadFailed, "{what}");
                        failed += 1;
                    }
                }
                assert!(failed <= 1, "{what}");
            }
            assert!(ch.channel().stats().failed >= 6, "{format} {location:?}: {:?}", ch.channel().stats());
        }
    }
}

#[test]
fn an_unmapped_buffer_fails_its_own_transfer_only() {
    for (format, location) in everywhere() {
        let mut rig = rig_with(format, location, Irqs::One, |p| Params { posted_write_errors: true, ..p });
        for id in one_of_each() {
            let mut ch = open(&mut rig, id);
            let first = submit(&rig, &mut ch, Plan::bytes(1000));
            let bad = submit(&rig, &mut ch, Plan::bytes(1000).at(4096));
            let last = submit(&rig, &mut ch, Plan::bytes(1000).at(8192));
            unmap(&rig, &bad);
            ch.issue_pending();
            finish(&rig, &mut ch, &first);
            let failed = next(&rig, &mut ch).unwrap();
            let cause = match (location, id.kind) {
                (Location::Local, ChannelKind::Write) => Cause::AppRead,
                (Location::Local, ChannelKind::Read) => Cause::AppWrite,
                (Location::Remote, ChannelKind::Write) => Cause::LinkWrite,
                (Location::Remote, ChannelKind::Read) => Cause::UnsupportedRequest,
            };
            assert_eq!(failed.completion.cookie, bad.cookie);
            assert_eq!(failed.completion.result, expected(format, cause), "{format} {location:?} {id}");
            assert_eq!(failed.completion.residue, 1000);
            finish(&rig, &mut ch, &last);
        }
        assert_eq!(rig.function.counters().iommu_faults, 2);
    }
}

#[test]
fn posted_writes_that_nobody_takes_are_lost_in_silence_as_on_a_real_link() {
    for format in Format::ALL {
        let mut rig = rig(format, Location::Remote, Irqs::One);
        let id = one_of_each()[0];
        let mut ch = open(&mut rig, id);
        let job = submit(&rig, &mut ch, Plan::bytes(1000));
        unmap(&rig, &job);
        ch.issue_pending();
        assert_eq!(next(&rig, &mut ch).unwrap().completion.result, TxResult::NoError);
        assert!(rig.handle.channel(sim_dir(id.kind), 0).lost_writes > 0);
    }
}

#[test]
fn an_error_after_which_the_engine_must_be_disabled_does_not_end_the_channel() {
    for (format, location) in everywhere() {
        let mut rig =
            rig_with(format, location, Irqs::One, |p| Params { fatal_errors_need_reset: true, ..p });
        let id = one_of_each()[0];
        let mut ch = open(&mut rig, id);
        for _ in 0..3 {
            rig.handle.abort_after(sim_dir(id.kind), 0, 5_000, Cause::AppRead);
            let bad = start(&rig, &mut ch, Plan::segments(3, 4096));
            let good = start(&rig, &mut ch, Plan::segments(3, 64).at(65536));
            let failed = next(&rig, &mut ch).unwrap().completion;
            assert_eq!((failed.cookie, failed.result), (bad.cookie, TxResult::ReadFailed));
            finish(&rig, &mut ch, &good);
        }
        assert_eq!(ch.channel().stats().failed, 3, "{format} {location:?}");
    }
}

#[test]
fn an_error_after_which_the_engine_must_be_disabled_leaves_a_busy_neighbour_alone() {
    for (format, location) in everywhere() {
        let mut rig =
            rig_with(format, location, Irqs::One, |p| Params { fatal_errors_need_reset: true, ..p });
        let kind = ChannelKind::Read;
        let mut bad = open(&mut rig, dw_edma::ChannelId { kind, index: 0 });
        let mut neighbour = open(&mut rig, dw_edma::ChannelId { kind, index: 1 });
        rig.handle.abort_after(sim_dir(kind), 0, 100, Cause::ListFetch);
        let long = start(&rig, &mut neighbour, Plan::segments(40, 4096));
        let first = start(&rig, &mut bad, Plan::bytes(1000));
        let waiting = start(&rig, &mut bad, Plan::bytes(1000).at(8192));
        let failed = bad.wait_next(&mut rig.delay.clone(), 1_000).unwrap().completion;
        let what = format!("{format} {location:?} {:?}", bad.channel().stats());
        assert_eq!((failed.cookie, failed.result), (first.cookie, TxResult::ReadFailed), "{what}");
        finish(&rig, &mut neighbour, &long);
        let last = bad.wait_next(&mut rig.delay.clone(), 100_000).expect("it ends, well or not");
        assert_eq!(last.completion.cookie, waiting.cookie);
        run(&rig, &mut bad, Plan::bytes(10));
        assert_eq!(neighbour.channel().stats().failed, 0, "{format} {location:?}");
    }
}

#[test]
fn errors_are_found_without_interrupts_too() {
    for (format, location) in everywhere() {
        for irqs in [Irqs::Polling, Irqs::One] {
            let mut rig = rig(format, location, irqs);
            let id = one_of_each()[1];
            let mut ch = open(&mut rig, id);
            rig.function.lose_interrupts(1.0);
            rig.handle.abort_after(sim_dir(id.kind), id.index.into(), 100, Cause::Poisoned);
            start(&rig, &mut ch, Plan::bytes(1000));
            let second = start(&rig, &mut ch, Plan::bytes(500));
            let mut delay = rig.delay.clone();
            let failed = ch.wait_next(&mut delay, 10_000).unwrap();
            assert_eq!(failed.completion.result, TxResult::ReadFailed, "{format} {location:?} {irqs:?}");
            let done = ch.wait_next(&mut delay, 10_000).unwrap();
            assert_done(&rig, &second, done);
        }
    }
}

#[test]
fn a_device_that_reads_all_ones_is_refused_at_once() {
    for (format, location) in everywhere() {
        let fabric = Fabric::new(1);
        let machine = fabric.machine(MachineConfig::default()).unwrap();
        let params = params(format, location, 2, 2);
        let function = machine.attach(Box::new(DwEdma::new(params))).unwrap();
        function.enable();
        function.surprise_remove(Removal::Now);
        let io = Window::new(function.mmio(0).unwrap());
        let config = dw_edma::Config::new(format, location).channels(2, 2);
        let shared = Shared::new(io, SpinLock::new(), config);
        assert_eq!(shared.err(), Some(Error::DeviceGone), "{format} {location:?}");
        assert!(matches!(RemoteEngine::find(&function.config()), Err(Error::Pci(_))));
    }
}

#[test]
fn a_device_that_goes_away_ends_its_transfers_and_refuses_new_ones() {
    for (format, location) in everywhere() {
        for irqs in [Irqs::One, Irqs::Polling] {
            let mut rig = rig(format, location, irqs);
            let mut ch = open_slots(&mut rig, one_of_each()[0], 9);
            let mut other = open(&mut rig, one_of_each()[1]);
            start(&rig, &mut ch, Plan::segments(30, 4000));
            start(&rig, &mut ch, Plan::bytes(1));
            submit(&rig, &mut ch, Plan::bytes(1));
            start(&rig, &mut other, Plan::segments(30, 4000));
            rig.fabric.advance(5_000);
            rig.function.surprise_remove(Removal::Now);
            // A last, or another device's, interrupt.
            let report = rig.shared.on_irq();
            assert!(report.handled && rig.shared.is_gone(), "{format} {location:?}");
            for (ch, count) in [(&mut ch, 3), (&mut other, 1)] {
                for _ in 0..count {
                    let done = ch.pop_finished().expect("told at once");
                    assert_eq!(done.completion.result, TxResult::Aborted);
                    assert_eq!(done.buffers.len(), 1, "the buffer comes back");
                }
                assert!(ch.pop_finished().is_none());
                assert_eq!(ch.poll_hardware(), Err(Error::DeviceGone));
                assert_eq!(ch.resume(), Err(Error::DeviceGone));
                assert_eq!(ch.terminate_all(), Err(Error::DeviceGone));
                assert!(ch.is_quiescent());
            }
            let id = ch.channel().id();
            let mut channel = ch.into_channel().map_err(|_| "idle").unwrap();
            use tombolo_hal::dmaengine::DmaChannel;
            let refused = channel.prep_slave_single_config(
                raw(0x1000, 4),
                rig.direction(id),
                Default::default(),
                Some(&Default::default()),
            );
            assert_eq!(refused.err(), Some(Error::DeviceGone));
            channel.close().map_err(|(_, e)| e).unwrap();
        }
    }
}

#[test]
fn a_list_pointer_that_cannot_be_ends_the_transfers_after_the_engine_has_stopped() {
    for (format, location) in everywhere() {
        for wrong in [4, 24 * 9, 24 * 100, 1 << 31, u64::MAX] {
            let mut rig = rig(format, location, Irqs::One);
            let id = one_of_each()[0];
            let mut ch = open_slots(&mut rig, id, 30);
            let what = format!("{format} {location:?} {wrong:#x}");
            run(&rig, &mut ch, Plan::segments(2, 64));
            // Where the list begins: the engine stands at its third element.
            let low = match format {
                Format::HdmaNative => register(&rig, 0x10),
                Format::Legacy => {
                    set_register(&rig, 0xfc, 0);
                    register(&rig, 0x11c)
                }
                _ => register(&rig, 0x21c),
            };
            let base = u64::from(low) - 2 * 24;
            rig.handle.garbage_llp(sim_dir(id.kind), 0, base.wrapping_add(wrong));
            start(&rig, &mut ch, Plan::segments(3, 4096));
            start(&rig, &mut ch, Plan::segments(3, 4096));
            rig.fabric.advance(2_000);
            match ch.poll_hardware() {
                Err(Error::BadPosition { channel, .. }) => assert_eq!(channel, id),
                other => panic!("{what}: {other:?}"),
            }
            for _ in 0..2 {
                let done = ch.wait_next(&mut rig.delay.clone(), 10_000).expect(&what);
                assert_eq!(done.completion.result, TxResult::Aborted, "{what}");
                drop(done.buffers);
            }
            rig.fabric.advance(100_000);
            assert_eq!(rig.function.counters().iommu_faults, 0, "{what}: buffers came back too early");
            assert!(ch.channel().stats().violations > 0);
            rig.handle.clear_faults();
            run(&rig, &mut ch, Plan::segments(9, 64));
        }
    }
}

#[test]
fn a_done_without_work_does_no_harm() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[1];
        let mut ch = open(&mut rig, id);
        for _ in 0..3 {
            rig.handle.done_without_work(sim_dir(id.kind), id.index.into());
            let job = start(&rig, &mut ch, Plan::segments(5, 200));
            let done = ch.wait_next(&mut rig.delay.clone(), 10_000).unwrap();
            assert_done(&rig, &job, done);
        }
        assert_eq!(ch.channel().stats().failed, 0, "{format} {location:?}");
    }
}
