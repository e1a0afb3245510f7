//! The linked list: laps, cycle bits, order of stores, and appending behind a running engine.

mod common;
mod helpers;

use common::*;
use dw_edma::{ELEMENT_SIZE, Format, ListMemory, Location};
use helpers::*;
use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::{HeapPool, OwnedTransfers};
use tombolo_sim::dw_edma::RunningDoorbell;
use tombolo_sim::fabric::TraceEvent;

#[test]
fn transfers_longer_than_the_ring_go_round_it_many_times() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        for id in one_of_each() {
            let mut ch = open_slots(&mut rig, id, 7);
            for round in 0..3 {
                run(&rig, &mut ch, Plan::segments(64, 48).at(round * 4096));
                // Not a whole number of laps.
                run(&rig, &mut ch, Plan::segments(3, 100));
            }
            let stats = *ch.channel().stats();
            assert_eq!((stats.completed, stats.failed, stats.violations), (6, 0, 0), "{format} {location:?}");
            assert_eq!(stats.segments, 3 * 67);
            let sim = rig.handle.channel(sim_dir(id.kind), id.index.into());
            assert_eq!(sim.elements, 3 * 67, "each element is moved once");
            assert!(sim.links >= 3 * 67 / 7, "{sim:?}");
        }
        assert_clean(&rig);
    }
}

