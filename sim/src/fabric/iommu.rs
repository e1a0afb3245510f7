//! The IOMMU in front of one function: what the device can reach, and what it tried to.

use super::MESSAGE_RANGE;
use crate::memory::HostRegion;
use std::collections::BTreeMap;

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device reads.
    Read,
    /// The device writes.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    pub(super) const fn allows(self, is_write: bool) -> bool {
        matches!((self, is_write), (Access::ReadWrite, _) | (Access::Read, false) | (Access::Write, true))
    }
}

/// Why a range could not be mapped or unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IommuError {
    /// Zero bytes, or past the end of the address space.
    #[error("{len:#x} bytes at {iova:#x} are no range")]
    Range {
        /// First address.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
    /// A part of the range is mapped already, or lies where interrupt messages go.
    #[error("{len:#x} bytes at {iova:#x} overlap another mapping")]
    Overlap {
        /// First address.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
    /// No mapping has exactly this range.
    #[error("{len:#x} bytes at {iova:#x} are not mapped as one range")]
    NotMapped {
        /// First address.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Fault injection refused the mapping.
    #[error("the IOMMU refused to map {len:#x} bytes at {iova:#x}")]
    Refused {
        /// First address.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// What is behind a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backing {
    /// An address of the machine: RAM or a BAR.
    Physical(u64),
    /// A buffer of the driver.
    Host(HostRegion),
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    len: u64,
    backing: Backing,
    access: Access,
}

/// A request that the IOMMU did not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IommuFault {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// The address that the device used.
    pub address: u64,
    /// Whether it wanted to write.
    pub is_write: bool,
    /// Whether there was a mapping, without this permission.
    pub is_permission: bool,
}

/// Why a request does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no mapping.
    Unmapped,
    /// The mapping forbids the direction.
    Permission,
}

/// Where a request goes: backing, offset in it, and bytes left there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    pub backing: Backing,
    pub offset: u64,
    pub len: u64,
}

/// Faults that are kept in detail; later ones are only counted.
const FAULT_LOG: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Iommu {
    mappings: BTreeMap<u64, Mapping>,
    faults: Vec<IommuFault>,
}

impl Iommu {
    pub fn map(&mut self, iova: u64, len: u64, backing: Backing, access: Access) -> Result<(), IommuError> {
        let last = len.checked_sub(1).and_then(|size| iova.checked_add(size));
        let last = last.ok_or(IommuError::Range { iova, len })?;
        if self.conflict(iova, last).is_some() {
            return Err(IommuError::Overlap { iova, len });
        }
        self.mappings.insert(iova, Mapping { len, backing, access });
        Ok(())
    }

    /// The last address of something that is mapped in `first..=last`, or of the range for
    /// interrupt messages if it lies there.
    pub fn conflict(&self, first: u64, last: u64) -> Option<u64> {
        let before = self.mappings.range(..=last).next_back();
        let end = before.map(|(start, mapping)| start + (mapping.len - 1));
        let messages = first < MESSAGE_RANGE.end && last >= MESSAGE_RANGE.start;
        end.filter(|end| *end >= first).or(messages.then_some(MESSAGE_RANGE.end - 1))
    }

    /// Takes exactly one whole mapping away.
    pub fn unmap(&mut self, iova: u64, len: u64) -> Result<(), IommuError> {
        match self.mappings.get(&iova) {
            Some(mapping) if mapping.len == len => {
                self.mappings.remove(&iova);
                Ok(())
            }
            _ => Err(IommuError::NotMapped { iova, len }),
        }
    }

    /// The mapping at `address`.
    pub fn translate(&self, address: u64, is_write: bool) -> Result<Translation, Refusal> {
        let Some((start, mapping)) = self.mappings.range(..=address).next_back() else {
            return Err(Refusal::Unmapped);
        };
        let offset = address - start;
        if offset >= mapping.len {
            return Err(Refusal::Unmapped);
        }
        if !mapping.access.allows(is_write) {
            return Err(Refusal::Permission);
        }
        Ok(Translation { backing: mapping.backing, offset, len: mapping.len - offset })
    }

    pub fn record(&mut self, fault: IommuFault) {
        if self.faults.len() < FAULT_LOG {
            self.faults.push(fault);
        }
    }

