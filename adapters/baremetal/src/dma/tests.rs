use core::ptr::NonNull;
use std::sync::Mutex;
use std::vec;
use std::vec::Vec;

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{self, DataDirection, DmaBackend, DmaConstraints, Streaming};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Mmio;

use super::*;

const ANY: DmaConstraints = DmaConstraints::any();

/// Records what it is asked to do.
#[derive(Default)]
struct Recorder(Mutex<Vec<(&'static str, usize, usize)>>);

// SAFETY: there is no cache in between in these tests.
unsafe impl CacheMaintenance for Recorder {
    fn line_size(&self) -> usize {
        64
    }
    unsafe fn clean(&self, start: NonNull<u8>, size: usize) {
        self.0.lock().unwrap().push(("clean", start.addr().get(), size));
    }
    unsafe fn invalidate(&self, start: NonNull<u8>, size: usize) {
        self.0.lock().unwrap().push(("invalidate", start.addr().get(), size));
    }
}

fn pool<H: CacheMaintenance>(bytes: usize, caches: H) -> &'static DmaPool<SpinLock, H, 16> {
    #[repr(align(64))]
    #[derive(Clone)]
    struct Line([u8; 64]);
    let memory: &'static mut [Line] = vec![Line([0xff; 64]); bytes / 64].leak();
    assert_eq!(memory[0].0[0], 0xff);
    let region =
        DmaRegion { cpu: NonNull::from(memory).cast(), device: DmaAddr::new(0x4000_0000), size: bytes };
    // SAFETY: the memory is leaked, and nobody else has it.
    std::boxed::Box::leak(unsafe { DmaPool::new(region, SpinLock::new(), caches) }.into())
}

#[test]
fn coherent_memory_is_zeroed_and_comes_back_when_it_is_freed() {
    let pool = pool(4096, Coherent);
    for _ in 0..100 {
        let memory = dma::Coherent::new(pool, 4096, &ANY).unwrap();
        assert_eq!(memory.device_address(), DmaAddr::new(0x4000_0000));
        assert_eq!((memory.read32(0), memory.read32(4092)), (0, 0));
        memory.write32(4092, 7);
        memory.free();
    }
    assert_eq!((pool.in_use(), pool.quarantined()), (0, 0));
}

#[test]
fn quarantined_memory_is_never_reused() {
    let pool = pool(4096, Coherent);
    let first = dma::Coherent::new(pool, 1000, &ANY).unwrap();
    let bad = first.device_address();
    first.quarantine();
    drop(dma::Coherent::new(pool, 8, &ANY).unwrap());
    assert_eq!(pool.quarantined(), 2);
    for _ in 0..50 {
        let other = dma::Coherent::new(pool, 2048, &ANY).unwrap();
        assert!(other.device_address().value() >= bad.value() + 1000);
        other.free();
    }
    assert_eq!(pool.in_use(), 1008);
}

#[test]
fn errors_say_what_is_missing() {
    let pool = pool(4096, Coherent);
    let low = DmaConstraints { mask: 0xfff_ffff, ..ANY };
    let error = dma::Coherent::new(pool, 64, &low).unwrap_err();
    let expected = DmaError::NoRoom { size: 64, mask: 0xfff_ffff, align: 1, in_use: 0, pool: 4096 };
    assert_eq!(error, expected);
    assert_eq!(dma::Coherent::new(pool, 0, &ANY).unwrap_err(), DmaError::Empty);
    assert!(matches!(pool.buffer(usize::MAX - 7, &ANY), Err(DmaError::NoRoom { .. })));
    let held: Vec<_> = (0..16).map(|_| pool.buffer(8, &ANY).unwrap()).collect();
    assert_eq!(pool.buffer(8, &ANY).unwrap_err(), DmaError::TableFull { limit: 16 });
    drop(held);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn buffers_go_to_the_device_and_back_and_to_the_pool_when_dropped() {
    let pool = pool(4096, Coherent);
    let mut buffer = pool.buffer(100, &ANY.aligned(256)).unwrap();
    buffer.copy_from_slice(&[9; 100]);
    let prepared = Streaming::prepare(pool, buffer, DataDirection::ToDevice, &ANY).unwrap();
    assert_eq!(prepared.device_address(), DmaAddr::new(0x4000_0000));
    let buffer = prepared.cancel();
    assert_eq!(*buffer, [9; 100]);
    drop(buffer);
    assert_eq!(pool.in_use(), 0);
    assert_eq!(*pool.buffer(100, &ANY).unwrap(), [0; 100], "zeroed again");
}

#[test]
fn memory_elsewhere_is_mapped_only_if_it_was_named() {
    let memory: &'static mut [u64] = vec![0u64; 1024].leak();
    let cpu = NonNull::from(&mut *memory).cast::<u8>();
    let start = cpu.addr().get();
    let region = DmaRegion { cpu, device: DmaAddr::new(0x1000), size: 4096 };
    let (_, rest) = memory.split_at_mut(512);
    // SAFETY: the pool has the first half, the second is used through `outside` only.
    let pool = unsafe { DmaPool::<_, _, 4>::new(region, SpinLock::new(), Coherent) };
    let pool = &*std::boxed::Box::leak(std::boxed::Box::new(pool.with_ram(start, 6144)));
    let outside = NonNull::from(rest).cast::<u8>();
    let map = |offset: usize, size| {
        // SAFETY: nobody touches it.
        unsafe { pool.map_streaming(outside.add(offset), size, DataDirection::FromDevice, &ANY) }
    };
    assert_eq!(map(16, 100).unwrap().device, DmaAddr::new(0x1000 + 4096 + 16));
    assert!(matches!(map(2048, 100), Err(DmaError::Unreachable { .. })));
    assert!(matches!(map(2000, 100), Err(DmaError::Unreachable { .. })));
    pool.quarantine_streaming(map(0, 8).unwrap());
    assert_eq!(pool.quarantined(), 1);
    pool.quarantine_streaming(map(8, 8).unwrap());
    assert_eq!(pool.quarantined(), 2);
}

#[test]
fn caches_are_cleaned_before_the_device_and_invalidated_after_it_wrote() {
    let pool = pool(4096, Recorder::default());
    let map = |direction| {
        let mut buffer = pool.buffer(100, &ANY).unwrap();
        let at = buffer.as_mut_ptr().addr();
        assert_eq!(at % 64, 0, "whole cache lines");
        let region = Streaming::prepare(pool, buffer, direction, &ANY).unwrap();
        drop(region.cancel());
        let trace = core::mem::take(&mut *pool.caches().0.lock().unwrap());
        assert!(trace.iter().all(|(_, start, size)| (*start, *size) == (at, 100)));
        trace.iter().map(|(what, _, _)| *what).collect::<Vec<_>>()
    };
    assert_eq!(map(DataDirection::ToDevice), ["clean"]);
    assert_eq!(map(DataDirection::FromDevice), ["clean", "invalidate"]);
    assert_eq!(map(DataDirection::Bidirectional), ["clean", "invalidate"]);
    let (a, b) = (pool.buffer(1, &ANY).unwrap(), pool.buffer(1, &ANY).unwrap());
    assert!(b.as_ptr().addr().abs_diff(a.as_ptr().addr()) >= 64, "no line is shared");
}

#[test]
fn memory_elsewhere_that_shares_cache_lines_is_refused() {
    let memory: &'static mut [u64] = vec![0u64; 1024].leak();
    let cpu = NonNull::from(&mut *memory).cast::<u8>();
    let start = cpu.addr().get();
    let skip = start.next_multiple_of(64) - start;
    let region = DmaRegion { cpu, device: DmaAddr::new(0), size: 4096 };
    // SAFETY: nobody else has it.
    let pool = unsafe { DmaPool::<_, _, 4>::new(region, SpinLock::new(), Recorder::default()) };
    let pool = &pool.with_ram(start, 8192);
    let map = |offset: usize, size| {
        // SAFETY: as above; the range lies behind the region.
        unsafe { pool.map_streaming(cpu.add(4096 + offset), size, DataDirection::FromDevice, &ANY) }
    };
    assert!(map(skip, 128).is_ok());
    assert!(matches!(map(skip, 100), Err(DmaError::CacheLine { line: 64, .. })));
    assert!(matches!(map(skip + 8, 128), Err(DmaError::CacheLine { .. })));
}
