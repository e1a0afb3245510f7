//! The legacy devices of a PC: serial port, timer, interrupt controllers.

use super::cpu::{self, in8, out8};

const SERIAL: u16 = 0x3f8;
/// Looks at a serial port that never becomes ready; it is written to all the same then.
const SERIAL_LOOKS: u32 = 100_000;

/// 115200 baud, 8 bits, no parity, FIFO, no interrupts.
pub fn start_serial() {
    const SETTINGS: [(u16, u8); 7] = [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7), (4, 3)];
    for (register, value) in SETTINGS {
        // SAFETY: the first serial port is this runtime's.
        unsafe { out8(SERIAL + register, value) };
    }
}

/// Sends a byte.
pub fn put(byte: u8) {
    const EMPTY: u8 = 1 << 5;
    // SAFETY: as above.
    let is_ready = || unsafe { in8(SERIAL + 5) } & EMPTY != 0;
    (0..SERIAL_LOOKS).find(|_| is_ready());
    // SAFETY: as above.
    unsafe { out8(SERIAL, byte) };
}

/// Masks the 8259 interrupt controllers, moved out of the way of exceptions first, as spurious interrupts cannot be
/// masked.
pub fn mask_legacy_controllers() {
    const SETTINGS: [(u16, u8); 10] = [
        (0x20, 0x11),
        (0xa0, 0x11),
        (0x21, 0x20),
        (0xa1, 0x28),
        (0x21, 4),
        (0xa1, 2),
        (0x21, 1),
        (0xa1, 1),
        (0x21, 0xff),
        (0xa1, 0xff),
    ];
    for (port, value) in SETTINGS {
        // SAFETY: nobody else uses them.
        unsafe { out8(port, value) };
    }
}

const PIT_HZ: u64 = 1_193_182;
/// About 10 ms.
const PIT_TICKS: u16 = 11_932;
const PIT_LOOKS: u32 = 50_000_000;

/// The rate of the time stamp counter: as CPUID says, else measured with the PIT's second channel.
pub fn time_stamp_rate() -> Option<u64> {
    let [denominator, numerator, crystal, _] = cpu::cpuid(0x15);
    if denominator != 0 && numerator != 0 && crystal != 0 {
        return Some(u64::from(crystal) * u64::from(numerator) / u64::from(denominator));
    }
    const GATE: u16 = 0x61;
    const OUTPUT: u8 = 1 << 5;
    // SAFETY: the second channel is the loudspeaker's; it stays off (bit 1).
    unsafe {
        let gate = in8(GATE) & !3;
        out8(GATE, gate);
        // Channel 2, both bytes, mode 0: the output rises when the count is over.
        out8(0x43, 0xb0);
        out8(0x42, PIT_TICKS as u8);
        out8(0x42, (PIT_TICKS >> 8) as u8);
        out8(GATE, gate | 1);
    }
    let start = cpu::time_stamp();
    // SAFETY: as above.
    (0..PIT_LOOKS).find(|_| unsafe { in8(GATE) } & OUTPUT != 0)?;
    crate::clock::rate(cpu::time_stamp().wrapping_sub(start), PIT_TICKS.into(), PIT_HZ)
}
