//! Interrupt vectors as an operating system gives them to a driver.

use crate::device::Width;
use crate::fabric::{Function, Handler, Message, State};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};

/// Message Control of MSI: enable, log2 of the vectors in bits 6:4.
const MSI_ENABLE: u32 = 1;
const MSI_QSIZE_SHIFT: u32 = 4;
/// Message Control of MSI-X.
const MSIX_ENABLE: u32 = 1 << 15;
const COMMAND: u16 = 0x04;
const COMMAND_INTX_DISABLE: u32 = 1 << 10;

/// The vectors of one function; clones are the same vectors, the last one gives them back.
///
/// Programming the function costs no time and is not counted, because it is the platform's work and
/// not the driver's.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use tombolo_hal::irq::IrqSource;
/// use tombolo_sim::fabric::Function;
/// use tombolo_sim::host::SimIrq;
///
/// fn listen(function: &Function) -> SimIrq {
///     let irq = SimIrq::allocate(function, 4);
///     for vector in 0..irq.vectors() {
///         irq.connect(vector, Arc::new(|vector| println!("vector {vector} fired")));
///     }
///     irq
/// }
/// ```
#[derive(Clone)]
pub struct SimIrq {
    inner: Arc<Inner>,
}

struct Inner {
    function: Function,
    mode: IrqMode,
    /// For MSI-X one message a vector, for MSI the message of vector 0.
    messages: Mutex<Vec<Message>>,
    vectors: u16,
    epoch: AtomicU32,
    listener: Mutex<Option<Handler>>,
}

impl SimIrq {
    /// Up to `want` vectors: of MSI-X, else of MSI, else the pin, else polling. A function whose
    /// vectors are taken has none until the last clone of their source is dropped.
    pub fn allocate(function: &Function, want: u16) -> Self {
        let modes = [IrqMode::MsiX, IrqMode::Msi, IrqMode::Intx];
        let found = modes.iter().find_map(|mode| Self::allocate_mode(function, *mode, want));
        found.unwrap_or_else(|| Self::new(function, IrqMode::Polling, Vec::new(), 0))
    }

    /// Up to `want` vectors of just this mode; `None` if the function or the machine has none.
    pub fn allocate_mode(function: &Function, mode: IrqMode, want: u16) -> Option<Self> {
        let id = function.id();
        let mut state = function.fabric().lock();
        if mode != IrqMode::Polling && state.functions[id].vectors_taken {
            return None;
        }
        let (messages, vectors) = match mode {
            IrqMode::MsiX => state.enable_msix(id, want)?,
            IrqMode::Msi => state.enable_msi(id, want)?,
            IrqMode::Intx if want > 0 && state.functions[id].config.has_intx() => {
                state.set_intx_disabled(id, false);
                (Vec::new(), 1)
            }
            IrqMode::Intx => return None,
            IrqMode::Polling => (Vec::new(), 0),
        };
        state.functions[id].vectors_taken |= vectors > 0;
        drop(state);
        Some(Self::new(function, mode, messages, vectors))
    }

