//! Pause, terminate, synchronise and close, from every state and at every moment.

mod common;
mod helpers;

use common::*;
use dw_edma::{ChannelId, ChannelKind, Error, Format, Location};
use helpers::*;
use tombolo_hal::dmaengine::{DmaChannel, TxStatus};
use tombolo_sim::dw_edma::{Cause, Params, Timing};

/// Where a channel is when it is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Submitted,
    IssuedWhilePaused,
    Running,
    RunningWithMoreQueued,
    PausedWhileRunning,
    Halted,
    DoneButNotNoticed,
    StoppingAlready,
}

const STATES: [State; 9] = [
    State::Idle,
    State::Submitted,
    State::IssuedWhilePaused,
    State::Running,
    State::RunningWithMoreQueued,
    State::PausedWhileRunning,
    State::Halted,
    State::DoneButNotNoticed,
    State::StoppingAlready,
];

/// Brings an idle channel there. Returns how many transfers it has then.
fn bring(rig: &Rig, ch: &mut Tx, state: State) -> usize {
    let id = ch.channel().id();
    let long = Plan::segments(30, 4096);
    match state {
        State::Idle => return 0,
        State::Submitted => {
            submit(rig, ch, long);
        }
        State::IssuedWhilePaused => {
            ch.pause().unwrap();
            start(rig, ch, long);
        }
        State::Running => {
            start(rig, ch, long);
            rig.fabric.advance(3_000);
        }
        State::RunningWithMoreQueued => {
            (0..3).for_each(|_| drop(start(rig, ch, long)));
            submit(rig, ch, long);
            rig.fabric.advance(3_000);
            return 4;
        }
        State::PausedWhileRunning => {
            start(rig, ch, long);
            rig.fabric.advance(2_000);
            ch.pause().unwrap();
            start(rig, ch, long);
            return 2;
        }
        State::Halted => {
            let cause = match id.kind {
                ChannelKind::Write => Cause::AppRead,
                ChannelKind::Read => Cause::CompleterAbort,
            };
            rig.handle.abort_after(sim_dir(id.kind), id.index.into(), 5_000, cause);
            (0..2).for_each(|_| drop(start(rig, ch, long)));
            rig.fabric.advance(100_000);
            return 2;
        }
        State::DoneButNotNoticed => {
            start(rig, ch, Plan::bytes(100));
            rig.fabric.advance(100_000);
        }
        State::StoppingAlready => {
            start(rig, ch, long);
            rig.fabric.advance(3_000);
            ch.terminate_all().unwrap();
        }
    }
    1
}

fn reclaim(ch: &mut Tx) -> usize {
    std::iter::from_fn(|| ch.pop_terminated()).count()
}

#[test]
fn terminate_works_from_every_state_and_the_next_transfer_needs_no_wait() {
    for (format, location) in everywhere() {
        for state in STATES {
            let mut rig = rig(format, location, Irqs::One);
            let what = format!("{format} {location:?} {state:?}");
            for (id, times) in [(ChannelId::write(1), 1), (ChannelId::read(0), 2)] {
                let mut ch = open_slots(&mut rig, id, 12);
                run(&rig, &mut ch, Plan::segments(5, 10));
                let killed = bring(&rig, &mut ch, state);
                (0..times).for_each(|_| ch.terminate_all().unwrap());
                // At once, while the engine may still be stopping.
                let job = start(&rig, &mut ch, Plan::segments(20, 70).at(512 << 10));
                let done =
                    next(&rig, &mut ch).unwrap_or_else(|| panic!("{what}: {:?}", ch.channel().stats()));
                assert_done(&rig, &job, done);
                assert_eq!(reclaim(&mut ch), killed, "{what}: buffers that came back");
                assert_eq!(ch.in_flight(), 0);
                rig.fabric.advance(200_000);
                assert!(ch.pop_finished().is_none(), "{what}: a killed transfer was completed");
                assert_eq!(ch.channel().stats().completed, 2, "{what}");
                run(&rig, &mut ch, Plan::segments(30, 33));
            }
            assert_eq!(rig.function.counters().iommu_faults, 0, "{what}: a buffer came back too early");
            assert_clean(&rig);
        }
    }
}

