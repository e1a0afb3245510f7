//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

use tombolo_hal::error::ErrorKind;
use tombolo_hal::irq::IrqMode;
use tombolo_hal::pci::PciError;

use crate::PciAddress;
use crate::dma::DmaError;

/// An error of the adapter. The texts name the command that helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such function.
    #[error("there is no PCI function {0}; `tombolo list` shows those that exist")]
    NoFunction(PciAddress),
    /// A file of sysfs could not be used.
    #[error("cannot {action} {}: {source}{}", path.display(), permission_hint(source))]
    Sysfs {
        /// What was to be done with it.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it could not.
        #[source]
        source: io::Error,
    },
    /// The function is bound to another driver, or to none.
    #[error("{address} is bound to {}, not to vfio-pci: `tombolo bind {address}{}` binds it", driver.as_deref().unwrap_or("no driver"), if driver.is_some() { " --force" } else { "" })]
    WrongDriver {
        /// The function.
        address: PciAddress,
        /// Its driver.
        driver: Option<String>,
    },
    /// A driver has the function, and nobody said that it may be taken away.
    #[error("{address} is in use by the driver {driver}; --force takes it away from that driver")]
    DriverInUse {
        /// The function.
        address: PciAddress,
        /// Its driver.
        driver: String,
    },
    /// Only functions that vfio-pci has are given back.
    #[error("{address} is bound to {}, not to vfio-pci: there is nothing to give back", driver.as_deref().unwrap_or("no driver"))]
    NotOurs {
        /// The function.
        address: PciAddress,
        /// Its driver.
        driver: Option<String>,
    },
    /// Bridges are never given to a userspace driver.
    #[error("{0} is a bridge: what is behind it would vanish")]
    Bridge(PciAddress),
    /// The module is not loaded.
    #[error("the driver vfio-pci is not loaded: `modprobe vfio-pci`")]
    NoVfioPci,
    /// The kernel did not bind the function.
    #[error("vfio-pci did not take {address} (it is bound to {} now); `dmesg` may tell why", driver.as_deref().unwrap_or("no driver"))]
    NotBound {
        /// The function.
        address: PciAddress,
        /// Its driver now.
        driver: Option<String>,
    },
    /// Without an IOMMU a device could reach all memory, and VFIO refuses.
    #[error(
        "{0} is in no IOMMU group: switch the IOMMU on in the firmware (VT-d, AMD-Vi) and boot with \
         `intel_iommu=on` where the kernel does not do so by itself"
    )]
    NoGroup(PciAddress),
    /// VFIO's container cannot be opened.
    #[error(
        "cannot open /dev/vfio/vfio: {0}; `modprobe vfio-pci vfio_iommu_type1`, and be root or own the group's file"
    )]
    NoVfio(#[source] io::Error),
    /// The kernel speaks another version of VFIO's API, or has no IOMMU driver for it.
    #[error("VFIO has no {0} here: `modprobe vfio_iommu_type1`")]
    NoApi(&'static str),
    /// The group cannot be opened.
    #[error("cannot open /dev/vfio/{group}: {source}{}", group_hint(source, *group))]
    Group {
        /// Its number.
        group: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Other functions of the group have drivers of the host's.
    #[error(
        "IOMMU group {group} cannot be used while other drivers have functions of it: {}",
        list_others(others)
    )]
    NotViable {
        /// Its number.
        group: u32,
        /// The functions that are in the way, and their drivers.
        others: Vec<(PciAddress, String)>,
    },
    /// The IOMMU cannot be used for the group.
    #[error("the IOMMU refuses group {group}: {source}{}", iommu_hint(source))]
    Iommu {
        /// The group.
        group: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A call of VFIO failed.
    #[error("{call}: {source}")]
    Call {
        /// Its name.
        call: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A BAR or the configuration space cannot be mapped or found.
    #[error("region {index} of the device cannot be used: {source}")]
    Region {
        /// VFIO's number of the region: a BAR's, or 7 for configuration space.
        index: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More is open at once than the handler of lost mappings has room for.
    #[error("too many devices or BARs are open at once ({0} at most)")]
    TooMany(usize),
    /// The device cannot be reset on its own.
    #[error("the kernel knows no way to reset {0} alone")]
    NoReset(PciAddress),
    /// There are no such vectors.
    #[error("the function has no {mode} vectors{}", list_modes(available))]
    NoVectors {
        /// What was asked for.
        mode: IrqMode,
        /// What there is.
        available: Vec<(IrqMode, u16)>,
    },
    /// Configuration space is broken, or the function gone.
    #[error("config space: {0}")]
    Pci(#[from] PciError),
    /// DMA memory cannot be had.
    #[error(transparent)]
    Dma(#[from] DmaError),
}

impl tombolo_hal::error::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Pci(error) => error.kind(),
            Error::Dma(error) => error.kind(),
            Error::NoFunction(_) | Error::Bridge(_) | Error::NotOurs { .. } => ErrorKind::InvalidInput,
            Error::DriverInUse { .. } | Error::NotViable { .. } => ErrorKind::Busy,
            Error::NoReset(_) | Error::NoVectors { .. } => ErrorKind::Unsupported,
            Error::TooMany(_) => ErrorKind::NoSpace,
            _ => ErrorKind::Platform,
        }
    }
}

fn permission_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; this needs root",
        _ => "",
    }
}

