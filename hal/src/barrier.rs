//! Memory barriers for devices, named as in the Linux kernel.
//!
//! `dma_*` order accesses to coherent memory among themselves; `mb`, `rmb`, `wmb` also order them
//! against MMIO. Per architecture in inline assembly; [`core::sync::atomic::fence`] under Miri, loom
//! and on architectures that are not named here.
//!
//! | | x86_64 | aarch64 | riscv64 | arm |
//! |---|---|---|---|---|
//! | `dma_wmb` | compiler | `dmb oshst` | `fence w,w` | `dmb` |
//! | `dma_rmb` | compiler | `dmb oshld` | `fence r,r` | `dmb` |
//! | `wmb` | `sfence` | `dsb st` | `fence ow,ow` | `dsb` |
//! | `rmb` | `lfence` | `dsb ld` | `fence ir,ir` | `dsb` |
//! | `mb` | `mfence` | `dsb sy` | `fence iorw,iorw` | `dsb` |
//! | before an MMIO store | compiler | `dmb oshst` | `fence w,o` | `dsb` |
//! | after an MMIO load | compiler | `dmb oshld` | `fence i,ir` | `dsb` |
//!
//! Source: the kernel's `arch/*/include/asm/barrier.h` and `io.h`, and its `memory-barriers.txt`.
//! A driver calls them through [`Mmio::barrier`](crate::mmio::Mmio::barrier), so that a simulated
//! device can record them.
#![allow(unsafe_code)]

/// Which barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// All memory and MMIO accesses before are seen before all after.
    Mb,
    /// Loads before are done before loads after, MMIO included.
    Rmb,
    /// Stores before are seen before stores after, MMIO and write-combined windows included.
    Wmb,
    /// Loads of coherent memory before are done before those after.
    DmaRmb,
    /// Stores to coherent memory before are seen by the device before those after.
    DmaWmb,
}

impl Barrier {
    /// Executes the barrier on this CPU.
    #[inline(always)]
    pub fn execute(self) {
        match self {
            Barrier::Mb => mb(),
            Barrier::Rmb => rmb(),
            Barrier::Wmb => wmb(),
            Barrier::DmaRmb => dma_rmb(),
            Barrier::DmaWmb => dma_wmb(),
        }
    }
}

macro_rules! barriers {
    ($($(#[$meta:meta])* $name:ident: $x86:literal, $a64:literal, $rv:literal, $arm:literal;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() {
            #[cfg(any(
                miri,
                loom,
                not(any(
                    target_arch = "x86_64",
                    target_arch = "aarch64",
                    target_arch = "riscv64",
                    target_arch = "arm"
                ))
            ))]
            core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);

            #[cfg(all(not(any(miri, loom)), target_arch = "x86_64"))]
            // SAFETY: a barrier instruction touches no register and no stack; leaving out `nomem`
            // makes the statement a compiler barrier too.
            unsafe {
                core::arch::asm!($x86, options(nostack, preserves_flags))
            }
            #[cfg(all(not(any(miri, loom)), target_arch = "aarch64"))]
            // SAFETY: as for x86_64.
            unsafe {
                core::arch::asm!($a64, options(nostack, preserves_flags))
            }
            #[cfg(all(not(any(miri, loom)), target_arch = "riscv64"))]
            // SAFETY: as for x86_64.
            unsafe {
                core::arch::asm!($rv, options(nostack, preserves_flags))
            }
            #[cfg(all(not(any(miri, loom)), target_arch = "arm"))]
            // SAFETY: as for x86_64.
            unsafe {
                core::arch::asm!($arm, options(nostack, preserves_flags))
            }
        }
    )*};
}

barriers! {
    /// Full barrier, see [`Barrier::Mb`].
    mb: "mfence", "dsb sy", "fence iorw, iorw", "dsb";
    /// Read barrier, see [`Barrier::Rmb`].
    rmb: "lfence", "dsb ld", "fence ir, ir", "dsb";
    /// Write barrier, see [`Barrier::Wmb`].
    wmb: "sfence", "dsb st", "fence ow, ow", "dsb";
    /// Read barrier for coherent memory, see [`Barrier::DmaRmb`].
    dma_rmb: "", "dmb oshld", "fence r, r", "dmb";
    /// Write barrier for coherent memory, see [`Barrier::DmaWmb`].
    dma_wmb: "", "dmb oshst", "fence w, w", "dmb";
    /// What an ordered MMIO store has before it: earlier memory writes are seen first.
    mmio_before_write: "", "dmb oshst", "fence w, o", "dsb";
    /// What an ordered MMIO load has after it: later memory reads come after.
    mmio_after_read: "", "dmb oshld", "fence i, ir", "dsb";
}
