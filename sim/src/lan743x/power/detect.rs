//! Which detections a frame matches.

use super::packet;
use super::{FILTERS, Power, Seen, src, wu, wu2};

/// All detections of a frame, as the bits of the status registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Matches {
    pub wucsr1: u32,
    pub wucsr2: u32,
    /// The first filter that matches.
    pub filter: u32,
}

impl Matches {
    /// Whether any of it wakes: answered ARP and NS do not.
    pub fn wakes(self) -> bool {
        self.wucsr1 != 0 || self.wucsr2 & wu2::SYN != 0
    }

    /// The same as bits of `WK_SRC`.
    pub fn source(self) -> u32 {
        let bits = [
            (self.wucsr1 & wu::RFE, src::RFE),
            (self.wucsr1 & wu::PERFECT, src::PERFECT),
            (self.wucsr1 & wu::MAGIC, src::MAGIC),
            (self.wucsr1 & wu::BROADCAST, src::BROADCAST),
            (self.wucsr1 & wu::FILTER, src::FILTER),
            (self.wucsr2 & wu2::SYN6, src::SYN6),
            (self.wucsr2 & wu2::SYN4, src::SYN4),
        ];
        let set = bits.into_iter().filter(|(status, _)| *status != 0);
        set.fold(self.filter & src::NUMBER, |word, (_, source)| word | source)
    }
}

/// CRC-16 of a wake-up filter: polynomial 8005h, from all ones, low bit of each byte first, no inversion;
/// the first bit of the remainder is bit 15. That is what Linux makes by reversing the bits of the usual,
/// reflected CRC-16.
pub(super) fn crc16(bytes: impl Iterator<Item = u8>) -> u16 {
    let reflected = bytes.fold(0xffff_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0xa001 } else { 0 })
    });
    reflected.reverse_bits()
}

impl Power {
    pub(super) fn matches(&self, seen: Seen) -> Matches {
        let Some(target) = seen.bytes.first_chunk::<6>() else { return Matches::default() };
        let (own, group, all) = (*target == seen.mac, target[0] & 1 != 0, *target == [0xff; 6]);
        let filter = self.first_filter(seen.bytes, group);
        let found = [
            (wu::RFE_EN, wu::RFE, seen.passes_filter),
            (wu::PERFECT_EN, wu::PERFECT, own),
            (wu::BROADCAST_EN, wu::BROADCAST, all),
            (wu::FILTER_EN, wu::FILTER, filter.is_some()),
        ];
        let on = found.into_iter().filter(|(enable, _, found)| *found && self.wucsr1 & enable != 0);
        let mut wucsr1 = on.fold(0, |word, (_, status, _)| word | status);
        if self.wucsr1 & wu::MAGIC_EN != 0 && (own || group) && self.is_magic(seen) {
            wucsr1 |= wu::MAGIC;
        }
        let wucsr2 = self.packets(seen, own, group, all);
        Matches { wucsr1, wucsr2, filter: filter.unwrap_or(0) as u32 }
    }

    fn first_filter(&self, bytes: &[u8], group: bool) -> Option<usize> {
        (0..FILTERS).find(|number| self.filter_matches(*number, bytes, group))
    }

    fn filter_matches(&self, number: usize, bytes: &[u8], group: bool) -> bool {
        let config = self.filters[number];
        let fits = match config >> 24 & 3 {
            0 => !group,
            2 => group,
            _ => true,
        };
        if config >> 31 == 0 || !fits {
            return false;
        }
        let offset = (config >> 16 & 0xff) as usize;
        let mask = self.masks[number];
        let chosen = (0..128).filter(|bit| mask[bit / 32] >> (bit % 32) & 1 != 0);
        let inside = chosen.clone().all(|bit| offset + bit < bytes.len());
        inside && crc16(chosen.filter_map(|bit| bytes.get(offset + bit).copied())) == config as u16
    }

    /// Six ones, then sixteen times the address; then the password, if it is asked for.
    fn is_magic(&self, seen: Seen) -> bool {
        let ([_, _, f, e], low) = (self.password[0].to_be_bytes(), self.password[1].to_le_bytes());
        let password = [low[0], low[1], low[2], low[3], e, f];
        let secure = self.wucsr1 & wu::SECURE != 0;
        let need = if secure { 108 } else { 102 };
        seen.bytes.windows(need).any(|window| {
            window[..6] == [0xff; 6]
                && window[6..102].chunks(6).all(|address| address == seen.mac)
                && (!secure || window[102..] == password)
        })
    }

    /// ARP, NS and TCP SYN: status bits of `WUCSR2`.
    fn packets(&self, seen: Seen, own: bool, group: bool, all: bool) -> u32 {
        let enabled = |bit: u32| self.wucsr2 & bit != 0;
        let checks = !enabled(wu2::NO_CHECKSUM);
        let reg = |offset: u64| self.addresses[super::word(offset, super::ADDRESSES) % super::WORDS];
        let mut status = 0;
        if enabled(wu2::ARP_EN) && (own || all) && packet::arp(seen.bytes, reg(0x6c0), reg(0x6c4)) {
            status |= wu2::ARP;
        }
        if !own && !group {
            return status;
        }
        if enabled(wu2::NS_EN) && self.solicited(seen.bytes, checks) {
            status |= wu2::NS;
        }
        if enabled(wu2::SYN4_EN) && packet::syn4(seen.bytes, [reg(0x690), reg(0x694)], reg(0x698), checks) {
            status |= wu2::SYN4;
        }
        let wanted = [self.address6(0x69c), self.address6(0x6ac)];
        if enabled(wu2::SYN6_EN) && packet::syn6(seen.bytes, wanted, reg(0x6bc), checks) {
            status |= wu2::SYN6;
        }
        status
    }

    /// Either of the two sets of neighbour solicitation registers.
    fn solicited(&self, bytes: &[u8], checks: bool) -> bool {
        [0x610, 0x650].into_iter().any(|first| {
            let set = packet::Solicited {
                target: self.address6(first),
                source: self.address6(first + 0x10),
                asked: [self.address6(first + 0x20), self.address6(first + 0x30)],
            };
            packet::solicitation(bytes, set, checks)
        })
    }

    /// An IPv6 address in the order of the wire: dword 3 comes first, high byte first.
    fn address6(&self, first: u64) -> [u8; 16] {
        let index = super::word(first, super::ADDRESSES);
        let mut address = [0; 16];
        let words = self.addresses.get(index..index + 4).unwrap_or_default();
        for (bytes, word) in address.chunks_mut(4).zip(words.iter().rev()) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        address
    }
}
