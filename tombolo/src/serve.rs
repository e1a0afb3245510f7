//! `tombolo serve`: device models for virtual machines, over vfio-user.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo_sim::dw_edma::{DwEdma, Format, Params, presets};
use tombolo_vfio_user::server::{Counters, Error, Running, Server, ServerHandle, ServerOptions};

use crate::{Usage, emit};

/// Channels of each kind, unless asked for others.
const DEFAULT_CHANNELS: u16 = 2;

/// Arguments of `tombolo serve`.
#[derive(Debug, Args)]
#[command(after_help = "Models: dw-edma[:OPTION,...]\n  \
    legacy, unroll, hdma-compat, hdma-native\n                  \
    16c3:edda with this register map [unroll]\n  \
    b054, b00f      10ee:b054 or 10ee:b00f, HDMA native with 8 + 8 channels\n  \
    no-list         b054 or b00f that does not say where its list memory is\n  \
    channels=N      N write and N read channels: 1 to 8, hdma-native 1 to 64 [2]\n  \
    vectors=N       interrupt vectors, 1 to 32 [1]\n  \
    irq=msix|msi    offer only the one [both]\n  \
    trapped         do not map the memory BAR into the guest\n\n\
    Ctrl-C or SIGTERM ends it. A model serves one guest after the other; each finds\n\
    it as after power-on.\n\
    Exit codes: 0 stopped, 1 a model could not be served, 2 wrong usage.")]
pub struct ServeArgs {
    /// What to serve; once for each --socket
    #[arg(long, value_name = "MODEL", required = true)]
    pub model: Vec<ModelArg>,
    /// Where; a socket that nobody serves any more is replaced
    #[arg(long, value_name = "PATH", required = true)]
    pub socket: Vec<PathBuf>,
    /// Print one JSON object with counters at the end
    #[arg(long)]
    pub json: bool,
}

/// A model as the user describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelArg {
    /// What was written.
    text: String,
    params: Params,
    trapped: bool,
}

impl fmt::Display for ModelArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The options of a model, before they are put together.
#[derive(Debug, Default)]
struct Options {
    format: Option<Format>,
    xilinx: Option<&'static str>,
    no_list: bool,
    channels: Option<u16>,
    vectors: Option<u16>,
    irq: Option<String>,
    trapped: bool,
}

impl FromStr for ModelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        if name != "dw-edma" {
            return Err(format!("there is no model '{name}'; there is dw-edma"));
        }
        let mut all = Options::default();
        options.split(',').filter(|option| !option.is_empty()).try_for_each(|option| all.read(option))?;
        Ok(Self { text: text.to_owned(), params: all.params()?, trapped: all.trapped })
    }
}

impl Options {
    fn read(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        let twice =
            |set: bool| if set { Err(format!("'{option}': there is another such option")) } else { Ok(()) };
        match (key, value) {
            ("legacy" | "unroll" | "hdma-compat" | "hdma-native", None) => {
                twice(self.format.is_some())?;
                self.format = format_named(key);
            }
            ("b054", None) => self.xilinx = Some("b054"),
            ("b00f", None) => self.xilinx = Some("b00f"),
            ("no-list", None) => self.no_list = true,
            ("trapped", None) => self.trapped = true,
            ("channels", Some(value)) => {
                twice(self.channels.is_some())?;
                self.channels = Some(number(option, value, 64)?);
            }
            ("vectors", Some(value)) => {
                twice(self.vectors.is_some())?;
                self.vectors = Some(number(option, value, 32)?);
            }
            ("irq", Some(value @ ("msix" | "msi"))) => {
                twice(self.irq.is_some())?;
                self.irq = Some(value.to_owned());
            }
            _ => {
                return Err(format!("'{option}' is no option of dw-edma; `tombolo serve --help` lists them"));
            }
        }
        Ok(())
    }

