//! Capabilities behind the kernel's answers: a chain of structures, each with the offset of the next.
//!
//! They come from a kernel and are checked like anything else: every read is inside the answer, and
//! the chain is followed for a bounded number of steps.

use vfio_bindings::bindings::vfio::{
    VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL,
    VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, VFIO_REGION_INFO_CAP_SPARSE_MMAP,
};

/// Bytes of `struct vfio_info_cap_header`.
const HEADER: usize = 8;
/// Entries of a list that are looked at.
const ENTRIES_MAX: usize = 1024;

/// One capability: all of the answer from its header on.
struct Capability<'a> {
    id: u32,
    bytes: &'a [u8],
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}

fn chain(answer: &[u8], first: u32) -> impl Iterator<Item = Capability<'_>> {
    let mut next = first as usize;
    // No more capabilities than there is room for: a loop ends.
    let mut left = answer.len() / HEADER;
    std::iter::from_fn(move || {
        if next == 0 || left == 0 {
            return None;
        }
        left -= 1;
        let bytes = answer.get(next..)?;
        let id_and_version = bytes.get(..2)?;
        let id = u32::from(u16::from_ne_bytes(id_and_version.try_into().ok()?));
        next = word32(bytes, 4)? as usize;
        Some(Capability { id, bytes })
    })
}

/// The pairs of 64-bit words of a list: count at `HEADER`, entries from `HEADER + 8` on.
fn pairs(bytes: &[u8]) -> Vec<(u64, u64)> {
    let count = word32(bytes, HEADER).unwrap_or(0) as usize;
    let pair = |i: usize| {
        let at = HEADER + 8 + 16 * i;
        Some((word64(bytes, at)?, word64(bytes, at + 8)?))
    };
    (0..count.min(ENTRIES_MAX)).map_while(pair).collect()
}

/// What the capabilities of a region say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionCaps {
    /// The parts that can be mapped, offset and size; `None` if all of it can.
    pub sparse: Option<Vec<(u64, u64)>>,
    /// The MSI-X table may be mapped, too.
    pub msix_mappable: bool,
}

impl RegionCaps {
    /// From an answer whose first capability is at `first`.
    pub fn parse(answer: &[u8], first: u32) -> Self {
        let mut caps = Self::default();
        for capability in chain(answer, first) {
            match capability.id {
                VFIO_REGION_INFO_CAP_SPARSE_MMAP => caps.sparse = Some(pairs(capability.bytes)),
                VFIO_REGION_INFO_CAP_MSIX_MAPPABLE => caps.msix_mappable = true,
                _ => {}
            }
        }
        caps
    }

    /// The parts of a region of `size` bytes that can be mapped: whole pages of `page` bytes, in
    /// order, without overlap, inside the region (of which the last page may be a part).
    pub fn areas(&self, size: u64, page: u64) -> Vec<(u64, u64)> {
        let Some(sparse) = &self.sparse else { return vec![(0, size)] };
        let mut areas: Vec<_> = sparse
            .iter()
            .copied()
            .filter(|(offset, len)| {
                let end = offset.checked_add(*len);
                let inside = end.is_some_and(|end| end <= size.next_multiple_of(page));
                *len != 0 && inside && offset % page == 0 && len % page == 0 && *offset < size
            })
            .map(|(offset, len)| (offset, len.min(size - offset)))
            .collect();
        areas.sort_unstable();
        let mut end = 0;
        areas.retain(|(offset, len)| {
            let apart = *offset >= end;
            end = if apart { offset + len } else { end };
            apart
        });
        areas
    }
}

/// What the capabilities of an IOMMU say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IommuCaps {
    /// Addresses that devices may use, first and last; `None` if the kernel does not say.
    pub ranges: Option<Vec<(u64, u64)>>,
    /// How many mappings can be made; `None` if the kernel does not say.
    pub mappings: Option<u32>,
}

