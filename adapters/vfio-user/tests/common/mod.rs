//! An engine that is served, and the driver on it in the same process.
#![allow(dead_code)] // each test binary uses its own part

pub mod raw;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dw_edma::{
    Channel, ChannelId, ChannelKind, Controller, Desc, Interrupts, ListMemory, Location, Mode, Peripheral,
    RemoteEngine, Segment, Shared, Vectors, direction_of,
};
use embedded_hal::delay::DelayNs;
use tempfile::TempDir;
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{
    Direction, Finished, HeapPool, OwnedTransfers, PrepFlags, SlaveConfig, TxResult,
};
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::Window;
use tombolo_hal::{EngineAddr, pci};
use tombolo_sim::device::Device as Model;
use tombolo_sim::dw_edma::{DwEdma, Handle, Params};
use tombolo_vfio_user::client::{Bar, ClientDma, ClientIrq, Device, IrqThread};
use tombolo_vfio_user::server::{Running, Server, ServerHandle, ServerOptions};

pub type Engine = Arc<Shared<Bar, SpinLock>>;
pub type Chan = Channel<Engine, Window<Bar>, HeapPool<Desc, Segment>>;
pub type Owned = OwnedTransfers<Chan, ClientDma, Vec<u8>, 8, 8>;

/// Nothing here takes so long, unless it hangs.
pub const LIMIT: Duration = Duration::from_secs(20);
const MEMORY_BAR: u8 = 2;
const LIST_BYTES: usize = 4096;
const MIB: u64 = 1 << 20;

/// A model at a socket of its own.
pub struct Served {
    pub path: PathBuf,
    pub server: ServerHandle,
    running: Option<Running>,
    _dir: TempDir,
}

impl Served {
    pub fn new(model: Box<dyn Model>, options: ServerOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.sock");
        let running = Server::bind(&path, model, options).unwrap().spawn().unwrap();
        Self { path, server: running.handle(), running: Some(running), _dir: dir }
    }

    pub fn engine(params: Params, options: ServerOptions) -> (Self, Handle) {
        let model = DwEdma::new(params);
        let handle = model.handle();
        (Self::new(Box::new(model), options), handle)
    }

    pub fn connect(&self) -> Device {
        Device::connect(&self.path).unwrap()
    }

    /// Stops the server, which must end without error.
    pub fn stop(&mut self) {
        self.server.stop();
        if let Some(running) = self.running.take() {
            running.join().unwrap();
        }
    }

