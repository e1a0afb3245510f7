//! `tombolo list`, `bind` and `unbind`: the PCI functions of this machine, and who drives them.

use serde::Serialize;
use tombolo_vfio::sysfs::{Function, Sysfs};
use tombolo_vfio::{Error, PciAddress};

use dw_edma::{RemoteEngine, VENDOR_SYNOPSYS, VENDOR_XILINX};

/// Functions that Linux's dw-edma-pcie knows by their IDs.
const KNOWN: [(u16, u16); 3] = [(VENDOR_SYNOPSYS, 0xedda), (VENDOR_XILINX, 0xb054), (VENDOR_XILINX, 0xb00f)];

/// A line of the list. The field names are those of the JSON objects.
#[derive(Debug, Serialize)]
struct Line {
    address: String,
    vendor: String,
    device: String,
    class: String,
    driver: Option<String>,
    iommu_group: Option<u32>,
    /// The driver of ours that runs it.
    tombolo: Option<String>,
}

impl Line {
    fn new(sysfs: &Sysfs, function: &Function) -> Self {
        Self {
            address: function.address.to_string(),
            vendor: format!("{:04x}", function.vendor),
            device: format!("{:04x}", function.device),
            class: format!("{:06x}", function.class),
            driver: function.driver.clone(),
            iommu_group: function.group,
            tombolo: known(sysfs, function),
        }
    }
}

/// What of ours drives a function: by its capability if that can be read, else by its IDs.
fn known(sysfs: &Sysfs, function: &Function) -> Option<String> {
    if function.vendor != VENDOR_SYNOPSYS && function.vendor != VENDOR_XILINX {
        return None;
    }
    let config = sysfs.config(function.address).ok()?;
    match RemoteEngine::find(&config) {
        Ok(engine) => {
            let (write, read) = (engine.write_channels, engine.read_channels);
            Some(format!("dw-edma ({}, {write}+{read} channels)", engine.format))
        }
        // Capabilities can be read by root only.
        Err(_) => KNOWN.contains(&(function.vendor, function.device)).then(|| "dw-edma".into()),
    }
}

/// All functions as text or JSON.
///
/// # Errors
/// [`Error`] if sysfs cannot be read.
pub fn list(json: bool) -> Result<String, Error> {
    let sysfs = Sysfs::system();
    let lines: Vec<_> = sysfs.functions()?.iter().map(|function| Line::new(&sysfs, function)).collect();
    if json {
        // Strings and numbers only: it cannot fail.
        return Ok(serde_json::to_string(&lines).unwrap_or_default());
    }
    let mut text = vec!["ADDRESS       ID         CLASS   GROUP  DRIVER            TOMBOLO".to_owned()];
    text.extend(lines.iter().map(|line| {
        let group = line.iommu_group.map_or("-".into(), |group| group.to_string());
        let (driver, tombolo) =
            (line.driver.as_deref().unwrap_or("-"), line.tombolo.as_deref().unwrap_or("-"));
        let Line { address, vendor, device, class, .. } = line;
        format!("{address:<13} {vendor}:{device}  {class}  {group:<6} {driver:<17} {tombolo}")
    }));
    Ok(text.join("\n"))
}

/// Binds a function to vfio-pci, and says what is left to do.
///
/// # Errors
/// [`Error`], which says what to do.
pub fn bind(address: PciAddress, force: bool) -> Result<String, Error> {
    let bound = Sysfs::system().bind(address, force)?;
    let from = match bound.before.as_deref() {
        Some("vfio-pci") => " already".to_owned(),
        Some(driver) => format!(", taken from {driver}"),
        None => String::new(),
    };
    let mut text =
        vec![format!("{address} is bound to vfio-pci{from}; its group is /dev/vfio/{}", bound.group)];
    if !bound.in_the_way.is_empty() {
        text.push("the group cannot be used until these are bound to vfio-pci, too:".into());
        let others = bound.in_the_way.iter();
        text.extend(
            others.map(|(address, driver)| format!("  {address} ({driver}): tombolo bind {address} --force")),
        );
    }
    Ok(text.join("\n"))
}

/// Gives a function back to the kernel's driver.
///
/// # Errors
/// [`Error`], which says what to do.
pub fn unbind(address: PciAddress, force: bool) -> Result<String, Error> {
    let unbound = Sysfs::system().unbind(address, force)?;
    Ok(match unbound.driver {
        Some(driver) => format!("{address} is bound to {driver}"),
        None => format!("{address} is bound to no driver"),
    })
}
