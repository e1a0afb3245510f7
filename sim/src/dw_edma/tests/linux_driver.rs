//! The accesses that Linux 7.3's dw-edma makes, in its order, as an executable reference: probe,
//! channel set-up, start of a chunk, interrupt handlers, terminate, quiesce.
//!
//! Only orders and values are Linux's; it has no threads, and an interrupt is handled at once.

use super::{Dir, Format, MSI, Reg, Rig, element, hdma, v0};

#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub sar: u64,
    pub dar: u64,
    pub size: u32,
}

#[derive(Debug)]
struct Desc {
    bursts: Vec<Burst>,
    start: usize,
    cycle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Aborted,
    Terminated,
}

#[derive(Debug)]
struct Chan {
    dir: Dir,
    id: u16,
    list: u64,
    non_list: bool,
    queue: Vec<Desc>,
    busy: bool,
    stop_requested: bool,
}

pub(super) struct Linux {
    pub rig: Rig,
    chans: Vec<Chan>,
    /// Data elements that fit a list: `ll_max`.
    list_max: usize,
    /// What became of descriptors, in order: channel index and outcome.
    pub outcomes: Vec<(usize, Outcome)>,
    /// Interrupts that a handler claimed, and all that came.
    pub handled: usize,
    pub interrupts: usize,
}

const DONE: u32 = 0xff;
const ABORT: u32 = 0xff_0000;

impl Linux {
    /// Probe: all channels of the model, lists of `list_max` elements and a link.
    pub fn probe(rig: Rig, list_max: usize) -> Self {
        let params = rig.dev.params().clone();
        let mut linux = Self { rig, chans: vec![], list_max, outcomes: vec![], handled: 0, interrupts: 0 };
        let mut counts = [params.write_channels, params.read_channels];
        if params.format.is_v0() {
            let ctrl = linux.rig.read(v0::CTRL);
            counts = [(ctrl & 0xf) as u16, (ctrl >> 16 & 0xf) as u16];
        }
        for (dir, count) in super::DIRS.into_iter().zip(counts) {
            for id in 0..count {
                let list = linux.chans.len() as u64 * 0x1000;
                let queue = vec![];
                let (non_list, busy, stop_requested) = (false, false, false);
                linux.chans.push(Chan { dir, id, list, non_list, queue, busy, stop_requested });
            }
        }
        linux.off();
        for index in 0..linux.chans.len() {
            linux.config(index);
        }
        linux
    }

    pub fn find(&self, dir: Dir, id: u16) -> usize {
        self.chans.iter().position(|chan| chan.dir == dir && chan.id == id).unwrap()
    }

    pub fn set_non_list(&mut self, index: usize) {
        self.chans[index].non_list = true;
    }

    fn native(&self) -> bool {
        self.rig.format() == Format::HdmaNative
    }

    fn local(&self) -> bool {
        self.rig.is_local()
    }

    fn off(&mut self) {
        if !self.native() {
            for offset in [0x54, 0xa8, 0x58, 0xac] {
                self.rig.write(offset, DONE | ABORT);
            }
            for offset in [0x0c, 0x2c] {
                self.rig.write(offset, 0);
            }
            return;
        }
        for index in 0..self.chans.len() {
            let base = self.base(index);
            self.rig.write(base + hdma::INT_SETUP, 5);
            self.rig.write(base + hdma::INT_CLEAR, 5);
            self.rig.write(base + hdma::EN, 0);
        }
    }

    fn base(&mut self, index: usize) -> u64 {
        let (dir, id) = (self.chans[index].dir, self.chans[index].id);
        self.rig.channel(dir, id)
    }

    /// Message address and data. All of a direction share the address; data tells channels apart.
    fn config(&mut self, index: usize) {
        let (dir, id) = (self.chans[index].dir, self.chans[index].id);
        let data = index as u32 + 0x20;
        if self.native() {
            let base = self.base(index);
            for at in [hdma::MSI_STOP_LOW, hdma::MSI_ABORT_LOW] {
                self.rig.write(base + at, MSI as u32);
                self.rig.write(base + at + 4, 0);
            }
            self.rig.write(base + hdma::MSI_DATA, data);
            self.rig.write(base + hdma::FUNC_NUM, 0);
            return;
        }
        let shared = self.rig.shared(dir);
        for at in [shared.done, shared.abort] {
            self.rig.write(at, MSI as u32);
            self.rig.write(at + 4, 0);
        }
        let word = shared.data + u64::from(id / 2) * 4;
        let old = self.rig.read(word);
        let odd = id & 1 != 0;
        let new = if odd { old & 0xffff | data << 16 } else { old & 0xffff_0000 | data };
        self.rig.write(word, new);
    }

