//! From a PCI function to a working engine, and back.

use dw_edma::{Controller, ListMemory, NoList, RemoteEngine, Shared, Vectors};
use static_cell::StaticCell;
use tombolo_baremetal::irq::{IrqError, IrqHandler, Wanted};
use tombolo_baremetal::pci::Function;
use tombolo_baremetal::println;
use tombolo_baremetal::rt::{Device, DeviceError, IrqLock, Machine};
use tombolo_hal::EngineAddr;
use tombolo_hal::irq::IrqSource;
use tombolo_hal::mmio::{RawMmio, Window};

use crate::options::Options;
use crate::report::Report;
use crate::transfers::{self, Memory};

pub type Engine = &'static Shared<RawMmio, IrqLock>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("option {0}: not understood: {1}")]
    Option(&'static str, &'static str),
    #[error("no function with an engine was found")]
    NoEngine,
    #[error("the function does not say where its memory is; name it: device-memory=")]
    NoDeviceMemory,
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Irq(#[from] IrqError),
    #[error(transparent)]
    Edma(#[from] dw_edma::Error),
    #[error("{0}")]
    Transfer(&'static str),
    #[error("no DMA memory: {0}")]
    Memory(#[from] tombolo_baremetal::dma::DmaError),
}

/// What runs for each of the engine's messages.
struct Handler(Engine);

impl IrqHandler for Handler {
    fn on_irq(&self) {
        self.0.on_irq();
    }
}

/// Finds the first function with an engine, and enables its memory.
fn find(machine: &'static Machine) -> Result<(Device, RemoteEngine), Error> {
    let (ecam, tree) = machine.enumerate()?;
    let (faults, _) = tree.faults();
    faults.iter().for_each(|fault| println!("fault: {fault}"));
    let engine = |f: &Function| Some((*f, RemoteEngine::find(&ecam.function(f.address)).ok()?));
    let (function, engine) = tree.functions().iter().find_map(engine).ok_or(Error::NoEngine)?;
    println!("{} {engine:x?}", function.address);
    Ok((Device::open(machine, &ecam, &function)?, engine))
}

pub fn run(machine: &'static Machine, options: &Options) -> Result<Report, Error> {
    let (device, engine) = find(machine)?;

    // The capability's register offset is not used, as Linux does not (see `RemoteEngine`).
    static SHARED: StaticCell<Shared<RawMmio, IrqLock>> = StaticCell::new();
    let registers = Window::new(device.bar(engine.bar)?);
    let shared: Engine = SHARED.init(Shared::new(registers, IrqLock, engine.config())?);
    let channels = transfers::all(shared).count() as u16;

    machine.messages().set_alias(options.requester_alias);
    let irq = device.interrupts(options.wanted, channels.min(options.vectors))?;
    static HANDLER: StaticCell<Handler> = StaticCell::new();
    let handler: &'static Handler = HANDLER.init(Handler(shared));
    for vector in 0..irq.vectors() {
        irq.connect(machine.interrupts(), vector, handler)?;
    }
    let mut control = Controller::new(shared)?;
    let vectors = if irq.vectors() > 1 { Vectors::PerChannel } else { Vectors::One };
    control.connect(&irq, vectors)?;
    if irq.vectors() == 0 && options.wanted != Wanted::Polling {
        println!("no interrupts: polling, which nobody asked for");
    }
    device.set_bus_master(true)?;

    let window = device.bar(options.memory_bar)?;
    let bus_address = device.function.bars.get(usize::from(options.memory_bar)).copied().flatten();
    let vendor = device.function.identity.vendor;
    let told = options.device_memory.map(EngineAddr::new);
    let base = match vendor {
        // Lists and data are where the BAR is on the bus.
        dw_edma::VENDOR_SYNOPSYS => bus_address.map(|bar| EngineAddr::new(bar.address)),
        _ => engine.device_memory,
    };
    let memory = Memory::new(window, base.or(told).ok_or(Error::NoDeviceMemory)?, channels);
    let mut report = Report::new(&device.function, &engine, &irq, channels, options);
    let used = &mut control;
    if vendor == dw_edma::VENDOR_SYNOPSYS || engine.device_memory.is_some() {
        let list = |number| memory.list(number);
        transfers::run(machine, used, &memory, list, options, &mut report)?;
    } else {
        // The function names no memory for lists: transfers from registers.
        let none = |_| Ok::<ListMemory<NoList>, Error>(ListMemory::none());
        transfers::run(machine, used, &memory, none, options, &mut report)?;
    }
    report.count_interrupts(machine, &irq);

    control.close().map_err(|(_, error)| error)?;
    device.close(irq)?;
    Ok(report)
}
