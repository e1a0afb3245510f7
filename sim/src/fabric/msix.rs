//! MSI-X table and pending bits, which belong to the fabric and not to the model.
//!
//! Source: PCI Local Bus 3.0, 6.8.2; names as in Linux's `pci_regs.h`.

use crate::config::{ConfigSpace, Msix};

const ENTRY: u64 = 16;
const MASKED: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Address low and high, data, vector control.
    words: [u32; 4],
}

impl Entry {
    const RESET: Self = Self { words: [0, 0, 0, MASKED] };
}

/// Which structure an access to a BAR hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// The table, at this offset.
    Table(u64),
    /// The pending bits, at this offset.
    Pba(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct MsixTable {
    place: Option<Msix>,
    entries: Vec<Entry>,
    pending: Vec<u64>,
}

impl MsixTable {
    pub fn new(config: &ConfigSpace) -> Self {
        let place = config.msix_capability().map(|(_, msix)| msix);
        let vectors = place.map_or(0, |msix| usize::from(msix.vectors));
        Self { place, entries: vec![Entry::RESET; vectors], pending: vec![0; vectors.div_ceil(64)] }
    }

    pub fn reset(&mut self) {
        self.entries.fill(Entry::RESET);
        self.pending.fill(0);
    }

    pub fn hit(&self, bar: u8, offset: u64) -> Option<Hit> {
        let msix = self.place?;
        let inside = |at_bar: u8, at: u32, len: u32| {
            let offset = offset.checked_sub(u64::from(at))?;
            (bar == at_bar && offset < u64::from(len)).then_some(offset)
        };
        let table = inside(msix.table_bar, msix.table_offset, msix.table_len()).map(Hit::Table);
        table.or_else(|| inside(msix.pba_bar, msix.pba_offset, msix.pba_len()).map(Hit::Pba))
    }

    /// The dword at a 4-aligned offset.
    pub fn read(&self, hit: Hit) -> u32 {
        match hit {
            Hit::Table(offset) => {
                let entry = self.entries.get((offset / ENTRY) as usize);
                entry.map_or(0, |entry| entry.words[(offset % ENTRY / 4) as usize])
            }
            Hit::Pba(offset) => {
                let word = self.pending.get((offset / 8) as usize).copied().unwrap_or(0);
                (word >> (offset % 8 * 8)) as u32
            }
        }
    }

    /// Writes a dword of the table; the pending bits are read-only.
    pub fn write(&mut self, hit: Hit, value: u32) {
        let Hit::Table(offset) = hit else { return };
        let Some(entry) = self.entries.get_mut((offset / ENTRY) as usize) else { return };
        let word = (offset % ENTRY / 4) as usize;
        let writable = [0xffff_fffc, u32::MAX, u32::MAX, MASKED][word];
        entry.words[word] = value & writable;
    }

    /// Programs a vector as the platform does.
    pub fn program(&mut self, vector: u16, address: u64, data: u32, masked: bool) {
        if let Some(entry) = self.entries.get_mut(usize::from(vector)) {
            let control = if masked { MASKED } else { 0 };
            entry.words = [address as u32 & !3, (address >> 32) as u32, data, control];
        }
    }

    /// Takes over the table (not the pending bits) of an earlier copy.
    pub fn restore(&mut self, saved: &Self) {
        self.entries.clone_from(&saved.entries);
    }

    /// Address, data and whether the vector is masked.
    pub fn vector(&self, vector: u16) -> Option<(u64, u32, bool)> {
        let [low, high, data, control] = self.entries.get(usize::from(vector))?.words;
        Some((u64::from(high) << 32 | u64::from(low), data, control & MASKED != 0))
    }

    pub fn set_pending(&mut self, vector: u16) {
        if let Some(word) = self.pending.get_mut(usize::from(vector / 64)) {
            *word |= 1 << (vector % 64);
        }
    }

    /// Takes the lowest pending vector that is not masked.
    pub fn take_unmasked(&mut self) -> Option<u16> {
        let ready = |vector: &u16| {
            let pending = self.pending[usize::from(vector / 64)] >> (vector % 64) & 1 != 0;
            pending && self.vector(*vector).is_some_and(|(_, _, masked)| !masked)
        };
        let vector = (0..self.entries.len() as u16).find(ready)?;
        self.pending[usize::from(vector / 64)] &= !(1 << (vector % 64));
        Some(vector)
    }

    pub fn has_pending(&self) -> bool {
        self.pending.iter().any(|word| *word != 0)
    }
}
