//! Identity, straps, resets, data port, general purpose timer (AN2948 sections 3 and 4; Linux
//! `lan743x_csr_light_reset`, `lan743x_dp_write`, `pci11x1x_strap_get_status`).

use super::alarm::{Alarm, Ev};
use super::due::Done;
use super::handle::Wait;
use super::regs::{int, rfe, sys};
use super::{Interface, Lan743x};
use crate::device::Bus;

#[derive(Debug, Default)]
pub(super) struct System {
    pub hw_cfg: u32,
    lite_reset_until: u64,
    dp_sel: u32,
    dp_until: u64,
    pub gpio_status: u32,
    pub gpio_enable: u32,
    timer: Timer,
}

/// The general purpose timer.
#[derive(Debug)]
struct Timer {
    cfg: u32,
    /// When it is at zero, while it runs.
    zero_at: u64,
    alarm: Alarm,
}

impl Default for Timer {
    fn default() -> Self {
        Self { cfg: 0xffff, zero_at: 0, alarm: Alarm::default() }
    }
}

impl Timer {
    /// Nanoseconds of a count.
    fn unit(&self) -> u64 {
        if self.cfg & sys::GPT_FAST != 0 { 16 } else { 100_000 }
    }

    fn runs(&self) -> bool {
        self.cfg & sys::GPT_ENABLE != 0
    }

    /// From its load to zero. A timer of nothing would stop time: 1 us at least.
    fn period(&self) -> u64 {
        (u64::from(self.cfg & 0xffff) * self.unit()).max(1_000)
    }

    fn count(&self, now: u64) -> u32 {
        if !self.runs() {
            return self.cfg & 0xffff;
        }
        (self.zero_at.saturating_sub(now).div_ceil(self.unit()) & 0xffff) as u32
    }
}

impl Lan743x {
    fn strap(&self) -> u32 {
        if !self.params.chip.is_pci11x1x() {
            return 0;
        }
        match self.params.interface {
            Interface::Sgmii => sys::STRAP_USE_SGMII | sys::STRAP_SGMII,
            Interface::Rmii => sys::STRAP_USE_SGMII | sys::STRAP_USE_RMII | sys::STRAP_RMII,
            _ => sys::STRAP_USE_SGMII,
        }
    }

    pub(super) fn system_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        let busy = |until: u64, bit: u32| if now < until { bit } else { 0 };
        Some(match offset {
            sys::ID_REV => self.params.id_rev(),
            sys::FPGA_REV => 0,
            sys::STRAP_READ => self.strap(),
            sys::HW_CFG => self.sys.hw_cfg | busy(self.sys.lite_reset_until, sys::HW_CFG_LRST),
            sys::DP_SEL => self.sys.dp_sel | if now < self.sys.dp_until { 0 } else { sys::DP_SEL_READY },
            sys::DP_CMD => 0,
            sys::GPIO_INT_STS => self.sys.gpio_status,
            sys::GPIO_INT_EN_SET | sys::GPIO_INT_EN_CLR => self.sys.gpio_enable,
            sys::GPT_CFG => self.sys.timer.cfg,
            sys::GPT_CNT => self.sys.timer.count(now),
            _ => return self.plain.read(offset),
        })
    }

    pub(super) fn system_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        match offset {
            sys::HW_CFG => self.write_hw_cfg(bus, value),
            sys::DP_SEL => self.sys.dp_sel = value & 0xf,
            sys::DP_CMD => self.data_port(bus, value & 1 != 0),
            sys::GPT_CFG => self.write_gpt(bus, value),
            sys::GPIO_INT_STS => {
                self.sys.gpio_status &= !value;
                self.update_interrupts(bus);
            }
            sys::GPIO_INT_EN_SET | sys::GPIO_INT_EN_CLR => {
                let (old, bits) = (self.sys.gpio_enable, value & 0xfff);
                self.sys.gpio_enable = if offset == sys::GPIO_INT_EN_SET { old | bits } else { old & !bits };
                self.update_interrupts(bus);
            }
            sys::ID_REV | sys::FPGA_REV | sys::STRAP_READ | sys::GPT_CNT => {}
            _ => return self.plain.write(offset, value),
        }
        true
    }

    fn write_hw_cfg(&mut self, bus: &mut dyn Bus, value: u32) {
        if value & (sys::HW_CFG_LRST | sys::HW_CFG_SRST) != 0 {
            self.counters().lite_resets += 1;
            self.lite_reset();
            self.sys.lite_reset_until =
                self.end_of(Wait::LiteReset, bus.now_ns(), self.params.timing.reset_ns);
            self.update_interrupts(bus);
            bus.set_intx(false);
            return;
        }
        if value & sys::HW_CFG_EE_OTP_RELOAD != 0 {
            self.load_mac_address();
        }
        let kept = !(sys::HW_CFG_SRST | sys::HW_CFG_LRST | sys::HW_CFG_EE_OTP_RELOAD | sys::HW_CFG_EE_OTP_DL);
        self.sys.hw_cfg = value & kept;
    }

    /// An access to the filter's memory: of the others nothing is known.
    fn data_port(&mut self, bus: &mut dyn Bus, write: bool) {
        let now = bus.now_ns();
        if now < self.sys.dp_until {
            return;
        }
        self.sys.dp_until = self.end_of(Wait::DataPort, now, self.params.timing.data_port_ns);
        self.later(bus, self.sys.dp_until, Done::DataPort);
        if self.sys.dp_sel & 0xf != sys::DP_SEL_RFE {
            return;
        }
        let address = self.plain.get(sys::DP_ADDR) as usize;
        let Some(word) = self.rfe_ram.get_mut(address) else { return };
        if write {
            *word = self.plain.get(sys::DP_DATA0);
        } else {
            let word = *word;
            self.plain.set(sys::DP_DATA0, word);
        }
    }

    /// A word of the hash table.
    pub(super) fn hash_word(&self, index: usize) -> u32 {
        self.rfe_ram.get(rfe::RAM_HASH + index).copied().unwrap_or(0)
    }

    /// The timer starts from its load when it is enabled; disabling it makes the load all ones (the note's
    /// "FFh" for a field of 16 bits).
    fn write_gpt(&mut self, bus: &mut dyn Bus, value: u32) {
        let timer = &mut self.sys.timer;
        let was = timer.runs();
        timer.cfg = value & (sys::GPT_FAST | sys::GPT_STOP | sys::GPT_ENABLE | 0xffff);
        if was && !timer.runs() {
            timer.cfg |= 0xffff;
            timer.alarm.cancel();
        } else if !was && timer.runs() {
            timer.zero_at = bus.now_ns().saturating_add(timer.period());
            timer.alarm.set(bus, Ev::Gpt.token(self.epoch), timer.zero_at);
        }
    }

    /// The timer may be at zero.
    pub(super) fn gpt_event(&mut self, bus: &mut dyn Bus) {
        let token = Ev::Gpt.token(self.epoch);
        let timer = &mut self.sys.timer;
        if !timer.alarm.fires(bus, token) || !timer.runs() {
            return;
        }
        if timer.cfg & sys::GPT_STOP != 0 {
            timer.cfg &= !sys::GPT_ENABLE;
        } else {
            timer.zero_at = bus.now_ns().saturating_add(timer.period());
            timer.alarm.set(bus, token, timer.zero_at);
        }
        self.irq.latched |= int::GPT;
        self.update_interrupts(bus);
    }
}
