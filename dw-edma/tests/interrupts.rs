//! Interrupts: who is told what, what is read and cleared, and messages that the engine writes.

mod common;
mod helpers;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use common::*;
use dw_edma::{
    ChannelId, ChannelKind, Config, Controller, Desc, Error, Format, Interrupts, ListMemory, Location,
    MessageError, Segment, Shared, Vectors,
};
use helpers::*;
use tombolo_hal::EngineAddr;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dmaengine::{DmaChannel, HeapPool, PrepFlags, SlaveConfig, TxResult};
use tombolo_hal::fake::FakeMmio;
use tombolo_hal::irq::{IrqMode, IrqSource, MockIrqSource, MsiMessage};
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_sim::dw_edma::{Cause, LocalIrq, Params, Placement};

const V0: [Format; 3] = [Format::Legacy, Format::Unroll, Format::HdmaCompat];

/// Offsets that exist once per kind.
fn of_kind(kind: ChannelKind, write: u64, read: u64) -> u64 {
    if kind == ChannelKind::Write { write } else { read }
}

#[test]
fn an_interrupt_reads_the_status_of_each_direction_with_open_channels_once() {
    for format in V0 {
        for location in BOTH {
            let mut rig = rig(format, location, Irqs::One);
            let mut a = open(&mut rig, ChannelId::write(0));
            let _b = open(&mut rig, ChannelId::write(1));
            let gate = Gate::new(&rig);
            gate.close();
            start(&rig, &mut a, Plan::bytes(100));
            rig.fabric.advance(100_000);
            rig.fabric.set_trace(1000);
            let report = gate.open();
            let io = register_trace(&rig, &rig.fabric.take_trace());
            assert_eq!(io, [Io::Read(0x4c), Io::Write(0x58, 1)], "{format} {location:?}");
            assert!(report.handled);
            assert_eq!((report.write_channels, report.read_channels), (1, 0));
            let _c = open(&mut rig, ChannelId::read(0));
            rig.fabric.take_trace();
            assert!(!rig.shared.on_irq().handled, "another device's");
            let io = register_trace(&rig, &rig.fabric.take_trace());
            assert_eq!(io, [Io::Read(0x4c), Io::Read(0xa0)], "{format} {location:?}");
        }
    }
}

#[test]
fn without_open_channels_an_interrupt_touches_nothing() {
    for (format, location) in everywhere() {
        let rig = rig(format, location, Irqs::One);
        rig.fabric.set_trace(100);
        assert!(!rig.shared.on_irq().handled);
        assert_eq!(rig.fabric.take_trace(), []);
    }
}

fn cause(kind: ChannelKind) -> Cause {
    if kind == ChannelKind::Write { Cause::AppRead } else { Cause::UnsupportedRequest }
}

#[test]
fn the_abort_of_one_channel_and_the_done_of_another_are_told_in_one_interrupt() {
    for (format, location) in everywhere() {
        for kind in ChannelKind::ALL {
            let mut rig = rig(format, location, Irqs::One);
            let mut good = open(&mut rig, ChannelId { kind, index: 0 });
            let mut bad = open(&mut rig, ChannelId { kind, index: 1 });
            let gate = Gate::new(&rig);
            gate.close();
            rig.handle.abort_after(sim_dir(kind), 1, 50, cause(kind));
            let job = start(&rig, &mut good, Plan::bytes(100));
            start(&rig, &mut bad, Plan::bytes(100));
            rig.fabric.advance(100_000);
            let report = gate.open();
            let found = of_kind(kind, report.write_channels, report.read_channels);
            assert_eq!(found, 0b11, "{format} {location:?}");
            finish(&rig, &mut good, &job);
            assert_eq!(next(&rig, &mut bad).unwrap().completion.result, TxResult::ReadFailed);
            assert!(!rig.shared.on_irq().handled, "all is acknowledged");
        }
    }
}

