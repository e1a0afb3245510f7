//! The PTP clock, time stamps (AN2948 section 9; Linux `lan743x_ptp.c`).

use std::collections::VecDeque;

use super::Lan743x;
use super::frame;
use super::handle::Wait;
use super::regs::{dmac, ptp};
use crate::device::Bus;

const SECOND: u64 = 1_000_000_000;
/// Transmit time stamps that are kept.
const STAMPS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    seconds: u32,
    nanoseconds: u32,
    header: u32,
}

#[derive(Debug, Default)]
pub(super) struct Ptp {
    pub int_sts: u32,
    pub int_en: u32,
    enabled: bool,
    /// The clock in units of 2^-32 ns when `since` was.
    base: u128,
    since: u64,
    rate: u32,
    load: [u32; 3],
    latched: [u32; 4],
    step: u32,
    general: u32,
    targets: [u32; 8],
    stamps: VecDeque<Stamp>,
    busy_until: u64,
    busy: u32,
}

impl Ptp {
    /// The clock now, in units of 2^-32 ns.
    fn clock(&self, now: u64) -> u128 {
        if !self.enabled {
            return self.base;
        }
        let elapsed = u128::from(now.saturating_sub(self.since));
        // The rate is added each 8 ns.
        let adjust = elapsed * u128::from(self.rate & 0x3fff_ffff) / 8;
        let plain = elapsed << 32;
        let moved = if self.rate >> 31 != 0 { plain + adjust } else { plain.saturating_sub(adjust) };
        self.base + moved
    }

    fn settle(&mut self, now: u64) {
        (self.base, self.since) = (self.clock(now), now);
    }

    fn split(clock: u128) -> (u64, u32, u32) {
        let ns = (clock >> 32) as u64;
        (ns / SECOND, (ns % SECOND) as u32, clock as u32)
    }

    fn capture(&mut self, stamp: Stamp) {
        if self.stamps.len() < STAMPS {
            self.stamps.push_back(stamp);
            self.int_sts |= ptp::INT_TX_TS;
        }
    }
}