    /// Submit and issue.
    pub fn submit(&mut self, index: usize, bursts: Vec<Burst>) {
        self.chans[index].queue.push(Desc { bursts, start: 0, cycle: true });
        if !self.chans[index].busy && !self.chans[index].stop_requested {
            self.chans[index].busy = true;
            self.start_transfer(index);
        }
    }

    fn start_transfer(&mut self, index: usize) -> bool {
        let Some(desc) = self.chans[index].queue.first() else { return false };
        let first = desc.start == 0;
        self.core_start(index, first);
        let desc = &mut self.chans[index].queue[0];
        desc.cycle = !desc.cycle;
        true
    }

    fn core_start(&mut self, index: usize, first: bool) {
        let (dir, id, list) = (self.chans[index].dir, self.chans[index].id, self.chans[index].list);
        let desc = &self.chans[index].queue[0];
        let (start, cycle, total) = (desc.start, desc.cycle, desc.bursts.len());
        let bursts: Vec<_> = desc.bursts[start..].iter().copied().take(self.list_max).collect();
        if self.chans[index].non_list {
            self.chans[index].queue[0].start += 1;
            return self.non_list_start(index, bursts[0]);
        }
        let cb = u32::from(cycle) * element::CB;
        for (i, burst) in bursts.iter().enumerate() {
            let irq = start + i == total - 1 || i == self.list_max - 1;
            let mut control = cb;
            if irq && !self.native() {
                control |= element::LIE;
                if !self.local() {
                    control |= element::RIE;
                }
            }
            let at = list + i as u64 * element::SIZE;
            self.rig.data(at, control, burst.size, burst.sar, burst.dar);
        }
        self.chans[index].queue[0].start += bursts.len();
        let at = list + bursts.len() as u64 * element::SIZE;
        let link = element::TCB | (cb ^ element::CB);
        let base = self.rig.list_addr(list);
        self.rig.link_element(at, link, base);
        if first {
            self.enable(index);
        }
        self.rig.doorbell(dir, id);
    }

    fn int_setup(&self, old: u32) -> u32 {
        let value = old & !0x7d | 0x50;
        if self.local() { value } else { value | 0x2d }
    }

    fn enable(&mut self, index: usize) {
        let (dir, id, list) = (self.chans[index].dir, self.chans[index].id, self.chans[index].list);
        let list = self.rig.list_addr(list);
        if self.native() {
            let base = self.base(index);
            self.rig.write(base + hdma::EN, 1);
            let setup = self.rig.read(base + hdma::INT_SETUP);
            let setup = self.int_setup(setup);
            self.rig.write(base + hdma::INT_SETUP, setup);
            self.rig.write(base + hdma::CONTROL1, 1);
            self.rig.set64(dir, id, Reg::Llp, list);
            self.rig.write(base + hdma::CYCLE, 3);
            return;
        }
        let shared = self.rig.shared(dir);
        self.rig.write(shared.engine, 1);
        if self.rig.format() == Format::HdmaCompatible {
            self.power(index, 1);
        }
        let bits = 0x1_0001 << id;
        let mask = self.rig.read(shared.mask);
        let mask = if self.local() { mask & !bits } else { mask | bits };
        self.rig.write(shared.mask, mask);
        let errors = self.rig.read(shared.list_errors);
        self.rig.write(shared.list_errors, errors | 1 << id);
        let control = v0::control::CCS | v0::control::LLE;
        self.rig.set(dir, id, Reg::Control1, control);
        self.rig.set64(dir, id, Reg::Llp, list);
    }

    fn power(&mut self, index: usize, value: u32) {
        let (dir, id) = (self.chans[index].dir, u64::from(self.chans[index].id));
        let base = if dir == Dir::Write { v0::WR_PWR_EN } else { v0::RD_PWR_EN };
        self.rig.write(base + id * 4, value);
    }

    fn non_list_start(&mut self, index: usize, burst: Burst) {
        let (dir, id) = (self.chans[index].dir, self.chans[index].id);
        let base = self.base(index);
        self.rig.write(base + hdma::EN, 1);
        self.rig.set64(dir, id, Reg::Sar, burst.sar);
        self.rig.set64(dir, id, Reg::Dar, burst.dar);
        self.rig.write(base + hdma::SIZE, burst.size);
        let setup = self.rig.read(base + hdma::INT_SETUP);
        let setup = self.int_setup(setup);
        self.rig.write(base + hdma::INT_SETUP, setup);
        let control = self.rig.read(base + hdma::CONTROL1);
        self.rig.write(base + hdma::CONTROL1, control & !1);
        self.rig.write(base + hdma::DOORBELL, 1);
    }

