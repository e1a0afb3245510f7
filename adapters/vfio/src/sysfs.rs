//! PCI functions as sysfs shows them, and giving them to vfio-pci and back.
//!
//! Files: `Documentation/ABI/testing/sysfs-bus-pci` and `sysfs-kernel-iommu_groups` of Linux.

mod binding;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tombolo_hal::pci::ConfigSpace;

use crate::{Error, PciAddress};

pub use binding::{Bound, Unbound};

/// The driver that gives functions to userspace.
pub const VFIO_PCI: &str = "vfio-pci";
/// Class of bridges between PCI buses: base class and sub-class.
const CLASS_BRIDGE: u32 = 0x0604;
/// `IORESOURCE_MEM` of Linux.
const RESOURCE_MEMORY: u64 = 0x200;
/// Files of sysfs are short.
const FILE_MAX: u64 = 4096;

/// The tree of sysfs.
#[derive(Clone)]
pub struct Sysfs {
    root: PathBuf,
    write: fn(&Path, &str) -> io::Result<()>,
}

impl fmt::Debug for Sysfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sysfs").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A function of a PCI device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Where it is.
    pub address: PciAddress,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code, 24 bits.
    pub class: u32,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub group: Option<u32>,
}

impl Function {
    /// Whether it is a bridge between PCI buses.
    pub fn is_bridge(&self) -> bool {
        self.class >> 8 == CLASS_BRIDGE
    }
}

impl Sysfs {
    /// The system's.
    pub fn system() -> Self {
        Self { root: PathBuf::from("/sys"), write: |path, text| std::fs::write(path, text) }
    }

    #[cfg(test)]
    fn fake(root: &Path, write: fn(&Path, &str) -> io::Result<()>) -> Self {
        Self { root: root.to_owned(), write }
    }

    /// All PCI functions, by address.
    ///
    /// # Errors
    /// [`Error::Sysfs`]. Functions that vanish meanwhile are left out.
    pub fn functions(&self) -> Result<Vec<Function>, Error> {
        let folder = self.root.join("bus/pci/devices");
        if !folder.exists() {
            // A machine without PCI.
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for name in names(&folder)? {
            let Ok(address) = name.parse() else { continue };
            match self.function(address) {
                Ok(function) => all.push(function),
                Err(error) => log::debug!("{address}: {error}"),
            }
        }
        all.sort_unstable_by_key(|function| function.address);
        Ok(all)
    }

    /// One function.
    ///
    /// # Errors
    /// [`Error::NoFunction`], [`Error::Sysfs`].
    pub fn function(&self, address: PciAddress) -> Result<Function, Error> {
        let folder = self.folder(address);
        if !folder.exists() {
            return Err(Error::NoFunction(address));
        }
        Ok(Function {
            address,
            vendor: number(&folder.join("vendor"))? as u16,
            device: number(&folder.join("device"))? as u16,
            class: number(&folder.join("class"))?,
            driver: link_name(&folder.join("driver")),
            group: link_name(&folder.join("iommu_group")).and_then(|name| name.parse().ok()),
        })
    }

    /// The functions of an IOMMU group.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn group(&self, number: u32) -> Result<Vec<Function>, Error> {
        let folder = self.root.join(format!("kernel/iommu_groups/{number}/devices"));
        let addresses = names(&folder)?.into_iter().filter_map(|name| name.parse().ok());
        addresses.map(|address| self.function(address)).collect()
    }

    /// The functions of a group that keep VFIO from using it, and their drivers: those of the host's
    /// that are neither VFIO's nor a bridge's.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn in_the_way(&self, group: u32) -> Result<Vec<(PciAddress, String)>, Error> {
        let harmless =
            |driver: &str| driver.starts_with("vfio-") || driver == "pci-stub" || driver == "pcieport";
        let all = self.group(group)?.into_iter().filter(|function| !function.is_bridge());
        let bound = all.filter_map(|function| Some((function.address, function.driver?)));
        Ok(bound.filter(|(_, driver)| !harmless(driver)).collect())
    }

    /// Where PCI functions decode memory, and bridges pass it on: first and last address, as the CPU sees
    /// them. A request of a device to such an address may go to another device instead of the IOMMU.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn decoded_memory(&self) -> Result<Vec<(u64, u64)>, Error> {
        let mut all = Vec::new();
        for name in names(&self.root.join("bus/pci/devices"))? {
            // A function may leave meanwhile, and its resources with it.
            let text = read_text(&self.root.join("bus/pci/devices").join(name).join("resource"));
            all.extend(text.unwrap_or_default().lines().filter_map(memory_resource));
        }
        Ok(all)
    }

    /// Configuration space as the device has it, for reading; without privilege only the first 64 bytes.
    ///
    /// # Errors
    /// [`Error::Sysfs`].
    pub fn config(&self, address: PciAddress) -> Result<SysfsConfig, Error> {
        let path = self.folder(address).join("config");
        let file = File::open(&path).map_err(|source| Error::Sysfs { action: "open", path, source })?;
        Ok(SysfsConfig { file })
    }

    fn folder(&self, address: PciAddress) -> PathBuf {
        self.root.join(format!("bus/pci/devices/{address}"))
    }
}

/// Configuration space through sysfs, for reading: writes vanish.
#[derive(Debug)]
pub struct SysfsConfig {
    file: File,
}

impl SysfsConfig {
    fn read<const N: usize>(&self, offset: u16) -> [u8; N] {
        let mut bytes = [u8::MAX; N];
        let whole = usize::from(offset).is_multiple_of(N);
        if !whole || self.file.read_exact_at(&mut bytes, offset.into()).is_err() {
            return [u8::MAX; N];
        }
        bytes
    }
}

impl ConfigSpace for SysfsConfig {
    fn read8(&self, offset: u16) -> u8 {
        u8::from_le_bytes(self.read(offset))
    }

    fn read16(&self, offset: u16) -> u16 {
        u16::from_le_bytes(self.read(offset))
    }

    fn read32(&self, offset: u16) -> u32 {
        u32::from_le_bytes(self.read(offset))
    }

    fn write8(&self, _offset: u16, _value: u8) {}

    fn write16(&self, _offset: u16, _value: u16) {}

    fn write32(&self, _offset: u16, _value: u32) {}
}

/// A line of a `resource` file: first and last address and flags, if it is memory that is assigned.
fn memory_resource(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace().map(|word| {
        let digits = word.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    });
    let (first, last, flags) = (words.next()??, words.next()??, words.next()??);
    (flags & RESOURCE_MEMORY != 0 && first != 0 && first <= last).then_some((first, last))
}

/// The names in a folder.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let wrong = |source| Error::Sysfs { action: "list", path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        names.extend(entry.map_err(wrong)?.file_name().into_string());
    }
    Ok(names)
}

/// The last part of what a link points to: how sysfs names drivers and groups.
fn link_name(path: &Path) -> Option<String> {
    let target = std::fs::read_link(path).ok()?;
    target.file_name()?.to_str().map(str::to_owned)
}

/// A number such as `0x8086`.
fn number(path: &Path) -> Result<u32, Error> {
    let wrong = |source| Error::Sysfs { action: "read", path: path.to_owned(), source };
    let text = read_text(path).map_err(wrong)?;
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).map_err(|error| wrong(io::Error::new(io::ErrorKind::InvalidData, error)))
}

fn read_text(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}
