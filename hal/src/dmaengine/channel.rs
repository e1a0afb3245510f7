//! The channel trait.

use embedded_hal::delay::DelayNs;

use super::types::*;
use crate::error::Error;
use crate::wait::{Timeout, poll_until};

/// A descriptor was not accepted; here it is again.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the descriptor was not accepted: {error}")]
pub struct Rejected<E: core::error::Error + 'static> {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// Why.
    #[source]
    pub error: E,
}

/// One DMA channel: one owner, one queue, transfers in order.
///
/// # For providers
/// Configuration and preparation in one step, [`prep_slave_sg_config`](Self::prep_slave_sg_config),
/// is what clients with changing addresses want. An engine that keeps its configuration per
/// descriptor implements it; for all others the default applies the configuration, prepares, and
/// puts the former configuration back, on failure too.
///
/// # What is trusted
/// Whoever holds buffers by cookie ([`OwnedTransfers`](super::OwnedTransfers)) gives them back when
/// the channel reports them finished, or terminated and at rest. A provider therefore reports a
/// transfer only when its engine is done with the memory: an engine that contradicts itself or does
/// not stop keeps its transfers. A device that is gone (all ones, confirmed) counts as done, because
/// its link is down; a platform that can make a living device read all ones must first clear its Bus
/// Master Enable.
pub trait DmaChannel {
    /// The channel's errors.
    type Error: Error + From<Unsupported> + 'static;
    /// What only this engine knows of a slave.
    type Peripheral: Copy + Default;

    /// What the channel can do.
    fn caps(&self) -> ChannelCaps;

    /// Sets the sticky configuration, which later `prep_*` calls without one of their own use.
    ///
    /// # Errors
    /// If the engine cannot do it; nothing is changed then.
    fn configure(&mut self, config: &SlaveConfig<Self::Peripheral>) -> Result<(), Self::Error>;

    /// The sticky configuration, if there is one.
    fn configuration(&self) -> Option<SlaveConfig<Self::Peripheral>>;

    /// Puts back what [`configuration`](Self::configuration) once returned.
    fn restore_configuration(&mut self, saved: Option<SlaveConfig<Self::Peripheral>>);

    /// Prepares a transfer between `sg` and the configured device address, which advances by what
    /// was moved, entry by entry.
    ///
    /// # Errors
    /// For input that the engine cannot do, or when there is no space; nothing is changed then.
    fn prep_slave_sg(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        flags: PrepFlags,
    ) -> Result<Descriptor, Self::Error>;

    /// Configures and prepares in one step. `config` is for this descriptor only; `None` means the
    /// sticky one.
    ///
    /// # Errors
    /// As [`configure`](Self::configure) and [`prep_slave_sg`](Self::prep_slave_sg); nothing is
    /// changed then.
    fn prep_slave_sg_config(
        &mut self,
        sg: &[SgEntry],
        direction: Direction,
        flags: PrepFlags,
        config: Option<&SlaveConfig<Self::Peripheral>>,
    ) -> Result<Descriptor, Self::Error> {
        let Some(config) = config else {
            return self.prep_slave_sg(sg, direction, flags);
        };
        let saved = self.configuration();
        self.configure(config)?;
        let result = self.prep_slave_sg(sg, direction, flags);
        self.restore_configuration(saved);
        result
    }

    /// [`prep_slave_sg_config`](Self::prep_slave_sg_config) with one entry.
    ///
    /// # Errors
    /// The same.
    fn prep_slave_single_config(
        &mut self,
        entry: SgEntry,
        direction: Direction,
        flags: PrepFlags,
        config: Option<&SlaveConfig<Self::Peripheral>>,
    ) -> Result<Descriptor, Self::Error> {
        self.prep_slave_sg_config(&[entry], direction, flags, config)
    }

    /// Prepares an endless transfer over `buffer`, with a [`Event::Period`] every `period` bytes.
    ///
    /// Memory and device addresses both advance through the buffer and start again at its end.
    ///
    /// # Errors
    /// [`Unsupported`], or for input that the engine cannot do.
    fn prep_dma_cyclic(
        &mut self,
        buffer: SgEntry,
        period: u64,
        direction: Direction,
        flags: PrepFlags,
    ) -> Result<Descriptor, Self::Error> {
        let _ = (buffer, period, direction, flags);
        Err(Unsupported("cyclic transfers").into())
    }

