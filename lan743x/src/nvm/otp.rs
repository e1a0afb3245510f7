//! The OTP memory.

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Readable, Writeable};

use super::{LIMIT_US, verify};
use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::nvm::{
    HS_OTP, OTP, OTP_CMD_GO, OTP_FUNC_CMD, OTP_PRGM_MODE, OTP_PWR_DN, OTP_STATUS, OTP_TST_CMD, Otp,
};
use crate::shared::SharedRef;
use crate::{Error, Nic};

impl<S: SharedRef> Nic<S> {
    fn otp(&self) -> Result<Window<S::Mmio, Otp>, Error> {
        let offset = if self.identity().chip.is_pci11x1x() { HS_OTP } else { OTP };
        Ok(self.shared_ref().shared().io.clone().layout(offset)?)
    }

    pub(super) fn read_otp(
        &self,
        first: u32,
        bytes: &mut [u8],
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let registers = self.otp()?;
        for (address, byte) in (first..).zip(bytes) {
            *byte = self.locked(delay, |delay| {
                otp_on(&registers, delay)?;
                read_otp_byte(&registers, address, delay)
            })?;
        }
        Ok(())
    }

    pub(super) fn write_otp(&self, first: u32, bytes: &[u8], delay: &mut impl DelayNs) -> Result<(), Error> {
        let registers = self.otp()?;
        for (offset, wanted) in (first..).zip(bytes.iter().copied()) {
            let mut found = [0];
            self.read_otp(offset, &mut found, delay)?;
            if found[0] & !wanted != 0 {
                return Err(Error::Programmed { offset, found: found[0], wanted });
            }
        }
        for (address, byte) in (first..).zip(bytes.iter().copied()) {
            // It has no bit to be programmed.
            if byte == 0 {
                continue;
            }
            self.locked(delay, |delay| {
                otp_on(&registers, delay)?;
                program_otp_byte(&registers, address, byte, delay)
            })?;
        }
        for (address, wanted) in (first..).zip(bytes.iter().copied()) {
            let mut found = [0];
            self.read_otp(address, &mut found, delay)?;
            verify(address, found[0], wanted)?;
        }
        Ok(())
    }

    /// Takes the OTP memory's power away again, whatever happened before.
    pub(super) fn otp_off(&self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let registers = self.otp()?;
        self.locked(delay, |_| {
            reg!(registers, Otp, pwr_dn).modify(OTP_PWR_DN::PWRDN_N::SET);
            // The lock is given back after it has arrived.
            let _ = reg!(registers, Otp, pwr_dn).get();
            Ok(())
        })
    }
}

/// Gives the OTP memory power, if it has none.
fn otp_on<M: Mmio>(registers: &Window<M, Otp>, delay: &mut impl DelayNs) -> Result<(), Error> {
    let power = reg!(*registers, Otp, pwr_dn).extract();
    if power.get() == u32::MAX {
        return Err(Error::DeviceGone);
    }
    if power.is_set(OTP_PWR_DN::PWRDN_N) {
        reg!(*registers, Otp, pwr_dn).modify(OTP_PWR_DN::PWRDN_N::CLEAR);
        // The write has arrived when this has been read.
        let _ = reg!(*registers, Otp, pwr_dn).get();
        // Linux: 100 us with LAN743x, 1 us with PCI11x1x.
        delay.delay_us(100);
    }
    otp_idle(registers, delay)
}

fn otp_idle<M: Mmio>(registers: &Window<M, Otp>, delay: &mut impl DelayNs) -> Result<(), Error> {
    // The first look at it is not too early.
    delay.delay_us(1);
    let read = || reg!(*registers, Otp, status).get();
    let idle = |value: u32| value & OTP_STATUS::BUSY::SET.value == 0;
    wait_for(Wait::Otp, delay, 10, LIMIT_US, read, idle).map(drop)
}

fn otp_go<M: Mmio>(registers: &Window<M, Otp>, delay: &mut impl DelayNs) -> Result<(), Error> {
    reg!(*registers, Otp, cmd_go).write(OTP_CMD_GO::GO::SET);
    otp_idle(registers, delay)
}

/// Ten bits: none beyond them is known, and a byte of another address must not be programmed.
fn otp_address<M: Mmio>(registers: &Window<M, Otp>, address: u32) {
    reg!(*registers, Otp, addr_high).set(address >> 8 & 0x03);
    reg!(*registers, Otp, addr_low).set(address & 0xff);
}

fn read_otp_byte<M: Mmio>(
    registers: &Window<M, Otp>,
    address: u32,
    delay: &mut impl DelayNs,
) -> Result<u8, Error> {
    otp_address(registers, address);
    reg!(*registers, Otp, func_cmd).write(OTP_FUNC_CMD::READ::SET);
    otp_go(registers, delay)?;
    Ok(reg!(*registers, Otp, read_data).get() as u8)
}

fn program_otp_byte<M: Mmio>(
    registers: &Window<M, Otp>,
    address: u32,
    byte: u8,
    delay: &mut impl DelayNs,
) -> Result<(), Error> {
    reg!(*registers, Otp, prgm_mode).write(OTP_PRGM_MODE::BYTE::SET);
    otp_address(registers, address);
    reg!(*registers, Otp, prgm_data).set(byte.into());
    reg!(*registers, Otp, tst_cmd).write(OTP_TST_CMD::PRGVRFY::SET);
    otp_go(registers, delay)
}
