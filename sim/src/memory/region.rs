//! Bounds-checked atomic access to a range of bytes.

use super::MemoryError;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Width of every access but those at the edges of foreign memory.
pub(super) const WORD: usize = 4;

/// A region of bytes with bounds and atomic access; says nothing about who owns it.
///
/// Invariant: `base` is valid for reads and writes of `extent >= len` bytes for as long as the owner
/// keeps the region, and all concurrent accesses are atomic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub base: NonNull<u8>,
    pub len: usize,
    /// Bytes that may be touched by an access to a whole word.
    pub extent: usize,
}

impl Region {
    pub fn pointer(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !fits {
            return Err(MemoryError::OutOfRange { offset, len, size: self.len });
        }
        // SAFETY: `offset <= self.len`, so the result is inside the region or one past its end.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    /// The 32-bit word of which the byte at `offset` (inside the region) is a part, unless a part of
    /// it lies outside; and the position of the byte in it.
    fn word_around(&self, offset: usize) -> (Option<&AtomicU32>, usize) {
        let position = (self.base.addr().get() + offset) & (WORD - 1);
        let start = offset.checked_sub(position);
        let start = start.filter(|start| self.extent - start >= WORD);
        // SAFETY: four bytes from `start` lie inside the extent, and `start` is 4-aligned.
        let word = start.map(|start| unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(start).cast()) });
        (word, position)
    }

    /// One byte, which has no word of its own.
    fn byte(&self, offset: usize) -> &AtomicU8 {
        debug_assert!(offset < self.len);
        // SAFETY: callers checked that `offset` lies inside the region.
        unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset)) }
    }

    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), MemoryError> {
        let mut from = self.pointer(offset, data.len())?.cast_const();
        let (head, words) = split(from.addr(), data.len());
        let (first, rest) = data.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * WORD);
        self.read_part(offset, first);
        // SAFETY: `head` bytes are inside the checked range.
        from = unsafe { from.add(head) };
        for word in middle.chunks_exact_mut(WORD) {
            // SAFETY: inside the checked range and 4-aligned, because `head` bytes reach alignment.
            let value = unsafe { AtomicU32::from_ptr(from.cast_mut().cast()) }.load(Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            // SAFETY: stays within the checked range or one past its end.
            from = unsafe { from.add(WORD) };
        }
        self.read_part(offset + head + words * WORD, last);
        Ok(())
    }

    /// Reads fewer than four bytes that lie in one word and inside the region.
    fn read_part(&self, offset: usize, data: &mut [u8]) {
        if data.is_empty() {
            return;
        }
        match self.word_around(offset) {
            (Some(word), at) => {
                let bytes = word.load(Relaxed).to_ne_bytes();
                data.copy_from_slice(&bytes[at..at + data.len()]);
            }
            (None, _) => {
                for (index, byte) in data.iter_mut().enumerate() {
                    *byte = self.byte(offset + index).load(Relaxed);
                }
            }
        }
    }

    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), MemoryError> {
        let mut to = self.pointer(offset, data.len())?;
        let (head, words) = split(to.addr(), data.len());
        let (first, rest) = data.split_at(head);
        let (middle, last) = rest.split_at(words * WORD);
        self.write_part(offset, first);
        // SAFETY: `head` bytes are inside the checked range.
        to = unsafe { to.add(head) };
        for word in middle.chunks_exact(WORD) {
            let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            // SAFETY: inside the checked range and 4-aligned, because `head` bytes reach alignment.
            unsafe { AtomicU32::from_ptr(to.cast()) }.store(value, Relaxed);
            // SAFETY: stays within the checked range or one past its end.
            to = unsafe { to.add(WORD) };
        }
        self.write_part(offset + head + words * WORD, last);
        Ok(())
    }

    /// Writes fewer than four bytes that lie in one word and inside the region.
    fn write_part(&self, offset: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        match self.word_around(offset) {
            (Some(word), at) => {
                let merge = |old: u32| {
                    let mut bytes = old.to_ne_bytes();
                    bytes[at..at + data.len()].copy_from_slice(data);
                    Some(u32::from_ne_bytes(bytes))
                };
                // Never fails: `merge` always gives a value.
                let _ = word.fetch_update(Relaxed, Relaxed, merge);
            }
            (None, _) => {
                for (index, byte) in data.iter().enumerate() {
                    self.byte(offset + index).store(*byte, Relaxed);
                }
            }
        }
    }

    fn word(&self, offset: usize, width: usize) -> Result<&AtomicU32, MemoryError> {
        let pointer = self.pointer(offset, width)?;
        if pointer.addr() & (width - 1) != 0 {
            return Err(MemoryError::Misaligned { offset, width });
        }
        // SAFETY: in bounds and aligned, both checked.
        Ok(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    pub fn read_u32(&self, offset: usize) -> Result<u32, MemoryError> {
        Ok(u32::from_le(self.word(offset, 4)?.load(Relaxed)))
    }

    pub fn write_u32(&self, offset: usize, value: u32) -> Result<(), MemoryError> {
        self.word(offset, 4)?.store(value.to_le(), Relaxed);
        Ok(())
    }

    pub fn read_u64(&self, offset: usize) -> Result<u64, MemoryError> {
        self.word(offset, 8)?;
        let low = u64::from(self.read_u32(offset)?);
        Ok(u64::from(self.read_u32(offset + WORD)?) << 32 | low)
    }

    pub fn write_u64(&self, offset: usize, value: u64) -> Result<(), MemoryError> {
        self.word(offset, 8)?;
        self.write_u32(offset, value as u32)?;
        self.write_u32(offset + WORD, (value >> 32) as u32)
    }
}

/// Splits `len` bytes at `addr` into leading bytes and aligned 32-bit words; the rest is behind.
fn split(addr: usize, len: usize) -> (usize, usize) {
    let head = (addr.wrapping_neg() & (WORD - 1)).min(len);
    (head, (len - head) / WORD)
}
