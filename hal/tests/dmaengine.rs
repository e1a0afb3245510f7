//! What every channel gets from hal: the default combined call, and transfers that own buffers.
#![cfg(feature = "std")]

use tombolo_hal::EngineAddr;
use tombolo_hal::dma::{DataDirection, DmaBackend, DmaConstraints, Prepared, Streaming};
use tombolo_hal::dmaengine::{
    Direction, DmaChannel, DmaChannelExt, OwnedTransfers, PrepFlags, RefusedReason, SlaveConfig, TxResult,
    TxStatus,
};
use tombolo_hal::error::{Error, ErrorKind};
use tombolo_hal::fake::{CountingDelay, FakeChannel, FakeError, HeapDma};

type Owned = OwnedTransfers<FakeChannel, HeapDma, Vec<u8>, 2, 3>;

fn at(address: u64) -> SlaveConfig<u32> {
    SlaveConfig { peripheral: address as u32, ..SlaveConfig::at(EngineAddr::new(address)) }
}

fn buffer(dma: &HeapDma, fill: u8, direction: DataDirection) -> Streaming<HeapDma, Vec<u8>, Prepared> {
    Streaming::prepare(dma.clone(), vec![fill; 16], direction, &DmaConstraints::any()).unwrap()
}

#[test]
fn the_default_combined_call_uses_its_configuration_for_one_descriptor_and_puts_the_old_one_back() {
    let mut ch = FakeChannel::new(4).unwrap();
    ch.configure(&at(1)).unwrap();
    for (config, used) in [(Some(at(2)), 2), (None, 1)] {
        let d =
            ch.prep_slave_sg_config(&[], Direction::MemToDev, PrepFlags::INTERRUPT, config.as_ref()).unwrap();
        ch.discard(d);
        assert_eq!(ch.take_prepared()[0].config, at(used));
        assert_eq!(ch.configuration(), Some(at(1)));
    }
}

#[test]
fn the_default_combined_call_puts_the_old_configuration_back_on_failure_too() {
    let mut ch = FakeChannel::new(4).unwrap();
    ch.set_refuse(true);
    let failed = ch.prep_slave_sg_config(&[], Direction::MemToDev, PrepFlags::INTERRUPT, Some(&at(2)));
    assert_eq!(failed.unwrap_err(), FakeError::Refused);
    assert_eq!(ch.configuration(), None);
    ch.configure(&at(1)).unwrap();
    let failed = ch.prep_slave_sg_config(&[], Direction::MemToDev, PrepFlags::INTERRUPT, Some(&at(2)));
    assert_eq!((failed.unwrap_err().kind(), ch.configuration()), (ErrorKind::InvalidInput, Some(at(1))));
}

#[test]
fn what_an_engine_does_not_do_is_unsupported() {
    use tombolo_hal::dmaengine::{InterleavedTemplate, PeerWindow};
    let mut ch = FakeChannel::new(4).unwrap();
    // SAFETY: the fake moves nothing, so no address is ever used.
    let window = unsafe { PeerWindow::new(tombolo_hal::DmaAddr::new(0x1000), 64) };
    let entry = window.entry(0, 64).unwrap();
    let template = InterleavedTemplate {
        memory: entry,
        device: EngineAddr::new(0),
        direction: Direction::MemToDev,
        size: 8,
        frames: 2,
        memory_gap: 8,
        device_gap: 0,
    };
    for result in [
        ch.prep_dma_cyclic(entry, 8, Direction::MemToDev, PrepFlags::QUIET),
        ch.prep_dma_memcpy(entry, entry, PrepFlags::QUIET),
        ch.prep_interleaved_dma(&template, PrepFlags::QUIET),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn buffers_come_back_with_their_completion_in_any_number() {
    let dma = HeapDma::new();
    let hardware = FakeChannel::new(4).unwrap();
    let mut owned = Owned::new(hardware.clone());
    let two = [1, 2].map(|f| buffer(&dma, f, DataDirection::ToDevice)).into_iter().collect();
    let a = owned.submit(two, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&at(7))).unwrap();
    let one = buffer(&dma, 3, DataDirection::Bidirectional);
    let b = owned.submit_one(one, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&at(8))).unwrap();
    owned.issue_pending();
    assert_eq!((owned.in_flight(), dma.mapped(), owned.status(b).status), (2, 3, TxStatus::InProgress));
    let mut other = Owned::new(FakeChannel::new(4).unwrap());
    let foreign = other.submit_one(
        buffer(&dma, 9, DataDirection::ToDevice),
        Direction::MemToDev,
        PrepFlags::QUIET,
        Some(&at(1)),
    );
    let foreign = foreign.unwrap();
    assert_ne!(foreign, a, "cookies of two channels are never equal");
    assert_eq!(owned.status(foreign).status, TxStatus::Unknown);
    other.terminate_all().unwrap();
    drop(other.pop_terminated());
    hardware.finish_next(TxResult::NoError, 0);
    hardware.finish_next(TxResult::ReadFailed, 5);
    let first = owned.pop_finished().unwrap();
    assert_eq!((first.completion.cookie, first.buffers.len()), (a, 2));
    let second = owned.pop_finished().unwrap();
    assert_eq!(
        (second.completion.cookie, second.completion.result, second.completion.residue),
        (b, TxResult::ReadFailed, 5)
    );
    let back: Vec<Vec<u8>> =
        first.buffers.into_iter().chain(second.buffers).map(Streaming::into_inner).collect();
    assert_eq!(back, [vec![1; 16], vec![2; 16], vec![3; 16]]);
    assert_eq!((dma.mapped(), dma.quarantined()), (0, 0));
}

