//! The example itself.

use std::error::Error;
use std::time::Duration;

use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::Identity;
use tombolo_hal::wait::poll_until;
use tombolo_vfio::{Bar, Device, StdDelay, VfioDma};

use crate::common::Usage;

const VENDOR_QEMU: u16 = 0x1234;
const DEVICE_EDU: u16 = 0x11e8;

const LIVENESS: usize = 0x04;
const IRQ_STATUS: usize = 0x24;
const IRQ_RAISE: usize = 0x60;
const IRQ_ACKNOWLEDGE: usize = 0x64;
const DMA_SOURCE: usize = 0x80;
const DMA_DESTINATION: usize = 0x88;
const DMA_COUNT: usize = 0x90;
const DMA_COMMAND: usize = 0x98;
const DMA_START: u32 = 1;
const DMA_TO_MEMORY: u32 = 2;
/// Where the device has 4 KiB of its own.
const DEVICE_BUFFER: u32 = 0x4_0000;

/// The device sends 28 address bits.
const LIMITS: DmaConstraints = DmaConstraints { mask: (1 << 28) - 1, ..DmaConstraints::any() };
const LIMIT_US: u32 = 2_000_000;

fn interrupts(device: &Device, registers: &Bar, mode: IrqMode) -> Result<(), Box<dyn Error>> {
    let irq = device.interrupts(mode, 1)?;
    for round in 1..=3u32 {
        registers.write32(IRQ_RAISE, round);
        let mut seen = 0;
        irq.wait(Duration::from_secs(2), &mut |_| {
            seen = registers.read32(IRQ_STATUS);
            // The level goes down before the pin is unmasked.
            registers.write32(IRQ_ACKNOWLEDGE, seen);
        })?;
        if seen != round {
            return Err(format!("{mode}: status {seen} instead of {round}").into());
        }
    }
    if irq.wait(Duration::from_millis(100), &mut |_| {})? {
        return Err(format!("{mode}: an interrupt that nobody raised").into());
    }
    println!("{mode}: {} interrupts, message {:x?}", irq.fired_in_all(), irq.message(0));
    Ok(())
}

/// One run of the device's DMA engine.
fn dma(registers: &Bar, source: u32, destination: u32, count: u32, way: u32) -> Result<(), Box<dyn Error>> {
    registers.write32(DMA_SOURCE, source);
    registers.write32(DMA_DESTINATION, destination);
    registers.write32(DMA_COUNT, count);
    registers.write32(DMA_COMMAND, DMA_START | way);
    let idle = || (registers.read32(DMA_COMMAND) & DMA_START == 0).then_some(());
    Ok(poll_until(&mut StdDelay, 1000, LIMIT_US, idle)?)
}

fn copies(registers: &Bar, memory: VfioDma) -> Result<(), Box<dyn Error>> {
    let out = Coherent::new(memory.clone(), 4096, &LIMITS)?;
    let back = Coherent::new(memory, 4096, &LIMITS)?;
    let data: Vec<u8> = (0..4096usize).map(|i| (i * 7) as u8).collect();
    out.write_bytes(0, &data);
    // Both lie below 256 MiB, so the low half is all of it.
    dma(registers, out.device_address().low(), DEVICE_BUFFER, 4096, 0)?;
    dma(registers, DEVICE_BUFFER, back.device_address().low(), 4096, DMA_TO_MEMORY)?;
    let mut got = vec![0; 4096];
    back.read_bytes(0, &mut got);
    if got != data || back.read8(4095) != data[4095] {
        return Err("the data differs".into());
    }
    println!("4096 bytes from {} to {} are right", out.device_address(), back.device_address());
    out.free();
    back.free();
    Ok(())
}

/// Does what the arguments say.
pub fn run() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "vfio-edu ADDRESS";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address] = args.as_slice() else {
        return Err(Usage::new("one argument, please", USAGE).into());
    };
    let address = address.parse().map_err(|error| Usage::new(error, USAGE))?;
    let device = Device::open(address)?;
    let id = Identity::read(&device.config())?;
    if (id.vendor, id.device) != (VENDOR_QEMU, DEVICE_EDU) {
        return Err(format!("{address} is {:04x}:{:04x}, no edu", id.vendor, id.device).into());
    }
    device.enable()?;
    let registers = device.bar(0).ok_or("no BAR 0")?;
    registers.write32(LIVENESS, 0x1234_5678);
    if registers.read32(LIVENESS) != !0x1234_5678 {
        return Err("the device does not invert what was written".into());
    }
    for mode in [IrqMode::Intx, IrqMode::Msi] {
        interrupts(&device, &registers, mode)?;
    }
    copies(&registers, device.dma())?;
    device.disable()?;
    Ok(())
}
