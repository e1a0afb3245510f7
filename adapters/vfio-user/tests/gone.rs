//! Servers that end, fall silent or lie, and devices that are pulled out: nothing hangs.
#![cfg(target_os = "linux")]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use common::*;
use dw_edma::ChannelId;
use tombolo_hal::dma::{Coherent, DmaConstraints};
use tombolo_hal::dmaengine::TxResult;
use tombolo_hal::error::{Error as _, ErrorKind};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::{ConfigSpace, regs};
use tombolo_sim::dw_edma::{Dir, Format, presets};
use tombolo_vfio_user::client::{Device, Error};
use tombolo_vfio_user::protocol::{Command, HEADER_SIZE, Header, Version};
use tombolo_vfio_user::server::ServerOptions;

/// What a client waits at most in these tests.
const PATIENCE: Duration = Duration::from_millis(200);

fn reads_all_ones(device: &Device) {
    for bar in [0, 2] {
        let bar = device.bar(bar).unwrap();
        bar.write32(0, 0);
        assert_eq!((bar.read32(0), bar.read16(0), bar.read8(0)), (u32::MAX, u16::MAX, u8::MAX));
    }
}

#[test]
fn a_server_that_ends_in_the_middle_of_transfers_leaves_errors_and_all_ones() {
    for (options, mode) in [(ServerOptions::default(), IrqMode::MsiX), (trapped(), IrqMode::Msi)] {
        let (mut served, model) = Served::engine(presets::edda(Format::Unrolled), options);
        let mut rig = Rig::new(served.connect(), mode, 1);
        let mut ch = rig.open(ChannelId::read(0));
        // It hangs, so that the transfers are certainly under way.
        model.hang(Dir::Read, 0);
        for seed in 0..3 {
            rig.submit(&mut ch, &pattern(seed, 50_000), 2);
        }
        let began = Instant::now();
        served.stop();
        let results: Vec<_> =
            (0..3).map(|_| ch.wait_next(&mut Sleep, 5_000_000).unwrap().completion.result).collect();
        assert_eq!(results, [TxResult::Aborted; 3]);
        assert!(rig.device.is_gone());
        reads_all_ones(&rig.device);
        assert_eq!(rig.device.config().read32(regs::VENDOR_ID), u32::MAX);
        assert!(!rig.device.check());
        assert_eq!(rig.device.reset().unwrap_err().kind(), ErrorKind::DeviceGone);
        assert_eq!(rig.irq.restore().unwrap_err().kind(), ErrorKind::DeviceGone);
        let memory = Coherent::<_>::new(rig.device.dma(), 64 << 20, &DmaConstraints::any());
        assert_eq!(memory.unwrap_err().kind(), ErrorKind::DeviceGone);
        // Also what gives things back does not wait for the server.
        drop((ch, rig));
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
}

#[test]
fn a_thread_that_waits_for_interrupts_ends_although_the_server_is_gone() {
    let (mut served, _) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let device = served.connect();
    let irq = device.interrupts(IrqMode::MsiX, 1).unwrap();
    let thread = irq.spawn(|_| panic!("nothing fires")).unwrap();
    served.stop();
    assert!(!irq.wait(Duration::from_millis(10), &mut |_| panic!("nothing fires")).unwrap());
    drop(thread);
}

#[test]
fn a_device_that_is_pulled_out_reads_all_ones_and_comes_back_after_a_reset() {
    // Trapped: memory that was mapped stays where it is.
    let (served, model) = Served::engine(presets::edda(Format::HdmaNative), trapped());
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    let mut ch = rig.open(ChannelId::write(0));
    model.hang(Dir::Write, 0);
    rig.submit(&mut ch, &pattern(1, 50_000), 1);
    served.server.remove(true);
    assert!(!rig.device.check() && rig.device.is_gone());
    reads_all_ones(&rig.device);
    assert_eq!(ch.wait_next(&mut Sleep, 5_000_000).unwrap().completion.result, TxResult::Aborted);
    assert_eq!(rig.device.reset().unwrap_err().kind(), ErrorKind::DeviceGone);

    model.clear_faults();
    served.server.remove(false);
    assert!(rig.device.is_gone(), "it must be set up anew first");
    drop((ch, rig));
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    let mut ch = rig.open(ChannelId::write(0));
    rig.transfer(&model, &mut ch, &pattern(2, 10_000), 1);
    rig.close(ch);
}

#[test]
fn a_device_that_was_away_for_a_moment_works_after_a_reset() {
    let (served, model) = Served::engine(presets::edda(Format::Unrolled), ServerOptions::default());
    let mut rig = Rig::new(served.connect(), IrqMode::MsiX, 1);
    served.server.remove(true);
    assert!(!rig.device.check());
    served.server.remove(false);
    rig.device.reset().unwrap();
    rig.irq.restore().unwrap();
    assert!(rig.device.check());
    rig.control.after_reset(&rig.irq).unwrap();
    let mut ch = rig.open(ChannelId::read(1));
    rig.transfer(&model, &mut ch, &pattern(3, 10_000), 1);
    rig.close(ch);
}

/// Lets `server` talk to a client that connects with little patience.
fn against(server: impl FnOnce(UnixStream) + Send) -> Result<Device, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("liar.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let began = Instant::now();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| server(listener.accept().unwrap().0));
        Device::connect_with(&path, PATIENCE)
    });
    assert!(began.elapsed() < LIMIT);
    result
}

