//! Interrupts as the shim keeps them, and how a message changes under an engine that sends it.
//!
//! A message is several registers, and an engine that sends one in between sends a mixture: to a vector
//! that nobody handles, or to the wrong CPU. So the engine first gets another address, a *sink* in
//! memory that nobody reads, then the new data, and the new address last. What it sent to the sink is
//! made up for, since every channel looks at the hardware afterwards. Only the low half of the address
//! changes on the way, or there would be a mixture all the same.

use core::ptr::NonNull;

use tombolo_hal::DmaAddr;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};

use crate::abi::{IRQ_MSI, IRQ_MSIX, MAX_VECTORS, Message, Vectors};

/// The vectors of a function: the messages that the kernel has given them, and those that the engine
/// is to send.
#[derive(Debug)]
pub struct KernelIrq {
    kernel: NonNull<Vectors>,
    sink: Option<DmaAddr>,
    engine: [Message; MAX_VECTORS],
    epoch: u32,
    held: bool,
}

// SAFETY: the shim changes the vectors only under the lock under which it calls us, see `new`.
unsafe impl Send for KernelIrq {}

impl KernelIrq {
    /// The vectors at `vectors`, and a place in DMA memory for messages that nobody wants.
    ///
    /// # Safety
    /// They are there for as long as this value exists, and nobody changes them while a method of
    /// this value runs.
    pub unsafe fn new(vectors: NonNull<Vectors>, sink: Option<DmaAddr>) -> Self {
        let engine = [Message::default(); MAX_VECTORS];
        let mut this = Self { kernel: vectors, sink, engine, epoch: 0, held: false };
        this.take_all();
        this
    }

    fn kernel(&self) -> &Vectors {
        // SAFETY: `new` promised that they are there and do not change now; the reference lives no
        // longer than the method that asked for it.
        unsafe { self.kernel.as_ref() }
    }

    /// The kernel's messages are the engine's now.
    pub fn take_all(&mut self) {
        self.engine = self.kernel().messages;
        self.epoch = self.epoch.wrapping_add(1);
        self.held = false;
    }

    /// Whether the kernel has given out other messages than the engine sends.
    pub fn has_changed(&self) -> bool {
        let count = usize::from(self.vectors());
        self.held || self.kernel().messages.iter().zip(&self.engine).take(count).any(|(a, b)| a != b)
    }

    /// Points the engine's messages to the sink, data unchanged. False if there is none, or if it is
    /// too far away.
    pub fn hold(&mut self) -> bool {
        let Some(sink) = self.sink.map(DmaAddr::value) else { return false };
        let far = |message: &Message| message.address >> 32 != sink >> 32;
        let count = usize::from(self.vectors());
        if self.engine.iter().chain(&self.kernel().messages[..count]).any(|m| m.address != 0 && far(m)) {
            return false;
        }
        for message in self.engine.iter_mut().take(count) {
            message.address = sink;
        }
        (self.held, self.epoch) = (true, self.epoch.wrapping_add(1));
        true
    }

    /// Whether the engine's messages go to the sink.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Gives the engine's messages, which go to the sink, the kernel's data.
    pub fn take_data(&mut self) {
        let kernel = self.kernel().messages;
        for (message, new) in self.engine.iter_mut().zip(&kernel) {
            message.data = new.data;
        }
        self.epoch = self.epoch.wrapping_add(1);
    }
}

impl IrqSource for KernelIrq {
    fn mode(&self) -> IrqMode {
        match self.kernel().mode {
            IRQ_MSI => IrqMode::Msi,
            IRQ_MSIX => IrqMode::MsiX,
            _ => IrqMode::Polling,
        }
    }

    fn vectors(&self) -> u16 {
        match self.mode() {
            IrqMode::Polling => 0,
            _ => self.kernel().count.min(MAX_VECTORS as u32) as u16,
        }
    }

    fn message(&self, vector: u16) -> Option<MsiMessage> {
        if vector >= self.vectors() {
            return None;
        }
        let message = self.engine.get(usize::from(vector))?;
        // The kernel writes a message of zeros when it takes the vector away.
        (message.address != 0).then_some(MsiMessage { address: message.address, data: message.data })
    }

    fn message_epoch(&self) -> u32 {
        self.epoch
    }
}
