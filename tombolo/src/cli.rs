//! The arguments.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use dw_edma::{Format, Location};

use crate::Usage;
use crate::device::{DeviceArg, Found};
use crate::fault::Fault;
use crate::job::{Irq, Job, Mode};

/// Channels of each kind, unless asked for others.
const DEFAULT_CHANNELS: u16 = 2;

/// Runs Tombolo's portable PCIe drivers: on simulated machines, without hardware
/// and privileges, or on a real device through VFIO.
///
/// Without a command: the tour. It moves a file's bytes through write and read
/// channels of a simulated DesignWare eDMA, in all four register formats, and
/// compares every byte.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, args_conflicts_with_subcommands = true, verbatim_doc_comment)]
#[command(max_term_width = 80)]
#[command(after_help = "Exit codes: 0 all data right, 1 data wrong or transfers failed, 2 wrong usage.")]
pub struct Cli {
    /// What to do instead of the tour.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// File for the tour to move, up to 256 MiB [default: 8 MiB generated]
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Tell more on standard error; twice for details
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Test a DesignWare eDMA or HDMA, simulated or real, as dmatest does
    Dma(DmaArgs),
    /// Serve simulated devices to virtual machines, over vfio-user
    #[cfg(target_os = "linux")]
    Serve(crate::serve::ServeArgs),
    /// List PCI functions with driver and IOMMU group, and which it knows
    #[cfg(target_os = "linux")]
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Bind a PCI function to vfio-pci, for --device vfio:ADDRESS
    #[cfg(target_os = "linux")]
    Bind(FunctionArgs),
    /// Give a PCI function from vfio-pci back to the kernel's driver
    #[cfg(target_os = "linux")]
    Unbind(FunctionArgs),
}

/// Arguments of `tombolo bind` and `tombolo unbind`.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub struct FunctionArgs {
    /// The function, such as 0000:01:00.0
    pub address: tombolo_vfio::PciAddress,
    /// Take it away even from a driver or process that is using it
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `tombolo dma`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all data right, 1 data wrong or transfers failed, 2 wrong usage.\n\
    Without --verify only what the engine reports is known.\n\
    The same arguments give the same result.")]
pub struct DmaArgs {
    /// sim, vfio:0000:01:00.0 (see bind), or vfio-user:PATH (see serve)
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub device: DeviceArg,
    /// The engine's register map [default: unroll; what the device says]
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// How transfers are carried out
    #[arg(long, value_enum, default_value_t = Mode::Ll)]
    pub mode: Mode,
    /// N write and N read channels: 1 to 8, hdma-native 1 to 64 [default: 2]
    #[arg(long, value_name = "N")]
    pub channels: Option<u16>,
    /// Bytes of a transfer or a cyclic buffer, such as 4096, 64K or 8M
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_size)]
    pub size: u64,
    /// Transfers of each channel; cyclic: rounds through the buffer
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub iterations: u32,
    /// Segments of a transfer [default: 1]; cyclic: periods [default: 8]
    #[arg(long, value_name = "N")]
    pub sg: Option<usize>,
    /// Compare every byte and guard bytes around it (implied by --fault)
    #[arg(long)]
    pub verify: bool,
    /// Decides data, segment lengths and chance
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What is made to go wrong
    #[arg(long, value_enum, value_name = "NAME")]
    pub fault: Option<Fault>,
    /// On which side of the link the driver runs
    #[arg(long, value_enum, default_value_t = LocationArg::Remote)]
    pub location: LocationArg,
    /// How completions reach the driver [default: msix, or msi if it has none]
    #[arg(long, value_enum, value_name = "IRQ")]
    pub irq: Option<Irq>,
    /// Elements of each channel's list (2 to 4096); longer transfers are cut
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub list_elements: usize,
    /// Silence that ends a channel, in ms of its time [default: 1000 or more]
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u64>,
    /// Where the engine finds the memory behind BAR 2, if unknown otherwise
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub device_memory: Option<u64>,
    /// Print one JSON object and nothing else on standard output
    #[arg(long)]
    pub json: bool,
}

impl DmaArgs {
    /// The job that the arguments describe, on a simulated device or the one that was opened.
    ///
    /// # Errors
    /// [`Usage`] if there is no such job.
    pub fn job(&self, device: Option<Found>) -> Result<Job, Usage> {
        if device.is_none() && self.device_memory.is_some() {
            return Err(Usage("--device-memory: a simulated device says itself where its memory is".into()));
        }
        let found = |of: fn(&Found) -> u16| device.as_ref().map_or(u16::MAX, of);
        let channels = DEFAULT_CHANNELS.min(found(|device| device.channels));
        let format = device.as_ref().map_or(Format::Unroll, |device| device.format);
        let sg = self.sg.unwrap_or(if self.mode == Mode::Cyclic { 8 } else { 1 });
        Job {
            format: self.format.map_or(format, Format::from),
            mode: self.mode,
            location: self.location.into(),
            irq: self.irq.unwrap_or(device.as_ref().map_or(Irq::Msix, |device| device.irq)),
            channels: self.channels.unwrap_or(channels),
            size: self.size,
            sg,
            iterations: self.iterations,
            verify: self.verify || self.fault.is_some(),
            seed: self.seed,
            fault: self.fault,
            list_elements: self.list_elements,
            timeout_ms: self.timeout,
            device_memory: self.device_memory,
            device,
        }
        .checked()
    }
}

