//! DMA: IOMMU, coherent and streaming memory, peer to peer.

mod common;

use common::*;
use proptest::prelude::*;
use tombolo_hal::dma::{Coherent, DataDirection, DmaBackend, DmaConstraints, Streaming};
use tombolo_hal::error::{Error, ErrorKind};
use tombolo_hal::mmio::Mmio;
use tombolo_sim::fabric::{Access, Function, IommuError};
use tombolo_sim::host::{SimDma, SimDmaError};

const ANY: DmaConstraints = DmaConstraints::any();

fn stream(
    function: &Function,
    data: Vec<u8>,
    direction: DataDirection,
) -> Streaming<SimDma, Vec<u8>, tombolo_hal::dma::Prepared> {
    Streaming::prepare(function.dma(), data, direction, &ANY).unwrap()
}

#[test]
fn a_device_copies_between_a_driver_s_buffers() {
    let world = World::new();
    let data: Vec<u8> = (0..=255).cycle().take(5001).collect();
    let source = stream(&world.function, data.clone(), DataDirection::ToDevice);
    let target = stream(&world.function, vec![0; 5001], DataDirection::FromDevice);
    let (from, to) = (source.device_address().value(), target.device_address().value());
    assert!(from > u64::from(u32::MAX), "a 64-bit device gets 64-bit addresses");
    assert_eq!(world.copy(from, to, 5001), DONE);
    assert_eq!(source.cancel(), data);
    assert_eq!(target.cancel(), data);
    let counters = world.function.counters();
    assert_eq!((counters.dma_reads, counters.dma_read_bytes), (1, 5001));
    assert_eq!((counters.dma_writes, counters.dma_write_bytes), (1, 5001));
    assert_eq!(world.function.iommu_mapped(), (0, 0));
}

#[test]
fn a_request_after_unmapping_faults_and_is_recorded() {
    let world = World::new();
    let source = stream(&world.function, vec![1; 64], DataDirection::ToDevice);
    let target = stream(&world.function, vec![0; 64], DataDirection::FromDevice);
    let (from, to) = (source.device_address().value(), target.device_address().value());
    world.start(from, to, 64, 0);
    let data = target.cancel();
    world.fabric.advance(2 * DELAY_NS);
    assert_eq!(world.regs.read32(STATUS), FAILED);
    assert_eq!(data, vec![0; 64]);
    let faults = world.function.iommu_faults();
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].address, faults[0].is_write, faults[0].is_permission), (to, true, false));
    assert!(faults[0].time_ns > DELAY_NS && faults[0].time_ns <= world.fabric.now_ns());
    let again = stream(&world.function, vec![0; 64], DataDirection::FromDevice);
    assert_ne!(again.device_address().value(), to, "addresses come round late");
    source.cancel();
    again.cancel();
}

#[test]
fn a_device_keeps_to_the_direction_and_the_length() {
    let world = World::new();
    let source = stream(&world.function, vec![1; 64], DataDirection::ToDevice);
    let target = stream(&world.function, vec![0; 64], DataDirection::FromDevice);
    let (from, to) = (source.device_address().value(), target.device_address().value());
    assert_eq!(world.copy(from, from, 4), FAILED, "write to what is read-only");
    assert_eq!(world.copy(to, to, 4), FAILED, "read of what is write-only");
    assert_eq!(world.copy(from, to, 65), FAILED, "a byte too far");
    let faults = world.function.iommu_faults();
    let seen: Vec<_> = faults.iter().map(|fault| (fault.address, fault.is_permission)).collect();
    assert_eq!(seen, [(from, true), (to, true), (from + 64, false)]);
    assert_eq!(world.function.counters().iommu_faults, 3);
    assert_eq!(source.cancel(), vec![1; 64]);
    assert_eq!(target.cancel(), vec![0; 64]);
}

#[test]
fn coherent_memory_is_zeroed_shared_and_given_back() {
    let world = World::new();
    let free = world.machine.free_ram();
    let ring = Coherent::new(world.function.dma(), 256, &ANY.aligned(4096)).unwrap();
    let address = ring.device_address();
    assert!(address.is_aligned(4096));
    ring.write32(0, 0x1122_3344);
    assert_eq!(world.copy(address.value(), address.value() + 128, 4), DONE);
    assert_eq!(ring.read32(128), 0x1122_3344);
    ring.free();
    assert_eq!((world.machine.free_ram(), world.function.iommu_mapped()), (free, (0, 0)));
    let ring = Coherent::new(world.function.dma(), 256, &ANY).unwrap();
    assert_eq!((ring.read32(0), ring.read32(128)), (0, 0));
    ring.free();
}

