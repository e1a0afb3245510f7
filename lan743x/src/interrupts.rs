//! Which interrupt goes where.
//!
//! Source: Linux 7.3 `lan743x_main.c` (`lan743x_intr_open`, `lan743x_intr_test_isr`, `lan743x_intr_close`).

use embedded_hal::delay::DelayNs;
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};
use tombolo_hal::sync::Ordering;
use tombolo_hal::wait::poll_until;

use crate::error::Wait;
use crate::regs::interrupts::{INT, Interrupts, rx_bit, tx_bit};
use crate::shared::{QueueIrq, SharedRef, vector};
use crate::{Error, Nic};

/// How vectors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// None: everything is polled.
    Polling,
    /// One for everything: MSI, INTx, or too few of MSI-X.
    Shared,
    /// Vector 0 for PTP and the self-test, then one for each transmit channel, then one for each receive
    /// channel.
    PerQueue,
}

/// How long interrupts are held back, so that one serves several frames. Not in LAN743x A0.
///
/// The unit is not public. Linux writes 400 for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moderation {
    /// Of receive channels: 0 to 0xffff.
    pub rx: u16,
    /// Of transmit channels: 0 to 0xffff.
    pub tx: u16,
}

impl Default for Moderation {
    fn default() -> Self {
        Self { rx: 400, tx: 400 }
    }
}

/// Sources that have no channel.
fn others() -> u32 {
    (INT::SW_GP::SET + INT::PTP::SET).value
}

impl<S: SharedRef> Nic<S> {
    /// Shares out the vectors of `irq` and enables interrupts as such. To be called before rings are
    /// opened: they take their mode from it. The platform calls
    /// [`Shared::on_irq`](crate::Shared::on_irq) for each interrupt from now on.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for MSI with LAN743x A0.
    pub fn connect(&mut self, irq: &impl IrqSource, moderation: Moderation) -> Result<Vectors, Error> {
        let identity = self.identity();
        let (tx, rx) = (identity.chip.tx_channels(), identity.chip.rx_channels());
        let vectors = match irq.mode() {
            IrqMode::Polling => Vectors::Polling,
            IrqMode::Msi if !identity.has_msi() => return Err(Error::Unsupported("MSI")),
            IrqMode::MsiX if irq.vectors() > u16::from(tx + rx) => Vectors::PerQueue,
            _ => Vectors::Shared,
        };
        let shared = self.shared_ref().shared();
        reg!(shared.interrupts, Interrupts, en_clr).set(u32::MAX);
        reg!(shared.interrupts, Interrupts, vec_en_clr).set(u32::MAX);
        for index in 0..3 {
            if let Some(map) = reg!(shared.interrupts, Interrupts, vec_map[index]) {
                map.set(0);
            }
        }
        for number in 0..16 {
            shared.set_vector(number, vector::SHARED);
        }
        self.write_moderation(moderation);
        let queues = match vectors {
            Vectors::Polling => QueueIrq::Polled,
            Vectors::PerQueue if identity.has_auto_clear() => QueueIrq::Auto,
            _ => QueueIrq::Manual,
        };
        (0..tx).for_each(|channel| shared.set_queue_irq(false, channel, queues));
        (0..rx).for_each(|channel| shared.set_queue_irq(true, channel, queues));
        let all_queues = (0..tx).map(tx_bit).chain((0..rx).map(rx_bit)).fold(0, |all, bit| all | bit);
        let sources = match vectors {
            Vectors::Polling => 0,
            Vectors::Shared => others() | all_queues,
            Vectors::PerQueue => others(),
        };
        shared.shared_sources.store(sources, Ordering::Release);
        if vectors == Vectors::Polling {
            return Ok(vectors);
        }
        if irq.mode() != IrqMode::Intx {
            reg!(shared.interrupts, Interrupts, vec_en_set).set(1);
        }
        if vectors == Vectors::PerQueue {
            self.give_vectors(queues == QueueIrq::Auto, tx, rx);
        }
        reg!(shared.interrupts, Interrupts, en_set).write(INT::MAS::SET + INT::PTP::SET);
        Ok(vectors)
    }

