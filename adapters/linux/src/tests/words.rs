//! Translations: numbers, errors, tables, parameters.

use dw_edma::{Error, Format, Mode, RemoteEngine};
use std::vec::Vec;
use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::{Direction, NoSpace, TxResult, TxState, TxStatus, Unsupported};

use crate::abi::{self, Room};
use crate::errno::errno;
use crate::memory::{larger, pool_layout};
use crate::params::irq_choice;
use crate::template::{engine, map_number, places};
use crate::text::Line;
use crate::translate;

#[test]
fn a_residue_of_more_than_32_bits_is_all_ones() {
    assert_eq!(translate::residue(u64::from(u32::MAX) - 1), u32::MAX - 1);
    assert_eq!(translate::residue(u64::from(u32::MAX)), u32::MAX);
    assert_eq!(translate::residue(1 << 32), u32::MAX);
    let state = TxState { status: TxStatus::Paused, residue: 5 << 32 };
    assert_eq!(translate::status(&state), abi::Status { residue: u32::MAX, paused: 1 });
}

#[test]
fn results_and_directions_have_linuxs_numbers() {
    let all = [TxResult::NoError, TxResult::ReadFailed, TxResult::WriteFailed, TxResult::Aborted];
    assert_eq!(all.map(translate::tx_result), [0, 1, 2, 3]);
    let directions: Vec<_> = (0..5).map(translate::direction).collect();
    assert_eq!(directions, [None, Some(Direction::MemToDev), Some(Direction::DevToMem), None, None]);
}

#[test]
fn errors_become_errno_and_space_is_told_from_the_rest() {
    assert_eq!(errno(&Error::DeviceGone), -19);
    assert_eq!(errno(&Error::NotConfigured), -22);
    assert_eq!(errno(&Error::from(NoSpace { what: "segments", needed: 9, available: 1 })), -28);
    assert_eq!(errno(&Error::from(Unsupported("this"))), -95);
    assert_eq!(errno(&Error::ChannelsOpen(1)), -16);
    assert_eq!(errno(&Error::NoEngine("none")), -19);
}

#[test]
fn the_way_to_move_data_is_hdma_natives_choice_alone() {
    let mut slave = abi::Slave { src_addr: 1, dst_addr: 2, flags: 0, non_list: 0 };
    for format in Format::ALL {
        assert_eq!(translate::slave(&slave, format).unwrap().peripheral.mode, None, "{format}");
    }
    slave.flags = abi::SLAVE_HAS_MODE;
    for format in [Format::Legacy, Format::Unroll, Format::HdmaCompat] {
        assert!(translate::slave(&slave, format).is_err(), "{format}");
    }
    let mode = |slave: &abi::Slave| translate::slave(slave, Format::HdmaNative).unwrap().peripheral.mode;
    assert_eq!(mode(&slave), Some(Mode::List));
    slave.non_list = -1;
    assert_eq!(mode(&slave), Some(Mode::NonList));
}

fn remote(format: Format, write: u16, read: u16, memory: Option<u64>) -> RemoteEngine {
    RemoteEngine {
        format,
        bar: 0,
        register_offset: 0x1000,
        write_channels: write,
        read_channels: read,
        device_memory: memory.map(EngineAddr::new),
    }
}

const MIB: u32 = 1 << 20;

#[test]
fn edda_has_its_places_in_bar_2_as_linuxs_table_says() {
    let found = engine(0x16c3, 0xedda, Some(&remote(Format::HdmaNative, 64, 1, None))).unwrap();
    assert_eq!((found.format, found.write_channels, found.read_channels), (7, 2, 1));
    assert_eq!(found.flags, abi::ENGINE_HAS_LISTS);
    let plain = engine(0x16c3, 0xedda, None).unwrap();
    assert_eq!((plain.format, plain.write_channels, plain.read_channels), (1, 2, 2));
    let all: Vec<_> = [(true, 0), (true, 1), (false, 0), (false, 1)]
        .iter()
        .map(|(write, i)| places(&plain, *write, *i).unwrap())
        .map(|p| (p.list_offset / MIB, p.data_offset / MIB, p.list_size, p.data_size))
        .collect();
    assert_eq!(
        all,
        [(0, 8, 0x800, 0x800), (2, 9, 0x800, 0x800), (4, 10, 0x800, 0x800), (6, 11, 0x800, 0x800)]
    );
    assert_eq!(plain.memory_size, 11 * MIB + 0x800);
    assert_eq!(places(&plain, true, 2), None);
}

#[test]
fn xilinx_places_move_together_and_need_a_base() {
    let b054 = engine(0x10ee, 0xb054, Some(&remote(Format::HdmaNative, 9, 3, Some(0x50_0000_0000)))).unwrap();
    assert_eq!((b054.write_channels, b054.read_channels), (8, 3));
    assert_eq!((b054.memory_base, b054.flags), (0x50_0000_0000, 3));
    let read0 = places(&b054, false, 0).unwrap();
    assert_eq!((read0.list_offset / MIB, read0.data_offset / MIB), (16, 22 + 8));
    assert_eq!(b054.memory_size, 32 * MIB + 0x800);
    let none = engine(0x10ee, 0xb00f, None).unwrap();
    assert_eq!((none.format, none.flags, none.memory_size), (7, 0, 0));
    assert_eq!(places(&none, true, 0), None);
    assert_eq!(engine(0x8086, 0xedda, None), None);
}

#[test]
fn formats_have_the_capabilitys_numbers() {
    for format in Format::ALL {
        assert_eq!(Format::from_map(map_number(format) as u8), Some(format));
    }
}

#[test]
fn a_pool_grows_by_doubling_and_not_for_ever() {
    let now = Room { descriptors: 64, segments: 512 };
    assert_eq!(larger(now, 1), Some(Room { descriptors: 128, segments: 1024 }));
    assert_eq!(larger(now, 5000), Some(Room { descriptors: 128, segments: 5512 }));
    assert_eq!(larger(now, u32::MAX), None);
    let full = Room { descriptors: 65535, segments: 1 << 16 };
    assert_eq!(larger(full, 1), None);
    let (layout, offset) = pool_layout(3, 5).unwrap();
    assert!(offset % 8 == 0 && layout.size() > offset && layout.align() <= 8);
    assert_eq!(pool_layout(u32::MAX, u32::MAX).is_some(), usize::BITS == 64);
    let (largest, _) = pool_layout(64 * 2, 1 << 16).unwrap();
    assert!(largest.size() <= 4 << 20, "kmalloc's largest piece: {}", largest.size());
}

#[test]
fn the_parameter_irq_is_one_of_four_words() {
    let bits = |text: &str| irq_choice(text.as_bytes()).map(|choice| choice.0);
    assert_eq!((bits("auto"), bits("msi-x\n"), bits("msi"), bits("polling")), (Ok(6), Ok(4), Ok(2), Ok(0)));
    for bad in ["", "MSI", "msi ,", "intx", "auto\0"] {
        assert!(bits(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_line_that_is_too_long_is_cut() {
    assert_eq!(Line::<8>::new(format_args!("{}-{}", "abcde", 12345)).as_bytes(), b"abcde-12");
    assert_eq!(Line::<8>::new(format_args!("")).as_bytes(), b"");
}
