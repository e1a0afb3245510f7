//! Clients that say anything, over a real socket: each gets the right error, and the server serves on.
#![cfg(target_os = "linux")]

mod common;

use std::fs::File;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::raw::*;
use common::*;
use dw_edma::ChannelId;
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create};
use tombolo_hal::irq::IrqMode;
use tombolo_sim::dw_edma::{Format, presets};
use tombolo_vfio_user::protocol::{
    Access, Command, DmaMap, DmaUnmap, Errno, Header, IrqAction, IrqData, MAP_READ, MAP_WRITE, MAX_DATA,
    MAX_FDS, MAX_MESSAGE, SetIrqs, UNMAP_ALL, UNMAP_DIRTY_BITMAP,
};
use tombolo_vfio_user::server::ServerOptions;

/// QEMU 11.1 asks for it at migration.
const DEVICE_FEATURE: u16 = 16;

fn served() -> Served {
    let options = ServerOptions { send_timeout: Duration::from_millis(200), ..ServerOptions::default() };
    Served::engine(presets::edda(Format::Unrolled), options).0
}

/// The next client finds a device that works.
fn serves_on(served: &Served) {
    Raw::ready(&served.path).works();
}

#[test]
fn commands_of_any_number_and_length_get_one_answer_each() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    for fill in [0, 0x01, 0xff] {
        for command in (0..20).chain([u16::MAX]).filter(|command| *command != Command::DeviceReset as u16) {
            for len in 0..60 {
                let answer = raw.call(command, &vec![fill; len], &[]);
                let known = Command::from_number(command).is_some();
                assert!(known || answer == Err(Errno::OPNOTSUPP), "{command} {len}: {answer:?}");
            }
        }
        raw.works();
    }
    assert_eq!(raw.call(DEVICE_FEATURE, &[7; 1000], &[]), Err(Errno::OPNOTSUPP));
    raw.works();
}

#[test]
fn many_messages_at_once_are_answered_in_their_order() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let mut all = Vec::new();
    let mut headers = Vec::new();
    for round in 0..500u32 {
        let mut body = Vec::new();
        Access { offset: 0, region: CONFIG, count: 4 }.put(&mut body);
        let command = if round % 3 == 0 { DEVICE_FEATURE } else { Command::RegionRead as u16 };
        let (header, message) = raw.request(command, &body);
        all.extend_from_slice(&message);
        headers.push(header);
    }
    // In pieces that end anywhere.
    for piece in all.chunks(777) {
        raw.send(piece, &[]).unwrap();
    }
    for header in headers {
        let right = if header.command == DEVICE_FEATURE { Err(Errno::OPNOTSUPP) } else { Ok(20) };
        assert_eq!(raw.answer(&header).map(|body| body.len()), right);
    }
}

#[test]
fn a_message_beyond_all_bounds_is_refused_and_left_out() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let size = MAX_MESSAGE + 1;
    let header = Header { size, ..Header::request(1000, Command::RegionWrite, 0, true) };
    raw.send(&header.to_bytes(), &[]).unwrap();
    assert_eq!(raw.answer(&header), Err(Errno::MSGSIZE));
    raw.send(&vec![0xff; size as usize - 16], &[]).unwrap();
    raw.works();
    // Nobody waits for four gigabytes, or keeps room for them.
    let header = Header { size: u32::MAX, ..header };
    raw.send(&header.to_bytes(), &[]).unwrap();
    assert_eq!(raw.answer(&header), Err(Errno::MSGSIZE));
    drop(raw);
    serves_on(&served);
}

#[test]
fn a_size_below_the_header_ends_the_connection() {
    for size in [0, 1, 15] {
        let served = served();
        let mut raw = Raw::ready(&served.path);
        let header = Header { size, ..Header::request(1, Command::RegionRead, 0, true) };
        raw.send(&header.to_bytes(), &[]).unwrap();
        assert_eq!(raw.answer(&header), Err(Errno::INVAL));
        assert!(raw.hear().is_none());
        serves_on(&served);
    }
}

