//! A pair of functions joined by shared memory and doorbells: the smallest device by which two machines
//! can talk, and groundwork for a non-transparent bridge.
//!
//! An invention for tests, with the parts that real bridges have: [`pair`] makes two functions, one for
//! each machine, with the same memory behind BAR 2. Whoever rings a bell of the other side tells so by a
//! callback ([`Bell`]), because the two sides may live in different fabrics or servers: the callback has
//! [`Device::event`] of the other side called, with any token.
//!
//! BAR 0, 32-bit words:
//!
//! | offset | name | access | |
//! |---|---|---|---|
//! | 0x00 | `ID` | read | [`ID`] |
//! | 0x04 | `SIDE` | read | 0 or 1 |
//! | 0x08 | `MEMORY` | read | bytes behind BAR 2 in units of 4 KiB |
//! | 0x0c | `RING` | write | rings these bells (bits 15:0) of the other side; reads zero |
//! | 0x10 | `STATUS` | read, write 1 to clear | bells that the other side rang here |
//! | 0x14 | `MASK` | read, write | bells that do not interrupt here; after reset 0 |
//! | 0x40 to 0x7c | `SCRATCH` | read, write | sixteen words, the same on both sides |
//!
//! Bell `n` has vector `n` modulo [`VECTORS`] of MSI-X or MSI; without them the pin is asserted while a
//! bell in `STATUS` is not masked. MSI-X is in BAR 4. A reset of one side clears its `STATUS` and `MASK`
//! and nothing else: memory and scratch words belong to both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::{Bar, ConfigSpaceBuilder, Msi, Msix};
use crate::device::{Bus, Device, Width};
use crate::memory::{PAGE_SIZE, SharedMemory};

/// Vendor and device ID, of nobody.
pub const IDENTITY: (u16, u16) = (0x1234, 0xb21d);
/// What register `ID` reads: "TBRG".
pub const ID: u32 = 0x4752_4254;
/// Vectors of MSI-X and MSI.
pub const VECTORS: u16 = 4;
/// Bells in each direction.
pub const BELLS: u32 = 16;
/// Words of scratch.
pub const SCRATCH_WORDS: usize = 16;

/// Offsets in BAR 0.
pub mod register {
    /// [`ID`](super::ID).
    pub const ID: u64 = 0x00;
    /// Which side this is.
    pub const SIDE: u64 = 0x04;
    /// Shared memory in pages.
    pub const MEMORY: u64 = 0x08;
    /// Rings bells.
    pub const RING: u64 = 0x0c;
    /// Bells that were rung.
    pub const STATUS: u64 = 0x10;
    /// Bells that do not interrupt.
    pub const MASK: u64 = 0x14;
    /// First word of scratch.
    pub const SCRATCH: u64 = 0x40;
}

const REGISTER_BAR: u8 = 0;
const MEMORY_BAR: u8 = 2;
const MSIX_BAR: u8 = 4;
const BELL_BITS: u32 = (1 << BELLS) - 1;

/// Tells the other side: has its [`Device::event`] called soon, with the bells as token. Must neither
/// wait nor call the other side itself: the caller is inside of a call of this one.
pub trait Bell: Fn(u64) + Send {}

impl<T: Fn(u64) + Send> Bell for T {}

/// What both sides have.
struct Shared {
    memory: SharedMemory,
    scratch: [AtomicU32; SCRATCH_WORDS],
    /// Bells on their way to each side.
    rung: [AtomicU32; 2],
}

/// One function of the pair.
pub struct Side<B> {
    number: usize,
    shared: Arc<Shared>,
    tell: B,
    status: u32,
    mask: u32,
}

/// Both functions. The first calls `tell_second` when it rings, the second `tell_first`.
///
/// `memory_bytes` is the size of BAR 2: rounded up to a power of two from 4 KiB to 1 GiB.
///
/// # Examples
/// ```
/// use tombolo_sim::bridge::{pair, register};
/// use tombolo_sim::device::{Device, Width};
/// use tombolo_sim::test_bus::TestBus;
///
/// let (mut one, mut two) = pair(1 << 20, |_| println!("tell two"), |_| println!("tell one"));
/// let (mut here, mut there) = (TestBus::new(), TestBus::new());
/// one.write(&mut here, 0, register::RING, Width::W32, 1 << 5);
/// // What the callback has to bring about:
/// two.event(&mut there, 0);
/// assert_eq!(two.read(&mut there, 0, register::STATUS, Width::W32), 1 << 5);
/// assert_eq!(there.raised, [1]);
/// ```
pub fn pair<A: Bell, B: Bell>(memory_bytes: usize, tell_second: A, tell_first: B) -> (Side<A>, Side<B>) {
    let bytes = memory_bytes.clamp(PAGE_SIZE, 1 << 30).next_power_of_two();
    let shared = Arc::new(Shared {
        memory: SharedMemory::new(bytes),
        scratch: [const { AtomicU32::new(0) }; SCRATCH_WORDS],
        rung: [const { AtomicU32::new(0) }; 2],
    });
    (Side::new(0, shared.clone(), tell_second), Side::new(1, shared, tell_first))
}

