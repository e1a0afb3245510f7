//! The compiler for what runs without an operating system: the kernel module's Rust half and the
//! bare-metal images.
//!
//! Both need more than a compiler alone brings, the source of `core` or a prebuilt one. Where rustup has
//! not installed that, Debian's package of the same version serves, so that the package mirror is enough.
//!
//! `.ci/run` does the same for its own builds. It is not shared: `cargo xtask` works without `.ci`, in a
//! root of its own, and `.ci/run` has to build before there is an `xtask`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Folder;
use crate::command::{output, run};

/// Where a sysroot has what is built for each target.
const PARTS: &str = "lib/rustlib";
/// Where it has the source of the standard library.
const LIBRARY: &str = "lib/rustlib/src/rust/library";
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// Fetches and unpacks `rust-src` of version `$VERSION` into `/rust`.
const FETCH: &str = r#"
version=$(apt-cache madison rust-src | awk -F'|' -v want="$VERSION" '{ gsub(/ /, "", $2) } index($2, want) == 1 && substr($2, length(want) + 1) ~ /^[-+.~]/ { print $2; exit }')
[ -n "$version" ] || { echo "Debian has no rust-src $VERSION: run 'rustup component add rust-src'"; exit 1; }
rm -rf /rust /rust.new; mkdir /rust.new; cd /rust.new
apt-get -q download "rust-src=$version"
dpkg-deb -x ./*.deb .
rm -f ./*.deb
mv /rust.new /rust
"#;

/// A compiler with the source of its standard library.
pub struct Compiler {
    /// The one to use instead of the machine's own.
    rustc: Option<PathBuf>,
    sysroot: PathBuf,
}

impl Folder {
    /// The machine's compiler, or one like it that has the source of its standard library.
    ///
    /// # Errors
    /// If there is none, or its source is not to be had.
    pub fn compiler(&self) -> Result<Compiler> {
        let sysroot = PathBuf::from(self.rustc(&["--print", "sysroot"])?);
        if sysroot.join(LIBRARY).join("core/Cargo.toml").is_file() {
            return Ok(Compiler { rustc: None, sysroot });
        }
        let version = self.rustc(&["--version"])?;
        let version = version.split_whitespace().nth(1).context("rustc has no version")?;
        self.complete_sysroot(&sysroot, version)
    }

    fn rustc(&self, arguments: &[&str]) -> Result<String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(arguments).current_dir(self.source(""));
        Ok(output("rustc", &mut command)?.trim().to_owned())
    }

    /// A second sysroot, of links to the first one and to Debian's source: in rustup's own that would be
    /// in the way of its component. Gives it with the compiler that uses it.
    fn complete_sysroot(&self, from: &Path, version: &str) -> Result<Compiler> {
        let library = self.debian(&format!("rust/usr/src/rustc-{version}/library"));
        if !library.is_dir() {
            eprintln!("setting up: Debian's rust-src {version}, since rustup has installed none");
            let script = format!("VERSION={version}; {FETCH}");
            run("fetching rust-src", &mut self.inside(&script, FETCH_LIMIT), &self.log("setup"))?;
        }
        let sysroot = self.file("sysroot");
        if sysroot.exists() {
            fs::remove_dir_all(&sysroot)?;
        }
        let parts = sysroot.join(PARTS);
        fs::create_dir_all(parts.join("src/rust"))?;
        symlink(&library, sysroot.join(LIBRARY))?;
        for part in fs::read_dir(from.join(PARTS))? {
            let part = part?;
            if part.file_name() != "src" {
                symlink(part.path(), parts.join(part.file_name()))?;
            }
        }
        let rustc = sysroot.join("rustc");
        let (real, own) = (from.join("bin/rustc"), sysroot.display());
        fs::write(&rustc, format!("#!/bin/sh\nexec '{}' --sysroot '{own}' \"$@\"\n", real.display()))?;
        fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755))?;
        Ok(Compiler { rustc: Some(rustc), sysroot })
    }
}

impl Compiler {
    /// What cargo must find in its environment to use this compiler.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.rustc.iter().map(|rustc| ("RUSTC", rustc.clone().into_os_string())).collect()
    }

    /// Options and environment for a target without an operating system: none where its `core` is there
    /// ready made, else what builds it.
    pub fn for_bare_target(&self, target: &str) -> (&'static [&'static str], Vec<(&'static str, OsString)>) {
        let mut environment = self.environment();
        if self.sysroot.join(PARTS).join(target).join("lib").is_dir() {
            return (&[], environment);
        }
        environment.push(("RUSTC_BOOTSTRAP", "1".into()));
        (&["-Zbuild-std=core,alloc,compiler_builtins"], environment)
    }
}
