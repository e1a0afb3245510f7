use super::*;
use std::os::unix::fs::FileExt;

const BOTH: u32 = MAP_READ | MAP_WRITE;

fn map(address: u64, size: u64, offset: u64) -> DmaMap {
    DmaMap { flags: BOTH, offset, address, size }
}

impl Talk<'_> {
    fn dma_read(&mut self, rig: &Rig, address: u64, count: u64) -> Result<Vec<u8>, DmaFault> {
        self.register(register::ADDRESS, address);
        self.register(register::READ, count);
        rig.take_result()
    }

    fn dma_write(&mut self, rig: &Rig, address: u64, value: u32) -> Result<Vec<u8>, DmaFault> {
        self.register(register::ADDRESS, address);
        self.register(register::WRITE, value.into());
        rig.take_result()
    }
}

#[test]
fn requests_reach_files_at_their_offsets_and_cross_from_map_to_map() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let (one, two) = (memfd(0x3000), memfd(0x1000));
    talk.map(map(0x1_0000, 0x1000, 0x2000), vec![copy_of(&one)]).unwrap();
    talk.map(map(0x1_1000, 0x1000, 0), vec![copy_of(&two)]).unwrap();
    one.write_all_at(&[1, 2], 0x2ffe).unwrap();
    two.write_all_at(&[3, 4], 0).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x1_0ffe, 4), Ok(vec![1, 2, 3, 4]));
    assert_eq!(talk.dma_write(&rig, 0x1_0ffe, 0x0807_0605), Ok(vec![]));
    let mut bytes = [0; 2];
    one.read_exact_at(&mut bytes, 0x2ffe).unwrap();
    assert_eq!(bytes, [5, 6]);
    two.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7, 8]);
    assert_eq!(talk.dma_read(&rig, 0x1_1ffe, 4), Err(DmaFault::Unmapped(0x1_2000)));
    assert_eq!(talk.dma_read(&rig, 0x1_0000, 0x2000).map(|data| data.len()), Ok(0x2000));
    let counters = rig.server.counters();
    assert_eq!((counters.dma_refused, counters.dma_written_bytes), (1, 4));
}

#[test]
fn a_map_for_reading_cannot_be_written_and_one_for_writing_not_read() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(0x1000);
    talk.map(DmaMap { flags: MAP_READ, ..map(0x1000, 0x800, 0) }, vec![copy_of(&file)]).unwrap();
    talk.map(DmaMap { flags: MAP_WRITE, ..map(0x1800, 0x800, 0x800) }, vec![copy_of(&file)]).unwrap();
    assert_eq!(talk.dma_write(&rig, 0x1000, 1), Err(DmaFault::Permission(0x1000)));
    assert_eq!(talk.dma_read(&rig, 0x1800, 4), Err(DmaFault::Permission(0x1800)));
    assert_eq!(talk.dma_write(&rig, 0x1ffc, 1), Ok(vec![]));
    // The first half of it is written where that is allowed.
    assert_eq!(talk.dma_write(&rig, 0x17fe, 1), Err(DmaFault::Permission(0x17fe)));
}

#[test]
fn overlapping_and_bogus_maps_are_refused() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(0x2000);
    talk.map(map(0x1_0000, 0x2000, 0), vec![copy_of(&file)]).unwrap();
    for address in [0x1_0000, 0xf000, 0x1_1000] {
        let size = 0x1001;
        assert_eq!(talk.map(map(address, size, 0), vec![copy_of(&file)]), Err(Errno::EXIST), "{address:#x}");
    }
    assert_eq!(
        talk.map(map(0x2_0000, 0x2001, 0), vec![copy_of(&file)]),
        Err(Errno::INVAL),
        "beyond the file"
    );
    assert_eq!(talk.map(map(0x2_0000, 0x1000, 0x1001), vec![copy_of(&file)]), Err(Errno::INVAL));
    let two = vec![copy_of(&file), copy_of(&file)];
    assert_eq!(talk.map(map(0x2_0000, 0x1000, 0), two), Err(Errno::INVAL), "one descriptor");
    let pipe = std::io::pipe().unwrap();
    assert_eq!(talk.map(map(0x2_0000, 0x1000, 0), vec![pipe.0.into()]), Err(Errno::INVAL));
    let zero = File::open("/dev/zero").unwrap();
    assert_eq!(talk.map(map(0x2_0000, 0x1000, 0), vec![zero.into()]), Err(Errno::INVAL));
    assert_eq!(talk.map(map(0x2_0000, 0x1000, 0), vec![copy_of(&memfd(0))]), Err(Errno::INVAL));
    assert_eq!(rig.server.counters().maps, 1);
}

