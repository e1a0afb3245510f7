use super::*;
use crate::testing::{self, LAN7430, PCI11414};
use proptest::prelude::*;

/// The reflected CRC-16 of ANSI (ARC's, begun with ones), its bits turned round at the end.
fn reflected(bytes: &[u8]) -> u16 {
    let mut crc = 0xffff_u16;
    for byte in bytes {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xa001 } else { crc >> 1 };
        }
    }
    crc.reverse_bits()
}

proptest! {
    #[test]
    fn both_ways_to_compute_the_crc_agree(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        prop_assert_eq!(crc16(&bytes), reflected(&bytes));
    }
}

#[test]
fn the_crcs_of_the_filters_are_these() {
    assert_eq!(crc16(&[0x01, 0x00, 0x5e]), 0x851f);
    assert_eq!(crc16(&[0x33, 0x33]), 0xaaaa);
    assert_eq!(crc16(&[0x08, 0x06]), 0x614e);
    // CRC-16/MODBUS is the reflected one: its check value.
    assert_eq!(crc16(b"123456789"), 0x4b37_u16.reverse_bits());
}

#[test]
fn multicasts_and_arp_take_three_filters() {
    let (device, mut nic) = testing::brought_up(LAN7430);
    device.poke(0x14, 0x0000_8080);
    device.poke(0x104, 0x05f2_0004);
    let options = WakeOptions { multicast: true, arp: true, ..WakeOptions::default() };
    let armed = nic.arm_wake(&options).unwrap();
    assert_eq!([0x150, 0x154, 0x158].map(|o| device.peek(o)), [0x8200_851f, 0x8200_aaaa, 0x8100_614e]);
    assert_eq!([0x200, 0x210, 0x220].map(|o| device.peek(o)), [7, 3, 0x3000]);
    assert_eq!(device.peek(0x140), 1 << 14 | 1 << 2);
    assert_eq!(device.peek(0x104), 0x05f2_0005);
    // GPIO wake-up is off; PHY power, clocks, status and its clearing are on.
    assert_eq!(device.peek(0x14), 1 << 27 | 1 << 25 | 1 << 23 | 1 << 18 | 3 << 8 | 0x80 | 1 << 3 | 3);
    assert_eq!(armed, Armed { hw_cfg: None });
    device.poke(0x144, 1 << 8 | 2);
    let cause = nic.disarm_wake(armed).unwrap();
    assert_eq!((cause.filter(), cause.magic()), (Some(2), false));
    assert_eq!((device.peek(0x150), device.peek(0x140), device.peek(0x600)), (0, 0x2af0, 0xf0));
    assert_eq!(device.peek(0x144), 0);
    assert_eq!(device.peek(0x14) & wake_enables(), 0);
}

#[test]
fn pci11x1x_has_passwords_and_is_protected_meanwhile() {
    let (device, mut nic) = testing::brought_up(PCI11414);
    device.poke(0x10, 0x40);
    let options = WakeOptions { magic: true, password: Some([1, 2, 3, 4, 5, 6]), ..WakeOptions::default() };
    let armed = nic.arm_wake(&options).unwrap();
    assert_eq!((device.peek(0x14c), device.peek(0x148)), (0x0403_0201, 0x0605));
    assert_eq!(device.peek(0x140), 1 << 21 | 1 << 1);
    assert_eq!(device.peek(0x10), 0x40 | 1 << 19 | 0xf << 12);
    assert_eq!(device.peek(0x14) & (1 << 18 | 1 << 25 | 1 << 3), 1 << 25 | 1 << 3);
    device.poke(0x144, 1 << 10);
    assert!(nic.disarm_wake(armed).unwrap().magic());
    assert_eq!((device.peek(0x14c), device.peek(0x148), device.peek(0x10)), (0, 0, 0x40));
}

#[test]
fn nothing_is_armed_that_cannot_be() {
    let password = Some([1; 6]);
    for (id, magic) in [(LAN7430, true), (PCI11414, false)] {
        let (device, mut nic) = testing::brought_up(id);
        let options = WakeOptions { magic, password, unicast: true, ..WakeOptions::default() };
        assert!(matches!(nic.arm_wake(&options), Err(Error::Unsupported(_))));
        assert!(device.take_writes().is_empty());
        device.remove();
        assert_eq!(nic.arm_wake(&WakeOptions::default()), Err(Error::DeviceGone));
        assert_eq!(nic.disarm_wake(Armed { hw_cfg: Some(1) }), Err(Error::DeviceGone));
    }
}

#[test]
fn no_options_only_clear() {
    let (device, mut nic) = testing::brought_up(LAN7430);
    let armed = nic.arm_wake(&WakeOptions::default()).unwrap();
    assert_eq!(device.take_writes(), [(0x140, 0), (0x600, 0), (0x144, u32::MAX)]);
    let _ = armed;
    let phy = WakeOptions { phy: true, ..WakeOptions::default() };
    let _ = nic.arm_wake(&phy).unwrap();
    assert_eq!(device.peek(0x14) & wake_enables(), 1 << 2);
    assert_eq!(device.peek(0x104) & 1, 0);
}
