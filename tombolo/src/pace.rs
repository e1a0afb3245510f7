//! Waiting for the device, with limits.
//!
//! The tool waits as a processor does: time passes until an interrupt came, or until it is time to
//! look. On a simulated machine it goes from event to event and all limits are in simulated time or in
//! events, so a run ends after the same steps everywhere.

use tombolo_hal::irq::IrqMode;

use crate::fault::Armed;
use crate::platform::Platform;
use crate::rig::Rig;

/// How often to look at the device when there are no interrupts, in nanoseconds.
const POLL_NS: u64 = 2_000;

/// The run takes longer than it ever should.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfTime {
    /// In milliseconds, simulated or real.
    #[error("gave up after {0} ms")]
    Time(u64),
    /// In steps.
    #[error("gave up after {0} steps")]
    Steps(u64),
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time without news after which a channel is given up, in nanoseconds.
    pub timeout_ns: u64,
    /// Time for everything, in nanoseconds.
    pub total_ns: u64,
    /// Steps for everything.
    pub steps: u64,
    /// How long to wait for an interrupt before the driver is asked to look, in nanoseconds.
    pub look_ns: u64,
}

impl Limits {
    /// For `rounds` rounds one after the other, in each of which `bytes` bytes share one direction
    /// of the link.
    pub fn new<P: Platform>(rig: &Rig<P>, timeout_ms: Option<u64>, bytes: u64, rounds: u64) -> Self {
        let ideal = rig.platform.link_ns(bytes);
        let own = timeout_ms.map(|ms| ms.saturating_mul(1_000_000));
        let timeout_ns = own.unwrap_or(ideal.saturating_mul(10).saturating_add(1_000_000_000));
        // Losing every interrupt is slow and not endless.
        let look_ns = rig.platform.look_ns().min(timeout_ns / 2).max(1);
        let round = ideal.saturating_mul(10).saturating_add(4 * look_ns);
        let total_ns = round.saturating_mul(rounds).saturating_add(timeout_ns.saturating_mul(4));
        let requests = bytes.saturating_mul(rounds) / rig.platform.burst_bytes();
        let steps = requests.saturating_mul(16).saturating_add(total_ns / POLL_NS).saturating_add(1_000_000);
        Self { timeout_ns, total_ns, steps, look_ns }
    }
}

/// When something was last heard of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    news: u64,
    looked: u64,
}

impl Heard {
    /// News at `now`.
    pub const fn at(now: u64) -> Self {
        Self { news: now, looked: now }
    }
}

/// What is to be done about a channel that is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Wait.
    Nothing,
    /// Look at the device.
    Look,
    /// Give it up.
    GiveUp,
}

/// Lets time pass, with a fault under way and limits in force.
#[derive(Debug)]
pub struct Pacer {
    limits: Limits,
    started: u64,
    steps: u64,
    armed: Armed,
}

impl Pacer {
    /// Starts now.
    pub fn new<P: Platform>(rig: &Rig<P>, limits: Limits, armed: Armed) -> Self {
        Self { limits, started: rig.now_ns(), steps: 0, armed }
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the fault has done.
    pub fn armed(&self) -> &Armed {
        &self.armed
    }

    /// Lets faults strike whose moment has come. Called once a round.
    pub fn tick<P: Platform>(&mut self, rig: &Rig<P>) {
        rig.platform.tick(&mut self.armed);
    }

    /// What is due for a channel last heard of at `heard`; a look counts as done.
    pub fn due<P: Platform>(&self, rig: &Rig<P>, heard: &mut Heard) -> Due {
        let now = rig.now_ns();
        if now >= heard.news.saturating_add(self.limits.timeout_ns) {
            return Due::GiveUp;
        }
        if now < heard.looked.saturating_add(self.limits.look_ns) {
            return Due::Nothing;
        }
        heard.looked = now;
        Due::Look
    }

    /// When something will be due for it.
    pub fn deadline(&self, heard: &Heard) -> u64 {
        let look = heard.looked.saturating_add(self.limits.look_ns);
        look.min(heard.news.saturating_add(self.limits.timeout_ns))
    }

    /// Waits for an interrupt, `deadline` at most. Without interrupts: until it is worth a look.
    ///
    /// # Errors
    /// [`OutOfTime`].
    pub fn wait<P: Platform>(&mut self, rig: &Rig<P>, deadline: u64) -> Result<(), OutOfTime> {
        let polled = rig.irq_mode() == IrqMode::Polling;
        let until = if polled { deadline.min(rig.now_ns() + POLL_NS) } else { deadline };
        while !rig.take_news() && rig.now_ns() < until {
            self.spend(rig)?;
            rig.pass(until);
        }
        self.spend(rig)
    }

    fn spend<P: Platform>(&mut self, rig: &Rig<P>) -> Result<(), OutOfTime> {
        self.steps += 1;
        let passed = rig.now_ns() - self.started;
        if passed > self.limits.total_ns {
            return Err(OutOfTime::Time(passed / 1_000_000));
        }
        if self.steps > self.limits.steps {
            return Err(OutOfTime::Steps(self.steps));
        }
        Ok(())
    }
}
