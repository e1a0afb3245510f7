//! Which of a controller's interrupts are free.

use super::IrqError;

/// `N` interrupts, given out in rows.
#[derive(Clone, Debug)]
pub struct Blocks<const N: usize> {
    used: [bool; N],
}

impl<const N: usize> Default for Blocks<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Blocks<N> {
    /// All are free.
    pub const fn new() -> Self {
        Self { used: [false; N] }
    }

    /// The first of `count` free interrupts in a row, at a multiple of `count` rounded up to a power of two,
    /// as MSI needs them.
    ///
    /// # Errors
    /// [`IrqError::NoVectors`], [`IrqError::NoneFree`].
    pub fn take(&mut self, count: u16) -> Result<u32, IrqError> {
        let length = usize::from(count);
        if length == 0 {
            return Err(IrqError::NoVectors);
        }
        for first in (0..N).step_by(length.next_power_of_two()) {
            if let Some(row) = self.used.get_mut(first..first + length)
                && row.iter().all(|used| !used)
            {
                row.fill(true);
                return Ok(first as u32);
            }
        }
        let free = self.used.iter().filter(|used| !**used).count();
        Err(IrqError::NoneFree { wanted: count, free, limit: N })
    }

    /// Takes these, free or not.
    pub(super) fn mark(&mut self, first: u32, count: u16) {
        let first = first as usize;
        if let Some(row) = self.used.get_mut(first..first.saturating_add(count.into())) {
            row.fill(true);
        }
    }

    /// Takes what is not free in `other` either.
    pub(super) fn merge(&mut self, other: &Self) {
        for (used, also) in self.used.iter_mut().zip(other.used) {
            *used |= also;
        }
    }

    /// Gives them back.
    pub fn give_back(&mut self, first: u32, count: u16) {
        let first = first as usize;
        if let Some(row) = self.used.get_mut(first..first.saturating_add(count.into())) {
            row.fill(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_and_come_back() {
        let mut blocks = Blocks::<12>::new();
        assert_eq!((blocks.take(1), blocks.take(3), blocks.take(4)), (Ok(0), Ok(4), Ok(8)));
        assert_eq!(blocks.take(2), Ok(2));
        assert_eq!(blocks.take(4), Err(IrqError::NoneFree { wanted: 4, free: 2, limit: 12 }));
        blocks.give_back(4, 3);
        blocks.give_back(11, 9);
        assert_eq!(blocks.take(4), Ok(4));
        assert_eq!(blocks.take(0), Err(IrqError::NoVectors));
        assert!(blocks.take(u16::MAX).is_err());
    }
}
