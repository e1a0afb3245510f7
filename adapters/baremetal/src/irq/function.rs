//! Interrupts of one function.

use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::pci::{BAR_COUNT, BarInfo, ConfigSpace, MSIX_ENTRY_SIZE, MsiInfo, MsixInfo, command};

use super::{IrqError, IrqHandler, IrqTable};
use crate::pci::Bdf;

/// Interrupts in a row: number `first + n` comes when `message` with `n` added to its data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageBlock {
    /// The number of the first, as [`IrqTable`] counts them.
    pub first: u32,
    /// How many.
    pub count: u16,
    /// The message of the first. The low bits of its data, as many as `count` needs, are zero.
    pub message: MsiMessage,
}

/// An interrupt controller that takes messages.
pub trait MessageController {
    /// Gives `count` interrupts in a row to the function `requester`.
    ///
    /// # Errors
    /// [`IrqError`].
    fn allocate(&self, requester: Bdf, count: u16) -> Result<MessageBlock, IrqError>;

    /// Takes them back. The function does not send them any more.
    fn release(&self, requester: Bdf, block: MessageBlock);

    /// Also takes messages that arrive with this requester ID, for functions that are given interrupts from now
    /// on. Nothing to do for a controller that does not look at requester IDs.
    fn set_alias(&self, requester: Option<u16>) {
        let _ = requester;
    }
}

impl<C: MessageController + ?Sized> MessageController for &C {
    fn allocate(&self, requester: Bdf, count: u16) -> Result<MessageBlock, IrqError> {
        (**self).allocate(requester, count)
    }
    fn release(&self, requester: Bdf, block: MessageBlock) {
        (**self).release(requester, block);
    }
    fn set_alias(&self, requester: Option<u16>) {
        (**self).set_alias(requester);
    }
}

/// There is no controller that takes messages: everything is polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoController;

impl MessageController for NoController {
    fn allocate(&self, _: Bdf, _: u16) -> Result<MessageBlock, IrqError> {
        Err(IrqError::Controller("there is none that takes messages"))
    }
    fn release(&self, _: Bdf, _: MessageBlock) {}
}

/// Which kind of interrupt is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// MSI-X if the function has it, else MSI, else polling.
    #[default]
    Best,
    /// MSI-X or an error.
    MsiX,
    /// MSI or an error.
    Msi,
    /// None.
    Polling,
}

/// The interrupts of a function, and hal's `IrqSource` for its driver.
///
/// The function sends nothing before bus mastering is on. Messages never change: there is one CPU.
#[derive(Clone, Copy, Debug)]
pub struct FunctionInterrupts {
    requester: Bdf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    MsiX(MsixInfo, MessageBlock),
    Msi(MsiInfo, MessageBlock),
    Polling,
}

impl FunctionInterrupts {
    /// Gives the function `requester` up to `vectors` interrupts of `controller`.
    ///
    /// `map` gives access to a BAR with an address: the MSI-X table lies in one. Its memory must be enabled
    /// ([`command::set_memory_enabled`]).
    ///
    /// # Errors
    /// [`IrqError`]; nothing is enabled then.
    pub fn set_up<C: ConfigSpace, M: Mmio>(
        cfg: &C,
        requester: Bdf,
        bars: &[Option<BarInfo>; BAR_COUNT],
        map: impl FnOnce(&BarInfo) -> Option<M>,
        controller: &(impl MessageController + ?Sized),
        (wanted, vectors): (Wanted, u16),
    ) -> Result<Self, IrqError> {
        if vectors == 0 && wanted != Wanted::Polling {
            return Err(IrqError::NoVectors);
        }
        let msix = if matches!(wanted, Wanted::Best | Wanted::MsiX) { MsixInfo::read(cfg)? } else { None };
        let msi = if matches!(wanted, Wanted::Best | Wanted::Msi) { MsiInfo::read(cfg)? } else { None };
        let kind = match (wanted, msix, msi) {
            (Wanted::Polling, ..) | (Wanted::Best, None, None) => Kind::Polling,
            (_, Some(msix), _) => {
                msix.check_bars(bars)?;
                let table = table(&msix, bars, map)?;
                let block = controller.allocate(requester, vectors.min(msix.vectors))?;
                let done = start_msix(cfg, &msix, &table, &block);
                done.inspect_err(|_| controller.release(requester, block))?;
                Kind::MsiX(msix, block)
            }
            (_, None, Some(msi)) => {
                // A power of two, not more than was asked for.
                let count = (1 << (u16::BITS - 1 - vectors.leading_zeros())).min(msi.vectors);
                let block = controller.allocate(requester, count)?;
                let done = start_msi(cfg, &msi, &block);
                done.inspect_err(|_| controller.release(requester, block))?;
                Kind::Msi(msi, block)
            }
            (Wanted::MsiX, ..) => return Err(IrqError::Missing("MSI-X")),
            (Wanted::Msi, ..) => return Err(IrqError::Missing("MSI")),
        };
        Ok(Self { requester, kind })
    }