    /// A vector for each queue: transmit channels first, as Linux has it.
    fn give_vectors(&self, auto: bool, tx: u8, rx: u8) {
        let shared = self.shared_ref().shared();
        let (mut tx_map, mut rx_map, mut auto_clear, mut enable) = (0, 0, 0, 0);
        let mut number = 1;
        let word = |bit| if auto { bit | vector::AUTO } else { bit };
        for channel in 0..tx {
            tx_map |= number << (channel * 4);
            shared.set_vector(number as u16, word(tx_bit(channel)));
            // A write of the tail enables it.
            enable |= if auto { 0 } else { 1 << number };
            number += 1;
        }
        for channel in 0..rx {
            rx_map |= number << (channel * 4);
            shared.set_vector(number as u16, word(rx_bit(channel)));
            auto_clear |= if auto { 1 << number } else { 0 };
            enable |= 1 << number;
            number += 1;
        }
        for (index, map) in [rx_map, tx_map].into_iter().enumerate() {
            if let Some(register) = reg!(shared.interrupts, Interrupts, vec_map[index]) {
                register.set(map);
            }
        }
        if auto {
            reg!(shared.interrupts, Interrupts, vec_en_auto_clr).set(auto_clear);
        }
        reg!(shared.interrupts, Interrupts, vec_en_set).set(enable);
    }

    /// Changes how long interrupts are held back. No effect on LAN743x A0, which must not.
    pub fn set_moderation(&mut self, moderation: Moderation) {
        self.write_moderation(moderation);
    }

    fn write_moderation(&self, moderation: Moderation) {
        let identity = self.identity();
        if identity.is_a0() {
            return;
        }
        let shared = self.shared_ref().shared();
        let (tx, rx) = (u32::from(identity.chip.tx_channels()), u32::from(identity.chip.rx_channels()));
        // Timers 0.. for transmit, the next ones for receive channels; none for the others.
        for timer in 0..tx + rx {
            let interval = if timer < tx { moderation.tx } else { moderation.rx };
            if let Some(register) = reg!(shared.interrupts, Interrupts, mod_cfg[timer as usize]) {
                register.set(interval.into());
            }
        }
        let map = |first: u32, count: u32| (0..count).fold(0, |map, n| map | (first + n) << (n * 4));
        let maps = [map(tx, rx), map(0, tx), 0x00ff_ffff];
        for (index, map) in maps.into_iter().enumerate() {
            if let Some(register) = reg!(shared.interrupts, Interrupts, mod_map[index]) {
                register.set(map);
            }
        }
    }

    /// Raises the software interrupt and waits for it: whether interrupts reach the driver at all.
    ///
    /// # Errors
    /// [`Error::Timeout`] after 200 ms.
    pub fn test_interrupt(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared_ref().shared();
        shared.tested.store(false, Ordering::Release);
        let polled = shared.shared_sources.load(Ordering::Acquire) == 0;
        if !polled {
            reg!(shared.interrupts, Interrupts, en_set).write(INT::SW_GP::SET);
        }
        reg!(shared.interrupts, Interrupts, set).write(INT::SW_GP::SET);
        let result = poll_until(delay, 100, 200_000, || {
            let came = if polled {
                reg!(shared.interrupts, Interrupts, sts).is_set(INT::SW_GP)
            } else {
                shared.tested.load(Ordering::Acquire)
            };
            came.then_some(())
        });
        reg!(shared.interrupts, Interrupts, en_clr).write(INT::SW_GP::SET);
        result.map_err(Error::timeout(Wait::TestInterrupt))
    }

    /// Ends all interrupts. Rings are closed before that.
    pub fn disconnect(&mut self) {
        let shared = self.shared_ref().shared();
        shared.shared_sources.store(0, Ordering::Release);
        reg!(shared.interrupts, Interrupts, en_clr).set(u32::MAX);
        reg!(shared.interrupts, Interrupts, vec_en_clr).set(u32::MAX);
    }
}