    pub fn faults(&self) -> &[IommuFault] {
        &self.faults
    }

    pub fn mapped(&self) -> (usize, u64) {
        (self.mappings.len(), self.mappings.values().map(|mapping| mapping.len).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offset(iommu: &Iommu, address: u64) -> Option<u64> {
        let hit = iommu.translate(address, false).ok()?;
        match hit.backing {
            Backing::Physical(base) => Some(base + hit.offset),
            Backing::Host(_) => None,
        }
    }

    #[test]
    fn overlapping_and_impossible_ranges_are_refused() {
        let mut iommu = Iommu::default();
        let mut map = |iova, len| iommu.map(iova, len, Backing::Physical(0), Access::Read);
        assert_eq!(map(0x1000, 0x100), Ok(()));
        for (iova, len) in [(0x1000, 0x100), (0xfff, 2), (0x10ff, 1), (0x800, 0x1000)] {
            assert_eq!(map(iova, len), Err(IommuError::Overlap { iova, len }));
        }
        assert_eq!(map(0xfff, 1), Ok(()));
        assert_eq!(map(0x1100, 1), Ok(()));
        assert_eq!(map(5, 0), Err(IommuError::Range { iova: 5, len: 0 }));
        assert_eq!(map(u64::MAX, 2), Err(IommuError::Range { iova: u64::MAX, len: 2 }));
        assert_eq!(map(u64::MAX, 1), Ok(()));
        let (iova, len) = (0xfedf_ffff, 2);
        assert_eq!(map(iova, len), Err(IommuError::Overlap { iova, len }));
    }

    #[test]
    fn permission_and_absence_are_told_apart() {
        let mut iommu = Iommu::default();
        iommu.map(0x1000, 16, Backing::Physical(0x50), Access::Read).unwrap();
        iommu.map(0x2000, 16, Backing::Physical(0x60), Access::Write).unwrap();
        assert_eq!(iommu.translate(0x1000, true).unwrap_err(), Refusal::Permission);
        assert_eq!(iommu.translate(0x2000, false).unwrap_err(), Refusal::Permission);
        assert_eq!(iommu.translate(0x1010, false).unwrap_err(), Refusal::Unmapped);
        assert_eq!(iommu.translate(0xfff, false).unwrap_err(), Refusal::Unmapped);
        assert_eq!(offset(&iommu, 0x100f), Some(0x5f));
    }

    #[test]
    fn only_a_whole_mapping_is_unmapped() {
        let mut iommu = Iommu::default();
        iommu.map(0x1000, 16, Backing::Physical(0), Access::Read).unwrap();
        for (iova, len) in [(0x1000, 15), (0x1001, 15), (0, 16)] {
            assert_eq!(iommu.unmap(iova, len), Err(IommuError::NotMapped { iova, len }));
        }
        iommu.unmap(0x1000, 16).unwrap();
        assert_eq!((offset(&iommu, 0x1000), iommu.mapped()), (None, (0, 0)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_table_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0_u64..64, 0_u64..20), 1..60)
        ) {
            let mut iommu = Iommu::default();
            let mut bytes: [Option<u64>; 96] = [None; 96];
            let mut ranges = Vec::new();
            for (index, (is_map, iova, len)) in steps.into_iter().enumerate() {
                let range = iova as usize..(iova + len) as usize;
                if is_map {
                    let base = 1000 * index as u64;
                    let free = len > 0 && bytes[range.clone()].iter().all(Option::is_none);
                    let result = iommu.map(iova, len, Backing::Physical(base), Access::Read);
                    prop_assert_eq!(result.is_ok(), free);
                    if free {
                        ranges.push((iova, len));
                        range.enumerate().for_each(|(i, at)| bytes[at] = Some(base + i as u64));
                    }
                } else {
                    let known = ranges.iter().position(|known| *known == (iova, len));
                    prop_assert_eq!(iommu.unmap(iova, len).is_ok(), known.is_some());
                    if let Some(position) = known {
                        ranges.swap_remove(position);
                        bytes[range].fill(None);
                    }
                }
                for (address, expected) in bytes.iter().enumerate() {
                    prop_assert_eq!(offset(&iommu, address as u64), *expected);
                }
            }
        }
    }
}
