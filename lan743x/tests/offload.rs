//! Large sends, checksums, receive-side scaling, filters.

mod common;

use std::num::NonZeroU16;

use common::*;
use lan743x::{Filter, Rss};
use tombolo_hal::net::{MacAddress, RSS_KEY_DEFAULT, RssInput, RxChecksum, TxOffload, toeplitz};
use tombolo_sim::lan743x::{Params, presets};

const HEADERS: usize = 14 + 20 + 20;

/// An IPv4 frame with a TCP or UDP header, checksums left out.
fn ipv4(protocol: u8, ports: (u16, u16), payload: &[u8], to: [u8; 6]) -> Vec<u8> {
    let l4 = if protocol == 6 { 20 } else { 8 };
    let total = (20 + l4 + payload.len()) as u16;
    let mut bytes = to.to_vec();
    bytes.extend([2, 0, 0, 0, 0, 9, 0x08, 0x00, 0x45, 0]);
    bytes.extend(total.to_be_bytes());
    bytes.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    if protocol == 6 {
        bytes.extend(1000_u32.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    } else {
        bytes.extend(((8 + payload.len()) as u16).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend(payload);
    bytes
}

fn pair(params: Params) -> Pair {
    Pair::new(params.clone(), params, Setup::default())
}

#[test]
fn a_large_send_arrives_as_segments_with_right_numbers_and_checksums() {
    for params in [presets::lan7430_a0(), presets::pci11414_b0()] {
        let mut pair = pair(params);
        let payload: Vec<u8> = (0..5500).map(|index| index as u8).collect();
        let sent = ipv4(6, (1, 2), &payload, [0xff; 6]);
        let offload = TxOffload { checksum: true, segment: NonZeroU16::new(1000), ..TxOffload::default() };
        assert!(pair.a.send_on(0, &sent, offload));
        pair.a.tx[0].kick();
        let (_, got) = pair.run(200_000);
        assert_eq!(got.len(), 6);
        let mut whole = vec![];
        for (index, segment) in got.iter().enumerate() {
            assert_eq!(segment.info.checksum, RxChecksum::Good, "{index}");
            let bytes = &segment.bytes;
            let number = u32::from_be_bytes([bytes[38], bytes[39], bytes[40], bytes[41]]);
            assert_eq!(number, 1000 + 1000 * index as u32);
            assert_eq!(bytes[47] & 0x08 != 0, index == 5, "only the last one pushes");
            whole.extend_from_slice(&bytes[HEADERS..]);
        }
        assert_eq!(whole, payload);
        assert_eq!(pair.a.handle.counters().odd_payload_lengths, 0);
        assert_eq!(pair.a.sent, 1);
    }
}

#[test]
fn checksums_are_inserted_and_a_wrong_one_is_told() {
    let mut pair = pair(presets::lan7430_b0());
    let sent = ipv4(17, (53, 54), &[7; 100], [0xff; 6]);
    assert!(pair.a.send_on(0, &sent, TxOffload { checksum: true, ..TxOffload::default() }));
    pair.a.tx[0].kick();
    assert_eq!(pair.run(100_000).1[0].info.checksum, RxChecksum::Good);
    let mut wrong = sent;
    wrong[40] = 1;
    pair.a.send(&wrong);
    assert_eq!(pair.run(100_000).1[0].info.checksum, RxChecksum::Bad);
    pair.a.send(&frame(100, 1));
    assert_eq!(pair.run(100_000).1[0].info.checksum, RxChecksum::Unknown);
}

#[test]
fn each_flow_goes_to_the_queue_that_the_reference_hash_names() {
    for params in [presets::lan7430_a0(), presets::lan7430_b0(), presets::pci11010_b0()] {
        let mut pair = pair(params);
        let rss = Rss::spread(RSS_KEY_DEFAULT, 4);
        pair.b.nic.set_rss(&rss).unwrap();
        let mut seen = [0; 4];
        for flow in 0..64 {
            let ports = (1000 + flow, 80);
            pair.a.send(&ipv4(17, ports, &[0; 30], [0xff; 6]));
            let (_, got) = pair.run(100_000);
            let hash = toeplitz(&RSS_KEY_DEFAULT, &RssInput::ipv4([10, 0, 0, 1], [10, 0, 0, 2], Some(ports)));
            assert_eq!(got[0].queue, rss.queues[(hash & 0x7f) as usize], "flow {flow}");
            seen[usize::from(got[0].queue)] += 1;
        }
        assert!(seen.iter().all(|count| *count != 0), "{seen:?}");
        let mut bad = rss;
        bad.queues[5] = 4;
        assert!(pair.b.nic.set_rss(&bad).is_err());
    }
}

#[test]
fn frames_for_others_are_left_out_unless_they_are_asked_for() {
    let mut pair = pair(presets::lan7430_b0());
    let own = pair.b.nic.mac_address();
    let multicast: Vec<MacAddress> = (0..40).map(|n| MacAddress([0x01, 0x00, 0x5e, 0, 1, n])).collect();
    let to = |mac: MacAddress| [&mac.0[..], &frame(100, 1)[6..]].concat();
    let arrives = |pair: &mut Pair, mac: MacAddress| {
        pair.a.send(&to(mac));
        pair.run(60_000).1.len() == 1
    };
    let other = MacAddress([0x02, 9, 9, 9, 9, 9]);
    let unknown = MacAddress([0x01, 0x00, 0x5e, 9, 9, 9]);
    assert!(arrives(&mut pair, own) && arrives(&mut pair, MacAddress::BROADCAST));
    assert!(!arrives(&mut pair, other) && !arrives(&mut pair, multicast[0]));
    let filter = Filter { multicast: &multicast, ..Filter::default() };
    pair.b.nic.set_filter(&filter, &mut pair.b.delay).unwrap();
    for mac in &multicast {
        assert!(arrives(&mut pair, *mac), "{mac}");
    }
    assert!(!arrives(&mut pair, unknown) && !arrives(&mut pair, other) && arrives(&mut pair, own));
    let all = Filter { all_multicast: true, ..Filter::default() };
    pair.b.nic.set_filter(&all, &mut pair.b.delay).unwrap();
    assert!(arrives(&mut pair, unknown) && !arrives(&mut pair, other));
    let promiscuous = Filter { promiscuous: true, ..Filter::default() };
    pair.b.nic.set_filter(&promiscuous, &mut pair.b.delay).unwrap();
    assert!(arrives(&mut pair, unknown) && arrives(&mut pair, other));
    pair.b.nic.set_mac_address(other).unwrap();
    pair.b.nic.set_filter(&Filter::default(), &mut pair.b.delay).unwrap();
    assert!(arrives(&mut pair, other) && !arrives(&mut pair, own));
    assert!(pair.b.nic.set_mac_address(unknown).is_err());
}
