//! Receive channels: from a FIFO into the host's buffers (Linux `lan743x_rx_process_buffer`; AN2948 sections
//! 10.0.13 to 10.0.22).
//!
//! Decisions. A frame begins only when the ring has all the buffers that it needs, an extension descriptor
//! included; until then it stays in the FIFO. Each buffer is filled before the next begins. Used descriptors
//! are written back, then the head, then the interrupt is set: when more wait than the threshold says, or
//! when the channel's moderation timer does not run (`ON_INT_TMR`), or by a flush or a stop.
//!
//! All frames of one event come at one moment, so they are written back together at its end. This is no
//! matter of speed alone: to a host that a model is served to, an event takes time in which no register
//! write arrives. It would see the first frame, acknowledge, look and find no second one, and its
//! acknowledge would then take away the bit of those that came later in the same event.

use super::Lan743x;
use super::fct::Accepted;
use super::regs::{desc, dmac};
use super::ring::Descriptor;
use crate::device::Bus;

/// Frames written in one event.
const BURST: usize = 32;
/// Buffers of one frame at most: 16 KiB in buffers of 16 bytes would be more than any ring has.
const MOST_BUFFERS: usize = 1024;

impl Lan743x {
    pub(super) fn ring_rx(&mut self, bus: &mut dyn Bus, channel: usize) {
        let delay = self.params.timing.doorbell_ns;
        self.wake_channel(bus, true, channel, delay);
    }

    pub(super) fn rx_event(&mut self, bus: &mut dyn Bus, channel: usize) {
        if !self.channel_fires(bus, true, channel) || !self.ring(true, channel).runs() {
            return;
        }
        for left in (0..BURST).rev() {
            self.fetch(bus, true, channel, 1);
            if !self.ring(true, channel).runs() || !self.receive_frame(bus, channel) {
                break;
            }
            if left == 0 {
                self.ring_rx(bus, channel);
            }
        }
        let rests = self.rests(true, channel);
        self.write_back(bus, true, channel, rests);
        self.update_interrupts(bus);
    }

    /// Writes the oldest frame of the FIFO into buffers. False if there is none, or not enough buffers:
    /// a frame begins only when the ring has all that it needs.
    fn receive_frame(&mut self, bus: &mut dyn Bus, channel: usize) -> bool {
        let Some(fifo) = self.fct.rx.get(channel) else { return false };
        let Some(accepted) = fifo.frames.front() else { return false };
        let (length, stamped) = (accepted.length(), accepted.stamp.is_some());
        let Some(buffers) = self.buffers_for(bus, channel, length, stamped) else { return false };
        let Some(accepted) = self.fifo_take(bus, channel) else { return false };
        self.write_frame(bus, channel, &accepted, buffers);
        self.channel_counters(true, channel, |counters| counters.frames += 1);
        true
    }

    fn pad(&self, channel: usize) -> usize {
        if self.ring(true, channel).cfg_b >> 24 & 3 == 2 { 2 } else { 0 }
    }

    /// Takes as many descriptors as a frame needs: those of its buffers, and one for an extension.
    fn buffers_for(
        &mut self,
        bus: &mut dyn Bus,
        channel: usize,
        length: usize,
        stamped: bool,
    ) -> Option<Vec<Descriptor>> {
        let wanted = length + self.pad(channel);
        let extra = self.wants_extra_buffer(channel);
        let (mut room, mut count) = (0, 0);
        while room < wanted || extra && count < 2 {
            let found = self.held(bus, channel, count)?;
            let size = (found.words[0] & 0x3fff) as usize;
            // A buffer of nothing is used up by nothing.
            room += size;
            count += 1;
            if count > MOST_BUFFERS {
                self.halt(true, channel, dmac::ERR_DESCRIPTOR);
                return None;
            }
        }
        if extra {
            self.held(bus, channel, count)?;
            count += 1;
        }
        if stamped {
            self.held(bus, channel, count)?;
            count += 1;
        }
        Some(self.ring_mut(true, channel).cache.drain(..count).collect())
    }

    fn wants_extra_buffer(&self, channel: usize) -> bool {
        let every = u64::from(self.params.extra_buffer_every);
        every != 0 && (self.counters().rx[channel].frames + 1).is_multiple_of(every)
    }

    /// The descriptor at a place of the cache, fetched if need be; `None` if software has not given so
    /// many.
    fn held(&mut self, bus: &mut dyn Bus, channel: usize, place: usize) -> Option<Descriptor> {
        if self.ring(true, channel).cache.len() <= place {
            self.fetch(bus, true, channel, place + 1);
        }
        let found = *self.ring(true, channel).cache.get(place)?;
        if found.words[0] & desc::RX_OWN == 0 {
            // Given by the tail, but not by its owner bit: looked at again at the next doorbell.
            self.channel_counters(true, channel, |counters| counters.not_owned += 1);
            self.ring_mut(true, channel).forget_cache();
            return None;
        }
        Some(found)
    }

