//! PTP messages inside of frames: which are recognised, and what the unit takes out of them.
//!
//! Sources: AN2948 tables 264, 265, 268, 269, 275; IEEE 1588 annexes for the transports.
//!
//! Decisions. Tags have the types 8100h, 88a8h and 9100h, two at most. Ports are 319 and 320. The polynomial
//! of the 12-bit CRC over the source port identity is not documented: x^12+x^11+x^3+x^2+x+1 is taken, from
//! 0, high bit first. UDP over IPv6 that has no checksum is not valid; over IPv4 it is.

use crate::lan743x::frame::{ETH_IPV4, ETH_IPV6, ETH_PTP, ETH_VLAN, UDP, be16, fold, put16, sum};

/// How a message is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Ethernet,
    /// Offsets of the IP and the UDP header.
    Ipv4(usize, usize),
    Ipv6(usize, usize),
}

/// Where a PTP message is, and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub transport: Transport,
    /// Offset of its header.
    pub at: usize,
    pub kind: u8,
}

/// Message type Sync.
pub(super) const SYNC: u8 = 0;

/// Finds a message. `other_routing`: IPv6 routing headers of any type are skipped when nothing of them is
/// left, not only types 0 and 2.
pub(super) fn find(bytes: &[u8], other_routing: bool) -> Option<Message> {
    let mut at = 12;
    let mut kind = be16(bytes, at)?;
    for _ in 0..2 {
        if matches!(kind, ETH_VLAN | 0x88a8 | 0x9100) {
            at += 4;
            kind = be16(bytes, at)?;
        }
    }
    let payload = at + 2;
    let (transport, header) = match kind {
        ETH_PTP => (Transport::Ethernet, payload),
        ETH_IPV4 => ipv4(bytes, payload)?,
        ETH_IPV6 => ipv6(bytes, payload, other_routing)?,
        _ => return None,
    };
    // All of the common header has to be there.
    bytes.get(header..header + 34)?;
    Some(Message { transport, at: header, kind: bytes[header] & 0xf })
}

fn is_ptp(bytes: &[u8], udp: usize) -> Option<usize> {
    matches!(be16(bytes, udp + 2)?, 319 | 320).then_some(udp + 8)
}

fn ipv4(bytes: &[u8], ip: usize) -> Option<(Transport, usize)> {
    let first = *bytes.get(ip)?;
    let fragment = be16(bytes, ip + 6)? & 0x3fff != 0;
    if first >> 4 != 4 || first & 0xf < 5 || fragment || *bytes.get(ip + 9)? != UDP {
        return None;
    }
    let udp = ip + 4 * usize::from(first & 0xf);
    Some((Transport::Ipv4(ip, udp), is_ptp(bytes, udp)?))
}

fn ipv6(bytes: &[u8], ip: usize, other_routing: bool) -> Option<(Transport, usize)> {
    if bytes.get(ip)? >> 4 != 6 {
        return None;
    }
    let (mut next, mut at) = (*bytes.get(ip + 6)?, ip + 40);
    for _ in 0..8 {
        match next {
            UDP => return Some((Transport::Ipv6(ip, at), is_ptp(bytes, at)?)),
            43 => {
                let (kind, left) = (*bytes.get(at + 2)?, *bytes.get(at + 3)?);
                if left != 0 || !(other_routing || matches!(kind, 0 | 2)) {
                    return None;
                }
            }
            0 | 60 => {}
            _ => return None,
        }
        let more = usize::from(*bytes.get(at + 1)?);
        (next, at) = (*bytes.get(at)?, at + 8 + 8 * more);
    }
    None
}

impl Message {
    /// `PTP_*_MSG_HEADER`: CRC of the source port identity, type, sequence.
    pub fn header(&self, bytes: &[u8]) -> u32 {
        let identity = bytes.get(self.at + 20..self.at + 30).unwrap_or_default();
        let sequence = be16(bytes, self.at + 30).unwrap_or(0);
        u32::from(crc12(identity)) << 20 | u32::from(self.kind) << 16 | u32::from(sequence)
    }

    /// Whether version, domain and alternate master flag are those of a `*_TIMESTAMP_CONFIG`.
    pub fn fits(&self, bytes: &[u8], config: u32) -> bool {
        let byte = |offset: usize| bytes.get(self.at + offset).copied().unwrap_or(0);
        let version = (config >> 16 & 0xf) as u8;
        let domain_is_open = config >> 23 & 1 == 0;
        (version == 0 || byte(1) & 0xf == version)
            && (domain_is_open || byte(4) == (config >> 24) as u8)
            && (config >> 22 & 1 == 0 || byte(6) & 1 == 0)
    }

    /// Whether a `*_TIMESTAMP_CONFIG` enables the type.
    pub fn is_enabled(&self, config: u32) -> bool {
        config >> self.kind & 1 != 0
    }

    /// Pdelay messages have addresses of their own.
    fn is_peer(&self) -> bool {
        matches!(self.kind, 2 | 3 | 0xa)
    }

