//! The engine: what one event of a channel does.
//!
//! A running channel always has exactly one event pending (fetch, data or completion), and an event
//! does a bounded amount of work: at most `prefetch` elements are fetched, at most one burst is moved.
//! Data lands first; then list pointer, cycle state and status change; then interrupt status is
//! latched and the message is written.
//!
//! The interrupts of an element are held until the engine knows what follows it: the link behind the
//! element is followed, and where there is nothing more to do the channel stops, before anybody hears
//! of the element. Linux depends on it: on the interrupt of a chunk's last element it writes list
//! pointer and cycle state for the next descriptor; a link that toggled the state after that would
//! leave the new list unowned. A doorbell that comes while data moves is nevertheless lost, even if
//! the engine has already fetched the unowned element behind the one in work.

use super::channel::{Phase, Status, Stop};
use super::handle::{Cause, ChannelCounters, Faults};
use super::list::{self, Element};
use super::params::{Dir, Format, RunningDoorbell};
use super::regs::{element, v0};
use super::space::{self, Side};
use super::{DwEdma, Slot};
use crate::device::Bus;

impl DwEdma {
    pub(super) fn count(&self, slot: Slot, change: impl FnOnce(&mut ChannelCounters)) {
        if let Some(counters) = self.shared().channels.get_mut(slot) {
            change(counters);
        }
    }

    pub(super) fn faults(&self, slot: Slot) -> Faults {
        self.shared().faults.get(slot).copied().unwrap_or_default()
    }

    pub(super) fn is_enabled(&self, slot: Slot) -> bool {
        let channel = &self.channels[slot];
        match self.params.format {
            Format::Legacy | Format::Unrolled => self.dirs[channel.dir.index()].enabled,
            Format::HdmaCompatible | Format::HdmaNative => channel.enabled,
        }
    }

    /// Whether an error in v0 left the channel in need of a reset.
    fn is_dead(&self, slot: Slot) -> bool {
        let strict = self.params.fatal_errors_need_reset && self.params.format.is_v0();
        strict && self.channels[slot].fatal
    }

    fn list_enabled(&self, slot: Slot) -> bool {
        let control = self.channels[slot].control1;
        match self.params.format {
            Format::HdmaNative => control & 1 != 0,
            _ => control & v0::control::LLE != 0,
        }
    }

    fn schedule(&mut self, bus: &mut dyn Bus, slot: Slot, phase: Phase, delay_ns: u64) {
        let channel = &mut self.channels[slot];
        channel.phase = phase;
        bus.schedule(delay_ns, channel.generation << 16 | slot as u64);
    }

    /// A start doorbell.
    pub(super) fn start(&mut self, bus: &mut dyn Bus, slot: Slot) {
        self.count(slot, |c| c.doorbells += 1);
        let dead = self.is_dead(slot);
        let running = self.channels[slot].is_running();
        let remember = self.params.running_doorbell == RunningDoorbell::Remembered;
        if running && remember {
            self.channels[slot].rung = true;
            return;
        }
        if running || dead || !self.is_enabled(slot) {
            self.count(slot, |c| c.dropped_doorbells += 1);
            return;
        }
        if self.faults(slot).fake_done {
            self.shared().faults[slot].fake_done = false;
            self.channels[slot].leave(Status::Stopped);
            self.fake_done(bus, slot);
            return;
        }
        self.begin(bus, slot);
    }

    fn begin(&mut self, bus: &mut dyn Bus, slot: Slot) {
        let list = self.list_enabled(slot);
        let timing = self.params.timing;
        let channel = &mut self.channels[slot];
        channel.generation += 1;
        channel.status = Status::Running;
        channel.list = list;
        channel.links = 0;
        channel.held = (false, false);
        if list {
            self.refetch(bus, slot, timing.doorbell_ns);
        } else {
            self.request_data(bus, slot, timing.doorbell_ns.saturating_add(timing.data_ns));
        }
    }

