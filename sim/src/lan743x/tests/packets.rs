//! Frames for tests, and an Internet checksum of our own.

/// One's complement checksum, written independently of the model's.
pub(super) fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

fn ethernet(to: [u8; 6], tag: Option<u16>, kind: u16) -> Vec<u8> {
    let mut bytes = to.to_vec();
    bytes.extend([0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee]);
    if let Some(tag) = tag {
        bytes.extend([0x81, 0x00]);
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(kind.to_be_bytes());
    bytes
}

/// A frame of no known protocol with `length` bytes, check sequence not counted.
pub(super) fn plain(to: [u8; 6], length: usize) -> Vec<u8> {
    let mut bytes = ethernet(to, None, 0x88b5);
    bytes.extend((bytes.len()..length).map(|index| index as u8));
    bytes
}

/// As [`plain`], with a tag.
pub(super) fn tagged(to: [u8; 6], tag: u16, length: usize) -> Vec<u8> {
    let mut bytes = ethernet(to, Some(tag), 0x88b5);
    bytes.extend((bytes.len()..length).map(|index| index as u8));
    bytes
}

/// What an IPv4 packet is made of.
#[derive(Clone, Copy)]
pub(super) struct Ipv4<'a> {
    pub to: [u8; 6],
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub class: u8,
    pub protocol: u8,
    /// From the transport header on, checksum included.
    pub body: &'a [u8],
}

/// An IPv4 packet with a right header checksum.
pub(super) fn ipv4(packet: Ipv4<'_>) -> Vec<u8> {
    let mut header = vec![0x45, packet.class];
    header.extend((20 + packet.body.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, packet.protocol, 0, 0]);
    header.extend(packet.source);
    header.extend(packet.destination);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [ethernet(packet.to, None, 0x0800), header, packet.body.to_vec()].concat()
}

/// The checksum of a transport part over IPv4; 0 if the one inside is right.
pub(super) fn transport(source: [u8; 4], destination: [u8; 4], protocol: u8, body: &[u8]) -> u16 {
    let length = (body.len() as u16).to_be_bytes();
    checksum(&[&source, &destination, &[0, protocol], &length, body])
}

/// A UDP packet from 10.0.0.1 to 10.0.0.2 with right checksums.
pub(super) fn udp(to: [u8; 6], ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut body = ports.0.to_be_bytes().to_vec();
    body.extend(ports.1.to_be_bytes());
    body.extend((8 + data.len() as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend(data);
    let sum = transport(source, destination, 17, &body);
    body[6..8].copy_from_slice(&sum.to_be_bytes());
    ipv4(Ipv4 { to, source, destination, class: 0, protocol: 17, body: &body })
}

/// A TCP segment from 10.0.0.1 to 10.0.0.2 without checksums, with FIN, PSH, ACK and CWR set.
pub(super) fn tcp_without_checksums(to: [u8; 6], sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0x10, 0x00, 0x20, 0x00];
    body.extend(sequence.to_be_bytes());
    body.extend([0, 0, 0, 1, 0x50, 0x99, 0x10, 0x00, 0, 0, 0, 0]);
    body.extend(data);
    let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let short: Vec<u8> = body.iter().copied().take(1000).collect();
    let mut bytes = ipv4(Ipv4 { to, source, destination, class: 0, protocol: 6, body: &short });
    bytes.truncate(34);
    bytes[24..26].fill(0);
    bytes.extend(body);
    bytes
}
