//! An engine that is nothing but memory, for measuring the driver and nothing else.
//!
//! Registers are words that keep what is written, behind the backend for real mappings. The caller
//! plays the engine: [`PlainEngine::move_elements`] puts the list pointer where an engine would have
//! it and leaves a status for the interrupt handler. That is three stores, whatever was moved.
#![allow(dead_code)] // each target uses its own part

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use dw_edma::{
    Channel, ChannelId, Config, Controller, Desc, ELEMENT_SIZE, Format, Interrupts, ListMemory, Location,
    Peripheral, Segment, Shared, Vectors,
};
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::{
    Completion, Direction, DmaChannel, HeapPool, PeerWindow, PrepFlags, SgEntry, SlaveConfig,
};
use tombolo_hal::fake::HeapDma;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::{Caching, Mmio, RawMmio, Window};
use tombolo_hal::{DmaAddr, EngineAddr};

/// A channel of the engine, with its list in RAM.
pub type Chan<K> = Channel<Arc<Shared<RawMmio, K>>, Coherent<HeapDma>, HeapPool<Desc, Segment>>;

/// Room for one channel of each kind in every format.
const REGISTER_BYTES: usize = 0x1000;
/// Descriptors a channel can have.
const DESCRIPTORS: usize = 64;
/// Segments they share.
const SEGMENTS: usize = 1024;
/// Bytes a segment; nothing is moved, so any number does.
pub const SEGMENT_BYTES: u64 = 4096;

/// Where the registers are that the part of an engine is played with.
#[derive(Clone, Copy)]
struct Offsets {
    llp: usize,
    status: usize,
    /// Set in `status` when an element with an interrupt bit was moved.
    element_moved: u32,
    /// Set in `status` when a transfer from registers has ended.
    single_moved: u32,
    transfer_size: usize,
}

impl Offsets {
    /// Of write channel 0.
    fn of(format: Format) -> Self {
        use dw_edma::regs::{hdma, v0};
        use std::mem::offset_of;
        if format == Format::HdmaNative {
            return Self {
                llp: offset_of!(hdma::Channel, llp),
                status: offset_of!(hdma::Channel, int_status),
                element_moved: 1 << 1,
                single_moved: 1 << 0,
                transfer_size: offset_of!(hdma::Channel, transfer_size),
            };
        }
        let channel = if format == Format::Legacy { v0::VIEWPORT_WINDOW } else { v0::CHANNELS };
        Self {
            llp: channel + offset_of!(v0::Channel, llp),
            status: offset_of!(v0::Globals, wr_int_status),
            element_moved: 1,
            single_moved: 1,
            transfer_size: channel + offset_of!(v0::Channel, transfer_size),
        }
    }
}

/// The one interrupt of an engine beside the CPU.
struct OneVector;

impl IrqSource for OneVector {
    fn mode(&self) -> IrqMode {
        IrqMode::MsiX
    }
    fn vectors(&self) -> u16 {
        1
    }
    fn message(&self, _vector: u16) -> Option<MsiMessage> {
        None
    }
    fn message_epoch(&self) -> u32 {
        0
    }
}

/// Memory in place of an engine, and the driver's handles that no transfer needs.
pub struct PlainEngine<K: RawLock> {
    pub shared: Arc<Shared<RawMmio, K>>,
    control: Controller<Arc<Shared<RawMmio, K>>>,
    registers: RawMmio,
    at: Offsets,
    /// Address of the list, low half.
    list: u32,
    slots: u32,
    /// The element that would be moved next.
    slot: u32,
    /// How many were moved so far.
    moved: u64,
}

