//! Moments at which something of the model happens, and the tokens by which it is called then.

use crate::device::Bus;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ev {
    /// The wire has something; comes from outside too.
    Wire,
    Tx(usize),
    Rx(usize),
    Moderation(usize),
    /// A timer of the 1588 unit.
    Ptp,
    Gpt,
    Pause,
    /// The PHY's link comes up.
    Phy,
    /// Something with an end of its own has come to it.
    Due,
}

impl Ev {
    /// The token: kind, index, and the life of the model (between resets) to which it belongs.
    pub fn token(self, epoch: u64) -> u64 {
        let (kind, index) = match self {
            Ev::Wire => return super::wire::ARRIVAL,
            Ev::Tx(channel) => (1, channel),
            Ev::Rx(channel) => (2, channel),
            Ev::Moderation(timer) => (3, timer),
            Ev::Ptp => (4, 0),
            Ev::Gpt => (5, 0),
            Ev::Pause => (7, 0),
            Ev::Due => (8, 0),
            Ev::Phy => (9, 0),
        };
        epoch << 16 | (index as u64 & 0xff) << 8 | kind
    }

    /// What a token of this life means. Others are taken as a look at the wire, which harms nobody.
    pub fn from_token(token: u64, epoch: u64) -> Self {
        if token >> 16 != epoch & (u64::MAX >> 16) {
            return Ev::Wire;
        }
        let index = (token >> 8 & 0xff) as usize;
        match token & 0xff {
            1 if index < 4 => Ev::Tx(index),
            2 if index < 4 => Ev::Rx(index),
            3 if index < 10 => Ev::Moderation(index),
            4 => Ev::Ptp,
            5 => Ev::Gpt,
            7 => Ev::Pause,
            8 => Ev::Due,
            9 => Ev::Phy,
            _ => Ev::Wire,
        }
    }
}

/// Events of one alarm that may wait at once. A guest that keeps moving a moment cannot make more.
const MOST: u8 = 8;

/// One moment that may be moved and taken back. Events cannot be taken back, so one that comes for a
/// moment which was moved is ignored, or asks again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarm {
    at: Option<u64>,
    waiting: u8,
    earliest: u64,
}

impl Alarm {
    pub fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// Takes the moment back.
    pub fn cancel(&mut self) {
        self.at = None;
    }

    /// Sets the moment.
    pub fn set(&mut self, bus: &mut dyn Bus, token: u64, at: u64) {
        self.at = Some(at);
        if self.waiting == 0 || (at < self.earliest && self.waiting < MOST) {
            self.ask(bus, token, at);
        }
    }

    /// Sets the moment unless one is set that is not later.
    pub fn set_by(&mut self, bus: &mut dyn Bus, token: u64, at: u64) {
        if self.at.is_none_or(|set| at < set) {
            self.set(bus, token, at);
        }
    }

    fn ask(&mut self, bus: &mut dyn Bus, token: u64, at: u64) {
        self.waiting += 1;
        self.earliest = at;
        bus.schedule(at.saturating_sub(bus.now_ns()), token);
    }

    /// An event came. Whether it is the moment.
    pub fn fires(&mut self, bus: &mut dyn Bus, token: u64) -> bool {
        self.waiting = self.waiting.saturating_sub(1);
        match self.at {
            Some(at) if at <= bus.now_ns() => {
                self.at = None;
                true
            }
            Some(at) => {
                if self.waiting < MOST {
                    self.ask(bus, token, at);
                }
                false
            }
            None => false,
        }
    }
}
