//! What firmware does: gives the BARs addresses.

use tombolo_hal::pci::{self, BarKind, ConfigSpace, regs};

use super::Error;

/// Where 32-bit BARs are placed.
pub(super) const WINDOW_32: (u64, u64) = (0xc000_0000, 0xfebf_ffff);
/// Where 64-bit BARs are placed.
pub(super) const WINDOW_64: (u64, u64) = (0x80_0000_0000, 0xff_ffff_ffff);

/// Gives an address to each memory BAR that has none. Memory decoding must be off.
pub(super) fn place<C: ConfigSpace>(config: &C) -> Result<(), Error> {
    let mut next = [WINDOW_32.0, WINDOW_64.0];
    let bars = pci::size_bars(config)?;
    for bar in bars.into_iter().flatten().filter(|bar| bar.is_memory()) {
        let wide = bar.kind == BarKind::Memory64;
        let (at, last) = if wide { (&mut next[1], WINDOW_64.1) } else { (&mut next[0], WINDOW_32.1) };
        let address = at.checked_next_multiple_of(bar.size);
        let end = address.and_then(|address| address.checked_add(bar.size - 1)).filter(|end| *end <= last);
        let no_room = || Error::NoRoom { bar: bar.index, size: bar.size };
        let (address, end) = (address.ok_or_else(no_room)?, end.ok_or_else(no_room)?);
        *at = end + 1;
        config.write32(register(bar.index), address as u32);
        if wide {
            config.write32(register(bar.index + 1), (address >> 32) as u32);
        }
    }
    Ok(())
}

fn register(bar: u8) -> u16 {
    regs::BASE_ADDRESS_0 + 4 * u16::from(bar)
}
