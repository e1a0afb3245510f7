use super::*;
use crate::protocol::{HEADER_SIZE, MAX_DATA, MAX_MESSAGE, RegionInfo};
use tombolo_sim::device::Width::{W8, W16, W32, W64};

#[test]
fn nothing_is_answered_before_the_version_and_the_version_only_once() {
    let rig = Rig::new();
    let mut talk = Talk::new(&rig);
    assert_eq!(talk.read(CONFIG, 0, 4), Err(Errno::INVAL));
    assert_eq!(talk.call(1, &[1, 0, 0, 0], vec![]), Err(Errno::OPNOTSUPP), "another major version");
    let answer = talk.version().unwrap();
    assert_eq!((&answer[..4], answer.last()), (&[0; 4][..], Some(&0)));
    assert_eq!(talk.version(), Err(Errno::INVAL));
    assert_eq!(talk.read(CONFIG, 0, 4), Ok(vec![0xe5, 0x1d, 1, 0]));
}

#[test]
fn unknown_and_malformed_messages_are_refused_and_the_stream_stays_in_step() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    for command in [0, 6, 11, 12, 14, 16, 17, 99, u16::MAX] {
        assert_eq!(talk.call(command, &[0xff; 77], vec![]), Err(Errno::OPNOTSUPP), "{command}");
    }
    for command in [2, 3, 4, 5, 7, 8, 9, 10, 15] {
        assert_eq!(talk.call(command, &[], vec![]), Err(Errno::INVAL), "{command}");
    }
    assert_eq!(talk.read(CONFIG, 0, 2), Ok(vec![0xe5, 0x1d]));
    assert_eq!(rig.server.counters().refused_requests, 18);
}

#[test]
fn a_message_of_an_unknown_kind_is_refused_and_replies_are_not_answered() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let strange = Header { id: 1, command: 9, size: 16, flags: 2, error: 0 };
    let replies = talk.client.feed(&strange.to_bytes(), vec![]);
    assert_eq!(replies[0].0.failed(), Some(Errno::INVAL));
    for flags in [1, 0x21, 0x11] {
        let reply = Header { id: 7, command: 12, size: 16, flags, error: 19 };
        assert!(talk.client.feed(&reply.to_bytes(), vec![]).is_empty());
    }
    assert_eq!(rig.server.counters().refused_messages, 1);
}

#[test]
fn who_wants_no_reply_gets_none_not_even_an_error() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let mut body = Vec::new();
    Access { offset: 0x40, region: 0, count: 4 }.put(&mut body);
    body.extend_from_slice(&[1, 2, 3, 4]);
    let header = Header::request(9, Command::RegionWrite, body.len(), false);
    assert!(talk.client.feed(&[&header.to_bytes()[..], &body].concat(), vec![]).is_empty());
    assert_eq!(rig.log.lock().unwrap().writes, [(0x40, W32, 0x0403_0201)]);
    let wrong = Header { command: 99, ..Header::request(9, Command::Version, 0, false) };
    assert!(talk.client.feed(&wrong.to_bytes(), vec![]).is_empty());
}

#[test]
fn messages_that_are_too_large_or_too_small() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let large = Header { size: MAX_MESSAGE + 1, ..Header::request(5, Command::RegionRead, 0, true) };
    let replies = talk.client.feed(&large.to_bytes(), vec![]);
    assert_eq!(replies[0].0.failed(), Some(Errno::MSGSIZE));
    assert!(talk.client.feed(&vec![0; MAX_MESSAGE as usize + 1 - HEADER_SIZE], vec![]).is_empty());
    assert!(talk.read(CONFIG, 0, 4).is_ok(), "what followed it is read");
    let small = Header { size: 15, ..Header::request(6, Command::RegionRead, 0, true) };
    let replies = talk.client.feed(&small.to_bytes(), vec![]);
    assert_eq!(replies[0].0.failed(), Some(Errno::INVAL));
    assert!(talk.client.feed(&small.to_bytes(), vec![]).is_empty(), "the server hung up");
}