#[test]
fn after_synchronize_the_engine_rests_and_all_buffers_are_back() {
    for (format, location) in everywhere() {
        for state in STATES {
            let mut rig = rig(format, location, Irqs::One);
            let what = format!("{format} {location:?} {state:?}");
            let id = one_of_each()[usize::from(state == State::Running)];
            let mut ch = open_slots(&mut rig, id, 12);
            let killed = bring(&rig, &mut ch, state);
            ch.terminate_all().unwrap();
            ch.synchronize(&mut rig.delay.clone(), 10_000).unwrap();
            let moved = rig.handle.channel(sim_dir(id.kind), id.index.into()).bytes;
            assert_eq!(reclaim(&mut ch), killed, "{what}");
            rig.fabric.advance(300_000);
            let after = rig.handle.channel(sim_dir(id.kind), id.index.into());
            assert_eq!(after.bytes, moved, "{what}: it moved on");
            assert!(ch.pop_finished().is_none());
            // Nothing of the old list is run with the new one.
            run(&rig, &mut ch, Plan::bytes(77));
            assert_eq!(rig.handle.channel(sim_dir(id.kind), id.index.into()).bytes, moved + 77, "{what}");
            let ch = ch.into_channel().map_err(|_| "in flight").unwrap();
            ch.close().map_err(|(_, e)| e).unwrap();
        }
    }
}

#[test]
fn terminating_at_any_moment_of_a_transfer_leaves_a_working_channel() {
    for (format, location) in everywhere() {
        for prefetch in [1, 4] {
            let mut rig = rig_with(format, location, Irqs::One, |p| Params { prefetch, ..p });
            let mut ch = open_slots(&mut rig, one_of_each()[1], 5);
            for delay in (0..3_200).step_by(110) {
                start(&rig, &mut ch, Plan::segments(2, 512));
                rig.fabric.advance(delay);
                ch.terminate_all().unwrap();
                let job = start(&rig, &mut ch, Plan::segments(6, 40).at(4096));
                let done = next(&rig, &mut ch).unwrap_or_else(|| {
                    panic!("{format} {location:?}: terminated after {delay}: {:?}", ch.channel().stats())
                });
                assert_done(&rig, &job, done);
                assert_eq!(reclaim(&mut ch), 1);
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn a_channel_at_rest_is_never_sent_a_stop_request() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        rig.fabric.set_trace(10_000);
        ch.terminate_all().unwrap();
        run(&rig, &mut ch, Plan::bytes(100));
        ch.terminate_all().unwrap();
        for state in [State::Submitted, State::IssuedWhilePaused, State::DoneButNotNoticed, State::Halted] {
            bring(&rig, &mut ch, state);
            ch.terminate_all().unwrap();
            ch.terminate_all().unwrap();
            ch.synchronize(&mut rig.delay.clone(), 1_000).unwrap();
            reclaim(&mut ch);
        }
        run(&rig, &mut ch, Plan::bytes(100));
        let io = register_trace(&rig, &rig.fabric.take_trace());
        let is_stop = |io: &Io| match format {
            Format::HdmaNative => matches!(io, Io::Write(at, v) if at & 0xff == 4 && v & 2 != 0),
            _ => matches!(io, Io::Write(0x10 | 0x30, v) if v >> 31 != 0),
        };
        assert!(!io.iter().any(is_stop), "{format} {location:?}");
        assert_eq!(rig.handle.counters().total.stops, 0);
        // A running one is.
        bring(&rig, &mut ch, State::Running);
        ch.terminate_all().unwrap();
        assert!(register_trace(&rig, &rig.fabric.take_trace()).iter().any(is_stop));
        assert_eq!(rig.handle.counters().total.stops, 1);
    }
}

#[test]
fn a_pause_at_any_moment_holds_what_follows_and_never_wedges() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        for delay in (0..2_600).step_by(100) {
            let a = start(&rig, &mut ch, Plan::segments(2, 512));
            rig.fabric.advance(delay);
            ch.pause().unwrap();
            let b = start(&rig, &mut ch, Plan::bytes(64).at(8192));
            // What the engine has it finishes.
            finish(&rig, &mut ch, &a);
            assert_eq!(ch.status(b.cookie).status, TxStatus::Paused);
            rig.fabric.advance(20_000);
            ch.poll_hardware().unwrap();
            assert!(ch.pop_finished().is_none(), "{format} {location:?}: it went on while paused");
            ch.resume().unwrap();
            assert_eq!(ch.status(b.cookie).status, TxStatus::InProgress);
            finish(&rig, &mut ch, &b);
            // On an idle channel, too.
            ch.pause().unwrap();
            ch.pause().unwrap();
            rig.fabric.advance(3_000);
            ch.resume().unwrap();
            ch.resume().unwrap();
            run(&rig, &mut ch, Plan::bytes(9));
        }
        assert_clean(&rig);
    }
}

#[test]
fn a_pause_in_a_transfer_longer_than_the_ring_stops_its_refill() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open_slots(&mut rig, one_of_each()[1], 8);
        let job = start(&rig, &mut ch, Plan::segments(40, 64));
        ch.pause().unwrap();
        for _ in 0..100 {
            rig.fabric.advance(1_000);
            assert!(ch.pop_finished().is_none(), "{format} {location:?}: it went on while paused");
        }
        let left = ch.status(job.cookie).residue;
        assert!(left > 30 * 64 && left < 40 * 64, "{format}: {left}");
        ch.resume().unwrap();
        finish(&rig, &mut ch, &job);
    }
}

