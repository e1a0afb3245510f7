//! Faults of the fabric at every moment: never a panic, never a hang, never a lost buffer.

mod common;
mod helpers;

use arrayvec::ArrayVec;
use common::*;
use dw_edma::{ChannelId, Format, Location};
use helpers::*;
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{Direction, HeapPool, OwnedTransfers, PrepFlags, TxResult};
use tombolo_sim::fabric::Removal;

/// Submits a transfer if the channel takes it. Returns how many buffers went in.
fn try_submit(rig: &Rig, ch: &mut Tx, segments: usize) -> usize {
    let id = ch.channel().id();
    let direction = rig.direction(id);
    let to = match direction {
        Direction::MemToDev => DataDirection::ToDevice,
        Direction::DevToMem => DataDirection::FromDevice,
    };
    let limits = DmaConstraints { max_segment: 64, ..DmaConstraints::any() };
    let buffer = Streaming::prepare(rig.dma.clone(), vec![7; segments * 64], to, &limits).unwrap();
    let config = rig.config(id, 0);
    let buffers = ArrayVec::from_iter([buffer]);
    match ch.submit(buffers, direction, PrepFlags::INTERRUPT, Some(&config)) {
        Ok(_) => 1,
        Err(refused) => {
            assert_eq!(refused.buffers.len(), 1);
            0
        }
    }
}

/// All that a channel can do, with whatever device there is. Every wait has an end. Returns how many
/// buffers went in, came out, and were left to quarantine.
fn life(rig: &mut Rig, ids: &[ChannelId]) -> (usize, usize, usize) {
    let mut channels: Vec<Tx> = Vec::new();
    for id in ids {
        let list = rig.list(*id, 7 * dw_edma::ELEMENT_SIZE);
        if let Ok(channel) = rig.control.open_channel(*id, list, HeapPool::new(8, 64)) {
            channels.push(OwnedTransfers::new(channel));
        }
    }
    let mut delay = rig.delay.clone();
    let (mut given, mut back) = (0, 0);
    for ch in &mut channels {
        given += try_submit(rig, ch, 12) + try_submit(rig, ch, 1);
        ch.issue_pending();
    }
    for ch in &mut channels {
        back += ch.wait_next(&mut delay, 300).map_or(0, |done| done.buffers.len());
        let _ = ch.pause();
        given += try_submit(rig, ch, 3);
        ch.issue_pending();
        let _ = ch.resume();
        back += ch.wait_next(&mut delay, 300).map_or(0, |done| done.buffers.len());
        let _ = ch.poll_hardware();
        given += try_submit(rig, ch, 20);
        ch.issue_pending();
        rig.fabric.advance(2_000);
        let _ = ch.terminate_all();
        given += try_submit(rig, ch, 2);
        ch.issue_pending();
        while let Ok(done) = ch.wait_next(&mut delay, 300) {
            back += done.buffers.len();
        }
        let _ = ch.terminate_all();
        let _ = ch.synchronize(&mut delay, 300);
        back += std::iter::from_fn(|| ch.pop_terminated()).count();
    }
    let mut left = 0;
    for ch in channels {
        left += ch.in_flight();
        if let Ok(channel) = ch.into_channel() {
            let _ = channel.close();
        }
    }
    (given, back, left)
}

#[test]
fn a_device_removed_at_any_access_of_a_channels_life_leaves_all_buffers_with_their_owner() {
    for (format, location, every) in [
        (Format::Legacy, Location::Remote, 1),
        (Format::Unroll, Location::Local, 3),
        (Format::HdmaCompat, Location::Remote, 7),
        (Format::HdmaNative, Location::Local, 1),
        (Format::HdmaNative, Location::Remote, 7),
    ] {
        let ids = [ChannelId::write(1), ChannelId::read(0)];
        let mut whole = rig(format, location, Irqs::One);
        let accesses = |rig: &Rig| {
            let c = rig.function.counters();
            c.mmio_reads() + c.mmio_writes()
        };
        let before = accesses(&whole);
        assert_eq!(life(&mut whole, &ids), (10, 10, 0), "{format} {location:?}");
        let total = accesses(&whole) - before;
        assert!(total > 60);
        for n in (1..=total).step_by(every) {
            let mut rig = rig(format, location, Irqs::One);
            rig.function.surprise_remove(Removal::AfterMmio(n));
            let (given, back, left) = life(&mut rig, &ids);
            assert_eq!((given - back, left), (0, 0), "{format} {location:?}, removed at access {n}");
        }
    }
}

