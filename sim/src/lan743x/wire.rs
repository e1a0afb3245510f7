//! The cable between two MACs: two ends, with bandwidth, latency, frame limit, loss and corruption.
//!
//! [`Wire::pair`] makes both [`Port`]s. One goes into a model ([`super::Lan743x::connect`]), the other into
//! a second model, or stays with a test or a generator, which sends and receives by itself.
//!
//! The ends may live in different fabrics or servers, whose clocks have nothing in common. A frame
//! therefore carries how long it is under way, not when it arrives, and who sends tells the other end by
//! a callback ([`Wire::tell`]) which has that model's [`Device::event`](crate::device::Device::event)
//! called soon, with the token [`ARRIVAL`]. Where no such callback can be had, a model looks by itself
//! ([`super::Params::wire_poll_ns`]).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rng::Rng;

/// The token with which a model's `event` is to be called when its wire has something.
pub const ARRIVAL: u64 = 0;

/// Largest frame that a wire takes, without frame check sequence.
pub const MAX_FRAME: usize = 16_384;

/// Frames that wait at one end at most; more are lost.
const MAX_QUEUE: usize = 4096;

/// A frame on the wire.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// From destination address to the end of the padding; the frame check sequence is not in it.
    pub bytes: Vec<u8>,
    /// Whether the frame check sequence is wrong.
    pub damaged: bool,
}

impl Frame {
    /// A good frame.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), damaged: false }
    }

    /// Length with frame check sequence.
    pub fn wire_len(&self) -> usize {
        self.bytes.len() + 4
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = &self.bytes[..self.bytes.len().min(34)];
        write!(f, "Frame({} bytes, damaged: {}, {head:02x?}...)", self.bytes.len(), self.damaged)
    }
}

/// What a wire does to frames, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireParams {
    /// Bits per second; 0 is without a limit.
    pub bits_per_second: u64,
    /// Nanoseconds from the last bit sent to the frame's arrival.
    pub latency_ns: u64,
    /// Largest frame, its check sequence included; longer ones are lost.
    pub max_frame: usize,
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame arrives with a wrong check sequence.
    pub corruption: f64,
    /// What PHYs at both ends agree on, in Mbit/s: 10, 100, 1000 or 2500.
    pub speed: u32,
    /// Seed of all chance.
    pub seed: u64,
}

impl Default for WireParams {
    fn default() -> Self {
        Self {
            bits_per_second: 0,
            latency_ns: 0,
            max_frame: MAX_FRAME,
            loss: 0.0,
            corruption: 0.0,
            speed: 1000,
            seed: 1,
        }
    }
}

/// Counts of one direction of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames sent into it.
    pub sent: u64,
    /// Frames lost by chance, by length, or while the link was down.
    pub lost: u64,
    /// Frames damaged by chance.
    pub damaged: u64,
    /// Frames lost because the other end did not fetch them.
    pub overruns: u64,
}

type Tell = Arc<dyn Fn(u64) + Send + Sync>;

/// A frame under way: its delay as it was sent, and the time of arrival once the other end has seen it.
struct UnderWay {
    frame: Frame,
    delay_ns: u64,
    due_ns: Option<u64>,
}

#[derive(Default)]
struct Direction {
    queue: VecDeque<UnderWay>,
    /// When the sender's last bit is out, by the sender's clock.
    free_ns: u64,
    counters: WireCounters,
    /// Tells the receiver.
    tell: Option<Tell>,
}

struct State {
    params: WireParams,
    up: bool,
    rng: Rng,
    /// By sender.
    directions: [Direction; 2],
}

/// Both ends of a wire, from outside.
#[derive(Clone)]
pub struct Wire {
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Wire").field("params", &state.params).field("up", &state.up).finish()
    }
}

