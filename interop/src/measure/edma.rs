//! Our eDMA module beside Linux's own: two devices of one model in one guest, the same client on both.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::counts::{self, Piece};
use crate::command::{bounded, run};
use crate::devices::{Model, Served, Vectors, models};
use crate::guest::Spec;
use crate::scenarios::{Context, number, passed, serve, silent};
use crate::setup::Modules;

/// Transfers between two markers.
const TRANSFERS: u64 = 400;
/// Runs of each driver whose median is compared.
const RUNS: usize = 9;
/// What is compared: segments of a transfer.
const SEGMENTS: [u64; 2] = [1, 16];
/// Markers: the driver's number in the high half, what it does in the low one.
const STOCK: u8 = 0x10;
const OURS: u8 = 0x20;
const IDLE: u8 = 0x30;
/// Ours may have at most so much of stock's.
const ACCESSES_AT_MOST: f64 = 0.7;
const INSTRUCTIONS_AT_MOST: f64 = 0.9;
/// And at least so much of its throughput.
const THROUGHPUT_AT_LEAST: f64 = 0.95;

/// Measures, prints JSON, and says whether all was within bounds.
pub fn edma(context: &Context<'_>) -> Result<bool> {
    let mut formats = serde_json::Map::new();
    let mut good = true;
    let ours = context.ours(&context.kernels.new)?;
    for name in ["edda-unroll", "edda-hdma-native"] {
        let model = models().into_iter().find(|model| model.name == name).context("a model")?;
        let (value, within) = format(context, &ours, &model.with(Vectors::MsiX))?;
        formats.insert(name.into(), value);
        good &= within;
    }
    let image = |modules: &Modules, name| modules.size(context.folder, name);
    let stock = context.stock()?;
    let result = json!({
        "transfers": TRANSFERS, "formats": formats,
        "image_bytes": {
            "tombolo_edma": image(&ours, "tombolo_edma")?,
            "dw_edma": image(stock, "dw-edma")?, "dw_edma_pcie": image(stock, "dw-edma-pcie")?,
        },
        "bounds": {
            "accesses_at_most": ACCESSES_AT_MOST, "instructions_at_most": INSTRUCTIONS_AT_MOST,
            "throughput_at_least": THROUGHPUT_AT_LEAST,
        },
        "within_bounds": good,
    });
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(good)
}

fn format(context: &Context<'_>, ours: &Modules, model: &Model) -> Result<(Value, bool)> {
    let counted = count(context, ours, model)?;
    let timed = time(context, ours, model)?;
    let mut value = serde_json::Map::new();
    let mut good = true;
    for segments in SEGMENTS {
        let (stock, ours) = (&counted[&(STOCK, segments)], &counted[&(OURS, segments)]);
        let accesses = ours.accesses() / stock.accesses();
        let instructions = ours.kernel / stock.kernel;
        let throughput = median(&timed[&(STOCK, segments)]) / median(&timed[&(OURS, segments)]);
        good &= accesses <= ACCESSES_AT_MOST
            && instructions <= INSTRUCTIONS_AT_MOST
            && throughput >= THROUGHPUT_AT_LEAST;
        value.insert(
            format!("{segments}_segments"),
            json!({
                "stock": stock.json(), "tombolo": ours.json(),
                "ratios": {
                    "register_accesses": round(accesses), "kernel_instructions": round(instructions),
                    "throughput": round(throughput),
                },
            }),
        );
    }
    Ok((value.into(), good))
}

/// What one transfer costs.
struct Cost {
    /// Instructions of the whole kernel, less what it does while nobody asks.
    kernel: f64,
    /// The least and the most of all runs.
    range: (f64, f64),
    modules: BTreeMap<String, f64>,
    reads: f64,
    writes: f64,
}

impl Cost {
    fn accesses(&self) -> f64 {
        self.reads + self.writes
    }

    fn json(&self) -> Value {
        let modules: serde_json::Map<String, Value> =
            self.modules.iter().map(|(name, count)| (name.clone(), round(*count).into())).collect();
        json!({
            "kernel_instructions": round(self.kernel),
            "kernel_instructions_range": [round(self.range.0), round(self.range.1)], "module_instructions": modules,
            "register_reads": round(self.reads), "register_writes": round(self.writes),
        })
    }
}

type Costs = BTreeMap<(u8, u64), Cost>;

