//! Reads and writes fields in the order in which they stand.

use super::{Errno, Malformed};

/// Takes fields from the front of a message, and never more than there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(first)
    }

    /// Everything that is left.
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Appends little-endian fields.
pub(crate) trait Put {
    fn put16(&mut self, value: u16);
    fn put32(&mut self, value: u32);
    fn put64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
