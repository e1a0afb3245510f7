//! The far end of a transfer: filled and checked past engine and driver.

use crate::data::{Data, Differences};
use crate::platform::Platform;
use crate::rig::{Rig, RigError};

/// Guard bytes before and after each buffer on the device side.
pub const GUARD: u64 = 64;
/// What the guard bytes hold.
const GUARD_BYTE: u8 = 0x5c;
/// What a destination holds before data arrives.
pub const POISON: u8 = 0xa5;
/// Memory is filled and checked in pieces of this size.
const PIECE: usize = 64 << 10;

/// A run of bytes in the device's memory and in a stream of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where on the device side.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// In which stream.
    pub stream: u64,
    /// Where in it.
    pub at: u64,
}

/// Room to fill and check with.
#[derive(Debug)]
pub struct DeviceSide {
    piece: Vec<u8>,
}

impl Default for DeviceSide {
    fn default() -> Self {
        Self { piece: vec![0; PIECE] }
    }
}

impl DeviceSide {
    /// Writes the data of a span.
    ///
    /// # Errors
    /// [`RigError`] outside of the device's memory, as for all of these.
    pub fn fill<P: Platform>(&mut self, rig: &Rig<P>, data: &Data<'_>, span: Span) -> Result<(), RigError> {
        for (start, len) in pieces(span.len) {
            let piece = &mut self.piece[..len];
            data.fill(span.stream, span.at + start, piece);
            rig.device_write(span.offset + start, piece)?;
        }
        Ok(())
    }

    /// Writes what no data is over a span.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn poison<P: Platform>(&mut self, rig: &Rig<P>, span: Span) -> Result<(), RigError> {
        self.piece.fill(POISON);
        pieces(span.len)
            .try_for_each(|(start, len)| rig.device_write(span.offset + start, &self.piece[..len]))
    }

    /// Compares a span with its data.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn check<P: Platform>(
        &mut self,
        rig: &Rig<P>,
        data: &Data<'_>,
        span: Span,
    ) -> Result<Differences, RigError> {
        let mut differences = Differences::default();
        for (start, len) in pieces(span.len) {
            let piece = &mut self.piece[..len];
            rig.device_read(span.offset + start, piece)?;
            differences.add(data.check(span.stream, span.at + start, piece), start);
        }
        Ok(differences)
    }
}

fn pieces(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(PIECE).map(move |start| (start, PIECE.min((len - start) as usize)))
}

/// Writes guard bytes before and after `len` bytes at `offset`.
///
/// # Errors
/// [`RigError`].
pub fn guard<P: Platform>(rig: &Rig<P>, offset: u64, len: u64) -> Result<(), RigError> {
    let bytes = [GUARD_BYTE; GUARD as usize];
    rig.device_write(offset - GUARD, &bytes)?;
    rig.device_write(offset + len, &bytes)
}

/// Counts guard bytes that were overwritten.
///
/// # Errors
/// [`RigError`].
pub fn check_guards<P: Platform>(rig: &Rig<P>, offset: u64, len: u64) -> Result<Differences, RigError> {
    let mut count = 0;
    for place in [offset - GUARD, offset + len] {
        let mut bytes = [0; GUARD as usize];
        rig.device_read(place, &mut bytes)?;
        count += bytes.iter().filter(|byte| **byte != GUARD_BYTE).count() as u64;
    }
    Ok(Differences { count, first: (count != 0).then_some(0) })
}
