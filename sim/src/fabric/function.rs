//! A function that is plugged into a machine: accesses, DMA maps, counters and faults.

use super::fault::Removal;
use super::iommu::{Access, Backing, IommuError, IommuFault};
use super::state::{FunctionState, State};
use super::{Counters, Fabric};
use crate::device::Width;
use crate::host::{SimConfig, SimDma, SimMmio};
use crate::memory::HostRegion;

/// A handle of one PCI function.
#[derive(Clone, Debug)]
pub struct Function {
    fabric: Fabric,
    id: usize,
}

impl Function {
    pub(super) fn new(fabric: Fabric, id: usize) -> Self {
        Self { fabric, id }
    }

    /// The world that the function is in.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The number of the function in its fabric, which traces show.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The BAR as a driver sees it; `None` if the device does not have it.
    pub fn mmio(&self, bar: u8) -> Option<SimMmio> {
        let size = self.lock(|function| function.config.bar(bar))?.size;
        Some(SimMmio::new(self.clone(), bar, size))
    }

    /// Configuration space as a driver sees it.
    pub fn config(&self) -> SimConfig {
        SimConfig::new(self.clone())
    }

    /// DMA memory for the driver of this function.
    pub fn dma(&self) -> SimDma {
        SimDma::new(self.clone())
    }

    /// Switches memory decoding and bus mastering on, as a driver does first.
    pub fn enable(&self) {
        self.fabric.access(|state| {
            let command = state.config_read(self.id, 0x04, Width::W16);
            state.config_write(self.id, 0x04, Width::W16, command | 0x6);
        });
    }

    /// The bus address of a BAR; `None` while it is not decoded.
    pub fn bar_address(&self, bar: u8) -> Option<u64> {
        self.lock(|function| function.config.bar_address(bar))
    }

    /// Lets the device reach `len` bytes at physical address `physical` (RAM or a BAR) as `iova`.
    ///
    /// # Errors
    /// [`IommuError`]; nothing is mapped then.
    pub fn iommu_map(&self, iova: u64, physical: u64, len: u64, access: Access) -> Result<(), IommuError> {
        self.fabric.lock().map_physical(self.id, iova, len, physical, access)
    }

    /// Takes a whole mapping away: later requests fault.
    ///
    /// # Errors
    /// [`IommuError::NotMapped`] if there is no mapping of just this range.
    pub fn iommu_unmap(&self, iova: u64, len: u64) -> Result<(), IommuError> {
        self.lock(|function| function.iommu.unmap(iova, len))
    }

    /// The first 1024 requests that the IOMMU refused.
    pub fn iommu_faults(&self) -> Vec<IommuFault> {
        self.lock(|function| function.iommu.faults().to_vec())
    }

    /// Number and bytes of the mappings that exist.
    pub fn iommu_mapped(&self) -> (usize, u64) {
        self.lock(|function| function.iommu.mapped())
    }

    /// What was counted since the function was attached.
    pub fn counters(&self) -> Counters {
        self.lock(|function| function.counters.clone())
    }

    /// Shows changes of `words` 32-bit words at `iova` in the trace, see
    /// [`TraceEvent::Memory`](super::TraceEvent::Memory).
    pub fn watch(&self, iova: u64, words: usize) {
        self.fabric.lock().watch(self.id, iova, words);
    }

    /// A function-level reset: the model and configuration space are as after power-on (BARs and
    /// command register cleared), events and posted writes on their way are gone. Mappings stay.
    pub fn reset(&self) {
        self.fabric.access(|state| state.reset_function(self.id));
    }

    /// A function-level reset after which configuration space and the MSI-X table are put back, and
    /// 100 ms have passed, as an operating system does it.
    pub fn reset_and_restore(&self) {
        self.fabric.access(|state| state.reset_and_restore(self.id));
        self.fabric.advance(100_000_000);
    }

    /// Whether the function was removed.
    pub fn is_removed(&self) -> bool {
        self.lock(|function| function.removed)
    }

