//! The driver on its platform, put together as any user of the crates would: find the engine, connect
//! the handler, open channels.

use std::sync::Arc;

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
use tombolo_sim::fabric::{AttachError, MachineError};
use tombolo_sim::memory::MemoryError;

use crate::list::List;
use crate::machine::{self, RigSpec};
use crate::platform::{Counts, News, Platform};

/// The driver's shared state.
pub type Engine<P> = Shared<<P as Platform>::Mmio, SpinLock>;
/// One channel of it.
pub type Chan<P> = Channel<Arc<Engine<P>>, Lists<P>, HeapPool<Desc, Segment>>;
/// Where its list lies.
pub type Lists<P> = List<<P as Platform>::Dma, <P as Platform>::Mmio>;

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
    /// Bytes outside of the memory behind the BAR.
    #[error("{len} bytes at {offset:#x} are not inside the device's memory of {size} bytes")]
    OutsideMemory {
        /// Where.
        offset: u64,
        /// How many.
        len: usize,
        /// How many there are.
        size: u64,
    },
    /// An engine across the link writes its interrupts itself, and nobody can tell it what.
    #[error(
        "the message of an {0} vector is hidden here, and an engine across the link has to be told it: \
         be root, try another --irq, or poll with --irq polling"
    )]
    HiddenMessage(IrqMode),
    /// The platform failed.
    #[error("{0}")]
    Platform(Box<dyn std::error::Error + Send + Sync>),
    /// No DMA memory was left.
    #[error("DMA memory: {0}")]
    Dma(Box<dyn std::error::Error + Send + Sync>),
}

impl From<tombolo_hal::mmio::WindowError> for RigError {
    fn from(error: tombolo_hal::mmio::WindowError) -> Self {
        RigError::Driver(error.into())
    }
}

impl RigError {
    /// An error of the platform's DMA memory.
    pub fn dma(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        RigError::Dma(Box::new(error))
    }

    /// An error of the platform's.
    pub fn platform(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        RigError::Platform(Box::new(error))
    }
}

/// A platform and the driver on it.
pub struct Rig<P: Platform> {
    /// Where the driver runs.
    pub platform: P,
    spec: RigSpec,
    control: Controller<Arc<Engine<P>>>,
    news: Arc<News>,
    /// Where the device's memory is for the engine.
    device_base: u64,
    /// Where data begins in the device's memory.
    data_start: u64,
}

