//! EEPROM and OTP memory, and the system lock of the second family.
//!
//! Sources: AN2948 sections 4 and 11, Linux 7.3 `lan743x_ethtool.c` (`lan743x_eeprom_*`, `lan743x_otp_*`,
//! and their `hs` siblings for PCI11x1x). An EEPROM that is not there answers nothing, and each access
//! ends with the time-out bit after 30 ms; the bit stays until it is written with 1.
//!
//! Open points: of the two images that an OTP may name only the first (mark F3) is known, and loaded. The
//! lock goes to who asks first; another owner is a fault of the handle.

use super::Lan743x;
use super::handle::Wait;
use super::params::Params;
use super::regs::nvm;

const EEPROM_TIMEOUT_NS: u64 = 30_000_000;
const BUSY: u32 = 1 << 31;
const TIMEOUT: u32 = 1 << 10;
const HS_TIMEOUT: u32 = 1 << 17;

/// A command of the EEPROM controller under way.
#[derive(Clone, Copy, Debug, Default)]
struct Command {
    word: u32,
    done_ns: u64,
    /// What completion brings: a data byte, or a time-out.
    result: Option<u8>,
    active: bool,
}

#[derive(Debug)]
pub(super) struct Nvm {
    eeprom: Vec<u8>,
    otp: Vec<u8>,
    command: Command,
    data: u32,
    write_enabled: bool,
    timed_out: bool,
    power_down: u32,
    high: u32,
    low: u32,
    program: u32,
    mode: u32,
    otp_data: u32,
    function: u32,
    test: u32,
    otp_done_ns: u64,
    lock: u32,
}

impl Nvm {
    pub fn new(params: &Params) -> Self {
        Self { eeprom: params.eeprom.clone(), otp: params.otp.clone(), ..Self::empty() }
    }

    /// What a reset of the function does; the memories keep their contents, and the lock its owner none.
    pub fn reset(&mut self) {
        let (eeprom, otp) = (std::mem::take(&mut self.eeprom), std::mem::take(&mut self.otp));
        *self = Self { eeprom, otp, ..Self::empty() };
    }

    /// The registers as after a reset, without memories.
    fn empty() -> Self {
        Self {
            eeprom: vec![],
            otp: vec![],
            command: Command::default(),
            data: 0,
            write_enabled: false,
            timed_out: false,
            power_down: 1,
            high: 0,
            low: 0,
            program: 0,
            mode: 0,
            otp_data: 0,
            function: 0,
            test: 0,
            otp_done_ns: 0,
            lock: 0,
        }
    }

    /// The image that hardware loads: EEPROM, else OTP.
    pub fn image(&self) -> Option<&[u8]> {
        if matches!(self.eeprom.first(), Some(0xa5 | 0xaa)) {
            return Some(&self.eeprom);
        }
        matches!(self.otp.first(), Some(0xf3)).then_some(&self.otp[..])
    }

    /// MAC address of the image: its bytes 1 to 6.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.image()?.get(1..7)?.try_into().ok()
    }

    fn finish(&mut self, now: u64) {
        if !self.command.active || now < self.command.done_ns {
            return;
        }
        self.command.active = false;
        match self.command.result {
            Some(byte) => self.data = byte.into(),
            None => self.timed_out = true,
        }
    }

    /// Carries a command of the first family's controller out. The byte that data reads then, or `None`
    /// if the memory does not answer.
    fn eeprom_command(&mut self, command: u32, address: usize) -> Option<u8> {
        let data = self.data as u8;
        let size = self.eeprom.len();
        let enabled = self.write_enabled;
        let slot = self.eeprom.get_mut(address)?;
        match command {
            0 => return Some(*slot),
            1 => self.write_enabled = false,
            2 => self.write_enabled = true,
            3 if enabled => *slot = data,
            5 if enabled => *slot = 0xff,
            4 if enabled => self.eeprom = vec![data; size],
            6 if enabled => self.eeprom = vec![0xff; size],
            _ => {}
        }
        Some(data)
    }

    fn otp_address(&self, ten_bits: bool) -> usize {
        let mask = if ten_bits { 3 } else { 0x1f };
        ((self.high & mask) << 8 | self.low & 0xff) as usize
    }
}

