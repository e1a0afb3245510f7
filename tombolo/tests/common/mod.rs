//! Running the real binary.
#![allow(dead_code)] // each test binary uses its own part

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The names of the formats.
pub const FORMATS: [&str; 4] = ["legacy", "unroll", "hdma-compat", "hdma-native"];
/// A run that takes longer has hung: the slowest takes a few seconds on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What a run left.
#[derive(Debug)]
pub struct Output {
    /// The exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `tombolo` with these arguments, for a bounded time.
pub fn tombolo(args: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || read(&mut stdout));
    let err = std::thread::spawn(move || read(&mut stderr));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("its state is known") {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("it can be stopped");
            panic!("{args:?} did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().expect("no panic");
    Output { code: status.code(), out: text(out), err: text(err) }
}

fn read(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("it is UTF-8");
    text
}

/// Runs `tombolo dma --json` with these arguments: the exit code and the one object that it prints.
pub fn dma(args: &str) -> (i32, Value) {
    let mut all = vec!["dma", "--json"];
    all.extend(args.split_whitespace());
    let output = tombolo(&all);
    assert!(!output.err.contains("panicked"), "{args}: {}", output.err);
    let object: Value =
        serde_json::from_str(&output.out).unwrap_or_else(|e| panic!("{args}: {e}: {output:?}"));
    assert!(object.is_object(), "{args}: {object}");
    (output.code.unwrap_or_else(|| panic!("{args}: killed")), object)
}

/// A number of the object.
pub fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {object}"))
}

/// The run must have been right.
pub fn assert_right(args: &str) -> Value {
    let (code, object) = dma(args);
    assert_eq!((code, number(&object, "mismatches")), (0, 0), "{args}: {object}");
    assert!(object["error"].is_null(), "{args}: {object}");
    object
}
