//! ARP requests, neighbour solicitations, and TCP SYN packets (AN2948 sections 6.1.19, 6.1.23 to 6.1.34).
//!
//! An address or port of zeros in a register is a wild card; for the address that a solicitation asks for it
//! is none. Frames have no tag; IPv6 packets no extension headers (the note has those; left out).

use crate::lan743x::frame::{self, ETH_VLAN, ICMPV6, Ip, TCP, be16, be32};

const SYN: u8 = 2;

fn fits4(wanted: u32, found: u32) -> bool {
    wanted == 0 || wanted == found
}

fn fits6(wanted: [u8; 16], found: &[u8]) -> bool {
    wanted == [0; 16] || wanted[..] == *found
}

/// An ARP request with these sender and target addresses.
pub(super) fn arp(bytes: &[u8], sender: u32, target: u32) -> bool {
    let request = bytes.get(12..22) == Some(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request
        && be32(bytes, 28).is_some_and(|found| fits4(sender, found))
        && be32(bytes, 38).is_some_and(|found| fits4(target, found))
}

/// The IP header of a frame without tags that carries all of a packet with this protocol. `checks`: its
/// checksums have to be right.
fn packet(bytes: &[u8], v6: bool, protocol: u8, checks: bool) -> Option<Ip> {
    let headers = frame::parse(bytes, ETH_VLAN).filter(|headers| headers.tags == 0)?;
    let ip =
        headers.ip.filter(|ip| ip.v6 == v6 && ip.protocol == protocol && !ip.fragment && !ip.extended)?;
    let right = !checks || ip.header_is_good(bytes) && ip.transport_is_good(bytes) == Some(true);
    right.then_some(ip)
}

/// What an IP packet carries.
fn payload(bytes: &[u8], ip: Ip) -> &[u8] {
    bytes.get(ip.l4..ip.end).unwrap_or_default()
}

/// SYN without looking at its checksum, with ports as in the register (target high).
fn is_syn(segment: &[u8], ports: u32) -> bool {
    let port = |wanted: u32, at: usize| {
        let wanted = wanted as u16;
        be16(segment, at).is_some_and(|found| wanted == 0 || wanted == found)
    };
    segment.get(13).is_some_and(|flags| flags & SYN != 0) && port(ports, 0) && port(ports >> 16, 2)
}

/// A TCP SYN over IPv4. Addresses: source, destination.
pub(super) fn syn4(bytes: &[u8], addresses: [u32; 2], ports: u32, checks: bool) -> bool {
    packet(bytes, false, TCP, checks).is_some_and(|ip| {
        be32(bytes, ip.at + 12).is_some_and(|source| fits4(addresses[0], source))
            && be32(bytes, ip.at + 16).is_some_and(|destination| fits4(addresses[1], destination))
            && is_syn(payload(bytes, ip), ports)
    })
}

/// A TCP SYN over IPv6. Addresses: source, destination.
pub(super) fn syn6(bytes: &[u8], addresses: [[u8; 16]; 2], ports: u32, checks: bool) -> bool {
    packet(bytes, true, TCP, checks).is_some_and(|ip| {
        let (source, destination) = ip.addresses(bytes).split_at(16);
        fits6(addresses[0], source) && fits6(addresses[1], destination) && is_syn(payload(bytes, ip), ports)
    })
}

/// A set of registers for neighbour solicitations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solicited {
    pub target: [u8; 16],
    pub source: [u8; 16],
    pub asked: [[u8; 16]; 2],
}

const SOLICITED_NODE: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

/// A neighbour solicitation for one of these addresses. Of a solicited node address only the last three
/// bytes count; the note compares them with the register's upper three bytes, and so does the model.
pub(super) fn solicitation(bytes: &[u8], set: Solicited, checks: bool) -> bool {
    packet(bytes, true, ICMPV6, checks).is_some_and(|ip| {
        let ((source, target), message) = (ip.addresses(bytes).split_at(16), payload(bytes, ip));
        let to = match target.strip_prefix(&SOLICITED_NODE) {
            Some(last) => fits6(set.target, target) || set.target[..3] == *last,
            None => fits6(set.target, target),
        };
        let asked = message
            .get(8..24)
            .is_some_and(|asked| set.asked.iter().any(|own| *own != [0; 16] && own[..] == *asked));
        to && asked && fits6(set.source, source) && message.first() == Some(&135)
    })
}
