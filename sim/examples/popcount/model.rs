//! Model of the popcount unit, written from the data sheet in `docs/tutorial.md`.

use tombolo_sim::config::{Bar, ConfigSpaceBuilder};
use tombolo_sim::device::{Bus, Device, Width};

/// The registers, one word each: ID, CONTROL, EVENT, SOURCE (two words), LENGTH, RESULT.
pub struct Model([u64; 7]);

pub const AFTER_RESET: Model = Model([0x504f_5043, 0, 0, 0, 0, 0, 0]);
const BUSY: u64 = 1 << 31;

impl Device for Model {
    fn name(&self) -> &str {
        "popcount"
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        config.identity(0x1234, 0x9c07).interrupt_pin(1).bar(Bar::bits32(0, 4096));
    }

    fn reset(&mut self) {
        *self = AFTER_RESET;
    }

    fn read(&mut self, _: &mut dyn Bus, _bar: u8, offset: u64, _: Width) -> u64 {
        self.0.get(offset as usize / 4).copied().unwrap_or(0)
    }

    fn write(&mut self, bus: &mut dyn Bus, _bar: u8, offset: u64, _: Width, value: u64) {
        match offset {
            0x04 => self.0[1] = self.0[1] & BUSY | value & 1,
            0x08 => self.0[2] &= !value,
            0x0c | 0x10 => self.0[offset as usize / 4] = value,
            0x14 if self.0[1] == 1 => {
                self.0[1] |= BUSY;
                self.0[5] = value;
                bus.schedule(2_000, 0);
            }
            _ => {}
        }
        bus.set_intx(self.0[2] != 0);
    }

    fn event(&mut self, bus: &mut dyn Bus, _token: u64) {
        let mut data = vec![0; self.0[5].min(4096) as usize];
        self.0[2] |= if bus.dma_read(self.0[4] << 32 | self.0[3], &mut data).is_ok() { 1 } else { 2 };
        self.0[6] = data.iter().map(|byte| byte.count_ones()).sum::<u32>().into();
        self.0[1] &= !BUSY;
        bus.set_intx(true);
    }
}
