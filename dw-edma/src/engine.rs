//! One channel's registers, the same calls for all four formats.

use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Readable, Reg, Split64, Writeable};

use crate::list::Burst;
use crate::regs::{hdma, v0};
use crate::shared::{Shared, event, hdma_events};
use crate::{ChannelId, ChannelKind, Error, Format, Interrupts};
use tombolo_hal::EngineAddr;

/// Where the hardware of a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It moves data, or is about to.
    Running,
    /// It came to rest: never started, finished or stopped.
    Resting,
    /// It gave up after an error.
    Halted,
    /// It reads all ones.
    Gone,
}

/// What a native channel is used for; the interrupts that it needs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Linked list: watermarks tell of completions.
    List,
    /// One transfer at a time from registers: the stop tells.
    Single,
}

/// The registers of one channel.
pub(crate) enum ChannelRegs<M> {
    V0 { globals: Window<M, v0::Globals>, channel: Window<M, v0::Channel>, legacy: bool },
    Hdma(Window<M, hdma::Channel>),
}

impl<M: Mmio + Clone> ChannelRegs<M> {
    pub(crate) fn new<K: RawLock>(shared: &Shared<M, K>, id: ChannelId) -> Result<Self, Error> {
        if shared.config.format.is_v0() {
            Ok(Self::V0 {
                globals: shared.globals()?,
                channel: shared.v0_channel(id)?,
                legacy: shared.config.format == Format::Legacy,
            })
        } else {
            Ok(Self::Hdma(shared.hdma_channel(id)?))
        }
    }
}

/// A channel's registers together with what is shared.
pub(crate) struct Engine<'a, M, K> {
    pub regs: &'a ChannelRegs<M>,
    pub shared: &'a Shared<M, K>,
    pub id: ChannelId,
}