impl IommuCaps {
    /// From an answer whose first capability is at `first`.
    pub fn parse(answer: &[u8], first: u32) -> Self {
        let mut caps = Self::default();
        for capability in chain(answer, first) {
            match capability.id {
                VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE => caps.ranges = Some(pairs(capability.bytes)),
                VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL => caps.mappings = word32(capability.bytes, HEADER),
                _ => {}
            }
        }
        caps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(id: u16, next: u32) -> Vec<u8> {
        [&id.to_ne_bytes()[..], &1u16.to_ne_bytes(), &next.to_ne_bytes()].concat()
    }

    fn list(id: u16, next: u32, pairs: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = header(id, next);
        bytes.extend((pairs.len() as u32).to_ne_bytes());
        bytes.extend([0; 4]);
        pairs.iter().for_each(|(a, b)| {
            bytes.extend(a.to_ne_bytes());
            bytes.extend(b.to_ne_bytes());
        });
        bytes
    }

    #[test]
    fn a_sparse_region_with_a_mappable_table() {
        let mut answer = vec![0; 32];
        answer.extend(list(1, 96, &[(0x2000, 0x1000), (0, 0x1000)]));
        answer.resize(96, 0);
        answer.extend(header(3, 0));
        let caps = RegionCaps::parse(&answer, 32);
        assert!(caps.msix_mappable);
        assert_eq!(caps.areas(0x4000, 0x1000), [(0, 0x1000), (0x2000, 0x1000)]);
        assert_eq!(RegionCaps::default().areas(0x800, 0x1000), [(0, 0x800)]);
    }

    #[test]
    fn areas_that_overlap_or_lie_outside_are_left_out() {
        let page = 0x1000;
        let sparse = vec![
            (0, 2 * page),
            (page, page),
            (3 * page, u64::MAX),
            (4 * page, page),
            (0x10, page),
            (2 * page, 0),
            (2 * page, page),
        ];
        let caps = RegionCaps { sparse: Some(sparse), msix_mappable: false };
        assert_eq!(caps.areas(0x2800, page), [(0, 0x2000), (0x2000, 0x800)]);
    }

    #[test]
    fn an_iommu_with_ranges_and_a_limit_of_mappings() {
        let mut answer = vec![0; 24];
        answer.extend(list(1, 72, &[(0, 0xfedf_ffff), (0xfef0_0000, 0x7f_ffff_ffff)]));
        answer.resize(72, 0);
        answer.extend(header(3, 0));
        answer.extend(65535u32.to_ne_bytes());
        let caps = IommuCaps::parse(&answer, 24);
        assert_eq!(caps.ranges.unwrap(), [(0, 0xfedf_ffff), (0xfef0_0000, 0x7f_ffff_ffff)]);
        assert_eq!(caps.mappings, Some(65535));
    }

    #[test]
    fn a_chain_that_bites_its_tail_ends() {
        let mut answer = vec![0; 8];
        answer.extend(header(1, 8));
        assert_eq!(RegionCaps::parse(&answer, 8).sparse, Some(vec![]));
        assert_eq!(RegionCaps::parse(&[], u32::MAX), RegionCaps::default());
    }

    proptest! {
        #[test]
        fn hostile_answers_give_areas_inside_the_region(
            mut answer in prop::collection::vec(any::<u8>(), 0..300),
            first in 0u32..320,
            size in 1u64..0x10_0000,
            plausible in any::<bool>(),
        ) {
            if plausible && answer.len() > 24 && (first as usize) < answer.len() - 16 {
                let at = first as usize;
                answer[at..at + 2].copy_from_slice(&1u16.to_ne_bytes());
            }
            let caps = RegionCaps::parse(&answer, first);
            let mut end = 0;
            for (offset, len) in caps.areas(size, 0x1000) {
                prop_assert!(offset >= end && len != 0 && offset % 0x1000 == 0);
                end = offset + len;
                prop_assert!(end <= size);
            }
            let iommu = IommuCaps::parse(&answer, first);
            prop_assert!(iommu.ranges.is_none_or(|ranges| ranges.len() <= answer.len() / 16));
        }
    }
}
