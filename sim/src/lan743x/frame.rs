//! What the controller reads in a frame: tags, IP, transport; checksums, CRC and Toeplitz hash.
//!
//! The hashes are not those of `tombolo_hal` and the driver: what a model shared with a driver, it could not
//! find wrong there. Both are held against published vectors.
//!
//! Everything here takes bytes of a guest or peer and gives up (`None`) where they do not hold what they
//! promise.

pub(super) const ETH_IPV4: u16 = 0x0800;
pub(super) const ETH_IPV6: u16 = 0x86dd;
pub(super) const ETH_PTP: u16 = 0x88f7;
pub(super) const ETH_VLAN: u16 = 0x8100;
pub(super) const ETH_CONTROL: u16 = 0x8808;
pub(super) const ICMP: u8 = 1;
pub(super) const IGMP: u8 = 2;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// An IP header and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip {
    pub v6: bool,
    /// Offset of the header.
    pub at: usize,
    /// Offset of the transport header.
    pub l4: usize,
    /// End of the packet.
    pub end: usize,
    pub protocol: u8,
    /// Whether it is a part of a larger packet.
    pub fragment: bool,
    /// IPv6: whether there are extension headers, and whether one is a routing header.
    pub extended: bool,
    pub routed: bool,
}

/// A frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    /// VLAN tags: 0, 1 or 2.
    pub tags: usize,
    /// The first tag's VLAN.
    pub vlan: u16,
    pub ethertype: u16,
    /// Offset of what follows the type.
    pub l3: usize,
    pub ip: Option<Ip>,
}

/// Reads the headers. `vlan_type` is the additional type of VLAN tags (`VLAN_TYPE`).
pub(super) fn parse(bytes: &[u8], vlan_type: u16) -> Option<Headers> {
    let (mut at, mut tags, mut vlan) = (12, 0, 0);
    let mut ethertype = be16(bytes, at)?;
    while tags < 2 && (ethertype == ETH_VLAN || ethertype == vlan_type) {
        if tags == 0 {
            vlan = be16(bytes, at + 2)? & 0xfff;
        }
        tags += 1;
        at += 4;
        ethertype = be16(bytes, at)?;
    }
    let l3 = at + 2;
    let ip = match ethertype {
        ETH_IPV4 => parse_v4(bytes, l3),
        ETH_IPV6 => parse_v6(bytes, l3),
        _ => None,
    };
    Some(Headers { tags, vlan, ethertype, l3, ip })
}

fn parse_v4(bytes: &[u8], at: usize) -> Option<Ip> {
    let first = *bytes.get(at)?;
    let header = usize::from(first & 0xf) * 4;
    let total = usize::from(be16(bytes, at + 2)?);
    if first >> 4 != 4 || header < 20 || bytes.len() < at + header {
        return None;
    }
    let fragment = be16(bytes, at + 6)? & 0x3fff != 0;
    let end = bytes.len().min(at + total.max(header));
    let protocol = *bytes.get(at + 9)?;
    Some(Ip { v6: false, at, l4: at + header, end, protocol, fragment, extended: false, routed: false })
}

fn parse_v6(bytes: &[u8], at: usize) -> Option<Ip> {
    if bytes.get(at)? >> 4 != 6 || bytes.len() < at + 40 {
        return None;
    }
    let end = bytes.len().min(at + 40 + usize::from(be16(bytes, at + 4)?));
    let (mut l4, mut protocol) = (at + 40, *bytes.get(at + 6)?);
    let (mut fragment, mut extended, mut routed) = (false, false, false);
    // Hop-by-hop, routing, fragment, destination options; a bounded number of them.
    for _ in 0..8 {
        let length = match protocol {
            0 | 43 | 60 => (usize::from(*bytes.get(l4 + 1)?) + 1) * 8,
            44 => 8,
            _ => break,
        };
        fragment |= protocol == 44;
        routed |= protocol == 43;
        extended = true;
        protocol = *bytes.get(l4)?;
        l4 += length;
    }
    (l4 <= end).then_some(Ip { v6: true, at, l4, end, protocol, fragment, extended, routed })
}

/// One's complement sum of 16-bit words, not folded.
pub(super) fn sum(bytes: &[u8], start: u32) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    // A frame has at most 64 Ki words: no overflow of the 64-bit sum, which is folded to 17 bits.
    let total: u64 = pairs.map(u64::from).sum::<u64>() + u64::from(start);
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u32
}

