//! The model in a machine: BARs placed by firmware, an IOMMU in between, real interrupt messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::Mmio;

use super::*;
use crate::fabric::{Access, Fabric, Function, Machine, MachineConfig, Removal};
use crate::host::SimIrq;

const IOVA: u64 = 0x5000_0000;
const DATA: usize = 0x80_0000;

struct World {
    machine: Machine,
    function: Function,
    handle: Handle,
    irq: SimIrq,
    fired: Arc<AtomicU32>,
}

impl World {
    fn new(params: Params, mode: IrqMode) -> Self {
        let machine = Fabric::new(1).machine(MachineConfig::default()).unwrap();
        let device = DwEdma::new(params);
        let handle = device.handle();
        let function = machine.attach(Box::new(device)).unwrap();
        function.enable();
        let base = machine.ram_base();
        function.iommu_map(IOVA, base, 0x1_0000, Access::ReadWrite).unwrap();
        let irq = SimIrq::allocate_mode(&function, mode, 1).unwrap();
        let fired = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&fired);
        irq.connect(
            0,
            Arc::new(move |_| {
                count.fetch_add(1, Relaxed);
            }),
        );
        Self { machine, function, handle, irq, fired }
    }

    /// Programs read channel 0 of the unrolled format for one element of `len` bytes and runs it.
    fn transfer(&self, len: u32) {
        let registers = self.function.mmio(0).unwrap();
        let list = self.function.mmio(2).unwrap();
        let memory = self.function.bar_address(2).unwrap();
        let message = self.irq.message(0).unwrap();
        let writes = [
            (0x2c, 1),
            (0xcc, message.address as u32),
            (0xd0, (message.address >> 32) as u32),
            (0xd4, message.address as u32),
            (0xd8, (message.address >> 32) as u32),
            (0xdc, message.data),
            (0xa8, 0xff_00ff),
            (0xc4, 1),
            (0x300, v0::control::CCS | v0::control::LLE),
            (0x31c, memory as u32),
            (0x320, (memory >> 32) as u32),
        ];
        let dar = memory + DATA as u64;
        for (at, word) in [(4, len), (8, IOVA as u32), (12, 0), (16, dar as u32)] {
            list.write32(at, word);
        }
        list.write32(20, (dar >> 32) as u32);
        list.write32(0, element::CB | element::LIE | element::RIE);
        writes.into_iter().for_each(|(at, value)| registers.write32(at, value));
        list.read32(0);
        registers.write32(0x30, 0);
        assert!(self.function.fabric().run_until_idle(10_000).idle);
    }

    fn status(&self) -> u32 {
        self.function.mmio(0).unwrap().read32(0x300) >> 5 & 3
    }
}

#[test]
fn the_engines_own_write_is_an_interrupt() {
    for mode in [IrqMode::Msi, IrqMode::MsiX] {
        for map_memory in [true, false] {
            let params = Params { map_memory, ..presets::edda(Format::Unrolled) };
            let world = World::new(params, mode);
            let want = pattern(5, 0x8000);
            world.machine.ram().write(0, &want).unwrap();
            world.transfer(0x8000);
            assert_eq!(world.fired.load(Relaxed), 1);
            assert_eq!(world.status(), 3);
            let mut got = vec![0; 0x8000];
            world.handle.memory().read(DATA, &mut got).unwrap();
            assert!(got == want);
            assert_eq!(world.handle.counters().bad_accesses, 0);
        }
    }
}

#[test]
fn the_iommu_stops_a_read_and_the_channel_says_so() {
    let world = World::new(presets::edda(Format::Unrolled), IrqMode::MsiX);
    world.transfer(0x1_0001);
    assert_eq!(world.status(), 2);
    assert_eq!(world.fired.load(Relaxed), 1);
    assert_eq!(world.function.mmio(0).unwrap().read32(0xb8), 1, "unsupported request");
    assert_eq!(world.handle.channel(Dir::Read, 0).bytes, 0x1_0000);
}

#[test]
fn a_64_bit_access_to_a_register_is_caught() {
    let world = World::new(presets::edda(Format::Unrolled), IrqMode::MsiX);
    let registers = world.function.mmio(0).unwrap();
    registers.write64(0x318, 1);
    assert_eq!(world.handle.counters().bad_accesses, 1);
    assert_eq!(registers.read64(0x318), u64::MAX);
}

#[test]
fn a_removed_device_comes_to_rest() {
    let world = World::new(presets::edda(Format::Unrolled), IrqMode::MsiX);
    world.function.surprise_remove(Removal::AfterDma(3));
    world.transfer(0x1_0000);
    assert_eq!(world.fired.load(Relaxed), 0);
    assert_eq!(world.function.mmio(0).unwrap().read32(0x08), u32::MAX);
}
