//! Memory and lock as two threads see them; under Miri with its weak memory and race detector.
#![cfg(feature = "std")]

use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::fake::HeapDma;
use tombolo_hal::lock::{RawLock, SpinLock};
use tombolo_hal::mmio::Mmio;

const ROUNDS: u32 = if cfg!(miri) { 8 } else { 100 };

/// A descriptor with its owner bit, written by one side and read by the other, in turns.
#[test]
fn what_was_written_before_the_barrier_is_seen_behind_the_owner_bit() {
    let ring = Coherent::new(HeapDma::new(), 32, &DmaConstraints::any()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                ring.write64_relaxed(8, u64::from(round) << 32 | u64::from(!round));
                ring.write32_relaxed(16, round);
                ring.barrier(Barrier::DmaWmb);
                ring.write32_relaxed(0, round);
                while ring.read32(4) != round {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=ROUNDS {
            while ring.read32_relaxed(0) != round {
                std::thread::yield_now();
            }
            ring.barrier(Barrier::DmaRmb);
            let seen = (ring.read32_relaxed(8), ring.read32_relaxed(12), ring.read32_relaxed(16));
            assert_eq!(seen, (!round, round, round));
            ring.write32(4, round);
        }
    });
    ring.free();
}

/// Plain memory behind the lock: any access that the lock does not order is a data race.
#[test]
fn the_lock_orders_plain_memory() {
    struct Guarded(SpinLock, std::cell::UnsafeCell<[u32; 2]>);
    // SAFETY: the cell is only used inside sections of the lock.
    unsafe impl Sync for Guarded {}
    impl Guarded {
        fn add(&self, to: usize) {
            self.0.with(|| {
                // SAFETY: as above.
                let pair = unsafe { &mut *self.1.get() };
                pair[to] += 1;
            });
        }
    }
    let shared = Guarded(SpinLock::new(), std::cell::UnsafeCell::new([0, 0]));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| shared.add(1)));
        (0..ROUNDS).for_each(|_| shared.add(0));
    });
    assert_eq!(shared.1.into_inner(), [ROUNDS, ROUNDS]);
}
