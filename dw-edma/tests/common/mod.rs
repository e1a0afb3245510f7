//! An engine of the simulator with the driver on it.
#![allow(dead_code)] // each test binary uses its own part

use std::sync::Arc;

use arrayvec::ArrayVec;
use dw_edma::{
    Channel, ChannelId, ChannelKind, Config, Controller, Desc, Error, Format, ListMemory, Location, Segment,
    Shared, Vectors, direction_of,
};
use tombolo_hal::dma::{Coherent, DataDirection, DmaConstraints, Prepared, Streaming};
use tombolo_hal::dmaengine::{Direction, HeapPool, OwnedTransfers, SlaveConfig};
use tombolo_hal::irq::IrqSource;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::{DmaAddr, EngineAddr};
use tombolo_sim::dw_edma::{Dir, DwEdma, Handle, Params, Placement, presets};
use tombolo_sim::fabric::{Fabric, Function, Machine, MachineConfig};
use tombolo_sim::host::{SimDelay, SimDma, SimIrq, SimMmio};

pub type Engine = Shared<SimMmio, SpinLock>;
pub type Chan = Channel<Arc<Engine>, AnyList, HeapPool<Desc, Segment>>;
pub type Owned = OwnedTransfers<Chan, SimDma, Vec<u8>, 8, 256>;

const MIB: u64 = 1 << 20;

/// A list in RAM or behind a BAR, so that one test serves both.
pub enum AnyList {
    Ram(Coherent<SimDma>),
    Bar(Window<SimMmio>),
    None,
}

impl Mmio for AnyList {
    fn size(&self) -> usize {
        match self {
            Self::Ram(m) => m.size(),
            Self::Bar(m) => m.size(),
            Self::None => 0,
        }
    }
    fn read32(&self, o: usize) -> u32 {
        match self {
            Self::Ram(m) => m.read32(o),
            Self::Bar(m) => m.read32(o),
            Self::None => u32::MAX,
        }
    }
    fn write32(&self, o: usize, v: u32) {
        match self {
            Self::Ram(m) => m.write32(o, v),
            Self::Bar(m) => m.write32(o, v),
            Self::None => {}
        }
    }
    fn write32_relaxed(&self, o: usize, v: u32) {
        match self {
            Self::Ram(m) => m.write32_relaxed(o, v),
            Self::Bar(m) => m.write32_relaxed(o, v),
            Self::None => {}
        }
    }
    fn write64_relaxed(&self, o: usize, v: u64) {
        match self {
            Self::Ram(m) => m.write64_relaxed(o, v),
            Self::Bar(m) => m.write64_relaxed(o, v),
            Self::None => {}
        }
    }
    fn barrier(&self, b: tombolo_hal::barrier::Barrier) {
        match self {
            Self::Ram(m) => m.barrier(b),
            Self::Bar(m) => m.barrier(b),
            Self::None => {}
        }
    }
    fn caching(&self) -> tombolo_hal::mmio::Caching {
        match self {
            Self::Ram(m) => m.caching(),
            Self::Bar(m) => m.caching(),
            Self::None => tombolo_hal::mmio::Caching::Uncached,
        }
    }
}

pub fn sim_format(format: Format) -> tombolo_sim::dw_edma::Format {
    use tombolo_sim::dw_edma::Format as F;
    match format {
        Format::Legacy => F::Legacy,
        Format::Unroll => F::Unrolled,
        Format::HdmaCompat => F::HdmaCompatible,
        Format::HdmaNative => F::HdmaNative,
    }
}

pub fn sim_dir(kind: ChannelKind) -> Dir {
    match kind {
        ChannelKind::Write => Dir::Write,
        ChannelKind::Read => Dir::Read,
    }
}

/// How the driver learns of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Irqs {
    One,
    PerChannel,
    Polling,
}

pub struct Rig {
    pub fabric: Fabric,
    pub machine: Machine,
    pub function: Function,
    pub handle: Handle,
    pub params: Params,
    pub irq: SimIrq,
    pub delay: SimDelay,
    pub dma: SimDma,
    pub shared: Arc<Engine>,
    pub control: Controller<Arc<Engine>>,
}

impl Rig {
    /// An engine in an endpoint, driven across the link.
    pub fn remote(format: Format, write: u16, read: u16, irqs: Irqs) -> Self {
        Self::new(presets::remote(sim_format(format), write, read), Location::Remote, irqs, 1)
    }

    /// An engine beside the CPU.
    pub fn local(format: Format, write: u16, read: u16, irqs: Irqs) -> Self {
        Self::new(presets::local(sim_format(format), write, read), Location::Local, irqs, 1)
    }

