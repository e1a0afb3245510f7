//! Receive filter: which frames are taken, what is found about them, which queue they go to (AN2948
//! section 8; Linux `lan743x_rfe_*`, `lan743x_ethtool_set_rxfh`).

use super::Lan743x;
use super::frame::{self, Headers, TCP, UDP, hash_bit, toeplitz};
use super::regs::{desc, rfe};
use super::stats::cast;

/// Bits of `RSS_CFG` from 8 on: what is hashed.
mod kind {
    pub const IPV4: u32 = 1 << 8;
    pub const TCP_IPV4: u32 = 1 << 9;
    pub const UDP_IPV4: u32 = 1 << 10;
    pub const IPV6: u32 = 1 << 11;
    pub const TCP_IPV6: u32 = 1 << 12;
    pub const UDP_IPV6: u32 = 1 << 13;
}

impl Lan743x {
    /// What becomes of a good frame: channel, status word, hash. `None`: nobody wants it.
    pub(super) fn filter(&self, bytes: &[u8]) -> Option<(usize, u32, Option<u32>)> {
        let how = self.accepts(bytes)?;
        let headers = frame::parse(bytes, 0x88a8);
        let status = how | headers.map_or(desc::RX_ICSM, |headers| self.check(&headers, bytes));
        let hash = headers.and_then(|headers| self.rss_hash(&headers, bytes));
        let cfg = self.plain.get(rfe::RSS_CFG);
        let channel = hash.filter(|_| cfg & rfe::RSS_QUEUE != 0).map_or(0, |hash| self.queue_of(cfg, hash));
        Some((channel, status, hash.filter(|_| cfg & rfe::RSS_STORE != 0)))
    }

    /// Why a frame is taken, as status bits; `None` if it is not.
    fn accepts(&self, bytes: &[u8]) -> Option<u32> {
        let ctl = self.rfe_ctl;
        let address = bytes.get(..6)?;
        let kind = match cast(bytes) {
            1 => desc::RX_BROADCAST,
            2 => desc::RX_MULTICAST,
            _ => 0,
        };
        if ctl & rfe::CTL_DPF != 0 && self.is_perfect(address) {
            return Some(kind | desc::RX_PERFECT);
        }
        let all = match kind {
            desc::RX_BROADCAST => ctl & rfe::CTL_AB != 0,
            desc::RX_MULTICAST => {
                ctl & rfe::CTL_AM != 0 || ctl & rfe::CTL_MHF != 0 && self.is_hashed(address)
            }
            _ => ctl & rfe::CTL_AU != 0 || ctl & rfe::CTL_DHF != 0 && self.is_hashed(address),
        };
        all.then_some(kind)
    }

    fn is_perfect(&self, address: &[u8]) -> bool {
        let low = u32::from_le_bytes([address[0], address[1], address[2], address[3]]);
        let high = u32::from_le_bytes([address[4], address[5], 0, 0]);
        (0..rfe::ADDR_FILTERS).any(|entry| {
            let at = rfe::ADDR_FILT + entry * 8;
            let word = self.plain.get(at);
            let destination = word & (rfe::FILT_VALID | rfe::FILT_SOURCE) == rfe::FILT_VALID;
            destination && word & 0xffff == high && self.plain.get(at + 4) == low
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
        if self.rfe_ctl & (rfe::CTL_IP | rfe::CTL_TCP_UDP) != rfe::CTL_IP | rfe::CTL_TCP_UDP {
            return status | desc::RX_ICSM;
        }
        match ip.transport_is_good(bytes) {
            Some(true) => status,
            Some(false) => status | desc::RX_TCE,
            None => status | desc::RX_ICSM,
        }
    }

    fn rss_hash(&self, headers: &Headers, bytes: &[u8]) -> Option<u32> {
        let cfg = self.plain.get(rfe::RSS_CFG);
        let ip = headers.ip?;
        if cfg & rfe::RSS_ENABLE == 0 {
            return None;
        }
        let (plain, tcp, udp) = if ip.v6 {
            (kind::IPV6, kind::TCP_IPV6, kind::UDP_IPV6)
        } else {
            (kind::IPV4, kind::TCP_IPV4, kind::UDP_IPV4)
        };
        let ports = match ip.protocol {
            TCP => cfg & tcp != 0,
            UDP => cfg & udp != 0,
            _ => false,
        };
        let mut input = ip.addresses(bytes).to_vec();
        if ports && !ip.fragment {
            input.extend_from_slice(bytes.get(ip.l4..ip.l4 + 4)?);
        } else if cfg & plain == 0 {
            return None;
        }
        Some(toeplitz(&self.rss_key(), &input))
    }

    fn rss_key(&self) -> [u8; 40] {
        let mut key = [0; 40];
        for (word, bytes) in (0..).zip(key.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&self.plain.get(rfe::HASH_KEY + word * 4).to_le_bytes());
        }
        key
    }

    fn queue_of(&self, cfg: u32, hash: u32) -> usize {
        let index = hash & ((1 << (cfg >> 5 & 7)) - 1);
        let word = self.plain.get(rfe::INDX + u64::from(index & !3));
        (word >> (8 * (index & 3)) & 3) as usize
    }
}
