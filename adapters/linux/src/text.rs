//! Text without an allocator: one line in a buffer of fixed size.

use core::fmt;

/// A line of at most `N` bytes; what is longer is cut off.
#[derive(Debug)]
pub struct Line<const N: usize> {
    bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Line<N> {
    /// The formatted text.
    pub fn new(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self { bytes: [0; N], used: 0 };
        // Writing to it never fails; a `Display` that does leaves a shorter line.
        let _ = fmt::write(&mut line, text);
        line
    }

    /// What is in it. A character at the cut may be incomplete, so these are bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.used..).unwrap_or_default();
        let count = text.len().min(room.len());
        for (to, from) in room.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.used += count;
        Ok(())
    }
}
