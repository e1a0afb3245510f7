use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use embedded_hal::delay::DelayNs;
use static_cell::StaticCell;
use tombolo_baremetal::irq::{IrqHandler, Wanted};
use tombolo_baremetal::println;
use tombolo_baremetal::rt::{Device, Machine};
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::irq::IrqSource;
use tombolo_hal::mmio::{Mmio, RawMmio};
use tombolo_hal::wait::{Timeout, poll_until};

tombolo_baremetal::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    match run(machine) {
        Ok(passed) => u8::from(!passed),
        Err(error) => {
            println!("edu: {error}");
            2
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("there is no edu device (QEMU: -device edu)")]
    NoDevice,
    #[error(transparent)]
    Device(#[from] tombolo_baremetal::rt::DeviceError),
    #[error(transparent)]
    Irq(#[from] tombolo_baremetal::irq::IrqError),
    #[error(transparent)]
    Memory(#[from] tombolo_baremetal::dma::DmaError),
    #[error("no interrupt came: {0}")]
    Silent(#[from] Timeout),
}

/// The driver: registers as QEMU's `docs/specs/edu.rst` names them.
struct Edu {
    io: RawMmio,
    causes: AtomicU32,
}

impl IrqHandler for Edu {
    fn on_irq(&self) {
        let causes = self.io.read32(0x24);
        self.io.write32(0x64, causes); // acknowledge
        self.causes.fetch_or(causes, Relaxed);
    }
}

impl Edu {
    fn wait_for(&self, cause: u32, delay: &mut impl DelayNs) -> Result<(), Timeout> {
        let came = || (self.causes.fetch_and(!cause, Relaxed) & cause != 0).then_some(());
        poll_until(delay, 100, 2_000_000, came)
    }

    fn factorial(&self, of: u32, delay: &mut impl DelayNs) -> Result<u32, Timeout> {
        self.io.write32(0x20, 0x80); // an interrupt when it is done
        self.io.write32(0x08, of);
        self.wait_for(0x1, delay)?;
        Ok(self.io.read32(0x08))
    }

    fn transfer(&self, from: u64, to: u64, how: u64, delay: &mut impl DelayNs) -> Result<(), Timeout> {
        self.io.write64_relaxed(0x80, from);
        self.io.write64_relaxed(0x88, to);
        self.io.write64_relaxed(0x90, 4096);
        self.io.barrier(Barrier::Wmb); // what is in memory first
        self.io.write64_relaxed(0x98, how);
        self.wait_for(0x100, delay)
    }
}

fn run(machine: &'static Machine) -> Result<bool, Error> {
    let (ecam, tree) = machine.enumerate()?;
    let mut functions = tree.functions().iter();
    let found = functions.find(|f| (f.identity.vendor, f.identity.device) == (0x1234, 0x11e8));
    let device = Device::open(machine, &ecam, found.ok_or(Error::NoDevice)?)?;
    static EDU: StaticCell<Edu> = StaticCell::new();
    let io = device.bar(0)?;
    let edu: &'static Edu = EDU.init(Edu { io, causes: AtomicU32::new(0) });
    let irq = device.interrupts(Wanted::Msi, 1)?;
    irq.connect(machine.interrupts(), 0, edu)?;
    device.set_bus_master(true)?;

    let delay = &mut machine.delay();
    let factorial = edu.factorial(10, delay)?;
    let limits = DmaConstraints::any().aligned(4096); // the device reaches 256 MiB, or what dma_mask= says
    let memory = Coherent::new(machine.dma(), 8192, &limits)?;
    (0..4096).step_by(4).for_each(|at| memory.write32(at, at as u32 ^ 0x5a5a_1234));
    let (host, buffer) = (memory.device_address().value(), 0x4_0000);
    edu.transfer(host, buffer, 0x5, delay)?; // to the device, with an interrupt
    edu.transfer(buffer, host + 4096, 0x7, delay)?; // and back
    let same = (0..4096).step_by(4).all(|at| memory.read32(at) == memory.read32(at + 4096));

    let count = irq.number(0).map_or(0, |number| machine.interrupts().count(number));
    println!(
        "{{\"factorial\":{factorial},\"same\":{same},\"irq\":\"{}\",\"interrupts\":{count}}}",
        irq.mode()
    );
    device.close(irq)?;
    memory.free(); // the device was stopped first
    Ok(factorial == 3_628_800 && same && count == 3)
}
