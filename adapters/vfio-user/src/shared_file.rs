//! A file that the other side gave us and that holds memory, reached without ever faulting.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};

use rustix::fs::{OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstatfs};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use tombolo_sim::memory::HostRegion;

/// File systems whose files are memory: tmpfs (memfd and /dev/shm), ramfs, hugetlbfs. A file of another
/// one may make an access wait for ever (FUSE, NFS).
const MEMORY_FILE_SYSTEMS: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// Device and inode: the same for all descriptors of a file.
pub(crate) type Key = (u64, u64);

/// A file of the other side.
///
/// It is mapped whole if it cannot become shorter: an access to a page that is gone would end this
/// process by SIGBUS. A file that can (one that is not a memfd, or whose owner forbids seals) is accessed
/// by system calls, which report that instead.
#[derive(Debug)]
pub(crate) struct SharedFile {
    bytes: Bytes,
    pub len: u64,
    pub writable: bool,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    Plain(File),
}

impl SharedFile {
    /// Which file it is.
    ///
    /// # Errors
    /// `EINVAL` if it is none that holds memory.
    pub fn key(fd: &File) -> Result<Key, Errno> {
        let data = fd.metadata().map_err(|_| Errno::BADF)?;
        if !data.is_file() || fcntl_getfl(fd)?.contains(OFlags::APPEND) {
            return Err(Errno::INVAL);
        }
        let kind = fstatfs(fd)?.f_type as u64;
        if !MEMORY_FILE_SYSTEMS.contains(&(kind & 0xffff_ffff)) {
            log::warn!("shared memory is in a file of file system {kind:#x}, not in memfd or /dev/shm");
            return Err(Errno::INVAL);
        }
        Ok((data.dev(), data.ino()))
    }

    /// Maps the file, or keeps it.
    ///
    /// # Errors
    /// `ENOSPC` if it is longer than `most` bytes, or the system's.
    pub fn new(fd: OwnedFd, most: u64) -> Result<Self, Errno> {
        let file = File::from(fd);
        let sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let sealed = sealed || fcntl_add_seals(&file, SealFlags::SHRINK).is_ok();
        // Only now: a sealed file keeps this length at least.
        let len = file.metadata().map_err(|_| Errno::BADF)?.len();
        if len > most {
            return Err(Errno::NOSPC);
        }
        let access = fcntl_getfl(&file)? & OFlags::RWMODE;
        if access == OFlags::WRONLY {
            return Err(Errno::ACCESS);
        }
        if !sealed {
            let writable = access == OFlags::RDWR;
            return Ok(Self { bytes: Bytes::Plain(file), len, writable });
        }
        let mapped = match Mapping::new(&file, len, ProtFlags::READ | ProtFlags::WRITE) {
            // Opened for reading, or sealed against writing.
            Err(Errno::ACCESS | Errno::PERM) => (Mapping::new(&file, len, ProtFlags::READ)?, false),
            result => (result?, true),
        };
        Ok(Self { bytes: Bytes::Mapped(mapped.0), len, writable: mapped.1 })
    }

    /// Whether accesses go straight to memory.
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// Reads the little-endian word at `offset` with one load, if the file is mapped and has one there.
    #[inline]
    pub fn load32(&self, offset: usize) -> Option<u32> {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping.region.read_u32(offset).ok(),
            Bytes::Plain(_) => None,
        }
    }

    /// Writes the little-endian word at `offset` with one store, if the file is mapped for that and has
    /// one there.
    #[inline]
    pub fn store32(&self, offset: usize, value: u32) -> Option<()> {
        match &self.bytes {
            Bytes::Mapped(mapping) if self.writable => mapping.region.write_u32(offset, value).ok(),
            _ => None,
        }
    }

    /// Fills `data` from `offset`; false if the file has not so many bytes.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> bool {
        match &self.bytes {
            Bytes::Mapped(mapping) => {
                usize::try_from(offset).is_ok_and(|offset| mapping.region.read(offset, data).is_ok())
            }
            Bytes::Plain(file) => {
                let wanted = data.len();
                pread(file, data, offset).is_ok_and(|count| count == wanted)
            }
        }
    }

    /// Writes `data` to `offset`; false if it cannot be written.
    pub fn write(&self, offset: u64, data: &[u8]) -> bool {
        match &self.bytes {
            _ if !self.writable => false,
            Bytes::Mapped(mapping) => {
                usize::try_from(offset).is_ok_and(|offset| mapping.region.write(offset, data).is_ok())
            }
            Bytes::Plain(file) => {
                // A write beyond the end would make the file longer again.
                let end = offset.saturating_add(data.len() as u64);
                let there = file.metadata().is_ok_and(|found| end <= found.len());
                there && pwrite(file, data, offset).is_ok_and(|count| count == data.len())
            }
        }
    }
}

