//! One transfer of each format and location on the simulator, small enough for Miri, on a host of
//! either byte order: what is little-endian on the wire stays so.

mod common;

use common::*;
use dw_edma::Format;

/// The machine's memory is 64 MiB by default, which Miri has to clear.
fn one_transfer(format: Format, local: bool) {
    let irqs = Irqs::One;
    let mut rig = if local { Rig::local(format, 1, 1, irqs) } else { Rig::remote(format, 1, 1, irqs) };
    for id in all_ids(&rig) {
        let mut ch = Box::new(rig.owned(id));
        transfer(&mut rig, &mut ch, &pattern(3, 45), 3);
    }
    assert_clean(&rig);
}

#[test]
fn legacy() {
    one_transfer(Format::Legacy, false);
    one_transfer(Format::Legacy, true);
}

#[test]
fn unrolled() {
    one_transfer(Format::Unroll, false);
    one_transfer(Format::Unroll, true);
}

#[test]
fn hdma_compatible() {
    one_transfer(Format::HdmaCompat, false);
    one_transfer(Format::HdmaCompat, true);
}

#[test]
fn hdma_native() {
    one_transfer(Format::HdmaNative, false);
    one_transfer(Format::HdmaNative, true);
}
