mod fake;
mod hostile;

use std::vec;
use std::vec::Vec;

use fake::{Node, bridge, ecam, endpoint, port};
use tombolo_hal::pci::{BarKind, ConfigSpace, PciError};

use super::*;

const LOW: Aperture = Aperture { bus: 0x8000_0000, cpu: 0x8000_0000, size: 0x4000_0000 };
const HIGH: Aperture = Aperture { bus: 0x80_0000_0000, cpu: 0x180_0000_0000, size: 0x80_0000_0000 };
const BOTH: Apertures = Apertures { low: LOW, high: Some(HIGH) };

fn bdf(bus: u8, device: u8, function: u8) -> Bdf {
    Bdf::new(bus, device, function).unwrap()
}

fn found<const N: usize>(tree: &PciTree<N>) -> Vec<Bdf> {
    tree.functions().iter().map(|f| f.address).collect()
}

fn multi(cfg: tombolo_hal::pci::fake::FakeConfigSpace) -> tombolo_hal::pci::fake::FakeConfigSpace {
    cfg.with_register(0x0c, 0x0080_0000, 0)
}

#[test]
fn ecam_that_is_smaller_than_its_buses_is_refused() {
    let io = ecam(2, vec![]).function(bdf(0, 0, 0));
    assert_eq!(io.read32(0), u32::MAX);
    let fake = fake::FakeEcam(fake::FakeBuses { first_bus: 0, buses: 1, root: vec![] }.into());
    assert!(Ecam::new(fake.clone(), 0, 1).is_err() && Ecam::new(fake, 1, 0).is_err());
}

#[test]
fn functions_on_a_bus_are_found_and_those_of_a_single_function_device_are_not_asked_for() {
    let root = vec![
        Node::new(0, 0, endpoint()),
        Node::new(0, 3, endpoint()), // device 0 says that it has one function
        Node::new(4, 0, multi(endpoint())),
        Node::new(4, 7, endpoint()),
        Node::new(5, 1, endpoint()), // no function 0, no device
        Node::new(31, 0, endpoint()),
    ];
    let mut tree = PciTree::<8>::new();
    tree.scan(&ecam(1, root));
    assert_eq!(found(&tree), [bdf(0, 0, 0), bdf(0, 4, 0), bdf(0, 4, 7), bdf(0, 31, 0)]);
    assert_eq!(tree.faults(), (&[][..], 0));
}

#[test]
fn buses_are_numbered_in_depth_and_each_bridge_covers_what_is_behind_it() {
    let switch = Node::new(0, 0, port(5)).with(vec![
        Node::new(0, 0, port(6)).with(vec![Node::new(0, 0, endpoint()), Node::new(1, 0, endpoint())]),
        Node::new(1, 0, port(6)),
    ]);
    let root = vec![
        Node::new(1, 0, port(4)).with(vec![switch]),
        Node::new(2, 0, bridge()).with(vec![Node::new(9, 0, endpoint())]),
    ];
    let mut tree = PciTree::<16>::new();
    let buses = ecam(16, root);
    tree.scan(&buses);
    let numbers: Vec<_> = tree
        .functions()
        .iter()
        .filter_map(|f| match f.kind {
            FunctionKind::Bridge { secondary, subordinate, .. } => Some((f.address, secondary, subordinate)),
            _ => None,
        })
        .collect();
    assert_eq!(
        numbers,
        [
            (bdf(0, 1, 0), 1, 4),
            (bdf(1, 0, 0), 2, 4),
            (bdf(2, 0, 0), 3, 3),
            (bdf(2, 1, 0), 4, 4),
            (bdf(0, 2, 0), 5, 5)
        ]
    );
    assert_eq!(buses.function(bdf(0, 1, 0)).read32(0x18) & 0xff_ffff, 0x04_01_00);
    let ends: Vec<_> = found(&tree).into_iter().filter(|at| at.bus() == 3 || at.bus() == 5).collect();
    assert_eq!(ends, [bdf(3, 0, 0), bdf(5, 9, 0)], "device 1 behind a downstream port is not asked for");
    assert_eq!(tree.faults(), (&[][..], 0));
}

