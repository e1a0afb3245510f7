//! What the shim keeps of an engine and a channel, for tests.

use core::ffi::c_void;
use core::ptr;
use std::alloc::Layout;
use std::vec::Vec;

use crate::abi;
use crate::entry::*;
use crate::fake::Device;

/// What the shim keeps of a channel.
pub struct Shim {
    pub device: Device,
    pub handles: abi::Handles,
    pub chan: *mut c_void,
    pub pool: (*mut u8, Layout),
}

pub fn lend(room: abi::Room) -> (*mut u8, Layout) {
    let layout = Layout::from_size_align(tombolo_edma_pool_size(room.descriptors, room.segments), 8).unwrap();
    // SAFETY: the size is not 0.
    (unsafe { std::alloc::alloc(layout) }, layout)
}

impl Shim {
    pub fn new() -> Self {
        let device = Device::new();
        let mut handles = abi::Handles { shared: ptr::null(), control: ptr::null_mut() };
        let room = abi::Room { descriptors: 2, segments: 4 };
        let pool = lend(room);
        let place = Layout::from_size_align(tombolo_edma_chan_size(), 8).unwrap();
        // SAFETY: all that is passed is there until `close`.
        unsafe {
            assert_eq!(tombolo_edma_open(&device.open_args(), &mut handles), 0);
            assert_eq!(tombolo_edma_connect(ptr::null(), handles.control), 1);
            let chan = std::alloc::alloc(place).cast::<c_void>();
            let args = device.chan_args(chan, pool.0.cast(), room);
            assert_eq!(tombolo_edma_chan_open(handles.control, &args), 0);
            let slave = abi::Slave { src_addr: 0x9000_0000, ..abi::Slave::default() };
            assert_eq!(tombolo_edma_chan_configure(chan, &slave), 0);
            Self { device, handles, chan, pool }
        }
    }

    pub fn prep(&mut self, sg: &[abi::Sg], slave: Option<&abi::Slave>) -> Result<u64, i32> {
        let (mut prepared, slave) = (0, slave.map_or(ptr::null(), ptr::from_ref));
        let count = sg.len() as u32;
        // SAFETY: open; the engine moves nothing.
        let error = unsafe {
            tombolo_edma_chan_prep(self.chan, sg.as_ptr(), count, abi::DEV_TO_MEM, 1, slave, &mut prepared)
        };
        if error == 0 { Ok(prepared) } else { Err(error) }
    }

    pub fn submit(&mut self, prepared: u64) -> u64 {
        let mut cookie = 0;
        // SAFETY: open.
        assert_eq!(unsafe { tombolo_edma_chan_submit(self.chan, prepared, &mut cookie) }, 0);
        cookie
    }

    pub fn issue(&mut self) -> i32 {
        // SAFETY: open.
        unsafe { tombolo_edma_chan_issue(self.chan) }
    }

    pub fn poll(&mut self) -> Vec<abi::Completion> {
        let mut batch = [abi::Completion::default(); 16];
        // SAFETY: open; room for 16.
        let count = unsafe { tombolo_edma_chan_poll(self.chan, batch.as_mut_ptr(), 16) };
        batch[..count as usize].to_vec()
    }

    pub fn irq(&mut self) -> abi::Report {
        let mut report = abi::Report::default();
        // SAFETY: open.
        unsafe { tombolo_edma_irq(self.handles.shared, &mut report) };
        self.device.quiet();
        report
    }

    pub fn close(self) -> i32 {
        // SAFETY: everything was allocated with these layouts, and is used here for the last time.
        unsafe {
            let closed = tombolo_edma_chan_close(self.chan);
            std::alloc::dealloc(self.pool.0, self.pool.1);
            let place = Layout::from_size_align(tombolo_edma_chan_size(), 8).unwrap();
            std::alloc::dealloc(self.chan.cast(), place);
            assert_eq!(tombolo_edma_close(self.handles.control), 0);
            closed
        }
    }
}

pub fn sg(address: u64, length: u64) -> abi::Sg {
    abi::Sg { address, length }
}
