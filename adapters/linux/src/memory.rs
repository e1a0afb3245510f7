//! Memory that the shim lends, cut up for Rust; and boxes whose allocation may fail.

use core::alloc::Layout;
use core::ffi::c_void;
use core::mem::MaybeUninit;

use alloc::boxed::Box;

use dw_edma::{Desc, Segment};
use tombolo_hal::dmaengine::{DescriptorSlot, SegmentSlot, SlicePool};

use crate::abi::Room;

/// A channel's descriptors, in memory of the shim.
pub type LentPool = SlicePool<'static, Desc, Segment>;

/// Descriptors that a handle can name.
const MAX_DESCRIPTORS: u32 = u16::MAX as u32;
/// Segments in one piece of kmalloc's largest size (4 MiB).
const MAX_SEGMENTS: u32 = 1 << 16;

/// Where the two parts of a pool are in a piece of memory: its layout, and the offset of the segments.
pub fn pool_layout(descriptors: u32, segments: u32) -> Option<(Layout, usize)> {
    let slots = Layout::array::<DescriptorSlot<Desc>>(descriptors as usize).ok()?;
    let places = Layout::array::<SegmentSlot<Segment>>(segments as usize).ok()?;
    slots.extend(places).ok()
}

/// Takes a piece of memory for a pool.
///
/// # Safety
/// `memory` is aligned for and has [`pool_layout`]'s size, and is nobody else's until the pool is gone.
/// The `'static` stands for that promise.
pub unsafe fn lend_pool(memory: *mut c_void, descriptors: u32, segments: u32) -> Option<LentPool> {
    let (_, offset) = pool_layout(descriptors, segments)?;
    if memory.is_null() {
        return None;
    }
    let slots = memory.cast::<MaybeUninit<DescriptorSlot<Desc>>>();
    // SAFETY: the caller's promise; the offset is inside.
    let places = unsafe { memory.cast::<u8>().add(offset) }.cast::<MaybeUninit<SegmentSlot<Segment>>>();
    // SAFETY: the caller's promise: this many fit, and are ours.
    unsafe {
        Some(SlicePool {
            descriptors: fill(core::slice::from_raw_parts_mut(slots, descriptors as usize)),
            segments: fill(core::slice::from_raw_parts_mut(places, segments as usize)),
        })
    }
}

fn fill<T: Copy + Default>(memory: &'static mut [MaybeUninit<T>]) -> &'static mut [T] {
    for place in memory.iter_mut() {
        place.write(T::default());
    }
    let (start, count) = (memory.as_mut_ptr().cast::<T>(), memory.len());
    // SAFETY: all of it was just written.
    unsafe { core::slice::from_raw_parts_mut(start, count) }
}

/// How large a pool should become that has `now` and lacked room for `segments` more. `None` if it
/// is as large as it may be.
pub fn larger(now: Room, segments: u32) -> Option<Room> {
    let grow = |n: u32, need: u32, max: u32| n.saturating_mul(2).max(need).min(max);
    let wanted = Room {
        descriptors: grow(now.descriptors, 1, MAX_DESCRIPTORS),
        segments: grow(now.segments, now.segments.saturating_add(segments), MAX_SEGMENTS),
    };
    let enough = wanted.segments.saturating_sub(now.segments) >= segments;
    let more = wanted.descriptors > now.descriptors || (segments != 0 && wanted.segments > now.segments);
    (more && enough).then_some(wanted)
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// `Box::new` that can fail.
///
/// # Errors
/// [`OutOfMemory`]; the value is dropped.
pub fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: the size is not 0.
    let place = unsafe { alloc::alloc::alloc(Layout::new::<T>()) }.cast::<T>();
    if place.is_null() {
        return Err(OutOfMemory);
    }
    // SAFETY: fresh memory of T's layout from the global allocator, which is what a box owns.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place))
    }
}
