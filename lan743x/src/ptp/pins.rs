//! Pins: GPIOs of LAN743x, of which LAN7430 shares four with its LEDs, and PTP pins of PCI11x1x.

use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Readable, Writeable};

use crate::regs::ptp::{
    GPIO, GPIO_CFG0, GPIO_CFG1, GPIO_CFG2, GPIO_CFG3, Gpio, LED0_ENABLE, PTP_IO_EVENT_OUTPUT_CFG,
    PTP_IO_PIN_CFG, Ptp as Registers,
};
use crate::regs::system::System;
use crate::{Chip, Error, Shared};

/// Pins of a chip that can be outputs of the clock.
pub(super) const fn count(chip: Chip) -> u8 {
    match chip {
        Chip::Lan7430 => 4,
        Chip::Lan7431 => 12,
        // Linux offers twelve; its header says that eight are there.
        Chip::Pci11010 | Chip::Pci11414 => 8,
    }
}

/// Which pins are outputs.
#[derive(Debug)]
pub(super) struct Pins {
    used: u16,
    /// LEDs that were enabled before, as in `HW_CFG`. LAN7430.
    leds: u32,
}

impl Pins {
    /// No pin is an output.
    pub fn new<M: Mmio + Clone>(shared: &Shared<M>) -> Result<Self, Error> {
        // What later calls rely on.
        let _: Window<M, Gpio> = shared.io.clone().layout(GPIO)?;
        Ok(Self { used: 0, leds: leds(shared) })
    }

    /// Whether a pin is an output.
    pub fn is_used(&self, pin: u8) -> bool {
        self.used & mask(pin) as u16 != 0
    }

    /// Makes all pins inputs, and gives LEDs theirs back.
    pub fn reset<M: Mmio + Clone>(&mut self, shared: &Shared<M>) {
        for pin in 0..16 {
            if self.is_used(pin) {
                show_led(shared, self.leds & led(pin));
            }
        }
        self.used = 0;
        self.leds = leds(shared);
        if shared.identity().chip.is_pci11x1x() {
            return;
        }
        if let Ok(gpio) = shared.io.clone().layout::<Gpio>(GPIO) {
            reg!(gpio, Gpio, cfg0).set(0);
            reg!(gpio, Gpio, cfg1).write(GPIO_CFG1::GPIOEN.val(0xfff));
            reg!(gpio, Gpio, cfg2).set(0);
            reg!(gpio, Gpio, cfg3).set(0);
        }
    }

    /// Makes `pin` the output of an event channel.
    pub fn connect<M: Mmio + Clone>(
        &mut self,
        shared: &Shared<M>,
        registers: &Window<M, Registers>,
        pin: u8,
        channel: u8,
    ) {
        self.used |= mask(pin) as u16;
        let (bit, second) = (mask(pin), channel != 0);
        if shared.identity().chip.is_pci11x1x() {
            let buffer = reg!(*registers, Registers, io_pin_cfg).read(PTP_IO_PIN_CFG::OBUF_TYPE);
            reg!(*registers, Registers, io_pin_cfg).write(PTP_IO_PIN_CFG::OBUF_TYPE.val(buffer | bit));
            let old = reg!(*registers, Registers, io_event_output_cfg).extract();
            let select = put(old.read(PTP_IO_EVENT_OUTPUT_CFG::SEL), bit, second);
            let enable = old.read(PTP_IO_EVENT_OUTPUT_CFG::EN) | bit;
            reg!(*registers, Registers, io_event_output_cfg)
                .write(PTP_IO_EVENT_OUTPUT_CFG::SEL.val(select) + PTP_IO_EVENT_OUTPUT_CFG::EN.val(enable));
            return;
        }
        hide_led(shared, self.leds & led(pin));
        let Ok(gpio) = shared.io.clone().layout::<Gpio>(GPIO) else { return };
        let (cfg0, cfg1) = (reg!(gpio, Gpio, cfg0).extract(), reg!(gpio, Gpio, cfg1).extract());
        let dir = GPIO_CFG0::DIR.val(cfg0.read(GPIO_CFG0::DIR) | bit);
        // The data of inputs reads as their level; none is driven from here.
        reg!(gpio, Gpio, cfg0).write(dir);
        let function = GPIO_CFG1::GPIOEN.val(cfg1.read(GPIO_CFG1::GPIOEN) & !bit);
        reg!(gpio, Gpio, cfg1).write(function + GPIO_CFG1::GPIOBUF.val(cfg1.read(GPIO_CFG1::GPIOBUF) | bit));
        let high = reg!(gpio, Gpio, cfg2).read(GPIO_CFG2::POL_1588) | bit;
        reg!(gpio, Gpio, cfg2).modify(GPIO_CFG2::POL_1588.val(high));
        let cfg3 = reg!(gpio, Gpio, cfg3).extract();
        let select = put(cfg3.read(GPIO_CFG3::CH_SEL_1588), bit, second);
        let enable = cfg3.read(GPIO_CFG3::OE_1588) | bit;
        reg!(gpio, Gpio, cfg3).write(GPIO_CFG3::CH_SEL_1588.val(select) + GPIO_CFG3::OE_1588.val(enable));
    }

