//! Models that are served to guests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tombolo_sim::device::Device;
use tombolo_sim::dw_edma::{Cause, Dir, DwEdma, Format, Handle, Params, presets};
use tombolo_vfio_user::server::{Running, Server, ServerHandle, ServerOptions};

/// A model with a name.
#[derive(Clone)]
pub struct Model {
    /// Name, for results.
    pub name: &'static str,
    /// Its parameters.
    pub params: Params,
    /// Where the engine finds its memory, if that is not the BAR's address.
    pub memory: Option<u64>,
}

/// All that the stock driver binds to, and more formats than real devices have.
pub fn models() -> Vec<Model> {
    let edda = |name, format| Model { name, params: presets::edda(format), memory: None };
    let xilinx = Some(presets::XILINX_DEVICE_MEMORY);
    vec![
        edda("edda-legacy", Format::Legacy),
        edda("edda-unroll", Format::Unrolled),
        edda("edda-hdma-compat", Format::HdmaCompatible),
        edda("edda-hdma-native", Format::HdmaNative),
        Model { name: "b054", params: presets::mdb_b054(), memory: xilinx },
        Model { name: "b00f", params: presets::cpm6_b00f(), memory: xilinx },
        Model { name: "b054-no-list", params: presets::b054_without_list_memory(), memory: xilinx },
    ]
}

/// How interrupts are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// MSI-X and nothing else.
    MsiX,
    /// MSI and nothing else.
    Msi,
}

impl Model {
    /// The same with one kind of vectors only.
    pub fn with(mut self, vectors: Vectors) -> Self {
        match vectors {
            Vectors::MsiX => self.params.msi_vectors = 0,
            Vectors::Msi => self.params.msix_vectors = 0,
        }
        self
    }
}

/// What a model can be made to do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Write and read channel 0 give up after so many bytes of what they do next.
    Abort,
    /// The next interrupt is lost.
    LostInterrupt,
    /// The device is pulled out.
    Removal,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Abort, Self::LostInterrupt, Self::Removal];
    /// Bytes before an abort; shorter than what clients send then.
    const ABORT_AFTER: u64 = 32;

    /// Its name in scripts and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::LostInterrupt => "lost-interrupt",
            Self::Removal => "removal",
        }
    }

    /// Makes it happen.
    ///
    /// # Errors
    /// If the device has no engine to abort.
    pub fn strike(self, device: &Served) -> Result<()> {
        match self {
            Self::Abort => {
                let engine = device.engine.as_ref().context("an engine")?;
                engine.abort_after(Dir::Write, 0, Self::ABORT_AFTER, Cause::AppRead);
                engine.abort_after(Dir::Read, 0, Self::ABORT_AFTER, Cause::CompletionTimeout);
            }
            Self::LostInterrupt => device.server.lose_interrupts(1),
            Self::Removal => device.server.remove(true),
        }
        Ok(())
    }
}

/// Does what a guest asks for as `NAME ADDRESS`: a fault at the device there.
///
/// # Errors
/// If there is no such fault or device.
pub fn strike(devices: &[Served], asked: &str) -> Result<String> {
    let (name, address) = asked.split_once(' ').context("a fault and a device")?;
    let Some(fault) = Fault::ALL.into_iter().find(|fault| fault.name() == name) else {
        bail!("the guest asked for something unknown: {asked}")
    };
    let device = devices.iter().find(|device| device.address() == address).context("no such device")?;
    fault.strike(device)?;
    Ok("ok".into())
}

/// A model that is being served.
pub struct Served {
    /// The server.
    pub server: ServerHandle,
    /// The model's counters and faults.
    pub engine: Option<Handle>,
    socket: PathBuf,
    running: Option<Running>,
    slot: u8,
}

impl Served {
    /// Serves an engine. Guests find it in `slot` of bus 0.
    ///
    /// # Errors
    /// If it cannot be served.
    pub fn edma(sockets: &Path, slot: u8, params: Params, mapped: bool) -> Result<Self> {
        let model = DwEdma::new(params);
        let engine = model.handle();
        Ok(Self { engine: Some(engine), ..Self::device(sockets, slot, Box::new(model), mapped)? })
    }

    /// Serves any model.
    ///
    /// # Errors
    /// If it cannot be served.
    pub fn device(sockets: &Path, slot: u8, model: Box<dyn Device>, mapped: bool) -> Result<Self> {
        let socket = sockets.join(format!("{slot:02x}.sock"));
        let options = ServerOptions { map_bars: mapped, ..ServerOptions::default() };
        let server = Server::bind(&socket, model, options).with_context(|| socket.display().to_string())?;
        let running = server.spawn()?;
        Ok(Self { server: running.handle(), engine: None, socket, running: Some(running), slot })
    }

    /// QEMU's arguments for it.
    pub fn arguments(&self) -> Vec<String> {
        self.arguments_with("")
    }

    /// The same with more properties, such as `,"x-no-posted-writes":true`.
    pub fn arguments_with(&self, properties: &str) -> Vec<String> {
        let device = format!(
            "{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"path\":\"{}\",\"type\":\"unix\"}},\"addr\":\"{:x}\"{properties}}}",
            self.socket.display(),
            self.slot
        );
        vec!["-device".into(), device]
    }

    /// Its address in a guest.
    pub fn address(&self) -> String {
        format!("0000:00:{:02x}.0", self.slot)
    }

    /// Stops the server; only when no guest uses it any more.
    ///
    /// # Errors
    /// If it ended for another reason.
    pub fn stop(mut self) -> Result<()> {
        self.server.stop();
        match self.running.take() {
            Some(running) => Ok(running.join()?),
            None => Ok(()),
        }
    }

    /// What server and model counted, for logs.
    pub fn counters(&self) -> String {
        let counters = self.server.counters();
        let some = counters.named().filter(|(_, count)| *count != 0);
        let server = some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
        match &self.engine {
            Some(engine) => format!("{server}; {:?}", engine.counters()),
            None => server,
        }
    }
}
