use super::*;
use tombolo_hal::fake::{FakeMmio, HeapDma};
use tombolo_hal::irq::PollingOnly;
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::pci::{BarKind, ExtCapabilityId};

/// Bytes behind BAR 2.
const MEMORY: usize = 64;

/// A device of words: an engine's capability, registers and memory.
struct Fake {
    memory: Arc<FakeMmio>,
    dma: HeapDma,
    irq: PollingOnly,
}

impl Opened for Fake {
    type Mmio = Arc<FakeMmio>;
    type Dma = HeapDma;
    type Irq = PollingOnly;
    type Config = FakeConfigSpace;

    fn name(&self) -> &str {
        "fake"
    }
    fn config(&self) -> FakeConfigSpace {
        let vsec = [0x0180_0006, 1, 0x0002_0002, 0, 0];
        FakeConfigSpace::new(0x16c3, 0xedda)
            .with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x2000)
            .with_bar(2, BarKind::Memory64, true, 0x8_0000_0000, 0x1000)
            .with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x100, &vsec)
    }
    fn bar(&self, index: u8) -> Option<Arc<FakeMmio>> {
        (index == MEMORY_BAR).then(|| self.memory.clone())
    }
    fn vectors(&self, _mode: IrqMode) -> u16 {
        0
    }
    fn dma(&self) -> &HeapDma {
        &self.dma
    }
    fn mapped(&self) -> (usize, u64) {
        (self.dma.mapped(), 0)
    }
    fn irq(&self) -> &PollingOnly {
        &self.irq
    }
    fn interrupts(&self) -> u64 {
        0
    }
    fn take_vectors(&mut self, _mode: IrqMode, _want: u16) -> Result<(), RigError> {
        Ok(())
    }
    fn connect(&self, _handler: Handler) -> Result<(), RigError> {
        Ok(())
    }
    fn check(&self) {}
    fn reset(&mut self) -> Result<(), RigError> {
        Ok(())
    }
}

fn hosted() -> Hosted<Fake> {
    let memory = Arc::new(FakeMmio::new(MEMORY));
    (0..MEMORY / 4).for_each(|word| memory.poke32(4 * word, 0xeeee_eeee));
    Hosted::new(Fake { memory, dma: HeapDma::new(), irq: PollingOnly }).unwrap()
}

fn all(hosted: &Hosted<Fake>) -> Vec<u8> {
    (0..MEMORY / 4).flat_map(|word| hosted.device().memory.peek32(4 * word).to_le_bytes()).collect()
}

#[test]
fn the_engine_and_the_place_of_its_memory_come_from_config_space() {
    let hosted = hosted();
    assert_eq!((hosted.found().write_channels, hosted.found().read_channels), (2, 2));
    assert_eq!((hosted.bar_address(2), hosted.bar_address(9), hosted.memory_bytes()), (0x8_0000_0000, 0, 64));
}

#[test]
fn bytes_at_any_offset_go_by_words_and_leave_those_beside_them() {
    for offset in 0..9 {
        for len in 0..12 {
            let hosted = hosted();
            let data: Vec<u8> = (1..=len as u8).collect();
            hosted.device_write(offset, &data).unwrap();
            let mut want = vec![0xee; MEMORY];
            want[offset as usize..offset as usize + len].copy_from_slice(&data);
            assert_eq!(all(&hosted), want, "{len} bytes at {offset}");
            let mut back = vec![0; len];
            hosted.device_read(offset, &mut back).unwrap();
            assert_eq!(back, data, "{len} bytes at {offset}");
        }
    }
}

#[test]
fn nothing_outside_of_the_memory_is_touched() {
    let hosted = hosted();
    for (offset, len) in [(MEMORY as u64 - 3, 4), (MEMORY as u64, 1), (u64::MAX, 2)] {
        let refused = hosted.device_write(offset, &vec![1; len]).unwrap_err();
        assert!(matches!(refused, RigError::OutsideMemory { size: 64, .. }), "{refused}");
        assert!(hosted.device_read(offset, &mut vec![1; len]).is_err());
    }
    assert_eq!(all(&hosted), [0xee; MEMORY]);
}

#[test]
fn the_drivers_accesses_are_counted_and_those_past_it_are_not() {
    let hosted = hosted();
    let memory = hosted.bar(MEMORY_BAR).unwrap();
    memory.write32_relaxed(0, 1);
    memory.write64_relaxed(8, 1);
    memory.read32(0);
    hosted.device_write(0, &[1; 9]).unwrap();
    assert_eq!(hosted.counts().mmio, [0, 0, 1, 2]);
    assert!(hosted.bar(0).is_none());
}
