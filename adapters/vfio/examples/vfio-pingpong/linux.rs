//! The example itself.

use std::error::Error;
use std::time::{Duration, Instant};

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::Mmio;
use tombolo_vfio::{Bar, Device, VfioIrq};

use crate::common::Usage;

/// Registers of the bridge, in BAR 0. Source: the documentation of `tombolo_sim::bridge`.
const ID: usize = 0x00;
const SIDE: usize = 0x04;
const RING: usize = 0x0c;
const STATUS: usize = 0x10;
const SCRATCH: usize = 0x40;
const BRIDGE: u32 = 0x4752_4254;

const BELL: u32 = 1;
/// Words that are thrown.
const WORDS: usize = 256;
/// Where the words of each side are in BAR 2.
const PLACES: [usize; 2] = [0, 4096];
const LIMIT: Duration = Duration::from_secs(60);

/// What a side's scratch word says once it listens.
const READY: u32 = 0x5245_4459;

struct Side {
    registers: Bar,
    memory: Bar,
    irq: VfioIrq,
    number: usize,
}

impl Side {
    /// Waits until the other side listens: a bell that is rung earlier is lost with its reset.
    fn meet(&self) -> Result<(), Box<dyn Error>> {
        let word = |side: usize| SCRATCH + 4 * side;
        self.registers.write32(word(self.number), READY);
        let start = Instant::now();
        while self.registers.read32(word(1 - self.number)) != READY {
            if start.elapsed() > LIMIT {
                return Err("the other side did not come".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn throw(&self, round: u32) {
        for index in 0..WORDS {
            self.memory.write32(PLACES[self.number] + 4 * index, word(self.number, round, index));
        }
        self.registers.write32(RING, BELL);
    }

    /// Waits for the bell and looks at what came with it.
    fn catch(&self, round: u32) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        loop {
            self.irq.wait(Duration::from_secs(1), &mut |_| {})?;
            let bells = self.registers.read32(STATUS);
            self.registers.write32(STATUS, bells);
            if bells & BELL != 0 {
                break;
            }
            if start.elapsed() > LIMIT {
                return Err(format!("round {round}: no bell").into());
            }
        }
        let other = 1 - self.number;
        for index in 0..WORDS {
            let (got, wanted) = (self.memory.read32(PLACES[other] + 4 * index), word(other, round, index));
            if got != wanted {
                return Err(format!("round {round}, word {index}: {got:#x} instead of {wanted:#x}").into());
            }
        }
        Ok(())
    }
}

fn word(side: usize, round: u32, index: usize) -> u32 {
    round.wrapping_mul(0x9e37_79b9) ^ (index as u32) << 1 ^ side as u32
}

/// Does what the arguments say.
pub fn run() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "vfio-pingpong ADDRESS ROUNDS";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, rounds] = args.as_slice() else {
        return Err(Usage::new("two arguments, please", USAGE).into());
    };
    let address = address.parse().map_err(|error| Usage::new(error, USAGE))?;
    let rounds: u32 = rounds.parse().map_err(|error| Usage::new(error, USAGE))?;
    let device = Device::open(address)?;
    device.enable()?;
    let registers = device.bar(0).ok_or("no BAR 0")?;
    let memory = device.bar(2).ok_or("no BAR 2")?;
    if registers.read32(ID) != BRIDGE {
        return Err(format!("{address} is no such bridge").into());
    }
    let number = (registers.read32(SIDE) & 1) as usize;
    let irq = device.interrupts(IrqMode::MsiX, 1)?;
    let side = Side { registers, memory, irq, number };
    side.meet()?;
    for round in 0..rounds {
        if number == 0 {
            side.throw(round);
            side.catch(round)?;
        } else {
            side.catch(round)?;
            side.throw(round);
        }
    }
    let (mode, count) = (side.irq.mode(), side.irq.fired_in_all());
    println!("{{\"side\":{number},\"rounds\":{rounds},\"irq_mode\":\"{mode}\",\"interrupts\":{count}}}");
    device.disable()?;
    Ok(())
}