#[test]
fn a_device_removed_at_any_request_of_its_own_leaves_all_buffers_with_their_owner() {
    for (format, location) in everywhere() {
        for n in (1..60).step_by(4) {
            let mut rig = rig(format, location, Irqs::One);
            rig.function.surprise_remove(Removal::AfterDma(n));
            let (given, back, left) = life(&mut rig, &[ChannelId::write(0), ChannelId::read(1)]);
            assert_eq!((given - back, left), (0, 0), "{format} {location:?}, removed at request {n}");
        }
    }
}

#[test]
fn a_device_that_answers_garbage_causes_no_panic_no_hang_and_loses_no_buffer() {
    for (format, location) in everywhere() {
        for seed in 1..12 {
            let mut rig = Rig::new(params(format, location, 2, 2), location, Irqs::One, seed);
            rig.function.corrupt_reads(0.02 * seed as f64);
            let (given, back, left) = life(&mut rig, &[ChannelId::write(0), ChannelId::read(1)]);
            assert_eq!(given, back + left, "{format} {location:?} {seed}");
        }
    }
}

#[test]
fn a_lost_interrupt_is_found_by_looking_and_counted() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        rig.function.lose_next_interrupts(1);
        let job = start(&rig, &mut ch, Plan::bytes(500));
        rig.fabric.advance(50_000);
        assert!(ch.pop_finished().is_none(), "{format} {location:?}: nobody told");
        ch.poll_hardware().unwrap();
        let done = ch.pop_finished().unwrap();
        assert_done(&rig, &job, done);
        assert_eq!(ch.channel().stats().found_by_looking, 1);
        // The next one tells again.
        run(&rig, &mut ch, Plan::bytes(500));
        assert_eq!(ch.channel().stats().found_by_looking, 1);
        // And with none at all, waiting is enough.
        rig.function.lose_interrupts(1.0);
        for i in 2..5 {
            let job = start(&rig, &mut ch, Plan::segments(60, 64));
            let done = ch.wait_next(&mut rig.delay.clone(), 100_000).unwrap();
            assert_done(&rig, &job, done);
            assert!(ch.channel().stats().found_by_looking >= i, "{format} {location:?}");
        }
    }
}

#[test]
fn rings_go_round_with_half_of_the_interrupts_lost() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open_slots(&mut rig, one_of_each()[1], 6);
        rig.function.lose_interrupts(0.5);
        for i in 0..4 {
            let job = start(&rig, &mut ch, Plan::segments(50, 40).at(i * 4096));
            let done = ch.wait_next(&mut rig.delay.clone(), 100_000).unwrap();
            assert_done(&rig, &job, done);
        }
        assert!(rig.function.counters().messages_lost > 0);
    }
}

#[test]
fn posted_writes_may_be_late() {
    for (format, location) in everywhere() {
        for late in [300, 2_000, 15_000] {
            let mut rig = rig(format, location, Irqs::One);
            let mut ch = open_slots(&mut rig, one_of_each()[0], 6);
            rig.function.delay_posted_writes(late);
            for i in 0..4 {
                let a = start(&rig, &mut ch, Plan::segments(11, 100).at(i * 8192));
                rig.fabric.advance(i * 700);
                let b = start(&rig, &mut ch, Plan::bytes(30).at(4096 + i * 8192));
                finish(&rig, &mut ch, &a);
                finish(&rig, &mut ch, &b);
                start(&rig, &mut ch, Plan::segments(11, 3000));
                ch.terminate_all().unwrap();
                ch.synchronize(&mut rig.delay.clone(), 10_000).unwrap();
                assert!(ch.pop_terminated().is_some());
            }
            assert_eq!(ch.channel().stats().violations, 0, "{format} {location:?} {late}");
            assert_clean(&rig);
        }
    }
}

#[test]
fn data_that_the_device_spoils_is_the_callers_to_check_and_harms_nothing_else() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[usize::from(location == Location::Local)];
        let mut ch = open(&mut rig, id);
        rig.function.corrupt_dma_writes(1.0);
        let job = start(&rig, &mut ch, Plan::bytes(400));
        let done = next(&rig, &mut ch).unwrap();
        assert_eq!(done.completion.result, TxResult::NoError);
        let got = done.buffers.into_iter().next().unwrap().into_inner();
        assert!(got != job.data && job.direction == Direction::DevToMem);
        rig.function.corrupt_dma_writes(0.0);
        run(&rig, &mut ch, Plan::bytes(400));
    }
}
