//! Interrupts on the host's side: which message belongs to which vector, and what waits to be
//! delivered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;

/// What is called when a vector fires, with the vector's number. No lock is held.
///
/// A handler may do MMIO and DMA bookkeeping. No other handler runs on its thread until it returns,
/// and the same vector runs on no other thread either: what fires meanwhile is delivered afterwards.
pub type Handler = Arc<dyn Fn(u16) + Send + Sync>;

/// A function of the fabric and one of its vectors.
pub(crate) type Line = (usize, u16);

/// First and last interrupt number of a CPU that devices get, as on x86.
const NUMBERS: std::ops::RangeInclusive<u32> = 0x20..=0xef;
const MESSAGE_BASE: u64 = 0xfee0_0000;

/// The interrupt controllers of one machine's CPUs.
#[derive(Debug)]
pub(crate) struct Controller {
    cpus: u8,
    routes: BTreeMap<(u64, u32), Line>,
}

/// Address and data of an interrupt message.
pub(crate) type Message = (u64, u32);

impl Controller {
    pub fn new(cpus: u8) -> Self {
        Self { cpus: cpus.max(1), routes: BTreeMap::new() }
    }

    pub const fn cpus(&self) -> u8 {
        self.cpus
    }

    pub fn route(&self, address: u64, data: u32) -> Option<Line> {
        self.routes.get(&(address, data)).copied()
    }

    /// Takes `count` (a power of two) neighbouring numbers, aligned to `count`, on `cpu` or the next
    /// one that has room, for the vectors of `function` from `first` on.
    pub fn allocate(&mut self, function: usize, first: u16, count: u16, cpu: u8) -> Option<Message> {
        let step = u32::from(count.max(1));
        let cpus = (0..self.cpus).map(|next| (u16::from(cpu) + u16::from(next)) as u8 % self.cpus);
        for address in cpus.map(|cpu| MESSAGE_BASE | u64::from(cpu) << 12) {
            let starts = NUMBERS.step_by(step as usize).filter(|start| start % step == 0);
            let is_free = |start: &u32| {
                start + step - 1 <= *NUMBERS.end()
                    && (0..step).all(|next| self.route(address, start + next).is_none())
            };
            if let Some(start) = { starts }.find(is_free) {
                for next in 0..step {
                    self.routes.insert((address, start + next), (function, first + next as u16));
                }
                return Some((address, start));
            }
        }
        None
    }

    pub fn release(&mut self, (address, data): Message, count: u16) {
        for next in 0..u32::from(count) {
            self.routes.remove(&(address, data + next));
        }
    }
}

/// What waits to be delivered, and who is delivering.
#[derive(Default)]
pub(crate) struct Delivery {
    handlers: BTreeMap<Line, Handler>,
    pending: VecDeque<Line>,
    active: Vec<(ThreadId, Line)>,
}

impl Delivery {
    /// Gives back the handler that was there, to be dropped without the lock.
    #[must_use]
    pub fn connect(&mut self, line: Line, handler: Handler) -> Option<Handler> {
        self.handlers.insert(line, handler)
    }

    /// Gives back the handlers that were there, to be dropped without the lock.
    #[must_use]
    pub fn disconnect(&mut self, function: usize) -> Vec<Handler> {
        let lines: Vec<Line> =
            self.handlers.range((function, 0)..=(function, u16::MAX)).map(|(line, _)| *line).collect();
        self.pending.retain(|line| line.0 != function);
        lines.iter().filter_map(|line| self.handlers.remove(line)).collect()
    }

    /// Remembers that a line fired; more than one before its delivery are one.
    pub fn post(&mut self, line: Line) {
        if !self.pending.contains(&line) {
            self.pending.push_back(line);
        }
    }

    pub fn is_delivering(&self, thread: ThreadId) -> bool {
        self.active.iter().any(|(active, _)| *active == thread)
    }

    pub fn is_active(&self, line: Line) -> bool {
        self.active.iter().any(|(_, active)| *active == line)
    }

    /// Whether something could be delivered now.
    pub fn has_ready(&self) -> bool {
        self.pending.iter().any(|line| !self.is_active(*line))
    }

    /// Takes the first line that is ready and marks it as being delivered. Lines without a handler
    /// are dropped.
    pub fn begin(&mut self, thread: ThreadId) -> Option<(Line, Handler)> {
        loop {
            let ready = self.pending.iter().position(|line| !self.is_active(*line))?;
            let line = self.pending.remove(ready)?;
            if let Some(handler) = self.handlers.get(&line) {
                self.active.push((thread, line));
                return Some((line, handler.clone()));
            }
        }
    }

    pub fn end(&mut self, thread: ThreadId, line: Line) {
        self.active.retain(|active| *active != (thread, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_spill_to_the_next_cpu() {
        let mut controller = Controller::new(2);
        let (address, data) = controller.allocate(0, 0, 1, 1).unwrap();
        assert_eq!((address, data), (0xfee0_1000, 0x20));
        let (address, data) = controller.allocate(1, 4, 8, 1).unwrap();
        assert_eq!((address, data), (0xfee0_1000, 0x28));
        assert_eq!(controller.route(address, data + 7), Some((1, 11)));
        let mut count = 9;
        while let Some((address, data)) = controller.allocate(2, 0, 1, 1) {
            assert!(address == 0xfee0_1000 || count >= 208, "{address:#x} {data:#x}");
            count += 1;
        }
        assert_eq!(count, 2 * 208);
        controller.release((address, data), 8);
        assert_eq!(controller.route(address, data), None);
        assert_eq!(controller.allocate(3, 0, 8, 0), Some((0xfee0_1000, 0x28)));
    }

    #[test]
    fn a_line_waits_once_and_never_interrupts_itself() {
        let mut delivery = Delivery::default();
        let thread = std::thread::current().id();
        assert!(delivery.connect((0, 1), Arc::new(|_| {})).is_none());
        for line in [(0, 1), (0, 2), (0, 1)] {
            delivery.post(line);
        }
        assert_eq!(delivery.begin(thread).map(|hit| hit.0), Some((0, 1)));
        delivery.post((0, 1));
        assert!(delivery.is_delivering(thread));
        assert!(delivery.begin(thread).is_none(), "(0, 2) has no handler, (0, 1) is active");
        assert!(!delivery.has_ready());
        delivery.end(thread, (0, 1));
        assert!(delivery.begin(thread).is_some());
    }
}