/// One guest under the counting plugin.
fn count(context: &Context<'_>, ours: &Modules, model: &Model) -> Result<Costs> {
    let plugin = plugin(context)?;
    let table = context.folder.file("counts.tsv");
    let devices = serve(context, &[model.clone(), model.clone()], true)?;
    let mut script = setting(&devices);
    for _ in 0..RUNS {
        for (index, segments) in SEGMENTS.into_iter().enumerate() {
            for (driver, device) in [STOCK, OURS].into_iter().zip(&devices) {
                script.push_str(&call(driver, index, segments, device));
            }
        }
    }
    let begin = IDLE;
    script.push_str(&format!(
        "client idle device={} mode=idle duration_ms=400 mark_begin={begin} mark_end={}\n",
        devices[0].address(),
        begin + 1
    ));
    let mut spec = spec(context, ours, &script)?;
    spec.append.push_str(" nokaslr");
    spec.arguments = ["-icount", "shift=0,sleep=off", "-plugin"].map(str::to_owned).into();
    spec.arguments.push(format!("{},out={}", plugin.display(), table.display()));
    let transcript = context.boot(&format!("measure-{}-count", model.name), spec, &devices, silent)?;
    transcript.check()?;
    let pieces = counts::parse(&fs::read_to_string(&table)?)?;
    let idle = counts::between(&pieces, begin, begin + 1)?[0];
    let idle_ns = number(&transcript.one("idle")?, "ns")? as f64;
    let per_ns = idle.kernel() as f64 / idle_ns;
    let ranges = module_ranges(&transcript.results)?;
    let mut costs = Costs::new();
    for (index, segments) in SEGMENTS.into_iter().enumerate() {
        for (driver, device) in [STOCK, OURS].into_iter().zip(&devices) {
            let name = name(driver, segments);
            let results = transcript.json(&name)?;
            let begin = driver + 2 * index as u8;
            let pieces = counts::between(&pieces, begin, begin + 1)?;
            if results.len() != RUNS || pieces.len() != RUNS {
                bail!("{name}: {} results and {} counts in place of {RUNS}", results.len(), pieces.len());
            }
            let registers = range_of(&transcript.results, &device.address())?;
            let mut runs = Vec::new();
            for (result, piece) in results.iter().zip(pieces) {
                passed(&name, result)?;
                let idle = per_ns * number(result, "ns")? as f64;
                runs.push(cost(piece, idle, &ranges, &registers));
            }
            // How long a guest waits is chance, and what it does meanwhile is not all that it does idle.
            runs.sort_by(|one, two| one.kernel.total_cmp(&two.kernel));
            costs.insert(
                (driver, segments),
                Cost { range: (runs[0].kernel, runs[RUNS - 1].kernel), ..runs.swap_remove(RUNS / 2) },
            );
        }
    }
    devices.into_iter().try_for_each(Served::stop)?;
    Ok(costs)
}

fn cost(piece: &Piece, idle: f64, ranges: &BTreeMap<String, Range<u64>>, registers: &Range<u64>) -> Cost {
    let each = |count: u64| count as f64 / TRANSFERS as f64;
    let (reads, writes) = piece.accesses(registers);
    let modules = ranges.iter().map(|(name, range)| (name.clone(), each(piece.within(range))));
    let kernel = (piece.kernel() as f64 - idle) / TRANSFERS as f64;
    Cost {
        kernel,
        range: (kernel, kernel),
        modules: modules.filter(|(_, count)| *count > 0.0).collect(),
        reads: each(reads),
        writes: each(writes),
    }
}

/// One guest as fast as it goes: nanoseconds of a transfer, drivers in turn.
fn time(context: &Context<'_>, ours: &Modules, model: &Model) -> Result<BTreeMap<(u8, u64), Vec<f64>>> {
    let devices = serve(context, &[model.clone(), model.clone()], true)?;
    let mut script = setting(&devices);
    for _ in 0..RUNS {
        for segments in SEGMENTS {
            for (driver, device) in [STOCK, OURS].into_iter().zip(&devices) {
                script.push_str(&call(driver, 0, segments, device));
            }
        }
    }
    let spec = spec(context, ours, &script)?;
    let transcript = context.boot(&format!("measure-{}-time", model.name), spec, &devices, silent)?;
    transcript.check()?;
    let mut times = BTreeMap::new();
    for segments in SEGMENTS {
        for driver in [STOCK, OURS] {
            let results = transcript.json(&name(driver, segments))?;
            if results.len() != RUNS {
                bail!("{} runs in place of {RUNS}", results.len());
            }
            let ns = |result: &Value| -> Result<f64> {
                passed("a timed run", result)?;
                Ok(number(result, "ns")? as f64)
            };
            times.insert((driver, segments), results.iter().map(ns).collect::<Result<_>>()?);
        }
    }
    devices.into_iter().try_for_each(Served::stop)?;
    Ok(times)
}

/// Both drivers, each on its device; and where their code and registers are.
fn setting(devices: &[Served]) -> String {
    let (stock, ours) = (devices[0].address(), devices[1].address());
    format!(
        "echo dw-edma-pcie > /sys/bus/pci/devices/{stock}/driver_override\n\
         echo tombolo_edma > /sys/bus/pci/devices/{ours}/driver_override\n\
         load dw-edma; load dw-edma-pcie; load tombolo_edma\nbind {stock} dw-edma-pcie\nbind {ours} tombolo_edma\n\
         for module in dw_edma dw_edma_pcie tombolo_edma; do\n\
         \x20last=$(grep -F \"[$module]\" /proc/kallsyms | awk 'tolower($2) == \"t\" {{ print $1 }}' | sort | tail -n 1)\n\
         \x20result text \"$module $(cat /sys/module/$module/sections/.text) $last\"; done\n\
         for device in {stock} {ours}; do result \"registers-$device\" \"$(head -n 1 /sys/bus/pci/devices/$device/resource)\"; done\n"
    )
}

