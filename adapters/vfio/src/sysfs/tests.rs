use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use tempfile::TempDir;

/// A tree in which writes do what the kernel does.
struct Tree {
    folder: TempDir,
    sysfs: Sysfs,
}

const NVME: &str = "0000:01:00.0";
const AUDIO: &str = "0000:01:00.1";
const BARE: &str = "0000:02:00.0";
const PORT: &str = "0000:00:1c.0";

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

impl Tree {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path();
        for driver in ["nvme", "snd_hda_intel", "pcieport", "vfio-pci"] {
            fs::create_dir_all(root.join("bus/pci/drivers").join(driver)).unwrap();
        }
        fs::create_dir_all(root.join("bus/pci/devices")).unwrap();
        fs::write(root.join("bus/pci/drivers_probe"), "").unwrap();
        let tree = Self { sysfs: Sysfs::fake(root, kernel), folder };
        tree.add(PORT, 0x8086, 0x2940, 0x06_0400, Some("pcieport"), Some(5));
        tree.add(NVME, 0x144d, 0xa808, 0x01_0802, Some("nvme"), Some(5));
        tree.add(AUDIO, 0x10de, 0x10fa, 0x04_0300, Some("snd_hda_intel"), Some(5));
        tree.add(BARE, 0x16c3, 0xedda, 0x08_8000, None, None);
        tree
    }

    fn path(&self, function: &str, file: &str) -> PathBuf {
        self.folder.path().join("bus/pci/devices").join(function).join(file)
    }

    fn add(
        &self,
        name: &str,
        vendor: u16,
        device: u16,
        class: u32,
        driver: Option<&str>,
        group: Option<u32>,
    ) {
        fs::create_dir_all(self.path(name, "")).unwrap();
        fs::write(self.path(name, "vendor"), format!("{vendor:#06x}\n")).unwrap();
        fs::write(self.path(name, "device"), format!("{device:#06x}\n")).unwrap();
        fs::write(self.path(name, "class"), format!("{class:#08x}\n")).unwrap();
        fs::write(self.path(name, "driver_override"), "(null)\n").unwrap();
        // What the kernel finds by ID.
        fs::write(self.path(name, "native"), driver.unwrap_or("")).unwrap();
        if let Some(driver) = driver {
            bind(&self.path(name, ""), driver);
        }
        if let Some(group) = group {
            let members = self.folder.path().join(format!("kernel/iommu_groups/{group}/devices"));
            fs::create_dir_all(&members).unwrap();
            symlink(members.parent().unwrap(), self.path(name, "iommu_group")).unwrap();
            symlink(self.path(name, ""), members.join(name)).unwrap();
        }
    }

    fn driver(&self, name: &str) -> Option<String> {
        self.sysfs.function(address(name)).unwrap().driver
    }

    fn text(&self, name: &str, file: &str) -> String {
        fs::read_to_string(self.path(name, file)).unwrap()
    }
}

fn bind(function: &Path, driver: &str) {
    let drivers = function.parent().unwrap().parent().unwrap().join("drivers");
    symlink(drivers.join(driver), function.join("driver")).unwrap();
}

/// Does what the kernel does on a write.
fn kernel(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap().to_str().unwrap();
    match name {
        "driver_override" => fs::write(path, text),
        "unbind" => {
            let driver = path.parent().unwrap();
            assert!(driver.exists(), "unbound without a driver");
            fs::remove_file(driver)
        }
        "drivers_probe" => {
            let function = path.parent().unwrap().join("devices").join(text);
            let forced = fs::read_to_string(function.join("driver_override"))?;
            let native = fs::read_to_string(function.join("native"))?;
            let wanted = match forced.trim() {
                "" | "(null)" => native,
                name => name.to_owned(),
            };
            let refused = function.join("refuses_vfio").exists() && wanted == VFIO_PCI;
            if !wanted.is_empty() && !refused && !function.join("driver").exists() {
                bind(&function, &wanted);
            }
            Ok(())
        }
        other => panic!("a write to {other}"),
    }
}

#[test]
fn functions_are_listed_in_order_with_driver_and_group() {
    let tree = Tree::new();
    fs::write(tree.folder.path().join("bus/pci/devices/not-an-address"), "").unwrap();
    let all = tree.sysfs.functions().unwrap();
    assert_eq!(all.iter().map(|f| f.address.to_string()).collect::<Vec<_>>(), [PORT, NVME, AUDIO, BARE]);
    assert_eq!((all[1].vendor, all[1].device, all[1].class), (0x144d, 0xa808, 0x01_0802));
    assert_eq!((all[1].driver.as_deref(), all[1].group), (Some("nvme"), Some(5)));
    assert_eq!((all[3].driver.as_deref(), all[3].group), (None, None));
    assert!(all[0].is_bridge() && !all[1].is_bridge());
}

