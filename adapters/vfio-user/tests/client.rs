//! The client against our own server: the driver `dw-edma` on the model, without a virtual machine.
#![cfg(target_os = "linux")]

mod common;

use common::*;
use dw_edma::{ChannelId, Mode};
use tombolo_hal::dma::{Coherent, DmaBackend, DmaConstraints};
use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::error::{Error as _, ErrorKind};
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::{self, ConfigSpace, regs};
use tombolo_sim::dw_edma::{Cause, Dir, Format, Params, presets};
use tombolo_vfio_user::client::{Device, Error};
use tombolo_vfio_user::server::ServerOptions;

const FORMATS: [Format; 4] = [Format::Legacy, Format::Unrolled, Format::HdmaCompatible, Format::HdmaNative];

/// Moves data both ways on all channels of a kind that the layout of the tests has room for, and
/// compares.
fn moves_data(params: Params, options: ServerOptions, mode: IrqMode, vectors: u16) {
    let what = format!("{:?} {options:?} {mode} {vectors}", params.format);
    println!("{what}");
    let (served, model) = Served::engine(params, options);
    let mut rig = Rig::new(served.connect(), mode, vectors);
    let ids = [ChannelId::write(0), ChannelId::read(0), ChannelId::write(1), ChannelId::read(1)];
    for (seed, id) in (1..).zip(ids) {
        let mut ch = rig.open(id);
        for (len, pieces) in [(1, 1), (4096, 1), (100_003, 7)] {
            rig.transfer(&model, &mut ch, &pattern(seed + len as u64, len), pieces);
        }
        let stats = *ch.channel().stats();
        assert_eq!((stats.completed, stats.failed, stats.violations), (3, 0, 0), "{what}");
        assert_eq!(stats.found_by_looking, 0, "{what}");
        rig.close(ch);
    }
    let counters = served.server.counters();
    let (bad, fired) = (model.counters().bad_accesses, rig.irq.fired_in_all());
    assert_eq!((bad, counters.dma_refused, counters.refused_messages), (0, 0, 0), "{what} {counters:?}");
    match mode {
        IrqMode::Polling => assert_eq!(fired, 0),
        // A signal that comes before the last one was taken is one with it.
        _ => assert!((4..=12).contains(&fired), "{what}: {fired} interrupts"),
    }
    match mode {
        IrqMode::MsiX => assert_eq!(counters.message_interrupts, 12, "{counters:?}"),
        IrqMode::Msi => assert_eq!(counters.msi_interrupts, 12, "{counters:?}"),
        _ => assert_eq!(counters.message_interrupts + counters.msi_interrupts, 0, "{counters:?}"),
    }
    assert_eq!(rig.device.dma().mapped(), (0, 0), "{what}");
    assert_eq!(rig.device.dma().quarantined(), 0, "{what}");
}

#[test]
fn every_byte_arrives_in_every_format_and_interrupt_mode_with_the_list_mapped() {
    for format in FORMATS {
        for mode in [IrqMode::MsiX, IrqMode::Msi, IrqMode::Polling] {
            let vectors = if mode == IrqMode::Polling { 0 } else { 1 };
            moves_data(presets::edda(format), ServerOptions::default(), mode, vectors);
        }
    }
}

#[test]
fn every_byte_arrives_in_every_format_and_interrupt_mode_with_the_list_trapped() {
    for format in FORMATS {
        for mode in [IrqMode::MsiX, IrqMode::Msi] {
            moves_data(presets::edda(format), trapped(), mode, 1);
        }
    }
}

#[test]
fn every_channel_can_have_its_own_vector() {
    for format in FORMATS {
        for mode in [IrqMode::MsiX, IrqMode::Msi] {
            moves_data(presets::remote(format, 2, 2), ServerOptions::default(), mode, 4);
        }
    }
}

#[test]
fn memory_behind_a_bar_moves_at_any_offset_and_length_mapped_or_not() {
    for options in [ServerOptions::default(), trapped()] {
        let (served, _model) = Served::engine(presets::edda(Format::Unrolled), options);
        let device = served.connect();
        device.enable().unwrap();
        let memory = device.bar(2).unwrap();
        // Odd ends, none, a whole page, and across two ends of pages.
        for (offset, len) in [(0, 1), (3, 0), (5, 7), (4096, 4096), (4090, 5000), (8191, 2)] {
            let data = pattern(offset as u64 + 1, len);
            memory.write_bytes(offset, &data);
            let mut back = vec![0; len];
            memory.read_bytes(offset, &mut back);
            assert_eq!(back, data, "{offset} {len}");
        }
        let end = memory.size();
        memory.write_bytes(end - 2, &[0x11; 4]);
        let mut beyond = [0; 4];
        memory.read_bytes(end - 2, &mut beyond);
        assert_eq!(beyond, [0x11, 0x11, 0xff, 0xff], "there is nothing beyond the end");
        memory.read_bytes(usize::MAX, &mut beyond);
        memory.write_bytes(usize::MAX, &beyond);
        let messages = served.server.counters().reads;
        assert!(messages < 100, "{messages} messages for a few pages");
    }
}