    /// Makes `pin` what it was before.
    pub fn release<M: Mmio + Clone>(
        &mut self,
        shared: &Shared<M>,
        registers: &Window<M, Registers>,
        pin: u8,
    ) {
        self.used &= !(mask(pin) as u16);
        let bit = mask(pin);
        if shared.identity().chip.is_pci11x1x() {
            let enable = reg!(*registers, Registers, io_event_output_cfg).read(PTP_IO_EVENT_OUTPUT_CFG::EN);
            reg!(*registers, Registers, io_event_output_cfg)
                .modify(PTP_IO_EVENT_OUTPUT_CFG::EN.val(enable & !bit));
            let buffer = reg!(*registers, Registers, io_pin_cfg).read(PTP_IO_PIN_CFG::OBUF_TYPE);
            reg!(*registers, Registers, io_pin_cfg).write(PTP_IO_PIN_CFG::OBUF_TYPE.val(buffer & !bit));
            return;
        }
        let Ok(gpio) = shared.io.clone().layout::<Gpio>(GPIO) else { return };
        let enable = reg!(gpio, Gpio, cfg3).read(GPIO_CFG3::OE_1588);
        reg!(gpio, Gpio, cfg3).modify(GPIO_CFG3::OE_1588.val(enable & !bit));
        let cfg1 = reg!(gpio, Gpio, cfg1).extract();
        let function = GPIO_CFG1::GPIOEN.val(cfg1.read(GPIO_CFG1::GPIOEN) | bit);
        reg!(gpio, Gpio, cfg1).write(function + GPIO_CFG1::GPIOBUF.val(cfg1.read(GPIO_CFG1::GPIOBUF) & !bit));
        let dir = reg!(gpio, Gpio, cfg0).read(GPIO_CFG0::DIR);
        reg!(gpio, Gpio, cfg0).write(GPIO_CFG0::DIR.val(dir & !bit));
        show_led(shared, self.leds & led(pin));
    }
}

fn put(bits: u32, bit: u32, on: bool) -> u32 {
    if on { bits | bit } else { bits & !bit }
}

const fn mask(pin: u8) -> u32 {
    1 << (pin & 15)
}

/// The bit of `HW_CFG` that gives a pin to its LED.
const fn led(pin: u8) -> u32 {
    if pin < 4 { 1 << (LED0_ENABLE + pin as u32) } else { 0 }
}

/// The LEDs that are enabled.
fn leds<M: Mmio + Clone>(shared: &Shared<M>) -> u32 {
    let hw_cfg = reg!(shared.system, System, hw_cfg).get();
    if shared.identity().chip == Chip::Lan7430 && hw_cfg != u32::MAX {
        hw_cfg & 0xf << LED0_ENABLE
    } else {
        0
    }
}

fn show_led<M: Mmio + Clone>(shared: &Shared<M>, led: u32) {
    if led != 0 {
        let hw_cfg = reg!(shared.system, System, hw_cfg).get();
        reg!(shared.system, System, hw_cfg).set(hw_cfg | led);
    }
}

fn hide_led<M: Mmio + Clone>(shared: &Shared<M>, led: u32) {
    if led != 0 {
        let hw_cfg = reg!(shared.system, System, hw_cfg).get();
        reg!(shared.system, System, hw_cfg).set(hw_cfg & !led);
    }
}
