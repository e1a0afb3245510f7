//! Large-send offload: one TCP segment into many.

use super::frame::{self, TCP, be16, put16};

/// Segments made of one large send at most.
const MOST: usize = 1 << 14;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Cuts a frame into segments of `mss` bytes of payload. Checksums are not in them. `None` if it is no TCP
/// frame that can be cut.
pub(super) fn cut(bytes: &[u8], mss: usize, ipv6: bool) -> Option<Vec<Vec<u8>>> {
    let headers = frame::parse(bytes, 0x88a8)?;
    // The total length of a large send says nothing: it may have more than 16 bits.
    let (v6, at) = match headers.ethertype {
        frame::ETH_IPV4 => (false, headers.l3),
        frame::ETH_IPV6 if ipv6 => (true, headers.l3),
        _ => return None,
    };
    let header = if v6 { 40 } else { usize::from(bytes.get(at)? & 0xf) * 4 };
    let protocol = *bytes.get(at + if v6 { 6 } else { 9 })?;
    let l4 = at + header;
    let data = l4 + usize::from(bytes.get(l4 + 12)? >> 4) * 4;
    if header < 20 || protocol != TCP || data < l4 + 20 || data > bytes.len() || mss == 0 {
        return None;
    }
    let payload = &bytes[data..];
    if payload.len().div_ceil(mss) > MOST {
        return None;
    }
    let pieces: Vec<&[u8]> = if payload.is_empty() { vec![payload] } else { payload.chunks(mss).collect() };
    let (id, sequence) =
        (be16(bytes, at + 4)?, u32::from_be_bytes(bytes.get(l4 + 4..l4 + 8)?.try_into().ok()?));
    let last = pieces.len() - 1;
    let make = |(number, piece): (usize, &&[u8])| {
        let mut segment = bytes[..data].to_vec();
        segment.extend_from_slice(piece);
        let length = (segment.len() - at) as u16;
        if v6 {
            put16(&mut segment, at + 4, length - 40);
        } else {
            put16(&mut segment, at + 2, length);
            put16(&mut segment, at + 4, id.wrapping_add(number as u16));
        }
        let number_of = sequence.wrapping_add((number * mss) as u32);
        segment[l4 + 4..l4 + 8].copy_from_slice(&number_of.to_be_bytes());
        if number != last {
            segment[l4 + 13] &= !FIN_PSH;
        }
        if number != 0 {
            segment[l4 + 13] &= !CWR;
        }
        segment
    };
    Some(pieces.iter().enumerate().map(make).collect())
}
