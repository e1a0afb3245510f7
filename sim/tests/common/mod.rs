//! A small device that exercises all that a fabric does.
//!
//! BAR0 (4 KiB) holds registers and the MSI-X structures, BAR2 (64 KiB, 64 bits) is plain memory.
#![allow(dead_code)] // each test binary uses a part

use std::sync::{Arc, Mutex};
use tombolo_hal::mmio::Mmio;
use tombolo_sim::clock::VirtualClock;
use tombolo_sim::config::{Bar, ConfigSpaceBuilder, Msi, Msix, Vsec};
use tombolo_sim::device::{Bus, Device, Width};
use tombolo_sim::fabric::{Fabric, FabricConfig, Function, Machine, MachineConfig};
use tombolo_sim::host::{SimIrq, SimMmio};
use tombolo_sim::memory::SharedMemory;

/// Identity word.
pub const ID: usize = 0x00;
pub const ID_VALUE: u32 = 0xc0de_0001;
/// Keeps what is written.
pub const SCRATCH: usize = 0x04;
/// Source and destination of a copy, low and high halves.
pub const SRC: usize = 0x08;
pub const DST: usize = 0x10;
/// Bytes to copy.
pub const LEN: usize = 0x18;
/// Copies 1 µs later, then raises the vector written here and asserts INTx.
pub const GO: usize = 0x1c;
/// 1 done, 2 failed; written ones clear, and clear INTx.
pub const STATUS: usize = 0x20;
pub const DONE: u32 = 1;
pub const FAILED: u32 = 2;
/// Writes the low word of DST to SRC 1 µs later: the device's own interrupt message.
pub const MESSAGE: usize = 0x24;
/// Raises the vector written here at once.
pub const RAISE: usize = 0x28;
/// Appends a word to a queue of 64.
pub const PUSH: usize = 0x2c;
/// Takes the oldest word; all ones if there is none.
pub const POP: usize = 0x30;
/// The last word that configuration space reported.
pub const VENDOR: usize = 0x34;
/// The token of the last event that was run, counting up.
pub const EVENTS: usize = 0x38;
/// Schedules events at the same moment, for ever.
pub const STORM: usize = 0x3c;

pub const MSIX_TABLE: usize = 0x800;
pub const MSIX_PBA: usize = 0xc00;
pub const DELAY_NS: u64 = 1_000;
pub const MEMORY_LEN: u64 = 0x1_0000;

const COPY: u64 = 1;
const SEND: u64 = 2;
const AGAIN: u64 = 3;

#[derive(Clone, Copy)]
pub struct Shape {
    pub msix: u16,
    pub msi: u8,
    pub intx: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { msix: 4, msi: 4, intx: true }
    }
}

pub struct Copier {
    shape: Shape,
    memory: SharedMemory,
    registers: [u32; 16],
    queue: Vec<u32>,
}

impl Copier {
    pub fn new(shape: Shape) -> Self {
        let memory = SharedMemory::new(MEMORY_LEN as usize);
        Self { shape, memory, registers: [0; 16], queue: Vec::new() }
    }

    fn register(&mut self, offset: usize) -> &mut u32 {
        &mut self.registers[offset / 4]
    }

    fn address(&self, offset: usize) -> u64 {
        u64::from(self.registers[offset / 4 + 1]) << 32 | u64::from(self.registers[offset / 4])
    }

    fn copy(&mut self, bus: &mut dyn Bus) {
        let (source, target) = (self.address(SRC), self.address(DST));
        let mut data = vec![0; self.registers[LEN / 4].min(1 << 20) as usize];
        let result = bus.dma_read(source, &mut data).and_then(|()| bus.dma_write(target, &data));
        *self.register(STATUS) |= if result.is_ok() { DONE } else { FAILED };
        bus.set_intx(true);
        bus.raise(self.registers[GO / 4] as u16);
    }
}

impl Device for Copier {
    fn name(&self) -> &str {
        "copier"
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        config
            .identity(0x1234, 0x5678)
            .class(0x08_8000)
            .bar(Bar::bits32(0, 0x1000))
            .bar(Bar::bits64(2, MEMORY_LEN).prefetchable().memory())
            .power_management()
            .pcie(true)
            .vsec(Vsec { id: 6, revision: 1, offset: None, payload: vec![1, 2], writable: vec![0, 0xff] });
        if self.shape.intx {
            config.interrupt_pin(1);
        }
        if self.shape.msi > 0 {
            config.msi(Msi { vectors: self.shape.msi, per_vector_mask: true });
        }
        if self.shape.msix > 0 {
            config.msix(Msix {
                vectors: self.shape.msix,
                table_bar: 0,
                table_offset: MSIX_TABLE as u32,
                pba_bar: 0,
                pba_offset: MSIX_PBA as u32,
            });
        }
    }

