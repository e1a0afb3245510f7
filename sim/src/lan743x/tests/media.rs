//! PHY, PCS and PTP as parts of the controller.

use super::packets::plain;
use super::*;

const INT_PHY: u32 = 1 << 5;

fn mii(rig: &mut Rig, access: u32) -> u32 {
    rig.wr(0x120, access | 1);
    assert_eq!(rig.rd(0x120) & 1, 1, "busy");
    rig.wait(0x120, 1, 0);
    rig.rd(0x124)
}

fn phy_read(rig: &mut Rig, register: u32) -> u32 {
    mii(rig, 1 << 11 | register << 6)
}

fn phy_write(rig: &mut Rig, register: u32, value: u32) {
    rig.wr(0x124, value);
    mii(rig, 1 << 11 | register << 6 | 2);
}

#[test]
fn the_phy_answers_at_its_address() {
    let mut rig = Rig::up();
    assert_eq!((phy_read(&mut rig, 2), phy_read(&mut rig, 3) & 0xfff0), (0x0007, 0xc130));
    assert_eq!(mii(&mut rig, 2 << 11 | 2 << 6), 0xffff);
    assert_eq!(phy_read(&mut rig, 1) & 0x24, 0x24, "link, negotiated");
    for up in [false, true] {
        rig.far.wire().set_up(up);
        rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    }
    assert_eq!(phy_read(&mut rig, 1) & 4, 0, "it was down since");
    assert_eq!(phy_read(&mut rig, 1) & 4, 4);
    assert!(rig.model.handle().counters().mdio >= 5);
}

#[test]
fn a_link_takes_its_time() {
    let mut params = presets::lan7430_a0();
    params.timing.negotiation_ns = 2_000_000;
    let mut rig = Rig::up_with(params);
    rig.wr(0x014, 1 << 4);
    rig.wait(0x014, 1 << 4 | 1 << 7, 1 << 7);
    assert_eq!(phy_read(&mut rig, 1) & 4, 0);
    rig.bus.now_ns += 2_000_000;
    rig.send(0, &plain(MAC, 60), 0);
    assert_eq!(rig.all_arrived().len(), 1);
    assert_eq!(phy_read(&mut rig, 1) & 4, 4);
}

#[test]
fn the_phy_loops_frames_back() {
    let mut rig = Rig::up();
    phy_write(&mut rig, 0, 0x4140);
    rig.send(0, &plain(MAC, 60), 0);
    assert!(rig.take(0).is_some());
    assert_eq!(rig.all_arrived().len(), 0);
}

#[test]
fn the_phy_interrupts() {
    let mut rig = Rig::up();
    phy_write(&mut rig, 25, 0x8000 | 0x2000);
    phy_read(&mut rig, 26);
    assert_eq!(rig.rd(0x780) & INT_PHY, 0);
    rig.wr(0x788, 1 | INT_PHY);
    rig.wr(0x794, 1);
    rig.far.wire().set_up(false);
    rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    assert_eq!((rig.rd(0x780) & INT_PHY, rig.bus.raised.as_slice()), (INT_PHY, &[0][..]));
    phy_read(&mut rig, 26);
    assert_eq!(rig.rd(0x780) & INT_PHY, 0, "reading the status ends it");
}

#[test]
fn frames_pass_a_pcs_that_is_on() {
    let mut rig = Rig::new(presets::pci11414_b0());
    rig.bring_up();
    rig.send(0, &plain(MAC, 60), 0);
    assert_eq!(rig.all_arrived().len(), 1);
    let ctl = rig.rd(0x728);
    for off in [ctl & !(1 << 31), ctl | 2] {
        rig.wr(0x728, off);
        rig.send(0, &plain(MAC, 60), 0);
        rig.incoming(&plain(MAC, 60));
        assert_eq!((rig.all_arrived().len(), rig.take(0)), (0, None), "{off:#x}");
    }
    rig.wr(0x728, ctl);
    rig.incoming(&plain(MAC, 60));
    assert!(rig.take(0).is_some());
}

fn start_clock(rig: &mut Rig, seconds: u32) {
    rig.wr(0xa14, seconds);
    rig.wr(0xa18, 0);
    rig.wr(0xa00, 1 << 4);
    rig.wait(0xa00, 1 << 4, 0);
    rig.wr(0xa00, 1 << 2);
    rig.settle();
}

#[test]
fn sent_frames_are_stamped_on_demand() {
    let mut rig = Rig::up();
    start_clock(&mut rig, 1000);
    rig.wr(0xa0c, 1 << 12);
    rig.wr(0x788, 1 | 1 << 7);
    rig.wr(0x794, 1);
    rig.send(0, &plain(MAC, 60), 0);
    assert_eq!(rig.rd(0xa60) >> 4 & 7, 0);
    rig.send(0, &plain(MAC, 60), 1 << 16);
    assert_eq!((rig.rd(0xa60) >> 4 & 7, rig.rd(0xaac), rig.rd(0x780) >> 7 & 1), (1, 1000, 1));
    assert_eq!(rig.bus.raised, [0]);
    rig.wr(0xa08, 1 << 12);
    assert_eq!((rig.rd(0xa60) >> 4 & 7, rig.rd(0x780) >> 7 & 1), (0, 0));
    rig.model.handle().lose_tx_stamps(1);
    rig.send(0, &plain(MAC, 60), 0);
    rig.send(0, &plain(MAC, 60), 1 << 16);
    assert_eq!(rig.rd(0xa60) >> 4 & 7, 0, "the fault is for frames that ask");
    rig.send(0, &plain(MAC, 60), 1 << 16);
    assert_eq!(rig.rd(0xa60) >> 4 & 7, 1);
}

#[test]
fn stamps_of_received_frames_follow_the_mode_of_their_channel() {
    let mut rig = Rig::up();
    start_clock(&mut rig, 5);
    rig.set(0xc44 + 0x40, 1 << 29 | 1 << 28);
    for channel in [0, 1] {
        rig.wr(0x508, 1 << 8 | (channel as u32) << 16);
        rig.incoming(&plain(MAC, 60));
        let seconds = rig.take(channel).unwrap().stamp.map(|stamp| stamp.0);
        assert_eq!(seconds, (channel == 1).then_some(5));
    }
}

#[test]
fn a_magic_packet_wakes_a_function_that_sleeps() {
    let mut rig = Rig::up();
    let handle = rig.model.handle();
    rig.wr(0x140, 1 << 1);
    rig.set(0x014, 1 << 3);
    let mut magic = plain([0xff; 6], 20);
    magic.extend([0xff; 6]);
    (0..16).for_each(|_| magic.extend(MAC));
    rig.incoming(&magic);
    assert_eq!((handle.counters().wake_ups, rig.take(0).is_some()), (0, true), "awake");
    handle.set_asleep(true);
    rig.incoming(&plain(MAC, 60));
    assert_eq!((handle.counters().wake_ups, rig.take(0)), (0, None));
    rig.incoming(&magic);
    assert_eq!(handle.counters().wake_ups, 1);
    assert_eq!((rig.rd(0x140) >> 5 & 1, rig.rd(0x144) >> 10 & 1, rig.rd(0x014) & 3), (1, 1, 2));
    rig.incoming(&magic);
    assert_eq!(handle.counters().wake_ups, 1, "once");
    handle.set_asleep(false);
    rig.incoming(&plain(MAC, 60));
    assert!(rig.take(0).is_some());
}