impl<P: Platform> Rig<P> {
    /// Puts the driver on a platform.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn new(platform: P, spec: RigSpec) -> Result<Self, RigError> {
        let place = Place::find(&platform, &spec)?;
        let registers = bar(&platform, place.registers)?;
        let shared = Arc::new(Shared::new(registers, SpinLock::new(), place.config)?);
        let news = Arc::new(News::default());
        let (driver, teller) = (shared.clone(), news.clone());
        platform.connect(Arc::new(move |_| teller.tell(driver.on_irq().handled)))?;
        let mut control = Controller::new(shared)?;
        control.connect(platform.irq(), Vectors::PerChannel)?;
        tracing::info!(
            format = %spec.format, location = ?spec.location, irq = %platform.irq().mode(),
            vectors = platform.irq().vectors(), "the driver has the engine"
        );
        let data_start = machine::lists_bytes(&spec);
        Ok(Self { platform, spec, control, news, device_base: place.device_base, data_start })
    }

    /// What the rig consists of.
    pub fn spec(&self) -> &RigSpec {
        &self.spec
    }

    /// All channels, write channels first.
    pub fn ids(&self) -> impl Iterator<Item = ChannelId> + use<P> {
        let count = self.spec.channels;
        ChannelKind::ALL
            .into_iter()
            .flat_map(move |kind| (0..count).map(move |i| ChannelId { kind, index: i as u8 }))
    }

    /// Opens a channel that can hold `descriptors` transfers with `segments` segments in all.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn open(&mut self, id: ChannelId, descriptors: usize, segments: usize) -> Result<Chan<P>, RigError> {
        let list = self.list(id)?;
        Ok(self.control.open_channel(id, list, HeapPool::new(descriptors, segments))?)
    }

    /// Closes a channel that has nothing to do, and frees its list.
    ///
    /// # Errors
    /// [`RigError`] if the channel does not come to rest; its list is then in quarantine.
    pub fn close(&mut self, mut channel: Chan<P>) -> Result<(), RigError> {
        // `close` says it if this did not help.
        let _ = channel.synchronize(self.platform.delay(), REST_LIMIT_US);
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
        self.platform.reset()?;
        Ok(self.control.after_reset(self.platform.irq())?)
    }

    /// Gives the engine the messages of its interrupts again if one has changed, as it does when a vector
    /// moves to another CPU.
    ///
    /// # Errors
    /// [`RigError`] if the engine cannot send the new ones.
    pub fn refresh_messages(&mut self) -> Result<(), RigError> {
        if self.control.refresh_messages(self.platform.irq())? {
            tracing::info!("the interrupts' messages have changed");
        }
        Ok(())
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
        self.news.take()
    }

    /// Interrupts in which the driver found nothing of its own.
    pub fn unclaimed_interrupts(&self) -> u64 {
        self.news.unclaimed()
    }

    /// How interrupts arrive.
    pub fn irq_mode(&self) -> IrqMode {
        self.platform.irq().mode()
    }

    /// Time to wait.
    pub fn delay(&mut self) -> &mut P::Delay {
        self.platform.delay()
    }

    /// The platform's time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.platform.now_ns()
    }

    /// Lets time pass until something happens, at most until `until`.
    pub fn pass(&self, until: u64) {
        self.platform.pass(&self.news, until);
    }

    /// What was counted so far. Interrupts are counted where they arrive if the platform does not.
    pub fn counts(&self) -> Counts {
        let counts = self.platform.counts();
        Counts { interrupts: counts.interrupts.max(self.news.delivered()), ..counts }
    }

    /// Where the engine finds byte `offset` of the data on its device side.
    pub fn device_address(&self, offset: u64) -> EngineAddr {
        EngineAddr::new(self.device_base + self.data_start + offset)
    }

    /// Reads data on the device side, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of the device's memory.
    pub fn device_read(&self, offset: u64, data: &mut [u8]) -> Result<(), RigError> {
        self.platform.device_read(self.data_start + offset, data)
    }

    /// Writes data on the device side, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of the device's memory.
    pub fn device_write(&self, offset: u64, data: &[u8]) -> Result<(), RigError> {
        self.platform.device_write(self.data_start + offset, data)
    }

    fn list(&self, id: ChannelId) -> Result<ListMemory<Lists<P>>, RigError> {
        let bytes = machine::list_bytes(self.spec.list_elements);
        let (list, address) = match self.spec.location {
            Location::Local => {
                let limits = DmaConstraints::any().aligned(8);
                let memory =
                    Coherent::new(self.platform.dma().clone(), bytes, &limits).map_err(RigError::dma)?;
                let address = EngineAddr::from(memory.device_address());
                (List::Ram(memory), address)
            }
            Location::Remote => {
                let offset = machine::list_offset(&self.spec, id);
                let window = bar(&self.platform, MEMORY_BAR)?.sub(offset as usize, bytes)?;
                (List::Bar(window), EngineAddr::new(self.device_base + offset))
            }
        };
        Ok(ListMemory::new(list, address).map_err(Error::from)?)
    }
}

/// The BAR behind which known devices have their memory.
pub const MEMORY_BAR: u8 = 2;
/// The BAR behind which an engine beside the CPU has its registers in the simulated machine.
const LOCAL_REGISTERS: u8 = 0;

fn bar<P: Platform>(platform: &P, index: u8) -> Result<Window<P::Mmio>, RigError> {
    Ok(Window::new(platform.bar(index).ok_or(RigError::NoBar(index))?))
}

/// Where registers and memory of an engine are.
struct Place {
    registers: u8,
    config: Config,
    device_base: u64,
}

impl Place {
    /// Across the link the engine is found by its capability, beside the CPU its place is known.
    fn find<P: Platform>(platform: &P, spec: &RigSpec) -> Result<Self, RigError> {
        match spec.location {
            Location::Remote => {
                let found: RemoteEngine = platform.engine()?;
                let base = spec.device_memory.or(found.device_memory.map(EngineAddr::value));
                let device_base = base.unwrap_or_else(|| platform.bar_address(MEMORY_BAR));
                Ok(Self { registers: found.bar, config: found.config(), device_base })
            }
            Location::Local => {
                let config = Config::new(spec.format, Location::Local).channels(spec.channels, spec.channels);
                Ok(Self { registers: LOCAL_REGISTERS, config, device_base: machine::LINK_BASE })
            }
        }
    }
}
