//! Tries, in the running kernel, what the kernel gives to Rust: the module parameter `selftest`.
//!
//! An engine across the link keeps its lists behind a BAR, so `tombolo_edma` needs no DMA memory of its
//! own; this is what says that the binding for drivers that do is right on this machine.

use core::ffi::c_void;
use core::ptr::NonNull;

use alloc::boxed::Box;

use tombolo_hal::dma::{Coherent, DataDirection, DmaConstraints, Streaming};
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::Mmio;

use crate::dma::{DmaError, KernelDma};
use crate::lock::KernelLock;
use crate::memory::{OutOfMemory, try_box};

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// There is no memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// There is no DMA memory.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// Something does not hold what was put in.
    #[error("{0} does not hold what was put in")]
    Wrong(&'static str),
}

/// How many bytes of coherent memory are tried.
const SIZE: usize = 8192;

/// Tries all of it.
///
/// # Safety
/// `device` is a `struct device` with its DMA mask set, `lock` an initialised raw spinlock that is not
/// held. May sleep.
///
/// # Errors
/// [`SelfTestError`].
pub unsafe fn run(device: NonNull<c_void>, lock: NonNull<c_void>) -> Result<(), SelfTestError> {
    // SAFETY: the caller's promise.
    let (dma, lock) = unsafe { (KernelDma::new(device), KernelLock::new(lock)) };
    if lock.with(|| 7) + lock.with(|| 8) != 15 {
        return Err(SelfTestError::Wrong("the lock"));
    }
    let boxed = try_box([0x5au8; 512])?;
    if boxed.iter().any(|byte| *byte != 0x5a) {
        return Err(SelfTestError::Wrong("kmalloc's memory"));
    }
    drop(boxed);
    coherent(dma)?;
    streaming(dma)
}

fn coherent(dma: KernelDma) -> Result<(), SelfTestError> {
    let memory = Coherent::new(dma, SIZE, &DmaConstraints::any().aligned(64))?;
    let clear = (0..SIZE).step_by(4).all(|at| memory.read32(at) == 0);
    (0..SIZE).step_by(4).for_each(|at| memory.write32(at, at as u32 ^ 0xa5a5_0000));
    let kept = (0..SIZE).step_by(4).all(|at| memory.read32(at) == at as u32 ^ 0xa5a5_0000);
    let outside = memory.read32(SIZE) == u32::MAX;
    memory.free();
    if clear && kept && outside { Ok(()) } else { Err(SelfTestError::Wrong("coherent memory")) }
}

fn streaming(dma: KernelDma) -> Result<(), SelfTestError> {
    // Small: it is made on the kernel's stack.
    let buffer: Box<[u8]> = try_box([0xc3u8; 512])?;
    let prepared = Streaming::prepare(dma, buffer, DataDirection::ToDevice, &DmaConstraints::any())
        .map_err(|refused| refused.error)?;
    let back = prepared.cancel();
    if back.iter().all(|byte| *byte == 0xc3) { Ok(()) } else { Err(SelfTestError::Wrong("a mapped buffer")) }
}
