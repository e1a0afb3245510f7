//! Two controllers in two machines, joined by a wire, and a small driver that does what stock Linux does.

use std::sync::{Arc, Mutex};

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::Mmio;
use tombolo_sim::fabric::{Access, Fabric, Function, Machine, MachineConfig};
use tombolo_sim::host::{SimIrq, SimMmio};
use tombolo_sim::lan743x::wire::{Wire, WireParams};
use tombolo_sim::lan743x::{Chip, Handle, Lan743x, Params, Revision, presets};

const BUS: u64 = 0x10_0000;
const BYTES: u64 = 0x20_0000;
const RING: u32 = 64;
const TX_RING: usize = 0;
const RX_RING: usize = 0x1000;
const HEADS: usize = 0x2000;
const TX_DATA: usize = 0x1_0000;
const RX_DATA: usize = 0x10_0000;
const STEP: usize = 0x800;
const RX0: u32 = 1 << 24;

/// A machine with one controller and its driver, which uses channel 0.
struct Host {
    machine: Machine,
    function: Function,
    regs: SimMmio,
    irq: SimIrq,
    fired: Arc<Mutex<Vec<u16>>>,
    handle: Handle,
    mac: [u8; 6],
    /// Interrupt bits and enables clear by themselves (B0 and later).
    auto: bool,
    tx_next: u32,
    rx_next: u32,
}

impl Host {
    fn new(fabric: &Fabric, params: Params, port: tombolo_sim::lan743x::wire::Port, mode: IrqMode) -> Self {
        let mut model = Lan743x::new(params);
        model.connect(port);
        let (handle, auto) = (model.handle(), model.params().has_auto_clear() && mode != IrqMode::Intx);
        let machine = fabric.machine(MachineConfig::default()).unwrap();
        let function = machine.attach(Box::new(model)).unwrap();
        function.enable();
        function.iommu_map(BUS, machine.ram_base(), BYTES, Access::ReadWrite).unwrap();
        let regs = function.mmio(0).unwrap();
        let irq = SimIrq::allocate_mode(&function, mode, 3).unwrap();
        let fired = Arc::new(Mutex::new(vec![]));
        for vector in 0..irq.vectors() {
            let (log, isr) = (fired.clone(), regs.clone());
            irq.connect(
                vector,
                Arc::new(move |vector| {
                    // The pin is a level: it is masked until the poll.
                    isr.write32(0x78c, RX0);
                    log.lock().unwrap().push(vector);
                }),
            );
        }
        let mac = [2, 0, 0, 0, 0, fabric.now_ns() as u8 | 1];
        let mut host =
            Self { machine, function, regs, irq, fired, handle, mac, auto, tx_next: 0, rx_next: 0 };
        host.bring_up();
        host
    }

    fn wait(&self, offset: usize, mask: u32, value: u32) {
        for _ in 0..1000 {
            if self.regs.read32(offset) & mask == value {
                return;
            }
            self.function.fabric().advance(1_000);
        }
        panic!("{offset:#x} never became {value:#x}");
    }

    fn set(&self, offset: usize, bits: u32) {
        self.regs.write32(offset, self.regs.read32(offset) | bits);
    }

    fn bring_up(&mut self) {
        let regs = &self.regs;
        self.set(0x010, 2);
        self.wait(0x010, 2, 0);
        self.set(0x014, 1 << 4);
        self.wait(0x014, 1 << 4 | 1 << 7, 1 << 7);
        if regs.read32(0) >> 20 == 0xa01 || regs.read32(0) >> 20 == 0xa04 {
            regs.write32(0x728, regs.read32(0x728) & !2 | 1 << 31);
        }
        let cr = regs.read32(0x100) & !(1 << 12 | 1 << 11);
        regs.write32(0x100, cr | 1 << 5);
        let [a, b, c, d, e, f] = self.mac;
        regs.write32(0x404, u32::from_le_bytes([a, b, c, d]));
        regs.write32(0x400, u32::from_le_bytes([e, f, 0, 0]) | 1 << 31);
        regs.write32(0xc0c, 1 << 31);
        self.wait(0xc0c, 1 << 31, 0);
        regs.write32(0xc00, 6 << 4);
        regs.write32(0x508, 1 << 10 | 1 << 1 | 1 << 11 | 1 << 12);
        self.interrupts();
        self.open_tx();
        self.open_rx();
        self.set(0x104, 1);
        self.set(0x108, 1);
        self.set(0x100, 2 << 1 | 1 << 3);
    }