    /// Whether a `*_PARSE_CONFIG` takes the transport and the addresses.
    pub fn is_wanted(&self, bytes: &[u8], config: u32, user: [u8; 6]) -> bool {
        let Some(mac) = bytes.first_chunk::<6>() else { return false };
        let (enable, user_enable) = match self.transport {
            Transport::Ethernet => (2, 7),
            Transport::Ipv4(..) => (0, 5),
            Transport::Ipv6(..) => (1, 6),
        };
        if config >> enable & 1 == 0 {
            return false;
        }
        let by_mac = self.group_of_mac(mac);
        let is_user = config >> user_enable & 1 != 0 && *mac == user;
        let mac_fits = is_user || self.is_open(config, by_mac);
        let by_ip = self.group_of_ip(bytes);
        let ip_fits = self.transport == Transport::Ethernet || self.is_open(config, by_ip);
        let consistent = self.transport == Transport::Ethernet || by_mac == by_ip;
        (config >> 3 & 1 == 0 || mac_fits)
            && (config >> 4 & 1 == 0 || ip_fits)
            && (config >> 16 & 1 == 0 || consistent)
    }

    /// Whether the address that this bit of a `*_PARSE_CONFIG` stands for is enabled, for this message.
    fn is_open(&self, config: u32, group: Option<u32>) -> bool {
        let Some(group) = group else { return false };
        let mixes = config >> 15 & 1 != 0;
        config >> group & 1 != 0 && (mixes || self.is_peer() == matches!(group, 14 | 8))
    }

    fn group_of_mac(&self, mac: &[u8; 6]) -> Option<u32> {
        match (self.transport, mac) {
            (Transport::Ethernet, [0x01, 0x80, 0xc2, 0, 0, 0x0e]) => Some(14),
            (Transport::Ethernet, [0x01, 0x1b, 0x19, 0, 0, 0]) => Some(13),
            (Transport::Ipv4(..), [0x01, 0x00, 0x5e, 0, high, low])
            | (Transport::Ipv6(..), [0x33, 0x33, 0, 0, high, low]) => {
                group(u16::from_be_bytes([*high, *low]))
            }
            _ => None,
        }
    }

    fn group_of_ip(&self, bytes: &[u8]) -> Option<u32> {
        match self.transport {
            Transport::Ethernet => None,
            Transport::Ipv4(ip, _) => match bytes.get(ip + 16..ip + 20)? {
                [224, 0, 1, low @ 129..=132] => group(0x100 | u16::from(*low)),
                [224, 0, 0, 107] => group(0x6b),
                _ => None,
            },
            Transport::Ipv6(ip, _) => {
                let address = bytes.get(ip + 24..ip + 40)?;
                let low = be16(address, 14)?;
                let prefix = address[0] == 0xff && address[1] >> 4 == 0 && address[2..14] == [0; 12];
                let scoped = low != 0x6b || address[1] == 2;
                if prefix && scoped { group(low) } else { None }
            }
        }
    }

    /// Whether the UDP checksum is right, or there is none to be.
    pub fn checksum_is_right(&self, bytes: &[u8]) -> bool {
        let (udp, addresses) = match self.transport {
            Transport::Ethernet => return true,
            Transport::Ipv4(ip, udp) => (udp, bytes.get(ip + 12..ip + 20)),
            Transport::Ipv6(ip, udp) => (udp, bytes.get(ip + 8..ip + 40)),
        };
        let Some(len) = be16(bytes, udp + 4) else { return false };
        let (Some(datagram), Some(addresses)) = (bytes.get(udp..udp + usize::from(len)), addresses) else {
            return false;
        };
        match be16(datagram, 6) {
            None => false,
            Some(0) => matches!(self.transport, Transport::Ipv4(..)),
            Some(_) => fold(sum(addresses, len.into()) + sum(datagram, UDP.into())) == 0,
        }
    }

    /// Writes a time into the origin time stamp. The UDP checksum is cleared, or corrected where it stays.
    pub fn insert(&self, bytes: &mut [u8], stamp: [u8; 10], clear: bool) -> bool {
        let place = self.at + 34..self.at + 44;
        let Some(old) = bytes.get_mut(place) else { return false };
        let before = fold(sum(old, 0));
        old.copy_from_slice(&stamp);
        let (udp, clears) = match self.transport {
            Transport::Ethernet => return true,
            Transport::Ipv4(_, udp) => (udp, clear),
            Transport::Ipv6(_, udp) => (udp, false),
        };
        let Some(checksum) = be16(bytes, udp + 6) else { return true };
        let fixed =
            if clears || checksum == 0 { 0 } else { corrected(checksum, before, fold(sum(&stamp, 0))) };
        put16(bytes, udp + 6, fixed);
        true
    }
}

/// The address bit of a `*_PARSE_CONFIG` by the last two bytes of a multicast address.
fn group(low: u16) -> Option<u32> {
    match low {
        0x181 => Some(12),
        0x182 => Some(11),
        0x183 => Some(10),
        0x184 => Some(9),
        0x6b => Some(8),
        _ => None,
    }
}

/// RFC 1624: the checksum of a frame after a part of it with the checksum `before` became one with `after`.
fn corrected(checksum: u16, before: u16, after: u16) -> u16 {
    match fold(u32::from(!checksum) + u32::from(before) + u32::from(!after)) {
        0 => 0xffff,
        other => other,
    }
}

fn crc12(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).rev().fold(crc, |crc: u16, bit| {
            let top = crc >> 11 & 1 ^ u16::from(byte >> bit & 1);
            (crc << 1 & 0xfff) ^ if top != 0 { 0x80f } else { 0 }
        })
    })
}
