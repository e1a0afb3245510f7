//! The example `two_guests`, with two clients in place of the two guests.
#![cfg(target_os = "linux")]

mod common;

#[allow(dead_code)] // its main
#[path = "../examples/two_guests.rs"]
mod example;

use std::path::Path;
use std::time::Duration;

use common::{LIMIT, eventually, pattern, trapped};
use tempfile::TempDir;
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::Mmio;
use tombolo_sim::bridge::{ID, register};
use tombolo_vfio_user::client::{Bar, ClientIrq, Device};
use tombolo_vfio_user::server::{Running, ServerOptions};

/// Both sides, served.
struct Served {
    running: [Running; 2],
    dir: TempDir,
}

impl Served {
    fn new(options: ServerOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["0", "1"].map(|name| dir.path().join(name));
        let running = example::linux::serve([&paths[0], &paths[1]], options).unwrap();
        Self { running, dir }
    }

    /// A machine at one side.
    fn machine(&self, side: usize, mode: IrqMode, vectors: u16) -> Machine {
        Machine::new(&self.dir.path().join(side.to_string()), mode, vectors)
    }
}

/// A side, as its machine has it.
struct Machine {
    device: Device,
    registers: Bar,
    memory: Bar,
    irq: ClientIrq,
}

impl Machine {
    fn new(socket: &Path, mode: IrqMode, vectors: u16) -> Self {
        let device = Device::connect(socket).unwrap();
        device.enable().unwrap();
        let (registers, memory) = (device.bar(0).unwrap(), device.bar(2).unwrap());
        let irq = device.interrupts(mode, vectors).unwrap();
        Self { device, registers, memory, irq }
    }

    fn get(&self, register: u64) -> u32 {
        self.registers.read32(register as usize)
    }

    fn set(&self, register: u64, value: u32) {
        self.registers.write32(register as usize, value);
    }

    /// Waits for an interrupt, and gives back which vectors fired.
    fn wait(&self) -> Vec<u16> {
        let mut fired = Vec::new();
        assert!(self.irq.wait(LIMIT, &mut |vector| fired.push(vector)).unwrap(), "no interrupt comes");
        fired
    }
}

/// Writes a message into the shared memory, rings, and has the other side answer.
fn talk(here: &Machine, there: &Machine, seed: u64) {
    let words: Vec<u32> =
        pattern(seed, 4096).chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
    for (at, word) in words.iter().enumerate() {
        here.memory.write32(0x8000 + 4 * at, *word);
    }
    here.set(register::SCRATCH, 0x8000);
    let bell = seed as u32 % 16;
    here.set(register::RING, 1 << bell);
    let fired = there.wait();
    if there.irq.mode() != IrqMode::Intx {
        assert_eq!(fired, [(bell % u32::from(there.irq.vectors())) as u16]);
    }
    assert_eq!(there.get(register::STATUS), 1 << bell);
    there.set(register::STATUS, 1 << bell);
    let at = there.get(register::SCRATCH) as usize;
    let same = words.iter().enumerate().all(|(index, word)| there.memory.read32(at + 4 * index) == *word);
    assert!(same, "the memory differs");
    assert_eq!(there.get(register::STATUS), 0);
}

#[test]
fn two_machines_share_memory_and_ring_each_other() {
    for (options, modes) in [
        (ServerOptions::default(), [(IrqMode::MsiX, 4), (IrqMode::MsiX, 4)]),
        (trapped(), [(IrqMode::MsiX, 4), (IrqMode::Msi, 4)]),
        (ServerOptions::default(), [(IrqMode::Intx, 1), (IrqMode::Msi, 4)]),
    ] {
        let served = Served::new(options);
        let [one, two] = [0, 1].map(|side| served.machine(side, modes[side].0, modes[side].1));
        for (number, side) in [&one, &two].into_iter().enumerate() {
            assert_eq!(
                [register::ID, register::SIDE].map(|register| side.get(register)),
                [ID, number as u32]
            );
            assert_eq!(side.get(register::MEMORY) as usize * 4096, side.memory.size());
        }
        for seed in 0..16 {
            if seed % 2 == 0 { talk(&one, &two, seed) } else { talk(&two, &one, seed) }
        }
        assert_eq!((one.irq.fired_in_all(), two.irq.fired_in_all()), (8, 8), "{modes:?}");
    }
}

#[test]
fn a_machine_that_comes_back_finds_the_other_and_no_old_bells() {
    let served = Served::new(ServerOptions::default());
    let one = served.machine(0, IrqMode::MsiX, 4);
    // Nobody is there yet; the bell is lost, memory and scratch are not.
    one.set(register::RING, 1);
    one.set(register::SCRATCH + 4, 77);
    one.memory.write32(0, 0x1234_5678);
    for _ in 0..2 {
        let two = served.machine(1, IrqMode::MsiX, 4);
        two.device.reset().unwrap();
        two.irq.restore().unwrap();
        assert_eq!((two.get(register::SCRATCH + 4), two.memory.read32(0)), (77, 0x1234_5678));
        talk(&one, &two, 3);
        two.set(register::RING, 0x8000);
        assert_eq!(one.wait(), [3]);
        one.set(register::STATUS, 0x8000);
        one.set(register::RING, 2);
        eventually("the bell does not ring", || two.get(register::STATUS) == 2);
        drop(two);
        eventually("the machine is still there", || !served.running[1].handle().is_connected());
    }
    assert!(!one.irq.wait(Duration::from_millis(20), &mut |_| panic!("nobody rang")).unwrap());
}