/// A mapping of a whole file that does not become shorter.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    region: HostRegion,
}

// SAFETY: the mapping belongs to this value, and is accessed through `HostRegion` (atomics) only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, len: u64, access: ProtFlags) -> Result<Self, Errno> {
        let len = usize::try_from(len).ok().filter(|len| (1..=isize::MAX as usize).contains(len));
        let len = len.ok_or(Errno::INVAL)?;
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let base = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        // SAFETY: `len` bytes are mapped until `drop`, and `region` is not handed out. The file is sealed
        // against shrinking, so no access faults. Whoever else maps it is another process, or accesses it
        // by atomics as we do. Nothing is written through a region that is mapped for reading
        // (`SharedFile::writable`).
        let region = unsafe { HostRegion::new(base, len) };
        Ok(Self { base, len, region })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and the region goes with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::io::Write;

    fn memfd(flags: MemfdFlags, len: u64) -> File {
        let fd = memfd_create("test", flags | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, len).unwrap();
        File::from(fd)
    }

    #[test]
    fn a_file_that_can_be_sealed_is_mapped_and_cannot_shrink_any_more() {
        let file = memfd(MemfdFlags::ALLOW_SEALING, 8192);
        let guest = SharedFile::new(file.try_clone().unwrap().into(), u64::MAX).unwrap();
        assert!(guest.is_mapped() && guest.writable);
        assert!(file.set_len(4096).is_err());
        assert!(guest.write(8190, &[1, 2]) && !guest.write(8191, &[1, 2]));
        let mut data = [0; 2];
        assert!(guest.read(8190, &mut data));
        assert_eq!(data, [1, 2]);
    }

    #[test]
    fn a_file_that_shrinks_under_us_is_a_refused_access() {
        let file = memfd(MemfdFlags::empty(), 8192);
        let guest = SharedFile::new(file.try_clone().unwrap().into(), u64::MAX).unwrap();
        assert!(!guest.is_mapped());
        assert!(guest.write(8000, &[7; 8]));
        file.set_len(4096).unwrap();
        assert!(!guest.write(8000, &[7; 8]) && !guest.read(8000, &mut [0; 8]));
        assert!(guest.read(0, &mut [0; 8]));
        assert_eq!(file.metadata().unwrap().len(), 4096, "nothing made it longer");
    }

    #[test]
    fn a_file_that_is_sealed_against_writing_is_readable() {
        let mut file = memfd(MemfdFlags::ALLOW_SEALING, 0);
        file.write_all(b"something").unwrap();
        fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
        let guest = SharedFile::new(file.into(), u64::MAX).unwrap();
        assert!(guest.is_mapped() && !guest.writable);
        assert!(!guest.write(0, b"x"));
        let mut data = [0; 4];
        assert!(guest.read(5, &mut data));
        assert_eq!(&data, b"hing");
    }

    #[test]
    fn only_files_that_are_memory_are_taken() {
        assert!(SharedFile::key(&memfd(MemfdFlags::empty(), 1)).is_ok());
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(SharedFile::key(&File::from(OwnedFd::from(reader))), Err(Errno::INVAL));
        assert_eq!(SharedFile::key(&File::open("/dev/zero").unwrap()), Err(Errno::INVAL));
        assert_eq!(SharedFile::key(&File::open("/proc/self/maps").unwrap()), Err(Errno::INVAL));
    }
}
