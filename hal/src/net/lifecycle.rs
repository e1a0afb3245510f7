//! The life of a network interface.
//!
//! A pure state machine: events go in, actions come out, and whoever drives it carries them out in the
//! given order. So a kernel's callbacks, a userspace loop and bare metal have one order of doing things,
//! and every sequence of events can be tested.

/// Where an interface is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Not in use. The device is silent.
    #[default]
    Down,
    /// In use.
    Up,
    /// In use, but the device has to be reset: queues are closed until it has been.
    Recovering,
    /// In use, with the power off.
    Suspended,
    /// Not in use, with the power off.
    SuspendedDown,
    /// The device is gone. It only can be closed.
    Gone,
    /// The device is gone, and nobody uses the interface.
    GoneDown,
}

/// What happens to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody wants to use it.
    Open,
    /// Nobody wants to use it any more.
    Close,
    /// The link came.
    LinkUp,
    /// The link went.
    LinkDown,
    /// The device or a queue hangs, or reported an error that only a reset ends.
    Fault,
    /// A reset that was asked for has been done.
    ResetDone,
    /// A reset that was asked for did not help.
    ResetFailed,
    /// The power goes off.
    Suspend,
    /// The power is back. The device has forgotten everything.
    Resume,
    /// The device reads all ones.
    Removed,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 10] = [
        Event::Open,
        Event::Close,
        Event::LinkUp,
        Event::LinkDown,
        Event::Fault,
        Event::ResetDone,
        Event::ResetFailed,
        Event::Suspend,
        Event::Resume,
        Event::Removed,
    ];
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Program the device and start it: rings, filters, interrupts, MAC.
    StartDevice,
    /// Let senders in.
    OpenQueues,
    /// Keep senders out, and wait until those who are inside have left.
    CloseQueues,
    /// Stop the device and take all buffers back.
    StopDevice,
    /// The device is gone: take all buffers back without a word to it.
    ForgetDevice,
    /// Report a carrier.
    CarrierOn,
    /// Report that there is none.
    CarrierOff,
    /// Reset the device, then say [`Event::ResetDone`] or [`Event::ResetFailed`].
    Reset,
    /// Arm wake-up, if it was asked for, and let the device sleep.
    Sleep,
    /// Take back what [`Action::Sleep`] did.
    Wake,
    /// The event makes no sense now: refuse it.
    Refuse,
}

/// A short list of actions, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    list: [Option<Action>; 4],
}

impl Actions {
    fn of(actions: &[Action]) -> Self {
        let mut list = [None; 4];
        for (slot, action) in list.iter_mut().zip(actions) {
            *slot = Some(*action);
        }
        Self { list }
    }

    /// The actions in order.
    pub fn iter(&self) -> impl Iterator<Item = Action> + '_ {
        self.list.iter().flatten().copied()
    }

    /// Whether it says [`Action::Refuse`].
    pub fn refused(&self) -> bool {
        self.iter().any(|action| action == Action::Refuse)
    }
}

impl IntoIterator for Actions {
    type Item = Action;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Action>, 4>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}

/// The state of an interface.
///
/// ```
/// use tombolo_hal::net::{Action, Event, Lifecycle};
///
/// let mut life = Lifecycle::new();
/// let actions: Vec<_> = life.on(Event::Open).iter().collect();
/// assert_eq!(actions, [Action::StartDevice, Action::OpenQueues]);
/// assert!(life.on(Event::LinkUp).iter().eq([Action::CarrierOn]));
/// assert!(life.on(Event::Open).refused());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    state: State,
    carrier: bool,
    /// Resets that have been tried since the device last carried a frame.
    resets: u8,
}

/// Resets in a row that do not help before the device is given up.
const MOST_RESETS: u8 = 5;

impl Lifecycle {
    /// An interface that is down.
    pub const fn new() -> Self {
        Self { state: State::Down, carrier: false, resets: 0 }
    }

    /// Where it is.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether a carrier was reported.
    pub const fn has_carrier(&self) -> bool {
        self.carrier
    }

    /// Frames go: what a reset was to mend is mended.
    pub fn traffic(&mut self) {
        self.resets = 0;
    }

