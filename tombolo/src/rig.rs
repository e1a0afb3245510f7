//! A simulated machine with an engine in it, and the driver on top, as a platform would put them
//! together: find the engine, give it vectors, connect the handler, open channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dw_edma::{
    Channel, ChannelId, ChannelKind, Config, Controller, Desc, Error, ListMemory, Location, RemoteEngine,
    Segment, Shared, Vectors,
};
use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::{DmaChannelExt, HeapPool};
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Window;
use tombolo_sim::dw_edma::{DwEdma, Handle, Params, Placement};
use tombolo_sim::fabric::{AttachError, Fabric, Function, Machine, MachineError};
use tombolo_sim::host::{SimDelay, SimDma, SimDmaError, SimIrq, SimMmio};
use tombolo_sim::memory::MemoryError;

use crate::list::List;
use crate::machine::{self, RigSpec};

/// The driver's shared state on the simulator.
pub type Engine = Shared<SimMmio, SpinLock>;
/// One channel of it.
pub type Chan = Channel<Arc<Engine>, List, HeapPool<Desc, Segment>>;

/// How long a channel may take to come to rest, in microseconds.
pub const REST_LIMIT_US: u32 = 10_000;

/// Why a rig could not be set up or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// The simulated machine cannot be.
    #[error("simulated machine: {0}")]
    Machine(#[from] MachineError),
    /// The device cannot be plugged in.
    #[error("simulated device: {0}")]
    Attach(#[from] AttachError),
    /// The function does not have this kind of interrupt.
    #[error("the function has no {0} vectors")]
    NoVectors(IrqMode),
    /// The driver refused.
    #[error("driver: {0}")]
    Driver(#[from] Error),
    /// A BAR is missing.
    #[error("the device has no BAR{0}")]
    NoBar(u8),
    /// An address is not inside the device's memory.
    #[error("device memory: {0}")]
    Memory(#[from] MemoryError),
    /// No DMA memory was left.
    #[error("DMA memory: {0}")]
    Dma(#[from] SimDmaError),
}

impl From<tombolo_hal::mmio::WindowError> for RigError {
    fn from(error: tombolo_hal::mmio::WindowError) -> Self {
        RigError::Driver(error.into())
    }
}

/// What the interrupt handler leaves for the one who waits.
#[derive(Debug, Default)]
pub struct News {
    came: AtomicBool,
    unclaimed: AtomicU64,
}

/// A machine, an engine and the driver.
pub struct Rig {
    /// The world.
    pub fabric: Fabric,
    /// The engine's function.
    pub function: Function,
    /// The model from outside: its memory and fault hooks.
    pub handle: Handle,
    /// The vectors.
    pub irq: SimIrq,
    /// Time to wait.
    pub delay: SimDelay,
    /// DMA memory.
    pub dma: SimDma,
    params: Params,
    spec: RigSpec,
    control: Controller<Arc<Engine>>,
    news: Arc<News>,
    /// Where data begins in the device's memory.
    data_start: u64,
    _machine: Machine,
}

impl Rig {
    /// Puts a machine together and the driver on it.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn new(spec: RigSpec) -> Result<Self, RigError> {
        let params = machine::params(&spec);
        let fabric = Fabric::new(spec.seed);
        let machine = fabric.machine(machine::machine_config(&spec))?;
        let model = DwEdma::new(params);
        let (handle, params) = (model.handle(), model.params().clone());
        let function = machine.attach(Box::new(model))?;
        function.enable();
        let irq = SimIrq::allocate_mode(&function, spec.irq, machine::vectors(&spec));
        let irq = irq.ok_or(RigError::NoVectors(spec.irq))?;
        let shared = Arc::new(open_engine(&function, &params, &spec)?);
        let news = Arc::new(News::default());
        connect(&irq, &shared, &news);
        let mut control = Controller::new(shared)?;
        control.connect(&irq, Vectors::PerChannel)?;
        let (delay, dma) = (SimDelay::new(&fabric), function.dma());
        tracing::info!(
            format = %spec.format, location = ?spec.location, irq = %irq.mode(), vectors = irq.vectors(),
            "the driver has the engine"
        );
        let data_start = machine::lists_bytes(&spec);
        Ok(Self {
            fabric,
            function,
            handle,
            irq,
            delay,
            dma,
            params,
            spec,
            control,
            news,
            data_start,
            _machine: machine,
        })
    }

    /// What the rig consists of.
    pub fn spec(&self) -> &RigSpec {
        &self.spec
    }

    /// All channels, write channels first.
    pub fn ids(&self) -> impl Iterator<Item = ChannelId> + use<> {
        let count = self.spec.channels;
        ChannelKind::ALL
            .into_iter()
            .flat_map(move |kind| (0..count).map(move |i| ChannelId { kind, index: i as u8 }))
    }

    /// Opens a channel that can hold `descriptors` transfers with `segments` segments in all.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn open(&mut self, id: ChannelId, descriptors: usize, segments: usize) -> Result<Chan, RigError> {
        let list = self.list(id)?;
        Ok(self.control.open_channel(id, list, HeapPool::new(descriptors, segments))?)
    }

    /// Closes a channel that has nothing to do, and frees its list.
    ///
    /// # Errors
    /// [`RigError`] if the channel does not come to rest; its list is then in quarantine.
    pub fn close(&mut self, mut channel: Chan) -> Result<(), RigError> {
        // `close` says it if this did not help.
        let _ = channel.synchronize(&mut self.delay, REST_LIMIT_US);
        let list = channel.close().map_err(|(_, error)| error)?;
        if let List::Ram(memory) = list.into_inner() {
            memory.free();
        }
        Ok(())
    }

    /// Resets the function and programs everything again: the way out when an engine obeys no stop.
    /// What channels had with the engine ends as aborted.
    ///
    /// # Errors
    /// [`RigError`] if the device does not come back.
    pub fn reset(&mut self) -> Result<(), RigError> {
        tracing::info!("resetting the function");
        self.function.reset_and_restore();
        self.irq.restore();
        Ok(self.control.after_reset(&self.irq)?)
    }

    /// Switches the engine off. All channels must be closed.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn shut_down(self) -> Result<(), RigError> {
        self.control.close().map_err(|(_, error)| error.into())
    }

    /// Whether the device was seen to be gone.
    pub fn is_gone(&self) -> bool {
        self.control.shared().is_gone()
    }

    /// Whether an interrupt came since the last call.
    pub fn take_news(&self) -> bool {
        self.news.came.swap(false, Ordering::Relaxed)
    }

    /// Interrupts in which the driver found nothing of its own.
    pub fn unclaimed_interrupts(&self) -> u64 {
        self.news.unclaimed.load(Ordering::Relaxed)
    }

    /// The largest number of bytes that the engine moves in one request.
    pub fn burst_bytes(&self) -> u64 {
        u64::from(self.params.burst_bytes)
    }

    /// How long the link needs for `bytes` in one direction, in nanoseconds.
    pub fn link_ns(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1000) / u64::from(self.params.timing.bytes_per_us)
    }

    /// MMIO reads and writes so far: of registers and of list memory behind a BAR.
    pub fn mmio(&self) -> [u64; 4] {
        let counters = self.function.counters();
        let bar = |index: u8| counters.bars.get(usize::from(index)).copied().unwrap_or_default();
        let (registers, memory) = (bar(self.params.register_bar), bar(self.params.memory_bar));
        [registers.reads, registers.writes, memory.reads, memory.writes]
    }

    /// Where the engine finds byte `offset` of the data on its device side.
    pub fn device_address(&self, offset: u64) -> EngineAddr {
        EngineAddr::new(self.device_base() + self.data_start + offset)
    }

    /// Reads data on the device side, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of the device's memory.
    pub fn device_read(&self, offset: u64, data: &mut [u8]) -> Result<(), RigError> {
        Ok(self.handle.memory().read((self.data_start + offset) as usize, data)?)
    }

    /// Writes data on the device side, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of the device's memory.
    pub fn device_write(&self, offset: u64, data: &[u8]) -> Result<(), RigError> {
        Ok(self.handle.memory().write((self.data_start + offset) as usize, data)?)
    }

    fn device_base(&self) -> u64 {
        match self.params.placement {
            Placement::Local { link_base, .. } => link_base,
            // The BAR is decoded from the start; a device that is gone needs no address.
            Placement::Remote { .. } => self.function.bar_address(self.params.memory_bar).unwrap_or(0),
        }
    }

    fn list(&self, id: ChannelId) -> Result<ListMemory<List>, RigError> {
        let bytes = ListMemory::<List>::size_for(self.spec.list_elements);
        let (list, address) = match self.spec.location {
            Location::Local => {
                let memory = Coherent::new(self.dma.clone(), bytes, &DmaConstraints::any().aligned(8))?;
                let address = EngineAddr::from(memory.device_address());
                (List::Ram(memory), address)
            }
            Location::Remote => {
                let offset = machine::list_offset(&self.spec, id);
                let window = bar(&self.function, self.params.memory_bar)?.sub(offset as usize, bytes)?;
                (List::Bar(window), EngineAddr::new(self.device_base() + offset))
            }
        };
        Ok(ListMemory::new(list, address).map_err(Error::from)?)
    }
}

fn bar(function: &Function, index: u8) -> Result<Window<SimMmio>, RigError> {
    Ok(Window::new(function.mmio(index).ok_or(RigError::NoBar(index))?))
}

/// Across the link the engine is found by its capability, beside the CPU its place is known.
fn open_engine(function: &Function, params: &Params, spec: &RigSpec) -> Result<Engine, RigError> {
    let (index, config) = match spec.location {
        Location::Remote => {
            let found = RemoteEngine::find(&function.config())?;
            (found.bar, found.config())
        }
        Location::Local => {
            let config = Config::new(spec.format, Location::Local).channels(spec.channels, spec.channels);
            (params.register_bar, config)
        }
    };
    Ok(Shared::new(bar(function, index)?, SpinLock::new(), config)?)
}

fn connect(irq: &SimIrq, shared: &Arc<Engine>, news: &Arc<News>) {
    for vector in 0..irq.vectors() {
        let (shared, news) = (shared.clone(), news.clone());
        let handler = move |_| {
            if !shared.on_irq().handled {
                news.unclaimed.fetch_add(1, Ordering::Relaxed);
            }
            news.came.store(true, Ordering::Relaxed);
        };
        irq.connect(vector, Arc::new(handler));
    }
}
