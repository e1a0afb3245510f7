//! What both directions of a DMA channel and its FIFO have in common: the ring, start, stop and reset.

use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::DmaBackend;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};
use tombolo_hal::wait::poll_until;

use crate::error::Wait;
use crate::regs::dmac::{CFG_C, DMAC_CMD, Dmac, Ring};
use crate::regs::system::{FCT_CTL, System};
use crate::ring::RingMemory;
use crate::shared::QueueIrq;
use crate::{Error, Shared};

/// How long a channel or FIFO may take, in microseconds. Linux waits 100 ms.
const LIMIT_US: u32 = 100_000;
const INTERVAL_US: u32 = 10;

/// Waits until `ready` says so of a register's value; all ones is a device that is gone.
pub(crate) fn wait_for(
    what: Wait,
    delay: &mut impl DelayNs,
    interval_us: u32,
    limit_us: u32,
    mut read: impl FnMut() -> u32,
    ready: impl Fn(u32) -> bool,
) -> Result<u32, Error> {
    let value = poll_until(delay, interval_us, limit_us, || {
        let value = read();
        (value == u32::MAX || ready(value)).then_some(value)
    })
    .map_err(Error::timeout(what))?;
    if value == u32::MAX { Err(Error::DeviceGone) } else { Ok(value) }
}

/// Tells a channel where its ring is.
pub(crate) fn set_ring<M: Mmio, B: DmaBackend>(registers: &Window<M, Ring>, ring: &RingMemory<B>) {
    let (base, head) = (ring.address().value(), ring.head_address());
    reg!(*registers, Ring, base_addrh).set((base >> 32) as u32);
    reg!(*registers, Ring, base_addrl).set(base as u32);
    reg!(*registers, Ring, head_writeback_addrh).set((head >> 32) as u32);
    reg!(*registers, Ring, head_writeback_addrl).set(head as u32);
}

/// Has the device mask a channel's interrupts by itself, or not.
pub(crate) fn set_masking<M: Mmio>(registers: &Window<M, Ring>, irq: QueueIrq) {
    let itself = CFG_C::TOP_INT_EN_AUTO_CLR::SET + CFG_C::DMA_INT_STS_AUTO_CLR::SET;
    reg!(*registers, Ring, cfg_c).set(if irq == QueueIrq::Auto { itself.value } else { 0 });
}

/// A channel that was reset is at the beginning of its ring.
pub(crate) fn check_head<M: Mmio>(registers: &Window<M, Ring>, channel: u8) -> Result<(), Error> {
    match reg!(*registers, Ring, head).get() {
        0 => Ok(()),
        u32::MAX => Err(Error::DeviceGone),
        head => Err(Error::Head { channel, head }),
    }
}

/// A device that is gone has stopped.
pub(crate) fn unless_gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DeviceGone) => Ok(()),
        result => result,
    }
}

/// The bits of a channel in the command register: reset, start, stop.
const fn bits(rx: bool, channel: u8) -> (u32, u32, u32) {
    let bit = 1 << channel;
    if rx { (bit << 8, bit << 4, bit) } else { (bit << 24, bit << 20, bit << 16) }
}

pub(crate) fn reset<M: Mmio + Clone>(
    shared: &Shared<M>,
    rx: bool,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    let (reset, ..) = bits(rx, channel);
    reg!(shared.dmac, Dmac, cmd).set(reset);
    let read = || reg!(shared.dmac, Dmac, cmd).get();
    wait_for(Wait::ChannelReset, delay, INTERVAL_US, LIMIT_US, read, |cmd| cmd & reset == 0).map(drop)
}

pub(crate) fn start<M: Mmio + Clone>(shared: &Shared<M>, rx: bool, channel: u8) {
    let (_, start, _) = bits(rx, channel);
    reg!(shared.dmac, Dmac, cmd).set(start);
}

/// Stops a channel and waits until it no longer is stopping.
pub(crate) fn stop<M: Mmio + Clone>(
    shared: &Shared<M>,
    rx: bool,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    let (_, start, stop) = bits(rx, channel);
    reg!(shared.dmac, Dmac, cmd).set(stop);
    let read = || reg!(shared.dmac, Dmac, cmd).get();
    // Both bits: it is stopping. Start alone: it has not even begun to.
    wait_for(Wait::ChannelStop, delay, INTERVAL_US, LIMIT_US, read, |cmd| cmd & start == 0).map(drop)
}

/// Resets the whole DMA controller: all channels are stopped and forget their rings.
pub(crate) fn reset_all<M: Mmio + Clone>(shared: &Shared<M>, delay: &mut impl DelayNs) -> Result<(), Error> {
    reg!(shared.dmac, Dmac, cmd).write(DMAC_CMD::SWR::SET);
    let read = || reg!(shared.dmac, Dmac, cmd).get();
    let done = |cmd: u32| cmd & DMAC_CMD::SWR::SET.value == 0;
    wait_for(Wait::DmacReset, delay, INTERVAL_US, LIMIT_US, read, done).map(drop)
}

/// Resets a transmit FIFO and enables it.
pub(crate) fn reset_tx_fifo<M: Mmio + Clone>(
    shared: &Shared<M>,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    let reset = FCT_CTL::RESET.val(1 << channel);
    reg!(shared.system, System, fct_tx_ctl).write(reset);
    let read = || reg!(shared.system, System, fct_tx_ctl).get();
    wait_for(Wait::FifoReset, delay, INTERVAL_US, LIMIT_US, read, |ctl| ctl & reset.value == 0)?;
    reg!(shared.system, System, fct_tx_ctl).write(FCT_CTL::ENABLE.val(1 << channel));
    Ok(())
}

pub(crate) fn disable_tx_fifo<M: Mmio + Clone>(
    shared: &Shared<M>,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    reg!(shared.system, System, fct_tx_ctl).write(FCT_CTL::DISABLE.val(1 << channel));
    let enabled = FCT_CTL::ENABLE.val(1 << channel).value;
    let read = || reg!(shared.system, System, fct_tx_ctl).get();
    wait_for(Wait::FifoDisable, delay, INTERVAL_US, LIMIT_US, read, |ctl| ctl & enabled == 0).map(drop)
}

/// Resets a receive FIFO; it stays disabled.
pub(crate) fn reset_rx_fifo<M: Mmio + Clone>(
    shared: &Shared<M>,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    let reset = FCT_CTL::RESET.val(1 << channel);
    reg!(shared.system, System, fct_rx_ctl).write(reset);
    let read = || reg!(shared.system, System, fct_rx_ctl).get();
    wait_for(Wait::FifoReset, delay, INTERVAL_US, LIMIT_US, read, |ctl| ctl & reset.value == 0).map(drop)
}

pub(crate) fn enable_rx_fifo<M: Mmio + Clone>(shared: &Shared<M>, channel: u8) {
    reg!(shared.system, System, fct_rx_ctl).write(FCT_CTL::ENABLE.val(1 << channel));
}

pub(crate) fn disable_rx_fifo<M: Mmio + Clone>(
    shared: &Shared<M>,
    channel: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    reg!(shared.system, System, fct_rx_ctl).write(FCT_CTL::DISABLE.val(1 << channel));
    let enabled = FCT_CTL::ENABLE.val(1 << channel).value;
    let read = || reg!(shared.system, System, fct_rx_ctl).get();
    wait_for(Wait::FifoDisable, delay, INTERVAL_US, LIMIT_US, read, |ctl| ctl & enabled == 0).map(drop)
}