/// The Internet checksum of a sum.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Ip {
    /// The addresses, source first.
    pub fn addresses<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let range = if self.v6 { self.at + 8..self.at + 40 } else { self.at + 12..self.at + 20 };
        bytes.get(range).unwrap_or_default()
    }

    /// The destination that checksums use: the last one of a routing header of type 0 or 2 that is not
    /// exhausted, else the header's.
    fn pseudo_addresses(&self, bytes: &[u8]) -> Vec<u8> {
        let mut addresses = self.addresses(bytes).to_vec();
        if let Some(last) = self.routed.then(|| self.final_destination(bytes)).flatten()
            && let Some(destination) = addresses.get_mut(16..32)
        {
            destination.copy_from_slice(last);
        }
        addresses
    }

    fn final_destination<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (mut at, mut next) = (self.at + 40, *bytes.get(self.at + 6)?);
        for _ in 0..8 {
            let length = (usize::from(*bytes.get(at + 1)?) + 1) * 8;
            if next == 43 {
                let (kind, left) = (*bytes.get(at + 2)?, *bytes.get(at + 3)?);
                let known = left != 0 && (kind == 0 || kind == 2) && length >= 24;
                return known.then(|| bytes.get(at + length - 16..at + length)).flatten();
            }
            if at >= self.l4 {
                return None;
            }
            next = *bytes.get(at)?;
            at += length;
        }
        None
    }

    fn pseudo_sum(&self, bytes: &[u8], length: usize) -> u32 {
        let addresses = self.pseudo_addresses(bytes);
        sum(&addresses, u32::from(self.protocol)) + (length as u32 & 0xffff) + (length as u32 >> 16)
    }

    /// Offset of the checksum inside of the transport header.
    fn checksum_offset(&self) -> Option<usize> {
        match (self.protocol, self.v6) {
            (TCP, _) => Some(16),
            (UDP, _) => Some(6),
            (ICMP | IGMP, false) | (ICMPV6, true) => Some(2),
            _ => None,
        }
    }

    /// The sum over pseudo header and transport part; 0xffff when the checksum in it is right.
    fn transport_sum(&self, bytes: &[u8]) -> Option<u32> {
        let part = bytes.get(self.l4..self.end)?;
        let pseudo = match self.protocol {
            ICMP | IGMP => 0,
            _ => self.pseudo_sum(bytes, part.len()),
        };
        Some(sum(part, pseudo))
    }

    /// Whether the IPv4 header's checksum is right; IPv6 has none.
    pub fn header_is_good(&self, bytes: &[u8]) -> bool {
        self.v6 || bytes.get(self.at..self.l4).is_some_and(|header| fold(sum(header, 0)) == 0)
    }

    /// Whether the transport checksum is right; `None` if there is none that could be checked.
    pub fn transport_is_good(&self, bytes: &[u8]) -> Option<bool> {
        let offset = self.checksum_offset()?;
        if self.fragment || self.l4 + offset + 2 > self.end {
            return None;
        }
        // UDP over IPv4 may be without one.
        if self.protocol == UDP && be16(bytes, self.l4 + 6)? == 0 {
            return None;
        }
        Some(fold(self.transport_sum(bytes)?) == 0)
    }

    /// Inserts the IPv4 header checksum.
    pub fn insert_header(&self, bytes: &mut [u8]) {
        if self.v6 {
            return;
        }
        put16(bytes, self.at + 10, 0);
        let value = bytes.get(self.at..self.l4).map_or(0, |header| fold(sum(header, 0)));
        put16(bytes, self.at + 10, value);
    }

    /// Inserts the transport checksum. False if there is no place for it.
    pub fn insert_transport(&self, bytes: &mut [u8]) -> bool {
        let Some(offset) = self.checksum_offset() else { return false };
        let at = self.l4 + offset;
        if self.fragment || at + 2 > self.end {
            return false;
        }
        put16(bytes, at, 0);
        let value = self.transport_sum(bytes).map_or(0, fold);
        // 0 would say "no checksum" in UDP.
        let value = if self.protocol == UDP && value == 0 { 0xffff } else { value };
        put16(bytes, at, value);
        true
    }
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut crc, mut bit) = (index as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

const CRC: [u32; 256] = crc_table();

/// The frame check sequence, as a little-endian number.
pub(super) fn fcs(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| crc >> 8 ^ CRC[usize::from(crc as u8 ^ byte)])
}

/// Bit of the hash filter for an address: the upper nine bits of its CRC, most significant bit first.
pub(super) fn hash_bit(address: &[u8]) -> usize {
    ((!fcs(address)).reverse_bits() >> 23 & 0x1ff) as usize
}

/// The Toeplitz hash of `input` with a 40-byte key (Microsoft's definition).
pub(super) fn toeplitz(key: &[u8; 40], input: &[u8]) -> u32 {
    let mut window = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    let mut hash = 0;
    for (index, byte) in input.iter().enumerate() {
        let next = key.get(index + 4).copied().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 != 0 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of Microsoft's RSS verification suite.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn toeplitz_matches_the_published_vectors() {
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        assert_eq!(toeplitz(&KEY, &addresses), 0x323e_8fc2);
        let ports = [2794_u16.to_be_bytes(), 1766_u16.to_be_bytes()].concat();
        assert_eq!(toeplitz(&KEY, &[&addresses[..], &ports].concat()), 0x51cc_c178);
        // An input that is longer than the key is no panic.
        assert_ne!(toeplitz(&KEY, &[0xff; 60]), 0);
    }

    #[test]
    fn hash_bits_are_those_of_well_known_addresses() {
        assert_eq!(hash_bit(&[1, 0, 0x5e, 0, 0, 1]), 255);
        assert_eq!(hash_bit(&[0x33, 0x33, 0, 0, 0, 1]), 499);
        assert_eq!(hash_bit(&[1, 0x1b, 0x19, 0, 0, 0]), 509);
    }

    #[test]
    fn the_check_sequence_is_that_of_ethernet() {
        assert_eq!(fcs(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn sums_fold() {
        assert_eq!(fold(sum(&[0xff; 65536], 0)), 0);
        assert_eq!(fold(sum(&[0x12], 0)), !0x1200);
    }
}