impl<B: Bell> Side<B> {
    fn new(number: usize, shared: Arc<Shared>, tell: B) -> Self {
        Self { number, shared, tell, status: 0, mask: 0 }
    }

    /// The memory that both sides have.
    pub fn memory(&self) -> &SharedMemory {
        &self.shared.memory
    }

    fn scratch(&self, offset: u64) -> Option<&AtomicU32> {
        let word = offset.checked_sub(register::SCRATCH)? / 4;
        self.shared.scratch.get(usize::try_from(word).ok()?)
    }

    fn ring(&self, bells: u32) {
        let bells = bells & BELL_BITS;
        if bells != 0 {
            // Together with the take below: who sees the bell sees what was written before it.
            self.shared.rung[1 - self.number].fetch_or(bells, Ordering::Release);
            (self.tell)(bells.into());
        }
    }

    /// Takes what was rung, and interrupts for it.
    fn take(&mut self, bus: &mut dyn Bus) {
        let rung = self.shared.rung[self.number].swap(0, Ordering::Acquire);
        self.status |= rung;
        self.interrupt(bus, rung);
    }

    /// Interrupts for these bells, as far as they are not masked.
    fn interrupt(&self, bus: &mut dyn Bus, bells: u32) {
        let bells = bells & self.status & !self.mask;
        for vector in 0..VECTORS {
            let its = (0..BELLS).filter(|bell| bell % u32::from(VECTORS) == vector.into());
            if its.into_iter().any(|bell| bells >> bell & 1 != 0) {
                bus.raise(vector);
            }
        }
        bus.set_intx(self.status & !self.mask != 0);
    }
}

impl<B: Bell> Device for Side<B> {
    fn name(&self) -> &str {
        if self.number == 0 { "bridge side 0" } else { "bridge side 1" }
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        let msix = Msix {
            vectors: VECTORS,
            table_bar: MSIX_BAR,
            table_offset: 0,
            pba_bar: MSIX_BAR,
            pba_offset: 0x800,
        };
        config
            .identity(IDENTITY.0, IDENTITY.1)
            // "Other bridge device".
            .class(0x06_80_00)
            .interrupt_pin(1)
            .bar(Bar::bits32(REGISTER_BAR, PAGE_SIZE as u64))
            .bar(Bar::bits64(MEMORY_BAR, self.shared.memory.len() as u64).memory())
            .bar(Bar::bits32(MSIX_BAR, PAGE_SIZE as u64))
            .pcie(true)
            .msi(Msi { vectors: VECTORS as u8, per_vector_mask: false })
            .msix(msix);
    }

    fn reset(&mut self) {
        self.shared.rung[self.number].store(0, Ordering::Relaxed);
        (self.status, self.mask) = (0, 0);
    }

