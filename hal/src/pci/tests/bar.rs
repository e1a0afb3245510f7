use proptest::prelude::*;

use super::{Spy, device};
use crate::pci::fake::FakeConfigSpace;
use crate::pci::{BarKind, ConfigSpace, PciError, bars, size_bar, size_bars};

/// Memory and I/O decoding and bus mastering on.
const COMMAND_ON: u16 = 0x0007;

fn running(cfg: FakeConfigSpace) -> FakeConfigSpace {
    cfg.write16(0x04, COMMAND_ON);
    cfg
}

/// A BAR whose bits in `writable` can be written, whatever sense that makes.
fn odd_bar(index: u8, value: u32, writable: u32) -> FakeConfigSpace {
    running(device().with_register(0x10 + 4 * u16::from(index), value, writable))
}

#[test]
fn sizes_every_kind_and_restores() {
    let cfg = running(
        device()
            .with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x1000)
            .with_bar(1, BarKind::Io, false, 0xd000, 0x20)
            .with_bar(2, BarKind::Memory64, true, 0x20_0000_0000, 0x2_0000_0000)
            .with_bar(4, BarKind::Memory64, false, 0xd000_0000, 0x10),
    );
    let before: [_; 7] = core::array::from_fn(|i| cfg.peek32(0x10 + 4 * i as u16));
    let sized = size_bars(&cfg).unwrap();
    let got = sized.map(|b| b.map(|b| (b.index, b.kind, b.prefetchable, b.address, b.size)));
    let expected = [
        Some((0, BarKind::Memory32, false, 0xe000_0000, 0x1000)),
        Some((1, BarKind::Io, false, 0xd000, 0x20)),
        Some((2, BarKind::Memory64, true, 0x20_0000_0000, 0x2_0000_0000)),
        None,
        Some((4, BarKind::Memory64, false, 0xd000_0000, 0x10)),
        None,
    ];
    assert_eq!(got, expected);
    assert_eq!(before, core::array::from_fn(|i| cfg.peek32(0x10 + 4 * i as u16)));
    assert_eq!(cfg.read16(0x04), COMMAND_ON);
}

#[test]
fn plain_read_writes_nothing() {
    let cfg = device().with_bar(0, BarKind::Memory64, true, 0x1_8000_0000, 0x1000).with_bar(
        2,
        BarKind::Memory32,
        false,
        0,
        0x1000,
    );
    let all = bars(&cfg).unwrap();
    let first = all[0].unwrap();
    assert_eq!((first.address, first.prefetchable), (0x1_8000_0000, true));
    assert_eq!(all[1..], [None; 5], "no address assigned looks like not implemented");
    assert_eq!(cfg.writes(), 0);
    assert_eq!(size_bar(&cfg, 2).unwrap().unwrap().size, 0x1000);
}

#[test]
fn nothing_is_decoded_while_sizing() {
    let cfg = running(device().with_bar(0, BarKind::Memory64, true, 0x1000, 0x1000));
    let cfg = Spy::on_write(cfg, |fake, offset, _| {
        let decodes = fake.peek32(0x04).unwrap() & 3 != 0;
        assert!(offset == 0x04 || !decodes, "write to {offset:#x} while decoding");
    });
    assert!(size_bars(&cfg).unwrap()[0].is_some());
    assert!(size_bar(&cfg, 0).unwrap().is_some());
    assert!(cfg.fake.writes() > 8);
}

#[test]
fn status_errors_survive_sizing() {
    let cfg = device().with_register(0x04, 0x8000_0006, 0x0547).with_clear_bits(0x04, 0xf900_0000);
    size_bars(&cfg).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0x8000_0006));
}

#[test]
fn hostile_masks_are_errors_and_are_restored() {
    let cases = [
        (odd_bar(0, 0x8, 0), 0, PciError::BarSizeZero { index: 0, raw: 0x8 }),
        (odd_bar(1, 0, 0xffff_0f00), 1, PciError::BarMask { index: 1, mask: 0xffff_0f00 }),
        (odd_bar(1, 0, 0x00ff_f000), 1, PciError::BarMask { index: 1, mask: 0x00ff_f000 }),
        (odd_bar(2, 0, 0xffff_f008), 2, PciError::BarChanged { index: 2, before: 0, after: !0xff7 }),
        (odd_bar(3, 0x6, 0xffff_f000), 3, PciError::BarType { index: 3, raw: 0x6 }),
        (odd_bar(3, 0x3, 0xffff_fff0), 3, PciError::BarType { index: 3, raw: 0x3 }),
        (odd_bar(4, !0, !0), 4, PciError::BarType { index: 4, raw: !0 }),
        (odd_bar(5, 0x4, 0xffff_f000), 5, PciError::Bar64AtEnd { index: 5 }),
        (odd_bar(0, 0x1100, 0xffff_f000), 0, PciError::BarMask { index: 0, mask: 0xffff_f100 }),
    ];
    for (cfg, index, error) in cases {
        let before = cfg.peek32(0x10 + 4 * u16::from(index));
        assert_eq!(size_bar(&cfg, index), Err(error));
        assert_eq!(size_bars(&cfg), Err(error));
        assert_eq!(cfg.peek32(0x10 + 4 * u16::from(index)), before, "{error}");
        assert_eq!(cfg.read16(0x04), COMMAND_ON, "{error}");
    }
}

