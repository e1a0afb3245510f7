//! Copies of memory that a device may change meanwhile: word by word, volatile.

use std::ptr::NonNull;

/// Zeroes `len` bytes, a multiple of 8.
///
/// # Safety
/// `to` is aligned to 8 and valid for writes of `len` bytes.
pub(super) unsafe fn clear(to: NonNull<u8>, len: usize) {
    for offset in (0..len & !7).step_by(8) {
        // SAFETY: inside and aligned, by the caller's promise.
        unsafe { to.add(offset).cast::<u64>().write_volatile(0) }
    }
}

/// Copies `len` bytes; either side may be shared with the device.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes; they do not overlap.
pub(super) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    let mut offset = 0;
    while offset < len {
        // SAFETY: `offset` is inside both.
        let (from, to) = unsafe { (from.add(offset), to.add(offset)) };
        let words = (from.as_ptr().addr() | to.as_ptr().addr()) & 7 == 0 && len - offset >= 8;
        // SAFETY: inside and aligned.
        unsafe {
            if words {
                to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile());
            } else {
                to.write_volatile(from.read_volatile());
            }
        }
        offset += if words { 8 } else { 1 };
    }
}

/// Makes each page of a buffer the buffer's own: one that was never written is the kernel's shared page
/// of zeroes until then, and an older kernel would pin that one for a device that only reads.
///
/// # Safety
/// `at` is valid for reads and writes of `len` bytes that nobody else accesses.
pub(super) unsafe fn touch(at: NonNull<u8>, len: usize, page: usize) {
    for offset in (0..len).step_by(page) {
        // SAFETY: inside.
        unsafe {
            let byte = at.add(offset);
            byte.write_volatile(byte.read_volatile());
        }
    }
}
