//! A guest that writes anything anywhere: no panic, no event without end.

use tombolo_sim::device::{Device, Width};
use tombolo_sim::lan743x::wire::{Frame, Port, Wire, WireParams};
use tombolo_sim::lan743x::{ChannelCounters, Chip, Lan743x, Revision, presets};
use tombolo_sim::test_bus::TestBus;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    /// Values that get somewhere: small ones, single bits, addresses of the memory, anything.
    fn value(&mut self) -> u32 {
        match self.below(5) {
            0 => self.below(64) as u32,
            1 => 1 << self.below(32),
            2 => 0x1000 + self.below(0x8000) as u32,
            3 => (self.next() & self.next()) as u32,
            _ => self.next() as u32,
        }
    }
}

/// First words of descriptors: whole frames, beginnings, ends, extensions, buffers.
fn near_descriptor(random: &mut Random) -> u32 {
    let kinds = [0x3602_0000, 0x3672_0000, 0x2802_0000, 0x4020_0000, 0x1402_0000, 0x0000_8000];
    kinds[random.below(6) as usize] | random.below(1500) as u32
}

/// Events at one moment; a guest that causes more has found an endless chain.
const MOST_EVENTS: usize = 300;

/// Lets what is due happen, for a while.
fn settle(model: &mut Lan743x, bus: &mut TestBus) {
    let (mut at, mut same) = (bus.now_ns, 0);
    for _ in 0..MOST_EVENTS + 20 {
        if !bus.step(model) {
            return;
        }
        same = if bus.now_ns == at { same + 1 } else { 0 };
        at = bus.now_ns;
        assert!(same < MOST_EVENTS, "events without end at {at}");
    }
}

/// Gives how many frames went out and came in, and how often a channel halted.
fn run(seed: u64, chip: Chip, revision: Revision) -> [u64; 3] {
    let mut random = Random(seed | 1);
    let mut bus = TestBus::new();
    let memory = bus.add_memory(0x1000, 0x8000, true);
    let (port, other): (Port, Port) = Wire::pair(WireParams::default());
    let mut model = Lan743x::new(presets::controller(chip, revision));
    model.connect(port);
    model.handle().delay_status_clears(seed % 3 * 700);
    let channels: Vec<u64> = (0..8).map(|channel| 0xc40 + channel * 0x40).collect();
    for _ in 0..400 {
        match random.below(8) {
            // A channel whose ring is in memory, with anything in it.
            0 | 1 => {
                let channel = channels[random.below(8) as usize];
                let tx = channel >= 0xd40;
                let halts = if random.below(2) == 0 { 1 << 21 | 1 << 16 } else { 0 };
                for (offset, value) in [
                    (0x0c, 0x1000),
                    (0x14, 0x8f00),
                    (4, 16 + random.below(40)),
                    (0, random.next()),
                    (0x20, halts),
                ] {
                    model.write(&mut bus, 0, channel + offset, Width::W32, value & 0xffff_ffff);
                }
                let start =
                    1 << (if tx { 20 + (channel - 0xd40) / 0x40 } else { 4 + (channel - 0xc40) / 0x40 });
                model.write(&mut bus, 0, 0xc0c, Width::W32, start);
                model.write(&mut bus, 0, channel + 0x1c, Width::W32, random.below(60));
            }
            2 => {
                // Descriptors, some of them near to what software would write.
                let near = random.below(3) != 0;
                for index in 0..64 {
                    let word = match (near, index % 4) {
                        (true, 0) => near_descriptor(&mut random),
                        (true, 1) => 0x2000 + random.below(0x6000) as u32,
                        (true, 2) => 0,
                        (true, _) => [0, 1, 700, 1400][random.below(4) as usize] << 16,
                        _ => random.value(),
                    };
                    memory.write_u32(index * 4, word).unwrap();
                }
            }
            3 => {
                let mut bytes = vec![0xff; 6];
                bytes.extend((0..random.below(1600)).map(|_| random.next() as u8));
                other.send(bus.now_ns, Frame::new(bytes));
                model.event(&mut bus, tombolo_sim::lan743x::wire::ARRIVAL);
            }
            4 => {
                // MAC, FIFOs and filter on.
                for (offset, value) in [
                    (0x104, 0x3fff_0005),
                    (0x108, 1),
                    (0x0ac, 0xf000_0000),
                    (0x0c4, 0xf000_0000),
                    (0x508, 0x700),
                ] {
                    model.write(&mut bus, 0, offset, Width::W32, value);
                }
            }
            5 => {
                model.event(&mut bus, random.next());
            }
            6 => {
                let offset = random.below(model.params().chip.register_bytes() / 4) * 4;
                model.read(&mut bus, 0, offset, Width::W32);
            }
            _ => {
                let offset = random.below(model.params().chip.register_bytes() / 4) * 4;
                let value = random.value();
                model.write(&mut bus, 0, offset, Width::W32, value.into());
            }
        }
        settle(&mut model, &mut bus);
        while let tombolo_sim::lan743x::wire::Arrival::Frame(_) = other.receive(bus.now_ns) {}
    }
    let counters = model.handle().counters();
    let sum = |channels: &[ChannelCounters; 4], of: fn(&ChannelCounters) -> u64| {
        channels.iter().map(of).sum::<u64>()
    };
    let halts = sum(&counters.tx, |c| c.halts) + sum(&counters.rx, |c| c.halts);
    [sum(&counters.tx, |c| c.frames), sum(&counters.rx, |c| c.frames), halts]
}

#[test]
fn no_write_and_no_descriptor_makes_a_controller_panic_or_loop() {
    let mut all = [0; 3];
    for seed in 0..600_u64 {
        let chip = Chip::ALL[(seed % 5) as usize];
        let revision = if seed % 2 == 0 { Revision::A0 } else { Revision::B0 };
        let counts = run(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), chip, revision);
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(all.iter().all(|count| *count > 50), "it was not deep enough: {all:?}");
}
