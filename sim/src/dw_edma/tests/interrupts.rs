//! Status, masks, lines and messages.

use super::*;
use crate::dw_edma::LocalIrq;

const DIR: Dir = Dir::Read;

/// A list of one small element with these interrupt bits, run to its end on `channel`.
fn run_one(rig: &mut Rig, channel: u16, bits: u32) {
    let at = 0x1000 * u64::from(channel);
    let (sar, dar) = addresses(rig, DIR, 0x10_0000, 0x1_0000);
    rig.point(DIR, channel, at);
    rig.data(at, element::CB | bits, 64, sar, dar);
    rig.data(at + element::SIZE, 0, 0, 0, 0);
    rig.doorbell(DIR, channel);
    rig.run();
}

#[test]
fn done_of_v0_comes_from_the_elements_bits_whatever_the_mask_says() {
    for format in V0_FORMATS {
        for mask in [0, 0xff_00ff] {
            let table =
                [(0, 0, 0), (element::LIE, 1, 0), (element::RIE, 1, 1), (element::LIE | element::RIE, 1, 1)];
            for (bits, status, messages) in table {
                let mut rig = Rig::edda(format);
                rig.enable(DIR, 0);
                rig.write(0xa8, mask);
                run_one(&mut rig, 0, bits);
                assert_eq!(rig.read(0xa0), status);
                assert_eq!(rig.messages().len(), messages);
                assert!(rig.bus.raised.is_empty(), "a remote engine's lines end in its own system");
            }
        }
    }
}

#[test]
fn messages_of_v0_carry_the_channels_half_of_the_data_word() {
    for format in V0_FORMATS {
        let mut rig = Rig::new(presets::remote(format, 8, 8));
        for channel in 0..8 {
            rig.enable(DIR, channel);
        }
        assert_eq!(rig.read(0xdc), 0x0061_0060);
        assert_eq!(rig.read(0xe8), 0x0067_0066);
        for channel in 0..8 {
            run_one(&mut rig, channel, element::LIE | element::RIE);
            assert_eq!(rig.messages(), [(0, 0x60 + u32::from(channel))]);
            assert_eq!(rig.read(0xa0), (1 << (channel + 1)) - 1);
        }
        rig.write(0xac, 0x55);
        assert_eq!(rig.read(0xa0), 0xaa);
        assert_eq!(rig.read(0x4c), 0);
    }
}

#[test]
fn every_element_with_the_bit_interrupts_once_the_next_one_is_known() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        let (sar, dar) = addresses(&rig, DIR, 0x10_0000, 0x1_0000);
        rig.enable(DIR, 0);
        rig.point(DIR, 0, 0);
        for index in 0..4 {
            let bits = if index % 2 == 0 { element::LIE | element::RIE } else { 0 };
            rig.data(index * element::SIZE, element::CB | bits, 64, sar, dar);
        }
        rig.doorbell(DIR, 0);
        let mut messages = vec![];
        while rig.step() {
            for (at, _) in rig.messages() {
                let index = (rig.llp(DIR, 0) - rig.list_addr(0)) / element::SIZE;
                messages.push((at, index, rig.status(DIR, 0)));
            }
        }
        if format.is_v0() {
            assert_eq!(messages, [(0, 1, 1), (0, 3, 1)]);
            assert_eq!(rig.read(0xa0), 1, "merged");
        } else {
            assert_eq!(messages, [(8, 1, 1), (8, 3, 1), (0, 4, 3)]);
            let base = rig.channel(DIR, 0);
            let both = hdma::int::WATERMARK | hdma::int::STOP;
            assert_eq!(rig.read(base + hdma::INT_STATUS), both);
            rig.write(base + hdma::INT_CLEAR, hdma::int::WATERMARK);
            assert_eq!(rig.read(base + hdma::INT_STATUS), hdma::int::STOP);
        }
    }
}

#[test]
fn the_link_behind_the_last_element_is_consumed_before_the_interrupt() {
    for format in V0_FORMATS {
        for prefetch in [1, 2, 4] {
            let mut rig = Rig::new(Params { prefetch, ..presets::edda(format) });
            let (sar, dar) = addresses(&rig, DIR, 0x10_0000, 0x1_0000);
            rig.enable(DIR, 0);
            rig.point(DIR, 0, 0);
            rig.data(0, element::CB | element::LIE | element::RIE, 64, sar, dar);
            let base = rig.list_addr(0);
            rig.link_element(element::SIZE, element::TCB, base);
            rig.doorbell(DIR, 0);
            while rig.messages().is_empty() {
                assert!(rig.step());
            }
            assert_eq!(rig.llp(DIR, 0), base);
            assert_eq!(rig.status(DIR, 0), 3);
            assert_eq!(rig.get(DIR, 0, Reg::Control1) & v0::control::CCS, 0);
        }
    }
}

#[test]
fn native_stop_needs_its_enables_and_ignores_the_masks() {
    let table = [
        (0, 0, 0),
        (hdma::int::RSIE, 0, 1),
        (hdma::int::LSIE, 1, 0),
        (hdma::int::LSIE | hdma::int::RSIE | 5, 1, 1),
        (0x7d, 1, 1),
    ];
    for (setup, status, messages) in table {
        let mut rig = Rig::edda(Format::HdmaNative);
        rig.enable(DIR, 1);
        let base = rig.channel(DIR, 1);
        rig.write(base + hdma::INT_SETUP, setup);
        run_one(&mut rig, 1, 0);
        assert_eq!(rig.read(base + hdma::INT_STATUS), status, "{setup:#x}");
        assert_eq!(rig.messages().len(), messages);
    }
}