impl<M: Mmio + Clone, K: RawLock> Engine<'_, M, K> {
    /// Prepares what a channel shares with others, once, when it is opened or after a reset: its
    /// interrupt mask, list error reports, power and the engine's enable.
    pub(crate) fn open(&self) -> Result<(), Error> {
        match self.activity() {
            // It was switched off when the engine was taken over, so it is not us for whom it runs.
            Activity::Running => return Err(Error::Busy(self.id)),
            Activity::Gone => return Err(Error::DeviceGone),
            Activity::Resting | Activity::Halted => {}
        }
        self.take_status();
        match self.regs {
            ChannelRegs::V0 { globals, .. } => self.open_v0(globals),
            ChannelRegs::Hdma(channel) => {
                reg!(*channel, hdma::Channel, ch_en).write(hdma::CH_EN::ENABLE::SET);
                let function = u32::from(self.shared.config.function);
                reg!(*channel, hdma::Channel, func_num).write(hdma::FUNC_NUM::PF.val(function));
                reg!(*channel, hdma::Channel, watermark_en).set(0);
                Ok(())
            }
        }
    }

    fn open_v0(&self, globals: &Window<M, v0::Globals>) -> Result<(), Error> {
        let bit = 1u32 << self.id.index;
        if self.shared.config.format == Format::HdmaCompat {
            self.shared.set_power(self.id, true)?;
        } else {
            kind_reg!(self.id.kind, *globals, wr_engine_en, rd_engine_en).write(v0::ENGINE_EN::ENABLE::SET);
        }
        let interrupts = self.shared.interrupts();
        self.shared.lock.with(|| {
            let mask = kind_reg!(self.id.kind, *globals, wr_int_mask, rd_int_mask);
            let both = bit | bit << 16;
            // The mask is of the local line only; messages are written whatever it says.
            mask.set(if interrupts == Interrupts::Local { mask.get() & !both } else { mask.get() | both });
            let errors = kind_reg!(self.id.kind, *globals, wr_ll_err_en, rd_ll_err_en);
            // Aborts latch where either side is to be told. The remote bit sends a message, which must
            // not happen before one was set.
            let report = if interrupts == Interrupts::Remote { bit } else { bit << 16 };
            errors.set(errors.get() & !(bit | bit << 16) | report);
        });
        Ok(())
    }

    /// Takes the channel out of what is shared.
    pub(crate) fn close(&self) {
        match self.regs {
            ChannelRegs::V0 { globals, .. } => {
                let both = 1u32 << self.id.index | 1u32 << (self.id.index + 16);
                self.shared.lock.with(|| {
                    let mask = kind_reg!(self.id.kind, *globals, wr_int_mask, rd_int_mask);
                    mask.set(mask.get() | both);
                    let errors = kind_reg!(self.id.kind, *globals, wr_ll_err_en, rd_ll_err_en);
                    errors.set(errors.get() & !both);
                });
                if self.shared.config.format == Format::HdmaCompat {
                    // The window was checked when the engine was opened.
                    let _ = self.shared.set_power(self.id, false);
                }
            }
            ChannelRegs::Hdma(channel) => {
                reg!(*channel, hdma::Channel, int_setup).write(
                    hdma::INT_SETUP::STOP_MASK::SET
                        + hdma::INT_SETUP::WATERMARK_MASK::SET
                        + hdma::INT_SETUP::ABORT_MASK::SET,
                );
                reg!(*channel, hdma::Channel, ch_en).write(hdma::CH_EN::ENABLE::CLEAR);
            }
        }
    }

    /// Points a resting channel at its list, from the start, with cycle state `true`.
    pub(crate) fn program_list(&self, list: EngineAddr) {
        match self.regs {
            ChannelRegs::V0 { channel, .. } => self.with_viewport(|| {
                let function = u32::from(self.shared.config.function);
                reg!(*channel, v0::Channel, control1).write(
                    v0::CONTROL1::CCS::SET + v0::CONTROL1::LLE::SET + v0::CONTROL1::FUNCTION.val(function),
                );
                reg!(*channel, v0::Channel, llp).write_lo_hi(list.value());
            }),
            ChannelRegs::Hdma(channel) => {
                self.set_up_interrupts(channel, Mode::List);
                reg!(*channel, hdma::Channel, control1).modify(hdma::CONTROL1::LLEN::SET);
                reg!(*channel, hdma::Channel, llp).write_lo_hi(list.value());
                reg!(*channel, hdma::Channel, cycle).write(hdma::CYCLE::STATE::SET + hdma::CYCLE::BIT::SET);
            }
        }
    }

    /// Loads a resting native channel with one transfer.
    pub(crate) fn program_single(&self, burst: &Burst) {
        if let ChannelRegs::Hdma(channel) = self.regs {
            self.set_up_interrupts(channel, Mode::Single);
            reg!(*channel, hdma::Channel, control1).modify(hdma::CONTROL1::LLEN::CLEAR);
            reg!(*channel, hdma::Channel, sar).write_lo_hi(burst.sar);
            reg!(*channel, hdma::Channel, dar).write_lo_hi(burst.dar);
            reg!(*channel, hdma::Channel, transfer_size).set(burst.size);
        }
    }

    /// Status latches only with the local enables, so these are always set; the masks keep the local
    /// line quiet where messages or polling are used. Stops of a list are no news, since watermarks
    /// tell of completions: their message is asked for only in single mode or while stopping.
    fn set_up_interrupts(&self, channel: &Window<M, hdma::Channel>, mode: Mode) {
        use hdma::INT_SETUP as S;
        // A stop that latched while it was masked is no news of what comes now.
        reg!(*channel, hdma::Channel, int_clear).write(hdma::INT_CLEAR::STOP::SET);
        let single = mode == Mode::Single;
        let latch = S::LOCAL_STOP_EN::SET + S::LOCAL_ABORT_EN::SET;
        let setup = match self.shared.interrupts() {
            Interrupts::Local => latch + S::STOP_MASK.val(u32::from(!single)),
            Interrupts::Remote => {
                latch
                    + S::STOP_MASK::SET
                    + S::WATERMARK_MASK::SET
                    + S::ABORT_MASK::SET
                    + S::REMOTE_ABORT_EN::SET
                    + S::REMOTE_STOP_EN.val(u32::from(single))
            }
            Interrupts::Polling => latch + S::STOP_MASK::SET + S::WATERMARK_MASK::SET + S::ABORT_MASK::SET,
        };
        reg!(*channel, hdma::Channel, int_setup).write(setup);
    }

    /// Forgets what a native channel at rest has latched since it was last asked: a line that is up
    /// already could not tell of anything new.
    pub(crate) fn forget_status(&self) {
        let ChannelRegs::Hdma(channel) = self.regs else { return };
        if self.shared.interrupts() == Interrupts::Local {
            reg!(*channel, hdma::Channel, int_clear).write(
                hdma::INT_CLEAR::STOP::SET + hdma::INT_CLEAR::WATERMARK::SET + hdma::INT_CLEAR::ABORT::SET,
            );
        }
    }

    /// Starts the channel, or makes sure that it goes on. A channel that runs ignores it.
    #[inline]
    pub(crate) fn ring(&self) {
        match self.regs {
            ChannelRegs::V0 { globals, .. } => {
                kind_reg!(self.id.kind, *globals, wr_doorbell, rd_doorbell)
                    .write(v0::DOORBELL::CHANNEL.val(u32::from(self.id.index)));
            }
            ChannelRegs::Hdma(channel) => {
                reg!(*channel, hdma::Channel, doorbell).write(hdma::DOORBELL::START::SET);
            }
        }
    }

    /// Makes the end of the running list news, for a transfer that waits for it.
    pub(crate) fn announce_end(&self) {
        if let ChannelRegs::Hdma(channel) = self.regs {
            self.set_up_interrupts(channel, Mode::Single);
        }
    }

    /// Asks a running channel to stop. Only ever for one that was just seen running: on a resting
    /// one the request would have nothing to stop.
    pub(crate) fn stop(&self) {
        match self.regs {
            ChannelRegs::V0 { globals, .. } => {
                kind_reg!(self.id.kind, *globals, wr_doorbell, rd_doorbell)
                    .write(v0::DOORBELL::CHANNEL.val(u32::from(self.id.index)) + v0::DOORBELL::STOP::SET);
            }
            ChannelRegs::Hdma(channel) => {
                // The stop is news now.
                self.set_up_interrupts(channel, Mode::Single);
                reg!(*channel, hdma::Channel, doorbell).write(hdma::DOORBELL::STOP::SET);
            }
        }
    }

    /// Where the hardware is.
    pub(crate) fn activity(&self) -> Activity {
        let state = match self.regs {
            ChannelRegs::V0 { channel, .. } => self.with_viewport(|| {
                let control1 = reg!(*channel, v0::Channel, control1).extract();
                (control1.get() != u32::MAX).then(|| control1.read(v0::CONTROL1::STATUS))
            }),
            ChannelRegs::Hdma(channel) => {
                let status = reg!(*channel, hdma::Channel, status).extract();
                (status.get() != u32::MAX).then(|| status.read(hdma::STATUS::STATE))
            }
        };
        // The numbers are the same in both maps.
        match state {
            None if self.shared.confirm_gone() => Activity::Gone,
            // One bad answer of a device that is there says nothing: look again later.
            None => Activity::Running,
            Some(1) => Activity::Running,
            Some(2) => Activity::Halted,
            Some(_) => Activity::Resting,
        }
    }

    /// Low half of the list pointer: where the engine is.
    #[inline]
    pub(crate) fn list_position(&self) -> u32 {
        match self.regs {
            ChannelRegs::V0 { channel, .. } => {
                self.with_viewport(|| reg!(*channel, v0::Channel, llp).read_lo())
            }
            ChannelRegs::Hdma(channel) => reg!(*channel, hdma::Channel, llp).read_lo(),
        }
    }

    /// Bytes that a single transfer has not moved yet.
    pub(crate) fn single_residue(&self) -> u32 {
        match self.regs {
            ChannelRegs::V0 { .. } => 0,
            ChannelRegs::Hdma(channel) => reg!(*channel, hdma::Channel, transfer_size).get(),
        }
    }

    /// Reads and clears this channel's own interrupt status; of the other channels nothing is
    /// touched. For polling and for coming to rest.
    pub(crate) fn take_status(&self) -> u32 {
        match self.regs {
            ChannelRegs::V0 { globals, .. } => self.take_v0_status(globals),
            ChannelRegs::Hdma(channel) => {
                let status = reg!(*channel, hdma::Channel, int_status).extract();
                if status.get() == u32::MAX {
                    self.shared.confirm_gone();
                    return event::CHECK;
                }
                let events = hdma_events(&status);
                if events != 0 {
                    reg!(*channel, hdma::Channel, int_clear).set(status.get() & 0x7);
                }
                events
            }
        }
    }

    fn take_v0_status(&self, globals: &Window<M, v0::Globals>) -> u32 {
        let kind = self.id.kind;
        let status = kind_reg!(kind, *globals, wr_int_status, rd_int_status).get();
        if status == u32::MAX {
            self.shared.confirm_gone();
            return event::CHECK;
        }
        let bit = 1u32 << self.id.index;
        let seen = status & (bit | bit << 16);
        if seen == 0 {
            return 0;
        }
        let mut events = if seen & bit != 0 { event::DONE } else { 0 };
        if seen & bit << 16 != 0 {
            let [read, write] = self.shared.v0_cause(kind, globals);
            events |= event::ABORT;
            events |= if read & bit != 0 { event::READ_FAILED } else { 0 };
            events |= if write & bit != 0 { event::WRITE_FAILED } else { 0 };
        }
        kind_reg!(kind, *globals, wr_int_clear, rd_int_clear).set(seen);
        events
    }

    /// In the legacy map the channel's registers show only while it is selected, so selecting and
    /// access go under the lock. No other map needs one here.
    #[inline(always)]
    fn with_viewport<R>(&self, access: impl FnOnce() -> R) -> R {
        match self.regs {
            ChannelRegs::V0 { globals, legacy: true, .. } => self.shared.lock.with(|| {
                reg!(*globals, v0::Globals, viewport).write(
                    v0::VIEWPORT::CHANNEL.val(u32::from(self.id.index))
                        + v0::VIEWPORT::READ.val(u32::from(self.id.kind == ChannelKind::Read)),
                );
                access()
            }),
            _ => access(),
        }
    }

    /// Tells a channel what message to write. v0: the address is its whole direction's, and only
    /// the data is the channel's own, sharing a word with its neighbour.
    pub(crate) fn set_message(&self, message: tombolo_hal::irq::MsiMessage) -> Result<(), Error> {
        match self.regs {
            ChannelRegs::V0 { globals, .. } => self.shared.lock.with(|| {
                let update = |register: Reg<'_, M, Split64>| {
                    // A message may be written at any moment: leave the halves alone that are right.
                    if register.read_lo_hi() != message.address {
                        register.write_hi_lo(message.address);
                    }
                };
                update(kind_reg!(self.id.kind, *globals, wr_done_imwr, rd_done_imwr));
                update(kind_reg!(self.id.kind, *globals, wr_abort_imwr, rd_abort_imwr));
                let pair = usize::from(self.id.index >> 1);
                let register = match self.id.kind {
                    ChannelKind::Write => reg!(*globals, v0::Globals, wr_imwr_data[pair]),
                    ChannelKind::Read => reg!(*globals, v0::Globals, rd_imwr_data[pair]),
                };
                let register = register.ok_or(Error::NoSuchChannel(self.id))?;
                if self.id.index & 1 == 0 {
                    register.modify(v0::IMWR_DATA::EVEN.val(message.data));
                } else {
                    register.modify(v0::IMWR_DATA::ODD.val(message.data));
                }
                Ok(())
            }),
            ChannelRegs::Hdma(channel) => {
                reg!(*channel, hdma::Channel, msi_stop).write_lo_hi(message.address);
                reg!(*channel, hdma::Channel, msi_watermark).write_lo_hi(message.address);
                reg!(*channel, hdma::Channel, msi_abort).write_lo_hi(message.address);
                reg!(*channel, hdma::Channel, msi_data).set(message.data);
                Ok(())
            }
        }
    }
}
