//! What interrupt handler, control handle and channels share: the registers, and a few words.

use core::ops::Deref;

use tombolo_hal::dmaengine::Unsupported;
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{LocalRegisterCopy, Readable, Writeable};
use tombolo_hal::sync::{AtomicBool, AtomicU32, Ordering};

use crate::regs::{hdma, v0};
use crate::{ChannelId, ChannelKind, Config, Error, Format, Location};

/// How completions reach the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// Not at all: channels look at the engine.
    Polling,
    /// Over the engine's local interrupt lines.
    Local,
    /// By messages that the engine writes across the link.
    Remote,
}

/// What an interrupt left for a channel. Bits of its word in [`Shared`].
pub(crate) mod event {
    /// v0: done. HDMA: stop.
    pub const DONE: u32 = 1 << 0;
    /// HDMA: watermark.
    pub const WATERMARK: u32 = 1 << 1;
    /// Error or stop.
    pub const ABORT: u32 = 1 << 2;
    /// The abort was because the source could not be read.
    pub const READ_FAILED: u32 = 1 << 3;
    /// The abort was because the destination could not be written.
    pub const WRITE_FAILED: u32 = 1 << 4;
    /// Look at the hardware: an interrupt may have been lost on its way.
    pub const CHECK: u32 = 1 << 5;
}

/// What [`Shared::on_irq`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IrqReport {
    /// Whether any channel of ours had something: if not, a shared interrupt was another device's.
    pub handled: bool,
    /// Write channels that have work now, one bit each.
    pub write_channels: u64,
    /// Read channels that have work now, one bit each.
    pub read_channels: u64,
    /// The emulated interrupt may have been raised. It leaves no trace, so with emulation this is
    /// always set: call what listens to it.
    pub emulated: bool,
}

/// The words of one kind of channel.
#[derive(Debug)]
struct KindState {
    /// What interrupts have left, by channel.
    events: [AtomicU32; 64],
    /// Which channels have a handle.
    open: [AtomicU32; 2],
    /// Which channels have transfers with the engine: whose status is worth a read.
    busy: [AtomicU32; 2],
    /// How many there are.
    count: u16,
}

impl KindState {
    fn new(count: u16) -> Self {
        Self {
            events: core::array::from_fn(|_| AtomicU32::new(0)),
            open: core::array::from_fn(|_| AtomicU32::new(0)),
            busy: core::array::from_fn(|_| AtomicU32::new(0)),
            count,
        }
    }
}

/// How often the engine is asked whether it has come to rest after it was switched off.
const DISABLE_LOOKS: usize = 64;

fn bits(words: &[AtomicU32; 2]) -> u64 {
    u64::from(words[0].load(Ordering::Acquire)) | u64::from(words[1].load(Ordering::Acquire)) << 32
}

/// An engine's registers and the words that its interrupt handler shares with its channels.
///
/// The platform decides where it lives (a static, a box, a C structure) and hands out references:
/// handles take anything that dereferences to it. `K` guards the registers that channels share in
/// the v0 formats; it is taken when channels are opened and closed, and on the data path only by
/// the legacy viewport. It is about 600 bytes; a platform that places it in a C structure writes the
/// value there once.
#[derive(Debug)]
pub struct Shared<M, K> {
    pub(crate) io: Window<M>,
    pub(crate) config: Config,
    pub(crate) lock: K,
    kinds: [KindState; 2],
    interrupts: AtomicU32,
    /// Grows when the device was reset, so that channels program it again.
    epoch: AtomicU32,
    gone: AtomicBool,
    /// Switched off for a time without power: nobody touches the registers.
    suspended: AtomicBool,
    controlled: AtomicBool,
}

/// Anything that leads to a [`Shared`]: `&'static`, `Arc`, a counted pointer of a shim.
pub trait SharedRef: Clone {
    /// The registers' backend.
    type Mmio: Mmio + Clone;
    /// The lock.
    type Lock: RawLock;
    /// The shared state.
    fn shared(&self) -> &Shared<Self::Mmio, Self::Lock>;
}

impl<M: Mmio + Clone, K: RawLock, S: Deref<Target = Shared<M, K>> + Clone> SharedRef for S {
    type Mmio = M;
    type Lock = K;
    #[inline(always)]
    fn shared(&self) -> &Shared<M, K> {
        self
    }
}

