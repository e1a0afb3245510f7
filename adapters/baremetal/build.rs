//! Tells the linker of bare-metal examples where things go, and lets packages that use the runtime find the
//! script: they say `cargo:rustc-link-arg-bins=-Ttombolo.ld` in a build script of their own.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=link");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let script = match (os.as_str(), architecture.as_str()) {
        ("none", "x86_64" | "aarch64") => format!("link/{architecture}.ld"),
        _ => return,
    };
    println!("cargo:rerun-if-changed={script}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::copy(&script, out.join("tombolo.ld")).expect("the linker script can be copied");
    println!("cargo:rustc-link-search={}", out.display());
    // The image runs where it is linked: nobody relocates it.
    for argument in ["-Ttombolo.ld", "--no-pie", "-zmax-page-size=4096"] {
        println!("cargo:rustc-link-arg-examples={argument}");
    }
}
