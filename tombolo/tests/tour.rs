//! `tombolo` without a command.

mod common;

use std::path::PathBuf;

use common::{FORMATS, tombolo};

/// A file that goes away again.
struct File(PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("tombolo-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_goes_there_and_back_in_all_formats() {
    for len in [1, 2, 17, 1000, 100_003] {
        let bytes: Vec<u8> = (0..len).map(|i: u32| (i * 7 % 251) as u8).collect();
        let file = File::new(&format!("file-{len}"), &bytes);
        let output = tombolo(&["--input", file.path()]);
        assert_eq!(output.code, Some(0), "{len}: {output:?}");
        for format in FORMATS {
            let row = output.out.lines().find(|line| line.starts_with(format)).unwrap();
            assert!(row.ends_with(" ok"), "{row}");
        }
        assert!(output.out.starts_with("Moving "), "{}", output.out);
        assert!(output.out.contains("All data was right"), "{}", output.out);
        assert!(output.out.contains("Next, "), "{}", output.out);
        // The first line names the file.
        assert!(output.out.lines().skip(1).all(|line| line.chars().count() <= 80), "{}", output.out);
        assert!(output.err.is_empty(), "no progress bar without a terminal: {}", output.err);
    }
}

#[test]
fn a_file_that_cannot_be_moved_is_refused() {
    let empty = File::new("empty", b"");
    let directory = std::env::temp_dir();
    for (path, reason) in [
        (empty.path(), "is empty"),
        ("/there/is/no/such/file", "cannot read /there/is/no/such/file"),
        (directory.to_str().unwrap(), "cannot read"),
    ] {
        let output = tombolo(&["--input", path]);
        assert_eq!(output.code, Some(2), "{path}: {output:?}");
        assert!(output.err.contains(reason), "{path}: {}", output.err);
        assert!(output.out.is_empty(), "{path}: {}", output.out);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["dma", "--size", "64", "--iterations", "1", "--json"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the result"), "{output:?}");
}

#[cfg(unix)]
#[test]
fn an_endless_file_is_refused_after_the_most_that_is_moved() {
    let output = tombolo(&["--input", "/dev/zero"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.err.contains("is larger than 256 MiB"), "{}", output.err);
}

/// In debug builds the main job is slow and covered by the small files above.
#[cfg(not(debug_assertions))]
#[test]
fn the_main_job_is_right() {
    let output = tombolo(&[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains("All data was right: 80 MiB moved"), "{}", output.out);
}

#[test]
fn the_tours_input_does_not_go_with_a_command() {
    assert_eq!(tombolo(&["--input", "x", "dma"]).code, Some(2));
}