impl<M: Mmio + Clone, K: RawLock> Shared<M, K> {
    /// Looks at the engine whose registers `io` is, and switches it off.
    ///
    /// # Errors
    /// [`Error`] if it is gone, has fewer channels than asked for, or if `io` is too small.
    pub fn new(io: Window<M>, lock: K, config: Config) -> Result<Self, Error> {
        let max = config.format.max_function();
        if config.function > max {
            return Err(Error::FunctionNumber { function: config.function, max, format: config.format });
        }
        if config.emulation && !(config.format.is_v0() && config.location == Location::Local) {
            return Err(Unsupported("interrupt emulation in this format and place").into());
        }
        let counts = Self::count_channels(&io, &config)?;
        let this = Self {
            io,
            config,
            lock,
            kinds: counts.map(KindState::new),
            interrupts: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            controlled: AtomicBool::new(false),
        };
        this.check_windows()?;
        this.silence()?;
        Ok(this)
    }

    fn count_channels(io: &Window<M>, config: &Config) -> Result<[u16; 2], Error> {
        let available = if config.format.is_v0() {
            let globals: Window<M, v0::Globals> = io.clone().layout(0)?;
            let ctrl = reg!(globals, v0::Globals, ctrl).extract();
            if ctrl.get() == u32::MAX {
                return Err(Error::DeviceGone);
            }
            let max = config.format.max_channels();
            [ctrl.read(v0::CTRL::WRITE_CHANNELS) as u16, ctrl.read(v0::CTRL::READ_CHANNELS) as u16]
                .map(|n| n.min(max))
        } else {
            if config.write_channels.is_none() || config.read_channels.is_none() {
                return Err(Error::ChannelCountUnknown { format: config.format });
            }
            [config.format.max_channels(); 2]
        };
        let mut counts = [0; 2];
        for kind in ChannelKind::ALL {
            let available = available[kind.index()];
            let wanted = config.wanted(kind).unwrap_or(available);
            if wanted > available {
                return Err(Error::TooManyChannels { kind, wanted, available, format: config.format });
            }
            counts[kind.index()] = wanted;
        }
        if counts == [0, 0] { Err(Error::NoChannels) } else { Ok(counts) }
    }

    /// Every channel's registers must lie inside the window, and a native engine must answer.
    fn check_windows(&self) -> Result<(), Error> {
        for kind in ChannelKind::ALL {
            let Some(index) = self.channel_count(kind).checked_sub(1) else { continue };
            let last = ChannelId { kind, index: index as u8 };
            if self.config.format.is_v0() {
                self.v0_channel(last)?;
                if self.config.format == Format::HdmaCompat {
                    self.power()?;
                }
            } else if reg!(self.hdma_channel(last)?, hdma::Channel, status).get() == u32::MAX {
                return Err(Error::DeviceGone);
            }
        }
        Ok(())
    }

    /// Masks and clears all interrupts, and switches the engine off.
    pub(crate) fn silence(&self) -> Result<(), Error> {
        if !self.config.format.is_v0() {
            for kind in ChannelKind::ALL {
                for index in 0..self.channel_count(kind) {
                    let regs = self.hdma_channel(ChannelId { kind, index: index as u8 })?;
                    reg!(regs, hdma::Channel, int_setup).write(
                        hdma::INT_SETUP::STOP_MASK::SET
                            + hdma::INT_SETUP::WATERMARK_MASK::SET
                            + hdma::INT_SETUP::ABORT_MASK::SET,
                    );
                    reg!(regs, hdma::Channel, ch_en).write(hdma::CH_EN::ENABLE::CLEAR);
                    reg!(regs, hdma::Channel, int_clear).write(
                        hdma::INT_CLEAR::STOP::SET
                            + hdma::INT_CLEAR::WATERMARK::SET
                            + hdma::INT_CLEAR::ABORT::SET,
                    );
                }
            }
            return Ok(());
        }
        let globals = self.globals()?;
        let all = v0::INT::DONE.val(0xff) + v0::INT::ABORT.val(0xff);
        for kind in ChannelKind::ALL {
            kind_reg!(kind, globals, wr_int_mask, rd_int_mask).write(all);
            if self.config.format == Format::HdmaCompat {
                for index in 0..self.channel_count(kind) {
                    self.set_power(ChannelId { kind, index: index as u8 }, false)?;
                }
            } else {
                self.disable_v0(kind, &globals);
            }
            // Last, so that nothing of what was going on stays latched.
            kind_reg!(kind, globals, wr_int_clear, rd_int_clear).write(all);
        }
        Ok(())
    }