#[test]
fn files_with_nonsense_are_errors_and_not_panics() {
    let tree = Tree::new();
    fs::write(tree.path(BARE, "vendor"), [0xff, 0xfe]).unwrap();
    assert!(matches!(tree.sysfs.function(address(BARE)), Err(Error::Sysfs { .. })));
    fs::write(tree.path(NVME, "class"), "0x123456789abcdef0\n").unwrap();
    assert!(tree.sysfs.function(address(NVME)).is_err());
    assert_eq!(tree.sysfs.functions().unwrap().len(), 2, "the others are listed");
    assert!(matches!(tree.sysfs.function(address("0000:09:00.0")), Err(Error::NoFunction(_))));
}

#[test]
fn a_function_in_use_is_taken_by_force_only() {
    let tree = Tree::new();
    let refused = tree.sysfs.bind(address(NVME), false).unwrap_err();
    assert!(matches!(&refused, Error::DriverInUse { driver, .. } if driver == "nvme"), "{refused}");
    assert_eq!(tree.driver(NVME).as_deref(), Some("nvme"));
    let bound = tree.sysfs.bind(address(NVME), true).unwrap();
    assert_eq!((bound.before.as_deref(), bound.group), (Some("nvme"), 5));
    assert_eq!(bound.in_the_way, [(address(AUDIO), "snd_hda_intel".to_owned())], "not the bridge");
    assert_eq!(tree.driver(NVME).as_deref(), Some(VFIO_PCI));
    let again = tree.sysfs.bind(address(NVME), false).unwrap();
    assert_eq!(again.before.as_deref(), Some(VFIO_PCI));
}

#[test]
fn given_back_means_the_kernels_driver_and_no_override() {
    let tree = Tree::new();
    tree.sysfs.bind(address(NVME), true).unwrap();
    let back = tree.sysfs.unbind(address(NVME), true).unwrap();
    assert_eq!(back.driver.as_deref(), Some("nvme"));
    assert_eq!(tree.text(NVME, "driver_override"), "\n");
    let refused = tree.sysfs.unbind(address(NVME), true).unwrap_err();
    assert!(matches!(refused, Error::NotOurs { .. }), "never taken from a running driver");
    assert_eq!(tree.driver(NVME).as_deref(), Some("nvme"));
}

#[test]
fn if_vfio_does_not_take_it_everything_is_put_back() {
    let tree = Tree::new();
    fs::write(tree.path(NVME, "refuses_vfio"), "").unwrap();
    let error = tree.sysfs.bind(address(NVME), true).unwrap_err();
    assert!(matches!(error, Error::NotBound { driver: None, .. }), "{error}");
    assert_eq!(tree.driver(NVME).as_deref(), Some("nvme"));
    assert_eq!(tree.text(NVME, "driver_override"), "\n");
}

#[test]
fn what_cannot_be_bound_is_refused_before_anything_is_touched() {
    let tree = Tree::new();
    assert!(matches!(tree.sysfs.bind(address(PORT), true), Err(Error::Bridge(_))));
    assert!(matches!(tree.sysfs.bind(address(BARE), true), Err(Error::NoGroup(_))));
    fs::remove_dir(tree.folder.path().join("bus/pci/drivers/vfio-pci")).unwrap();
    let error = tree.sysfs.bind(address(NVME), true).unwrap_err();
    assert!(error.to_string().contains("modprobe vfio-pci"), "{error}");
    assert_eq!(tree.driver(NVME).as_deref(), Some("nvme"));
    assert_eq!(tree.text(NVME, "driver_override"), "(null)\n");
}

#[test]
fn config_space_that_ends_reads_all_ones() {
    let tree = Tree::new();
    fs::write(tree.path(BARE, "config"), (0..64).collect::<Vec<u8>>()).unwrap();
    let config = tree.sysfs.config(address(BARE)).unwrap();
    assert_eq!((config.read32(0), config.read16(62), config.read8(63)), (0x0302_0100, 0x3f3e, 0x3f));
    assert_eq!((config.read32(64), config.read32(61), config.read16(63)), (u32::MAX, u32::MAX, u16::MAX));
}

#[test]
fn assigned_memory_of_functions_and_bridges_is_known() {
    let tree = Tree::new();
    let lines = [
        "0x00000000fe800000 0x00000000fe803fff 0x0000000000140204",
        "0x000000000000e000 0x000000000000e0ff 0x0000000000040101",
        "0x0000000000000000 0x0000000000000fff 0x0000000000040200",
        "0x00000000f0000000 0x00000000e0000000 0x0000000000040200",
        "0x0000038000000000 0x0000038003ffffff 0x000000000014220c",
        "nonsense",
        "0xfe900000 0xzz 0x200",
    ];
    fs::write(tree.path(NVME, "resource"), lines.join("\n")).unwrap();
    fs::write(tree.path(BARE, "resource"), [0xff; 9000]).unwrap();
    let memory = tree.sysfs.decoded_memory().unwrap();
    assert_eq!(memory, [(0xfe80_0000, 0xfe80_3fff), (0x380_0000_0000, 0x380_03ff_ffff)]);
}
