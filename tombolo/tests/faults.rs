//! `tombolo dma --fault`: every one ends in time, with a clear error or a recovery that is reported.

mod common;

use common::{FORMATS, dma, number, tombolo};
use serde_json::Value;

/// All runs with a fault: formats, sides of the link, modes.
fn each(fault: &str, more: &str, mut check: impl FnMut(i32, &Value, &str)) {
    for format in FORMATS {
        for location in ["remote", "local"] {
            for mode in ["ll", "cyclic", "non-ll"] {
                if mode == "non-ll" && format != "hdma-native" {
                    continue;
                }
                let args = format!(
                    "--fault {fault} --format {format} --location {location} --mode {mode} \
                     --size 64K --sg 8 --iterations 4 {more}"
                );
                let (code, object) = dma(&args);
                assert_eq!(object["fault"], fault);
                assert_eq!(object["verified"], true, "a fault implies --verify");
                let right = object["error"].is_null();
                assert_eq!(code, if right { 0 } else { 1 }, "{args}: {object}");
                assert!(
                    right || number(&object, "mismatches") != 0 || number(&object, "failures") != 0,
                    "{object}"
                );
                check(code, &object, &args);
            }
        }
    }
}

fn error(object: &Value) -> &str {
    object["error"].as_str().unwrap_or_default()
}

fn recovery(object: &Value) -> &str {
    object["recovery"].as_str().unwrap_or_default()
}

#[test]
fn lost_interrupts_are_made_up_for_and_reported() {
    for irq in ["--irq msix", "--irq msi"] {
        each("lost-irq", irq, |code, object, args| {
            assert_eq!(code, 0, "{args}: {object}");
            assert_ne!(number(object, "lost_interrupts"), 0, "{args}: {object}");
            assert!(recovery(object).contains("lost"), "{args}: {object}");
        });
    }
}

#[test]
fn spurious_interrupts_do_no_harm() {
    each("spurious-irq", "", |code, object, args| {
        assert_eq!(code, 0, "{args}: {object}");
        assert!(recovery(object).contains("nobody sent"), "{args}: {object}");
        assert!(!recovery(object).starts_with("0 "), "{args}: {object}");
    });
}

#[test]
fn late_writes_do_no_harm() {
    each("delayed-writes", "", |code, object, args| {
        assert_eq!(code, 0, "{args}: {object}");
        assert!(recovery(object).contains("late"), "{args}: {object}");
    });
}

#[test]
fn a_device_that_is_pulled_out_is_named() {
    for irq in ["", "--irq polling"] {
        each("surprise-removal", irq, |code, object, args| {
            assert_eq!(code, 1, "{args}: {object}");
            assert!(error(object).contains("the device is gone"), "{args}: {object}");
        });
    }
}

#[test]
fn requests_that_the_iommu_refuses_are_errors_or_wrong_bytes() {
    each("iommu", "", |code, object, args| {
        assert_eq!(code, 1, "{args}: {object}");
        assert_eq!(number(object, "iommu_faults"), 4, "{args}: {object}");
        assert!(error(object).contains("the IOMMU refused 4 requests"), "{args}: {object}");
    });
}

#[test]
fn aborted_transfers_fail_and_the_others_do_not() {
    each("abort", "", |code, object, args| {
        assert_eq!(code, 1, "{args}: {object}");
        assert_eq!((number(object, "failures"), number(object, "mismatches")), (2, 0), "{args}: {object}");
        assert!(
            error(object).contains("read failed") || error(object).contains("aborted"),
            "{args}: {object}"
        );
        assert!(recovery(object).contains("went on"), "{args}: {object}");
    });
}

#[test]
fn garbage_is_noticed() {
    each("garbage", "", |code, object, args| {
        assert_eq!(code, 1, "{args}: {object}");
        assert_ne!(number(object, "mismatches") + number(object, "violations"), 0, "{args}: {object}");
    });
}

#[test]
fn a_channel_that_obeys_no_stop_is_given_up_and_the_function_reset() {
    each("hang", "--timeout 20", |code, object, args| {
        assert_eq!(code, 1, "{args}: {object}");
        assert!(error(object).contains("silent for 20 ms"), "{args}: {object}");
        assert!(error(object).contains("the function was reset"), "{args}: {object}");
        assert!(!error(object).contains("left mapped"), "{args}: {object}");
    });
}

#[test]
fn all_faults_are_explained_in_the_help() {
    let help = tombolo(&["dma", "--help"]);
    assert_eq!(help.code, Some(0));
    for output in [&help, &tombolo(&["dma", "-h"])] {
        assert!(output.out.lines().all(|line| line.chars().count() <= 80), "{}", output.out);
    }
    for fault in [
        "lost-irq",
        "spurious-irq",
        "surprise-removal",
        "iommu",
        "abort",
        "garbage",
        "delayed-writes",
        "hang",
    ] {
        let line = help.out.lines().find(|line| line.trim_start().starts_with(&format!("- {fault}:")));
        assert!(line.is_some_and(|line| line.len() > fault.len() + 20), "{fault}: {}", help.out);
    }
}
