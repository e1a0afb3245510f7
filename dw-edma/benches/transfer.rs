//! Time from prep to completion over plain memory, without and with owned buffers.
//!
//! `engine alone` is what the benches' own part costs: the three stores of the engine that is played.

mod support;

use arrayvec::ArrayVec;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dw_edma::Format;
use std::hint::black_box;
use support::{Chan, PlainEngine, config, segments, transfer};
use tombolo_hal::dma::{DataDirection, DmaConstraints, Prepared, Streaming};
use tombolo_hal::dmaengine::{Direction, OwnedTransfers, PrepFlags};
use tombolo_hal::fake::HeapDma;
use tombolo_hal::lock::SpinLock;

const COUNTS: [usize; 3] = [1, 16, 256];
/// Data elements of the list: the longest transfer fits, and the ring wraps in its middle.
const ELEMENTS: usize = 300;

fn channel_level(c: &mut Criterion) {
    for format in [Format::Unroll, Format::HdmaNative, Format::Legacy] {
        let mut group = c.benchmark_group(format.to_string());
        for count in COUNTS {
            let (mut engine, mut channel) = PlainEngine::open(format, SpinLock::new(), ELEMENTS);
            let (sg, config) = (segments(count), config());
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(BenchmarkId::from_parameter(count), |b| {
                b.iter(|| transfer(&mut engine, &mut channel, black_box(&sg), &config));
            });
        }
        group.finish();
    }
}

fn engine_alone(c: &mut Criterion) {
    let (mut engine, _channel) = PlainEngine::open(Format::Unroll, SpinLock::new(), ELEMENTS);
    c.bench_function("engine alone", |b| {
        b.iter(|| {
            engine.move_elements(black_box(16));
            engine.clear_status();
        });
    });
}

type Buffers<const S: usize> = ArrayVec<Streaming<HeapDma, Vec<u8>, Prepared>, S>;

fn buffers<const S: usize>(dma: &HeapDma) -> Buffers<S> {
    let any = DmaConstraints::any();
    (0..S)
        .map(|_| Streaming::prepare(dma.clone(), vec![0; 64], DataDirection::ToDevice, &any).unwrap())
        .collect()
}

/// Buffers are prepared before and dropped after what is measured.
fn owned<const S: usize>(c: &mut Criterion) {
    let dma = HeapDma::new();
    let (mut engine, channel) = PlainEngine::open(Format::Unroll, SpinLock::new(), ELEMENTS);
    let mut transfers: OwnedTransfers<Chan<SpinLock>, HeapDma, Vec<u8>, 4, S> = OwnedTransfers::new(channel);
    let config = config();
    let mut group = c.benchmark_group("unroll, owned buffers");
    group.throughput(Throughput::Elements(S as u64));
    group.bench_function(BenchmarkId::from_parameter(S), |b| {
        b.iter_batched(
            || buffers::<S>(&dma),
            |buffers| {
                let submitted =
                    transfers.submit(buffers, Direction::MemToDev, PrepFlags::INTERRUPT, Some(&config));
                assert!(submitted.is_ok());
                transfers.issue_pending();
                engine.interrupt(S as u32);
                transfers.pop_finished().unwrap()
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, channel_level, owned::<1>, owned::<16>, owned::<256>, engine_alone);
criterion_main!(benches);