    /// Takes an event and says what is to be done, in this order.
    pub fn on(&mut self, event: Event) -> Actions {
        use Action::*;
        let from = self.state;
        let (to, actions): (State, &[Action]) = match (from, event) {
            (State::Gone, Event::Close) => (State::GoneDown, &[]),
            (State::Gone | State::GoneDown, Event::Removed | Event::Fault) => (from, &[]),
            (State::Gone | State::GoneDown, Event::LinkDown | Event::ResetFailed) => (from, &[]),
            (State::Gone | State::GoneDown, _) => (from, &[Refuse]),

            (State::Down | State::SuspendedDown, Event::Removed) => (State::GoneDown, &[]),
            (State::Suspended, Event::Removed) => (State::Gone, &[CloseQueues, CarrierOff, ForgetDevice]),
            (State::Up | State::Recovering, Event::Removed) => {
                (State::Gone, &[CloseQueues, CarrierOff, ForgetDevice])
            }

            (State::Down, Event::Open) => (State::Up, &[StartDevice, OpenQueues]),
            (State::Down, Event::Suspend) => (State::SuspendedDown, &[Sleep]),
            (State::Down, Event::LinkDown | Event::Fault) => (from, &[]),

            (State::Up, Event::Close) => (State::Down, &[CloseQueues, CarrierOff, StopDevice]),
            (State::Up, Event::LinkUp) if self.carrier => (from, &[]),
            (State::Up, Event::LinkUp) => (from, &[CarrierOn]),
            (State::Up, Event::LinkDown) if !self.carrier => (from, &[]),
            (State::Up, Event::LinkDown) => (from, &[CarrierOff]),
            (State::Up, Event::Fault) if self.resets >= MOST_RESETS => {
                (State::Gone, &[CloseQueues, CarrierOff, StopDevice])
            }
            (State::Up, Event::Fault) => (State::Recovering, &[CloseQueues, CarrierOff, Reset]),
            (State::Up, Event::Suspend) => (State::Suspended, &[CloseQueues, CarrierOff, StopDevice, Sleep]),

            (State::Recovering, Event::ResetDone) => (State::Up, &[OpenQueues]),
            (State::Recovering, Event::ResetFailed) => (State::Gone, &[StopDevice]),
            (State::Recovering, Event::Close) => (State::Down, &[StopDevice]),
            (State::Recovering, Event::Suspend) => (State::Suspended, &[StopDevice, Sleep]),
            (State::Recovering, Event::LinkUp | Event::LinkDown | Event::Fault) => (from, &[]),

            (State::Suspended, Event::Resume) => (State::Up, &[Wake, StartDevice, OpenQueues]),
            (State::Suspended, Event::Close) => (State::SuspendedDown, &[]),
            (State::Suspended, Event::ResetFailed) => (State::Suspended, &[]),
            (State::SuspendedDown, Event::Resume) => (State::Down, &[Wake]),
            (State::SuspendedDown, Event::Open) => (State::Suspended, &[]),
            (State::Suspended | State::SuspendedDown, Event::LinkDown | Event::Fault) => (from, &[]),

            _ => (from, &[Refuse]),
        };
        self.state = to;
        if matches!((from, event), (State::Up, Event::Fault)) {
            self.resets = self.resets.saturating_add(1);
        }
        for action in actions {
            match action {
                CarrierOn => self.carrier = true,
                CarrierOff | StopDevice | ForgetDevice => self.carrier = false,
                _ => {}
            }
        }
        Actions::of(actions)
    }

    /// [`Action::StartDevice`] failed, when the interface was to be opened or after a sleep. It is down
    /// then; nothing more is to be done.
    pub fn start_failed(&mut self) {
        if self.state == State::Up {
            self.state = State::Down;
            self.carrier = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a device and its queues must never see, whatever the order of events.
    #[derive(Default)]
    struct World {
        running: bool,
        open: bool,
        asleep: bool,
        carrier: bool,
        forgotten: bool,
    }

    impl World {
        fn act(&mut self, action: Action) {
            match action {
                Action::StartDevice => {
                    assert!(!self.running && !self.asleep && !self.forgotten, "started twice or asleep");
                    self.running = true;
                }
                Action::OpenQueues => {
                    assert!(self.running && !self.open, "queues of a device that does not run");
                    self.open = true;
                }
                Action::CloseQueues => self.open = false,
                Action::StopDevice => {
                    assert!(self.running && !self.open, "stopped under its senders");
                    self.running = false;
                }
                Action::ForgetDevice => {
                    assert!(!self.open, "forgotten under its senders");
                    self.running = false;
                    self.forgotten = true;
                }
                Action::CarrierOn => {
                    assert!(self.running && !self.carrier);
                    self.carrier = true;
                }
                Action::CarrierOff => self.carrier = false,
                Action::Reset => assert!(self.running && !self.open),
                Action::Sleep => {
                    assert!(!self.running && !self.asleep);
                    self.asleep = true;
                }
                Action::Wake => {
                    assert!(self.asleep);
                    self.asleep = false;
                }
                Action::Refuse => {}
            }
        }
    }

    proptest! {
        #[test]
        fn no_order_of_events_starts_twice_or_stops_under_senders(
            events in prop::collection::vec(0..Event::ALL.len(), 0..200),
        ) {
            let (mut life, mut world) = (Lifecycle::new(), World::default());
            for event in events.into_iter().map(|index| Event::ALL[index]) {
                for action in life.on(event) {
                    world.act(action);
                }
                let up = life.state() == State::Up;
                prop_assert_eq!(world.open, up);
                prop_assert_eq!(world.carrier, life.has_carrier());
                prop_assert!(!world.carrier || up);
                if matches!(life.state(), State::Down | State::GoneDown | State::SuspendedDown) {
                    prop_assert!(!world.running);
                }
            }
        }
    }

    #[test]
    fn a_device_that_no_reset_helps_is_given_up() {
        let mut life = Lifecycle::new();
        life.on(Event::Open);
        for _ in 0..MOST_RESETS {
            assert!(life.on(Event::Fault).iter().any(|action| action == Action::Reset));
            life.on(Event::ResetDone);
        }
        assert!(life.on(Event::Fault).iter().all(|action| action != Action::Reset));
        assert_eq!(life.state(), State::Gone);
    }

    #[test]
    fn traffic_between_faults_starts_the_count_anew() {
        let mut life = Lifecycle::new();
        life.on(Event::Open);
        for _ in 0..100 {
            assert!(life.on(Event::Fault).iter().any(|action| action == Action::Reset));
            life.on(Event::ResetDone);
            life.traffic();
        }
    }

    #[test]
    fn a_removal_while_asleep_is_told_and_can_be_closed() {
        let mut life = Lifecycle::new();
        life.on(Event::Open);
        life.on(Event::Suspend);
        assert!(life.on(Event::Removed).iter().any(|action| action == Action::ForgetDevice));
        assert!(life.on(Event::Resume).refused());
        assert!(!life.on(Event::Close).refused());
        assert_eq!(life.state(), State::GoneDown);
    }
}
