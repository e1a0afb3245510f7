//! Unit tests: one model on a bus without machine, driven by its registers as stock Linux drives it.

mod blocks;
mod bring_up;
mod filters;
mod interrupts;
mod media;
mod packets;
mod receive;
mod transmit;

use super::wire::{Arrival, Frame, Port, Wire, WireParams};
use super::{Lan743x, Params, presets};
use crate::device::{Device, Width};
use crate::memory::SharedMemory;
use crate::test_bus::TestBus;

pub(super) const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const RAM: u64 = 0x10_0000;
const RAM_BYTES: usize = 0x20_0000;
/// Entries of each ring.
pub(super) const RING: u32 = 64;
const HEADS: u64 = 0x1_0000;
const TX_DATA: u64 = 0x2_0000;
const RX_DATA: u64 = 0x10_0000;
/// From one receive buffer to the next.
const RX_STEP: u64 = 0x800;
/// More events than any test causes.
const MANY: usize = 20_000;

pub(super) struct Rig {
    pub bus: TestBus,
    pub model: Lan743x,
    pub far: Port,
    pub ram: SharedMemory,
    /// Size of each receive buffer.
    pub buffer: u32,
    /// `RX_PAD`.
    pub pad: usize,
    rx_next: [u32; 4],
    tx_next: [u32; 4],
    data: u64,
}

/// What the host finds of a received frame.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Received {
    pub bytes: Vec<u8>,
    pub buffers: usize,
    /// Frame length in the descriptor.
    pub length: usize,
    pub status: u32,
    pub hash: u32,
    pub stamp: Option<(u32, u32)>,
}

impl Rig {
    pub fn new(params: Params) -> Self {
        Self::with_wire(params, WireParams::default())
    }

    pub fn with_wire(params: Params, wire: WireParams) -> Self {
        let mut bus = TestBus::new();
        let ram = bus.add_memory(RAM, RAM_BYTES, true);
        let (near, far) = Wire::pair(wire);
        let mut model = Lan743x::new(params);
        model.connect(near);
        Self { bus, model, far, ram, buffer: 1536, pad: 2, rx_next: [0; 4], tx_next: [0; 4], data: 0 }
    }

    /// A LAN7430 A0 that is up, with thresholds of zero.
    pub fn up() -> Self {
        Self::up_with(presets::lan7430_a0())
    }

    pub fn up_with(params: Params) -> Self {
        let mut rig = Self::new(params);
        rig.bring_up();
        rig
    }

    pub fn rd(&mut self, offset: u64) -> u32 {
        self.model.read(&mut self.bus, 0, offset, Width::W32) as u32
    }

    pub fn wr(&mut self, offset: u64, value: u32) {
        self.model.write(&mut self.bus, 0, offset, Width::W32, value.into());
    }

    pub fn set(&mut self, offset: u64, bits: u32) {
        let old = self.rd(offset);
        self.wr(offset, old | bits);
    }

    /// Lets time pass until the bits have the value.
    pub fn wait(&mut self, offset: u64, mask: u32, value: u32) {
        for _ in 0..1000 {
            if self.rd(offset) & mask == value {
                return;
            }
            self.bus.now_ns += 1_000;
        }
        panic!("{offset:#x} & {mask:#x} never became {value:#x}");
    }

    /// Runs what is to happen.
    pub fn settle(&mut self) {
        let ran = self.bus.run(&mut self.model, MANY);
        assert!(ran < MANY, "events without end");
    }

    /// Everything that stock Linux does from probe to a running interface, without interrupts.
    pub fn bring_up(&mut self) {
        self.probe();
        for channel in 0..self.model.params().chip.tx_channels() {
            self.open_tx(channel, 0x1000_0020);
        }
        for channel in 0..4 {
            self.open_rx(channel, 0x20);
        }
        // Link up at 1000 Mbit/s, full duplex, no flow control.
        self.set(0x100, 2 << 1 | 1 << 3);
        self.settle();
    }

