//! What each function says when it cannot.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::sync::atomic::AtomicBool;

use tombolo_hal::pci::ExtCapabilityId;
use tombolo_hal::pci::fake::FakeConfigSpace;

use super::harness::{Shim, lend, sg};
use crate::abi;
use crate::entry::*;
use crate::fake::{Device, live, logged};

const ENODEV: i32 = -19;
const EINVAL: i32 = -22;
const EBUSY: i32 = -16;

#[test]
fn what_cannot_be_opened_says_why() {
    let device = Device::new();
    let mut handles = abi::Handles { shared: ptr::null(), control: ptr::null_mut() };
    tombolo_init();
    // SAFETY: all that is passed is there.
    unsafe {
        let args = abi::OpenArgs { format: 3, ..device.open_args() };
        assert_eq!(tombolo_edma_open(&args, &mut handles), -22);
        assert!(crate::fake::logged(3, "3 is no register map"));
        let args = abi::OpenArgs { registers: ptr::null_mut(), ..device.open_args() };
        assert_eq!(tombolo_edma_open(&args, &mut handles), -22);
        let args = abi::OpenArgs { write_channels: 3, ..device.open_args() };
        assert_eq!(tombolo_edma_open(&args, &mut handles), -22);
        let args = abi::OpenArgs { registers_size: 0x100, ..device.open_args() };
        assert_eq!(tombolo_edma_open(&args, &mut handles), -22);
        device.remove();
        assert_eq!(tombolo_edma_open(&device.open_args(), &mut handles), -19);
    }
    assert!(handles.control.is_null());
}

#[test]
fn more_that_cannot_be_opened() {
    let device = Device::new();
    let mut handles = abi::Handles { shared: ptr::null(), control: ptr::null_mut() };
    let good = device.open_args();
    let misaligned = good.registers.wrapping_byte_add(4);
    let bad = [
        abi::OpenArgs { lock: ptr::null_mut(), ..good },
        abi::OpenArgs { vectors: ptr::null(), ..good },
        abi::OpenArgs { device: ptr::null_mut(), ..good },
        abi::OpenArgs { registers: misaligned, ..good },
        abi::OpenArgs { function: 300, ..good },
        abi::OpenArgs { format: 300, ..good },
        abi::OpenArgs { write_channels: 0, read_channels: 0, ..good },
    ];
    for args in bad {
        // SAFETY: all that is passed is there.
        assert_eq!(unsafe { tombolo_edma_open(&args, &mut handles) }, EINVAL, "{args:?}");
    }
    assert!(handles.control.is_null());
}

#[test]
fn a_parameter_or_a_device_that_is_none_is_refused() {
    tombolo_init();
    let (text, mut lock) = ("intx", AtomicBool::new(false));
    let lock = NonNull::from(&mut lock).as_ptr().cast::<c_void>();
    // SAFETY: the text is there; the fake shim looks at no device.
    unsafe {
        assert_eq!(tombolo_parse_irq(text.as_ptr().cast(), text.len()), EINVAL);
        assert!(logged(3, "irq= takes auto, msi-x, msi or polling"));
        assert_eq!(tombolo_parse_irq("auto".as_ptr().cast(), 4), 6);
        assert_eq!(tombolo_selftest(ptr::null_mut(), lock, 1), EINVAL);
        assert_eq!(tombolo_selftest(lock, ptr::null_mut(), 1), EINVAL);
    }
}

#[test]
fn a_function_without_an_engine_of_ours_is_not_taken() {
    tombolo_init();
    let mut other = FakeConfigSpace::new(0x8086, 0x1234);
    // A map number that is none: Linux goes on with what it knows of the device, and so do we.
    let words = [0x0180_0006, 0x0000_0003, 0x0001_0001, 0, 0];
    let mut strange =
        FakeConfigSpace::new(0x16c3, 0xedda).with_ext_capability(ExtCapabilityId::VENDOR, 1, 0x148, &words);
    let mut found = abi::Engine::default();
    // SAFETY: functions and `found` are there.
    unsafe {
        assert_eq!(tombolo_edma_find(ptr::null_mut(), 0x16c3, 0xedda, &mut found), EINVAL);
        let at = NonNull::from(&mut other).as_ptr().cast();
        assert_eq!(tombolo_edma_find(at, 0x8086, 0x1234, &mut found), ENODEV);
        assert!(logged(3, "8086:1234: where this function keeps its lists is not known"));
        let at = NonNull::from(&mut strange).as_ptr().cast();
        assert_eq!(found, abi::Engine::default());
        assert_eq!(tombolo_edma_find(at, 0x16c3, 0xedda, &mut found), 0);
    }
    assert_eq!((found.format, found.write_channels, found.read_channels), (1, 2, 2));
}

