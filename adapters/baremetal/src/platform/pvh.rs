//! The start information of the x86/HVM direct boot protocol ("PVH").
//!
//! Layout: Xen's `hvm_start_info` (`docs/misc/pvh.pandoc`, `xen/include/public/arch-x86/hvm/start_info.h`),
//! version 1.

use super::{MemoryRange, PhysicalMemory, PlatformError, Ranges, read32, read64};

const MAGIC: u32 = 0x336e_c578;
const SIZE: usize = 56;
const ENTRY: usize = 24;
const RAM: u32 = 1;
/// Most entries of the memory map that are looked at.
const MAX_ENTRIES: u32 = 256;
/// Longest command line, in bytes.
pub const MAX_COMMAND_LINE: usize = 2048;

/// What the loader says.
#[derive(Clone, Debug)]
pub struct StartInfo {
    /// Usable memory.
    pub ram: Ranges,
    /// Memory that is something else.
    pub reserved: Ranges,
    /// Where ACPI begins.
    pub rsdp: u64,
    /// Where the command line begins, 0 for none.
    command_line: u64,
}

impl StartInfo {
    /// Reads it at `address`.
    ///
    /// # Errors
    /// [`PlatformError::Firmware`].
    pub fn read(memory: &impl PhysicalMemory, address: u64) -> Result<Self, PlatformError> {
        let unusable = PlatformError::Firmware;
        let head = memory.bytes(address, SIZE).ok_or(unusable("the PVH start information is unreadable"))?;
        let word = |at| read32(head, at).unwrap_or(0);
        let long = |at| read64(head, at).unwrap_or(0);
        if word(0) != MAGIC || word(4) < 1 {
            return Err(unusable("there is no PVH start information of version 1 (boot with -kernel)"));
        }
        let mut info =
            Self { ram: Ranges::new(), reserved: Ranges::new(), rsdp: long(32), command_line: long(24) };
        let (map, entries) = (long(40), word(48).min(MAX_ENTRIES));
        for index in 0..u64::from(entries) {
            let at = map.wrapping_add(index * ENTRY as u64);
            let entry = memory.bytes(at, ENTRY).ok_or(unusable("the memory map is unreadable"))?;
            info.add(entry);
        }
        Ok(info)
    }

    fn add(&mut self, entry: &[u8]) {
        let (Some(start), Some(size), Some(kind)) = (read64(entry, 0), read64(entry, 8), read32(entry, 16))
        else {
            return;
        };
        let list = if kind == RAM { &mut self.ram } else { &mut self.reserved };
        // A range too many is memory that is not used.
        let _ = list.try_push(MemoryRange { start, size });
    }

    /// The command line, `""` if there is none or it is not text.
    pub fn command_line<'m>(&self, memory: &'m impl PhysicalMemory) -> &'m str {
        let length = (0..MAX_COMMAND_LINE as u64).find(|n| {
            let at = self.command_line.checked_add(*n);
            at.and_then(|at| memory.bytes(at, 1)).is_none_or(|byte| byte == [0])
        });
        let bytes = length.and_then(|length| memory.bytes(self.command_line, length as usize));
        let text = if self.command_line == 0 { None } else { bytes };
        text.and_then(|text| core::str::from_utf8(text).ok()).unwrap_or("")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::vec::Vec;

    /// Memory from address 0x1000 on.
    pub struct Bytes(pub Vec<u8>);

    impl PhysicalMemory for Bytes {
        fn bytes(&self, address: u64, size: usize) -> Option<&[u8]> {
            let at = usize::try_from(address.checked_sub(0x1000)?).ok()?;
            self.0.get(at..at.checked_add(size)?)
        }
    }

    impl Bytes {
        pub fn put(&mut self, address: usize, bytes: &[u8]) {
            self.0[address - 0x1000..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn memory() -> Bytes {
        let mut memory = Bytes(std::vec![0; 0x1000]);
        memory.put(0x1000, &MAGIC.to_le_bytes());
        memory.put(0x1004, &[1]);
        memory.put(0x1018, &0x1100u64.to_le_bytes());
        memory.put(0x1020, &0xf_0000u64.to_le_bytes());
        memory.put(0x1028, &0x1200u64.to_le_bytes());
        memory.put(0x1030, &[2]);
        memory.put(0x1100, b"irq=msi count=5\0");
        memory.put(0x1208, &0x9_fc00u64.to_le_bytes());
        memory.put(0x1210, &[1]);
        memory.put(0x1218, &0x9_fc00u64.to_le_bytes());
        memory.put(0x1220, &0x400u64.to_le_bytes());
        memory.put(0x1228, &[2]);
        memory
    }

    #[test]
    fn memory_map_and_command_line_are_read() {
        let memory = memory();
        let info = StartInfo::read(&memory, 0x1000).unwrap();
        assert_eq!(info.ram[..], [MemoryRange { start: 0, size: 0x9_fc00 }]);
        assert_eq!(info.reserved[..], [MemoryRange { start: 0x9_fc00, size: 0x400 }]);
        assert_eq!((info.rsdp, info.command_line(&memory)), (0xf_0000, "irq=msi count=5"));
    }

    #[test]
    fn nonsense_is_an_error_or_nothing() {
        let mut bad = memory();
        bad.put(0x1018, &0x1fff_u64.to_le_bytes());
        bad.put(0x1fff, b"x");
        let info = StartInfo::read(&bad, 0x1000).unwrap();
        assert_eq!(info.command_line(&bad), "x", "ends with the memory");
        bad.put(0x1028, &u64::MAX.to_le_bytes());
        assert!(StartInfo::read(&bad, 0x1000).is_err(), "no memory map there");
        assert!(StartInfo::read(&bad, 0x1004).is_err() && StartInfo::read(&bad, 0).is_err());
    }
}
