//! Transfers from registers, without a list: HDMA native only.

mod common;
mod helpers;

use common::*;
use dw_edma::{ChannelId, Error, Format, ListError, ListMemory, Location, Mode, Peripheral};
use helpers::*;
use tombolo_hal::dmaengine::{
    DmaChannel, HeapPool, OwnedTransfers, PrepFlags, SlaveConfig, TxResult, TxStatus, Unsupported,
};
use tombolo_sim::dw_edma::{Cause, presets};

fn native(location: Location, irqs: Irqs) -> Rig {
    rig(Format::HdmaNative, location, irqs)
}

fn fetched(rig: &Rig, id: ChannelId) -> u64 {
    rig.handle.channel(sim_dir(id.kind), id.index.into()).fetched
}

#[test]
fn each_segment_is_moved_from_registers_and_the_list_is_not_read() {
    for location in BOTH {
        for irqs in [Irqs::One, Irqs::PerChannel, Irqs::Polling] {
            let mut rig = native(location, irqs);
            for id in all_ids(&rig) {
                let mut ch = open(&mut rig, id);
                for plan in [Plan::bytes(1), Plan::segments(7, 300), Plan::segments(2, 9000)] {
                    run(&rig, &mut ch, plan.mode(Mode::NonList));
                }
                assert_eq!(fetched(&rig, id), 0, "{location:?} {irqs:?}");
                let stats = *ch.channel().stats();
                assert_eq!((stats.segments, stats.doorbells, stats.completed), (10, 10, 3));
                assert_eq!(stats.found_by_looking, 0);
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn the_mode_of_a_queued_transfer_is_not_changed_by_a_later_configuration() {
    for location in BOTH {
        let mut rig = native(location, Irqs::One);
        let id = ChannelId::write(1);
        let mut ch = open(&mut rig, id);
        let config = |mode| SlaveConfig { peripheral: Peripheral { mode: Some(mode) }, ..rig.config(id, 0) };
        for (first, second) in [(Mode::NonList, Mode::List), (Mode::List, Mode::NonList)] {
            let before = (fetched(&rig, id), ch.channel().stats().doorbells);
            ch.configure(&config(first)).unwrap();
            let direction = rig.direction(id);
            let buffer = rig.prepare(pattern(5, 600), direction);
            ch.submit_one(buffer, direction, PrepFlags::INTERRUPT, None).unwrap();
            ch.configure(&config(second)).unwrap();
            ch.issue_pending();
            assert_eq!(next(&rig, &mut ch).unwrap().completion.result, TxResult::NoError);
            let read = fetched(&rig, id) != before.0;
            assert_eq!(read, first == Mode::List, "{location:?}: {first:?} became {second:?}");
        }
    }
}

#[test]
fn both_modes_mix_in_one_queue_and_keep_their_order() {
    for location in BOTH {
        for irqs in [Irqs::One, Irqs::Polling] {
            let mut rig = native(location, irqs);
            for id in one_of_each() {
                let mut ch = open_slots(&mut rig, id, 4);
                let modes = [
                    Mode::List,
                    Mode::NonList,
                    Mode::NonList,
                    Mode::List,
                    Mode::List,
                    Mode::NonList,
                    Mode::List,
                ];
                for quiet in [false, true] {
                    let jobs: Vec<Job> = modes
                        .iter()
                        .enumerate()
                        .map(|(i, mode)| {
                            let plan = Plan::segments(1 + i, 200).at(i as u64 * 8192).mode(*mode);
                            submit(&rig, &mut ch, if quiet && i != 6 { plan.quiet() } else { plan })
                        })
                        .collect();
                    ch.issue_pending();
                    jobs.iter().for_each(|job| finish(&rig, &mut ch, job));
                }
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn the_mode_may_change_at_any_moment_of_the_transfer_before() {
    for location in BOTH {
        let mut rig = native(location, Irqs::One);
        let mut ch = open(&mut rig, ChannelId::read(0));
        for delay in (0..2_400).step_by(150) {
            for (a, b) in [(Mode::List, Mode::NonList), (Mode::NonList, Mode::List)] {
                let first = start(&rig, &mut ch, Plan::segments(2, 300).mode(a));
                rig.fabric.advance(delay);
                let second = start(&rig, &mut ch, Plan::segments(2, 300).at(4096).mode(b));
                finish(&rig, &mut ch, &first);
                finish(&rig, &mut ch, &second);
            }
        }
    }
}

#[test]
fn a_channel_without_list_memory_does_without() {
    for location in BOTH {
        let mut rig = native(location, Irqs::One);
        let id = ChannelId::read(1);
        let list = ListMemory::none();
        let mut ch = rig.control.open_channel(id, list, HeapPool::new(4, 16)).unwrap();
        let config = rig.config(id, 0);
        let direction = ch.direction();
        assert!(!ch.caps().cyclic);
        let listed = SlaveConfig { peripheral: Peripheral { mode: Some(Mode::List) }, ..config };
        assert_eq!(ch.configure(&listed), Err(Error::List(ListError::Missing)));
        ch.configure(&config).unwrap();
        let cyclic: Error = Unsupported("cyclic transfers without a linked list").into();
        assert_eq!(ch.prep_dma_cyclic(raw(0x1000, 64), 8, direction, PrepFlags::INTERRUPT), Err(cyclic));
        let mut ch: OwnedTransfers<_, _, Vec<u8>, 4, 4> = OwnedTransfers::new(ch);
        let data = pattern(9, 3000);
        rig.device_write(id, 0, &data);
        let start = if direction == tombolo_hal::dmaengine::Direction::MemToDev {
            data.clone()
        } else {
            vec![0; 3000]
        };
        ch.submit_one(rig.prepare(start, direction), direction, PrepFlags::INTERRUPT, None).unwrap();
        ch.issue_pending();
        let done = ch.wait_next(&mut rig.delay.clone(), 10_000).unwrap();
        assert_eq!(done.completion.result, TxResult::NoError);
        assert!(done.buffers.into_iter().next().unwrap().into_inner() == data);
        assert_eq!(rig.device_read(id, 0, 3000), data);
    }
}

#[test]
fn the_device_without_list_memory_of_10ee_is_driven_in_this_mode() {
    let params = presets::b054_without_list_memory();
    let mut rig = Rig::new(params, Location::Remote, Irqs::One, 1);
    for id in [ChannelId::write(7), ChannelId::read(3)] {
        let mut ch = open(&mut rig, id);
        run(&rig, &mut ch, Plan::segments(3, 5000).mode(Mode::NonList));
    }
    assert_clean(&rig);
}

#[test]
fn an_error_ends_its_transfer_and_the_next_ones_go_on() {
    for location in BOTH {
        for (id, cause, result) in [
            (ChannelId::write(0), Cause::AppRead, TxResult::ReadFailed),
            (ChannelId::read(0), Cause::AppWrite, TxResult::WriteFailed),
            (ChannelId::read(0), Cause::CompletionTimeout, TxResult::ReadFailed),
        ] {
            let mut rig = native(location, Irqs::One);
            let mut ch = open(&mut rig, id);
            rig.handle.abort_after(sim_dir(id.kind), 0, 450, cause);
            let bad = start(&rig, &mut ch, Plan::segments(4, 200).mode(Mode::NonList));
            let good = start(&rig, &mut ch, Plan::segments(4, 200).at(4096).mode(Mode::NonList));
            let listed = start(&rig, &mut ch, Plan::segments(4, 200).at(8192));
            let failed = next(&rig, &mut ch).unwrap().completion;
            assert_eq!((failed.cookie, failed.result), (bad.cookie, result), "{location:?}");
            assert_eq!(failed.residue, 400);
            finish(&rig, &mut ch, &good);
            finish(&rig, &mut ch, &listed);
        }
    }
}

#[test]
fn pause_acts_between_segments_and_terminate_stops_one() {
    for location in BOTH {
        let mut rig = native(location, Irqs::One);
        let id = ChannelId::write(1);
        let mut ch = open(&mut rig, id);
        let job = start(&rig, &mut ch, Plan::segments(6, 400).mode(Mode::NonList));
        ch.pause().unwrap();
        rig.fabric.advance(50_000);
        assert!(ch.pop_finished().is_none());
        let state = ch.status(job.cookie);
        assert_eq!((state.status, state.residue), (TxStatus::Paused, 5 * 400), "{location:?}");
        ch.resume().unwrap();
        finish(&rig, &mut ch, &job);
        for delay in (0..3_000).step_by(250) {
            start(&rig, &mut ch, Plan::segments(3, 8192).mode(Mode::NonList));
            rig.fabric.advance(delay);
            ch.terminate_all().unwrap();
            let mode = if delay % 500 == 0 { Mode::List } else { Mode::NonList };
            run(&rig, &mut ch, Plan::segments(2, 100).at(65536).mode(mode));
            assert!(ch.pop_terminated().is_some(), "{location:?} {delay}");
        }
        assert_eq!(rig.function.counters().iommu_faults, 0);
    }
}

#[test]
fn a_stop_before_the_end_of_the_segment_is_an_abort_with_what_is_left() {
    for location in BOTH {
        let mut rig = native(location, Irqs::One);
        let id = ChannelId::read(1);
        let mut ch = open(&mut rig, id);
        rig.handle.done_without_work(sim_dir(id.kind), 1);
        start(&rig, &mut ch, Plan::bytes(700).mode(Mode::NonList));
        let done = next(&rig, &mut ch).unwrap().completion;
        assert_eq!((done.result, done.residue), (TxResult::Aborted, 700), "{location:?}");
        run(&rig, &mut ch, Plan::bytes(700).mode(Mode::NonList));
    }
}