#[test]
fn without_a_file_there_is_a_map_but_nothing_to_reach() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.map(map(0x1000, 0x1000, 0), vec![]).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x1000, 4), Err(DmaFault::Unmapped(0x1000)));
    assert_eq!(talk.map(map(0x1000, 0x1000, 0), vec![]), Err(Errno::EXIST));
    assert_eq!(talk.unmap(0, 0x1000, 0x1000), Ok(0x1000));
}

#[test]
fn unmapping_takes_whole_maps_and_ranges_without_any_are_no_error() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(0x4000);
    for page in 0..4 {
        talk.map(map(0x1_0000 + page * 0x1000, 0x1000, page * 0x1000), vec![copy_of(&file)]).unwrap();
    }
    assert_eq!(talk.unmap(0, 0x1_0800, 0x1000), Err(Errno::INVAL), "cuts two");
    assert_eq!(talk.unmap(0, 0x1_3000, 0x800), Err(Errno::INVAL), "cuts one");
    assert_eq!(
        talk.dma_read(&rig, 0x1_0000, 0x4000).map(|data| data.len()),
        Ok(0x4000),
        "nothing was removed"
    );
    assert_eq!(talk.unmap(0, 0x1_1000, 0x2000), Ok(0x2000));
    assert_eq!(talk.dma_read(&rig, 0x1_0ffe, 4), Err(DmaFault::Unmapped(0x1_1000)));
    assert_eq!(talk.unmap(0, 0x1_1000, 0x2000), Ok(0));
    assert_eq!(talk.unmap(UNMAP_ALL, 0, 0), Ok(0x2000));
    assert_eq!(talk.dma_read(&rig, 0x1_3000, 4), Err(DmaFault::Unmapped(0x1_3000)));
    assert_eq!(rig.server.counters().unmaps, 4);
}

#[test]
fn tens_of_thousands_of_small_maps_of_one_file() {
    const PAGES: u64 = 40_000;
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(PAGES * 0x1000);
    for page in 0..PAGES {
        // Backwards in the file, so that none could be joined to the next.
        let offset = (PAGES - 1 - page) * 0x1000;
        talk.map(map(0x10_0000 + page * 0x1000, 0x1000, offset), vec![copy_of(&file)]).unwrap();
    }
    file.write_all_at(&[0x5a; 4], (PAGES - 1) * 0x1000).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x10_0000, 4), Ok(vec![0x5a; 4]));
    for page in 0..PAGES {
        assert_eq!(talk.unmap(0, 0x10_0000 + page * 0x1000, 0x1000), Ok(0x1000));
    }
    assert_eq!(rig.server.shared.memory.count(), 0);
    assert!(rig.server.shared.memory.mapped_files() <= 1);
}

#[test]
fn a_file_that_grew_is_mapped_again() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(0x1000);
    talk.map(map(0x1_0000, 0x1000, 0), vec![copy_of(&file)]).unwrap();
    file.set_len(0x2000).unwrap();
    file.write_all_at(&[7; 4], 0x1000).unwrap();
    talk.map(map(0x2_0000, 0x1000, 0x1000), vec![copy_of(&file)]).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x2_0000, 4), Ok(vec![7; 4]));
    assert!(talk.dma_read(&rig, 0x1_0000, 4).is_ok());
    assert!(file.set_len(0).is_err(), "sealed");
}

