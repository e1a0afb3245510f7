//! Transmit channels: from the host's descriptors to the MAC (Linux `lan743x_tx_frame_*`; AN2948 sections
//! 10.0.23 to 10.0.32).
//!
//! Decisions. An extension descriptor follows the first data descriptor at once, also when that is the last
//! one. After a wrong sequence that does not halt the channel what was read of the frame is dropped, and
//! everything up to the next first segment is passed over. A frame without the bit that asks for a check
//! sequence ends with one of its own, and is not padded. The head is written, and the interrupt set, when
//! more descriptors ask for it than the threshold says, or when the channel's moderation timer does not
//! run (`ON_INT_TMR`), or by a flush or a stop; once in each event, at its end (see [`super::rx`] why).

use super::Lan743x;
use super::mac::Out;
use super::regs::{desc, dmac};
use super::ring::Descriptor;
use super::rx::requests;
use super::segment;
use super::{DropReason, frame};
use crate::device::Bus;

/// Descriptors looked at in one event.
const BURST: usize = 64;
/// Frames sent in one event; the last large send may go beyond it.
const MOST_FRAMES: u64 = 256;
/// Bytes of a frame at most: what the length of a large send can say.
const MOST_BYTES: usize = 1 << 20;
/// The largest frame that is sent as it is.
const MOST_PLAIN: usize = 16_000;

/// A frame that is being read.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// First word of the first descriptor.
    first: u32,
    /// Segment size, from the first descriptor.
    mss: usize,
    /// Length that the extension descriptor names.
    payload: Option<usize>,
    /// An extension descriptor has to come next; `true` if the frame ends with it.
    expects_extension: bool,
    ends: bool,
    unreadable: bool,
}

impl Lan743x {
    pub(super) fn ring_tx(&mut self, bus: &mut dyn Bus, channel: usize) {
        let delay = self.params.timing.doorbell_ns;
        self.wake_channel(bus, false, channel, delay);
    }

    pub(super) fn tx_event(&mut self, bus: &mut dyn Bus, channel: usize) {
        if !self.channel_fires(bus, false, channel) || !self.ring(false, channel).runs() {
            return;
        }
        let before = self.frames_made();
        for left in (0..BURST).rev() {
            let now = bus.now_ns();
            // The wire is the limit: what does not fit into it now waits in memory.
            match self.transmitter_free(now) {
                Some(at) if at > now => {
                    self.wake_channel(bus, false, channel, at - now);
                    break;
                }
                Some(_) if self.tx_fifo_enabled(now, channel) => {}
                _ => break,
            }
            self.fetch(bus, false, channel, 1);
            let Some(descriptor) = self.ring_mut(false, channel).cache.pop_front() else { break };
            self.take_descriptor(bus, channel, descriptor);
            if !self.ring(false, channel).runs() {
                break;
            }
            if left == 0 || self.frames_made().saturating_sub(before) >= MOST_FRAMES {
                self.ring_tx(bus, channel);
                break;
            }
        }
        let rests = self.rests(false, channel);
        self.write_back(bus, false, channel, rests);
        self.update_interrupts(bus);
    }

    /// Frames that were sent, or lost on the way out.
    fn frames_made(&self) -> u64 {
        let counters = self.counters();
        counters.tx.iter().map(|channel| channel.frames).sum::<u64>() + counters.segments
    }

    fn take_descriptor(&mut self, bus: &mut dyn Bus, channel: usize, descriptor: Descriptor) {
        let word = descriptor.words[0];
        let extension = word & 3 << 30 == desc::TX_EXTENSION;
        let held = self.dmac.frames[channel].take();
        let error = match (&held, extension) {
            (Some(frame), true) if frame.expects_extension => 0,
            (_, true) => dmac::ERR_DATA_EXPECTED,
            (Some(frame), false) if frame.expects_extension => dmac::ERR_EXT_EXPECTED,
            (Some(_), false) if word & desc::FS != 0 => dmac::ERR_EXTRA_FS,
            (None, false) if word & desc::FS == 0 => dmac::ERR_NO_FS,
            _ => 0,
        };
        let held = if error == 0 { held } else { None };
        let halts = error != 0 && self.sequence_error(channel, error);
        if halts {
            return;
        }
        let frame = match held {
            Some(mut frame) if extension => {
                frame.expects_extension = false;
                if word & desc::LSO != 0 {
                    frame.payload = Some((word & 0xf_ffff) as usize);
                }
                Some(frame)
            }
            None if extension || word & desc::FS == 0 => None,
            held => self.read_piece(bus, channel, held, &descriptor),
        };
        if let Some(frame) = frame {
            if frame.ends && !frame.expects_extension {
                self.send(bus, channel, frame);
            } else {
                self.dmac.frames[channel] = Some(frame);
            }
        }
        self.pass(channel, descriptor);
    }

    /// Descriptors that follow each other in a way that makes no frame. Whether the channel halts.
    fn sequence_error(&mut self, channel: usize, error: u32) -> bool {
        self.drop_frame(DropReason::Transmit);
        let halts = self.ring(false, channel).err & dmac::ERR_SEQUENCE_HALT != 0;
        if halts {
            self.halt(false, channel, error);
        } else {
            self.ring_mut(false, channel).err |= error;
        }
        halts
    }

