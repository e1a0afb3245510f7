use super::device;
use crate::error::{Error, ErrorKind};
use crate::pci::fake::FakeConfigSpace;
use crate::pci::{Identity, PciError};

#[test]
fn reads_every_field() {
    let cfg = device().with_register(0x08, 0x1201_00a5, 0).with_register(0x0c, 0x0080_0010, 0).with_register(
        0x2c,
        0x1234_16c3,
        0,
    );
    let id = Identity::read(&cfg).unwrap();
    assert_eq!((id.vendor, id.device), (0x16c3, 0xedda));
    assert_eq!((id.subsystem_vendor, id.subsystem_device), (0x16c3, 0x1234));
    assert_eq!((id.class, id.revision), (0x12_0100, 0xa5));
    assert_eq!((id.header_type.layout(), id.header_type.multi_function()), (0, true));
}

#[test]
fn a_bridge_has_no_subsystem_in_its_header() {
    let cfg = device().with_register(0x0c, 0x0001_0000, 0).with_register(0x2c, 0x5678_1234, 0);
    let id = Identity::read(&cfg).unwrap();
    assert_eq!((id.subsystem_vendor, id.subsystem_device), (0, 0));
}

#[test]
fn empty_slots_in_all_their_forms_are_absent() {
    for id in [u32::MAX, 0, 0x0000_ffff, 0xffff_0000, 0x1234_ffff] {
        let cfg = device().with_register(0, id, 0);
        assert_eq!(Identity::read(&cfg), Err(PciError::Absent { id }));
    }
}

#[test]
fn retry_status_is_not_an_identity() {
    let cfg = device().with_register(0, 0xffff_0001, 0);
    let error = Identity::read(&cfg).unwrap_err();
    assert_eq!(error, PciError::NotReady);
    assert_eq!(error.kind(), ErrorKind::Busy);
}

#[test]
fn verify_tells_gone_from_exchanged() {
    let cfg = device();
    let id = Identity::read(&cfg).unwrap();
    assert_eq!(id.verify(&cfg), Ok(()));
    let other = FakeConfigSpace::new(0x10ee, 0xb054);
    let (expected, found) = (0xedda_16c3, 0xb054_10ee);
    assert_eq!(id.verify(&other), Err(PciError::IdentityChanged { expected, found }));
    cfg.remove();
    let error = id.verify(&cfg).unwrap_err();
    assert_eq!((error, error.kind()), (PciError::DeviceGone, ErrorKind::DeviceGone));
}

#[test]
fn messages_carry_the_numbers() {
    let text = std::format!("{}", PciError::BarMask { index: 2, mask: 0xffff_0f00 });
    assert_eq!(text, "BAR 2 has a size mask that is no power of two (0xffff0f00)");
}
