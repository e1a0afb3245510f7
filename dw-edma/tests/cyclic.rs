//! Endless transfers: one completion a period, in order, for as long as somebody takes them.

mod common;
mod helpers;

use common::*;
use dw_edma::{ChannelId, Format, Location};
use helpers::*;
use tombolo_hal::dmaengine::{Cookie, Direction, Event, PrepFlags, TxResult, TxStatus};
use tombolo_sim::dw_edma::Cause;

/// Starts a cyclic transfer of `periods` periods.
fn cycle(rig: &Rig, ch: &mut Tx, periods: usize, period: usize) -> (Cookie, Vec<u8>) {
    let id = ch.channel().id();
    let direction = rig.direction(id);
    let data = pattern(periods as u64, periods * period);
    let buffer = match direction {
        Direction::MemToDev => data.clone(),
        Direction::DevToMem => {
            rig.device_write(id, 0, &data);
            vec![0; data.len()]
        }
    };
    ch.configure(&rig.config(id, 0)).unwrap();
    let buffer = rig.prepare(buffer, direction);
    let cookie = ch.submit_cyclic(buffer, period as u64, direction, PrepFlags::INTERRUPT).unwrap();
    ch.issue_pending();
    (cookie, data)
}

#[track_caller]
fn period(done: Option<Done>, cookie: Cookie, index: u32) {
    let completion = done.expect("a period").completion;
    assert_eq!(completion.event, Event::Period { index });
    assert_eq!((completion.cookie, completion.result), (cookie, TxResult::NoError));
}

#[test]
fn periods_are_reported_in_order_lap_after_lap_until_it_is_terminated() {
    for (format, location) in everywhere() {
        for (periods, slots) in [(8, 20), (8, 9), (8, 5), (3, 2), (2, 40), (1, 8)] {
            let mut rig = rig(format, location, Irqs::One);
            let what = format!("{format} {location:?}, {periods} periods, {slots} slots");
            let id = one_of_each()[periods & 1];
            let mut ch = open_slots(&mut rig, id, slots);
            let (cookie, data) = cycle(&rig, &mut ch, periods, 512);
            for n in 0..4 * periods + 1 {
                period(next(&rig, &mut ch), cookie, (n % periods) as u32);
            }
            assert_eq!(ch.status(cookie).status, TxStatus::InProgress);
            let stats = *ch.channel().stats();
            assert_eq!(stats.periods as usize, 4 * periods + 1, "{what}");
            assert_eq!((stats.found_by_looking, stats.violations), (0, 0), "{what}");
            ch.terminate_all().unwrap();
            ch.synchronize(&mut rig.delay.clone(), 1_000).unwrap();
            assert!(ch.pop_finished().is_none(), "{what}: a killed one is not reported");
            let back = ch.pop_terminated().unwrap().into_iter().next().unwrap().into_inner();
            match rig.direction(id) {
                Direction::MemToDev => assert!(rig.device_read(id, 0, data.len()) == data, "{what}"),
                Direction::DevToMem => assert!(back == data, "{what}"),
            }
            run(&rig, &mut ch, Plan::bytes(100));
            assert_clean(&rig);
        }
    }
}

#[test]
fn a_period_is_not_moved_again_before_it_was_reported() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[1];
        let mut ch = open_slots(&mut rig, id, 30);
        let (cookie, _) = cycle(&rig, &mut ch, 5, 256);
        let moved = |rig: &Rig| rig.handle.channel(sim_dir(id.kind), id.index.into()).elements;
        rig.fabric.advance(500_000);
        assert_eq!(moved(&rig), 5, "{format} {location:?}: nobody took a period yet");
        let mut taken = 0;
        for n in 0..12u32 {
            period(next(&rig, &mut ch), cookie, n % 5);
            taken += 1;
            rig.fabric.advance(100_000);
            assert!(moved(&rig) <= 5 + taken, "{format} {location:?}: a period was overrun");
            assert!(moved(&rig) + 1 >= 5 + taken - 1, "{format} {location:?}: it does not go on");
        }
    }
}

#[test]
fn a_cyclic_transfer_waits_for_those_before_it_and_takes_those_behind_it_along() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open_slots(&mut rig, one_of_each()[0], 10);
        let first = start(&rig, &mut ch, Plan::segments(15, 64).at(65536));
        let (cookie, _) = cycle(&rig, &mut ch, 4, 128);
        let behind = start(&rig, &mut ch, Plan::bytes(64).at(131_072));
        finish(&rig, &mut ch, &first);
        for n in 0..6 {
            period(next(&rig, &mut ch), cookie, n % 4);
        }
        assert_eq!(ch.status(behind.cookie).status, TxStatus::InProgress);
        ch.terminate_all().unwrap();
        run(&rig, &mut ch, Plan::bytes(77));
        assert_eq!(std::iter::from_fn(|| ch.pop_terminated()).count(), 2, "{format} {location:?}");
    }
}

#[test]
fn paused_and_resumed_it_goes_on_where_it_was() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open_slots(&mut rig, one_of_each()[1], 10);
        let (cookie, _) = cycle(&rig, &mut ch, 4, 128);
        let mut n = 0;
        for round in 0..5 {
            for _ in 0..3 {
                period(next(&rig, &mut ch), cookie, n % 4);
                n += 1;
            }
            ch.pause().unwrap();
            rig.fabric.advance(200_000 + round);
            // What the engine had, at most one lap, is still reported.
            for _ in 0..4 {
                if let Some(done) = ch.pop_finished() {
                    period(Some(done), cookie, n % 4);
                    n += 1;
                }
            }
            assert!(ch.pop_finished().is_none(), "{format} {location:?}: it went on while paused");
            ch.resume().unwrap();
        }
    }
}

#[test]
fn an_error_ends_it_and_the_buffer_comes_back() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = ChannelId::read(0);
        let mut ch = open(&mut rig, id);
        // Again and again: a doorbell on a halted channel makes it try once more.
        let mut periods = 0;
        let (cookie, _) = cycle(&rig, &mut ch, 4, 128);
        let end = loop {
            assert!(periods < 200, "{format} {location:?}: the error was not told");
            if periods > 8 {
                rig.handle.abort_after(sim_dir(id.kind), 0, 5, Cause::CompleterAbort);
            }
            let done = next(&rig, &mut ch).expect("more");
            match done.completion.event {
                Event::Period { index } => assert_eq!(index, periods % 4),
                Event::Finished => break done,
            }
            periods += 1;
        };
        assert!((8..24).contains(&periods), "{format} {location:?}: {periods}");
        assert_eq!((end.completion.cookie, end.completion.result), (cookie, TxResult::ReadFailed));
        assert_eq!(end.buffers.len(), 1);
        rig.handle.clear_faults();
        run(&rig, &mut ch, Plan::bytes(64));
    }
}

#[test]
fn without_interrupts_periods_are_found_by_looking() {
    for location in BOTH {
        for format in Format::ALL {
            let mut rig = rig(format, location, Irqs::Polling);
            let mut ch = open(&mut rig, ChannelId::write(0));
            let (cookie, _) = cycle(&rig, &mut ch, 6, 100);
            (0..20).for_each(|n| period(next(&rig, &mut ch), cookie, n % 6));
        }
    }
    let mut rig = rig(Format::Unroll, Location::Remote, Irqs::One);
    let mut ch = open(&mut rig, ChannelId::write(0));
    rig.function.lose_interrupts(1.0);
    let (cookie, _) = cycle(&rig, &mut ch, 6, 100);
    for n in 0..20 {
        period(ch.wait_next(&mut rig.delay.clone(), 1_000).ok(), cookie, n % 6);
    }
}