    fn new(function: &Function, mode: IrqMode, messages: Vec<Message>, vectors: u16) -> Self {
        let inner = Inner {
            function: function.clone(),
            mode,
            messages: Mutex::new(messages),
            vectors,
            epoch: AtomicU32::new(0),
            listener: Mutex::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Calls `handler` whenever `vector` fires. A later handler replaces an earlier one. A handler
    /// that owns a clone of this source keeps it alive for ever; give it what it needs, not this.
    pub fn connect(&self, vector: u16, handler: Handler) {
        let function = &self.inner.function;
        let old = function.fabric().lock().delivery.connect((function.id(), vector), handler);
        drop(old);
    }

    /// Calls `listener` with the vector after its message has changed.
    pub fn on_message_change(&self, listener: Handler) {
        let old = lock(&self.inner.listener).replace(listener);
        drop(old);
    }

    /// Moves `vector` to another CPU, as a change of affinity does where interrupts are not
    /// remapped: its message changes, and whoever still sends the old one is not heard. With MSI all
    /// vectors move. False if nothing was moved: no messages, no such vector, no room.
    pub fn set_affinity(&self, vector: u16, cpu: u8) -> bool {
        let inner = &self.inner;
        let mut messages = lock(&inner.messages);
        let (slot, first, count) = match inner.mode {
            IrqMode::MsiX => (usize::from(vector), vector, 1),
            _ => (0, 0, inner.vectors.next_power_of_two()),
        };
        let Some(old) = messages.get(slot).copied().filter(|_| vector < inner.vectors) else {
            return false;
        };
        let id = inner.function.id();
        let mut state = inner.function.fabric().lock();
        let machine = state.functions[id].machine;
        let controller = &mut state.machines[machine].controller;
        let Some(new) = controller.allocate(id, first, count, cpu) else { return false };
        controller.release(old, count);
        match inner.mode {
            IrqMode::MsiX => state.move_msix(id, vector, new),
            _ => state.write_msi(id, new),
        }
        messages[slot] = new;
        drop((state, messages));
        inner.epoch.fetch_add(1, Ordering::Release);
        let listener = lock(&inner.listener).clone();
        if let Some(listener) = listener {
            (first..first + count.min(inner.vectors)).for_each(|vector| listener(vector));
        }
        true
    }

    /// Masks or unmasks `vector` where the hardware can: MSI-X, MSI with per-vector masks, the pin.
    /// What came while it was masked is delivered afterwards.
    pub fn set_masked(&self, vector: u16, masked: bool) {
        let (id, mode) = (self.inner.function.id(), self.inner.mode);
        self.inner.function.fabric().access(|state| match mode {
            IrqMode::MsiX => state.mask_msix(id, vector, masked),
            IrqMode::Msi => state.mask_msi(id, vector, masked),
            IrqMode::Intx => state.set_intx_disabled(id, masked),
            IrqMode::Polling => {}
        });
    }

    /// Programs the function again, as an operating system does after a reset.
    pub fn restore(&self) {
        let messages = lock(&self.inner.messages);
        let id = self.inner.function.id();
        let mut state = self.inner.function.fabric().lock();
        match self.inner.mode {
            IrqMode::MsiX => state.program_msix(id, &messages),
            IrqMode::Msi => messages.iter().for_each(|message| {
                state.program_msi(id, *message, self.inner.vectors.trailing_zeros());
            }),
            IrqMode::Intx | IrqMode::Polling => {}
        }
    }
}

impl IrqSource for SimIrq {
    fn mode(&self) -> IrqMode {
        self.inner.mode
    }

    fn vectors(&self) -> u16 {
        self.inner.vectors
    }

    fn message(&self, vector: u16) -> Option<MsiMessage> {
        let inner = &self.inner;
        let messages = lock(&inner.messages);
        if vector >= inner.vectors {
            return None;
        }
        match inner.mode {
            IrqMode::MsiX => {
                let (address, data) = *messages.get(usize::from(vector))?;
                Some(MsiMessage { address, data })
            }
            IrqMode::Msi => {
                let (address, data) = *messages.first()?;
                Some(MsiMessage { address, data: data | u32::from(vector) })
            }
            IrqMode::Intx | IrqMode::Polling => None,
        }
    }

    fn message_epoch(&self) -> u32 {
        self.inner.epoch.load(Ordering::Acquire)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.vectors == 0 {
            return;
        }
        let id = self.function.id();
        let messages = std::mem::take(&mut *lock(&self.messages));
        let mut state = self.function.fabric().lock();
        let count = if self.mode == IrqMode::Msi { self.vectors } else { 1 };
        let machine = state.functions[id].machine;
        for message in messages {
            state.machines[machine].controller.release(message, count);
        }
        match self.mode {
            IrqMode::MsiX => state.write_control(id, true, 0),
            IrqMode::Msi => state.write_control(id, false, 0),
            IrqMode::Intx => state.set_intx_disabled(id, true),
            IrqMode::Polling => {}
        }
        state.functions[id].vectors_taken = false;
        let handlers = state.delivery.disconnect(id);
        // Their drop may come back here; the lock must be free.
        drop(state);
        drop(handlers);
    }
}

impl std::fmt::Debug for SimIrq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimIrq")
            .field("mode", &self.inner.mode)
            .field("vectors", &self.inner.vectors)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an operating system does to a function's interrupt capabilities.
impl State {
    fn enable_msix(&mut self, id: usize, want: u16) -> Option<(Vec<Message>, u16)> {
        let function = &self.functions[id];
        let vectors = want.min(function.config.msix_capability()?.1.vectors);
        let machine = function.machine;
        let controller = &mut self.machines[machine].controller;
        let mut messages = Vec::new();
        for vector in 0..vectors {
            let cpu = vector % u16::from(controller.cpus());
            match controller.allocate(id, vector, 1, cpu as u8) {
                Some(message) => messages.push(message),
                None => break,
            }
        }
        if messages.is_empty() {
            return None;
        }
        self.program_msix(id, &messages);
        let vectors = messages.len() as u16;
        Some((messages, vectors))
    }

    fn program_msix(&mut self, id: usize, messages: &[Message]) {
        for (vector, (address, data)) in messages.iter().enumerate() {
            self.functions[id].msix.program(vector as u16, *address, *data, false);
        }
        self.set_intx_disabled(id, true);
        self.write_control(id, true, MSIX_ENABLE);
    }

    fn move_msix(&mut self, id: usize, vector: u16, (address, data): Message) {
        let table = &mut self.functions[id].msix;
        let masked = table.vector(vector).is_none_or(|(_, _, masked)| masked);
        table.program(vector, address, data, masked);
    }

    fn mask_msix(&mut self, id: usize, vector: u16, masked: bool) {
        let table = &mut self.functions[id].msix;
        if let Some((address, data, _)) = table.vector(vector) {
            table.program(vector, address, data, masked);
            self.send_unmasked(id);
        }
    }

    fn enable_msi(&mut self, id: usize, want: u16) -> Option<(Vec<Message>, u16)> {
        let function = &self.functions[id];
        let most = want.min(u16::from(function.config.msi_capability()?.1.vectors));
        let machine = function.machine;
        let controller = &mut self.machines[machine].controller;
        // Halves the block until it fits.
        let sizes = (0..=5).rev().map(|log2| 1_u16 << log2).filter(|size| *size <= most);
        let found = { sizes }.find_map(|size| Some((controller.allocate(id, 0, size, 0)?, size)));
        let (message, vectors) = found?;
        self.program_msi(id, message, vectors.trailing_zeros());
        Some((vec![message], vectors))
    }

    fn program_msi(&mut self, id: usize, message: Message, log2: u32) {
        self.write_msi(id, message);
        self.set_intx_disabled(id, true);
        self.write_control(id, false, MSI_ENABLE | log2 << MSI_QSIZE_SHIFT);
    }

    fn write_msi(&mut self, id: usize, (address, data): Message) {
        let Some((offset, _)) = self.functions[id].config.msi_capability() else { return };
        for (register, value) in [(4, address as u32), (8, (address >> 32) as u32), (12, data)] {
            self.apply_config(id, offset + register, Width::W32, value);
        }
    }

    fn mask_msi(&mut self, id: usize, vector: u16, masked: bool) {
        let config = &self.functions[id].config;
        let Some((offset, msi)) = config.msi_capability().filter(|msi| msi.1.per_vector_mask) else {
            return;
        };
        if vector < u16::from(msi.vectors) {
            let old = config.read(offset + 16, Width::W32);
            let new = if masked { old | 1 << vector } else { old & !(1 << vector) };
            self.apply_config(id, offset + 16, Width::W32, new);
        }
    }

    fn write_control(&mut self, id: usize, is_msix: bool, control: u32) {
        let config = &self.functions[id].config;
        let msix = config.msix_capability().map(|(offset, _)| offset);
        let offset = if is_msix { msix } else { config.msi_capability().map(|(offset, _)| offset) };
        if let Some(offset) = offset {
            self.apply_config(id, offset + 2, Width::W16, control);
        }
    }

    fn set_intx_disabled(&mut self, id: usize, disabled: bool) {
        let command = self.functions[id].config.read(COMMAND, Width::W16) & !COMMAND_INTX_DISABLE;
        let bit = if disabled { COMMAND_INTX_DISABLE } else { 0 };
        self.apply_config(id, COMMAND, Width::W16, command | bit);
    }
}