#[test]
fn accesses_outside_of_a_region_are_refused() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    for (region, offset, count) in [
        (0, 0x2000, 4),
        (0, 0x1ffe, 4),
        (1, 0, 4),
        (3, 0, 4),
        (6, 0, 4),
        (8, 0, 4),
        (9, 0, 4),
        (u32::MAX, 0, 4),
    ] {
        assert_eq!(talk.read(region, offset, count), Err(Errno::INVAL), "{region} {offset:#x}");
        assert_eq!(talk.write(region, offset, &[0; 4]), Err(Errno::INVAL), "{region} {offset:#x}");
    }
    assert_eq!(talk.read(CONFIG, 4094, 4), Err(Errno::INVAL));
    assert_eq!(talk.read(0, 0, 0), Err(Errno::INVAL));
    assert_eq!(talk.read(0, 0, MAX_DATA + 1), Err(Errno::TOOBIG));
    assert!(rig.log.lock().unwrap().writes.is_empty());
}

#[test]
fn accesses_reach_the_model_in_their_width() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.write(0, 0x40, &[1]).unwrap();
    talk.write(0, 0x42, &[1, 2]).unwrap();
    talk.write(0, 0x44, &[1, 2, 3, 4]).unwrap();
    talk.write(0, 0x48, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    // Not aligned, or of no width: cut.
    talk.write(0, 0x53, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let expected = [
        (0x40, W8, 1),
        (0x42, W16, 0x0201),
        (0x44, W32, 0x0403_0201),
        (0x48, W64, 0x0807_0605_0403_0201),
        (0x53, W8, 1),
        (0x54, W32, 0x0504_0302),
        (0x58, W16, 0x0706),
        (0x5a, W8, 8),
    ];
    assert_eq!(rig.log.lock().unwrap().writes, expected);
    assert_eq!(talk.read(0, 0x48, 8), Ok(vec![0x48, 0, 0x11, 0x11, 0x48, 0, 0, 0]));
    assert_eq!(talk.read(0, 0x44, 6), Ok(vec![0x44, 0, 0x11, 0x11, 0x48, 0]));
}

#[test]
fn several_writes_in_one_message_keep_their_order_and_are_all_or_nothing() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let entry = |offset: u64, count: u32, value: u64| {
        let mut entry = Vec::new();
        Access { offset, region: 0, count }.put(&mut entry);
        entry.extend_from_slice(&value.to_le_bytes());
        entry
    };
    let good = [&2u64.to_le_bytes()[..], &entry(0x40, 4, 7), &entry(0x44, 2, 8)].concat();
    assert_eq!(talk.call(15, &good, vec![]), Ok(vec![]));
    assert_eq!(rig.log.lock().unwrap().writes, [(0x40, W32, 7), (0x44, W16, 8)]);
    let bad = [&2u64.to_le_bytes()[..], &entry(0x48, 4, 7), &entry(0x4c, 9, 8)].concat();
    assert_eq!(talk.call(15, &bad, vec![]), Err(Errno::INVAL));
    assert_eq!(rig.log.lock().unwrap().writes.len(), 2);
}

#[test]
fn while_memory_decoding_is_off_nobody_answers() {
    let rig = Rig::new();
    let mut talk = Talk::new(&rig);
    talk.version().unwrap();
    rig.memory.write_u32(0x100, 0x1234).unwrap();
    assert_eq!(talk.read(0, 0x40, 4), Ok(vec![0xff; 4]));
    assert_eq!(talk.read(2, 0x100, 4), Ok(vec![0xff; 4]));
    talk.write(0, 0x40, &[1, 2, 3, 4]).unwrap();
    talk.write(2, 0x100, &[1, 2, 3, 4]).unwrap();
    assert!(rig.log.lock().unwrap().writes.is_empty());
    assert_eq!(rig.memory.read_u32(0x100), Ok(0x1234));
    talk.config_write(COMMAND, &ON.to_le_bytes());
    assert_eq!(talk.read(2, 0x100, 4), Ok(vec![0x34, 0x12, 0, 0]));
    talk.write(2, 0x101, &[9; 5]).unwrap();
    assert_eq!(talk.read(2, 0xff, 8), Ok(vec![0, 0x34, 9, 9, 9, 9, 9, 0]));
}

#[test]
fn configuration_space_is_read_whole_and_in_parts_alike() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let whole = talk.read(CONFIG, 0, 4096).unwrap();
    for (offset, count) in [(0, 1), (1, 2), (3, 4), (0x34, 8), (0x10, 24), (4095, 1)] {
        let part = talk.read(CONFIG, offset, count).unwrap();
        assert_eq!(part, whole[offset as usize..][..count as usize]);
    }
}

