//! Commands of the ITS, 32 bytes each.

/// Four words, the first one first.
pub type Words = [u64; 4];

const MAPD: u64 = 0x08;
const MAPC: u64 = 0x09;
const MAPTI: u64 = 0x0a;
const INV: u64 = 0x0c;
const INVALL: u64 = 0x0d;
const DISCARD: u64 = 0x0f;
const SYNC: u64 = 0x05;
const VALID: u64 = 1 << 63;

/// What the ITS is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Events of a device are translated by the table at `table`; or, without one, no more.
    MapDevice { device: u32, event_bits: u8, table: Option<u64> },
    /// The collection goes to the redistributor `target`.
    MapCollection { collection: u16, target: u64 },
    /// An event of a device is this LPI in this collection.
    MapEvent { device: u32, event: u32, lpi: u32, collection: u16 },
    /// An event of a device is nothing any more.
    Discard { device: u32, event: u32 },
    /// The configuration of the LPI of an event has changed.
    Invalidate { device: u32, event: u32 },
    /// The configuration of any LPI of a collection may have changed.
    InvalidateAll { collection: u16 },
    /// Earlier commands have reached the redistributor when this one is done.
    Sync { target: u64 },
}

impl Command {
    pub fn words(self) -> Words {
        let with_device = |command: u64, device: u32| command | u64::from(device) << 32;
        match self {
            Command::MapDevice { device, event_bits, table } => [
                with_device(MAPD, device),
                u64::from(event_bits.saturating_sub(1)),
                table.map_or(0, |table| VALID | table),
                0,
            ],
            Command::MapCollection { collection, target } => {
                [MAPC, 0, VALID | target | u64::from(collection), 0]
            }
            Command::MapEvent { device, event, lpi, collection } => [
                with_device(MAPTI, device),
                u64::from(lpi) << 32 | u64::from(event),
                u64::from(collection),
                0,
            ],
            Command::Discard { device, event } => [with_device(DISCARD, device), event.into(), 0, 0],
            Command::Invalidate { device, event } => [with_device(INV, device), event.into(), 0, 0],
            Command::InvalidateAll { collection } => [INVALL, 0, collection.into(), 0],
            Command::Sync { target } => [SYNC, 0, target, 0],
        }
    }
}
