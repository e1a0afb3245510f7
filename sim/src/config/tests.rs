use super::*;
use crate::device::Width::{W8, W16, W32, W64};
use proptest::prelude::*;

fn msix() -> Msix {
    Msix { vectors: 33, table_bar: 0, table_offset: 0x2000, pba_bar: 0, pba_offset: 0x3000 }
}

fn full() -> ConfigSpaceBuilder {
    let mut builder = ConfigSpaceBuilder::new();
    builder
        .identity(0x16c3, 0xedda)
        .subsystem(0x1234, 0x5678)
        .revision(7)
        .class(0x11_8001)
        .interrupt_pin(1)
        .bar(Bar::bits32(0, 0x4000))
        .bar(Bar::bits64(2, 1 << 33).prefetchable())
        .power_management()
        .pcie(true)
        .msi(Msi { vectors: 8, per_vector_mask: true })
        .msix(msix())
        .vsec(Vsec {
            id: 6,
            revision: 2,
            offset: Some(0x148),
            payload: vec![0x10, 0x20, 0x30],
            writable: vec![0, 0xff00],
        });
    builder
}

fn config() -> ConfigSpace {
    full().build().unwrap()
}

fn find(config: &ConfigSpace, id: u32) -> u16 {
    let mut offset = config.read(0x34, W8) as u16;
    for _ in 0..48 {
        assert!(offset >= 0x40, "capability {id:#x} not in the list");
        if config.read(offset, W8) == id {
            return offset;
        }
        offset = config.read(offset + 1, W8) as u16;
    }
    panic!("endless list");
}

#[test]
fn the_header_shows_identity_class_and_pin() {
    let config = config();
    assert_eq!(config.read(0, W16), 0x16c3);
    assert_eq!(config.read(2, W16), 0xedda);
    assert_eq!(config.read(8, W32), 0x1180_0107);
    assert_eq!(config.read(0xe, W8), 0);
    assert_eq!(config.read(0x2c, W32), 0x5678_1234);
    assert_eq!(config.read(0x3d, W8), 1);
    assert_eq!(config.read(6, W16) & 0x10, 0x10);
}

#[test]
fn bar_sizing_reads_back_the_mask_and_the_type() {
    let mut config = config();
    for register in [0x10, 0x14, 0x18, 0x1c, 0x20] {
        config.write(register, W32, u32::MAX);
    }
    assert_eq!(config.read(0x10, W32), 0xffff_c000);
    assert_eq!(config.read(0x14, W32), 0, "no BAR1");
    assert_eq!(config.read(0x18, W32), 0x0000_000c, "64 bits, prefetchable, low half all size");
    assert_eq!(config.read(0x1c, W32), 0xffff_fffe);
    assert_eq!(config.read(0x20, W32), 0);
}

#[test]
fn a_bar_has_an_address_only_while_memory_decoding_is_on() {
    let mut config = config();
    assert!(config.write(0x10, W32, 0xd000_1234).routing);
    config.write(0x1c, W32, 0x42);
    assert_eq!(config.bar_address(0), None);
    assert!(config.write(4, W16, 2).routing);
    assert_eq!(config.bar_address(0), Some(0xd000_0000));
    assert_eq!(config.bar_address(2), Some(0x42_0000_0000));
    assert_eq!(config.bar_address(1), None);
    assert_eq!(config.bar_address(6), None);
    assert!(!config.bus_master());
    config.write(4, W8, 6);
    assert!(config.bus_master());
}

#[test]
fn odd_widths_and_places_read_all_ones_and_write_nothing() {
    let mut config = config();
    let before = config.values.clone();
    for (offset, width) in [(1, W16), (2, W32), (0, W64), (4096, W8), (u16::MAX, W8)] {
        config.write(offset, width, 0);
        let ones = u32::MAX >> (32 - 8 * width.bytes().min(4));
        assert_eq!(config.read(offset, width), ones);
    }
    assert_eq!(config.values, before);
}

#[test]
fn bytes_of_a_register_can_be_written_alone() {
    let mut config = config();
    config.write(0x11, W8, 0xff);
    assert_eq!(config.read(0x10, W32), 0xc000);
    config.write(0x12, W16, 0xd000);
    assert_eq!(config.read(0x10, W32), 0xd000_c000);
}

#[test]
fn all_capabilities_are_in_the_list() {
    let config = config();
    for id in [CAP_ID_PM, CAP_ID_MSI, CAP_ID_EXP, CAP_ID_MSIX] {
        find(&config, u32::from(id));
    }
    let msix = find(&config, 0x11);
    assert_eq!(config.read(msix + 2, W16), 32);
    assert_eq!(config.read(msix + 4, W32), 0x2000);
    assert_eq!(config.read(msix + 8, W32), 0x3000);
}

#[test]
fn an_extended_capability_elsewhere_is_reached_from_0x100() {
    let config = config();
    assert_eq!(config.read(0x100, W32), 0x1480_0000);
    assert_eq!(config.read(0x148, W32), 0x0001_000b);
    assert_eq!(config.read(0x14c, W32), 0x0142_0006, "length 20, revision 2, id 6");
    assert_eq!(config.read(0x158, W32), 0x30);
}

