//! An Arm machine as its device tree describes it.
//!
//! Bindings: `pci-host-ecam-generic`, `arm,gic-v3`, `arm,gic-v3-its`, `arm,pl011`, `arm,psci` of the Devicetree
//! specification and Linux's `Documentation/devicetree/bindings`. Nodes are taken from the root, `soc`-like buses
//! without `ranges` of their own, as QEMU's virt has them.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property, ToCellInt};

use super::{MemoryRange, PciHost, PlatformError, Ranges};
use crate::pci::{Aperture, Apertures, BUS_SIZE};

/// How the firmware is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conduit {
    /// `hvc`.
    #[default]
    Hvc,
    /// `smc`.
    Smc,
}

/// The interrupt controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gic {
    /// The distributor.
    pub distributor: MemoryRange,
    /// The first region of redistributors.
    pub redistributors: MemoryRange,
    /// The interrupt translation service, if there is one.
    pub its: Option<MemoryRange>,
}

/// What the tree says.
#[derive(Clone, Debug)]
pub struct ArmPlatform<'a> {
    /// Memory.
    pub ram: Ranges,
    /// The host bridge.
    pub pci: PciHost,
    /// Whether what is behind the host bridge sees the CPU's caches (`dma-coherent`).
    pub is_coherent: bool,
    /// A GICv3, if there is one.
    pub gic: Option<Gic>,
    /// The serial port, a PL011.
    pub uart: Option<MemoryRange>,
    /// How to call the firmware.
    pub psci: Conduit,
    /// The command line.
    pub command_line: &'a str,
}

const fn unusable<T>(why: &'static str) -> Result<T, PlatformError> {
    Err(PlatformError::Firmware(why))
}

impl<'a> ArmPlatform<'a> {
    /// Reads the tree in `blob`.
    ///
    /// # Errors
    /// [`PlatformError::Firmware`].
    pub fn read(blob: &'a [u8]) -> Result<Self, PlatformError> {
        let Ok(tree) = Fdt::new(blob) else { return unusable("the device tree is damaged") };
        let root = tree.root();
        let mut ram = Ranges::new();
        for node in root.children().filter(|node| text(node, "device_type") == Some("memory")) {
            ram.extend(ranges(node).take(ram.remaining_capacity()));
        }
        let Some(pci) = compatible(root, "pci-host-ecam-generic") else {
            return unusable("the device tree has no pci-host-ecam-generic");
        };
        let psci = match root.child("psci").and_then(|node| text(&node, "method")) {
            Some("smc") => Conduit::Smc,
            _ => Conduit::Hvc,
        };
        let chosen = root.child("chosen");
        Ok(Self {
            ram,
            pci: pci_host(pci)?,
            is_coherent: pci.property("dma-coherent").is_some(),
            gic: compatible(root, "arm,gic-v3").and_then(gic),
            uart: compatible(root, "arm,pl011").and_then(|node| ranges(node).next()),
            psci,
            command_line: chosen.and_then(|node| text(&node, "bootargs")).unwrap_or(""),
        })
    }
}

fn text<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    node.property(name)?.value_as::<&'a str>().ok()
}

fn compatible<'a>(parent: FdtNode<'a>, what: &str) -> Option<FdtNode<'a>> {
    parent.children().find(|node| node.compatible().is_some_and(|mut names| names.any(|name| name == what)))
}

/// What `reg` says.
fn ranges<'a>(node: FdtNode<'a>) -> impl Iterator<Item = MemoryRange> + use<'a> {
    node.reg()
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .filter_map(|reg| Some(MemoryRange { start: reg.address().ok()?, size: reg.size().ok()? }))
}

fn gic(node: FdtNode<'_>) -> Option<Gic> {
    let mut own = ranges(node);
    let its = compatible(node, "arm,gic-v3-its").and_then(|its| ranges(its).next());
    Some(Gic { distributor: own.next()?, redistributors: own.next()?, its })
}

