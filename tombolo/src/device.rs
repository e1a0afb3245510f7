//! Which device `tombolo dma` drives, and what it found there.

use std::fmt;
use std::str::FromStr;

use dw_edma::{Format, RemoteEngine, VENDOR_XILINX};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::pci::{ConfigSpace, regs};

use crate::Usage;
use crate::cli::DmaArgs;
use crate::hosted::{Hosted, Opened};
use crate::job::Irq;
use crate::report::Report;
use crate::rig::RigError;

/// A device as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceArg {
    /// A simulated one.
    Sim,
    /// A PCI function that is bound to vfio-pci; its address.
    #[cfg(target_os = "linux")]
    Vfio(tombolo_vfio::PciAddress),
    /// One that another process serves; its socket.
    #[cfg(target_os = "linux")]
    VfioUser(std::path::PathBuf),
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "sim" => Ok(Self::Sim),
            #[cfg(target_os = "linux")]
            Some(("vfio", address)) => address.parse().map(Self::Vfio).map_err(|error| format!("{error}")),
            #[cfg(target_os = "linux")]
            Some(("vfio-user", path)) if !path.is_empty() => Ok(Self::VfioUser(path.into())),
            #[cfg(not(target_os = "linux"))]
            Some(("vfio" | "vfio-user", _)) => Err("VFIO exists on Linux only".into()),
            _ => Err("expected sim, vfio:0000:01:00.0 or vfio-user:/path/of/socket".into()),
        }
    }
}

impl fmt::Display for DeviceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sim => f.write_str("sim"),
            #[cfg(target_os = "linux")]
            Self::Vfio(address) => write!(f, "vfio:{address}"),
            #[cfg(target_os = "linux")]
            Self::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
        }
    }
}

/// What an opened device is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the user called it.
    pub name: String,
    /// Register map.
    pub format: Format,
    /// Channels of each kind, as many as there are of both.
    pub channels: u16,
    /// Bytes of memory behind its BAR.
    pub memory_bytes: u64,
    /// Whether the engine finds that memory at the BAR's address, or the device says where.
    pub knows_memory: bool,
    /// The better kind of messages that it has.
    pub irq: Irq,
}

impl Found {
    /// What is known of a device.
    pub fn new<D: Opened>(hosted: &Hosted<D>) -> Self {
        let RemoteEngine { format, write_channels, read_channels, device_memory, .. } = *hosted.found();
        let device = hosted.device();
        let vendor = device.config().read16(regs::VENDOR_ID);
        let only_msi = device.vectors(IrqMode::MsiX) == 0 && device.vectors(IrqMode::Msi) != 0;
        Self {
            name: device.name().to_owned(),
            format,
            channels: write_channels.min(read_channels).min(format.max_channels()),
            memory_bytes: hosted.memory_bytes(),
            // Xilinx' list pointers are addresses inside the device.
            knows_memory: vendor != VENDOR_XILINX || device_memory.is_some(),
            irq: if only_msi { Irq::Msi } else { Irq::Msix },
        }
    }
}

/// Opens a device and does there what the arguments say. The inner error is why it cannot be used.
///
/// # Errors
/// [`Usage`] if the device cannot do what is asked for.
pub fn run<D: Opened>(
    args: &DmaArgs,
    open: impl FnOnce() -> Result<D, RigError>,
) -> Result<Result<Report, RigError>, Usage> {
    let mut hosted = match open().and_then(Hosted::new) {
        Ok(hosted) => hosted,
        Err(error) => return Ok(Err(error)),
    };
    let job = args.job(Some(Found::new(&hosted)))?;
    Ok(Ok(job.run_on(|spec| {
        hosted.take_vectors(spec.irq)?;
        Ok(hosted)
    })))
}

/// The JSON object for a device that cannot be used.
pub fn refused(args: &DmaArgs, error: &RigError) -> String {
    serde_json::json!({ "device": args.device.to_string(), "error": error.to_string() }).to_string()
}
