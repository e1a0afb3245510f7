//! The shim's side for tests on any host: config space, locks and DMA memory of this process, and an
//! engine that is two pieces of memory.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::ptr;
use std::alloc::Layout;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::vec::Vec;

use dw_edma::regs::v0;
use tombolo_hal::pci::ConfigSpace;
use tombolo_hal::pci::fake::FakeConfigSpace;

use crate::abi;

/// What was logged, by all tests together.
static LOG: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());
/// Mappings and coherent regions that are not given back, by device.
static LIVE: Mutex<BTreeMap<usize, isize>> = Mutex::new(BTreeMap::new());

/// Whether a line with this level and text was logged.
pub fn logged(level: u32, text: &str) -> bool {
    LOG.lock().unwrap().iter().any(|(l, t)| *l == level && t.contains(text))
}

/// How much DMA memory of a device is mapped or allocated.
pub fn live(device: *mut c_void) -> isize {
    LIVE.lock().unwrap().get(&device.addr()).copied().unwrap_or(0)
}

fn count(device: *mut c_void, more: isize) {
    *LIVE.lock().unwrap().entry(device.addr()).or_default() += more;
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_config_read(function: *mut c_void, offset: u16, width: u32) -> u32 {
    // SAFETY: the tests pass a `FakeConfigSpace`.
    let config = unsafe { &*function.cast::<FakeConfigSpace>() };
    match width {
        1 => config.read8(offset).into(),
        2 => config.read16(offset).into(),
        _ => config.read32(offset),
    }
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_config_write(function: *mut c_void, offset: u16, width: u32, value: u32) {
    // SAFETY: the tests pass a `FakeConfigSpace`.
    let config = unsafe { &*function.cast::<FakeConfigSpace>() };
    match width {
        1 => config.write8(offset, value as u8),
        2 => config.write16(offset, value as u16),
        _ => config.write32(offset, value),
    }
}

/// The lock of the tests: an `AtomicBool`.
#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_lock(lock: *mut c_void) -> usize {
    // SAFETY: the tests pass an `AtomicBool`.
    let lock = unsafe { &*lock.cast::<AtomicBool>() };
    assert!(!lock.swap(true, Ordering::Acquire), "the lock is taken twice");
    0x246
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_unlock(lock: *mut c_void, flags: usize) {
    // SAFETY: the tests pass an `AtomicBool`.
    let lock = unsafe { &*lock.cast::<AtomicBool>() };
    assert_eq!(flags, 0x246);
    assert!(lock.swap(false, Ordering::Release), "an open lock is opened");
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_log(_device: *const c_void, level: u32, text: *const c_char, length: usize) {
    // SAFETY: the caller's text.
    let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
    LOG.lock().unwrap().push((level, String::from_utf8_lossy(text).into_owned()));
}

/// Where the device sees memory: below 4 GiB, as the shim's coherent mask wants it.
fn device_address(memory: *mut c_void) -> u64 {
    memory.addr() as u64 & 0xffff_ffff
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size.next_multiple_of(8), 4096).unwrap()
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_dma_alloc(device: *mut c_void, size: usize, address: *mut u64) -> *mut c_void {
    // SAFETY: the tests ask for at least one byte; `address` is the caller's.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout(size));
        address.write(device_address(memory.cast()));
        count(device, 1);
        memory.cast()
    }
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_dma_free(device: *mut c_void, size: usize, memory: *mut c_void, address: u64) {
    assert_eq!(device_address(memory), address);
    count(device, -1);
    // SAFETY: allocated with this layout.
    unsafe { std::alloc::dealloc(memory.cast(), layout(size)) }
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_dma_map(
    device: *mut c_void,
    memory: *mut c_void,
    _size: usize,
    direction: u32,
    address: *mut u64,
) -> i32 {
    if direction == 0 {
        return -12; // The tests map nothing both ways: their platform refuses it.
    }
    count(device, 1);
    // SAFETY: the caller's.
    unsafe { address.write(device_address(memory)) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_dma_unmap(device: *mut c_void, _address: u64, _size: usize, _direction: u32) {
    count(device, -1);
}

#[unsafe(no_mangle)]
extern "C" fn tombolo_shim_dma_sync(
    _device: *mut c_void,
    _address: u64,
    size: usize,
    _direction: u32,
    _for_device: i32,
) {
    assert_ne!(size, usize::MAX);
}

/// Memory with the alignment of a mapping.
struct Words(Box<[UnsafeCell<u64>]>);

impl Words {
    fn new(bytes: usize) -> Self {
        Self((0..bytes / 8).map(|_| UnsafeCell::new(0)).collect())
    }
    fn at(&self, offset: usize) -> *mut u32 {
        assert!(offset + 4 <= self.0.len() * 8 && offset.is_multiple_of(4));
        // SAFETY: just checked.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast_mut().cast() }
    }
    fn get(&self, offset: usize) -> u32 {
        // SAFETY: `at` checked; one thread.
        unsafe { self.at(offset).read_volatile() }
    }
    fn set(&self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.at(offset).write_volatile(value) }
    }
}

/// Where the fake engine sees its list.
const LIST_ADDRESS: u64 = 0x5000_0000;
const LIST_SIZE: usize = 0x800;
const ELEMENT: usize = 24;

/// An unrolled engine with 2+2 channels, as registers and the list of write channel 0. It does nothing
/// by itself: tests say what it has done.
pub struct Device {
    registers: Words,
    list: Words,
    lock: Box<AtomicBool>,
    pub vectors: Box<UnsafeCell<abi::Vectors>>,
    /// How far the engine has come in its list.
    at: usize,
    /// What stands for its `struct device`: its own, as tests run side by side and count by it.
    id: usize,
}

static DEVICES: AtomicUsize = AtomicUsize::new(0x1_0000);

const WRITE0: usize = v0::CHANNELS;

impl Device {
    pub fn new() -> Self {
        let registers = Words::new(0x2000);
        registers.set(core::mem::offset_of!(v0::Globals, ctrl), 2 | 2 << 16);
        let vectors = abi::Vectors {
            mode: abi::IRQ_MSI,
            count: 1,
            epoch: 1,
            reserved: 0,
            messages: [abi::Message::default(); abi::MAX_VECTORS],
        };
        let device = Self {
            registers,
            list: Words::new(LIST_SIZE),
            lock: Box::new(AtomicBool::new(false)),
            vectors: Box::new(UnsafeCell::new(vectors)),
            at: 0,
            id: DEVICES.fetch_add(16, Ordering::Relaxed),
        };
        device.message(0xfee0_0000, 0x4021);
        device
    }

    /// The kernel gives the vector a message.
    pub fn message(&self, address: u64, data: u32) {
        // SAFETY: one thread, and nothing of the driver runs now.
        let vectors = unsafe { &mut *self.vectors.get() };
        vectors.messages[0] = abi::Message { address, data, reserved: 0 };
        vectors.epoch += 1;
    }

    pub fn open_args(&self) -> abi::OpenArgs {
        abi::OpenArgs {
            registers: self.registers.at(0).cast(),
            registers_size: 0x2000,
            lock: ptr::from_ref(&*self.lock).cast_mut().cast(),
            vectors: self.vectors.get(),
            format: 1,
            write_channels: 2,
            read_channels: 2,
            function: 0,
            reserved: 0,
            device: ptr::without_provenance_mut(self.id),
        }
    }

    pub fn chan_args(&self, place: *mut c_void, pool: *mut c_void, room: abi::Room) -> abi::ChanArgs {
        abi::ChanArgs {
            place,
            pool,
            list: self.list.at(0).cast(),
            list_address: LIST_ADDRESS,
            list_size: LIST_SIZE as u32,
            descriptors: room.descriptors,
            segments: room.segments,
            kind: 0,
            index: 0,
            reserved: 0,
        }
    }

    pub fn register(&self, offset: usize) -> u32 {
        self.registers.get(offset)
    }

    /// The engine takes `count` elements, and says so. Returns (source, destination, bytes) of each.
    pub fn run(&mut self, count: usize) -> Vec<(u64, u64, u32)> {
        let wide = |at: usize| u64::from(self.list.get(at)) | u64::from(self.list.get(at + 4)) << 32;
        let moved = (self.at..self.at + count)
            .map(|element| {
                let at = element * ELEMENT;
                assert_eq!(self.list.get(at) & 0b101, 1, "element {element} is the engine's, and no link");
                (wide(at + 8), wide(at + 16), self.list.get(at + 4))
            })
            .collect();
        self.at += count;
        self.registers.set(WRITE0 + 0x1c, LIST_ADDRESS as u32 + (self.at * ELEMENT) as u32);
        self.registers.set(WRITE0, 3 << 5);
        self.registers.set(core::mem::offset_of!(v0::Globals, wr_int_status), 1);
        moved
    }

    /// The interrupt's status is clear again.
    pub fn quiet(&self) {
        self.registers.set(core::mem::offset_of!(v0::Globals, wr_int_status), 0);
    }

    /// All registers read ones from now on.
    pub fn remove(&self) {
        (0..0x2000).step_by(4).for_each(|at| self.registers.set(at, u32::MAX));
    }
}
