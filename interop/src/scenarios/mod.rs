//! What is tried. Each scenario has its guests to itself and ends what it started.

mod baremetal;
mod bridge;
mod faults;
mod module;
mod nic;
mod stock;
mod vfio;

pub use stock::serve;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::devices::Served;
use crate::guest::{Guest, Spec, Transcript};
use crate::initramfs::Initramfs;
use crate::setup::{Folder, Kernel, Kernels, Modules};

/// One scenario.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Runs it; facts are for the report.
    pub run: fn(&Context<'_>, &mut Vec<String>) -> Result<()>,
}

/// All scenarios, in their order.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "stock",
        what: "Linux's own dw-edma on our model, all register maps; the judge of the model",
        run: stock::run,
    },
    Scenario {
        name: "stock-faults",
        what: "the same while the model misbehaves: Linux's behaviour is recorded",
        run: faults::run,
    },
    Scenario {
        name: "vfio",
        what: "our driver in a guest's userspace, behind intel-iommu and virtio-iommu",
        run: vfio::run,
    },
    Scenario {
        name: "baremetal",
        what: "our driver without an operating system, on q35 and on virt",
        run: baremetal::run,
    },
    Scenario {
        name: "module",
        what: "our driver as a kernel module, on both kernels: load, faults, unbind, removal",
        run: module::run,
    },
    Scenario {
        name: "nic-stock",
        what: "Linux's own lan743x on our model: ping, TCP, jumbo frames, ethtool",
        run: nic::run,
    },
    Scenario {
        name: "two-guests",
        what: "two guests on one process with shared memory and doorbells across",
        run: bridge::run,
    },
];

/// What scenarios share. Modules and programs are built when the first one needs them.
pub struct Context<'a> {
    /// What comes from outside.
    pub folder: &'a Folder,
    /// The kernels.
    pub kernels: Kernels,
    /// Whether to take long.
    pub full: bool,
    sockets: Sockets,
    stock: OnceCell<Modules>,
    rust: OnceCell<()>,
    built: RefCell<BTreeMap<String, Modules>>,
}

/// A folder with a short name: a socket's path has at most 107 bytes.
struct Sockets(PathBuf);

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl<'a> Context<'a> {
    /// Nothing is built yet.
    ///
    /// # Errors
    /// If there is no room for sockets.
    pub fn new(folder: &'a Folder, kernels: Kernels, full: bool) -> Result<Self> {
        let sockets = std::env::temp_dir().join(format!("tombolo-interop.{}", std::process::id()));
        std::fs::create_dir_all(&sockets).with_context(|| sockets.display().to_string())?;
        let (stock, rust, built) = (OnceCell::new(), OnceCell::new(), RefCell::default());
        Ok(Self { folder, kernels, full, sockets: Sockets(sockets), stock, rust, built })
    }

    /// The folder for sockets.
    pub fn sockets(&self) -> &Path {
        &self.sockets.0
    }

    /// One number in the short form, another in the long one.
    pub fn pick<T>(&self, short: T, long: T) -> T {
        if self.full { long } else { short }
    }

    /// The kernel's own modules, for the newer kernel.
    ///
    /// # Errors
    /// If they do not build.
    pub fn stock(&self) -> Result<&Modules> {
        if let Some(modules) = self.stock.get() {
            return Ok(modules);
        }
        let modules = self.folder.stock_modules(&self.kernels.new)?;
        Ok(self.stock.get_or_init(|| modules))
    }

    /// Our module and the client, for a kernel.
    ///
    /// # Errors
    /// If they do not build, or with a warning.
    pub fn ours(&self, kernel: &Kernel) -> Result<Modules> {
        if self.rust.get().is_none() {
            self.folder.rust_object()?;
            let _ = self.rust.set(());
        }
        self.build("edma", kernel, Folder::edma_module)
    }

    /// Builds modules of ours, once, and takes a warning as a fault.
    fn build(
        &self,
        name: &str,
        kernel: &Kernel,
        build: fn(&Folder, &Kernel) -> Result<Modules>,
    ) -> Result<Modules> {
        let work = format!("build/{name}-{}", kernel.version);
        if let Some(modules) = self.built.borrow().get(&work) {
            return Ok(modules.clone());
        }
        let modules = build(self.folder, kernel)?;
        let warnings = self.folder.build_warnings(&work);
        if !warnings.is_empty() {
            bail!("{name} builds with warnings for {}:\n{}", kernel.version, warnings.join("\n"));
        }
        self.built.borrow_mut().insert(work, modules.clone());
        Ok(modules)
    }

    /// A guest's files with our client and a test script.
    ///
    /// # Errors
    /// If the client does not build.
    pub fn client(&self, kernel: &Kernel, script: &str) -> Result<Initramfs<'a>> {
        let modules = self.build("client", kernel, Folder::client_module)?;
        self.files(script)?.module_file(&modules.file("tombolo_dmaclient"))
    }

    /// A guest's files with a test script.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn files(&self, script: &str) -> Result<Initramfs<'a>> {
        Initramfs::new(self.folder, self.folder.file("initramfs"), script)
    }

    /// Runs a Linux guest with these devices to its end.
    ///
    /// # Errors
    /// If it dies or runs out of time. What the guest itself found is in the transcript.
    pub fn boot(
        &self,
        name: &str,
        mut spec: Spec,
        devices: &[Served],
        asked: impl FnMut(&str) -> Result<String>,
    ) -> Result<Transcript> {
        spec.arguments.extend(devices.iter().flat_map(Served::arguments));
        let log = self.fresh_log(name)?;
        let guest = Guest::start(self.folder, &spec, &log)?;
        let transcript = guest.talk(asked).with_context(|| format!("guest {name}"));
        use std::io::Write;
        let mut file = crate::command::append(&log)?;
        for device in devices {
            writeln!(file, "server of {}: {}", device.address(), device.counters())?;
        }
        transcript
    }

    /// An empty log of this name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn fresh_log(&self, name: &str) -> Result<PathBuf> {
        let log = self.folder.log(name);
        std::fs::write(&log, "").with_context(|| log.display().to_string())?;
        Ok(log)
    }
}

/// Nothing is asked for.
pub fn silent(what: &str) -> Result<String> {
    bail!("the guest asked for something unknown: {what}")
}

/// A number of a JSON object.
///
/// # Errors
/// If there is none of this name.
pub fn number(object: &Value, name: &str) -> Result<u64> {
    object[name].as_u64().with_context(|| format!("no number {name} in {object}"))
}

/// Demands a JSON object that says that it passed.
///
/// # Errors
/// If it does not.
pub fn passed(what: &str, object: &Value) -> Result<()> {
    if object["passed"] == true { Ok(()) } else { bail!("{what}: {object}") }
}