    /// Switches the engine of one kind off. It comes to rest within a few requests on the link; a
    /// channel that still runs is refused when it is opened.
    fn disable_v0(&self, kind: ChannelKind, globals: &Window<M, v0::Globals>) {
        let enable = || kind_reg!(kind, *globals, wr_engine_en, rd_engine_en);
        enable().write(v0::ENGINE_EN::ENABLE::CLEAR);
        for _ in 0..DISABLE_LOOKS {
            if !enable().is_set(v0::ENGINE_EN::ENABLE) {
                break;
            }
        }
    }

    /// Lets a channel that halted on an error start again: some errors ask for the enable to be taken
    /// away once. The v0 enable is its whole direction's, so there others must not be running.
    pub(crate) fn clear_error(&self, id: ChannelId) -> Result<(), Error> {
        match self.config.format {
            Format::HdmaNative => {
                let channel = self.hdma_channel(id)?;
                reg!(channel, hdma::Channel, ch_en).write(hdma::CH_EN::ENABLE::CLEAR);
                reg!(channel, hdma::Channel, ch_en).write(hdma::CH_EN::ENABLE::SET);
            }
            Format::HdmaCompat => {
                self.set_power(id, false)?;
                self.set_power(id, true)?;
            }
            Format::Legacy | Format::Unroll => {
                let others = bits(&self.kinds[id.kind.index()].busy) & !(1 << id.index);
                if others == 0 {
                    let globals = self.globals()?;
                    self.disable_v0(id.kind, &globals);
                    kind_reg!(id.kind, globals, wr_engine_en, rd_engine_en).write(v0::ENGINE_EN::ENABLE::SET);
                }
            }
        }
        Ok(())
    }

    /// How many channels of this kind are used.
    pub fn channel_count(&self, kind: ChannelKind) -> u16 {
        self.kinds[kind.index()].count
    }

    /// What the engine was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How completions reach the driver.
    pub fn interrupts(&self) -> Interrupts {
        match self.interrupts.load(Ordering::Relaxed) {
            1 => Interrupts::Local,
            2 => Interrupts::Remote,
            _ => Interrupts::Polling,
        }
    }

    pub(crate) fn set_interrupts(&self, interrupts: Interrupts) {
        let code = match interrupts {
            Interrupts::Polling => 0,
            Interrupts::Local => 1,
            Interrupts::Remote => 2,
        };
        self.interrupts.store(code, Ordering::Relaxed);
    }

    /// Whether the device was seen to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// A register read all ones. If one that cannot be says so too, the device is gone, and every
    /// channel is told. Returns whether it is.
    pub(crate) fn confirm_gone(&self) -> bool {
        if self.is_gone() {
            return true;
        }
        let gone = self.reads_ones();
        if gone {
            self.gone.store(true, Ordering::Relaxed);
            self.check_all();
        }
        gone
    }

    /// Whether a register that is never all ones reads all ones.
    fn reads_ones(&self) -> bool {
        if self.config.format.is_v0() {
            return self.globals().is_ok_and(|g| reg!(g, v0::Globals, ctrl).get() == u32::MAX);
        }
        let kind =
            if self.channel_count(ChannelKind::Write) != 0 { ChannelKind::Write } else { ChannelKind::Read };
        let first = self.hdma_channel(ChannelId { kind, index: 0 });
        first.is_ok_and(|c| reg!(c, hdma::Channel, status).get() == u32::MAX)
    }

    /// Forgets that the device was gone, if it answers again.
    pub(crate) fn look_whether_back(&self) -> Result<(), Error> {
        self.gone.store(false, Ordering::Relaxed);
        if self.confirm_gone() { Err(Error::DeviceGone) } else { Ok(()) }
    }

