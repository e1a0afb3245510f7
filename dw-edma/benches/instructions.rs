//! Instructions from prep to completion over plain memory, counted by callgrind, and what of them
//! each segment costs.
//!
//! Needs valgrind and `cargo install gungraun-runner --version 0.20.0 --locked`.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::{Chan, PlainEngine, config, segments, transfer};
use tombolo_hal::dmaengine::{Completion, SgEntry};
use tombolo_hal::lock::SpinLock;

/// Data elements of the list.
const ELEMENTS: usize = 300;

/// What one count needs.
pub struct Prepared {
    engine: PlainEngine<SpinLock>,
    channel: Chan<SpinLock>,
    sg: Vec<SgEntry>,
}

/// The gungraun benchmarks; a module because the macro makes a `main` of its own.
mod counted {
    use super::*;
    use dw_edma::Format;
    use gungraun::{library_benchmark, library_benchmark_group, main};
    use std::hint::black_box;

    /// A channel that has moved something already: the engine knows its list.
    fn prepared(format: Format, count: usize) -> Box<Prepared> {
        let (mut engine, mut channel) = PlainEngine::open(format, SpinLock::new(), ELEMENTS);
        let sg = segments(count);
        transfer(&mut engine, &mut channel, &segments(1), &config());
        Box::new(Prepared { engine, channel, sg })
    }

    #[library_benchmark(setup = prepared)]
    #[bench::unroll_1(Format::Unroll, 1)]
    #[bench::unroll_16(Format::Unroll, 16)]
    #[bench::unroll_256(Format::Unroll, 256)]
    #[bench::hdma_compat_1(Format::HdmaCompat, 1)]
    #[bench::hdma_compat_16(Format::HdmaCompat, 16)]
    #[bench::hdma_compat_256(Format::HdmaCompat, 256)]
    #[bench::hdma_native_1(Format::HdmaNative, 1)]
    #[bench::hdma_native_16(Format::HdmaNative, 16)]
    #[bench::hdma_native_256(Format::HdmaNative, 256)]
    #[bench::legacy_1(Format::Legacy, 1)]
    #[bench::legacy_16(Format::Legacy, 16)]
    #[bench::legacy_256(Format::Legacy, 256)]
    fn whole_transfer(mut p: Box<Prepared>) -> (Completion, Box<Prepared>) {
        let config = black_box(config());
        let completion = transfer(&mut p.engine, &mut p.channel, &p.sg, &config);
        (completion, p)
    }

    // The benches' own part.
    #[library_benchmark(setup = prepared)]
    #[bench::unroll_1(Format::Unroll, 1)]
    fn engine_alone(mut p: Box<Prepared>) -> Box<Prepared> {
        p.engine.move_elements(black_box(1));
        p.engine.clear_status();
        p
    }

    library_benchmark_group!(name = prep_to_completion, benchmarks = [whole_transfer, engine_alone]);
    main!(library_benchmark_groups = prep_to_completion);

    /// Runs the benchmarks, or as their runner's child one of them.
    pub fn run() {
        main();
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "--gungraun-run") || std::env::var_os(HOME).is_some() {
        counted::run();
        return;
    }
    for (tool, install) in [
        ("valgrind", "install it with the system's package manager"),
        ("gungraun-runner", "cargo install gungraun-runner --version 0.20.0 --locked"),
    ] {
        if !starts(tool) {
            println!("nothing is counted: `{tool}` is missing ({install})");
            return;
        }
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gungraun");
    // With a filter some of the numbers would be those of an earlier run.
    let filtered = arguments.iter().any(|a| !a.as_encoded_bytes().starts_with(b"-"));
    let itself = std::env::current_exe().unwrap();
    let status =
        Command::new(itself).args(arguments).env(HOME, &home).env("GUNGRAUN_SAVE_SUMMARY", "json").status();
    if !status.unwrap().success() {
        std::process::exit(1);
    }
    if !filtered {
        print_per_segment(&home);
    }
}

/// Where gungraun keeps its results.
const HOME: &str = "GUNGRAUN_HOME";

/// Whether there is such a program.
fn starts(tool: &str) -> bool {
    let chosen = option_env!("GUNGRAUN_RUNNER").filter(|_| tool == "gungraun-runner").unwrap_or(tool);
    Command::new(chosen).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Numbers of segments that are counted, and their benchmark's suffix.
const COUNTS: [u64; 3] = [1, 16, 256];

/// A table out of gungraun's summaries. The second half is the cost of one more segment, where what
/// a transfer costs in any case no longer shows.
fn print_per_segment(home: &Path) {
    let group = home.join("dw-edma/instructions/counted/prep_to_completion");
    let alone = instructions(&group, "engine_alone.unroll_1");
    println!("\nInstructions from prep to completion, without the {alone} of the engine that is played");
    println!(
        "{:12} {:>8} {:>8} {:>8}   {:>10} {:>10} {:>10}   {:>10}",
        "segments", 1, 16, 256, "per at 1", "per at 16", "per at 256", "each more"
    );
    for format in ["unroll", "hdma_compat", "hdma_native", "legacy"] {
        let all = COUNTS.map(|n| instructions(&group, &format!("whole_transfer.{format}_{n}")) - alone);
        let [a, b, c] = [0, 1, 2].map(|i| all[i] as f64 / COUNTS[i] as f64);
        let more = (all[2] - all[1]) as f64 / (COUNTS[2] - COUNTS[1]) as f64;
        println!(
            "{format:12} {:>8} {:>8} {:>8}   {a:>10.1} {b:>10.1} {c:>10.1}   {more:>10.1}",
            all[0], all[1], all[2]
        );
    }
}

/// What one benchmark counted.
fn instructions(group: &Path, benchmark: &str) -> u64 {
    let path = group.join(benchmark).join("summary.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    let count = &summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
    count.as_u64().unwrap_or_else(|| panic!("no count in {}", path.display()))
}
