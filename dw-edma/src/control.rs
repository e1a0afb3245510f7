//! The control handle: interrupts, channels, power.

use tombolo_hal::dmaengine::DescriptorPool;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::mmio::Mmio;

use crate::channel::ChannelMemory;
use crate::engine::{Activity, ChannelRegs, Engine};
use crate::error::MessageError;
use crate::{Channel, ChannelId, ChannelKind, Error, Interrupts, ListMemory, Location, SharedRef};

/// Which vector stands for which channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vectors {
    /// Vector 0 for all.
    #[default]
    One,
    /// Write channels first, then read channels, one vector each; round again if there are fewer.
    /// Across the link, v0 engines can use only vectors with one address for all channels of a kind;
    /// a channel whose vector has another one uses the first channel's.
    PerChannel,
}

/// The one handle that controls an engine.
pub struct Controller<S: SharedRef> {
    shared: S,
    vectors: Vectors,
    vector_count: u16,
    message_epoch: u32,
}

impl<S: SharedRef> Controller<S> {
    /// Takes control of an engine. It polls until [`connect`](Self::connect) gives it interrupts.
    ///
    /// # Errors
    /// [`Error::Controlled`] if there is a control handle already.
    pub fn new(shared: S) -> Result<Self, Error> {
        shared.shared().take_control()?;
        Ok(Self { shared, vectors: Vectors::One, vector_count: 0, message_epoch: 0 })
    }

    /// The shared state.
    pub fn shared(&self) -> &S {
        &self.shared
    }

    /// Uses the platform's interrupts, before any channel is opened. An engine across the link
    /// writes them itself and is given their messages.
    ///
    /// The platform calls [`Shared::on_irq`](crate::Shared::on_irq) for each of them.
    ///
    /// # Errors
    /// [`Error::Messages`] if the engine cannot send these messages, [`Error::ChannelsOpen`]. It
    /// goes on polling then, and nothing is changed.
    pub fn connect(&mut self, irq: &impl IrqSource, vectors: Vectors) -> Result<Interrupts, Error> {
        let shared = self.shared.shared();
        let open = shared.open_count();
        if open != 0 {
            return Err(Error::ChannelsOpen(open));
        }
        let interrupts = match (irq.mode(), shared.config.location) {
            (IrqMode::Polling, _) => Interrupts::Polling,
            (_, Location::Local) => Interrupts::Local,
            (_, Location::Remote) => Interrupts::Remote,
        };
        let count = irq.vectors().max(1);
        if interrupts == Interrupts::Remote {
            self.check_messages(irq, vectors, count)?;
        }
        (self.vectors, self.vector_count) = (vectors, count);
        self.write_messages(irq, interrupts)?;
        self.shared.shared().set_interrupts(interrupts);
        Ok(interrupts)
    }

    /// The vector that stands for a channel, where the engine can use it; see [`Vectors`].
    pub fn vector_of(&self, id: ChannelId) -> u16 {
        self.vector_with(id, self.vectors, self.vector_count)
    }

    fn vector_with(&self, id: ChannelId, vectors: Vectors, count: u16) -> u16 {
        match vectors {
            Vectors::One => 0,
            Vectors::PerChannel => {
                let before = match id.kind {
                    ChannelKind::Write => 0,
                    ChannelKind::Read => self.shared.shared().channel_count(ChannelKind::Write),
                };
                (before + u16::from(id.index)) % count.max(1)
            }
        }
    }

    fn channels(&self) -> impl Iterator<Item = ChannelId> + use<S> {
        let shared = self.shared.shared();
        let writes = shared.channel_count(ChannelKind::Write);
        let reads = shared.channel_count(ChannelKind::Read);
        (0..writes).map(|i| ChannelId::write(i as u8)).chain((0..reads).map(|i| ChannelId::read(i as u8)))
    }

    /// The message of a channel. v0 engines have one address for all channels of a kind, so there a
    /// channel whose vector has another address (MSI-X vectors on different CPUs do) shares the
    /// vector of the first channel of its kind.
    fn message_of(
        &self,
        irq: &impl IrqSource,
        id: ChannelId,
        vectors: Vectors,
        count: u16,
    ) -> Result<MsiMessage, Error> {
        let vector = self.vector_with(id, vectors, count);
        let own = message(irq, vector)?;
        if !self.shared.shared().config.format.is_v0() {
            return Ok(own);
        }
        let first = self.vector_with(ChannelId { kind: id.kind, index: 0 }, vectors, count);
        let shared = message(irq, first)?;
        let used = if own.address == shared.address { own } else { shared };
        if used.data > 0xffff {
            return Err(Error::Messages(MessageError::DataTooLarge { vector, data: used.data }));
        }
        Ok(used)
    }

    /// Whether the engine can send the messages of these vectors.
    fn check_messages(&self, irq: &impl IrqSource, vectors: Vectors, count: u16) -> Result<(), Error> {
        self.channels().try_for_each(|id| self.message_of(irq, id, vectors, count).map(drop))
    }

    fn write_messages(&mut self, irq: &impl IrqSource, interrupts: Interrupts) -> Result<(), Error> {
        // Taken first: a change while we write shows as a difference next time.
        let epoch = irq.message_epoch();
        if interrupts == Interrupts::Remote {
            for id in self.channels() {
                let message = self.message_of(irq, id, self.vectors, self.vector_count)?;
                let regs = ChannelRegs::new(self.shared.shared(), id)?;
                Engine { regs: &regs, shared: self.shared.shared(), id }.set_message(message)?;
            }
        }
        self.message_epoch = epoch;
        Ok(())
    }