fn name(driver: u8, segments: u64) -> String {
    let driver = if driver == STOCK { "stock" } else { "tombolo" };
    format!("{driver}-{segments}")
}

fn call(driver: u8, index: usize, segments: u64, device: &Served) -> String {
    let begin = driver + 2 * index as u8;
    format!(
        "client {} device={} mode=measure segments={segments} transfers={TRANSFERS} max_len=2048 mark_begin={begin} mark_end={}\n",
        name(driver, segments),
        device.address(),
        begin + 1
    )
}

fn spec(context: &Context<'_>, ours: &Modules, script: &str) -> Result<Spec> {
    let stock = context.stock()?;
    let files = context.client(&context.kernels.new, script)?;
    let files = files.module_file(&stock.file("dw-edma"))?.module_file(&stock.file("dw-edma-pcie"))?;
    let files = files.module_file(&ours.file("tombolo_edma"))?;
    let mut spec =
        Spec::linux(&context.kernels.new.image, files.pack(&context.folder.file("initramfs.cpio"))?);
    spec.limit = Duration::from_secs(400);
    Ok(spec)
}

fn plugin(context: &Context<'_>) -> Result<PathBuf> {
    let (source, plugin) =
        (context.folder.source("interop/measure/count.c"), context.folder.file("count.so"));
    let mut cc = bounded("cc", Duration::from_secs(60));
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o"]);
    run("building the plugin", cc.arg(&plugin).arg(source), &context.folder.log("modules"))?;
    Ok(plugin)
}

/// Where each module's code is: from its first address to the end of the page of its last function. A
/// page belongs to one module.
fn module_ranges(results: &[(String, String)]) -> Result<BTreeMap<String, Range<u64>>> {
    let mut ranges = BTreeMap::new();
    for (_, text) in results.iter().filter(|(name, _)| name == "text") {
        let mut words = text.split_whitespace();
        let module = words.next().context("a module")?;
        let (start, last) = (words.next().context("its address")?, words.next().context("its end")?);
        let (start, last) = (address_of(start)?, address_of(last)?);
        if start == 0 || last < start {
            bail!("the guest does not show where modules are: {text}");
        }
        ranges.insert(module.to_owned(), start..(last | 0xfff) + 1);
    }
    if ranges.len() < 3 {
        bail!("not all modules were loaded: {ranges:?}");
    }
    Ok(ranges)
}

fn range_of(results: &[(String, String)], device: &str) -> Result<Range<u64>> {
    let wanted = format!("registers-{device}");
    let (_, text) = results.iter().find(|(name, _)| *name == wanted).context("no registers")?;
    let mut words = text.split_whitespace();
    let (start, end) = (words.next().context("a start")?, words.next().context("an end")?);
    Ok(address_of(start)?..address_of(end)? + 1)
}

fn address_of(text: &str) -> Result<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).with_context(|| text.to_owned())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_code_ends_with_the_page_of_its_last_function() {
        let text = |name: &str, at: &str| ("text".to_owned(), format!("{name} {at}"));
        let mut results = vec![
            text("a", "0xffffffffc0001000 ffffffffc0001ff0"),
            text("b", "0xffffffffc0002000 ffffffffc0002010"),
        ];
        assert!(module_ranges(&results).is_err(), "one is missing");
        results.push(text("c", "0xffffffffc0004000 ffffffffc0005010"));
        let ranges = module_ranges(&results).unwrap();
        assert_eq!(ranges["a"], 0xffff_ffff_c000_1000..0xffff_ffff_c000_2000);
        assert_eq!(ranges["c"], 0xffff_ffff_c000_4000..0xffff_ffff_c000_6000);
        results.push(text("d", "0x0 0"));
        assert!(module_ranges(&results).is_err(), "addresses are hidden");
    }

    #[test]
    fn the_idle_kernel_is_taken_off_and_the_rest_shared_by_transfers() {
        let mut piece = Piece::default();
        piece.instructions.insert(0xffff_ffff_8100_0000, 1_000_000);
        piece.instructions.insert(0xffff_ffff_c000_0000, 40_000);
        let ranges = BTreeMap::from([("driver".to_owned(), 0xffff_ffff_c000_0000..0xffff_ffff_c000_1000)]);
        let cost = cost(&piece, 240_000.0, &ranges, &(0..1));
        assert_eq!(cost.kernel, 800_000.0 / TRANSFERS as f64);
        assert_eq!(cost.modules["driver"], 40_000.0 / TRANSFERS as f64);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
