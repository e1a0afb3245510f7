//! Buffers that go round between the stack and the device.

use alloc::vec::Vec;

/// Buffers of one size. None is made after the first ones: what is not here is with the device.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Vec<u8>>,
    size: usize,
}

impl Pool {
    /// `count` buffers of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let mut free = Vec::with_capacity(count);
        free.resize_with(count, || alloc::vec![0; size]);
        Self { free, size }
    }

    /// How many are here.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Takes one, of `size` bytes whatever it was used for.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.free.pop()
    }

    /// Gives one back. What does not have the pool's size (or could not grow to it without allocating) is
    /// of another pool, and is dropped; so is one too many.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() >= self.size && self.free.len() < self.free.capacity() {
            buffer.resize(self.size, 0);
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round_and_none_is_made() {
        let mut pool = Pool::new(2, 64);
        let mut one = pool.take().unwrap();
        let two = pool.take().unwrap();
        assert!(pool.take().is_none());
        one.truncate(10);
        pool.give(one);
        pool.give(two);
        pool.give(alloc::vec![0; 64]);
        pool.give(alloc::vec![0; 3]);
        assert_eq!(pool.available(), 2);
        assert!(pool.take().is_some_and(|buffer| buffer.len() == 64));
    }
}
