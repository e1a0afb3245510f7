//! The Debian folder: debootstrap, packages, kernels and the kernel's source.
//!
//! Each stage leaves a stamp when it is complete; a stage without one is done again from its start.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Folder, Kernel, Kernels};
use crate::command::{bounded, exists, output, run};

const RELEASE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";
/// Changes whenever a stage makes something else.
const RECIPE: u32 = 2;
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(900);

/// Tools in the folder, all of the backports where these have them.
const PACKAGES: &str = "qemu-system-x86 qemu-system-arm busybox-static cpio kmod make gcc-14 libelf-dev bc perl \
    xz-utils linux-headers-amd64 iproute2 ethtool iperf3 linuxptp";

/// Unpacks both kernels and the newer one's source; writes which ones they are.
const KERNELS: &str = r#"
rm -rf /kernels /kernels.new; mkdir /kernels.new; cd /kernels.new
version_in() { apt-cache madison linux-image-amd64 | awk -F'|' -v suite=" $1/main " 'index($3, suite) { gsub(/ /, "", $2); print $2; exit }'; }
package_of() { apt-cache show "linux-image-amd64=$1" | sed -n 's/^Depends:.*linux-image-\([^ ,]*\).*/\1/p' | head -n 1; }
for kind in new:@BACKPORTS@ old:@RELEASE@; do
    version=$(version_in "${kind#*:}")
    [ -n "$version" ] || { echo "${kind#*:} has no linux-image-amd64"; exit 1; }
    name=$(package_of "$version")
    for part in image binary modules; do
        if apt-cache show "linux-$part-$name" >/dev/null 2>&1; then apt-get -q download "linux-$part-$name"; fi
    done
    mkdir "$name"
    for deb in ./*.deb; do dpkg-deb -x "$deb" "$name"; done
    rm -f ./*.deb
    apt-get -y -q --no-install-recommends install "linux-headers-$name"
    echo "$name" > "${kind%%:*}"
done
name=$(cat new); source=linux-source-$(echo "$name" | cut -d. -f1-2)
apt-get -q download "$source"
dpkg-deb -x ./linux-source-*.deb package
tar -xJf package/usr/src/"$source".tar.xz --strip-components=1 "$source"/drivers/dma "$source"/scripts/checkpatch.pl \
    "$source"/scripts/spelling.txt "$source"/scripts/const_structs.checkpatch
rm -rf package ./*.deb
mv /kernels.new /kernels
"#;

/// Makes what is missing.
///
/// # Errors
/// If a program or the mirror is not within reach.
pub fn make(folder: &Folder, mirror: Option<&str>) -> Result<()> {
    let log = folder.log("setup");
    stage(folder, "base", || {
        let mirror = mirror.map_or_else(|| machines_mirror(folder), |mirror| Ok(mirror.to_owned()))?;
        need_debootstrap(folder)?;
        let (fresh, target) = (folder.file("debian.new"), folder.debian(""));
        for old in [&fresh, &target] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
            }
        }
        let mut debootstrap = bounded("debootstrap", DOWNLOAD_LIMIT);
        debootstrap.args(["--variant=minbase", RELEASE]).arg(&fresh).arg(&mirror);
        run("debootstrap", &mut debootstrap, &log)?;
        let sources = format!("deb {mirror} {RELEASE} main\ndeb {mirror} {BACKPORTS} main\n");
        fs::write(fresh.join("etc/apt/sources.list"), sources)?;
        fs::write(fresh.join("etc/apt/apt.conf.d/99machine"), machines_apt_options()?)?;
        if PathBuf::from("/etc/resolv.conf").exists() {
            fs::copy("/etc/resolv.conf", fresh.join("etc/resolv.conf"))?;
        }
        Ok(fs::rename(&fresh, &target)?)
    })?;
    stage(folder, "packages", || {
        let script = format!(
            "apt-get -q update; apt-get -y -q --no-install-recommends -t {BACKPORTS} install {PACKAGES}"
        );
        run("installing packages", &mut folder.inside(&script, DOWNLOAD_LIMIT), &log)
    })?;
    stage(folder, "kernels", || {
        let script = KERNELS.replace("@BACKPORTS@", BACKPORTS).replace("@RELEASE@", RELEASE);
        run("fetching kernels", &mut folder.inside(&script, DOWNLOAD_LIMIT), &log)
    })
}

/// Does a stage unless its stamp is there. A stage that was done makes the later ones' stamps void.
fn stage(folder: &Folder, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    const ORDER: [&str; 3] = ["base", "packages", "kernels"];
    let stamp = |name: &str| folder.file(&format!("stamp-{name}"));
    let current = RECIPE.to_string();
    if fs::read_to_string(stamp(name)).is_ok_and(|text| text == current) {
        return Ok(());
    }
    for later in ORDER.iter().skip_while(|other| **other != name) {
        let _ = fs::remove_file(stamp(later));
    }
    eprintln!("setting up: {name} (once; log: {})", folder.log("setup").display());
    work()?;
    Ok(fs::write(stamp(name), current)?)
}

/// The mirror that the machine itself uses.
fn machines_mirror(folder: &Folder) -> Result<String> {
    let hint = "say --mirror URL";
    if !exists("apt-get") {
        bail!("there is no apt-get whose mirror could be used: {hint}");
    }
    if let Some(site) = debian_site()? {
        return Ok(site);
    }
    // A machine that never fetched package lists does not know whose they are.
    machines_apt(folder, &["-q", "update"])?;
    debian_site()?.with_context(|| format!("apt of this machine has no Debian mirror: {hint}"))
}

fn debian_site() -> Result<Option<String>> {
    let mut apt = Command::new("apt-get");
    let list = output("apt-get indextargets", apt.args(["indextargets", "--format", "$(LABEL)|$(SITE)"]))?;
    Ok(list.lines().find_map(|line| line.strip_prefix("Debian|")).map(str::to_owned))
}

/// The machine's own apt-get.
fn machines_apt(folder: &Folder, arguments: &[&str]) -> Result<()> {
    let mut apt = bounded("apt-get", DOWNLOAD_LIMIT);
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
    run(&format!("apt-get {}", arguments.join(" ")), &mut apt, &folder.log("setup"))
}

/// Proxies and time-outs of the machine's apt.
fn machines_apt_options() -> Result<String> {
    if !exists("apt-config") {
        return Ok(String::new());
    }
    let all = output("apt-config dump", Command::new("apt-config").arg("dump"))?;
    let keep = |line: &&str| line.starts_with("Acquire::") && !line.contains("::Changelogs");
    Ok(all.lines().filter(keep).map(|line| format!("{line}\n")).collect())
}

fn need_debootstrap(folder: &Folder) -> Result<()> {
    if exists("debootstrap") {
        return Ok(());
    }
    if !exists("apt-get") {
        bail!("debootstrap is missing, and without apt it has to be installed by hand");
    }
    machines_apt(folder, &["-q", "update"])?;
    machines_apt(folder, &["-y", "-q", "--no-install-recommends", "install", "debootstrap"])
}

/// The kernels that are there.
///
/// # Errors
/// If the folder is not complete.
pub fn kernels(folder: &Folder) -> Result<Kernels> {
    let kernel = |kind: &str| -> Result<Kernel> {
        let name =
            fs::read_to_string(folder.debian("kernels").join(kind)).context("the set-up is incomplete")?;
        let version = name.trim().to_owned();
        let root = folder.debian("kernels").join(&version);
        let modules = root.join("usr/lib/modules").join(&version);
        // The release's kernel has its image in /boot, the newer one among its modules.
        let places = [modules.join("vmlinuz"), root.join(format!("boot/vmlinuz-{version}"))];
        let image = places.into_iter().find(|path| path.is_file());
        let image = image.with_context(|| format!("there is no image of kernel {version}"))?;
        Ok(Kernel { version, image, modules })
    };
    Ok(Kernels { new: kernel("new")?, old: kernel("old")? })
}
