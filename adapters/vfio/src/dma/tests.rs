use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;
use tombolo_hal::dma::{Coherent, DmaMemory, Streaming};
use tombolo_hal::mmio::Mmio;

const PAGE: u64 = 4096;

/// Mappings by address: CPU pointer, size, access.
#[derive(Debug, Default)]
struct Mapped {
    by_address: BTreeMap<u64, (usize, u64, Access)>,
    /// Mappings that are made before the kernel refuses one, and how it does.
    refuse: Option<(usize, i32)>,
    /// The largest mapping that the limit of locked memory allows.
    lockable: Option<u64>,
}

/// An IOMMU that a test can look through, as a device does.
#[derive(Debug, Default)]
struct Recorder(Mutex<Mapped>);

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Mapped> {
        self.0.lock().unwrap()
    }

    fn mappings(&self) -> usize {
        self.lock().by_address.len()
    }

    fn refuse(&self, after: usize, errno: i32) {
        self.lock().refuse = Some((after, errno));
    }

    fn at(&self, address: u64, write: bool) -> Option<NonNull<u8>> {
        let mapped = self.lock();
        let (start, (cpu, size, access)) = mapped.by_address.range(..=address).next_back()?;
        let inside = address - start < *size && if write { access.write } else { access.read };
        let at = std::ptr::with_exposed_provenance_mut::<u8>(*cpu);
        // SAFETY: inside the mapping.
        inside.then(|| unsafe { NonNull::new(at.add((address - start) as usize)).unwrap() })
    }

    fn read(&self, address: u64) -> Option<u8> {
        // SAFETY: mapped, and the tests leave mapped memory alone.
        self.at(address, false).map(|at| unsafe { at.read_volatile() })
    }

    fn write(&self, address: u64, byte: u8) -> bool {
        // SAFETY: as above.
        self.at(address, true).map(|at| unsafe { at.write_volatile(byte) }).is_some()
    }
}

impl Mapper for Recorder {
    fn page(&self) -> u64 {
        PAGE
    }

    fn addresses(&self) -> Ranges {
        Ranges::new([(0x1_0000, 0xffff_ffff), (0x1_0000_0000, (1 << 39) - 1)])
    }

    fn limit(&self) -> Option<u32> {
        Some(65535)
    }

    unsafe fn map(&self, cpu: NonNull<u8>, iova: u64, size: u64, access: Access) -> io::Result<()> {
        let mut mapped = self.lock();
        if let Some((left, errno)) = &mut mapped.refuse {
            if *left == 0 {
                return Err(io::Error::from_raw_os_error(*errno));
            }
            *left -= 1;
        }
        if mapped.lockable.is_some_and(|most| size > most) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let cpu = cpu.as_ptr().expose_provenance();
        let whole = [cpu as u64, iova, size].iter().all(|number| number.is_multiple_of(PAGE));
        assert!(whole && size != 0);
        let after = mapped.by_address.range(..iova + size).next_back();
        assert!(after.is_none_or(|(start, (_, size, _))| start + size <= iova), "overlap at {iova:#x}");
        mapped.by_address.insert(iova, (cpu, size, access));
        Ok(())
    }

    fn unmap(&self, iova: u64, size: u64) -> io::Result<()> {
        let mut mapped = self.lock();
        let inside: Vec<_> =
            mapped.by_address.range(iova..iova + size).map(|(at, (_, len, _))| (*at, *len)).collect();
        assert_eq!(inside.iter().map(|(_, len)| len).sum::<u64>(), size, "all of the range is mapped");
        mapped.by_address.retain(|at, _| !inside.iter().any(|(gone, _)| gone == at));
        Ok(())
    }
}

fn dma() -> (Arc<Recorder>, VfioDma) {
    let recorder = Arc::new(Recorder::default());
    (recorder.clone(), VfioDma::new(recorder))
}

/// `len` bytes at byte `offset` of a page, with neighbours that nobody may see.
#[derive(Debug)]
struct Within {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

const SECRET: u8 = 0xee;

impl Within {
    fn new(offset: usize, len: usize) -> Self {
        let mut memory = vec![SECRET; len + 3 * PAGE as usize];
        let start = memory.as_ptr().addr().next_multiple_of(PAGE as usize) - memory.as_ptr().addr() + offset;
        memory[start..start + len].iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        Self { memory, start, len }
    }