    /// Forgets what was fetched and looks at the element under the list pointer.
    fn refetch(&mut self, bus: &mut dyn Bus, slot: Slot, delay_ns: u64) {
        let channel = &mut self.channels[slot];
        channel.fifo.clear();
        channel.fetch_at = channel.llp & !3;
        channel.fetch_ccs = channel.ccs;
        let delay = delay_ns.saturating_add(self.params.timing.list_ns);
        self.schedule(bus, slot, Phase::Fetch, delay);
    }

    /// A stop doorbell: takes effect at the next boundary of a burst or an element.
    pub(super) fn request_stop(&mut self, slot: Slot) {
        let channel = &mut self.channels[slot];
        if channel.is_running() && channel.stop == Stop::No {
            channel.stop = Stop::Doorbell;
            self.count(slot, |c| c.stops += 1);
        }
    }

    /// The enable of a channel went away: it stops at the next boundary and tells nobody.
    pub(super) fn disabled(&mut self, slot: Slot) {
        let channel = &mut self.channels[slot];
        channel.fatal = false;
        if channel.is_running() {
            channel.stop = Stop::Silent;
        }
    }

    /// The channel's pending event.
    pub(super) fn step(&mut self, bus: &mut dyn Bus, slot: Slot) {
        if self.faults(slot).hang {
            self.channels[slot].phase = Phase::Hung;
            return;
        }
        match self.channels[slot].phase {
            Phase::Idle | Phase::Hung => {}
            Phase::Fetch => self.fetched(bus, slot),
            Phase::Data(len) => self.data(bus, slot, len),
            Phase::Complete => self.complete(bus, slot),
        }
    }

    fn fetched(&mut self, bus: &mut dyn Bus, slot: Slot) {
        if self.channels[slot].stop != Stop::No {
            return self.stopped(bus, slot);
        }
        self.top_up(bus, slot, self.params.prefetch);
        self.advance(bus, slot);
    }

    fn top_up(&mut self, bus: &mut dyn Bus, slot: Slot, depth: usize) {
        let fetched = list::fetch(&mut self.channels[slot], &self.space, bus, depth);
        self.count(slot, |c| c.fetched += fetched);
    }

    /// Works off what was fetched, up to the next data element.
    fn advance(&mut self, bus: &mut dyn Bus, slot: Slot) {
        while let Some(next) = self.channels[slot].fifo.pop_front() {
            match next {
                Element::Failed(cause) => return self.abort(bus, slot, cause),
                Element::Link { control, pointer } => {
                    self.follow(slot, control, pointer);
                    if self.channels[slot].links > self.params.link_limit {
                        return self.abort(bus, slot, Cause::ListFetch);
                    }
                }
                Element::Data { .. } if !next.is_owned(self.channels[slot].ccs) => {
                    return self.end_of_list(bus, slot);
                }
                Element::Data { control, size, sar, dar } => {
                    self.load(slot, control, size, sar, dar);
                    self.release_held(bus, slot);
                    self.top_up(bus, slot, self.params.prefetch - 1);
                    return self.request_data(bus, slot, self.params.timing.data_ns);
                }
            }
        }
        self.schedule(bus, slot, Phase::Fetch, self.params.timing.list_ns);
    }

    fn load_control(&mut self, slot: Slot, control: u32) {
        let channel = &mut self.channels[slot];
        if self.params.format.is_v0() {
            channel.control1 = channel.control1 & !element::LOADED | control & element::LOADED;
        } else {
            channel.native.cycle_bit = control & element::CB != 0;
            let remote = u32::from(control & element::RIE != 0);
            channel.native.watermark_en = remote | u32::from(control & element::LIE != 0) << 1;
        }
    }

    fn load(&mut self, slot: Slot, control: u32, size: u32, sar: u64, dar: u64) {
        self.load_control(slot, control);
        let channel = &mut self.channels[slot];
        channel.links = 0;
        (channel.size, channel.sar, channel.dar) = (size, sar, dar);
    }

