use super::device;
use crate::pci::{ExtCapabilityId, PciError, Vsec, ext_capabilities, find_ext_capability, find_vsec};

const VENDOR: u16 = 0x16c3;

fn vsec(header: u32) -> Result<Option<Vsec>, PciError> {
    let cfg = device().with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x100, &[header]);
    find_vsec(&cfg, VENDOR, 6)
}

#[test]
fn walks_in_list_order() {
    let cfg = device()
        .with_ext_capability(ExtCapabilityId::AER, 2, 0x100, &[])
        .with_ext_capability(ExtCapabilityId::SRIOV, 1, 0xffc, &[])
        .with_ext_capability(ExtCapabilityId::ATS, 0xf, 0x148, &[]);
    let mut walk = ext_capabilities(&cfg).map(|c| c.map(|c| (c.id, c.version, c.offset)));
    assert_eq!(walk.next(), Some(Ok((ExtCapabilityId::AER, 2, 0x100))));
    assert_eq!(walk.next(), Some(Ok((ExtCapabilityId::SRIOV, 1, 0xffc))));
    assert_eq!(walk.next(), Some(Ok((ExtCapabilityId::ATS, 0xf, 0x148))));
    assert_eq!(walk.next(), None);
    assert_eq!(find_ext_capability(&cfg, ExtCapabilityId::VENDOR), Ok(None));
}

#[test]
fn a_function_without_extended_space_has_none() {
    assert_eq!(ext_capabilities(&device()).count(), 0);
    let unreachable = device().with_register(0x100, u32::MAX, 0);
    assert_eq!(ext_capabilities(&unreachable).count(), 0);
    unreachable.remove();
    assert_eq!(ext_capabilities(&unreachable).next(), Some(Err(PciError::DeviceGone)));
}

#[test]
fn circle_is_an_error_after_960_entries() {
    let cfg = device().with_register(0x100, 0x1001_0001, 0);
    assert_eq!(
        find_ext_capability(&cfg, ExtCapabilityId::VENDOR),
        Err(PciError::CapabilityLoop { steps: 960 })
    );
    assert_eq!(cfg.reads(), 960);
    assert_eq!(find_vsec(&cfg, VENDOR, 6), Err(PciError::CapabilityLoop { steps: 960 }));
}

#[test]
fn bad_pointers_and_headers_are_errors() {
    let low = device().with_register(0x100, 0x0401_0001, 0);
    let error = PciError::CapabilityPointer { offset: 0x40 };
    assert_eq!(find_ext_capability(&low, ExtCapabilityId::ATS), Err(error));
    let ones = device().with_register(0x100, 0x2001_0001, 0).with_register(0x200, u32::MAX, 0);
    let error = PciError::CapabilityHeader { offset: 0x200 };
    assert_eq!(find_ext_capability(&ones, ExtCapabilityId::ATS), Err(error));
}

#[test]
fn reserved_pointer_bits_do_not_count() {
    let cfg = device().with_register(0x100, 0x2031_0001, 0).with_register(0x200, 0x0001_000f, 0);
    let ats = find_ext_capability(&cfg, ExtCapabilityId::ATS).unwrap().unwrap();
    assert_eq!(ats.offset, 0x200);
}

#[test]
fn finds_the_right_vsec_among_several() {
    let cfg = device()
        .with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x100, &[0x0010_0002, 0xbad, 0xbad])
        .with_ext_capability(ExtCapabilityId::AER, 1, 0x200, &[0x0180_0006])
        .with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x300, &[0x0103_0006, 0x11, 0x22]);
    let found = find_vsec(&cfg, VENDOR, 6).unwrap().unwrap();
    assert_eq!((found.offset, found.id, found.revision, found.length), (0x300, 6, 3, 0x10));
    assert_eq!(found.read32(&cfg, 0x8), Ok(0x11));
    assert_eq!(found.read32(&cfg, 0xc), Ok(0x22));
    assert_eq!(find_vsec(&cfg, VENDOR, 7), Ok(None));
}

#[test]
fn another_vendors_numbers_mean_nothing() {
    let cfg = device().with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x100, &[0x0100_0006]);
    assert_eq!(find_vsec(&cfg, 0x10ee, 6), Ok(None));
    cfg.remove();
    assert_eq!(find_vsec(&cfg, VENDOR, 6), Err(PciError::Absent { id: u32::MAX }));
}

#[test]
fn payload_reads_stay_inside() {
    let cfg = device().with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x100, &[0x00e0_0006, 1, 2]);
    let found = find_vsec(&cfg, VENDOR, 6).unwrap().unwrap();
    assert_eq!(found.length, 0xe);
    assert_eq!(found.read32(&cfg, 0x8), Ok(1));
    for offset in [0, 4, 7, 0x9, 0xa, 0xc, 0xe, 0x10, 0xfffc, 0xffff] {
        let error = PciError::VsecRead { offset, length: 0xe };
        assert_eq!(found.read32(&cfg, offset), Err(error));
    }
    cfg.remove();
    assert_eq!(found.read32(&cfg, 0x8), Err(PciError::DeviceGone));
}

#[test]
fn impossible_lengths_are_errors() {
    let too_short = PciError::VsecLength { offset: 0x100, length: 4 };
    assert_eq!(vsec(0x0040_0006), Err(too_short));
    let too_long = PciError::VsecLength { offset: 0x100, length: 0xfff };
    assert_eq!(vsec(0xfff0_0006), Err(too_long));
    assert_eq!(vsec(0x0080_0006).unwrap().unwrap().length, 8);
    let at_end = device().with_ext_capability(ExtCapabilityId::VENDOR, 1, 0xffc, &[]);
    let error = PciError::VsecLength { offset: 0xffc, length: 4 };
    assert_eq!(find_vsec(&at_end, VENDOR, 6), Err(error));
}
