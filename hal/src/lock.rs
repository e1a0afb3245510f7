//! The lock for registers that several channels share.
//!
//! It guards short read-modify-write sequences of device registers, nothing else, and never on a
//! data path (the legacy viewport of an eDMA is the one exception).

/// Runs short sections one at a time.
///
/// In the kernel an irq-saving spinlock, on bare metal a critical section, in userspace
/// [`SpinLock`] or a mutex, in tests whatever counts. An implementation must keep an interrupt
/// handler that takes the same lock from dead-locking with the section it interrupts.
pub trait RawLock: Send + Sync {
    /// Runs `section` while no other section of this lock runs.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;
}

impl<L: RawLock> RawLock for &L {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        (**self).with(section)
    }
}

/// A spinlock for threads of one process. It does not mask interrupts.
#[derive(Debug, Default)]
pub struct SpinLock {
    held: core::sync::atomic::AtomicBool,
}

impl SpinLock {
    /// An open lock.
    pub const fn new() -> Self {
        Self { held: core::sync::atomic::AtomicBool::new(false) }
    }
}

/// Opens the lock again even if the section unwinds.
struct Held<'a>(&'a SpinLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.store(false, core::sync::atomic::Ordering::Release);
    }
}

impl RawLock for SpinLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        use core::sync::atomic::Ordering::{Acquire, Relaxed};
        while self.held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            core::hint::spin_loop();
        }
        let _held = Held(self);
        section()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_two_threads_do_not_mix() {
        let lock = SpinLock::new();
        let sum = core::sync::atomic::AtomicU32::new(0);
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..rounds {
                        lock.with(|| sum.store(sum.load(relaxed) + 1, relaxed));
                    }
                });
            }
        });
        assert_eq!(sum.load(relaxed), 2 * rounds);
    }

    #[test]
    fn opens_again_when_a_section_unwinds() {
        let lock = SpinLock::new();
        let unwound =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.with(|| panic!("section"))));
        assert!(unwound.is_err());
        assert_eq!(lock.with(|| 5), 5);
    }
}
