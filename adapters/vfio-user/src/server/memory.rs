//! Memory of the client: which addresses it gave us, and copies there.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::io::Errno;
use tombolo_sim::device::DmaFault;

use crate::protocol::{DmaMap, DmaUnmap, MAP_READ, MAP_WRITE};
use crate::shared_file::{Key, SharedFile};

/// Maps at a time. Four times what we promise, because a machine whose IOMMU refuses a page stops.
const MOST_MAPS: usize = 1 << 18;
/// Files at a time.
const MOST_FILES: usize = 1024;
/// Bytes of all files: an eighth of what a process can have mapped. Files cost nothing to be long, and
/// the address space is that of other servers, too.
const MOST_BYTES: u64 = 1 << 44;
/// Files that are kept without a map: while a machine boots, its maps go and come again.
const IDLE_FILES: usize = 16;
/// Bytes copied before others have their turn: an unmap waits no longer than this.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
struct Map {
    last: u64,
    flags: u32,
    /// Where its first byte is. Without a file there is nothing that we can reach: a ROM, or a BAR of
    /// another device.
    place: Option<(Arc<SharedFile>, u64)>,
}

#[derive(Debug, Default)]
struct Maps {
    /// By first address. They do not overlap.
    maps: BTreeMap<u64, Map>,
    files: HashMap<Key, Arc<SharedFile>>,
    /// Files that were mapped again, as far as there are maps of what they were.
    replaced: Vec<Arc<SharedFile>>,
}

/// The client's memory.
#[derive(Debug, Default)]
pub(super) struct GuestMemory(RwLock<Maps>);

impl GuestMemory {
    /// Adds a map.
    ///
    /// # Errors
    /// What the client is told: `EEXIST` if it overlaps one, `EINVAL` if it reaches beyond its file or the
    /// file is none that holds memory, `ENOSPC` if there are too many, or the system's.
    pub fn map(&self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno> {
        let mut maps = self.write();
        let (first, last) = (request.address, request.last());
        if maps.maps.range(..=last).next_back().is_some_and(|(_, map)| map.last >= first) {
            return Err(Errno::EXIST);
        }
        if maps.maps.len() >= MOST_MAPS {
            return Err(Errno::NOSPC);
        }
        let place = match fd {
            None => None,
            Some(fd) => Some((maps.file(fd, request)?, request.offset)),
        };
        maps.maps.insert(first, Map { last, flags: request.flags, place });
        Ok(())
    }

    /// Removes all maps inside a range, and gives back how many there were and of how many bytes. No copy
    /// there goes on when it returns.
    ///
    /// A range with no map at all is no error: that is how an IOMMU's invalidations look.
    ///
    /// # Errors
    /// `EINVAL` if the range cuts a map; nothing is then removed.
    pub fn unmap(&self, request: &DmaUnmap) -> Result<(u64, u64), Errno> {
        let (first, last) = request.range();
        let mut maps = self.write();
        let before = maps.maps.range(..first).next_back();
        let cut_first = before.is_some_and(|(_, map)| map.last >= first);
        let cut_last = maps.maps.range(first..=last).next_back().is_some_and(|(_, map)| map.last > last);
        if cut_first || cut_last {
            return Err(Errno::INVAL);
        }
        let inside: Vec<u64> = maps.maps.range(first..=last).map(|(start, _)| *start).collect();
        let removed = inside.iter().filter_map(|start| Some((start, maps.maps.remove(start)?)));
        let bytes = removed.fold(0u64, |sum, (start, map)| sum.saturating_add(map.last - start + 1));
        Ok((inside.len() as u64, bytes))
    }

    /// Forgets everything: the client is gone.
    pub fn clear(&self) {
        *self.write() = Maps::default();
    }

    /// Maps that exist.
    pub fn count(&self) -> usize {
        self.read_lock().maps.len()
    }

    /// Files that are mapped or kept.
    #[cfg(test)]
    pub fn mapped_files(&self) -> usize {
        self.read_lock().files.len()
    }

    /// Whether there is a map at this address.
    pub fn holds(&self, address: u64) -> bool {
        self.read_lock().at(address).is_some()
    }

    /// Reads what is contiguous at `address`, and gives back how many bytes that were.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<usize, DmaFault> {
        self.copy(address, MAP_READ, data.len(), |file, offset, count| file.read(offset, &mut data[..count]))
    }

    /// Writes what is contiguous at `address`, and gives back how many bytes that were.
    pub fn write_at(&self, address: u64, data: &[u8]) -> Result<usize, DmaFault> {
        self.copy(address, MAP_WRITE, data.len(), |file, offset, count| file.write(offset, &data[..count]))
    }

    fn copy(
        &self,
        address: u64,
        access: u32,
        len: usize,
        copy: impl FnOnce(&SharedFile, u64, usize) -> bool,
    ) -> Result<usize, DmaFault> {
        // The lock is held during the copy: an unmap is answered only when it is over.
        let maps = self.read_lock();
        let (first, map) = maps.at(address).ok_or(DmaFault::Unmapped(address))?;
        let (file, start) = map.place.as_ref().ok_or(DmaFault::Unmapped(address))?;
        if map.flags & access == 0 || (access == MAP_WRITE && !file.writable) {
            return Err(DmaFault::Permission(address));
        }
        let left = usize::try_from(map.last - address).unwrap_or(PIECE).saturating_add(1);
        let count = len.min(left).min(PIECE);
        copy(file, start + (address - first), count).then_some(count).ok_or(DmaFault::Unmapped(address))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Maps> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, Maps> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maps {
    fn at(&self, address: u64) -> Option<(u64, &Map)> {
        let (first, map) = self.maps.range(..=address).next_back()?;
        (address <= map.last).then_some((*first, map))
    }

    /// The file of a new map, which is mapped only once.
    fn file(&mut self, fd: OwnedFd, request: &DmaMap) -> Result<Arc<SharedFile>, Errno> {
        let file = File::from(fd);
        let key = SharedFile::key(&file)?;
        let end = request.offset.saturating_add(request.size);
        let writes = request.flags & MAP_WRITE != 0;
        let fits = |file: &Arc<SharedFile>| file.len >= end && (file.writable || !writes);
        if let Some(known) = self.files.get(&key).filter(|known| fits(known)) {
            return Ok(known.clone());
        }
        // Not known, or longer now, or opened for writing this time.
        self.drop_idle(IDLE_FILES);
        if self.room() < file.metadata().map_err(|_| Errno::BADF)?.len() {
            self.drop_idle(0);
        }
        let new = Arc::new(SharedFile::new(file.into(), self.room())?);
        if new.len < end {
            return Err(Errno::INVAL);
        }
        self.replaced.extend(self.files.insert(key, new.clone()));
        Ok(new)
    }

    /// How long another file may be.
    fn room(&self) -> u64 {
        let all = self.files.values().chain(&self.replaced);
        let left = all.fold(MOST_BYTES, |left, file| left.saturating_sub(file.len));
        if self.files.len() + self.replaced.len() < MOST_FILES { left } else { 0 }
    }

    fn drop_idle(&mut self, keep: usize) {
        self.replaced.retain(|file| Arc::strong_count(file) > 1);
        if self.files.len() > keep {
            self.files.retain(|_, file| Arc::strong_count(file) > 1);
        }
    }
}
