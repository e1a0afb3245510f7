//! The typed accessors cost nothing: release code, instruction by instruction, beside code written
//! by hand with the same barriers.
//!
//! Barriers that are no instruction on this architecture (`dma_wmb`, the orderings of an MMIO access)
//! still keep the compiler from moving memory accesses across; they show in the listing as `barrier`
//! and are compared too.
#![cfg(all(target_arch = "x86_64", not(miri), not(loom)))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

type Functions = BTreeMap<String, Vec<String>>;

/// Runs to its end, or the test fails with what it said.
fn run(command: &mut Command) {
    // What instruments the tests must not instrument what they look at.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Builds hal as a release build does, in a directory of its own so that the cargo that runs this
/// test is not waited for.
fn build_hal() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("assembly");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--lib", "--no-default-features", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target));
    target.join("release")
}

fn compile(name: &str, release: &Path) -> Functions {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/codegen").join(name).with_extension("rs");
    let out = release.join(name).with_extension("s");
    run(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition=2024", "--crate-type=lib", "--emit=asm", "-Copt-level=3", "-Ccodegen-units=1"])
        .arg("--extern")
        .arg(format!("tombolo_hal={}", release.join("libtombolo_hal.rlib").display()))
        .arg("-L")
        .arg(format!("dependency={}", release.join("deps").display()))
        .arg("-o")
        .args([&out, &source]));
    functions(&std::fs::read_to_string(out).unwrap())
}

/// The instructions of each global function of an assembly listing. The linker's names for one and
/// the same code (`.set a, b`) share it.
fn functions(listing: &str) -> Functions {
    let mut all = Functions::new();
    let mut current: Option<(String, Vec<String>)> = None;
    let mut aliases = Vec::new();
    for line in listing.lines().map(str::trim) {
        if let Some((name, target)) = line.strip_prefix(".set").and_then(|l| l.split_once(',')) {
            aliases.push((name.trim().to_owned(), target.trim().to_owned()));
        } else if line.starts_with(".Lfunc_end") {
            all.extend(current.take());
        } else if let Some((_, body)) = &mut current {
            body.extend(instruction(line));
        } else if let Some(name) = line.strip_suffix(':').filter(|n| !n.starts_with('.')) {
            current = Some((name.to_owned(), Vec::new()));
        }
    }
    for (name, target) in aliases {
        if let Some(body) = all.get(&target).cloned() {
            all.insert(name, body);
        }
    }
    all.values_mut().for_each(|body| number_labels(body));
    all
}

/// One line of a function without what is no instruction: directives, comments, padding.
fn instruction(line: &str) -> Option<String> {
    if line == "#APP" {
        return Some("barrier".to_owned());
    }
    let line = line.split('#').next().unwrap_or_default().trim();
    let label = line.ends_with(':');
    if line.is_empty() || (line.starts_with('.') && !label) {
        return None;
    }
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Labels are numbered over the whole file; number them by their first use in the function.
fn number_labels(body: &mut [String]) {
    let mut seen: Vec<String> = Vec::new();
    for line in body.iter_mut() {
        let Some(start) = line.find(".L") else { continue };
        let label: String =
            line[start..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '_')).collect();
        let number = seen.iter().position(|s| *s == label).unwrap_or_else(|| {
            seen.push(label.clone());
            seen.len() - 1
        });
        *line = line.replacen(&label, &format!("L{number}"), 1);
    }
}

fn listings() -> &'static (Functions, Functions) {
    static LISTINGS: OnceLock<(Functions, Functions)> = OnceLock::new();
    LISTINGS.get_or_init(|| {
        let release = build_hal();
        (compile("driver", &release), compile("hand", &release))
    })
}

/// How many instructions of `body` decide something.
fn decisions(body: &[String]) -> usize {
    let decides = |mnemonic: &str| {
        (mnemonic.starts_with('j') && mnemonic != "jmp")
            || mnemonic.starts_with("cmov")
            || mnemonic.starts_with("set")
            || mnemonic == "call"
    };
    body.iter().filter_map(|l| l.split(' ').next()).filter(|m| decides(m)).count()
}

fn driver(name: &str) -> &'static [String] {
    listings().0.get(name).unwrap_or_else(|| panic!("no function {name}"))
}

#[test]
fn accessors_compile_to_what_one_writes_by_hand() {
    let (driver, hand) = listings();
    assert_eq!(hand.len(), 13, "{:?}", hand.keys());
    for (name, by_hand) in hand {
        let body = driver.get(name).unwrap_or_else(|| panic!("driver.rs has no {name}"));
        assert!(by_hand.len() > 1, "{name} is empty");
        assert!(body == by_hand, "{name}: driver\n{}\nby hand\n{}", body.join("\n"), by_hand.join("\n"));
    }
}

#[test]
fn only_the_ordered_forms_have_barriers() {
    let barriers = |name| driver(name).iter().filter(|l| *l == "barrier").count();
    assert_eq!((barriers("modify"), barriers("read_one_field"), barriers("write")), (2, 1, 1));
    assert_eq!((barriers("modify_relaxed"), barriers("read_relaxed"), barriers("write_relaxed")), (0, 0, 0));
}

#[test]
fn an_access_through_a_layout_checks_nothing() {
    for name in ["modify", "modify_relaxed", "modify_at_an_offset", "read_one_field", "write", "clear_w1c"] {
        assert_eq!(decisions(driver(name)), 0, "{name}: {}", driver(name).join("\n"));
    }
    assert_eq!(decisions(driver("known_window")), 0);
    assert_eq!(decisions(driver("row")), 1, "{}", driver("row").join("\n"));
}

#[test]
fn a_bank_is_checked_once_however_often_it_is_used() {
    let (one, five) = (decisions(driver("bank_one_access")), decisions(driver("bank_five_accesses")));
    // The product, the sum, the alignment, both ends.
    assert!((1..=6).contains(&one), "{}", driver("bank_one_access").join("\n"));
    assert_eq!(five, one, "{}", driver("bank_five_accesses").join("\n"));
}

/// What the other tests do not find is found where it is.
#[test]
fn the_listing_shows_the_checks_that_are_documented() {
    // Inside the window (two), aligned, inside the mapping (two); each pair of results may be joined
    // before the one jump for both.
    let untyped = driver("untyped_word");
    assert!((3..=7).contains(&decisions(untyped)), "{}", untyped.join("\n"));
    assert_ne!(untyped, driver("read_relaxed"));
}

#[test]
fn listings_are_read_as_written() {
    let listing = "f:\n\t.cfi_startproc\n\tcmpq\t$6, %rsi\n\tjae\t.LBB3_2\n\t#APP\n\t#NO_APP\n\
                   \tmovl\t(%rdi), %eax\t# comment\n.LBB3_2:\n\tretq\n.Lfunc_end3:\n\t.set\tg, f\n";
    let all = functions(listing);
    assert_eq!(
        all["f"],
        ["cmpq $6, %rsi", "jae L0", "barrier", "movl (%rdi), %eax", "L0:", "retq"].map(String::from)
    );
    assert_eq!(all["g"], all["f"]);
    assert_eq!(decisions(&all["f"]), 1);
}