#[test]
fn rings_of_every_size_are_refilled_by_interrupts_alone_however_late_they_are_served() {
    for (format, location) in [(Format::Unroll, Location::Local), (Format::HdmaNative, Location::Remote)] {
        for slots in 2..=9 {
            let mut rig = rig_with(format, location, Irqs::One, |p| tombolo_sim::dw_edma::Params {
                prefetch: 1 + slots % 4,
                ..p
            });
            for id in one_of_each() {
                let mut ch = open_slots(&mut rig, id, slots);
                for late in (150..4_500).step_by(350) {
                    let job = start(&rig, &mut ch, Plan::segments(23, 64));
                    let Some(done) = next_in_steps(&rig, &mut ch, late) else {
                        panic!("{format} {slots} slots, served every {late} ns: {:?}", ch.channel().stats())
                    };
                    assert_done(&rig, &job, done);
                }
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn many_small_transfers_fill_the_ring_and_go_on_by_interrupts_alone() {
    for (format, location) in everywhere() {
        for (count, quiet) in [(1, false), (3, false), (5, false), (3, true)] {
            let mut rig = rig(format, location, Irqs::One);
            let mut ch = open_slots(&mut rig, one_of_each()[0], 8);
            for late in [200, 900, 2_300] {
                let jobs: Vec<Job> = (0..12)
                    .map(|i| {
                        let plan = Plan::segments(count, 32).at(i * 1024);
                        submit(&rig, &mut ch, if quiet && i != 11 { plan.quiet() } else { plan })
                    })
                    .collect();
                ch.issue_pending();
                for job in &jobs {
                    let Some(done) = next_in_steps(&rig, &mut ch, late) else {
                        panic!("{format} {count} {quiet} {late}: {:?}", ch.channel().stats())
                    };
                    assert_done(&rig, job, done);
                }
            }
            assert_eq!(ch.channel().stats().found_by_looking, 0);
        }
    }
}

/// Appends a second transfer at every moment in the life of the first one.
fn append_at_every_moment(format: Format, location: Location, first: Plan, change: impl Fn(&mut Rig)) {
    for prefetch in [1, 2, 3, 8] {
        let mut rig =
            rig_with(format, location, Irqs::One, |p| tombolo_sim::dw_edma::Params { prefetch, ..p });
        change(&mut rig);
        let mut ch = open(&mut rig, one_of_each()[0]);
        for delay in (0..2_400).step_by(60) {
            let a = start(&rig, &mut ch, first);
            rig.fabric.advance(delay);
            let b = start(&rig, &mut ch, Plan::bytes(96).at(8192));
            for job in [&a, &b] {
                let Some(done) = next(&rig, &mut ch) else {
                    panic!(
                        "{format} {location:?}, prefetch {prefetch}, appended after {delay} ns: {:?} {:?}",
                        ch.channel().stats(),
                        rig.handle.counters()
                    )
                };
                assert_done(&rig, job, done);
            }
        }
        assert_eq!(ch.channel().stats().found_by_looking, 0);
        assert_clean(&rig);
    }
}

#[test]
fn a_transfer_appended_at_any_moment_completes_by_interrupts_alone() {
    for (format, location) in everywhere() {
        append_at_every_moment(format, location, Plan::bytes(2048), |_| {});
    }
}

#[test]
fn a_transfer_appended_behind_one_without_interrupt_completes_by_interrupts_alone() {
    for (format, location) in everywhere() {
        append_at_every_moment(format, location, Plan::bytes(1024).quiet(), |_| {});
    }
}

#[test]
fn appending_behind_several_short_elements_loses_nothing() {
    for format in Format::ALL {
        append_at_every_moment(format, Location::Remote, Plan::segments(3, 32), |_| {});
        append_at_every_moment(format, Location::Local, Plan::segments(3, 32).quiet(), |_| {});
    }
}

#[test]
fn engines_that_remember_doorbells_or_show_progress_late_are_served_too() {
    for location in BOTH {
        let mut rig = rig_with(Format::HdmaNative, location, Irqs::One, |p| tombolo_sim::dw_edma::Params {
            running_doorbell: RunningDoorbell::Remembered,
            lazy_llp: true,
            ..p
        });
        let mut ch = open_slots(&mut rig, one_of_each()[1], 6);
        for delay in (0..2_000).step_by(250) {
            let a = start(&rig, &mut ch, Plan::segments(4, 200).quiet());
            rig.fabric.advance(delay);
            let b = start(&rig, &mut ch, Plan::segments(17, 50).at(4096));
            finish(&rig, &mut ch, &a);
            finish(&rig, &mut ch, &b);
        }
        assert_clean(&rig);
    }
}

#[test]
fn transfers_without_interrupt_complete_together_with_a_later_one() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[1]);
        let jobs: Vec<Job> = (0..4)
            .map(|i| {
                let plan = Plan::segments(3, 64).at(i * 4096);
                submit(&rig, &mut ch, if i == 3 { plan } else { plan.quiet() })
            })
            .collect();
        let before = rig.function.counters().interrupts_delivered();
        ch.issue_pending();
        jobs.iter().for_each(|job| finish(&rig, &mut ch, job));
        let interrupts = rig.function.counters().interrupts_delivered() - before;
        assert_eq!(interrupts, 1, "{format} {location:?}: one interrupt for all four");
    }
}

#[test]
fn an_elements_control_word_is_stored_after_its_addresses_and_a_barrier_in_ram() {
    for format in Format::ALL {
        let mut rig = rig(format, Location::Local, Irqs::One);
        let id = one_of_each()[0];
        let slots = 5;
        let memory =
            Coherent::new(rig.dma.clone(), (slots + 1) * ELEMENT_SIZE, &DmaConstraints::any().aligned(8))
                .unwrap();
        let base = memory.device_address().value();
        let list = ListMemory::new(AnyList::Ram(memory), EngineAddr::new(base)).map_err(|e| e.error).unwrap();
        let channel = rig.control.open_channel(id, list, HeapPool::new(8, 64)).unwrap();
        let mut ch: Tx = OwnedTransfers::new(channel);
        run(&rig, &mut ch, Plan::segments(2, 32));
        rig.function.watch(base, (slots + 1) * ELEMENT_SIZE / 4);
        rig.fabric.set_trace(4096);
        let job = submit(&rig, &mut ch, Plan::segments(9, 16));
        rig.fabric.take_trace();
        ch.issue_pending();
        let trace = rig.fabric.take_trace();
        // Stores between two barriers or accesses can become visible in any order.
        let (mut controls, mut fields) = (Vec::new(), Vec::new());
        let mut both = std::collections::BTreeSet::new();
        let mut told = std::collections::BTreeSet::new();
        for entry in &trace {
            if let TraceEvent::Memory { address, .. } = entry.event {
                let at = address - base;
                let (element, word) = (at / ELEMENT_SIZE as u64, at % ELEMENT_SIZE as u64);
                if word == 0 {
                    controls.push(element)
                } else {
                    fields.push(element)
                }
                continue;
            }
            let mixed = controls.iter().find(|element| fields.contains(element));
            assert_eq!(mixed, None, "{format}: control word and addresses without a barrier between them");
            both.extend(controls.drain(..).filter(|element| told.contains(element)));
            told.extend(fields.drain(..));
        }
        assert!(both.len() >= 3, "{format}: {both:?}");
        assert!(
            !trace.iter().any(
                |e| matches!(e.event, TraceEvent::MmioRead { bar, .. } if bar != rig.params.register_bar)
            ),
            "{format}: a list in RAM needs no read before the doorbell"
        );
        finish(&rig, &mut ch, &job);
    }
}

#[test]
fn behind_a_bar_the_control_word_is_last_and_a_read_pushes_the_list_before_the_doorbell() {
    for format in Format::ALL {
        let mut rig = rig(format, Location::Remote, Irqs::One);
        let id = one_of_each()[1];
        let mut ch = open_slots(&mut rig, id, 6);
        run(&rig, &mut ch, Plan::bytes(10));
        let list_base = u64::from(id.index + 2) * (2 << 20);
        rig.fabric.set_trace(4096);
        let job = submit(&rig, &mut ch, Plan::segments(3, 16));
        rig.fabric.take_trace();
        ch.issue_pending();
        let trace = rig.fabric.take_trace();
        rig.fabric.set_trace(0);
        let bar = rig.params.memory_bar;
        let doorbell = if format == Format::HdmaNative { 0x300 + 0x04 } else { 0x30 };
        let (mut element, mut fields, mut flushed, mut rung) = (None, 0, true, false);
        for entry in &trace {
            match entry.event {
                TraceEvent::MmioWrite { bar: b, offset, width, .. } if b == bar => {
                    let at = offset - list_base;
                    let (e, word) = (at / ELEMENT_SIZE as u64, at % ELEMENT_SIZE as u64);
                    flushed = false;
                    if word == 0 {
                        assert_eq!((element, fields), (Some(e), 20), "{format}: control before the rest");
                        (element, fields) = (None, 0);
                    } else {
                        assert!(element.is_none_or(|open| open == e), "{format}: elements mixed");
                        (element, fields) = (Some(e), fields + width.bytes());
                    }
                }
                TraceEvent::MmioRead { bar: b, .. } if b == bar => flushed = true,
                TraceEvent::MmioWrite { bar: b, offset, .. }
                    if b == rig.params.register_bar && offset == doorbell =>
                {
                    rung = true;
                    assert!(flushed, "{format}: the doorbell overtakes the list");
                }
                _ => {}
            }
        }
        assert!(rung, "{format}");
        assert_eq!(element, None);
        finish(&rig, &mut ch, &job);
    }
}

#[test]
fn residue_and_status_follow_the_engine_through_a_transfer() {
    use tombolo_hal::dmaengine::TxStatus;
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        let job = submit(&rig, &mut ch, Plan::segments(60, 4096));
        let total = 60 * 4096;
        assert_eq!(ch.status(job.cookie).residue, total);
        ch.issue_pending();
        let mut seen = vec![total];
        for _ in 0..10_000 {
            rig.fabric.advance(5_000);
            ch.poll_hardware().unwrap();
            let state = ch.status(job.cookie);
            if state.status == TxStatus::Complete {
                assert_eq!(state.residue, 0);
                break;
            }
            assert_eq!(state.status, TxStatus::InProgress);
            assert!(state.residue <= *seen.last().unwrap(), "residue grew");
            assert_eq!(state.residue % 4096, 0);
            seen.push(state.residue);
        }
        seen.dedup();
        assert!(seen.len() > 4, "{format} {location:?}: {seen:?}");
        finish(&rig, &mut ch, &job);
        assert_eq!(ch.status(job.cookie).status, TxStatus::Complete, "as Linux says of every old cookie");
    }
}

#[test]
fn statistics_count_transfers_bytes_elements_and_doorbells() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[0]);
        run(&rig, &mut ch, Plan::segments(4, 100));
        run(&rig, &mut ch, Plan::bytes(7));
        let stats = *ch.channel().stats();
        assert_eq!((stats.submitted, stats.completed, stats.failed), (2, 2, 0));
        assert_eq!((stats.bytes, stats.segments, stats.periods), (407, 5, 0));
        assert_eq!(
            (stats.doorbells, stats.doorbells_again, stats.events),
            (2, 0, 2),
            "{format} {location:?}"
        );
        assert_eq!((stats.spurious, stats.found_by_looking, stats.violations), (0, 0, 0));
        let sim = rig.handle.channel(sim_dir(one_of_each()[0].kind), 0);
        assert_eq!((sim.bytes, sim.elements, sim.doorbells, sim.dropped_doorbells), (407, 5, 2, 0));
    }
}
