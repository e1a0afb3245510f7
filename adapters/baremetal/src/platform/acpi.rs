//! The few ACPI tables that are needed: where ECAM is, and how to switch the machine off.
//!
//! Layouts: ACPI specification 6.5, chapter 5; the MCFG table from the PCI Firmware specification 3.3. A small
//! parser of its own, because crates for ACPI want an environment for AML, which is not needed here.

use super::{PhysicalMemory, PlatformError, read32, read64};

/// Most tables that are looked at.
const MAX_TABLES: usize = 128;
/// Largest table.
const MAX_TABLE: u32 = 1 << 20;
/// Bytes of the header that all tables have.
const HEADER: usize = 36;

/// The configuration space of a host bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcfg {
    /// Where bus 0 would be.
    pub base: u64,
    /// First bus.
    pub first_bus: u8,
    /// Last bus.
    pub last_bus: u8,
}

/// Tables, by the address of the root pointer (RSDP).
#[derive(Clone, Copy, Debug)]
pub struct Acpi<'m, M> {
    memory: &'m M,
    /// Where the root table is, and the width of its entries in bytes.
    root: (u64, usize),
}

impl<'m, M: PhysicalMemory> Acpi<'m, M> {
    /// From the root pointer at `rsdp`.
    ///
    /// # Errors
    /// [`PlatformError::Firmware`].
    pub fn new(memory: &'m M, rsdp: u64) -> Result<Self, PlatformError> {
        let unusable = PlatformError::Firmware;
        let first = memory.bytes(rsdp, 20).ok_or(unusable("the ACPI root pointer is unreadable"))?;
        if !first.starts_with(b"RSD PTR ") || sum(first) != 0 {
            return Err(unusable("there is no ACPI root pointer"));
        }
        let has_xsdt = first.get(15).is_some_and(|revision| *revision >= 2);
        let long = if has_xsdt { memory.bytes(rsdp, 36).and_then(|b| read64(b, 24)) } else { None };
        let root = match long.filter(|address| *address != 0) {
            Some(xsdt) => (xsdt, 8),
            None => (read32(first, 16).unwrap_or(0).into(), 4),
        };
        Ok(Self { memory, root })
    }

    /// The table with this signature, header included.
    pub fn table(&self, signature: &[u8; 4]) -> Option<&'m [u8]> {
        let (address, width) = self.root;
        let root = self.checked(address)?;
        let entries = root.get(HEADER..)?.chunks_exact(width).take(MAX_TABLES);
        entries
            .filter_map(|entry| match width {
                8 => read64(entry, 0),
                _ => read32(entry, 0).map(u64::from),
            })
            .filter_map(|address| self.checked(address))
            .find(|table| table.starts_with(signature))
    }

    /// The table at `address`, if its length and checksum are right.
    fn checked(&self, address: u64) -> Option<&'m [u8]> {
        let length = read32(self.memory.bytes(address, HEADER)?, 4)?;
        if !(HEADER as u32..=MAX_TABLE).contains(&length) {
            return None;
        }
        self.memory.bytes(address, length as usize).filter(|table| sum(table) == 0)
    }

    /// The configuration space of the first host bridge of segment 0.
    ///
    /// # Errors
    /// [`PlatformError::Firmware`].
    pub fn mcfg(&self) -> Result<Mcfg, PlatformError> {
        let table = self.table(b"MCFG").ok_or(PlatformError::Firmware("no ACPI table MCFG: no PCIe"))?;
        let entries = table.get(HEADER + 8..).unwrap_or(&[]).chunks_exact(16);
        let first = entries.filter(|entry| entry.get(8..10) == Some(&[0, 0])).find_map(|entry| {
            let mcfg =
                Mcfg { base: read64(entry, 0)?, first_bus: *entry.get(10)?, last_bus: *entry.get(11)? };
            (mcfg.first_bus <= mcfg.last_bus).then_some(mcfg)
        });
        first.ok_or(PlatformError::Firmware("the ACPI table MCFG has no entry for segment 0"))
    }

    /// The I/O port of the register that switches the machine off (`PM1a_CNT_BLK`).
    pub fn power_control_port(&self) -> Option<u16> {
        let port = read32(self.table(b"FACP")?, 64)?;
        u16::try_from(port).ok().filter(|port| *port != 0)
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::pvh::tests::Bytes;
    use super::*;
    use std::vec::Vec;

    fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut table = signature.to_vec();
        table.extend(((HEADER + body.len()) as u32).to_le_bytes());
        table.resize(HEADER, 0);
        table.extend(body);
        table[9] = 0u8.wrapping_sub(sum(&table));
        table
    }

    fn memory() -> Bytes {
        let mut memory = Bytes(std::vec![0; 0x1000]);
        let mut rsdp = b"RSD PTR \0OEMOEM\0".to_vec();
        rsdp.extend(0x1100u32.to_le_bytes());
        rsdp[8] = 0u8.wrapping_sub(sum(&rsdp));
        memory.put(0x1000, &rsdp);
        memory.put(0x1100, &table(b"RSDT", &[0, 0x12, 0, 0, 0xff, 0xff, 0, 0, 0, 0x13, 0, 0]));
        let mut fadt = [0; 100];
        fadt[64 - HEADER..][..2].copy_from_slice(&0x604u16.to_le_bytes());
        memory.put(0x1200, &table(b"FACP", &fadt));
        let mut mcfg = [0; 40];
        mcfg[8 + 8] = 1; // segment 1
        mcfg[24..32].copy_from_slice(&0xb000_0000u64.to_le_bytes());
        mcfg[35] = 255;
        memory.put(0x1300, &table(b"MCFG", &mcfg));
        memory
    }

    #[test]
    fn tables_are_found_and_read() {
        let memory = memory();
        let acpi = Acpi::new(&memory, 0x1000).unwrap();
        assert_eq!(acpi.mcfg(), Ok(Mcfg { base: 0xb000_0000, first_bus: 0, last_bus: 255 }));
        assert_eq!(acpi.power_control_port(), Some(0x604));
        assert!(acpi.table(b"HPET").is_none());
    }

    #[test]
    fn damage_is_noticed() {
        for at in [0x1003, 0x1104, 0x1304, 0x1310] {
            let mut memory = memory();
            memory.put(at, &[0xee]);
            let mcfg = Acpi::new(&memory, 0x1000).and_then(|acpi| acpi.mcfg());
            assert!(mcfg.is_err(), "{at:#x}");
        }
        assert!(Acpi::new(&memory(), 0x5000).is_err());
    }
}
