//! Tests of the model against a bare bus.

mod errors;
mod fabric;
mod function;
mod hostile;
mod interrupts;
mod linux;
mod linux_driver;
mod lists;
mod transfers;

use super::regs::{dbi, element, hdma, v0};
use super::{Dir, DwEdma, Format, Handle, Params, Placement, presets};
use crate::device::{Device, Width};
use crate::memory::SharedMemory;
use crate::test_bus::TestBus;

/// Host (or local) RAM.
const RAM: u64 = 0x1000_0000;
const RAM_BYTES: usize = 8 << 20;
const BAR2: u64 = 0x40_0000_0000;
/// Where the tests let engines write their interrupts.
const MSI: u64 = 0xfee0_1000;

/// Channel registers that all formats have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reg {
    Control1,
    Size,
    Sar,
    Dar,
    Llp,
}

/// A model, the bus around it, and short names for what tests do.
struct Rig {
    bus: TestBus,
    dev: DwEdma,
    handle: Handle,
    ram: SharedMemory,
    /// Memory of the model.
    memory: SharedMemory,
}

fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

impl Rig {
    fn new(params: Params) -> Self {
        let mut bus = TestBus::new();
        let ram = bus.add_memory(RAM, RAM_BYTES, true);
        bus.bars.insert(2, BAR2);
        let dev = DwEdma::new(params);
        let handle = dev.handle();
        let memory = handle.memory().clone();
        Self { bus, dev, handle, ram, memory }
    }

    fn edda(format: Format) -> Self {
        Self::new(presets::edda(format))
    }

    fn format(&self) -> Format {
        self.dev.params().format
    }

    fn is_local(&self) -> bool {
        !self.dev.params().is_remote()
    }

    fn base(&self) -> u64 {
        match self.dev.params().placement {
            Placement::Local { core_version: Some(_), .. } if self.format() == Format::Legacy => {
                dbi::VIEWPORT
            }
            Placement::Local { core_version: Some(_), .. } => dbi::UNROLLED,
            _ => self.dev.params().register_offset,
        }
    }

    fn read(&mut self, offset: u64) -> u32 {
        let offset = self.base() + offset;
        self.dev.read(&mut self.bus, 0, offset, Width::W32) as u32
    }

    fn write(&mut self, offset: u64, value: u32) {
        let offset = self.base() + offset;
        self.dev.write(&mut self.bus, 0, offset, Width::W32, value.into());
    }

    /// Offset of a channel's block; sets the viewport if there is one.
    fn channel(&mut self, dir: Dir, channel: u16) -> u64 {
        let half = u64::from(dir == Dir::Read) * 0x100;
        match self.format() {
            Format::Legacy => {
                let select = u32::from(channel) | u32::from(dir == Dir::Read) << 31;
                self.write(v0::VIEWPORT_SEL, select);
                v0::LEGACY_CHANNEL
            }
            Format::HdmaNative => u64::from(channel) * hdma::CHANNEL_STRIDE + half,
            _ => v0::CHANNELS + u64::from(channel) * v0::CHANNEL_STRIDE + half,
        }
    }

    fn reg(&mut self, dir: Dir, channel: u16, reg: Reg) -> u64 {
        let native = self.format() == Format::HdmaNative;
        let inside = match (reg, native) {
            (Reg::Control1, false) => v0::channel::CONTROL1,
            (Reg::Size, false) => v0::channel::SIZE,
            (Reg::Sar, false) => v0::channel::SAR_LOW,
            (Reg::Dar, false) => v0::channel::DAR_LOW,
            (Reg::Llp, false) => v0::channel::LLP_LOW,
            (Reg::Control1, true) => hdma::CONTROL1,
            (Reg::Size, true) => hdma::SIZE,
            (Reg::Sar, true) => hdma::SAR_LOW,
            (Reg::Dar, true) => hdma::DAR_LOW,
            (Reg::Llp, true) => hdma::LLP_LOW,
        };
        self.channel(dir, channel) + inside
    }

    fn set(&mut self, dir: Dir, channel: u16, reg: Reg, value: u32) {
        let offset = self.reg(dir, channel, reg);
        self.write(offset, value);
    }