#[test]
fn a_channel_that_looks_for_its_abort_leaves_anothers_done_alone() {
    for (format, location) in everywhere() {
        for kind in ChannelKind::ALL {
            let mut rig = rig(format, location, Irqs::One);
            let mut good = open(&mut rig, ChannelId { kind, index: 0 });
            let mut bad = open(&mut rig, ChannelId { kind, index: 1 });
            let gate = Gate::new(&rig);
            gate.close();
            rig.handle.abort_after(sim_dir(kind), 1, 50, cause(kind));
            let job = start(&rig, &mut good, Plan::bytes(100));
            start(&rig, &mut bad, Plan::bytes(100));
            rig.fabric.advance(100_000);
            bad.poll_hardware().unwrap();
            assert_eq!(bad.pop_finished().unwrap().completion.result, TxResult::ReadFailed);
            if format == Format::HdmaNative {
                let status = register(&rig, of_kind(kind, 0x84, 0x184));
                assert_eq!(status & 6, 2, "{format} {location:?}: the watermark is left");
                assert_eq!(register(&rig, of_kind(kind, 0x284, 0x384)), 0, "its own is not");
            } else {
                let status = register(&rig, of_kind(kind, 0x4c, 0xa0));
                assert_eq!(status, 1, "{format} {location:?}: only the done is left");
            }
            gate.open();
            finish(&rig, &mut good, &job);
        }
    }
}

#[test]
fn a_done_that_comes_between_the_read_and_the_clear_of_the_status_is_not_lost() {
    for format in Format::ALL {
        let mut rig = rig(format, Location::Remote, Irqs::One);
        let mut a = open(&mut rig, ChannelId::read(0));
        let mut b = open(&mut rig, ChannelId::read(1));
        for delay in (0..1_600).step_by(20) {
            let first = start(&rig, &mut a, Plan::bytes(2048));
            rig.fabric.advance(delay);
            let second = start(&rig, &mut b, Plan::bytes(64));
            finish(&rig, &mut a, &first);
            finish(&rig, &mut b, &second);
        }
    }
}

#[test]
fn with_several_msi_vectors_each_channel_sends_its_own_data() {
    for format in Format::ALL {
        let params = Params { msix_vectors: 0, msi_vectors: 32, ..params(format, Location::Remote, 8, 8) };
        let mut rig = Rig::new(params, Location::Remote, Irqs::PerChannel, 3);
        assert_eq!((rig.irq.mode(), rig.irq.vectors()), (IrqMode::Msi, 16));
        let base = rig.irq.message(0).unwrap();
        if format != Format::HdmaNative {
            for pair in 0..4u32 {
                for (first, channel) in [(0x70, 0), (0xdc, 8)] {
                    let even = base.data + channel + 2 * pair;
                    let word = register(&rig, u64::from(first + 4 * pair));
                    assert_eq!(word, even | (even + 1) << 16, "{format}: word {pair} at {first:#x}");
                }
            }
        }
        for (vector, id) in all_ids(&rig).into_iter().enumerate() {
            assert_eq!(usize::from(rig.control.vector_of(id)), vector);
            let mut ch = open(&mut rig, id);
            let before = rig.function.counters().interrupts;
            run(&rig, &mut ch, Plan::bytes(64));
            let after = rig.function.counters().interrupts;
            for v in 0..16 {
                let count = |c: &[u64]| c.get(v).copied().unwrap_or(0);
                assert_eq!(
                    count(&after) - count(&before),
                    u64::from(v == vector),
                    "{format} {id}, vector {v}"
                );
            }
        }
        assert_eq!(rig.function.counters().messages_unrouted, 0);
    }
}

#[test]
fn with_msi_x_every_message_reaches_a_vector_even_where_a_direction_has_one_address() {
    for format in Format::ALL {
        let mut rig = Rig::new(params(format, Location::Remote, 4, 4), Location::Remote, Irqs::PerChannel, 3);
        assert_eq!(rig.irq.mode(), IrqMode::MsiX);
        for id in all_ids(&rig) {
            let mut ch = open(&mut rig, id);
            run(&rig, &mut ch, Plan::bytes(64));
            rig.handle.abort_after(sim_dir(id.kind), id.index.into(), 10, cause(id.kind));
            start(&rig, &mut ch, Plan::bytes(64));
            assert_eq!(next(&rig, &mut ch).unwrap().completion.result, TxResult::ReadFailed);
        }
        let counters = rig.function.counters();
        assert_eq!((counters.messages, counters.messages_unrouted), (16, 0), "{format}");
    }
}

