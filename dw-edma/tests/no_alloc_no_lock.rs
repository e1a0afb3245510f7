//! Between prep and completion nothing allocates, and no format but the legacy one takes the lock.

#[path = "../benches/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrayvec::ArrayVec;
use dw_edma::{Format, Mode, Peripheral};
use support::{Chan, PlainEngine, SEGMENT_BYTES, config, segments, transfer};
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{
    Completion, Direction, DmaChannel, Event, OwnedTransfers, PrepFlags, SlaveConfig, TxResult, TxStatus,
};
use tombolo_hal::fake::HeapDma;
use tombolo_hal::lock::RawLock;

/// Counts what each thread does, so that tests that run side by side do not disturb each other.
struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may allocate when its counter is gone already; nobody measures there.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: everything is the system allocator's work; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Counts how often it is taken.
#[derive(Default)]
struct CountingLock(AtomicUsize);

impl RawLock for CountingLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Relaxed);
        section()
    }
}

/// How often `work` allocated or freed, and took the lock.
fn counted(lock: &CountingLock, work: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATIONS.get(), lock.0.load(Relaxed));
    work();
    (ALLOCATIONS.get() - before.0, lock.0.load(Relaxed) - before.1)
}

type Engine<'l> = PlainEngine<&'l CountingLock>;
type Channel<'l> = Chan<&'l CountingLock>;

/// What the viewport of the legacy format needs: one selection for each look at a channel register.
/// A transfer that finds the list empty has two: whether the engine rests, and afterwards how far it
/// came. The very first points the engine at its list instead of asking whether it rests.
fn viewport(format: Format, looks: usize) -> usize {
    if format == Format::Legacy { looks } else { 0 }
}

fn whole(completion: Completion) {
    assert_eq!((completion.event, completion.result), (Event::Finished, TxResult::NoError));
    assert_eq!(completion.residue, 0);
}

fn submit(channel: &mut Channel, count: usize, flags: PrepFlags, config: &SlaveConfig<Peripheral>) {
    let sg: ArrayVec<_, 32> = ArrayVec::from_iter(
        // SAFETY: nothing reads or writes there: the engine is memory.
        (0..count as u64).map(|i| unsafe {
            tombolo_hal::dmaengine::SgEntry::from_raw(
                tombolo_hal::DmaAddr::new((1 << 40) + i * SEGMENT_BYTES),
                SEGMENT_BYTES,
            )
        }),
    );
    let descriptor = channel.prep_slave_sg_config(&sg, Direction::MemToDev, flags, Some(config)).unwrap();
    channel.submit(descriptor).unwrap();
}

#[test]
fn the_counters_count() {
    let lock = CountingLock::default();
    let work = || drop(std::hint::black_box(vec![lock.with(|| 1u8)]));
    assert_eq!(counted(&lock, work), (2, 1));
}

#[test]
fn a_transfer_allocates_nothing_and_takes_no_lock() {
    for format in Format::ALL {
        for count in [1, 16, 256] {
            let lock = CountingLock::default();
            let (mut engine, mut channel) = PlainEngine::open(format, &lock, 300);
            let (sg, config) = (segments(count), config());
            let mut once = || whole(transfer(&mut engine, &mut channel, &sg, &config));
            assert_eq!(counted(&lock, &mut once), (0, viewport(format, 2)), "{format} {count}");
            for _ in 0..5 {
                assert_eq!(counted(&lock, &mut once), (0, viewport(format, 2)), "{format} {count}");
            }
        }
    }
}

/// A transfer of 30 segments through a ring of 8, which takes several interrupts and laps.
fn longer_than_the_list(engine: &mut Engine, channel: &mut Channel) -> usize {
    submit(channel, 30, PrepFlags::INTERRUPT, &config());
    channel.issue_pending();
    let mut looks = 0;
    loop {
        let moved = channel.stats().segments;
        engine.interrupt((moved - engine.moved()) as u32);
        looks += 1;
        if let Some(completion) = channel.pop_completed() {
            whole(completion);
            return looks;
        }
        // The list was empty when more was handed over.
        looks += 1;
        assert!(channel.stats().segments > moved, "nothing more was handed over");
    }
}