#[test]
fn native_watermarks_need_the_elements_bits() {
    for (bits, status, messages) in
        [(element::LIE, 2, 0), (element::RIE, 0, 1), (element::LIE | element::RIE, 2, 1)]
    {
        let mut rig = Rig::edda(Format::HdmaNative);
        rig.enable(DIR, 0);
        let base = rig.channel(DIR, 0);
        rig.write(base + hdma::INT_SETUP, 0);
        run_one(&mut rig, 0, bits);
        assert_eq!(rig.read(base + hdma::INT_STATUS), status);
        assert_eq!(rig.messages().len(), messages);
    }
}

#[test]
fn a_doorbell_with_nothing_to_do_is_another_native_stop() {
    let mut rig = Rig::edda(Format::HdmaNative);
    rig.enable(DIR, 0);
    run_one(&mut rig, 0, 0);
    rig.doorbell(DIR, 0);
    rig.run();
    assert_eq!(rig.messages(), [(0, 0x60), (0, 0x60)]);
    assert_eq!(rig.handle.channel(DIR, 0).elements, 1);
    let mut rig = Rig::edda(Format::Unrolled);
    rig.enable(DIR, 0);
    run_one(&mut rig, 0, element::RIE);
    rig.doorbell(DIR, 0);
    rig.run();
    assert_eq!(rig.messages(), [(0, 0x60)], "v0 has no end event");
}

#[test]
fn local_lines_follow_status_and_mask() {
    for format in Format::ALL {
        let mut rig = Rig::new(presets::local(format, 2, 2));
        rig.enable(DIR, 1);
        if !format.is_v0() {
            let base = rig.channel(DIR, 1);
            rig.write(base + hdma::INT_SETUP, hdma::int::LSIE | hdma::int::STOP);
        } else {
            rig.write(0xa8, 2);
        }
        run_one(&mut rig, 1, if format.is_v0() { element::LIE } else { 0 });
        assert_eq!(rig.bus.raised, [], "masked");
        let clear = if format.is_v0() {
            rig.write(0xa8, 0);
            (0xac, 2)
        } else {
            let base = rig.channel(DIR, 1);
            rig.write(base + hdma::INT_SETUP, hdma::int::LSIE);
            (base + hdma::INT_CLEAR, 1)
        };
        assert_eq!(rig.bus.raised, [3], "write 0, 1, read 0, then read 1");
        rig.write(clear.0, clear.1);
        run_one(&mut rig, 1, if format.is_v0() { element::LIE } else { 0 });
        assert_eq!(rig.bus.raised, [3, 3]);
        assert_eq!(rig.handle.counters().local_interrupts, 2);
    }
}

#[test]
fn rie_alone_does_not_move_the_local_line() {
    let mut rig = Rig::new(presets::local(Format::Unrolled, 2, 2));
    rig.enable(DIR, 0);
    run_one(&mut rig, 0, element::RIE);
    assert!(rig.bus.raised.is_empty());
    assert_eq!(rig.read(0xa0), 1);
}

#[test]
fn a_line_that_stays_up_after_an_acknowledge_interrupts_again() {
    let mut rig = Rig::new(presets::local(Format::Unrolled, 2, 2));
    rig.enable(DIR, 0);
    run_one(&mut rig, 0, element::LIE);
    rig.handle.abort_after(DIR, 0, 10, crate::dw_edma::Cause::Poisoned);
    run_one(&mut rig, 0, element::LIE);
    assert_eq!(rig.read(0xa0), 0x1_0001);
    assert_eq!(rig.bus.raised, [2]);
    rig.write(0xac, 1);
    assert_eq!(rig.bus.raised, [2, 2]);
    rig.write(0xac, 1 << 16);
    assert_eq!(rig.bus.raised, [2, 2]);
}

#[test]
fn intx_is_the_level_of_all_lines() {
    let params = presets::local(Format::Unrolled, 2, 2);
    let Placement::Local { link_base, core_version, .. } = params.placement else { panic!() };
    let placement = Placement::Local { link_base, core_version, irq: LocalIrq::Intx };
    let mut rig = Rig::new(Params { placement, ..params });
    for channel in 0..2 {
        rig.enable(DIR, channel);
        run_one(&mut rig, channel, element::LIE);
        assert!(rig.bus.intx);
    }
    rig.write(0xac, 1);
    assert!(rig.bus.intx);
    rig.write(0xa8, 2);
    assert!(!rig.bus.intx);
    rig.write(0xa8, 0);
    assert!(rig.bus.intx);
    rig.write(0xac, 2);
    assert!(!rig.bus.intx);
}

#[test]
fn a_write_to_the_status_of_v0_emulates_an_interrupt() {
    for format in V0_FORMATS {
        for (status, clear, value, vector) in [(0x4c, 0x58, 0, 0), (0xa0, 0xac, 0xffff_ffff, 2)] {
            let mut rig = Rig::new(presets::local(format, 2, 2));
            rig.write(status, value);
            assert_eq!(rig.bus.raised, [vector]);
            assert_eq!(rig.read(status), 0, "no status bit");
            rig.write(clear, 0);
            rig.write(status, 1);
            assert_eq!(rig.bus.raised, [vector, vector]);
            assert_eq!(rig.handle.counters().emulated_interrupts, 2);
        }
    }
}

#[test]
fn a_zero_clear_leaves_real_interrupts_alone() {
    let mut rig = Rig::edda(Format::Unrolled);
    rig.enable(DIR, 0);
    run_one(&mut rig, 0, element::LIE);
    rig.write(0xac, 0);
    assert_eq!(rig.read(0xa0), 1);
}