#[test]
fn counts_beyond_what_is_there_are_refused() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    assert_eq!(raw.read(2, 0, MAX_DATA).map(|data| data.len()), Ok(MAX_DATA as usize));
    assert_eq!(raw.read(2, 0, MAX_DATA + 1), Err(Errno::TOOBIG));
    assert_eq!(raw.read(2, 0, u32::MAX), Err(Errno::TOOBIG));
    for (region, offset, count) in [
        (CONFIG, 0, 4097),
        (CONFIG, 4096, 1),
        (0, u64::MAX, 4),
        (2, (16 << 20) - 4, 8),
        (1, 0, 4),
        (99, 0, 4),
    ] {
        assert_eq!(raw.read(region, offset, count), Err(Errno::INVAL), "{region} {offset:#x} {count}");
    }
    let mut body = Vec::new();
    Access { offset: 0, region: 2, count: 100 }.put(&mut body);
    body.extend_from_slice(&[1; 99]);
    assert_eq!(raw.call(Command::RegionWrite as u16, &body, &[]), Err(Errno::INVAL), "a byte is missing");
    for count in [1025, u64::MAX] {
        let answer = raw.call(Command::RegionWriteMulti as u16, &count.to_le_bytes(), &[]);
        assert_eq!(answer, Err(Errno::TOOBIG));
    }
    let answer = raw.call(Command::RegionWriteMulti as u16, &1024u64.to_le_bytes(), &[]);
    assert_eq!(answer, Err(Errno::INVAL), "no entry is there");
    raw.works();
}

#[test]
fn descriptors_that_are_no_memory_or_too_many_are_refused() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let (reader, writer) = std::io::pipe().unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    let on_disk = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_disk.set_len(1 << 20).unwrap();
    let (zero, memory, event) = (File::open("/dev/zero").unwrap(), memfd(1 << 20), event());
    let directory = File::open("/").unwrap();
    let wrong: [(&str, BorrowedFd<'_>); 7] = [
        ("pipe", reader.as_fd()),
        ("pipe", writer.as_fd()),
        ("socket", socket.as_fd()),
        ("device", zero.as_fd()),
        ("directory", directory.as_fd()),
        ("eventfd", event.as_fd()),
        ("file on a disk", on_disk.as_fd()),
    ];
    for (what, fd) in wrong {
        assert_eq!(raw.map(map_of(0, 4096), &[fd]), Err(Errno::INVAL), "{what}");
    }
    let memory = memory.as_fd();
    for count in [2, MAX_FDS, MAX_FDS + 1, 60] {
        assert_eq!(raw.map(map_of(0, 4096), &vec![memory; count]), Err(Errno::INVAL), "{count}");
    }
    assert_eq!(served.server.maps(), 0);
    assert_eq!(raw.map(map_of(0, 4096), &[memory]), Ok(vec![]));
    // Descriptors that nobody asked for are closed, and the message is carried out.
    let (header, message) = raw.request(Command::DeviceReset as u16, &[]);
    raw.send(&message, &[memory, event.as_fd()]).unwrap();
    assert_eq!(raw.answer(&header), Ok(vec![]));
    raw.works();
}

#[test]
fn interrupts_take_eventfds_and_as_many_as_vectors() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let mut set = |index, start, count, fds: &[BorrowedFd<'_>]| {
        let (action, data) = (IrqAction::Trigger, IrqData::EventFd);
        let mut body = Vec::new();
        SetIrqs { action, data, index, start, count }.put(&mut body);
        raw.call(Command::SetIrqs as u16, &body, fds)
    };
    let (event, memory) = (event(), memfd(4096));
    let (_reader, writer) = std::io::pipe().unwrap();
    for wrong in [writer.as_fd(), memory.as_fd()] {
        assert_eq!(set(2, 0, 1, &[wrong]), Err(Errno::INVAL));
    }
    let event = event.as_fd();
    assert_eq!(set(2, 0, 1, &[event, event]), Err(Errno::INVAL));
    assert_eq!(set(2, 0, 2, &[event, event]), Err(Errno::INVAL), "there is one vector");
    assert_eq!(set(2, 1, 1, &[event]), Err(Errno::INVAL));
    assert_eq!(set(9, 0, 1, &[event]), Err(Errno::INVAL));
    assert_eq!(set(2, u32::MAX, 1, &[event]), Err(Errno::INVAL));
    assert_eq!(set(2, 0, u32::MAX, &[]), Err(Errno::INVAL));
    assert_eq!(set(2, 0, 1, &[event]), Ok(vec![]));
    raw.works();
}

