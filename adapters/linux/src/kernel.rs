//! What a program without an operating system must bring along: where memory comes from, and where a
//! panic goes.

use core::alloc::{GlobalAlloc, Layout};

use crate::shim::{tombolo_shim_alloc, tombolo_shim_free, tombolo_shim_panic};
use crate::text::Line;

/// The kernel's allocator, for probe and remove.
struct Kmalloc;

#[global_allocator]
static KMALLOC: Kmalloc = Kmalloc;

// SAFETY: kmalloc's memory is ours until it is freed, and the shim keeps to size and alignment.
unsafe impl GlobalAlloc for Kmalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a layout's alignment is a power of two.
        unsafe { tombolo_shim_alloc(layout.size(), layout.align()).cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { tombolo_shim_free(memory.cast()) }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let line = Line::<256>::new(format_args!("{info}"));
    let bytes = line.as_bytes();
    // SAFETY: the bytes are there.
    unsafe { tombolo_shim_panic(bytes.as_ptr().cast(), bytes.len()) }
}
