//! Accesses of the client to BARs and configuration space.

use rustix::io::Errno;
use tombolo_sim::device::Width;
use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::counters::add;
use super::function::{Function, Parts};
use super::shared::Shared;
use crate::protocol::{Access, Write};

/// Reads a region. What nobody answers reads all ones.
///
/// # Errors
/// What the client is told: `EINVAL` for what lies outside of the region, or a region that is not there.
pub(super) fn read(shared: &Shared, access: &Access, data: &mut [u8]) -> Result<(), Errno> {
    check(shared, access)?;
    if shared.is_removed() {
        data.fill(u8::MAX);
        return Ok(());
    }
    if access.region == VFIO_PCI_CONFIG_REGION_INDEX {
        add(&shared.counters.config_accesses, 1);
        let function = shared.function.urgent();
        for (at, range) in pieces(access.offset, data.len()) {
            let width = width(range.len());
            let value = function.parts.config.read(at as u16, width);
            data[range.clone()].copy_from_slice(&value.to_le_bytes()[..range.len()]);
        }
        return Ok(());
    }
    add(&shared.counters.reads, 1);
    let bar = access.region as u8;
    if let Some(bytes) = memory_range(shared, bar, access) {
        let (memory, offset) = bytes;
        if shared.function.urgent().parts.config.memory_enabled() {
            return memory.read(offset, data).map_err(|_| Errno::INVAL);
        }
        data.fill(u8::MAX);
        return Ok(());
    }
    for (at, range) in pieces(access.offset, data.len()) {
        let mut function = shared.function.urgent();
        let value = function.read_bar(shared, bar, at, width(range.len()));
        data[range.clone()].copy_from_slice(&value.to_le_bytes()[..range.len()]);
    }
    Ok(())
}

/// Writes a region. What nobody takes vanishes.
///
/// # Errors
/// As [`read`].
pub(super) fn write(shared: &Shared, write: &Write<'_>) -> Result<(), Errno> {
    let access = &write.access;
    check(shared, access)?;
    if shared.is_removed() {
        return Ok(());
    }
    if access.region == VFIO_PCI_CONFIG_REGION_INDEX {
        add(&shared.counters.config_accesses, 1);
        let mut function = shared.function.urgent();
        for (at, range) in pieces(access.offset, write.data.len()) {
            let value = value(&write.data[range.clone()]);
            function.write_config(shared, at as u16, width(range.len()), value as u32);
        }
        return Ok(());
    }
    add(&shared.counters.writes, 1);
    let bar = access.region as u8;
    if let Some((memory, offset)) = memory_range(shared, bar, access) {
        let enabled = shared.function.urgent().parts.config.memory_enabled();
        return if enabled { memory.write(offset, write.data).map_err(|_| Errno::INVAL) } else { Ok(()) };
    }
    for (at, range) in pieces(access.offset, write.data.len()) {
        let mut function = shared.function.urgent();
        let value = value(&write.data[range.clone()]);
        function.write_bar(shared, bar, at, width(range.len()), value);
    }
    Ok(())
}

fn check(shared: &Shared, access: &Access) -> Result<(), Errno> {
    let region = shared.layout.regions.get(access.region as usize).ok_or(Errno::INVAL)?;
    let end = access.offset.checked_add(access.count.into());
    let inside = access.count != 0 && end.is_some_and(|end| end <= region.size);
    inside.then_some(()).ok_or(Errno::INVAL)
}

/// The plain memory that an access as a whole is about, and where in it.
fn memory_range<'a>(
    shared: &'a Shared,
    bar: u8,
    access: &Access,
) -> Option<(&'a tombolo_sim::memory::SharedMemory, usize)> {
    let memory = shared.layout.memory.get(usize::from(bar))?.as_ref()?;
    // A part of it may be the MSI-X table.
    let table = shared.layout.msix.is_some_and(|msix| [msix.table_bar, msix.pba_bar].contains(&bar));
    let offset = usize::try_from(access.offset).ok()?;
    (!table).then_some((memory, offset))
}