    /// Resets, MAC, filter, DMA controller (`lan743x_hardware_init`).
    pub fn probe(&mut self) {
        self.set(0x010, 2);
        self.wait(0x010, 2, 0);
        self.set(0x014, 1 << 4);
        self.wait(0x014, 1 << 4 | 1 << 7, 1 << 7);
        if self.model.params().is_sgmii() {
            let ctl = self.rd(0x728);
            self.wr(0x728, ctl & !2 | 1 << 31);
        }
        self.wr(0x78c, u32::MAX);
        let cr = self.rd(0x100);
        self.wr(0x100, cr & !(1 << 12 | 1 << 11) | 1 << 5);
        let [a, b, c, d, e, f] = MAC;
        self.wr(0x11c, u32::from_le_bytes([a, b, c, d]));
        self.wr(0x118, u32::from_le_bytes([e, f, 0, 0]));
        self.wr(0x404, u32::from_le_bytes([a, b, c, d]));
        self.wr(0x400, u32::from_le_bytes([e, f, 0, 0]) | 1 << 31);
        self.wr(0xc0c, 1 << 31);
        self.wait(0xc0c, 1 << 31, 0);
        self.wr(0xc00, 6 << 4);
        // 1518 bytes, and room for tags.
        let size = self.rd(0x104) & !(0x3fff << 16) | 1518 << 16 | 1 << 2;
        self.wr(0x104, size);
        self.set(0x104, 1);
        self.set(0x108, 1);
        self.wr(0x508, 1 << 10 | 1 << 1 | 1 << 11 | 1 << 12);
    }

    fn head_address(rx: bool, channel: usize) -> u64 {
        RAM + HEADS + (channel as u64 + if rx { 4 } else { 0 }) * 4
    }

    fn ring_address(rx: bool, channel: usize) -> u64 {
        RAM + (channel as u64 + if rx { 8 } else { 0 }) * 0x1000
    }

    pub fn open_tx(&mut self, channel: usize, cfg_a: u32) {
        let at = 0xd40 + channel as u64 * 0x40;
        self.wr(0x0c4, 1 << (20 + channel));
        self.wait(0x0c4, 1 << (20 + channel), 0);
        self.wr(0x0c4, 1 << (28 + channel));
        self.wr(0xc0c, 1 << (24 + channel));
        self.wait(0xc0c, 1 << (24 + channel), 0);
        self.wr(at + 8, 0);
        self.wr(at + 0xc, Self::ring_address(false, channel) as u32);
        let cfg_b = self.rd(at + 4) & !0xffff | RING;
        self.wr(at + 4, cfg_b);
        self.wr(at, cfg_a);
        self.wr(at + 0x10, 0);
        self.wr(at + 0x14, Self::head_address(false, channel) as u32);
        self.wr(at + 0x1c, 0);
        self.wr(0xc14, 1 << channel);
        self.wr(0xc0c, 1 << (20 + channel));
        self.tx_next[channel] = 0;
    }

    pub fn open_rx(&mut self, channel: usize, cfg_a: u32) {
        let at = 0xc40 + channel as u64 * 0x40;
        self.wr(0xc0c, 1 << (8 + channel));
        self.wait(0xc0c, 1 << (8 + channel), 0);
        for index in 0..RING {
            self.give_buffer(channel, index);
        }
        self.wr(at + 8, 0);
        self.wr(at + 0xc, Self::ring_address(true, channel) as u32);
        self.wr(at + 0x10, 0);
        self.wr(at + 0x14, Self::head_address(true, channel) as u32);
        self.wr(at, cfg_a);
        let cfg_b = self.rd(at + 4) & !0x0300_ffff | RING | (self.pad as u32) << 24;
        self.wr(at + 4, cfg_b);
        self.wr(at + 0x1c, RING - 1);
        self.wr(0xc14, 1 << (16 + channel));
        self.wr(0xc0c, 1 << (4 + channel));
        self.wr(0x0ac, 1 << (20 + channel));
        self.wait(0x0ac, 1 << (20 + channel), 0);
        self.wr(0x0ac, 1 << (28 + channel));
        self.rx_next[channel] = 0;
    }

    pub fn words(&self, rx: bool, channel: usize, index: u32) -> [u32; 4] {
        let at = (Self::ring_address(rx, channel) - RAM) as usize + index as usize * 16;
        std::array::from_fn(|word| self.ram.read_u32(at + word * 4).unwrap())
    }

    pub fn put_words(&self, rx: bool, channel: usize, index: u32, words: [u32; 4]) {
        let at = (Self::ring_address(rx, channel) - RAM) as usize + index as usize * 16;
        for (number, word) in words.into_iter().enumerate() {
            self.ram.write_u32(at + number * 4, word).unwrap();
        }
    }