    /// Vector 1 for transmit, 2 for receive, all on 0 if there is but one.
    fn interrupts(&self) {
        let regs = &self.regs;
        regs.write32(0x798, u32::MAX);
        let several = self.irq.vectors() > 2;
        regs.write32(0x7a0, if several { 2 } else { 0 });
        regs.write32(0x7a4, if several { 1 } else { 0 });
        regs.write32(0x7a8, 0);
        if self.auto {
            regs.write32(0x79c, 1 << 2);
        }
        if self.irq.mode() != IrqMode::Intx {
            regs.write32(0x794, 7);
        }
        regs.write32(0x788, 1 | RX0);
    }

    fn open_tx(&mut self) {
        let regs = &self.regs;
        regs.write32(0x0c4, 1 << 20);
        self.wait(0x0c4, 1 << 20, 0);
        regs.write32(0x0c4, 1 << 28);
        regs.write32(0xc0c, 1 << 24);
        self.wait(0xc0c, 1 << 24, 0);
        regs.write32(0xd4c, (BUS + TX_RING as u64) as u32);
        regs.write32(0xd44, regs.read32(0xd44) & !0xffff | RING);
        regs.write32(0xd40, 0x1000_0020);
        regs.write32(0xd54, (BUS + HEADS as u64) as u32);
        regs.write32(0xc0c, 1 << 20);
        self.tx_next = 0;
    }

    fn open_rx(&mut self) {
        (0..RING).for_each(|index| self.give(index));
        let regs = &self.regs;
        regs.write32(0xc0c, 1 << 8);
        self.wait(0xc0c, 1 << 8, 0);
        regs.write32(0xc4c, (BUS + RX_RING as u64) as u32);
        regs.write32(0xc54, (BUS + HEADS as u64 + 4) as u32);
        regs.write32(0xc40, 0x20);
        regs.write32(0xc44, regs.read32(0xc44) & !0xffff | RING);
        if self.auto {
            regs.write32(0xc64, 1 << 3);
        }
        regs.write32(0xc5c, RING - 1);
        regs.write32(0xc14, 1 << 16);
        regs.write32(0xc0c, 1 << 4);
        regs.write32(0x0ac, 1 << 20);
        self.wait(0x0ac, 1 << 20, 0);
        regs.write32(0x0ac, 1 << 28);
        self.rx_next = 0;
    }

    fn put(&self, at: usize, words: [u32; 4]) {
        let ram = self.machine.ram();
        for (number, word) in words.into_iter().enumerate() {
            ram.write_u32(at + number * 4, word).unwrap();
        }
    }

    fn give(&self, index: u32) {
        let data = BUS + (RX_DATA + index as usize * STEP) as u64;
        self.put(RX_RING + index as usize * 16, [1 << 15 | 1536, data as u32, 0, 0]);
    }

    fn send(&mut self, to: [u8; 6], payload: &[u8]) {
        let mut bytes = to.to_vec();
        bytes.extend(self.mac);
        bytes.extend([0x88, 0xb5]);
        bytes.extend(payload);
        let index = self.tx_next as usize;
        let at = TX_DATA + index * STEP;
        self.machine.ram().write(at, &bytes).unwrap();
        let length = bytes.len() as u32;
        self.put(TX_RING + index * 16, [0x3402_0000 | length, BUS as u32 + at as u32, 0, length << 16]);
        self.tx_next = (self.tx_next + 1) % RING;
        self.regs.write32(0xd5c, self.tx_next);
    }