#[test]
fn a_vector_that_moves_takes_its_messages_along_and_loses_no_completion() {
    for format in Format::ALL {
        for irqs in [Irqs::One, Irqs::PerChannel] {
            let mut rig = rig(format, Location::Remote, irqs);
            let ids = all_ids(&rig);
            let mut channels: Vec<Tx> = ids.iter().map(|id| open(&mut rig, *id)).collect();
            assert_eq!(rig.control.refresh_messages(&rig.irq), Ok(false), "nothing has moved");
            for round in 1..4 {
                let jobs: Vec<Job> =
                    channels.iter_mut().map(|ch| start(&rig, ch, Plan::bytes(3000))).collect();
                for vector in 0..rig.irq.vectors() {
                    assert!(rig.irq.set_affinity(vector, (round + vector as u8) % 4));
                }
                // These messages go where nobody listens any more.
                rig.fabric.advance(50_000);
                assert!(rig.function.counters().messages_unrouted > 0);
                assert_eq!(rig.control.refresh_messages(&rig.irq), Ok(true));
                for (ch, job) in channels.iter_mut().zip(&jobs) {
                    finish(&rig, ch, job);
                }
                let unrouted = rig.function.counters().messages_unrouted;
                for ch in &mut channels {
                    run(&rig, ch, Plan::bytes(500));
                }
                assert_eq!(rig.function.counters().messages_unrouted, unrouted, "{format} {irqs:?}");
            }
        }
    }
}

#[test]
fn a_refresh_without_change_costs_no_access() {
    let mut rig = rig(Format::Unroll, Location::Remote, Irqs::One);
    rig.fabric.set_trace(100);
    assert_eq!(rig.control.refresh_messages(&rig.irq), Ok(false));
    assert_eq!(rig.fabric.take_trace(), []);
}

fn messages(of: impl Fn(u16) -> Option<MsiMessage> + Send + 'static) -> MockIrqSource {
    let mut irq = MockIrqSource::new();
    irq.expect_mode().return_const(IrqMode::MsiX);
    irq.expect_vectors().return_const(4u16);
    irq.expect_message_epoch().return_const(9u32);
    irq.expect_message().returning(of);
    irq
}

#[test]
fn messages_that_the_engine_cannot_send_are_refused_and_it_goes_on_polling() {
    for format in V0 {
        let mut rig = rig(format, Location::Remote, Irqs::Polling);
        let big = |vector: u16| MsiMessage { address: 0xfee0_0000, data: 0xfffe + u32::from(vector) };
        rig.fabric.set_trace(100);
        assert_eq!(
            rig.control.connect(&messages(move |v| Some(big(v))), Vectors::PerChannel),
            Err(Error::Messages(MessageError::DataTooLarge { vector: 2, data: 0x1_0000 }))
        );
        assert_eq!(
            rig.control.connect(&messages(|_| None), Vectors::One),
            Err(Error::Messages(MessageError::Unknown(0)))
        );
        assert_eq!(rig.fabric.take_trace(), [], "nothing was changed");
        assert_eq!(rig.shared.interrupts(), Interrupts::Polling);
        let mut ch = open(&mut rig, ChannelId::read(0));
        run(&rig, &mut ch, Plan::bytes(99));
    }
    // Native engines have 32 bits for the data.
    let mut rig = rig(Format::HdmaNative, Location::Remote, Irqs::Polling);
    let message = MsiMessage { address: 0x12_fee0_0000, data: 0x8765_4321 };
    rig.control.connect(&messages(move |_| Some(message)), Vectors::One).unwrap();
    for at in [0x90, 0x98, 0xa0] {
        assert_eq!((register(&rig, at), register(&rig, at + 4)), (0xfee0_0000, 0x12));
    }
    assert_eq!(register(&rig, 0xa8), 0x8765_4321);
}

#[test]
fn connecting_is_refused_while_channels_are_open() {
    let mut rig = rig(Format::Unroll, Location::Remote, Irqs::One);
    let _ch = open(&mut rig, ChannelId::write(0));
    assert_eq!(rig.control.connect(&rig.irq, Vectors::One), Err(Error::ChannelsOpen(1)));
    assert_eq!(rig.shared.interrupts(), Interrupts::Remote);
}

