//! What the kernel programmed as the messages of a function's vectors.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tombolo_hal::irq::{IrqMode, MsiMessage};
use tombolo_hal::mmio::Mmio;
use tombolo_hal::pci::{ConfigSpace, MSIX_ENTRY_SIZE, MsiInfo, MsixInfo};

use crate::config::OfCore;
use crate::regions::Core;
use crate::sysfs::{Sysfs, SysfsConfig};
use crate::{Bar, Error};

/// Where the messages can be read.
#[derive(Debug)]
enum Source {
    /// Nowhere.
    Hidden,
    /// In the mapped table.
    Table { bar: Bar, offset: usize },
    /// In the capability as the device has it: VFIO shows a virtual one, sysfs the device's.
    Capability { config: SysfsConfig, msi: MsiInfo },
}

/// The messages, as they were when they were last looked at.
#[derive(Debug)]
pub(crate) struct Messages {
    source: Source,
    count: u16,
    epoch: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    known: Vec<MsiMessage>,
    looked: Instant,
}

impl Messages {
    /// Finds out where the messages of `count` vectors can be read.
    pub fn find(core: &Arc<Core>, sysfs: &Sysfs, mode: IrqMode, count: u16) -> Result<Self, Error> {
        let source = match mode {
            IrqMode::MsiX => Self::table(core, count)?,
            IrqMode::Msi => Self::capability(core, sysfs)?,
            IrqMode::Intx | IrqMode::Polling => None,
        };
        let state = Mutex::new(State { known: Vec::new(), looked: Instant::now() });
        Ok(Self { source: source.unwrap_or(Source::Hidden), count, epoch: AtomicU32::new(0), state })
    }

    fn table(core: &Arc<Core>, count: u16) -> Result<Option<Source>, Error> {
        let Some(msix) = MsixInfo::read(&OfCore(core))? else { return Ok(None) };
        let bar = Bar::new(core, msix.table_bar);
        let offset = msix.table_offset as usize;
        let end = offset + usize::from(count) * MSIX_ENTRY_SIZE as usize;
        // Reads of the table that go through VFIO are answered with all ones.
        let mapped = |bar: &Bar| {
            let region = core.bars.get(usize::from(msix.table_bar)).and_then(Option::as_ref);
            let reaches = region.is_some_and(|r| r.mapped(offset).is_some() && r.mapped(end - 1).is_some());
            reaches && end <= bar.size()
        };
        let table = bar.filter(mapped).map(|bar| Source::Table { bar, offset });
        if table.is_none() {
            log::info!(
                "{}: VFIO does not let the MSI-X table be mapped: its messages stay unknown",
                core.address
            );
        }
        Ok(table)
    }

    fn capability(core: &Core, sysfs: &Sysfs) -> Result<Option<Source>, Error> {
        let config = sysfs.config(core.address)?;
        // Without privilege sysfs shows the first 64 bytes, and no capabilities.
        let Ok(Some(msi)) = MsiInfo::read(&config) else {
            log::info!("{}: only root can read MSI messages (in sysfs): they stay unknown", core.address);
            return Ok(None);
        };
        Ok(Some(Source::Capability { config, msi }))
    }

    /// The message of `vector`, if it can be told.
    pub fn get(&self, vector: u16) -> Option<MsiMessage> {
        self.lock().known.get(usize::from(vector)).copied()
    }

    /// Differs from earlier values if a message has changed.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Looks at the messages if that was not done for `interval`.
    pub fn look_now_and_then(&self, interval: Duration) {
        let due = self.lock().looked.elapsed() >= interval;
        if due {
            self.look();
        }
    }

    /// Looks at the messages.
    pub fn look(&self) {
        let mut state = self.lock();
        state.looked = Instant::now();
        // What reads all ones is no message: the device is gone, and what was known stays.
        let Some(now) = self.read() else { return };
        if now != state.known {
            log::debug!("messages: {now:x?}");
            state.known = now;
            self.epoch.fetch_add(1, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Option<Vec<MsiMessage>> {
        match &self.source {
            Source::Hidden => None,
            Source::Table { bar, offset } => (0..self.count)
                .map(|vector| read_entry(bar, offset + usize::from(vector) * MSIX_ENTRY_SIZE as usize))
                .collect(),
            Source::Capability { config, msi } => {
                let first = read_capability(config, msi)?;
                Some((0..self.count).map(|vector| of_vector(first, vector)).collect())
            }
        }
    }
}

/// An entry of the table: address low and high, data. `None` if it reads all ones.
fn read_entry(table: &impl Mmio, at: usize) -> Option<MsiMessage> {
    // A vector moves while we read: the same twice is one message.
    let entry = || [0, 4, 8].map(|word| table.read32(at + word));
    let mut seen = entry();
    for _ in 0..4 {
        let again = entry();
        if seen == again {
            break;
        }
        seen = again;
    }
    let [low, high, data] = seen;
    let message = MsiMessage { address: u64::from(high) << 32 | u64::from(low), data };
    (seen != [u32::MAX; 3]).then_some(message)
}

fn read_capability(config: &impl ConfigSpace, msi: &MsiInfo) -> Option<MsiMessage> {
    let low = config.read32(msi.offset + 4);
    let (high, data) = match msi.address_64 {
        true => (config.read32(msi.offset + 8), config.read16(msi.offset + 12)),
        false => (0, config.read16(msi.offset + 8)),
    };
    let message = MsiMessage { address: u64::from(high) << 32 | u64::from(low), data: data.into() };
    (low != u32::MAX).then_some(message)
}

/// A function sends its vectors in the low bits of the data.
fn of_vector(first: MsiMessage, vector: u16) -> MsiMessage {
    MsiMessage { data: first.data | u32::from(vector), ..first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_hal::fake::FakeMmio;
    use tombolo_hal::pci::{CapabilityId, fake::FakeConfigSpace};

    #[test]
    fn an_entry_of_the_table_is_a_message_unless_it_is_all_ones() {
        let table = FakeMmio::new(64);
        (16..32).step_by(4).for_each(|at| table.poke32(at, u32::MAX));
        for (at, word) in [(0, 0xfee0_0000), (4, 1), (8, 0x4021)] {
            table.poke32(at, word);
        }
        assert_eq!(read_entry(&table, 0), Some(MsiMessage { address: 0x1_fee0_0000, data: 0x4021 }));
        assert_eq!(read_entry(&table, 16), None);
    }

    #[test]
    fn msi_vectors_differ_in_the_low_bits_of_the_data() {
        for (control, data_at) in [(0x86u8, 12), (0x06, 8)] {
            let mut body = vec![control, 0];
            body.extend(0xfee0_1000u32.to_le_bytes());
            body.resize(data_at - 2, 0);
            body.extend([0x40, 0x41, 0, 0]);
            let config = FakeConfigSpace::new(0x16c3, 0xedda).with_capability(CapabilityId::MSI, 0x50, &body);
            let msi = MsiInfo::read(&config).unwrap().unwrap();
            let first = read_capability(&config, &msi).unwrap();
            assert_eq!(of_vector(first, 3), MsiMessage { address: 0xfee0_1000, data: 0x4143 });
        }
    }
}