    fn reset(&mut self) {
        self.registers = [0; 16];
        self.queue.clear();
    }

    fn read(&mut self, _bus: &mut dyn Bus, _bar: u8, offset: u64, width: Width) -> u64 {
        let value = match offset as usize & !3 {
            ID => ID_VALUE,
            POP if self.queue.is_empty() => u32::MAX,
            POP => self.queue.remove(0),
            at => self.registers.get(at / 4).copied().unwrap_or(0),
        };
        match width {
            Width::W64 => u64::from(value) << 32 | u64::from(value),
            _ => u64::from(value) >> (offset % 4 * 8),
        }
    }

    fn write(&mut self, bus: &mut dyn Bus, _bar: u8, offset: u64, width: Width, value: u64) {
        if width != Width::W32 {
            return;
        }
        let value = value as u32;
        match offset as usize {
            STATUS => {
                *self.register(STATUS) &= !value;
                bus.set_intx(self.registers[STATUS / 4] != 0);
            }
            PUSH if self.queue.len() < 64 => self.queue.push(value),
            RAISE => bus.raise(value as u16),
            at if at < 0x40 => *self.register(at) = value,
            _ => {}
        }
        match offset as usize {
            GO => bus.schedule(DELAY_NS, COPY),
            MESSAGE => bus.schedule(DELAY_NS, SEND),
            STORM => bus.schedule(0, AGAIN),
            _ => {}
        }
    }

    fn event(&mut self, bus: &mut dyn Bus, token: u64) {
        *self.register(EVENTS) += 1;
        match token {
            COPY => self.copy(bus),
            SEND => {
                let data = self.registers[DST / 4].to_le_bytes();
                let _ = bus.dma_write(self.address(SRC), &data);
            }
            _ => bus.schedule(0, AGAIN),
        }
    }

    fn config_written(&mut self, _bus: &mut dyn Bus, offset: u16, value: u32) {
        *self.register(VENDOR) = u32::from(offset) << 16 | value;
    }

    fn bar_memory(&self, bar: u8) -> Option<SharedMemory> {
        (bar == 2).then(|| self.memory.clone())
    }
}

pub struct World {
    pub fabric: Fabric,
    pub machine: Machine,
    pub function: Function,
    pub regs: SimMmio,
}

impl World {
    pub fn new() -> Self {
        Self::shaped(1, Shape::default())
    }

    pub fn shaped(seed: u64, shape: Shape) -> Self {
        Self::with(FabricConfig { seed, ..Default::default() }, shape)
    }

    pub fn with(config: FabricConfig, shape: Shape) -> Self {
        let fabric = Fabric::with(config, Arc::new(VirtualClock::new()));
        let machine = fabric.machine(MachineConfig::default()).unwrap();
        let function = machine.attach(Box::new(Copier::new(shape))).unwrap();
        function.enable();
        let regs = function.mmio(0).unwrap();
        Self { fabric, machine, function, regs }
    }

    pub fn set_address(&self, offset: usize, address: u64) {
        self.regs.write64_lo_hi(offset, address);
    }

    /// Starts a copy that raises `vector`.
    pub fn start(&self, source: u64, target: u64, len: u32, vector: u16) {
        self.set_address(SRC, source);
        self.set_address(DST, target);
        self.regs.write32(LEN, len);
        self.regs.write32(GO, u32::from(vector));
    }

    /// Copies and gives back the status, which is then cleared.
    pub fn copy(&self, source: u64, target: u64, len: u32) -> u32 {
        self.start(source, target, len, 0);
        self.fabric.advance(10 * DELAY_NS);
        let status = self.regs.read32(STATUS);
        self.regs.write32(STATUS, status);
        status
    }
}

/// Remembers which vectors fired.
#[derive(Clone, Default)]
pub struct Fired(Arc<Mutex<Vec<u16>>>);

impl Fired {
    pub fn connect(irq: &SimIrq) -> Self {
        use tombolo_hal::irq::IrqSource;
        let fired = Self::default();
        for vector in 0..irq.vectors() {
            let log = fired.clone();
            irq.connect(vector, Arc::new(move |vector| log.0.lock().unwrap().push(vector)));
        }
        fired
    }

    pub fn take(&self) -> Vec<u16> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
