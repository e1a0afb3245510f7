//! An ECAM over functions in memory, which routes by the bus numbers that bridges hold.

use std::sync::Arc;
use std::vec::Vec;

use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::pci::{CapabilityId, ConfigSpace};

use super::super::{BUS_SIZE, Ecam};

/// A function, and what is behind it.
#[derive(Debug)]
pub struct Node {
    pub device: u8,
    pub function: u8,
    pub cfg: FakeConfigSpace,
    pub behind: Vec<Node>,
}

impl Node {
    pub fn new(device: u8, function: u8, cfg: FakeConfigSpace) -> Self {
        Self { device, function, cfg, behind: Vec::new() }
    }

    pub fn with(mut self, behind: Vec<Node>) -> Self {
        self.behind = behind;
        self
    }

    fn register(&self, offset: u16) -> u32 {
        self.cfg.peek32(offset).unwrap()
    }

    fn is_bridge(&self) -> bool {
        self.register(0x0c) >> 16 & 0x7f == 1
    }

    fn is_asked(&self, bus: u8) -> bool {
        let numbers = self.register(0x18).to_le_bytes();
        self.is_bridge() && numbers[1] != 0 && (numbers[1]..=numbers[2]).contains(&bus)
    }
}

pub struct FakeBuses {
    pub first_bus: u8,
    pub buses: usize,
    pub root: Vec<Node>,
}

fn find(nodes: &[Node], own_bus: u8, at: u32, depth: u32) -> Option<&FakeConfigSpace> {
    let (bus, device, function) = ((at >> 8) as u8, (at >> 3 & 31) as u8, (at & 7) as u8);
    if bus == own_bus {
        return nodes.iter().find(|n| n.device == device && n.function == function).map(|n| &n.cfg);
    }
    let bridge = nodes.iter().find(|n| n.is_asked(bus)).filter(|_| depth < 64)?;
    find(&bridge.behind, (bridge.register(0x18) >> 8) as u8, at, depth + 1)
}

impl FakeBuses {
    fn at(&self, offset: usize) -> (Option<&FakeConfigSpace>, u16) {
        let first = u32::from(self.first_bus) << 8;
        let cfg = find(&self.root, self.first_bus, (offset >> 12) as u32 + first, 0);
        (cfg, (offset & 0xfff) as u16)
    }
}

#[derive(Clone)]
pub struct FakeEcam(pub Arc<FakeBuses>);

impl Mmio for FakeEcam {
    fn size(&self) -> usize {
        self.0.buses * BUS_SIZE
    }
    fn read32(&self, offset: usize) -> u32 {
        let (cfg, offset) = self.0.at(offset);
        cfg.map_or(u32::MAX, |c| c.read32(offset))
    }
    fn write32(&self, offset: usize, value: u32) {
        let (cfg, offset) = self.0.at(offset);
        cfg.inspect(|c| c.write32(offset, value));
    }
}

impl MmioNarrow for FakeEcam {
    fn read8(&self, offset: usize) -> u8 {
        let (cfg, offset) = self.0.at(offset);
        cfg.map_or(u8::MAX, |c| c.read8(offset))
    }
    fn write8(&self, offset: usize, value: u8) {
        let (cfg, offset) = self.0.at(offset);
        cfg.inspect(|c| c.write8(offset, value));
    }
    fn read16(&self, offset: usize) -> u16 {
        let (cfg, offset) = self.0.at(offset);
        cfg.map_or(u16::MAX, |c| c.read16(offset))
    }
    fn write16(&self, offset: usize, value: u16) {
        let (cfg, offset) = self.0.at(offset);
        cfg.inspect(|c| c.write16(offset, value));
    }
}

/// An ECAM of `buses` buses with `root` on the first.
pub fn ecam(buses: usize, root: Vec<Node>) -> Ecam<FakeEcam> {
    let io = FakeEcam(Arc::new(FakeBuses { first_bus: 0, buses, root }));
    Ecam::new(io, 0, (buses - 1) as u8).unwrap()
}

pub fn endpoint() -> FakeConfigSpace {
    FakeConfigSpace::new(0x16c3, 0xedda)
}

/// A root port with a 64-bit prefetchable window.
pub fn bridge() -> FakeConfigSpace {
    FakeConfigSpace::new(0x1b36, 0x000c)
        .with_register(0x0c, 0x0001_0000, 0)
        .with_register(0x18, 0, u32::MAX)
        .with_register(0x1c, 0, 0xf0f0)
        .with_register(0x20, 0, 0xfff0_fff0)
        .with_register(0x24, 0x0001_0001, 0xfff0_fff0)
        .with_register(0x28, 0, u32::MAX)
        .with_register(0x2c, 0, u32::MAX)
}

/// The same, of a PCI Express port type.
pub fn port(kind: u8) -> FakeConfigSpace {
    bridge().with_capability(CapabilityId::PCI_EXPRESS, 0x40, &[kind << 4 | 2, 0, 0, 0, 0, 0])
}
