//! One transfer of each format and location on the simulator, small enough for Miri, on a host of
//! either byte order: what is little-endian on the wire stays so.

mod common;

use common::*;
use dw_edma::{ChannelId, Format};

/// The write channel of a remote engine fills memory, that of a local one reads it.
fn one_transfer(format: Format) {
    for local in [false, true] {
        let rig = if local { Rig::local } else { Rig::remote };
        let mut rig = rig(format, 1, 0, Irqs::One);
        let mut ch = Box::new(Owned::new(rig.open_with(ChannelId::write(0), 192, 4, 8)));
        transfer(&mut rig, &mut ch, &pattern(3, 45), 3);
        assert_clean(&rig);
    }
}

#[test]
fn legacy() {
    one_transfer(Format::Legacy);
}

#[test]
fn unrolled() {
    one_transfer(Format::Unroll);
}

#[test]
fn hdma_compatible() {
    one_transfer(Format::HdmaCompat);
}

#[test]
fn hdma_native() {
    one_transfer(Format::HdmaNative);
}