#[test]
fn registers_get_addresses_that_do_not_overlap_and_bridges_the_windows_for_them() {
    let inner = endpoint()
        .with_bar(0, BarKind::Memory32, false, 0, 0x4000)
        .with_bar(1, BarKind::Memory32, true, 0xdead_0000, 0x1_0000)
        .with_bar(2, BarKind::Memory64, true, 0, 64 << 20)
        .with_bar(4, BarKind::Memory64, false, 0, 0x1000);
    let root = vec![
        Node::new(0, 0, endpoint().with_bar(0, BarKind::Memory64, false, 0, 1 << 30)),
        Node::new(1, 0, bridge()).with(vec![Node::new(0, 0, inner)]),
        Node::new(2, 0, endpoint().with_bar(5, BarKind::Io, false, 0xc000, 64)),
    ];
    let buses = ecam(4, root);
    let mut tree = PciTree::<8>::new();
    tree.scan(&buses);
    tree.assign(&buses, &BOTH).unwrap();
    assert_eq!(tree.faults(), (&[][..], 0));
    let address = |f: usize, b: usize| tree.functions()[f].bars[b].unwrap().address;
    assert_eq!(address(0, 0), HIGH.bus);
    assert_eq!(address(2, 1), LOW.bus, "the largest first");
    assert_eq!(address(2, 0), LOW.bus + 0x1_0000);
    assert_eq!(address(2, 4), LOW.bus + 0x1_4000, "not prefetchable: below 4 GiB behind a bridge");
    assert_eq!(address(2, 2), HIGH.bus + (1 << 30));
    let cfg = buses.function(bdf(1, 0, 0));
    assert_eq!((cfg.read32(0x18), cfg.read32(0x1c)), (0x4000_000c, 0x80));
    assert_eq!(cfg.read16(4) & 6, 0, "the driver switches memory and bus mastering on");
    let bridge = buses.function(bdf(0, 1, 0));
    assert_eq!(bridge.read32(0x20), 0x8000_8000, "1 MiB");
    assert_eq!(
        (bridge.read32(0x24), bridge.read32(0x28), bridge.read32(0x2c)),
        (0x43f1_4001, 0x80, 0x80),
        "64 MiB above 4 GiB"
    );
    assert_eq!(bridge.read16(4) & 6, 6);
    assert_eq!(BOTH.cpu_address(address(2, 2), 64 << 20), Some(HIGH.cpu + (1 << 30)));
    assert_eq!(BOTH.cpu_address(LOW.bus + LOW.size - 4, 8), None);
}

#[test]
fn a_bridge_without_a_wide_window_gets_all_of_it_below_4_gib() {
    let narrow = bridge().with_register(0x24, 0, 0).with_register(0x28, 0, 0).with_register(0x2c, 0, 0);
    let inner = endpoint().with_bar(2, BarKind::Memory64, true, 0, 1 << 20);
    let buses = ecam(2, vec![Node::new(1, 0, narrow).with(vec![Node::new(0, 0, inner)])]);
    let mut tree = PciTree::<4>::new();
    tree.scan(&buses);
    tree.assign(&buses, &BOTH).unwrap();
    assert_eq!(tree.functions()[1].bars[2].unwrap().address, LOW.bus);
    assert!(tree.functions()[1].is_assigned());
    assert_eq!(tree.faults(), (&[][..], 0));
}

#[test]
fn what_does_not_fit_is_named_and_the_rest_is_served() {
    let greedy = endpoint()
        .with_bar(0, BarKind::Memory64, true, 0, 1 << 62)
        .with_bar(2, BarKind::Memory32, false, 0, 1 << 31)
        .with_bar(3, BarKind::Memory32, false, 0, 0x1000);
    let modest = endpoint().with_bar(0, BarKind::Memory32, false, 0, 0x1000);
    let buses =
        ecam(2, vec![Node::new(1, 0, bridge()).with(vec![Node::new(0, 0, greedy)]), Node::new(2, 0, modest)]);
    let mut tree = PciTree::<4>::new();
    tree.scan(&buses);
    tree.assign(&buses, &BOTH).unwrap();
    let at = bdf(1, 0, 0);
    assert_eq!(
        tree.faults().0,
        [
            Fault { at, kind: FaultKind::NoRoom { index: 2, size: 1 << 31 } },
            Fault { at, kind: FaultKind::NoRoom { index: 0, size: 1 << 62 } },
        ]
    );
    let functions = tree.functions();
    assert!(!functions[1].is_assigned() && functions[2].is_assigned());
    assert_eq!(functions[1].bars[3].unwrap().address, LOW.bus);
}

