//! What scenarios need from outside, made once and kept: a Debian folder with kernels, headers, QEMU and
//! tools, and the modules, which are built anew each time from the tree.

mod debian;
mod modules;
mod rust;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::command::{bounded, exists};

pub use modules::Modules;

/// Where everything from outside is kept, outside of the tree.
pub struct Folder {
    dir: PathBuf,
    tree: PathBuf,
    /// Held for as long as this runs: two runs would build into each other's folders.
    _lock: File,
}

/// A kernel of the Debian folder.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its full version.
    pub version: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    modules: PathBuf,
}

/// Both kernels.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// The one of the backports, 7.x.
    pub new: Kernel,
    /// The release's own, 6.12.
    pub old: Kernel,
}

impl Folder {
    /// Opens the folder, which need not exist yet.
    ///
    /// # Errors
    /// If this is not a machine on which it can be made, or another run is using it.
    pub fn open(dir: Option<PathBuf>) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("interop must run as root: it makes a Debian folder and changes into it");
        }
        for program in ["setpriv", "timeout", "unshare", "chroot", "xz", "ldd", "find", "make", "cc"] {
            if !exists(program) {
                bail!(
                    "{program} is missing: install util-linux, coreutils, xz-utils, libc-bin, findutils, make and gcc"
                );
            }
        }
        let dir = dir.map_or_else(default_dir, Ok)?;
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let dir = dir.canonicalize()?;
        let lock = File::create(dir.join("lock"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| anyhow!("another run uses {}", dir.display()))?;
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("this crate has a parent")?;
        std::fs::create_dir_all(dir.join("logs"))?;
        Ok(Self { dir, tree: tree.to_owned(), _lock: lock })
    }

    /// Makes what is missing of the Debian folder.
    ///
    /// # Errors
    /// If the mirror, or a program, is not within reach.
    pub fn make(&self, mirror: Option<&str>) -> Result<Kernels> {
        debian::make(self, mirror)?;
        debian::kernels(self)
    }

    /// A file of this project.
    pub fn source(&self, path: &str) -> PathBuf {
        self.tree.join(path)
    }

    /// A file of the Debian folder.
    pub fn debian(&self, path: &str) -> PathBuf {
        self.dir.join("debian").join(path)
    }

    /// A file beside it.
    pub fn file(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// The log of this name.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    /// A program of the Debian folder that runs outside of it, so that files and sockets are ours.
    pub fn debian_program(&self, path: &str, limit: Duration) -> Command {
        let mut command = bounded(self.debian("lib64/ld-linux-x86-64.so.2"), limit);
        let libraries = self.debian("usr/lib/x86_64-linux-gnu").display().to_string();
        command.arg("--library-path").arg(format!("{libraries}:{libraries}/pulseaudio"));
        command.arg(self.debian(path));
        command
    }

    /// The libraries that a program of the Debian folder needs, its loader among them.
    ///
    /// # Errors
    /// If the program is not there, or one of them.
    pub fn debian_libraries(&self, path: &str) -> Result<Vec<PathBuf>> {
        let loader = self.debian("lib64/ld-linux-x86-64.so.2");
        let mut list = bounded(&loader, Duration::from_secs(20));
        list.arg("--library-path").arg(self.debian("usr/lib/x86_64-linux-gnu")).arg("--list");
        let text = crate::command::output(path, list.arg(self.debian(path)))?;
        // As ldd prints it: NAME => FILE (ADDRESS).
        let files = text.lines().filter_map(|line| line.split("=> ").nth(1)?.split(" (").next());
        // Threads that are cancelled load it themselves.
        let threads = self.debian("usr/lib/x86_64-linux-gnu/libgcc_s.so.1");
        Ok(files.map(PathBuf::from).chain([loader.clone(), threads]).collect())
    }

    /// A shell script that runs inside of the Debian folder. What is mounted for it goes with it.
    pub fn inside(&self, script: &str, limit: Duration) -> Command {
        const ENTER: &str = "mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && exec chroot \"$1\" \
            /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \
            DEBIAN_FRONTEND=noninteractive /bin/sh -euc \"$2\"";
        let mut command = bounded("unshare", limit);
        command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "inside"]);
        command.arg(self.debian("")).arg(script);
        command
    }
}

impl Kernel {
    /// A module of the kernel's own package, packed.
    ///
    /// # Errors
    /// If it has none of this name.
    pub fn module(&self, name: &str) -> Result<PathBuf> {
        let wanted = format!("{name}.ko.xz");
        let mut folders = vec![self.modules.join("kernel")];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name() == *wanted {
                    return Ok(entry.path());
                }
            }
        }
        bail!("kernel {} has no module {name}", self.version)
    }
}

fn default_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("TOMBOLO_INTEROP_DIR") {
        return Ok(dir.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("HOME is not set: say --dir DIR")?.join("tombolo-interop"))
}