    /// Whether nobody may touch the registers.
    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::SeqCst)
    }

    pub(crate) fn set_suspended(&self, suspended: bool) {
        self.suspended.store(suspended, Ordering::SeqCst);
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn bump_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn take_control(&self) -> Result<(), Error> {
        if self.controlled.swap(true, Ordering::AcqRel) { Err(Error::Controlled) } else { Ok(()) }
    }

    pub(crate) fn give_control_back(&self) {
        self.controlled.store(false, Ordering::Release);
    }

    /// Where another party writes, from the start of the registers, to raise this side's emulated
    /// interrupt; `None` where the format has none. Source: `dw_edma_v0_core_db_offset` in Linux.
    pub fn emulation_offset(&self) -> Option<usize> {
        let known = self.config.format.is_v0() && self.config.location == Location::Local;
        known.then_some(core::mem::offset_of!(v0::Globals, rd_int_status))
    }

    /// Collects what the engine has to say. Call it for every interrupt of the device, whichever
    /// vector brought it: any vector may stand for any channel. Uses atomics only, from any context.
    ///
    /// Afterwards the channels named in the report have something for
    /// [`pop_completed`](tombolo_hal::dmaengine::DmaChannel::pop_completed).
    pub fn on_irq(&self) -> IrqReport {
        // Without power all would read ones, and with the device gone it does: not ours.
        if self.is_suspended() || self.is_gone() {
            return IrqReport::default();
        }
        let mut report = self.collect_all(false);
        if !report.handled && !self.config.format.is_v0() && self.interrupts() == Interrupts::Local {
            // A channel sees its last element done a moment before the watermark of it latches, and
            // is idle by then; the line must be released all the same.
            report = self.collect_all(true);
        }
        if self.config.emulation && self.config.format.is_v0() {
            self.deassert_emulated();
            // It may have been the emulated one, so it must not count as nobody's.
            (report.emulated, report.handled) = (true, true);
        }
        report
    }

    /// A write of zero deasserts an emulated interrupt and clears no status.
    fn deassert_emulated(&self) {
        if let Ok(globals) = self.globals() {
            for kind in ChannelKind::ALL {
                kind_reg!(kind, globals, wr_int_clear, rd_int_clear).set(0);
            }
        }
    }

    fn collect_all(&self, idle_too: bool) -> IrqReport {
        let write_channels = self.collect(ChannelKind::Write, idle_too);
        let read_channels = self.collect(ChannelKind::Read, idle_too);
        let handled = write_channels | read_channels != 0;
        IrqReport { handled, write_channels, read_channels, emulated: false }
    }

    fn collect(&self, kind: ChannelKind, idle_too: bool) -> u64 {
        let open = bits(&self.kinds[kind.index()].open);
        if open == 0 {
            return 0;
        }
        if self.config.format.is_v0() {
            return self.collect_v0(kind, open as u32);
        }
        let busy = bits(&self.kinds[kind.index()].busy);
        self.collect_hdma(kind, if idle_too { open } else { open & busy })
    }

    /// One read gives done and abort of all channels; only bits that were seen are cleared.
    fn collect_v0(&self, kind: ChannelKind, open: u32) -> u64 {
        let Ok(globals) = self.globals() else { return 0 };
        let status = kind_reg!(kind, globals, wr_int_status, rd_int_status).get();
        if status == u32::MAX && self.confirm_gone() {
            return bits(&self.kinds[kind.index()].open);
        }
        let seen = status & (open | open << 16);
        if seen == 0 {
            return 0;
        }
        let (done, abort) = (seen & 0xff, seen >> 16);
        // Clearing the abort clears its cause.
        let cause = if abort != 0 { self.v0_cause(kind, &globals) } else { [0; 2] };
        kind_reg!(kind, globals, wr_int_clear, rd_int_clear).set(seen);
        self.leave_each(kind, u64::from(done | abort), |bit| {
            let mut events = if done & bit != 0 { event::DONE } else { 0 };
            if abort & bit != 0 {
                events |= event::ABORT;
                events |= if cause[0] & bit != 0 { event::READ_FAILED } else { 0 };
                events |= if cause[1] & bit != 0 { event::WRITE_FAILED } else { 0 };
            }
            events
        })
    }

    /// Which channels could not read their source or list, and which not write their destination.
    pub(crate) fn v0_cause(&self, kind: ChannelKind, globals: &Window<M, v0::Globals>) -> [u32; 2] {
        match kind {
            ChannelKind::Write => {
                let err = reg!(*globals, v0::Globals, wr_err_status).extract();
                [err.read(v0::WRITE_ERR::APP_READ) | err.read(v0::WRITE_ERR::LIST), 0]
            }
            ChannelKind::Read => {
                let low = reg!(*globals, v0::Globals, rd_err_low).extract();
                let high = reg!(*globals, v0::Globals, rd_err_high).extract();
                let link = high.read(v0::READ_ERR_HIGH::UNSUPPORTED)
                    | high.read(v0::READ_ERR_HIGH::COMPLETER_ABORT)
                    | high.read(v0::READ_ERR_HIGH::TIMEOUT)
                    | high.read(v0::READ_ERR_HIGH::POISONED);
                [low.read(v0::READ_ERR_LOW::LIST) | link, low.read(v0::READ_ERR_LOW::APP_WRITE)]
            }
        }
    }

    fn collect_hdma(&self, kind: ChannelKind, channels: u64) -> u64 {
        let mut left = channels;
        let mut found = 0;
        while left != 0 {
            let index = left.trailing_zeros() as u8;
            left &= left - 1;
            let id = ChannelId { kind, index };
            let Ok(regs) = self.hdma_channel(id) else { continue };
            let status = reg!(regs, hdma::Channel, int_status).extract();
            if status.get() == u32::MAX {
                if self.confirm_gone() {
                    return channels;
                }
                continue;
            }
            let events = hdma_events(&status);
            if events != 0 {
                reg!(regs, hdma::Channel, int_clear).set(status.get() & 0x7);
                self.leave(id, events);
                found |= 1 << index;
            }
        }
        found
    }

    fn leave_each(&self, kind: ChannelKind, channels: u64, events: impl Fn(u32) -> u32) -> u64 {
        let mut left = channels;
        while left != 0 {
            let index = left.trailing_zeros() as u8;
            left &= left - 1;
            // Only v0, with its 8 channels, tells them apart by `bit`.
            self.leave(ChannelId { kind, index }, events(1u32.checked_shl(u32::from(index)).unwrap_or(0)));
        }
        channels
    }

    /// Leaves events for a channel.
    pub(crate) fn leave(&self, id: ChannelId, events: u32) {
        if let Some(word) = self.kinds[id.kind.index()].events.get(usize::from(id.index)) {
            word.fetch_or(events, Ordering::AcqRel);
        }
    }

    /// Whether an interrupt has left an abort for a channel.
    #[inline]
    pub(crate) fn is_aborted(&self, id: ChannelId) -> bool {
        let word = self.kinds[id.kind.index()].events.get(usize::from(id.index));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & event::ABORT != 0)
    }

    /// Takes what interrupts have left for a channel.
    #[inline]
    pub(crate) fn take_events(&self, id: ChannelId) -> u32 {
        match self.kinds[id.kind.index()].events.get(usize::from(id.index)) {
            // Most looks find nothing, and a load is cheaper than a swap.
            Some(word) if word.load(Ordering::Relaxed) != 0 => word.swap(0, Ordering::AcqRel),
            _ => 0,
        }
    }

    /// Makes every open channel look at the hardware.
    pub(crate) fn check_all(&self) {
        for kind in ChannelKind::ALL {
            self.leave_each(kind, bits(&self.kinds[kind.index()].open), |_| event::CHECK);
        }
    }

    /// A channel that has transfers with the engine, if there is one.
    pub(crate) fn any_busy(&self) -> Option<ChannelId> {
        ChannelKind::ALL.into_iter().find_map(|kind| {
            let [low, high] = [0, 1].map(|i| self.kinds[kind.index()].busy[i].load(Ordering::SeqCst));
            let busy = u64::from(low) | u64::from(high) << 32;
            (busy != 0).then(|| ChannelId { kind, index: busy.trailing_zeros() as u8 })
        })
    }

    /// The channels that have a handle, one bit each.
    pub(crate) fn open_channels(&self, kind: ChannelKind) -> u64 {
        bits(&self.kinds[kind.index()].open)
    }

    pub(crate) fn open_count(&self) -> u16 {
        ChannelKind::ALL.iter().map(|k| bits(&self.kinds[k.index()].open).count_ones() as u16).sum()
    }

    /// Marks a channel as open. False if it was already.
    pub(crate) fn mark_open(&self, id: ChannelId) -> bool {
        let (word, bit) = self.word(id, |k| &k.open);
        word.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    pub(crate) fn mark_closed(&self, id: ChannelId) {
        let (word, bit) = self.word(id, |k| &k.open);
        word.fetch_and(!bit, Ordering::AcqRel);
    }

    /// Says whether the channel has transfers with the engine. Before the doorbell, so that the
    /// handler of the interrupt that it causes looks at this channel.
    #[inline]
    pub(crate) fn mark_busy(&self, id: ChannelId, busy: bool) {
        let (word, bit) = self.word(id, |k| &k.busy);
        if busy {
            // Sequentially consistent, as `suspended` is: either suspend sees us busy, or we see it.
            word.fetch_or(bit, Ordering::SeqCst);
        } else {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    fn word(&self, id: ChannelId, which: impl Fn(&KindState) -> &[AtomicU32; 2]) -> (&AtomicU32, u32) {
        let words = which(&self.kinds[id.kind.index()]);
        (&words[usize::from(id.index >> 5 & 1)], 1 << (id.index & 31))
    }

    /// # Errors
    /// If the window is too small, which [`new`](Self::new) has ruled out.
    #[inline(always)]
    pub(crate) fn globals(&self) -> Result<Window<M, v0::Globals>, Error> {
        Ok(self.io.clone().layout(0)?)
    }

    fn power(&self) -> Result<Window<M, v0::Power>, Error> {
        Ok(self.io.clone().layout(v0::POWER)?)
    }

    /// Switches a channel of the HDMA-compatible map on or off.
    pub(crate) fn set_power(&self, id: ChannelId, on: bool) -> Result<(), Error> {
        let power = self.power()?;
        let index = usize::from(id.index);
        let register = match id.kind {
            ChannelKind::Write => reg!(power, v0::Power, wr_pwr_en[index]),
            ChannelKind::Read => reg!(power, v0::Power, rd_pwr_en[index]),
        };
        register.ok_or(Error::NoSuchChannel(id))?.write(v0::PWR_EN::ENABLE.val(u32::from(on)));
        Ok(())
    }

    /// The registers of a v0 channel: its own, or the window that the viewport shows.
    pub(crate) fn v0_channel(&self, id: ChannelId) -> Result<Window<M, v0::Channel>, Error> {
        if self.config.format == Format::Legacy {
            return Ok(self.io.clone().layout(v0::VIEWPORT_WINDOW)?);
        }
        let base = v0::CHANNELS + if id.kind == ChannelKind::Read { v0::READ_OFFSET } else { 0 };
        Ok(self.io.clone().bank(base, v0::CHANNEL_STRIDE, usize::from(id.index))?)
    }

    /// The registers of a native channel.
    pub(crate) fn hdma_channel(&self, id: ChannelId) -> Result<Window<M, hdma::Channel>, Error> {
        let base = if id.kind == ChannelKind::Read { hdma::READ_OFFSET } else { 0 };
        Ok(self.io.clone().bank(base, hdma::CHANNEL_STRIDE, usize::from(id.index))?)
    }
}

/// The events that a native channel's interrupt status stands for.
pub(crate) fn hdma_events(status: &LocalRegisterCopy<u32, hdma::INT_STATUS::Register>) -> u32 {
    use hdma::INT_STATUS;
    let mut events = 0;
    if status.is_set(INT_STATUS::STOP) {
        events |= event::DONE;
    }
    if status.is_set(INT_STATUS::WATERMARK) {
        events |= event::WATERMARK;
    }
    if status.is_set(INT_STATUS::ABORT) {
        events |= event::ABORT;
        events |= match status.read_as_enum(INT_STATUS::ERROR) {
            Some(INT_STATUS::ERROR::Value::MessageWrite) => event::WRITE_FAILED,
            Some(_) => event::READ_FAILED,
            None => 0,
        };
    }
    events
}
