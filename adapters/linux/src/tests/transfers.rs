//! Transfers through the functions that C calls, with an engine that is memory.

use std::vec::Vec;

use super::harness::{Shim, lend, sg};
use crate::abi;
use crate::entry::*;

#[test]
fn a_transfer_goes_from_prep_to_completion() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 100), sg(0x8_0000_2000, 7)], None).unwrap();
    let cookie = shim.submit(prepared);
    assert_eq!(shim.poll(), []);
    assert_eq!(shim.issue(), 0);
    assert_eq!(
        shim.device.run(2),
        [(0x9000_0000, 0x1000, 100), (0x9000_0064, 0x8_0000_2000, 7)],
        "the device side advances"
    );
    let mut status = abi::Status::default();
    // SAFETY: open.
    unsafe { tombolo_edma_chan_status(shim.chan, cookie, &mut status) };
    assert_eq!(status, abi::Status { residue: 107, paused: 0 });
    assert_eq!(shim.irq(), abi::Report { write_channels: 1, read_channels: 0 });
    let done = abi::Completion { cookie, ..abi::Completion::default() };
    assert_eq!(shim.poll(), [done]);
    assert_eq!(shim.poll(), []);
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_configuration_with_a_transfer_is_the_sticky_one_afterwards_but_not_if_it_failed() {
    let mut shim = Shim::new();
    let other = abi::Slave { src_addr: 0xa000_0000, ..abi::Slave::default() };
    let bad = abi::Slave { flags: abi::SLAVE_HAS_MODE, ..other };
    assert_eq!(shim.prep(&[sg(0x1000, 4)], Some(&bad)), Err(-22));
    assert_eq!(shim.prep(&[], Some(&other)), Err(-22));
    let first = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    let second = shim.prep(&[sg(0x2000, 4)], Some(&other)).unwrap();
    shim.submit(first);
    shim.submit(second);
    shim.issue();
    assert_eq!(shim.device.run(2), [(0x9000_0000, 0x1000, 4), (0xa000_0000, 0x2000, 4)]);
    shim.irq();
    assert_eq!(shim.poll().len(), 2);
    let third = shim.prep(&[sg(0x3000, 4)], None).unwrap();
    shim.submit(third);
    shim.issue();
    assert_eq!(shim.device.run(1), [(0xa000_0000, 0x3000, 4)]);
    shim.irq();
    assert_eq!((shim.poll().len(), shim.close()), (1, 0));
}

#[test]
fn a_pool_that_is_full_moves_into_a_larger_one_and_nothing_is_lost() {
    let mut shim = Shim::new();
    let prepared: Vec<u64> = (0..2).map(|i| shim.prep(&[sg(0x1000 * i, 4); 2], None).unwrap()).collect();
    assert_eq!(shim.prep(&[sg(0x9000, 4); 3], None), Err(-28));
    let mut room = abi::Room::default();
    // SAFETY: open; the new memory has the size that is asked for.
    let old = unsafe {
        assert_eq!(tombolo_edma_chan_more(shim.chan, 3, &mut room), 0);
        let small = abi::Room { descriptors: 1, segments: 9 };
        let memory = lend(small);
        assert_eq!(tombolo_edma_chan_grow(shim.chan, memory.0.cast(), &small), -22, "not larger");
        std::alloc::dealloc(memory.0, memory.1);
        let pool = lend(room);
        assert_eq!(tombolo_edma_chan_grow(shim.chan, pool.0.cast(), &room), 0);
        core::mem::replace(&mut shim.pool, pool)
    };
    // SAFETY: allocated with this layout, and no longer in use.
    unsafe { std::alloc::dealloc(old.0, old.1) };
    let third = shim.prep(&[sg(0x9000, 4); 3], None).unwrap();
    for descriptor in prepared.into_iter().chain([third]) {
        shim.submit(descriptor);
    }
    shim.issue();
    let destinations: Vec<u64> = shim.device.run(7).iter().map(|moved| moved.1).collect();
    assert_eq!(destinations, [0, 0, 0x1000, 0x1000, 0x9000, 0x9000, 0x9000]);
    shim.irq();
    assert_eq!((shim.poll().len(), shim.close()), (3, 0));
}

