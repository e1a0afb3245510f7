//! Memory requests of devices: through the IOMMU to RAM, to a driver's buffer, to a peer's BAR, or
//! to the interrupt controllers.

use super::MESSAGE_RANGE;
use super::fault::{count_down, take};
use super::iommu::{Backing, IommuFault, Refusal};
use super::machine_state::Route;
use super::state::State;
use super::trace::TraceEvent;
use crate::device::{DmaFault, Width};
use crate::memory::HostRegion;

/// A place that a request was routed to.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ram { offset: usize },
    Host { region: HostRegion, offset: usize },
    Bar { function: usize, bar: u8, offset: u64 },
}

/// The bytes of a request.
enum Data<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl Data<'_> {
    fn len(&self) -> usize {
        match self {
            Data::Read(data) => data.len(),
            Data::Write(data) => data.len(),
        }
    }

    const fn is_write(&self) -> bool {
        matches!(self, Data::Write(_))
    }

    fn part(&mut self, start: usize, len: usize) -> Data<'_> {
        match self {
            Data::Read(data) => Data::Read(&mut data[start..start + len]),
            Data::Write(data) => Data::Write(&data[start..start + len]),
        }
    }
}

impl State {
    pub fn dma_read(&mut self, function: usize, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        self.may_request(function)?;
        let result = self.request(function, addr, &mut Data::Read(data));
        match result {
            Ok(()) => {
                let counters = &mut self.functions[function].counters;
                counters.dma_reads += 1;
                counters.dma_read_bytes += data.len() as u64;
                self.record(function, TraceEvent::DmaRead { address: addr, len: data.len() });
            }
            Err(_) => data.fill(0xff),
        }
        self.count_request(function);
        result
    }

    pub fn dma_write(&mut self, function: usize, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        self.may_request(function)?;
        if MESSAGE_RANGE.contains(&addr) {
            self.message_write(function, addr, data);
            self.count_request(function);
            return Ok(());
        }
        self.check_watches(function);
        let garbage = self.garbage(function, data.len());
        let result = self.request(function, addr, &mut Data::Write(garbage.as_deref().unwrap_or(data)));
        if result.is_ok() {
            let counters = &mut self.functions[function].counters;
            counters.dma_writes += 1;
            counters.dma_write_bytes += data.len() as u64;
            self.record(function, TraceEvent::DmaWrite { address: addr, len: data.len() });
        }
        self.refresh_watches(function);
        self.count_request(function);
        result
    }

    /// What the write becomes if fault injection spoils it.
    fn garbage(&mut self, function: usize, len: usize) -> Option<Vec<u8>> {
        let probability = self.functions[function].faults.corrupt_writes;
        self.rng.chance(probability).then(|| {
            let mut garbage = vec![0; len];
            self.rng.fill(&mut garbage);
            garbage
        })
    }

    fn may_request(&mut self, function: usize) -> Result<(), DmaFault> {
        let state = &self.functions[function];
        if state.removed {
            Err(DmaFault::LinkDown)
        } else if !state.config.bus_master() {
            Err(DmaFault::NotBusMaster)
        } else {
            Ok(())
        }
    }

    fn count_request(&mut self, function: usize) {
        if count_down(&mut self.functions[function].faults.dma_until_removal) {
            self.remove_function(function);
        }
    }

    fn request(&mut self, function: usize, addr: u64, data: &mut Data<'_>) -> Result<(), DmaFault> {
        if take(&mut self.functions[function].faults.iommu_fault_next) {
            return Err(self.fault(function, addr, data.is_write(), Refusal::Unmapped));
        }
        let total = data.len();
        let mut done = 0;
        while done < total {
            let address = addr.checked_add(done as u64).ok_or(DmaFault::Unmapped(addr))?;
            let (place, room) = self.locate(function, address, data.is_write())?;
            let len = usize::try_from(room).unwrap_or(usize::MAX).min(total - done);
            self.copy(function, address, place, data.part(done, len))?;
            done += len;
        }
        Ok(())
    }