#[test]
fn maps_that_overlap_or_reach_beyond_their_file_are_refused() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let file = memfd(0x4000);
    let fd = [file.as_fd()];
    for bad in [
        map_of(0, 0x5000),
        DmaMap { offset: 0x1000, ..map_of(0, 0x4000) },
        DmaMap { offset: u64::MAX, ..map_of(0, 0x1000) },
        DmaMap { flags: 4, ..map_of(0, 0x1000) },
        map_of(0, 0),
        map_of(u64::MAX - 0xffe, 0x1000),
        map_of(0, u64::MAX),
    ] {
        assert_eq!(raw.map(bad, &fd), Err(Errno::INVAL), "{bad:x?}");
    }
    assert_eq!(raw.map(map_of(0x10000, 0x4000), &fd), Ok(vec![]));
    for (address, size) in [(0x10000, 0x4000), (0x10000, 0x1000), (0xf000, 0x1001), (0x13fff, 1)] {
        assert_eq!(raw.map(map_of(address, size), &fd), Err(Errno::EXIST), "{address:#x} {size:#x}");
    }
    let unmap = |flags, address, size| DmaUnmap { flags, address, size };
    for bad in [
        unmap(0, 0x10000, 0x1000),
        unmap(0, 0x11000, 0x8000),
        unmap(0, 0, 0),
        unmap(0, u64::MAX, 2),
        unmap(UNMAP_ALL, 0x10000, 0x4000),
        unmap(0x40, 0x10000, 0x4000),
    ] {
        assert_eq!(raw.unmap(bad), Err(Errno::INVAL), "{bad:x?}");
    }
    assert_eq!(raw.unmap(unmap(UNMAP_DIRTY_BITMAP, 0x10000, 0x4000)), Err(Errno::OPNOTSUPP));
    assert_eq!(served.server.maps(), 1);
    raw.works();
}

#[test]
fn thousands_of_pages_are_mapped_one_by_one_and_unmapped_at_once() {
    const PAGES: u64 = 20_000;
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let file = memfd(PAGES * 4096);
    for page in 0..PAGES {
        let map = DmaMap { offset: (PAGES - 1 - page) * 4096, ..map_of(page * 8192, 4096) };
        assert_eq!(raw.map(map, &[file.as_fd()]), Ok(vec![]));
    }
    assert_eq!(served.server.maps(), PAGES as usize);
    let answer = raw.unmap(DmaUnmap { flags: UNMAP_ALL, address: 0, size: 0 }).unwrap();
    assert_eq!(answer[16..24], (PAGES * 4096).to_le_bytes());
    assert_eq!(served.server.maps(), 0);
    let counters = served.server.counters();
    assert_eq!((counters.maps, counters.unmaps, counters.refused_requests), (PAGES, PAGES, 0));
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_message_is_in_nobodys_way() {
    let served = served();
    let file = memfd(4096);
    let mut body = Vec::new();
    map_of(0, 4096).put(&mut body);
    for cut in [0, 1, 15, 16, 17, 47] {
        for negotiated in [false, true] {
            let mut raw = if negotiated { Raw::ready(&served.path) } else { Raw::connect(&served.path) };
            let (_, message) = raw.request(Command::DmaMap as u16, &body);
            if cut != 0 {
                raw.send(&message[..cut], &[file.as_fd()]).unwrap();
            }
            drop(raw);
            serves_on(&served);
        }
    }
    served.without_client();
    assert_eq!(served.server.maps(), 0);
}

#[test]
fn a_client_that_says_no_more_but_still_listens_is_answered() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let (header, message) = raw.request(DEVICE_FEATURE, &[0; 100]);
    raw.send(&message, &[]).unwrap();
    raw.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(raw.answer(&header), Err(Errno::OPNOTSUPP));
    assert!(raw.hear().is_none());
    serves_on(&served);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let served = served();
    let mut raw = Raw::ready(&served.path);
    let mut body = Vec::new();
    Access { offset: 0, region: 2, count: MAX_DATA }.put(&mut body);
    let began = Instant::now();
    for _ in 0..100_000 {
        let (_, message) = raw.request(Command::RegionRead as u16, &body);
        if raw.send(&message, &[]).is_err() {
            break;
        }
    }
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
    served.without_client();
    serves_on(&served);
}

