//! The MDIO master: `MAC_MII_ACC` and `MAC_MII_DATA`.
//!
//! Sources: AN2948 sections 6.1.9 and 6.1.10 (clause 22); Linux 7.3 `lan743x_main.h` for clause 45, which
//! the driver uses in the second family only.
//!
//! How to use it. `write` takes the PHY that is there with its address, and in `done` when a transaction
//! that begins now is over, `u64::MAX` if never. It tells whether one began.
//!
//! Decisions. Writes while a transaction is under way have no effect. What was read is in the data register
//! when the transaction is over, and not before. The bits of clause 45 and of the clock are not there in the
//! first family. Nobody answers at other addresses: all ones. A PHY keeps one address for each device of
//! clause 45, which "read and increment" moves on.

use super::phy::Phy;
use super::regs::mac::{MII_ACC as ACC, MII_DATA as DATA};

const BUSY: u32 = 1;
const WRITE: u32 = 1 << 1;
const COMMAND_SHIFT: u32 = 1;
const CLAUSE_45: u32 = 1 << 3;
const KEPT_FIRST: u32 = 0x0000_ffc2;
const KEPT_SECOND: u32 = 0x0007_ffce;
/// The PHY's address is 1.
const DEFAULT: u32 = 1 << 11;

#[derive(Debug)]
pub(super) struct Mdio {
    clause45: bool,
    access: u32,
    data: u16,
    busy_until: u64,
    /// What the transaction under way brings.
    result: Option<u16>,
    /// Addresses that a PHY was told by clause 45, by device.
    addresses: [u16; 32],
}

impl Mdio {
    /// `clause45`: the chip knows it.
    pub fn new(clause45: bool) -> Self {
        Self { clause45, access: DEFAULT, data: 0, busy_until: 0, result: None, addresses: [0; 32] }
    }

    /// `None`: there is no such register.
    pub fn read(&mut self, offset: u64, now: u64) -> Option<u32> {
        self.finish(now);
        match offset {
            ACC => Some(self.access | if now < self.busy_until { BUSY } else { 0 }),
            DATA => Some(self.data.into()),
            _ => None,
        }
    }