impl<K: RawLock> PlainEngine<K> {
    /// An engine of `format` beside the CPU, and its write channel 0 with a list for `elements`
    /// data elements.
    pub fn open(format: Format, lock: K, elements: usize) -> (Self, Chan<K>) {
        let words: &'static [AtomicU64] =
            Box::leak((0..REGISTER_BYTES / 8).map(|_| AtomicU64::new(0)).collect());
        // SAFETY: the words are aligned to 8, live as long as the process and are accessed through
        // this backend only.
        let registers =
            unsafe { RawMmio::new(NonNull::from(words).cast(), REGISTER_BYTES, Caching::Uncached) };
        // One write and one read channel.
        registers.write32(std::mem::offset_of!(dw_edma::regs::v0::Globals, ctrl), 0x1_0001);
        let config = Config::new(format, Location::Local).channels(1, 1);
        let shared = Arc::new(Shared::new(Window::new(registers), lock, config).unwrap());
        let mut control = Controller::new(shared.clone()).unwrap();
        assert_eq!(control.connect(&OneVector, Vectors::One).unwrap(), Interrupts::Local);

        let bytes = (elements + 1) * ELEMENT_SIZE;
        let memory = Coherent::new(HeapDma::new(), bytes, &DmaConstraints::any().aligned(8)).unwrap();
        let list = memory.device_address().value() as u32;
        let list_memory = ListMemory::in_ram(memory).map_err(|e| e.error).unwrap();
        let channel = control
            .open_channel(ChannelId::write(0), list_memory, HeapPool::new(DESCRIPTORS, SEGMENTS))
            .unwrap();
        let (at, slots) = (Offsets::of(format), elements as u32);
        (Self { shared, control, registers, at, list, slots, slot: 0, moved: 0 }, channel)
    }

    /// How many list elements were moved so far.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// The engine moves `elements` list elements and says so.
    #[inline(always)]
    pub fn move_elements(&mut self, elements: u32) {
        self.moved += u64::from(elements);
        self.slot += elements;
        if self.slot >= self.slots {
            self.slot -= self.slots;
        }
        let position = self.list.wrapping_add(self.slot * ELEMENT_SIZE as u32);
        self.registers.write32_relaxed(self.at.llp, position);
        self.registers.write32_relaxed(self.at.status, self.at.element_moved);
    }

    /// The engine moves the segment in its registers and says so.
    pub fn move_single(&mut self) {
        self.registers.write32_relaxed(self.at.transfer_size, 0);
        self.registers.write32_relaxed(self.at.status, self.at.single_moved);
    }

    /// What the status register does when the driver writes to its clear register.
    #[inline(always)]
    pub fn clear_status(&mut self) {
        self.registers.write32_relaxed(self.at.status, 0);
    }

    /// The engine has moved `elements` elements, and its interrupt arrives.
    #[inline(always)]
    pub fn interrupt(&mut self, elements: u32) {
        self.move_elements(elements);
        assert!(self.shared.on_irq().handled);
        self.clear_status();
    }

    /// As [`interrupt`](Self::interrupt), for the segment in the registers.
    pub fn interrupt_single(&mut self) {
        self.move_single();
        assert!(self.shared.on_irq().handled);
        self.clear_status();
    }
}

/// `count` segments of a transfer. No engine ever follows their addresses.
pub fn segments(count: usize) -> Vec<SgEntry> {
    // SAFETY: nothing reads or writes there: the engine is memory that keeps what is written.
    let window = unsafe { PeerWindow::new(DmaAddr::new(1 << 40), SEGMENT_BYTES * count as u64 * 2) };
    (0..count as u64).map(|i| window.entry(i * 2 * SEGMENT_BYTES, SEGMENT_BYTES).unwrap()).collect()
}

/// The device side of every transfer.
pub fn config() -> SlaveConfig<Peripheral> {
    SlaveConfig::at(EngineAddr::new(0x8000_0000))
}

/// What is measured: one transfer from prep to completion.
#[inline(always)]
pub fn transfer<K: RawLock>(
    engine: &mut PlainEngine<K>,
    channel: &mut Chan<K>,
    sg: &[SgEntry],
    config: &SlaveConfig<Peripheral>,
) -> Completion {
    let descriptor =
        channel.prep_slave_sg_config(sg, Direction::MemToDev, PrepFlags::INTERRUPT, Some(config)).unwrap();
    channel.submit(descriptor).unwrap();
    channel.issue_pending();
    engine.interrupt(sg.len() as u32);
    channel.pop_completed().unwrap()
}
