//! Configuration spaces with any content: no panic, no endless walk, and what is given out stays
//! inside and apart.

use std::vec::Vec;

use proptest::prelude::*;
use tombolo_hal::pci::fake::FakeConfigSpace;
use tombolo_hal::pci::{BarKind, CapabilityId, capabilities};

use super::fake::{Node, bridge, ecam, endpoint};
use super::*;

/// A function whose every register is arbitrary, half of the header types being bridges.
fn garbage() -> impl Strategy<Value = FakeConfigSpace> {
    let registers = proptest::collection::vec((0u16..0x40, any::<u32>(), any::<u32>()), 0..40);
    (any::<bool>(), any::<bool>(), registers).prop_map(|(is_bridge, multi, registers)| {
        let mut cfg = if is_bridge { bridge() } else { endpoint() };
        for (word, value, writable) in registers {
            cfg = cfg.with_register(word * 4, value, writable);
        }
        if multi { cfg.with_register(0x0c, 0x0080_0000 | u32::from(is_bridge) << 16, 0) } else { cfg }
    })
}

/// A function with legal registers of any size.
fn greedy() -> impl Strategy<Value = FakeConfigSpace> {
    (4u32..64, 4u32..32, 4u32..32, any::<bool>()).prop_map(|(wide, a, b, prefetchable)| {
        endpoint()
            .with_bar(0, BarKind::Memory64, prefetchable, 0, 1 << wide)
            .with_bar(2, BarKind::Memory32, false, 0, 1 << a)
            .with_bar(3, BarKind::Memory32, prefetchable, 0, 1 << b)
    })
}

fn any_function() -> impl Strategy<Value = FakeConfigSpace> {
    prop_oneof![garbage(), greedy()]
}

fn nodes(depth: u32) -> BoxedStrategy<Vec<Node>> {
    let place = (0u8..4, prop_oneof![3 => Just(0u8), 1 => 1u8..8]);
    let behind = if depth == 0 { Just(()).prop_map(|()| Vec::new()).boxed() } else { nodes(depth - 1) };
    let node = (place, prop_oneof![any_function().boxed(), Just(()).prop_map(|()| bridge()).boxed()], behind)
        .prop_map(|((device, function), cfg, behind)| Node::new(device, function, cfg).with(behind));
    proptest::collection::vec(node, 0..4).boxed()
}

/// What was given out on the bus behind each bridge.
fn check(tree: &PciTree<24>, apertures: &Apertures) {
    let mut given: Vec<(u64, u64)> = Vec::new();
    for bar in tree.functions().iter().flat_map(|f| f.bars.iter().flatten()) {
        if bar.address == 0 || !bar.is_memory() {
            continue;
        }
        assert_eq!(bar.address % bar.size, 0, "{bar:x?}");
        assert!(apertures.cpu_address(bar.address, bar.size).is_some(), "{bar:x?}");
        assert!(bar.kind == BarKind::Memory64 || bar.address + bar.size <= 1 << 32, "{bar:x?}");
        given.push((bar.address, bar.size));
    }
    given.sort_unstable();
    for pair in given.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 400 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_functions_say_addresses_stay_inside_and_apart(root in nodes(2), has_high: bool) {
        let buses = ecam(6, root);
        let apertures = Apertures { high: BOTH.high.filter(|_| has_high), ..BOTH };
        let mut tree = PciTree::<24>::new();
        tree.scan(&buses);
        tree.assign(&buses, &apertures).unwrap();
        check(&tree, &apertures);
        for function in tree.functions() {
            let cfg = buses.function(function.address);
            prop_assert!(capabilities(&cfg).count() <= 49);
            prop_assert!(function.parent.is_none_or(|p| tree.functions()[p].address.bus() < function.address.bus()));
        }
        // A second time it is the same.
        let before: Vec<_> = tree.functions().iter().map(|f| (f.address, f.bars)).collect();
        tree.scan(&buses);
        tree.assign(&buses, &apertures).unwrap();
        check(&tree, &apertures);
        prop_assert!(tree.functions().len() <= before.len().max(24));
    }

    #[test]
    fn a_capability_list_that_runs_in_a_circle_does_not_hold_up_the_scan(next in 0u32..64) {
        let odd = bridge()
            .with_capability(CapabilityId::VENDOR, 0x40, &[])
            .with_register(0x40, next << 10 | 0x09, 0);
        let buses = ecam(3, [Node::new(0, 0, odd), Node::new(1, 0, endpoint())].into());
        let mut tree = PciTree::<4>::new();
        tree.scan(&buses);
        prop_assert_eq!(tree.functions().len(), 2);
    }
}
