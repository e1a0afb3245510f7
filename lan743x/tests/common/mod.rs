//! Controllers of the simulator with the driver on them, joined by a wire.
#![allow(dead_code)] // each test binary uses its own part

use std::sync::{Arc, Mutex};

use lan743x::{
    Config, Filter, IrqReport, LinkMode, Moderation, Nic, RingMemory, RxRing, Shared, TxRing, TxSlot, Vectors,
};
use tombolo_hal::dma::{DmaConstraints, InFlight, Streaming};
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::Window;
use tombolo_hal::net::{OwnedRx, OwnedTx, RxBuffer, RxFrameInfo, TxOffload, TxQueue};
use tombolo_sim::fabric::{Fabric, Function, Machine, MachineConfig};
use tombolo_sim::host::{SimDelay, SimDma, SimIrq, SimMmio};
use tombolo_sim::lan743x::wire::{Port, Wire, WireParams};
use tombolo_sim::lan743x::{Handle, Lan743x, Params};

pub type State = Shared<SimMmio>;
pub type Buffer = Streaming<SimDma, Vec<u8>, InFlight>;
pub type Tx = TxRing<Arc<State>, SimDma, Vec<TxSlot<Buffer>>>;
pub type Rx = RxRing<Arc<State>, SimDma, Vec<RxBuffer<Buffer>>>;

/// How a station is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub config: Config,
    pub irq: IrqMode,
    pub ring: usize,
    /// Bytes of receive buffers; 0: as large as a frame.
    pub buffer: usize,
    pub pad: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self { config: Config::default(), irq: IrqMode::MsiX, ring: 64, buffer: 0, pad: 2 }
    }
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub queue: u8,
    pub bytes: Vec<u8>,
    pub info: RxFrameInfo,
}

/// A machine with a controller and its driver.
pub struct Station {
    pub fabric: Fabric,
    pub machine: Machine,
    pub function: Function,
    pub handle: Handle,
    pub delay: SimDelay,
    pub dma: SimDma,
    pub irq: SimIrq,
    pub shared: Arc<State>,
    pub nic: Nic<Arc<State>>,
    pub vectors: Vectors,
    pub tx: Vec<OwnedTx<Tx, SimDma>>,
    pub rx: Vec<OwnedRx<Rx, SimDma, Vec<u8>, 8>>,
    pub events: Arc<Mutex<IrqReport>>,
    pub sent: usize,
    setup: Setup,
}

impl Station {
    /// Brings a controller up to where frames could go, but for the link.
    pub fn new(fabric: &Fabric, params: Params, port: Port, setup: Setup) -> Self {
        let machine = fabric.machine(MachineConfig { ram_size: 64 << 20, ..Default::default() }).unwrap();
        let mut model = Lan743x::new(params);
        model.connect(port);
        let handle = model.handle();
        let function = machine.attach(Box::new(model)).unwrap();
        function.enable();
        let irq = SimIrq::allocate_mode(&function, setup.irq, 9).unwrap();
        let shared = Arc::new(Shared::new(Window::new(function.mmio(0).unwrap())).unwrap());
        let mut delay = SimDelay::new(fabric);
        let mut nic = Nic::new(shared.clone(), setup.config, &mut delay).unwrap();
        let events = Arc::new(Mutex::new(IrqReport::default()));
        for vector in 0..irq.vectors() {
            let (handler, events) = (shared.clone(), events.clone());
            irq.connect(
                vector,
                Arc::new(move |_| {
                    let report = handler.on_irq(vector);
                    let mut all = events.lock().unwrap();
                    all.rx |= report.rx;
                    all.tx |= report.tx;
                    all.ptp |= report.ptp;
                }),
            );
        }
        let vectors = nic.connect(&irq, Moderation::default()).unwrap();
        nic.test_interrupt(&mut delay).unwrap();
        let dma = function.dma();
        let mut station = Self {
            fabric: fabric.clone(),
            machine,
            function,
            handle,
            delay,
            dma,
            irq,
            shared,
            nic,
            vectors,
            tx: vec![],
            rx: vec![],
            events,
            sent: 0,
            setup,
        };
        station.open();
        station
    }

    fn constraints() -> DmaConstraints {
        DmaConstraints { max_segment: lan743x::RX_BUFFER_MAX, ..DmaConstraints::any() }
    }

    fn buffer_size(&self) -> usize {
        if self.setup.buffer == 0 { self.nic.buffer_size(self.setup.pad) } else { self.setup.buffer }
    }

    /// Opens all rings and turns the MAC on.
    pub fn open(&mut self) {
        let chip = self.nic.identity().chip;
        let size = self.buffer_size();
        for channel in 0..chip.rx_channels() {
            let ring = RingMemory::new(self.dma.clone(), self.setup.ring, self.setup.config.spacing).unwrap();
            let buffer = |_| RxBuffer::owned(self.dma.clone(), vec![0; size], &Self::constraints()).unwrap();
            let buffers: Vec<_> = (0..self.setup.ring).map(buffer).collect();
            let ring = RxRing::open(&self.nic, channel, ring, buffers, self.setup.pad, &mut self.delay)
                .map_err(|(error, _)| error)
                .unwrap();
            self.rx.push(OwnedRx::new(ring, self.dma.clone(), Self::constraints()));
        }
        for channel in 0..chip.tx_channels() {
            let ring = RingMemory::new(self.dma.clone(), self.setup.ring, self.setup.config.spacing).unwrap();
            let slots = (0..self.setup.ring).map(|_| TxSlot::default()).collect();
            let ring = TxRing::open(&self.nic, channel, ring, slots, &mut self.delay)
                .map_err(|(error, _)| error)
                .unwrap();
            self.tx.push(OwnedTx::new(ring, self.dma.clone(), DmaConstraints::any()));
        }
        let filter = Filter { checksums: true, ..Filter::default() };
        self.nic.set_filter(&filter, &mut self.delay).unwrap();
        self.nic.start();
    }