#[test]
fn lists_at_addresses_inside_the_device() {
    for params in [presets::mdb_b054(), presets::cpm6_b00f()] {
        moves_data(params, ServerOptions::default(), IrqMode::MsiX, 1);
    }
}

#[test]
fn a_device_without_list_memory_moves_data_from_registers() {
    let (served, model) = Served::engine(presets::b054_without_list_memory(), ServerOptions::default());
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    (rig.base, rig.mode) = (presets::XILINX_DEVICE_MEMORY, Some(Mode::NonList));
    for id in [ChannelId::write(0), ChannelId::read(1)] {
        let mut ch = rig.open(id);
        rig.transfer(&model, &mut ch, &pattern(1, 50_001), 5);
        assert_eq!(ch.channel().stats().segments, 5);
        rig.close(ch);
    }
}

#[test]
fn two_devices_work_at_once() {
    let one = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let two = Served::engine(presets::edda(Format::HdmaNative), ServerOptions::default());
    std::thread::scope(|scope| {
        for (served, model) in [&one, &two] {
            scope.spawn(|| {
                let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
                let (mut out, mut back) = (rig.open(ChannelId::read(0)), rig.open(ChannelId::write(0)));
                for seed in 0..20 {
                    rig.transfer(model, &mut out, &pattern(seed, 20_000), 3);
                    rig.transfer(model, &mut back, &pattern(seed, 30_000), 2);
                }
                rig.close(out);
                rig.close(back);
            });
        }
    });
}

#[test]
fn an_error_of_the_engine_is_told_and_the_channel_goes_on() {
    let (served, model) = Served::engine(presets::edda(Format::HdmaNative), ServerOptions::default());
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    let mut ch = rig.open(ChannelId::read(0));
    model.abort_after(Dir::Read, 0, 5000, Cause::UnsupportedRequest);
    rig.submit(&mut ch, &pattern(1, 20_000), 1);
    let result = rig.wait(&mut ch).completion.result;
    assert!(!matches!(result, TxResult::NoError | TxResult::Aborted), "{result}");
    rig.transfer(&model, &mut ch, &pattern(2, 20_000), 1);
    rig.close(ch);
}

#[test]
fn a_lost_interrupt_costs_a_look_and_nothing_else() {
    for mode in [IrqMode::MsiX, IrqMode::Msi] {
        let (served, model) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
        let mut rig = Rig::new(served.connect(), mode, 1);
        let mut ch = rig.open(ChannelId::read(0));
        served.server.lose_interrupts(1);
        rig.submit(&mut ch, &pattern(1, 10_000), 1);
        eventually("no interrupt was lost", || served.server.counters().lost_interrupts == 1);
        assert!(ch.pop_finished().is_none());
        let finished = ch.wait_next(&mut Sleep, 5_000_000).unwrap();
        assert_eq!(finished.completion.result, TxResult::NoError);
        assert_eq!((ch.channel().stats().found_by_looking, rig.irq.fired_in_all()), (1, 0));
        rig.transfer(&model, &mut ch, &pattern(2, 10_000), 1);
        rig.close(ch);
    }
}

#[test]
fn bars_have_addresses_of_their_own_and_sizes() {
    let (served, _) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let device = served.connect();
    let config = device.config();
    let bars = pci::bars(&config).unwrap();
    let (zero, two) = (bars[0].expect("BAR 0"), bars[2].expect("BAR 2"));
    assert!(zero.address != 0 && two.address >= 1 << 32 && two.address.is_multiple_of(16 << 20));
    assert_eq!(device.bar(2).map(|bar| bar.size()), Some(16 << 20));
    for index in [1, 3, 5, 6, 255] {
        assert!(device.bar(index).is_none(), "BAR {index}");
    }
    assert_eq!((config.read16(regs::VENDOR_ID), config.read16(2)), (0x16c3, 0xedda));
    assert_eq!(config.read32(1), u32::MAX, "not aligned");
    assert_eq!(config.read32(4096), u32::MAX, "beyond the end");
    assert!(device.check(), "neither means that the device is gone");
}