impl Lan743x {
    pub(super) fn nvm_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        let family2 = self.params.chip.is_pci11x1x();
        self.nvm.finish(now);
        match offset {
            nvm::E2P_CMD if !family2 => Some(self.eeprom_status(TIMEOUT)),
            nvm::E2P_DATA if !family2 => Some(self.nvm.data),
            // The second family has the registers elsewhere; Linux dumps these all the same.
            nvm::E2P_CMD | nvm::E2P_DATA => Some(0),
            nvm::HS_E2P_CMD if family2 => Some(self.eeprom_status(HS_TIMEOUT)),
            nvm::HS_E2P_DATA if family2 => Some(self.nvm.data),
            nvm::HS_LOADED if family2 => Some(1 << 4),
            nvm::HS_LOCK if family2 => Some(self.nvm.lock),
            _ => self.otp_read(now, self.otp_register(offset)?),
        }
    }

    pub(super) fn nvm_write(&mut self, now: u64, offset: u64, value: u32) -> bool {
        let family2 = self.params.chip.is_pci11x1x();
        self.nvm.finish(now);
        match offset {
            nvm::E2P_CMD if !family2 => self.eeprom_start(now, value),
            nvm::E2P_DATA if !family2 => self.nvm.data = value & 0xff,
            nvm::E2P_CMD | nvm::E2P_DATA => {}
            nvm::HS_E2P_CMD if family2 => self.hs_eeprom_start(now, value),
            nvm::HS_E2P_DATA if family2 => self.nvm.data = value & 0xff,
            nvm::HS_LOADED if family2 => {}
            nvm::HS_LOCK if family2 => self.lock_write(value),
            _ => match self.otp_register(offset) {
                Some(register) => return self.otp_write(now, register, value),
                None => return false,
            },
        }
        true
    }

    fn eeprom_status(&self, timeout: u32) -> u32 {
        let command = &self.nvm.command;
        let busy = if command.active { BUSY } else { 0 };
        let timed_out = if self.nvm.timed_out { timeout } else { 0 };
        command.word & !(BUSY | timeout) | busy | timed_out
    }

    fn eeprom_start(&mut self, now: u64, value: u32) {
        self.nvm.timed_out &= value & TIMEOUT == 0;
        if self.nvm.command.active || value & BUSY == 0 {
            return;
        }
        let command = value >> 28 & 7;
        let result = self.nvm.eeprom_command(command, (value & 0x1ff) as usize);
        self.eeprom_under_way(now, value, command == 3, result);
    }

    fn hs_eeprom_start(&mut self, now: u64, value: u32) {
        self.nvm.timed_out &= value & HS_TIMEOUT == 0;
        if self.nvm.command.active || value & BUSY == 0 {
            return;
        }
        let (write, data) = (value >> 28 & 3 == 3, self.nvm.data as u8);
        let slot = self.nvm.eeprom.get_mut((value & 0xffff) as usize);
        let result = slot.map(|slot| {
            if write {
                *slot = data;
            }
            *slot
        });
        self.eeprom_under_way(now, value, write, result);
    }

    fn eeprom_under_way(&mut self, now: u64, word: u32, write: bool, result: Option<u8>) {
        let timing = self.params.timing;
        let time = match result {
            None => EEPROM_TIMEOUT_NS,
            Some(_) if write => timing.nvm_write_ns,
            Some(_) => timing.nvm_read_ns,
        };
        let done_ns = self.end_of(Wait::Eeprom, now, time);
        self.nvm.command = Command { word, done_ns, result, active: true };
    }

    fn lock_write(&mut self, value: u32) {
        if value & nvm::HS_LOCK_ENET == 0 {
            self.nvm.lock = 0;
            return;
        }
        let stuck = self.is_stuck(Wait::SystemLock);
        let foreign = {
            let faults = &mut self.shared().faults;
            let owned = faults.lock_owned_reads;
            faults.lock_owned_reads = owned.saturating_sub(1);
            owned != 0
        };
        if !foreign && !stuck {
            self.nvm.lock = nvm::HS_LOCK_ENET;
        }
    }

    /// Offset inside of the OTP block.
    fn otp_register(&self, offset: u64) -> Option<u64> {
        let base = if self.params.chip.is_pci11x1x() { nvm::HS_OTP } else { nvm::OTP };
        offset.checked_sub(base).filter(|register| *register <= 0x30)
    }

    fn otp_read(&self, now: u64, register: u64) -> Option<u32> {
        let nvm = &self.nvm;
        Some(match register {
            0x00 => nvm.power_down,
            0x04 => nvm.high,
            0x08 => nvm.low,
            0x10 => nvm.program,
            0x14 => nvm.mode,
            0x18 => nvm.otp_data,
            0x20 => nvm.function,
            0x24 => nvm.test,
            0x28 => 0,
            0x30 => u32::from(now < nvm.otp_done_ns),
            _ => return None,
        })
    }

    fn otp_write(&mut self, now: u64, register: u64, value: u32) -> bool {
        let nvm = &mut self.nvm;
        match register {
            0x00 => nvm.power_down = value & 1,
            0x04 => nvm.high = value & 0x1f,
            0x08 => nvm.low = value & 0xff,
            0x10 => nvm.program = value & 0xff,
            0x14 => nvm.mode = value & 1,
            0x20 => nvm.function = value & 7,
            0x24 => nvm.test = value & 0xff,
            0x28 if value & 1 != 0 => self.otp_go(now),
            0x18 | 0x28 | 0x30 => {}
            _ => return false,
        }
        true
    }

    fn otp_go(&mut self, now: u64) {
        let ten_bits = self.params.otp_10_bits;
        let nvm = &mut self.nvm;
        if nvm.power_down & 1 != 0 || now < nvm.otp_done_ns {
            return;
        }
        let address = nvm.otp_address(ten_bits);
        let (read, program) = (nvm.function & 1 != 0, nvm.test & 8 != 0);
        if let Some(slot) = nvm.otp.get_mut(address) {
            if read {
                nvm.otp_data = u32::from(*slot);
            } else if program {
                // Bits only become 1, and never 0 again.
                *slot |= nvm.program as u8;
            }
        }
        nvm.function = 0;
        let timing = self.params.timing;
        let time = if read { timing.nvm_read_ns } else { timing.nvm_write_ns };
        self.nvm.otp_done_ns = self.end_of(Wait::Otp, now, time);
    }
}