    /// Gives the engine the present messages if any has changed, as they do when a vector moves to
    /// another CPU. Call it when the platform says so, or now and then. Returns whether one had.
    ///
    /// An interrupt may have gone astray meanwhile, so every channel then looks at the hardware. A
    /// message is several registers, and one that the engine sends in between may mix old and new: the
    /// platform keeps the old vectors valid until this returns.
    ///
    /// # Errors
    /// [`Error::Messages`] if the engine cannot send the new ones; the old ones stay.
    pub fn refresh_messages(&mut self, irq: &impl IrqSource) -> Result<bool, Error> {
        if irq.message_epoch() == self.message_epoch {
            return Ok(false);
        }
        let interrupts = self.shared.shared().interrupts();
        if interrupts == Interrupts::Remote {
            self.check_messages(irq, self.vectors, self.vector_count)?;
        }
        self.write_messages(irq, interrupts)?;
        self.shared.shared().check_all();
        Ok(true)
    }

    /// Opens a channel: `list` is the memory for its linked list, `memory` has room for its
    /// descriptors.
    ///
    /// # Errors
    /// [`Error`] if there is no such channel, it is open, or the memory does not do.
    pub fn open_channel<L: Mmio, P: ChannelMemory>(
        &mut self,
        id: ChannelId,
        list: ListMemory<L>,
        memory: P,
    ) -> Result<Channel<S, L, P>, Error> {
        let shared = self.shared.shared();
        if u16::from(id.index) >= shared.channel_count(id.kind) {
            return Err(Error::NoSuchChannel(id));
        }
        if shared.is_gone() {
            return Err(Error::DeviceGone);
        }
        if !list.exists() && shared.config.format.is_v0() {
            return Err(Error::List(crate::ListError::Missing));
        }
        let regs = ChannelRegs::new(shared, id)?;
        let pool = DescriptorPool::new(memory)?;
        if !shared.mark_open(id) {
            return Err(Error::ChannelOpen(id));
        }
        let channel = Channel::new(self.shared.clone(), id, regs, list, pool);
        if let Err(error) = channel.engine().open() {
            self.shared.shared().mark_closed(id);
            return Err(error);
        }
        channel.clear_list();
        Ok(channel)
    }

    /// Switches the engine off for a time without power. What is queued stays queued, and channels
    /// hand nothing to the engine until [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`Error::Busy`] while a channel has transfers with the engine, or has not quite come to rest:
    /// pause or terminate, and try again.
    pub fn suspend(&mut self) -> Result<(), Error> {
        let shared = self.shared.shared();
        // First, so that a channel that becomes busy now is either seen below or sees this.
        shared.set_suspended(true);
        let result = match self.running() {
            Some(id) => Err(Error::Busy(id)),
            None => shared.silence(),
        };
        if result.is_err() {
            shared.set_suspended(false);
            // What was issued meanwhile waits for somebody to look.
            shared.check_all();
        }
        result
    }

    /// A channel that has transfers with the engine, or at whose last one the engine still is.
    fn running(&self) -> Option<ChannelId> {
        let shared = self.shared.shared();
        let runs = |id: &ChannelId| {
            let engine = ChannelRegs::new(shared, *id);
            engine.is_ok_and(|regs| Engine { regs: &regs, shared, id: *id }.activity() == Activity::Running)
        };
        let mut open = self.channels().filter(|id| shared.open_channels(id.kind) >> id.index & 1 != 0);
        shared.any_busy().or_else(|| open.find(runs))
    }

    /// Programs the engine again after [`suspend`](Self::suspend).
    ///
    /// # Errors
    /// [`Error`] if the device does not answer or its messages cannot be given to it.
    pub fn resume(&mut self, irq: &impl IrqSource) -> Result<(), Error> {
        self.after_reset(irq)
    }

    /// Programs the engine again after the device was reset, or came back. What channels had with
    /// the engine ends as aborted, what was queued goes on.
    ///
    /// Say [`suspend`](Self::suspend) before a reset that is planned, and this before channels are used
    /// after one that was not: between the two an engine has lost the addresses of its messages.
    ///
    /// # Errors
    /// [`Error`] if the device does not answer or its messages cannot be given to it.
    pub fn after_reset(&mut self, irq: &impl IrqSource) -> Result<(), Error> {
        let shared = self.shared.shared();
        shared.look_whether_back()?;
        shared.silence()?;
        let interrupts = shared.interrupts();
        self.write_messages(irq, interrupts)?;
        let shared = self.shared.shared();
        shared.bump_epoch();
        shared.set_suspended(false);
        shared.check_all();
        Ok(())
    }

    /// Gives up control although channels are open that will not come to rest: the engine is switched
    /// off, as far as it obeys.
    pub fn abandon(self) {
        // It may be gone or refuse; there is nothing left to do about it.
        let _ = self.shared.shared().silence();
        self.shared.shared().give_control_back();
    }

    /// Switches the engine off for good and gives up control.
    ///
    /// # Errors
    /// [`Error::ChannelsOpen`] with `self`, while channels are open.
    pub fn close(self) -> Result<(), (Self, Error)> {
        let open = self.shared.shared().open_count();
        if open != 0 {
            return Err((self, Error::ChannelsOpen(open)));
        }
        if let Err(error) = self.shared.shared().silence() {
            return Err((self, error));
        }
        self.shared.shared().give_control_back();
        Ok(())
    }
}

fn message(irq: &impl IrqSource, vector: u16) -> Result<MsiMessage, Error> {
    irq.message(vector).ok_or(Error::Messages(MessageError::Unknown(vector)))
}