#[test]
fn accesses_beside_the_bar_or_unaligned_read_ones_and_write_nothing() {
    for options in [ServerOptions::default(), trapped()] {
        let (served, model) = Served::engine(presets::edda(Format::Unrolled), options);
        let device = served.connect();
        device.enable().unwrap();
        let bar = device.bar(2).unwrap();
        bar.write32(8, 0x0403_0201);
        assert_eq!((bar.read8(9), bar.read16(10), bar.read32(8)), (2, 0x0403, 0x0403_0201));
        bar.write8(11, 0x55);
        bar.write16(8, 0x7766);
        assert_eq!(bar.read32(8), 0x5503_7766);
        assert_eq!(model.memory().read_u32(8), Ok(0x5503_7766));
        for offset in [2, 7, bar.size() - 2, bar.size(), usize::MAX, usize::MAX - 3] {
            bar.write32(offset, 0);
            assert_eq!(bar.read32(offset), u32::MAX, "{offset:#x}");
        }
        assert_eq!((bar.read32(0), bar.read32(4), bar.read32(8)), (0, 0, 0x5503_7766));
        assert_eq!((bar.read8(usize::MAX), bar.read16(9)), (u8::MAX, u16::MAX));
        assert!(!device.is_gone());
    }
}

#[test]
fn a_reset_leaves_addresses_and_vectors_and_forgets_the_rest() {
    let (served, model) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    let mut ch = rig.open(ChannelId::read(0));
    rig.transfer(&model, &mut ch, &pattern(1, 10_000), 1);
    rig.close(ch);
    let before = pci::bars(&rig.device.config()).unwrap();
    rig.device.reset().unwrap();
    rig.irq.restore().unwrap();
    assert_eq!(pci::bars(&rig.device.config()).unwrap(), before);
    assert_eq!(served.server.counters().resets, 1);
    rig.control.after_reset(&rig.irq).unwrap();
    let mut ch = rig.open(ChannelId::read(0));
    rig.transfer(&model, &mut ch, &pattern(2, 10_000), 1);
    rig.close(ch);
}

#[test]
fn the_next_client_finds_the_device_as_after_power_on() {
    let (served, model) = Served::engine(presets::edda(Format::HdmaNative), ServerOptions::default());
    for round in 0..3 {
        let device = served.connect();
        let registers = device.bar(0).unwrap();
        device.enable().unwrap();
        // Channel enable of write channel 0.
        assert_eq!(registers.read32(0), 0, "round {round}");
        registers.write32(0, 1);
        assert_eq!(registers.read32(0), 1);
        let mut rig = Rig::new(device, IrqMode::Msi, 1);
        let mut ch = rig.open(ChannelId::write(0));
        rig.transfer(&model, &mut ch, &pattern(round, 10_000), 1);
        // Everything is dropped as it is, with memory of a channel that is still open.
        drop((ch, rig, registers));
        served.without_client();
        assert_eq!(served.server.maps(), 0);
    }
    assert_eq!(served.server.clients(), 3);
}

#[test]
fn memory_is_zeroed_kept_in_bounds_and_given_back() {
    let (served, _) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let device = served.connect();
    let dma = device.dma();
    let limits = DmaConstraints { mask: u64::from(u32::MAX), ..DmaConstraints::any().aligned(4096) };
    let region = Coherent::<_>::new(dma.clone(), 10_000, &limits).unwrap();
    let address = region.device_address().value();
    assert!(address.is_multiple_of(4096) && address + 10_000 <= 1 << 32);
    region.write32(0, 0x1234_5678);
    assert_eq!((region.read32(0), dma.mapped()), (0x1234_5678, (1, 10_000)));
    region.free();
    assert_eq!(dma.mapped(), (0, 0));
    let again = Coherent::<_>::new(dma.clone(), 10_000, &limits).unwrap();
    assert_eq!((again.device_address().value(), again.read32(0)), (address, 0));
    // What is dropped without a word may still be in use by the device.
    drop(again);
    assert_eq!((dma.quarantined(), dma.mapped()), (1, (1, 10_000)));
    let other = Coherent::<_>::new(dma.clone(), 64, &limits).unwrap();
    assert!(other.device_address().value() >= address + 10_000);
    other.free();
    let few = DmaConstraints { mask: 0xfff, ..limits };
    assert_eq!(Coherent::<_>::new(dma, 64, &few).unwrap_err().kind(), ErrorKind::NoSpace);
}

#[test]
fn vectors_that_are_not_there_and_sockets_without_server_are_errors_with_a_reason() {
    let params = Params { msix_vectors: 0, ..presets::edda(Format::Unrolled) };
    let (mut served, _) = Served::engine(params, ServerOptions::default());
    let device = served.connect();
    assert_eq!((device.vectors(IrqMode::Msi), device.vectors(IrqMode::MsiX)), (1, 0));
    let refused = device.interrupts(IrqMode::MsiX, 1).unwrap_err();
    assert!(matches!(refused, Error::NoVectors(IrqMode::MsiX)), "{refused}");
    assert_eq!(device.interrupts(IrqMode::Msi, 32).unwrap().vectors(), 1);
    served.stop();
    let nobody = Device::connect(&served.path).unwrap_err();
    assert!(matches!(nobody, Error::Connect { .. }));
    assert!(nobody.to_string().contains("is a server running there?"), "{nobody}");
}