#[test]
fn a_channel_that_is_none_has_no_places() {
    let mut places = abi::Places::default();
    let mut engine = abi::Engine { write_channels: 2, read_channels: 2, ..abi::Engine::default() };
    // SAFETY: both are there.
    unsafe {
        assert_eq!(tombolo_edma_places(&engine, 0, 0, &mut places), ENODEV, "it has no lists");
        engine.flags = abi::ENGINE_HAS_LISTS;
        assert_eq!(tombolo_edma_places(&engine, 1, 2, &mut places), ENODEV);
        assert_eq!(tombolo_edma_places(&engine, 0, u32::MAX, &mut places), ENODEV);
        assert_eq!(tombolo_edma_places(&engine, 1, 1, &mut places), 0);
    }
    assert_eq!(places.list_offset, 3 << 21);
}

#[test]
fn messages_that_the_engine_cannot_send_leave_it_polling_or_with_the_old_ones() {
    tombolo_init();
    let device = Device::new();
    let mut handles = abi::Handles { shared: ptr::null(), control: ptr::null_mut() };
    device.message(0xfee0_0000, 0x1_0000);
    // SAFETY: all that is passed is there until the engine is closed.
    unsafe {
        assert_eq!(tombolo_edma_open(&device.open_args(), &mut handles), 0);
        assert!(tombolo_edma_connect(ptr::null(), handles.control) < 0);
        assert!(logged(4, "polling instead"));
        device.message(0xfee0_0000, 0x41);
        assert_eq!(tombolo_edma_connect(ptr::null(), handles.control), 1);
        // Taken away while the engine rests: nothing to send, and it is not told so.
        device.message(0, 0);
        assert!(tombolo_edma_refresh(handles.control) < 0);
        assert_eq!(device.register(0x60), 0xfee0_0000);
        assert_eq!(tombolo_edma_close(handles.control), 0);
    }
    assert_eq!(live(device.open_args().device), 0, "the sink was given back");
}

#[test]
fn an_engine_that_is_gone_or_busy_says_so() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    shim.submit(prepared);
    shim.issue();
    let mut report = abi::Report { write_channels: 9, read_channels: 9 };
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_suspend(shim.handles.control), EBUSY);
        assert_eq!(tombolo_edma_irq(shim.handles.shared, &mut report), 0, "nothing happened");
        assert_eq!(report, abi::Report::default());
        shim.device.remove();
        assert_eq!(tombolo_edma_after_reset(shim.handles.control), ENODEV);
        assert_eq!(tombolo_edma_irq(shim.handles.shared, &mut report), 0, "gone is not ours");
    }
    assert_eq!(shim.poll().len(), 1);
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_channel_that_cannot_be_opened_is_not_opened() {
    let shim = Shim::new();
    let room = abi::Room { descriptors: 1, segments: 1 };
    let (memory, layout) = lend(room);
    let (place, pool) = (shim.chan, memory.cast());
    let good = abi::ChanArgs { index: 1, ..shim.device.chan_args(place, pool, room) };
    let open = |args: abi::ChanArgs| {
        // SAFETY: the list is there, and what is refused writes no place.
        unsafe { tombolo_edma_chan_open(shim.handles.control, &args) }
    };
    assert_eq!(open(abi::ChanArgs { kind: 2, ..good }), EINVAL);
    assert_eq!(open(abi::ChanArgs { index: 256, ..good }), EINVAL);
    assert_eq!(open(abi::ChanArgs { index: 2, ..good }), EINVAL, "there are two");
    assert_eq!(open(abi::ChanArgs { index: 0, ..good }), EBUSY, "it is open");
    assert_eq!(open(abi::ChanArgs { pool: ptr::null_mut(), ..good }), EINVAL);
    assert_eq!(open(abi::ChanArgs { list_size: 48, ..good }), EINVAL, "two elements and no link");
    assert_eq!(open(abi::ChanArgs { list_address: 0x5000_0004, ..good }), EINVAL);
    assert_eq!(open(abi::ChanArgs { list: ptr::null_mut(), ..good }), EINVAL, "only HDMA native can");
    shim.device.remove();
    // SAFETY: open.
    unsafe { tombolo_edma_chan_look(shim.chan) };
    let _ = open(good);
    // SAFETY: allocated with this layout.
    unsafe { std::alloc::dealloc(memory, layout) };
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_transfer_that_cannot_be_is_refused_and_takes_no_room() {
    let mut shim = Shim::new();
    let mut prepared = 7;
    let native = abi::Slave { flags: abi::SLAVE_HAS_MODE, non_list: 1, ..abi::Slave::default() };
    let entry = sg(0x1000, 4);
    // SAFETY: open; the engine moves nothing.
    unsafe {
        assert_eq!(tombolo_edma_chan_configure(shim.chan, &native), EINVAL);
        let mut prep = |direction, sg: &abi::Sg| {
            tombolo_edma_chan_prep(shim.chan, sg, 1, direction, 1, ptr::null(), &mut prepared)
        };
        assert_eq!(prep(0, &entry), EINVAL, "DMA_MEM_TO_MEM");
        assert_eq!(prep(abi::MEM_TO_DEV, &entry), EINVAL, "the other way");
        assert_eq!(prep(abi::DEV_TO_MEM, &sg(0x1000, 0)), EINVAL, "nothing");
        assert_eq!(prep(abi::DEV_TO_MEM, &sg(0x1000, 1 << 32)), EINVAL, "too long for one element");
        assert_eq!(prep(abi::DEV_TO_MEM, &sg(u64::MAX, 4)), EINVAL, "past the end of all addresses");
        let cyclic = |buffer: &abi::Sg, period, direction| {
            let mut prepared = 0;
            tombolo_edma_chan_prep_cyclic(shim.chan, buffer, period, direction, 1, &mut prepared)
        };
        assert_eq!(cyclic(&entry, 0, abi::DEV_TO_MEM), EINVAL);
        assert_eq!(cyclic(&entry, 4, 3), EINVAL, "DMA_DEV_TO_DEV");
        assert_eq!(cyclic(&entry, 4, abi::MEM_TO_DEV), EINVAL);
        assert_eq!(cyclic(&sg(0x1000, 20), 4, abi::DEV_TO_MEM), -28, "five periods");
    }
    assert_eq!(prepared, 7, "what is refused has no name");
    for _ in 0..2 {
        shim.prep(&[sg(0x1000, 4); 2], None).unwrap();
    }
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_name_that_is_none_is_refused() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    let cookie = shim.submit(prepared);
    let mut other = 0;
    let mut status = abi::Status { residue: 1, paused: 1 };
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_chan_submit(shim.chan, prepared, &mut other), EINVAL, "twice");
        assert_eq!(tombolo_edma_chan_submit(shim.chan, u64::MAX, &mut other), EINVAL);
        for unknown in [0, cookie + 1, u64::MAX] {
            tombolo_edma_chan_status(shim.chan, unknown, &mut status);
            assert_eq!(status, abi::Status::default(), "{unknown:#x}");
        }
        let mut out = abi::Completion::default();
        assert_eq!(tombolo_edma_chan_poll(shim.chan, &mut out, 1), 0, "room for too few");
    }
    assert_eq!(other, 0);
    // SAFETY: open.
    assert_eq!(unsafe { tombolo_edma_chan_terminate(shim.chan) }, 0);
    assert_eq!(shim.close(), 0);
}

