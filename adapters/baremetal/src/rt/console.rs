//! The serial port.

use core::fmt;

/// The serial port that the machine was started with.
#[derive(Clone, Copy, Debug)]
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                super::arch::put(b'\r');
            }
            super::arch::put(byte);
        }
        Ok(())
    }
}