#[test]
fn the_device_regions_and_interrupts_are_described() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let words = |bytes: Vec<u8>| -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    assert_eq!(talk.call(4, &16u32.to_le_bytes(), vec![]).map(words), Ok(vec![16, 3, 9, 5]));
    let mut counts = Vec::new();
    for index in 0..5u32 {
        let question = [16, 0, index, 0].map(u32::to_le_bytes).concat();
        counts.push(words(talk.call(7, &question, vec![]).unwrap())[3]);
    }
    assert_eq!(counts, [1, 4, 40, 0, 0]);
    let mut describe = |index, room| {
        let mut body = Vec::new();
        RegionInfo::put_request(index, room, &mut body);
        let answer = talk.call(5, &body, vec![])?;
        Ok(RegionInfo::parse(&answer)?.0)
    };
    let sizes: Vec<_> = (0..9).map(|index| describe(index, 4096).unwrap().size).collect();
    assert_eq!(sizes, [0x2000, 0, 0x4000, 0, 0, 0, 0, 0x1000, 0]);
    assert_eq!(describe(2, 4096).unwrap().areas.len(), 1);
    assert_eq!(describe(9, 4096), Err(Errno::INVAL));
}

#[test]
fn a_reset_keeps_bars_and_forgets_the_rest() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.config_write(0x10, &0xe000_0000u32.to_le_bytes());
    let express = talk.capability(0x10);
    for (at, way) in [(1, "by message"), (2, "function-level")] {
        talk.register(register::LATER, 5);
        if way == "by message" {
            talk.reset();
        } else {
            talk.config_write(express + 8, &0x8000u16.to_le_bytes());
        }
        assert_eq!(talk.read(CONFIG, 0x10, 4), Ok(vec![0, 0, 0, 0xe0]), "{way}");
        assert_eq!(talk.config_read16(COMMAND), 0, "{way}");
        assert_eq!(rig.log.lock().unwrap().resets, at, "{way}");
        rig.server.run_events(10);
        talk.config_write(COMMAND, &ON.to_le_bytes());
    }
    assert!(rig.log.lock().unwrap().events.is_empty(), "events from before a reset do not come after it");
    talk.register(register::LATER, 6);
    rig.server.run_events(10);
    assert_eq!(rig.log.lock().unwrap().events, [6]);
    assert_eq!(rig.server.counters().resets, 2);
}

#[test]
fn the_next_client_finds_the_device_as_after_power_on() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.config_write(0x10, &0xe000_0000u32.to_le_bytes());
    talk.map(
        DmaMap { flags: MAP_READ, offset: 0, address: 0x1000, size: 0x1000 },
        vec![copy_of(&memfd(4096))],
    )
    .unwrap();
    talk.register(register::ADDRESS, 0x1000);
    drop(talk);
    let mut talk = Talk::ready(&rig);
    assert_eq!(talk.read(CONFIG, 0x10, 4), Ok(vec![0; 4]));
    talk.register(register::READ, 4);
    assert_eq!(rig.take_result(), Err(DmaFault::Unmapped(0)));
    talk.register(register::ADDRESS, 0x1000);
    talk.register(register::READ, 4);
    assert_eq!(rig.take_result(), Err(DmaFault::Unmapped(0x1000)));
}

#[test]
fn a_removed_function_reads_all_ones_and_does_nothing() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.register(register::LATER, 1);
    rig.server.shared.set_removed(true);
    rig.server.run_events(10);
    assert_eq!(talk.read(CONFIG, 0, 4), Ok(vec![0xff; 4]));
    assert_eq!(talk.read(0, 0x40, 4), Ok(vec![0xff; 4]));
    assert_eq!(talk.read(2, 0, 16), Ok(vec![0xff; 16]));
    talk.register(register::LATER, 1);
    assert_eq!(rig.log.lock().unwrap().writes.len(), 1);
    assert!(rig.log.lock().unwrap().events.is_empty());
    rig.server.shared.set_removed(false);
    assert_eq!(talk.config_read16(0), 0x1de5);
    assert_eq!(talk.read(0, 0x40, 4), Ok(vec![0xff; 4]), "after a reset memory decoding is off");
}
