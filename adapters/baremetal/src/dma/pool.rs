//! The pool, and hal's backend on it.

use core::cell::RefCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use tombolo_hal::DmaAddr;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{
    CoherentRegion, DataDirection, DmaBackend, DmaConstraints, StreamingRegion, Volatile,
};
use tombolo_hal::lock::RawLock;

use super::table::{Refused, Table};
use super::{CacheMaintenance, DmaBuffer, DmaError};

/// Where memory is.
#[derive(Clone, Copy, Debug)]
pub struct DmaRegion {
    /// As the CPU sees it; aligned to 8 and to the cache line.
    pub cpu: NonNull<u8>,
    /// As devices see it; aligned alike.
    pub device: DmaAddr,
    /// Size in bytes.
    pub size: usize,
}

/// DMA memory from one region, at most `N` pieces at a time.
///
/// `&DmaPool` is hal's `DmaBackend`. Coherent memory and [`DmaBuffer`]s come from the region; memory
/// elsewhere can be mapped for streaming if it lies in the RAM that was [named](Self::with_ram).
///
/// What goes to quarantine is never given out again. The table of what is in use lies outside the region,
/// so a device that writes where it should not cannot confuse it.
///
/// ```
/// use core::ptr::NonNull;
/// use tombolo_baremetal::dma::{Coherent, DmaPool, DmaRegion};
/// use tombolo_hal::DmaAddr;
/// use tombolo_hal::dma::DmaConstraints;
/// use tombolo_hal::lock::SpinLock;
///
/// let memory: &'static mut [u64] = vec![0; 512].leak();
/// let cpu = NonNull::from(memory).cast();
/// let region = DmaRegion { cpu, device: DmaAddr::new(0x1000), size: 4096 };
/// // SAFETY: the memory is leaked, nobody else uses it.
/// let pool = unsafe { DmaPool::<_, _, 16>::new(region, SpinLock::new(), Coherent) };
///
/// let ring = tombolo_hal::dma::Coherent::new(&pool, 256, &DmaConstraints::any().aligned(64))?;
/// assert!(ring.device_address().is_aligned(64));
/// ring.free();
/// let mut buffer = pool.buffer(100, &DmaConstraints::any())?;
/// buffer.fill(7);
/// # Ok::<(), tombolo_baremetal::dma::DmaError>(())
/// ```
pub struct DmaPool<L, H, const N: usize> {
    region: DmaRegion,
    /// Other memory that devices reach at the same distance between CPU and device addresses.
    ram: Option<(usize, usize)>,
    lock: L,
    caches: H,
    table: RefCell<Table<N>>,
    quarantined_elsewhere: AtomicUsize,
}

// SAFETY: `table` is only used inside `lock`; the region belongs to the pool (`new`), and its parts to one
// owner each.
unsafe impl<L: RawLock, H: CacheMaintenance, const N: usize> Sync for DmaPool<L, H, N> {}
// SAFETY: as for `Sync`; nothing is tied to a thread.
unsafe impl<L: RawLock, H: CacheMaintenance, const N: usize> Send for DmaPool<L, H, N> {}

impl<L: RawLock, H: CacheMaintenance, const N: usize> DmaPool<L, H, N> {
    /// Smallest alignment of what is given out.
    const ALIGN: u64 = 8;

    /// Over `region`.
    ///
    /// # Safety
    /// - The region is valid, writable memory for as long as the pool and what came from it exist, that
    ///   devices reach at `region.device`, and nobody else uses it.
    /// - Where `caches` has something to do, the region is mapped uncached: coherent memory is not
    ///   maintained.
    pub const unsafe fn new(region: DmaRegion, lock: L, caches: H) -> Self {
        let table = RefCell::new(Table::new(region.device.value(), region.size as u64));
        Self { region, ram: None, lock, caches, table, quarantined_elsewhere: AtomicUsize::new(0) }
    }

    /// Lets streaming buffers be anywhere in `size` bytes of RAM at CPU address `start`, which devices reach
    /// at the same distance as the region.
    #[must_use]
    pub const fn with_ram(mut self, start: usize, size: usize) -> Self {
        self.ram = Some((start, size));
        self
    }

