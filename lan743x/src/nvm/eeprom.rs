//! The EEPROM: Microwire with LAN743x, I2C with PCI11x1x, by the same two registers.

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};

use super::{LIMIT_US, verify};
use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::nvm::{E2P_CMD, EEPROM, Eeprom, HS_E2P_CMD, HS_EEPROM};
use crate::shared::SharedRef;
use crate::{Error, Nic};

const INTERVAL_US: u32 = 40;

/// How a family drives its EEPROM.
struct Commands {
    read: u32,
    write: u32,
    /// Before and after writes.
    unlock: Option<(u32, u32)>,
    busy: u32,
    timeout: u32,
}

const LAN743X: Commands = Commands {
    read: E2P_CMD::EPC_CMD::Read.value,
    write: E2P_CMD::EPC_CMD::Write.value,
    unlock: Some((E2P_CMD::EPC_CMD::Ewen.value, E2P_CMD::EPC_CMD::Ewds.value)),
    busy: E2P_CMD::EPC_BUSY::SET.value,
    timeout: E2P_CMD::EPC_TIMEOUT::SET.value,
};

const PCI11X1X: Commands = Commands {
    read: HS_E2P_CMD::EPC_CMD::Read.value,
    write: HS_E2P_CMD::EPC_CMD::Write.value,
    unlock: None,
    busy: HS_E2P_CMD::EPC_BUSY::SET.value,
    timeout: HS_E2P_CMD::EPC_TIMEOUT::SET.value,
};

impl<S: SharedRef> Nic<S> {
    fn eeprom(&self) -> Result<(Window<S::Mmio, Eeprom>, &'static Commands), Error> {
        let io = self.shared_ref().shared().io.clone();
        Ok(if self.identity().chip.is_pci11x1x() {
            (io.layout(HS_EEPROM)?, &PCI11X1X)
        } else {
            (io.layout(EEPROM)?, &LAN743X)
        })
    }

    pub(super) fn read_eeprom(
        &self,
        first: u32,
        bytes: &mut [u8],
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let (registers, commands) = self.eeprom()?;
        self.locked(delay, |delay| idle(&registers, commands, delay))?;
        for (address, byte) in (first..).zip(bytes) {
            *byte = self.locked(delay, |delay| {
                run(&registers, commands, commands.read | address, delay)?;
                Ok(reg!(registers, Eeprom, data).get() as u8)
            })?;
        }
        Ok(())
    }

    pub(super) fn write_eeprom(
        &self,
        first: u32,
        bytes: &[u8],
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let (registers, commands) = self.eeprom()?;
        self.locked(delay, |delay| idle(&registers, commands, delay))?;
        if let Some((enable, _)) = commands.unlock {
            run(&registers, commands, enable, delay)?;
        }
        let mut result = Ok(());
        for (address, byte) in (first..).zip(bytes) {
            result = self.locked(delay, |delay| {
                reg!(registers, Eeprom, data).set((*byte).into());
                run(&registers, commands, commands.write | address, delay)
            });
            if result.is_err() {
                break;
            }
        }
        if let Some((_, disable)) = commands.unlock {
            result = result.and(run(&registers, commands, disable, delay));
        }
        result?;
        for (address, wanted) in (first..).zip(bytes.iter().copied()) {
            let mut found = [0];
            self.read_eeprom(address, &mut found, delay)?;
            verify(address, found[0], wanted)?;
        }
        Ok(())
    }
}

/// Waits for the end of what is going on, and clears the time-out of an earlier command, which would be
/// taken for one of the next.
fn idle<M: Mmio>(
    registers: &Window<M, Eeprom>,
    commands: &Commands,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    let read = || reg!(*registers, Eeprom, cmd).get();
    let done = |value: u32| value & commands.busy == 0;
    let value = wait_for(Wait::Eeprom, delay, INTERVAL_US, LIMIT_US, read, done)?;
    if value & commands.timeout != 0 {
        reg!(*registers, Eeprom, cmd).set(commands.timeout);
    }
    Ok(())
}

/// Runs a command to its end.
fn run<M: Mmio>(
    registers: &Window<M, Eeprom>,
    commands: &Commands,
    command: u32,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    reg!(*registers, Eeprom, cmd).set(commands.busy | command);
    let read = || reg!(*registers, Eeprom, cmd).get();
    let done = |value: u32| value & commands.busy == 0 || value & commands.timeout != 0;
    let value = wait_for(Wait::Eeprom, delay, INTERVAL_US, LIMIT_US, read, done)?;
    if value & commands.timeout != 0 {
        reg!(*registers, Eeprom, cmd).set(commands.timeout);
        return Err(Error::NoMemory);
    }
    Ok(())
}
