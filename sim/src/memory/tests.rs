use super::*;

#[test]
fn new_memory_is_zero_and_page_aligned() {
    let memory = SharedMemory::new(PAGE_SIZE + 3);
    assert_eq!(memory.len(), PAGE_SIZE + 3);
    assert_eq!(memory.as_ptr().addr().get() % PAGE_SIZE, 0);
    let mut data = vec![1; memory.len()];
    memory.read(0, &mut data).unwrap();
    assert!(data.iter().all(|byte| *byte == 0));
}

#[test]
fn bulk_copies_keep_every_alignment_and_neighbour() {
    let pattern: Vec<u8> = (1..=40).collect();
    for offset in 0..9 {
        for len in 0..20 {
            let memory = SharedMemory::new(40);
            memory.write(0, &[0xee; 40]).unwrap();
            memory.write(offset, &pattern[..len]).unwrap();
            let mut all = [0; 40];
            memory.read(0, &mut all).unwrap();
            assert_eq!(&all[offset..offset + len], &pattern[..len]);
            assert!(all[..offset].iter().chain(&all[offset + len..]).all(|byte| *byte == 0xee));
            let mut back = vec![0; len];
            memory.read(offset, &mut back).unwrap();
            assert_eq!(back, &pattern[..len]);
        }
    }
}

#[test]
fn words_are_little_endian() {
    let memory = SharedMemory::new(16);
    memory.write_u64(8, 0x0102_0304_0506_0708).unwrap();
    assert_eq!(memory.read_u32(8), Ok(0x0506_0708));
    assert_eq!(memory.read_u32(12), Ok(0x0102_0304));
    let mut bytes = [0; 8];
    memory.read(8, &mut bytes).unwrap();
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn accesses_outside_or_unaligned_are_refused() {
    let memory = SharedMemory::new(16);
    let outside = |offset, len| MemoryError::OutOfRange { offset, len, size: 16 };
    assert_eq!(memory.read(10, &mut [0; 7]), Err(outside(10, 7)));
    assert_eq!(memory.write(usize::MAX, &[0; 2]), Err(outside(usize::MAX, 2)));
    assert_eq!(memory.read_u32(16), Err(outside(16, 4)));
    assert_eq!(memory.read_u64(12), Err(outside(12, 8)));
    assert_eq!(memory.write_u32(2, 0), Err(MemoryError::Misaligned { offset: 2, width: 4 }));
    assert_eq!(memory.write_u64(4, 0), Err(MemoryError::Misaligned { offset: 4, width: 8 }));
    assert!(memory.pointer(16, 0).is_ok());
    assert_eq!(memory.pointer(8, 9), Err(outside(8, 9)));
}

#[test]
fn clones_share_the_bytes() {
    let memory = SharedMemory::new(4);
    let other = memory.clone();
    memory.write_u32(0, 7).unwrap();
    assert_eq!(other.read_u32(0), Ok(7));
    assert!(memory.same_as(&other) && !memory.same_as(&SharedMemory::new(4)));
}

#[test]
fn a_host_region_reads_and_writes_foreign_memory() {
    let mut buffer = vec![0_u8; 11];
    let base = NonNull::new(buffer.as_mut_ptr()).unwrap();
    // SAFETY: the buffer lives on and is not touched otherwise while the view is in use.
    let region = unsafe { HostRegion::new(base, buffer.len()) };
    region.write(1, &[9; 9]).unwrap();
    assert!(region.write(1, &[9; 11]).is_err());
    assert_eq!((region.len(), region.is_empty()), (11, false));
    assert_eq!(buffer, [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
}

#[test]
fn two_threads_never_see_half_a_word() {
    let memory = SharedMemory::new(8);
    let writer = memory.clone();
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    let thread = std::thread::spawn(move || {
        for round in 0..rounds {
            let value = if round % 2 == 0 { 0 } else { u32::MAX };
            writer.write_u32(4, value).unwrap();
        }
    });
    for _ in 0..rounds {
        let mut bytes = [0; 8];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes[4..].iter().all(|byte| *byte == bytes[4]));
    }
    thread.join().unwrap();
}

#[test]
fn a_view_never_touches_bytes_beyond_its_edges() {
    for (start, end) in [(1, 2), (1, 6), (2, 11), (3, 5), (4, 8), (5, 12)] {
        let mut buffer = vec![0xee_u8; 12];
        // SAFETY: `start` lies inside the buffer.
        let base = NonNull::new(unsafe { buffer.as_mut_ptr().add(start) }).unwrap();
        // SAFETY: the buffer lives on and is not touched otherwise while the view is in use.
        let region = unsafe { HostRegion::new(base, end - start) };
        let data: Vec<u8> = (0..(end - start) as u8).collect();
        region.write(0, &data).unwrap();
        let mut back = vec![0; end - start];
        region.read(0, &mut back).unwrap();
        assert_eq!(back, data);
        assert_eq!(&buffer[start..end], data);
        assert!(buffer[..start].iter().chain(&buffer[end..]).all(|byte| *byte == 0xee));
    }
}

#[test]
fn clearing_reaches_over_pages() {
    let memory = SharedMemory::new(3 * PAGE_SIZE);
    memory.write(0, &vec![1; 3 * PAGE_SIZE]).unwrap();
    memory.clear(5, 2 * PAGE_SIZE).unwrap();
    let mut all = vec![0; 3 * PAGE_SIZE];
    memory.read(0, &mut all).unwrap();
    assert_eq!(all.iter().map(|byte| usize::from(*byte)).sum::<usize>(), PAGE_SIZE);
    assert_eq!((all[4], all[5], all[4 + 2 * PAGE_SIZE], all[5 + 2 * PAGE_SIZE]), (1, 0, 0, 1));
    assert!(memory.clear(PAGE_SIZE, 2 * PAGE_SIZE + 1).is_err());
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn another_mapping_of_the_file_sees_the_same_bytes() {
    use std::io::{Read, Seek, SeekFrom, Write};

    let memory = SharedMemory::new(3 * PAGE_SIZE - 5);
    let fd = memory.as_fd().expect("the system gives anonymous files");
    let mut file = std::fs::File::from(fd.try_clone_to_owned().unwrap());
    assert_eq!(file.metadata().unwrap().len(), 3 * PAGE_SIZE as u64);
    memory.write(PAGE_SIZE, b"from the memory").unwrap();
    let mut bytes = [0; 15];
    file.seek(SeekFrom::Start(PAGE_SIZE as u64)).unwrap();
    file.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"from the memory");
    file.seek(SeekFrom::Start(8)).unwrap();
    file.write_all(b"from the file").unwrap();
    let mut bytes = [0; 13];
    memory.read(8, &mut bytes).unwrap();
    assert_eq!(&bytes, b"from the file");
    assert!(file.set_len(PAGE_SIZE as u64).is_err(), "the file could shrink under the mapping");
}