/// Cuts an access into the ones that a bus would carry: what is 1, 2, 4 or 8 bytes and aligned stays
/// whole, the rest becomes aligned words of at most four bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (at, left) = (offset + done as u64, len - done);
        let size = match left {
            0 => return None,
            8 if done == 0 && at.is_multiple_of(8) => 8,
            4.. if at.is_multiple_of(4) => 4,
            2.. if at.is_multiple_of(2) => 2,
            _ => 1,
        };
        let range = done..done + size;
        done += size;
        Some((at, range))
    })
}

fn width(bytes: usize) -> Width {
    match bytes {
        1 => Width::W8,
        2 => Width::W16,
        4 => Width::W32,
        _ => Width::W64,
    }
}

fn value(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// What lies at an offset of a BAR beside the model's registers.
enum Place {
    /// A word of the MSI-X table.
    Table(usize),
    /// 32 pending bits.
    Pending(usize),
    /// Plain memory.
    Memory(usize),
    /// The model.
    Model,
}

fn place(shared: &Shared, bar: u8, offset: u64) -> Place {
    if let Some(msix) = shared.layout.msix {
        let word = |at: u8, start: u32, len: u32| {
            let inside = offset.checked_sub(start.into()).filter(|inside| *inside < len.into());
            inside.filter(|_| at == bar).map(|inside| (inside / 4) as usize)
        };
        if let Some(word) = word(msix.table_bar, msix.table_offset, msix.table_len()) {
            return Place::Table(word);
        }
        if let Some(word) = word(msix.pba_bar, msix.pba_offset, msix.pba_len()) {
            return Place::Pending(word);
        }
    }
    let memory = shared.layout.memory.get(usize::from(bar)).is_some_and(Option::is_some);
    match usize::try_from(offset) {
        Ok(offset) if memory => Place::Memory(offset),
        _ => Place::Model,
    }
}

impl Function {
    fn read_bar(&mut self, shared: &Shared, bar: u8, offset: u64, width: Width) -> u64 {
        if !self.parts.config.memory_enabled() {
            return u64::MAX;
        }
        let words = |word: usize, read: &dyn Fn(usize) -> u32| {
            let both = u64::from(read(word)) | u64::from(read(word + 1)) << 32;
            both >> (offset % 4 * 8)
        };
        match place(shared, bar, offset) {
            Place::Table(word) => words(word, &|word| self.parts.table.get(word).copied().unwrap_or(0)),
            Place::Pending(word) => words(word, &|word| shared.irqs.pending_bits(word)),
            Place::Memory(offset) => {
                let mut bytes = [u8::MAX; 8];
                let memory = shared.layout.memory[usize::from(bar)].as_ref();
                let read = memory.map(|memory| memory.read(offset, &mut bytes[..width.bytes()]));
                if matches!(read, Some(Ok(()))) { u64::from_le_bytes(bytes) } else { u64::MAX }
            }
            Place::Model => self.call(shared, |device, bus| device.read(bus, bar, offset, width)),
        }
    }

    fn write_bar(&mut self, shared: &Shared, bar: u8, offset: u64, width: Width, value: u64) {
        if !self.parts.config.memory_enabled() {
            return;
        }
        match place(shared, bar, offset) {
            // Only whole words, as the specification of PCI demands.
            Place::Table(word) if width.bytes() >= 4 => self.parts.write_table(word, width, value),
            Place::Table(_) | Place::Pending(_) => {}
            Place::Memory(offset) => {
                if let Some(memory) = &shared.layout.memory[usize::from(bar)] {
                    // In range: the access was checked against the BAR, and the memory is that long.
                    let _ = memory.write(offset, &value.to_le_bytes()[..width.bytes()]);
                }
            }
            Place::Model => self.call(shared, |device, bus| device.write(bus, bar, offset, width, value)),
        }
    }
}

impl Parts {
    fn write_table(&mut self, word: usize, width: Width, value: u64) {
        const WRITABLE: [u32; 4] = [0xffff_fffc, u32::MAX, u32::MAX, 1];
        let halves = [value as u32, (value >> 32) as u32];
        for (at, half) in halves.into_iter().take(width.bytes() / 4).enumerate() {
            if let Some(place) = self.table.get_mut(word + at) {
                *place = half & WRITABLE[(word + at) % 4];
            }
        }
    }
}