    /// Whether a transaction began.
    pub fn write(
        &mut self,
        offset: u64,
        value: u32,
        now: u64,
        done: u64,
        phy: Option<(u8, &mut Phy)>,
    ) -> bool {
        self.finish(now);
        if now < self.busy_until {
            return false;
        }
        match offset {
            DATA => self.data = value as u16,
            ACC => {
                self.access = value & if self.clause45 { KEPT_SECOND } else { KEPT_FIRST };
                if value & BUSY != 0 {
                    self.busy_until = done;
                    self.start(now, phy);
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    fn finish(&mut self, now: u64) {
        if now >= self.busy_until
            && let Some(result) = self.result.take()
        {
            self.data = result;
        }
    }

    fn start(&mut self, now: u64, phy: Option<(u8, &mut Phy)>) {
        let (address, index) = ((self.access >> 11 & 31) as u8, (self.access >> 6 & 31) as u8);
        let phy = phy.filter(|(own, _)| *own == address).map(|(_, phy)| phy);
        self.result = if self.access & CLAUSE_45 != 0 {
            self.clause45(index, now, phy)
        } else if self.access & WRITE != 0 {
            if let Some(phy) = phy {
                phy.write(index, self.data, now);
            }
            None
        } else {
            Some(phy.map_or(0xffff, |phy| phy.read(index, now)))
        };
    }

    /// Commands: 0 address, 1 write, 2 read, 3 read and increment.
    fn clause45(&mut self, device: u8, now: u64, phy: Option<&mut Phy>) -> Option<u16> {
        let command = self.access >> COMMAND_SHIFT & 3;
        let Some(phy) = phy else { return (command >= 2).then_some(0xffff) };
        let place = &mut self.addresses[usize::from(device & 31)];
        match command {
            0 => *place = self.data,
            1 => phy.write_mmd(device, *place, self.data, now),
            _ => {
                let value = phy.read_mmd(device, *place, now);
                if command == 3 {
                    *place = place.wrapping_add(1);
                }
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::phy::{Kind, Partner};
    use super::*;

    const ADDRESS: u8 = 5;

    struct Rig {
        mdio: Mdio,
        phy: Phy,
        now: u64,
    }

    impl Rig {
        fn new(clause45: bool) -> Self {
            let mut phy = Phy::new(Kind::External, 0);
            phy.set_partner(Partner::speed(1000), 0);
            phy.set_link(true, 0);
            Self { mdio: Mdio::new(clause45), phy, now: 0 }
        }

        fn go(&mut self, access: u32) {
            let phy = Some((ADDRESS, &mut self.phy));
            assert!(self.mdio.write(ACC, access | BUSY, self.now, self.now + 100, phy));
            assert_eq!(self.mdio.read(ACC, self.now + 99), Some(access | BUSY));
            self.now += 100;
            assert_eq!(self.mdio.read(ACC, self.now), Some(access));
        }

        fn data(&mut self) -> u32 {
            self.mdio.read(DATA, self.now).unwrap()
        }

        fn set(&mut self, value: u32) {
            self.mdio.write(DATA, value, self.now, self.now, None);
        }
    }

    fn acc(phy: u8, index: u32) -> u32 {
        u32::from(phy) << 11 | index << 6
    }

    #[test]
    fn clause_22_reads_and_writes() {
        let mut rig = Rig::new(false);
        assert_eq!(rig.mdio.read(ACC, 0), Some(1 << 11));
        rig.go(acc(ADDRESS, 2));
        assert_eq!(rig.data(), 0x0007);
        rig.set(0x0141);
        rig.go(acc(ADDRESS, 4) | WRITE);
        assert_eq!(rig.data(), 0x0141);
        assert_eq!(rig.phy.read(4, rig.now), 0x0141);
        rig.go(acc(ADDRESS + 1, 2));
        assert_eq!(rig.data(), 0xffff, "nobody is there");
        rig.go(acc(0, 4) | WRITE);
        assert_eq!(rig.phy.read(4, rig.now), 0x0141);
    }

    #[test]
    fn the_result_comes_with_the_end() {
        let mut rig = Rig::new(false);
        rig.set(0x1234);
        let access = acc(ADDRESS, 2);
        assert!(rig.mdio.write(ACC, access | BUSY, 0, 100, Some((ADDRESS, &mut rig.phy))));
        assert!(!rig.mdio.write(ACC, acc(1, 9) | BUSY, 50, 150, None), "busy");
        assert!(!rig.mdio.write(DATA, 9, 50, 50, None));
        assert_eq!(rig.mdio.read(DATA, 99), Some(0x1234));
        assert_eq!(rig.mdio.read(DATA, 100), Some(0x0007));
        assert!(rig.mdio.write(ACC, access | BUSY, 200, u64::MAX, Some((ADDRESS, &mut rig.phy))));
        assert_eq!(rig.mdio.read(ACC, u64::MAX - 1), Some(access | BUSY), "it hangs");
    }

    #[test]
    fn clause_45_keeps_an_address_for_each_device() {
        let mut rig = Rig::new(true);
        let device = |device: u32, command: u32| acc(ADDRESS, device) | CLAUSE_45 | command << COMMAND_SHIFT;
        rig.set(60);
        rig.go(device(7, 0));
        rig.set(20);
        rig.go(device(3, 0));
        rig.set(6);
        rig.go(device(7, 1));
        rig.go(device(7, 3));
        assert_eq!(rig.data(), 6, "what was advertised");
        rig.go(device(7, 2));
        assert_eq!(rig.data(), 6, "the partner's, one further");
        rig.go(device(3, 2));
        assert_eq!(rig.data(), 6);
        rig.go(acc(9, 3) | CLAUSE_45 | 2 << COMMAND_SHIFT);
        assert_eq!(rig.data(), 0xffff);
    }

    #[test]
    fn the_first_family_has_no_clause_45() {
        let mut rig = Rig::new(false);
        let access = acc(ADDRESS, 3) | CLAUSE_45 | 7 << 16;
        assert!(rig.mdio.write(ACC, access | BUSY, 0, 1, Some((ADDRESS, &mut rig.phy))));
        assert_eq!(rig.mdio.read(ACC, 1), Some(acc(ADDRESS, 3)));
        rig.now = 1;
        assert_eq!(rig.data(), 0xfff0, "register 3 by clause 22");
    }

    #[test]
    fn no_value_harms() {
        let mut rng = crate::rng::Rng::new(3);
        let mut rig = Rig::new(true);
        for now in 0..100_000 {
            let random = rng.next_u64();
            let offset = if random & 1 << 40 != 0 { ACC } else { DATA };
            let value =
                if random & 1 << 41 != 0 { random as u32 } else { acc(ADDRESS, 0) | random as u32 & 0x7cf };
            rig.mdio.write(offset, value, now, now + 1, Some((ADDRESS, &mut rig.phy)));
            rig.mdio.read(offset, now);
            assert_eq!(rig.mdio.read(random, now).is_some(), matches!(random, ACC | DATA));
        }
    }
}
