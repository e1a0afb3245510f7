//! The PCI function: identity, capabilities, BARs, access widths, DBI.

use super::*;
use crate::config::{ConfigSpace, ConfigSpaceBuilder};
use crate::dw_edma::presets::{CORE_470A, CORE_490A, CORE_540A, XILINX_DEVICE_MEMORY};

fn config(params: Params) -> ConfigSpace {
    let mut builder = ConfigSpaceBuilder::new();
    DwEdma::new(params).describe(&mut builder);
    builder.build().unwrap()
}

/// The payload of the vendor-specific capability `id`, found as Linux finds it.
fn vsec(config: &ConfigSpace, id: u32) -> Option<(u32, Vec<u32>)> {
    let mut at = 0x100;
    while at != 0 {
        let header = config.read(at, Width::W32);
        let vendor = config.read(at + 4, Width::W32);
        if header & 0xffff == 0xb && vendor & 0xffff == id {
            let words = (vendor >> 20) as u16 / 4 - 2;
            let word = |i| config.read(at + 8 + i * 4, Width::W32);
            return Some((vendor, (0..words).map(word).collect()));
        }
        at = (header >> 20) as u16;
    }
    None
}

#[test]
fn edda_names_its_format_bar_and_channels() {
    for (format, map) in Format::ALL.into_iter().zip([0, 1, 5, 7]) {
        let config = config(presets::edda(format));
        assert_eq!(config.read(0, Width::W32), 0xedda_16c3);
        let (header, payload) = vsec(&config, 6).unwrap();
        assert_eq!(header, 0x0180_0006, "length 0x18, revision 0");
        assert_eq!(payload, [map, 0x0002_0002, 0, 0]);
        assert_eq!(vsec(&config, 0x20), None);
        assert_eq!(config.bar(2).unwrap().size, 16 << 20);
        assert!(config.bar(2).unwrap().is_memory);
        assert!(config.bar(0).unwrap().size >= format.register_bytes(2));
        assert_eq!(config.msi_capability().unwrap().1.vectors, 1);
        assert_eq!(config.msix_capability().unwrap().1.vectors, 1);
    }
}

#[test]
fn the_xilinx_devices_name_their_memory() {
    for (params, device) in [(presets::mdb_b054(), 0xb054), (presets::cpm6_b00f(), 0xb00f)] {
        let config = config(params);
        assert_eq!(config.read(0, Width::W32), device << 16 | 0x10ee);
        let (_, payload) = vsec(&config, 6).unwrap();
        assert_eq!(payload, [7, 0x0008_0008, 0, 0]);
        let (_, payload) = vsec(&config, 0x20).unwrap();
        let (low, high) = (XILINX_DEVICE_MEMORY as u32, (XILINX_DEVICE_MEMORY >> 32) as u32);
        assert_eq!(payload, [low, high]);
        assert_eq!(config.bar(2).unwrap().size, 64 << 20);
    }
    let config = config(presets::b054_without_list_memory());
    assert!(vsec(&config, 6).is_some());
    assert_eq!(vsec(&config, 0x20), None);
}

#[test]
fn every_size_of_engine_can_be_described() {
    for format in Format::ALL {
        for channels in [0, 1, 8, 64] {
            config(presets::remote(format, channels, channels));
            config(presets::local(format, channels, channels));
        }
        let trapped = Params { map_memory: false, ..presets::edda(format) };
        assert!(!config(trapped).bar(2).unwrap().is_memory);
    }
    assert_eq!(Format::HdmaNative.register_bytes(64), 0x8000);
    assert_eq!(Format::Unrolled.register_bytes(8), 0x1200);
}

#[test]
fn registers_take_aligned_32_bit_accesses_only() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        let offset = rig.reg(Dir::Write, 0, Reg::Llp);
        rig.write(offset, 0x1111_1110);
        let widths = [(Width::W8, 0xff), (Width::W16, 0xffff), (Width::W64, u64::MAX)];
        for (i, (width, ones)) in widths.into_iter().enumerate() {
            rig.dev.write(&mut rig.bus, 0, offset, width, 0x2222_2220_2222_2220);
            assert_eq!(rig.dev.read(&mut rig.bus, 0, offset, width), ones);
            assert_eq!(rig.handle.counters().bad_accesses, 2 * (i as u64 + 1));
        }
        rig.dev.write(&mut rig.bus, 0, offset + 2, Width::W32, 0);
        assert_eq!(rig.handle.counters().bad_accesses, 7);
        assert_eq!(rig.llp(Dir::Write, 0), 0x1111_1110);
    }
}

