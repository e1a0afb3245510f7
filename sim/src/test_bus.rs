//! A [`Bus`] for unit tests of one model, without machine or driver.

use crate::device::{Bus, Device, DmaFault};
use crate::memory::SharedMemory;
use std::collections::BTreeMap;

/// Plain memory, a clock and a record of what the model did.
///
/// # Examples
/// ```
/// use tombolo_sim::device::Bus;
/// use tombolo_sim::test_bus::TestBus;
///
/// let mut bus = TestBus::new();
/// let ram = bus.add_memory(0x1000, 4096, true);
/// bus.dma_write(0x1010, &[1, 2, 3, 4])?;
/// assert_eq!(ram.read_u32(0x10).unwrap(), 0x0403_0201);
/// assert!(bus.dma_read(0x9000, &mut [0; 4]).is_err());
/// # Ok::<(), tombolo_sim::device::DmaFault>(())
/// ```
#[derive(Default)]
pub struct TestBus {
    /// The present time in nanoseconds.
    pub now_ns: u64,
    /// What the model sent with [`Bus::raise`].
    pub raised: Vec<u16>,
    /// Level of the INTx pin.
    pub intx: bool,
    /// Where BARs are placed.
    pub bars: BTreeMap<u8, u64>,
    /// All DMA writes that succeeded, in order: address and data. Writes to
    /// `0xfee0_0000..0xfef0_0000` (interrupt messages) need no memory there.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Number of DMA reads that succeeded.
    pub reads: u64,
    memory: Vec<(u64, SharedMemory, bool)>,
    events: BTreeMap<(u64, u64), u64>,
    sequence: u64,
}

impl TestBus {
    /// A bus at time 0 with no memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `len` bytes of memory at bus address `base`; the device may write it if `writable`.
    pub fn add_memory(&mut self, base: u64, len: usize, writable: bool) -> SharedMemory {
        let memory = SharedMemory::new(len);
        self.memory.push((base, memory.clone(), writable));
        memory
    }

    /// Takes all memory at `base` away: later requests there fault.
    pub fn remove_memory(&mut self, base: u64) {
        self.memory.retain(|(start, ..)| *start != base);
    }

    /// Number of events that wait.
    pub fn pending_events(&self) -> usize {
        self.events.len()
    }

    /// Runs the next event, moving time to it. False if there is none.
    pub fn step(&mut self, device: &mut dyn Device) -> bool {
        let Some(((due, _), token)) = self.events.pop_first() else { return false };
        self.now_ns = self.now_ns.max(due);
        device.event(self, token);
        true
    }

    /// Runs events until none is left, at most `limit`. Gives back how many ran.
    pub fn run(&mut self, device: &mut dyn Device, limit: usize) -> usize {
        (0..limit).take_while(|_| self.step(device)).count()
    }

    fn find(&self, addr: u64, len: usize) -> Result<(&SharedMemory, usize, bool), DmaFault> {
        let hit = self.memory.iter().find_map(|(base, memory, writable)| {
            let offset = usize::try_from(addr.checked_sub(*base)?).ok()?;
            let fits = offset.checked_add(len)? <= memory.len();
            fits.then_some((memory, offset, *writable))
        });
        hit.ok_or(DmaFault::Unmapped(addr))
    }
}

impl Bus for TestBus {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn schedule(&mut self, delay_ns: u64, token: u64) {
        self.sequence += 1;
        let due = self.now_ns.saturating_add(delay_ns);
        self.events.insert((due, self.sequence), token);
    }

    fn dma_read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        let (memory, offset, _) = self.find(addr, data.len())?;
        memory.read(offset, data).map_err(|_| DmaFault::Unmapped(addr))?;
        self.reads += 1;
        Ok(())
    }

    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        if !(0xfee0_0000..0xfef0_0000).contains(&addr) {
            let (memory, offset, writable) = self.find(addr, data.len())?;
            if !writable {
                return Err(DmaFault::Permission(addr));
            }
            memory.write(offset, data).map_err(|_| DmaFault::Unmapped(addr))?;
        }
        self.writes.push((addr, data.to_vec()));
        Ok(())
    }

    fn raise(&mut self, vector: u16) {
        self.raised.push(vector);
    }

    fn set_intx(&mut self, asserted: bool) {
        self.intx = asserted;
    }

    fn bar_address(&self, bar: u8) -> Option<u64> {
        self.bars.get(&bar).copied()
    }
}
