//! Who handles which interrupt.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tombolo_hal::lock::RawLock;

use super::IrqError;

/// What runs when an interrupt arrives: a driver's `on_irq`, or a closure that calls it.
pub trait IrqHandler: Sync {
    /// Runs with interrupts masked; uses atomics only, and is short.
    fn on_irq(&self);
}

impl<F: Fn() + Sync> IrqHandler for F {
    fn on_irq(&self) {
        self();
    }
}

struct Slot {
    handler: Cell<Option<&'static dyn IrqHandler>>,
    count: AtomicU32,
}

/// The handlers of `N` interrupts, numbered from 0, and how often each came.
pub struct IrqTable<L, const N: usize> {
    lock: L,
    slots: [Slot; N],
    unexpected: AtomicU32,
}

// SAFETY: handlers are `Sync`, and their cells are only used inside `lock`.
unsafe impl<L: RawLock, const N: usize> Sync for IrqTable<L, N> {}

impl<L: RawLock, const N: usize> IrqTable<L, N> {
    /// Without handlers.
    pub const fn new(lock: L) -> Self {
        let slots = [const { Slot { handler: Cell::new(None), count: AtomicU32::new(0) } }; N];
        Self { lock, slots, unexpected: AtomicU32::new(0) }
    }

    /// Sets the handler of interrupt `number`, or takes it away. After it was taken away it does not run
    /// any more.
    ///
    /// # Errors
    /// [`IrqError::NoSuchInterrupt`].
    pub fn set(&self, number: u32, handler: Option<&'static dyn IrqHandler>) -> Result<(), IrqError> {
        let slot = self.slot(number).ok_or(IrqError::NoSuchInterrupt { number, limit: N })?;
        self.lock.with(|| slot.handler.set(handler));
        Ok(())
    }

    /// Interrupt `number` has come. For the platform's exception vector.
    pub fn dispatch(&self, number: u32) {
        let slot = self.slot(number);
        if let Some(slot) = slot {
            slot.count.fetch_add(1, Relaxed);
        }
        match slot.and_then(|slot| self.lock.with(|| slot.handler.get())) {
            Some(handler) => handler.on_irq(),
            None => {
                self.unexpected.fetch_add(1, Relaxed);
            }
        }
    }

    /// How often interrupt `number` came. Wraps.
    pub fn count(&self, number: u32) -> u32 {
        self.slot(number).map_or(0, |slot| slot.count.load(Relaxed))
    }

    /// How often an interrupt came that nobody handles. Wraps.
    pub fn unexpected(&self) -> u32 {
        self.unexpected.load(Relaxed)
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(usize::try_from(number).ok()?)
    }
}

impl<L, const N: usize> core::fmt::Debug for IrqTable<L, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("IrqTable").field("unexpected", &self.unexpected).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_hal::lock::SpinLock;

    #[test]
    fn handlers_run_for_their_own_interrupt_and_are_counted() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let table = IrqTable::<_, 4>::new(SpinLock::new());
        table.set(2, Some(&|| CALLS.store(CALLS.load(Relaxed) + 1, Relaxed))).unwrap();
        for number in [2, 3, 2, 7] {
            table.dispatch(number);
        }
        assert_eq!((CALLS.load(Relaxed), table.count(2), table.count(3)), (2, 2, 1));
        assert_eq!(table.unexpected(), 2);
        table.set(2, None).unwrap();
        table.dispatch(2);
        assert_eq!((CALLS.load(Relaxed), table.unexpected()), (2, 3));
        assert_eq!(table.set(4, None), Err(IrqError::NoSuchInterrupt { number: 4, limit: 4 }));
    }
}
