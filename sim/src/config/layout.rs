//! Finds places for capabilities and links them into a list.

use super::Image;
use super::caps::RawCapability;
use super::error::ConfigError;
use super::regs::*;

/// One of the two lists of capabilities and the space in which it lives.
pub(super) struct Layout {
    start: u16,
    end: u16,
    is_extended: bool,
    /// Offset and end of what is placed.
    used: Vec<(u16, u16)>,
}

impl Layout {
    pub fn standard() -> Self {
        let (start, end) = (STD_CAPS_START, EXT_CAPS_START);
        Self { start, end, is_extended: false, used: Vec::new() }
    }

    pub fn extended() -> Self {
        let (start, end) = (EXT_CAPS_START, CONFIG_SPACE_SIZE);
        Self { start, end, is_extended: true, used: Vec::new() }
    }

    /// Places all capabilities, those with fixed offsets first, and writes them into the image.
    /// Gives back ID and offset of each.
    pub fn place(
        &mut self,
        image: &mut Image,
        caps: Vec<RawCapability>,
    ) -> Result<Vec<(u16, u16)>, ConfigError> {
        let (fixed, free): (Vec<_>, Vec<_>) = caps.into_iter().partition(|cap| cap.offset.is_some());
        let mut placed = Vec::new();
        for cap in fixed.into_iter().chain(free) {
            let len = cap.dwords.len() * 4;
            let offset = match cap.offset {
                Some(offset) => self.check(offset, len)?,
                None => self.find(len)?,
            };
            self.used.push((offset, offset + len as u16));
            placed.push((offset, cap));
        }
        placed.sort_by_key(|(offset, _)| *offset);
        self.link(image, &placed);
        Ok(placed.into_iter().map(|(offset, cap)| (cap.id, offset)).collect())
    }

    fn check(&self, offset: u16, len: usize) -> Result<u16, ConfigError> {
        if !offset.is_multiple_of(4) {
            return Err(ConfigError::CapabilityMisaligned(offset));
        }
        let end = usize::from(offset) + len;
        if offset < self.start || end > usize::from(self.end) {
            return Err(ConfigError::CapabilityRange { offset, len });
        }
        if self.conflict(offset, end).is_some() {
            return Err(ConfigError::CapabilityOverlap(offset));
        }
        Ok(offset)
    }

    /// The end of something that is used inside `offset..end`.
    fn conflict(&self, offset: u16, end: usize) -> Option<u16> {
        let hit = |used: &&(u16, u16)| used.0 < end as u16 && offset < used.1;
        self.used.iter().find(hit).map(|used| used.1)
    }

    fn find(&self, len: usize) -> Result<u16, ConfigError> {
        let mut offset = self.start;
        loop {
            let end = usize::from(offset) + len;
            if end > usize::from(self.end) {
                return Err(ConfigError::CapabilitySpace { len });
            }
            match self.conflict(offset, end) {
                Some(next) => offset = next,
                None => return Ok(offset),
            }
        }
    }

    fn link(&self, image: &mut Image, placed: &[(u16, RawCapability)]) {
        let Some(first) = placed.first().map(|(offset, _)| *offset) else { return };
        if !self.is_extended {
            image.set(CAPABILITY_LIST, u32::from(first), 0);
            image.add(COMMAND, STATUS_CAP_LIST);
        } else if first != EXT_CAPS_START {
            // The list has to begin at 0x100: a null capability leads to the first real one.
            image.set(EXT_CAPS_START, u32::from(first) << 20, 0);
        }
        for (index, (offset, cap)) in placed.iter().enumerate() {
            let next = placed.get(index + 1).map_or(0, |(offset, _)| *offset);
            image.write_capability(*offset, &cap.dwords, cap.is_vendor);
            image.add(*offset, self.header(cap, next));
        }
    }

    fn header(&self, cap: &RawCapability, next: u16) -> u32 {
        let (id, next) = (u32::from(cap.id), u32::from(next));
        if self.is_extended { id | u32::from(cap.version) << 16 | next << 20 } else { id | next << 8 }
    }
}