    fn follow(&mut self, slot: Slot, control: u32, pointer: u64) {
        self.load_control(slot, control & !(element::LIE | element::RIE));
        let channel = &mut self.channels[slot];
        channel.llp = pointer;
        channel.ccs ^= control & element::TCB != 0;
        channel.links += 1;
        self.count(slot, |c| c.links += 1);
    }

    fn end_of_list(&mut self, bus: &mut dyn Bus, slot: Slot) {
        if self.channels[slot].rung {
            self.channels[slot].rung = false;
            return self.refetch(bus, slot, 0);
        }
        self.channels[slot].leave(Status::Stopped);
        self.count(slot, |c| c.ends += 1);
        self.release_held(bus, slot);
        if self.params.format == Format::HdmaNative {
            self.native_stop(bus, slot);
        }
    }

    /// Asks for the next burst. The direction's channels take turns on its bandwidth.
    fn request_data(&mut self, bus: &mut dyn Bus, slot: Slot, latency_ns: u64) {
        let len = self.burst_len(slot);
        if self.channels[slot].size == 0 {
            let delay = latency_ns.saturating_add(self.params.timing.completion_ns);
            return self.schedule(bus, slot, Phase::Complete, delay);
        }
        let now = bus.now_ns();
        let free = &mut self.dirs[self.channels[slot].dir.index()].link_free_ns;
        let time = (len as u64 * 1000).div_ceil(u64::from(self.params.timing.bytes_per_us));
        *free = (*free).max(now).saturating_add(time);
        let delay = (*free - now).saturating_add(latency_ns);
        self.schedule(bus, slot, Phase::Data(len), delay);
    }

    fn burst_len(&self, slot: Slot) -> usize {
        let channel = &self.channels[slot];
        let on_link = match channel.dir {
            Dir::Write => channel.dar,
            Dir::Read => channel.sar,
        };
        let burst = u64::from(self.params.burst_bytes);
        let len = (burst - (on_link & (burst - 1))).min(u64::from(channel.size));
        let left = self.faults(slot).abort.map_or(u64::MAX, |(left, _)| left);
        len.min(left) as usize
    }

    fn data(&mut self, bus: &mut dyn Bus, slot: Slot, len: usize) {
        if let Err(cause) = self.transfer(bus, slot, len) {
            return self.abort(bus, slot, cause);
        }
        if let Some(cause) = self.count_down_to_abort(slot, len as u64) {
            return self.abort(bus, slot, cause);
        }
        if self.channels[slot].size == 0 {
            return self.schedule(bus, slot, Phase::Complete, self.params.timing.completion_ns);
        }
        if self.channels[slot].stop != Stop::No {
            return self.stopped(bus, slot);
        }
        self.request_data(bus, slot, 0);
    }

    fn count_down_to_abort(&self, slot: Slot, moved: u64) -> Option<Cause> {
        let mut shared = self.shared();
        let fault = &mut shared.faults[slot].abort;
        let (left, cause) = (*fault)?;
        let left = left.saturating_sub(moved);
        *fault = (left != 0).then_some((left, cause));
        (left == 0).then_some(cause)
    }

    /// Moves one burst and advances the address and size registers.
    fn transfer(&mut self, bus: &mut dyn Bus, slot: Slot, len: usize) -> Result<(), Cause> {
        let channel = &mut self.channels[slot];
        let (from, to) = match channel.dir {
            Dir::Write => (Side::Local, Side::Link),
            Dir::Read => (Side::Link, Side::Local),
        };
        let data = &mut self.burst[..len];
        self.space.read(bus, from, channel.sar, data).map_err(|fault| space::read_cause(from, fault))?;
        if self.space.write(bus, to, channel.dar, data).is_err() {
            match to {
                Side::Local => return Err(Cause::AppWrite),
                Side::Link if self.params.posted_write_errors => return Err(Cause::LinkWrite),
                Side::Link => self.count(slot, |c| c.lost_writes += 1),
            }
        }
        let channel = &mut self.channels[slot];
        channel.sar = channel.sar.wrapping_add(len as u64);
        channel.dar = channel.dar.wrapping_add(len as u64);
        channel.size = channel.size.saturating_sub(len as u32);
        self.count(slot, |c| c.bytes += len as u64);
        Ok(())
    }

