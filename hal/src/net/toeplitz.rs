//! The hash of receive-side scaling.
//!
//! Source: Microsoft's "RSS Hashing Functions" (public), whose test vectors are the tests here.

/// The key of Microsoft's test vectors: what NICs use until they are told another.
pub const RSS_KEY_DEFAULT: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// What a frame is hashed by: addresses, and ports where it has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssInput {
    bytes: [u8; 36],
    length: usize,
}

impl RssInput {
    /// By source and destination address of IPv4, and source and destination port.
    pub fn ipv4(source: [u8; 4], destination: [u8; 4], ports: Option<(u16, u16)>) -> Self {
        Self::new(&source, &destination, ports)
    }

    /// By source and destination address of IPv6, and source and destination port.
    pub fn ipv6(source: [u8; 16], destination: [u8; 16], ports: Option<(u16, u16)>) -> Self {
        Self::new(&source, &destination, ports)
    }

    fn new(source: &[u8], destination: &[u8], ports: Option<(u16, u16)>) -> Self {
        let (mut bytes, mut length) = ([0; 36], 0);
        let ports = ports.map(|(from, to)| [from.to_be_bytes(), to.to_be_bytes()]);
        let parts = [source, destination].into_iter().chain(ports.iter().flatten().map(|port| &port[..]));
        for (slot, byte) in bytes.iter_mut().zip(parts.flatten()) {
            *slot = *byte;
            length += 1;
        }
        Self { bytes, length }
    }
}

/// The Toeplitz hash of `input` under `key`.
pub fn toeplitz(key: &[u8; 40], input: &RssInput) -> u32 {
    let mut window = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    let (mut hash, mut following) = (0, key[4..].iter());
    for byte in &input.bytes[..input.length] {
        let next = following.next().copied().unwrap_or(0);
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

    /// From the table of verification: destination, port, source, port, with and without ports.
    #[test]
    fn vectors_of_the_specification_for_ipv4() {
        let vectors = [
            ([161, 142, 100, 80], 1766, [66, 9, 149, 187], 2794, 0x323e_8fc2, 0x51cc_c178),
            ([65, 69, 140, 83], 4739, [199, 92, 111, 2], 14230, 0xd718_262a, 0xc626_b0ea),
            ([12, 22, 207, 184], 38024, [24, 19, 198, 95], 12898, 0xd2d0_a5de, 0x5c2b_394a),
            ([209, 142, 163, 6], 2217, [38, 27, 205, 30], 48228, 0x8298_9176, 0xafc7_327f),
            ([202, 188, 127, 2], 1303, [153, 39, 163, 191], 44251, 0x5d18_09c5, 0x10e8_28a2),
        ];
        for (destination, to, source, from, plain, with_ports) in vectors {
            assert_eq!(toeplitz(&RSS_KEY_DEFAULT, &RssInput::ipv4(source, destination, None)), plain);
            let input = RssInput::ipv4(source, destination, Some((from, to)));
            assert_eq!(toeplitz(&RSS_KEY_DEFAULT, &input), with_ports);
        }
    }

    #[test]
    fn a_vector_of_the_specification_for_ipv6() {
        let words = |w: [u16; 8]| {
            let mut bytes = [0; 16];
            for (pair, word) in bytes.chunks_exact_mut(2).zip(w) {
                pair.copy_from_slice(&word.to_be_bytes());
            }
            bytes
        };
        let destination = words([0x3ffe, 0x2501, 0x200, 0x3, 0, 0, 0, 1]);
        let source = words([0x3ffe, 0x2501, 0x200, 0x1fff, 0, 0, 0, 7]);
        assert_eq!(toeplitz(&RSS_KEY_DEFAULT, &RssInput::ipv6(source, destination, None)), 0x2cc1_8cd5);
        let input = RssInput::ipv6(source, destination, Some((2794, 1766)));
        assert_eq!(toeplitz(&RSS_KEY_DEFAULT, &input), 0x4020_7d3d);
    }
}
