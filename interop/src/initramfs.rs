//! The files of a guest: busybox, our start script, modules and programs, packed for the kernel.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{bounded, output};
use crate::setup::Folder;

/// What runs first in every guest.
const INIT: &str = include_str!("../guest/init.sh");

/// Folders that every guest has.
const FOLDERS: [&str; 8] = ["bin", "proc", "sys", "dev", "m", "tmp", "lib", "lib64"];

/// A guest's files while they are put together.
pub struct Initramfs<'a> {
    folder: &'a Folder,
    root: PathBuf,
}

impl<'a> Initramfs<'a> {
    /// A guest that runs `script` (a busybox shell's, sourced by `guest/init.sh`) and powers off.
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn new(folder: &'a Folder, root: PathBuf, script: &str) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        for name in FOLDERS {
            fs::create_dir_all(root.join(name))?;
        }
        let busybox = folder.debian("usr/bin/busybox");
        fs::copy(&busybox, root.join("bin/busybox")).with_context(|| busybox.display().to_string())?;
        symlink("busybox", root.join("bin/sh"))?;
        fs::write(root.join("init"), INIT)?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("test.sh"), script)?;
        Ok(Self { folder, root })
    }

    /// Adds a module that we built.
    ///
    /// # Errors
    /// If it is not there.
    pub fn module_file(self, file: &Path) -> Result<Self> {
        let name = file.file_name().context("a module has a name")?;
        fs::copy(file, self.root.join("m").join(name)).with_context(|| file.display().to_string())?;
        Ok(self)
    }

    /// Adds modules of the kernel's package, by name.
    ///
    /// # Errors
    /// If the package has no such module.
    pub fn kernel_modules(self, kernel: &crate::setup::Kernel, names: &[&str]) -> Result<Self> {
        for name in names {
            let file = kernel.module(name)?;
            let plain = self.root.join("m").join(format!("{name}.ko"));
            let unpacked = fs::File::create(&plain)?;
            let status = bounded("xz", Duration::from_secs(60))
                .args(["-dc"])
                .arg(&file)
                .stdout(unpacked)
                .status()
                .context("xz cannot be started")?;
            if !status.success() {
                bail!("{} cannot be unpacked", file.display());
            }
        }
        Ok(self)
    }

    /// Adds a program of this machine together with the libraries that it needs.
    ///
    /// # Errors
    /// If it or one of them is not there.
    pub fn program(self, file: &Path) -> Result<Self> {
        let name = file.file_name().context("a program has a name")?;
        fs::copy(file, self.root.join("bin").join(name)).with_context(|| file.display().to_string())?;
        let list = output("ldd", bounded("ldd", Duration::from_secs(20)).arg(file))?;
        for library in list.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = self.root.join(library.trim_start_matches('/'));
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(library, &target).with_context(|| library.to_owned())?;
        }
        Ok(self)
    }

    /// Adds programs of the Debian folder, named by their paths in it, with their libraries.
    ///
    /// # Errors
    /// If one of them, or a library, is not there.
    pub fn debian_programs(self, paths: &[&str]) -> Result<Self> {
        let libraries = self.root.join("lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries)?;
        for path in paths {
            let file = self.folder.debian(path);
            let name = file.file_name().context("a program has a name")?;
            fs::copy(&file, self.root.join("bin").join(name)).with_context(|| file.display().to_string())?;
            for library in self.folder.debian_libraries(path)? {
                let name = library.file_name().context("a library has a name")?;
                let to =
                    if library.ends_with("ld-linux-x86-64.so.2") { "lib64" } else { "lib/x86_64-linux-gnu" };
                fs::copy(&library, self.root.join(to).join(name))
                    .with_context(|| library.display().to_string())?;
            }
        }
        Ok(self)
    }

    /// Packs everything into `file`.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub fn pack(self, file: &Path) -> Result<PathBuf> {
        let names = output(
            "find",
            bounded("find", Duration::from_secs(60)).current_dir(&self.root).args([".", "-mindepth", "1"]),
        )?;
        let mut cpio = self.folder.debian_program("usr/bin/cpio", Duration::from_secs(120));
        cpio.args(["-o", "-H", "newc", "--quiet"]).current_dir(&self.root);
        let mut child = cpio.stdin(Stdio::piped()).stdout(fs::File::create(file)?).spawn()?;
        std::io::Write::write_all(&mut child.stdin.take().context("cpio reads names")?, names.as_bytes())?;
        if !child.wait()?.success() {
            bail!("cpio failed for {}", file.display());
        }
        fs::remove_dir_all(&self.root)?;
        Ok(file.to_owned())
    }
}