/// Reads a message, and gives back its header.
fn hear(socket: &mut UnixStream) -> Option<Header> {
    let mut head = [0; HEADER_SIZE];
    socket.read_exact(&mut head).ok()?;
    let header = Header::parse(&head);
    let mut body = vec![0; header.size as usize - HEADER_SIZE];
    socket.read_exact(&mut body).ok()?;
    Some(header)
}

/// Answers the version.
fn agree(socket: &mut UnixStream) {
    let header = hear(socket).unwrap();
    let mut body = Vec::new();
    Version::ours(false).put(&mut body);
    socket.write_all(&header.reply(body.len()).to_bytes()).unwrap();
    socket.write_all(&body).unwrap();
}

fn is_gone(result: Result<Device, Error>) -> bool {
    matches!(result, Err(Error::Gone { .. }))
}

#[test]
fn a_server_that_says_nothing_is_gone_after_the_limit() {
    let began = Instant::now();
    assert!(is_gone(against(|mut socket| {
        // Until the client gives up.
        let _ = socket.read_to_end(&mut Vec::new());
    })));
    assert!(began.elapsed() >= PATIENCE);
}

#[test]
fn a_server_that_hangs_up_or_stops_in_the_middle_is_gone() {
    assert!(is_gone(against(drop)));
    assert!(is_gone(against(|mut socket| {
        agree(&mut socket);
        drop(socket);
    })));
    assert!(is_gone(against(|mut socket| {
        let header = hear(&mut socket).unwrap();
        socket.write_all(&header.reply(4000).to_bytes()).unwrap();
    })));
}

#[test]
fn answers_that_make_no_sense_are_no_device() {
    // Too short, for each question after the first.
    for good in 0..3 {
        let result = against(|mut socket| {
            agree(&mut socket);
            let mut count = 0;
            while let Some(header) = hear(&mut socket) {
                let body: &[u8] = match header.command {
                    // A PCI function with 9 regions and 5 interrupts.
                    4 if count < good => &[16, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0],
                    // A BAR that does not exist.
                    5 if count < good => &[0; 32],
                    _ => &[1, 2, 3],
                };
                count += 1;
                let message = [&header.reply(body.len()).to_bytes()[..], body].concat();
                if socket.write_all(&message).is_err() {
                    return;
                }
            }
        });
        assert!(is_gone(result), "after {good} good answers");
    }
    // A size below the header, a size beyond all bounds, and noise.
    for size in [0u32, 15, u32::MAX] {
        assert!(is_gone(against(|mut socket| {
            let header = hear(&mut socket).unwrap();
            let answer = Header { size, ..header.reply(0) };
            let _ = socket.write_all(&answer.to_bytes());
            let _ = socket.write_all(&pattern(size.into(), 5000));
            let _ = socket.read_to_end(&mut Vec::new());
        })));
    }
}

#[test]
fn errors_and_other_versions_are_told() {
    let refused = against(|mut socket| {
        let header = hear(&mut socket).unwrap();
        let answer = header.failure(tombolo_vfio_user::protocol::Errno::BUSY);
        socket.write_all(&answer.to_bytes()).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    });
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let other = against(|mut socket| {
        let header = hear(&mut socket).unwrap();
        let body = [7, 0, 1, 0];
        socket.write_all(&[&header.reply(4).to_bytes()[..], &body].concat()).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    });
    assert!(matches!(other, Err(Error::Version { major: 7, minor: 1 })), "{other:?}");
}

#[test]
fn a_server_that_asks_without_end_and_answers_nothing_is_gone_too() {
    let asked = against(|mut socket| {
        agree(&mut socket);
        let body = [&0xdead_0000u64.to_le_bytes()[..], &8u64.to_le_bytes()].concat();
        // The client's answers are never read, so that it cannot send in the end.
        for id in 0.. {
            let header = Header::request(id, Command::DmaRead, body.len(), true);
            if socket.write_all(&[&header.to_bytes()[..], &body].concat()).is_err() || id == u16::MAX {
                return;
            }
        }
    });
    assert!(is_gone(asked));
}