#[test]
fn a_new_message_reaches_the_engine_by_way_of_the_sink_and_channels_look_once() {
    let mut shim = Shim::new();
    let message = |shim: &Shim| {
        let [write, read, data] = [0x60, 0xcc, 0x70].map(|at| shim.device.register(at));
        assert_eq!((write, data & 0xffff), (read, data >> 16), "all channels have the same");
        (write, data & 0xffff)
    };
    assert_eq!(message(&shim), (0xfee0_0000, 0x4021));
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    shim.submit(prepared);
    shim.issue();
    shim.device.message(0xfee0_1000, 0x4022);
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_hold(shim.handles.control), 1);
        let (sink, data) = message(&shim);
        assert!(sink >> 20 != 0xfee && data == 0x4021, "no mixture of old and new: {sink:#x} {data:#x}");
        // The message of this one goes to the sink.
        shim.device.run(1);
        shim.device.quiet();
        shim.device.message(0xfee0_2000, 0x4022);
        assert_eq!(tombolo_edma_hold(shim.handles.control), 1, "again, before the first was followed");
        assert_eq!(message(&shim).0, sink);
        assert_eq!(tombolo_edma_refresh(shim.handles.control), 1);
        assert_eq!(message(&shim), (0xfee0_2000, 0x4022));
        assert_eq!(tombolo_edma_refresh(shim.handles.control), 0);
        assert_eq!(tombolo_edma_hold(shim.handles.control), 0);
    }
    assert_eq!(shim.poll().len(), 1, "what was told to the sink is found");
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_message_too_far_from_the_sink_is_given_at_once() {
    let shim = Shim::new();
    shim.device.message(0x8_fee0_1000, 0x4022);
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_hold(shim.handles.control), 1);
        assert_eq!((shim.device.register(0x60), shim.device.register(0x64)), (0xfee0_1000, 8));
        assert_eq!(tombolo_edma_refresh(shim.handles.control), 0);
    }
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_device_that_is_gone_ends_every_transfer_once_with_an_error() {
    let mut shim = Shim::new();
    let first = shim.prep(&[sg(0x1000, 100)], None).unwrap();
    let second = shim.prep(&[sg(0x2000, 50)], None).unwrap();
    let cookies = [shim.submit(first), shim.submit(second)];
    shim.issue();
    shim.device.remove();
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_is_gone(shim.handles.shared), 0);
        assert_eq!(tombolo_edma_chan_has_transfers(shim.chan), 1);
        assert_eq!(tombolo_edma_chan_look(shim.chan), -19);
        assert_eq!(tombolo_edma_is_gone(shim.handles.shared), 1);
    }
    let ended: Vec<_> = shim.poll().iter().map(|c| (c.cookie, c.result, c.residue)).collect();
    assert_eq!(ended, [(cookies[0], abi::TRANS_ABORTED, 100), (cookies[1], abi::TRANS_ABORTED, 50)]);
    assert_eq!(shim.poll(), []);
    assert_eq!(shim.prep(&[sg(0x1000, 4)], None), Err(-19));
    // SAFETY: open.
    assert_eq!(unsafe { tombolo_edma_chan_is_quiescent(shim.chan) }, 1);
    assert_eq!(shim.close(), 0);
}

#[test]
fn what_was_terminated_is_not_reported_and_the_next_transfer_is() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    shim.submit(prepared);
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_chan_pause(shim.chan), 0);
        assert_eq!(shim.issue(), 0);
        assert_eq!(tombolo_edma_chan_is_paused(shim.chan), 1);
        assert_eq!(tombolo_edma_chan_terminate(shim.chan), 0);
        assert_eq!(tombolo_edma_chan_is_terminated(shim.chan), 1);
    }
    assert_eq!(shim.poll(), []);
    let again = shim.prep(&[sg(0x2000, 4)], None).unwrap();
    let cookie = shim.submit(again);
    shim.issue();
    assert_eq!(shim.device.run(1), [(0x9000_0000, 0x2000, 4)]);
    shim.irq();
    assert_eq!(shim.poll().iter().map(|c| c.cookie).collect::<Vec<_>>(), [cookie]);
    let mut stats = abi::Stats::default();
    // SAFETY: open.
    unsafe { tombolo_edma_chan_stats(shim.chan, &mut stats) };
    assert_eq!((stats.submitted, stats.completed, stats.failed, stats.bytes), (2, 1, 0, 4));
    assert_eq!(shim.close(), 0);
}

#[test]
fn periods_are_reported_one_at_a_time() {
    let mut shim = Shim::new();
    let mut prepared = 0;
    let ring = sg(0x1000, 400);
    // SAFETY: open; the engine moves nothing.
    unsafe {
        let prep = |period, prepared: &mut u64| {
            tombolo_edma_chan_prep_cyclic(shim.chan, &ring, period, abi::DEV_TO_MEM, 1, prepared)
        };
        assert_eq!(prep(90, &mut prepared), -22);
        assert_eq!(prep(200, &mut prepared), 0);
    }
    shim.submit(prepared);
    shim.issue();
    shim.device.run(2);
    shim.irq();
    let periods: Vec<_> = (0..2).flat_map(|_| shim.poll()).map(|c| (c.kind, c.period)).collect();
    assert_eq!(periods, [(abi::KIND_PERIOD, 0), (abi::KIND_PERIOD, 1)]);
    // SAFETY: open.
    assert_eq!(unsafe { tombolo_edma_chan_terminate(shim.chan) }, 0);
    assert_eq!(shim.close(), 0);
}