impl Wire {
    /// A wire with both ends plugged in.
    ///
    /// # Examples
    /// ```
    /// use tombolo_sim::lan743x::wire::{Arrival, Frame, Wire, WireParams};
    ///
    /// let (one, two) = Wire::pair(WireParams { latency_ns: 10, ..WireParams::default() });
    /// one.send(0, Frame::new([0xff; 60]));
    /// assert_eq!(two.receive(500), Arrival::At(510));
    /// assert_eq!(two.receive(510), Arrival::Frame(Frame::new([0xff; 60])));
    /// ```
    pub fn pair(params: WireParams) -> (Port, Port) {
        let rng = Rng::new(params.seed);
        let state = State { params, up: true, rng, directions: Default::default() };
        let wire = Self { state: Arc::new(Mutex::new(state)) };
        (Port { side: 0, wire: wire.clone() }, Port { side: 1, wire })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How end `side` (0 or 1) is told of frames and of changes of the link. The callback must neither wait
    /// nor call the model itself: the caller is inside of a call of the other one.
    pub fn tell(&self, side: usize, tell: impl Fn(u64) + Send + Sync + 'static) {
        if let Some(direction) = self.lock().directions.get_mut(1 - side.min(1)) {
            direction.tell = Some(Arc::new(tell));
        }
    }

    /// The parameters.
    pub fn params(&self) -> WireParams {
        self.lock().params
    }

    /// Changes the parameters for the frames that follow, and tells both ends.
    pub fn set_params(&self, params: WireParams) {
        self.lock().params = params;
        self.tell_both();
    }

    /// Whether the cable is plugged in.
    pub fn is_up(&self) -> bool {
        self.lock().up
    }

    /// Pulls the cable, or plugs it in. What is under way is lost when it is pulled.
    pub fn set_up(&self, up: bool) {
        {
            let mut state = self.lock();
            state.up = up;
            for direction in state.directions.iter_mut().filter(|_| !up) {
                direction.counters.lost += direction.queue.len() as u64;
                direction.queue.clear();
            }
        }
        self.tell_both();
    }

    /// Counts of what end `side` sent.
    pub fn counters(&self, side: usize) -> WireCounters {
        self.lock().directions[side.min(1)].counters
    }

    fn tell_both(&self) {
        let tells = {
            let state = self.lock();
            [state.directions[0].tell.clone(), state.directions[1].tell.clone()]
        };
        tells.iter().flatten().for_each(|tell| tell(ARRIVAL));
    }
}

/// What [`Port::receive`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame has arrived.
    Frame(Frame),
    /// The next one arrives at this time.
    At(u64),
    /// Nothing is under way.
    Nothing,
}

/// When a frame is on the wire, by the sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its first bit.
    pub start_ns: u64,
    /// Its last bit.
    pub end_ns: u64,
}

/// One end of a wire.
#[derive(Debug)]
pub struct Port {
    side: usize,
    wire: Wire,
}

impl Port {
    /// The wire.
    pub fn wire(&self) -> Wire {
        self.wire.clone()
    }

    /// Which end this is: 0 or 1.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Whether there is a link.
    pub fn is_up(&self) -> bool {
        self.wire.lock().up
    }

    /// Speed of the link in Mbit/s.
    pub fn speed(&self) -> u32 {
        self.wire.lock().params.speed
    }

    /// When all that was sent is out, by the sender's clock.
    pub fn free_ns(&self) -> u64 {
        self.wire.lock().directions[self.side].free_ns
    }

    /// Sends a frame behind those that were sent before.
    pub fn send(&self, now_ns: u64, frame: Frame) -> Sent {
        let mut guard = self.wire.lock();
        let state = &mut *guard;
        let direction = &mut state.directions[self.side];
        direction.counters.sent += 1;
        let start_ns = direction.free_ns.max(now_ns);
        // Preamble, start of frame and gap take 20 bytes.
        let bits = (frame.wire_len().max(64) as u64 + 20) * 8;
        let time = bits.saturating_mul(1_000_000_000).checked_div(state.params.bits_per_second).unwrap_or(0);
        let end_ns = start_ns.saturating_add(time);
        direction.free_ns = end_ns;
        let tell = Self::put(state, self.side, now_ns, end_ns, frame);
        drop(guard);
        if let Some(tell) = tell {
            tell(ARRIVAL);
        }
        Sent { start_ns, end_ns }
    }

    /// Puts a frame on its way. Gives back whom to tell.
    fn put(state: &mut State, side: usize, now_ns: u64, end_ns: u64, mut frame: Frame) -> Option<Tell> {
        let (params, direction) = (state.params, &mut state.directions[side]);
        let too_long = frame.wire_len() > params.max_frame || frame.bytes.len() > MAX_FRAME;
        if !state.up || too_long || state.rng.chance(params.loss) {
            direction.counters.lost += 1;
            return None;
        }
        if direction.queue.len() >= MAX_QUEUE {
            direction.counters.overruns += 1;
            return None;
        }
        if state.rng.chance(params.corruption) {
            frame.damaged = true;
            direction.counters.damaged += 1;
        }
        let delay_ns = (end_ns - now_ns).saturating_add(params.latency_ns);
        direction.queue.push_back(UnderWay { frame, delay_ns, due_ns: None });
        direction.tell.clone()
    }

    /// Takes the next frame that has arrived.
    pub fn receive(&self, now_ns: u64) -> Arrival {
        let mut state = self.wire.lock();
        let queue = &mut state.directions[1 - self.side].queue;
        for new in queue.iter_mut().rev().take_while(|under_way| under_way.due_ns.is_none()) {
            new.due_ns = Some(now_ns.saturating_add(new.delay_ns));
        }
        match queue.front().and_then(|first| first.due_ns) {
            None => Arrival::Nothing,
            Some(due_ns) if due_ns > now_ns => Arrival::At(due_ns),
            Some(_) => queue.pop_front().map_or(Arrival::Nothing, |first| Arrival::Frame(first.frame)),
        }
    }
}