    fn params(&self) -> Result<Params, String> {
        let mut params = match self.xilinx {
            Some(name) => self.xilinx_params(name)?,
            None if self.no_list => return Err("no-list is for b054 and b00f".into()),
            None => {
                let format = self.format.unwrap_or(Format::Unrolled);
                let channels = self.channels.unwrap_or(DEFAULT_CHANNELS);
                if channels > format.max_channels() {
                    return Err(format!(
                        "channels={channels}: this format has 1 to {}",
                        format.max_channels()
                    ));
                }
                presets::remote(format, channels, channels)
            }
        };
        let vectors = self.vectors.unwrap_or(1);
        (params.msix_vectors, params.msi_vectors) = (vectors, vectors.next_power_of_two());
        match self.irq.as_deref() {
            Some("msix") => params.msi_vectors = 0,
            Some(_) => params.msix_vectors = 0,
            None => {}
        }
        Ok(params)
    }

    fn xilinx_params(&self, name: &str) -> Result<Params, String> {
        if self.channels.is_some_and(|channels| channels != 8) {
            return Err(format!("{name} has 8 channels of each kind"));
        }
        if self.format.is_some_and(|format| format != Format::HdmaNative) {
            return Err(format!("{name} is hdma-native"));
        }
        let mut params = if name == "b00f" { presets::cpm6_b00f() } else { presets::mdb_b054() };
        if self.no_list {
            params.device_memory_vsec = None;
        }
        Ok(params)
    }
}

fn format_named(name: &str) -> Option<Format> {
    Some(match name {
        "legacy" => Format::Legacy,
        "unroll" => Format::Unrolled,
        "hdma-compat" => Format::HdmaCompatible,
        "hdma-native" => Format::HdmaNative,
        _ => return None,
    })
}

fn number(option: &str, value: &str, most: u16) -> Result<u16, String> {
    let found = value.parse().ok().filter(|number| (1..=most).contains(number));
    found.ok_or_else(|| format!("'{option}': expected a number from 1 to {most}"))
}

/// A model that is served.
struct Served {
    model: ModelArg,
    path: PathBuf,
    handle: ServerHandle,
}

/// Serves until a signal comes. Returns whether all went well.
///
/// # Errors
/// [`Usage`] if the arguments do not fit each other.
pub fn run(args: &ServeArgs) -> Result<bool, Usage> {
    if args.model.len() != args.socket.len() {
        let (models, sockets) = (args.model.len(), args.socket.len());
        return Err(Usage(format!(
            "{models} x --model and {sockets} x --socket: each model needs its socket"
        )));
    }
    let signals = Signals::new([SIGINT, SIGTERM]);
    let (served, running) = match signals.map_err(Error::System).and_then(|signals| start(args, signals)) {
        Ok(started) => started,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(false);
        }
    };
    let right = wait(&served, running);
    if args.json {
        emit(&json(&served));
    } else {
        served.iter().for_each(|served| emit(&summary(served)));
    }
    Ok(right)
}

fn start(args: &ServeArgs, mut signals: Signals) -> Result<(Vec<Served>, Vec<Running>), Error> {
    let mut servers = Vec::new();
    for (model, path) in args.model.iter().zip(&args.socket) {
        let options = ServerOptions { map_bars: !model.trapped, ..ServerOptions::default() };
        let server = Server::bind(path, Box::new(DwEdma::new(model.params.clone())), options)?;
        servers.push((Served { model: model.clone(), path: path.clone(), handle: server.handle() }, server));
    }
    let handles: Vec<_> = servers.iter().map(|(served, _)| served.handle.clone()).collect();
    let stop = move || {
        signals.forever().next();
        handles.iter().for_each(ServerHandle::stop);
    };
    std::thread::Builder::new().name("signals".into()).spawn(stop).map_err(Error::System)?;
    let mut started = (Vec::new(), Vec::new());
    for (served, server) in servers {
        started.1.push(server.spawn()?);
        tell(args.json, &announcement(&served));
        started.0.push(served);
    }
    Ok(started)
}

