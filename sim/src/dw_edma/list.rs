//! List elements and their fetch.
//!
//! An element has 24 bytes in all formats: control, size, source, destination; a link has control, a
//! reserved word, the pointer and eight reserved bytes (Linux 7.3 `EDMA_LL_SZ`, `dw_edma_v0_lli`,
//! `dw_edma_v0_llp`; vendor manuals agree).
//!
//! A **link is followed whatever its cycle bit says**, and toggles the consumer cycle state if its TCB
//! is set. Linux relies on it: for a transfer in several chunks it writes each chunk over the last
//! with the other cycle bit, starts the engine again without programming its pointer, and writes the
//! link with the bit that the engine does not own. Where the last chunk is shorter, the link of the
//! chunk before stays behind; an engine that waited there for its cycle bit would never go on.

use super::channel::Channel;
use super::handle::Cause;
use super::regs::element;
use super::space::{Side, Space};
use crate::device::Bus;

/// An element as fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Data to move.
    Data { control: u32, size: u32, sar: u64, dar: u64 },
    /// Go on at `pointer`.
    Link { control: u32, pointer: u64 },
    /// The fetch failed; counts only when the engine gets there.
    Failed(Cause),
}

impl Element {
    fn parse(bytes: &[u8; element::SIZE as usize]) -> Self {
        let word = |index: usize| {
            let at = index * 4;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |index: usize| u64::from(word(index)) | u64::from(word(index + 1)) << 32;
        let control = word(0);
        if control & element::LLP != 0 {
            Element::Link { control, pointer: long(2) & !3 }
        } else {
            Element::Data { control, size: word(1), sar: long(2), dar: long(4) }
        }
    }

    /// Whether the engine owns the element in cycle state `ccs`. Links are always followed.
    pub fn is_owned(&self, ccs: bool) -> bool {
        match self {
            Element::Data { control, .. } => (control & element::CB != 0) == ccs,
            Element::Link { .. } => true,
            Element::Failed(_) => false,
        }
    }
}

/// Fetches elements into the channel's queue until it holds `depth`, or until one ends the list.
/// Returns how many were read.
pub(super) fn fetch(channel: &mut Channel, space: &Space, bus: &mut dyn Bus, depth: usize) -> u64 {
    let mut fetched = 0;
    while channel.fifo.len() < depth {
        if channel.fifo.back().is_some_and(|last| !last.is_owned(channel.fetch_ccs)) {
            break;
        }
        let mut bytes = [0; element::SIZE as usize];
        let element = match space.read(bus, Side::Local, channel.fetch_at, &mut bytes) {
            Ok(()) => Element::parse(&bytes),
            Err(_) => Element::Failed(Cause::ListFetch),
        };
        fetched += 1;
        channel.fetch_at = channel.fetch_at.wrapping_add(element::SIZE);
        if let Element::Link { control, pointer } = element {
            channel.fetch_at = pointer;
            channel.fetch_ccs ^= control & element::TCB != 0;
        }
        channel.fifo.push_back(element);
    }
    fetched
}
