//! The tutorial's driver against its model, against a mock, and against the tutorial's text.

#[path = "../examples/popcount/driver.rs"]
mod driver;
#[path = "../examples/popcount/model.rs"]
mod model;

use std::sync::Arc;

use driver::{Error, Popcount, Shared};
use mockall::Sequence;
use tombolo_hal::fake::{CountingDelay, FakeMmio, HeapDma};
use tombolo_hal::mmio::MockMmio;
use tombolo_hal::pci::PciError;
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::wait::Timeout;
use tombolo_sim::fabric::{Fabric, Function, MachineConfig, Removal};
use tombolo_sim::host::{SimDelay, SimIrq, SimMmio};

/// A machine with the card in it.
struct Rig {
    function: Function,
    shared: Arc<Shared<SimMmio>>,
    delay: SimDelay,
    _irq: Option<SimIrq>,
}

impl Rig {
    fn new(with_interrupt: bool) -> Self {
        let fabric = Fabric::new(1);
        let machine = fabric.machine(MachineConfig::default()).unwrap();
        let function = machine.attach(Box::new(model::AFTER_RESET)).unwrap();
        let shared = Arc::new(Shared::new(function.mmio(0).unwrap()).unwrap());
        let irq = with_interrupt.then(|| SimIrq::allocate(&function, 1));
        if let Some(irq) = &irq {
            let handler = shared.clone();
            irq.connect(0, Arc::new(move |_vector| handler.on_irq()));
        }
        Self { function, shared, delay: SimDelay::new(&fabric), _irq: irq }
    }

    /// From probe to remove.
    fn count(&mut self, data: &[u8]) -> Result<u32, Error> {
        let config = self.function.config();
        let mut popcount = Popcount::probe(&config, &self.shared, self.function.dma())?;
        let ones = popcount.count_ones(data, &mut self.delay);
        popcount.remove(&config);
        ones
    }
}

#[test]
fn the_card_counts_right() {
    let mut rig = Rig::new(true);
    for length in [1, 7, 64, 4095, 4096] {
        let data: Vec<u8> = (0..length).map(|i| (i * 37 % 251) as u8).collect();
        let ones = data.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(rig.count(&data), Ok(ones));
    }
    assert_eq!(rig.function.counters().interrupts_delivered(), 5);
    assert_eq!(rig.function.counters().quarantined, 0);
    assert_eq!(rig.function.iommu_mapped(), (0, 0));
}

#[test]
fn a_lost_interrupt_costs_time_and_nothing_else() {
    let mut rig = Rig::new(false);
    assert_eq!(rig.count(&[0xff; 100]), Ok(800));
    assert!(rig.function.fabric().now_ns() > 10_000_000);
}

#[test]
fn an_interrupt_of_another_device_does_no_harm() {
    let mut rig = Rig::new(true);
    rig.function.spurious_interrupt(0);
    assert_eq!(rig.count(&[0xff; 100]), Ok(800));
    assert_eq!(rig.function.counters().interrupts_delivered(), 2);
}

#[test]
fn a_length_that_the_card_cannot_do_never_reaches_it() {
    let mut rig = Rig::new(true);
    assert_eq!(rig.count(&[]), Err(Error::Length(0)));
    let before = rig.function.counters().mmio_writes();
    assert_eq!(rig.count(&[1; 4097]), Err(Error::Length(4097)));
    // The one of `probe`, none for the job.
    assert_eq!(rig.function.counters().mmio_writes() - before, 1);
}

#[test]
fn a_refused_read_of_memory_is_a_fault_and_the_next_job_works() {
    let mut rig = Rig::new(true);
    rig.function.iommu_fault_next(1);
    assert_eq!(rig.count(b"lost"), Err(Error::Fault));
    assert_eq!(rig.count(&[1; 3]), Ok(3));
}

#[test]
fn a_card_that_is_pulled_at_any_access_is_gone_and_nothing_else() {
    for accesses in 1..100 {
        let mut rig = Rig::new(true);
        rig.function.surprise_remove(Removal::AfterMmio(accesses));
        match rig.count(&[0xff; 100]) {
            Err(Error::DeviceGone | Error::Pci(PciError::DeviceGone)) => assert!(rig.function.is_removed()),
            // Removal came too late for the job.
            Ok(ones) => {
                assert_eq!(ones, 800);
                assert!(accesses > 10, "a job has more than {accesses} accesses");
                return;
            }
            Err(other) => panic!("pulled at access {accesses}: {other}"),
        }
    }
    panic!("a job has no hundred accesses");
}