    fn block(&self) -> Option<&MessageBlock> {
        match &self.kind {
            Kind::MsiX(_, block) | Kind::Msi(_, block) => Some(block),
            Kind::Polling => None,
        }
    }

    /// The number of `vector` in the platform's [`IrqTable`].
    pub fn number(&self, vector: u16) -> Option<u32> {
        self.block().filter(|block| vector < block.count).map(|block| block.first + u32::from(vector))
    }

    /// Has `handler` called for `vector`.
    ///
    /// # Errors
    /// [`IrqError::NoSuchInterrupt`].
    pub fn connect<L: RawLock, const N: usize>(
        &self,
        table: &IrqTable<L, N>,
        vector: u16,
        handler: &'static dyn IrqHandler,
    ) -> Result<(), IrqError> {
        let limit = usize::from(self.vectors());
        let number = self.number(vector).ok_or(IrqError::NoSuchInterrupt { number: vector.into(), limit })?;
        table.set(number, Some(handler))
    }

    /// Switches the function's interrupts off, takes the handlers away and gives the interrupts back.
    ///
    /// # Errors
    /// [`IrqError::Pci`] if the function does not obey; handlers and interrupts stay then.
    pub fn tear_down<C: ConfigSpace, L: RawLock, const N: usize>(
        self,
        cfg: &C,
        table: &IrqTable<L, N>,
        controller: &(impl MessageController + ?Sized),
    ) -> Result<(), IrqError> {
        match &self.kind {
            Kind::MsiX(msix, _) => msix.set_enabled(cfg, false)?,
            Kind::Msi(msi, _) => msi.set_enabled(cfg, false)?,
            Kind::Polling => {}
        }
        for number in (0..self.vectors()).filter_map(|vector| self.number(vector)) {
            table.set(number, None)?;
        }
        if let Some(block) = self.block() {
            controller.release(self.requester, *block);
        }
        Ok(())
    }
}

impl IrqSource for FunctionInterrupts {
    fn mode(&self) -> IrqMode {
        match self.kind {
            Kind::MsiX(..) => IrqMode::MsiX,
            Kind::Msi(..) => IrqMode::Msi,
            Kind::Polling => IrqMode::Polling,
        }
    }

    fn vectors(&self) -> u16 {
        self.block().map_or(0, |block| block.count)
    }

    fn message(&self, vector: u16) -> Option<MsiMessage> {
        let block = self.block().filter(|block| vector < block.count)?;
        Some(block.message_of(vector))
    }

    fn message_epoch(&self) -> u32 {
        0
    }
}

impl MessageBlock {
    fn message_of(&self, vector: u16) -> MsiMessage {
        MsiMessage { address: self.message.address, data: self.message.data.wrapping_add(u32::from(vector)) }
    }
}

fn table<M: Mmio>(
    msix: &MsixInfo,
    bars: &[Option<BarInfo>; BAR_COUNT],
    map: impl FnOnce(&BarInfo) -> Option<M>,
) -> Result<Window<M>, IrqError> {
    let unreachable = IrqError::TableUnreachable { bar: msix.table_bar };
    let bar = bars.get(usize::from(msix.table_bar)).copied().flatten();
    let bar = bar.filter(|bar| bar.address != 0).ok_or(unreachable)?;
    let window = Window::new(map(&bar).ok_or(unreachable)?);
    window.sub(msix.table_offset as usize, msix.table_size() as usize).map_err(|_| unreachable)
}

/// Masked as a whole while the table is written; entries that are not used stay masked.
fn start_msix<C: ConfigSpace, M: Mmio>(
    cfg: &C,
    msix: &MsixInfo,
    table: &Window<M>,
    block: &MessageBlock,
) -> Result<(), IrqError> {
    const MASKED: u32 = 1;
    msix.set_masked(cfg, true)?;
    msix.set_enabled(cfg, true)?;
    for vector in 0..msix.vectors {
        let at = usize::from(vector) * MSIX_ENTRY_SIZE as usize;
        if vector >= block.count {
            table.write32(at + 12, MASKED);
            continue;
        }
        let message = block.message_of(vector);
        table.write64_lo_hi(at, message.address);
        table.write32(at + 8, message.data);
        table.write32(at + 12, 0);
        let low = table.read32(at);
        if low != message.address as u32 || table.read32(at + 8) != message.data {
            // Whatever it is that took the messages, it is not to send any.
            msix.set_enabled(cfg, false)?;
            return Err(IrqError::TableRefused { vector });
        }
    }
    // A function without a pin may keep the bit; with MSI-X on it sends no INTx anyway.
    let _ = command::set_intx_disabled(cfg, true);
    Ok(msix.set_masked(cfg, false)?)
}

fn start_msi<C: ConfigSpace>(cfg: &C, msi: &MsiInfo, block: &MessageBlock) -> Result<(), IrqError> {
    msi.program(cfg, block.message, block.count)?;
    // As for MSI-X.
    let _ = command::set_intx_disabled(cfg, true);
    Ok(msi.set_enabled(cfg, true)?)
}