    /// Acknowledges, takes what there is, enables again: the order of stock Linux. Payloads with the
    /// check sequence cut off.
    fn poll(&mut self) -> Vec<Vec<u8>> {
        if !self.auto {
            self.regs.write32(0xc10, 1 << 16);
        }
        let got = self.look();
        self.enable();
        got
    }

    fn look(&mut self) -> Vec<Vec<u8>> {
        let ram = self.machine.ram();
        let mut got = vec![];
        while ram.read_u32(HEADS + 4).unwrap() != self.rx_next {
            let at = RX_RING + self.rx_next as usize * 16;
            let word = ram.read_u32(at).unwrap();
            assert_eq!(word & (3 << 30 | 1 << 15), 3 << 30);
            let mut bytes = vec![0; (word >> 16 & 0x3fff) as usize - 4];
            ram.read(RX_DATA + self.rx_next as usize * STEP + 2, &mut bytes).unwrap();
            got.push(bytes.split_off(14));
            self.give(self.rx_next);
            self.rx_next = (self.rx_next + 1) % RING;
        }
        got
    }

    fn enable(&self) {
        let tail = (self.rx_next + RING - 1) % RING;
        if self.auto {
            self.regs.write32(0xc5c, tail | 1 << 30 | 1 << 29);
        } else {
            self.regs.write32(0xc5c, tail);
            self.regs.write32(0x788, RX0);
        }
    }

    fn fired(&self) -> Vec<u16> {
        std::mem::take(&mut *self.fired.lock().unwrap())
    }
}

fn polled(mut params: Params) -> Params {
    params.wire_poll_ns = 500;
    params
}

fn pair(params: [Params; 2], mode: IrqMode) -> (Fabric, [Host; 2], Wire) {
    let fabric = Fabric::new(1);
    let (one, two) = Wire::pair(WireParams { latency_ns: 300, ..WireParams::default() });
    let wire = one.wire();
    let [left, right] = params.map(polled);
    let left = Host::new(&fabric, left, one, mode);
    fabric.advance(2_000);
    let right = Host::new(&fabric, right, two, mode);
    (fabric, [left, right], wire)
}

fn payload(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 13 + seed) as u8).collect()
}

#[test]
fn frames_go_from_one_machine_to_the_other_and_interrupt() {
    for mode in [IrqMode::MsiX, IrqMode::Msi, IrqMode::Intx] {
        for right in [presets::lan7430_a0(), presets::lan7431_b0(), presets::pci11414_b0()] {
            let (fabric, [mut left, mut right], _) = pair([presets::lan7430_a0(), right], mode);
            let (here, there) = (left.mac, right.mac);
            for round in 0..200 {
                let data = payload(46 + round * 7, round);
                left.send(there, &data);
                fabric.advance(20_000);
                let vector = if right.irq.vectors() > 2 { 2 } else { 0 };
                assert_eq!(right.fired(), [vector], "{mode:?}, round {round}");
                assert_eq!(right.poll(), [data]);
                right.send(here, &payload(100, round));
                fabric.advance(20_000);
                assert_eq!(left.fired().len(), 1);
                assert_eq!(left.poll(), [payload(100, round)]);
            }
            let counters = right.handle.counters();
            assert_eq!((counters.frames_in, counters.frames_out), (200, 200));
            assert!(left.function.iommu_faults().is_empty() && right.function.iommu_faults().is_empty());
        }
    }
}

#[test]
fn a_burst_larger_than_the_ring_arrives_whole() {
    let (fabric, [mut left, mut right], _) =
        pair([presets::lan7430_b0(), presets::lan7430_b0()], IrqMode::MsiX);
    let there = right.mac;
    let mut got = vec![];
    for round in 0..40 {
        (0..25).for_each(|number| left.send(there, &payload(1400, round * 25 + number)));
        fabric.advance(50_000);
        got.extend(right.poll());
    }
    let want: Vec<_> = (0..1000).map(|number| payload(1400, number)).collect();
    assert!(got == want);
}