fn pci_host(node: FdtNode<'_>) -> Result<PciHost, PlatformError> {
    let Some(ecam) = ranges(node).next() else { return unusable("the host bridge has no ECAM") };
    for range in node.dma_ranges().ok().flatten().into_iter().flatten() {
        let (bus, cpu) = (range.child_bus_address::<u128>(), range.parent_bus_address::<u64>());
        if !matches!((bus, cpu), (Ok(bus), Ok(cpu)) if bus as u64 == cpu) {
            return unusable("devices do not see memory at the CPU's addresses (dma-ranges)");
        }
    }
    let buses = node.property("bus-range").and_then(|p| p.as_prop_encoded_array([1, 1]).ok()?.next());
    let (first, last) = match buses {
        Some([first, last]) => (first.to_int::<u32>().unwrap_or(0), last.to_int::<u32>().unwrap_or(255)),
        None => (0, 255),
    };
    let reachable = first.saturating_add((ecam.size / BUS_SIZE as u64).saturating_sub(1).min(255) as u32);
    let (Ok(first_bus), Ok(last_bus)) = (u8::try_from(first), u8::try_from(last.min(reachable))) else {
        return unusable("the host bridge's bus numbers are above 255");
    };
    Ok(PciHost { ecam, first_bus, last_bus, apertures: apertures(node)? })
}

