//! Both sides against an implementation of the protocol that is not ours: crate `vfio_user`.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // the raw half of `DmaBackend`

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::time::Duration;

use common::raw::{CONFIG, event, memfd};
use common::*;
use tombolo_hal::dma::{Coherent, DataDirection, DmaBackend, DmaConstraints};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::{ConfigSpace as _, regs};
use tombolo_sim::config::{Bar, ConfigSpace, ConfigSpaceBuilder, Msi, Msix};
use tombolo_sim::device::Width;
use tombolo_sim::dw_edma::{Format, presets};
use tombolo_vfio_user::client::Device;
use tombolo_vfio_user::server::ServerOptions;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info, vfio_region_sparse_mmap_area,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion, SparseArea};

const PAGE: u64 = 4096;
/// Bytes behind BAR 2; all but the first page can be mapped.
const MEMORY: u64 = 4 * PAGE;

/// Registers of BAR 0.
mod register {
    pub const ADDRESS: u64 = 0;
    pub const LEN: u64 = 8;
    /// Inverts the bytes at the address, and fires the vector that is written.
    pub const GO: u64 = 0x10;
    pub const SUM: u64 = 0x18;
}

/// A device that inverts memory.
struct Inverter {
    config: ConfigSpace,
    registers: BTreeMap<u64, u32>,
    memory: File,
    maps: BTreeMap<u64, (u64, u64, File)>,
    vectors: [Option<File>; 2],
}

impl Inverter {
    fn new(memory: File) -> Self {
        let mut builder = ConfigSpaceBuilder::new();
        builder
            .identity(0x1de5, 0x0bad)
            .bar(Bar::bits32(0, 0x1000))
            .bar(Bar::bits64(2, MEMORY).memory())
            .bar(Bar::bits32(4, 0x2000))
            .msi(Msi { vectors: 1, per_vector_mask: false })
            .msix(Msix { vectors: 2, table_bar: 4, table_offset: 0, pba_bar: 4, pba_offset: 0x1000 });
        Self {
            config: builder.build().unwrap(),
            registers: BTreeMap::new(),
            memory,
            maps: BTreeMap::new(),
            vectors: [None, None],
        }
    }

    fn long(&self, register: u64) -> u64 {
        let word = |offset| u64::from(self.registers.get(&offset).copied().unwrap_or(0));
        word(register) | word(register + 4) << 32
    }

    fn go(&mut self, vector: u32) -> io::Result<()> {
        let (address, mut data) = (self.long(register::ADDRESS), vec![0; self.long(register::LEN) as usize]);
        let (start, (size, offset, file)) =
            self.maps.range(..=address).next_back().ok_or(io::ErrorKind::NotFound)?;
        assert!(address - start + data.len() as u64 <= *size);
        let at = offset + address - start;
        file.read_exact_at(&mut data, at)?;
        self.registers.insert(register::SUM, data.iter().map(|byte| u32::from(*byte)).sum());
        data.iter_mut().for_each(|byte| *byte = !*byte);
        file.write_all_at(&data, at)?;
        match &mut self.vectors[vector as usize] {
            Some(event) => event.write_all(&1u64.to_ne_bytes()),
            None => Ok(()),
        }
    }
}

