//! Modules: the kernel's own that Debian leaves off, and ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Folder, Kernel};
use crate::command::{bounded, output, run};

const BUILD_LIMIT: Duration = Duration::from_secs(420);

/// How the kernel's own dw-edma is built outside of its tree.
const STOCK_KBUILD: &str = include_str!("../../kernel-modules/dw-edma.Kbuild");

/// Built modules of one kernel.
#[derive(Clone)]
pub struct Modules {
    dir: PathBuf,
}

impl Modules {
    /// The file of a module.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.ko"))
    }

    /// Bytes of a module's code and data, as it is loaded.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn size(&self, folder: &Folder, name: &str) -> Result<u64> {
        let mut size = folder.debian_program("usr/bin/size", Duration::from_secs(20));
        let text = output("size", size.arg(self.file(name)))?;
        let numbers = text.lines().nth(1).context("size says nothing")?;
        let sum: u64 =
            numbers.split_whitespace().take(3).filter_map(|number| number.parse::<u64>().ok()).sum();
        Ok(sum)
    }
}

impl Folder {
    /// Builds the kernel's own `dw-edma` and `dw-edma-pcie`, unchanged, for the kernel whose source it is.
    ///
    /// # Errors
    /// If they do not build.
    pub fn stock_modules(&self, kernel: &Kernel) -> Result<Modules> {
        let work = format!("build/stock-{}", kernel.version);
        let target = self.debian(&work);
        copy_folder(&self.debian("kernels/drivers/dma/dw-edma"), &target.join("dw-edma"))?;
        for header in ["virt-dma.h", "dmaengine.h"] {
            fs::copy(self.debian("kernels/drivers/dma").join(header), target.join(header))?;
        }
        fs::write(target.join("dw-edma/Kbuild"), STOCK_KBUILD)?;
        self.build(kernel, &format!("{work}/dw-edma"), &["dw-edma", "dw-edma-pcie"])
    }

    /// Builds our client of dmaengine providers.
    ///
    /// # Errors
    /// If it does not build.
    pub fn client_module(&self, kernel: &Kernel) -> Result<Modules> {
        let work = format!("build/client-{}", kernel.version);
        copy_folder(&self.source("adapters/linux/dmaclient"), &self.debian(&work))?;
        self.build(kernel, &work, &["tombolo_dmaclient"])
    }

    /// Builds our driver as a module, from the Rust object that [`Folder::rust_object`] made.
    ///
    /// # Errors
    /// If it does not build.
    pub fn edma_module(&self, kernel: &Kernel) -> Result<Modules> {
        let work = format!("build/edma-{}", kernel.version);
        let target = self.debian(&work);
        let source = self.source("adapters/linux");
        copy_folder(&source.join("shim"), &target.join("shim"))?;
        for file in ["Kbuild", "Makefile", "tombolo_rust.o_shipped"] {
            fs::copy(source.join(file), target.join(file)).with_context(|| file.to_owned())?;
        }
        self.build(kernel, &work, &["tombolo_edma"])
    }

    /// Builds the Rust half of our module, and looks into it.
    ///
    /// # Errors
    /// If it does not build, or has something in it that must not be there.
    pub fn rust_object(&self) -> Result<()> {
        let compiler = self.compiler()?;
        for goal in ["rust", "check"] {
            let mut make = bounded("make", BUILD_LIMIT);
            make.arg("-C").arg(self.source("adapters/linux")).arg(goal).envs(compiler.environment());
            run(&format!("make {goal}"), &mut make, &self.log("modules"))?;
        }
        Ok(())
    }

    fn build(&self, kernel: &Kernel, work: &str, names: &[&str]) -> Result<Modules> {
        let version = &kernel.version;
        // A warning of the compiler, objtool or modpost is a fault.
        let script = format!(
            "make -C /lib/modules/{version}/build M=/{work} W=1 modules 2>&1 | tee /{work}/build.out; \
             for name in {}; do test -e /{work}/$name.ko; strip -g /{work}/$name.ko; done",
            names.join(" ")
        );
        run(work, &mut self.inside(&script, BUILD_LIMIT), &self.log("modules"))?;
        let dir = self.file("modules").join(version);
        fs::create_dir_all(&dir)?;
        for name in names {
            fs::copy(self.debian(work).join(format!("{name}.ko")), dir.join(format!("{name}.ko")))?;
        }
        Ok(Modules { dir })
    }

    /// What the last build of `work` printed that is a warning.
    pub fn build_warnings(&self, work: &str) -> Vec<String> {
        let text = fs::read_to_string(self.debian(work).join("build.out")).unwrap_or_default();
        text.lines().filter(|line| line.to_lowercase().contains("warning")).map(str::to_owned).collect()
    }

    /// Builds programs of this workspace; cargo says what went wrong.
    ///
    /// # Errors
    /// If they do not build.
    pub fn cargo(&self, what: &str, arguments: &[&str]) -> Result<()> {
        run(what, &mut self.cargo_build(arguments), &self.log("cargo"))
    }

    /// Builds a package's example for a target without an operating system; gives the file.
    ///
    /// # Errors
    /// If it does not build, or what builds it is not to be had.
    pub fn bare_example(&self, package: &str, example: &str, target: &str) -> Result<PathBuf> {
        let compiler = self.compiler()?;
        let (options, environment) = compiler.for_bare_target(target);
        let mut command = self.cargo_build(&["--package", package, "--example", example, "--target", target]);
        run(target, command.args(options).envs(environment), &self.log("cargo"))?;
        Ok(self.target()?.join(target).join("release/examples").join(example))
    }

    fn cargo_build(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = bounded(cargo, Duration::from_secs(900));
        command.arg("build").arg("--release").args(arguments).current_dir(self.source(""));
        command
    }

    /// Where cargo puts what it builds.
    ///
    /// # Errors
    /// If cargo does not say.
    pub fn target(&self) -> Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(self.source(""));
        let metadata: serde_json::Value = serde_json::from_str(&output("cargo metadata", &mut command)?)?;
        Ok(metadata["target_directory"].as_str().context("cargo has no target directory")?.into())
    }
}

/// Copies the plain files and folders of `from`, into a folder that has nothing else.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