    /// Prepares a copy from memory to memory.
    ///
    /// # Errors
    /// [`Unsupported`], or for input that the engine cannot do.
    fn prep_dma_memcpy(
        &mut self,
        destination: SgEntry,
        source: SgEntry,
        flags: PrepFlags,
    ) -> Result<Descriptor, Self::Error> {
        let _ = (destination, source, flags);
        Err(Unsupported("memory-to-memory transfers").into())
    }

    /// Prepares a transfer of a rectangle.
    ///
    /// # Errors
    /// [`Unsupported`], or for input that the engine cannot do.
    fn prep_interleaved_dma(
        &mut self,
        template: &InterleavedTemplate,
        flags: PrepFlags,
    ) -> Result<Descriptor, Self::Error> {
        let _ = (template, flags);
        Err(Unsupported("interleaved transfers").into())
    }

    /// Gives a prepared descriptor back without using it.
    fn discard(&mut self, descriptor: Descriptor);

    /// Queues a descriptor. The hardware sees it at [`issue_pending`](Self::issue_pending).
    ///
    /// # Errors
    /// [`Rejected`] with the descriptor.
    fn submit(&mut self, descriptor: Descriptor) -> Result<Cookie, Rejected<Self::Error>>;

    /// Hands all submitted descriptors to the hardware.
    fn issue_pending(&mut self);

    /// How far `cookie` has come. Costs no device access.
    fn status(&self, cookie: Cookie) -> TxState;

    /// The next thing that happened, in order. The truth: wakers and callbacks are built on it.
    ///
    /// Looks at what interrupts have left, or without interrupts at the device itself.
    fn pop_completed(&mut self) -> Option<Completion>;

    /// Looks at the device whether or not an interrupt came: the way out when one was lost.
    ///
    /// # Errors
    /// If the device is gone or says what cannot be.
    fn poll_hardware(&mut self) -> Result<(), Self::Error>;

    /// Stops handing further work to the hardware. What it has already it finishes.
    ///
    /// # Errors
    /// If the channel cannot pause; pausing a paused one is no error.
    fn pause(&mut self) -> Result<(), Self::Error>;

    /// Goes on after [`pause`](Self::pause). On a channel that is not paused it does nothing.
    ///
    /// # Errors
    /// If the device is gone.
    fn resume(&mut self) -> Result<(), Self::Error>;

    /// Drops all that is queued, and starts stopping what runs. Never waits. There are no
    /// completions for what was dropped; buffers are safe to reuse once the channel
    /// [is quiescent](Self::is_quiescent).
    ///
    /// # Errors
    /// If the device is gone; all is dropped nevertheless.
    fn terminate_all(&mut self) -> Result<(), Self::Error>;

    /// Whether the hardware has come to rest: it moves no data and reads no list. One look, no
    /// waiting.
    fn is_quiescent(&mut self) -> bool;

    /// Whether nothing that was terminated is with the hardware any more, though newer transfers may
    /// be. One look, no waiting.
    fn is_terminated(&mut self) -> bool {
        self.is_quiescent()
    }
}

/// The channel did not come to rest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel did not come to rest")]
pub struct SynchronizeError(#[source] pub Timeout);

/// What can be built on any channel.
pub trait DmaChannelExt: DmaChannel {
    /// Waits until the hardware has come to rest, `limit_us` at most. For contexts that may sleep;
    /// others call [`is_quiescent`](DmaChannel::is_quiescent) step by step.
    ///
    /// # Errors
    /// [`SynchronizeError`]: the buffers of terminated transfers must then go to quarantine.
    fn synchronize(&mut self, delay: &mut impl DelayNs, limit_us: u32) -> Result<(), SynchronizeError> {
        poll_until(delay, 10, limit_us, || self.is_quiescent().then_some(())).map_err(SynchronizeError)
    }
}

impl<C: DmaChannel + ?Sized> DmaChannelExt for C {}
