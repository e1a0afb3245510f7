//! An engine in the kernel: the portable driver's shared state and its control handle.

use core::ops::Deref;
use core::ptr::NonNull;

use alloc::boxed::Box;

use tombolo_hal::dma::{Coherent, DmaConstraints};

use dw_edma::{Config, Controller, Error, Format, Interrupts, Location, Shared, Vectors};
use tombolo_hal::irq::IrqSource;
use tombolo_hal::mmio::{Caching, RawMmio, Window};

use crate::abi;
use crate::dma::{DmaError, KernelDma};
use crate::irq::KernelIrq;
use crate::lock::KernelLock;
use crate::memory::{OutOfMemory, try_box};

/// The registers and what goes with them.
pub type EngineShared = Shared<RawMmio, KernelLock>;

/// Leads to an engine's shared state.
///
/// It is not counted: the shim closes all channels and frees the interrupts before it closes the
/// engine.
#[derive(Clone, Copy, Debug)]
pub struct SharedPtr(NonNull<EngineShared>);

// SAFETY: what it leads to is `Sync`.
unsafe impl Send for SharedPtr {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedPtr {}

impl Deref for SharedPtr {
    type Target = EngineShared;

    #[inline(always)]
    fn deref(&self) -> &EngineShared {
        // SAFETY: the engine outlives every copy, see the type.
        unsafe { self.0.as_ref() }
    }
}

impl SharedPtr {
    /// The address, for the shim.
    pub fn as_ptr(&self) -> *const EngineShared {
        self.0.as_ptr()
    }
}

/// Why an engine was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The portable driver says why.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The format's number is none.
    #[error("{0} is no register map; the known ones are 0, 1, 5 and 7")]
    UnknownFormat(u32),
    /// A pointer is null or misaligned.
    #[error("the registers, the lock or the vectors are missing")]
    BadPointer,
    /// Out of memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// Out of DMA memory.
    #[error(transparent)]
    Dma(#[from] DmaError),
}

/// The control handle of an engine, with its interrupts.
pub struct Control {
    shared: SharedPtr,
    controller: Controller<SharedPtr>,
    irq: KernelIrq,
    /// Where messages go that nobody wants; see [`irq`](crate::irq).
    sink: Coherent<KernelDma>,
    format: Format,
}

/// Bytes of the sink: a message has 4.
const SINK_SIZE: usize = 8;

impl Control {
    /// Opens an engine: it is switched off and polled until [`connect`](Self::connect).
    ///
    /// # Safety
    /// `args` is what [`OpenArgs`](abi::OpenArgs) says: a mapping, an initialised lock and vectors that
    /// outlive the engine. The vectors change only while no other method runs.
    ///
    /// # Errors
    /// [`OpenError`].
    pub unsafe fn open(args: &abi::OpenArgs) -> Result<Box<Self>, OpenError> {
        let map = u8::try_from(args.format).unwrap_or(u8::MAX);
        let format = Format::from_map(map).ok_or(OpenError::UnknownFormat(args.format))?;
        let registers = NonNull::new(args.registers.cast::<u8>()).ok_or(OpenError::BadPointer)?;
        let lock = NonNull::new(args.lock).ok_or(OpenError::BadPointer)?;
        let vectors = NonNull::new(args.vectors.cast_mut()).ok_or(OpenError::BadPointer)?;
        let device = NonNull::new(args.device).ok_or(OpenError::BadPointer)?;
        if registers.addr().get() % 8 != 0 {
            return Err(OpenError::BadPointer);
        }
        let size = usize::try_from(args.registers_size).unwrap_or(0);
        // SAFETY: the caller's promise; ioremap maps uncached.
        let registers = unsafe { RawMmio::new(registers, size, Caching::Uncached) };
        // SAFETY: the caller's promise.
        let (lock, dma) = unsafe { (KernelLock::new(lock), KernelDma::new(device)) };
        let mut config =
            Config::new(format, Location::Remote).channels(args.write_channels, args.read_channels);
        config.function = u8::try_from(args.function).unwrap_or(u8::MAX);
        let shared = try_box(Shared::new(Window::new(registers), lock, config)?)?;
        // Freed by `close`, or here if it comes to nothing.
        let shared = SharedPtr(NonNull::from(Box::leak(shared)));
        // SAFETY: the caller's promise.
        let opened = unsafe { Self::with_shared(shared, vectors, dma, format) };
        if opened.is_err() {
            // SAFETY: nobody else has seen it.
            unsafe { free_shared(shared) };
        }
        opened
    }

