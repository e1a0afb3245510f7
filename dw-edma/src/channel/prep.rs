//! Checking transfers and storing them in the pool.

use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::{Descriptor, Direction, NoSpace, PrepFlags, SgEntry, SlaveConfig, Unsupported};
use tombolo_hal::mmio::Mmio;

use super::{Channel, ChannelMemory, Desc, Kind, Mode, Peripheral, Segment};
use crate::list::Burst;
use crate::{Error, Format, ListError, SharedRef};

/// The size register has 32 bits.
pub(super) const MAX_SEGMENT: u64 = u32::MAX as u64;

impl<S: SharedRef, L: Mmio, P: ChannelMemory> Channel<S, L, P> {
    /// The mode that a configuration asks for.
    pub(super) fn mode_of(&self, config: &SlaveConfig<Peripheral>) -> Result<Mode, Error> {
        let default = if self.list.exists() { Mode::List } else { Mode::NonList };
        let mode = config.peripheral.mode.unwrap_or(default);
        match mode {
            Mode::List if !self.list.exists() => Err(Error::List(ListError::Missing)),
            Mode::NonList if self.shared().config.format != Format::HdmaNative => {
                Err(Unsupported("transfers without a linked list").into())
            }
            _ => Ok(mode),
        }
    }

    pub(super) fn prep_sg(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        flags: PrepFlags,
        config: &SlaveConfig<Peripheral>,
    ) -> Result<Descriptor, Error> {
        self.check_usable(direction)?;
        let mode = self.mode_of(config)?;
        let device = config.device_address(direction);
        let bytes = check_segments(sg, config.addr_width.bytes())?;
        let device = self.device_base(device, bytes, config.addr_width.bytes())?;
        let desc = Desc {
            kind: if mode == Mode::List { Kind::List } else { Kind::NonList },
            interrupt: flags.interrupt,
            bytes,
            ..Desc::default()
        };
        let mut at = device.value();
        let segments = sg.iter().map(|entry| {
            // `check_segments` saw that the length fits, `device_base` that the address does.
            let burst = burst(direction, entry.address().value(), at, entry.len() as u32);
            at = at.wrapping_add(entry.len());
            Segment(burst)
        });
        self.store(desc, sg.len(), segments)
    }

    pub(super) fn prep_cyclic(
        &mut self,
        buffer: SgEntry,
        period: u64,
        direction: Direction,
        flags: PrepFlags,
        config: &SlaveConfig<Peripheral>,
    ) -> Result<Descriptor, Error> {
        self.check_usable(direction)?;
        if self.mode_of(config)? != Mode::List {
            return Err(Unsupported("cyclic transfers without a linked list").into());
        }
        let width = config.addr_width.bytes();
        let total = buffer.len();
        if total == 0 {
            return Err(Error::Empty { segment: 0 });
        }
        if period == 0 || total % period != 0 {
            return Err(Error::BadPeriod { buffer: total, period });
        }
        if period > MAX_SEGMENT {
            return Err(Error::TooLong { segment: 0, len: period, max: MAX_SEGMENT });
        }
        let count = total / period;
        if count > self.pool.segment_capacity() as u64 {
            let needed = usize::try_from(count).unwrap_or(usize::MAX);
            return Err(NoSpace { what: "segments", needed, available: self.pool.segment_capacity() }.into());
        }
        check_entry(0, buffer.address().value(), total, width)?;
        check_alignment(0, "period", period, width)?;
        let device = self.device_base(config.device_address(direction), total, width)?.value();
        let memory = buffer.address().value();
        let desc = Desc {
            kind: Kind::Cyclic,
            interrupt: flags.interrupt,
            bytes: total,
            period_bytes: period as u32,
            ..Desc::default()
        };
        // Both sides advance, period by period.
        let segments = (0..count)
            .map(|i| Segment(burst(direction, memory + i * period, device + i * period, period as u32)));
        self.store(desc, count as usize, segments)
    }

    fn store(
        &mut self,
        desc: Desc,
        count: usize,
        segments: impl Iterator<Item = Segment>,
    ) -> Result<Descriptor, Error> {
        Ok(self.pool.prepare(desc, count, segments)?)
    }

    fn check_usable(&self, direction: Direction) -> Result<(), Error> {
        if self.shared().is_gone() {
            return Err(Error::DeviceGone);
        }
        let able = self.direction();
        if able != direction {
            return Err(Error::WrongDirection { channel: self.id, able, asked: direction });
        }
        Ok(())
    }

    /// The engine's address of the device side, for `bytes` bytes.
    fn device_base(&self, device: EngineAddr, bytes: u64, width: u64) -> Result<EngineAddr, Error> {
        check_entry(0, device.value(), bytes, width)?;
        let translated = self.shared().config.translation.translate(device, bytes)?;
        check_range(0, translated.value(), bytes)?;
        Ok(translated)
    }
}

/// Data goes from source to destination; which of them is memory depends on the direction.
#[inline(always)]
fn burst(direction: Direction, memory: u64, device: u64, size: u32) -> Burst {
    match direction {
        Direction::MemToDev => Burst { sar: memory, dar: device, size },
        Direction::DevToMem => Burst { sar: device, dar: memory, size },
    }
}

/// Checks all segments and adds up their bytes.
fn check_segments(sg: &[SgEntry], width: u64) -> Result<u64, Error> {
    if sg.is_empty() {
        return Err(Error::Empty { segment: 0 });
    }
    let mut bytes = 0u64;
    for (segment, entry) in sg.iter().enumerate() {
        let len = entry.len();
        if len == 0 {
            return Err(Error::Empty { segment });
        }
        if len > MAX_SEGMENT {
            return Err(Error::TooLong { segment, len, max: MAX_SEGMENT });
        }
        check_entry(segment, entry.address().value(), len, width)?;
        bytes = bytes.checked_add(len).ok_or(Error::AddressOverflow { segment })?;
    }
    Ok(bytes)
}

#[inline]
fn check_entry(segment: usize, address: u64, len: u64, width: u64) -> Result<(), Error> {
    check_alignment(segment, "address", address, width)?;
    check_alignment(segment, "length", len, width)?;
    check_range(segment, address, len)
}

/// No byte of it lies past the end of the address space.
#[inline]
fn check_range(segment: usize, address: u64, len: u64) -> Result<(), Error> {
    match address.checked_add(len - 1) {
        Some(_) => Ok(()),
        None => Err(Error::AddressOverflow { segment }),
    }
}

#[inline]
fn check_alignment(segment: usize, what: &'static str, value: u64, align: u64) -> Result<(), Error> {
    if value & (align - 1) != 0 {
        return Err(Error::Misaligned { segment, what, value, align });
    }
    Ok(())
}