#[test]
fn a_window_that_does_not_fit_leaves_all_behind_it_without_addresses() {
    let big = |size| endpoint().with_bar(0, BarKind::Memory32, false, 0, size);
    let behind = |size| vec![Node::new(0, 0, big(size))];
    let buses = ecam(
        3,
        vec![
            Node::new(1, 0, bridge()).with(behind(0x4000_0000)),
            Node::new(2, 0, bridge()).with(behind(0x1000)),
        ],
    );
    let mut tree = PciTree::<4>::new();
    tree.scan(&buses);
    tree.assign(&buses, &BOTH).unwrap();
    let kinds: Vec<_> = tree.faults().0.iter().map(|f| (f.at, f.kind)).collect();
    assert_eq!(
        kinds,
        [
            (bdf(0, 2, 0), FaultKind::NoRoomBehind { size: 1 << 20 }),
            (bdf(2, 0, 0), FaultKind::NoRoom { index: 0, size: 0x1000 })
        ]
    );
    assert!(tree.functions()[1].is_assigned() && !tree.functions()[3].is_assigned());
}

#[test]
fn bridges_that_refuse_bus_numbers_or_get_none_are_not_entered() {
    let deaf = bridge().with_register(0x18, 0, 0);
    let root = vec![
        Node::new(1, 0, deaf).with(vec![Node::new(0, 0, endpoint())]),
        Node::new(2, 0, bridge()).with(vec![Node::new(0, 0, bridge())]),
    ];
    let mut tree = PciTree::<8>::new();
    tree.scan(&ecam(2, root));
    assert_eq!(found(&tree), [bdf(0, 1, 0), bdf(0, 2, 0), bdf(1, 0, 0)]);
    let kinds: Vec<_> = tree.faults().0.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FaultKind::BusNumbers { primary: 0, secondary: 1 }, FaultKind::NoBusLeft { last: 1 }]);
}

#[test]
fn a_full_table_ends_the_scan_and_says_so() {
    let root = (0..5).map(|d| Node::new(d, 0, endpoint())).collect();
    let mut tree = PciTree::<3>::new();
    tree.scan(&ecam(1, root));
    assert_eq!(tree.functions().len(), 3);
    assert_eq!(tree.faults().0, [Fault { at: bdf(0, 3, 0), kind: FaultKind::TooManyFunctions { limit: 3 } }]);
}

#[test]
fn a_register_that_takes_no_address_is_named_and_the_function_not_usable() {
    // One address bit is stuck.
    let odd = endpoint()
        .with_register(0x10, 0x4000_0000, 0xffff_f000)
        .with_bar(1, BarKind::Memory32, false, 0, 0x100)
        .with_register(0x10, 0x4000_0000, 0xbfff_f000);
    let buses = ecam(1, vec![Node::new(0, 0, odd)]);
    let mut tree = PciTree::<2>::new();
    tree.scan(&buses);
    tree.assign(&buses, &BOTH).unwrap();
    let refused = FaultKind::BarRefused { index: 0, address: LOW.bus };
    assert_eq!(tree.faults().0, [Fault { at: bdf(0, 0, 0), kind: refused }]);
    assert!(!tree.functions()[0].is_assigned());
    assert_eq!(tree.functions()[0].bars[1].unwrap().address, LOW.bus + 0x1000);
}

#[test]
fn no_register_of_a_function_with_a_reserved_type_is_used() {
    let odd = endpoint().with_register(0x10, 6, !0xf).with_bar(1, BarKind::Memory32, false, 0, 0x100);
    let mut tree = PciTree::<2>::new();
    tree.scan(&ecam(1, vec![Node::new(0, 0, odd)]));
    assert_eq!(tree.faults().0.len(), 6);
    assert_eq!(tree.faults().0[0].kind, FaultKind::Pci(PciError::BarType { index: 0, raw: 6 }));
    assert_eq!(tree.functions()[0].bars, [None; 6]);
}

#[test]
fn apertures_that_are_not_usable_are_refused() {
    let buses = ecam(1, vec![]);
    let mut tree = PciTree::<2>::new();
    for low in [
        Aperture { bus: 0, ..LOW },
        Aperture { size: 0, ..LOW },
        Aperture { size: 0x8000_0001, ..LOW },
        Aperture { bus: u64::MAX, ..LOW },
    ] {
        assert!(tree.assign(&buses, &Apertures { low, high: None }).is_err(), "{low:x?}");
    }
    assert!(
        tree.assign(&buses, &Apertures { low: LOW, high: Some(Aperture { bus: u64::MAX, ..HIGH }) }).is_err()
    );
}
