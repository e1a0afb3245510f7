//! Controllers as they are found: constructors of [`Params`].

use super::params::{Chip, Interface, Params, Revision, Timing};

/// A controller with an empty EEPROM socket, an OTP that nobody programmed, all vectors, and a PHY if the
/// chip has one inside.
pub fn controller(chip: Chip, revision: Revision) -> Params {
    let interface = match chip {
        Chip::Lan7430 => Interface::Gmii,
        Chip::Lan7431 | Chip::Lan743f => Interface::Rgmii,
        Chip::Pci11010 | Chip::Pci11414 => Interface::Sgmii,
    };
    Params {
        chip,
        revision,
        interface,
        phy: (chip == Chip::Lan7430).then_some(1),
        mac: None,
        eeprom: vec![],
        otp: vec![],
        msi_vectors: 8,
        msix_vectors: chip.vectors(),
        seed: 1,
        moderation_unit_ns: 100,
        cache_descriptors: 32,
        completion_block: 64,
        extra_buffer_every: 0,
        buffer_bytes: true,
        lso_ipv6: true,
        strict_speed: chip == Chip::Lan7430,
        otp_10_bits: false,
        wire_poll_ns: 0,
        timing: Timing::default(),
    }
}

/// LAN7430 revision A0.
pub fn lan7430_a0() -> Params {
    controller(Chip::Lan7430, Revision::A0)
}

/// LAN7430 revision B0.
pub fn lan7430_b0() -> Params {
    controller(Chip::Lan7430, Revision::B0)
}

/// LAN7431 revision B0 on RGMII, no PHY that answers.
pub fn lan7431_b0() -> Params {
    controller(Chip::Lan7431, Revision::B0)
}

/// PCI11010 revision A0 on SGMII, no PHY that answers.
pub fn pci11010_a0() -> Params {
    controller(Chip::Pci11010, Revision::A0)
}

/// PCI11010 revision B0 on SGMII, no PHY that answers.
pub fn pci11010_b0() -> Params {
    controller(Chip::Pci11010, Revision::B0)
}

/// PCI11414 revision B0 on SGMII, no PHY that answers.
pub fn pci11414_b0() -> Params {
    controller(Chip::Pci11414, Revision::B0)
}

/// The image of an EEPROM (512 bytes, blank behind the address) from which the chip loads `mac`.
pub fn eeprom_with_mac(mac: [u8; 6]) -> Vec<u8> {
    let mut image = vec![0xff; 512];
    image[0] = 0xa5;
    image[1..7].copy_from_slice(&mac);
    image
}
