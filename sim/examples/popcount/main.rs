//! The tutorial's device at work: `docs/tutorial.md` leads through it.

mod driver;
mod model;

use std::error::Error;
use std::sync::Arc;

use driver::{Popcount, Shared};
use tombolo_hal::irq::IrqSource;
use tombolo_hal::pci;
use tombolo_sim::fabric::{Fabric, MachineConfig, Removal};
use tombolo_sim::host::{SimDelay, SimIrq};

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig::default())?;
    let function = machine.attach(Box::new(model::AFTER_RESET))?;
    let config = function.config();

    let bar = pci::size_bar(&config, 0)?.ok_or("no BAR 0")?;
    println!("BAR 0: {} bytes at {:#x}", bar.size, bar.address);
    let shared = Arc::new(Shared::new(function.mmio(0).ok_or("no BAR 0")?)?);

    let irq = SimIrq::allocate(&function, 1);
    let handler = shared.clone();
    irq.connect(0, Arc::new(move |_vector| handler.on_irq()));
    println!("interrupts: {}", irq.mode());

    let mut delay = SimDelay::new(&fabric);
    let mut popcount = Popcount::probe(&config, &shared, function.dma())?;
    println!("ones in 'tombolo': {}", popcount.count_ones(b"tombolo", &mut delay)?);

    function.surprise_remove(Removal::Now);
    match popcount.count_ones(b"tombolo", &mut delay) {
        Err(error) => println!("without the card: {error}"),
        Ok(ones) => return Err(format!("a card that is gone counted {ones}").into()),
    }
    popcount.remove(&config);
    Ok(())
}
