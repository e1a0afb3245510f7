//! The interrupt translation service: from a device's event to an LPI.

use core::cell::RefCell;

use arrayvec::ArrayVec;
use embedded_hal::delay::DelayNs;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{Coherent, DmaBackend, DmaConstraints};
use tombolo_hal::irq::MsiMessage;
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Mmio, MmioNarrow};

use super::command::Command;
use super::redistributor::{Distributor, Redistributor, wait};
use super::registers::*;
use super::{FIRST_LPI, LPIS};
use crate::dma::DmaError;
use crate::irq::{Blocks, IrqError, MessageBlock, MessageController};
use crate::pci::Bdf;

/// Interrupt IDs of 14 bits: 8192 LPIs, the least that there can be.
const ID_BITS: u32 = 14;
/// Bytes of the command queue: 128 commands.
const QUEUE: usize = 4096;
const COMMAND: usize = 32;
/// Devices with interrupts.
const DEVICES: usize = 32;
/// Events of a device, and how many bits number them.
const EVENTS: u16 = 1 << EVENT_BITS;
const EVENT_BITS: u8 = 5;
/// All LPIs go to the one CPU.
const COLLECTION: u16 = 0;
/// Enabled, middle priority, and the bit that is always one.
const LPI_ENABLED: u8 = 0xa0 | 1 << 1 | 1;
const LPI_DISABLED: u8 = 0xa0 | 1 << 1;
/// Looks at the command queue; each takes at least a device access.
const QUEUE_LOOKS: u32 = if cfg!(miri) { 1_000 } else { 1_000_000 };

/// Tables in memory that the GIC reads, and that must stay.
#[derive(Debug)]
pub struct ItsMemory<B: DmaBackend> {
    properties: Coherent<B>,
    /// The GIC's own from now on.
    _pending: Coherent<B>,
    queue: Coherent<B>,
    _tables: ArrayVec<Coherent<B>, 2>,
}

struct Device<B: DmaBackend> {
    id: u32,
    /// Which of its events are in use.
    events: Blocks<{ EVENTS as usize }>,
    /// Read and written by the ITS.
    _table: Coherent<B>,
}

/// An ITS whose LPIs all go to this CPU.
///
/// A device's messages arrive with its requester ID. Where some arrive with another one, as behind bridges to
/// conventional PCI, or in QEMU the messages that a `vfio-user-pci` device writes as memory writes of its own
/// (they carry requester ID 0), name that one
/// with [`set_alias`](MessageController::set_alias): both are translated then.
pub struct Its<M, B: DmaBackend, L> {
    io: M,
    translater: u64,
    entry_size: u64,
    target: u64,
    backend: B,
    lock: L,
    state: RefCell<State<B>>,
}

struct State<B: DmaBackend> {
    memory: ItsMemory<B>,
    /// Where the next command goes.
    write: usize,
    devices: ArrayVec<Device<B>, DEVICES>,
    lpis: Blocks<LPIS>,
    /// Which function has which events, and under which IDs.
    blocks: ArrayVec<(Bdf, MessageBlock, ArrayVec<u32, 2>), DEVICES>,
    alias: Option<u16>,
}

// SAFETY: `state` is only used inside `lock`.
unsafe impl<M: Mmio, B: DmaBackend, L: RawLock> Sync for Its<M, B, L> {}