#[test]
fn any_vector_may_carry_any_channels_interrupt() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::PerChannel);
        for id in all_ids(&rig) {
            let mut ch = open(&mut rig, id);
            let own = rig.control.vector_of(id);
            for vector in 0..rig.irq.vectors() {
                rig.irq.connect(vector, Arc::new(|_| {}));
            }
            let job = start(&rig, &mut ch, Plan::bytes(300));
            rig.fabric.advance(100_000);
            assert!(ch.pop_finished().is_none());
            let other = (own + 1) % rig.irq.vectors();
            let shared = rig.shared.clone();
            rig.irq.connect(
                other,
                Arc::new(move |_| {
                    shared.on_irq();
                }),
            );
            rig.function.spurious_interrupt(other);
            finish(&rig, &mut ch, &job);
            assert_eq!(ch.channel().stats().found_by_looking, 0);
            drop(ch);
        }
    }
}

#[test]
fn spurious_interrupts_do_no_harm() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open_slots(&mut rig, ChannelId::write(1), 9);
        for i in 0..4 {
            let job = start(&rig, &mut ch, Plan::segments(20, 500));
            for _ in 0..100 {
                rig.function.spurious_interrupt(0);
                rig.fabric.advance(130 + i);
                rig.shared.on_irq();
                assert!(rig.fabric.now_ns() < 1 << 30);
                if let Some(done) = ch.pop_finished() {
                    assert_done(&rig, &job, done);
                    break;
                }
            }
            if ch.in_flight() != 0 {
                finish(&rig, &mut ch, &job);
            }
        }
        assert_eq!(ch.channel().stats().completed, 4);
        assert_eq!(ch.channel().stats().violations, 0);
    }
}

#[test]
fn opening_and_closing_change_only_the_channels_own_bits_of_shared_registers() {
    for format in V0 {
        for location in BOTH {
            for kind in ChannelKind::ALL {
                let mut rig = rig(format, location, Irqs::One);
                let (mask, errors) = (of_kind(kind, 0x54, 0xa8), of_kind(kind, 0x90, 0xc4));
                let expect = |open: u32| match location {
                    Location::Local => (0x00ff_00ff & !(open | open << 16), open << 16),
                    // The mask is of the local line; messages go out whatever it says.
                    Location::Remote => (0x00ff_00ff, open),
                };
                let look = |rig: &Rig| (register(rig, mask), register(rig, errors));
                assert_eq!(look(&rig), expect(0), "{format} {location:?} {kind}");
                let a = rig.open(ChannelId { kind, index: 1 });
                assert_eq!(look(&rig), expect(0b10), "{format} {location:?} {kind}");
                let b = rig.open(ChannelId { kind, index: 0 });
                assert_eq!(look(&rig), expect(0b11), "{format} {location:?} {kind}");
                a.close().map_err(|(_, e)| e).unwrap();
                assert_eq!(look(&rig), expect(0b01), "{format} {location:?} {kind}");
                b.close().map_err(|(_, e)| e).unwrap();
                assert_eq!(look(&rig), expect(0), "{format} {location:?} {kind}");
            }
        }
    }
}

#[test]
fn native_channels_latch_by_local_enables_and_mask_only_what_is_no_news() {
    let (stop, watermark, abort) = (1, 2, 4);
    let (lsie, raie, laie) = (1 << 4, 1 << 5, 1 << 6);
    for (location, setup) in [
        (Location::Local, lsie | laie | stop),
        (Location::Remote, lsie | laie | raie | stop | watermark | abort),
    ] {
        let mut rig = rig(Format::HdmaNative, location, Irqs::One);
        let mut ch = open(&mut rig, ChannelId::write(1));
        assert_eq!(register(&rig, 0x230), 0, "watermarks come from the elements");
        run(&rig, &mut ch, Plan::segments(3, 64));
        assert_eq!(register(&rig, 0x288), setup, "{location:?}");
        // One watermark, from the last element; the end of the list told nobody.
        assert_eq!(rig.function.counters().interrupts_delivered(), 1, "{location:?}");
    }
}