#[test]
fn an_engine_that_does_not_stop_keeps_the_buffers_and_they_go_to_quarantine() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[0];
        let mut ch = open(&mut rig, id);
        rig.handle.hang(sim_dir(id.kind), id.index.into());
        start(&rig, &mut ch, Plan::bytes(4096));
        rig.fabric.advance(10_000);
        assert!(ch.wait_next(&mut rig.delay.clone(), 500).is_err());
        ch.terminate_all().unwrap();
        let mut delay = rig.delay.clone();
        assert_eq!(ch.synchronize(&mut delay, 500).unwrap_err().0.waited_us, 500);
        assert_eq!(reclaim(&mut ch), 0, "the engine may still use it");
        assert!(ch.synchronize(&mut delay, 20).is_err());
        assert_eq!(rig.function.counters().quarantined, 0);
        drop(ch);
        assert!(rig.function.counters().quarantined >= 1, "{format} {location:?}");
    }
}

#[test]
fn channels_are_closed_before_the_controller_and_not_while_busy() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[1];
        let mut ch = open(&mut rig, id);
        let again = rig.list(id, 0x400);
        let pool = tombolo_hal::dmaengine::HeapPool::new(2, 2);
        assert_eq!(rig.control.open_channel(id, again, pool).err(), Some(Error::ChannelOpen(id)));
        let job = start(&rig, &mut ch, Plan::segments(4, 2000));
        let ch = ch.into_channel().err().expect("a transfer is in flight");
        let (mut ch, job) = (ch, job);
        finish(&rig, &mut ch, &job);
        let mut channel = ch.into_channel().map_err(|_| "idle").unwrap();
        // With something queued, it does not close.
        let d = channel
            .prep_slave_sg_config(
                &[raw(0x1000, 8)],
                channel.direction(),
                Default::default(),
                Some(&rig.config(id, 0)),
            )
            .unwrap();
        channel.submit(d).unwrap();
        let (mut channel, error) = channel.close().err().expect("queued");
        assert_eq!(error, Error::Busy(id));
        channel.terminate_all().unwrap();

        let Rig { control, .. } = rig;
        let (control, error) = control.close().expect_err("a channel is open");
        assert_eq!(error, Error::ChannelsOpen(1));
        channel.close().map_err(|(_, e)| e).unwrap();
        let shared = control.shared().clone();
        assert_eq!(dw_edma::Controller::new(shared.clone()).err(), Some(Error::Controlled));
        control.close().map_err(|(_, e)| e).unwrap();
        assert!(dw_edma::Controller::new(shared).is_ok(), "control can be taken again");
    }
}

#[test]
fn a_channel_that_was_closed_opens_again_with_new_memory() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::PerChannel);
        for round in 0..4 {
            for id in one_of_each() {
                let mut ch = open_slots(&mut rig, id, 3 + round);
                run(&rig, &mut ch, Plan::segments(9, 90));
                if round & 1 == 0 {
                    bring(&rig, &mut ch, State::Running);
                    ch.terminate_all().unwrap();
                    ch.synchronize(&mut rig.delay.clone(), 1_000).unwrap();
                    reclaim(&mut ch);
                }
                let ch = ch.into_channel().map_err(|_| "idle").unwrap();
                ch.close().map_err(|(_, e)| e).unwrap();
            }
        }
        assert_clean(&rig);
    }
}

#[test]
fn list_memory_is_given_back_only_when_the_engine_reads_it_no_more() {
    for format in Format::ALL {
        for prefetch in [1, 2] {
            let mut rig = rig_with(format, Location::Local, Irqs::One, |p| Params {
                prefetch,
                // A slow look at the element behind the last one.
                timing: Timing { list_ns: 4_000, ..p.timing },
                ..p
            });
            let id = one_of_each()[0];
            for delay in (0..10_000).step_by(500) {
                let mut ch = open(&mut rig, id);
                start(&rig, &mut ch, Plan::bytes(512));
                rig.fabric.advance(delay);
                let mut delay = rig.delay.clone();
                ch.wait_next(&mut delay, 1_000).unwrap();
                let mut ch = ch.into_channel().map_err(|_| "idle").unwrap();
                let list = loop {
                    match ch.close() {
                        Ok(list) => break list,
                        Err((busy, _)) => ch = busy,
                    }
                };
                match list.into_inner() {
                    AnyList::Ram(memory) => memory.free(),
                    _ => unreachable!("the list is in RAM"),
                }
                rig.fabric.advance(20_000);
            }
            assert_eq!(rig.function.counters().iommu_faults, 0, "{format}, prefetch {prefetch}");
        }
    }
}