    fn read_piece(
        &mut self,
        bus: &mut dyn Bus,
        channel: usize,
        frame: Option<Outgoing>,
        descriptor: &Descriptor,
    ) -> Option<Outgoing> {
        let [word, low, high, last] = descriptor.words;
        let mut frame = frame.unwrap_or_else(|| Outgoing {
            bytes: vec![],
            first: word,
            mss: (last >> 16 & 0x3fff) as usize,
            payload: None,
            expects_extension: word & desc::TX_EXT != 0,
            ends: false,
            unreadable: false,
        });
        let (length, address) = ((word & 0xffff) as usize, u64::from(low) | u64::from(high) << 32);
        if frame.bytes.len() + length > MOST_BYTES {
            self.too_long(channel);
            return None;
        }
        let at = frame.bytes.len();
        frame.bytes.resize(at + length, 0);
        if length != 0 {
            frame.unreadable |= bus.dma_read(address, &mut frame.bytes[at..]).is_err();
            self.channel_counters(false, channel, |counters| {
                counters.data_requests += requests(address, length);
                counters.data_bytes += length as u64;
            });
        }
        frame.ends = word & desc::LS != 0;
        Some(frame)
    }

    /// More than the FIFO's checks let pass (`FCT_TXE`). Whether that stops the channel software says.
    fn too_long(&mut self, channel: usize) {
        self.drop_frame(DropReason::Transmit);
        self.fct.tx_error();
        let ring = self.ring_mut(false, channel);
        if ring.cfg_a & dmac::TX_STOP_TXE == 0 {
            self.halt(false, channel, dmac::ERR_TXE);
        } else {
            ring.err |= dmac::ERR_TXE;
        }
    }

    fn send(&mut self, bus: &mut dyn Bus, channel: usize, frame: Outgoing) {
        self.channel_counters(false, channel, |counters| counters.frames += 1);
        if frame.unreadable {
            self.drop_frame(DropReason::TransmitRead);
            self.ring_mut(false, channel).err |= dmac::ERR_DATA;
            return;
        }
        if frame.first & desc::FCS == 0 {
            self.counters().frames_without_fcs += 1;
        }
        match frame.payload {
            Some(payload) => self.send_large(bus, channel, frame, payload),
            None if frame.bytes.len() > MOST_PLAIN || frame.bytes.len() < 14 => {
                self.drop_frame(DropReason::Transmit);
            }
            None => self.send_plain(bus, channel, frame),
        }
    }

    fn send_plain(&mut self, bus: &mut dyn Bus, channel: usize, frame: Outgoing) {
        let mut bytes = frame.bytes;
        if frame.first & desc::ICE != 0 && !self.insert_checksums(&mut bytes, frame.first) {
            self.counters().checksums_not_inserted += 1;
        }
        self.put_on_wire(bus, channel, bytes, frame.first);
    }

    fn insert_checksums(&self, bytes: &mut [u8], word: u32) -> bool {
        let Some(ip) = frame::parse(bytes, 0x88a8).and_then(|headers| headers.ip) else { return false };
        if word & desc::IPE != 0 {
            ip.insert_header(bytes);
        }
        word & desc::TPE == 0 || ip.insert_transport(bytes)
    }

    fn put_on_wire(&mut self, bus: &mut dyn Bus, channel: usize, mut bytes: Vec<u8>, word: u32) {
        let inserts = word & desc::FCS != 0;
        let mut damaged = false;
        if !inserts {
            let own = bytes.split_off(bytes.len().saturating_sub(4));
            damaged = own != frame::fcs(&bytes).to_le_bytes();
        }
        let stamp = word & desc::TSE != 0;
        self.transmit(bus, Out { bytes, inserts, damaged, stamp, channel });
    }

    fn send_large(&mut self, bus: &mut dyn Bus, channel: usize, frame: Outgoing, payload: usize) {
        let Some(cut) = segment::cut(&frame.bytes, frame.mss, self.params.lso_ipv6) else {
            self.drop_frame(DropReason::Transmit);
            return;
        };
        {
            let mut counters = self.counters();
            counters.large_sends += 1;
            counters.segments += cut.len() as u64;
            let named = payload == frame.bytes.len() || payload + 14 == frame.bytes.len();
            counters.odd_payload_lengths += u64::from(!named);
        }
        for mut bytes in cut {
            self.insert_checksums(&mut bytes, desc::ICE | desc::IPE | desc::TPE);
            self.put_on_wire(bus, channel, bytes, frame.first & !desc::TSE);
        }
    }

    /// A descriptor is used up.
    fn pass(&mut self, channel: usize, descriptor: Descriptor) {
        let ring = self.ring_mut(false, channel);
        ring.next_head = ring.after(descriptor.index);
        let select = ring.cfg_a >> 28 & 3;
        let word = descriptor.words[0];
        let data = word & 3 << 30 == 0;
        let asks =
            data && (select & 1 != 0 && word & desc::IOC != 0 || select & 2 != 0 && word & desc::LS != 0);
        ring.owed += u32::from(asks);
    }

    pub(super) fn write_back_tx(&mut self, bus: &mut dyn Bus, channel: usize, force: bool) {
        let ring = self.ring(false, channel);
        if ring.owed == 0 || !force && ring.owed <= ring.cfg_a & 0xf {
            return;
        }
        self.ring_mut(false, channel).owed = 0;
        self.write_head(bus, false, channel);
        let (_, dma) = Self::channel_bits(false, channel);
        self.dmac.int_sts |= dma;
    }
}
