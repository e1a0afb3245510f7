//! Time stamps of sent frames.
//!
//! The device keeps four. Each says by itself of which message it is, so a lost one is noticed; see
//! [`StampRequests`](super::StampRequests).

use tombolo_hal::net::Timestamp;
use tombolo_hal::reg;
use tombolo_hal::register::Readable;

use super::{Ptp, clock};
use crate::Error;
use crate::regs::ptp::{PTP_CAP_INFO, PTP_INT, PTP_MSG_HEADER, PTP_NS, Ptp as Registers};
use crate::shared::SharedRef;

/// Time stamps that the device keeps.
pub const TX_STAMPS: usize = 4;

const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];
const ETHERTYPE_QINQ: [u8; 2] = [0x88, 0xa8];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHERTYPE_PTP: [u8; 2] = [0x88, 0xf7];
const UDP: u8 = 17;
const PORT_EVENT: [u8; 2] = 319_u16.to_be_bytes();
const UDP_HEADER: usize = 8;

/// What a PTP message is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PtpMessage {
    /// Its type: 0 Sync, 1 Delay_Req, 2 Pdelay_Req, 3 Pdelay_Resp, up to 15.
    pub kind: u8,
    /// Its sequence number.
    pub sequence: u16,
}

impl PtpMessage {
    /// Sync.
    pub const SYNC: u8 = 0;

    /// The PTP message in an Ethernet frame: in the frame itself, or in UDP over IPv4 or IPv6 (without
    /// extension headers) to the port of event messages; behind up to two VLAN tags.
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let mut rest = frame.get(12..)?;
        let mut ethertype = rest.first_chunk::<2>()?;
        for _ in 0..2 {
            if !matches!(*ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) {
                break;
            }
            rest = rest.get(4..)?;
            ethertype = rest.first_chunk::<2>()?;
        }
        let payload = rest.get(2..)?;
        let message = match *ethertype {
            ETHERTYPE_PTP => payload,
            ETHERTYPE_IPV4 => event_message(ipv4_udp(payload)?)?,
            ETHERTYPE_IPV6 if *payload.get(6)? == UDP => event_message(payload.get(40..)?)?,
            _ => return None,
        };
        let sequence = message.get(30..)?.first_chunk::<2>()?;
        Some(Self { kind: message.first()? & 0xf, sequence: u16::from_be_bytes(*sequence) })
    }
}

/// What follows the header of a packet that is UDP and no later fragment.
fn ipv4_udp(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let fragment = u16::from_be_bytes(*packet.get(6..)?.first_chunk::<2>()?) & 0x1fff;
    if *packet.get(9)? != UDP || fragment != 0 || header < 20 {
        return None;
    }
    packet.get(header..)
}

fn event_message(datagram: &[u8]) -> Option<&[u8]> {
    if *datagram.get(2..)?.first_chunk::<2>()? == PORT_EVENT { datagram.get(UDP_HEADER..) } else { None }
}

/// When a frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// The time.
    pub time: Timestamp,
    /// Which message it was. Of a frame that was none, whatever the device made of it.
    pub message: PtpMessage,
    /// CRC of the message's source port identity: 12 bits, by a polynomial that is not public.
    pub source_crc: u16,
}