#[test]
fn quarantined_memory_stays_mapped_and_is_counted() {
    let world = World::new();
    let ring = Coherent::new(world.function.dma(), 256, &ANY).unwrap();
    let address = ring.device_address().value();
    ring.quarantine();
    assert_eq!(world.copy(address, address + 64, 4), DONE);
    let counters = world.function.counters();
    assert_eq!((counters.quarantined, counters.quarantined_bytes), (1, 256));
    assert_eq!(world.function.dma().quarantined(), 1);
    let next = Coherent::new(world.function.dma(), 256, &ANY).unwrap();
    assert_ne!(next.device_address().value(), address);
    next.free();
}

#[test]
fn what_cannot_be_had_is_a_typed_error() {
    let world = World::new();
    let dma = world.function.dma();
    let error =
        |size, limits: DmaConstraints| Coherent::new(dma.clone(), size, &limits).map(drop).unwrap_err();
    assert_eq!(error(0, ANY), SimDmaError::InvalidInput { size: 0 });
    assert_eq!(error(8, DmaConstraints { align: 3, ..ANY }), SimDmaError::InvalidInput { size: 8 });
    assert_eq!(error(8, DmaConstraints { boundary: 3, ..ANY }), SimDmaError::InvalidInput { size: 8 });
    let huge = 65 << 20;
    assert_eq!(error(huge, ANY), SimDmaError::OutOfMemory { size: huge });
    let narrow = DmaConstraints { mask: 0xfffff, ..ANY };
    assert_eq!(error(4096, narrow), SimDmaError::OutOfAddresses { size: 4096 });
    assert_eq!(error(4096, narrow).kind(), ErrorKind::NoSpace);
    world.function.refuse_mappings(1);
    assert!(matches!(error(8, ANY), SimDmaError::Iommu(IommuError::Refused { len: 8, .. })));
    assert_eq!(world.machine.free_ram(), 64 << 20, "a failure takes nothing");
    Coherent::new(dma, 8, &ANY).unwrap().free();
    world.function.refuse_mapping_range(Some((0, u64::MAX)));
    let error = Streaming::prepare(world.function.dma(), vec![5; 3], DataDirection::ToDevice, &ANY);
    assert_eq!(error.unwrap_err().memory, [5; 3]);
}

#[test]
fn bus_mastering_is_needed() {
    use tombolo_hal::pci::command;
    let world = World::new();
    let ring = Coherent::new(world.function.dma(), 64, &ANY).unwrap();
    let address = ring.device_address().value();
    command::set_bus_master(&world.function.config(), false).unwrap();
    assert_eq!(world.copy(address, address, 4), FAILED);
    assert!(world.function.iommu_faults().is_empty());
    command::set_bus_master(&world.function.config(), true).unwrap();
    assert_eq!(world.copy(address, address, 4), DONE);
    ring.free();
}

#[test]
fn a_request_spans_neighbouring_mappings() {
    let world = World::new();
    let (base, ram) = (world.machine.ram_base(), world.machine.ram());
    world.function.iommu_map(0x1000, base + 0x100, 6, Access::ReadWrite).unwrap();
    world.function.iommu_map(0x1006, base + 0x203, 6, Access::ReadWrite).unwrap();
    ram.write(0x300, b"hello, world").unwrap();
    world.function.iommu_map(0x9000, base + 0x300, 12, Access::Read).unwrap();
    assert_eq!(world.copy(0x9000, 0x1000, 12), DONE);
    let mut parts = [[0; 6]; 2];
    ram.read(0x100, &mut parts[0]).unwrap();
    ram.read(0x203, &mut parts[1]).unwrap();
    assert_eq!(&parts.concat(), b"hello, world");
    world.function.iommu_unmap(0x1006, 6).unwrap();
    assert_eq!(world.copy(0x9000, 0x1000, 12), FAILED);
    assert_eq!(world.function.iommu_faults()[0].address, 0x1006);
}

#[test]
fn a_mapping_to_nowhere_is_an_unsupported_request() {
    let world = World::new();
    let end = world.machine.ram_base() + (64 << 20);
    world.function.iommu_map(0x1000, end - 4, 8, Access::ReadWrite).unwrap();
    assert_eq!(world.copy(0x1000, 0x1000, 4), DONE);
    assert_eq!(world.copy(0x1000, 0x1000, 5), FAILED);
}