impl<M, B, L> Its<M, B, L>
where
    M: Mmio + Clone,
    B: DmaBackend<Error = DmaError>,
    L: RawLock,
{
    /// Brings up the LPIs of `redistributor` and the ITS behind `io`, which is at bus address `address`.
    ///
    /// # Errors
    /// [`IrqError::Controller`], [`IrqError::Memory`].
    pub fn start(
        (io, address): (M, u64),
        distributor: &Distributor<M>,
        redistributor: &Redistributor<M>,
        backend: B,
        lock: L,
        delay: &mut impl DelayNs,
    ) -> Result<Self, IrqError> {
        let kind = read64(&io, GITS_TYPER);
        if kind & 1 == 0 {
            return Err(IrqError::Controller("the ITS knows no physical LPIs"));
        }
        if distributor.id_bits() < ID_BITS {
            return Err(IrqError::Controller("the GIC's interrupt IDs are too short for LPIs"));
        }
        io.write32(GITS_CTLR, io.read32(GITS_CTLR) & !GITS_CTLR_ENABLED);
        wait(delay, "the ITS does not come to rest", || io.read32(GITS_CTLR) & GITS_CTLR_QUIESCENT != 0)?;
        let memory = ItsMemory::new(&io, &backend, kind)?;
        redistributor.start_lpis(&memory.properties, &memory._pending, ID_BITS)?;
        let queue = memory.queue.device_address().value() | BASER_CACHED | VALID;
        io.write64_relaxed(GITS_CBASER, queue | (QUEUE / 4096 - 1) as u64);
        io.write64_relaxed(GITS_CWRITER, 0);
        io.write32(GITS_CTLR, GITS_CTLR_ENABLED);
        let its = Self {
            translater: address + GITS_TRANSLATER,
            entry_size: bits(kind, 7, 4) + 1,
            target: redistributor.target(kind >> 19 & 1 != 0),
            state: RefCell::new(State {
                memory,
                write: 0,
                devices: ArrayVec::new(),
                lpis: Blocks::new(),
                blocks: ArrayVec::new(),
                alias: None,
            }),
            io,
            backend,
            lock,
        };
        its.with_state(|state| {
            its.send(state, Command::MapCollection { collection: COLLECTION, target: its.target })?;
            its.send(state, Command::InvalidateAll { collection: COLLECTION })?;
            its.send(state, Command::Sync { target: its.target })
        })?;
        Ok(its)
    }

    fn with_state<R>(&self, work: impl FnOnce(&mut State<B>) -> R) -> R {
        self.lock.with(|| work(&mut self.state.borrow_mut()))
    }

    /// Hands a command to the ITS and waits until it is done.
    fn send(&self, state: &mut State<B>, command: Command) -> Result<(), IrqError> {
        let queue = &state.memory.queue;
        for (word, value) in command.words().into_iter().enumerate() {
            queue.write64_relaxed(state.write + 8 * word, value);
        }
        state.write = (state.write + COMMAND) % QUEUE;
        queue.barrier(Barrier::Wmb);
        self.io.write64_relaxed(GITS_CWRITER, state.write as u64);
        for _ in 0..QUEUE_LOOKS {
            let read = self.io.read32(GITS_CREADR);
            if read & GITS_CREADR_STALLED != 0 {
                return Err(IrqError::Controller("the ITS refuses a command"));
            }
            if read as usize == state.write {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        Err(IrqError::Controller("the ITS does not take commands"))
    }

    /// The place of a device in the table of those that the ITS knows.
    fn device(&self, state: &mut State<B>, id: u32) -> Result<usize, IrqError> {
        if let Some(index) = state.devices.iter().position(|device| device.id == id) {
            return Ok(index);
        }
        if state.devices.is_full() {
            return Err(IrqError::Controller("there is no room for another device"));
        }
        let size = usize::from(EVENTS) * self.entry_size as usize;
        let table = Coherent::new(self.backend.clone(), size, &DmaConstraints::any().aligned(256))?;
        let address = table.device_address().value();
        self.send(state, Command::MapDevice { device: id, event_bits: EVENT_BITS, table: Some(address) })?;
        state.devices.push(Device { id, events: Blocks::new(), _table: table });
        Ok(state.devices.len() - 1)
    }

    /// `count` events in a row that are free for all of `ids`.
    fn take_events(&self, state: &mut State<B>, ids: &[u32], count: u16) -> Result<u32, IrqError> {
        // What is not free for the alias is not free.
        let mut free = Blocks::<{ EVENTS as usize }>::new();
        for id in ids {
            let index = self.device(state, *id)?;
            if let Some(device) = state.devices.get(index) {
                free.merge(&device.events);
            }
        }
        let first = free.take(count)?;
        for device in state.devices.iter_mut().filter(|device| ids.contains(&device.id)) {
            device.events.mark(first, count);
        }
        Ok(first)
    }

    fn map(&self, state: &mut State<B>, ids: &[u32], event: u32, lpi: u32) -> Result<(), IrqError> {
        state.memory.properties.write8(lpi as usize, LPI_ENABLED);
        state.memory.properties.barrier(Barrier::Wmb);
        for device in ids.iter().copied() {
            let lpi = FIRST_LPI + lpi;
            self.send(state, Command::MapEvent { device, event, lpi, collection: COLLECTION })?;
            self.send(state, Command::Invalidate { device, event })?;
        }
        self.send(state, Command::Sync { target: self.target })
    }

    fn allocate_in(&self, state: &mut State<B>, at: Bdf, count: u16) -> Result<MessageBlock, IrqError> {
        if state.blocks.iter().any(|(owner, ..)| *owner == at) {
            return Err(IrqError::InUse(at));
        }
        if state.blocks.is_full() {
            return Err(IrqError::Controller("there is no room for another function"));
        }
        let ids = device_ids(at, state.alias);
        let event = self.take_events(state, &ids, count)?;
        let first = state.lpis.take(count)?;
        for n in 0..u32::from(count) {
            self.map(state, &ids, event + n, first + n)?;
        }
        let block =
            MessageBlock { first, count, message: MsiMessage { address: self.translater, data: event } };
        state.blocks.push((at, block, ids));
        Ok(block)
    }

    fn release_in(&self, state: &mut State<B>, at: Bdf, block: MessageBlock) -> Result<(), IrqError> {
        let owned = state.blocks.iter().position(|(owner, its, _)| (*owner, *its) == (at, block));
        let Some(owned) = owned else { return Ok(()) };
        let ids = state.blocks.swap_remove(owned).2;
        for n in 0..u32::from(block.count) {
            state.memory.properties.write8((block.first + n) as usize, LPI_DISABLED);
            for device in ids.iter().copied() {
                self.send(state, Command::Discard { device, event: block.message.data + n })?;
            }
        }
        self.send(state, Command::Sync { target: self.target })?;
        for device in state.devices.iter_mut().filter(|device| ids.contains(&device.id)) {
            device.events.give_back(block.message.data, block.count);
        }
        state.lpis.give_back(block.first, block.count);
        Ok(())
    }
}

/// The IDs with which the messages of a function arrive.
fn device_ids(at: Bdf, alias: Option<u16>) -> ArrayVec<u32, 2> {
    let own = at.requester_id();
    let other = alias.filter(|alias| *alias != own);
    [Some(own), other].into_iter().flatten().map(u32::from).collect()
}

impl<M, B, L> MessageController for Its<M, B, L>
where
    M: Mmio + Clone,
    B: DmaBackend<Error = DmaError>,
    L: RawLock,
{
    fn allocate(&self, requester: Bdf, count: u16) -> Result<MessageBlock, IrqError> {
        self.with_state(|state| self.allocate_in(state, requester, count.min(EVENTS)))
    }

    fn release(&self, requester: Bdf, block: MessageBlock) {
        // An ITS that does not obey keeps the events and LPIs: they are not given out again.
        let _ = self.with_state(|state| self.release_in(state, requester, block));
    }

    fn set_alias(&self, requester: Option<u16>) {
        self.with_state(|state| state.alias = requester);
    }
}

impl<B: DmaBackend<Error = DmaError>> ItsMemory<B> {
    fn new<M: Mmio>(io: &M, backend: &B, kind: u64) -> Result<Self, IrqError> {
        let new =
            |size: usize, align| Coherent::new(backend.clone(), size, &DmaConstraints::any().aligned(align));
        let properties = new((1 << ID_BITS) - FIRST_LPI as usize, 4096)?;
        for lpi in 0..properties.size() {
            properties.write8(lpi, LPI_DISABLED);
        }
        let device_bits = bits(kind, 17, 13) as u32 + 1;
        let mut tables = ArrayVec::new();
        for index in 0..GITS_BASERS {
            let offset = GITS_BASER + 8 * index;
            let entries = match bits(read64(io, offset), 58, 56) {
                // Requester IDs have 16 bits.
                TABLE_DEVICES => 1u64 << device_bits.min(16),
                TABLE_COLLECTIONS => 1,
                _ => continue,
            };
            tables.try_push(table(io, offset, entries, &new)?).map_err(|_| MANY_TABLES)?;
        }
        Ok(Self {
            properties,
            _pending: new((1 << ID_BITS) / 8, 0x1_0000)?,
            queue: new(QUEUE, 0x1_0000)?,
            _tables: tables,
        })
    }
}

const MANY_TABLES: IrqError = IrqError::Controller("the ITS asks for more tables than it can need");

/// Gives the ITS a flat table of `entries` entries, with the largest pages that it takes.
fn table<M: Mmio, B: DmaBackend<Error = DmaError>>(
    io: &M,
    offset: usize,
    entries: u64,
    new: &impl Fn(usize, u64) -> Result<Coherent<B>, DmaError>,
) -> Result<Coherent<B>, IrqError> {
    let shape = read64(io, offset);
    let entry = bits(shape, 52, 48) + 1;
    for (code, page) in [(2u64, 0x1_0000u64), (1, 0x4000), (0, 0x1000)] {
        let pages = (entries * entry).div_ceil(page);
        if pages > 256 {
            break;
        }
        let kept = shape & (0x7 << 56 | 0x1f << 48);
        io.write64_relaxed(offset, kept | code << 8);
        if bits(read64(io, offset), 9, 8) != code {
            continue;
        }
        let memory = new((pages * page) as usize, page)?;
        let place = memory.device_address().value();
        if place >> 48 != 0 {
            return Err(IrqError::Controller("its tables lie above 256 TiB"));
        }
        io.write64_relaxed(offset, kept | VALID | BASER_CACHED | place | code << 8 | (pages - 1));
        if read64(io, offset) & VALID == 0 {
            return Err(IrqError::Controller("the ITS does not take a table"));
        }
        return Ok(memory);
    }
    Err(IrqError::Controller("the ITS asks for larger tables than a flat one can be"))
}

impl<M, B: DmaBackend, L> core::fmt::Debug for Its<M, B, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Its").field("translater", &self.translater).finish_non_exhaustive()
    }
}
