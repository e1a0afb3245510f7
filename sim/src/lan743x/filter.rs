//! Receive filter: which frames are taken, and what is found about them (AN2948 section 8; Linux
//! `lan743x_rfe_*`). Which channel they go to: [`super::queue`].
//!
//! Decisions. A frame with several tags is filtered by its first. Priority-tagged frames (VLAN 0) are tagged.
//! The tag is never stripped: where its content would go in the descriptor is not public. The raw checksum
//! is not calculated, for the same reason. Linux turns perfect filtering on only once it has a multicast
//! address; until then its own unicast frames do not pass, here as in the note.

use super::Lan743x;
use super::frame::{self, Headers, ICMP, ICMPV6, IGMP, TCP, UDP, hash_bit};
use super::regs::{desc, rfe};
use super::stats::cast;

/// What is found about a frame that is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub channel: usize,
    /// Status word of the descriptor.
    pub status: u32,
    /// RSS hash, if it is to be stored.
    pub hash: Option<u32>,
}

impl Lan743x {
    /// What becomes of a frame. `None`: nobody wants it.
    pub(super) fn filter(&self, bytes: &[u8]) -> Option<Found> {
        let headers = frame::parse(bytes, self.vlan_type());
        let how = self.accepts(bytes)?;
        if !self.accepts_tag(headers.as_ref()) {
            return None;
        }
        let status = how | headers.map_or(desc::RX_ICSM, |headers| self.check(&headers, bytes));
        let hash = headers.and_then(|headers| self.rss_hash(&headers, bytes));
        let channel = self.channel_for(headers.as_ref(), bytes, hash);
        let stores = self.plain.get(rfe::RSS_CFG) & rfe::RSS_STORE != 0;
        Some(Found { channel, status, hash: hash.filter(|_| stores) })
    }

    /// Why a frame is taken, as status bits; `None` if it is not.
    fn accepts(&self, bytes: &[u8]) -> Option<u32> {
        let ctl = self.rfe_ctl;
        let (destination, source) = (bytes.get(..6)?, bytes.get(6..12)?);
        if ctl & rfe::CTL_SPF != 0 && self.perfect(source, rfe::FILT_SOURCE).is_none() {
            return None;
        }
        let kind = match cast(bytes) {
            1 => desc::RX_BROADCAST,
            2 => desc::RX_MULTICAST,
            _ => 0,
        };
        if ctl & rfe::CTL_DPF != 0 && self.perfect(destination, 0).is_some() {
            return Some(kind | desc::RX_PERFECT);
        }
        let (all, hashed) = match kind {
            // The broadcast address is never hashed.
            desc::RX_BROADCAST => (rfe::CTL_AB, 0),
            desc::RX_MULTICAST => (rfe::CTL_AM, rfe::CTL_MHF),
            _ => (rfe::CTL_AU, rfe::CTL_DHF),
        };
        (ctl & all != 0 || ctl & hashed != 0 && self.is_hashed(destination)).then_some(kind)
    }

    /// Whether the frame's tag, or that it has none, lets it pass.
    fn accepts_tag(&self, headers: Option<&Headers>) -> bool {
        let tag = headers.filter(|headers| headers.tags != 0).map(|headers| usize::from(headers.vlan));
        match tag {
            None => self.rfe_ctl & rfe::CTL_UNTAGGED == 0,
            Some(_) if self.rfe_ctl & rfe::CTL_VLAN_FILTER == 0 => true,
            Some(vlan) => self.rfe_ram.get(vlan / 32).is_some_and(|word| word >> (vlan % 32) & 1 != 0),
        }
    }

    /// The valid entry of the perfect filter for an address of this kind (destination 0, or
    /// `FILT_SOURCE`): its upper word.
    pub(super) fn perfect(&self, address: &[u8], kind: u32) -> Option<u32> {
        let address: [u8; 6] = address.try_into().ok()?;
        let [a, b, c, d, e, f] = address;
        let (low, high) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0]));
        (0..rfe::ADDR_FILTERS).find_map(|entry| {
            let at = rfe::ADDR_FILT + entry * 8;
            let word = self.plain.get(at);
            let valid = word & (rfe::FILT_VALID | rfe::FILT_SOURCE) == rfe::FILT_VALID | kind;
            (valid && word & 0xffff == high && self.plain.get(at + 4) == low).then_some(word)
        })
    }

    fn is_hashed(&self, address: &[u8]) -> bool {
        let bit = hash_bit(address);
        self.hash_word(bit / 32) >> (bit % 32) & 1 != 0
    }

    /// What is found about checksums.
    fn check(&self, headers: &Headers, bytes: &[u8]) -> u32 {
        let tagged = if headers.tags != 0 { desc::RX_TAGGED } else { 0 };
        let Some(ip) = headers.ip else { return tagged | desc::RX_ICSM };
        let protocol = match ip.protocol {
            TCP if !ip.fragment => desc::RX_PID_TCP,
            UDP if !ip.fragment => desc::RX_PID_UDP,
            _ => desc::RX_PID_IP,
        };
        let mut status = tagged | protocol | if ip.v6 { desc::RX_IPV6 } else { 0 };
        if self.rfe_ctl & rfe::CTL_IP != 0 && !ip.header_is_good(bytes) {
            status |= desc::RX_ICE;
        }
        // Without a check of both nothing is promised about the frame.
        let enable = match ip.protocol {
            TCP | UDP => rfe::CTL_TCP_UDP,
            ICMP | ICMPV6 => rfe::CTL_ICMP,
            IGMP => rfe::CTL_IGMP,
            _ => 0,
        };
        if enable == 0 || self.rfe_ctl & (rfe::CTL_IP | enable) != rfe::CTL_IP | enable {
            return status | desc::RX_ICSM;
        }
        match ip.transport_is_good(bytes) {
            Some(true) => status,
            Some(false) => status | desc::RX_TCE,
            None => status | desc::RX_ICSM,
        }
    }
}