fn group_hint(source: &io::Error, group: u32) -> String {
    match source.raw_os_error() {
        Some(libc::EBUSY) => "; another process has it open".into(),
        Some(libc::EACCES | libc::EPERM) => format!("; be root, or `chown $USER /dev/vfio/{group}` as root"),
        Some(libc::ENOENT) => "; no function of the group is bound to vfio-pci: `tombolo bind`".into(),
        _ => String::new(),
    }
}

fn iommu_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        // No interrupt remapping: a device could send any interrupt.
        Some(libc::EPERM) => {
            "; without interrupt remapping a device could send any interrupt. If you accept that: \
             `modprobe vfio_iommu_type1 allow_unsafe_interrupts=1`"
        }
        _ => "",
    }
}

fn list_others(others: &[(PciAddress, String)]) -> String {
    let list: Vec<_> = others
        .iter()
        .map(|(address, driver)| format!("{address} ({driver}; `tombolo bind {address} --force`)"))
        .collect();
    if list.is_empty() { "they left meanwhile; try again".into() } else { list.join(", ") }
}

fn list_modes(available: &[(IrqMode, u16)]) -> String {
    let list: Vec<_> = available.iter().map(|(mode, count)| format!("{count} of {mode}")).collect();
    if list.is_empty() { " and no others".into() } else { format!("; it has {}", list.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> PciAddress {
        "0000:01:00.0".parse().unwrap()
    }

    #[test]
    fn the_texts_name_the_command_that_helps() {
        let wrong = Error::WrongDriver { address: address(), driver: Some("nvme".into()) };
        assert!(wrong.to_string().ends_with("`tombolo bind 0000:01:00.0 --force` binds it"), "{wrong}");
        let none = Error::WrongDriver { address: address(), driver: None };
        assert!(none.to_string().contains("`tombolo bind 0000:01:00.0` binds"), "{none}");
        let busy = Error::Group { group: 7, source: io::Error::from_raw_os_error(libc::EBUSY) };
        assert!(busy.to_string().contains("another process has it open"), "{busy}");
        let denied = Error::Group { group: 7, source: io::Error::from_raw_os_error(libc::EACCES) };
        assert!(denied.to_string().contains("chown $USER /dev/vfio/7"), "{denied}");
        let others = vec![(address(), "snd_hda_intel".into())];
        let viable = Error::NotViable { group: 3, others };
        assert!(viable.to_string().contains("0000:01:00.0 (snd_hda_intel; `tombolo bind"), "{viable}");
        let irq = Error::NoVectors { mode: IrqMode::MsiX, available: vec![(IrqMode::Msi, 1)] };
        assert_eq!(irq.to_string(), "the function has no msi-x vectors; it has 1 of msi");
    }
}
