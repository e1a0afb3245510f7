use super::device;
use crate::irq::MsiMessage;
use crate::pci::{BarKind, CapabilityId, MsiInfo, MsixInfo, PciError, size_bars};

/// MSI-X at 0xb0 with `control`, table and pending bits at these locations.
fn msix(control: u16, table: u32, pba: u32) -> crate::pci::fake::FakeConfigSpace {
    device()
        .with_capability(CapabilityId::MSIX, 0xb0, &[])
        .with_register(0xb0, u32::from(control) << 16 | 0x11, 0xc000_0000)
        .with_register(0xb4, table, 0)
        .with_register(0xb8, pba, 0)
}

/// MSI at 0x50 with `control`; writable as a real one.
fn msi(control: u16) -> crate::pci::fake::FakeConfigSpace {
    device()
        .with_capability(CapabilityId::MSI, 0x50, &[])
        .with_register(0x50, u32::from(control) << 16 | 0x05, 0x0071_0000)
        .with_register(0x54, 0, 0xffff_fffc)
        .with_register(0x58, 0, 0xffff_ffff)
        .with_register(0x5c, 0, 0xffff_ffff)
}

#[test]
fn msix_describes_and_switches() {
    let cfg = msix(0x07ff, 0x0000_2004, 0x0001_0005);
    let info = MsixInfo::read(&cfg).unwrap().unwrap();
    assert_eq!((info.vectors, info.table_bar, info.table_offset), (2048, 4, 0x2000));
    assert_eq!((info.pba_bar, info.pba_offset), (5, 0x1_0000));
    assert_eq!((info.table_size(), info.pba_size()), (0x8000, 256));
    info.set_masked(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0xb0), Some(0x47ff_0011));
    info.set_enabled(&cfg, true).unwrap();
    info.set_masked(&cfg, false).unwrap();
    assert_eq!(cfg.peek32(0xb0), Some(0x87ff_0011));
    info.set_enabled(&cfg, false).unwrap();
    assert_eq!(cfg.peek32(0xb0), Some(0x07ff_0011));
    cfg.remove();
    assert_eq!(info.set_enabled(&cfg, true), Err(PciError::DeviceGone));
}

#[test]
fn msix_must_fit_its_bars() {
    let cfg = msix(0x001f, 0x0000_0e00, 0x0000_0000)
        .with_bar(0, BarKind::Memory32, false, 0, 0x1000)
        .with_bar(1, BarKind::Io, false, 0, 0x100);
    let bars = size_bars(&cfg).unwrap();
    let good = MsixInfo::read(&cfg).unwrap().unwrap();
    assert_eq!(good.check_bars(&bars), Ok(()), "ends with the BAR");
    let over = MsixInfo { table_offset: 0xe08, ..good };
    let error = PciError::MsixRange { bar: 0, offset: 0xe08, length: 0x200, size: 0x1000 };
    assert_eq!(over.check_bars(&bars), Err(error));
    let io = MsixInfo { pba_bar: 1, ..good };
    let error = PciError::MsixRange { bar: 1, offset: 0, length: 8, size: 0 };
    assert_eq!(io.check_bars(&bars), Err(error));
    let missing = MsixInfo { table_bar: 2, table_offset: 0xffff_fff8, ..good };
    assert!(missing.check_bars(&bars).is_err());
}

#[test]
fn msix_in_a_reserved_bar_or_over_the_end_is_an_error() {
    assert_eq!(MsixInfo::read(&msix(0, 0x6, 0)), Err(PciError::MsixBar { bar: 6 }));
    assert_eq!(MsixInfo::read(&msix(0, 0, 0x7)), Err(PciError::MsixBar { bar: 7 }));
    assert_eq!(MsixInfo::read(&device()), Ok(None));
    let cfg = device().with_capability(CapabilityId::MSIX, 0xf8, &[]);
    let error = PciError::CapabilityTruncated { id: CapabilityId::MSIX, offset: 0xf8, size: 12 };
    assert_eq!(MsixInfo::read(&cfg), Err(error));
}

#[test]
fn msi_programs_both_address_widths() {
    let cfg = msi(0x018a);
    let info = MsiInfo::read(&cfg).unwrap().unwrap();
    assert_eq!((info.vectors, info.address_64, info.per_vector_mask), (32, true, true));
    info.program(&cfg, MsiMessage { address: 0x1_fee0_0000, data: 0x4020 }, 8).unwrap();
    assert_eq!(cfg.peek32(0x54), Some(0xfee0_0000));
    assert_eq!(cfg.peek32(0x58), Some(1));
    assert_eq!(cfg.peek32(0x5c), Some(0x4020));
    assert_eq!(cfg.peek32(0x50), Some(0x01ba_0005));
    info.set_enabled(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0x50), Some(0x01bb_0005));

    let cfg = msi(0x0001);
    let info = MsiInfo::read(&cfg).unwrap().unwrap();
    assert_eq!((info.vectors, info.address_64), (1, false));
    info.program(&cfg, MsiMessage { address: 0xfee0_1000, data: 0x33 }, 1).unwrap();
    assert_eq!((cfg.peek32(0x54), cfg.peek32(0x58)), (Some(0xfee0_1000), Some(0x33)));
    assert_eq!(cfg.peek32(0x50), Some(0x0000_0005), "off while it is programmed");
}

#[test]
fn bad_msi_requests_change_nothing() {
    let cfg = msi(0x0006);
    let info = MsiInfo::read(&cfg).unwrap().unwrap();
    let before = cfg.writes();
    let good = MsiMessage { address: 0xfee0_0000, data: 0x20 };
    for vectors in [0, 3, 16, 0x8000] {
        let error = PciError::MsiVectors { vectors, limit: 8 };
        assert_eq!(info.program(&cfg, good, vectors), Err(error));
    }
    for (address, data) in
        [(0x1_0000_0000, 0x20), (0xfee0_0002, 0x20), (0xfee0_0000, 0x21), (0xfee0_0000, 0x1_0000)]
    {
        let message = MsiMessage { address, data };
        assert_eq!(info.program(&cfg, message, 2), Err(PciError::MsiMessage { address, data }));
    }
    assert_eq!(cfg.writes(), before);
}

#[test]
fn reserved_msi_counts_and_truncated_shapes_are_errors() {
    let error = PciError::MsiVectors { vectors: 64, limit: 32 };
    assert_eq!(MsiInfo::read(&msi(0x000c)), Err(error));
    let cfg = device().with_capability(CapabilityId::MSI, 0xf0, &[0x80, 0x01]);
    let error = PciError::CapabilityTruncated { id: CapabilityId::MSI, offset: 0xf0, size: 24 };
    assert_eq!(MsiInfo::read(&cfg), Err(error));
}