#[test]
fn an_address_that_its_size_cannot_hold_is_an_error() {
    // A sane register has no such bit; this one has until it is sized.
    let cfg =
        device().with_bar(0, BarKind::Memory32, false, 0xe000_1100, 0x1000).with_clear_bits(0x10, 0x100);
    assert_eq!(
        size_bar(&cfg, 0),
        Err(PciError::BarMisaligned { index: 0, address: 0xe000_1100, size: 0x1000 })
    );
}

#[test]
fn a_64_bit_mask_needs_its_upper_half() {
    let cfg = odd_bar(0, 0x4, 0xffff_f000);
    assert_eq!(size_bar(&cfg, 0), Err(PciError::BarMask { index: 0, mask: 0xffff_f000 }));
}

#[test]
fn io_may_have_16_address_bits() {
    let cfg = odd_bar(0, 0x1001, 0xffe0);
    let bar = size_bar(&cfg, 0).unwrap().unwrap();
    assert_eq!((bar.kind, bar.address, bar.size), (BarKind::Io, 0x1000, 0x20));
    assert!(!bar.is_memory());
}

#[test]
fn one_bad_bar_leaves_the_others_usable() {
    let cfg = device().with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x1000).with_register(
        0x18,
        0,
        0x00ff_0000,
    );
    assert!(size_bars(&cfg).is_err());
    assert_eq!(size_bar(&cfg, 0).unwrap().unwrap().size, 0x1000);
}

#[test]
fn wrong_indices_are_told_apart() {
    let cfg = device().with_bar(0, BarKind::Memory64, false, 0x1000, 0x1000);
    assert_eq!(size_bar(&cfg, 1), Err(PciError::BarUpperHalf { index: 1 }));
    assert_eq!(size_bar(&cfg, 6), Err(PciError::BarIndex { index: 6, count: 6 }));
    assert_eq!(size_bar(&cfg, 2), Ok(None));
    let bridge = device().with_register(0x0c, 0x0001_0000, 0);
    assert_eq!(size_bar(&bridge, 2), Err(PciError::BarIndex { index: 2, count: 2 }));
    let cardbus = device().with_register(0x0c, 0x0002_0000, 0);
    assert_eq!(bars(&cardbus), Err(PciError::HeaderLayout { layout: 2 }));
}

#[test]
fn a_pulled_device_is_gone() {
    let cfg = device().with_bar(0, BarKind::Memory32, false, 0, 0x1000);
    cfg.remove();
    assert_eq!(bars(&cfg), Err(PciError::DeviceGone));
    assert_eq!(size_bars(&cfg), Err(PciError::DeviceGone));
    assert_eq!(size_bar(&cfg, 0), Err(PciError::DeviceGone));
}

proptest! {
    #[test]
    fn any_programmed_bar_is_found(
        slot in 0u8..6,
        wide: bool,
        prefetchable: bool,
        order in 4u32..=63,
        place: u64,
    ) {
        let wide = wide && slot < 5;
        let size = 1u64 << if wide { order } else { order % 28 + 4 };
        let address = place & !(size - 1) & if wide { u64::MAX } else { 0xffff_ffff };
        let kind = if wide { BarKind::Memory64 } else { BarKind::Memory32 };
        let cfg = device().with_bar(slot, kind, prefetchable, address, size);
        let bar = size_bar(&cfg, slot).unwrap().unwrap();
        prop_assert_eq!((bar.index, bar.kind, bar.prefetchable), (slot, kind, prefetchable));
        prop_assert_eq!((bar.address, bar.size), (address, size));
        prop_assert_eq!(size_bars(&cfg).unwrap()[usize::from(slot)], Some(bar));
    }
}