    /// Waits until the server has noticed that its client is gone.
    pub fn without_client(&self) {
        eventually("the client is still there", || !self.server.is_connected());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Waits until something holds.
pub fn eventually(otherwise: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Trapped instead of mapped.
pub fn trapped() -> ServerOptions {
    ServerOptions { map_bars: false, ..ServerOptions::default() }
}

/// The driver on a device. Fields are dropped in the order in which they must go.
pub struct Rig {
    thread: Option<IrqThread>,
    pub control: Controller<Engine>,
    pub shared: Engine,
    /// Where the engine finds its memory.
    pub base: u64,
    /// List or registers; `None`: as the driver likes.
    pub mode: Option<Mode>,
    pub irq: ClientIrq,
    pub device: Device,
}

impl Rig {
    pub fn new(device: Device, mode: IrqMode, vectors: u16) -> Self {
        device.enable().unwrap();
        let config = device.config();
        let found = RemoteEngine::find(&config).unwrap();
        let bar = pci::bars(&config).unwrap()[usize::from(MEMORY_BAR)].expect("BAR 2");
        let base = found.device_memory.map_or(bar.address, EngineAddr::value);
        let registers = Window::new(device.bar(found.bar).expect("BAR 0"));
        let shared = Arc::new(Shared::new(registers, SpinLock::new(), found.config()).unwrap());
        let irq = device.interrupts(mode, vectors).unwrap();
        assert_eq!(irq.vectors(), vectors);
        let handler = shared.clone();
        let thread = irq.spawn(move |_| {
            handler.on_irq();
        });
        let mut control = Controller::new(shared.clone()).unwrap();
        let routing = if vectors > 1 { Vectors::PerChannel } else { Vectors::One };
        let found = control.connect(&irq, routing).unwrap();
        assert_eq!(found == Interrupts::Polling, mode == IrqMode::Polling, "{found:?}");
        Self { thread: Some(thread.unwrap()), control, shared, base, mode: None, irq, device }
    }

    /// Place of a channel among all, write channels first.
    fn number(&self, id: ChannelId) -> usize {
        let before =
            if id.kind == ChannelKind::Read { self.shared.channel_count(ChannelKind::Write) } else { 0 };
        usize::from(before) + usize::from(id.index)
    }

    pub fn open(&mut self, id: ChannelId) -> Owned {
        let memory = Window::new(self.device.bar(MEMORY_BAR).expect("BAR 2"));
        let offset = self.number(id) * LIST_BYTES;
        let window = memory.sub(offset, LIST_BYTES).unwrap();
        let address = EngineAddr::new(self.base + offset as u64);
        let list = match self.mode {
            Some(Mode::NonList) => ListMemory::absent(window),
            _ => ListMemory::new(window, address).map_err(|refused| refused.error).unwrap(),
        };
        OwnedTransfers::new(self.control.open_channel(id, list, HeapPool::new(8, 64)).unwrap())
    }

    /// Where the data of a channel is in the device's memory.
    pub fn data_offset(&self, id: ChannelId) -> usize {
        (MIB + self.number(id) as u64 * (MIB / 4)) as usize
    }

    fn slave(&self, id: ChannelId) -> SlaveConfig<Peripheral> {
        let at = SlaveConfig::at(EngineAddr::new(self.base + self.data_offset(id) as u64));
        SlaveConfig { peripheral: Peripheral { mode: self.mode }, ..at }
    }

    /// Hands `data` over in `pieces` buffers.
    pub fn submit(&self, ch: &mut Owned, data: &[u8], pieces: usize) {
        let id = ch.channel().id();
        let direction = direction_of(Location::Remote, id.kind);
        let access = match direction {
            Direction::MemToDev => DataDirection::ToDevice,
            Direction::DevToMem => DataDirection::FromDevice,
        };
        let prepare = |piece: &[u8]| {
            Streaming::prepare(self.device.dma(), piece.to_vec(), access, &DmaConstraints::any()).unwrap()
        };
        let buffers = data.chunks(data.len().div_ceil(pieces)).map(prepare).collect();
        ch.submit(buffers, direction, PrepFlags::INTERRUPT, Some(&self.slave(id)))
            .map_err(|refused| refused.reason)
            .unwrap();
        ch.issue_pending();
    }

    /// One transfer that must be right at its other end.
    pub fn transfer(&self, model: &Handle, ch: &mut Owned, data: &[u8], pieces: usize) {
        let (id, offset) = (ch.channel().id(), self.data_offset(ch.channel().id()));
        let reads = id.kind == ChannelKind::Read;
        if reads {
            self.submit(ch, data, pieces);
        } else {
            model.memory().write(offset, data).unwrap();
            self.submit(ch, &vec![0xee; data.len()], pieces);
        }
        let finished = self.wait(ch);
        assert_eq!(finished.completion.result, TxResult::NoError, "{id}");
        let mut there: Vec<u8> = finished.buffers.into_iter().flat_map(|b| b.into_inner()).collect();
        if reads {
            there = vec![0; data.len()];
            model.memory().read(offset, &mut there).unwrap();
        }
        assert!(there == data, "{id}: {} bytes differ", data.len());
    }

    /// Waits for a transfer, without looking at the hardware where there are interrupts: a completion
    /// that does not come is a failure.
    pub fn wait(&self, ch: &mut Owned) -> Finished<ClientDma, Vec<u8>, 8> {
        let mut found = None;
        eventually(&format!("no completion: {:?}", ch.channel().stats()), || {
            if self.irq.mode() == IrqMode::Polling {
                let _ = ch.poll_hardware();
            }
            found = ch.pop_finished();
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Closes a channel whose engine rests.
    pub fn close(&self, mut ch: Owned) {
        ch.synchronize(&mut Sleep, 5_000_000).unwrap();
        let channel = ch.into_channel().map_err(|_| "transfers are left").unwrap();
        channel.close().map_err(|(_, error)| error).unwrap();
    }
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Waits in real time.
pub struct Sleep;

impl DelayNs for Sleep {
    fn delay_ns(&mut self, ns: u32) {
        std::thread::sleep(Duration::from_nanos(ns.into()));
    }
}
