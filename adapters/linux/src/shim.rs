//! What the shim does for Rust: the C functions of `shim/support.c` and `shim/dma.c`.

use core::ffi::{c_char, c_void};

unsafe extern "C" {
    /// Reads 1, 2 or 4 bytes of config space at `offset`. All ones where there is nothing.
    ///
    /// # Safety
    /// `function` is the shim's PCI device; `width` is 1, 2 or 4 and `offset` a multiple of it.
    pub fn tombolo_shim_config_read(function: *mut c_void, offset: u16, width: u32) -> u32;

    /// Writes 1, 2 or 4 bytes of config space at `offset`.
    ///
    /// # Safety
    /// As for reading.
    pub fn tombolo_shim_config_write(function: *mut c_void, offset: u16, width: u32, value: u32);

    /// Takes a raw spinlock with interrupts off; the result is for the unlock.
    ///
    /// # Safety
    /// `lock` is an initialised raw spinlock that this CPU does not hold.
    pub fn tombolo_shim_lock(lock: *mut c_void) -> usize;

    /// Opens the lock again.
    ///
    /// # Safety
    /// This CPU holds it, and `flags` is what locking returned.
    pub fn tombolo_shim_unlock(lock: *mut c_void, flags: usize);

    /// Memory for Rust, or null. In contexts that may sleep.
    ///
    /// # Safety
    /// `align` is a power of two.
    pub fn tombolo_shim_alloc(size: usize, align: usize) -> *mut c_void;

    /// Gives it back.
    ///
    /// # Safety
    /// `memory` came from `tombolo_shim_alloc` and is not used any more.
    pub fn tombolo_shim_free(memory: *mut c_void);

    /// Prints one line. `level` is that of printk: 3 error, 4 warning, 6 info, 7 debug (dynamic).
    ///
    /// # Safety
    /// `text` is valid for `length` bytes; `device` is null or a `struct device`.
    pub fn tombolo_shim_log(device: *const c_void, level: u32, text: *const c_char, length: usize);

    /// Prints the text and ends in `BUG()`.
    ///
    /// # Safety
    /// `text` is valid for `length` bytes.
    pub fn tombolo_shim_panic(text: *const c_char, length: usize) -> !;

    /// `dma_alloc_coherent`, zeroed. Null if there is none.
    ///
    /// # Safety
    /// `device` is a `struct device`; `address` is valid for a write. In contexts that may sleep.
    pub fn tombolo_shim_dma_alloc(device: *mut c_void, size: usize, address: *mut u64) -> *mut c_void;

    /// `dma_free_coherent`.
    ///
    /// # Safety
    /// The memory came from `tombolo_shim_dma_alloc` with this size and is not used any more.
    pub fn tombolo_shim_dma_free(device: *mut c_void, size: usize, memory: *mut c_void, address: u64);

    /// `dma_map_single`; 0 if mapped. `direction` is Linux's `enum dma_data_direction`.
    ///
    /// # Safety
    /// `memory` is `size` bytes that the CPU does not touch until they are unmapped; `address` is valid
    /// for a write.
    pub fn tombolo_shim_dma_map(
        device: *mut c_void,
        memory: *mut c_void,
        size: usize,
        direction: u32,
        address: *mut u64,
    ) -> i32;

    /// `dma_unmap_single`.
    ///
    /// # Safety
    /// The mapping came from `tombolo_shim_dma_map` with this size and direction.
    pub fn tombolo_shim_dma_unmap(device: *mut c_void, address: u64, size: usize, direction: u32);

    /// `dma_sync_single_for_cpu` or, if `for_device`, `dma_sync_single_for_device`.
    ///
    /// # Safety
    /// The bytes lie inside a mapping with this direction.
    pub fn tombolo_shim_dma_sync(
        device: *mut c_void,
        address: u64,
        size: usize,
        direction: u32,
        for_device: i32,
    );
}
