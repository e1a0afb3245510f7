use super::*;
use crate::error::Wait;
use crate::testing::{self, Device, LAN7430, PCI11414, Waited};
use std::vec;
use std::vec::Vec;

/// An EEPROM behind the registers at `base`; `enabled` if it needs no command for writes.
fn with_eeprom(device: &Device, base: usize, read: u32, write: u32, mut enabled: bool) {
    let mut bytes = vec![0xff_u8; 0x1_0000];
    let (enable, disable) = (2, 1);
    device.behave(move |words, offset, value| {
        let Some(value) = value.filter(|value| offset == base && value >> 31 != 0) else { return };
        let address = (value & 0x1ff) as usize;
        match value >> 28 & 7 {
            command if command == write && enabled => bytes[address] = words.get(base + 4) as u8,
            command if command == read => words.set(base + 4, bytes[address].into()),
            command if command == enable => enabled = true,
            command if command == disable => enabled = false,
            _ => {}
        }
        words.set(base, value & !(1 << 31));
    });
}

#[test]
fn an_eeprom_is_written_read_and_locked_again() {
    for (id, base, enabled) in [(LAN7430, 0x40, false), (PCI11414, 0x4e00, true)] {
        let (device, mut nic) = testing::brought_up(id);
        with_eeprom(&device, base, 0, 3, enabled);
        let delay = &mut Waited::default();
        let image = [0xa5, 0x00, 0x80, 0x0f, 0x12, 0x34, 0x56];
        nic.write_memory(Memory::Eeprom, 0x74a5, 0, &image, delay).unwrap();
        let mac = nic.stored_mac_address(Memory::Eeprom, delay).unwrap();
        assert_eq!(mac, Some("00:80:0f:12:34:56".parse().unwrap()));
        let commands: Vec<u32> =
            device.take_writes().into_iter().filter(|w| w.0 == base).map(|w| w.1).collect();
        if id == LAN7430 {
            assert_eq!((commands[0], commands[8]), (0xa000_0000, 0x9000_0000));
        } else {
            assert_eq!(commands[0], 0xb000_0000);
            assert_eq!(device.peek(0x40a0), 0, "the lock was given back");
        }
    }
}

#[test]
fn nothing_is_touched_beyond_the_size_or_without_the_magic() {
    for (id, eeprom) in [(LAN7430, 512), (PCI11414, 65_536)] {
        let (device, mut nic) = testing::brought_up(id);
        let delay = &mut Waited::default();
        for (memory, size) in [(Memory::Eeprom, eeprom), (Memory::Otp, 1024)] {
            assert_eq!(nic.memory_size(memory), size);
            for (offset, length) in [(size, 1), (size - 1, 2), (usize::MAX, 1), (0, size + 1)] {
                let mut bytes = vec![0; length];
                let result = nic.read_memory(memory, offset, &mut bytes, delay);
                assert!(matches!(result, Err(Error::Range { .. })));
                let result = nic.write_memory(memory, memory.magic(), offset, &bytes, delay);
                assert!(matches!(result, Err(Error::Range { .. })));
            }
        }
        let result = nic.write_memory(Memory::Otp, Memory::Eeprom.magic(), 0, &[1], delay);
        assert!(matches!(result, Err(Error::Range { .. })));
        assert!(device.take_writes().is_empty());
    }
}

#[test]
fn no_eeprom_is_told_and_its_time_out_is_cleared() {
    for (id, base, timeout) in [(LAN7430, 0x40, 1 << 10), (PCI11414, 0x4e00, 1 << 17)] {
        let (device, mut nic) = testing::brought_up(id);
        device.behave(move |words, offset, value| match value {
            Some(value) if offset == base && value >> 31 != 0 => words.set(base, timeout),
            Some(value) if offset == base => words.set(base, words.get(base) & !value),
            _ => {}
        });
        let delay = &mut Waited::default();
        let result = nic.write_memory(Memory::Eeprom, 0x74a5, 0, &[1], delay);
        assert_eq!(result, Err(Error::NoMemory));
        assert_eq!(device.peek(base) & timeout, 0);
        assert_eq!(device.peek(0x40a0), 0);
    }
}

