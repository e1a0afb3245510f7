//! What the counting plugin writes (`measure/count.c`): instructions and device accesses of a guest,
//! in pieces between markers.

use std::collections::BTreeMap;
use std::ops::Range;

/// Addresses from here on are the kernel's.
const KERNEL: u64 = 1 << 63;

/// Why a report of the plugin cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountsError {
    /// A line that the plugin does not write.
    #[error("line {line} of the plugin's report is not understood: {text}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// The plugin ran out of room: its counts are too low.
    #[error("the plugin had no room for {0} instructions or accesses")]
    Overflow(u64),
    /// Nothing was counted between two markers.
    #[error("the guest never went from marker {from:#x} to marker {to:#x}")]
    NoPiece {
        /// The first marker.
        from: u8,
        /// The second.
        to: u8,
    },
}

/// A device access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it is a store.
    pub store: bool,
    /// Address of the instruction.
    pub address: u64,
    /// Where on the bus.
    pub physical: u64,
    /// How often.
    pub count: u64,
}

/// What was counted from one marker to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The marker at its start; 0 before the first one.
    pub from: u8,
    /// The marker at its end.
    pub to: u8,
    /// Executions by address.
    pub instructions: BTreeMap<u64, u64>,
    /// Device accesses.
    pub accesses: Vec<Access>,
}

impl Piece {
    /// Instructions of the kernel, modules included.
    pub fn kernel(&self) -> u64 {
        self.instructions.range(KERNEL..).map(|(_, count)| count).sum()
    }

    /// Instructions in a range of addresses.
    pub fn within(&self, addresses: &Range<u64>) -> u64 {
        self.instructions.range(addresses.clone()).map(|(_, count)| count).sum()
    }

    /// Reads and writes of a range of bus addresses.
    pub fn accesses(&self, physical: &Range<u64>) -> (u64, u64) {
        let hits = self.accesses.iter().filter(|access| physical.contains(&access.physical));
        hits.fold((0, 0), |(reads, writes), access| match access.store {
            false => (reads + access.count, writes),
            true => (reads, writes + access.count),
        })
    }
}

/// Reads a report.
///
/// # Errors
/// [`CountsError`].
pub fn parse(text: &str) -> Result<Vec<Piece>, CountsError> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bad = || CountsError::Line { line: index + 1, text: line.to_owned() };
        let fields: Vec<&str> = line.split('\t').collect();
        if let ["M", from, to] = fields[..] {
            let marker = |text| u8::from_str_radix(text, 16).map_err(|_| bad());
            pieces.push(Piece { from: marker(from)?, to: marker(to)?, ..Piece::default() });
            continue;
        }
        let piece = pieces.last_mut().ok_or_else(bad)?;
        match fields[..] {
            ["I", address, count] => {
                *piece.instructions.entry(hex(address).ok_or_else(bad)?).or_default() +=
                    decimal(count).ok_or_else(bad)?;
            }
            ["A", kind @ ("R" | "W"), address, physical, count] => piece.accesses.push(Access {
                store: kind == "W",
                address: hex(address).ok_or_else(bad)?,
                physical: hex(physical).ok_or_else(bad)?,
                count: decimal(count).ok_or_else(bad)?,
            }),
            ["O", count] => match decimal(count).ok_or_else(bad)? {
                0 => {}
                lost => return Err(CountsError::Overflow(lost)),
            },
            _ => return Err(bad()),
        }
    }
    Ok(pieces)
}

/// The pieces from marker `from` to marker `to`, in the order in which they were executed.
///
/// # Errors
/// [`CountsError::NoPiece`] if there is none.
pub fn between(pieces: &[Piece], from: u8, to: u8) -> Result<Vec<&Piece>, CountsError> {
    let found: Vec<&Piece> = pieces.iter().filter(|piece| (piece.from, piece.to) == (from, to)).collect();
    if found.is_empty() { Err(CountsError::NoPiece { from, to }) } else { Ok(found) }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn decimal(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "M\t0\t1\nI\t401000\t5\nO\t0\nM\t1\t2\nI\tffffffff81000000\t10\n\
        I\tffffffffc0001000\t3\nI\tffffffffc0001004\t4\nI\t401000\t2\n\
        A\tR\tffffffffc0001000\tfe000010\t3\nA\tW\tffffffffc0001004\tfe000014\t4\n\
        A\tW\tffffffff81000000\tfee000b0\t1\nO\t0\nM\t2\tff\nO\t0\n";

    #[test]
    fn instructions_and_accesses_are_summed_by_range_between_markers() {
        let pieces = parse(REPORT).unwrap();
        assert_eq!(pieces.len(), 3);
        let piece = between(&pieces, 1, 2).unwrap()[0];
        assert_eq!(piece.kernel(), 17);
        assert_eq!(piece.within(&(0xffff_ffff_c000_1000..0xffff_ffff_c000_1004)), 3);
        assert_eq!(piece.accesses(&(0xfe00_0000..0xfe00_1000)), (3, 4));
        assert_eq!(piece.accesses(&(0..u64::MAX)), (3, 5));
        assert_eq!(between(&pieces, 2, 1), Err(CountsError::NoPiece { from: 2, to: 1 }));
    }

    #[test]
    fn what_the_plugin_does_not_write_is_refused() {
        for text in ["I\t1\t1", "M\t0", "M\t0\t1\nI\tx\t1", "M\t0\t1\nA\tX\t0\t0\t1", "M\t0\t1\n\n"] {
            assert!(matches!(parse(text), Err(CountsError::Line { .. })), "{text:?}");
        }
        assert_eq!(parse("M\t0\t1\nO\t7"), Err(CountsError::Overflow(7)));
    }
}