fn apertures(node: FdtNode<'_>) -> Result<Apertures, PlatformError> {
    const MEMORY_32: u128 = 2;
    const MEMORY_64: u128 = 3;
    let (mut low, mut high) = (None, None);
    for range in node.ranges().ok().flatten().into_iter().flatten() {
        // The first of three cells says what it is, the others are the bus address.
        let parts = (range.child_bus_address::<u128>(), range.parent_bus_address(), range.length());
        let (Ok(child), Ok(cpu), Ok(size)) = parts else { continue };
        let aperture = Aperture { bus: child as u64, cpu, size };
        match child >> 88 & 3 {
            MEMORY_32 => low = low.or(Some(aperture)),
            MEMORY_64 => high = high.or(Some(aperture)),
            _ => {}
        }
    }
    match low {
        Some(low) => Ok(Apertures { low, high }),
        None => unusable("the host bridge has no memory range below 4 GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use std::vec::Vec;

    fn cells(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_be_bytes()).collect()
    }

    fn node(name: &str, properties: &[(&str, Vec<u8>)]) -> DeviceTreeNode {
        let mut builder = DeviceTreeNode::builder(name).unwrap();
        for (name, value) in properties {
            builder = builder.property(DeviceTreeProperty::new(*name, value.as_slice()).unwrap());
        }
        builder.build()
    }

    /// As QEMU 11.1 describes its virt machine with `gic-version=3`, as far as it matters.
    fn virt(pci_ranges: &[u32]) -> Vec<u8> {
        virt_with(pci_ranges, &[])
    }

    fn virt_with(pci_ranges: &[u32], more: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut tree = DeviceTree::new();
        for (name, value) in [("#address-cells", 2), ("#size-cells", 2)] {
            tree.root.add_property(DeviceTreeProperty::new(name, cells(&[value]).as_slice()).unwrap());
        }
        let text = |s: &str| [s.as_bytes(), &[0]].concat();
        let mut gic = node(
            "intc@8000000",
            &[
                ("compatible", text("arm,gic-v3")),
                ("reg", cells(&[0, 0x800_0000, 0, 0x1_0000, 0, 0x80a_0000, 0, 0xf6_0000])),
                ("#address-cells", cells(&[2])),
                ("#size-cells", cells(&[2])),
            ],
        );
        gic.add_child(node(
            "its@8080000",
            &[("compatible", text("arm,gic-v3-its")), ("reg", cells(&[0, 0x808_0000, 0, 0x2_0000]))],
        ));
        tree.root.add_child(gic);
        tree.root.add_child(node(
            "memory@40000000",
            &[("device_type", text("memory")), ("reg", cells(&[0, 0x4000_0000, 0, 0x2000_0000]))],
        ));
        tree.root.add_child(node("chosen", &[("bootargs", text("irq=msi"))]));
        tree.root.add_child(node("psci", &[("method", text("smc"))]));
        tree.root.add_child(node(
            "pl011@9000000",
            &[
                ("compatible", [text("arm,pl011"), text("arm,primecell")].concat()),
                ("reg", cells(&[0, 0x900_0000, 0, 0x1000])),
            ],
        ));
        let pcie = [
            &[
                ("compatible", text("pci-host-ecam-generic")),
                ("reg", cells(&[0x40, 0x1000_0000, 0, 0x1000_0000])),
                ("bus-range", cells(&[0, 0xff])),
                ("#address-cells", cells(&[3])),
                ("#size-cells", cells(&[2])),
                ("ranges", cells(pci_ranges)),
                ("dma-coherent", Vec::new()),
            ][..],
            more,
        ]
        .concat();
        tree.root.add_child(node("pcie@10000000", &pcie));
        tree.to_dtb()
    }

    const IO: [u32; 7] = [0x0100_0000, 0, 0, 0, 0x3eff_0000, 0, 0x1_0000];
    const LOW: [u32; 7] = [0x0200_0000, 0, 0x1000_0000, 0, 0x1000_0000, 0, 0x2eff_0000];
    const HIGH: [u32; 7] = [0x0300_0000, 0x80, 0, 0x80, 0, 0x80, 0];

    #[test]
    fn the_parts_of_a_machine_are_found() {
        let blob = virt(&[IO, LOW, HIGH].concat());
        let machine = ArmPlatform::read(&blob).unwrap();
        assert!(machine.is_coherent);
        assert_eq!(machine.ram[..], [MemoryRange { start: 0x4000_0000, size: 0x2000_0000 }]);
        assert_eq!(machine.pci.ecam, MemoryRange { start: 0x40_1000_0000, size: 0x1000_0000 });
        assert_eq!((machine.pci.first_bus, machine.pci.last_bus), (0, 255));
        let low = Aperture { bus: 0x1000_0000, cpu: 0x1000_0000, size: 0x2eff_0000 };
        let high = Aperture { bus: 0x80_0000_0000, cpu: 0x80_0000_0000, size: 0x80_0000_0000 };
        assert_eq!(machine.pci.apertures, Apertures { low, high: Some(high) });
        let gic = machine.gic.unwrap();
        assert_eq!(gic.distributor, MemoryRange { start: 0x800_0000, size: 0x1_0000 });
        assert_eq!(gic.redistributors, MemoryRange { start: 0x80a_0000, size: 0xf6_0000 });
        assert_eq!(gic.its, Some(MemoryRange { start: 0x808_0000, size: 0x2_0000 }));
        assert_eq!(machine.uart, Some(MemoryRange { start: 0x900_0000, size: 0x1000 }));
        assert_eq!((machine.psci, machine.command_line), (Conduit::Smc, "irq=msi"));
    }

    #[test]
    fn a_bus_whose_devices_see_memory_elsewhere_is_refused() {
        let range = |cpu| ("dma-ranges", cells(&[0x0300_0000, 0, 0x4000_0000, 0, cpu, 0, 0x8000_0000]));
        assert!(ArmPlatform::read(&virt_with(&LOW, &[range(0x4000_0000)])).is_ok());
        assert!(ArmPlatform::read(&virt_with(&LOW, &[range(0)])).is_err());
    }

    #[test]
    fn a_machine_without_pci_memory_and_a_damaged_tree_are_errors() {
        assert!(ArmPlatform::read(&virt(&IO)).is_err());
        assert!(ArmPlatform::read(&virt(&LOW)).is_ok());
        let mut damaged = virt(&LOW);
        damaged[0] = 0;
        assert!(ArmPlatform::read(&damaged).is_err() && ArmPlatform::read(&[]).is_err());
    }
}
