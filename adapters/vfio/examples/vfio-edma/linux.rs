//! The example itself.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use dw_edma::{
    Channel, ChannelId, Controller, Desc, ListMemory, Peripheral, RemoteEngine, Segment, Shared, Vectors,
};
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{
    Direction, DmaChannel, DmaChannelExt, HeapPool, OwnedTransfers, PrepFlags, SgEntry, SlaveConfig, TxResult,
};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::wait::poll_until;
use tombolo_hal::{DmaAddr, EngineAddr, pci};
use tombolo_vfio::{Bar, Device, IrqThread, PciAddress, StdDelay, VfioDma, VfioIrq};

use crate::common::Usage;

const MEMORY_BAR: u8 = 2;
const LIST_BYTES: usize = 4096;
/// Behind the lists of both channels.
const DATA_OFFSET: u64 = 2 * LIST_BYTES as u64;
const SIZE: usize = 1 << 20;
const LIMIT_US: u32 = 5_000_000;
/// The adapter hands out addresses from the top down, so there is never anything so low.
const NEVER_MAPPED: u64 = 0x2_0000;

type Engine = Arc<Shared<Bar, SpinLock>>;
type Chan = Channel<Engine, Window<Bar>, HeapPool<Desc, Segment>>;

/// The driver on its device.
struct Rig {
    _thread: Option<IrqThread>,
    control: Controller<Engine>,
    base: u64,
    _irq: VfioIrq,
    device: Device,
}

impl Rig {
    fn open(address: PciAddress) -> Result<Self, Box<dyn Error>> {
        let device = Device::open(address)?;
        device.enable()?;
        let config = device.config();
        let found = RemoteEngine::find(&config)?;
        let bar = pci::bars(&config)?[usize::from(MEMORY_BAR)].ok_or("no BAR 2")?;
        let base = found.device_memory.map_or(bar.address, EngineAddr::value);
        let registers = device.bar(found.bar).ok_or("no BAR for registers")?;
        let shared = Arc::new(Shared::new(Window::new(registers), SpinLock::new(), found.config())?);
        let irq = device.interrupts(IrqMode::MsiX, 1)?;
        let handler = shared.clone();
        let thread = irq.spawn(move |_| {
            handler.on_irq();
        })?;
        let mut control = Controller::new(shared)?;
        let interrupts = control.connect(&irq, Vectors::One)?;
        println!("{address}: {} engine, {interrupts:?} interrupts, memory at {base:#x}", found.format);
        Ok(Self { _thread: Some(thread), control, base, _irq: irq, device })
    }

    fn channel(&mut self, id: ChannelId) -> Result<Chan, Box<dyn Error>> {
        let memory = Window::new(self.device.bar(MEMORY_BAR).ok_or("no BAR 2")?);
        let offset = if id == ChannelId::write(0) { 0 } else { LIST_BYTES };
        let window = memory.sub(offset, LIST_BYTES)?;
        let list = ListMemory::new(window, EngineAddr::new(self.base + offset as u64))
            .map_err(|refused| refused.error)?;
        Ok(self.control.open_channel(id, list, HeapPool::new(4, 8))?)
    }

    fn data(&self) -> SlaveConfig<Peripheral> {
        SlaveConfig::at(EngineAddr::new(self.base + DATA_OFFSET))
    }
}

type Transfers = OwnedTransfers<Chan, VfioDma, Vec<u8>, 4, 1>;

/// One transfer, to its end.
fn transfer(
    rig: &Rig,
    channel: &mut Transfers,
    way: Direction,
    data: Vec<u8>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let access = if way == Direction::MemToDev { DataDirection::ToDevice } else { DataDirection::FromDevice };
    let buffer = Streaming::prepare(rig.device.dma(), data, access, &DmaConstraints::any())?;
    channel.submit_one(buffer, way, PrepFlags::INTERRUPT, Some(&rig.data())).map_err(|e| e.to_string())?;
    channel.issue_pending();
    let done = channel.wait_next(&mut StdDelay, LIMIT_US)?;
    if done.completion.result != TxResult::NoError {
        return Err(format!("{way:?}: {}", done.completion.result).into());
    }
    let buffer = done.buffers.into_iter().next().ok_or("no buffer came back")?;
    Ok(buffer.into_inner())
}