#[test]
fn a_channel_of_a_device_that_is_gone_takes_nothing_and_can_be_closed() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    shim.device.remove();
    let mut cookie = 0;
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_after_reset(shim.handles.control), ENODEV);
        assert_eq!(tombolo_edma_chan_submit(shim.chan, prepared, &mut cookie), ENODEV);
        assert_eq!(tombolo_edma_chan_pause(shim.chan), 0);
        assert_eq!(tombolo_edma_chan_resume(shim.chan), ENODEV);
        assert_eq!(tombolo_edma_chan_terminate(shim.chan), ENODEV);
        assert_ne!(tombolo_edma_chan_issue(shim.chan), 0, "somebody must look");
        assert_eq!(tombolo_edma_chan_is_terminated(shim.chan), 1);
        assert_eq!(tombolo_edma_chan_has_transfers(shim.chan), 0);
    }
    assert_eq!(shim.close(), 0);
}

#[test]
fn what_is_in_use_is_closed_with_a_complaint() {
    let mut shim = Shim::new();
    let prepared = shim.prep(&[sg(0x1000, 4)], None).unwrap();
    shim.submit(prepared);
    shim.issue();
    assert_eq!(shim.close(), EBUSY, "it moves data");
    let shim = Shim::new();
    // SAFETY: nothing of the engine is used afterwards; its channel is given up with it.
    unsafe {
        assert_eq!(tombolo_edma_close(shim.handles.control), EBUSY);
        std::alloc::dealloc(shim.pool.0, shim.pool.1);
    }
    assert_eq!(live(shim.device.open_args().device), 1, "nobody knows where its messages go");
}

#[test]
fn a_pool_that_is_as_large_as_it_may_be_does_not_grow() {
    let shim = Shim::new();
    let mut room = abi::Room { descriptors: 7, segments: 7 };
    // SAFETY: open.
    unsafe {
        assert_eq!(tombolo_edma_chan_more(shim.chan, u32::MAX, &mut room), -12);
        assert_eq!(tombolo_edma_chan_grow(shim.chan, ptr::null_mut(), &room), EINVAL);
    }
    assert_eq!(room, abi::Room { descriptors: 7, segments: 7 });
    assert_eq!(shim.close(), 0);
}
