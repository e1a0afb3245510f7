//! Offsets and fields.

use tombolo_hal::mmio::Mmio;

pub const GICD_CTLR: usize = 0x0;
pub const GICD_TYPER: usize = 0x4;
/// Group 1 on, group 1A on, affinity routing: what the non-secure side sets.
pub const GICD_CTLR_ENABLE: u32 = 1 << 0 | 1 << 1 | 1 << 4;
pub const GICD_CTLR_RWP: u32 = 1 << 31;
pub const GICD_TYPER_LPIS: u32 = 1 << 17;

pub const GICR_CTLR: usize = 0x0;
pub const GICR_TYPER: usize = 0x8;
pub const GICR_WAKER: usize = 0x14;
pub const GICR_PROPBASER: usize = 0x70;
pub const GICR_PENDBASER: usize = 0x78;
pub const GICR_CTLR_ENABLE_LPIS: u32 = 1;
pub const GICR_TYPER_PLPIS: u32 = 1;
pub const GICR_TYPER_VLPIS: u32 = 1 << 1;
pub const GICR_TYPER_LAST: u32 = 1 << 4;
pub const GICR_WAKER_SLEEP: u32 = 1 << 1;
pub const GICR_WAKER_ASLEEP: u32 = 1 << 2;
/// Pending bits are all zero.
pub const GICR_PENDBASER_ZERO: u64 = 1 << 62;
/// A redistributor has 64 KiB of its own registers and 64 KiB of its private interrupts'.
pub const GICR_FRAME: usize = 0x2_0000;

pub const GITS_CTLR: usize = 0x0;
pub const GITS_TYPER: usize = 0x8;
pub const GITS_CBASER: usize = 0x80;
pub const GITS_CWRITER: usize = 0x88;
pub const GITS_CREADR: usize = 0x90;
pub const GITS_BASER: usize = 0x100;
pub const GITS_BASERS: usize = 8;
/// From the ITS's base.
pub const GITS_TRANSLATER: u64 = 0x1_0040;
pub const GITS_CTLR_ENABLED: u32 = 1;
pub const GITS_CTLR_QUIESCENT: u32 = 1 << 31;
pub const GITS_CREADR_STALLED: u32 = 1;

pub const VALID: u64 = 1 << 63;
/// Types of table in `GITS_BASER`.
pub const TABLE_DEVICES: u64 = 1;
pub const TABLE_COLLECTIONS: u64 = 4;

/// Inner shareable; read- and write-allocate, write-back.
pub const SHAREABLE: u64 = 1 << 10;
pub const BASER_CACHED: u64 = 7 << 59 | SHAREABLE;
pub const GICR_CACHED: u64 = 7 << 7 | SHAREABLE;

/// Bits `high` to `low` of `word`.
pub const fn bits(word: u64, high: u32, low: u32) -> u64 {
    word >> low & (u64::MAX >> (63 - (high - low)))
}

/// 64-bit registers allow accesses of 32 bits.
pub fn read64<M: Mmio>(io: &M, offset: usize) -> u64 {
    u64::from(io.read32(offset)) | u64::from(io.read32(offset + 4)) << 32
}