#[test]
fn a_refused_transfer_gives_its_buffers_back_and_leaves_nothing_behind() {
    let dma = HeapDma::new();
    let mut owned = Owned::new(FakeChannel::new(4).unwrap());
    let wrong = owned
        .submit_one(
            buffer(&dma, 1, DataDirection::FromDevice),
            Direction::MemToDev,
            PrepFlags::INTERRUPT,
            Some(&at(1)),
        )
        .unwrap_err();
    assert!(matches!(wrong.reason, RefusedReason::WrongDirection { .. }));
    let unconfigured =
        owned.submit(wrong.buffers, Direction::DevToMem, PrepFlags::INTERRUPT, None).unwrap_err();
    assert_eq!(unconfigured.reason, RefusedReason::Channel(FakeError::NotConfigured));
    assert_eq!((owned.in_flight(), unconfigured.buffers.len(), dma.mapped()), (0, 1, 1));
    drop(unconfigured);
    assert_eq!(dma.mapped(), 0);
    for _ in 0..2 {
        owned
            .submit_one(
                buffer(&dma, 1, DataDirection::ToDevice),
                Direction::MemToDev,
                PrepFlags::QUIET,
                Some(&at(1)),
            )
            .unwrap();
    }
    let full = owned
        .submit_one(
            buffer(&dma, 1, DataDirection::ToDevice),
            Direction::MemToDev,
            PrepFlags::QUIET,
            Some(&at(1)),
        )
        .unwrap_err();
    assert!(matches!(full.reason, RefusedReason::NoSpace(_)));
}

#[test]
fn terminated_buffers_come_back_only_when_the_channel_rests_and_are_quarantined_if_it_never_does() {
    let dma = HeapDma::new();
    let hardware = FakeChannel::new(4).unwrap();
    let mut owned = Owned::new(hardware.clone());
    for fill in [1, 2] {
        owned
            .submit_one(
                buffer(&dma, fill, DataDirection::ToDevice),
                Direction::MemToDev,
                PrepFlags::QUIET,
                Some(&at(1)),
            )
            .unwrap();
    }
    owned.issue_pending();
    hardware.set_quiescent(false);
    owned.terminate_all().unwrap();
    assert!(owned.pop_terminated().is_none());
    let mut delay = CountingDelay::default();
    assert!(owned.synchronize(&mut delay, 100).is_err());
    assert_eq!(delay.waited_ns, 100_000);
    hardware.set_quiescent(true);
    owned.synchronize(&mut delay, 100).unwrap();
    assert_eq!(owned.pop_terminated().unwrap().remove(0).into_inner(), [1; 16]);
    assert_eq!((dma.mapped(), dma.quarantined()), (1, 0));
    drop(owned);
    assert_eq!((dma.mapped(), dma.quarantined()), (1, 1));
}

#[test]
fn synchronize_on_a_channel_at_rest_does_not_wait() {
    let mut delay = CountingDelay::default();
    FakeChannel::new(1).unwrap().synchronize(&mut delay, 1_000).unwrap();
    assert_eq!(delay.waited_ns, 0);
}
