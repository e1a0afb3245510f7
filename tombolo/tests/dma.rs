//! `tombolo dma`: all formats and modes, limits, determinism.

mod common;

use common::{FORMATS, assert_right, dma, number, tombolo};

/// Bytes of one transfer: the whole of it in release builds.
const SIZE: u64 = if cfg!(debug_assertions) { 64 << 10 } else { 8 << 20 };

#[test]
fn every_format_moves_and_verifies_scattered_data_on_four_channels_of_each_kind() {
    for format in FORMATS {
        let args = format!("--format {format} --channels 4 --size {SIZE} --sg 64 --iterations 8 --verify");
        let object = assert_right(&args);
        assert_eq!(object["format"], *format);
        assert_eq!(object["mode"], "ll");
        assert_eq!(number(&object, "channels"), 4);
        assert_eq!(number(&object, "transfers"), 4 * 2 * 8);
        assert_eq!(number(&object, "bytes"), 4 * 2 * 8 * SIZE);
        assert_eq!(number(&object, "elements"), 4 * 2 * 8 * 64);
        assert_eq!(object["irq_mode"], "msi-x");
        for some in ["interrupts", "mmio_reads", "mmio_writes", "virtual_ns", "doorbells"] {
            assert_ne!(number(&object, some), 0, "{format}: {some}");
        }
        assert_eq!(number(&object, "iommu_faults"), 0);
    }
}

#[test]
fn every_format_does_cyclic_transfers() {
    for format in FORMATS {
        let args = format!(
            "--format {format} --mode cyclic --channels 4 --size {SIZE} --sg 64 --iterations 8 --verify"
        );
        let object = assert_right(&args);
        assert_eq!(number(&object, "periods"), 4 * 2 * 8 * 64);
        assert_eq!(number(&object, "bytes"), 4 * 2 * 8 * SIZE);
    }
}

#[test]
fn native_engines_work_without_a_list() {
    let args = format!(
        "--format hdma-native --mode non-ll --channels 4 --size {SIZE} --sg 64 --iterations 8 --verify"
    );
    let object = assert_right(&args);
    assert_eq!(number(&object, "bytes"), 4 * 2 * 8 * SIZE);
    assert_eq!(number(&object, "list_writes"), 0);
}

#[test]
fn every_kind_of_interrupt_on_both_sides_of_the_link() {
    for format in FORMATS {
        for (location, irq, name) in [
            ("remote", "msix", "msi-x"),
            ("remote", "msi", "msi"),
            ("remote", "polling", "polling"),
            ("local", "msix", "msi-x"),
            ("local", "msi", "msi"),
            ("local", "intx", "intx"),
            ("local", "polling", "polling"),
        ] {
            for mode in ["ll", "cyclic"] {
                let args = format!(
                    "--format {format} --location {location} --irq {irq} --mode {mode} \
                     --channels 3 --size 24000 --sg 8 --iterations 3 --verify"
                );
                let object = assert_right(&args);
                assert_eq!(object["irq_mode"], name, "{args}");
                assert_eq!(object["location"], location);
                assert_eq!(number(&object, "interrupts") == 0, irq == "polling", "{args}: {object}");
            }
        }
    }
}

#[test]
fn the_smallest_and_the_widest_runs() {
    for args in [
        "--channels 1 --size 1 --sg 1 --iterations 1",
        "--channels 1 --size 256 --sg 256 --iterations 2 --list-elements 2",
        "--channels 8 --size 5K --sg 7 --iterations 9 --format legacy",
        "--channels 64 --size 3000 --sg 5 --iterations 3 --format hdma-native",
        "--channels 64 --size 3000 --sg 5 --iterations 3 --format hdma-native --irq msi",
        "--mode cyclic --channels 1 --size 1 --sg 1 --iterations 3",
        "--mode cyclic --channels 2 --size 300 --sg 3 --iterations 7 --list-elements 2",
        "--mode cyclic --channels 1 --size 2560 --sg 256 --iterations 2 --list-elements 16",
        "--mode non-ll --format hdma-native --channels 1 --size 7 --sg 7 --iterations 2 --irq polling",
    ] {
        assert_right(&format!("{args} --verify"));
    }
}

#[test]
fn the_same_arguments_give_the_same_result_and_another_seed_another_one() {
    for more in ["", "--mode cyclic", "--fault lost-irq", "--fault garbage", "--fault delayed-writes"] {
        let run = |seed: u32| {
            let args = format!("--size 40000 --sg 8 --iterations 5 --verify --seed {seed} {more}");
            let mut all = vec!["dma", "--json"];
            all.extend(args.split_whitespace());
            tombolo(&all).out
        };
        assert_eq!(run(5), run(5), "{more}");
        assert_ne!(run(5), run(6), "{more}");
    }
}

#[test]
fn without_verify_it_says_that_nothing_was_compared() {
    let output = tombolo(&["dma", "--size", "64K"]);
    assert_eq!(output.code, Some(0));
    assert!(output.out.contains("not compared"), "{}", output.out);
    let output = tombolo(&["dma", "--size", "64K", "--verify"]);
    assert!(output.out.contains("ok: every byte was compared"), "{}", output.out);
    assert!(output.err.is_empty(), "nothing on standard error without a terminal: {}", output.err);
}

#[test]
fn what_cannot_be_is_refused_with_exit_code_2_and_a_reason() {
    for (args, reason) in [
        ("--mode non-ll --format legacy", "hdma-native"),
        ("--mode non-ll --format unroll", "hdma-native"),
        ("--mode non-ll --format hdma-compat", "hdma-native"),
        ("--channels 0", "1 to 8"),
        ("--channels 9 --format unroll", "1 to 8"),
        ("--channels 65 --format hdma-native", "1 to 64"),
        ("--size 0", "too small"),
        ("--size 7 --sg 8", "too small"),
        ("--size 3G", "memory"),
        ("--size 18446744073709551615", "memory"),
        ("--size 1000 --mode cyclic --sg 3", "equal periods"),
        ("--sg 0", "1 to 256"),
        ("--sg 257", "1 to 256"),
        ("--iterations 0", "nothing"),
        ("--timeout 0", "--timeout"),
        ("--list-elements 1", "2 to 4096"),
        ("--irq intx", "--location local"),
        ("--fault lost-irq --irq polling", "msix"),
        ("--fault lost-irq --irq intx --location local", "msix"),
        ("--fault spurious-irq --irq polling", "interrupts"),
        ("--format nonsense", "nonsense"),
        ("--fault nonsense", "lost-irq"),
        ("--size 8X", "unit"),
        ("--nonsense", "--nonsense"),
    ] {
        let mut all = vec!["dma", "--json"];
        all.extend(args.split_whitespace());
        let output = tombolo(&all);
        assert_eq!(output.code, Some(2), "{args}: {output:?}");
        assert!(output.err.contains(reason), "{args}: {}", output.err);
        assert!(output.out.is_empty(), "{args}: {}", output.out);
    }
}

#[test]
fn a_timeout_that_is_too_short_is_an_error_and_no_hang() {
    // 4 MiB need half a millisecond at least; silence is measured from the start.
    let (code, object) = dma("--channels 1 --size 16M --iterations 2 --timeout 1 --verify");
    assert_eq!(code, 1, "{object}");
    assert!(object["error"].as_str().is_some_and(|error| error.contains("silent for 1 ms")), "{object}");
}
