//! Anonymous memory for DMA, in huge pages where there are any.

use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page on the machines that have IOMMUs with such pages.
pub(crate) const HUGE: usize = 2 << 20;

/// What the memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reserved huge pages.
    Huge,
    /// Ordinary memory that the kernel may make huge pages of.
    Transparent,
    /// Ordinary memory.
    Small,
}

/// Zeroed memory that belongs to nobody else.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
    kind: Kind,
}

// SAFETY: a mapping has no thread affinity.
unsafe impl Send for Pages {}

impl Pages {
    /// `len` bytes, a multiple of the page size: in huge pages if it is a multiple of [`HUGE`].
    pub fn new(len: usize) -> io::Result<Self> {
        let huge = len.is_multiple_of(HUGE);
        let pages =
            if huge { Self::huge(len).or_else(|_| Self::transparent(len))? } else { Self::small(len)? };
        // A child would otherwise share pages that the device writes.
        // SAFETY: advice on memory of ours.
        if let Err(error) = unsafe { madvise(pages.start.as_ptr().cast(), len, Advice::LinuxDontFork) } {
            log::warn!("children of this process will see its DMA memory: {error}");
        }
        Ok(pages)
    }

    fn huge(len: usize) -> io::Result<Self> {
        let start = map(len, MapFlags::HUGETLB | MapFlags::HUGE_2MB)?;
        Ok(Self { start, len, kind: Kind::Huge })
    }

    fn transparent(len: usize) -> io::Result<Self> {
        // Mapped with room to align, which is given back.
        let room = len.checked_add(HUGE).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let start = map(room, MapFlags::empty())?;
        let before = start.as_ptr().addr().next_multiple_of(HUGE) - start.as_ptr().addr();
        // SAFETY: `before` is less than HUGE, so `len` bytes follow.
        let aligned = unsafe { start.add(before) };
        // SAFETY: the two ends of a mapping that nobody uses yet.
        unsafe {
            if before != 0 {
                munmap(start.as_ptr().cast(), before)?;
            }
            munmap(aligned.add(len).as_ptr().cast(), HUGE - before)?;
        }
        // SAFETY: advice on memory of ours.
        let advised = unsafe { madvise(aligned.as_ptr().cast(), len, Advice::LinuxHugepage) };
        let kind = if advised.is_ok() { Kind::Transparent } else { Kind::Small };
        Ok(Self { start: aligned, len, kind })
    }

    fn small(len: usize) -> io::Result<Self> {
        Ok(Self { start: map(len, MapFlags::empty())?, len, kind: Kind::Small })
    }

    /// Where it is.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What it consists of.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: ours; whoever had a part of it has given it back.
        if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), self.len) } {
            log::warn!("munmap of {} bytes of DMA memory: {error}", self.len);
        }
    }
}

fn map(len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no address is asked for, so nothing is replaced.
    let start = unsafe { mmap_anonymous(null_mut(), len, protection, MapFlags::PRIVATE | flags)? };
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_aligned_whatever_it_consists_of() {
        for len in [4096, 3 * 4096, HUGE, 2 * HUGE] {
            let pages = Pages::new(len).unwrap();
            let align = if len % HUGE == 0 { HUGE } else { 4096 };
            assert_eq!(pages.start().as_ptr().addr() % align, 0, "{:?}", pages.kind());
            for offset in [0, len / 2, len - 1] {
                // SAFETY: inside the mapping.
                unsafe {
                    assert_eq!(pages.start().add(offset).read(), 0);
                    pages.start().add(offset).write(7);
                }
            }
        }
    }
}
