//! MAC addresses.

use core::fmt;
use core::str::FromStr;

/// An Ethernet address, in the order in which it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

/// Not six pairs of hexadecimal digits with colons between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address: six pairs of hexadecimal digits, with ':' between, are wanted")]
pub struct ParseMacError;

impl MacAddress {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it names a group of stations (broadcast is one).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether a station can have it: neither a group's nor all zeros.
    pub fn is_valid_station(self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }

    /// An address of a station from 48 random bits: unicast, and marked as given locally.
    pub const fn random(bits: u64) -> Self {
        let b = bits.to_le_bytes();
        Self([b[0] & 0xfe | 0x02, b[1], b[2], b[3], b[4], b[5]])
    }

    /// The first four bytes, the first one lowest: as most filters want them.
    pub const fn low(self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// The last two bytes, the fifth one lowest.
    pub const fn high(self) -> u32 {
        u32::from_le_bytes([self.0[4], self.0[5], 0, 0])
    }

    /// From both words; the upper half of `high` is not used.
    pub const fn from_words(low: u32, high: u32) -> Self {
        let (l, h) = (low.to_le_bytes(), high.to_le_bytes());
        Self([l[0], l[1], l[2], l[3], h[0], h[1]])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(ParseMacError)?;
            let digits = part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits).ok_or(ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn words_and_text_go_both_ways() {
        let mac = MacAddress([0x00, 0x80, 0x0f, 0x12, 0x34, 0x56]);
        assert_eq!((mac.low(), mac.high()), (0x120f_8000, 0x5634));
        assert_eq!(MacAddress::from_words(mac.low(), 0xffff_0000 | mac.high()), mac);
        assert_eq!(mac.to_string(), "00:80:0f:12:34:56");
        assert_eq!("00:80:0F:12:34:56".parse(), Ok(mac));
        for bad in ["", "00:80:0f:12:34", "00:80:0f:12:34:56:78", "0:80:0f:12:34:56", "+0:80:0f:12:34:56"] {
            assert_eq!(bad.parse::<MacAddress>(), Err(ParseMacError), "{bad}");
        }
    }

    #[test]
    fn a_station_has_neither_a_group_address_nor_none() {
        assert!(!MacAddress::BROADCAST.is_valid_station());
        assert!(!MacAddress::default().is_valid_station());
        assert!(!MacAddress([0x33, 0x33, 0, 0, 0, 1]).is_valid_station());
        for bits in [0, u64::MAX, 0x0123_4567_89ab] {
            assert!(MacAddress::random(bits).is_valid_station());
        }
    }
}