impl ServerBackend for Inverter {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            0 => {
                assert_eq!(data.len(), 4);
                let value = self.registers.get(&offset).copied().unwrap_or(0);
                data.copy_from_slice(&value.to_le_bytes());
            }
            2 => self.memory.read_exact_at(data, offset)?,
            CONFIG => {
                for (at, byte) in (offset..).zip(data) {
                    *byte = self.config.read(at as u16, Width::W8) as u8;
                }
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match region {
            0 => {
                let value = u32::from_le_bytes(data.try_into().map_err(|_| io::ErrorKind::InvalidInput)?);
                if offset == register::GO {
                    return self.go(value);
                }
                self.registers.insert(offset, value);
            }
            2 => self.memory.write_all_at(data, offset)?,
            CONFIG => {
                let width = [Width::W8, Width::W16, Width::W32].into_iter().find(|w| w.bytes() == data.len());
                let value = data.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
                self.config.write(offset as u16, width.ok_or(io::ErrorKind::InvalidInput)?, value);
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        self.maps.insert(address, (size, offset, fd.ok_or(io::ErrorKind::InvalidInput)?));
        Ok(())
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let removed = self.maps.remove(&address);
        assert_eq!(removed.map(|(found, ..)| found), Some(size));
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        // Everything: the client has to give the BARs their addresses again.
        self.config.reset();
        self.registers.clear();
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, flags: u32, start: u32, count: u32, fds: Vec<File>) -> io::Result<()> {
        if flags != VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER {
            self.vectors = [None, None];
            return Ok(());
        }
        assert!(index == 1 || index == 2);
        assert_eq!(fds.len(), count as usize);
        for (vector, fd) in (start as usize..).zip(fds) {
            self.vectors[vector] = Some(fd);
        }
        Ok(())
    }
}

fn regions(memory: &File) -> Vec<ServerRegion> {
    let sizes = |index| match index {
        0 => PAGE,
        2 => MEMORY,
        4 => 2 * PAGE,
        CONFIG => PAGE,
        _ => 0,
    };
    let region = |index| {
        let access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        let mapped = index == 2;
        let flags = if mapped { access | VFIO_REGION_INFO_FLAG_MMAP } else { access };
        let area = vfio_region_sparse_mmap_area { offset: PAGE, size: MEMORY - PAGE };
        ServerRegion {
            region_info: vfio_region_info {
                argsz: 32,
                flags,
                index,
                size: sizes(index),
                ..Default::default()
            },
            sparse_areas: if mapped { vec![SparseArea { area }] } else { Vec::new() },
            mmap_fd: mapped.then(|| memory.as_raw_fd()),
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

fn irqs() -> Vec<IrqInfo> {
    let count = |index| match index {
        1 => 1,
        2 => 2,
        _ => 0,
    };
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count: count(index) })
        .collect()
}

/// Runs `client` against their server, which must end when its client has gone.
fn against_theirs(client: impl FnOnce(Device, &File)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("theirs.sock");
    let memory = memfd(MEMORY);
    let server = vfio_user::Server::new(&path, true, irqs(), regions(&memory)).unwrap();
    let mut backend = Inverter::new(memory.try_clone().unwrap());
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            server.run(&mut backend).unwrap();
            (backend.maps.len(), backend.vectors.iter().flatten().count())
        });
        client(Device::connect(&path).unwrap(), &memory);
        assert_eq!(serving.join().unwrap(), (0, 0), "maps and vectors are given back");
    });
}

#[test]
fn our_client_finds_bars_and_configuration_space_of_their_server() {
    against_theirs(|device, memory| {
        let config = device.config();
        assert_eq!((config.read16(regs::VENDOR_ID), config.read16(2)), (0x1de5, 0x0bad));
        assert_eq!((device.vectors(IrqMode::MsiX), device.vectors(IrqMode::Msi)), (2, 1));
        assert_eq!(device.vectors(IrqMode::Intx), 0);
        device.enable().unwrap();
        let registers = device.bar(0).unwrap();
        registers.write32(0x80, 0x1234_5678);
        assert_eq!(registers.read32(0x80), 0x1234_5678);
        // Trapped in the first page, mapped in the others.
        let bar = device.bar(2).unwrap();
        for offset in [0, 4092, 4096, MEMORY as usize - 4] {
            bar.write32(offset, offset as u32 | 1);
            bar.write8(offset + 3, 0x55);
            let mut there = [0; 4];
            memory.read_exact_at(&mut there, offset as u64).unwrap();
            let expected = (offset as u32 | 1) & 0x00ff_ffff | 0x5500_0000;
            assert_eq!((u32::from_le_bytes(there), bar.read32(offset)), (expected, expected));
        }
        assert_eq!(bar.read32(MEMORY as usize), u32::MAX);
    });
}