impl Lan743x {
    pub(super) fn ptp_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        let front = self.ptp.stamps.front().copied().unwrap_or_default();
        Some(match offset {
            ptp::CMD => {
                let enabled = if self.ptp.enabled { 1 << 2 } else { 0 };
                enabled | if now < self.ptp.busy_until { self.ptp.busy } else { 0 }
            }
            ptp::GENERAL => self.ptp.general,
            ptp::INT_STS => self.ptp.int_sts,
            ptp::INT_EN_SET | ptp::INT_EN_CLR => self.ptp.int_en,
            ptp::CLOCK_SEC => self.ptp.latched[0],
            ptp::CLOCK_NS => self.ptp.latched[1],
            ptp::CLOCK_SUBNS => self.ptp.latched[2],
            ptp::RATE_ADJ => self.ptp.rate,
            ptp::STEP_ADJ => self.ptp.step,
            ptp::TARGET..=0xa4f => self.ptp.targets[(offset - ptp::TARGET) as usize / 4],
            ptp::CAP_INFO => (self.ptp.stamps.len() as u32) << 4,
            ptp::TX_EGRESS_SEC => front.seconds,
            ptp::TX_EGRESS_NS => front.nanoseconds,
            ptp::TX_HEADER => front.header,
            0xaf0 => self.ptp.latched[3],
            0xaf4 => self.ptp.latched[0],
            0xaf8 => self.ptp.latched[1],
            0xafc => self.ptp.latched[2],
            _ => return self.plain.read(offset),
        })
    }

    pub(super) fn ptp_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        match offset {
            ptp::CMD => self.ptp_command(now, value),
            ptp::GENERAL => self.ptp.general = value,
            ptp::INT_STS => {
                if value & ptp::INT_TX_TS != 0 {
                    self.ptp.stamps.pop_front();
                }
                self.ptp.int_sts &= !value;
                if !self.ptp.stamps.is_empty() {
                    self.ptp.int_sts |= ptp::INT_TX_TS;
                }
            }
            ptp::INT_EN_SET => self.ptp.int_en |= value,
            ptp::INT_EN_CLR => self.ptp.int_en &= !value,
            ptp::CLOCK_SEC => self.ptp.load[0] = value,
            ptp::CLOCK_NS => self.ptp.load[1] = value,
            ptp::CLOCK_SUBNS => self.ptp.load[2] = value,
            ptp::RATE_ADJ => {
                self.ptp.settle(now);
                self.ptp.rate = value;
            }
            ptp::STEP_ADJ => self.ptp.step = value,
            ptp::TARGET..=0xa4f => self.ptp.targets[(offset - ptp::TARGET) as usize / 4] = value,
            ptp::CAP_INFO | ptp::TX_EGRESS_SEC | ptp::TX_EGRESS_NS | ptp::TX_HEADER => {}
            _ => return self.plain.write(offset, value),
        }
        self.update_interrupts(bus);
        true
    }

    fn ptp_command(&mut self, now: u64, value: u32) {
        let ptp = &mut self.ptp;
        ptp.settle(now);
        if value & 1 != 0 {
            *ptp = Ptp { since: now, ..Ptp::default() };
        }
        if value & 1 << 1 != 0 {
            ptp.enabled = false;
        }
        if value & 1 << 2 != 0 {
            (ptp.enabled, ptp.since) = (true, now);
        }
        if value & 1 << 3 != 0 {
            let (seconds, ns, sub) = Ptp::split(ptp.clock(now));
            ptp.latched = [seconds as u32, ns, sub, (seconds >> 32) as u32];
        }
        if value & 1 << 4 != 0 {
            let ns = u128::from(ptp.load[0]) * u128::from(SECOND) + u128::from(ptp.load[1] & 0x3fff_ffff);
            (ptp.base, ptp.since) = (ns << 32 | u128::from(ptp.load[2]), now);
        }
        if value & 0x60 != 0 {
            let amount = u128::from(ptp.step & 0x3fff_ffff);
            let ns = if value & 1 << 5 != 0 { amount * u128::from(SECOND) } else { amount };
            let by = ns << 32;
            ptp.base = if ptp.step >> 31 != 0 { ptp.base + by } else { ptp.base.saturating_sub(by) };
        }
        self.ptp.busy = value & 0x207b;
        self.ptp.busy_until = self.end_of(Wait::Ptp, now, self.params.timing.ptp_ns);
    }

    /// The time stamp of a frame that leaves at `at`.
    pub(super) fn tx_stamp(&mut self, at: u64, bytes: &[u8]) {
        let lost = {
            let mut shared = self.shared();
            let lost = shared.faults.lost_tx_stamps;
            shared.faults.lost_tx_stamps = lost.saturating_sub(1);
            lost != 0
        };
        if lost || !self.ptp.enabled {
            return;
        }
        let (seconds, nanoseconds, _) = Ptp::split(self.ptp.clock(at));
        let header =
            ptp_message(bytes).map_or(0, |(kind, sequence)| u32::from(kind) << 16 | u32::from(sequence));
        self.ptp.capture(Stamp { seconds: seconds as u32, nanoseconds, header });
    }

    /// The time stamp that a received frame gets, by the mode of channel 0.
    pub(super) fn rx_stamp(&self, now: u64, bytes: &[u8]) -> Option<(u32, u32)> {
        let mode = self.dmac.rx[0].cfg_b;
        let event = ptp_message(bytes).is_some_and(|(kind, _)| kind < 4);
        let wanted = mode & dmac::RX_TS_ALL != 0 || mode & dmac::RX_TS_DESCR != 0 && event;
        let (seconds, ns, _) = Ptp::split(self.ptp.clock(now));
        (wanted && self.ptp.enabled).then_some((seconds as u32, ns))
    }

    pub(super) fn ptp_timer_event(&mut self, _bus: &mut dyn Bus, _timer: usize) {}

    pub(super) fn take_edges(&mut self, _bus: &mut dyn Bus) {
        self.shared().faults.edges.clear();
    }
}

/// Type and sequence number of a PTP message over Ethernet or UDP.
fn ptp_message(bytes: &[u8]) -> Option<(u8, u16)> {
    let headers = frame::parse(bytes, 0x88a8)?;
    let at = match headers.ip {
        None if headers.ethertype == frame::ETH_PTP => headers.l3,
        Some(ip) if ip.protocol == frame::UDP && matches!(frame::be16(bytes, ip.l4 + 2), Some(319 | 320)) => {
            ip.l4 + 8
        }
        _ => return None,
    };
    Some((bytes.get(at)? & 0xf, frame::be16(bytes, at + 30)?))
}
