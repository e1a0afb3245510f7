//! Giving functions to vfio-pci and taking them back.

use std::fs::OpenOptions;
use std::path::PathBuf;

use super::{Function, Sysfs, VFIO_PCI, read_text};
use crate::{Error, PciAddress};

/// A function is bound to vfio-pci.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The driver that had it.
    pub before: Option<String>,
    /// Its group, whose file is `/dev/vfio/GROUP`.
    pub group: u32,
    /// Functions that keep the group from being used, and their drivers.
    pub in_the_way: Vec<(PciAddress, String)>,
}

/// A function was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unbound {
    /// The driver that has it now.
    pub driver: Option<String>,
}

impl Sysfs {
    /// Binds a function to vfio-pci. From a driver that has it, it is taken only with `force`.
    ///
    /// If vfio-pci does not take it, everything is put back as it was.
    ///
    /// # Errors
    /// [`Error`]; one that says what to do.
    pub fn bind(&self, address: PciAddress, force: bool) -> Result<Bound, Error> {
        let function = self.function(address)?;
        if function.is_bridge() {
            return Err(Error::Bridge(address));
        }
        let group = function.group.ok_or(Error::NoGroup(address))?;
        let before = function.driver.clone();
        if before.as_deref() != Some(VFIO_PCI) {
            if !self.root.join("bus/pci/drivers").join(VFIO_PCI).exists() {
                return Err(Error::NoVfioPci);
            }
            match &before {
                Some(driver) if !force => {
                    return Err(Error::DriverInUse { address, driver: driver.clone() });
                }
                _ => self.hand_over(&function)?,
            }
        }
        Ok(Bound { before, group, in_the_way: self.in_the_way(group)? })
    }

    fn hand_over(&self, function: &Function) -> Result<(), Error> {
        let address = function.address;
        let before = self.driver_override(address);
        self.set(self.folder(address).join("driver_override"), VFIO_PCI)?;
        let result = self.rebind(function);
        if result.is_err() {
            // As it was, as far as that is possible; the error that matters is the first one.
            let back = self
                .set(self.folder(address).join("driver_override"), &before)
                .and_then(|()| self.probe(address));
            if let Err(error) = back {
                log::warn!("{address}: {error}");
            }
        }
        result
    }

    fn rebind(&self, function: &Function) -> Result<(), Error> {
        let address = function.address;
        if function.driver.is_some() {
            self.set(self.folder(address).join("driver/unbind"), &address.to_string())?;
        }
        self.probe(address)?;
        let driver = self.function(address)?.driver;
        if driver.as_deref() == Some(VFIO_PCI) { Ok(()) } else { Err(Error::NotBound { address, driver }) }
    }

    /// Gives a function that vfio-pci has back to the driver that the kernel finds for it. If a process
    /// has its group open it is taken away only with `force`, which waits until that process closes it.
    ///
    /// # Errors
    /// [`Error`]; one that says what to do.
    pub fn unbind(&self, address: PciAddress, force: bool) -> Result<Unbound, Error> {
        let function = self.function(address)?;
        if function.driver.as_deref() != Some(VFIO_PCI) {
            return Err(Error::NotOurs { address, driver: function.driver });
        }
        if let (Some(group), false) = (function.group, force) {
            not_open(group)?;
        }
        // First, so that the probe that follows an unbinding finds another driver.
        self.set(self.folder(address).join("driver_override"), "\n")?;
        self.set(self.folder(address).join("driver/unbind"), &address.to_string())?;
        self.probe(address)?;
        Ok(Unbound { driver: self.function(address)?.driver })
    }

    /// The name that is written now, to be written back: a line end for none.
    fn driver_override(&self, address: PciAddress) -> String {
        let text = read_text(&self.folder(address).join("driver_override")).unwrap_or_default();
        match text.trim() {
            "" | "(null)" => "\n".into(),
            name => name.into(),
        }
    }

    /// Lets the kernel find a driver.
    fn probe(&self, address: PciAddress) -> Result<(), Error> {
        self.set(self.root.join("bus/pci/drivers_probe"), &address.to_string())
    }

    fn set(&self, path: PathBuf, text: &str) -> Result<(), Error> {
        (self.write)(&path, text).map_err(|source| Error::Sysfs { action: "write", path, source })
    }
}

/// Fails if a process has the group open: only one can at a time.
fn not_open(group: u32) -> Result<(), Error> {
    match OpenOptions::new().read(true).write(true).open(format!("/dev/vfio/{group}")) {
        Err(source) if source.raw_os_error() == Some(libc::EBUSY) => Err(Error::Group { group, source }),
        // Whatever else is wrong with the file does not keep the kernel from unbinding.
        _ => Ok(()),
    }
}