#[test]
fn their_server_reaches_our_memory_and_fires_our_vectors() {
    against_theirs(|device, _| {
        device.enable().unwrap();
        let registers = device.bar(0).unwrap();
        let irq = device.interrupts(IrqMode::MsiX, 2).unwrap();
        let invert = |address: u64, len: usize, vector: u32| {
            registers.write32(register::ADDRESS as usize, address as u32);
            registers.write32(register::ADDRESS as usize + 4, (address >> 32) as u32);
            registers.write32(register::LEN as usize, len as u32);
            registers.write32(register::GO as usize, vector);
            let mut fired = Vec::new();
            while fired.is_empty() {
                assert!(irq.wait(LIMIT, &mut |vector| fired.push(vector)).unwrap(), "no interrupt");
            }
            assert_eq!(fired, [vector as u16]);
            registers.read32(register::SUM as usize)
        };
        // A buffer of the driver's, at a place that the device cannot see by itself.
        let data = pattern(1, 100_001);
        let sum: u32 = data.iter().map(|byte| u32::from(*byte)).sum();
        let (dma, mut back) = (device.dma(), data.clone());
        let (start, way) = (NonNull::new(back.as_mut_ptr()).unwrap(), DataDirection::Bidirectional);
        // SAFETY: nobody touches the buffer until it is unmapped, below.
        let region = unsafe { dma.map_streaming(start, back.len(), way, &DmaConstraints::any()) }.unwrap();
        assert_eq!(invert(region.device.value(), data.len(), 1), sum);
        // SAFETY: it is mapped, and the device is through with it: the interrupt said so.
        unsafe { dma.unmap_streaming(region) };
        assert!(back.iter().zip(&data).all(|(there, before)| *there == !before));
        // Memory that both see all the time.
        let coherent = Coherent::<_>::new(device.dma(), 8192, &DmaConstraints::any()).unwrap();
        coherent.write32(4096, 0x0102_0304);
        assert_eq!(invert(coherent.device_address().value() + 4096, 4, 0), 10);
        assert_eq!(coherent.read32(4096), !0x0102_0304);
        coherent.free();
        assert_eq!((irq.fired(0), irq.fired(1)), (1, 1));
        assert_eq!(device.dma().mapped(), (0, 0));
        // What their server refuses is an access that fails, and nothing worse.
        assert_eq!(device.bar(4).unwrap().read32(0), u32::MAX);
        assert!(device.check());
    });
}

#[test]
fn their_server_forgets_all_in_a_reset_and_our_client_puts_it_back() {
    against_theirs(|device, _| {
        device.enable().unwrap();
        let config = device.config();
        let (irq, before) = (device.interrupts(IrqMode::Msi, 1).unwrap(), config.read32(0x1c));
        assert_ne!(before, 0, "BAR 2 is above 4 GiB");
        device.bar(0).unwrap().write32(0x80, 7);
        device.reset().unwrap();
        assert_eq!((config.read32(0x1c), config.read16(regs::COMMAND) & 6), (before, 6));
        assert_eq!(device.bar(0).unwrap().read32(0x80), 0);
        irq.restore().unwrap();
        assert!(!irq.wait(Duration::ZERO, &mut |_| panic!("nothing fires")).unwrap());
    });
}

#[test]
fn their_client_is_served_by_ours() {
    let (served, model) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let mut client = vfio_user::Client::new(&served.path).unwrap();
    let mut identity = [0; 4];
    client.region_read(CONFIG, 0, &mut identity).unwrap();
    assert_eq!(identity, [0xc3, 0x16, 0xda, 0xed]);
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    // Registers are messages, memory comes as a file.
    assert_eq!(client.region(0).map(|region| region.file_offset.is_none()), Some(true));
    let memory = client.region(2).unwrap();
    assert_eq!((memory.size, memory.sparse_areas.len()), (16 << 20, 1));
    let file = memory.file_offset.as_ref().expect("it can be mapped");
    file.file().write_all_at(&[1, 2, 3, 4], file.start() + 0x1000).unwrap();
    assert_eq!(model.memory().read_u32(0x1000), Ok(0x0403_0201));
    let msix = client.get_irq_info(2).unwrap();
    assert_eq!((msix.count, msix.flags & VFIO_IRQ_INFO_EVENTFD), (1, VFIO_IRQ_INFO_EVENTFD));
    let event: OwnedFd = event();
    let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    client.set_irqs(2, flags, 0, 1, &[event.as_raw_fd()]).unwrap();
    let guest = memfd(1 << 20);
    client.dma_map(0, 0x10_0000, 1 << 20, guest.as_raw_fd()).unwrap();
    assert_eq!(served.server.maps(), 1);
    client.dma_unmap(0x10_0000, 1 << 20).unwrap();
    assert_eq!(served.server.maps(), 0);
    client.reset().unwrap();
    let counters = served.server.counters();
    assert_eq!((counters.resets, counters.refused_requests), (1, 0));
    client.shutdown().unwrap();
    served.without_client();
}
