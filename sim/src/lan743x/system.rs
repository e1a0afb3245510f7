//! Identity, straps, resets, power management, data port (AN2948 section 4; Linux `lan743x_main.c`
//! `lan743x_csr_light_reset`, `lan743x_hw_reset_phy`, `lan743x_dp_write`, `pci11x1x_strap_get_status`).

use super::handle::Wait;
use super::regs::{rfe, sys};
use super::{Interface, Lan743x};
use crate::device::Bus;

#[derive(Debug, Default)]
pub(super) struct System {
    hw_cfg: u32,
    lite_reset_until: u64,
    phy_reset_until: u64,
    pmt: u32,
    dp_sel: u32,
    dp_until: u64,
    pub gpio_status: u32,
    pub gpio_enable: u32,
}

/// Bits of `PMT_CTL` that software can write; the status bits are cleared by ones.
const PMT_WRITABLE: u32 = 0x0fff_ff0c;
const PMT_STATUS: u32 = 3;

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
            sys::PMT_CTL => {
                let reset = busy(self.sys.phy_reset_until, sys::PMT_PHY_RST);
                self.sys.pmt | reset | if reset == 0 { sys::PMT_READY } else { 0 }
            }
            sys::DP_SEL => self.sys.dp_sel | if now < self.sys.dp_until { 0 } else { sys::DP_SEL_READY },
            sys::DP_CMD => 0,
            sys::GPIO_INT_STS => self.sys.gpio_status,
            sys::GPIO_INT_EN_SET | sys::GPIO_INT_EN_CLR => self.sys.gpio_enable,
            sys::GPT_CFG | sys::GPT_CNT => 0xffff,
            _ => return self.plain.read(offset),
        })
    }

    pub(super) fn system_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        match offset {
            sys::HW_CFG => self.write_hw_cfg(bus, value),
            sys::PMT_CTL => {
                self.sys.pmt = value & PMT_WRITABLE | self.sys.pmt & PMT_STATUS & !value;
                if value & sys::PMT_PHY_RST != 0 {
                    self.mii.reset();
                    self.sys.phy_reset_until = self.end_of(Wait::PhyReset, now, self.params.timing.reset_ns);
                }
            }
            sys::DP_SEL => self.sys.dp_sel = value & 0xf,
            sys::DP_CMD => self.data_port(now, value & 1 != 0),
            sys::GPIO_INT_STS => {
                self.sys.gpio_status &= !value;
                self.update_interrupts(bus);
            }
            sys::GPIO_INT_EN_SET => self.sys.gpio_enable |= value & 0xfff,
            sys::GPIO_INT_EN_CLR => self.sys.gpio_enable &= !value,
            sys::ID_REV | sys::FPGA_REV | sys::STRAP_READ | sys::GPT_CFG | sys::GPT_CNT => {}
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
    fn data_port(&mut self, now: u64, write: bool) {
        if now < self.sys.dp_until {
            return;
        }
        self.sys.dp_until = self.end_of(Wait::DataPort, now, self.params.timing.data_port_ns);
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
}