    /// Starts the default link and waits until it is up.
    pub fn link_up(&mut self) {
        let mode = self.nic.default_link(&mut self.delay).unwrap();
        self.start_link(mode);
    }

    pub fn start_link(&mut self, mode: LinkMode) {
        self.nic.start_link(mode, &mut self.delay).unwrap();
        for _ in 0..100 {
            if self.nic.poll_link(&mut self.delay).unwrap().is_some_and(|state| state.is_up()) {
                return;
            }
            self.fabric.advance(100_000_000);
        }
        panic!("no link");
    }

    /// Sends a frame on a transmit channel; true if it was taken.
    pub fn send_on(&mut self, channel: usize, bytes: &[u8], offload: TxOffload) -> bool {
        self.tx[channel].push(bytes.to_vec(), offload).is_ok()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        assert!(self.send_on(0, bytes, TxOffload::default()), "not taken");
        self.tx[0].kick();
    }

    /// Polls what interrupts asked for, or everything without interrupts, as long as there is something.
    pub fn work(&mut self) -> Vec<Received> {
        let mut received = vec![];
        for _ in 0..10_000 {
            let events = std::mem::take(&mut *self.events.lock().unwrap());
            let polled = self.vectors == Vectors::Polling;
            let (mut rx, mut tx) = if polled { (0xf, 0xf) } else { (events.rx, events.tx) };
            let before = received.len();
            for queue in 0..self.rx.len() {
                while rx >> queue & 1 != 0 {
                    self.poll_rx(queue, &mut received);
                    if !self.rx[queue].rearm() {
                        rx &= !(1 << queue);
                    }
                }
            }
            for channel in 0..self.tx.len() {
                while tx >> channel & 1 != 0 {
                    self.sent += self.tx[channel].reap(usize::MAX, |_, _| {});
                    if !self.tx[channel].queue_mut().rearm() {
                        tx &= !(1 << channel);
                    }
                }
            }
            let more = {
                let events = self.events.lock().unwrap();
                events.rx | events.tx != 0
            };
            if received.len() == before && !more {
                return received;
            }
        }
        panic!("work without end");
    }

    pub fn poll_rx(&mut self, queue: usize, received: &mut Vec<Received>) {
        let size = self.buffer_size();
        loop {
            let progress = self.rx[queue].poll(
                64,
                || Some(vec![0; size]),
                |frame| {
                    let mut bytes = vec![0; frame.info.length];
                    assert_eq!(frame.copy_to(&mut bytes), bytes.len(), "{:?}", frame.info);
                    received.push(Received { queue: queue as u8, bytes, info: frame.info });
                },
            );
            if !progress.more {
                return;
            }
        }
    }

    /// Stops everything and takes all memory back.
    pub fn close(mut self) -> Function {
        for tx in self.tx.drain(..) {
            let mut ring = tx.into_queue();
            ring.stop(&mut self.delay).unwrap();
            ring.release(&mut Nobody).ring.free();
        }
        for rx in self.rx.drain(..) {
            let mut ring = rx.into_queue();
            ring.stop(&mut self.delay).unwrap();
            let closed = ring.release();
            closed.ring.free();
            closed.slots.into_iter().for_each(|buffer| drop(buffer.reclaim()));
        }
        self.nic.stop(&mut self.delay).unwrap();
        self.nic.disconnect();
        self.function
    }
}

pub struct Nobody;

impl<T> tombolo_hal::net::TxSink<T> for Nobody {
    fn sent(&mut self, _: tombolo_hal::net::TxDone<T>) {}
}

/// Two stations and the wire between.
pub struct Pair {
    pub fabric: Fabric,
    pub wire: Wire,
    pub a: Station,
    pub b: Station,
}

impl Pair {
    pub fn new(a: Params, b: Params, setup: Setup) -> Self {
        Self::with(a, b, setup, setup, WireParams::default())
    }

    pub fn with(a: Params, b: Params, setup_a: Setup, setup_b: Setup, wire: WireParams) -> Self {
        let fabric = Fabric::new(1);
        let (one, two) = Wire::pair(wire);
        let wire = one.wire();
        let poll = |params: Params| Params { wire_poll_ns: 2_000, ..params };
        let mut a = Station::new(&fabric, poll(a), one, setup_a);
        let mut b = Station::new(&fabric, poll(b), two, setup_b);
        a.link_up();
        b.link_up();
        Self { fabric, wire, a, b }
    }

    /// Lets time pass and both drivers work; what came to A and to B.
    pub fn run(&mut self, ns: u64) -> (Vec<Received>, Vec<Received>) {
        let (mut to_a, mut to_b) = (vec![], vec![]);
        for _ in 0..ns.div_ceil(10_000) {
            self.fabric.advance(10_000);
            to_a.extend(self.a.work());
            to_b.extend(self.b.work());
        }
        (to_a, to_b)
    }
}

/// A broadcast frame of `length` bytes with a payload of its own.
pub fn frame(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, seed, 0x88, 0xb5]);
    bytes.extend((14..length).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)));
    bytes
}
