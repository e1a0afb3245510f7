//! Descriptors that clients send, of whatever kind and at whatever moment, are closed again. A test of its
//! own process: it counts all that are open.
#![cfg(target_os = "linux")]

mod common;

use std::os::fd::{AsFd, BorrowedFd};

use common::raw::*;
use common::*;
use tombolo_sim::dw_edma::{Format, presets};
use tombolo_vfio_user::protocol::{Command, Header, IrqAction, IrqData, SetIrqs};
use tombolo_vfio_user::server::ServerOptions;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mapped() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter(|line| line.contains("memfd:guest"))
        .count()
}

/// All that a client can do with descriptors, and gone.
fn client(served: &Served) {
    let (file, event) = (memfd(1 << 20), event());
    let mut raw = Raw::ready(&served.path);
    let (memory, event) = (file.as_fd(), event.as_fd());
    raw.map(map_of(0, 4096), &[memory]).unwrap();
    raw.map(map_of(0, 4096), &[memory]).unwrap_err();
    raw.map(map_of(0x1000, 4096), &[event]).unwrap_err();
    let many: Vec<BorrowedFd<'_>> = vec![memory; 60];
    raw.map(map_of(0x2000, 4096), &many).unwrap_err();
    let mut body = Vec::new();
    let (action, data) = (IrqAction::Trigger, IrqData::EventFd);
    SetIrqs { action, data, index: 2, start: 0, count: 1 }.put(&mut body);
    for fds in [&[event][..], &[event], &[memory], &[event, event]] {
        let _ = raw.call(Command::SetIrqs as u16, &body, fds);
    }
    raw.call(Command::DeviceReset as u16, &[], &[event, memory]).unwrap();
    raw.call(99, &[], &many[..16]).unwrap_err();
    // With a message that never ends, and with one that is too large.
    let half = Header::request(1, Command::DmaMap, 32, true).to_bytes();
    let large = Header { size: u32::MAX, ..Header::request(1, Command::DmaMap, 0, true) }.to_bytes();
    raw.send(if served.server.clients().is_multiple_of(2) { &half } else { &large }, &[memory, event])
        .unwrap();
}

#[test]
fn what_clients_send_is_closed_and_unmapped() {
    let (served, _) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    client(&served);
    served.without_client();
    let before = open_files();
    (0..100).for_each(|_| client(&served));
    eventually("descriptors are left over", || open_files() <= before);
    assert_eq!((served.server.maps(), mapped()), (0, 0));
}
