//! What the server reaches on our side: memory that we gave it, and the window where its interrupt
//! messages arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_hal::irq::MsiMessage;
use tombolo_sim::memory::SharedMemory;

use crate::protocol::{Command, Errno, MAX_DATA};

/// Where messages arrive, as on x86.
pub(super) const WINDOW: u64 = 0xfee0_0000;
/// Data of the message of vector 0 of MSI-X. Engines have 16 bits for it.
const MSIX_DATA: u32 = 0x4000;
/// Data of the message of vector 0 of MSI: the low five bits are the vector's.
const MSI_DATA: u32 = 0x20;

/// The message of a vector of MSI-X.
pub(super) fn msix_message(vector: u16) -> MsiMessage {
    MsiMessage { address: WINDOW, data: MSIX_DATA + u32::from(vector) }
}

/// The message of a vector of MSI.
pub(super) fn msi_message(vector: u16) -> MsiMessage {
    MsiMessage { address: WINDOW, data: MSI_DATA + u32::from(vector) }
}

/// Who hears of a message: gets its data.
pub(super) type Listener = Arc<dyn Fn(u32) + Send + Sync>;

/// Memory by address, and who listens.
#[derive(Default)]
pub(super) struct Machine {
    memory: Mutex<BTreeMap<u64, SharedMemory>>,
    listener: Mutex<Option<Listener>>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

impl Machine {
    /// Memory at an address that no other memory has.
    pub fn add(&self, address: u64, memory: SharedMemory) {
        lock(&self.memory).insert(address, memory);
    }

    pub fn remove(&self, address: u64) {
        lock(&self.memory).remove(&address);
    }

    /// Whoever listened before does so no longer.
    pub fn listen(&self, listener: Option<Listener>) {
        *lock(&self.listener) = listener;
    }

    /// Carries out what the server asks for, and gives back the body of the answer.
    ///
    /// # Errors
    /// What the server is told: `EFAULT` for memory that it was not given, `EINVAL` for what makes no
    /// sense, `EOPNOTSUPP` for what no server asks for.
    pub fn request(&self, command: u16, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let command = Command::from_number(command);
        let (head, data) = body.split_first_chunk::<16>().ok_or(Errno::INVAL)?;
        let word =
            |at: usize| head.iter().skip(at).take(8).rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let (address, count) = (word(0), word(8));
        if count > MAX_DATA.into() {
            return Err(Errno::TOOBIG);
        }
        let count = count as usize;
        let mut answer = head.to_vec();
        match command {
            Some(Command::DmaRead) => {
                answer.resize(head.len() + count, 0);
                let (memory, offset) = self.find(address, count)?;
                memory.read(offset, &mut answer[head.len()..]).map_err(|_| Errno::FAULT)?;
            }
            Some(Command::DmaWrite) => {
                let data = data.get(..count).ok_or(Errno::INVAL)?;
                self.write(address, data)?;
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        Ok(answer)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        if address == WINDOW {
            let data = u32::from_le_bytes(data.try_into().map_err(|_| Errno::INVAL)?);
            let listener = lock(&self.listener).clone();
            if let Some(listener) = listener {
                listener(data);
            }
            return Ok(());
        }
        let (memory, offset) = self.find(address, data.len())?;
        memory.write(offset, data).map_err(|_| Errno::FAULT)
    }

    fn find(&self, address: u64, len: usize) -> Result<(SharedMemory, usize), Errno> {
        let memory = lock(&self.memory);
        let (start, found) = memory.range(..=address).next_back().ok_or(Errno::FAULT)?;
        let offset = usize::try_from(address - start).map_err(|_| Errno::FAULT)?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= found.len());
        inside.then(|| (found.clone(), offset)).ok_or(Errno::FAULT)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn body(address: u64, count: u64, data: &[u8]) -> Vec<u8> {
        [&address.to_le_bytes()[..], &count.to_le_bytes(), data].concat()
    }

    #[test]
    fn a_server_reads_and_writes_what_it_was_given_and_nothing_else() {
        let machine = Machine::default();
        let memory = SharedMemory::new(4096);
        machine.add(0x10_0000, memory.clone());
        let write = Command::DmaWrite as u16;
        machine.request(write, &body(0x10_0ffc, 4, &[1, 2, 3, 4])).unwrap();
        assert_eq!(memory.read_u32(0xffc), Ok(0x0403_0201));
        let answer = machine.request(Command::DmaRead as u16, &body(0x10_0ffe, 2, &[])).unwrap();
        assert_eq!(answer[16..], [3, 4]);
        for (address, count) in [(0x10_0ffd, 4), (0xf_ffff, 4), (0x10_1000, 4), (u64::MAX, 4)] {
            assert_eq!(
                machine.request(write, &body(address, count, &[0; 4])),
                Err(Errno::FAULT),
                "{address:#x}"
            );
        }
        assert_eq!(machine.request(write, &body(0x10_0000, 5, &[0; 4])), Err(Errno::INVAL), "too short");
        assert_eq!(machine.request(write, &body(0, u64::MAX, &[])), Err(Errno::TOOBIG));
        assert_eq!(machine.request(write, &[0; 15]), Err(Errno::INVAL));
        assert_eq!(machine.request(Command::RegionRead as u16, &[0; 16]), Err(Errno::OPNOTSUPP));
        machine.remove(0x10_0000);
        assert_eq!(machine.request(write, &body(0x10_0000, 4, &[0; 4])), Err(Errno::FAULT));
    }

    #[test]
    fn four_bytes_at_the_window_are_an_interrupt() {
        let machine = Machine::default();
        let heard = Arc::new(AtomicU32::new(0));
        let ear = heard.clone();
        machine.listen(Some(Arc::new(move |data| ear.store(data, Ordering::Relaxed))));
        let message = msix_message(3);
        let write = Command::DmaWrite as u16;
        machine.request(write, &body(message.address, 4, &message.data.to_le_bytes())).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), message.data);
        assert_eq!(machine.request(write, &body(WINDOW, 2, &[0; 2])), Err(Errno::INVAL));
        machine.listen(None);
        machine.request(write, &body(message.address, 4, &[0; 4])).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), message.data);
    }
}