    /// Terminate: at once if the channel has stopped, else with the next interrupt.
    pub fn terminate(&mut self, index: usize) {
        let (dir, id) = (self.chans[index].dir, self.chans[index].id);
        if !self.chans[index].busy || self.rig.status(dir, id) == 3 {
            self.drop_all(index);
        } else {
            self.chans[index].stop_requested = true;
        }
    }

    fn drop_all(&mut self, index: usize) {
        let count = std::mem::take(&mut self.chans[index].queue).len();
        self.outcomes.extend(std::iter::repeat_n((index, Outcome::Terminated), count));
        self.chans[index].busy = false;
        self.chans[index].stop_requested = false;
    }

    /// Remove with partial ownership: everything masked, disabled, acknowledged.
    pub fn quiesce(&mut self) -> bool {
        if self.native() {
            for index in 0..self.chans.len() {
                let base = self.base(index);
                self.rig.write(base + hdma::INT_SETUP, 5);
                self.rig.write(base + hdma::EN, 0);
                self.rig.write(base + hdma::INT_CLEAR, 5);
            }
            return true;
        }
        super::DIRS.into_iter().all(|dir| self.dir_off(dir))
    }

    fn dir_off(&mut self, dir: Dir) -> bool {
        let shared = self.rig.shared(dir);
        self.rig.write(shared.mask, DONE | ABORT);
        let mut off = true;
        if self.rig.format() == Format::HdmaCompatible {
            for index in 0..self.chans.len() {
                if self.chans[index].dir == dir {
                    self.power(index, 0);
                }
            }
        } else {
            self.rig.write(shared.engine, 0);
            let mut polls = 0;
            while self.rig.read(shared.engine) & 1 != 0 && polls < 10_000 && self.rig.step() {
                polls += 1;
            }
            off = self.rig.read(shared.engine) & 1 == 0;
        }
        self.rig.write(shared.clear, DONE | ABORT);
        off
    }

    /// Runs until nothing is pending; each interrupt is handled before the next event.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            self.take_interrupts();
            if !self.rig.step() {
                self.take_interrupts();
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn take_interrupts(&mut self) {
        let messages = if self.local() {
            std::mem::take(&mut self.rig.bus.raised).len()
        } else {
            self.rig.messages().len()
        };
        for _ in 0..messages {
            self.interrupts += 1;
            self.handle();
        }
    }

    /// The handler that all channels share.
    fn handle(&mut self) {
        let before = self.outcomes.len();
        let mut handled = false;
        if self.native() {
            for index in 0..self.chans.len() {
                handled |= self.handle_native(index);
            }
        } else {
            for dir in super::DIRS {
                handled |= self.handle_v0(dir);
            }
            self.rig.write(0x58, 0);
            self.rig.write(0xac, 0);
        }
        self.handled += usize::from(handled);
        assert!(handled || self.outcomes.len() == before);
    }

    fn handle_v0(&mut self, dir: Dir) -> bool {
        let shared = self.rig.shared(dir);
        let status = self.rig.read(shared.status);
        for (shift, done) in [(0, true), (16, false)] {
            for id in 0..8 {
                if status >> (id + shift) & 1 != 0 {
                    self.rig.write(shared.clear, 1 << (id + shift));
                    let index = self.find(dir, id as u16);
                    if done { self.done(index) } else { self.abort(index) }
                }
            }
        }
        status != 0
    }

    fn handle_native(&mut self, index: usize) -> bool {
        let base = self.base(index);
        let status = self.rig.read(base + hdma::INT_STATUS);
        if status & 1 != 0 {
            self.rig.write(base + hdma::INT_CLEAR, 1);
            self.done(index);
        }
        if status & 4 != 0 {
            self.rig.write(base + hdma::INT_CLEAR, 4);
            self.abort(index);
        }
        status & 5 != 0
    }

    fn done(&mut self, index: usize) {
        if self.chans[index].queue.is_empty() {
            return;
        }
        if self.chans[index].stop_requested {
            return self.drop_all(index);
        }
        let desc = &self.chans[index].queue[0];
        if desc.start >= desc.bursts.len() {
            self.chans[index].queue.remove(0);
            self.outcomes.push((index, Outcome::Done));
        }
        self.chans[index].busy = self.start_transfer(index);
    }

    fn abort(&mut self, index: usize) {
        if self.chans[index].stop_requested {
            self.drop_all(index);
        } else if !self.chans[index].queue.is_empty() {
            self.chans[index].queue.remove(0);
            self.outcomes.push((index, Outcome::Aborted));
        }
        self.chans[index].stop_requested = false;
        self.chans[index].busy = false;
    }
}