#[test]
fn vendor_writes_are_masked_and_reported() {
    let mut config = config();
    assert_eq!(config.write(0x150, W32, u32::MAX), Effects::default());
    let effects = config.write(0x154, W32, u32::MAX);
    assert_eq!(effects.vendor, Some((0x154, 0xff20)));
    assert_eq!(config.write(0x154, W8, 0).vendor, None, "no writable bit in this byte");
    assert_eq!(config.read(0x154, W32), 0xff20);
}

#[test]
fn msi_registers_are_decoded() {
    let mut config = config();
    let msi = find(&config, 5);
    assert_eq!(config.read(msi + 2, W16), 0x0186, "8 vectors, 64 bits, masks");
    assert_eq!(config.msi().unwrap().vectors, 0);
    config.write(msi + 4, W32, 0xfee0_1003);
    config.write(msi + 8, W32, 1);
    config.write(msi + 12, W32, 0xffff_4047);
    config.write(msi + 16, W32, u32::MAX);
    assert!(config.write(msi + 2, W16, 0x0021).interrupts);
    let state = config.msi().unwrap();
    assert_eq!((state.vectors, state.address, state.data), (4, 0x1_fee0_1000, 0x4047));
    assert_eq!(state.mask, 0xff);
    assert_eq!(state.message(2), (0x1_fee0_1000, 0x4046));
    config.write(msi + 2, W16, 0x0071);
    assert_eq!(config.msi().unwrap().vectors, 8, "never more than the function has");
    config.set_msi_pending(5);
    assert_eq!(config.read(msi + 20, W32), 5);
}

#[test]
fn flr_is_asked_for_by_its_bit_which_reads_zero() {
    let mut config = config();
    let exp = find(&config, 0x10);
    assert_eq!(config.read(exp + 4, W32) & 1 << 28, 1 << 28);
    assert!(!config.write(exp + 8, W16, 0x2830).function_reset);
    assert!(config.write(exp + 8, W16, 0xa830).function_reset);
    assert_eq!(config.read(exp + 8, W16), 0x2830);
    let mut without = ConfigSpaceBuilder::new().pcie(false).build().unwrap();
    let exp = find(&without, 0x10);
    assert!(!without.write(exp + 8, W16, 0x8000).function_reset);
}

#[test]
fn reset_clears_bars_and_command_but_not_the_link() {
    let mut config = config();
    let exp = find(&config, 0x10);
    config.write(4, W16, 6);
    config.write(0x10, W32, 0xd000_0000);
    config.write(exp + 8, W16, 0x2830);
    config.write(exp + 16, W16, 0x40);
    let saved = config.clone();
    config.reset();
    assert_eq!((config.read(4, W16), config.read(0x10, W32)), (0, 0));
    assert_eq!(config.read(exp + 8, W16), 0x2830, "payload size stays");
    assert_eq!(config.read(exp + 16, W16), 0x40);
    config.restore(&saved);
    assert_eq!(config.bar_address(0), Some(0xd000_0000));
    assert_eq!(config.values, saved.values);
}

#[test]
fn a_sleeping_function_decodes_nothing_and_unknown_states_are_discarded() {
    let mut config = config();
    let pm = find(&config, 1);
    config.write(4, W16, 6);
    config.write(0x10, W32, 0xd000_0000);
    config.write(pm + 4, W16, 1);
    assert!(config.is_awake());
    assert!(config.write(pm + 4, W16, 3).routing);
    assert_eq!((config.bar_address(0), config.bus_master()), (None, false));
    config.write(pm + 4, W16, 2);
    assert!(!config.is_awake());
    config.write(pm + 4, W16, 0);
    assert_eq!(config.bar_address(0), Some(0xd000_0000));
}

#[test]
fn interrupt_status_follows_the_pin() {
    let mut config = config();
    config.set_interrupt_status(true);
    assert_eq!(config.read(6, W16) & 8, 8);
    config.write(6, W16, 0xffff);
    assert_eq!(config.read(6, W16) & 8, 8, "read-only");
    config.set_interrupt_status(false);
    assert_eq!(config.read(6, W16) & 8, 0);
}

fn error(describe: impl Fn(&mut ConfigSpaceBuilder) -> &mut ConfigSpaceBuilder) -> ConfigError {
    let mut builder = ConfigSpaceBuilder::new();
    describe(&mut builder);
    builder.build().unwrap_err()
}

#[test]
fn impossible_bars_are_refused() {
    let size = |bar, size| ConfigError::BarSize { bar, size };
    assert_eq!(error(|b| b.bar(Bar::bits32(0, 0x1001))), size(0, 0x1001));
    assert_eq!(error(|b| b.bar(Bar::bits32(1, 0))), size(1, 0));
    assert_eq!(error(|b| b.bar(Bar::bits32(1, 8))), size(1, 8));
    assert_eq!(error(|b| b.bar(Bar::bits32(1, 1 << 32))), size(1, 1 << 32));
    assert_eq!(error(|b| b.bar(Bar::bits32(6, 16))), ConfigError::BarIndex(6));
    assert_eq!(error(|b| b.bar(Bar::bits64(5, 16))), ConfigError::BarIndex(5));
    let twice = error(|b| b.bar(Bar::bits64(2, 16)).bar(Bar::bits32(3, 16)));
    assert_eq!(twice, ConfigError::BarTwice(3));
}