    fn data(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    fn neighbours_are_untouched(&self) -> bool {
        let (before, rest) = self.memory.split_at(self.start);
        before.iter().chain(&rest[self.len..]).all(|byte| *byte == SECRET)
    }
}

// SAFETY: a part of a vector that is never resized.
unsafe impl DmaMemory for Within {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (NonNull::from(&mut self.memory[self.start..self.start + self.len]).cast(), self.len)
    }
}

fn prepare(
    dma: &VfioDma,
    memory: Within,
    direction: DataDirection,
) -> Streaming<VfioDma, Within, tombolo_hal::dma::Prepared> {
    Streaming::prepare(dma.clone(), memory, direction, &DmaConstraints::any()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever the buffer's place and size: the device reads its bytes, what it writes arrives, and of
    /// the pages around it it sees nothing and changes nothing.
    #[test]
    fn a_device_reaches_the_bytes_of_a_buffer_and_no_others(
        offset in prop_oneof![Just(0usize), 1usize..4096],
        len in prop_oneof![1usize..200, 4000usize..4200, 16_000usize..40_000, Just(8 * 4096usize)],
    ) {
        let (iommu, dma) = dma();
        let out = prepare(&dma, Within::new(offset, len), DataDirection::ToDevice);
        let at = out.device_address().value();
        for i in 0..len as u64 {
            prop_assert_eq!(iommu.read(at + i), Some(i as u8));
        }
        prop_assert!(len < 4 * 4096 || !iommu.write(at + len as u64 / 2, 1), "read-only");
        let first = at & !(PAGE - 1);
        let around = (first..at).chain(at + len as u64..(at + len as u64).next_multiple_of(PAGE));
        for address in around {
            prop_assert_ne!(iommu.read(address), Some(SECRET));
        }
        prop_assert!(out.cancel().neighbours_are_untouched());

        let back = prepare(&dma, Within::new(offset, len), DataDirection::FromDevice);
        let at = back.device_address().value();
        for i in 0..len as u64 {
            prop_assert!(iommu.write(at + i, !(i as u8)));
        }
        let back = back.cancel();
        prop_assert!(back.data().iter().enumerate().all(|(i, byte)| *byte == !(i as u8)));
        prop_assert!(back.neighbours_are_untouched());
        prop_assert_eq!(dma.mapped(), (0, 0));
        drop(dma);
        prop_assert_eq!(iommu.mappings(), 0);
    }
}

#[test]
fn buffers_that_share_a_page_do_not_depend_on_each_other() {
    let (iommu, dma) = dma();
    let memory = vec![0u8; 16 * PAGE as usize].leak();
    let start = memory.as_ptr().addr().next_multiple_of(PAGE as usize) - memory.as_ptr().addr();
    let (one, other) = memory[start..].split_at_mut(5 * PAGE as usize + 100);
    one.fill(1);
    other.fill(2);
    let any = DmaConstraints::any();
    let direction = DataDirection::Bidirectional;
    let other = &mut other[..6 * PAGE as usize];
    let one: Streaming<_, &'static mut [u8], _> =
        Streaming::prepare(dma.clone(), one, direction, &any).unwrap();
    let other: Streaming<_, &'static mut [u8], _> =
        Streaming::prepare(dma.clone(), other, direction, &any).unwrap();
    let (last, first) = (one.device_address().value() + 5 * PAGE + 99, other.device_address().value());
    assert!(iommu.write(last, 11) && iommu.write(first, 22));
    let one = one.cancel();
    assert_eq!((one[5 * PAGE as usize + 99], iommu.read(last)), (11, None));
    assert_eq!(iommu.read(first), Some(22), "still mapped");
    assert_eq!(other.cancel()[0], 22);
}

#[test]
fn coherent_memory_comes_from_one_mapping_zeroed_and_apart() {
    let (iommu, dma) = dma();
    let limits = DmaConstraints { mask: 0xffff_ffff, boundary: 0x1000, ..DmaConstraints::any().aligned(256) };
    let all: Vec<_> = (0..40).map(|_| Coherent::new(dma.clone(), 200, &limits).unwrap()).collect();
    assert_eq!((iommu.mappings(), dma.mapped()), (1, (40, 8000)));
    for memory in &all {
        let at = memory.device_address().value();
        assert!(at % 256 == 0 && at + 199 <= 0xffff_ffff && at / 0x1000 == (at + 199) / 0x1000);
        assert_eq!((0..50).map(|i| memory.read32(4 * i)).max(), Some(0));
        memory.write32(0, at as u32);
        assert_eq!(iommu.read(at), Some(at as u8));
    }
    all.into_iter().for_each(Coherent::free);
    let again = Coherent::new(dma.clone(), 200, &limits).unwrap();
    assert_eq!((again.read32(0), dma.mapped()), (0, (1, 200)));
    again.free();
    // A device that reaches everything gets another address space's worth of large pieces.
    let large = Coherent::new(dma.clone(), 5 << 20, &DmaConstraints::any()).unwrap();
    assert!(large.device_address().value() > u64::from(u32::MAX));
    large.free();
    assert_eq!(iommu.mappings(), 1);
}

#[test]
fn a_kernel_that_refuses_says_what_to_do_and_nothing_stays_behind() {
    let (iommu, dma) = dma();
    let keep = Coherent::new(dma.clone(), 64, &DmaConstraints::any()).unwrap();
    for after in 0..3 {
        iommu.refuse(after, libc::ENOSPC);
        let refused = Streaming::prepare(
            dma.clone(),
            Within::new(10, 40_000),
            DataDirection::FromDevice,
            &DmaConstraints::any(),
        )
        .unwrap_err();
        assert!(refused.error.to_string().contains("no more buffers than 65535"), "{}", refused.error);
        assert!(refused.error.to_string().contains("dma_entry_limit"));
        assert_eq!((iommu.mappings(), dma.mapped()), (1, (1, 64)), "after {after} mappings");
    }
    iommu.refuse(0, libc::ENOMEM);
    let large = Coherent::new(dma.clone(), 4 << 20, &DmaConstraints::any()).unwrap_err();
    assert!(large.to_string().contains("RLIMIT_MEMLOCK"), "{large}");
    keep.free();
}

#[test]
fn little_lockable_memory_is_used_in_small_pieces() {
    let (iommu, dma) = dma();
    iommu.lock().lockable = Some(64 << 10);
    let limits = DmaConstraints { boundary: 1 << 16, ..DmaConstraints::any().aligned(8192) };
    let small = Coherent::new(dma.clone(), 10_000, &limits).unwrap();
    let at = small.device_address().value();
    assert!(at % 8192 == 0 && at >> 16 == (at + 9_999) >> 16);
    let error = Coherent::new(dma.clone(), 65_537, &DmaConstraints::any()).unwrap_err();
    assert!(matches!(error, DmaError::LockedMemory { size: 69_632, .. }), "{error}");
    small.free();
    drop(dma);
    assert_eq!(iommu.mappings(), 0);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let (_, dma) = dma();
    let low = DmaConstraints { mask: 0xfff, ..DmaConstraints::any() };
    let error = Coherent::new(dma.clone(), 64, &low).unwrap_err();
    assert_eq!(error.to_string(), "no addresses for 4096 bytes are left below 0xfff");
    assert!(Coherent::new(dma.clone(), 0, &DmaConstraints::any()).is_err());
    let crooked = DmaConstraints { boundary: 3, ..DmaConstraints::any() };
    assert!(Coherent::new(dma, 8, &crooked).is_err());
}

#[test]
fn quarantine_outlives_the_last_handle() {
    let (iommu, dma) = dma();
    let flying = prepare(&dma, Within::new(8, 30_000), DataDirection::FromDevice);
    let at = flying.device_address().value();
    // Forgotten in flight; the memory is leaked with it.
    std::mem::forget(flying);
    drop(Coherent::new(dma.clone(), 64, &DmaConstraints::any()).unwrap());
    assert_eq!(dma.quarantined(), 1);
    drop(dma);
    assert!(iommu.write(at + 29_999, 1), "still mapped");
}

#[test]
fn parts_of_a_buffer_are_copied_both_ways_while_the_device_has_it() {
    let (iommu, dma) = dma();
    let mut memory = Within::new(4000, 20_000);
    let (cpu, size) = memory.memory();
    // SAFETY: `memory` lives to the end of the test and is looked at between the calls only.
    let region =
        unsafe { dma.map_streaming(cpu, size, DataDirection::Bidirectional, &DmaConstraints::any()) }
            .unwrap();
    let at = region.device.value();
    for place in [0, 95, 96, 10_000, 19_999] {
        assert!(iommu.write(at + place, 0x77));
        dma.sync_for_cpu(&region, place as usize, 1);
        // SAFETY: inside the buffer.
        unsafe {
            assert_eq!(cpu.add(place as usize).read_volatile(), 0x77, "at {place}");
            cpu.add(place as usize).write_volatile(0x55);
        }
        dma.sync_for_device(&region, place as usize, 1);
        assert_eq!(iommu.read(at + place), Some(0x55), "at {place}");
    }
    dma.sync_for_cpu(&region, usize::MAX, 5);
    // SAFETY: unmapped once.
    unsafe { dma.unmap_streaming(region) };
    assert!(memory.neighbours_are_untouched());
}