#[test]
fn a_transfer_longer_than_the_list_and_appended_ones_allocate_nothing() {
    for format in Format::ALL {
        let lock = CountingLock::default();
        let (mut engine, mut channel) = PlainEngine::open(format, &lock, 8);
        let config = config();
        let mut looks = 0;
        let work = || {
            looks += longer_than_the_list(&mut engine, &mut channel);
            // Three at once, of which the last one's interrupt tells of all.
            for flags in [PrepFlags::QUIET, PrepFlags::QUIET, PrepFlags::INTERRUPT] {
                submit(&mut channel, 2, flags, &config);
                channel.issue_pending();
            }
            engine.interrupt(6);
            looks += 2;
            (0..3).for_each(|_| whole(channel.pop_completed().unwrap()));
            assert_eq!(channel.pop_completed(), None);
        };
        let (allocations, locks) = counted(&lock, work);
        assert_eq!((allocations, locks), (0, viewport(format, looks + 1)), "{format}");
    }
}

#[test]
fn cyclic_periods_pauses_and_questions_allocate_nothing() {
    for format in Format::ALL {
        let lock = CountingLock::default();
        let (mut engine, mut channel) = PlainEngine::open(format, &lock, 32);
        channel.configure(&config()).unwrap();
        let [buffer] = segments(1)[..] else { unreachable!() };
        let work = || {
            let descriptor = channel
                .prep_dma_cyclic(buffer, SEGMENT_BYTES / 4, Direction::MemToDev, PrepFlags::INTERRUPT)
                .unwrap();
            let cookie = channel.submit(descriptor).unwrap();
            channel.issue_pending();
            for period in 0..40 {
                engine.interrupt(1);
                let completion = channel.pop_completed().unwrap();
                assert_eq!(completion.event, Event::Period { index: period % 4 });
                assert_eq!(channel.status(cookie).status, TxStatus::InProgress);
                channel.pause().unwrap();
                channel.resume().unwrap();
            }
        };
        let (allocations, locks) = counted(&lock, work);
        assert_eq!((allocations, locks), (0, viewport(format, 41)), "{format}");
    }
}

#[test]
fn transfers_from_registers_allocate_nothing_and_take_no_lock() {
    let lock = CountingLock::default();
    let (mut engine, mut channel) = PlainEngine::open(Format::HdmaNative, &lock, 8);
    let config = SlaveConfig { peripheral: Peripheral { mode: Some(Mode::NonList) }, ..config() };
    let work = || {
        submit(&mut channel, 3, PrepFlags::INTERRUPT, &config);
        channel.issue_pending();
        for _ in 0..2 {
            engine.interrupt_single();
            assert_eq!(channel.pop_completed(), None);
        }
        engine.interrupt_single();
        whole(channel.pop_completed().unwrap());
    };
    assert_eq!(counted(&lock, work), (0, 0));
}

#[test]
fn owned_buffers_travel_without_allocation() {
    for format in Format::ALL {
        let lock = CountingLock::default();
        let (mut engine, channel) = PlainEngine::open(format, &lock, 32);
        let mut transfers: OwnedTransfers<Channel, HeapDma, Vec<u8>, 4, 8> = OwnedTransfers::new(channel);
        let (dma, config, any) = (HeapDma::new(), config(), DmaConstraints::any());
        let mut memory: ArrayVec<Vec<u8>, 8> = (0..8).map(|i| vec![i; 64]).collect();
        let work = || {
            for _ in 0..3 {
                let buffers = memory
                    .drain(..)
                    .map(|m| Streaming::prepare(dma.clone(), m, DataDirection::ToDevice, &any).unwrap())
                    .collect();
                transfers.submit(buffers, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&config)).unwrap();
                transfers.issue_pending();
                engine.interrupt(8);
                let finished = transfers.pop_finished().unwrap();
                whole(finished.completion);
                memory.extend(finished.buffers.into_iter().map(Streaming::into_inner));
            }
        };
        let (allocations, locks) = counted(&lock, work);
        assert_eq!((allocations, locks), (0, viewport(format, 6)), "{format}");
        assert!(memory.iter().enumerate().all(|(i, m)| *m == [i as u8; 64]));
    }
}