/// Waits for all; if one fails the others are stopped too.
fn wait(served: &[Served], running: Vec<Running>) -> bool {
    std::thread::scope(|scope| {
        let watchers: Vec<_> = running
            .into_iter()
            .zip(served)
            .map(|(running, one)| {
                scope.spawn(move || {
                    let result = running.join();
                    if let Err(error) = &result {
                        eprintln!("error: {}: {error}", one.path.display());
                        served.iter().for_each(|served| served.handle.stop());
                    }
                    result.is_ok()
                })
            })
            .collect();
        // Each is waited for, also after one has failed.
        let failed =
            watchers.into_iter().filter_map(|watcher| (!watcher.join().unwrap_or(false)).then_some(()));
        failed.count() == 0
    })
}

fn announcement(served: &Served) -> String {
    let identity = served.model.params.identity;
    format!(
        "{}: {} ({:04x}:{:04x})\n  -device '{}'",
        served.path.display(),
        served.model,
        identity.vendor,
        identity.device,
        device_option(&served.path)
    )
}

/// What QEMU's `-device` wants.
fn device_option(path: &Path) -> Value {
    let path = path.to_string_lossy();
    json!({ "driver": "vfio-user-pci", "socket": { "path": path, "type": "unix" } })
}

fn tell(json: bool, text: &str) {
    if json {
        eprintln!("{text}");
    } else {
        emit(text);
    }
}

fn counters(counters: &Counters) -> Map<String, Value> {
    counters.named().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn json(served: &[Served]) -> String {
    let each = served.iter().map(|served| {
        let (model, socket) = (served.model.to_string(), served.path.to_string_lossy());
        json!({ "model": model, "socket": socket, "counters": counters(&served.handle.counters()) })
    });
    json!({ "served": each.collect::<Vec<_>>() }).to_string()
}

fn summary(served: &Served) -> String {
    let Counters { clients, reads, writes, dma_read_bytes, dma_written_bytes, .. } = served.handle.counters();
    let counters = served.handle.counters();
    let interrupts = counters.msix_interrupts
        + counters.msi_interrupts
        + counters.intx_interrupts
        + counters.message_interrupts;
    format!(
        "{}: {clients} clients, {reads} reads, {writes} writes, {dma_read_bytes} bytes read and \
         {dma_written_bytes} written by DMA, {interrupts} interrupts",
        served.path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        text.parse::<ModelArg>().unwrap().params
    }

    #[test]
    fn without_options_it_is_edda_as_stock_linux_knows_it() {
        assert_eq!(params("dw-edma"), presets::edda(Format::Unrolled));
        assert_eq!(params("dw-edma:legacy,channels=2"), presets::edda(Format::Legacy));
        assert_eq!(params("dw-edma:b054"), presets::mdb_b054());
        assert_eq!(params("dw-edma:b054,no-list"), presets::b054_without_list_memory());
        assert_eq!(params("dw-edma:b00f,hdma-native,channels=8"), presets::cpm6_b00f());
    }

    #[test]
    fn options_change_channels_and_interrupts() {
        let many = params("dw-edma:hdma-native,channels=16,vectors=5,irq=msix");
        assert_eq!((many.write_channels, many.read_channels), (16, 16));
        assert_eq!((many.msix_vectors, many.msi_vectors), (5, 0));
        let msi = params("dw-edma:vectors=5,irq=msi");
        assert_eq!((msi.msix_vectors, msi.msi_vectors), (0, 8));
        assert!("dw-edma:trapped".parse::<ModelArg>().unwrap().trapped);
    }

    #[test]
    fn what_makes_no_model_is_refused_with_a_reason() {
        for (text, says) in [
            ("lan743x", "there is dw-edma"),
            ("dw-edma:fast", "no option"),
            ("dw-edma:unroll,legacy", "another such option"),
            ("dw-edma:channels=9", "1 to 8"),
            ("dw-edma:hdma-native,channels=65", "1 to 64"),
            ("dw-edma:channels=0", "1 to 64"),
            ("dw-edma:vectors=x", "1 to 32"),
            ("dw-edma:irq=intx", "no option"),
            ("dw-edma:no-list", "for b054"),
            ("dw-edma:b054,channels=4", "8 channels"),
            ("dw-edma:b054,unroll", "is hdma-native"),
        ] {
            let refused = text.parse::<ModelArg>().unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