    /// Pulls the device out: reads are all ones, writes vanish, its DMA and events stop.
    pub fn surprise_remove(&self, when: Removal) {
        let mut state = self.fabric.lock();
        let faults = &mut state.functions[self.id].faults;
        match when {
            Removal::Now | Removal::AfterMmio(0) | Removal::AfterDma(0) => {
                state.remove_function(self.id);
            }
            Removal::AfterMmio(count) => faults.mmio_until_removal = Some(count),
            Removal::AfterDma(count) => faults.dma_until_removal = Some(count),
        }
    }

    /// Loses the next `count` interrupt messages.
    pub fn lose_next_interrupts(&self, count: u64) {
        self.lock(|function| function.faults.lose_next = count);
    }

    /// Loses interrupt messages with this probability (0 to 1).
    pub fn lose_interrupts(&self, probability: f64) {
        self.lock(|function| function.faults.lose_probability = probability);
    }

    /// Lets `vector` fire without the device having sent anything.
    pub fn spurious_interrupt(&self, vector: u16) {
        self.fabric.access(|state| state.delivery.post((self.id, vector)));
    }

    /// Lets each posted write take up to `max_ns` to arrive. Their order stays, and a read arrives
    /// after all of them. 0 switches it off.
    pub fn delay_posted_writes(&self, max_ns: u64) {
        self.lock(|function| function.faults.posted_delay_ns = max_ns);
    }

    /// Refuses the next `count` memory requests of the device.
    pub fn iommu_fault_next(&self, count: u64) {
        self.lock(|function| function.faults.iommu_fault_next = count);
    }

    /// Refuses the next `count` attempts to map memory for the device.
    pub fn refuse_mappings(&self, count: u64) {
        self.lock(|function| function.faults.refuse_map_next = count);
    }

    /// Refuses mappings that touch `first..=last`, for as long as it is set.
    pub fn refuse_mapping_range(&self, range: Option<(u64, u64)>) {
        self.lock(|function| function.faults.refuse_map_range = range);
    }

    /// Turns what the device writes to memory into garbage, with this probability a request.
    /// Interrupt messages are spared.
    pub fn corrupt_dma_writes(&self, probability: f64) {
        self.lock(|function| function.faults.corrupt_writes = probability);
    }

    /// Turns what the driver reads from BARs into garbage, with this probability a read.
    pub fn corrupt_reads(&self, probability: f64) {
        self.lock(|function| function.faults.corrupt_reads = probability);
    }

    pub(crate) fn lock<R>(&self, call: impl FnOnce(&mut FunctionState) -> R) -> R {
        call(&mut self.fabric.lock().functions[self.id])
    }
}

impl State {
    /// Maps a range, unless fault injection refuses.
    fn map(
        &mut self,
        function: usize,
        iova: u64,
        len: u64,
        backing: Backing,
        access: Access,
    ) -> Result<(), IommuError> {
        let state = &mut self.functions[function];
        let last = iova.saturating_add(len.saturating_sub(1));
        let range = state.faults.refuse_map_range;
        let in_range = range.is_some_and(|(first, end)| iova <= end && last >= first);
        if in_range || super::fault::take(&mut state.faults.refuse_map_next) {
            return Err(IommuError::Refused { iova, len });
        }
        state.iommu.map(iova, len, backing, access)
    }

    /// Maps RAM or a BAR.
    pub fn map_physical(
        &mut self,
        function: usize,
        iova: u64,
        len: u64,
        physical: u64,
        access: Access,
    ) -> Result<(), IommuError> {
        self.map(function, iova, len, Backing::Physical(physical), access)
    }

    /// Maps a buffer of the driver.
    pub fn map_host(
        &mut self,
        function: usize,
        iova: u64,
        region: HostRegion,
        access: Access,
    ) -> Result<(), IommuError> {
        self.map(function, iova, region.len() as u64, Backing::Host(region), access)
    }

    fn reset_and_restore(&mut self, function: usize) {
        let state = &self.functions[function];
        let (config, msix) = (state.config.clone(), state.msix.clone());
        self.reset_function(function);
        let state = &mut self.functions[function];
        state.config.restore(&config);
        state.msix.restore(&msix);
        self.update_routing(function);
    }
}