#[test]
fn the_memory_bar_takes_any_width_and_is_the_engines_memory() {
    let mut rig = Rig::edda(Format::Unrolled);
    for (width, at) in [(Width::W8, 1), (Width::W16, 2), (Width::W32, 4), (Width::W64, 8)] {
        rig.dev.write(&mut rig.bus, 2, at, width, 0x1122_3344_5566_7788);
        let want = 0x1122_3344_5566_7788 & (u64::MAX >> (64 - 8 * width.bytes()));
        assert_eq!(rig.dev.read(&mut rig.bus, 2, at, width), want);
    }
    assert_eq!(rig.memory.read_u64(8).unwrap(), 0x1122_3344_5566_7788);
    assert!(rig.dev.bar_memory(2).unwrap().same_as(&rig.memory));
    assert!(rig.dev.bar_memory(0).is_none());
    assert_eq!(rig.dev.read(&mut rig.bus, 2, u64::MAX, Width::W64), u64::MAX);
    rig.dev.write(&mut rig.bus, 2, u64::MAX, Width::W64, 0);
    assert_eq!(rig.handle.counters().bad_accesses, 0);
}

#[test]
fn a_register_offset_moves_the_registers() {
    let mut rig = Rig::new(Params { register_offset: 0x1000, ..presets::edda(Format::Unrolled) });
    assert_eq!(rig.read(v0::CTRL), 0x2_0002);
    assert_eq!(rig.dev.read(&mut rig.bus, 0, 8, Width::W32), 0);
    let params = rig.dev.params().clone();
    assert_eq!(vsec(&config(params), 6).unwrap().1, [1, 0x2_0002, 0x1000, 0]);
}

#[test]
fn behind_dbi_the_core_version_tells_where_to_look() {
    let read = |params: Params, at: u64| {
        let mut rig = Rig::new(params);
        rig.dev.read(&mut rig.bus, 0, at, Width::W32) as u32
    };
    let version = |format, version| {
        let params = presets::local(format, 3, 2);
        let Placement::Local { link_base, irq, .. } = params.placement else { panic!() };
        let core_version = Some(version);
        Params { placement: Placement::Local { link_base, irq, core_version }, ..params }
    };
    let counts = 0x2_0003;
    assert_eq!(read(presets::local(Format::Legacy, 3, 2), 0x8f8), CORE_470A);
    assert_eq!(read(presets::local(Format::Legacy, 3, 2), 0x978), counts);
    assert_eq!(read(presets::local(Format::Legacy, 3, 2), 0x8_0008), u32::MAX);
    for format in [Format::Unrolled, Format::HdmaCompatible] {
        assert_eq!(read(version(format, CORE_490A), 0x978), u32::MAX);
        assert_eq!(read(version(format, CORE_490A), 0x8_0008), counts);
        assert_eq!(read(version(format, CORE_540A), 0x978), 0);
        assert_eq!(read(version(format, CORE_540A), 0x8_0008), counts);
    }
}

#[test]
fn offsets_are_those_of_the_structures() {
    // As a C compiler lays the structures out, not as their comments say.
    assert_eq!(v0::VIEWPORT_SEL, 0xfc);
    assert_eq!(v0::RD_PWR_EN + 5 * 4, 0x17c);
    let mut rig = Rig::new(presets::remote(Format::HdmaCompatible, 8, 8));
    for (offset, mask) in [(0x128, 1), (0x144, 1), (0x168, 1), (0x17c, 1), (0x184, 1)] {
        rig.write(offset, u32::MAX);
        assert_eq!(rig.read(offset), mask, "{offset:#x}");
    }
    for offset in [0x200, 0x3ff - 0xff + 0x20, 0x1000 + 0x20, 0x1100 + 0x1c] {
        rig.write(offset, 0x0123_4500);
        let status_free = rig.read(offset);
        assert_eq!(status_free, 0x0123_4500, "{offset:#x}");
    }
    assert_eq!(rig.handle.counters().reserved_accesses, 0);
    rig.read(0x224);
    rig.read(0x1200);
    assert_eq!(rig.handle.counters().reserved_accesses, 2);
}

#[test]
fn the_viewport_selects_channel_and_direction() {
    let mut rig = Rig::new(presets::remote(Format::Legacy, 8, 4));
    for (select, value) in [(0, 1), (7, 2), (1 << 31, 3), (1 << 31 | 3, 4)] {
        rig.write(0xfc, select);
        rig.write(0x10c, value);
    }
    for (select, value) in [(1 << 31 | 3, 4), (1 << 31, 3), (7, 2), (0, 1), (1 << 31 | 4, 0)] {
        rig.write(0xfc, select);
        assert_eq!(rig.read(0xfc), select);
        assert_eq!(rig.read(0x10c), value);
    }
    assert_eq!(rig.handle.counters().reserved_accesses, 1, "there is no read channel 4");
}

#[test]
fn reset_brings_power_on_values_and_keeps_memory() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        rig.enable(Dir::Write, 0);
        rig.point(Dir::Write, 0, 0x100);
        rig.memory.write_u32(0, 77).unwrap();
        rig.dev.reset();
        assert_eq!(rig.llp(Dir::Write, 0), 0);
        assert_eq!(rig.get(Dir::Write, 0, Reg::Control1), 0);
        assert_eq!(rig.memory.read_u32(0).unwrap(), 77);
    }
}