#[test]
fn a_slot_without_a_card_and_another_card_are_told_apart() {
    let mut rig = Rig::new(true);
    rig.function.surprise_remove(Removal::Now);
    assert_eq!(rig.count(b"any"), Err(Error::Pci(PciError::Absent { id: u32::MAX })));

    let shared = Shared::new(FakeMmio::new(0x1000)).unwrap();
    let vga = FakeConfigSpace::new(0x1234, 0x1111);
    assert_eq!(Popcount::probe(&vga, &shared, HeapDma::new()).err(), Some(Error::Unknown(0)));
    assert!(Shared::new(FakeMmio::new(0x18)).is_err(), "a BAR too small for the registers");
}

/// What the mock sees, in order.
enum Step {
    Read(usize, u32),
    Write(usize, u32),
    /// A write of any value: the address of the memory is the heap's choice.
    WriteAny(usize),
}
use Step::{Read, Write, WriteAny};

fn mock(steps: impl IntoIterator<Item = Step>) -> MockMmio {
    let (mut mock, mut order) = (MockMmio::sized(), Sequence::new());
    for step in steps {
        let (at, wanted) = match step {
            Read(at, value) => {
                let read = mock.expect_read32().times(1).in_sequence(&mut order);
                read.withf(move |offset| *offset == at).return_const(value);
                continue;
            }
            Write(at, value) => (at, Some(value)),
            WriteAny(at) => (at, None),
        };
        let write = mock.expect_write32().times(1).in_sequence(&mut order);
        let is_it = move |offset: &usize, value: &u32| *offset == at && *value == wanted.unwrap_or(*value);
        write.withf(is_it).return_const(());
    }
    mock
}

#[test]
fn the_handler_clears_what_it_read_and_leaves_other_devices_alone() {
    let mock = mock([Read(0x08, 3), Write(0x08, 3), Read(0x08, 0), Read(0x08, u32::MAX)]);
    let shared = Shared::new(mock).unwrap();
    (0..3).for_each(|_| shared.on_irq());
}

const PROBE: [Step; 3] = [Read(0x00, 0x504f_5043), Read(0x04, 0), Write(0x04, 1)];

#[test]
fn a_job_is_written_in_the_order_of_the_data_sheet() {
    let idle = [Read(0x04, 1), Read(0x08, 0)];
    let job = [WriteAny(0x0c), WriteAny(0x10), Write(0x14, 3)];
    // Nobody calls `on_irq`, so the driver looks for itself when the time is over.
    let late = [Read(0x00, 0x504f_5043), Read(0x08, 1), Write(0x08, 1), Read(0x18, 7)];
    let steps = PROBE.into_iter().chain(idle).chain(job).chain(late);

    let (dma, config) = (HeapDma::new(), FakeConfigSpace::new(0x1234, 0x9c07));
    let shared = Shared::new(mock(steps)).unwrap();
    let mut popcount = Popcount::probe(&config, &shared, dma.clone()).unwrap();
    assert_eq!(popcount.count_ones(b"abc", &mut CountingDelay::default()), Ok(7));
    popcount.remove(&config);
    assert_eq!(dma.allocated(), 0);
}

#[test]
fn memory_of_a_job_that_never_ends_is_not_touched() {
    let mut mock = mock(PROBE);
    mock.expect_read32().withf(|at| *at == 0x04).return_const(0x8000_0001u32);
    mock.expect_read32().withf(|at| *at == 0x00).return_const(0x504f_5043u32);
    let config = FakeConfigSpace::new(0x1234, 0x9c07);
    let shared = Shared::new(mock).unwrap();
    let mut popcount = Popcount::probe(&config, &shared, HeapDma::new()).unwrap();
    let mut delay = CountingDelay::default();
    let late = Timeout { waited_us: 10_000 };
    assert_eq!(popcount.count_ones(b"abc", &mut delay), Err(Error::Timeout(late)));
    assert_eq!(delay.waited_ns, 10_000_000);
    popcount.remove(&config);
}

const DRIVER: &str = include_str!("../examples/popcount/driver.rs");
const MODEL: &str = include_str!("../examples/popcount/model.rs");

/// The Rust code blocks of the tutorial.
fn blocks() -> Vec<&'static str> {
    let text = include_str!("../../docs/tutorial.md");
    let parts = text.split("```rust\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn the_tutorial_shows_the_code_that_is_tested() {
    let sources = [DRIVER, MODEL, include_str!("../examples/popcount/main.rs"), include_str!("tutorial.rs")];
    for block in blocks() {
        assert!(sources.iter().any(|source| source.contains(block)), "this is nowhere in the code:\n{block}");
    }
}

#[test]
fn the_tutorial_shows_all_of_driver_and_model_and_that_is_under_150_lines() {
    let shown = blocks().concat();
    let code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines: Vec<&str> = [DRIVER, MODEL].iter().flat_map(|source| source.lines().filter(code)).collect();
    for line in &lines {
        assert!(shown.contains(line), "not shown: {line}");
    }
    assert!(lines.len() < 150, "driver and model have {} lines", lines.len());
}
