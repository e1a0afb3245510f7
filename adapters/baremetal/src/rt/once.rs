//! What is set once at the start and read from then on.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const SETTING: u8 = 1;
const SET: u8 = 2;

/// A value that is set once.
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written by the one who changed the state from empty, before anybody can read it, and only
// read after that.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(None) }
    }

    /// Sets it.
    ///
    /// # Panics
    /// If it was set before.
    pub fn set(&'static self, value: T) -> &'static T {
        let mine = self.state.compare_exchange(EMPTY, SETTING, Ordering::Acquire, Ordering::Relaxed);
        assert!(mine.is_ok(), "set twice");
        // SAFETY: only this call has changed the state from empty, and nobody reads before it says "set".
        let value = unsafe { (*self.value.get()).insert(value) };
        self.state.store(SET, Ordering::Release);
        value
    }

    /// The value, if it was set. For interrupt handlers.
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    pub fn get(&'static self) -> Option<&'static T> {
        if self.state.load(Ordering::Acquire) != SET {
            return None;
        }
        // SAFETY: it was set, and nobody writes it any more.
        unsafe { (*self.value.get()).as_ref() }
    }
}
