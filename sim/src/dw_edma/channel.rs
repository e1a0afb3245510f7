//! The state of one channel: its registers and where its engine stands.

use std::collections::VecDeque;

use super::list::Element;
use super::params::Dir;
use super::regs::{hdma, v0};

/// Channel status as both register files encode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Never started since reset.
    Reset = 0,
    /// Running.
    Running = 1,
    /// Halted by an error.
    Halted = 2,
    /// All done, or stopped.
    Stopped = 3,
}

/// What the channel's pending event will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No event is pending: not running.
    Idle,
    /// List elements arrive.
    Fetch,
    /// That many bytes arrive.
    Data(usize),
    /// The element completes.
    Complete,
    /// Running and stuck (fault hook): no event will come.
    Hung,
}

/// How a running channel was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Not at all.
    No,
    /// By doorbell: an interrupt tells.
    Doorbell,
    /// By taking its enable away: silent.
    Silent,
}

/// Registers that only HDMA native has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Native {
    pub prefetch: u32,
    pub handshake: u32,
    pub watermark_en: u32,
    pub func_num: u32,
    pub qos: u32,
    pub int_status: u32,
    pub int_setup: u32,
    pub cycle_bit: bool,
    /// Stop, watermark, abort addresses: low, high each.
    pub messages: [u32; 6],
    pub data: u32,
}

/// One channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub dir: Dir,
    /// Number within the direction.
    pub number: u16,
    /// Control word 1 without status and cycle state.
    pub control1: u32,
    pub control2: u32,
    pub size: u32,
    pub sar: u64,
    pub dar: u64,
    pub llp: u64,
    /// What a lazily updated list pointer register shows.
    pub llp_shown: u64,
    /// Consumer cycle state.
    pub ccs: bool,
    pub status: Status,
    /// Power enable (HDMA-compatible) or channel enable (native).
    pub enabled: bool,
    pub native: Native,

    /// Which events belong to the present run.
    pub generation: u64,
    pub phase: Phase,
    pub stop: Stop,
    /// A doorbell came while running and is remembered.
    pub rung: bool,
    /// The present run works a list.
    pub list: bool,
    /// Elements fetched ahead, in order.
    pub fifo: VecDeque<Element>,
    /// Where the next fetch goes, and the cycle state there.
    pub fetch_at: u64,
    pub fetch_ccs: bool,
    /// Links followed since the last data.
    pub links: u32,
    /// Interrupts (local, remote) of a finished element, held until what follows it is known.
    pub held: (bool, bool),
    /// A fatal error happened; counts if the parameter says so.
    pub fatal: bool,
    /// State of the local interrupt line.
    pub line: bool,
}

impl Channel {
    pub fn new(dir: Dir, number: u16) -> Self {
        Self {
            dir,
            number,
            control1: 0,
            control2: 0,
            size: 0,
            sar: 0,
            dar: 0,
            llp: 0,
            llp_shown: 0,
            ccs: false,
            status: Status::Reset,
            enabled: false,
            native: Native::default(),
            generation: 0,
            phase: Phase::Idle,
            stop: Stop::No,
            rung: false,
            list: false,
            fifo: VecDeque::new(),
            fetch_at: 0,
            fetch_ccs: false,
            links: 0,
            held: (false, false),
            fatal: false,
            line: false,
        }
    }

    /// Power-on state; events of before are void.
    pub fn reset(&mut self) {
        let generation = self.generation + 1;
        *self = Self { generation, ..Self::new(self.dir, self.number) };
    }

    /// The channel's bit in the v0 interrupt registers' done field.
    pub fn bit(&self) -> u32 {
        1 << (self.number & 0x1f)
    }

    pub fn is_running(&self) -> bool {
        self.status == Status::Running
    }

    /// Leaves the running state: nothing fetched is kept, no event of this run counts.
    pub fn leave(&mut self, status: Status) {
        self.status = status;
        self.phase = Phase::Idle;
        self.stop = Stop::No;
        self.rung = false;
        self.generation += 1;
        self.fifo.clear();
        self.llp_shown = self.llp;
    }

    /// The control word as v0 shows it.
    pub fn v0_control1(&self) -> u32 {
        let ccs = if self.ccs { v0::control::CCS } else { 0 };
        self.control1 | ccs | (self.status as u32) << v0::control::STATUS_SHIFT
    }

    /// Writes the v0 control word; the status field is read-only.
    pub fn set_v0_control1(&mut self, value: u32) {
        self.ccs = value & v0::control::CCS != 0;
        self.control1 = value & !(v0::control::CCS | v0::control::STATUS);
    }

    /// The cycle register of HDMA native.
    pub fn native_cycle(&self) -> u32 {
        u32::from(self.native.cycle_bit) | u32::from(self.ccs) << 1
    }

    /// The enabled local interrupt bits of HDMA native that are not masked.
    pub fn native_line(&self) -> bool {
        self.native.int_status & hdma::int::EVENTS & !self.native.int_setup != 0
    }
}
