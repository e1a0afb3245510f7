//! The exact order of register accesses, written down from the documents.

use std::sync::Arc;

use dw_edma::{ChannelId, Config, Controller, Desc, Format, ListMemory, Location, Segment, Shared, Vectors};
use mockall::Sequence;
use mockall::predicate::eq;
use tombolo_hal::dmaengine::{
    Direction, DmaChannel, HeapPool, PeerWindow, PrepFlags, SgEntry, SlaveConfig, TxResult,
};
use tombolo_hal::fake::FakeMmio;
use tombolo_hal::irq::{IrqMode, MockIrqSource, MsiMessage};
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{MockMmio, Window};
use tombolo_hal::{DmaAddr, EngineAddr};

const LIST: u64 = 0x12_3456_7000;
const MESSAGE: MsiMessage = MsiMessage { address: 0x1_fee0_3000, data: 0x4029 };

/// A step of a protocol.
enum Step {
    /// A read, and what the device answers.
    R(usize, u32),
    W(usize, u32),
}
use Step::{R, W};

/// Registers that expect these accesses, in this order, and no others.
fn device(steps: &[Step]) -> Arc<MockMmio> {
    let mut mock = MockMmio::sized();
    mock.expect_barrier().return_const(());
    let mut order = Sequence::new();
    for step in steps {
        match *step {
            R(offset, value) => {
                let read = mock.expect_read32().with(eq(offset));
                read.times(1).in_sequence(&mut order).return_const(value);
            }
            W(offset, value) => {
                let write = mock.expect_write32().with(eq(offset), eq(value));
                write.times(1).in_sequence(&mut order).return_const(());
            }
        }
    }
    Arc::new(mock)
}

fn vectors() -> MockIrqSource {
    let mut irq = MockIrqSource::new();
    irq.expect_mode().return_const(IrqMode::Msi);
    irq.expect_vectors().return_const(1u16);
    irq.expect_message_epoch().return_const(1u32);
    irq.expect_message().with(eq(0)).return_const(Some(MESSAGE));
    irq
}

fn segment() -> SgEntry {
    // SAFETY: nothing of this program is at that address, and no engine exists.
    unsafe { PeerWindow::new(DmaAddr::new(0x5_0000_0000), 0x1000) }.entry(0x100, 0x40).unwrap()
}

/// Opens write channel 0 of a remote engine, moves one segment, takes its interrupt and completion,
/// and closes it.
fn life(io: Arc<MockMmio>, format: Format, reads: u16) -> Arc<FakeMmio> {
    let config = Config { function: 3, ..Config::new(format, Location::Remote).channels(1, reads) };
    let shared = Arc::new(Shared::new(Window::new(io), SpinLock::new(), config).unwrap());
    let mut control = Controller::new(shared.clone()).unwrap();
    control.connect(&vectors(), Vectors::One).unwrap();
    let memory = Arc::new(FakeMmio::new(0x100));
    let list = ListMemory::new(memory.clone(), EngineAddr::new(LIST)).map_err(|e| e.error).unwrap();
    let pool: HeapPool<Desc, Segment> = HeapPool::new(2, 4);
    let mut ch = control.open_channel(ChannelId::write(0), list, pool).unwrap();
    let from = SlaveConfig::at(EngineAddr::new(0x8_0000_0000));
    let d = ch
        .prep_slave_sg_config(&[segment()], Direction::DevToMem, PrepFlags::INTERRUPT, Some(&from))
        .unwrap();
    let cookie = ch.submit(d).unwrap();
    ch.issue_pending();
    let element: [u32; 6] = core::array::from_fn(|i| memory.peek32(4 * i));
    // Cycle bit, and an interrupt on both sides: status latches by the local one.
    assert_eq!(element, [0b11001, 0x40, 0, 0x8, 0x100, 0x5]);
    assert_eq!(shared.on_irq().write_channels, 1);
    let done = ch.pop_completed().unwrap();
    assert_eq!((done.cookie, done.result), (cookie, TxResult::NoError));
    assert!(ch.pop_completed().is_none());
    memory
}

#[test]
fn unrolled_open_first_transfer_and_interrupt() {
    let (low, high) = (MESSAGE.address as u32, (MESSAGE.address >> 32) as u32);
    let io = device(&[
        // One write channel, one read channel.
        R(0x08, 0x0001_0001),
        // Mask all, engines off until they rest, then clear all.
        W(0x54, 0x00ff_00ff),
        W(0x0c, 0),
        R(0x0c, 1),
        R(0x0c, 0),
        W(0x58, 0x00ff_00ff),
        W(0xa8, 0x00ff_00ff),
        W(0x2c, 0),
        R(0x2c, 0),
        W(0xac, 0x00ff_00ff),
        // Messages: addresses of done and abort, then the even channel's half of the data word.
        R(0x60, 0),
        R(0x64, 0),
        W(0x64, high),
        W(0x60, low),
        R(0x68, 0),
        R(0x6c, 0),
        W(0x6c, high),
        W(0x68, low),
        R(0x70, 0xabcd_0000),
        W(0x70, 0xabcd_0000 | MESSAGE.data),
        R(0xcc, low),
        R(0xd0, high),
        R(0xd4, low),
        R(0xd8, high),
        R(0xdc, 0),
        W(0xdc, MESSAGE.data),
        // Open: the channel rests and has nothing to say; engine on, line stays masked, list errors
        // reported across the link.
        R(0x200, 0),
        R(0x4c, 0),
        W(0x0c, 1),
        R(0x54, 0x00ff_00ff),
        W(0x54, 0x00ff_00ff),
        R(0x90, 0),
        W(0x90, 1),
        // Cycle state, list mode, function 3; list pointer; doorbell.
        W(0x200, 1 << 8 | 1 << 9 | 3 << 12),
        W(0x21c, LIST as u32),
        W(0x220, (LIST >> 32) as u32),
        W(0x10, 0),
        // Interrupt: one status read, and only what was seen is cleared.
        R(0x4c, 1),
        W(0x58, 1),
        // Completion: the engine stands at the second element.
        R(0x21c, LIST as u32 + 24),
    ]);
    life(io, Format::Unroll, 1);
}

#[test]
fn native_open_first_transfer_and_interrupt() {
    let (low, high) = (MESSAGE.address as u32, (MESSAGE.address >> 32) as u32);
    let io = device(&[
        // It answers.
        R(0x80, 0),
        // Mask all, channel off, clear all.
        W(0x88, 7),
        W(0x00, 0),
        W(0x8c, 7),
        // Messages of stop, watermark, abort; data.
        W(0x90, low),
        W(0x94, high),
        W(0x98, low),
        W(0x9c, high),
        W(0xa0, low),
        W(0xa4, high),
        W(0xa8, MESSAGE.data),
        // Open: it rests and has nothing to say; on, function 3, no watermarks but the elements'.
        R(0x80, 0),
        R(0x84, 0),
        W(0x00, 1),
        W(0x38, 3),
        W(0x30, 0),
        // An old stop is no news; all masked, stop and abort latch, abort is sent.
        W(0x8c, 1),
        W(0x88, 0x77),
        R(0x34, 0x12),
        W(0x34, 0x13),
        W(0x10, LIST as u32),
        W(0x14, (LIST >> 32) as u32),
        W(0x18, 3),
        W(0x04, 1),
        // Interrupt: watermark.
        R(0x84, 2),
        W(0x8c, 2),
        R(0x10, LIST as u32 + 24),
    ]);
    life(io, Format::HdmaNative, 0);
}