    fn set64(&mut self, dir: Dir, channel: u16, reg: Reg, value: u64) {
        let offset = self.reg(dir, channel, reg);
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    fn get(&mut self, dir: Dir, channel: u16, reg: Reg) -> u32 {
        let offset = self.reg(dir, channel, reg);
        self.read(offset)
    }

    fn llp(&mut self, dir: Dir, channel: u16) -> u64 {
        let offset = self.reg(dir, channel, Reg::Llp);
        u64::from(self.read(offset)) | u64::from(self.read(offset + 4)) << 32
    }

    fn status(&mut self, dir: Dir, channel: u16) -> u32 {
        if self.format() == Format::HdmaNative {
            let offset = self.channel(dir, channel) + hdma::STATUS;
            self.read(offset) & 3
        } else {
            self.get(dir, channel, Reg::Control1) >> 5 & 3
        }
    }

    fn step(&mut self) -> bool {
        self.bus.step(&mut self.dev)
    }

    fn run(&mut self) {
        let ran = self.bus.run(&mut self.dev, 100_000);
        assert!(ran < 100_000, "the engine does not come to rest");
    }

    /// The engine's address of byte `offset` of list memory: the model's own memory for a remote
    /// engine, RAM for a local one.
    fn list_addr(&self, offset: u64) -> u64 {
        match self.dev.params().placement {
            Placement::Local { .. } => RAM + offset,
            Placement::Remote { memory_base: super::MemoryBase::Fixed(base) } => base + offset,
            Placement::Remote { .. } => BAR2 + offset,
        }
    }

    /// The engine's address of byte `offset` across the link.
    fn link_addr(&self, offset: u64) -> u64 {
        match self.dev.params().placement {
            Placement::Local { link_base, .. } => link_base + offset,
            Placement::Remote { .. } => RAM + offset,
        }
    }

    fn local(&self) -> &SharedMemory {
        if self.is_local() { &self.ram } else { &self.memory }
    }

    fn link(&self) -> &SharedMemory {
        if self.is_local() { &self.memory } else { &self.ram }
    }

    /// Writes a data element as a driver does: control last.
    fn data(&self, at: u64, control: u32, size: u32, sar: u64, dar: u64) {
        let list = self.local();
        let at = at as usize;
        for (offset, value) in [(8, sar), (16, dar)] {
            list.write_u32(at + offset, value as u32).unwrap();
            list.write_u32(at + offset + 4, (value >> 32) as u32).unwrap();
        }
        list.write_u32(at + 4, size).unwrap();
        list.write_u32(at, control).unwrap();
    }

    fn link_element(&self, at: u64, control: u32, pointer: u64) {
        let list = self.local();
        let at = at as usize;
        list.write_u32(at + 8, pointer as u32).unwrap();
        list.write_u32(at + 12, (pointer >> 32) as u32).unwrap();
        list.write_u32(at, control | element::LLP).unwrap();
    }

    /// Enables engine or channel, unmasked local and remote interrupts, messages to [`MSI`] with the
    /// data `0x40` + channel number (write) or `0x60` + channel number (read).
    fn enable(&mut self, dir: Dir, channel: u16) {
        let data = if dir == Dir::Write { 0x40 } else { 0x60 } + u32::from(channel);
        if self.format() == Format::HdmaNative {
            let base = self.channel(dir, channel);
            self.write(base + hdma::EN, 1);
            self.write(base + hdma::INT_SETUP, 0x78);
            for at in [hdma::MSI_STOP_LOW, hdma::MSI_WATERMARK_LOW, hdma::MSI_ABORT_LOW] {
                self.write(base + at, MSI as u32 + (at - hdma::MSI_STOP_LOW) as u32);
            }
            self.write(base + hdma::MSI_DATA, data);
            return;
        }
        let shared = self.shared(dir);
        self.write(shared.engine, 1);
        let power = if dir == Dir::Write { v0::WR_PWR_EN } else { v0::RD_PWR_EN };
        if self.format() == Format::HdmaCompatible {
            self.write(power + 4 * u64::from(channel), 1);
        }
        self.write(shared.done, MSI as u32);
        self.write(shared.abort, MSI as u32 + 8);
        let word = shared.data + u64::from(channel / 2) * 4;
        let shift = u32::from(channel & 1) * 16;
        let old = self.read(word) & !(0xffff << shift);
        self.write(word, old | data << shift);
        let errors = self.read(shared.list_errors);
        self.write(shared.list_errors, errors | 0x1_0001 << channel);
    }

    /// Points the channel at a list with cycle state 1.
    fn point(&mut self, dir: Dir, channel: u16, at: u64) {
        if self.format() == Format::HdmaNative {
            let base = self.channel(dir, channel);
            self.write(base + hdma::CONTROL1, 1);
            self.write(base + hdma::CYCLE, 3);
        } else {
            let control = v0::control::CCS | v0::control::LLE;
            self.set(dir, channel, Reg::Control1, control);
        }
        let addr = self.list_addr(at);
        self.set64(dir, channel, Reg::Llp, addr);
    }

    fn doorbell(&mut self, dir: Dir, channel: u16) {
        if self.format() == Format::HdmaNative {
            let base = self.channel(dir, channel);
            self.write(base + hdma::DOORBELL, 1);
        } else {
            let doorbell = self.shared(dir).doorbell;
            self.write(doorbell, channel.into());
        }
    }

    fn stop(&mut self, dir: Dir, channel: u16) {
        if self.format() == Format::HdmaNative {
            let base = self.channel(dir, channel);
            self.write(base + hdma::DOORBELL, 2);
        } else {
            let doorbell = self.shared(dir).doorbell;
            self.write(doorbell, 1 << 31 | u32::from(channel));
        }
    }

    fn shared(&self, dir: Dir) -> SharedOffsets {
        match dir {
            Dir::Write => SharedOffsets {
                engine: 0x0c,
                doorbell: 0x10,
                status: 0x4c,
                mask: 0x54,
                clear: 0x58,
                error: 0x5c,
                done: 0x60,
                abort: 0x68,
                data: 0x70,
                list_errors: 0x90,
            },
            Dir::Read => SharedOffsets {
                engine: 0x2c,
                doorbell: 0x30,
                status: 0xa0,
                mask: 0xa8,
                clear: 0xac,
                error: 0xb4,
                done: 0xcc,
                abort: 0xd4,
                data: 0xdc,
                list_errors: 0xc4,
            },
        }
    }

    /// Interrupt messages since the last call: address relative to [`MSI`], and data.
    fn messages(&mut self) -> Vec<(u64, u32)> {
        let writes = std::mem::take(&mut self.bus.writes);
        let message = |(addr, data): (u64, Vec<u8>)| {
            let data = u32::from_le_bytes(data.try_into().ok()?);
            addr.checked_sub(MSI).filter(|at| *at < 0x100).map(|at| (at, data))
        };
        writes.into_iter().filter_map(message).collect()
    }
}

/// Offsets of v0's registers that exist once per direction; address pairs by their low half.
#[derive(Clone, Copy)]
struct SharedOffsets {
    engine: u64,
    doorbell: u64,
    status: u64,
    mask: u64,
    clear: u64,
    error: u64,
    done: u64,
    abort: u64,
    data: u64,
    list_errors: u64,
}

const DIRS: [Dir; 2] = [Dir::Write, Dir::Read];
const V0_FORMATS: [Format; 3] = [Format::Legacy, Format::Unrolled, Format::HdmaCompatible];

/// Source and destination of a move of `dir` between `local` and `link` offsets.
fn addresses(rig: &Rig, dir: Dir, local: u64, link: u64) -> (u64, u64) {
    let (local, link) = (rig.list_addr(local), rig.link_addr(link));
    if dir == Dir::Write { (local, link) } else { (link, local) }
}

/// Fills the source of a move and gives back what must arrive.
fn fill(rig: &Rig, dir: Dir, local: u64, link: u64, len: usize) -> Vec<u8> {
    let bytes = pattern(local as u32 ^ len as u32, len);
    let (memory, at) = if dir == Dir::Write { (rig.local(), local) } else { (rig.link(), link) };
    memory.write(at as usize, &bytes).unwrap();
    bytes
}

/// What is at the destination of a move.
fn arrived(rig: &Rig, dir: Dir, local: u64, link: u64, len: usize) -> Vec<u8> {
    let (memory, at) = if dir == Dir::Write { (rig.link(), link) } else { (rig.local(), local) };
    let mut bytes = vec![0; len];
    memory.read(at as usize, &mut bytes).unwrap();
    bytes
}