#[test]
fn clients_wait_for_each_other_and_each_begins_anew() {
    let served = served();
    let mut one = Raw::ready(&served.path);
    let file = memfd(4096);
    one.map(map_of(0, 4096), &[file.as_fd()]).unwrap();
    one.write(CONFIG, 4, &[6, 0]).unwrap();
    let (path, server) = (served.path.clone(), served.server.clone());
    let two = std::thread::spawn(move || {
        let mut two = Raw::ready(&path);
        (two.read(CONFIG, 4, 2), server.maps())
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!two.is_finished() && served.server.clients() == 1);
    one.works();
    drop(one);
    assert_eq!(two.join().unwrap(), (Ok(vec![0, 0]), 0));
}

#[test]
fn memory_that_shrinks_while_the_engine_copies_is_a_fault_of_the_device_only() {
    // Files that cannot be sealed are reached by system calls.
    let (served, _) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let mut raw = Raw::ready(&served.path);
    let fd: OwnedFd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 1 << 20).unwrap();
    let flags = MAP_READ | MAP_WRITE;
    raw.map(DmaMap { flags, ..map_of(0x10_0000, 1 << 20) }, &[fd.as_fd()]).unwrap();
    raw.write(CONFIG, 4, &[6, 0]).unwrap();
    raw.write(CONFIG, 0x10, &0xc000_0000u32.to_le_bytes()).unwrap();
    raw.write(CONFIG, 0x18, &0xd000_0000u32.to_le_bytes()).unwrap();
    // One element that reads all of it, and the end of the list.
    let element = |control: u32, size: u32, from: u64, to: u64| {
        let words = [control, size];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend_from_slice(&from.to_le_bytes());
        bytes.extend_from_slice(&to.to_le_bytes());
        bytes
    };
    let started = |raw: &mut Raw| {
        raw.write(2, 0, &element(0x19, 1 << 20, 0x10_0000, 0xd010_0000)).unwrap();
        raw.write(2, 24, &element(0, 0, 0, 0)).unwrap();
        for (offset, value) in [
            // Read engine on; channel 0: list, with interrupts; its list; the doorbell.
            (0x2c, 1u32),
            (0x300, 1 << 9 | 1 << 8 | 1 << 4 | 1 << 3),
            (0x31c, 0xd000_0000),
            (0x320, 0),
            (0x30, 0),
        ] {
            raw.write(0, offset, &value.to_le_bytes()).unwrap();
        }
    };
    started(&mut raw);
    let counters = || served.server.counters();
    eventually("nothing is read", || counters().dma_read_bytes >= 1 << 20);
    for round in 0..50 {
        ftruncate(&fd, 1 << 20).unwrap();
        started(&mut raw);
        std::thread::sleep(Duration::from_micros(round * 20));
        ftruncate(&fd, 4096).unwrap();
        raw.works();
    }
    ftruncate(&fd, 4096).unwrap();
    let before = counters().dma_refused;
    started(&mut raw);
    eventually("nothing is refused", || counters().dma_refused > before);
    raw.works();
}

#[test]
fn a_signal_that_a_client_made_block_blocks_nobody_after_it() {
    for stops in [false, true] {
        let mut served = served();
        let mut raw = Raw::ready(&served.path);
        let event = event();
        let set = |data, fds: u32| {
            let mut body = Vec::new();
            SetIrqs { action: IrqAction::Trigger, data, index: 2, start: 0, count: fds }.put(&mut body);
            body
        };
        let command = Command::SetIrqs as u16;
        raw.call(command, &set(IrqData::EventFd, 1), &[event.as_fd()]).unwrap();
        // The flags are those of the open file, which the server has, too.
        let flags = fcntl_getfl(&event).unwrap();
        fcntl_setfl(&event, flags - OFlags::NONBLOCK).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let (_, message) = raw.request(command, &set(IrqData::None, 1));
        raw.send(&message, &[]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        if stops {
            served.stop();
            continue;
        }
        drop(raw);
        serves_on(&served);
        // The other holder of the file is still there.
        assert!(fcntl_getfl(&event).unwrap().contains(OFlags::NONBLOCK));
    }
}

#[test]
fn after_all_that_a_driver_still_moves_data() {
    let (served, model) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    for seed in 0..20 {
        let mut raw = Raw::connect(&served.path);
        // Nothing at all, noise, or noise after a good beginning. It may be hung up on meanwhile.
        if seed % 3 == 1 {
            raw.agree();
        }
        if seed % 3 != 0 {
            let _ = raw.send(&pattern(seed, 10_000), &[]);
        }
    }
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    let mut ch = rig.open(ChannelId::read(0));
    rig.transfer(&model, &mut ch, &pattern(1, 10_000), 1);
    rig.close(ch);
}