#[test]
fn a_generic_capability_cannot_pose_as_a_known_one() {
    let generic =
        |id| Capability { id, version: 0, offset: None, flags: 0x5a, payload: vec![1], writable: vec![] };
    for id in [0x05, 0x10, 0x100] {
        assert_eq!(error(|b| b.capability(generic(id))), ConfigError::CapabilityId(id));
    }
    let config = ConfigSpaceBuilder::new().capability(generic(9)).build().unwrap();
    assert_eq!(config.read(0x40, W32), 0x005a_0009);
}

fn vsec(offset: u16, dwords: usize) -> Vsec {
    Vsec { id: 1, revision: 0, offset: Some(offset), payload: vec![0; dwords], writable: vec![] }
}

#[test]
fn impossible_capabilities_are_refused() {
    let overlap = error(|b| b.vsec(vsec(0x100, 3)).vsec(vsec(0x110, 1)));
    assert_eq!(overlap, ConfigError::CapabilityOverlap(0x110));
    assert_eq!(error(|b| b.vsec(vsec(0x102, 1))), ConfigError::CapabilityMisaligned(0x102));
    let range = ConfigError::CapabilityRange { offset: 0xffc, len: 12 };
    assert_eq!(error(|b| b.vsec(vsec(0xffc, 1))), range);
    let range = ConfigError::CapabilityRange { offset: 0x80, len: 12 };
    assert_eq!(error(|b| b.vsec(vsec(0x80, 1))), range);
    let space = ConfigError::CapabilitySpace { len: 4096 };
    let huge = Vsec { offset: None, ..vsec(0, 1022) };
    assert_eq!(error(|b| b.vsec(vsec(0x100, 1)).vsec(huge.clone())), space);
    let masks = Vsec { writable: vec![0; 2], ..vsec(0x100, 1) };
    assert_eq!(error(|b| b.vsec(masks.clone())), ConfigError::MaskCount { masks: 3, payload: 2 });
}

#[test]
fn impossible_interrupts_are_refused() {
    let msi = |vectors| Msi { vectors, per_vector_mask: false };
    for vectors in [0, 3, 64] {
        assert_eq!(error(|b| b.msi(msi(vectors))), ConfigError::MsiVectors(vectors));
    }
    assert_eq!(error(|b| b.msi(msi(1)).msi(msi(1))), ConfigError::CapabilityTwice(5));
    assert_eq!(error(|b| b.interrupt_pin(5)), ConfigError::InterruptPin(5));
    assert_eq!(error(|b| b.class(1 << 24)), ConfigError::Class(1 << 24));
    let bar = Bar::bits32(0, 0x4000);
    let zero = Msix { vectors: 0, ..msix() };
    assert_eq!(error(|b| b.bar(bar).msix(zero)), ConfigError::MsixVectors(0));
    let outside = Msix { table_offset: 0x3e00, ..msix() };
    let placement = ConfigError::MsixPlacement { bar: 0, offset: 0x3e00, len: 528 };
    assert_eq!(error(|b| b.bar(bar).msix(outside)), placement);
    let overlap = Msix { pba_offset: 0x2208, ..msix() };
    let placement = ConfigError::MsixPlacement { bar: 0, offset: 0x2208, len: 8 };
    assert_eq!(error(|b| b.bar(bar).msix(overlap)), placement);
    let other_bar = Msix { table_bar: 7, ..msix() };
    let placement = ConfigError::MsixPlacement { bar: 7, offset: 0x2000, len: 528 };
    assert_eq!(error(|b| b.bar(bar).msix(other_bar)), placement);
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(W8), Just(W16), Just(W32), Just(W64)]
}

proptest! {
    #[test]
    fn writes_never_change_read_only_bits(
        writes in prop::collection::vec((0_u16..4200, width(), any::<u32>()), 1..200)
    ) {
        let mut config = config();
        let before = config.values.clone();
        for (offset, width, value) in writes {
            config.write(offset, width, value);
        }
        for (index, (old, new)) in before.iter().zip(&config.values).enumerate() {
            let fixed = !config.writable_bits(index as u16 * 4);
            prop_assert_eq!(old & fixed, new & fixed, "dword {:#x}", index * 4);
        }
    }

    #[test]
    fn narrow_reads_are_parts_of_the_dword(offset in 0_u16..1024) {
        let config = config();
        let dword = config.read(offset * 4, W32);
        let bytes: Vec<u8> = (0..4).map(|i| config.read(offset * 4 + i, W8) as u8).collect();
        prop_assert_eq!(&bytes[..], dword.to_le_bytes());
        let high = config.read(offset * 4 + 2, W16);
        prop_assert_eq!(high, dword >> 16);
    }
}