    /// Where `address` leads and how many bytes there are. A peer's BAR is reached before the IOMMU,
    /// as behind one switch without redirection (ACS); firmware's BAR windows are kept out of IOVAs.
    fn locate(&mut self, function: usize, address: u64, is_write: bool) -> Result<(Place, u64), DmaFault> {
        let machine = &self.machines[self.functions[function].machine];
        if let Some(Route::Bar { function, bar, offset, len }) = machine.bar_route(address) {
            return Ok((Place::Bar { function, bar, offset }, len));
        }
        let hit = match self.functions[function].iommu.translate(address, is_write) {
            Ok(hit) => hit,
            Err(refusal) => return Err(self.fault(function, address, is_write, refusal)),
        };
        match hit.backing {
            Backing::Host(region) => Ok((Place::Host { region, offset: hit.offset as usize }, hit.len)),
            Backing::Physical(base) => {
                let route = base.checked_add(hit.offset).and_then(|physical| machine.route(physical));
                match route {
                    Some(Route::Ram { offset, len }) => {
                        Ok((Place::Ram { offset: offset as usize }, len.min(hit.len)))
                    }
                    Some(Route::Bar { function, bar, offset, len }) => {
                        Ok((Place::Bar { function, bar, offset }, len.min(hit.len)))
                    }
                    None => Err(DmaFault::Unmapped(address)),
                }
            }
        }
    }

    fn fault(&mut self, function: usize, address: u64, is_write: bool, refusal: Refusal) -> DmaFault {
        let time_ns = self.now();
        let state = &mut self.functions[function];
        state.counters.iommu_faults += 1;
        let is_permission = refusal == Refusal::Permission;
        state.iommu.record(IommuFault { time_ns, address, is_write, is_permission });
        self.record(function, TraceEvent::Fault { address, is_write });
        match refusal {
            Refusal::Permission => DmaFault::Permission(address),
            Refusal::Unmapped => DmaFault::Unmapped(address),
        }
    }

    fn copy(&mut self, function: usize, address: u64, place: Place, data: Data<'_>) -> Result<(), DmaFault> {
        let result = match (place, data) {
            (Place::Ram { offset }, Data::Read(data)) => self.ram(function).read(offset, data),
            (Place::Ram { offset }, Data::Write(data)) => self.ram(function).write(offset, data),
            (Place::Host { region, offset }, Data::Read(data)) => region.read(offset, data),
            (Place::Host { region, offset }, Data::Write(data)) => region.write(offset, data),
            (Place::Bar { function, bar, offset }, data) => {
                return self.peer(address, function, bar, offset, data);
            }
        };
        result.map_err(|_| DmaFault::Unmapped(address))
    }

    fn ram(&self, function: usize) -> &crate::memory::SharedMemory {
        &self.machines[self.functions[function].machine].ram
    }

    /// A request to a BAR: plain memory at once, registers as aligned accesses of up to four bytes.
    fn peer(
        &mut self,
        address: u64,
        function: usize,
        bar: u8,
        offset: u64,
        data: Data<'_>,
    ) -> Result<(), DmaFault> {
        let unmapped = DmaFault::Unmapped(address);
        if let Some(memory) = self.functions[function].memory[usize::from(bar)].clone() {
            let start = usize::try_from(offset).map_err(|_| unmapped)?;
            let result = match data {
                Data::Read(data) => memory.read(start, data),
                Data::Write(data) => memory.write(start, data),
            };
            return result.map_err(|_| unmapped);
        }
        if self.functions[function].device.is_none() {
            // The device's own registers, or a peer in the middle of its own request to us.
            return Err(unmapped);
        }
        match data {
            Data::Read(data) => self.peer_read(function, bar, offset, data),
            Data::Write(data) => self.peer_write(function, bar, offset, data),
        }
        Ok(())
    }

    fn peer_read(&mut self, function: usize, bar: u8, offset: u64, data: &mut [u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let width = widest(at, data.len() - done);
            let value = self.bar_read(function, bar, at, width).unwrap_or(u64::MAX);
            let end = done + width.bytes();
            data[done..end].copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
            done = end;
        }
    }

    fn peer_write(&mut self, function: usize, bar: u8, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let width = widest(at, data.len() - done);
            let end = done + width.bytes();
            let mut value = [0; 8];
            value[..width.bytes()].copy_from_slice(&data[done..end]);
            self.bar_write(function, bar, at, width, u64::from_le_bytes(value));
            done = end;
        }
    }
}

/// The widest aligned register access at `offset` that does not go beyond `len` bytes.
fn widest(offset: u64, len: usize) -> Width {
    match (offset % 4, len) {
        (0, 4..) => Width::W32,
        (0 | 2, 2..) => Width::W16,
        _ => Width::W8,
    }
}