#[test]
fn a_function_reset_ends_everything_and_it_comes_up_again() {
    let (fabric, [mut left, mut right], _) =
        pair([presets::lan7430_a0(), presets::lan7430_a0()], IrqMode::MsiX);
    let there = right.mac;
    left.send(there, &payload(100, 1));
    right.function.reset_and_restore();
    assert_eq!(right.regs.read32(0xc0c), 0);
    fabric.advance(100_000);
    assert_eq!(right.handle.counters().rx[0].frames, 0);
    right.bring_up();
    left.send(there, &payload(200, 2));
    fabric.advance(50_000);
    assert_eq!(right.poll(), [payload(200, 2)]);
}

#[test]
fn a_cable_that_is_pulled_loses_frames_and_nothing_else() {
    let (fabric, [mut left, mut right], wire) =
        pair([presets::lan7430_a0(), presets::pci11010_b0()], IrqMode::MsiX);
    let there = right.mac;
    wire.set_up(false);
    left.send(there, &payload(100, 1));
    fabric.advance(50_000);
    assert_eq!(right.poll(), Vec::<Vec<u8>>::new());
    wire.set_up(true);
    left.send(there, &payload(100, 2));
    fabric.advance(50_000);
    assert_eq!(right.poll(), [payload(100, 2)]);
}

/// Frames of which the host does not hear in time, if it acknowledges and looks in stock Linux' order and
/// another frame comes just then.
fn unheard(late: impl Fn(&Host)) -> usize {
    let (fabric, [mut left, mut right], _) =
        pair([presets::lan7430_a0(), presets::lan7430_a0()], IrqMode::MsiX);
    late(&right);
    let there = right.mac;
    let mut unheard = 0;
    for round in 0..20 {
        left.send(there, &payload(100, round));
        fabric.advance(20_000);
        assert_eq!(right.fired().len(), 1, "round {round}");
        right.regs.write32(0xc10, 1 << 16);
        assert_eq!(right.look().len(), 1);
        left.send(there, &payload(101, round));
        fabric.advance(5_000);
        right.enable();
        fabric.advance(50_000);
        unheard += usize::from(right.fired().is_empty());
        // What stays is found by looking once more, and the next round begins with nothing owed.
        right.poll();
        fabric.advance(50_000);
        right.fired();
        right.poll();
    }
    unheard
}

#[test]
fn a_late_acknowledge_is_a_trap_for_stock_drivers() {
    assert_eq!(unheard(|_| {}), 0);
    assert_eq!(unheard(|host| host.handle.delay_status_clears(30_000)), 20);
    // Delays of the whole link do it too, now and then.
    assert!(unheard(|host| host.function.delay_posted_writes(30_000)) > 0);
}

#[test]
fn a_device_without_bus_mastering_or_memory_halts_and_says_so() {
    let (fabric, [mut left, mut right], _) =
        pair([presets::lan7430_a0(), presets::lan7430_a0()], IrqMode::MsiX);
    let there = right.mac;
    left.function.iommu_unmap(BUS, BYTES).unwrap();
    left.send(there, &payload(100, 1));
    fabric.advance(50_000);
    assert_eq!(left.regs.read32(0xd60), 1 << 6, "descriptor read error");
    assert_eq!(left.regs.read32(0xc10) >> 21 & 1, 1);
    assert!(!left.function.iommu_faults().is_empty());
    assert_eq!(right.poll(), Vec::<Vec<u8>>::new());
}

#[test]
fn every_chip_is_accepted_by_a_machine() {
    for chip in Chip::ALL {
        for revision in [Revision::A0, Revision::B0, Revision::B1] {
            let fabric = Fabric::new(1);
            let machine = fabric.machine(MachineConfig::default()).unwrap();
            let function =
                machine.attach(Box::new(Lan743x::new(presets::controller(chip, revision)))).unwrap();
            function.enable();
            let regs = function.mmio(0).unwrap();
            assert_eq!(regs.read32(0) >> 16, u32::from(chip.device_id()));
            assert_eq!(regs.size() as u64, chip.register_bytes());
            let irq = SimIrq::allocate(&function, 16);
            assert_eq!((irq.mode(), irq.vectors()), (IrqMode::MsiX, chip.vectors()));
        }
    }
}