    fn buffer_address(channel: usize, index: u32) -> u64 {
        RAM + RX_DATA + (channel as u64 * u64::from(RING) + u64::from(index)) * RX_STEP
    }

    pub fn give_buffer(&self, channel: usize, index: u32) {
        let address = Self::buffer_address(channel, index) as u32;
        self.put_words(true, channel, index, [1 << 15 | self.buffer, address, 0, 0]);
    }

    /// The head as the host sees it in memory.
    pub fn head(&self, rx: bool, channel: usize) -> u32 {
        self.ram.read_u32((Self::head_address(rx, channel) - RAM) as usize).unwrap()
    }

    /// Puts data where descriptors can point to.
    pub fn place(&mut self, bytes: &[u8]) -> u32 {
        let at = TX_DATA + self.data;
        self.data = (self.data + (bytes.len() as u64).next_multiple_of(16)) % 0x4_0000;
        self.ram.write(at as usize, bytes).unwrap();
        (RAM + at) as u32
    }

    /// Puts a descriptor at the end of a transmit ring; nobody is told.
    pub fn push(&mut self, channel: usize, words: [u32; 4]) {
        let index = self.tx_next[channel];
        self.put_words(false, channel, index, words);
        self.tx_next[channel] = (index + 1) % RING;
    }

    pub fn ring(&mut self, channel: usize) {
        let tail = self.tx_next[channel];
        self.wr(0xd5c + channel as u64 * 0x40, tail);
    }

    /// Sends a frame in one buffer; `flags` are added to FS, LS, IOC and FCS.
    pub fn send(&mut self, channel: usize, bytes: &[u8], flags: u32) {
        let address = self.place(bytes);
        let word = 0x3402_0000 | flags | bytes.len() as u32;
        self.push(channel, [word, address, 0, (bytes.len() as u32) << 16]);
        self.ring(channel);
        self.settle();
    }

    /// The frame that arrived at the other end.
    pub fn arrived(&mut self) -> Option<Frame> {
        match self.far.receive(self.bus.now_ns) {
            Arrival::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    pub fn all_arrived(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.arrived()).collect()
    }

    /// A frame comes in over the wire.
    pub fn incoming(&mut self, bytes: &[u8]) {
        self.incoming_frame(Frame::new(bytes));
    }

    pub fn incoming_frame(&mut self, frame: Frame) {
        self.far.send(self.bus.now_ns, frame);
        self.model.event(&mut self.bus, super::wire::ARRIVAL);
        self.settle();
    }

    /// The next frame that a channel has for the host, as stock Linux takes it.
    pub fn take(&mut self, channel: usize) -> Option<Received> {
        let mut got = Received::default();
        loop {
            let index = self.rx_next[channel];
            if index == self.head(true, channel) {
                assert_eq!(got.buffers, 0, "the head stands inside a frame");
                return None;
            }
            let [word, status, hash, _] = self.words(true, channel, index);
            assert_eq!(word >> 15 & 1, 0, "the host does not own {index}");
            assert_eq!(word >> 31 != 0, got.buffers == 0, "first segment at the wrong place");
            let pad = if got.buffers == 0 { self.pad } else { 0 };
            let mut data = vec![0; self.buffer as usize - pad];
            let at = Self::buffer_address(channel, index) - RAM + pad as u64;
            self.ram.read(at as usize, &mut data).unwrap();
            got.bytes.extend(data);
            got.buffers += 1;
            self.give_buffer(channel, index);
            self.rx_next[channel] = (index + 1) % RING;
            if word >> 30 & 1 != 0 {
                got.length = (word >> 16 & 0x3fff) as usize;
                (got.status, got.hash) = (status, hash);
                got.bytes.truncate(got.length);
                if word >> 14 & 1 != 0 {
                    got.stamp = Some(self.take_stamp(channel));
                }
                let tail = (self.rx_next[channel] + RING - 1) % RING;
                self.wr(0xc5c + channel as u64 * 0x40, tail);
                return Some(got);
            }
        }
    }

    fn take_stamp(&mut self, channel: usize) -> (u32, u32) {
        let index = self.rx_next[channel];
        let [word, seconds, ns, _] = self.words(true, channel, index);
        assert_eq!(word & (1 << 14 | 1 << 15), 1 << 14, "no extension descriptor");
        self.give_buffer(channel, index);
        self.rx_next[channel] = (index + 1) % RING;
        (seconds, ns)
    }
}
