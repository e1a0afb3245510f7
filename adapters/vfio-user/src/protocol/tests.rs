use super::fields::Fields;
use super::*;
use proptest::prelude::*;
use vfio_bindings::bindings::vfio::{VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ};

fn bytes(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

/// As the specification's table has it: identifier, command, size, flags, error.
#[test]
fn a_header_has_the_layout_of_the_specification() {
    let header = Header::request(0x1234, Command::RegionRead, 16, true);
    let expected = [0x34, 0x12, 9, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(header.to_bytes(), expected);
    assert_eq!(Header::parse(&expected), header);
    let reply = header.reply(20);
    assert_eq!(reply.to_bytes(), [0x34, 0x12, 9, 0, 36, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let failure = header.failure(Errno::INVAL);
    assert_eq!(failure.to_bytes(), [0x34, 0x12, 9, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0]);
    assert_eq!(failure.failed(), Some(Errno::INVAL));
    assert!(!Header::request(0, Command::DmaWrite, 0, false).wants_reply());
}

#[test]
fn a_reply_that_failed_without_a_number_or_with_nonsense_is_an_io_error() {
    for error in [0, 4096, u32::MAX] {
        let header = Header { id: 0, command: 0, size: 16, flags: 0x21, error };
        assert_eq!(header.failed(), Some(Errno::IO));
    }
    assert_eq!(Header { id: 0, command: 0, size: 16, flags: 1, error: 22 }.failed(), None);
}

#[test]
fn kinds_that_do_not_exist_are_none() {
    let of = |flags| Header { id: 0, command: 1, size: 16, flags, error: 0 }.kind();
    assert_eq!((of(0), of(0x11), of(2), of(0xf)), (Some(Kind::Request), Some(Kind::Reply), None, None));
}

#[test]
fn what_qemu_sends_as_version_is_understood() {
    // QEMU 11.1.3's message, apart from its length.
    let text = br#"{"capabilities": {"max_msg_fds": 8, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535, "migration": {"pgsize": 4096, "max_bitmap_size": 268435456}, "write_multiple": true}}"#;
    let body = [&[0, 0, 0, 0][..], text, &[0]].concat();
    let Ok(Request::Version(version)) = Request::parse(1, &body) else { panic!("refused") };
    let expected = Capabilities { max_fds: 8, max_data: 1 << 20, write_multiple: true };
    assert_eq!(version, Version { major: 0, minor: 0, capabilities: expected });
}

#[test]
fn a_version_may_say_nothing_but_no_nonsense() {
    let parse = |text: &[u8]| {
        let body = [&[0, 0, 1, 0][..], text].concat();
        match Request::parse(1, &body) {
            Ok(Request::Version(version)) => Ok(version.capabilities),
            Ok(other) => panic!("{other:?}"),
            Err(errno) => Err(errno),
        }
    };
    for text in
        [&b""[..], b"\0", b"{}\0", b"{\"capabilities\":{}}\0", b"{\"capabilities\":{\"twin_socket\":{}}}"]
    {
        assert_eq!(parse(text), Ok(Capabilities::default()), "{text:?}");
    }
    for text in [
        &b"x"[..],
        b"{\0",
        b"{\"capabilities\":7}",
        b"{\"capabilities\":{\"max_msg_fds\":-1}}",
        b"{\"capabilities\":{\"max_msg_fds\":\"8\"}}",
        b"{\"capabilities\":{\"write_multiple\":1}}",
        b"\xff\xfe",
    ] {
        assert_eq!(parse(text), Err(Errno::INVAL), "{text:?}");
    }
    assert_eq!(parse(&[b'['; 100_000]), Err(Errno::INVAL), "nested too deep");
    assert_eq!(Request::parse(1, &[0, 0, 0]), Err(Errno::INVAL));
}

#[test]
fn our_version_is_read_as_it_was_meant() {
    for multiple in [false, true] {
        let ours = Version::ours(multiple);
        assert_eq!(Version::parse_reply(&bytes(|out| ours.put(out))), Ok(ours));
    }
}

#[test]
fn maps_that_make_no_sense_are_refused() {
    let map = DmaMap { flags: MAP_READ, offset: 0x1000, address: 0xfff0_0000, size: 0x2000 };
    let parse = |map: DmaMap| DmaMap::parse(Fields::new(&bytes(|out| map.put(out))));
    assert_eq!(parse(map), Ok(map));
    let end = DmaMap { address: u64::MAX, size: 1, ..map };
    assert_eq!(parse(end), Ok(end), "the last byte of all");
    for bad in [
        DmaMap { size: 0, ..map },
        DmaMap { address: u64::MAX, size: 2, ..map },
        DmaMap { offset: u64::MAX, ..map },
        DmaMap { flags: 4, ..map },
    ] {
        assert_eq!(parse(bad), Err(Errno::INVAL), "{bad:?}");
    }
    let mut small = bytes(|out| map.put(out));
    small[0] = 31;
    assert_eq!(Request::parse(2, &small), Err(Errno::INVAL), "argsz");
}

#[test]
fn unmaps_are_of_a_range_or_of_everything() {
    let parse = |flags, address, size| {
        let body = bytes(|out| DmaUnmap { flags, address, size }.put(out));
        DmaUnmap::parse(Fields::new(&body)).map(|unmap| unmap.range())
    };
    assert_eq!(parse(UNMAP_ALL, 0, 0), Ok((0, u64::MAX)));
    assert_eq!(parse(0, 0x1000, 0x1000), Ok((0x1000, 0x1fff)));
    for (flags, address, size) in
        [(0, 0, 0), (0, 2, u64::MAX), (UNMAP_ALL, 1, 0), (UNMAP_ALL, 0, 1), (3, 0, 0), (4, 0, 1)]
    {
        assert_eq!(parse(flags, address, size), Err(Errno::INVAL), "{flags} {address} {size}");
    }
    assert_eq!(parse(UNMAP_DIRTY_BITMAP, 0, 0x1000), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_region_is_described_with_its_areas_if_there_is_room() {
    let areas = vec![Area { offset: 0, size: 0x4000 }, Area { offset: 0x5000, size: 0x3000 }];
    let flags = VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_READ;
    let region = RegionInfo { flags, index: 2, size: 0x8000, offset: 0, areas };
    assert_eq!(region.answer_size(), 32 + 16 + 2 * 16);
    let whole = bytes(|out| region.put(80, out));
    assert_eq!(RegionInfo::parse(&whole), Ok((region.clone(), 80)));
    let short = bytes(|out| region.put(79, out));
    assert_eq!((short.len(), short[0]), (32, 80), "says how much room it needs");
    assert_eq!(short[12], 32, "QEMU wants an offset even if nothing is there");
}

#[test]
fn a_region_that_reaches_beyond_itself_is_no_answer() {
    let flags = VFIO_REGION_INFO_FLAG_MMAP;
    let areas = vec![Area { offset: 0x4000, size: u64::MAX }];
    let region = RegionInfo { flags, index: 2, size: 0x8000, offset: 0, areas };
    assert_eq!(RegionInfo::parse(&bytes(|out| region.put(96, out))), Err(Errno::INVAL));
    let region = RegionInfo { flags, index: 2, size: 0x8000, offset: u64::MAX, areas: Vec::new() };
    assert_eq!(RegionInfo::parse(&bytes(|out| region.put(96, out))), Err(Errno::INVAL));
}

#[test]
fn capabilities_that_lead_in_circles_end() {
    let region =
        RegionInfo { flags: 4, index: 0, size: 64, offset: 0, areas: vec![Area { offset: 0, size: 64 }] };
    let mut body = bytes(|out| region.put(64, out));
    // Another capability, which follows itself.
    body[32..40].copy_from_slice(&[9, 0, 1, 0, 32, 0, 0, 0]);
    assert_eq!(RegionInfo::parse(&body).unwrap().0.areas, []);
    body[12] = 250;
    assert_eq!(RegionInfo::parse(&body), Err(Errno::INVAL), "outside");
}

#[test]
fn questions_without_room_for_the_answer_are_refused() {
    assert_eq!(Request::parse(4, &[15, 0, 0, 0]), Err(Errno::INVAL));
    let question = bytes(|out| RegionInfo::put_request(7, 0, out));
    assert_eq!(Request::parse(5, &question), Ok(Request::RegionInfo(Info { room: 32, index: 7 })));
    let irq = IrqInfo { index: 2, flags: 0, count: 0 };
    assert_eq!(
        Request::parse(7, &bytes(|out| irq.put(out))),
        Ok(Request::IrqInfo(Info { room: 16, index: 2 }))
    );
    assert_eq!(Request::parse(7, &[16, 0, 0, 0, 0, 0, 0]), Err(Errno::INVAL));
}

#[test]
fn interrupt_requests_say_one_action_and_one_kind_of_data() {
    let raw = |flags: u32, start: u32, count: u32, data: &[u8]| {
        let words = [20 + data.len() as u32, flags, 2, start, count].map(u32::to_le_bytes).concat();
        Request::parse(8, &[&words[..], data].concat()).map(|_| ())
    };
    assert_eq!(raw(1 | 1 << 5, 0, 1, &[]), Ok(()));
    assert_eq!(raw(2 | 1 << 3, 3, 2, &[1, 0]), Ok(()));
    for (flags, start, count, data) in [
        (1, 0, 1, &[][..]),
        (1 << 5, 0, 1, &[]),
        (3 | 1 << 5, 0, 1, &[]),
        (1 | 3 << 4, 0, 1, &[]),
        (1 | 1 << 5 | 1 << 9, 0, 1, &[]),
        (2 | 1 << 3, 0, 3, &[1, 0]),
        (2 | 1 << 3, 0, u32::MAX, &[1]),
        (1 | 1 << 5, u32::MAX, 1, &[]),
    ] {
        assert_eq!(raw(flags, start, count, data), Err(Errno::INVAL), "{flags:#x}");
    }
}

#[test]
fn accesses_have_bounds() {
    let read = |offset: u64, count: u32| {
        let access = Access { offset, region: 0, count };
        Request::parse(9, &bytes(|out| access.put(out))).map(|_| ())
    };
    assert_eq!((read(0, MAX_DATA), read(0, MAX_DATA + 1)), (Ok(()), Err(Errno::TOOBIG)));
    assert_eq!(read(u64::MAX, 4), Err(Errno::INVAL));
    let write = |count: u32, data: &[u8]| {
        let access = Access { offset: 0, region: 0, count };
        Request::parse(10, &[&bytes(|out| access.put(out))[..], data].concat()).map(|_| ())
    };
    assert_eq!((write(4, &[0; 4]), write(4, &[0; 3])), (Ok(()), Err(Errno::INVAL)));
    assert_eq!(write(2, &[0; 4]), Ok(()), "what follows is left alone");
}

#[test]
fn several_writes_are_checked_before_one_is_made() {
    let entry =
        |count: u32| [&bytes(|out| Access { offset: 8, region: 1, count }.put(out))[..], &[7; 8]].concat();
    let all = |count: u64, entries: &[Vec<u8>]| [&count.to_le_bytes()[..], &entries.concat()].concat();
    let good = all(2, &[entry(4), entry(8)]);
    let Ok(Request::RegionWriteMulti(writes)) = Request::parse(15, &good) else { panic!("refused") };
    let sizes: Vec<_> = writes.iter().map(|write| write.unwrap().data.len()).collect();
    assert_eq!(sizes, [4, 8]);
    assert_eq!(Request::parse(15, &all(2, &[entry(4), entry(9)])), Err(Errno::INVAL));
    assert_eq!(Request::parse(15, &all(2, &[entry(4)])), Err(Errno::INVAL));
    assert_eq!(Request::parse(15, &all(u64::MAX, &[])), Err(Errno::TOOBIG));
    assert_eq!(Request::parse(15, &[]), Err(Errno::INVAL));
}

#[test]
fn what_is_not_served_says_so() {
    for command in [0, 6, 11, 12, 14, 16, 17, 18, 19, 255, u16::MAX] {
        assert_eq!(Request::parse(command, &[0; 64]), Err(Errno::OPNOTSUPP), "{command}");
    }
    assert_eq!(Command::from_number(13), Some(Command::DeviceReset));
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(command in 0u16..20, body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Request::RegionWriteMulti(writes)) = Request::parse(command, &body) {
            for write in writes.iter() {
                prop_assert!(write.unwrap().data.len() <= 8);
            }
        }
        let _ = RegionInfo::parse(&body);
        let _ = DeviceInfo::parse(&body);
        let _ = IrqInfo::parse(&body);
        let _ = Version::parse_reply(&body);
        let _ = Access::parse_reply(&body);
    }

    #[test]
    fn headers_survive_the_way(id: u16, command: u16, size: u32, flags: u32, error: u32) {
        let header = Header { id, command, size, flags, error };
        let parsed = Header::parse(header.to_bytes()[..].try_into().unwrap());
        prop_assert_eq!(parsed, header);
    }

    #[test]
    fn interrupt_requests_survive_the_way(
        action in prop::sample::select(vec![IrqAction::Mask, IrqAction::Unmask, IrqAction::Trigger]),
        chosen in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        index: u32,
        start in 0u32..1000,
        events: bool,
    ) {
        let count = chosen.as_ref().map_or(3, |chosen| chosen.len() as u32);
        let data = match &chosen {
            Some(chosen) => IrqData::Bool(chosen),
            None if events => IrqData::EventFd,
            None => IrqData::None,
        };
        let request = SetIrqs { action, data, index, start, count };
        let body = bytes(|out| request.put(out));
        prop_assert_eq!(SetIrqs::parse(Fields::new(&body)), Ok(request));
    }

    #[test]
    fn region_descriptions_survive_the_way(
        size in 1u64..1 << 40,
        cuts in prop::collection::vec((0u64..1 << 30, 1u64..1 << 30), 0..8),
        index in 0u32..9,
    ) {
        let areas: Vec<_> = cuts.into_iter().map(|(offset, size)| Area { offset, size }).collect();
        let size = areas.iter().map(|area| area.offset + area.size).max().unwrap_or(0).max(size);
        let region = RegionInfo { flags: 7, index, size, offset: 0x1000, areas };
        let body = bytes(|out| region.put(u32::MAX, out));
        prop_assert_eq!(RegionInfo::parse(&body), Ok((region.clone(), region.answer_size())));
    }
}