#[test]
fn what_stays_busy_is_a_timeout_and_what_is_gone_is_gone() {
    for (id, command, status) in [(LAN7430, 0x40, 0x1030), (PCI11414, 0x4e00, 0x5030)] {
        let (device, mut nic) = testing::brought_up(id);
        let delay = &mut Waited::default();
        device.poke(command, 1 << 31);
        device.poke(status, 1);
        let stuck = |what| Err(Error::Timeout { what, waited_us: LIMIT_US });
        assert_eq!(nic.read_memory(Memory::Eeprom, 0, &mut [0], delay), stuck(Wait::Eeprom));
        assert_eq!(nic.read_memory(Memory::Otp, 0, &mut [0], delay), stuck(Wait::Otp));
        assert_eq!(device.peek(status - 0x30) & 1, 1, "without power again");
        assert!(delay.0 < 3 * u64::from(LIMIT_US) * 1_000);
        device.remove();
        for memory in [Memory::Eeprom, Memory::Otp] {
            assert_eq!(nic.read_memory(memory, 0, &mut [0], delay), Err(Error::DeviceGone));
        }
    }
}

#[test]
fn a_lock_that_another_function_has_is_waited_for_with_an_end() {
    let (device, mut nic) = testing::brought_up(PCI11414);
    device.behave(|words, offset, _| {
        if offset == 0x40a0 {
            words.set(0x40a0, 0);
        }
    });
    let result = nic.read_memory(Memory::Eeprom, 0, &mut [0], &mut Waited::default());
    assert_eq!(result, Err(Error::Timeout { what: Wait::SystemLock, waited_us: 1_000_000 }));
}

/// OTP cells: ones stay.
fn with_otp(device: &Device, base: usize, mut cells: Vec<u8>) {
    device.behave(move |words, offset, value| {
        if offset != base + 0x28 || value != Some(1) || words.get(base) & 1 != 0 {
            return;
        }
        let address = (words.get(base + 4) << 8 | words.get(base + 8)) as usize;
        if words.get(base + 0x20) & 1 != 0 {
            words.set(base + 0x18, cells[address].into());
        }
        if words.get(base + 0x24) & 8 != 0 && words.get(base + 0x14) & 1 != 0 {
            cells[address] |= words.get(base + 0x10) as u8;
        }
        words.set(base + 0x20, 0);
        words.set(base + 0x24, 0);
    });
}

#[test]
fn otp_is_programmed_once_and_never_cleared() {
    for (id, base) in [(LAN7430, 0x1000), (PCI11414, 0x5000)] {
        let (device, mut nic) = testing::brought_up(id);
        device.poke(base, 1);
        let mut cells = vec![0; 1024];
        cells[0x301] = 0x81;
        with_otp(&device, base, cells);
        let delay = &mut Waited::default();
        let magic = Memory::Otp.magic();
        nic.write_memory(Memory::Otp, magic, 0x300, &[0x12, 0xc1, 0x00], delay).unwrap();
        let mut bytes = [0xff; 3];
        nic.read_memory(Memory::Otp, 0x300, &mut bytes, delay).unwrap();
        assert_eq!(bytes, [0x12, 0xc1, 0x00]);
        assert_eq!(device.peek(base), 1, "without power again");
        device.take_writes();
        let result = nic.write_memory(Memory::Otp, magic, 0x300, &[0x13, 0x41], delay);
        assert_eq!(result, Err(Error::Programmed { offset: 0x301, found: 0xc1, wanted: 0x41 }));
        assert!(device.take_writes().iter().all(|(offset, _)| *offset != base + 0x24));
    }
}

#[test]
fn only_an_image_has_an_address() {
    let image = |first| [first, 0x00, 0x80, 0x0f, 1, 2, 3, 0];
    for (memory, indicator, is) in [
        (Memory::Eeprom, 0xa5, true),
        (Memory::Eeprom, 0xaa, true),
        (Memory::Eeprom, 0xff, false),
        (Memory::Eeprom, 0xf3, false),
        (Memory::Otp, 0xf3, true),
        (Memory::Otp, 0xf7, false),
    ] {
        assert_eq!(image_mac_address(memory, &image(indicator)).is_some(), is);
    }
    assert_eq!(image_mac_address(Memory::Eeprom, &[0xa5; 6]), None);
    assert_eq!(image_mac_address(Memory::Eeprom, &[0xa5, 0, 0, 0, 0, 0, 0]), None);
}
