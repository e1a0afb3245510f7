//! A DMA channel: its registers, its state, and the descriptors that it holds.
//!
//! Source: AN2948 sections 10.0.13 to 10.0.32. A soft reset leaves what the note marks NASR: the
//! configuration, the addresses, the tail and the error status. Only the head starts anew, and the tail
//! when software writes the lower base address, as every driver does.

use std::collections::VecDeque;

use super::alarm::Alarm;
use super::regs::dmac;

/// A descriptor as it was fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub index: u32,
    pub words: [u32; 4],
}

/// Where a channel is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Initial,
    Running,
    /// Until then, and stopped from then on.
    Stopping(u64),
}

/// A channel.
#[derive(Debug)]
pub(super) struct Ring {
    pub cfg_a: u32,
    pub cfg_b: u32,
    pub cfg_c: u32,
    pub base: u64,
    pub head_address: u64,
    /// The first descriptor that software does not have back.
    pub head: u32,
    pub tail: u32,
    pub err: u32,
    pub state: State,
    pub reset_until: u64,
    /// Fetched, and not used up.
    pub cache: VecDeque<Descriptor>,
    /// The next that will be fetched.
    pub fetch: u32,
    /// Receive: used up, and not written back.
    pub done: VecDeque<Descriptor>,
    /// The head as it will be after the next write-back.
    pub next_head: u32,
    /// Transmit: descriptors passed that ask for a write-back.
    pub owed: u32,
    /// An error stopped it until its reset.
    pub halted: bool,
    pub alarm: Alarm,
}

impl Ring {
    pub fn new(rx: bool) -> Self {
        Self {
            cfg_a: 0,
            cfg_b: if rx { dmac::RX_CFG_B_RESET } else { dmac::TX_CFG_B_RESET },
            cfg_c: 0,
            base: 0,
            head_address: 0,
            head: 0,
            tail: 0,
            err: 0,
            state: State::Initial,
            reset_until: 0,
            cache: VecDeque::new(),
            fetch: 0,
            done: VecDeque::new(),
            next_head: 0,
            owed: 0,
            halted: false,
            alarm: Alarm::default(),
        }
    }

    pub fn length(&self) -> u32 {
        self.cfg_b & 0xffff
    }

    /// The bits of the command register: start, stop.
    pub fn bits(&self, now: u64) -> (bool, bool) {
        match self.state {
            State::Initial => (false, false),
            State::Running => (true, false),
            State::Stopping(until) => (now < until, true),
        }
    }

    pub fn runs(&self) -> bool {
        self.state == State::Running && !self.halted
    }

    /// Back to the beginning of the ring, with nothing in hand.
    fn restart(&mut self) {
        (self.head, self.fetch, self.next_head, self.owed) = (0, 0, 0, 0);
        self.cache.clear();
        self.done.clear();
    }

    /// The lower base address was written: head and tail start anew.
    pub fn rebase(&mut self) {
        self.restart();
        self.tail = 0;
    }

    /// A soft reset, which is over at `until`.
    pub fn soft_reset(&mut self, until: u64) {
        self.restart();
        (self.state, self.halted, self.reset_until) = (State::Initial, false, until);
        self.alarm.cancel();
    }

    /// Forgets what was fetched: it is fetched again.
    pub fn forget_cache(&mut self) {
        if let Some(first) = self.cache.front() {
            self.fetch = first.index;
            self.cache.clear();
        }
    }

    /// The next index of the ring.
    pub fn after(&self, index: u32) -> u32 {
        if index + 1 >= self.length() { 0 } else { index + 1 }
    }

    /// Descriptors between the one to be fetched and the tail. The index can be beyond a ring that was made
    /// shorter (NASR registers and a soft reset let a guest do that): then there are none.
    pub fn available(&self) -> u32 {
        let length = self.length();
        if length < 2 || self.tail >= length || self.fetch >= length {
            return 0;
        }
        (self.tail + length - self.fetch) % length
    }

    /// Whether an error is up that the error interrupt shows: the two kinds that can be told to halt the
    /// channel only if they are.
    pub fn reports_error(&self) -> bool {
        let tail = self.err & dmac::ERR_TAIL != 0 && self.err & dmac::ERR_TAIL_HALT != 0;
        let sequence = self.err & dmac::ERR_SEQUENCE != 0 && self.err & dmac::ERR_SEQUENCE_HALT != 0;
        self.err & (dmac::ERR_DATA | dmac::ERR_DESCRIPTOR | dmac::ERR_TXE) != 0 || tail || sequence
    }

    /// Takes a tail; false if it is beyond the ring.
    pub fn set_tail(&mut self, index: u32) -> bool {
        if index >= self.length() && self.length() != 0 {
            self.err |= dmac::ERR_TAIL;
            self.halted |= self.err & dmac::ERR_TAIL_HALT != 0;
            return false;
        }
        self.tail = index;
        true
    }
}