/// [`Format`] as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// eDMA v0 with a viewport
    Legacy,
    /// eDMA v0, channels side by side
    Unroll,
    /// HDMA in its compatible map
    HdmaCompat,
    /// HDMA in its own map
    HdmaNative,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Legacy => Format::Legacy,
            FormatArg::Unroll => Format::Unroll,
            FormatArg::HdmaCompat => Format::HdmaCompat,
            FormatArg::HdmaNative => Format::HdmaNative,
        }
    }
}

/// [`Location`] as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LocationArg {
    /// On the host; the engine is in an endpoint across the link
    Remote,
    /// On the CPU beside the engine
    Local,
}

impl From<LocationArg> for Location {
    fn from(location: LocationArg) -> Self {
        match location {
            LocationArg::Remote => Location::Remote,
            LocationArg::Local => Location::Local,
        }
    }
}

/// Reads `0x5000000000`, or a decimal number.
///
/// # Errors
/// What is wrong with it.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected an address such as 0x5000000000".to_owned())
}

/// Reads `4096`, `64K`, `8M` or `1G`; the units are powers of 1024.
///
/// # Errors
/// What is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => (&text[..at], letter.to_ascii_uppercase()),
        _ => (text, ' '),
    };
    let shift = match unit {
        ' ' => 0,
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return Err(format!("'{unit}' is no unit; use K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number such as 4096, 64K or 8M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the number is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_with_and_without_unit() {
        for (text, size) in [("4096", 4096), ("64K", 65536), ("8m", 8 << 20), ("1G", 1 << 30), ("0", 0)] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for bad in ["", "K", "12X", "-1", "1.5M", "8MiB", "18446744073709551615K", "é"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    fn found() -> Found {
        Found {
            name: "vfio:x".into(),
            format: Format::HdmaNative,
            channels: 1,
            memory_bytes: 8 << 20,
            knows_memory: true,
            irq: Irq::Msi,
        }
    }

    fn job(args: &[&str], found: Found) -> Result<Job, String> {
        let cli = Cli::parse_from(["tombolo", "dma"].iter().chain(args));
        let Some(Command::Dma(args)) = cli.command else { panic!("no command") };
        args.job(Some(found)).map_err(|usage| usage.0)
    }

    #[test]
    fn an_opened_device_says_format_and_channels_and_how_much_is_in_flight() {
        let some = job(&[], found()).unwrap();
        assert_eq!((some.format, some.channels, some.irq), (Format::HdmaNative, 1, Irq::Msi));
        assert_eq!(job(&["--irq", "msix"], found()).unwrap().irq, Irq::Msix);
        // Of eight transfers of a channel so many as fit into the memory, with guards and lists.
        let spec = some.spec();
        assert!(spec.data_bytes <= 8 << 20 && spec.data_bytes > 4 << 20, "{}", spec.data_bytes);
        assert_eq!(job(&["--format", "hdma-native"], found()), Ok(some));
    }

    #[test]
    fn what_an_opened_device_cannot_do_is_refused() {
        let silent = Found { knows_memory: false, ..found() };
        for (args, device, says) in [
            (vec!["--format", "legacy"], found(), "vfio:x is hdma-native"),
            (vec!["--channels", "2"], found(), "has 1 to 1"),
            (vec!["--fault", "abort"], found(), "only simulated devices"),
            (vec!["--location", "local"], found(), "across the link"),
            (vec!["--irq", "intx"], found(), "writes messages"),
            (vec!["--size", "5M"], found(), "has 8388608 behind its BAR"),
            (vec![], silent.clone(), "only --mode non-ll"),
            (vec!["--mode", "non-ll"], silent.clone(), "--device-memory ADDRESS"),
        ] {
            let refused = job(&args, device).unwrap_err();
            assert!(refused.contains(says), "{args:?}: {refused}");
        }
        assert!(job(&["--mode", "non-ll", "--device-memory", "0x50"], silent).is_ok());
    }

    #[test]
    fn periods_default_to_eight_and_segments_to_one() {
        for (mode, sg) in [("ll", 1), ("cyclic", 8)] {
            let cli = Cli::parse_from(["tombolo", "dma", "--mode", mode]);
            let Some(Command::Dma(args)) = cli.command else { panic!("no command") };
            assert_eq!(args.job(None).unwrap().sg, sg, "{mode}");
        }
    }
}