#[test]
fn a_native_watermark_that_comes_after_its_element_was_seen_done_does_not_silence_the_channel() {
    for location in BOTH {
        let mut rig =
            rig_with(Format::HdmaNative, location, Irqs::PerChannel, |p| Params { prefetch: 1, ..p });
        let mut ch = open(&mut rig, ChannelId::write(0));
        for delay in (0..2_500).step_by(40) {
            let job = start(&rig, &mut ch, Plan::bytes(1024));
            rig.fabric.advance(delay);
            ch.poll_hardware().unwrap();
            finish(&rig, &mut ch, &job);
            rig.fabric.advance(5_000);
            run(&rig, &mut ch, Plan::bytes(10));
        }
        rig.fabric.advance(5_000);
        assert_eq!(register(&rig, 0x84) & 0x7 & !1, 0, "{location:?}: nothing stays asserted");
    }
}

#[test]
fn the_shared_pin_is_released_after_each_interrupt() {
    for format in Format::ALL {
        let mut params =
            Params { msix_vectors: 0, msi_vectors: 0, prefetch: 1, ..params(format, Location::Local, 2, 2) };
        if let Placement::Local { irq, .. } = &mut params.placement {
            *irq = LocalIrq::Intx;
        }
        let mut rig = Rig::new(params, Location::Local, Irqs::PerChannel, 1);
        assert_eq!(rig.irq.mode(), IrqMode::Intx);
        let mut ch = open_slots(&mut rig, ChannelId::read(0), 12);
        for delay in (0..2_500).step_by(100) {
            let job = start(&rig, &mut ch, Plan::segments(4, 300));
            rig.fabric.advance(delay);
            ch.poll_hardware().unwrap();
            finish(&rig, &mut ch, &job);
            rig.fabric.advance(3_000);
        }
        let before = rig.function.counters().interrupts_delivered();
        (0..20).for_each(|_| rig.fabric.advance(1_000));
        assert_eq!(rig.function.counters().interrupts_delivered(), before, "{format}: the pin storms");
        assert!(before < 100, "{format}: {before}");
    }
}

#[test]
fn emulated_interrupts_arrive_and_are_deasserted() {
    for format in V0 {
        let params = params(format, Location::Local, 2, 2);
        let mut rig =
            Rig::try_new(params, Location::Local, Irqs::One, 1, |c| Config { emulation: true, ..c }).unwrap();
        let offset = rig.shared.emulation_offset().expect("v0 has them");
        let told = Arc::new(AtomicU32::new(0));
        let (shared, count) = (rig.shared.clone(), told.clone());
        rig.irq.connect(
            0,
            Arc::new(move |_| {
                assert!(shared.on_irq().handled);
                count.fetch_add(1, Ordering::SeqCst);
            }),
        );
        let mut ch = open(&mut rig, ChannelId::write(0));
        for i in 1..4 {
            let job = start(&rig, &mut ch, Plan::bytes(2000));
            let before = told.load(Ordering::SeqCst);
            set_register(&rig, offset as u64, 0);
            rig.fabric.advance(1);
            assert_eq!(
                told.load(Ordering::SeqCst),
                before + 1,
                "{format}: asserted again, so it was deasserted"
            );
            finish(&rig, &mut ch, &job);
            assert_eq!(rig.handle.counters().emulated_interrupts, i);
        }
    }
    let native = rig(Format::HdmaNative, Location::Local, Irqs::One);
    assert_eq!(native.shared.emulation_offset(), None);
    let remote = rig(Format::Unroll, Location::Remote, Irqs::One);
    assert_eq!(remote.shared.emulation_offset(), None);
}

/// Registers of which every access needs the lock.
struct Guarded {
    registers: FakeMmio,
    held: AtomicBool,
    armed: AtomicBool,
    legacy: bool,
    sections: AtomicU32,
    unguarded: Mutex<Vec<usize>>,
}

impl Guarded {
    fn check(&self, offset: usize) {
        let shared = matches!(offset, 0x54 | 0xa8 | 0x90 | 0xc4 | 0x70..=0x7c | 0xdc..=0xe8);
        let viewport = self.legacy && (0xfc..0x124).contains(&offset);
        let armed = self.armed.load(Ordering::SeqCst);
        if (shared || viewport) && armed && !self.held.load(Ordering::SeqCst) {
            self.unguarded.lock().unwrap().push(offset);
        }
    }
}