#[test]
fn devices_reach_each_other_s_bars() {
    let world = World::new();
    let peer = world.machine.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    peer.enable();
    let (memory, registers) = (peer.mmio(2).unwrap(), peer.mmio(0).unwrap());
    let memory_at = peer.bar_address(2).unwrap();
    let registers_at = peer.bar_address(0).unwrap();
    memory.write32(0, 0xfeed_beef);
    assert_eq!(world.copy(memory_at, memory_at + 0x10, 4), DONE);
    assert_eq!(memory.read32(0x10), 0xfeed_beef);
    assert_eq!(world.copy(memory_at, registers_at + SCRATCH as u64, 4), DONE);
    assert_eq!(registers.read32(SCRATCH), 0xfeed_beef);
    assert_eq!(world.copy(registers_at + ID as u64, memory_at + 0x21, 4), DONE);
    assert_eq!(memory.read32(0x20), ID_VALUE << 8);
    assert_eq!(memory.read32(0x24), ID_VALUE >> 24);
    let counters = peer.counters();
    assert_eq!(counters.bars[0].writes, 0, "only the host's accesses are counted");
}

#[test]
fn a_mapping_may_lead_to_a_bar() {
    let world = World::new();
    let peer = world.machine.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    peer.enable();
    peer.mmio(2).unwrap().write32(8, 77);
    world.function.iommu_map(0x5000, peer.bar_address(2).unwrap(), 64, Access::ReadWrite).unwrap();
    assert_eq!(world.copy(0x5008, 0x5000, 4), DONE);
    assert_eq!(peer.mmio(2).unwrap().read32(0), 77);
}

#[test]
fn a_device_reaches_its_own_memory_but_not_its_own_registers() {
    let world = World::new();
    let memory = world.function.bar_address(2).unwrap();
    world.function.mmio(2).unwrap().write32(0, 5);
    assert_eq!(world.copy(memory, memory + 4, 4), DONE);
    assert_eq!(world.function.mmio(2).unwrap().read32(4), 5);
    let registers = world.function.bar_address(0).unwrap();
    assert_eq!(world.copy(memory, registers + SCRATCH as u64, 4), FAILED);
}

#[test]
fn two_machines_have_nothing_in_common() {
    let world = World::new();
    let other = world.fabric.machine(Default::default()).unwrap();
    let far = other.attach(Box::new(Copier::new(Shape::default()))).unwrap();
    far.enable();
    assert_eq!(far.bar_address(2), world.function.bar_address(2), "each its own bus");
    world.function.mmio(2).unwrap().write32(0, 1);
    assert_eq!(far.mmio(2).unwrap().read32(0), 0);
    world.machine.ram().write_u32(0, 9).unwrap();
    assert_eq!(other.ram().read_u32(0), Ok(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn addresses_keep_to_the_constraints_and_never_overlap(
        requests in prop::collection::vec((1_usize..20_000, 0_u32..17, 0_u32..20, 28_u32..65), 1..40)
    ) {
        let world = World::new();
        let mut held: Vec<(u64, u64, Coherent<SimDma>)> = Vec::new();
        for (index, (size, align, boundary, bits)) in requests.into_iter().enumerate() {
            let boundary = if boundary < 12 { 0 } else { 1 << boundary };
            let mask = u64::MAX >> (64 - bits);
            let limits = DmaConstraints { mask, align: 1 << align, boundary, ..ANY };
            let memory = Coherent::new(world.function.dma(), size, &limits).unwrap();
            let (start, end) = (memory.device_address().value(), memory.device_address().value() + size as u64);
            prop_assert!(limits.allow(memory.device_address(), size as u64));
            if boundary >= size as u64 {
                prop_assert_eq!(start / boundary, (end - 1) / boundary);
            }
            prop_assert!(held.iter().all(|(from, to, _)| end <= *from || *to <= start));
            prop_assert!(end <= 0xfee0_0000 || start >= 0xfef0_0000);
            held.push((start, end, memory));
            if index % 3 == 2 {
                held.swap_remove(index % held.len()).2.free();
            }
        }
        held.into_iter().for_each(|(_, _, memory)| memory.free());
        prop_assert_eq!(world.function.iommu_mapped(), (0, 0));
        prop_assert_eq!(world.machine.free_ram(), 64 << 20);
    }
}
