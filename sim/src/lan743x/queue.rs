//! Which channel a received frame goes to: perfect filter, priority, RSS (AN2948 sections 8.1 to 8.7; Linux
//! `lan743x_rfe_open`, `lan743x_ethtool_set_rxfh`).
//!
//! Decision: the note gives each way, and no order. Here the entry of the perfect filter that the frame
//! matched comes first, then its priority, then the hash, then the default channel. A frame that has no
//! hash, or whose way needs one that it does not have, goes on to the next way.

use super::Lan743x;
use super::frame::{Headers, TCP, UDP, be16, toeplitz};
use super::regs::rfe;

/// Bits of `RSS_CFG` from 8 on: what is hashed. The three kinds for IPv6 with extension headers hash the
/// same addresses here (home addresses are not looked at).
mod kind {
    pub const IPV4: u32 = 1 << 8;
    pub const TCP_IPV4: u32 = 1 << 9;
    pub const UDP_IPV4: u32 = 1 << 10;
    pub const IPV6: u32 = 1 << 11 | 1 << 14;
    pub const TCP_IPV6: u32 = 1 << 12 | 1 << 15;
    pub const UDP_IPV6: u32 = 1 << 13 | 1 << 16;
}

impl Lan743x {
    /// The channel of a frame.
    pub(super) fn channel_for(&self, headers: Option<&Headers>, bytes: &[u8], hash: Option<u32>) -> usize {
        let cfg = self.plain.get(rfe::RSS_CFG);
        let rss = hash.map(|hash| self.queue_of(cfg, hash));
        let by_entry = bytes.get(..6).and_then(|address| self.perfect(address, 0));
        let entry = by_entry.and_then(|word| match word {
            word if word & rfe::FILT_RSS != 0 => rss,
            word if word & rfe::FILT_CHANNEL != 0 => Some((word >> 16 & 3) as usize),
            _ => None,
        });
        let default = (self.rfe_ctl >> 16 & 3) as usize;
        entry
            .or_else(|| self.by_priority(self.priority(headers?, bytes)?, rss))
            .or_else(|| rss.filter(|_| cfg & rfe::RSS_QUEUE != 0))
            .unwrap_or(default)
    }

    /// The priority of a frame by its tag or its IP header, as far as they are looked at.
    fn priority(&self, headers: &Headers, bytes: &[u8]) -> Option<usize> {
        let select = self.plain.get(rfe::PRI_SEL);
        let tag = || {
            let tagged = select & rfe::PRI_TAG != 0 && headers.tags != 0;
            tagged.then(|| be16(bytes, 14)).flatten().map(|word| usize::from(word >> 13))
        };
        let ip = || {
            let ip = headers.ip.filter(|_| select & rfe::PRI_IP != 0)?;
            let class = if ip.v6 { (be16(bytes, ip.at)? >> 4) as u8 } else { *bytes.get(ip.at + 1)? };
            if !ip.v6 && select & rfe::PRI_PRECEDENCE != 0 {
                return Some(usize::from(class >> 5));
            }
            let point = u64::from(class >> 2);
            let word = self.plain.get(rfe::DIFFSERV + point / 8 * 4);
            Some((word >> (point % 8 * 4) & 7) as usize)
        };
        if select & rfe::PRI_TAG_FIRST != 0 { tag().or_else(ip) } else { ip().or_else(tag) }
    }

    fn by_priority(&self, priority: usize, rss: Option<usize>) -> Option<usize> {
        let select = self.plain.get(rfe::PRI_SEL);
        if select >> (8 + priority) & 1 != 0 {
            return rss;
        }
        Some((select >> (16 + 2 * priority) & 3) as usize)
    }

    /// The RSS hash of a frame, if it is of a kind that is hashed.
    pub(super) fn rss_hash(&self, headers: &Headers, bytes: &[u8]) -> Option<u32> {
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
        let with_ports = match ip.protocol {
            TCP => cfg & tcp != 0,
            UDP => cfg & udp != 0,
            _ => false,
        };
        let mut input = ip.addresses(bytes).to_vec();
        if with_ports && !ip.fragment {
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

    /// The entry of the indirection table: as many low bits of the hash as are valid, 1 to 7.
    fn queue_of(&self, cfg: u32, hash: u32) -> usize {
        let index = hash & ((1 << (cfg >> 5 & 7)) - 1);
        let word = self.plain.get(rfe::INDX + u64::from(index & !3));
        (word >> (8 * (index & 3)) & 3) as usize
    }
}
