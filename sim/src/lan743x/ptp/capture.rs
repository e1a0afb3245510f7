//! What captures of the clock are kept in: transmit time stamps, the one receive time stamp, and inputs.
//!
//! Sources: AN2948 sections 9.1, 9.3, 9.22, 9.27 to 9.29, 9.40 to 9.42, 9.46 to 9.50; Linux 7.3
//! `lan743x_main.h` for the overflow bits of the second family.

use std::collections::VecDeque;

use crate::lan743x::Interface;

/// Transmit time stamps that are kept.
pub(super) const DEPTH: usize = 4;

/// Seconds, nanoseconds with their cause, header, and the channel that sent the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub seconds: u32,
    pub nanoseconds: u32,
    pub header: u32,
    pub channel: u8,
}

/// The transmit time stamps.
#[derive(Debug, Default)]
pub(super) struct Fifo(VecDeque<Stamp>);

impl Fifo {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The oldest; zeros if there is none ("values are only valid if" the count says so).
    pub fn front(&self) -> Stamp {
        self.0.front().copied().unwrap_or_default()
    }

    /// Keeps one more; false if there is no place.
    pub fn push(&mut self, stamp: Stamp) -> bool {
        let room = self.0.len() < DEPTH;
        if room {
            self.0.push_back(stamp);
        }
        room
    }

    pub fn pop(&mut self) {
        self.0.pop_front();
    }
}

/// Captures of the eight inputs: falling and rising edges, seconds and nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inputs {
    times: [[(u32, u32); 2]; 8],
}

impl Inputs {
    pub fn get(&self, input: u32, rising: bool) -> (u32, u32) {
        self.times[input as usize & 7][usize::from(rising)]
    }

    pub fn set(&mut self, input: u32, rising: bool, time: (u32, u32)) {
        self.times[input as usize & 7][usize::from(rising)] = time;
    }
}

/// The interrupt status bit of an edge, which is also that of its lock in `CAP_CONFIG`.
pub(super) fn edge_bit(input: u32, rising: bool) -> u32 {
    1 << ((input & 7) + if rising { 16 } else { 24 })
}

/// The bit of `CAP_CONFIG` that enables an edge.
pub(super) fn enable_bit(input: u32, rising: bool) -> u32 {
    edge_bit(input, rising) >> 16
}

/// The capture set of an input: GPIO 8 to 11 can take the place of 0 to 3 (first family, bits 24 and 25 of
/// `PTP_GENERAL_CONFIG`).
pub(super) fn set_of(input: u8, rising: bool, general: u32, second_family: bool) -> Option<u32> {
    let remapped = !second_family && general >> (if rising { 24 } else { 25 }) & 1 != 0;
    match input {
        0..=3 if !remapped => Some(input.into()),
        4..=7 => Some(input.into()),
        8..=11 if remapped => Some(u32::from(input) - 8),
        _ => None,
    }
}

/// What lies between time stamp point and medium, as (transmit, receive) nanoseconds: the typical values of
/// AN2948 table 262, with nothing outside of the chip added. Of 10BASE-T it has none: 0, as Linux writes.
/// Of SGMII and RMII nothing is known: as RGMII.
pub(in super::super) fn line_delays(interface: Interface, speed: u32) -> (u32, u32) {
    match (interface, speed) {
        (Interface::Gmii, 1000) => (117, 444),
        (Interface::Gmii, 100) => (181, 594),
        (Interface::Gmii, _) => (0, 0),
        (Interface::Mii, 10) => (783, 18),
        (Interface::Mii, _) => (63, 18),
        (_, 10) => (1195, 1618),
        (_, 100) => (115, 179),
        _ => (19, 50),
    }
}