    /// # Safety
    /// As for [`KernelIrq::new`].
    unsafe fn with_shared(
        shared: SharedPtr,
        vectors: NonNull<abi::Vectors>,
        dma: KernelDma,
        format: Format,
    ) -> Result<Box<Self>, OpenError> {
        let controller = Controller::new(shared)?;
        let sink = Coherent::new(dma, SINK_SIZE, &DmaConstraints::any())?;
        // SAFETY: the caller's promise.
        let irq = unsafe { KernelIrq::new(vectors, Some(sink.device_address())) };
        Ok(try_box(Self { shared, controller, irq, sink, format })?)
    }

    /// The shared state.
    pub fn shared(&self) -> SharedPtr {
        self.shared
    }

    /// The register map.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The control handle, to open channels with.
    pub fn controller(&mut self) -> &mut Controller<SharedPtr> {
        &mut self.controller
    }

    /// Gives the engine its interrupts: one vector for all, or one a channel if there are more.
    ///
    /// # Errors
    /// As [`Controller::connect`]; it goes on polling then.
    pub fn connect(&mut self) -> Result<Interrupts, Error> {
        self.irq.take_all();
        let vectors = if self.irq.vectors() > 1 { Vectors::PerChannel } else { Vectors::One };
        self.controller.connect(&self.irq, vectors)
    }

    /// The kernel is changing messages: the engine's go nowhere until [`refresh`](Self::refresh), which
    /// must follow soon. Where that cannot be, the engine has the new ones now. Returns whether it must
    /// follow.
    ///
    /// # Errors
    /// As [`Controller::refresh_messages`].
    pub fn hold(&mut self) -> Result<bool, Error> {
        if self.irq.is_held() || !self.irq.has_changed() {
            return Ok(self.irq.is_held());
        }
        if !self.irq.hold() {
            self.irq.take_all();
        }
        self.controller.refresh_messages(&self.irq)?;
        Ok(true)
    }

    /// Gives the engine the kernel's messages. Returns whether they have changed: every channel should
    /// look at what is left for it then.
    ///
    /// # Errors
    /// As [`Controller::refresh_messages`].
    pub fn refresh(&mut self) -> Result<bool, Error> {
        if !self.irq.has_changed() {
            return Ok(false);
        }
        if self.irq.is_held() {
            self.irq.take_data();
            self.controller.refresh_messages(&self.irq)?;
        }
        self.irq.take_all();
        self.controller.refresh_messages(&self.irq)
    }

    /// Switches the engine off for a time.
    ///
    /// # Errors
    /// As [`Controller::suspend`].
    pub fn suspend(&mut self) -> Result<(), Error> {
        self.controller.suspend()
    }

    /// Programs the engine again after [`suspend`](Self::suspend) or a reset.
    ///
    /// # Errors
    /// As [`Controller::after_reset`].
    pub fn after_reset(&mut self) -> Result<(), Error> {
        self.irq.take_all();
        self.controller.after_reset(&self.irq)
    }

    /// Ends the engine. Returns false if channels are still open, whose engine is then switched off all
    /// the same.
    ///
    /// # Safety
    /// Nobody uses the shared state any more: no interrupt handler, no channel.
    pub unsafe fn close(self) -> bool {
        let Self { shared, controller, sink, .. } = self;
        let closed = match controller.close() {
            Ok(()) => {
                sink.free();
                true
            }
            Err((controller, _)) => {
                controller.abandon();
                sink.quarantine();
                false
            }
        };
        // SAFETY: the caller's promise.
        unsafe { free_shared(shared) };
        closed
    }
}

/// # Safety
/// It came from `Control::open`, and this is its last use.
unsafe fn free_shared(shared: SharedPtr) {
    // SAFETY: it was leaked from a box of this type.
    drop(unsafe { Box::from_raw(shared.0.as_ptr()) });
}