impl Mmio for Guarded {
    fn size(&self) -> usize {
        self.registers.size()
    }
    fn read32(&self, offset: usize) -> u32 {
        self.check(offset);
        self.registers.read32(offset)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.check(offset);
        self.registers.write32(offset, value);
    }
    fn barrier(&self, barrier: Barrier) {
        self.registers.barrier(barrier);
    }
}

struct Lock(Arc<Guarded>);

impl RawLock for Lock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        assert!(!self.0.held.swap(true, Ordering::SeqCst), "the lock is taken twice");
        self.0.sections.fetch_add(1, Ordering::SeqCst);
        let result = section();
        self.0.held.store(false, Ordering::SeqCst);
        result
    }
}

#[test]
fn shared_registers_are_changed_and_the_viewport_is_used_only_under_the_lock() {
    for format in V0 {
        for location in BOTH {
            let io = Arc::new(Guarded {
                registers: FakeMmio::new(0x2000),
                held: AtomicBool::new(false),
                armed: AtomicBool::new(false),
                legacy: format == Format::Legacy,
                sections: AtomicU32::new(0),
                unguarded: Mutex::default(),
            });
            io.registers.poke32(0x8, 0x0002_0002);
            let config = Config::new(format, location);
            let shared = Arc::new(Shared::new(Window::new(io.clone()), Lock(io.clone()), config).unwrap());
            io.armed.store(true, Ordering::SeqCst);
            let mut control = Controller::new(shared.clone()).unwrap();
            let irq = messages(|v| Some(MsiMessage { address: 0xfee0_0000, data: 0x30 + u32::from(v) }));
            control.connect(&irq, Vectors::PerChannel).unwrap();
            for id in [ChannelId::write(1), ChannelId::read(0)] {
                let list = Arc::new(FakeMmio::new(0x400));
                let list = ListMemory::new(list, EngineAddr::new(0x1000)).map_err(|e| e.error).unwrap();
                let pool: HeapPool<Desc, Segment> = HeapPool::new(4, 16);
                let mut ch = control.open_channel(id, list, pool).unwrap();
                let sg = [raw(0x1000, 64)];
                let to = SlaveConfig::at(EngineAddr::new(0x9000));
                let flags = PrepFlags::INTERRUPT;
                let before = io.sections.load(Ordering::SeqCst);
                let d = ch.prep_slave_sg_config(&sg, ch.direction(), flags, Some(&to)).unwrap();
                ch.submit(d).unwrap();
                ch.issue_pending();
                shared.on_irq();
                let _ = ch.pop_completed();
                let taken = io.sections.load(Ordering::SeqCst) - before;
                assert_eq!(
                    taken == 0,
                    format != Format::Legacy,
                    "{format}: {taken} sections on the data path"
                );
                let _ = ch.poll_hardware();
                let _ = ch.terminate_all();
                assert!(ch.is_quiescent());
                ch.close().map_err(|(_, e)| e).unwrap();
            }
            assert_eq!(*io.unguarded.lock().unwrap(), [], "{format} {location:?}");
        }
    }
}

#[test]
fn channels_that_are_closed_on_many_threads_at_once_lose_none_of_each_others_bits() {
    for format in V0 {
        let mut rig = Rig::new(params(format, Location::Local, 8, 8), Location::Local, Irqs::One, 1);
        let _stays = [rig.open(ChannelId::write(3)), rig.open(ChannelId::read(6))];
        for _ in 0..8 {
            let ids: Vec<_> = all_ids(&rig)
                .into_iter()
                .filter(|id| ![ChannelId::write(3), ChannelId::read(6)].contains(id))
                .collect();
            std::thread::scope(|scope| {
                for id in ids {
                    let ch = rig.open(id);
                    scope.spawn(move || ch.close().map_err(|(_, e)| e).unwrap());
                }
            });
            for (mask, errors, bit) in [(0x54, 0x90, 1 << 3), (0xa8, 0xc4, 1 << 6)] {
                assert_eq!(register(&rig, mask), 0x00ff_00ff & !(bit | bit << 16), "{format}");
                assert_eq!(register(&rig, errors), bit << 16, "{format}");
            }
        }
    }
}