    /// A zeroed buffer of `size` bytes for streaming.
    ///
    /// # Errors
    /// [`DmaError`].
    pub fn buffer(
        &self,
        size: usize,
        constraints: &DmaConstraints,
    ) -> Result<DmaBuffer<'_, L, H, N>, DmaError> {
        // Whole cache lines, so that maintenance of one buffer leaves its neighbours alone.
        let line = self.caches.line_size();
        let room = size.checked_next_multiple_of(line.max(8)).unwrap_or(usize::MAX);
        let region = self.take(size, room, &constraints.aligned(line as u64))?;
        Ok(DmaBuffer::new(self, region, room))
    }

    /// The cache maintenance that it was made with.
    pub fn caches(&self) -> &H {
        &self.caches
    }

    /// Bytes in use, quarantined ones included.
    pub fn in_use(&self) -> u64 {
        self.with_table(|table| table.in_use())
    }

    fn with_table<R>(&self, work: impl FnOnce(&mut Table<N>) -> R) -> R {
        self.lock.with(|| work(&mut self.table.borrow_mut()))
    }

    fn take(
        &self,
        size: usize,
        room: usize,
        constraints: &DmaConstraints,
    ) -> Result<CoherentRegion, DmaError> {
        if size == 0 {
            return Err(DmaError::Empty);
        }
        let taken = self.with_table(|table| table.take(room as u64, Self::ALIGN, constraints));
        let offset = taken.map_err(|refused| match refused {
            Refused::TableFull => DmaError::TableFull { limit: N },
            Refused::NoRoom => DmaError::NoRoom {
                size,
                mask: constraints.mask,
                align: constraints.align,
                in_use: self.in_use(),
                pool: self.region.size as u64,
            },
        })?;
        // SAFETY: the table gives out offsets inside the region.
        let cpu = unsafe { self.region.cpu.add(offset as usize) };
        // SAFETY: `room` bytes from there are inside and belong to nobody now.
        unsafe { cpu.write_bytes(0, room) };
        Barrier::DmaWmb.execute();
        let device = DmaAddr::new(self.region.device.value().wrapping_add(offset));
        Ok(CoherentRegion { cpu, device, size })
    }

    /// Gives memory back; `room` is what was taken for it.
    pub(super) fn give_back(&self, cpu: NonNull<u8>, room: usize) {
        let offset = self.offset_of(cpu);
        // What the table does not know, or keeps, stays out of use: to free it would be worse.
        let _known = offset.is_some_and(|offset| self.with_table(|t| t.give_back(offset, room as u64)));
    }

    fn offset_of(&self, cpu: NonNull<u8>) -> Option<u64> {
        let offset = cpu.addr().get().checked_sub(self.region.cpu.addr().get())?;
        (offset < self.region.size).then_some(offset as u64)
    }

    /// What devices are told for `size` bytes at `cpu`.
    fn device_address(&self, cpu: NonNull<u8>, size: usize) -> Option<DmaAddr> {
        let at = cpu.addr().get();
        let own = (self.region.cpu.addr().get(), self.region.size);
        let holds = |(start, length): (usize, usize)| {
            at.checked_sub(start).is_some_and(|offset| offset < length && size <= length - offset)
        };
        if !holds(own) && !self.ram.is_some_and(holds) {
            return None;
        }
        let distance = self.region.device.value().wrapping_sub(own.0 as u64);
        Some(DmaAddr::new((at as u64).wrapping_add(distance)))
    }

    fn check_lines(&self, cpu: NonNull<u8>, size: usize) -> Result<(), DmaError> {
        let line = self.caches.line_size();
        let at = cpu.addr().get();
        if line > 1
            && !(at.is_multiple_of(line) && size.is_multiple_of(line))
            && self.offset_of(cpu).is_none()
        {
            return Err(DmaError::CacheLine { cpu: at, size, line });
        }
        Ok(())
    }

    fn maintain(&self, region: &StreamingRegion, offset: usize, size: usize, for_device: bool) {
        if self.caches.line_size() <= 1 || offset > region.size || size > region.size - offset {
            return;
        }
        // SAFETY: the range lies inside the region, which is valid memory. A device that writes it has all
        // of its cache lines (`check_lines`, or a buffer of the pool, which has whole ones), and hal's
        // contract keeps the CPU away until it has it back.
        unsafe {
            let start = region.cpu.add(offset);
            match (for_device, region.direction) {
                (false, DataDirection::ToDevice) => {}
                (false, _) => self.caches.invalidate(start, size),
                // Also before the device writes: a dirty line that is written back later would undo it.
                (true, _) => self.caches.clean(start, size),
            }
        }
    }
}

impl<L, H, const N: usize> core::fmt::Debug for DmaPool<L, H, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DmaPool").field("region", &self.region).finish_non_exhaustive()
    }
}

// SAFETY: `take` gives out zeroed parts of the region (multiples of 8, aligned to at least 8 as `new`'s
// region and `ALIGN` are, within the constraints), each to one owner until it is given back; quarantined
// ones are kept by the table. A device that keeps to the addresses reaches nothing else: `new` promised
// that the region is where devices see it.
unsafe impl<L: RawLock, H: CacheMaintenance, const N: usize> DmaBackend for &DmaPool<L, H, N> {
    type Error = DmaError;
    type Words = Volatile;

    fn alloc_coherent(&self, size: usize, constraints: &DmaConstraints) -> Result<CoherentRegion, DmaError> {
        self.take(size, size.checked_next_multiple_of(8).unwrap_or(usize::MAX), constraints)
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        self.give_back(region.cpu, region.size.next_multiple_of(8));
    }

    fn quarantine_coherent(&self, region: CoherentRegion) {
        self.keep(region.cpu);
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        constraints: &DmaConstraints,
    ) -> Result<StreamingRegion, DmaError> {
        if size == 0 {
            return Err(DmaError::Empty);
        }
        let refused = |why| DmaError::Unreachable { cpu: cpu.addr().get(), size, why };
        let device =
            self.device_address(cpu, size).ok_or(refused("it lies outside the memory that was named"))?;
        if !constraints.allow(device, size as u64) {
            return Err(refused("it is not within the device's constraints"));
        }
        self.check_lines(cpu, size)?;
        let region = StreamingRegion { cpu, device, size, direction };
        self.maintain(&region, 0, size, true);
        Ok(region)
    }

    unsafe fn unmap_streaming(&self, region: StreamingRegion) {
        self.maintain(&region, 0, region.size, false);
    }

    fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        self.maintain(region, offset, size, false);
    }

    fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        self.maintain(region, offset, size, true);
    }

    fn quarantine_streaming(&self, region: StreamingRegion) {
        self.keep(region.cpu);
    }

    fn quarantined(&self) -> usize {
        self.with_table(|table| table.quarantined()) + self.quarantined_elsewhere.load(Ordering::Relaxed)
    }
}

impl<L: RawLock, H: CacheMaintenance, const N: usize> DmaPool<L, H, N> {
    /// Never gives this out again. Memory that is not the pool's is leaked by its owner and counted here.
    fn keep(&self, cpu: NonNull<u8>) {
        let own = self.offset_of(cpu).is_some_and(|offset| self.with_table(|t| t.quarantine(offset)));
        if !own {
            self.quarantined_elsewhere.fetch_add(1, Ordering::Relaxed);
        }
    }
}