    fn read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width) -> u64 {
        if bar != REGISTER_BAR || width != Width::W32 {
            return u64::MAX;
        }
        let value = match offset {
            register::ID => ID,
            register::SIDE => self.number as u32,
            register::MEMORY => (self.shared.memory.len() / PAGE_SIZE) as u32,
            register::STATUS => {
                // A bell that rings while nobody was told of it yet must not be missed.
                self.take(bus);
                self.status
            }
            register::MASK => self.mask,
            _ => self.scratch(offset).map_or(0, |word| word.load(Ordering::Acquire)),
        };
        value.into()
    }

    fn write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width, value: u64) {
        if bar != REGISTER_BAR || width != Width::W32 {
            return;
        }
        let value = value as u32;
        match offset {
            register::RING => self.ring(value),
            register::STATUS => {
                self.status &= !value;
                self.interrupt(bus, 0);
            }
            register::MASK => {
                let opened = self.mask & !value;
                self.mask = value & BELL_BITS;
                // What rang meanwhile is told now.
                self.interrupt(bus, opened);
            }
            _ => {
                if let Some(word) = self.scratch(offset) {
                    word.store(value, Ordering::Release);
                }
            }
        }
    }

    fn event(&mut self, bus: &mut dyn Bus, _token: u64) {
        self.take(bus);
    }

    fn bar_memory(&self, bar: u8) -> Option<SharedMemory> {
        (bar == MEMORY_BAR).then(|| self.shared.memory.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bus::TestBus;
    use std::sync::mpsc;

    const W: Width = Width::W32;

    #[test]
    fn a_bell_reaches_the_other_side_once_with_its_vector() {
        let (told, heard) = mpsc::channel();
        let (mut one, mut two) =
            pair(4096, move |bells| told.send(bells).unwrap(), |_| panic!("nobody rang"));
        let (mut here, mut there) = (TestBus::new(), TestBus::new());
        one.write(&mut here, 0, register::RING, W, 0xf_0042);
        assert_eq!(heard.try_recv(), Ok(0x42), "only bells that there are");
        two.event(&mut there, 0x42);
        assert_eq!((&there.raised[..], there.intx), (&[1, 2][..], true));
        assert_eq!(two.read(&mut there, 0, register::STATUS, W), 0x42);
        two.write(&mut there, 0, register::STATUS, W, 2);
        assert!(there.intx, "one is left");
        two.write(&mut there, 0, register::STATUS, W, 0x40);
        assert_eq!((there.intx, there.raised.len()), (false, 2));
        two.event(&mut there, 0);
        assert_eq!((two.read(&mut there, 0, register::STATUS, W), here.raised.len()), (0, 0));
        one.write(&mut here, 0, register::RING, W, 0);
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn masked_bells_wait() {
        let (mut one, mut two) = pair(4096, |_| {}, |_| {});
        let (mut here, mut there) = (TestBus::new(), TestBus::new());
        two.write(&mut there, 0, register::MASK, W, 0xffff_0001);
        assert_eq!(two.read(&mut there, 0, register::MASK, W), 1);
        one.write(&mut here, 0, register::RING, W, 1);
        two.event(&mut there, 0);
        assert_eq!((there.raised.len(), there.intx), (0, false));
        two.write(&mut there, 0, register::MASK, W, 0);
        assert_eq!((&there.raised[..], there.intx), (&[0][..], true));
    }

    #[test]
    fn memory_and_scratch_are_one_and_outlive_a_reset_of_a_side() {
        let (mut one, mut two) = pair(5000, |_| {}, |_| {});
        let (mut here, mut there) = (TestBus::new(), TestBus::new());
        assert!(one.bar_memory(2).unwrap().same_as(&two.bar_memory(2).unwrap()));
        assert_eq!((one.memory().len(), one.bar_memory(0).is_none()), (8192, true));
        one.write(&mut here, 0, register::SCRATCH + 60, W, 7);
        one.write(&mut here, 0, register::RING, W, 1);
        two.event(&mut there, 0);
        two.write(&mut there, 0, register::MASK, W, 2);
        one.reset();
        assert_eq!(two.read(&mut there, 0, register::SCRATCH + 60, W), 7);
        assert_eq!(two.read(&mut there, 0, register::STATUS, W), 1, "the other side is not reset");
        two.reset();
        assert_eq!(two.read(&mut there, 0, register::STATUS, W), 0);
        assert_eq!(two.read(&mut there, 0, register::MASK, W), 0);
    }

    #[test]
    fn sides_know_what_they_are_and_ignore_nonsense() {
        let (mut one, mut two) = pair(0, |_| panic!("nobody rang"), |_| panic!("nobody rang"));
        let mut bus = TestBus::new();
        for (number, side) in [&mut one as &mut dyn Device, &mut two].into_iter().enumerate() {
            let mut builder = ConfigSpaceBuilder::new();
            side.describe(&mut builder);
            assert!(builder.build().is_ok());
            let words = [register::ID, register::SIDE, register::MEMORY];
            let words = words.map(|offset| side.read(&mut bus, 0, offset, W));
            assert_eq!(words, [ID.into(), number as u64, 1]);
            for (bar, offset, width) in
                [(1, 0, W), (0, register::RING, Width::W16), (0, 0x80, W), (0, 0xffc, W)]
            {
                side.write(&mut bus, bar, offset, width, u64::MAX);
            }
            assert_eq!(side.read(&mut bus, 0, 0x80, W), 0);
            assert_eq!(side.read(&mut bus, 0, 0, Width::W8), u64::MAX);
        }
    }
}
