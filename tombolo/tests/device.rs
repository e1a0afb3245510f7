//! Devices that are not simulated, as far as a machine without any can tell.
#![cfg(target_os = "linux")]

mod common;

use common::tombolo;
use serde_json::Value;

/// An address at which no machine has a function.
const NOWHERE: &str = "ffff:ff:1f.7";

#[test]
fn what_is_no_device_is_wrong_usage() {
    for device in ["vfio", "vfio:", "vfio:01:00", "vfio:0000:01:20.0", "simulated", "usb:1"] {
        let run = tombolo(&["dma", "--device", device]);
        assert_eq!(run.code, Some(2), "{device}: {}", run.err);
        assert!(run.err.contains("0000:01:00.0"), "{device}: an example is shown: {}", run.err);
    }
}

#[test]
fn a_device_that_is_not_there_is_a_failure_that_json_tells_too() {
    let device = format!("vfio:{NOWHERE}");
    let run = tombolo(&["dma", "--device", &device, "--json"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(object["device"], Value::from(device));
    assert!(object["error"].as_str().unwrap().contains("no PCI function ffff:ff:1f.7"), "{object}");
}

#[test]
fn binding_what_is_not_there_is_a_failure() {
    for command in ["bind", "unbind"] {
        let run = tombolo(&[command, NOWHERE]);
        assert_eq!(run.code, Some(1), "{command}");
        assert!(run.err.contains("`tombolo list` shows"), "{command}: {}", run.err);
        assert_eq!(tombolo(&[command, "01:00"]).code, Some(2));
    }
}

#[test]
fn the_list_is_an_array_of_functions_with_driver_and_group() {
    let run = tombolo(&["list", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let Value::Array(functions) = serde_json::from_str(&run.out).unwrap() else { panic!("{}", run.out) };
    for function in functions {
        for key in ["address", "vendor", "device", "class"] {
            assert!(function[key].is_string(), "{key}: {function}");
        }
        assert!(function.get("driver").is_some() && function.get("iommu_group").is_some(), "{function}");
    }
    assert!(tombolo(&["list"]).out.starts_with("ADDRESS"));
}

#[test]
fn a_simulated_device_says_itself_where_its_memory_is() {
    let run = tombolo(&["dma", "--device-memory", "0x1000"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert_eq!(tombolo(&["dma", "--device-memory", "here"]).code, Some(2));
}