impl<S: SharedRef> Ptp<S> {
    /// Takes the oldest time stamp of a sent frame. At most four are waiting: call this until it gives
    /// `None`, then [`rearm`](Self::rearm).
    ///
    /// Time stamps that no frame asked for, and such that are none, are discarded, at most four at a
    /// call.
    ///
    /// # Errors
    /// [`Error::DeviceGone`].
    pub fn take_stamp(&mut self) -> Result<Option<TxStamp>, Error> {
        for _ in 0..TX_STAMPS {
            if self.waiting_stamps()? == 0 {
                self.clear_stale_status()?;
                return Ok(None);
            }
            let seconds = reg!(self.registers, Registers, tx_egress_sec).get();
            let word = reg!(self.registers, Registers, tx_egress_ns).extract();
            let header = reg!(self.registers, Registers, tx_msg_header).extract();
            // This takes it out of the device.
            reg!(self.registers, Registers, int_sts).clear(PTP_INT::TX_TS::SET);
            let time = clock::device_time(seconds, word.read(PTP_NS::NS));
            if let (true, Ok(time)) = (word.matches_all(PTP_NS::CAUSE::Software), time) {
                let kind = header.read(PTP_MSG_HEADER::MSG_TYPE) as u8;
                let sequence = header.read(PTP_MSG_HEADER::SEQ_ID) as u16;
                let source_crc = header.read(PTP_MSG_HEADER::SRC_PRT_CRC) as u16;
                return Ok(Some(TxStamp { time, message: PtpMessage { kind, sequence }, source_crc }));
            }
            self.discarded += 1;
        }
        Ok(None)
    }

    /// How many time stamps were discarded.
    pub fn discarded_stamps(&self) -> u64 {
        self.discarded
    }

    fn waiting_stamps(&self) -> Result<u32, Error> {
        let info = reg!(self.registers, Registers, cap_info).extract();
        if info.get() == u32::MAX {
            return Err(Error::DeviceGone);
        }
        Ok(info.read(PTP_CAP_INFO::TX_TS_CNT))
    }

    /// A status without a time stamp would interrupt for ever. One that has just come is left alone.
    fn clear_stale_status(&self) -> Result<(), Error> {
        let stale = reg!(self.registers, Registers, int_sts).is_set(PTP_INT::TX_TS);
        if stale && self.waiting_stamps()? == 0 {
            reg!(self.registers, Registers, int_sts).clear(PTP_INT::TX_TS::SET);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn message(kind: u8, sequence: u16) -> Vec<u8> {
        let mut bytes = vec![0; 44];
        bytes[0] = 0x10 | kind;
        bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
        bytes
    }

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    #[test]
    fn messages_are_found_in_all_their_wrappings() {
        let wanted = Some(PtpMessage { kind: 1, sequence: 0x1234 });
        let message = message(1, 0x1234);
        let tag = [0x81, 0x00, 0x20, 0x05];
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_PTP, &message])), wanted);
        assert_eq!(PtpMessage::of_frame(&frame(&[&tag, &tag, &ETHERTYPE_PTP, &message])), wanted);
        let udp = [0x01, 0x3f, 0x01, 0x3f, 0, 52, 0, 0];
        let mut ipv4 = [0_u8; 24];
        (ipv4[0], ipv4[9]) = (0x46, UDP);
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_IPV4, &ipv4, &udp, &message])), wanted);
        let mut ipv6 = [0_u8; 40];
        ipv6[6] = UDP;
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_IPV6, &ipv6, &udp, &message])), wanted);
    }

    #[test]
    fn other_ports_protocols_and_fragments_are_none() {
        let message = message(0, 1);
        let udp = [0x01, 0x40, 0x01, 0x40, 0, 52, 0, 0];
        let mut ipv4 = [0_u8; 20];
        (ipv4[0], ipv4[9]) = (0x45, UDP);
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_IPV4, &ipv4, &udp, &message])), None);
        let udp = [0x01, 0x3f, 0x01, 0x3f, 0, 52, 0, 0];
        ipv4[7] = 1;
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_IPV4, &ipv4, &udp, &message])), None);
        (ipv4[7], ipv4[9]) = (0, 6);
        assert_eq!(PtpMessage::of_frame(&frame(&[&ETHERTYPE_IPV4, &ipv4, &udp, &message])), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), choice in 0..4_usize) {
            let types = [ETHERTYPE_PTP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN];
            let _ = PtpMessage::of_frame(&bytes);
            let _ = PtpMessage::of_frame(&frame(&[&types[choice], &bytes]));
        }
    }
}