    pub fn new(params: Params, location: Location, irqs: Irqs, seed: u64) -> Self {
        Self::try_new(params, location, irqs, seed, |c| c).unwrap()
    }

    pub fn try_new(
        params: Params,
        location: Location,
        irqs: Irqs,
        seed: u64,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<Self, Error> {
        let mut params = params;
        if let Placement::Local { irq, .. } = &mut params.placement
            && irqs == Irqs::One
        {
            *irq = tombolo_sim::dw_edma::LocalIrq::Vectors(1);
        }
        let fabric = Fabric::new(seed);
        // Miri really clears it.
        let ram_size = if cfg!(miri) { 1 << 18 } else { 64 << 20 };
        let machine = fabric.machine(MachineConfig { ram_size, ..Default::default() }).unwrap();
        let model = DwEdma::new(params);
        let (handle, params) = (model.handle(), model.params().clone());
        let function = machine.attach(Box::new(model)).unwrap();
        function.enable();
        let wanted = match irqs {
            Irqs::One => 1,
            Irqs::PerChannel => params.write_channels + params.read_channels,
            Irqs::Polling => 0,
        };
        let irq = SimIrq::allocate(&function, wanted);
        let bar = Window::new(function.mmio(params.register_bar).unwrap());
        let offset = match params.placement {
            Placement::Local { core_version: Some(_), .. } => {
                if params.format == tombolo_sim::dw_edma::Format::Legacy { 0x970 } else { 0x8_0000 }
            }
            _ => params.register_offset as usize,
        };
        let size = bar.size() - offset;
        let format = Format::from_map(params.format.map() as u8).unwrap();
        let config =
            change(Config::new(format, location).channels(params.write_channels, params.read_channels));
        let shared = Arc::new(Shared::new(bar.sub(offset, size).unwrap(), SpinLock::new(), config)?);
        for vector in 0..irq.vectors() {
            let handler = shared.clone();
            irq.connect(
                vector,
                Arc::new(move |_| {
                    handler.on_irq();
                }),
            );
        }
        let mut control = Controller::new(shared.clone())?;
        let vectors = if irqs == Irqs::PerChannel { Vectors::PerChannel } else { Vectors::One };
        control.connect(&irq, vectors)?;
        let (delay, dma) = (SimDelay::new(&fabric), function.dma());
        Ok(Self { fabric, machine, function, handle, params, irq, delay, dma, shared, control })
    }

    pub fn location(&self) -> Location {
        self.shared.config().location
    }

    /// Number of a channel among all, write channels first.
    fn number(&self, id: ChannelId) -> u64 {
        let before = if id.kind == ChannelKind::Read { self.params.write_channels } else { 0 };
        u64::from(before) + u64::from(id.index)
    }

    /// Where the data of a channel is in the model's memory.
    pub fn data_offset(&self, id: ChannelId) -> usize {
        let channels = u64::from(self.params.write_channels + self.params.read_channels);
        let offset = match self.params.placement {
            Placement::Remote { .. } => channels * 2 * MIB + self.number(id) * MIB,
            Placement::Local { .. } => self.number(id) * MIB % self.params.memory_bytes,
        };
        offset as usize
    }

    /// Where the engine finds the data of a channel on its device side.
    pub fn data_address(&self, id: ChannelId) -> EngineAddr {
        EngineAddr::new(self.device_base() + self.data_offset(id) as u64)
    }

    pub fn device_base(&self) -> u64 {
        match self.params.placement {
            Placement::Remote { memory_base: tombolo_sim::dw_edma::MemoryBase::BarAddress } => {
                self.function.bar_address(self.params.memory_bar).unwrap()
            }
            Placement::Remote { memory_base: tombolo_sim::dw_edma::MemoryBase::Fixed(base) } => base,
            Placement::Local { link_base, .. } => link_base,
        }
    }

    pub fn list(&self, id: ChannelId, bytes: usize) -> ListMemory<AnyList> {
        match self.location() {
            Location::Local => {
                let memory =
                    Coherent::new(self.dma.clone(), bytes, &DmaConstraints::any().aligned(8)).unwrap();
                let address = EngineAddr::from(memory.device_address());
                ListMemory::new(AnyList::Ram(memory), address).map_err(|e| e.error).unwrap()
            }
            Location::Remote => {
                let offset = (self.number(id) * 2 * MIB) as usize;
                let bar = Window::new(self.function.mmio(self.params.memory_bar).unwrap());
                let window = bar.sub(offset, bytes).unwrap();
                let address = EngineAddr::new(self.device_base() + offset as u64);
                ListMemory::new(AnyList::Bar(window), address).map_err(|e| e.error).unwrap()
            }
        }
    }

    pub fn open(&mut self, id: ChannelId) -> Chan {
        self.open_with(id, 0x800, 64, 1024)
    }

    pub fn open_with(
        &mut self,
        id: ChannelId,
        list_bytes: usize,
        descriptors: usize,
        segments: usize,
    ) -> Chan {
        let list = self.list(id, list_bytes);
        self.control.open_channel(id, list, HeapPool::new(descriptors, segments)).unwrap()
    }

    pub fn owned(&mut self, id: ChannelId) -> Owned {
        OwnedTransfers::new(self.open(id))
    }

    pub fn direction(&self, id: ChannelId) -> Direction {
        direction_of(self.location(), id.kind)
    }

    pub fn prepare(&self, buffer: Vec<u8>, direction: Direction) -> Streaming<SimDma, Vec<u8>, Prepared> {
        let direction = match direction {
            Direction::MemToDev => DataDirection::ToDevice,
            Direction::DevToMem => DataDirection::FromDevice,
        };
        Streaming::prepare(self.dma.clone(), buffer, direction, &DmaConstraints::any()).unwrap()
    }

    pub fn config(&self, id: ChannelId, offset: u64) -> SlaveConfig<dw_edma::Peripheral> {
        SlaveConfig::at(self.data_address(id).checked_add(offset).unwrap())
    }

    pub fn device_read(&self, id: ChannelId, offset: usize, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.handle.memory().read(self.data_offset(id) + offset, &mut data).unwrap();
        data
    }

    pub fn device_write(&self, id: ChannelId, offset: usize, data: &[u8]) {
        self.handle.memory().write(self.data_offset(id) + offset, data).unwrap();
    }
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// Cuts `data` into `pieces` buffers of nearly equal size.
pub fn cut(data: &[u8], pieces: usize) -> Vec<Vec<u8>> {
    let size = data.len().div_ceil(pieces);
    data.chunks(size).map(<[u8]>::to_vec).collect()
}

/// One transfer of `data` in `pieces` segments on a channel, checked at its other end.
pub fn transfer(rig: &mut Rig, ch: &mut Owned, data: &[u8], pieces: usize) {
    let id = ch.channel().id();
    let direction = rig.direction(id);
    let start = match direction {
        Direction::MemToDev => data.to_vec(),
        Direction::DevToMem => {
            rig.device_write(id, 0, data);
            vec![0xee; data.len()]
        }
    };
    let buffers: ArrayVec<_, 256> =
        cut(&start, pieces).into_iter().map(|b| rig.prepare(b, direction)).collect();
    let config = rig.config(id, 0);
    let cookie = ch.submit(buffers, direction, Default::default(), Some(&config)).unwrap();
    ch.issue_pending();
    let finished = wait(rig, ch);
    assert_eq!(finished.completion.cookie, cookie);
    assert_eq!(finished.completion.result, tombolo_hal::dmaengine::TxResult::NoError);
    assert_eq!(finished.completion.residue, 0);
    let back: Vec<u8> = finished.buffers.into_iter().flat_map(|b| b.into_inner()).collect();
    match direction {
        Direction::MemToDev => assert!(rig.device_read(id, 0, data.len()) == data, "device side differs"),
        Direction::DevToMem => assert!(back == data, "memory side differs"),
    }
}

/// Lets time pass until something is finished, without looking at the hardware where interrupts are
/// in use: a completion that does not come is a failure.
pub fn wait(rig: &mut Rig, ch: &mut Owned) -> tombolo_hal::dmaengine::Finished<SimDma, Vec<u8>, 256> {
    for _ in 0..200_000 {
        if let Some(finished) = ch.pop_finished() {
            return finished;
        }
        rig.fabric.advance(1_000);
    }
    panic!("no completion: {:?} {:?}", ch.channel().stats(), rig.handle.counters());
}

pub fn all_ids(rig: &Rig) -> Vec<ChannelId> {
    ChannelKind::ALL
        .into_iter()
        .flat_map(|kind| (0..rig.shared.channel_count(kind)).map(move |i| ChannelId { kind, index: i as u8 }))
        .collect()
}

/// Nothing that the driver did was refused by the device.
pub fn assert_clean(rig: &Rig) {
    let counters = rig.handle.counters();
    assert_eq!((counters.bad_accesses, counters.reserved_accesses), (0, 0), "{counters:?}");
    assert_eq!(rig.function.counters().iommu_faults, 0);
}

pub fn addr(value: u64) -> DmaAddr {
    DmaAddr::new(value)
}
