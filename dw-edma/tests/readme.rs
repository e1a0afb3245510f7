//! The code that the workspace's README shows, at work on the simulator.

mod common;

use common::{Irqs, Rig, pattern};
use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::mmio::{Mmio, Window};

mod shown {
    use dw_edma::{ChannelId, Config, Controller, Format, ListMemory, Location, Shared};
    use embedded_hal::delay::DelayNs;
    use tombolo_hal::dma::{Coherent, DataDirection, DmaBackend, DmaConstraints, Streaming};
    use tombolo_hal::dmaengine::{Direction, HeapPool, OwnedTransfers, PrepFlags, SlaveConfig, TxResult};
    use tombolo_hal::{EngineAddr, lock::SpinLock, mmio::Mmio, mmio::Window};

    /// Writes `data` to `to`, over write channel 0 of an engine beside this CPU.
    pub fn send<M: Mmio + Clone, B: DmaBackend>(
        registers: M,
        dma: B,
        delay: &mut impl DelayNs,
        data: Vec<u8>,
        to: EngineAddr,
    ) -> Result<TxResult, Box<dyn std::error::Error>> {
        let (any, config) = (DmaConstraints::any(), Config::new(Format::Unroll, Location::Local));
        let shared = Shared::new(Window::new(registers), SpinLock::new(), config.channels(1, 0))?;
        let mut control = Controller::new(&shared)?; // polls until `control.connect(irq, ..)`
        let list = Coherent::new(dma.clone(), ListMemory::<Coherent<B>>::size_for(64), &any.aligned(8))?;
        let list = ListMemory::in_ram(list).map_err(|refused| refused.error)?;
        let channel = control.open_channel(ChannelId::write(0), list, HeapPool::new(16, 256))?;

        let mut transfers = OwnedTransfers::<_, B, Vec<u8>, 16, 4>::new(channel);
        let buffer = Streaming::prepare(dma, data, DataDirection::ToDevice, &any)?;
        let target = SlaveConfig::at(to);
        let sent = transfers.submit_one(buffer, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&target));
        sent.map_err(|refused| refused.reason)?;
        transfers.issue_pending();
        let finished = transfers.wait_next(delay, 1_000_000)?;

        transfers.synchronize(delay, 1_000)?; // the engine has yet to see that there is nothing more
        let channel = transfers.into_channel().map_err(|_| "transfers are left")?;
        channel.close().map_err(|(_, error)| error)?.into_inner().free();
        control.close().map_err(|(_, error)| error)?;
        Ok(finished.completion.result)
    }
}

#[test]
fn the_code_of_the_readme_sends_every_byte_and_leaves_nothing_behind() {
    let rig = Rig::local(dw_edma::Format::Unroll, 1, 1, Irqs::Polling);
    let id = dw_edma::ChannelId::write(0);
    let bar = Window::new(rig.function.mmio(rig.params.register_bar).unwrap());
    // Where cores of this version have the unrolled map behind DBI.
    let size = bar.size() - 0x8_0000;
    let registers = bar.sub(0x8_0000, size).unwrap();
    let (to, data) = (rig.data_address(id), pattern(1, 10_000));
    let result = shown::send(registers, rig.dma.clone(), &mut rig.delay.clone(), data.clone(), to);
    assert_eq!(result.unwrap(), TxResult::NoError);
    assert_eq!(rig.device_read(id, 0, data.len()), data);
    assert_eq!(rig.function.iommu_mapped(), (0, 0));
    assert_eq!(rig.function.counters().quarantined, 0);
}

#[test]
fn the_readme_shows_the_code_that_is_tested() {
    let source = include_str!("readme.rs").lines();
    let inside = source.skip_while(|line| *line != "mod shown {").skip(1).take_while(|line| *line != "}");
    let expected: Vec<&str> = inside.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&expected.join("\n")), "the README shows something else");
}