    fn complete(&mut self, bus: &mut dyn Bus, slot: Slot) {
        self.count(slot, |c| c.elements += 1);
        if !self.channels[slot].list {
            return self.end_of_transfer(bus, slot);
        }
        let v0 = self.params.format.is_v0();
        let channel = &mut self.channels[slot];
        channel.llp = channel.llp.wrapping_add(element::SIZE);
        let (local, remote) = if v0 {
            (channel.control1 & v0::control::LIE, channel.control1 & v0::control::RIE)
        } else {
            (channel.native.watermark_en & 2, channel.native.watermark_en & 1)
        };
        channel.held = (local != 0, remote != 0);
        if channel.stop != Stop::No {
            return self.stopped(bus, slot);
        }
        self.advance(bus, slot);
    }

    fn end_of_transfer(&mut self, bus: &mut dyn Bus, slot: Slot) {
        self.channels[slot].leave(Status::Stopped);
        self.count(slot, |c| c.ends += 1);
        if self.params.format == Format::HdmaNative {
            self.native_stop(bus, slot);
        } else {
            let control = self.channels[slot].control1;
            let (local, remote) = (control & v0::control::LIE, control & v0::control::RIE);
            self.v0_done(bus, slot, local != 0, remote != 0);
        }
    }

    /// The end of a run that was told to stop.
    fn stopped(&mut self, bus: &mut dyn Bus, slot: Slot) {
        let how = self.channels[slot].stop;
        self.channels[slot].leave(Status::Stopped);
        self.release_held(bus, slot);
        if how == Stop::Doorbell {
            match self.params.format {
                Format::HdmaNative => self.native_stop(bus, slot),
                _ => self.v0_abort(bus, slot),
            }
        }
    }

    /// The channel halts.
    pub(super) fn abort(&mut self, bus: &mut dyn Bus, slot: Slot, cause: Cause) {
        self.channels[slot].leave(Status::Halted);
        self.channels[slot].fatal |= cause.is_fatal();
        self.count(slot, |c| c.aborts += 1);
        self.release_held(bus, slot);
        if self.params.format == Format::HdmaNative {
            self.native_abort(bus, slot, cause);
        } else {
            self.v0_error(slot, cause);
            self.v0_abort(bus, slot);
        }
    }

    /// Sends the interrupts of a finished element: done in v0, watermark in native.
    fn release_held(&mut self, bus: &mut dyn Bus, slot: Slot) {
        let (local, remote) = std::mem::take(&mut self.channels[slot].held);
        if !local && !remote {
            return;
        }
        if self.params.format == Format::HdmaNative {
            let channel = &mut self.channels[slot];
            channel.llp_shown = channel.llp;
            self.native_watermark(bus, slot, local, remote);
        } else {
            self.v0_done(bus, slot, local, remote);
        }
    }

    fn fake_done(&mut self, bus: &mut dyn Bus, slot: Slot) {
        if self.params.format == Format::HdmaNative {
            self.native_stop(bus, slot);
        } else {
            self.v0_done(bus, slot, true, true);
        }
    }

    /// Whether the channel's list pointer register is brought up to date only now and then.
    pub(super) fn shown_llp(&self, slot: Slot) -> u64 {
        let channel = &self.channels[slot];
        let lazy = self.params.lazy_llp && self.params.format == Format::HdmaNative;
        let shown = if lazy { channel.llp_shown } else { channel.llp };
        self.faults(slot).llp.unwrap_or(shown)
    }

    /// The slot of a channel, if the engine has it.
    pub(super) fn slot(&self, dir: Dir, number: u64) -> Option<Slot> {
        let count = u64::from(self.params.channels(dir));
        let first = if dir == Dir::Read { u64::from(self.params.write_channels) } else { 0 };
        (number < count).then_some((first + number) as usize)
    }
}