#[test]
fn no_client_takes_the_address_space_of_the_process() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let (huge, half, other) = (memfd(1 << 45), memfd((1 << 43) + 1), memfd((1 << 43) + 1));
    assert_eq!(talk.map(map(0, 0x1000, 0), vec![copy_of(&huge)]), Err(Errno::NOSPC));
    assert_eq!(talk.map(map(0, 0x1000, 0), vec![copy_of(&half)]), Ok(()));
    assert_eq!(talk.map(map(0x1000, 0x1000, 0), vec![copy_of(&other)]), Err(Errno::NOSPC));
    // Nor do mappings of one file that grows and grows.
    let file = memfd(0);
    let made = (1..2000u64).take_while(|page| {
        file.set_len(page * 0x1000).unwrap();
        talk.map(map(page * 0x1_0000, 0x1000, (page - 1) * 0x1000), vec![copy_of(&file)]).is_ok()
    });
    let made = made.count();
    assert!((1000..1025).contains(&made), "{made}");
    // What is given back can be had again.
    talk.unmap(UNMAP_ALL, 0, 0).unwrap();
    assert_eq!(talk.map(map(0, 0x1000, 0), vec![copy_of(&other)]), Ok(()));
}

#[test]
fn memory_that_shrinks_is_a_fault_and_no_signal() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 0x2000).unwrap();
    let file = File::from(fd);
    talk.map(map(0x1_0000, 0x2000, 0), vec![copy_of(&file)]).unwrap();
    assert_eq!(talk.dma_write(&rig, 0x1_1000, 0x0403_0201), Ok(vec![]));
    assert_eq!(talk.dma_read(&rig, 0x1_1000, 4), Ok(vec![1, 2, 3, 4]));
    file.set_len(0x1000).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x1_1000, 4), Err(DmaFault::Unmapped(0x1_1000)));
    assert_eq!(talk.dma_write(&rig, 0x1_1000, 1), Err(DmaFault::Unmapped(0x1_1000)));
    assert_eq!(talk.dma_read(&rig, 0x1_0000, 4), Ok(vec![0; 4]));
}

#[test]
fn a_device_may_send_nothing_while_bus_mastering_is_off() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.map(map(0x1_0000, 0x1000, 0), vec![copy_of(&memfd(0x1000))]).unwrap();
    talk.config_write(COMMAND, &2u16.to_le_bytes());
    assert_eq!(talk.dma_read(&rig, 0x1_0000, 4), Err(DmaFault::NotBusMaster));
    assert_eq!(talk.dma_write(&rig, 0x1_0000, 4), Err(DmaFault::NotBusMaster));
    talk.register(register::MESSAGE, 1);
    assert_eq!(rig.take_result(), Err(DmaFault::NotBusMaster));
}

#[test]
fn the_devices_own_memory_is_reached_at_its_bars_address() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.config_write(0x18, &0xc000_0000u32.to_le_bytes());
    talk.config_write(0x1c, &0x12u32.to_le_bytes());
    // QEMU tells of the BAR it has mapped, without a file.
    talk.map(map(0x12_c000_0000, 0x4000, 0), vec![]).unwrap();
    rig.memory.write_u32(0x3ffc, 0x0403_0201).unwrap();
    assert_eq!(talk.dma_read(&rig, 0x12_c000_3ffc, 4), Ok(vec![1, 2, 3, 4]));
    assert_eq!(talk.dma_write(&rig, 0x12_c000_0000, 9), Ok(vec![]));
    assert_eq!(rig.memory.read_u32(0), Ok(9));
    assert_eq!(talk.dma_read(&rig, 0x12_c000_3ffe, 4), Err(DmaFault::Unmapped(0x12_c000_4000)));
}

#[test]
fn addresses_do_not_wrap_around() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let file = memfd(0x1000);
    talk.map(map(u64::MAX - 0xfff, 0x1000, 0), vec![copy_of(&file)]).unwrap();
    talk.map(map(0, 0x1000, 0), vec![copy_of(&file)]).unwrap();
    assert_eq!(talk.dma_read(&rig, u64::MAX - 1, 2), Ok(vec![0; 2]));
    assert!(talk.dma_read(&rig, u64::MAX - 1, 4).is_err());
    assert_eq!(talk.unmap(0, u64::MAX - 0xfff, 0x1000), Ok(0x1000));
}