    fn write_frame(&mut self, bus: &mut dyn Bus, channel: usize, accepted: &Accepted, all: Vec<Descriptor>) {
        let mut bytes = accepted.frame.bytes.clone();
        if accepted.with_fcs {
            let fcs = super::frame::fcs(&bytes);
            bytes.extend((if accepted.frame.damaged { !fcs } else { fcs }).to_le_bytes());
        }
        let length = bytes.len() as u32;
        let buffers = all.len() - usize::from(accepted.stamp.is_some());
        let (mut at, mut pad) = (0, self.pad(channel));
        for (number, mut descriptor) in all.into_iter().enumerate() {
            if number == buffers {
                self.extension(channel, accepted, descriptor.index);
                break;
            }
            let size = (descriptor.words[0] & 0x3fff) as usize;
            let address = u64::from(descriptor.words[1]) | u64::from(descriptor.words[2]) << 32;
            let count = size.saturating_sub(pad).min(bytes.len() - at);
            self.write_data(bus, channel, address.wrapping_add(pad as u64), &bytes[at..at + count]);
            at += count;
            pad = pad.saturating_sub(size);
            let last = number + 1 == buffers;
            let word = if number == 0 { desc::RX_FS } else { 0 } | self.used_bytes(channel, number, count);
            descriptor.words = [word, 0, 0, 0];
            if last {
                let ext = if accepted.stamp.is_some() { desc::RX_EXT } else { 0 };
                descriptor.words[0] |= desc::RX_LS | ext | length << 16;
                descriptor.words[1] = accepted.status;
                descriptor.words[2] = accepted.hash.unwrap_or(0);
            }
            self.finish(channel, descriptor);
        }
    }

    /// The length field of a used buffer: 0, or what it holds of the frame, the padding before it included.
    fn used_bytes(&self, channel: usize, number: usize, count: usize) -> u32 {
        if !self.params.buffer_bytes {
            return 0;
        }
        let pad = if number == 0 { self.pad(channel) } else { 0 };
        (count + pad) as u32 & 0x3fff
    }

    /// The descriptor with the time stamp; a fault leaves it empty.
    fn extension(&mut self, channel: usize, accepted: &Accepted, index: u32) {
        let every = u64::from(self.shared().faults.missing_extension_every);
        let missing = every != 0 && (self.counters().rx[channel].frames + 1).is_multiple_of(every);
        let (seconds, ns) = accepted.stamp.unwrap_or_default();
        let words = if missing { [0; 4] } else { [desc::RX_EXT, seconds, ns, 0] };
        self.finish(channel, Descriptor { index, words });
    }

    fn finish(&mut self, channel: usize, descriptor: Descriptor) {
        let ring = self.ring_mut(true, channel);
        ring.next_head = ring.after(descriptor.index);
        ring.done.push_back(descriptor);
    }

    fn write_data(&mut self, bus: &mut dyn Bus, channel: usize, address: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let lost = bus.dma_write(address, data).is_err();
        let requests = requests(address, data.len());
        self.channel_counters(true, channel, |counters| {
            counters.data_requests += requests;
            counters.data_bytes += data.len() as u64;
            counters.lost_writes += u64::from(lost);
        });
    }

    pub(super) fn write_back_rx(&mut self, bus: &mut dyn Bus, channel: usize, force: bool) {
        let ring = self.ring(true, channel);
        let waiting = ring.done.len();
        let threshold = (ring.cfg_a >> 24 & 0x1f) as usize;
        if waiting == 0 || !force && waiting <= threshold {
            return;
        }
        let mut last_block = None;
        while let Some(descriptor) = self.ring_mut(true, channel).done.pop_front() {
            let address = self.descriptor_address(true, channel, descriptor.index);
            let mut bytes = [0; 16];
            for (four, word) in bytes.chunks_exact_mut(4).zip(descriptor.words) {
                four.copy_from_slice(&word.to_le_bytes());
            }
            let lost = bus.dma_write(address, &bytes).is_err();
            let block = address / self.params.completion_block;
            let new_request = last_block.replace(block) != Some(block);
            self.channel_counters(true, channel, |counters| {
                counters.write_backs += u64::from(new_request);
                counters.written += 1;
                counters.lost_writes += u64::from(lost);
            });
        }
        self.write_head(bus, true, channel);
        let (_, dma) = Self::channel_bits(true, channel);
        self.dmac.int_sts |= dma;
    }
}

/// Data goes in pieces of 512 bytes that end at multiples of it.
pub(super) fn requests(address: u64, length: usize) -> u64 {
    let last = address.wrapping_add(length as u64 - 1);
    (last / 512).wrapping_sub(address / 512).wrapping_add(1)
}