fn copy(rig: &mut Rig) -> Result<(), Box<dyn Error>> {
    let mut out = OwnedTransfers::new(rig.channel(ChannelId::read(0))?);
    let mut back = OwnedTransfers::new(rig.channel(ChannelId::write(0))?);
    let data: Vec<u8> = (0..SIZE).map(|i| (i ^ i >> 8) as u8).collect();
    let sent = transfer(rig, &mut out, Direction::MemToDev, data)?;
    let got = transfer(rig, &mut back, Direction::DevToMem, vec![0; SIZE])?;
    if sent != got {
        return Err("the data differs".into());
    }
    println!("{SIZE} bytes there and back are right");
    for mut channel in [out, back] {
        channel.synchronize(&mut StdDelay, LIMIT_US)?;
    }
    Ok(())
}

fn unmapped(rig: &mut Rig) -> Result<(), Box<dyn Error>> {
    let mut channel = rig.channel(ChannelId::read(0))?;
    // SAFETY: nothing is mapped there for the device, so it reads no memory of this process.
    let entry = unsafe { SgEntry::from_raw(DmaAddr::new(NEVER_MAPPED), 4096) };
    let config = rig.data();
    let descriptor =
        channel.prep_slave_sg_config(&[entry], Direction::MemToDev, PrepFlags::INTERRUPT, Some(&config))?;
    channel.submit(descriptor).map_err(|rejected| rejected.error)?;
    channel.issue_pending();
    let done = poll_until(&mut StdDelay, 1000, LIMIT_US, || {
        // An interrupt that is lost must not lose the answer.
        let _ = channel.poll_hardware();
        channel.pop_completed()
    })?;
    channel.synchronize(&mut StdDelay, LIMIT_US)?;
    match done.result {
        TxResult::NoError => Err("the device read memory that it was not given".into()),
        refused => {
            println!("a read of {NEVER_MAPPED:#x}, which is not mapped: {refused}");
            Ok(())
        }
    }
}

fn lost(rig: &mut Rig) -> Result<(), Box<dyn Error>> {
    let mut channel: Transfers = OwnedTransfers::new(rig.channel(ChannelId::read(0))?);
    let config = rig.device.config();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        pci::command::set_memory_enabled(&config, false)
    });
    let mut data = vec![0x5a; SIZE];
    for done in 0..10_000 {
        match transfer(rig, &mut channel, Direction::MemToDev, data) {
            Ok(buffer) => data = buffer,
            Err(error) => {
                println!("after {done} transfers: {error}; gone: {}", rig.device.is_gone());
                break;
            }
        }
        rig.device.check();
        data.truncate(SIZE);
    }
    let registers = rig.device.bar(0).ok_or("no BAR 0")?;
    if !rig.device.is_gone() || registers.read32(0) != u32::MAX {
        return Err("the device does not count as gone".into());
    }
    rig.device.reset()?;
    println!("after a reset register 0 reads {:#x}", registers.read32(0));
    if rig.device.is_gone() { Err("it stays gone after a reset".into()) } else { Ok(()) }
}

/// Does what the arguments say.
pub fn run() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "vfio-edma ADDRESS [copy|unmapped|lost]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (address, what) = match args.as_slice() {
        [address] => (address, "copy"),
        [address, what] => (address, what.as_str()),
        _ => return Err(Usage::new("one or two arguments, please", USAGE).into()),
    };
    let work = match what {
        "copy" => copy,
        "unmapped" => unmapped,
        "lost" => lost,
        other => return Err(Usage::new(format!("'{other}' is nothing that it does"), USAGE).into()),
    };
    work(&mut Rig::open(address.parse().map_err(|error| Usage::new(error, USAGE))?)?)
}
